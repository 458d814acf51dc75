"""fft: FFT, IFFT, RFFT and IRFFT over the last one to three dimensions, any length, single and double precision.

Every dimension is a step, or a few.  Columns (a dimension that is not the minor one) are transformed a vector of
neighbours at a time.  Long lines are split in two factors, columns, twiddles, columns (the four-step method: D. Bailey,
"FFTs in external or hierarchical memory", 1990); many short lines are transposed into lanes.  Real transforms of even
length are complex ones of half the length with one more sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.algorithms.fourier import (
    Complex,
    Roots,
    Rows,
    Sink,
    Source,
    bluestein_length,
    chirp_filter,
    conjugate,
    product,
    radices,
    spread,
    transform,
)
from hlotool.codegen.kernel import Kernel, Step, signature
from hlotool.codegen.llvm.access import (
    Index,
    add,
    address,
    choose,
    empty_kernel,
    minimum,
    multiply,
    quotient,
    subtract,
)
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS, type_text
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.vectors import transposed
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError

__all__ = ["emit_fft"]

_SLOTS: Annotated[int, Threshold("tasks")] = 16
"""Tasks with scratch of their own."""
_WIDE: Annotated[int, Threshold("vectors")] = 64  # that a factor fills, above which the next one is not better
_TABLE: Annotated[int, Threshold("elements")] = 2048
"""Up to this length the chirp and the spectrum of its filter are constants; of longer ones calls compute them."""
_SHORT: Annotated[int, Threshold("elements")] = 512
"""Lines up to this length go into lanes when there are enough of them."""

Place = tuple[int, int]
"""(argument number, bytes from there): a buffer of a step."""
Places = Callable[[Place], str]
"""Gives where a buffer begins."""


def emit_fft(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``fft(operand), fft_type=, fft_length=``; inverse transforms are normalised."""
    source, result = instruction.operands[0].shape, instruction.shape
    kinds = {"f32": "float", "c64": "float", "f64": "double", "c128": "double"}
    lengths, how = tuple(instruction.attributes["fft_length"]), instruction.attributes["fft_type"]
    if source.element_type not in kinds or not 1 <= len(lengths) <= 3:
        raise UnsupportedError(f"{instruction.name}: fft of {source} over {len(lengths)} dimensions")
    if result.size == 0 or source.size == 0:
        return empty_kernel(name, machine)
    writer = _Writer(name, machine, kinds[source.element_type])
    outer = prod(result.dimensions[: -len(lengths)])
    sign = -1 if how in ("FFT", "RFFT") else 1
    scale = 1.0 if sign < 0 else 1.0 / prod(lengths)
    operand, target = (0, 0), (1, 0)
    if how == "RFFT":
        writer.real_forward(operand, target, outer * prod(lengths[:-1]), lengths[-1], last=len(lengths) == 1)
        whole = (*lengths[:-1], lengths[-1] // 2 + 1)
        writer.dimensions(writer.held, target, outer, whole, len(lengths) - 1, sign, scale)
    elif how == "IRFFT":
        spectrum = (*lengths[:-1], lengths[-1] // 2 + 1)
        before = operand
        if len(lengths) > 1:
            before = writer.reserve(outer * prod(spectrum) * writer.complex_bytes)
            writer.dimensions(operand, before, outer, spectrum, len(lengths) - 1, sign, 1.0)
        writer.real_inverse(before, target, outer * prod(lengths[:-1]), lengths[-1], scale)
    else:
        writer.dimensions(operand, target, outer, lengths, len(lengths), sign, scale)
    return finish_kernel(writer.unit, writer.steps, writer.scratch)


class _Writer:
    """Steps being gathered, and the scratch buffer they share."""

    def __init__(self, name: str, machine: Machine, kind: str) -> None:
        self.unit = Unit(machine)
        self.name, self.kind = name, kind
        self.lanes = machine.lanes(BITS[kind])
        self.size = BITS[kind] // 8
        self.complex_bytes = 2 * self.size
        self.steps: list[Step] = []
        self.scratch = 0
        self.names: dict[str, int] = {}
        self.held: Place = (0, 0)

    # ---- names, memory, steps

    def fresh(self, hint: str) -> str:
        """A name that does not tell what else there is, so that other kernels have the same for the same."""
        self.names[hint] = self.names.get(hint, 0) + 1
        return f"{hint}{f'_{self.names[hint]}' if self.names[hint] > 1 else ''}_{self.name}"

    def reserve(self, count: int) -> Place:
        """`count` bytes of scratch."""
        place = self.scratch
        self.scratch += -(-count // 64) * 64
        return 2, place

    def step(self, hint: str, tasks: int, cost: float, body: Callable[[Function, Places, Index], None]) -> None:
        """A step whose `body` writes the calls of one task: (function, places, task number)."""
        name = self.fresh(hint)
        f = Function(self.unit, signature(name, plumbing=True))
        pointers = [f.let(f"load ptr, ptr {address(f, '%args', 'ptr', i)}, align 8") for i in range(3)]
        loop = f.begin_loop("%begin", "%end")
        body(f, lambda place: address(f, pointers[place[0]], "i8", place[1]), loop.index)
        f.end_loop(loop)
        f.finish()
        self.steps.append(Step(name, tasks, cost))

    def routine(
        self, hint: str, rest: Sequence[str], body: Callable[[Function, Places], None]
    ) -> Callable[[Function, Places, Sequence[Index]], None]:
        """A function of its own for work that does not know how much of it there is: kernels of other sizes share it.

        It is given the buffers that `body` asks for, and `rest`: types and names.  Returns how it is called.  Where
        that takes long, it looks whether to go on.
        """
        given: dict[Place, str] = {}
        f = Function(self.unit, "")
        f.watch, f.stop = "%watch", ("ret void",)
        body(f, lambda place: given.setdefault(place, f"%p{len(given)}"))
        callee = self.fresh(hint)
        parameters = ["ptr %watch", *(f"ptr {p}" for p in given.values()), *rest]
        f.signature = f"internal void @{callee}({', '.join(parameters)}) nounwind"
        f.finish()
        kinds = [parameter.split()[0] for parameter in rest]

        def call(caller: Function, places: Places, values: Sequence[Index]) -> None:
            arguments = [f"ptr {caller.watch}", *(f"ptr {places(place)}" for place in given)]
            arguments += [f"{kind} {value}" for kind, value in zip(kinds, values, strict=True)]
            caller.do(f"call void @{callee}({', '.join(arguments)})")

        return call

    def each_task(self, hint: str, tasks: int, cost: float, body: Callable[[Function, Places, Index], None]) -> None:
        """A step whose tasks are calls of one routine."""
        call = self.routine(f"{hint}_task", ["i64 %task"], lambda f, places: body(f, places, "%task"))
        self.step(hint, tasks, cost, lambda f, places, task: call(f, places, [task]))

    def roots(self, n: int, sign: int) -> Roots:
        return Roots(self.unit, self.fresh(f"roots{n}"), n, sign, self.kind)

    def pointer(self, f: Function, places: Places, place: Place, offset: Index = 0) -> str:
        """`offset` scalars into the buffer at `place`."""
        return address(f, places(place), self.kind, offset)

    # ---- memory of complex numbers

    def load(self, f: Function, pointer: str, index: Index, lanes: int) -> Complex:
        """`lanes` neighbouring complex numbers."""
        place = address(f, pointer, self.kind, multiply(f, index, 2))
        if lanes == 1:
            real, imaginary = (
                f.let(f"load {self.kind}, ptr {address(f, place, self.kind, i)}, align {self.size}") for i in (0, 1)
            )
            return Vector(f, self.kind, 1, real), Vector(f, self.kind, 1, imaginary)
        wide = type_text(self.kind, lanes)
        halves = [
            f.let(f"load {wide}, ptr {address(f, place, self.kind, i * lanes)}, align {self.size}") for i in (0, 1)
        ]
        return self.apart(f, lanes, *halves)

    def store(self, f: Function, pointer: str, index: Index, value: Complex) -> None:
        place = address(f, pointer, self.kind, multiply(f, index, 2))
        parts = [part.name for part in value] if value[0].lanes == 1 else self.together(f, value)
        for i, part in enumerate(parts):
            at = address(f, place, self.kind, i * value[0].lanes)
            f.do(f"store {value[0].type} {part}, ptr {at}, align {self.size}")

    def apart(self, f: Function, lanes: int, low: str, high: str) -> Complex:
        """Real and imaginary parts of complex numbers in two vectors."""
        wide = type_text(self.kind, lanes)
        real, imaginary = (
            f.let(
                f"shufflevector {wide} {low}, {wide} {high}, <{lanes} x i32> <"
                + ", ".join(f"i32 {2 * i + first}" for i in range(lanes))
                + ">"
            )
            for first in (0, 1)
        )
        return Vector(f, self.kind, lanes, real), Vector(f, self.kind, lanes, imaginary)

    def together(self, f: Function, value: Complex) -> list[str]:
        """Complex numbers in two vectors."""
        lanes, wide = value[0].lanes, value[0].type
        return [
            f.let(
                f"shufflevector {wide} {value[0].name}, {wide} {value[1].name}, <{lanes} x i32> <"
                + ", ".join(f"i32 {i // 2 + (i % 2) * lanes}" for i in range(first, first + lanes))
                + ">"
            )
            for first in (0, lanes)
        ]

    # ---- complex transforms

    def dimensions(
        self, source: Place, target: Place, outer: int, sizes: tuple[int, ...], count: int, sign: int, scale: float
    ) -> None:
        """Transform the first `count` of `sizes` (the last dimensions of the array), the last one of them first."""
        if count == 0:
            return
        total = outer * prod(sizes) * self.complex_bytes
        spare = self.reserve(total) if count > 1 else target
        for number, axis in enumerate(reversed(range(count))):
            left = count - 1 - number
            into = target if left % 2 == 0 else spare
            before, after = outer * prod(sizes[:axis]), prod(sizes[axis + 1 :])
            self.axis(source, into, before, sizes[axis], after, sign, 1.0 if left else scale)
            source = into

    def axis(self, source: Place, target: Place, outer: int, n: int, inner: int, sign: int, scale: float) -> None:
        """Transform dimension n of [outer, n, inner]; `source` and `target` are different buffers."""
        if inner > 1:
            self.columns(source, target, outer, n, inner, sign, scale)
            return
        split = self.split(n)
        if split is None or (outer >= self.lanes and n <= _SHORT):
            self.lines(source, target, outer, n, sign, scale)
        else:
            self.four_step(source, target, outer, split, sign, scale)

    def split(self, n: int) -> tuple[int, int] | None:
        """Two factors that both fill vectors, or None."""
        if radices(n) is None:
            return None
        best: tuple[int, tuple[int, int]] | None = None
        for first in range(4, n // 4 + 1):
            if n % first == 0:
                second = n // first
                lanes = _power_below(min(first, second, self.lanes))
                cost = -(-second // lanes) * first + -(-first // lanes) * second + first + second
                if best is None or cost < best[0]:
                    best = cost, (first, second)
            if first * first > n and best is not None and first > _WIDE * self.lanes:
                break
        return best[1] if best else None

    def column(
        self, n: int, sign: int, lanes: int
    ) -> tuple[int, Callable[[Function, Places, str, Source, Sink], None]]:
        """The code of one transform per lane: (scratch bytes, writer(f, places, scratch, source, sink))."""
        row = 2 * lanes * self.size
        if radices(n) is not None:
            roots = self.roots(n, sign)

            def smooth(f: Function, places: Places, own: str, source: Source, sink: Sink) -> None:
                buffers = Rows(f, own, self.kind, lanes), Rows(f, address(f, own, "i8", n * row), self.kind, lanes)
                transform(f, n, roots, source, sink, buffers, lanes)

            return 2 * n * row, smooth
        return self.bluestein(n, sign, lanes)

    def bluestein(
        self, n: int, sign: int, lanes: int
    ) -> tuple[int, Callable[[Function, Places, str, Source, Sink], None]]:
        """X[k] = c[k] sum_j (x[j] c[j]) conj(c[k - j]) with the chirp c[j] = exp(sign pi i j^2 / n)."""
        m = bluestein_length(n)
        roots = self.roots(m, -1)
        row = 2 * lanes * self.size

        # The chirp; and the spectrum of its filter, scaled by 1 / m.
        if n <= _TABLE:
            chirp_table, filter_table = self.fresh("chirps"), self.fresh("filter")
            chirp_filter(self.unit, chirp_table, filter_table, n, m, sign, self.kind)
        else:
            chirps = self.roots(2 * n, sign)
            filter_place = self.reserve(m * self.complex_bytes)
            work = self.reserve(3 * m * self.complex_bytes)

        def chirp(f: Function, j: Index, width: int) -> Complex:
            if n <= _TABLE:
                return spread(Rows(f, f"@{chirp_table}", self.kind, 1).get(j), width)
            return chirps.spread(f, f.let(f"urem i64 {multiply(f, j, j)}, {2 * n}"), width)

        def three(f: Function, own: str, width: int) -> tuple[Rows, Rows, Rows]:
            size = m * 2 * width * self.size
            first, second, third = (Rows(f, address(f, own, "i8", i * size), self.kind, width) for i in range(3))
            return first, second, third

        def zero(f: Function, rows: Rows, first: int) -> None:
            loop = f.begin_loop(first, m)
            nothing = Vector(f, self.kind, rows.lanes, "0.0" if rows.lanes == 1 else "zeroinitializer")
            rows.put(loop.index, (nothing, nothing))
            f.end_loop(loop)

        def prepare(f: Function, places: Places, task: Index) -> None:
            """The spectrum of the filter."""
            data, *buffers = three(f, self.pointer(f, places, work), 1)
            zero(f, data, 0)
            loop = f.begin_loop(0, n)
            value = conjugate(chirp(f, loop.index, 1))
            data.put(loop.index, value)
            data.put(choose(f, "eq", loop.index, 0, 0, subtract(f, m, loop.index)), value)
            f.end_loop(loop)
            out = Rows(f, self.pointer(f, places, filter_place), self.kind, 1)
            transform(
                f, m, roots, data.get, lambda k, v: out.put(k, (v[0] * (1.0 / m), v[1] * (1.0 / m))),
                (buffers[0], buffers[1]), 1,
            )  # fmt: skip

        if n > _TABLE:
            self.each_task("chirp", 1, m * 40.0, prepare)

        def convolve(f: Function, places: Places, own: str, source: Source, sink: Sink) -> None:
            data, *buffers = three(f, own, lanes)
            pair = buffers[0], buffers[1]
            zero(f, data, n)
            loop = f.begin_loop(0, n)
            data.put(loop.index, product(source(loop.index), chirp(f, loop.index, lanes)))
            f.end_loop(loop)
            spectrum = f"@{filter_table}" if n <= _TABLE else self.pointer(f, places, filter_place)
            response = Rows(f, spectrum, self.kind, 1)

            def filtered(k: Index, value: Complex) -> None:
                data.put(k, conjugate(product(value, spread(response.get(k), lanes))))

            # The inverse transform is the conjugate of the transform of the conjugate.
            transform(f, m, roots, data.get, filtered, pair, lanes)
            transform(f, m, roots, data.get, data.put, pair, lanes)
            last = f.begin_loop(0, n)
            sink(last.index, product(conjugate(data.get(last.index)), chirp(f, last.index, lanes)))
            f.end_loop(last)

        return 3 * m * row, convolve

    def each_item(
        self, hint: str, items: int, bytes_each: int, cost: float,
        body: Callable[[Function, Places, Index, str], None],
    ) -> None:  # fmt: skip
        """A step over `items`, each with `bytes_each` bytes of scratch: body(f, places, item, scratch)."""
        bytes_each = -(-bytes_each // 64) * 64
        tasks = min(items, _SLOTS)
        slots = self.reserve(tasks * bytes_each)
        call = self.routine(
            f"{hint}_item", ["i64 %item", "ptr %own"], lambda f, places: body(f, places, "%item", "%own")
        )

        def run(f: Function, places: Places, task: Index) -> None:
            own = address(f, places(slots), "i8", multiply(f, task, bytes_each))
            first = quotient(f, multiply(f, task, items), tasks)
            after = quotient(f, multiply(f, add(f, task, 1), items), tasks)
            loop = f.begin_loop(first, after)
            call(f, places, [loop.index, own])
            f.end_loop(loop)

        self.step(hint, tasks, cost, run)

    def columns(self, source: Place, target: Place, outer: int, n: int, inner: int, sign: int, scale: float) -> None:
        """[outer, n, inner] along n, by blocks of neighbouring columns; the last one reaches back if it must."""
        lanes = _power_below(min(inner, self.lanes))
        blocks = -(-inner // lanes)
        size, write = self.column(n, sign, lanes)

        def block(f: Function, places: Places, item: Index, own: str) -> None:
            line = quotient(f, item, blocks)
            column = multiply(f, subtract(f, item, multiply(f, line, blocks)), lanes)
            start = add(f, multiply(f, line, n * inner), minimum(f, column, inner - lanes))
            read_from, write_to = self.pointer(f, places, source), self.pointer(f, places, target)
            write(
                f, places, own,
                lambda r: self.load(f, read_from, add(f, start, multiply(f, r, inner)), lanes),
                lambda r, v: self.store(f, write_to, add(f, start, multiply(f, r, inner)), _scaled(v, scale)),
            )  # fmt: skip

        self.each_item("columns", outer * blocks, size, _cost(outer * inner, n, lanes), block)

    def lines(self, source: Place, target: Place, count: int, n: int, sign: int, scale: float) -> None:
        """[count, n] along n: `lanes` lines at a time, transposed through scratch."""
        lanes = _power_below(min(count, self.lanes))
        blocks = -(-count // lanes)
        size, write = self.column(n, sign, lanes)
        row = 2 * lanes * self.size

        def block(f: Function, places: Places, item: Index, own: str) -> None:
            first = minimum(f, multiply(f, item, lanes), count - lanes)
            data = Rows(f, own, self.kind, lanes)
            rest = address(f, own, "i8", n * row)
            read_from = self.pointer(f, places, source, multiply(f, first, 2 * n))
            write_to = self.pointer(f, places, target, multiply(f, first, 2 * n))
            self.transposed(f, n, read_from, data)
            write(f, places, rest, data.get, lambda r, v: data.put(r, _scaled(v, scale)))
            self.untransposed(f, n, data, write_to, lambda b, write: write())

        self.each_item("lines", blocks, size + n * row, _cost(count, n, lanes), block)

    def transposed(self, f: Function, n: int, pointer: str, data: Rows) -> None:
        """Rows of `data`, whose lanes are lines, from lines of `n` complex numbers that follow each other in memory."""
        lanes, half = data.lanes, data.lanes // 2
        if lanes == 1 or n < half:
            loop = f.begin_loop(0, n)
            parts = [self.load(f, pointer, add(f, loop.index, b * n), 1) for b in range(lanes)]
            data.put(loop.index, (_packed([p[0] for p in parts]), _packed([p[1] for p in parts])))
            f.end_loop(loop)
            return
        loop = f.begin_loop(0, n, half)
        start = minimum(f, loop.index, n - half)
        place = address(f, pointer, self.kind, multiply(f, start, 2))
        kind = type_text(self.kind, lanes)
        lines = [
            f.let(f"load {kind}, ptr {address(f, place, self.kind, b * 2 * n)}, align {self.size}")
            for b in range(lanes)
        ]
        pairs = zip(self.turned(f, lines[:half]), self.turned(f, lines[half:]), strict=True)
        for k, (low, high) in enumerate(pairs):
            data.put(add(f, start, k), self.apart(f, lanes, low, high))
        f.end_loop(loop)

    def untransposed(
        self, f: Function, n: int, data: Rows, pointer: str, guarded: Callable[[int, Callable[[], None]], None]
    ) -> None:
        """Lines of `n` complex numbers that follow each other in memory, from rows of `data` whose lanes are lines.

        What writes a line is handed to `guarded`, with its number.
        """
        lanes, half = data.lanes, data.lanes // 2
        if lanes == 1 or n < half:
            loop = f.begin_loop(0, n)
            real, imaginary = data.get(loop.index)

            def write_one(b: int) -> None:
                self.store(f, pointer, add(f, loop.index, b * n), (_lane(real, b), _lane(imaginary, b)))

            for b in range(lanes):
                guarded(b, partial(write_one, b))
            f.end_loop(loop)
            return
        loop = f.begin_loop(0, n, half)
        start = minimum(f, loop.index, n - half)
        place = address(f, pointer, self.kind, multiply(f, start, 2))
        both = [self.together(f, data.get(add(f, start, k))) for k in range(half)]
        lines = self.turned(f, [low for low, _ in both]) + self.turned(f, [high for _, high in both])

        def write(b: int) -> None:
            spot = address(f, place, self.kind, b * 2 * n)
            f.do(f"store {type_text(self.kind, lanes)} {lines[b]}, ptr {spot}, align {self.size}")

        for b in range(lanes):
            guarded(b, partial(write, b))
        f.end_loop(loop)

    def turned(self, f: Function, rows: list[str]) -> list[str]:
        """A square of complex numbers, transposed."""
        return [row.name for row in transposed([Vector(f, self.kind, 2 * len(rows), row) for row in rows], 2)]

    def four_step(
        self, source: Place, target: Place, count: int, split: tuple[int, int], sign: int, scale: float
    ) -> None:
        """Lines of n1 n2: columns of length n1, twiddles, columns of length n2; a transposed copy in between."""
        n1, n2 = split
        n = n1 * n2
        lanes = _power_below(min(n1, n2, self.lanes))
        roots = self.roots(n, sign)
        first_size, first_columns = self.column(n1, sign, lanes)
        second_size, second_columns = self.column(n2, sign, lanes)
        middle = self.reserve(count * n * self.complex_bytes)
        starts = self.reserve(n1 * 2 * lanes * self.size)
        row = 2 * lanes * self.size

        def tables(f: Function, places: Places, task: Index) -> None:
            """w^(k1 b) for the lanes b of a block that starts at column 0."""
            rows = Rows(f, self.pointer(f, places, starts), self.kind, lanes)
            parts = [roots.get(f, multiply(f, task, b)) for b in range(lanes)]
            rows.put(task, (_packed([p[0] for p in parts]), _packed([p[1] for p in parts])))

        self.each_task("twiddles", n1, n1 * lanes * 4.0, tables)
        blocks = -(-n2 // lanes)

        def first(f: Function, places: Places, item: Index, own: str) -> None:
            line = quotient(f, item, blocks)
            block = multiply(f, subtract(f, item, multiply(f, line, blocks)), lanes)
            column = minimum(f, block, n2 - lanes)
            read_from = self.pointer(f, places, source, multiply(f, line, 2 * n))
            after = self.pointer(f, places, middle, multiply(f, line, 2 * n))
            data, table = Rows(f, own, self.kind, lanes), Rows(f, self.pointer(f, places, starts), self.kind, lanes)

            def turned(k: Index, value: Complex) -> None:
                at_start = roots.spread(f, multiply(f, k, column), lanes)
                data.put(k, product(value, product(table.get(k), at_start)))

            first_columns(
                f, places, address(f, own, "i8", n1 * row),
                lambda r: self.load(f, read_from, add(f, column, multiply(f, r, n2)), lanes), turned,
            )  # fmt: skip

            def keep(b: int, store: Callable[[], None]) -> None:
                # Columns that the block before has as well are its own: their twiddles round differently here.
                if n2 % lanes == 0:
                    store()
                    return
                own_column, skip = f.fresh("own"), f.fresh("skip")
                f.branch(f.let(f"icmp sge i64 {add(f, column, b)}, {block}"), own_column, skip)
                f.label(own_column)
                store()
                f.jump(skip)
                f.label(skip)

            self.untransposed(f, n1, data, address(f, after, self.kind, multiply(f, column, 2 * n1)), keep)

        self.each_item("first", count * blocks, first_size + n1 * row, _cost(count * n2, n1, lanes) * 1.5, first)
        groups = -(-n1 // lanes)

        def second(f: Function, places: Places, item: Index, own: str) -> None:
            line = quotient(f, item, groups)
            block = multiply(f, subtract(f, item, multiply(f, line, groups)), lanes)
            column = minimum(f, block, n1 - lanes)
            before = self.pointer(f, places, middle, multiply(f, line, 2 * n))
            write_to = self.pointer(f, places, target, multiply(f, line, 2 * n))
            second_columns(
                f, places, own,
                lambda r: self.load(f, before, add(f, column, multiply(f, r, n1)), lanes),
                lambda k, v: self.store(f, write_to, add(f, column, multiply(f, k, n1)), _scaled(v, scale)),
            )  # fmt: skip

        self.each_item("second", count * groups, second_size, _cost(count * n1, n2, lanes), second)

    # ---- real transforms

    def real_forward(self, source: Place, target: Place, count: int, n: int, last: bool) -> None:
        """Real lines of n to n / 2 + 1 coefficients; in `target` if `last`, else in scratch, named by `held`."""
        bins = n // 2 + 1
        out = target if last else self.reserve(count * bins * self.complex_bytes)
        self.held = out
        half = n // 2
        if n % 2 or n < 4:
            wide, spectrum = (self.reserve(count * n * self.complex_bytes) for _ in range(2))
            self.each_value("widen", count, n, lambda f, places, line, j: self.store(
                f, self.pointer(f, places, wide), add(f, multiply(f, line, n), j),
                (self.real(f, self.pointer(f, places, source), add(f, multiply(f, line, n), j)), self.zero(f)),
            ))  # fmt: skip
            self.axis(wide, spectrum, count, n, 1, -1, 1.0)
            self.each_value("cut", count, bins, lambda f, places, line, k: self.store(
                f, self.pointer(f, places, out), add(f, multiply(f, line, bins), k),
                self.load(f, self.pointer(f, places, spectrum), add(f, multiply(f, line, n), k), 1),
            ))  # fmt: skip
            return
        packed = self.reserve(count * half * self.complex_bytes)
        self.axis(source, packed, count, half, 1, -1, 1.0)
        self.halves(packed, out, count, half)

    def real_inverse(self, source: Place, target: Place, count: int, n: int, scale: float) -> None:
        """n / 2 + 1 coefficients to real lines of n; imaginary parts that must be zero are not read."""
        bins, half = n // 2 + 1, n // 2
        if n % 2 == 0 and n >= 4:
            packed = self.reserve(count * half * self.complex_bytes)
            self.halves(source, packed, count, half, scale)
            self.axis(packed, target, count, half, 1, -1, 1.0)
            return
        whole, lines = (self.reserve(count * n * self.complex_bytes) for _ in range(2))

        def extend(f: Function, places: Places, line: Index, k: Index) -> None:
            mirrored = f.let(f"icmp sgt i64 {k}, {half}")
            bin_ = f.let(f"select i1 {mirrored}, i64 {subtract(f, n, k)}, i64 {k}")
            real, imaginary = self.load(f, self.pointer(f, places, source), add(f, multiply(f, line, bins), bin_), 1)
            flipped = f.let(f"select i1 {mirrored}, {self.kind} {(-imaginary).name}, {self.kind} {imaginary.name}")
            alone = f.let(f"icmp eq i64 {k}, 0")
            if n % 2 == 0:
                alone = f.let(f"or i1 {alone}, {f.let(f'icmp eq i64 {k}, {half}')}")
            part = f.let(f"select i1 {alone}, {self.kind} 0.0, {self.kind} {flipped}")
            place = add(f, multiply(f, line, n), k)
            self.store(f, self.pointer(f, places, whole), place, (real, Vector(f, self.kind, 1, part)))

        def keep_real(f: Function, places: Places, line: Index, j: Index) -> None:
            place = add(f, multiply(f, line, n), j)
            real, _ = self.load(f, self.pointer(f, places, lines), place, 1)
            spot = address(f, self.pointer(f, places, target), self.kind, place)
            f.do(f"store {self.kind} {real.name}, ptr {spot}, align {self.size}")

        self.each_value("extend", count, n, extend)
        self.axis(whole, lines, count, n, 1, 1, scale)
        self.each_value("real", count, n, keep_real)

    def each_value(
        self, hint: str, count: int, size: int, body: Callable[[Function, Places, Index, Index], None]
    ) -> None:
        def run(f: Function, places: Places, line: Index) -> None:
            loop = f.begin_loop(0, size)
            body(f, places, line, loop.index)
            f.end_loop(loop)

        self.each_task(hint, count, count * size * 2.0, run)

    def real(self, f: Function, pointer: str, index: Index) -> Vector:
        place = address(f, pointer, self.kind, index)
        return Vector(f, self.kind, 1, f.let(f"load {self.kind}, ptr {place}, align {self.size}"))

    def zero(self, f: Function) -> Vector:
        return Vector(f, self.kind, 1, "0.0")

    def halves(self, source: Place, target: Place, count: int, half: int, inverse: float | None = None) -> None:
        """Between the spectrum X of a real line (half + 1) and the transform Z of its even + i odd elements (half).

        X[k] = E + w^k O and Z[k] = E + i O, with E and O the even and odd parts under k -> half - k, conjugated.  The
        `inverse` direction has a factor, and gives Z back to front: the forward transform of that is the inverse of Z.
        """
        n = 2 * half
        roots = self.roots(n, -1)
        source_size, target_size = (half, half + 1) if inverse is None else (half + 1, half)
        factor = 0.5 if inverse is None else inverse

        def line(f: Function, places: Places, task: Index) -> None:
            read_from = self.pointer(f, places, source, multiply(f, task, 2 * source_size))
            write_to = self.pointer(f, places, target, multiply(f, task, 2 * target_size))
            if inverse is None:
                real, imaginary = self.load(f, read_from, 0, 1)
                self.store(f, write_to, 0, (real + imaginary, self.zero(f)))
                self.store(f, write_to, half, (real - imaginary, self.zero(f)))
            else:
                low, high = self.load(f, read_from, 0, 1)[0], self.load(f, read_from, half, 1)[0]
                self.store(f, write_to, 0, ((low + high) * factor, (low - high) * factor))

            def sweep(first: int, stop: int, lanes: int) -> None:
                loop = f.begin_loop(first, stop, lanes)
                k = loop.index
                here = self.load(f, read_from, k, lanes)
                there = self.load(f, read_from, subtract(f, half - lanes + 1, k), lanes)
                mirror = conjugate((_reversed(there[0]), _reversed(there[1])))
                even = (here[0] + mirror[0]) * factor, (here[1] + mirror[1]) * factor
                odd = (here[0] - mirror[0]) * factor, (here[1] - mirror[1]) * factor
                turn = product(roots.row(f, lanes), roots.spread(f, k, lanes))
                if inverse is None:
                    turned = product((odd[1], -odd[0]), turn)
                    result = even[0] + turned[0], even[1] + turned[1]
                else:  # Z[half - k], of which X[half - k] is the conjugate of `mirror`
                    turned = product(conjugate(odd), turn)
                    result = even[0] - turned[1], turned[0] - even[1]
                self.store(f, write_to, k, result)
                f.end_loop(loop)

            whole = 1 + (half - 1) // self.lanes * self.lanes
            if whole > 1:
                sweep(1, whole, self.lanes)
            if whole < half:
                sweep(whole, half, 1)

        self.each_task("halves", count, count * half * 1.0, line)


def _power_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _cost(lines: int, n: int, lanes: int) -> float:
    return lines * n * max(1, n.bit_length()) * 1.2 / lanes


def _scaled(value: Complex, scale: float) -> Complex:
    return value if scale == 1.0 else (value[0] * scale, value[1] * scale)


def _packed(scalars: list[Vector]) -> Vector:
    """Scalars as the lanes of a vector."""
    first = scalars[0]
    if len(scalars) == 1:
        return first
    kind, name = type_text(first.element, len(scalars)), "poison"
    for lane, scalar in enumerate(scalars):
        name = first.f.let(f"insertelement {kind} {name}, {first.element} {scalar.name}, i64 {lane}")
    return Vector(first.f, first.element, len(scalars), name)


def _lane(x: Vector, lane: int) -> Vector:
    if x.lanes == 1:
        return x
    return Vector(x.f, x.element, 1, x.f.let(f"extractelement {x.type} {x.name}, i64 {lane}"))


def _reversed(x: Vector) -> Vector:
    if x.lanes == 1:
        return x
    order = ", ".join(f"i32 {i}" for i in reversed(range(x.lanes)))
    return x.let(f"shufflevector {x.type} {x.name}, {x.type} poison, <{x.lanes} x i32> <{order}>")
