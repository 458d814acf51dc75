"""Branches and loops, whose functions are graphs of their own: ``torch.cond``, ``while_loop``, ``scan`` and ``map``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from hlotool.ir import Computation, Instruction
from hlotool.ir.builder import Builder
from hlotool.ir.shape import scalar
from hlotool.torch.lowering import Context, Refused, Result, Subgraph, Value, is_tensor, lowering
from hlotool.torch.ops.pieces import element, sizes

__all__: list[str] = []

Write = Callable[[Builder, list[Instruction]], list[Instruction]]
"""What a computation gives, of a builder and the elements of the tuple that it takes."""


def _computation(c: Context, name: str, given: Instruction, write: Write, alone: bool = False) -> Computation:
    """A computation of one tuple with the shape of `given`; gives one, too, or its only element `alone`."""
    made = c.own(Computation(name))
    b = Builder(made, like=c.builder.like)
    parameter = b.parameter(0, given.shape, "given")
    found = write(b, [b.gte(parameter, n) for n in range(len(given.operands))])
    made.root = found[0] if alone else b.tuple(found)
    if made.module is not None:
        made.module.remove(made)  # after those that it calls
    return c.own(made)


def _filled(values: Sequence[Any], tensors: Sequence[Instruction]) -> list[Any]:
    """`values`, with these in the place of the tensors among them."""
    rest = iter(tensors)
    return [next(rest) if is_tensor(value) else value for value in values]


def _tensors(found: Sequence[Any], what: str) -> list[Instruction]:
    if not all(map(is_tensor, found)):
        raise Refused(f"{what} that gives something else than tensors")
    return list(found)


@lowering("cond")
def cond(c: Context, pred: Value, true: Subgraph, false: Subgraph, operands: Sequence[Any] = (), **_: Any) -> Result:
    """Only the branch that is chosen runs."""
    b = c.builder
    if not isinstance(pred, Instruction):
        return tuple(_tensors((true if pred else false).write(b, operands), "a branch"))
    given = b.tuple([one for one in operands if is_tensor(one)])
    there = [one is not None for one in c.expected]

    def branch(graph: Subgraph, name: str) -> Computation:
        def write(b: Builder, own: list[Instruction]) -> list[Instruction]:
            found = graph.write(b, _filled(operands, own))
            return _tensors([one for one, kept in zip(found, there, strict=True) if kept], "a branch")

        return _computation(c, name, given, write)

    branches = branch(true, "on_true"), branch(false, "on_false")
    if branches[0].root.shape != branches[1].root.shape:
        raise Refused("branches that give different types or sizes")
    chosen = c.convert(b.reshape(pred, ()), "pred")
    attributes = {"true_computation": branches[0], "false_computation": branches[1]}
    made = b.add("conditional", branches[0].root.shape, (chosen, given, given), attributes)
    found = iter([b.gte(made, n) for n in range(sum(there))])
    return tuple(next(found) if kept else None for kept in there)


@lowering("while_loop")
def while_loop(
    c: Context, cond_fn: Subgraph, body_fn: Subgraph, carried: Sequence[Any], additional: Sequence[Any], **_: Any
) -> Result:
    b, count = c.builder, len(carried)
    _tensors(carried, "a loop")
    values = (*carried, *additional)
    initial = b.tuple([one for one in values if is_tensor(one)])

    def condition(b: Builder, own: list[Instruction]) -> list[Instruction]:
        found = cond_fn.write(b, _filled(values, own))[0]
        if not is_tensor(found):
            raise Refused("a loop whose condition is a number")
        return [b.reshape(found, ())]

    def body(b: Builder, own: list[Instruction]) -> list[Instruction]:
        return [*_tensors(body_fn.write(b, _filled(values, own)), "a loop"), *own[count:]]

    step = _computation(c, "loop_body", initial, body)
    if step.root.shape != initial.shape:
        raise Refused("a loop that changes types or sizes")
    made = b.while_(initial, _computation(c, "loop_condition", initial, condition, alone=True), step)
    return tuple(b.gte(made, n) for n in range(count))


Step = Callable[[Builder, list[Any], list[Any], list[Any]], tuple[list[Instruction], list[Instruction]]]
"""What is carried on, and a row of each result; of a builder, what is carried, a row of each input, and the others."""


def _over_rows(
    c: Context, carried: Sequence[Instruction], rows: Sequence[Instruction], others: Sequence[Any],
    results: Sequence[tuple[str, tuple[int, ...]]], step: Step,
) -> tuple[list[Instruction], list[Instruction]]:  # fmt: skip
    """A loop over the first dimension of `rows`: what is carried at the end, and the rows that were made.

    `results` are the types and dimensions of the arrays of rows that `step` gives.
    """
    length = sizes(rows[0])[0]
    made = [c.full(0, *one) for one in results]
    fixed = [one for one in others if is_tensor(one)]
    initial = c.builder.tuple([c.full(0, "s32"), *carried, *made, *rows, *fixed])
    ends = [1, 1 + len(carried), 1 + len(carried) + len(made)]
    ends.append(ends[-1] + len(rows))

    def body(b: Builder, own: list[Instruction]) -> list[Instruction]:
        number, zero = own[0], b.splat(0, scalar("s32"))
        state, built, given = (own[first:end] for first, end in pairwise(ends))

        def places(a: Instruction) -> list[Instruction]:
            return [number] + [zero] * (len(sizes(a)) - 1)

        parts = [b.reshape(b.dynamic_slice(a, places(a), (1, *sizes(a)[1:])), sizes(a)[1:]) for a in given]
        after, new = step(b, state, parts, _filled(others, own[ends[-1] :]))
        if [a.shape for a in after] != [a.shape for a in state]:
            raise Refused("a loop that changes types or sizes")
        built = [
            b.dynamic_update_slice(a, b.reshape(row, (1, *sizes(a)[1:])), places(a))
            for a, row in zip(built, new, strict=True)
        ]
        return [b.binary("add", number, b.splat(1, scalar("s32"))), *after, *built, *given, *own[ends[-1] :]]

    def condition(b: Builder, own: list[Instruction]) -> list[Instruction]:
        return [b.compare(own[0], b.splat(length, scalar("s32")), "LT")]

    asked = _computation(c, "rows_condition", initial, condition, alone=True)
    found = c.builder.while_(initial, asked, _computation(c, "rows_body", initial, body))
    parts = [c.builder.gte(found, n) for n in range(1, ends[2])]
    return parts[: len(carried)], parts[len(carried) :]


def _results(c: Context, skipped: int = 0) -> list[tuple[str, tuple[int, ...]]]:
    """Types and dimensions of the results behind the first ones."""
    found = [one for one in c.expected[skipped:] if one is not None]
    if len(found) != len(c.expected) - skipped:
        raise Refused("a loop that gives something else than tensors")
    return found


@lowering("scan")
def scan(
    c: Context, combine_fn: Subgraph, init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any], **_: Any
) -> Result:
    def step(b: Builder, state: list[Any], parts: list[Any], others: list[Any]) -> tuple[list[Any], list[Any]]:
        found = _tensors(combine_fn.write(b, [*state, *parts, *others]), "a step")
        return found[: len(state)], found[len(state) :]

    carried, made = _over_rows(c, _tensors(init, "a scan"), xs, additional, _results(c, len(init)), step)
    return (*carried, *made)


@lowering("map_impl")
def map_(c: Context, f: Subgraph, xs: Sequence[Any], additional: Sequence[Any], **_: Any) -> Result:
    def step(b: Builder, state: list[Any], parts: list[Any], others: list[Any]) -> tuple[list[Any], list[Any]]:
        return [], _tensors(f.write(b, [*parts, *others]), "a step")

    return tuple(_over_rows(c, (), xs, additional, _results(c), step)[1])


@lowering("associative_scan")
def associative_scan(
    c: Context, combine_fn: Subgraph, xs: Sequence[Any], additional: Sequence[Any], **_: Any
) -> Result:
    """In order: each row is what came before, combined with it; the first one stays."""
    b, rows = c.builder, _tensors(xs, "a scan")
    first = [b.slice(a, [0] * len(sizes(a)), (1, *sizes(a)[1:]), [1] * len(sizes(a))) for a in rows]
    rest = [b.slice(a, [1] + [0] * (len(sizes(a)) - 1), sizes(a), [1] * len(sizes(a))) for a in rows]
    if not sizes(rest[0])[0]:
        return tuple(rows)

    def step(b: Builder, state: list[Any], parts: list[Any], others: list[Any]) -> tuple[list[Any], list[Any]]:
        found = _tensors(combine_fn.write(b, [*state, *parts, *others]), "a step")
        return found, found

    initial = [b.reshape(a, sizes(a)[1:]) for a in first]
    made = _over_rows(c, initial, rest, additional, [(element(a), sizes(a)) for a in rest], step)[1]
    return tuple(b.concatenate((head, tail), 0) for head, tail in zip(first, made, strict=True))
