"""Instructions of a program for one device, written for each of many: what all rules share.

A rule gives the value of an instruction from the values of its operands, divided in a way that it finds cheap; the
partitioner brings the value to the sharding that the instruction asks for.  What has no rule, and what a rule cannot
divide, is computed as a whole by every device (the fallback), which is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, Shape, UnsupportedError, Verbatim, array, tuple_shape
from hlotool.ir.sharding import ShardingValueError, parse_sharding
from hlotool.passes.framework.graph import erase, is_removable
from hlotool.passes.framework.interpret import interpret
from hlotool.passes.spmd.axes import Axes, Chosen, choose, scattering
from hlotool.passes.spmd.reshard import bytes_moved, reshard, summed_up, whole
from hlotool.passes.spmd.tiling import Tiling, is_grid, of_sharding, replicated
from hlotool.passes.spmd.values import Part, Value, parts_of, rebuilt
from hlotool.passes.spmd.writer import Work, Writer

__all__ = ["Combine", "Local", "Partitioner", "Rule", "attributes_of", "refusal", "tilings_of"]

Rule: TypeAlias = "Callable[[Partitioner, Instruction, list[Value]], Value | None]"
"""(where to write, the instruction, values of its operands) -> its value; None: every device computes all of it."""
Local: TypeAlias = "Callable[[Partitioner, Instruction, list[Part], Shape, Chosen], Instruction]"
"""(where to write, the instruction, its operands divided as was chosen, the shape of the result on a device, how axes
are divided) -> what a device computes."""
Combine: TypeAlias = "Callable[[Partitioner, Instruction, Value, Axes, Chosen], Value]"
"""(where to write, the instruction, partial results, its axes, how they are divided) -> the result."""

_OF_ONE_DEVICE = frozenset({"sharding", "statistics", "origin", "inferred_dimension", "parameter_replication"})
_EXCHANGES = frozenset(
    {"partition-id", "all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"}
)
_ANNOTATIONS = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.PropagationBarrier"})
_PASS_ON = frozenset(
    {"tuple", "get-tuple-element", "opt-barrier", "add-dependency", "domain", "call", "fusion", "while", "conditional"}
)
"""What gives values on as they are: in terms, too."""
_OF_ALL = frozenset({"add", "subtract", "concatenate", "negate", "copy", "reshape", "transpose", "slice", "broadcast",
                     "reverse", "convert"})  # fmt: skip
_OF_ONE = frozenset({"multiply", "divide", "dot", "reduce"})
"""What may be done to each term alone, where all operands (`_OF_ALL`) or only one of them (`_OF_ONE`) are in terms."""
_EFFECTS = frozenset({"infeed", "outfeed", "send", "send-done", "recv", "recv-done"})


def refusal(i: Instruction, why: str) -> UnsupportedError:
    """That an instruction cannot be partitioned, and why."""
    target = f" {i.attributes['custom_call_target']!r}" if i.opcode == "custom-call" else ""
    return UnsupportedError(f"{i.name}: {i.written}{target} cannot be partitioned: {why}")


def attributes_of(i: Instruction) -> dict[str, Any]:
    """Those that instructions have in its place."""
    return {key: value for key, value in i.attributes.items() if key not in _OF_ONE_DEVICE}


def tilings_of(i: Instruction, devices: int) -> list[Tiling] | None:
    """The tilings that an instruction asks for, one for each leaf of its shape; None where it asks for none."""
    written = i.attributes.get("sharding")
    if not isinstance(written, Verbatim):
        return None
    leaves = list(i.shape.leaves())
    try:
        found = parse_sharding(written.text)
        rows = list(found) if isinstance(found, tuple) else [found] * len(leaves)
        rows = rows if leaves else []  # XLA writes one of a tuple without arrays
        if len(rows) != len(leaves):
            raise UnsupportedError(f"{len(rows)} shardings of {len(leaves)} arrays")
        made = [
            of_sharding(one.bare(), leaf.rank if leaf.is_array else 0, devices)
            if leaf.is_array or one.kind != "tiled"
            else replicated(0, devices)
            for one, leaf in zip(rows, leaves, strict=True)
        ]
    except (ShardingValueError, UnsupportedError) as error:
        raise refusal(i, str(error)) from error
    return [
        tiling if leaf.is_static else whole_of(tiling)
        for tiling, leaf in zip(made, leaves, strict=True)
    ]


def whole_of(tiling: Tiling) -> Tiling:
    return replicated(tiling.rank, len(tiling.worlds), tiling.worlds)


class Partitioner(Writer):
    """Writes into one computation what a device does of others.

    Where that is called on arrays of each device's own, `own_worlds` are the worlds of these.
    """

    def __init__(
        self, work: Work, computation: Computation, rules: Mapping[str, Rule], own_worlds: tuple[int, ...] | None = None
    ) -> None:
        super().__init__(work, computation)
        self.rules = rules
        self.own_worlds = own_worlds
        self._apart: dict[Instruction, list[Tiling]] = {}  # what is wanted of those that are written term by term

    @property
    def devices(self) -> int:
        return self.work.devices

    def inlined(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """The result of a computation, which is written here."""
        return interpret(computation, self.build, arguments, self.rewritten)

    def rewritten(self, i: Instruction, operands: list[Value]) -> Value:
        """The value of an instruction, divided as it asks for."""
        if i.opcode in _EFFECTS:
            raise refusal(i, "every device would do what one is to do")
        wanted = self.wanted(i)
        if any(part.tiling.terms for value in operands for part in parts_of(value)) and not _passes_on(i):
            value = self._term_by_term(i, operands, wanted)
            if value is not None:
                return value
            operands = [self.added_up(value) for value in operands]
        return self._by_rule(i, operands, wanted)

    def _by_rule(self, i: Instruction, operands: list[Value], wanted: list[Tiling] | None) -> Value:
        rule = self.rules.get(i.opcode)
        value = rule(self, i, operands) if rule is not None else None
        if value is None:
            value = self.fallback(i, operands, "it has no rule" if rule is None else "no part of it is independent")
        return value if wanted is None else self.settled(value, i.shape, wanted)

    def drop_unread(self) -> None:
        """Erase what nothing reads: collectives, too, since all devices do the same."""
        known: dict[Computation, bool] = {}
        for i in reversed(self.build.computation):
            if is_removable(i, known) or (i.opcode in _EXCHANGES and not i.users and not i.is_root):
                erase(i)

    def wanted(self, i: Instruction) -> list[Tiling] | None:
        """The tilings that an instruction asks for, or the one reader that makes terms of its result."""
        if i in self._apart:
            return self._apart[i]
        if (i.opcode in _OF_ALL or i.opcode in _OF_ONE) and len(i.users) == 1:
            (user,) = i.users
            if user.attributes.get("custom_call_target") == "Sharding":
                found = tilings_of(user, self.devices)
                if found is not None and found[0].terms:
                    return found
        return tilings_of(i, self.devices)

    def _term_by_term(self, i: Instruction, operands: Sequence[Value], wanted: list[Tiling] | None) -> Value | None:
        """The value of what is linear, of operands in terms, where it is wanted in the same ones; None of all else."""
        parts = [one for one in operands if isinstance(one, Part)]
        if wanted is None or len(wanted) != 1 or not wanted[0].terms or len(parts) != len(operands):
            return None
        target = wanted[0]
        count = sum([part.tiling.terms == target.terms for part in parts])
        kinds = {ELEMENT_TYPES[shape.element_type].is_integer for shape in (i.shape, *(part.shape for part in parts))}
        linear = count == len(parts) if i.opcode in _OF_ALL else i.opcode in _OF_ONE and count == 1
        if not linear or (i.opcode == "convert" and len(kinds) > 1) or (i.opcode == "divide" and kinds != {False}):
            return None
        if any(part.tiling.terms not in ((), target.terms) for part in parts):
            return None
        if parts[-1].tiling.terms and (i.opcode == "divide" or (i.opcode == "reduce" and len(parts) > 1)):
            return None
        if i.opcode == "reduce" and not _adds_from_zero(i):
            return None
        worlds = target.apart.worlds
        given: list[Value] = []
        for part in parts:
            if part.tiling.worlds != target.worlds:
                return None
            if not is_grid(part.tiling.axes, worlds):
                part = reshard(self, part, whole(part))
            given.append(Part(part.local, part.shape, Tiling(part.tiling.axes, worlds)))
        own = [target.apart]
        self._apart[i] = own
        value = self._by_rule(i, given, own)
        del self._apart[i]
        assert isinstance(value, Part)
        return Part(value.local, value.shape, target)

    # ---- values

    def settled(self, value: Value, shape: Shape, tilings: Sequence[Tiling]) -> Value:
        """A value whose leaves have these tilings."""
        rows = zip(parts_of(value), tilings, strict=True)
        return rebuilt(shape, iter([reshard(self, part, tiling) for part, tiling in rows]))

    def whole(self, value: Value) -> Value:
        """A value of which every device has everything."""
        if isinstance(value, Part):
            return reshard(self, value, whole(value))
        return tuple([self.whole(one) for one in value])

    def added_up(self, value: Value) -> Value:
        """A value without terms."""
        if isinstance(value, Part):
            return summed_up(self, value)
        return tuple([self.added_up(one) for one in value])

    def packed(self, value: Value) -> Instruction:
        """What a device has of a value, as one instruction."""
        if isinstance(value, Part):
            return value.local
        return self.build.tuple([self.packed(one) for one in value])

    def unpacked(self, local: Instruction, shape: Shape, tilings: Iterator[Tiling]) -> Value:
        """A value of `shape` of which a device has `local`, with a tiling for each leaf."""
        if shape.is_tuple:
            return tuple(
                [self.unpacked(self.build.gte(local, n), e, tilings) for n, e in enumerate(shape.elements)]
            )
        return Part(local, shape, next(tilings))

    def worlds(self, operands: Sequence[Value], wanted: Sequence[Tiling] | None = None) -> tuple[int, ...]:
        """The worlds in which an instruction is computed: those of its operands, or else those that are asked for."""
        for tiling in (*(part.tiling for value in operands for part in parts_of(value)), *(wanted or ())):
            if tiling.is_manual:
                return tiling.worlds
        return (0,) * self.devices

    # ---- instructions

    def emit(
        self, i: Instruction, shape: Shape | None, operands: Sequence[Instruction], **changed: Any
    ) -> Instruction:
        """An instruction as `i` is, with other operands, and some attributes `changed` (None: left out); the first one
        has its name."""
        attributes = attributes_of(i) | changed
        name = "" if i in self.work.named else i.name
        self.work.named.add(i)
        attributes = {key: value for key, value in attributes.items() if value is not None}
        if "operand_layout_constraints" in attributes:
            attributes["operand_layout_constraints"] = _laid_out(attributes["operand_layout_constraints"], operands)
        return self.build.add(i.opcode, shape, operands, attributes, name)

    def fallback(self, i: Instruction, operands: Sequence[Value], why: str) -> Value:
        """Every device gathers the operands, and computes all of the result."""
        worlds = self.worlds(operands, self.wanted(i))
        moved = sum([bytes_moved(part, whole(part)) for value in operands for part in parts_of(value)])
        if moved:
            self.work.log.note("fallback", i, f"every device computes all of it: {why}", bytes=moved)
        local = self.emit(i, i.shape, [self.packed(self.whole(value)) for value in operands])
        tilings = (replicated(leaf.rank, self.devices, worlds) for leaf in i.shape.leaves())
        return self.unpacked(local, i.shape, tilings)

    def divided(
        self,
        i: Instruction,
        operands: Sequence[Value],
        axes: Axes,
        local: Local | None = None,
        combine: Combine | None = None,
    ) -> Value | None:
        """The value of an instruction whose dimensions are divided along `axes`, in the cheapest way; None where all of
        it would be on every device though something is divided.

        `local` writes what a device computes: without it the instruction itself, of smaller shapes.  `combine` makes
        the result of partial ones: without it, they are added up.
        """
        found = self.division(i, operands, axes)
        if found is None:
            return None
        parts, chosen = found
        given = [
            reshard(self, part, chosen.tiling(labels)) for part, labels in zip(parts, axes.operands, strict=True)
        ]
        shape = self.local_shape(i, axes, chosen)
        if local is None:
            made = self.emit(i, shape, [part.local for part in given])
        else:
            made = local(self, i, given, shape, chosen)
        return self.combined(i, made, axes, chosen, combine)

    def division(self, i: Instruction, operands: Sequence[Value], axes: Axes) -> tuple[list[Part], Chosen] | None:
        """The operands, and the cheapest way to divide an instruction along `axes`; None as `divided` has it."""
        parts = [one for one in operands if isinstance(one, Part)]
        leaves = list(i.shape.leaves())
        usual = all(shape.is_array and shape.is_static and shape.size for shape in (*leaves, *(o.shape for o in parts)))
        if len(parts) != len(operands) or not usual:
            return None
        wanted = self.wanted(i)
        chosen = choose(axes, parts, leaves, wanted, self.worlds(operands, wanted))
        return None if chosen.parts == 1 and any(part.tiling.is_tiled for part in parts) else (parts, chosen)

    def local_shape(self, i: Instruction, axes: Axes, chosen: Chosen) -> Shape:
        """What a device has of the result."""
        rows = zip(axes.results_in(chosen), i.shape.leaves(), strict=True)
        shapes = [tiling.local(leaf) for tiling, leaf in rows]
        return tuple_shape(shapes) if i.shape.is_tuple else shapes[0]

    def combined(
        self, i: Instruction, made: Instruction, axes: Axes, chosen: Chosen, combine: Combine | None = None
    ) -> Value:
        """The value of an instruction of which a device has computed `made`."""
        value = self.unpacked(made, i.shape, iter(axes.results_in(chosen)))
        if axes.combined.isdisjoint(chosen.axes):
            return value
        return (combine or _added)(self, i, value, axes, chosen)

    def summed(self, part: Part, axes: Axes, chosen: Chosen, opcode: str, wanted: Tiling | None) -> Part:
        """The result of partial ones, which may be of a wider type, under an operation."""
        combine = self.work.combiner(opcode, part.local.shape.element_type)
        made = self.all_reduced(part, axes, chosen, combine, wanted)
        kind = part.shape.element_type
        if made.local.shape.element_type == kind:
            return made
        return Part(self.build.convert(made.local, kind), made.shape, made.tiling)

    def all_reduced(
        self, part: Part, axes: Axes, chosen: Chosen, combine: Computation, wanted: Tiling | None
    ) -> Part:
        """Partial results of all devices along the axes that are combined: where the result is wanted in tiles along
        the same axis, each device gets its own."""
        groups = self.groups(axes, chosen)
        scattered = scattering(axes, chosen, axes.results[0], wanted) if wanted is not None else None
        if scattered is None:
            (x,) = self.all_reduce([part.local], groups, combine)
            return Part(x, part.shape, part.tiling)
        d, axis = scattered
        tiling = part.tiling.with_axis(d, axis)
        x = self.grown(part.local, d, tiling.local(part.shape).dimensions[d] * axis.count)
        return Part(self.reduce_scatter(x, d, groups, combine), part.shape, tiling)

    def groups(self, axes: Axes, chosen: Chosen) -> tuple[tuple[int, ...], ...]:
        """The devices whose partial results belong together."""
        labels = sorted(chosen.axes)
        over = [n for n, label in enumerate(labels) if label in axes.combined]
        return chosen.tiling(tuple(labels)).groups(over)


def _added(p: Partitioner, i: Instruction, value: Value, axes: Axes, chosen: Chosen) -> Value:
    assert isinstance(value, Part)
    wanted = p.wanted(i)
    if wanted and wanted[0].terms:
        target = Tiling(value.tiling.axes, value.tiling.worlds, wanted[0].terms)
        if target.axes == wanted[0].axes and _sets(p.groups(axes, chosen)) == _sets(target.term_groups):
            kind = value.shape.element_type
            narrow = value.local.shape.element_type != kind
            return Part(p.build.convert(value.local, kind) if narrow else value.local, value.shape, target)
    return p.summed(value, axes, chosen, "add", wanted[0] if wanted else None)


def _laid_out(constraints: Sequence[Shape], operands: Sequence[Instruction]) -> tuple[Shape, ...]:
    """The shapes that the operands of a custom call must have, of what a device has of them."""
    return tuple(
        [
            array(shape.element_type, operand.shape.dimensions, shape.layout) if shape.is_array else shape
            for shape, operand in zip(constraints, operands, strict=True)
        ]
    )


def _sets(groups: Iterable[Sequence[int]]) -> set[frozenset[int]]:
    return {*map(frozenset, groups)}


def _adds_from_zero(i: Instruction) -> bool:
    """Whether a reduction of one array is a sum and nothing else."""
    root, start = i.attributes["to_apply"].root, i.operands[-1]
    sums = root.opcode == "add" and all(operand.opcode == "parameter" for operand in root.operands)
    return sums and start.opcode == "constant" and not start.literal.value().any()


def _passes_on(i: Instruction) -> bool:
    return i.opcode in _PASS_ON or (i.opcode == "custom-call" and i.attributes["custom_call_target"] in _ANNOTATIONS)
