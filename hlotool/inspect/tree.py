"""A module as a tree with what its parts cost: by what calls what, or by the framework's scopes (``op_name``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, field, replace
from typing import Any

from hlotool.analysis.cost import Cost, ModuleCost
from hlotool.inspect.labels import title
from hlotool.inspect.scopes import scope_of
from hlotool.ir import Computation, Instruction, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["ORDERS", "TreeRow", "as_json", "call_tree", "scope_tree"]

ORDERS = ("program", "flops", "bytes")
"""What may come first among those under the same row."""

_CALLS = frozenset({"fusion", "call", "while", "conditional", "async-start", "custom-call"})
_NAMED = 4  # opcodes that the row of all others names


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """A line of a tree, each under the last one before it whose `depth` is one less.

    `kind` is ``module``, ``computation``, ``scope``, ``others`` (instructions that have no row of their own), or the
    opcode of the instruction `name`.  `instructions` counts those in it, and in all that it calls, as they are written;
    `runs` how often it runs in one run of the module, 0 where the costs leave it out (branches that cost less); `cost`
    is that of all these runs.  `hidden` rows below it are left out for the depth.
    """

    depth: int
    kind: str
    name: str
    title: str
    instructions: int
    runs: int
    cost: Cost
    note: str = ""
    hidden: int = 0


def call_tree(
    module: Module, *, depth: int | None = None, every: bool = False, order: str = "program"
) -> list[TreeRow]:
    """The entry, under it what it calls (loops, fusions, branches, calls), and so on, down to `depth`.

    With `every` each instruction has a row, else those that call nothing share one.  What several call is shown in full
    where it comes first.  ValueError for an `order` that is none of `ORDERS`.
    """
    return _cut(_Calls(module, every, order).rows(), depth)


def scope_tree(module: Module, *, depth: int | None = None, order: str = "program") -> list[TreeRow]:
    """The scopes of ``op_name``, down to `depth`; every instruction counts in the scope that names it.

    ValueError for an `order` that is none of `ORDERS`.
    """
    return _cut(_scope_rows(module, order), depth)


def as_json(rows: Iterable[TreeRow]) -> list[dict[str, Any]]:
    """The rows for programs."""
    return [asdict(row) for row in rows]


# ---- by calls


class _Calls:
    def __init__(self, module: Module, every: bool, order: str) -> None:
        self.module, self.every, self.order = module, every, _checked(order)
        self.costs = ModuleCost(module)
        self.sizes: dict[Computation, int] = {}
        for computation in module.callees_first():
            self.sizes[computation] = len(computation) + sum(
                self.sizes[callee] for one in computation.calls if one.opcode in _CALLS for callee in one.called
            )
        self.shown: set[Computation] = set()

    def rows(self) -> Iterator[TreeRow]:
        """In the order of reading, without recursion: calls may be nested deep."""
        entry = self.module.entry
        top = TreeRow(
            depth=0, kind="computation", name=entry.name, title=entry.name, instructions=self.sizes[entry], runs=1,
            cost=self.costs.total,
        )  # fmt: skip
        yield top
        self.shown.add(entry)
        stack = [self._inside(entry, 1, 1, False)]
        while stack:
            found = next(stack[-1], None)
            if found is None:
                stack.pop()
                continue
            row, callees, fused = found
            known = [callee for callee, _, _ in callees if callee in self.shown]
            if known and len(known) == len(callees):
                yield replace(row, note="; ".join(filter(None, [row.note, "as above"])))
                continue
            yield row
            if len(callees) == 1:
                callee, runs, _ = callees[0]
                self.shown.add(callee)
                stack.append(self._inside(callee, row.depth + 1, runs, fused))
            elif callees:
                stack.append(self._roles(callees, row.depth + 1, fused))

    def _inside(
        self, computation: Computation, depth: int, runs: int, fused: bool
    ) -> Iterator[tuple[TreeRow, list[tuple[Computation, int, str]], bool]]:
        """The rows of a computation, with what each calls (computation, runs, role)."""
        found: list[tuple[TreeRow, list[tuple[Computation, int, str]], bool]] = []
        others: list[Instruction] = []
        for one in computation:
            callees = self._callees(one, runs) if one.opcode in _CALLS else []
            if callees or self.every:
                found.append((self._row(one, depth, runs, fused), callees, fused or one.opcode == "fusion"))
            else:
                others.append(one)
        found.sort(key=lambda entry: _rank(entry[0], self.order))
        yield from found
        if others:
            cost = sum((self._own(one, fused) for one in others), Cost())
            opcodes = Counter(one.written for one in others).most_common()
            words = [f"{count:,} {opcode}" for opcode, count in opcodes[:_NAMED]]
            words += [f"{sum(count for _, count in opcodes[_NAMED:]):,} more"] if len(opcodes) > _NAMED else []
            row = TreeRow(
                depth=depth, kind="others", name="", title=", ".join(words), instructions=len(others), runs=runs,
                cost=cost.times(runs),
            )  # fmt: skip
            yield row, [], fused

    def _row(self, one: Instruction, depth: int, runs: int, fused: bool) -> TreeRow:
        cost = self.costs.of(one)
        calls = one.called if one.opcode in _CALLS else []
        note = ""
        if one.opcode == "while":
            trips = self.costs.trips(one)
            note = f"{trips:,} trips" if trips is not None else "number of trips unknown"
        return TreeRow(
            depth=depth, kind=one.written, name=one.name, title=f"{one.name}: {title(one)}",
            instructions=1 + sum(self.sizes[callee] for callee in calls), runs=runs,
            cost=(cost.arithmetic() if fused else cost).times(runs), note=note,
        )  # fmt: skip

    def _own(self, one: Instruction, fused: bool) -> Cost:
        cost = self.costs.own(one)
        return cost.arithmetic() if fused else cost

    def _callees(self, one: Instruction, runs: int) -> list[tuple[Computation, int, str]]:
        counted: dict[Computation, int] = {}
        for callee, times in self.costs.runs(one):
            counted[callee] = counted.get(callee, 0) + times * runs
        return [(callee, counted.get(callee, 0), role) for callee, role in _roles(one)]

    def _roles(
        self, callees: list[tuple[Computation, int, str]], depth: int, fused: bool
    ) -> Iterator[tuple[TreeRow, list[tuple[Computation, int, str]], bool]]:
        """A row for each of several computations that one instruction calls."""
        for callee, runs, role in callees:
            cost = self.costs.computation(callee)
            note = "" if runs else "not counted: another branch costs more"
            row = TreeRow(
                depth=depth, kind="computation", name=callee.name, title=f"{role} {callee.name}",
                instructions=self.sizes[callee], runs=runs, cost=(cost.arithmetic() if fused else cost).times(runs),
                note=note,
            )  # fmt: skip
            yield row, [(callee, runs, "")], fused


def _roles(one: Instruction) -> Iterator[tuple[Computation, str]]:
    """The computations that an instruction calls, and what for."""
    if one.opcode == "while":
        yield one.attributes["body"], "body"
        yield one.attributes["condition"], "condition"
    elif one.opcode == "conditional":
        for number, callee in enumerate(one.called):
            yield callee, f"branch {number}"
    else:
        for callee in one.called:
            yield callee, "calls"


# ---- by scopes


@dataclass(slots=True)
class _Scope:
    inner: dict[str, _Scope] = field(default_factory=dict)
    instructions: int = 0  # of its own, those of inner ones aside, until they are added
    runs: int = 0
    cost: Cost = field(default_factory=Cost)


def _scope_rows(module: Module, order: str) -> Iterator[TreeRow]:
    order = _checked(order)
    top, unnamed = _Scope(), _Scope()
    _fill(module, top, unnamed)
    walk = _preorder(top)
    for scope in reversed(walk):
        for inner in scope.inner.values():
            scope.instructions += inner.instructions
            scope.cost += inner.cost
            scope.runs = max(scope.runs, inner.runs)
    total = top.cost + unnamed.cost
    yield TreeRow(
        depth=0, kind="module", name=module.name, title=module.name,
        instructions=top.instructions + unnamed.instructions, runs=1, cost=total,
    )  # fmt: skip
    stack = [(1, name, inner) for name, inner in reversed(_ordered(top, order))]
    while stack:
        depth, name, scope = stack.pop()
        while len(scope.inner) == 1 and next(iter(scope.inner.values())).instructions == scope.instructions:
            ((word, scope),) = scope.inner.items()  # a scope that only holds another one
            name = f"{name}/{word}"
        yield TreeRow(
            depth=depth, kind="scope", name=name, title=name, instructions=scope.instructions, runs=scope.runs,
            cost=scope.cost,
        )  # fmt: skip
        stack += [(depth + 1, word, inner) for word, inner in reversed(_ordered(scope, order))]
    if unnamed.instructions:
        yield TreeRow(
            depth=1, kind="others", name="", title="without op_name", instructions=unnamed.instructions,
            runs=unnamed.runs, cost=unnamed.cost,
        )  # fmt: skip


def _fill(module: Module, top: _Scope, unnamed: _Scope) -> None:
    costs = ModuleCost(module)
    runs = costs.executions()
    fused = {callee for one in module.instructions() if one.opcode == "fusion" for callee in one.called}
    for computation in module.callees_first():
        times = runs.get(computation, 0)
        for one in computation:
            words = scope_of(one.metadata.op_name) if one.metadata is not None else ()
            scope = top if words else unnamed
            for word in words:
                scope = scope.inner.setdefault(word, _Scope())
            cost = costs.own(one)
            scope.instructions += 1
            scope.runs = max(scope.runs, times)
            scope.cost += (cost.arithmetic() if computation in fused else cost).times(times) if times else Cost()


def _preorder(top: _Scope) -> list[_Scope]:
    found, stack = [], [top]
    while stack:
        scope = stack.pop()
        found.append(scope)
        stack += scope.inner.values()
    return found


def _ordered(scope: _Scope, order: str) -> list[tuple[str, _Scope]]:
    if order == "program":
        return list(scope.inner.items())
    return sorted(scope.inner.items(), key=lambda item: -_amount(item[1].cost, order))


# ---- both


def _checked(order: str) -> str:
    if order not in ORDERS:
        raise ValueError(f"{order!r} is no order of a tree: {', '.join(ORDERS)} are")
    return order


def _amount(cost: Cost, order: str) -> int:
    return cost.flops + cost.transcendentals if order == "flops" else cost.bytes


def _rank(row: TreeRow, order: str) -> int:
    return 0 if order == "program" else -_amount(row.cost, order)


def _cut(rows: Iterable[TreeRow], depth: int | None) -> list[TreeRow]:
    """The rows down to a depth; the last one shown above those that are left out says how many they are."""
    found: list[TreeRow] = []
    hidden: dict[int, int] = {}
    for row in rows:
        if depth is None or row.depth <= depth:
            found.append(row)
        else:
            hidden[len(found) - 1] = hidden.get(len(found) - 1, 0) + 1
    return [replace(row, hidden=hidden[n]) if n in hidden else row for n, row in enumerate(found)]
