"""Truth mode: what a program computes in wider floats, and how far correct programs may be from it.

One pass over the module with the rules of `hlotool.evaluate.truth_rules`: loops iterate, calls are entered, and each
element carries a bound of the error that arithmetic in the declared types may make, whatever the order of its sums.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any

import numpy as np

from hlotool.evaluate.bounds import Bounded, exact, is_inexact, unit, wide_dtype
from hlotool.evaluate.interpreter import Interpreter, Observer, check_arguments, guarded, used_bits
from hlotool.evaluate.stochastic import Runs, Stochastic, as_runs, statistical
from hlotool.evaluate.truth_rules import SCALAR_TRUTH, TRUTH, widened
from hlotool.evaluate.values import AnyArray, leaves_of, value_from_leaves
from hlotool.ir import Computation, Instruction, Module, UnsupportedError, dtype_of
from hlotool.ir.dynamic import is_dynamic

__all__ = ["bounded_results", "observed_bounds", "truth"]

_FINE = 2.0**12
"""Bounds up to so many units of an output's size say enough; above them runs with other roundings are looked at."""

_COARSE = 0.01
"""The same, relative to an output's size, for types whose unit is large."""

_NOTHING = 64.0
"""A result that is so many times smaller than its bound is a zero, and the bound says how exact a one."""


def bounded_results(
    module: Module,
    arguments: Sequence[AnyArray],
    loop_limit: int | None = None,
    excess_precision: bool = False,
    draws: int = 1,
) -> tuple[Bounded, ...]:
    """As `truth`, but where its bounds are so wide that they say little, those of `hlotool.evaluate.stochastic`.

    An element whose bound is as large as the numbers around it is undecided.  The runs of several `draws` show what
    those of one may miss by chance: of each element, the largest bound counts.
    """
    found = truth(module, arguments, loop_limit, excess_precision)
    kinds = [leaf.element_type for leaf in module.entry.root.shape.leaves() if leaf.is_array]
    if not any(_is_wide(one, kind) for one, kind in zip(found, kinds, strict=True)):
        return found
    local = _Truth(loop_limit, excess_precision)
    given: Any = iter([Runs(one.value) for one in _exact_leaves(module, arguments)])
    values = [value_from_leaves(parameter.shape, given) for parameter in module.entry.parameters]
    likely: list[Bounded] = []
    for draw in range(draws):
        stochastic = Stochastic(loop_limit, local, draw)
        root = guarded(partial(stochastic.apply, module.entry, values))
        runs: Any = leaves_of(as_runs(root, module.entry.root.shape))
        with np.errstate(all="ignore"):
            drawn = [statistical(run, kind) for run, kind in zip(runs, kinds, strict=True)]
        likely = [_wider(*pair) for pair in zip(likely, drawn, strict=True)] if likely else drawn
    with np.errstate(all="ignore"):
        return tuple(_narrower(*each) for each in zip(found, likely, kinds, strict=True))


def observed_bounds(
    module: Module,
    arguments: Sequence[AnyArray],
    wanted: Container[Instruction],
    observe: Callable[[Instruction, tuple[Bounded, ...]], None],
    excess_precision: bool = False,
    draws: int = 1,
) -> None:
    """Tell `observe` the arrays of each instruction of `wanted` with the bounds that `bounded_results` would give them,
    once: those of the first time that it runs.

    Bounds that say little are kept until the runs with other roundings are done; all else is forgotten at once.
    UnsupportedError for modules with dynamic dimensions.
    """
    if is_dynamic(module):
        raise UnsupportedError("truth mode does not know sizes of run time")
    wide: dict[Instruction, tuple[Bounded, ...]] = {}
    seen: set[Instruction] = set()

    def first(instruction: Instruction, value: Any) -> None:
        if instruction in seen or instruction not in wanted:
            return
        seen.add(instruction)
        found: Any = tuple(leaves_of(widened(value, instruction.shape)))
        if any(map(_is_wide, found, _kinds(instruction))):
            wide[instruction] = found
        else:
            observe(instruction, found)

    given: Any = _exact_leaves(module, arguments)
    leaves: Any = iter(given)
    values = [value_from_leaves(parameter.shape, leaves) for parameter in module.entry.parameters]
    guarded(lambda: _Truth(None, excess_precision, observe=first).apply(module.entry, values))
    likely: dict[Instruction, tuple[Bounded, ...]] = {}
    with np.errstate(all="ignore"):
        for draw in range(draws if wide else 0):
            for instruction, drawn in _drawn(module, given, wide, excess_precision, draw).items():
                likely[instruction] = tuple(map(_wider, likely.get(instruction, drawn), drawn))
        for instruction, bounds in wide.items():
            observe(instruction, tuple(map(_narrower, bounds, likely.get(instruction, bounds), _kinds(instruction))))


def _drawn(
    module: Module, given: Sequence[Bounded], wanted: Container[Instruction], excess_precision: bool, draw: int
) -> dict[Instruction, tuple[Bounded, ...]]:
    """Statistical bounds of the first value of instructions, where the true run comes by."""
    found: dict[Instruction, tuple[Bounded, ...]] = {}

    def first(instruction: Instruction, value: Any) -> None:
        if instruction not in found and instruction in wanted and None in stochastic.going:
            runs: Any = leaves_of(as_runs(value, instruction.shape))
            found[instruction] = tuple(map(statistical, runs, _kinds(instruction)))

    stochastic = Stochastic(None, _Truth(None, excess_precision), draw, first)
    leaves: Any = iter([Runs(one.value) for one in given])
    values = [value_from_leaves(parameter.shape, leaves) for parameter in module.entry.parameters]
    guarded(partial(stochastic.apply, module.entry, values))
    return found


def _kinds(instruction: Instruction) -> list[str]:
    return [leaf.element_type for leaf in instruction.shape.leaves() if leaf.is_array]


def _wider(left: Bounded, right: Bounded) -> Bounded:
    return left if right.error is None else Bounded(left.value, np.maximum(left.errors(), right.error))


def _size(x: Bounded) -> float:
    """The root mean square of what is finite."""
    size = np.abs(x.value).astype(np.float64)
    finite = size[np.isfinite(size)]
    largest = float(finite.max(initial=0.0)) or 1.0
    return largest * float(np.sqrt(np.mean((finite / largest) ** 2))) if finite.size else 0.0


def _is_wide(x: Bounded, kind: str) -> bool:
    if x.error is None or not x.error.size:
        return False
    limit = min(_FINE * unit(kind), _COARSE) * _size(x) if is_inexact(kind) else 0.0
    return not float(x.error.max()) <= limit


def _narrower(bound: Bounded, likely: Bounded, kind: str) -> Bounded:
    """The smaller error of each element; none where even that is as large as the result and those around it."""
    if not _is_wide(bound, kind):
        return bound
    error, closer = np.minimum(bound.errors(), likely.errors()), likely.errors() < bound.errors()
    value = np.where(closer, likely.value, bound.value)  # where it is sure to overflow they differ
    if is_inexact(kind):
        size = np.maximum(np.abs(value).astype(np.float64), _size(bound))
        error = np.where((error > size) & (size * _NOTHING > error), np.inf, error)
    return Bounded(value, error)


def truth(
    module: Module, arguments: Sequence[AnyArray], loop_limit: int | None = None, excess_precision: bool = False
) -> tuple[Bounded, ...]:
    """The results of the entry computation, one per array leaf of its root, with error bounds.

    `arguments` and exceptions are those of `evaluate`.  The values are in f64 where the text has a narrower float, in
    extended precision (where NumPy has it) for f64, and alike for complex numbers; all others are as they are.
    A conversion to a narrower type rounds, as the program says; with `excess_precision` it need not.
    UnsupportedError for modules with dynamic dimensions.
    """
    if is_dynamic(module):
        raise UnsupportedError("truth mode does not know sizes of run time")
    given: Any = iter(_exact_leaves(module, arguments))
    values = [value_from_leaves(parameter.shape, given) for parameter in module.entry.parameters]
    root = guarded(lambda: _Truth(loop_limit, excess_precision).apply(module.entry, values))
    found: Any = leaves_of(widened(root, module.entry.root.shape))
    return tuple(found)


def _exact_leaves(module: Module, arguments: Sequence[AnyArray]) -> list[Bounded]:
    leaves = [leaf for parameter in module.entry.parameters for leaf in parameter.shape.leaves() if leaf.is_array]
    check_arguments(leaves, arguments)
    with np.errstate(all="ignore"):
        return [exact(used_bits(leaf, a), leaf.element_type) for a, leaf in zip(arguments, leaves, strict=True)]


class _Truth(Interpreter):
    """Interprets on `Bounded` leaves.  `plain` interprets what is known to be exact, on arrays."""

    __slots__ = ("excess_precision", "plain")

    def __init__(
        self,
        loop_limit: int | None,
        excess_precision: bool,
        scalars: bool = False,
        observe: Observer | None = None,
    ) -> None:
        super().__init__(observe, loop_limit, scalars=scalars)
        self._table = SCALAR_TRUTH if scalars else TRUTH
        self._scalars = None if scalars else _Truth(loop_limit, excess_precision, scalars=True)
        self.excess_precision = excess_precision
        self.plain = Interpreter(None, loop_limit, scalars=scalars)

    def map(self, computation: Computation, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """A computation on scalars, applied to each element of arrays of one shape; one array per root leaf."""
        arrays = [_as_taken(a, p) for a, p in zip(arrays, computation.parameters, strict=True)]
        shape = arrays[0].shape
        if self._scalars is not None and self._acts_on_arrays(computation):
            value = self._scalars.apply(computation, arrays)
            return tuple(_broadcast(leaf, shape) for leaf in leaves_of(value))
        kinds = [leaf.element_type for leaf in computation.root.shape.leaves() if leaf.is_array]
        found: list[list[Any]] = [[] for _ in kinds]
        for index in np.ndindex(shape):
            given = [_element(a, index) for a in arrays]
            value = self.apply(computation, given)  # type: ignore[arg-type]
            for column, leaf in zip(found, leaves_of(value), strict=True):
                column.append(leaf)
        made = []
        for column, kind in zip(found, kinds, strict=True):
            values, dtype = [leaf.value for leaf in column], wide_dtype(kind)
            array = np.array(values, dtype).reshape(shape) if values else np.zeros(shape, dtype)
            known = all(leaf.error is None for leaf in column)
            errors = None if known else np.array([leaf.errors() for leaf in column], np.float64).reshape(shape)
            made.append(Bounded(array, errors))
        return tuple(made)


def _as_taken(array: Any, parameter: Instruction) -> Any:
    """Integers in the type of a parameter, which may be wider."""
    dtype = dtype_of(parameter.shape.element_type)
    return Bounded(array.value.astype(dtype), array.error) if dtype.kind in "iu" and array.dtype != dtype else array


def _element(array: Any, index: tuple[int, ...]) -> Bounded:
    """An element as a scalar; what is exact stays so."""
    error = None if array.error is None else np.asarray(array.error[index])
    return Bounded(np.asarray(array.value[index]), error)


def _broadcast(leaf: Any, shape: tuple[int, ...]) -> Bounded:
    error = None if leaf.error is None else np.broadcast_to(leaf.error, shape)
    return Bounded(np.broadcast_to(leaf.value, shape), error)
