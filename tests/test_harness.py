"""Inputs, archives of arrays and comparison."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.harness.archive import from_bits, read_array, read_arrays, to_bits, write_arrays
from hlotool.harness.compare import Tolerance, compare, compare_all, default_tolerance
from hlotool.harness.input_spec import parse_input
from hlotool.harness.inputs import check_arrays, inputs_of, random_inputs
from hlotool.ir import InputError, array
from hlotool.text.parser import parse

TYPES = ["pred", "s4", "u4", "s8", "u8", "s32", "u64", "f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2", "c64", "c128"]
LOOKUP = """HloModule m

ENTRY main {
  table = f32[5,3]{1,0} parameter(0)
  rows = s32[40]{0} parameter(1)
  pair = (f32[2]{0}, s8[4]{0}) parameter(2)
  places = s32[40,1]{1,0} reshape(rows)
  ROOT taken = f32[40,3]{1,0} gather(table, places), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
}
"""  # noqa: E501


# ---- archives


@pytest.mark.parametrize("kind", TYPES)
def test_archives_keep_every_type(tmp_path: Path, kind: str) -> None:
    shape = array(kind, (3, 2))
    values = parse_input("0,1,1,0,1,0", shape)
    path = tmp_path / "a.npz"
    with open(path, "wb") as stream:
        write_arrays(stream, [values, values.reshape(6)[:1].reshape(())], "out")
    with np.load(path) as stored:
        assert stored["out0"].dtype.isbuiltin == 1
    back = read_arrays(str(path), "out", [shape, array(kind)])
    assert [a.dtype for a in back] == [values.dtype] * 2
    assert back[1].shape == ()
    np.testing.assert_array_equal(to_bits(back[0]), to_bits(values))


def test_equal_arrays_give_equal_bytes() -> None:
    first, second = io.BytesIO(), io.BytesIO()
    for stream in (first, second):
        write_arrays(stream, [np.arange(5), np.ones((2, 3))], "arg")
    assert first.getvalue() == second.getvalue()


def test_archives_of_other_programs_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npz")
    np.savez_compressed(path, arg0=np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    np.testing.assert_array_equal(read_arrays(path, "arg", [array("f64", (2, 3))])[0], [[0, 1, 2], [3, 4, 5]])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 700), st.binary(min_size=1, max_size=4))
def test_damaged_archives_are_input_errors(tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes) -> None:
    stream = io.BytesIO()
    write_arrays(stream, [np.arange(60, dtype=np.float32)], "arg")
    data = stream.getvalue()
    path = tmp_path_factory.mktemp("damaged") / "a.npz"
    for content in (data[:at], data[:at] + junk + data[at + len(junk) :]):
        path.write_bytes(content)
        with suppress(InputError):  # anything else would be a traceback
            assert read_arrays(str(path), "arg", [array("f32", (60,))])[0].size <= 60


def test_single_arrays(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.full(3, 0x3F80, np.uint16))
    assert read_array(str(tmp_path / "a.npy"), array("bf16", (3,))).tolist() == [1, 1, 1]
    np.savez(tmp_path / "b.npz", a=1)
    (tmp_path / "c.npy").write_text("text")
    for name, words in (("b.npz", "an .npz archive"), ("c.npy", "not an .npy file"), ("d.npy", "cannot read")):
        with pytest.raises(InputError, match=words):
            read_array(str(tmp_path / name), array("f32"))


def test_bits_are_only_undone_where_numpy_lacks_the_type() -> None:
    bits = np.array([1, 2], np.uint32)
    assert from_bits(bits, array("f32", (2,))).dtype == np.uint32
    assert from_bits(bits.astype(np.uint16), array("bf16", (2,))).dtype == ml_dtypes.bfloat16


# ---- inputs


@pytest.mark.parametrize("kind", TYPES)
def test_random_inputs_have_the_types_and_are_the_same_for_the_same_seed(kind: str) -> None:
    text = f"HloModule m\n\nENTRY main {{\n  ROOT x = {kind}[7]{{0}} parameter(0)\n}}\n"
    module = parse(text)
    first, again, other = (random_inputs(module, seed)[0] for seed in (3, 3, 4))
    check_arrays(inputs_of(module), [first], [module.entry.root.shape])
    np.testing.assert_array_equal(to_bits(first), to_bits(again))
    if kind != "pred":
        assert not np.array_equal(to_bits(first), to_bits(other))


def test_indices_stay_within_what_they_index() -> None:
    module = parse(LOOKUP)
    table, rows, *pair = random_inputs(module, 0)
    assert (table.shape, [p.shape for p in pair]) == ((5, 3), [(2,), (4,)])
    assert 0 <= rows.min() <= rows.max() < 3  # the smaller of the table's sizes
    assert [leaf.name for leaf in inputs_of(module)] == ["table", "rows", "pair.0", "pair.1"]


def test_wrong_arrays_name_the_parameter() -> None:
    module = parse(LOOKUP)
    arrays = random_inputs(module, 0)
    shapes = [leaf for p in module.entry.parameters for leaf in p.shape.leaves()]
    check_arrays(inputs_of(module), arrays, shapes)
    arrays[3] = arrays[3].astype(np.int16)
    with pytest.raises(InputError, match=r"parameter 3 \(pair.1\): expected s8\[4\], got int16 of shape \[4\]"):
        check_arrays(inputs_of(module), arrays, shapes)


@pytest.mark.parametrize(
    ("text", "kind", "size", "values"),
    [
        ("iota", "f32", (2, 2), [[0, 1], [2, 3]]),
        ("zeros", "s8", (2,), [0, 0]),
        ("ones", "pred", (2,), [True, True]),
        ("1, 0", "pred", (2,), [True, False]),
        ("True", "pred", (), True),
        ("-1.5", "f32", (2,), [-1.5, -1.5]),
        ("1+2j", "c64", (), 1 + 2j),
        ("-8,7", "s4", (2,), [-8, 7]),
        ("18446744073709551615", "u64", (), 18446744073709551615),
        ("inf", "f16", (1,), [np.inf]),
    ],
)
def test_values_from_the_command_line(text: str, kind: str, size: tuple[int, ...], values: object) -> None:
    found = parse_input(text, array(kind, size))
    assert found.shape == size
    np.testing.assert_array_equal(found.astype(np.asarray(values).dtype), np.asarray(values))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "f32"),
        ("x", "f32"),
        ("1.5", "s32"),
        ("1,2,3", "f32"),
        ("8", "s4"),
        ("-1", "u8"),
        ("1j", "f32"),
        ("2", "pred"),
    ],
)
def test_values_that_do_not_fit(text: str, kind: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_input(text, array(kind, (2,)))


# ---- comparison


def test_equal_arrays_compare_equal() -> None:
    for values in (np.arange(4), np.array([np.nan, np.inf, -np.inf, 0.0]), np.array([]), np.array(1 + 2j)):
        assert compare(values, values.copy()).ok


@pytest.mark.parametrize(
    ("got", "want", "bad"),
    [
        ([1.0, 2.0], [1.0, 2.1], 1),
        ([np.nan, 2.0], [1.0, np.nan], 2),
        ([np.inf, -np.inf], [np.inf, np.inf], 1),
        ([1.0, 1.0], [np.inf, 1.0], 1),
        ([0.0, 100.0], [1e-3, 100.0], 1),
    ],
)
def test_differences_are_found_and_counted(got: list[float], want: list[float], bad: int) -> None:
    result = compare(np.array(got, np.float32), np.array(want, np.float32))
    assert (result.ok, result.bad, result.count) == (False, bad, 2)
    assert f"{bad} of 2 elements differ" in str(result)


def test_the_worst_element_is_named() -> None:
    want = np.zeros((3, 4), np.float32) + 1
    got = want.copy()
    got[1, 2], got[2, 0] = 5, 2
    result = compare(got, want)
    assert (result.worst, result.max_absolute) == ((1, 2), 4.0)
    assert "at [1, 2]" in str(result)


def test_integers_and_predicates_are_exact() -> None:
    big = np.array([2**62], np.int64)
    assert not compare(big, big + 1).ok
    assert compare(np.array([5]), np.array([6]), Tolerance(1, 0)).ok
    assert not compare(np.array([True]), np.array([False]), Tolerance(1, 1)).ok


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32", "f64", "c64", "f8e4m3fn"])
def test_floats_may_differ_by_rounding(kind: str) -> None:
    want = parse_input("1", array(kind, (8,)))
    limit = default_tolerance(kind).relative
    assert limit > 0
    near = (want.astype(np.complex128 if kind == "c64" else np.float64) * (1 + limit / 2)).astype(want.dtype)
    far = parse_input("2", array(kind, (8,)))
    assert compare(near, want).ok
    assert not compare(far, want).ok


def test_shapes_types_and_counts_must_agree() -> None:
    one = np.zeros(2, np.float32)
    assert "float32[2] instead of float32[3]" in str(compare(one, np.zeros(3, np.float32)))
    assert not compare(one, one.astype(np.float64)).ok
    with pytest.raises(ValueError, match="1 outputs"):
        compare_all([one], [one, one])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20), st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_comparison_never_fails_and_finds_what_numpy_finds(first: list[float], second: list[float]) -> None:
    size = min(len(first), len(second))
    a, b = np.array(first[:size], np.float32), np.array(second[:size], np.float32)
    assert compare(a, b, Tolerance(0, 0)).ok == bool(np.array_equal(a, b, equal_nan=True))
    assert compare(a, a).ok
