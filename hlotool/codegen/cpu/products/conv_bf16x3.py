"""Convolutions of f32 numbers in bf16 parts, for processors that multiply tiles of bf16 numbers: see `bf16x3`.

The input is copied once, framed with zeros, each number in parts.  Pixels are the rows of a matrix then, one behind
the other, and a tile takes 32 of them wherever lines of the image end; what it makes of windows that reach around the
end of a line is left out.  Where windows are a stride apart the copy deals lines and columns out: first all that the
first element of a window meets, then all that the next one meets: neighbouring windows have neighbouring pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import product
from operator import and_
from typing import Annotated

from hlotool.analysis.contraction import dense_strides
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products import bf16x3
from hlotool.codegen.cpu.products.bf16x3 import CHUNK, LINES, PIXEL_CHUNK, RANGE, ROW
from hlotool.codegen.cpu.products.bf16x3_product import Bf16x3, emit_begin, emit_end, emit_multiply
from hlotool.codegen.cpu.products.conv_spec import ConvSpec, Spatial
from hlotool.codegen.cpu.products.epilogue import Block, Epilogue
from hlotool.codegen.cpu.products.operands import Operands
from hlotool.codegen.cpu.products.product import Border, Matrix
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.arguments import Place, argument, begin_tasks, unravel
from hlotool.codegen.llvm.control import allocate, begin_loop, when
from hlotool.codegen.llvm.elements import element, multiplies_bf16x3
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, negated, number
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_bf16x3", "serves_bf16x3"]

FRAMED: Annotated[int, Threshold("times")] = 4  # times the pixels of the input a copy may have
COPIES: Annotated[int, Threshold("lines")] = 64
"""Tasks of the copy of the input, if it has so many lines; each has a range that all tasks look at."""
BLOCK_TILES: Annotated[int, Threshold("tiles")] = 3  # of rows of a task
BLOCK_BYTES: Annotated[int, Threshold("bytes")] = 64 << 10  # of results that a task keeps on its stack
TASKS: Annotated[int, Threshold("tasks")] = 16  # at least, if there are so many tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    """The copy: in each slice planes of `lines` x `columns` pixels.

    A plane begins at one of the first lines and columns, and has each line and column that is a stride further.  `taps`
    says where the pixels of the elements of the window begin, in bytes.
    """

    features: int
    slices: tuple[int, ...]
    planes: tuple[tuple[int, int], ...]
    lines: int
    columns: int
    taps: tuple[int, ...] = ()

    @property
    def pixel(self) -> int:
        """Its bytes; likewise of a plane and of a slice."""
        return self.features // CHUNK * PIXEL_CHUNK

    @property
    def plane(self) -> int:
        return self.lines * self.columns * self.pixel

    @property
    def slice(self) -> int:
        return len(self.planes) * self.plane


def serves_bf16x3(spec: ConvSpec, machine: Machine, epilogue: Epilogue | None) -> bool:
    """Whether a convolution can be computed so, and faster."""
    lhs, rhs, out, sums = spec.types
    if not multiplies_bf16x3(lhs, rhs, sums, machine) or out != "f32":
        return False
    pixels, number = math.prod(spec.result[:-1]), element(out).bytes
    plain = spec.groups == 1 and all(d.base_dilation == 1 for d in spec.spatial) and spec.lhs_feature == number
    plain = plain and spec.output_features >= LINES and spec.input_features % CHUNK == 0
    plain = plain and spec.strides == dense_strides(spec.result, number) and number in (spec.rhs_input, spec.rhs_output)
    plain = plain and not (epilogue is not None and epilogue.whole_rows)
    # A frame that is much larger than the image would be mostly zeros.
    framed = math.prod(d.reach for d in spec.spatial)
    plain = plain and framed <= FRAMED * math.prod(d.input for d in spec.spatial)
    asked = machine.choices.split_f32
    if asked is not None:
        return plain and bool(asked)
    numbers = math.prod(spec.input) + spec.input_features * spec.window * spec.output_features
    return plain and bf16x3.pays(float(pixels) * spec.window * spec.input_features * spec.output_features, numbers)


def emit_bf16x3(
    operands: Operands, spec: ConvSpec, places: tuple[Place, Place, Place], epilogue: Epilogue | None,
    border: Border | None,
) -> None:
    """Add the steps of a convolution that `serves_bf16x3`, whose input, kernel and result are at `places`.

    `border` sees to results at the border, if there are any.
    """
    unit, name, scratch, (source, kernel, result) = operands.unit, operands.name, operands.scratch, places
    assert unit.machine is not None
    choices = unit.machine.choices
    dimensions = (*(Spatial(),) * (2 - len(spec.spatial)), *spec.spatial)  # two at least
    image = _image(spec, dimensions)
    tail = (LINES + image.columns) * image.pixel  # that the last tile reads behind the last pixel
    copy = scratch.take(math.prod(image.slices) * image.slice + tail, element("u32"), "input in parts of bf16")
    lines = math.prod(image.slices) * image.lines
    copies = -(-lines // -(-lines // (choices.split_copies or COPIES)))
    ranges = scratch.take(copies * RANGE, element("u32"), "ranges of the input")
    first = _emit_copy(unit, f"split_lhs_{name}", spec, dimensions, image, (source, copy, ranges), copies)
    window = tuple(d.kernel for d in dimensions)  # whose elements lie one by one in blocks of output features
    matrix = Matrix(
        place=replace(kernel, start=kernel.start + spec.rhs_start), batch=tuple(d.rhs for d in dimensions),
        column=spec.rhs_output, terms=(spec.rhs_input,),
    )
    weights, second = replace(operands, batch=window).split(
        "rhs", matrix, spec.output_features, spec.input_features, right=True, group=choices.split_group or bf16x3.GROUP,
        together=True,
    )
    writer = _ProductWriter(unit, name, dimensions, image, weights, epilogue, border)
    step = writer.write(copy, result, Bf16x3(ROW, ranges, copies, weights.ranges, weights.tasks))
    operands.steps += bf16x3.both(unit, f"split_{name}", first, second), step


def _image(spec: ConvSpec, dimensions: Sequence[Spatial]) -> _Image:
    *outer, y, x = dimensions
    firsts = [sorted({tap * d.window_dilation % d.stride for tap in range(d.kernel)}) for d in (y, x)]
    planes = tuple((top, left) for top, left in product(*firsts))
    lines, columns = -(-y.reach // y.stride), -(-x.reach // x.stride)
    slices = (spec.batch, *(d.reach for d in outer))
    image = _Image(features=spec.input_features, slices=slices, planes=planes, lines=lines, columns=columns)
    taps = []
    for *far, down, across in product(*(range(d.kernel) for d in dimensions)):
        slice_ = 0
        for d, tap in zip(outer, far, strict=True):
            slice_ = slice_ * d.reach + tap * d.window_dilation
        plane = planes.index((down * y.window_dilation % y.stride, across * x.window_dilation % x.stride))
        at = down * y.window_dilation // y.stride * columns + across * x.window_dilation // x.stride
        taps.append(slice_ * image.slice + plane * image.plane + at * image.pixel)
    return replace(image, taps=tuple(taps))


def _emit_copy(
    unit: Unit, name: str, spec: ConvSpec, dimensions: Sequence[Spatial], image: _Image,
    places: tuple[Place, Place, Place], tasks: int,
) -> Step:
    """The step that copies the input from the first place to the second, and notes ranges at the third: lines of all
    planes."""
    *outer, y, x = dimensions
    source, target, ranges = places
    lines = math.prod(image.slices) * image.lines
    each = -(-lines // tasks)
    f = Function(unit, signature(name, plumbing=True))
    task = begin_tasks(f)
    noted = argument(f, ranges) + task.index * RANGE
    bf16x3.clear_range(noted)
    first = number(f, task.index * each)
    line = begin_loop(f, first, (first + each).at_most(lines))
    item, *slices, down = unravel(line.index, [*image.slices, image.lines])
    read = argument(f, source) + item * spec.lhs_batch
    within: list[Bool] = []
    for dimension, at in zip(outer, slices, strict=True):
        place = number(f, at) - dimension.padding
        within.append(place.below(dimension.input))
        read += place * dimension.lhs
    slice_ = line.index // image.lines
    write = argument(f, target) + slice_ * image.slice + down * (image.columns * image.pixel)
    for plane, (top, left) in enumerate(image.planes):
        place = number(f, down * y.stride + (top - y.padding))
        inside = reduce(and_, within, place.below(y.input))
        to = write + plane * image.plane
        at_line = read + place * y.lhs
        _emit_line(image, x, left, inside, at_line, to, noted)
    line.end()
    task.end()
    f.finish()
    return Step(name, tasks, math.prod(spec.input) / 4.0)


def _emit_line(image: _Image, x: Spatial, left: int, inside: Bool, read: Ptr, write: Ptr, noted: Ptr) -> None:
    """Copy every so many pixels of the line at `read`, if it is `inside`, from the one on that windows see at `left`.

    What is not of the input is zero.
    """
    # Columns from `begin` to before `end` are of the input.
    begin = min(max(0, -((left - x.padding) // x.stride)), image.columns)
    end = max(min((x.input - 1 - left + x.padding) // x.stride + 1, image.columns), begin)
    read += (begin * x.stride + left - x.padding) * x.lhs

    def pixels() -> None:
        write.clear(begin * image.pixel)
        if end > begin:
            bf16x3.emit_pixels(read, x.stride * x.lhs, end - begin, image.features, write + begin * image.pixel, noted)
        (write + end * image.pixel).clear((image.columns - end) * image.pixel)

    when(inside, pixels)
    when(negated(inside), lambda: write.clear(image.columns * image.pixel))


class _ProductWriter:
    """Writes the step that multiplies the copies of the input and of the kernel.

    A task has a block of `high` rows, pixels in the lines of the image, and `broad` columns, which are features of the
    result; its sums are `pitch` bytes from row to row.
    """

    def __init__(
        self, unit: Unit, name: str, dimensions: Sequence[Spatial], image: _Image, weights: bf16x3.Split,
        epilogue: Epilogue | None, border: Border | None,
    ) -> None:  # fmt: skip
        assert unit.machine is not None
        self.name, self.image, self.weights, self.epilogue, self.border = name, image, weights, epilogue, border
        *outer, y, self.x = dimensions
        self.steps = [1, *(d.stride for d in outer)]
        self.items = [image.slices[0], *(d.output for d in outer)]  # images, and outer dimensions of their outputs
        self.rows, self.pixels = (y.output - 1) * image.columns + self.x.output, y.output * self.x.output
        choices = unit.machine.choices
        panels, most = weights.blocks, (choices.block_bytes or BLOCK_BYTES) // (LINES * LINES * 4)
        wide = min(max(1, min(panels, unit.machine.l2 // 2 // weights.size)), most)
        if choices.block_columns is not None:
            wide = min(wide, choices.block_columns // LINES)
        every = math.prod(self.items) * -(-self.rows // LINES) * -(-panels // wide)
        high, tasks = choices.split_rows or BLOCK_TILES, choices.split_tasks or TASKS
        self.high, self.broad = max(1, min(high, most // wide, every // tasks)) * LINES, wide * LINES
        self.pitch = min(self.broad, panels * LINES) * 4
        unit.constant(f"taps_{name}", f"[{len(image.taps)} x i64] [{', '.join(f'i64 {tap}' for tap in image.taps)}]")
        self.keeps_result, self.time = epilogue is None or epilogue.kept is not None, 0.0
        if epilogue is not None:
            pitch = weights.lines * 4 if self.keeps_result else self.pitch
            items, rows, columns = math.prod(self.items), self.pixels, weights.lines
            block = Block(items=items, rows=rows, columns=columns, pitch=pitch, height=1, width=self.broad)
            self.time = epilogue.emit(unit, f"epilogue_{name}", block)
        self.f = Function(unit, signature(name, plumbing=True))

    def write(self, copy: Place, result: Place, bf16x3: Bf16x3) -> Step:
        """Results go to `result`, or into the epilogue."""
        f, image, weights, items = self.f, self.image, self.weights, self.items
        blocks, groups = -(-self.rows // self.high), -(-weights.lines // self.broad)
        self.sums = allocate(f, "i8", self.high * self.pitch, align=64)
        self.safe = emit_begin(f, bf16x3)
        task = begin_tasks(f)
        if f.unit.machine is not None and f.unit.machine.choices.rows_once:
            *where, row_block, group = unravel(task.index, [*items, blocks, groups])
        else:
            group, *where, row_block = unravel(task.index, [groups, *items, blocks])
        a, self.item = argument(f, copy), number(f, 0)
        strides = [image.slice * math.prod(image.slices[at + 1 :]) for at in range(len(image.slices))]
        for at, extent, stride, step in zip(where, items, strides, self.steps, strict=True):
            a += at * (stride * step)
            self.item = number(f, self.item * extent) + at
        self.row = number(f, row_block * self.high)
        self.row_end = (self.row + self.high).at_most(self.rows)
        self.column = number(f, group * self.broad)
        self.column_end = (self.column + self.broad).at_most(weights.lines)
        a += self.row * image.pixel
        self._tiles(a, argument(f, weights.target) + group * (self.broad // LINES * weights.size))
        self._lines(result)
        task.end()
        emit_end(f)
        f.finish()
        tasks = groups * math.prod(items) * blocks
        work = math.prod(items) * blocks * self.high * weights.blocks * LINES * len(image.taps) * weights.terms
        return Step(self.name, tasks, work / 150.0 + self.time)

    def _tiles(self, a: Ptr, b: Ptr) -> None:
        """Multiply the tiles of a block, whose rows are at `a` and whose columns at `b`."""
        image, weights, pitch = self.image, self.weights, self.pitch
        panel = begin_loop(self.f, self.column, self.column_end, LINES, b, self.sums, at_least_once=True)
        b, sums = panel.values
        columns = (self.column_end - panel.index).at_most(LINES)
        tile = begin_loop(self.f, self.row, self.row_end, LINES, a, sums, at_least_once=True)
        at, to = tile.values
        emit_multiply(
            a=at, a_row=image.pixel, a_part=ROW, a_chunk=PIXEL_CHUNK, b=b, c=to, c_row=pitch,
            rows=(self.row_end - tile.index).at_most(LINES), columns=columns, chunks=weights.terms // CHUNK,
            add=False, safe=self.safe, table=(f"taps_{self.name}", len(image.taps)),
        )  # fmt: skip
        tile.end(at + LINES * image.pixel, to + LINES * pitch)
        panel.end(b + weights.size, sums + LINES * 4)

    def _lines(self, result: Place) -> None:
        """Finish the lines of the image in a block, each without the windows that reach around its end."""
        f, row, columns, output = self.f, self.row, self.image.columns, self.x.output
        behind = (self.row_end + (columns - 1)) // columns
        line = begin_loop(f, row // columns, behind, at_least_once=True)
        begin = number(f, line.index * columns)
        end = (begin + output).at_most(self.row_end)
        first = begin.at_least(row)
        count = end - first

        def finish() -> None:
            sums = self.sums + (first - row) * self.pitch
            self._finish(result, sums, line.index * output + (first - begin), count)

        when(count > 0, finish)
        line.end()

    def _finish(self, result: Place, sums: Ptr, pixel: Index, count: Int) -> None:
        """Hand over `count` rows of sums, which are pixels from `pixel` on."""
        f, row_bytes = self.f, self.weights.lines * 4
        place = (self.item * self.pixels + pixel) * row_bytes + self.column * 4
        columns = self.column_end - self.column
        if self.border is not None:
            see = partial(self.border.call, rows=count, columns=columns, row=self.pitch, place_row=row_bytes)
            when(negated(self.safe), lambda: see(f, sums, place))
        target = sums
        if self.keeps_result:
            target = argument(f, result) + place
            size = columns * 4
            copy = begin_loop(f, 0, count, 1, sums, target, at_least_once=True)
            read, write = copy.values
            write.copy_from(read, size)
            copy.end(read + self.pitch, write + row_bytes)
        if self.epilogue is not None:
            rows = pixel, number(f, pixel) + count
            name, across = f"epilogue_{self.name}", (self.column, self.column_end)
            self.epilogue.call(f, name, target, self.item, rows, across)
