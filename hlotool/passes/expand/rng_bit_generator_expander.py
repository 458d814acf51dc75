"""Random bits spelled out: rng-bit-generator as integer arithmetic.

The ciphers are ThreeFry-2x32 and Philox-4x32 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
1, 2, 3" (SC 2011); `hlotool.evaluate.random` says how their words lie in the result.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, Shape, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["RngBitGeneratorExpander"]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


@dataclass(frozen=True, slots=True)
class RngBitGeneratorExpander:
    """Rewrites rng-bit-generator as the arithmetic of its cipher, bit for bit; rng_default is Philox.

    Not in the default pipeline: the CPU code generator has kernels for both ciphers.
    """

    name: ClassVar[str] = "rng-bit-generator-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"rng-bit-generator"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        def expanded(build: Builder, generator: Instruction) -> Instruction | None:
            if _is_known(generator):
                return _expanded(build, generator)
            log.refuse("state", generator, f"no state for {generator.attributes['algorithm']}")
            return None

        return expand_each(module, log, self.opcodes, expanded, "expand", "the arithmetic of the cipher")


def _is_known(generator: Instruction) -> bool:
    state, bits = generator.operands[0].shape, generator.shape.elements[1]
    row = ELEMENT_TYPES[bits.element_type]
    words = (2,) if generator.attributes["algorithm"] == "rng_three_fry" else (2, 3)
    whole = row.bits in (8, 16, 32, 64) and (row.is_integer or row.is_float)
    return state.element_type == "u64" and state.rank == 1 and state.size in words and whole


def _expanded(build: Builder, generator: Instruction) -> Instruction:
    bits = generator.shape.elements[1]
    cipher = _ThreeFry if generator.attributes["algorithm"] == "rng_three_fry" else _Philox
    write = cipher(build, generator.operands[0])
    wide = ELEMENT_TYPES[bits.element_type].bits == 64
    words, state = write.wide(bits.dimensions) if wide else write.narrow(bits.dimensions)
    return build.tuple([state, _as_type(build, words, bits)])


def _as_type(build: Builder, words: Instruction, wanted: Shape) -> Instruction:
    """Words of 32 or 64 bits as the wanted type: the low bits of each."""
    row = ELEMENT_TYPES[wanted.element_type]
    unsigned = build.convert(words, f"u{row.bits}") if words.shape.element_type != f"u{row.bits}" else words
    if wanted.element_type == unsigned.shape.element_type:
        return unsigned
    return build.bitcast_convert(unsigned, array(wanted.element_type, wanted.dimensions))


class _Cipher:
    """Arithmetic on vectors of u32 and u64."""

    def __init__(self, build: Builder, state: Instruction) -> None:
        self.build = build
        self.state = state
        self.words = [self.part(position) for position in range(state.shape.size)]

    def part(self, position: int) -> Instruction:
        return self.build.reshape(self.build.slice(self.state, [position], [position + 1]), ())

    def number(self, value: int, like: Instruction) -> Instruction:
        return self.build.splat(value, array(like.shape.element_type, like.shape.dimensions))

    def spread(self, scalar: Instruction, count: int) -> Instruction:
        return self.build.broadcast(scalar, (), (count,))

    def op(self, opcode: str, left: Instruction, right: Instruction | int) -> Instruction:
        return self.build.binary(opcode, left, self.number(right, left) if isinstance(right, int) else right)

    def halves(self, words: Instruction) -> tuple[Instruction, Instruction]:
        """The low and the high 32 bits."""
        high = self.op("shift-right-logical", words, 32)
        return self.build.convert(words, "u32"), self.build.convert(high, "u32")

    def joined(self, low: Instruction, high: Instruction) -> Instruction:
        above = self.op("shift-left", self.build.convert(high, "u64"), 32)
        return self.op("or", self.build.convert(low, "u64"), above)

    def counters(self, first: Instruction, count: int) -> Instruction:
        """first, first + 1, ... as u64."""
        return self.op("add", self.build.iota(array("u64", (count,))), self.spread(first, count))

    def new_state(self, counter: list[Instruction]) -> Instruction:
        return self.build.concatenate([self.build.reshape(word, (1,)) for word in (self.words[0], *counter)], 0)


class _ThreeFry(_Cipher):
    def block(self, count: int) -> tuple[Instruction, Instruction]:
        """Two words for each of `count` counters: twenty rounds."""
        key = [self.spread(half, count) for half in self.halves(self.words[0])]
        schedule = [*key, self.op("xor", self.op("xor", key[0], key[1]), _PARITY)]
        counter = self.halves(self.counters(self.words[1], count))
        left, right = (self.op("add", c, s) for c, s in zip(counter, schedule[:2], strict=True))
        for block in range(5):
            for rotation in _ROTATIONS[block % 2]:
                left = self.op("add", left, right)
                up = self.op("shift-left", right, rotation)
                right = self.op("xor", left, self.op("or", up, self.op("shift-right-logical", right, 32 - rotation)))
            left = self.op("add", left, schedule[(block + 1) % 3])
            right = self.op("add", self.op("add", right, schedule[(block + 2) % 3]), block + 1)
        return left, right

    def wide(self, sizes: tuple[int, ...]) -> tuple[Instruction, Instruction]:
        count = prod(sizes)
        return self.build.reshape(self.joined(*self.block(count)), sizes), self.after(count)

    def narrow(self, sizes: tuple[int, ...]) -> tuple[Instruction, Instruction]:
        """Both words of a counter lie next to each other along the first even dimension, or else the largest."""
        grid = list(sizes) or [1]
        even = [d for d, size in enumerate(grid) if size % 2 == 0]
        split = even[0] if even else max(range(len(grid)), key=lambda d: grid[d])
        half = [*grid[:split], -(-grid[split] // 2), *grid[split + 1 :]]
        count = prod(half)
        pair = [*half[: split + 1], 1, *half[split + 1 :]]
        sides = [self.build.reshape(word, pair) for word in self.block(count)]
        merged = [*half[:split], 2 * half[split], *half[split + 1 :]]
        both = self.build.reshape(self.build.concatenate(sides, split + 1), merged)
        trimmed = self.build.slice(both, [0] * len(grid), grid) if merged != grid else both
        return self.build.reshape(trimmed, sizes), self.after(count)

    def after(self, count: int) -> Instruction:
        return self.new_state([self.op("add", self.words[1], count)])


class _Philox(_Cipher):
    def block(self, count: int) -> list[Instruction]:
        """Four words for each of `count` counters of 128 bits: ten rounds."""
        low, high = (self.words[1], self.words[2]) if len(self.words) > 2 else (self.words[1], self.words[0])
        lows = self.counters(low, count)
        carried = self.build.convert(self.build.compare(lows, self.spread(low, count), "LT"), "u64")
        highs = self.op("add", self.spread(high, count), carried)
        words = [*self.halves(lows), *self.halves(highs)]
        keys = [self.spread(half, count) for half in self.halves(self.words[0])]
        for _ in range(10):
            first, second, third, fourth = words
            low_0, high_0 = self.product(first, _MULTIPLIERS[0])
            low_1, high_1 = self.product(third, _MULTIPLIERS[1])
            left = self.op("xor", self.op("xor", high_1, second), keys[0])
            right = self.op("xor", self.op("xor", high_0, fourth), keys[1])
            words = [left, low_1, right, low_0]
            keys = [self.op("add", key, step) for key, step in zip(keys, _WEYL, strict=True)]
        return words

    def product(self, word: Instruction, factor: int) -> tuple[Instruction, Instruction]:
        return self.halves(self.op("multiply", self.build.convert(word, "u64"), factor))

    def wide(self, sizes: tuple[int, ...]) -> tuple[Instruction, Instruction]:
        blocks = -(-prod(sizes) // 2)
        words = self.block(blocks)
        return self.laid_out([self.joined(*words[:2]), self.joined(*words[2:])], sizes), self.after(blocks)

    def narrow(self, sizes: tuple[int, ...]) -> tuple[Instruction, Instruction]:
        blocks = -(-prod(sizes) // 4)
        return self.laid_out(self.block(blocks), sizes), self.after(blocks)

    def laid_out(self, words: list[Instruction], sizes: tuple[int, ...]) -> Instruction:
        """The words of a counter one after the other, as many as there is room for."""
        columns = [self.build.reshape(word, (word.shape.size, 1)) for word in words]
        flat = self.build.reshape(self.build.concatenate(columns, 1), (len(words) * words[0].shape.size,))
        return self.build.reshape(self.build.slice(flat, [0], [prod(sizes)]), sizes)

    def after(self, blocks: int) -> Instruction:
        """The state with its counter moved on; a state of two words keeps only the low word of it."""
        low = self.op("add", self.words[1], blocks)
        if len(self.words) == 2:
            return self.new_state([low])
        carried = self.build.convert(self.build.compare(low, self.words[1], "LT"), "u64")
        return self.new_state([low, self.op("add", self.words[2], carried)])
