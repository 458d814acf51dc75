"""Batching: a module of one example becomes a module of many.

Every opcode has a rule in one of the files ``rules_*.py``, is rewritten by a pass ahead of them (`AHEAD`), never sees a
batch (`UNBATCHED`), or is refused with a reason (`REFUSED`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hlotool.analysis.decisions import DecisionLog
from hlotool.evaluate.xla_annotations import is_annotation, is_sink
from hlotool.ir import Computation, InputError, Module, Shape, tuple_shape
from hlotool.ir.builder import Builder
from hlotool.ir.depth import room
from hlotool.ir.opcodes import UNKNOWN
from hlotool.passes.batching import (
    rules_calls,
    rules_collectives,
    rules_contraction,
    rules_control,
    rules_elementwise,
    rules_movement,
    rules_reduction,
)
from hlotool.passes.batching.batcher import Batcher, Rule, Work, drop_unread, refusal
from hlotool.passes.batching.flow import Flow
from hlotool.passes.batching.values import Leaf, Value, batched_shape
from hlotool.passes.collectives.async_to_sync import AsyncToSync
from hlotool.passes.expand.custom_call_expander import CustomCallExpander
from hlotool.passes.expand.scan_expander import ScanExpander
from hlotool.passes.framework.steps import Pass

__all__ = ["AHEAD", "REFUSED", "RULES", "UNBATCHED", "batch_module", "batched_results"]

RULES: Mapping[str, Rule] = {
    **rules_elementwise.RULES,
    **rules_movement.RULES,
    **rules_contraction.RULES,
    **rules_reduction.RULES,
    **rules_control.RULES,
    **rules_collectives.RULES,
    **rules_calls.RULES,
}

_TRANSFER = "each example would have a transfer of its own"
_SIZES = "sizes that are known when it runs cannot differ from example to example"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("infeed", "outfeed", "send", "send-done", "recv", "recv-done"), _TRANSFER),
    **dict.fromkeys(("dynamic-reshape", "set-dimension-size"), _SIZES),
    UNKNOWN: "nothing is known of it",
}
"""Opcodes that no module may have which is batched, whatever they work on, and why."""

UNBATCHED = frozenset({"parameter", "constant", "iota", "partition-id", "replica-id", "after-all"})
"""Opcodes that never see a batch."""

_AHEAD: Sequence[Pass] = (AsyncToSync(), ScanExpander(), CustomCallExpander())
AHEAD: frozenset[str] = AsyncToSync.opcodes | ScanExpander.opcodes
"""Opcodes that are gone before the rules are asked."""

_OF_THE_BORDER = ("entry_computation_layout", "input_output_alias", "is_scheduled")


def batch_module(
    module: Module,
    size: int,
    in_axes: Sequence[int | None],
    out_axes: Sequence[int | None] | None = None,
    log: DecisionLog | None = None,
) -> list[bool]:
    """Rewrite `module`, which is of one example, in place as one of `size` examples.

    `in_axes` has for each leaf of the parameters where the batch is in the new parameter (negative: from the end), or
    None where all examples share it.  `out_axes` has where it goes in each leaf of the result: a result that is the
    same for all examples is repeated, one that must not have a batch (None) has to be the same.  Without `out_axes` it
    goes in front, of results that are not the same for all.  Returns which results have a batch.

    InputError where axes do not fit; UnsupportedError naming an instruction that cannot be batched: the module means
    what it did then.
    """
    entry = module.entry
    _check(module)
    given = [leaf for parameter in entry.parameters for leaf in parameter.shape.leaves()]
    axes = _axes("in_axes", in_axes, given)
    if size < 1:
        raise InputError(f"a batch of {size} examples: there must be at least one")
    wanted = list(entry.root.shape.leaves())
    places = None if out_axes is None else _axes("out_axes", out_axes, wanted)
    for one in _AHEAD:
        one.run(module, DecisionLog())
    with room(module):
        work = Work(module, size, RULES, Flow(module))
        try:
            made, batched = _entry(work, axes, places)
        except Exception:
            module.remove_unreachable()  # what was written so far
            raise
    name = entry.name
    module.remove(entry)
    made.name = name
    module.add(made, entry=True)
    module.remove_unreachable()
    for attribute in _OF_THE_BORDER:
        module.attributes.pop(attribute, None)
    if log is not None:
        for instruction, why in work.by_turns.items():
            log.note("turns", instruction, why)
    return batched


def batched_results(module: Module, in_axes: Sequence[int | None]) -> list[bool]:
    """Which leaves of the result of `module` differ from example to example, where its parameters are batched so."""
    flow = Flow(module)
    return flow.results(module.entry, [axis is not None for axis in in_axes])


def _entry(
    work: Work, axes: Sequence[int | None], places: Sequence[int | None] | None
) -> tuple[Computation, list[bool]]:
    """The batched entry, and which of its results have a batch."""
    original = work.module.entry
    made = Computation("")
    inner = Batcher(work, Builder(made))
    numbers = iter(axes)
    values: list[Value] = []
    for p in original.parameters:
        own = [next(numbers) for _ in p.shape.leaves()]
        parameter = inner.build.parameter(p.parameter_number, _with_axes(p.shape, iter(own), work.size), p.name)
        inner.names.add(p.name)
        parameter.metadata, parameter.location = p.metadata, p.location
        leaves = inner.leaves(Leaf(parameter), p.shape)
        values.append(
            inner.rebuilt(p.shape, iter([Leaf(x.instruction, a) for x, a in zip(leaves, own, strict=True)]))
        )  # fmt: skip
    result = inner.leaves(inner.inlined(original, values), original.root.shape)
    settled = []
    inner.build.like = original.root
    for number, leaf in enumerate(result):
        place = (None if leaf.axis is None else 0) if places is None else places[number]
        if place is not None:
            settled.append(Leaf(inner.at(leaf, place), place))
        elif leaf.axis is not None:
            raise InputError(f"result {number} differs from example to example: it needs a batch axis")
        else:
            settled.append(leaf)
    made.root = inner.packed(inner.rebuilt(original.root.shape, iter(settled)))
    drop_unread(made)
    return made, [leaf.axis is not None for leaf in settled]


def _with_axes(shape: Shape, axes: Iterator[int | None], size: int) -> Shape:
    if shape.is_tuple:
        return tuple_shape([_with_axes(element, axes, size) for element in shape.elements])
    axis = next(axes)
    return shape if axis is None else batched_shape(shape, axis, size)


def _axes(name: str, axes: Sequence[int | None], leaves: Sequence[Shape]) -> list[int | None]:
    """The axes, counted from the front."""
    if len(axes) != len(leaves):
        raise InputError(f"{len(axes)} {name} for {len(leaves)} arrays")
    found: list[int | None] = []
    for axis, leaf in zip(axes, leaves, strict=True):
        if axis is None or not leaf.is_array:
            found.append(None)
            continue
        if not -leaf.rank - 1 <= axis <= leaf.rank:
            raise InputError(f"{name}: there is no axis {axis} in {leaf} with one more dimension")
        found.append(axis % (leaf.rank + 1))
    return found


def _check(module: Module) -> None:
    """UnsupportedError naming the first instruction that no rule can do."""
    for computation in module.callees_first():
        for i in computation:
            if i.opcode in REFUSED:
                raise refusal(i, REFUSED[i.opcode])
            if not i.shape.is_static:
                raise refusal(i, f"{i.shape} has a size that is known when it runs")
            if i.opcode == "custom-call" and i.attributes.get("custom_call_has_side_effect"):
                known = is_annotation(i) or is_sink(i) or rules_calls.batching_of(i.attributes["custom_call_target"])
                if not known:
                    raise refusal(i, "it has side effects; register_batching says how to")
