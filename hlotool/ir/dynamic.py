"""Bounded dynamic dimensions: what ``f32[<=8,4]`` means.

A dynamic dimension has a bound, which is its size in memory, and a size at run time between 0 and the bound; the array
is its elements below that size.  What opcodes make of sizes (in the spirit of XLA's DynamicDimensionInference):

- elementwise opcodes, and dimensions that meet (contracted, batch, groups of a ragged-dot): the elements that all
  operands have;
- broadcast, transpose, reverse, reduce, dot, ragged-dot, convolution, reduce-window, sort, pad: what the opcode does to
  an array of that size; concatenate packs, and a reshape moves the elements that there are;
- scaled-dot: bounds are divided into blocks, and an element whose block has no scale counts as if it were not there;
- slice, dynamic-slice and gather of a whole dimension keep its size; what reads a part of a dimension by its position,
  or a start index, sees the bound, and zeros from the size on;
- a dimension whose length an attribute states, or that is divided by position, has its bound, and zeros from the size
  on: what fft transforms, the window of a convolution and what its groups divide, index vectors, the parts of elements
  in a bitcast-convert;
- cholesky and triangular-solve work on matrices of the order that all their dimensions have, and what of the result has
  no dynamic dimension is zeros beyond it; topk gives its k elements, with zeros where there are fewer;
- dynamic-update-slice and scatter place an update as if it were whole, and write the elements that it has;
- set-dimension-size limits its size to 0..bound; elements that a dimension gains are zeros; a dynamic-reshape that has
  too few elements adds zeros, and one that has too many leaves out the last;
- select-and-scatter selects among the elements that there are, for the windows that there are;
- a bitcast transposes and reshapes as its layouts say;
- collectives: where arrays meet (all-reduce, reduce-scatter, what all-gather and all-to-all do not join), the elements
  that all devices have; what is joined is packed; what is split, is split by position, and its parts have the elements
  that there are; a permute or broadcast brings the size with it, and who gets nothing gets the size 0;
- PadToStatic (array) -> (array of the bounds with zeros, size of each dimension) and SliceToDynamic (array, size of
  each dimension) -> array are XLA's custom calls at the border between arrays with and without dynamic dimensions;
- all else (other custom calls, feeds, collectives in place, bitcasts to elements of another width or between tiles)
  takes arrays of the bounds, with zeros from the sizes on, and gives such.

A dimension without a bound (``f32[?]``) is for tools that look at a module: nothing runs it.

Zeros are bits of zero: 2**-127 in f8e8m0fnu, which has no number 0.  They take no part in sums of products.

UnsupportedError: a reshape of which nothing says which dimension takes up the size, as in XLA; an array of dynamic size
where a loop, call or branch declares a static one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from hlotool.ir.errors import UnsupportedError
from hlotool.ir.module import Instruction, Module
from hlotool.ir.shape import UNBOUNDED, Shape, row_major
from hlotool.ir.storage import storage_moves
from hlotool.ir.types import ELEMENT_TYPES
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "PAD_TO_STATIC",
    "SLICE_TO_DYNAMIC",
    "Regroup",
    "accepts",
    "bitcast_steps",
    "bounded_dimensions",
    "check_bounds",
    "is_dynamic",
    "regroups",
    "static",
    "whole_slice",
]

PAD_TO_STATIC, SLICE_TO_DYNAMIC = "PadToStatic", "SliceToDynamic"

_MAKERS = frozenset({"set-dimension-size", "get-dimension-size", "dynamic-reshape"})


def is_dynamic(module: Module) -> bool:
    """Whether any value of the module may have sizes below its bounds."""
    for computation in module.computations.values():
        for instruction in computation:
            if instruction.opcode in _MAKERS or not instruction.shape.is_static:
                return True
    return False


def check_bounds(module: Module) -> None:
    """UnsupportedError naming an instruction, unless all dimensions have a bound: no memory is large enough else."""
    for computation in module.computations.values():
        for instruction in computation:
            if any(UNBOUNDED in leaf.dimensions for leaf in instruction.shape.leaves()):
                raise UnsupportedError(f"{instruction.name}: {instruction.shape} has a dimension without a bound")


def accepts(shape: Shape, sizes: Sequence[int]) -> bool:
    """Whether an array of `sizes` is one of `shape`: equal in static dimensions, at most the bound in dynamic ones."""
    if not any(shape.dynamic):
        return tuple(sizes) == shape.dimensions
    return len(sizes) == shape.rank and all(
        n == bound or (flag and n < bound)
        for n, bound, flag in zip(sizes, shape.dimensions, shape.dynamic, strict=True)
    )


def static(shape: Shape) -> Shape:
    """The shape with its bounds as sizes."""
    if shape.elements:
        return replace(shape, elements=tuple(map(static, shape.elements)))
    return replace(shape, dynamic=()) if shape.dynamic else shape


def whole_slice(instruction: Instruction, dimension: int) -> bool:
    """Whether a slice, dynamic-slice or gather takes all of a dimension of its operand."""
    bound = instruction.operands[0].shape.dimensions[dimension]
    if instruction.opcode == "slice":
        part = instruction.attributes["slice"][dimension]
        return bool(part.start == 0 and part.stride == 1 and part.limit == bound)
    name = "slice_sizes" if instruction.opcode == "gather" else "dynamic_slice_sizes"
    return bool(instruction.attributes[name][dimension] == bound)


def bounded_dimensions(convolution: Instruction) -> tuple[set[int], set[int]]:
    """The dimensions of base and kernel that have their bounds: the window, and what groups divide."""
    attributes = convolution.attributes
    labels = attributes["dim_labels"]
    base, kernel = set[int](), set[int](labels.kernel_spatial)
    if attributes.get("feature_group_count", 1) != 1:
        base |= {labels.input_feature}
        kernel |= {labels.kernel_input_feature, labels.kernel_output_feature}
    if attributes.get("batch_group_count", 1) != 1:
        base |= {labels.input_batch}
        kernel |= {labels.kernel_output_feature}
    return base, kernel


def bitcast_steps(bitcast: Instruction) -> tuple[tuple[int, ...], Instruction, tuple[int, ...]] | None:
    """The order of a transpose, a reshape and the order of another transpose that are a bitcast (or reshape) to
    elements of one width; None where there are no such, because of tiles or because elements are taken apart.

    The reshape is on shapes alone, its operand is a parameter.
    """
    source, target = bitcast.operands[0].shape, bitcast.shape
    if _width(source) != _width(target):
        return None
    down, up = storage_moves(source), storage_moves(target)
    if any(move.kind != "transpose" for move in (*down, *up)):
        return None
    before = down[0].argument if down else tuple(range(source.rank))
    memory = up[0].argument if up else tuple(range(target.rank))
    given = Instruction("parameter", _transposed(source, before))
    kind = replace(_transposed(target, memory), element_type=source.element_type)
    reshape = Instruction("reshape", kind, [given], bitcast.attributes, bitcast.name)
    after = tuple(sorted(range(len(memory)), key=memory.__getitem__))
    return before, reshape, after


def _width(shape: Shape) -> int:
    """The bits of an element; a pred is a byte."""
    return 8 if shape.element_type == "pred" else ELEMENT_TYPES[shape.element_type].bits


def _transposed(shape: Shape, order: Sequence[int]) -> Shape:
    dynamic = tuple(shape.dynamic[d] for d in order) if shape.dynamic else ()
    dimensions = tuple(shape.dimensions[d] for d in order)
    return Shape(shape.element_type, dimensions, row_major(shape.rank), (), dynamic)


@dataclass(frozen=True, slots=True)
class Regroup:
    """A part of a reshape: the elements of dimensions `inputs` become those of dimensions `outputs`, in order.

    `free` is the output dimension whose size follows from how many elements there are; None where none is dynamic.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    free: int | None


def regroups(reshape: Instruction, dynamic: Collection[int]) -> list[Regroup]:
    """The smallest parts of a reshape (or plain bitcast) whose operand is dynamic in the dimensions `dynamic`.

    UnsupportedError where nothing says which dimension of the result takes up the size.
    """
    source, target = reshape.operands[0].shape, reshape.shape
    a, b = source.dimensions, target.dimensions

    def same(i: int, j: int) -> bool:
        return a[i] == b[j] and (not any(target.dynamic) or target.dynamic[j] == (i in dynamic))

    least = min(len(a), len(b))
    front = next((n for n in range(least) if not same(n, n)), least)
    back = next((n for n in range(least - front) if not same(-1 - n + len(a), -1 - n + len(b))), least - front)
    middle = _common_factors(a[front : len(a) - back], b[front : len(b) - back])
    parts: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((n,), (n,)) for n in range(front)]
    parts += [(tuple(d + front for d in ins), tuple(d + front for d in outs)) for ins, outs in middle]
    parts += [((len(a) - n,), (len(b) - n,)) for n in range(back, 0, -1)]
    return [Regroup(ins, outs, _free(reshape, ins, outs, dynamic)) for ins, outs in parts]


def _common_factors(a: Sequence[int], b: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Runs of dimensions of equal products; dimensions of size 1 belong to a run with others."""
    if not a and not b:
        return []
    if 0 in (*a, *b):
        return [(tuple(range(len(a))), tuple(range(len(b))))]
    parts: list[tuple[list[int], list[int]]] = [([], [])]
    i = j = 0
    left = right = 1
    while i < len(a) or j < len(b):
        if left == right != 1 and (i == len(a) or a[i] > 1) and (j == len(b) or b[j] > 1):
            parts.append(([], []))
            left = right = 1
        ins, outs = parts[-1]
        if i < len(a) and (j == len(b) or a[i] == 1 or left < right or left == right == 1):
            ins.append(i)
            left, i = left * a[i], i + 1
        else:
            outs.append(j)
            right, j = right * b[j], j + 1
    return [(tuple(ins), tuple(outs)) for ins, outs in parts]


def _free(reshape: Instruction, ins: Sequence[int], outs: Sequence[int], dynamic: Collection[int]) -> int | None:
    sized = [d for d in ins if d in dynamic]
    if not sized:
        return None
    source, target = reshape.operands[0].shape, reshape.shape
    inferred = reshape.attributes.get("inferred_dimension")
    if isinstance(inferred, int) and inferred in outs:
        return inferred
    flagged = [d for d in outs if target.dynamic and target.dynamic[d]]
    alike = [d for d in outs if target.dimensions[d] in [source.dimensions[s] for s in sized]]
    for choice in (flagged, outs, alike):
        if len(choice) == 1:
            return choice[0]
    if not outs:
        return None
    if flagged:
        message = f"{reshape.name}: nothing says which dimension of {target} takes up the size of {source}"
        raise UnsupportedError(message)
    return next((d for d in outs if target.dimensions[d] > 1), outs[0])
