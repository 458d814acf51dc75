"""The partitioner: a module for one device becomes one for many, each of which has its part of the arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Aliasing, Computation, InputError, Module, Verbatim
from hlotool.ir.depth import room
from hlotool.ir.sharding import print_sharding
from hlotool.passes.collectives.async_to_sync import AsyncToSync
from hlotool.passes.framework.steps import Pass
from hlotool.passes.sharding.annotations import PARTITIONED
from hlotool.passes.spmd import (
    rules_calls,
    rules_contraction,
    rules_control,
    rules_elementwise,
    rules_indexing,
    rules_pieces,
    rules_reduction,
    rules_reshape,
    rules_spelled,
    rules_topk,
)
from hlotool.passes.spmd.partitioner import Partitioner, Rule, tilings_of
from hlotool.passes.spmd.tiling import Tiling, replicated, sharding_of
from hlotool.passes.spmd.values import Value, parts_of
from hlotool.passes.spmd.writer import Work

__all__ = ["RULES", "partition_module"]

RULES: Mapping[str, Rule] = {
    **rules_elementwise.RULES,
    **rules_reshape.RULES,
    **rules_pieces.RULES,
    **rules_contraction.RULES,
    **rules_reduction.RULES,
    **rules_indexing.RULES,
    **rules_spelled.RULES,
    **rules_topk.RULES,
    **rules_control.RULES,
    **rules_calls.RULES,
}
"""By opcode; every device computes all of the others."""

_AHEAD: Sequence[Pass] = (AsyncToSync(),)
_OF_ONE_DEVICE = (
    "entry_computation_layout",
    "is_scheduled",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
)


def partition_module(module: Module, devices: int, log: DecisionLog, passed_from: int | None = None) -> None:
    """Rewrite `module` in place as what each of `devices` does.

    Parameters and results have the shapes of their tiles, by the shardings of the parameters and of the entry's root;
    what has none is on every device as a whole.  An operand of a dot that would be gathered to `passed_from` bytes or
    more, if a number is given, is passed on in tiles instead.  InputError where the module is for another number of
    devices, or partitioned already; UnsupportedError naming an instruction that cannot be partitioned: the module means
    what it did then.
    """
    _check(module, devices)
    for one in _AHEAD:
        one.run(module, DecisionLog())
    channels = [i.attributes["channel_id"] for i in module.instructions() if i.attributes.get("channel_id") is not None]
    replicas: int = module.attributes.get("replica_count", 1)
    work = Work(module, devices, replicas, log, max(channels, default=0), passed_from)
    with room(module):
        try:
            made, given, results = _entry(work)
        except Exception:
            module.remove_unreachable()  # what was written so far
            raise
    _settle_header(module, given, results, devices)
    name = module.entry.name
    module.remove(module.entry)
    made.name = name
    module.add(made, entry=True)
    module.remove_unreachable()


def _check(module: Module, devices: int) -> None:
    written = module.attributes.get("num_partitions", 1)
    if written not in (1, devices):
        raise InputError(f"the module is for {written} partitions, not {devices}")
    if PARTITIONED in module.attributes.get("frontend_attributes", {}):
        raise InputError("the module is partitioned already")


def _entry(work: Work) -> tuple[Computation, list[list[Tiling]], list[Tiling]]:
    """The entry of a device, and the tilings of the leaves of its parameters and of its result."""
    original = work.module.entry
    made = Computation("")
    p = Partitioner(work, made, RULES)
    given: list[list[Tiling]] = []
    arguments: list[Value] = []
    for parameter in original.parameters:
        leaves = list(parameter.shape.leaves())
        own = tilings_of(parameter, work.devices) or [replicated(leaf.rank, work.devices) for leaf in leaves]
        p.build.like = parameter
        shape = rules_control.local_tuple(parameter.shape, own)
        local = p.build.parameter(parameter.parameter_number, shape, parameter.name)
        if "sharding" in parameter.attributes:
            local.attributes["sharding"] = parameter.attributes["sharding"]
        given.append(own)
        arguments.append(p.unpacked(local, parameter.shape, iter(own)))
    value = p.inlined(original, arguments)
    p.build.like = original.root
    free = work.module.attributes.get("allow_spmd_sharding_propagation_to_output", Verbatim("false"))
    if "sharding" not in original.root.attributes and free.text.strip("{}") != "true":
        value = p.whole(value)
    made.root = p.packed(value)
    results = [part.tiling for part in parts_of(value)]
    if any(tiling.is_tiled or tiling.terms for tiling in results):
        if made.root.opcode in ("parameter", "tuple") and not made.root.shape.is_tuple:
            made.root = p.build.copy(made.root)
        texts = [print_sharding(sharding_of(tiling)) for tiling in results]
        text = f"{{{', '.join(texts)}}}" if original.root.shape.is_tuple else texts[0]
        made.root.attributes["sharding"] = Verbatim(text)
    p.drop_unread()
    return made, given, results


def _settle_header(module: Module, given: list[list[Tiling]], results: list[Tiling], devices: int) -> None:
    """What the header says of a module for many devices; an array that is no longer as large as the result that is to
    have its place is not overwritten."""
    attributes: dict[str, Any] = module.attributes
    for name in _OF_ONE_DEVICE:
        attributes.pop(name, None)
    attributes["num_partitions"] = devices
    attributes["frontend_attributes"] = {**attributes.get("frontend_attributes", {}), PARTITIONED: "true"}
    aliases: tuple[Aliasing, ...] = attributes.pop("input_output_alias", ())
    outputs = dict(zip(_paths(module.entry.root.shape), results, strict=True))
    inputs = {
        (number, path): tiling
        for number, (parameter, own) in enumerate(zip(module.entry.parameters, given, strict=True))
        for path, tiling in zip(_paths(parameter.shape), own, strict=True)
    }
    kept = tuple(
        [
            alias
            for alias in aliases
            if (mine := outputs.get(alias.output)) is not None
            and (other := inputs.get((alias.operand, alias.index))) is not None
            and mine.counts == other.counts
        ]
    )
    if kept:
        attributes["input_output_alias"] = kept


def _paths(shape: Any, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """The index of each leaf."""
    if not shape.is_tuple:
        return [path]
    return [found for n, element in enumerate(shape.elements) for found in _paths(element, (*path, n))]
