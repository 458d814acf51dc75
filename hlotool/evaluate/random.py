"""rng-bit-generator (ThreeFry-2x32 and Philox-4x32, bit for bit as XLA lays them out), rng and its state.

The ciphers: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from hlotool.evaluate.context import Context, Rule
from hlotool.evaluate.rounding import round_to
from hlotool.evaluate.values import AnyArray, Operands, Value
from hlotool.ir import ELEMENT_TYPES, Instruction, UnsupportedError, dtype_of

__all__ = ["RULES", "philox_4x32", "threefry_2x32"]

Words = tuple[AnyArray, ...]
_MASK_128 = (1 << 128) - 1
_FIRST_STATE = 0x7012395  # of rng-get-and-update-state: XLA's
_THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_THREEFRY_PARITY = np.uint32(0x1BD11BDA)
_PHILOX_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_PHILOX_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_ALL_32 = np.uint64(0xFFFFFFFF)


def _halves(words: Any) -> Words:
    """Low and high 32 bits of u64."""
    wide = np.asarray(words, np.uint64)
    return (wide & _ALL_32).astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)


def _joined(low: AnyArray, high: AnyArray) -> AnyArray:
    return np.asarray(low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32)))


def threefry_2x32(counter: Words, key: Words) -> Words:
    """Twenty rounds over vectors of two u32 counters."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _THREEFRY_PARITY)
    left, right = counter[0] + schedule[0], counter[1] + schedule[1]
    for block in range(5):
        for rotation in _THREEFRY_ROTATIONS[block % 2]:
            left = left + right
            right = left ^ ((right << np.uint32(rotation)) | (right >> np.uint32(32 - rotation)))
        left = left + schedule[(block + 1) % 3]
        right = right + schedule[(block + 2) % 3] + np.uint32(block + 1)
    return left, right


def philox_4x32(counter: Words, key: Words) -> Words:
    """Ten rounds over vectors of four u32 counters."""
    first, second, third, fourth = counter
    key_0, key_1 = key
    for _ in range(10):
        low_0, high_0 = _halves(first.astype(np.uint64) * _PHILOX_MULTIPLIERS[0])
        low_1, high_1 = _halves(third.astype(np.uint64) * _PHILOX_MULTIPLIERS[1])
        first, second, third, fourth = high_1 ^ second ^ key_0, low_1, high_0 ^ fourth ^ key_1, low_0
        key_0, key_1 = key_0 + _PHILOX_WEYL[0], key_1 + _PHILOX_WEYL[1]
    return first, second, third, fourth


def _rng_bit_generator(instruction: Instruction, operands: Operands, context: Context) -> Value:
    """(new state, bits).  The state is a key word and a counter of one word (ThreeFry) or two (Philox)."""
    shape = instruction.shape.elements[1]
    state = _state_words(operands[0])
    row = ELEMENT_TYPES[shape.element_type]
    threefry = instruction.attributes["algorithm"] == "rng_three_fry"
    if not (row.is_integer or row.is_float) or len(state) not in ((2,) if threefry else (2, 3)):
        raise UnsupportedError(f"{instruction.name}: random bits of {shape} from {instruction.operands[0].shape}")
    words, new_state = (_threefry if threefry else _philox)(state, shape.dimensions, 64 if row.bits == 64 else 32)
    restored = np.array(new_state, np.uint64).view(operands[0].dtype).reshape(operands[0].shape)
    if row.is_integer:
        return restored, round_to(words, row.name)
    low = words & words.dtype.type((1 << row.bits) - 1)
    return restored, low.astype(f"u{dtype_of(row.name).itemsize}").view(dtype_of(row.name))


def _state_words(state: AnyArray) -> list[int]:
    """The state as u64; () when it is not made of whole words."""
    kept = np.ascontiguousarray(state).reshape(-1)
    return [int(word) for word in kept.view(np.uint64)] if kept.nbytes % 8 == 0 else []


def _threefry(state: Sequence[int], sizes: tuple[int, ...], width: int) -> tuple[AnyArray, list[int]]:
    """Each counter yields two words.  For 32-bit results they lie next to each other along the split dimension."""
    key = _halves(state[0])
    if width == 64:
        count = prod(sizes)
        words = threefry_2x32(_halves(np.arange(count, dtype=np.uint64) + np.uint64(state[1])), key)
        return _joined(*words).reshape(sizes), [state[0], (state[1] + count) % (1 << 64)]
    grid = list(sizes) or [1]
    split = _split_dimension(grid)
    half = [*grid[:split], -(-grid[split] // 2), *grid[split + 1 :]]
    count = prod(half)
    words = threefry_2x32(_halves(np.arange(count, dtype=np.uint64) + np.uint64(state[1])), key)
    pairs = np.stack([word.reshape(half) for word in words], axis=split + 1)
    merged = pairs.reshape(*half[:split], 2 * half[split], *half[split + 1 :])
    trimmed = merged[(slice(None),) * split + (slice(0, grid[split]),)]
    return np.ascontiguousarray(trimmed).reshape(sizes), [state[0], (state[1] + count) % (1 << 64)]


def _split_dimension(sizes: Sequence[int]) -> int:
    """The first even dimension, or else the first of the largest ones."""
    even = [dimension for dimension, size in enumerate(sizes) if size % 2 == 0]
    return even[0] if even else max(range(len(sizes)), key=lambda dimension: sizes[dimension])


def _philox(state: Sequence[int], sizes: tuple[int, ...], width: int) -> tuple[AnyArray, list[int]]:
    """Each counter yields four u32 or two u64.

    A state of two words has no room for key and counter: its first word is both the key and the counter's high word.
    """
    count = prod(sizes)
    per_counter = 128 // width
    blocks = -(-count // per_counter)
    low, high = (state[1], state[2]) if len(state) > 2 else (state[1], state[0])
    lows = np.arange(blocks, dtype=np.uint64) + np.uint64(low)
    highs = np.uint64(high) + (lows < np.uint64(low)).astype(np.uint64)
    words = philox_4x32((*_halves(lows), *_halves(highs)), _halves(state[0]))
    if width == 64:
        words = (_joined(words[0], words[1]), _joined(words[2], words[3]))
    after = (low + (high << 64) + blocks) & _MASK_128
    counter = [after % (1 << 64), after >> 64]
    new_state = [state[0], *counter[: len(state) - 1]]
    return np.stack(words, axis=-1).reshape(-1)[:count].reshape(sizes), new_state


def _rng(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """Numbers of the wanted distribution; which ones HLO leaves open."""
    row = ELEMENT_TYPES[instruction.shape.element_type]
    sizes = instruction.shape.dimensions
    first, second = (operand.item() for operand in operands)
    if instruction.attributes["distribution"] == "rng_normal":
        return round_to(float(first) + float(second) * context.generator.standard_normal(sizes), row.name)
    if row.kind == "pred":
        return np.asarray(context.generator.integers(0, 2, sizes) > 0)
    if row.is_integer:
        low, high = int(first), int(second)
        kind = np.int64 if row.kind == "signed" else np.uint64
        return round_to(context.generator.integers(low, max(high, low + 1), sizes, dtype=kind), row.name)
    low_bound, high_bound = float(first), float(second)
    drawn = round_to(low_bound + (high_bound - low_bound) * context.generator.random(sizes), row.name)
    return np.asarray(np.where(drawn < operands[1], drawn, operands[0]))  # rounding may reach the bound


def _rng_get_and_update_state(instruction: Instruction, operands: Operands, context: Context) -> AnyArray:
    """The 128-bit state as two u64, low word first; then it advances.  Every instruction has a state of its own."""
    state = context.states.get(instruction, _FIRST_STATE)
    context.states[instruction] = (state + instruction.attributes["delta"]) & _MASK_128
    return np.array([state % (1 << 64), state >> 64], np.uint64)


RULES: dict[str, Rule] = {
    "rng-bit-generator": _rng_bit_generator,
    "rng": _rng,
    "rng-get-and-update-state": _rng_get_and_update_state,
}
