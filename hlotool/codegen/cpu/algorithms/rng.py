"""rng-bit-generator: ThreeFry-2x32 and Philox-4x32, bit for bit as XLA lays them out, on vectors of counters.

The ciphers: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).  The state is a
64-bit key, then a counter of 64 bits (ThreeFry) or 128 bits (Philox; a state of two words has the key as the
counter's high word).  64-bit results are two words each, narrow ones the low bits of a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.access import (
    Index,
    add,
    address,
    maximum,
    minimum,
    multiply,
    quotient,
    splat,
    step_function,
    subtract,
)
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError, element_type

__all__ = ["emit_rng_bit_generator", "philox_words"]

_CHUNK: Annotated[int, Threshold("elements")] = 4096
"""Counters per task."""
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)

Rounds = Callable[[Sequence[Vector], tuple[Vector, Vector]], list[Vector]]
"""A cipher: (counter words, key words) -> random words."""


@dataclass(frozen=True, slots=True)
class _Words:
    """How 32-bit random words become elements in memory: the low `bits` of each, `store_bits` wide."""

    bits: int
    store_bits: int
    signed: bool

    def narrow(self, x: Vector) -> Vector:
        if self.store_bits < 32:
            x = x.cast("trunc", f"i{self.store_bits}")
        if self.bits < self.store_bits:
            left = self.store_bits - self.bits
            x = x.shl(left).ashr(left) if self.signed else x & ((1 << self.bits) - 1)
        return x

    def write(self, out: str, index: Index, x: Vector) -> None:
        """Store words that lie next to each other from element `index` on."""
        place = address(x.f, out, f"i{self.store_bits}", index)
        value = self.narrow(x)
        x.f.do(f"store {value.type} {value.name}, ptr {place}, align {self.store_bits // 8}")


def emit_rng_bit_generator(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``(new state, bits) rng-bit-generator(state), algorithm=``."""
    shape = instruction.shape.elements[1]
    state_words = instruction.operands[0].shape.byte_size // 8
    row = element_type(shape.element_type)
    threefry = instruction.attributes["algorithm"] == "rng_three_fry"
    if row.kind not in ("signed", "unsigned", "float") or state_words not in ((2,) if threefry else (2, 3)):
        raise UnsupportedError(f"{instruction.name}: random bits of {shape} from {instruction.operands[0].shape}")
    words = _Words(min(row.bits, 32), min(max(row.bits, 8), 32), row.kind == "signed")
    sizes = (2 * shape.size,) if row.bits == 64 else shape.dimensions
    unit = Unit(machine)
    lanes = machine.lanes(32)
    if threefry:
        counters, step = _threefry_step(unit, name, words, sizes, lanes)
    else:
        counters, step = _philox_step(unit, name, words, prod(sizes), lanes, state_words)
    state = _state_step(unit, f"state_{name}", counters, state_words)
    return finish_kernel(unit, [state, *([step] if step else [])])


def _state_step(unit: Unit, name: str, counters: int, words: int) -> Step:
    """The key stays, the counter moves on."""
    f, (before, after) = step_function(unit, name, 2)
    state = [f.let(f"load i64, ptr {address(f, before, 'i64', i)}, align 8") for i in range(words)]
    low = f.let(f"add i64 {state[1]}, {counters}")
    carry = f.let(f"zext i1 {f.let(f'icmp ult i64 {low}, {state[1]}')} to i64")
    result = [state[0], low, *(f.let(f"add i64 {high}, {carry}") for high in state[2:])]
    for i, word in enumerate(result):
        f.do(f"store i64 {word}, ptr {address(f, after, 'i64', i)}, align 8")
    f.finish()
    return Step(name)


def _state(f: Function, pointer: str, index: int) -> str:
    return f.let(f"load i64, ptr {address(f, pointer, 'i64', index)}, align 8")


def _halves(f: Function, word: str, lanes: int) -> tuple[Vector, Vector]:
    """Low and high 32 bits of a scalar i64, in all lanes."""
    low = f.let(f"trunc i64 {word} to i32")
    high = f.let(f"trunc i64 {f.let(f'lshr i64 {word}, 32')} to i32")
    return Vector(f, "i32", lanes, splat(f, "i32", lanes, low)), Vector(f, "i32", lanes, splat(f, "i32", lanes, high))


def _split(x: Vector) -> tuple[Vector, Vector]:
    """Low and high 32 bits of i64 lanes."""
    return x.cast("trunc", "i32"), x.lshr(32).cast("trunc", "i32")


def _counters(f: Function, base: str, first: Index, lanes: int) -> Vector:
    """base + first + lane as i64."""
    start = f.let(f"add i64 {base}, {first}")
    wide = Vector(f, "i64", lanes, splat(f, "i64", lanes, start))
    if lanes == 1:
        return wide
    steps = ", ".join(f"i64 {i}" for i in range(lanes))
    return wide + Vector(f, "i64", lanes, f"<{steps}>")


def _interleaved(parts: Sequence[Vector]) -> Vector:
    """a0 b0 c0 d0 a1 b1 ... of two or four vectors."""
    if len(parts) == 1:
        return parts[0]
    first, second = _interleaved(parts[::2]), _interleaved(parts[1::2])
    order = ", ".join(f"i32 {i // 2 + (i % 2) * first.lanes}" for i in range(2 * first.lanes))
    f, lanes = first.f, 2 * first.lanes
    if first.lanes == 1:
        wide = f.let(f"insertelement <2 x i32> poison, i32 {first.name}, i64 0")
        return Vector(f, "i32", 2, f.let(f"insertelement <2 x i32> {wide}, i32 {second.name}, i64 1"))
    return Vector(
        f, "i32", lanes,
        f.let(f"shufflevector {first.type} {first.name}, {second.type} {second.name}, <{lanes} x i32> <{order}>"),
    )  # fmt: skip


def _cipher(name: str, rounds: Rounds, counter: list[Vector], key_word: str) -> list[Vector]:
    """Apply `rounds` in a function of its own, written on first use for these lanes.

    LLVM's loop passes would take longer over this straight line, were it inside the loops, than over all the rest.
    """
    first = counter[0]
    f, lanes, kind = first.f, first.lanes, first.type
    result = "{ " + ", ".join([kind] * len(counter)) + " }"
    symbol = f"cipher{lanes}_{name}"
    parameters = ", ".join(f"{kind} %c{i}" for i in range(len(counter)))
    head = f"internal {result} @{symbol}({parameters}, i64 %key) nounwind"
    if all(definition.name != symbol for definition in f.unit.definitions):
        inner = Function(f.unit, head)
        words = [Vector(inner, "i32", lanes, f"%c{i}") for i in range(len(counter))]
        value = "poison"
        for i, word in enumerate(rounds(words, _halves(inner, "%key", lanes))):
            value = inner.let(f"insertvalue {result} {value}, {kind} {word.name}, {i}")
        inner.finish(f"{result} {value}")
    given = ", ".join(f"{kind} {word.name}" for word in counter)
    value = f.let(f"call {result} @{symbol}({given}, i64 {key_word})")
    return [Vector(f, "i32", lanes, f.let(f"extractvalue {result} {value}, {i}")) for i in range(len(counter))]


# ---- ThreeFry


def _threefry(counter: Sequence[Vector], key: tuple[Vector, Vector]) -> list[Vector]:
    """Twenty rounds."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    left, right = counter[0] + schedule[0], counter[1] + schedule[1]
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            left = left + right
            right = left ^ right.call("fshl", right, right.like(rotation))
        left = left + schedule[(block + 1) % 3]
        right = right + schedule[(block + 2) % 3] + (block + 1)
    return [left, right]


def _split_dimension(sizes: Sequence[int]) -> int:
    """The first even dimension, or else the first of the largest ones."""
    even = [dimension for dimension, size in enumerate(sizes) if size % 2 == 0]
    return even[0] if even else max(range(len(sizes)), key=lambda dimension: sizes[dimension])


def _threefry_step(
    unit: Unit, name: str, words: _Words, sizes: tuple[int, ...], lanes: int
) -> tuple[int, Step | None]:
    """Each counter gives two words, which are neighbours along one dimension of the result."""
    grid = sizes or (1,)
    split = _split_dimension(grid)
    before, size, after = prod(grid[:split]), grid[split], prod(grid[split + 1 :])
    if after == 1 and size % 2 == 0:
        before, size = 1, before * size
    half = -(-size // 2)
    count = before * half * after
    if count == 0:
        return 0, None
    chunks = -(-half // _CHUNK) if after == 1 else half
    f, (state, _, out) = step_function(unit, name, 3)
    key_word, base = _state(f, state, 0), _state(f, state, 1)
    task = f.begin_loop("%begin", "%end")
    row: Index = 0 if before == 1 else quotient(f, task.index, chunks)
    part = task.index if before == 1 else subtract(f, task.index, multiply(f, row, chunks))

    def pairs(first: Index, stop: Index, width: int, emit_pair: bool) -> None:
        """Counters [first, stop) of the row (after == 1), two words side by side, or only the first one."""
        loop = f.begin_loop(first, stop, width)
        counter = _counters(f, base, add(f, multiply(f, row, half), loop.index), width)
        left, right = _cipher(name, _threefry, list(_split(counter)), key_word)
        place = add(f, multiply(f, row, size), multiply(f, loop.index, 2))
        words.write(out, place, _interleaved([left, right]) if emit_pair else left)
        f.end_loop(loop)

    def columns(first: Index, stop: Index, width: int) -> None:
        """Counters of one pair of lines (after > 1): line 2 * part, and the one after it when it exists."""
        loop = f.begin_loop(first, stop, width)
        index = add(f, multiply(f, task.index, after), loop.index)
        left, right = _cipher(name, _threefry, list(_split(_counters(f, base, index, width))), key_word)
        line = add(f, multiply(f, row, size), multiply(f, part, 2))
        words.write(out, add(f, multiply(f, line, after), loop.index), left)
        if size % 2 == 0:
            words.write(out, add(f, multiply(f, add(f, line, 1), after), loop.index), right)
        else:
            there, done = f.fresh("there"), f.fresh("done")
            f.branch(f.let(f"icmp slt i64 {multiply(f, part, 2)}, {size - 1}"), there, done)
            f.label(there)
            words.write(out, add(f, multiply(f, add(f, line, 1), after), loop.index), right)
            f.jump(done)
            f.label(done)
        f.end_loop(loop)

    if after == 1:
        first = multiply(f, part, _CHUNK)
        stop = minimum(f, add(f, first, _CHUNK), size // 2)
        whole = add(f, first, f.let(f"and i64 {maximum(f, subtract(f, stop, first), 0)}, {-lanes}"))
        pairs(first, whole, lanes, True)
        pairs(whole, stop, 1, True)
        if size % 2:
            pairs(maximum(f, first, size // 2), minimum(f, add(f, first, _CHUNK), half), 1, False)
    else:
        whole = after // lanes * lanes
        if whole:
            columns(0, whole, lanes)
        if whole < after:
            columns(whole, after, 1)
    f.end_loop(task)
    f.finish()
    return count, Step(name, before * chunks, count * 20.0 / lanes)


# ---- Philox


def _wide_product(x: Vector, factor: int) -> tuple[Vector, Vector]:
    return _split(x.cast("zext", "i64") * factor)


def _philox(counter: Sequence[Vector], key: tuple[Vector, Vector]) -> list[Vector]:
    """Ten rounds."""
    first, second, third, fourth = counter
    key_0, key_1 = key
    for _ in range(10):
        low_0, high_0 = _wide_product(first, _MULTIPLIERS[0])
        low_1, high_1 = _wide_product(third, _MULTIPLIERS[1])
        first, second, third, fourth = high_1 ^ second ^ key_0, low_1, high_0 ^ fourth ^ key_1, low_0
        key_0, key_1 = key_0 + _WEYL[0], key_1 + _WEYL[1]
    return [first, second, third, fourth]


def philox_words(name: str, f: Function, base: str, key: str, index: Index, lanes: int) -> list[Vector]:
    """The four words of counters base + index + lane (64 bits, high word 0) under the 64-bit `key`."""
    counter = _counters(f, base, index, lanes)
    zero = Vector(f, "i32", lanes, "0" if lanes == 1 else "zeroinitializer")
    return _cipher(name, _philox, [*_split(counter), zero, zero], key)


def _philox_step(
    unit: Unit, name: str, words: _Words, total: int, lanes: int, state_words: int
) -> tuple[int, Step | None]:
    """Each counter gives four words in a row."""
    count = -(-total // 4)
    if count == 0:
        return 0, None
    f, (state, _, out) = step_function(unit, name, 3)
    key_word, low = _state(f, state, 0), _state(f, state, 1)
    high = _state(f, state, 2) if state_words == 3 else key_word
    tasks = -(-count // _CHUNK)
    task = f.begin_loop("%begin", "%end")
    first = multiply(f, task.index, _CHUNK)
    full = total // 4
    stop = minimum(f, add(f, first, _CHUNK), full)

    def random(index: Index, width: int) -> list[Vector]:
        lows = _counters(f, low, index, width)
        wide_low = Vector(f, "i64", width, splat(f, "i64", width, low))
        carry = lows.compare("ult", wide_low).cast("zext", "i64")
        highs = Vector(f, "i64", width, splat(f, "i64", width, high)) + carry
        return _cipher(name, _philox, [*_split(lows), *_split(highs)], key_word)

    def blocks(begin: Index, end: Index, width: int) -> None:
        loop = f.begin_loop(begin, end, width)
        words.write(out, multiply(f, loop.index, 4), _interleaved(random(loop.index, width)))
        f.end_loop(loop)

    whole = add(f, first, f.let(f"and i64 {subtract(f, stop, first)}, {-lanes}"))
    blocks(first, whole, lanes)
    blocks(whole, stop, 1)
    if total % 4:
        last = f.begin_loop(maximum(f, first, full), minimum(f, add(f, first, _CHUNK), count))
        for place, word in enumerate(random(last.index, 1)[: total % 4]):
            words.write(out, add(f, multiply(f, last.index, 4), place), word)
        f.end_loop(last)
    f.end_loop(task)
    f.finish()
    return count, Step(name, tasks, count * 40.0 / lanes)
