"""What a module costs, row by row: by kernel, instruction, computation, opcode or scope of the program.

The rows of every grouping add up to the cost of the module (`analysis.cost`): loops count as often as they run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from hlotool.analysis.cost import Cost, ModuleCost
from hlotool.analysis.roofline import Roof, intensity, operations
from hlotool.inspect.labels import shape_text
from hlotool.inspect.scopes import scope_of
from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.brief import one_line
from hlotool.lazy_dataclass import dataclass
from hlotool.text.sources import Sources

__all__ = ["GROUPINGS", "SORTS", "CostRow", "Grouping", "as_json", "cost_rows", "sort_rows", "total_row"]

Grouping = Literal["kernel", "instruction", "computation", "opcode", "scope"]
GROUPINGS: tuple[Grouping, ...] = ("kernel", "instruction", "computation", "opcode", "scope")
SORTS = ("time", "saving", "flops", "transcendentals", "bytes", "intensity", "name")

_Times = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """A part of a module: `cost` is that of all its `runs` in one run of the module.

    `roof_seconds` is the least time that a machine needs, `bound` by ``memory`` or ``compute`` (``mixed`` of several
    kernels), `seconds` the time that was measured, `predicted` what the model says; None where no machine, or no time,
    is given.  `name` is that of an
    instruction, a computation, an opcode or a scope.
    """

    name: str
    opcode: str = ""
    computation: str = ""
    shape: str = ""
    runs: int = 1
    cost: Cost = field(default_factory=Cost)
    bound: str = ""
    roof_seconds: float | None = None
    seconds: float | None = None
    predicted: float | None = None
    op_name: str = ""
    source: str = ""
    line: int | None = None

    def __repr__(self) -> str:
        words = f"{self.runs} runs, {self.cost.flops} flops, {self.cost.bytes} bytes"
        return f"CostRow('{one_line(self.name)}', {words})"

    @property
    def saving(self) -> float | None:
        """Seconds that could be saved at the roof; None where they are not known."""
        if self.seconds is None or self.roof_seconds is None:
            return None
        return max(0.0, self.seconds - self.roof_seconds)


@dataclass(frozen=True, slots=True)
class _Part:
    """An instruction that runs so often, inside of a fusion or not, with what all its runs cost."""

    instruction: Instruction
    runs: int
    cost: Cost
    bound: str = ""
    roof_seconds: float | None = None
    seconds: float | None = None
    predicted: float | None = None


def cost_rows(
    module: Module,
    by: Grouping = "kernel",
    roof: Roof | None = None,
    times: _Times | None = None,
    depth: int = 2,
    whole: Collection[Instruction] = (),
    predicted: _Times | None = None,
) -> list[CostRow]:
    """The parts of a module that do something, in program order.

    A ``kernel`` is a fusion with all that it computes, or any other instruction outside of fusions; ``instruction``
    lists those inside of fusions too, which move no bytes.  Scopes are the first `depth` of those in ``op_name`` that
    not all have in common.  `times` are seconds by computation and instruction, all runs together, without what they
    call; loops and calls in `whole` are one kernel with all that they run, and so are their times.  So are `predicted`
    ones.
    """
    costs = ModuleCost(module)
    inside = by in ("instruction", "opcode", "scope")
    parts = list(_parts(costs, roof, times, predicted, inside, set(whole)))
    sources = Sources(module)
    if by in ("kernel", "instruction"):
        return [_row(part, sources) for part in parts]
    if by == "computation":
        held = _grouped(parts, lambda i: _parent(i).name)
        runs = costs.executions()
        return [
            replace(row, computation=row.name, runs=runs.get(module.computations[row.name], row.runs)) for row in held
        ]
    if by == "opcode":
        return [replace(row, opcode=row.name) for row in _grouped(parts, lambda i: i.written)]
    scopes = {part.instruction: _scope(part.instruction) for part in parts}
    common = _common([scope for scope in scopes.values() if scope])
    return _grouped(parts, lambda i: "/".join(scopes[i][common : common + depth]) or "(no scope)")


def total_row(rows: Sequence[CostRow], name: str = "total") -> CostRow:
    """The sum of rows."""
    bounds = {row.bound for row in rows if row.bound}
    return CostRow(
        name=name,
        runs=sum(row.runs for row in rows),
        cost=_sum(row.cost for row in rows),
        bound=bounds.pop() if len(bounds) == 1 else "mixed" if bounds else "",
        roof_seconds=_known(row.roof_seconds for row in rows),
        seconds=_known(row.seconds for row in rows),
        predicted=_known(row.predicted for row in rows),
    )


def sort_rows(rows: Sequence[CostRow], key: str) -> list[CostRow]:
    """The rows with the most first (by ``name``: in order of names); by ``time`` is by what was measured, else by the
    roof, else by bytes moved and operations."""

    def weight(row: CostRow) -> tuple[float, ...]:
        cost = row.cost
        match key:
            case "time":
                known = next((n for n in (row.seconds, row.predicted, row.roof_seconds) if n is not None), None)
                return (known or 0.0, cost.bytes, operations(cost))
            case "saving":
                return (row.saving or 0.0,)
            case "intensity":
                return (intensity(cost) or 0.0,)
            case "bytes":
                return (cost.bytes, operations(cost))
            case "flops":
                return (cost.flops, cost.transcendentals, cost.bytes)
            case _:
                return (getattr(cost, key),)

    if key == "name":
        return sorted(rows, key=lambda row: (row.name, row.computation))
    order = sorted(enumerate(rows), key=lambda item: (*(-number for number in weight(item[1])), item[0]))
    return [row for _, row in order]


def as_json(row: CostRow) -> dict[str, Any]:
    """A row for programs; `unknown` and `loops` say what is missing from its numbers."""
    cost = row.cost
    return {
        "name": row.name, "opcode": row.opcode, "computation": row.computation, "shape": row.shape, "runs": row.runs,
        "flops": cost.flops, "transcendentals": cost.transcendentals, "bytes_read": cost.bytes_read,
        "bytes_written": cost.bytes_written, "unknown": cost.unknown, "loops": cost.loops,
        "intensity": intensity(cost), "bound": row.bound or None, "roof_seconds": row.roof_seconds,
        "seconds": row.seconds, "predicted_seconds": row.predicted, "saving_seconds": row.saving,
        "op_name": row.op_name, "source": row.source or None,
        "line": row.line,
    }  # fmt: skip


# ---- parts


def _parts(
    costs: ModuleCost, roof: Roof | None, times: _Times | None, predicted: _Times | None, inside: bool,
    whole: set[Instruction],
) -> Iterator[_Part]:  # fmt: skip
    for computation, runs in _running(costs, whole).items():
        for instruction in computation:
            fused = instruction.opcode == "fusion"
            one = costs.of(instruction) if fused or instruction in whole else costs.own(instruction)
            seconds = None
            if times is not None:
                seconds = times.get((computation.name, instruction.name), 0.0)
                if fused:
                    seconds += sum(
                        times.get((body.name, inner.name), 0.0) for body in _bodies(instruction) for inner in body
                    )
            if not (operations(one) or one.bytes or one.unknown or one.loops or seconds):
                continue
            bound = "" if roof is None else roof.bound(one, one.bytes)
            least = None if roof is None else runs * roof.seconds(one, one.bytes)
            cost = one.times(runs)
            if fused and inside:
                cost = Cost(0, 0, cost.bytes_read, cost.bytes_written)
            guess = None if predicted is None else predicted.get((computation.name, instruction.name), 0.0)
            yield _Part(instruction, runs, cost, bound, least, seconds, guess)
            for body in _bodies(instruction) if fused and inside else ():
                yield from (
                    _Part(inner, runs, costs.own(inner).arithmetic().times(runs))
                    for inner in body
                    if operations(costs.own(inner)) or costs.own(inner).unknown
                )


def _bodies(fusion: Instruction) -> list[Computation]:
    """The computation of a fusion, and of fusions in it."""
    found = list(fusion.called[:1])
    for body in found:
        found += [callee for inner in body if inner.opcode == "fusion" for callee in inner.called[:1]]
    return found


def _running(costs: ModuleCost, whole: set[Instruction]) -> dict[Computation, int]:
    """How often each computation outside of fusions runs, the entry first; without what those in `whole` run."""
    count = {costs.module.entry: 1}
    for computation in reversed(costs.module.callees_first()):
        for instruction in computation if computation in count else ():
            if instruction.opcode != "fusion" and instruction not in whole:
                for callee, times in costs.runs(instruction):
                    count[callee] = count.get(callee, 0) + count[computation] * times
    return {computation: runs for computation, runs in count.items() if runs}


# ---- rows


def _row(part: _Part, sources: Sources) -> CostRow:
    instruction, place = part.instruction, sources.of(part.instruction)
    return CostRow(
        name=instruction.name, opcode=instruction.written, computation=_parent(instruction).name,
        shape=shape_text(instruction.shape), runs=part.runs, cost=part.cost, bound=part.bound,
        roof_seconds=part.roof_seconds, seconds=part.seconds, predicted=part.predicted,
        op_name=instruction.metadata.op_name if instruction.metadata is not None else "",
        source=f"{place.file}:{place.line}" if place is not None else "",
        line=instruction.location.line if instruction.location is not None else None,
    )  # fmt: skip


def _grouped(parts: Iterable[_Part], key: Any) -> list[CostRow]:
    groups: dict[str, list[CostRow]] = {}
    for part in parts:
        row = CostRow(
            name="", runs=part.runs, cost=part.cost, bound=part.bound, roof_seconds=part.roof_seconds,
            seconds=part.seconds, predicted=part.predicted,
        )  # fmt: skip
        groups.setdefault(key(part.instruction), []).append(row)
    return [total_row(rows, name) for name, rows in groups.items()]


def _sum(costs: Iterable[Cost]) -> Cost:
    flops = transcendentals = read = written = unknown = loops = 0
    for cost in costs:
        flops += cost.flops
        transcendentals += cost.transcendentals
        read += cost.bytes_read
        written += cost.bytes_written
        unknown += cost.unknown
        loops += cost.loops
    return Cost(flops, transcendentals, read, written, unknown, loops)


def _known(numbers: Iterable[float | None]) -> float | None:
    found = [number for number in numbers if number is not None]
    return sum(found) if found else None


def _scope(instruction: Instruction) -> tuple[str, ...]:
    return scope_of(instruction.metadata.op_name) if instruction.metadata is not None else ()


def _common(scopes: Sequence[tuple[str, ...]]) -> int:
    """How many scopes from the outermost on all have in common; of the innermost one at least stays."""
    if not scopes:
        return 0
    first, last = min(scopes), max(scopes)
    shared = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return min(shared, min(map(len, scopes)) - 1)


def _parent(instruction: Instruction) -> Computation:
    assert instruction.parent is not None
    return instruction.parent
