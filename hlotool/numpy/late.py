"""Programs for many sizes: what ``jit(dynamic=...)`` and ``jit(bucket=...)`` compile.

The function is traced for the bound and a few smaller sizes; what the modules have in common becomes one program, which
takes the sizes as arguments (`hlotool.passes.dynamic.family`, `.late_sizes`).  It is traced for every other size when
that comes for the first time, which takes no compilation: only if the module is of the family is the program run, so
that nothing rests on a guess.  A size for which Python wrote another module has a program of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy

from hlotool.ir import HloError, Module, dtype_of
from hlotool.lazy_dataclass import dataclass
from hlotool.numpy.array import Array
from hlotool.numpy.compiling import compile_or_recall
from hlotool.numpy.errors import ArgumentError, tracing_error, type_error, value_error
from hlotool.numpy.pytree import Structure, leaf_paths, unflatten
from hlotool.numpy.trace import Traced
from hlotool.passes.dynamic.family import DifferentError, Family, family_of, member_of, place_of
from hlotool.passes.dynamic.late_sizes import LateSizes, late_sizes

__all__ = ["Axis", "LatePrograms", "SizeSpec", "axes_of", "size_spec"]

_POWERS = "powers of two"


@dataclass(frozen=True, slots=True)
class SizeSpec:
    """Of an argument, by position or name: the axes whose sizes come late, each with its bounds in order.

    No bounds stand for the powers of two.
    """

    argument: int | str
    axes: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of a leaf of the arguments whose size comes late."""

    leaf: int
    dimension: int
    bounds: tuple[int, ...]
    name: str

    def bound(self, size: int) -> int:
        """The size that an array is padded to."""
        if not self.bounds:
            return 1 << max(size - 1, 0).bit_length()
        for one in self.bounds:
            if size <= one:
                return one
        raise value_error(
            f"{self.name} has {size} elements along axis {self.dimension}, and the bound is {self.bounds[-1]}",
            "give a greater bound, or split the array",
        )


def size_spec(dynamic: Any, bucket: Any) -> tuple[SizeSpec, ...]:
    """The options `dynamic` and `bucket` of ``jit``, read."""
    found: dict[int | str, dict[int, tuple[int, ...]]] = {}
    for what, given in (("dynamic", dynamic), ("bucket", bucket)):
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise type_error(f"{what}: expected {{argument: {{axis: size}}}}, not {given!r}", _EXAMPLE[what])
        for argument, axes in given.items():
            if not isinstance(argument, (int, str)) or isinstance(argument, bool) or not isinstance(axes, Mapping):
                raise type_error(f"{what}: expected {{argument: {{axis: size}}}}, not {given!r}", _EXAMPLE[what])
            own = found.setdefault(argument, {})
            for axis, sizes in axes.items():
                if not isinstance(axis, int) or axis in own:
                    raise value_error(f"{what}: {argument!r} has no axis {axis!r}, or has it twice", _EXAMPLE[what])
                own[axis] = _bounds(what, sizes)
    return tuple(SizeSpec(argument, tuple(axes.items())) for argument, axes in found.items())


_EXAMPLE = {
    "dynamic": 'write dynamic={"x": {0: 64}} for sizes up to 64 of the first axis of the argument x',
    "bucket": 'write bucket={"x": {0: (16, 64, 256)}}, or "powers of two" for the sizes',
}


def _bounds(what: str, given: Any) -> tuple[int, ...]:
    if what == "bucket" and given == _POWERS:
        return ()
    listed = given if what == "bucket" and isinstance(given, (tuple, list)) else (given,)
    try:
        sizes = tuple(sorted({operator.index(one) for one in listed}))
    except TypeError as error:
        raise type_error(f"{what}: {given!r} is no size", _EXAMPLE[what]) from error
    if not sizes or sizes[0] < 1 or sizes[-1] >= 1 << 31:
        raise value_error(f"{what}: sizes are between 1 and 2**31 - 1, not {given!r}", _EXAMPLE[what])
    return sizes


def axes_of(spec: Sequence[SizeSpec], structure: Structure, kinds: Sequence[Any], names: Sequence[str]) -> list[Axis]:
    """The late dimensions among the leaves of arguments.  `names` are those of the parameters passed by position."""
    positional, named = structure[2], structure[3]
    parts = [(n, one) for n, one in enumerate(positional[2:])]
    ranges: dict[int | str, range] = {}
    first = 0
    for key, one in [*parts, *zip(named[1] or (), named[2:], strict=False)]:
        count = len(leaf_paths(one))
        ranges[key] = range(first, first + count)
        if isinstance(key, int) and key < len(names):
            ranges[names[key]] = ranges[key]
        first += count
    found = []
    for one in spec:
        if one.argument not in ranges:
            if isinstance(one.argument, int) or one.argument in names:
                continue  # it has its default
            raise value_error(f"dynamic=, bucket=: which argument {one.argument!r} is, the function does not say",
                              "give its number, or pass it by name")
        for leaf in ranges[one.argument]:
            if isinstance(kinds[leaf], type):
                raise type_error(f"argument {one.argument!r} is a number, and has no axes whose sizes could differ")
            rank = len(kinds[leaf][1])
            for axis, bounds in one.axes:
                if not -rank <= axis < rank:
                    raise value_error(f"argument {one.argument!r} has {rank} dimensions, and no axis {axis}")
                found.append(Axis(leaf, axis % rank, bounds, f"argument {one.argument!r}"))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Ready:
    """A program for one combination of sizes: what it is given behind the arguments, and the shapes of its results."""

    run: Callable[..., Any]
    padded: tuple[tuple[int, ...] | None, ...]  # the shapes that arguments and captured arrays are padded to
    captured: tuple[Array, ...]
    rest: tuple[Any, ...]
    structure: Structure
    shapes: tuple[tuple[int, ...], ...] | None

    def __call__(self, values: Sequence[Any]) -> Any:
        given = [*values, *(one._value for one in self.captured)]
        padded = [
            one if shape is None else _padded(one, shape) for one, shape in zip(given, self.padded, strict=False)
        ]
        results = self.run(*padded, *self.rest)
        if self.shapes is not None:
            results = [_cut(one, shape) for one, shape in zip(results, self.shapes, strict=True)]
        return unflatten(self.structure, map(Array, results))


def _padded(value: Any, shape: Sequence[int]) -> Any:
    held = numpy.asarray(value)
    if held.shape == tuple(shape):
        return held
    made = numpy.zeros(shape, held.dtype)
    made[tuple(map(slice, held.shape))] = held
    return made


def _cut(value: Any, shape: Sequence[int]) -> Any:
    if value.shape == tuple(shape):
        return value
    return numpy.ascontiguousarray(value[tuple(map(slice, shape))]) if shape else value


@dataclass(slots=True, eq=False)
class _General:
    """The program of a family, and the sizes at which it was made."""

    family: Family
    late: LateSizes
    run: Callable[..., Any]
    samples: list[tuple[int, ...]]
    structure: Structure
    bounds: tuple[tuple[int, ...], ...]  # the shapes of parameters at the bounds
    constants: tuple[tuple[int, ...], ...]


@dataclass(slots=True, eq=False)
class LatePrograms:
    """All programs of a function for arguments of one kind, whatever the sizes of some of their `axes` up to `bounds`.

    `trace` traces the function for such sizes.
    """

    name: str
    axes: tuple[Axis, ...]
    bounds: tuple[int, ...]
    trace: Callable[[Sequence[int]], Traced]
    compiled: Callable[[str], None]  # is told why, before each compilation
    known: dict[tuple[int, ...], _Ready] = field(default_factory=dict)
    generals: list[_General] = field(default_factory=list)
    reads: list[tuple[Array, Any]] = field(default_factory=list)  # constants of the programs, and what they held

    def __call__(self, sizes: tuple[int, ...], values: Sequence[Any]) -> Any:
        ready = self.known.get(sizes)
        if ready is None:
            ready = self.known[sizes] = self._ready(sizes)
        return ready(values)

    def _ready(self, sizes: tuple[int, ...]) -> _Ready:
        traced = self._traced(sizes)
        if all(0 in one.dimensions for one in traced.outputs):  # there is nothing to compute
            empty = [numpy.zeros(one.dimensions, dtype_of(one.element_type)) for one in traced.outputs]
            return _Ready(lambda *_: empty, (), (), (), traced.structure, None)
        module = traced.module()
        if not self.generals:
            self._make(self._groups(sizes), [sizes], f"for sizes up to {self._written(self.bounds)}")
        why: DifferentError | None = None
        for general in self.generals:
            try:
                return self._member(general, traced, module)
            except DifferentError as error:
                why = error
        assert why is not None
        if why.numbers:
            samples = list(dict.fromkeys([one for general in self.generals for one in general.samples]))
            try:
                reason = f"sizes {self._written(sizes)} need a more general program: {place_of(why.instruction)}{why}"
                self._make([None] * len(self.axes), [*samples[1:], sizes], reason)
                return self._member(self.generals[-1], traced, module)
            except (DifferentError, ArgumentError):
                pass
        run = compile_or_recall(module).run
        self.compiled(
            f"sizes {self._written(sizes)} have a program of their own, since the function did something else: "
            f"{place_of(why.instruction)}{why}"
        )
        return _Ready(run, (None,) * len(module.entry.parameters), traced.captured, (), traced.structure, None)

    def _written(self, sizes: Sequence[int]) -> str:
        return ", ".join(f"{size} ({axis.name}, axis {axis.dimension})" for size, axis in
                         zip(sizes, self.axes, strict=True))

    def _traced(self, sizes: Sequence[int]) -> Traced:
        traced = self.trace(sizes)
        self.reads += traced.reads
        return traced

    def _groups(self, sizes: Sequence[int]) -> list[int | None]:
        """Axes whose sizes are equal, and may have to be: the number of the first such axis; None for others."""
        pairs = list(zip(sizes, self.bounds, strict=True))
        return [pairs.index(pair) if pairs.count(pair) > 1 else None for pair in pairs]

    # ---- families

    def _make(self, groups: Sequence[int | None], also: Sequence[tuple[int, ...]], reason: str) -> None:
        """A general program; sizes that are equal now may differ from each other if the function lets them."""
        free: list[int | None] = [None] * len(groups)
        attempts = [free] if list(groups) == free else [free, list(groups)]
        for last, attempt in enumerate(attempts, 1 - len(attempts)):
            try:
                general = self._general(attempt, also)
                break
            except DifferentError as error:
                if last == 0:
                    raise self._refused(error) from error
            except (HloError, TypeError, ValueError, IndexError):
                if last == 0:
                    raise
        general.run = compile_or_recall(general.late.module).run
        self.compiled(reason)
        self.generals.append(general)

    def _refused(self, error: DifferentError) -> Exception:
        place = place_of(error.instruction)
        listed = ", ".join(f"axis {axis.dimension} of {axis.name}" for axis in self.axes)
        return tracing_error(
            f"{self.name} cannot be compiled once for all sizes of {listed}: {place}{error}",
            "leave this axis out of dynamic= and bucket= (each size is compiled then), or write the function so that "
            "it does the same for all sizes",
        )

    def _general(self, groups: Sequence[int | None], also: Sequence[tuple[int, ...]]) -> _General:
        must, may = self._samples(groups)
        traces = [self._traced(sizes) for sizes in must]
        modules = [one.module() for one in traces]
        samples = list(must)
        family = family_of(modules)
        for sizes in [*also, *may]:
            if sizes in samples:
                continue
            try:
                more = self._traced(sizes).module()
                family = family_of([*modules, more])
            except (DifferentError, HloError, TypeError, ValueError, IndexError):
                continue
            modules.append(more)
            samples.append(sizes)
        family = family_of(modules)
        members = [member_of(family, one) for one in modules]
        bounds = tuple(one.shape.dimensions for one in modules[0].entry.parameters)
        constants = tuple(family.rows[n].instruction.shape.dimensions for n in family.hoisted)
        late = late_sizes(family, members, modules[0])
        return _General(family, late, _nothing, samples, traces[0].structure, bounds, constants)

    def _samples(self, groups: Sequence[int | None]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """Sizes that must be of the family, the bounds first, and others that may be."""
        keys = [n if one is None else one for n, one in enumerate(groups)]
        order = list(dict.fromkeys(keys))

        def at(change: Callable[[int, int], int]) -> tuple[int, ...]:
            return tuple(max(change(order.index(key), bound), 0) for key, bound in zip(keys, self.bounds, strict=True))

        must = [self.bounds]
        for chosen in range(len(order)):
            must.append(at(lambda n, bound, chosen=chosen: bound - (n == chosen)))  # type: ignore[misc]
        must.append(at(lambda n, bound: bound // 2 + 1 + n))
        must = [one for one in must if all(2 <= size <= bound for size, bound in zip(one, self.bounds, strict=True))]
        may = [at(lambda n, bound, size=size: size + n) for size in (5, 3, 2, 1, 0)]  # type: ignore[misc]
        may += [at(lambda n, bound, size=size: size) for size in (2, 1, 0)]  # type: ignore[misc]
        may = [one for one in may if all(size <= bound for size, bound in zip(one, self.bounds, strict=True))]
        return list(dict.fromkeys([self.bounds, *must])), list(dict.fromkeys(may))

    def _member(self, general: _General, traced: Traced, module: Module) -> _Ready:
        member = member_of(general.family, module)
        general.late.check(member)
        if traced.structure != general.structure:
            raise DifferentError(module.entry.root, "the result is another container")
        given = [one.shape.dimensions for one in module.entry.parameters]
        padded = tuple(None if a == b else b for a, b in zip(given, general.bounds, strict=True))
        sizes = numpy.array(member.sizes, numpy.int32)
        constants = [_padded(one, shape) for one, shape in zip(member.constants, general.constants, strict=True)]
        shapes = tuple(one.dimensions for one in traced.outputs)
        return _Ready(general.run, padded, traced.captured, (sizes, *constants), traced.structure, shapes)


def _nothing(*values: Any) -> Any:
    raise RuntimeError("not compiled")
