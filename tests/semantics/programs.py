"""Whole programs drawn from all families: what one instruction computes, others read, in computations in computations.

A family asks its sample for operands.  Here it may get what the program computed before, as far as that makes no
difference: integers, and what the family takes `anything` for; and inside of a called computation, parameters of that
computation, to which the caller passes operands it drew in the same way.  ``python -m semantics.programs`` runs many.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from random import Random
from typing import Any

import numpy as np

import semantics.families  # noqa: F401
from hlotool.codegen.machine import Machine, named, runs_here
from hlotool.driver import compile_module, optimise
from hlotool.harness.check_each import CheckEach
from hlotool.harness.compare import compare
from hlotool.ir import (
    ELEMENT_TYPES,
    Computation,
    Instruction,
    Layout,
    Module,
    Shape,
    array,
    dtype_of,
    scalar,
    tuple_shape,
)
from hlotool.ir.builder import Builder
from hlotool.ir.dynamic import PAD_TO_STATIC, static
from hlotool.ir.verifier import check
from hlotool.text.parser import parse
from hlotool.text.printer import print_module
from semantics.check import Failure, leaves_of
from semantics.sample import FAMILIES, Family, Sample
from semantics.units import distance
from semantics.values import Array, Filler, anything, below, within

__all__ = ["run_program"]

_MEETINGS = frozenset({
    "all-gather", "all-gather-done", "all-gather-start", "all-reduce", "all-reduce-done", "all-reduce-start",
    "all-to-all", "collective-broadcast", "collective-permute", "collective-permute-done", "collective-permute-start",
    "partition-id", "ragged-all-to-all", "recv", "recv-done", "reduce-scatter", "replica-id", "send", "send-done",
})  # fmt: skip
"""They want several devices, all of which come by."""

_ENTRY_ONLY = frozenset({"recv", "recv-done", "send", "send-done"})
_NEVER = frozenset({"infeed", "outfeed", "rng", "rng-get-and-update-state"})
_OWN_COMPUTATIONS = frozenset({"async-done", "async-start", "async-update", "call", "conditional", "fusion", "while"})
"""Families of these write static shapes into computations: not for programs with dynamic sizes."""

_BITS_SHOW = frozenset({
    "batch-norm-grad", "batch-norm-inference", "batch-norm-training", "bitcast", "bitcast-convert", "cholesky",
    "custom-call", "fft", "power", "remainder", "rng-bit-generator", "scaled-dot", "select-and-scatter", "sort",
    "stochastic-convert", "topk", "triangular-solve",
})  # fmt: skip
"""What makes a difference of the bits of a NaN, or needs floats of its own making."""

_CELLS: dict[str, list[tuple[Family, str]]] = {
    opcode: [(family, kind) for family in families for kind in family.types]
    for opcode, families in FAMILIES.items()
    if opcode not in _NEVER
}


class _Flagging(Builder):
    """Declares all dimensions dynamic of what is made of arrays with dynamic sizes; a reshape sees the bounds."""

    def add(
        self,
        opcode: str,
        shape: Shape | None,
        operands: Iterable[Instruction] = (),
        attributes: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> Instruction:
        given = list(operands)
        if opcode in ("reshape", "bitcast"):
            given = [self.padded(o) for o in given]
        made = super().add(opcode, shape, given, attributes, name)
        if opcode not in _KEEPS and not all(o.shape.is_static for o in given):
            made.shape = _flagged(made.shape)
        return made

    def padded(self, value: Instruction) -> Instruction:
        if value.shape.is_static:
            return value
        parts = tuple_shape([static(value.shape), *(scalar("s32") for _ in value.shape.dimensions)])
        return self.gte(self.add("custom-call", parts, (value,), {"custom_call_target": PAD_TO_STATIC}), 0)


_KEEPS = _OWN_COMPUTATIONS | {
    "custom-call", "domain", "get-tuple-element", "opt-barrier", "parameter", "set-dimension-size", "tuple",
}  # fmt: skip


def _flagged(shape: Shape) -> Shape:
    if shape.is_tuple:
        return replace(shape, elements=tuple(map(_flagged, shape.elements)))
    return replace(shape, dynamic=(True,) * shape.rank) if shape.is_array and shape.rank else shape


@dataclass
class _Scope:
    """A computation being written."""

    builder: Builder
    outer: _Scope | None = None
    given: list[Instruction] = field(default_factory=list)  # what the caller passes
    exact: list[Instruction] = field(default_factory=list)  # arrays on which native code and evaluator agree
    rough: list[tuple[Instruction, float | None]] = field(default_factory=list)  # others, and how far they may differ


class Program(Sample):
    """A sample of `length` steps; on several devices, or with dynamic sizes, where told."""

    def __init__(self, rng: Random, length: int, devices: bool, dynamic: bool) -> None:
        super().__init__(rng, "program")
        self.devices, self.dynamic = devices, dynamic
        self.builder = _Flagging(self.entry)
        self.scope = _Scope(self.builder)
        self.opcode = ""
        self.large = rng.random() < 0.3
        self.ulps: list[float | None] = []
        self._steps(length, depth=0, meets=devices)

    # ---- operands

    def sizes(self, rank: int | None = None, most: int = 200, zero: bool = True) -> tuple[int, ...]:
        return super().sizes(rank, most * 20 if self.large and most >= 30 else most, zero)

    def operand(self, kind: str, sizes: Sequence[int] = (), values: Filler = anything) -> Instruction:
        exact = ELEMENT_TYPES[kind].kind in ("pred", "signed", "unsigned") or self.opcode not in _BITS_SHOW
        if values is anything and exact and self.rng.random() < 0.8:
            wanted = tuple(sizes)
            alike = [v for v in self.scope.exact if v.shape.element_type == kind]
            fitting = [v for v in alike if v.shape.dimensions == wanted]
            if fitting:
                return self.rng.choice(fitting)
            others = [v for v in alike if v.shape.size and v.shape.is_static]
            if others and self.rng.random() < 0.7:
                return self._adapted(self.rng.choice(others), wanted)
        return self.parameter(array(kind, tuple(sizes)), values)

    def _adapted(self, value: Instruction, sizes: tuple[int, ...]) -> Instruction:
        """An array of other sizes with elements of `value`."""
        build, own = self.builder, value.shape.dimensions
        rank = len(own)
        if prod(own) == prod(sizes):
            return build.reshape(value, sizes)
        if len(sizes) >= rank and own == sizes[len(sizes) - rank :]:
            return build.broadcast(value, range(len(sizes) - rank, len(sizes)), sizes)
        if rank == len(sizes):
            return build.pad(value, self._number(value), [(0, n - m, 0) for m, n in zip(own, sizes, strict=True)])
        flat = build.reshape(value, (prod(own),))
        return build.reshape(build.pad(flat, self._number(value), [(0, prod(sizes) - prod(own), 0)]), sizes)

    def _number(self, value: Instruction) -> Instruction:
        return _same(self.builder, scalar(value.shape.element_type))

    def parameter(self, shape: Shape, values: Filler = anything) -> Instruction:
        scope = self.scope
        if scope.outer is None:
            made = super().parameter(shape, values)
            for d in range(shape.rank if self.dynamic and shape.is_array else 0):
                if self.rng.random() < 0.3:
                    size = super().parameter(scalar("s32"), below(shape.dimensions[d]))
                    made = self.builder.add("set-dimension-size", None, (made, size), {"dimensions": (d,)})
        else:
            self._enter(scope.outer)
            passed = (
                self.operand(shape.element_type, shape.dimensions, values)
                if shape.is_array
                else self.parameter(shape, values)
            )
            self._enter(scope)
            made = self.builder.parameter(len(scope.given), passed.shape)
            scope.given.append(passed)
        if made.shape.is_array and values is anything:
            scope.exact.append(made)
        return made

    # ---- steps

    def _enter(self, scope: _Scope) -> None:
        self.scope, self.builder = scope, scope.builder

    def _steps(self, length: int, depth: int, meets: bool) -> None:
        for _ in range(length):
            if depth < 2 and self.rng.random() < 0.22:
                self._nested(depth, meets)
            else:
                self._instruction(depth, meets)

    def _instruction(self, depth: int, meets: bool) -> None:
        left_out = set[str]() if meets else {*_MEETINGS}
        left_out |= _ENTRY_ONLY if depth else set()
        left_out |= _OWN_COMPUTATIONS if self.dynamic else set()
        opcode = self.rng.choice([opcode for opcode in _CELLS if opcode not in left_out])
        family, kind = self.rng.choice(_CELLS[opcode])
        self.opcode = opcode
        made = family.draw(self, opcode, kind)
        self.opcode = ""
        self.results.append(made)  # families number their channels by how many there are
        self._take(made, family.ulps)

    def _take(self, made: Instruction, ulps: float | None) -> None:
        for leaf in _leaves(self.builder, made):
            if ulps == 0:
                self.scope.exact.append(leaf)
            else:
                self.scope.rough.append((leaf, ulps))

    def _nested(self, depth: int, meets: bool) -> None:
        """Some steps in a computation that is called in one of all ways."""
        outer = self.scope
        way = self.rng.choice((self._call, self._fusion, self._asynchronous, self._branch, self._loop))
        called = Computation(self.module.unique_name("part"))
        inner = _Scope(_Flagging(called), outer)
        self._enter(inner)
        self._steps(self.rng.randint(1, 4), depth + 1, meets and way in (self._call, self._asynchronous))
        new = [v for v in inner.exact if v.opcode != "parameter"]
        chosen: list[tuple[Instruction, float | None]] = [(v, 0) for v in self.rng.sample(new, min(len(new), 3))]
        chosen += inner.rough[:2]
        called.root = self.builder.tuple([value for value, _ in chosen])
        self.module.add(called)
        self._enter(outer)
        made = way(called, inner.given)
        for number, (_, ulps) in enumerate(chosen):
            self._take(self.builder.gte(made, number), ulps)

    def _call(self, called: Computation, given: list[Instruction]) -> Instruction:
        return self.builder.call(called, given)

    def _fusion(self, called: Computation, given: list[Instruction]) -> Instruction:
        return self.builder.fusion(called, given, self.rng.choice(("kLoop", "kInput", "kOutput", "kCustom")))

    def _asynchronous(self, called: Computation, given: list[Instruction]) -> Instruction:
        build, result = self.builder, called.root.shape
        shape = tuple_shape([tuple_shape([g.shape for g in given]), result, scalar("u32")])
        current = build.add("async-start", shape, given, {"calls": called})
        for _ in range(self.rng.randint(0, 1)):
            current = build.add("async-update", shape, (current,))
        return build.add("async-done", result, (current,))

    def _branch(self, called: Computation, given: list[Instruction]) -> Instruction:
        """The other branch gives arguments, or constants."""
        build, rng = self.builder, self.rng
        argument = build.tuple(given)

        def one(inner: Builder, p: list[Instruction]) -> Instruction:
            return inner.call(called, [inner.gte(p[0], n) for n in range(len(given))])

        def other(inner: Builder, p: list[Instruction]) -> Instruction:
            results = []
            for shape in called.root.shape.elements:
                alike = [n for n, g in enumerate(given) if g.shape == shape]
                results.append(inner.gte(p[0], rng.choice(alike)) if alike else _same(inner, shape))
            return inner.tuple(results)

        first, second = (self.flagging([argument.shape], body, "branch") for body in (one, other))
        if rng.random() < 0.5:
            attributes: dict[str, Any] = {"true_computation": first, "false_computation": second}
            return build.add("conditional", None, (self.operand("pred"), argument, argument), attributes)
        selector = self.operand("s32", (), within(-1, 3))
        attributes = {"branch_computations": (first, second, first)}
        return build.add("conditional", None, (selector, *[argument] * 3), attributes)

    def _loop(self, called: Computation, given: list[Instruction]) -> Instruction:
        """(counter, results, arguments): results become arguments where they fit, or do not."""
        build, rng = self.builder, self.rng
        shapes = called.root.shape.elements
        count = len(shapes)
        state = build.tuple([build.scalar_constant(0, "s32"), *(_same(build, one) for one in shapes), *given])
        free = [n for n, g in enumerate(given) if g in self.scope.exact]
        feeds = [[n for n in free if given[n].shape == shape] for shape in shapes]

        def turn(inner: Builder, p: list[Instruction]) -> Instruction:
            arguments = [inner.gte(p[0], 1 + count + n) for n in range(len(given))]
            made = inner.call(called, arguments)
            results = [inner.gte(made, n) for n in range(count)]
            exact = [ELEMENT_TYPES[s.element_type].kind in ("pred", "signed", "unsigned") for s in shapes]
            for result, places, sure in zip(results, feeds, exact, strict=True):
                if places and sure and rng.random() < 0.7:
                    arguments[rng.choice(places)] = result
            following = inner.binary("add", inner.gte(p[0], 0), inner.scalar_constant(1, "s32"))
            return inner.tuple([following, *results, *arguments])

        trips = rng.randint(0, 3)
        body = self.flagging([state.shape], turn, "turn")
        condition = self.flagging(
            [state.shape], lambda b, p: b.compare(b.gte(p[0], 0), b.scalar_constant(trips, "s32"), "LT"), "more"
        )
        made = build.while_(state, condition, body)
        return build.tuple([build.gte(made, 1 + n) for n in range(count)])

    def flagging(
        self, shapes: Sequence[Shape], body: Callable[[Builder, list[Instruction]], Instruction], name: str
    ) -> Computation:
        made = Computation(self.module.unique_name(name))
        build = _Flagging(made)
        made.root = body(build, [build.parameter(n, shape) for n, shape in enumerate(shapes)])
        return self.module.add(made)

    def finish(self) -> Module:
        new = [v for v in self.scope.exact if v.opcode != "parameter"]
        if self.rng.random() < 0.4:  # then much is not read
            new = self.rng.sample(new, min(len(new), 3))
        chosen: list[tuple[Instruction, float | None]] = [*((v, 0) for v in new), *self.scope.rough]
        self.results, self.ulps = [value for value, _ in chosen], [ulps for _, ulps in chosen]
        return super().finish()


def _same(build: Builder, shape: Shape) -> Instruction:
    """One number in every element: 1, or 0 where there is no 1."""
    number = (np.zeros if shape.element_type == "s1" else np.ones)((), dtype_of(shape.element_type))
    one = build.constant(number, shape.element_type)
    return build.broadcast(one, (), shape) if shape.dimensions else one


def _leaves(build: Builder, value: Instruction) -> Iterator[Instruction]:
    if value.shape.is_array:
        yield value
    elif value.shape.is_tuple:
        for index in range(len(value.shape.elements)):
            yield from _leaves(build, build.gte(value, index))


def _decorate(module: Module, rng: Random) -> None:
    """Layouts other than row-major, and control dependencies, which change nothing."""
    for computation in module.computations.values():
        order = [i for i in computation if i.opcode != "parameter"]
        for i in order:
            free = all(u.has("elementwise") or u.opcode in ("dot", "reduce", "transpose") for u in i.users)
            free = free and i.shape.is_array and i.opcode != "bitcast" and not i.is_root
            if free and i.shape.rank > 1 and rng.random() < 0.4:
                i.shape = i.shape.with_layout(Layout(tuple(rng.sample(range(i.shape.rank), i.shape.rank))))
        for _ in range(rng.randint(0, 2) if len(order) > 1 else 0):
            first, second = sorted(rng.sample(range(len(order)), 2))
            order[second].add_control_predecessor(order[first])


_PIPELINES = ("default", "default", "O0", "O1", "O3", "simplify", "unfuse,expand,inline")
_MACHINES = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "host,cores=7", "host,l1=4K,l2=16K,l3=64K,cores=3")


def _machine(rng: Random) -> Machine | None:
    machine = named(rng.choice(_MACHINES))
    return machine if rng.random() < 0.3 and runs_here(machine) else None


def run_program(seed: int, length: int | None = None) -> Failure | None:
    """One program, through one pipeline; now and then evaluated after each pass."""
    rng = Random(seed)
    text, rows = "", list[list[Array]]()
    try:
        program = Program(rng, length or rng.randint(2, 15), rng.random() < 0.25, rng.random() < 0.25)
        module = program.finish()
        if rng.random() < 0.4:
            _decorate(module, rng)
        text = print_module(module)
        check(module)
        pipeline = rng.choice(_PIPELINES)
        reference = compile_module(module, "evaluate")
        executable = compile_module(
            parse(text) if rng.random() < 0.5 else module, pipeline=pipeline, threads=rng.choice((1, 2)),
            machine=_machine(rng),
        )  # fmt: skip
        generator = np.random.default_rng(seed)
        with np.errstate(over="ignore"):  # narrow types
            rows = [program.arguments(generator) for _ in range(reference.devices)]
        both = zip(executable.run_devices(rows), reference.run_devices(rows), strict=True)
        why = next(filter(None, (_difference(program, *results) for results in both)), "")
        if why:
            return Failure(seed, f"{pipeline}: {why}", text, tuple(a for row in rows for a in row))
        if len(rows) == 1 and rng.random() < 0.25:
            optimise(module, pipeline, instruments=[CheckEach(module, rows[0])])
    except Exception:
        return Failure(seed, traceback.format_exc(limit=-6), text, tuple(a for row in rows for a in row))
    return None


def _difference(program: Program, got: Sequence[Array], want: Sequence[Array]) -> str:
    ulps = [ulps for ulps, r in zip(program.ulps, program.results, strict=True) for _ in leaves_of(r.shape)]
    for number, (g, w, limit) in enumerate(zip(got, want, ulps, strict=True)):
        if limit is None:
            comparison = compare(g, w)
            why = "" if comparison.ok else str(comparison)
        else:
            far = distance(g, w, signed_zeros=limit == 0)
            why = f"{np.count_nonzero(far > limit)} of {g.size} elements differ" if (far > limit).any() else ""
        if why:
            return f"result {number}, {program.results[number].name}: {why}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m semantics.programs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--length", type=int, help="steps of each one")
    options = parser.parse_args()
    start, failed = time.monotonic(), 0
    for seed in range(options.seed, options.seed + options.programs):
        failure = run_program(seed, options.length)
        if failure is not None:
            failed += 1
            print(f"{failure}\nagain: python -m semantics.programs --programs 1 --seed {seed}", flush=True)
    print(f"{options.programs} programs, {failed} failed, {time.monotonic() - start:.0f} s", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
