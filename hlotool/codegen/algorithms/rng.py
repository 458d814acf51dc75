"""Random numbers by ThreeFry-2x32 and Philox-4x32 on vectors of counters: bits as XLA lays them out, and rng.

The ciphers: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).  The state is a
64-bit key, then a counter of 64 bits (ThreeFry) or 128 bits (Philox; a state of two words has the key as the
counter's high word).  64-bit results are two words each, narrow ones the low bits of a word.

rng and rng-get-and-update-state keep a counter in a variable of the compiled code, which every run moves on by what it
uses; the first run after loading always starts at the same place.  HLO leaves open which numbers come: here they are
Philox words, turned into floats by their high bits, into normal ones by the method of Box and Muller ("A note on the
generation of random normal deviates", 1958).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.items import for_each_vector
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import begin_tasks, empty_kernel, step_function, variable
from hlotool.codegen.llvm.arrays import load, store
from hlotool.codegen.llvm.control import Callee, begin_loop, define, when
from hlotool.codegen.llvm.math.elements import Register, broadcast, compute_element, is_complex, kind, round_to, vector
from hlotool.codegen.llvm.math.elementwise import emit_elementwise
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Struct, Vector, iota, maximum, minimum, where, zeros
from hlotool.codegen.llvm.vectors import from_lanes
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, UnsupportedError, element_type
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_rng", "emit_rng_bit_generator", "emit_rng_get_and_update_state"]

_CHUNK: Annotated[int, Threshold("elements")] = 4096
"""Counters per task; one where tasks are threads."""
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_FIRST_STATE = 0x7012395
_SEED = 0x9E3779B97F4A7C15

Rounds = Callable[[Sequence[Vector], tuple[Vector, Vector]], list[Vector]]
"""A cipher: (counter words, key words) -> random words."""


@dataclass(frozen=True, slots=True)
class _Words:
    """How 32-bit random words become elements in memory: the low `bits` of each, `store_bits` wide.

    With `swapped` the second word of every two lies ahead of the first: they are elements of 64 bits, with the high
    bytes first.
    """

    bits: int
    store_bits: int
    signed: bool
    swapped: bool

    def ordered(self, words: list[Vector]) -> list[Vector]:
        """An even number of words that follow each other, in their order in memory."""
        return [words[place ^ 1] for place in range(len(words))] if self.swapped else words

    def write(self, out: Ptr, index: Index, x: Vector) -> None:
        """Store words that lie next to each other from element `index` on."""
        place = out.at(f"i{self.store_bits}", index)
        if self.store_bits < 32:
            x = x.cast("trunc", f"i{self.store_bits}")
        if self.bits < self.store_bits:
            left = self.store_bits - self.bits
            x = x.shl(left).ashr(left) if self.signed else x & ((1 << self.bits) - 1)
        place.store(x, align=self.store_bits // 8)


@dataclass(frozen=True, slots=True)
class _State:
    """How the `words` of 64 bits of a state lie in memory: with `swapped` their low halves, elements of 32 bits, lie
    ahead of the high ones where numbers have their high bytes first."""

    words: int
    swapped: bool

    def read(self, state: Ptr, index: int) -> Int:
        return self._turned(state.at("i64", index).load_int(align=8))

    def write(self, state: Ptr, index: int, word: Int) -> None:
        state.at("i64", index).store(self._turned(word), align=8)

    def _turned(self, word: Int) -> Int:
        return (word << 32) | (word >> 32) if self.swapped else word


def emit_rng_bit_generator(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``(new state, bits) rng-bit-generator(state), algorithm=``."""
    shape = instruction.shape.elements[1]
    before = instruction.operands[0].shape
    state = _State(before.byte_size // 8, before.element_type == "u32" and machine.is_big_endian)
    row = element_type(shape.element_type)
    threefry = instruction.attributes["algorithm"] == "rng_three_fry"
    if row.kind not in ("signed", "unsigned", "float") or state.words not in ((2,) if threefry else (2, 3)):
        raise UnsupportedError(f"{instruction.name}: random bits of {shape} from {before}")
    swapped = row.bits == 64 and machine.is_big_endian
    words = _Words(min(row.bits, 32), min(max(row.bits, 8), 32), row.kind == "signed", swapped)
    sizes = (2 * shape.size,) if row.bits == 64 else shape.dimensions
    unit = Unit(machine)
    lanes = machine.lanes(32)
    counters, steps = 0, list[Step]()
    if shape.size:
        if threefry:
            counters, step = _threefry_step(unit, name, state, words, sizes, lanes)
        else:
            counters, step = _philox_step(unit, name, state, words, prod(sizes), lanes)
        steps.append(step)
    return finish_kernel(unit, [_state_step(unit, f"state_{name}", counters, state), *steps])


def _chunk(unit: Unit) -> int:
    """Counters per task."""
    return 1 if unit.machine is not None and unit.machine.is_gpu else _CHUNK


def _state_step(unit: Unit, name: str, counters: int, state: _State) -> Step:
    """The key stays, the counter moves on."""
    f, (before, after) = step_function(unit, name, 2)
    key, low, *high = (state.read(before, i) for i in range(state.words))
    moved = low + counters
    carry = moved.below(low).number()
    for i, word in enumerate([key, moved, *(h + carry for h in high)]):
        state.write(after, i, word)
    f.finish()
    return Step(name)


def _split(x: Vector) -> tuple[Vector, Vector]:
    """Low and high 32 bits of i64 lanes."""
    return x.cast("trunc", "i32"), x.lshr(32).cast("trunc", "i32")


def _counters(base: Int, first: Index, lanes: int) -> Vector:
    """base + first + lane as i64."""
    start = base.vector() + (first if isinstance(first, int) else first.vector())
    return start if lanes == 1 else start.spread(lanes) + iota(base.f, "i64", lanes)


def _interleaved(parts: Sequence[Vector]) -> Vector:
    """a0 b0 c0 d0 a1 b1 ... of two or four vectors."""
    if len(parts) == 1:
        return parts[0]
    first, second = _interleaved(parts[::2]), _interleaved(parts[1::2])
    if first.lanes == 1:
        return from_lanes([first, second])
    return first.shuffle([i // 2 + (i % 2) * first.lanes for i in range(2 * first.lanes)], second)


def _cipher(name: str, rounds: Rounds, counter: list[Vector], key: Int) -> list[Vector]:
    """Apply `rounds` in a function of its own, written on first use for these lanes.

    LLVM's loop passes would take longer over this straight line, were it inside the loops, than over all the rest.
    """
    f, lanes = counter[0].f, counter[0].lanes
    symbol = f"cipher{lanes}_{name}"
    if all(definition.name != symbol for definition in f.unit.definitions):
        inner = Function(f.unit, "")
        words = [word.named(f"%c{i}", inner) for i, word in enumerate(counter)]
        key_in = key.named("%key", inner)
        low, high = _split(key_in.vector())
        results = rounds(words, (low.spread(lanes), high.spread(lanes)))
        define(inner, symbol, [*words, key_in], Struct.of(results))
    return Callee(f"@{symbol}", Struct(f, counter, ""))(f, *counter, key).parts()


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
    unit: Unit, name: str, state: _State, words: _Words, sizes: tuple[int, ...], lanes: int
) -> tuple[int, Step]:
    """Each counter gives two words, which are neighbours along one dimension of the result."""
    grid = sizes or (1,)
    split = _split_dimension(grid)
    before, size, after = prod(grid[:split]), grid[split], prod(grid[split + 1 :])
    if after == 1 and size % 2 == 0:
        before, size = 1, before * size
    half = -(-size // 2)
    count = before * half * after
    chunk = _chunk(unit)
    chunks = -(-half // chunk) if after == 1 else half
    f, (given, _, out) = step_function(unit, name, 3)
    key_word, base = state.read(given, 0), state.read(given, 1)
    task = begin_tasks(f)
    row: Index = 0 if before == 1 else task.index // chunks
    part = task.index if before == 1 else task.index - row * chunks

    def words_of(counter: Index, width: int) -> list[Vector]:
        return _cipher(name, _threefry, list(_split(_counters(base, counter, width))), key_word)

    def pair(index: Index, width: int) -> None:
        """A counter of the row (after == 1): two words side by side."""
        left, right = words_of(row * half + index, width)
        words.write(out, row * size + index * 2, _interleaved(words.ordered([left, right])))

    def column(index: Index, width: int) -> None:
        """A counter of one pair of lines (after > 1): line 2 * part, and the one after it when it exists."""
        left, right = words_of(task.index * after + index, width)
        line = row * size + part * 2
        words.write(out, line * after + index, left)
        when(size % 2 == 0 or part * 2 < size - 1, lambda: words.write(out, (line + 1) * after + index, right))

    if after == 1:
        first = part * chunk
        for_each_vector(f, first, minimum(first + chunk, size // 2), lanes, pair)
        if size % 2:
            last = begin_loop(f, maximum(first, size // 2), minimum(first + chunk, half))
            left, _ = words_of(row * half + last.index, 1)
            words.write(out, row * size + last.index * 2, left)
            last.end()
    else:
        for_each_vector(f, 0, after, lanes, column)
    task.end()
    f.finish()
    return count, Step(name, before * chunks, count * 20.0 / lanes)


# ---- Philox


def _philox(counter: Sequence[Vector], key: tuple[Vector, Vector]) -> list[Vector]:
    """Ten rounds."""
    first, second, third, fourth = counter
    key_0, key_1 = key
    for _ in range(10):
        low_0, high_0 = _split(first.cast("zext", "i64") * _MULTIPLIERS[0])
        low_1, high_1 = _split(third.cast("zext", "i64") * _MULTIPLIERS[1])
        first, second, third, fourth = high_1 ^ second ^ key_0, low_1, high_0 ^ fourth ^ key_1, low_0
        key_0, key_1 = key_0 + _WEYL[0], key_1 + _WEYL[1]
    return [first, second, third, fourth]


def _philox_step(unit: Unit, name: str, state: _State, words: _Words, total: int, lanes: int) -> tuple[int, Step]:
    """Each counter gives four words in a row."""
    count = -(-total // 4)
    f, (given, _, out) = step_function(unit, name, 3)
    key, low = state.read(given, 0), state.read(given, 1)
    high = state.read(given, 2) if state.words == 3 else key
    chunk = _chunk(unit)
    tasks = -(-count // chunk)
    task = begin_tasks(f)
    first = task.index * chunk
    full = total // 4

    def random(index: Index, width: int) -> list[Vector]:
        lows = _counters(low, index, width)
        carry = lows.compare("ult", low.vector().spread(width)).cast("zext", "i64")
        highs = high.vector().spread(width) + carry
        return _cipher(name, _philox, [*_split(lows), *_split(highs)], key)

    def block(index: Index, width: int) -> None:
        words.write(out, index * 4, _interleaved(words.ordered(random(index, width))))

    for_each_vector(f, first, minimum(first + chunk, full), lanes, block)
    if total % 4:
        last = begin_loop(f, maximum(first, full), minimum(first + chunk, count))
        for place, word in enumerate(words.ordered(random(last.index, 1))[: total % 4]):
            words.write(out, last.index * 4 + place, word)
        last.end()
    task.end()
    f.finish()
    return count, Step(name, tasks, count * 40.0 / lanes)


# ---- rng and rng-get-and-update-state


def emit_rng_get_and_update_state(
    name: str, instruction: Instruction, machine: Machine, in_place: bool = False
) -> Kernel:
    """The kernel of ``u64[2] rng-get-and-update-state(), delta=``: the 128-bit state, low word first; it moves on."""
    delta = int(instruction.attributes["delta"]) % (1 << 64)
    unit = Unit(machine)
    unit.variable(f"low_{name}", _FIRST_STATE)
    unit.variable(f"high_{name}", 0)
    f, (out,) = step_function(unit, name, 1)
    low = variable(f, f"low_{name}").add_atomically(delta)
    carry = (low + delta).below(low).number()
    high = variable(f, f"high_{name}").add_atomically(carry)
    out.store(low, align=8)
    out.at("i64", 1).store(high, align=8)
    f.finish()
    return finish_kernel(unit, [Step(name)])


def emit_rng(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``rng(a, b), distribution=``: uniform on [a, b), or normal with mean a and deviation b."""
    shape, normal = instruction.shape, instruction.attributes["distribution"] == "rng_normal"
    element_type = shape.element_type
    if is_complex(element_type) or (normal and kind(element_type) != "float"):
        raise UnsupportedError(f"{instruction.name}: {instruction.attributes['distribution']} of {element_type}")
    if shape.size == 0:
        return empty_kernel(name, machine)
    # Every element takes one counter: four words are enough for two 64-bit numbers.
    unit = Unit(machine)
    unit.variable(f"counter_{name}", 0)
    f, (_, _, _, scratch) = step_function(unit, name, 4)
    scratch.store(variable(f, f"counter_{name}").add_atomically(shape.size), align=8)
    f.finish()
    fill = f"fill_{name}"
    f, (first, second, out, scratch) = step_function(unit, fill, 4)
    bounds = load(first, element_type, 0), load(second, element_type, 0)
    base, seed = scratch.load_int(align=8), Int(f, str(_SEED - (1 << 64)))
    chunk = _chunk(unit)
    task = begin_tasks(f)
    start = task.index * chunk

    def numbers(index: Index, width: int) -> None:
        # The four words of a counter whose high half is zero.
        zero = zeros(f, "i32", width)
        words = _cipher(name, _philox, [*_split(_counters(base, index, width)), zero, zero], seed)
        a, b = (vector(broadcast(value, width)) for value in bounds)
        draw = _normal if normal else _uniform
        store(out, element_type, index, draw(element_type, words, a, b))

    for_each_vector(f, start, minimum(start + chunk, shape.size), machine.lanes(64), numbers)
    task.end()
    f.finish()
    steps = [Step(name), Step(fill, -(-shape.size // chunk), shape.size * (8.0 if normal else 4.0))]
    return finish_kernel(unit, steps, 64, (("counter", 64),))


def _wide(words: list[Vector]) -> Vector:
    """The 64 bits of the first two words."""
    return words[0].cast("zext", "i64") | words[1].cast("zext", "i64").shl(32)


def _fraction(words: list[Vector], element: str) -> Vector:
    """Uniform on [0, 1): as many high bits as the type holds exactly."""
    if element == "double":
        return _wide(words).lshr(11).cast("uitofp", "double") * 2.0**-53
    return words[0].lshr(8).cast("uitofp", "float") * 2.0**-24


def _uniform(element_type: str, words: list[Vector], a: Vector, b: Vector) -> Register:
    number_kind = kind(element_type)
    if number_kind == "pred":
        return words[0].cast("trunc", "i1")
    if number_kind == "float":
        drawn = vector(round_to(element_type, a + (b - a) * _fraction(words, a.element)))
        # Rounding may reach the bound that is not part of the interval.
        return where(drawn.lt(b), drawn, a)
    bits = BITS[compute_element(element_type)]
    wide = _wide(words)
    extent = (b - a).resize("i64", False)
    offset = wide.urem(where(extent.eq(0), 1, extent))
    return round_to(element_type, a + offset.cast("trunc", f"i{bits}"))


def _normal(element_type: str, words: list[Vector], mean: Vector, deviation: Vector) -> Register:
    part = "f64" if element_type == "f64" else "f32"
    element = compute_element(part)
    # 1 - u is in (0, 1], where the logarithm is finite.
    radius = 1.0 - _fraction(words[:2], element)
    angle = _fraction(words[2:], element) * (2 * pi)
    logarithm = vector(emit_elementwise("log", {}, [part], part, [radius]))
    cosine = vector(emit_elementwise("cosine", {}, [part], part, [angle]))
    result = mean + deviation * ((logarithm * -2.0).sqrt() * cosine)
    return round_to(element_type, result)
