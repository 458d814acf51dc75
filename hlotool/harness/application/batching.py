"""An application with another batch: its modules for that, and arguments with the results that they are to give.

What is to have a batch is said by the user, never guessed: a dimension of a parameter (``x.0``), which then takes other
sizes, or a whole parameter (``x``), which is that of one example and gets a batch in front.  Results of the new module
are compared with those of the old one, run once for each of the requests that a batch is put together from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.driver.specialise import specialise
from hlotool.harness.inputs import inputs_of, random_arrays
from hlotool.ir import InputError, Module, Shape, UnsupportedError, clone_module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.batching.batch import batch_module

__all__ = ["Case", "case_of", "check_batched", "own_batch", "with_batch"]

Arrays = list[npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """Arguments of a module, and the results that it is to give for them."""

    arguments: Arrays
    expected: Arrays


def with_batch(module: Module, over: Sequence[str], size: int) -> Module:
    """The module for a batch of `size`; the module itself where that is 0, or the batch that it has.

    InputError where `over` names something else than dimensions or parameters; UnsupportedError where the module cannot
    have that batch.
    """
    if not size or size == own_batch(module, over):
        return module
    if _dimensions(module, over):
        return specialise(module, {name: str(size) for name in over}).module
    names = set(over)
    axes = [0 if p.name in names else None for p in module.entry.parameters for _ in p.shape.leaves()]
    copy = clone_module(module)
    batch_module(copy, size, axes)
    return copy


def own_batch(module: Module, over: Sequence[str]) -> int:
    """The batch that a module has: the size of its dimensions `over`, or 1 for a module of one example; 0 where nothing
    is to have a batch."""
    if not over:
        return 0
    sizes = {size for _, _, size in _dimensions(module, over)}
    if len(sizes) > 1:
        raise InputError(f"{', '.join(over)}: dimensions of one batch have one size, here {sorted(sizes)}")
    return sizes.pop() if sizes else 1


def check_batched(module: Module, over: Sequence[str]) -> None:
    """InputError unless `over` names dimensions or parameters of the module, one kind of them."""
    own_batch(module, over)


def _dimensions(module: Module, over: Sequence[str]) -> list[tuple[int, int, int]]:
    """The parameter, the dimension and its size for each of `over`; nothing where they are whole parameters."""
    parameters = {p.name: p for p in module.entry.parameters}
    if over and all(name in parameters for name in over):
        return []
    found = []
    for name in over:
        head, _, number = name.rpartition(".")
        parameter = parameters.get(head)
        if parameter is None or not parameter.shape.is_array or not (number.isascii() and number.isdecimal()):
            known = ", ".join(f"{p.name} {p.shape}" for p in module.entry.parameters[:8])
            raise InputError(f"{name}: expected a dimension (x.0) of a parameter, or parameters (x), of: {known}")
        if int(number) >= parameter.shape.rank:
            raise InputError(f"{name}: {head} is {parameter.shape}, its dimensions are numbered from 0")
        found.append((parameter.parameter_number, int(number), parameter.shape.dimensions[int(number)]))
    return found


def case_of(
    module: Module, over: Sequence[str], size: int, given: Arrays | None, seed: int, run: Callable[[Arrays], Arrays]
) -> Case:
    """Arguments for a batch, and what `run`, which runs `module` itself, says that they give.

    Requests are random of `seed` and what follows it, or all those that are `given`; what has no batch is the same in
    all of them.  UnsupportedError where a result has its batch in more than one dimension.
    """
    inputs = inputs_of(module)
    first = random_arrays(inputs, seed) if given is None else given
    own = own_batch(module, over)
    if not size or size == own:
        return Case(first, run(first))
    changed = with_batch(module, over, size)
    stacked = not _dimensions(module, over)
    needed = size if stacked else -(-size // own)
    places = [_place(a.shape, b.shape, stacked) for a, b in zip(inputs, inputs_of(changed), strict=True)]
    requests = [first]
    for number in range(1, needed):
        drawn = first if given is not None else random_arrays(inputs, seed + number)
        requests.append([a if p is None else b for a, b, p in zip(first, drawn, places, strict=True)])
    results = [run(request) for request in requests]
    leaves = [list(m.entry.root.shape.leaves()) for m in (module, changed)]
    results_at = [_place(a, b, stacked) for a, b in zip(*leaves, strict=True)]
    return Case(list(_together(requests, places, size, stacked)), list(_together(results, results_at, size, stacked)))


def _place(old: Shape, new: Shape, stacked: bool) -> int | None:
    """The dimension that has the batch in `new`; None where that is `old`."""
    if old.dimensions == new.dimensions:
        return None
    if stacked:
        return 0
    places = [n for n, (a, b) in enumerate(zip(old.dimensions, new.dimensions, strict=True)) if a != b]
    if len(places) > 1:
        raise UnsupportedError(f"{new} has the batch in more than one dimension, so that requests cannot be told apart")
    return places[0]


def _together(rows: Sequence[Arrays], places: Sequence[int | None], size: int, stacked: bool) -> Iterator[Any]:
    """The arrays of several requests as those of one batch."""
    for number, place in enumerate(places):
        arrays = [row[number] for row in rows]
        if place is None:
            yield arrays[0]
        elif stacked:
            yield np.stack(arrays)
        else:
            yield np.ascontiguousarray(np.concatenate(arrays, place).take(range(size), place))


