"""What native kernels give, one by one: a compiled module whose results are all values of its entry computation.

The module is the one that code was made of; it is compiled once more as it stands with more results, so that every
value is written where it can be read.  Its kernels are the same but for what they write in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from hlotool.ir import Instruction, Module, Shape, clone_module, tuple_shape
from hlotool.ir.builder import Builder

__all__ = ["ABOUT_RESULTS", "is_plain", "native_values", "with_results"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]

_CHUNK_BYTES = 1 << 28
"""Values that one program gives at most, beside the results."""

_CHUNK_VALUES = 500

_NO_KERNEL = frozenset(
    ["parameter", "constant", "tuple", "get-tuple-element", "bitcast", "reshape", "opt-barrier", "after-all",
     "add-dependency", "domain"]
)  # fmt: skip
ABOUT_RESULTS = ("input_output_alias", "buffer_donor", "entry_computation_layout", "is_scheduled")
"""What a module says of its parameters and results, which one with others cannot."""


def native_values(
    module: Module, arrays: Sequence[npt.NDArray[Any]], compile_: Callable[[Module], Callable[..., Arrays]]
) -> Iterator[tuple[Arrays, dict[Instruction, Arrays]]]:
    """For one chunk of the instructions of the entry after the other: the results of the module as it gives them while
    it gives the others too, and the arrays of these.

    `compile_` makes native code without passes.  Values of dynamic sizes, tokens, and what has no kernel (parameters,
    constants, views) are left out.
    """
    wanted = [one for one in module.entry if one.opcode not in _NO_KERNEL and is_plain(one.shape)]
    for chunk in _chunks(wanted):
        variant, counts = with_results(module, chunk)
        given = list(compile_(variant)(*arrays))
        results = tuple(given[: -sum(counts)])
        rest = iter(given[len(results) :])
        yield results, {one: tuple(next(rest) for _ in range(count)) for one, count in zip(chunk, counts, strict=True)}


def is_plain(shape: Shape) -> bool:
    leaves = list(shape.leaves())
    return shape.is_static and bool(leaves) and all(leaf.is_array for leaf in leaves)


def _chunks(instructions: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    chunk: list[Instruction] = []
    total = 0
    for one in instructions:
        if chunk and (total + one.shape.byte_size > _CHUNK_BYTES or len(chunk) == _CHUNK_VALUES):
            yield chunk
            chunk, total = [], 0
        chunk.append(one)
        total += one.shape.byte_size
    if chunk:
        yield chunk


def with_results(module: Module, chunk: Sequence[Instruction]) -> tuple[Module, list[int]]:
    """A copy of the module with the values of `chunk` as further results, and how many arrays each has."""
    copy = clone_module(module)
    for name in ABOUT_RESULTS:
        copy.attributes.pop(name, None)
    copies = dict(zip(module.entry, copy.entry, strict=True))
    build = Builder(copy.entry)
    results = _leaves(build, copy.entry.root)
    more = [_leaves(build, copies[one]) for one in chunk]
    values = [*results, *(leaf for leaves in more for leaf in leaves)]
    copy.entry.root = build.add("tuple", tuple_shape([value.shape for value in values]), values, {})
    return copy, [len(leaves) for leaves in more]


def _leaves(build: Builder, value: Instruction) -> list[Instruction]:
    """The arrays in a value."""
    if not value.shape.is_tuple:
        return [value] if value.shape.is_array else []
    parts = [
        build.add("get-tuple-element", shape, [value], {"index": number})
        for number, shape in enumerate(value.shape.elements)
    ]
    return [leaf for part in parts for leaf in _leaves(build, part)]
