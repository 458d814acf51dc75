"""Convolutions of f32 numbers in bf16 parts, for processors that multiply tiles of bf16 numbers: see `bf16x3`.

The input is copied once, framed with zeros, each number in parts.  Pixels are the rows of a matrix then, one behind
the other, and a tile takes 32 of them wherever lines of the image end; what it makes of windows that reach around the
end of a line is left out.  Where windows are a stride apart the copy deals lines and columns out: first all that the
first element of a window meets, then all that the next one meets: neighbouring windows have neighbouring pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products.bf16x3 import (
    BLOCK,
    CHUNK,
    GROUP,
    LINES,
    PIXEL_CHUNK,
    RANGE,
    ROW,
    Split,
    both,
    clear_range,
    emit_pixels,
    emit_split,
    pays,
)
from hlotool.codegen.cpu.products.bf16x3_product import Bf16x3, emit_begin, emit_end, emit_multiply
from hlotool.codegen.cpu.products.conv_spec import ConvSpec
from hlotool.codegen.cpu.products.dot import Scratch
from hlotool.codegen.cpu.products.epilogue import Block, Epilogue
from hlotool.codegen.cpu.products.pack import Axis
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.addressing import Place, advance, argument, offset, unravel, when
from hlotool.codegen.llvm.elements import element, multiplies_bf16x3
from hlotool.codegen.llvm.values import Int, Ptr
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine

__all__ = ["emit_bf16x3", "serves_bf16x3"]

FRAMED: Annotated[int, Threshold("times")] = 4  # times the pixels of the input a copy may have
COPIES: Annotated[int, Threshold("lines")] = 64
"""Tasks of the copy of the input, if it has so many lines; each has a range that all tasks look at."""
BLOCK_TILES: Annotated[int, Threshold("tiles")] = 3  # of rows of a task
BLOCK_BYTES: Annotated[int, Threshold("bytes")] = 64 << 10  # of results that a task keeps on its stack
TASKS: Annotated[int, Threshold("tasks")] = 16  # at least, if there are so many tiles


@dataclass(frozen=True, slots=True)
class _Dimension:
    """A spatial dimension: extents, and strides of input and kernel in bytes (the kernel's along the window)."""

    size: int
    kernel: int
    output: int
    stride: int
    padding: int
    dilation: int
    source: int
    weight: int

    @property
    def framed(self) -> int:
        """Elements of the input that all windows reach over."""
        return (self.output - 1) * self.stride + (self.kernel - 1) * self.dilation + 1


@dataclass(frozen=True, slots=True)
class _Image:
    """The copy: in each slice planes of `lines` x `columns` pixels of so many bytes.

    A plane begins at one of the first lines and columns, and has each line and column that is a stride further.  `taps`
    says where the pixels of the elements of the window begin, in bytes.
    """

    pixel: int
    slices: tuple[int, ...]
    planes: tuple[tuple[int, int], ...]
    lines: int
    columns: int
    taps: tuple[int, ...]

    @property
    def plane(self) -> int:
        return self.lines * self.columns * self.pixel

    @property
    def slice(self) -> int:
        return len(self.planes) * self.plane


def serves_bf16x3(spec: ConvSpec, machine: Machine, epilogue: Epilogue | None) -> bool:
    """Whether a convolution can be computed so, and faster."""
    if not multiplies_bf16x3(spec.lhs, spec.rhs, spec.accumulate, machine) or spec.out != "f32":
        return False
    pixels, window = spec.batch * math.prod(spec.output), math.prod(spec.kernel)
    dense = [spec.output_features * math.prod(spec.output[at + 1 :]) for at in range(len(spec.output))]
    dense = [spec.output_features * math.prod(spec.output), *dense, 1]
    plain = spec.groups == math.prod(spec.base_dilation) == spec.lhs_feature == 1
    plain = plain and spec.output_features >= LINES and spec.input_features % CHUNK == 0
    plain = plain and [spec.out_batch, *spec.out_spatial, spec.out_feature] == dense
    plain = plain and 1 in (spec.rhs_input, spec.rhs_output) and not (epilogue is not None and epilogue.whole_rows)
    # A frame that is much larger than the image would be mostly zeros.
    plain = plain and math.prod(d.framed for d in _dimensions(spec)) <= FRAMED * math.prod(spec.input)
    numbers = spec.input_features * (spec.batch * math.prod(spec.input) + window * spec.output_features)
    return plain and pays(float(pixels) * window * spec.input_features * spec.output_features, numbers)


def emit_bf16x3(
    unit: Unit, name: str, spec: ConvSpec, slots: tuple[int, int, int, int], scratch: Scratch,
    epilogue: Epilogue | None, border: str,
) -> list[Step]:
    """The steps of a convolution that `serves_bf16x3`; the names of arguments are those of `conv.emit_conv`.

    `border` is the call for results at the border, if there are any: see `gemm.Finish`.
    """
    dimensions = _dimensions(spec)
    image = _image(spec, dimensions)
    held = element("u32")
    tail = (LINES + image.columns) * image.pixel  # that the last tile reads behind the last pixel
    copy = scratch.take(math.prod(image.slices) * image.slice + tail, held)
    lines = math.prod(image.slices) * image.lines
    copies = -(-lines // -(-lines // COPIES))
    ranges = scratch.take(copies * RANGE, held)
    first = _emit_copy(unit, f"split_lhs_{name}", spec, dimensions, image, (slots[0], copy, ranges), copies)

    features, window = spec.input_features, [dimension.kernel for dimension in dimensions]
    run = features // CHUNK * BLOCK
    start = sum(-dimension.weight * (dimension.kernel - 1) for dimension in dimensions if dimension.weight < 0)
    outer = tuple(
        Axis(dimension.kernel, dimension.weight, run * math.prod(window[at + 1 :]))
        for at, dimension in enumerate(dimensions)
    )
    nowhere = Place(0, 0, held)
    split = Split(
        outer, spec.output_features, 4 * spec.rhs_output, features, 4 * spec.rhs_input, True,
        Place(slots[1], start, element("f32")), nowhere, nowhere, group=GROUP, pitch=run * math.prod(window),
    )
    weights, found = scratch.take(split.blocks * split.size, held), scratch.take(split.tasks * RANGE, held)
    split = replace(split, target=weights, ranges=found)
    second = emit_split(unit, f"split_rhs_{name}", split)
    bf16x3 = Bf16x3(ROW, ranges, copies, found, split.tasks)
    where = Place(slots[2], 0, element(spec.out))
    step = _emit_product(unit, name, dimensions, image, split, (copy, where), bf16x3, epilogue, border)
    return [both(unit, f"split_{name}", first, second), step]


def _dimensions(spec: ConvSpec) -> list[_Dimension]:
    """The spatial dimensions; there are two at least."""
    found = [
        _Dimension(
            spec.input[at], spec.kernel[at], spec.output[at], spec.strides[at], spec.padding[at],
            spec.window_dilation[at], 4 * spec.lhs_spatial[at],
            4 * spec.rhs_spatial[at] * (-1 if spec.reversal[at] else 1),
        )
        for at in range(len(spec.input))
    ]
    return [_Dimension(1, 1, 1, 1, 0, 1, 0, 0)] * (2 - len(found)) + found


def _image(spec: ConvSpec, dimensions: Sequence[_Dimension]) -> _Image:
    *outer, y, x = dimensions
    pixel = spec.input_features // CHUNK * PIXEL_CHUNK
    firsts = [sorted({tap * d.dilation % d.stride for tap in range(d.kernel)}) for d in (y, x)]
    planes = tuple((top, left) for top, left in product(*firsts))
    lines, columns = -(-y.framed // y.stride), -(-x.framed // x.stride)
    slices = (spec.batch, *(d.framed for d in outer))
    image = _Image(pixel, slices, planes, lines, columns, ())
    taps = []
    for *far, down, across in product(*(range(d.kernel) for d in dimensions)):
        number = 0
        for d, tap in zip(outer, far, strict=True):
            number = number * d.framed + tap * d.dilation
        plane = planes.index((down * y.dilation % y.stride, across * x.dilation % x.stride))
        at = down * y.dilation // y.stride * columns + across * x.dilation // x.stride
        taps.append(number * image.slice + plane * image.plane + at * pixel)
    return replace(image, taps=tuple(taps))


def _emit_copy(
    unit: Unit, name: str, spec: ConvSpec, dimensions: Sequence[_Dimension], image: _Image,
    places: tuple[int, Place, Place], tasks: int,
) -> Step:
    """The step that copies the input, from a slot to a place, and notes ranges at another: lines of all planes."""
    *outer, y, x = dimensions
    slot, target, ranges = places
    lines = math.prod(image.slices) * image.lines
    each = -(-lines // tasks)
    f = Function(unit, signature(name, plumbing=True))
    task = f.begin_loop("%begin", "%end")
    found = advance(f, argument(f, ranges), task.index, RANGE)
    clear_range(Ptr(f, found))
    first = f.let(f"mul i64 {task.index}, {each}")
    last = f.intrinsic("i64", "llvm.smin.i64", [("i64", f.let(f"add i64 {first}, {each}")), ("i64", str(lines))])
    line = f.begin_loop(first, last)
    item, *slices, down = unravel(f, line.index, [*image.slices, image.lines])
    read = advance(f, argument(f, Place(slot, 0, element(spec.lhs))), item, 4 * spec.lhs_batch)
    inside = []
    for dimension, at in zip(outer, slices, strict=True):
        here = f.let(f"sub i64 {at}, {dimension.padding}")
        inside.append(f.let(f"icmp ult i64 {here}, {dimension.size}"))
        read = advance(f, read, here, dimension.source)
    slice_ = f.let(f"udiv i64 {line.index}, {image.lines}")
    write = advance(f, advance(f, argument(f, target), slice_, image.slice), down, image.columns * image.pixel)
    for plane, (top, left) in enumerate(image.planes):
        here = f.let(f"add i64 {f.let(f'mul i64 {down}, {y.stride}')}, {top - y.padding}")
        there = f.let(f"icmp ult i64 {here}, {y.size}")
        for more in inside:
            there = f.let(f"and i1 {there}, {more}")
        # Columns from `begin` to before `end` are of the input.
        begin = min(max(0, -((left - x.padding) // x.stride)), image.columns)
        end = max(min((x.size - 1 - left + x.padding) // x.stride + 1, image.columns), begin)
        to, rest = offset(f, write, plane * image.plane), image.columns - end
        start = advance(f, read, here, y.source)
        start = offset(f, start, (begin * x.stride + left - x.padding) * x.source)

        def pixels(to: str = to, start: str = start, begin: int = begin, end: int = end, rest: int = rest) -> None:
            _clear(f, to, begin * image.pixel)
            if end > begin:
                at = offset(f, to, begin * image.pixel)
                step, count = x.stride * x.source, end - begin
                emit_pixels(Ptr(f, start), step, count, spec.input_features, Ptr(f, at), Ptr(f, found))
            _clear(f, offset(f, to, end * image.pixel), rest * image.pixel)

        def border(to: str = to) -> None:
            _clear(f, to, image.columns * image.pixel)

        when(f, there, pixels)
        when(f, f.let(f"xor i1 {there}, true"), border)
    f.end_loop(line)
    f.end_loop(task)
    f.finish()
    numbers = spec.batch * math.prod(spec.input) * spec.input_features
    return Step(name, tasks, numbers / 4.0)


def _clear(f: Function, pointer: str, size: int) -> None:
    if size:
        f.clear(pointer, size)


def _emit_product(
    unit: Unit, name: str, dimensions: Sequence[_Dimension], image: _Image, weights: Split,
    places: tuple[Place, Place], bf16x3: Bf16x3, epilogue: Epilogue | None, border: str,
) -> Step:
    """The step that multiplies the copies of the input, at the first place, and of the kernel.

    Results go to the second place, or into the epilogue.
    """
    *outer, y, x = dimensions
    features, machine = weights.lines, unit.machine
    assert machine is not None
    held = epilogue is None or epilogue.kept is not None
    items = [image.slices[0], *(d.output for d in outer)]
    rows = (y.output - 1) * image.columns + x.output
    pixels = y.output * x.output
    panels = weights.blocks
    wide = max(1, min(panels, machine.l2 // 2 // weights.size))
    most = BLOCK_BYTES // (LINES * LINES * 4)
    wide = min(wide, most)
    tiles = max(1, min(BLOCK_TILES, most // wide, math.prod(items) * -(-rows // LINES) * -(-panels // wide) // TASKS))
    high, broad = tiles * LINES, wide * LINES
    pitch = min(broad, -(-features // LINES) * LINES) * 4
    blocks, groups = -(-rows // high), -(-panels // wide)

    table = f"taps_{name}"
    numbers = ", ".join(f"i64 {tap}" for tap in image.taps)
    unit.constant(table, f"[{len(image.taps)} x i64] [{numbers}]")
    time = 0.0
    if epilogue is not None:
        row_pitch = features * 4 if held else pitch
        block = Block(math.prod(items), pixels, features, row_pitch, 1, broad)
        time = epilogue.emit(unit, f"epilogue_{name}", block)
    f = Function(unit, signature(name, plumbing=True))
    block_at = f.let(f"alloca [{high * pitch} x i8], align 64")
    safe = emit_begin(f, bf16x3)
    task = f.begin_loop("%begin", "%end")
    group, *where, row_block = unravel(f, task.index, [groups, *items, blocks])
    a = argument(f, places[0])
    strides = [image.slice * math.prod(image.slices[at + 1 :]) for at in range(len(image.slices))]
    steps = [1, *(d.stride for d in outer)]
    item = "0"
    for at, extent, stride, step in zip(where, items, strides, steps, strict=True):
        a = advance(f, a, at, stride * step)
        item = f.let(f"add i64 {f.let(f'mul i64 {item}, {extent}')}, {at}")
    row = f.let(f"mul i64 {row_block}, {high}")
    row_end = _least(f, f.let(f"add i64 {row}, {high}"), rows)
    column = f.let(f"mul i64 {group}, {broad}")
    column_end = _least(f, f.let(f"add i64 {column}, {broad}"), features)
    a = advance(f, a, row, image.pixel)
    b = advance(f, argument(f, weights.target), group, wide * weights.size)

    panel = f.begin_loop(column, column_end, LINES, [("ptr", b), ("ptr", block_at)], at_least_once=True)
    across = _least(f, f.let(f"sub i64 {column_end}, {panel.index}"), LINES)
    tile = f.begin_loop(row, row_end, LINES, [("ptr", a), ("ptr", panel.values[1])], at_least_once=True)
    down = _least(f, f.let(f"sub i64 {row_end}, {tile.index}"), LINES)
    emit_multiply(
        a=Ptr(f, tile.values[0]), a_row=image.pixel, a_part=ROW, a_chunk=PIXEL_CHUNK, b=Ptr(f, panel.values[0]),
        c=Ptr(f, tile.values[1]), c_row=pitch, rows=Int(f, down), columns=Int(f, across), chunks=weights.terms // CHUNK,
        add=False, safe=safe, table=(table, len(image.taps)),
    )
    f.end_loop(tile, [offset(f, tile.values[0], LINES * image.pixel), offset(f, tile.values[1], LINES * pitch)])
    f.end_loop(panel, [offset(f, panel.values[0], weights.size), offset(f, panel.values[1], LINES * 4)])

    # Lines of the image in these rows, each without the windows that reach around its end.
    behind = f.let(f"udiv i64 {f.let(f'add i64 {row_end}, {image.columns - 1}')}, {image.columns}")
    line = f.begin_loop(f.let(f"udiv i64 {row}, {image.columns}"), behind, 1, at_least_once=True)
    begin = f.let(f"mul i64 {line.index}, {image.columns}")
    end = _least(f, f.let(f"add i64 {begin}, {x.output}"), row_end)
    first = f.intrinsic("i64", "llvm.smax.i64", [("i64", begin), ("i64", row)])
    count = f.let(f"sub i64 {end}, {first}")

    def finish() -> None:
        made = advance(f, block_at, f.let(f"sub i64 {first}, {row}"), pitch)
        pixel = f.let(f"add i64 {f.let(f'mul i64 {line.index}, {x.output}')}, {f.let(f'sub i64 {first}, {begin}')}")
        place = f.let(f"add i64 {f.let(f'mul i64 {item}, {pixels}')}, {pixel}")
        place = f.let(f"add i64 {f.let(f'mul i64 {place}, {features * 4}')}, {f.let(f'mul i64 {column}, 4')}")
        columns = f.let(f"sub i64 {column_end}, {column}")
        if border:
            numbers = f"i64 {count}, i64 {columns}, i64 {pitch}, i64 {features * 4}"
            call = f"call void {border}ptr {made}, i64 {place}, {numbers})"
            when(f, f.let(f"xor i1 {safe.name}, true"), lambda: f.do(call))
        if held:
            result = f.let(f"getelementptr i8, ptr {argument(f, places[1])}, i64 {place}")
            size = f.let(f"mul i64 {columns}, 4")
            copy = f.begin_loop(0, count, 1, [("ptr", made), ("ptr", result)], at_least_once=True)
            f.copy(copy.values[1], copy.values[0], size)
            f.end_loop(copy, [offset(f, copy.values[0], pitch), offset(f, copy.values[1], features * 4)])
            made = result
        if epilogue is not None:
            last = f.let(f"add i64 {pixel}, {count}")
            f.do(
                f"call void @epilogue_{name}(ptr %args, ptr {made}, i64 {item}, i64 {pixel}, i64 {last}, "
                f"i64 {column}, i64 {column_end})"
            )

    when(f, f.let(f"icmp sgt i64 {count}, 0"), finish)
    f.end_loop(line)
    f.end_loop(task)
    emit_end(f)
    f.finish()
    work = math.prod(items) * blocks * high * panels * LINES * len(image.taps) * weights.terms
    return Step(name, groups * math.prod(items) * blocks, work / 150.0 + time)


def _least(f: Function, value: str, most: int | str) -> str:
    return f.intrinsic("i64", "llvm.smin.i64", [("i64", value), ("i64", str(most))])
