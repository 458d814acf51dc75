"""The evaluator's random bits: published vectors of the ciphers, and XLA's layout of their output."""

import numpy as np
import pytest

from hlotool.evaluate import evaluate
from hlotool.evaluate.random import philox_4x32, threefry_2x32
from hlotool.text.parser import parse


def words(text):
    return tuple(np.array([int(word, 16)], np.uint32) for word in text.split())


# Known-answer tests of the Random123 library.
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("00000000 00000000", "00000000 00000000", "6b200159 99ba4efe"),
        ("ffffffff ffffffff", "ffffffff ffffffff", "1cb996fc bb002be7"),
        ("243f6a88 85a308d3", "13198a2e 03707344", "c4923a9c 483df7a0"),
    ],
)
def test_threefry_vectors(counter, key, expected):
    assert threefry_2x32(words(counter), words(key)) == words(expected)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("00000000 " * 4, "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff " * 4, "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_philox_vectors(counter, key, expected):
    assert philox_4x32(words(counter), words(key)) == words(expected)


# New state, and the first two and last two numbers, as XLA's CPU backend gives them.
XLA = [
    ("rng_three_fry", "u32[3,5]", [0x5CC885866C813D72, 0x7B43847C7FB5E9EB], 9,
     [3865687365, 2971495286, 981592312, 2626029075]),
    ("rng_three_fry", "u64[3,5]", [0xF34988585B1250E9, 0xDB6086AD415958CD], 15,
     [15078854459870854109, 11439836227280204046, 17012469831297222638, 107461884571251643]),
    ("rng_three_fry", "u8[7]", [0x487D18631BF39F35, 0x6382206E401EF327], 4, [180, 79, 248, 247]),
    ("rng_philox", "u32[7]", [0x51120FF2510FBF5E, 0x7C62E04D742143BC], 2,
     [2111741816, 1621426985, 1043038907, 257300014]),
    ("rng_philox", "u64[3,5]", [0x7F59FDDB16DCDFBB, 0x734491507B86C148, 0x33C610FED86387A4], 8,
     [7051397082489110039, 9170013288416717165, 10460391856985984882, 2963926595383885417]),
    ("rng_default", "u16[7]", [0xCC82E62016D86187, 0x5C696C552FD77E9E, 0x5B0709A84A93DCA5], 2,
     [23568, 56176, 20855, 31216]),
]  # fmt: skip


@pytest.mark.parametrize(("algorithm", "shape", "state", "steps", "expected"), XLA)
def test_layout_of_the_bits(algorithm, shape, state, steps, expected):
    new_state, bits = generate(algorithm, shape, state)
    assert bits.reshape(-1)[[0, 1, -2, -1]].tolist() == expected
    assert new_state.tolist() == [state[0], state[1] + steps, *state[2:]]


def generate(algorithm, shape, state):
    size = len(state)
    text = f"""HloModule m
ENTRY e {{
 p = u64[{size}] parameter(0)
 ROOT r = (u64[{size}], {shape}) rng-bit-generator(p), algorithm={algorithm}
}}"""
    return evaluate(parse(text), [np.array(state, np.uint64)])


def test_philox_carries_into_the_high_word():
    largest = 2**64 - 5
    new_state, bits = generate("rng_philox", "u32[101]", [0x9E7516A38DC2FFA8, largest, largest])
    assert new_state.tolist() == [0x9E7516A38DC2FFA8, 21, largest + 1]
    assert bits[[0, 1, -2, -1]].tolist() == [4260527285, 847983462, 3303551502, 3026331548]


def draw(distribution, element_type, first, second):
    text = f"""HloModule m
ENTRY e {{
 a = {element_type}[] constant({first})
 b = {element_type}[] constant({second})
 ROOT r = {element_type}[20000] rng(a, b), distribution={distribution}
}}"""
    module = parse(text)
    (value,), (again,) = evaluate(module, []), evaluate(module, [])
    np.testing.assert_array_equal(value, again)
    return value.astype(float)


def test_rng_draws_from_its_distribution():
    uniform = draw("rng_uniform", "f32", -1, 3)
    assert uniform.min() >= -1
    assert uniform.max() < 3
    assert abs(uniform.mean() - 1) < 0.05
    assert sorted(set(draw("rng_uniform", "s32", -2, 2))) == [-2, -1, 0, 1]
    normal = draw("rng_normal", "bf16", 5, 2)
    assert abs(normal.mean() - 5) < 0.1
    assert abs(normal.std() - 2) < 0.1


def test_state_advances_by_its_delta():
    body = """HloModule m
draw { ROOT a = u64[2] rng-get-and-update-state(), delta=7 }
ENTRY e {
 a = u64[2] call(), to_apply=draw
 b = u64[2] call(), to_apply=draw
 ROOT t = (u64[2], u64[2]) tuple(a, b)
}"""
    first, second = evaluate(parse(body), [])
    assert first.tolist() == [0x7012395, 0]  # XLA's, low word first
    assert second.tolist() == [0x7012395 + 7, 0]
