"""Truth mode: values in wider floats, bounds that hold and say something, and elements that nothing is known of."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from conftest import Run
from semantics.values import anything
from test_evaluate_corpus import CASES as ALL_CASES

from hlotool.driver import compile_module
from hlotool.evaluate import evaluate
from hlotool.evaluate.bounds import Bounded, growth, rounded, unit
from hlotool.evaluate.rules import RULES, SCALAR_RULES
from hlotool.evaluate.truth import truth
from hlotool.evaluate.truth_rules import SCALAR_TRUTH, TRUTH
from hlotool.harness.compare import compare_with_truth
from hlotool.ir import dtype_of
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]
CASES = [case for case in ALL_CASES if case.meta["size_class"] == "small"]


def true(body: str, *arrays: Array) -> Bounded:
    """Of the last line of an entry computation with parameters p0, p1..."""
    (found,) = truth(parse("ENTRY main {\n" + body + "\n}"), arrays)
    return found


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def test_every_rule_of_the_evaluator_has_one() -> None:
    assert set(TRUTH) == set(RULES)
    assert set(SCALAR_TRUTH) >= set(SCALAR_RULES)


def test_values_are_wider_and_bounds_hold_one_rounding() -> None:
    x, y = f32(1, 0.1, 3e38), f32(2, 0.3, 1)
    found = true("p0 = f32[3] parameter(0)\np1 = f32[3] parameter(1)\nROOT r = f32[3] multiply(p0, p1)", x, y)
    assert found.value.dtype == np.float64
    np.testing.assert_array_equal(found.value, x.astype(np.float64) * y.astype(np.float64))
    assert found.errors()[0] == 0  # 2 is a number of the type
    assert 0 < found.errors()[1] < 1.01 * 2.0**-24 * 0.03 + 1e-40


def test_f64_is_computed_in_extended_precision() -> None:
    x = np.array([0.1, 0.2])
    found = true("p0 = f64[2] parameter(0)\nROOT r = f64[2] multiply(p0, p0)", x)
    assert found.value.dtype == np.longdouble
    assert (np.abs(x * x - found.value) <= found.errors()).all()
    assert (found.errors() < 2.0**-51 * found.value).all()


def test_overflow_is_what_the_type_makes_of_it() -> None:
    body = "p0 = f32[3] parameter(0)\nROOT r = f32[3] multiply(p0, p0)"
    found = true(body, f32(1e20, -1e25, 1e19))
    assert found.value.tolist()[:2] == [np.inf, np.inf]
    assert found.errors().tolist()[:2] == [0, 0]
    assert np.isfinite(found.value[2])
    near = rounded(np.array([3.4028235e38]), np.array([1e32]), "f32")
    assert np.isinf(near.errors()[0])  # may be the largest number or infinite


def test_types_without_infinity_have_nan() -> None:
    import ml_dtypes

    x = np.array([200.0], ml_dtypes.float8_e4m3fnuz)
    found = true("p0 = f8e4m3fnuz[1] parameter(0)\nROOT r = f8e4m3fnuz[1] exponential(p0)", x)
    assert np.isnan(found.value[0])
    assert found.errors()[0] == 0


def test_sums_in_any_order() -> None:
    x = np.random.default_rng(0).standard_normal(3000).astype(np.float32)
    body = "p0 = f32[3000] parameter(0)\nz = f32[] constant(0)\n"
    body += "ROOT r = f32[] reduce(p0, z), dimensions={0}, to_apply=add"
    add = "add {\na = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT s = f32[] add(a, b)\n}\n"
    (found,) = truth(parse(f"HloModule m\n{add}ENTRY main {{\n{body}\n}}"), [x])
    in_order = x[0]
    for v in x[1:]:
        in_order = np.float32(in_order + v)
    for computed in (in_order, np.float32(x.sum()), np.float32(np.sort(x).sum())):
        assert abs(float(computed) - float(found.value)) <= found.errors()
    assert found.errors() < 5e-5 * np.abs(x).sum()


def test_growth_is_gamma_for_short_sums_and_finite_for_long_ones() -> None:
    u = unit("f32")
    assert growth(1, u) == 0
    assert growth(4, u) == pytest.approx(3 * u, rel=1e-5)
    assert growth(1e9, u) < 1


def test_comparisons_too_close_to_call_are_undecided() -> None:
    body = """p0 = f32[3] parameter(0)
    third = f32[] constant(3)
    b = f32[3] broadcast(third), dimensions={}
    q = f32[3] divide(p0, b)
    back = f32[3] multiply(q, b)
    ROOT r = pred[3] compare(back, p0), direction=GE"""
    found = true(body, f32(1, 5, 7))
    assert np.isinf(found.errors()).all()
    (comparison,) = compare_with_truth([np.array([True, False, True])], [found])
    assert not comparison.ok
    assert comparison.verdict == "UNDECIDED"
    assert "undecided: 3 of 3" in str(comparison)
    (comparison,) = compare_with_truth([np.array([True, False, True])], [found], max_undecided=1.0)
    assert comparison.verdict == "ok"


def test_a_selection_too_close_to_call_reaches_both() -> None:
    body = """p0 = f32[2] parameter(0)
    l = f32[2] log(p0)
    e = f32[2] exponential(l)
    c = pred[2] compare(e, p0), direction=GT
    one = f32[] constant(1)
    b = f32[2] broadcast(one), dimensions={}
    ROOT r = f32[2] select(c, p0, b)"""
    found = true(body, f32(5, 7))
    assert np.isfinite(found.errors()).all()
    assert (found.errors() >= [4, 6]).all()


def test_steps_are_bounded_by_their_jumps() -> None:
    body = "p0 = f32[3] parameter(0)\ne = f32[3] exponential(p0)\nl = f32[3] log(e)\nROOT r = f32[3] floor(l)"
    found = true(body, f32(2, 2.5, -3))
    assert found.errors()[1] == 0
    assert found.errors()[0] == found.errors()[2] == 1


def test_an_undecided_loop_says_nothing() -> None:
    text = """HloModule m
    body { s = (f32[], f32[]) parameter(0)
      a = f32[] get-tuple-element(s), index=0
      b = f32[] get-tuple-element(s), index=1
      t = f32[] constant(0.1)
      n = f32[] add(a, t)
      ROOT r = (f32[], f32[]) tuple(n, b) }
    condition { s = (f32[], f32[]) parameter(0)
      a = f32[] get-tuple-element(s), index=0
      b = f32[] get-tuple-element(s), index=1
      ROOT c = pred[] compare(a, b), direction=LT }
    ENTRY main { x = f32[] parameter(0)
      l = f32[] parameter(1)
      s = (f32[], f32[]) tuple(x, l)
      ROOT w = (f32[], f32[]) while(s), condition=condition, body=body }"""
    found = truth(parse(text), [np.float32(0).reshape(()), np.float32(0.95).reshape(())])
    assert np.isfinite(found[0].errors())
    found = truth(parse(text), [np.float32(0).reshape(()), np.float32(1).reshape(())])
    assert np.isinf(found[0].errors())


def test_neighbours_that_may_change_places() -> None:
    text = """HloModule m
    before { a = f32[] parameter(0)
      b = f32[] parameter(1)
      i = s32[] parameter(2)
      j = s32[] parameter(3)
      ROOT c = pred[] compare(a, b), direction=LT }
    ENTRY main { p0 = f32[4] parameter(0)
      e = f32[4] exponential(p0)
      i = s32[4] iota(), iota_dimension=0
      ROOT r = (f32[4], s32[4]) sort(e, i), dimensions={0}, to_apply=before }"""
    keys, places = truth(parse(text), [f32(3, 1, np.nextafter(np.float32(1), np.float32(0)), 2)])
    assert places.value.tolist() == [1, 2, 3, 0]
    assert np.isinf(places.errors()).tolist() == [True, True, False, False]
    assert (keys.errors() < 1e-4).all()


@pytest.mark.parametrize("kind", [np.inf, np.nan, 1e9])
def test_what_is_decided_must_match(kind: float) -> None:
    found = Bounded(np.array([1.0, np.inf, np.nan]), np.array([1e-6, 0.0, 0.0]))
    right = np.array([1, np.inf, np.nan], np.float32)
    assert compare_with_truth([right], [found])[0].ok
    for place in range(3):
        wrong = right.copy()
        wrong[place] = kind if not np.array_equal(kind, right[place], equal_nan=True) else -3
        (comparison,) = compare_with_truth([wrong], [found])
        assert not comparison.ok
        assert comparison.bad == 1
        assert comparison.worst == (place,)


def test_complex_numbers_part_by_part() -> None:
    found = Bounded(np.array([complex(np.nan, 2)]), np.array([1e-3]))
    assert compare_with_truth([np.array([complex(np.nan, 2.0005)], np.complex64)], [found])[0].ok
    assert not compare_with_truth([np.array([complex(np.nan, 2.5)], np.complex64)], [found])[0].ok
    assert not compare_with_truth([np.array([complex(1, 2)], np.complex64)], [found])[0].ok


LAYERS = """HloModule m
add {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT s = {t}[] add(a, b) }}
maximum {{ a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  ROOT s = {t}[] maximum(a, b) }}
ENTRY main {{ x = {t}[8,24] parameter(0)
  w = {t}[24,40] parameter(1)
  h = {t}[8,40] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  low = {t}[] constant(-inf)
  m = {t}[8] reduce(h, low), dimensions={{1}}, to_apply=maximum
  mb = {t}[8,40] broadcast(m), dimensions={{0}}
  d = {t}[8,40] subtract(h, mb)
  e = {t}[8,40] exponential(d)
  zero = {t}[] constant(0)
  s = {t}[8] reduce(e, zero), dimensions={{1}}, to_apply=add
  sb = {t}[8,40] broadcast(s), dimensions={{0}}
  p = {t}[8,40] divide(e, sb)
  ROOT y = {t}[8,24] dot(p, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} }}"""


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32", "f64"])
def test_bounds_hold_and_say_something(kind: str) -> None:
    from hlotool.ir import dtype_of

    module = parse(LAYERS.format(t=kind))
    for seed in range(20):
        random = np.random.default_rng(seed)
        arrays = [random.standard_normal(sizes).astype(dtype_of(kind)) for sizes in ((8, 24), (24, 40))]
        (found,) = truth(module, arrays)
        for outputs in (evaluate(module, arrays), compile_module(module, threads=1)(*arrays)):
            assert compare_with_truth(outputs, [found])[0].ok
        assert np.isfinite(found.errors()).all()
        assert np.median(found.errors()) < 5000 * unit(kind) * np.sqrt(np.mean(found.value**2))


@pytest.mark.skipif(not CASES, reason="the corpus of programs is not here")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_real_programs_lie_within_their_bounds(case: Any) -> None:
    if any(target.startswith("lapack_") for target in case.meta["custom_calls"]):
        pytest.importorskip("scipy", reason="LAPACK custom calls need SciPy")
    module = parse(case.hlo)
    arrays = case.inputs()
    found = truth(module, arrays)
    for outputs in (evaluate(module, arrays), compile_module(module, threads=1)(*arrays)):
        comparisons = compare_with_truth(outputs, found, max_undecided=1.0)
        assert all(c.ok for c in comparisons), [str(c) for c in comparisons]


LAPACK = {
    "potrf": ("{t}[{n},{n}], s32[]", "p0", "uplo = 76 : ui8"),
    "getrf": ("{t}[{n},{n}], s32[{n}], s32[]", "p0", ""),
    "syevd": ("{t}[{n},{n}], f{b}[{n}], s32[]", "p0", "mode = 86 : ui8, uplo = 76 : ui8"),
    "gesdd": ("{t}[{n},{n}], f{b}[{n}], {t}[{n},{n}], {t}[{n},{n}], s32[]", "p0", "mode = 83 : ui8"),
    "trsm": ("{t}[{n},{n}]", "p0, p1", "diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8"),
    "geqrf": ("{t}[{n},{n}], {t}[{n}]", "p0", ""),
}
"""Results, operands and options of the calls."""


def lapack(routine: str, letter: str, n: int) -> tuple[str, list[Array]]:
    kind = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}[letter]
    results, operands, options = LAPACK[routine]
    shape = results.format(t=kind, n=n, b=32 if letter in "sc" else 64)
    routine = "heevd" if routine == "syevd" and letter in "cz" else routine
    text = "ENTRY main {\n" + "".join(f" p{k} = {kind}[{n},{n}] parameter({k})\n" for k in range(operands.count("p")))
    text += f" ROOT r = ({shape}) custom-call({operands}), custom_call_target=\"lapack_{letter}{routine}_ffi\", "
    text += f"api_version=API_VERSION_TYPED_FFI, backend_config={{{options}}}\n}}"
    random = np.random.default_rng(n)
    arrays: list[Array] = [random.standard_normal((n, n)).astype(dtype_of(kind)) for _ in range(operands.count("p"))]
    if letter in "cz":
        arrays = [(a + 1j * random.standard_normal((n, n))).astype(a.dtype) for a in arrays]
    if routine in ("potrf", "syevd", "heevd"):
        arrays[0] = (arrays[0] @ arrays[0].conj().T / n + np.eye(n)).astype(arrays[0].dtype)
    if routine in ("trsm", "getrf"):  # far from singular; the pivots of LU are in other rows
        arrays[0] += 4 * n**0.5 * np.eye(n, dtype=arrays[0].dtype)
        arrays[0] = np.roll(arrays[0], routine == "getrf", axis=0)
    return text, arrays


@pytest.mark.parametrize("letter", "sdcz")
@pytest.mark.parametrize("n", [1, 2, 5, 31, 33])
@pytest.mark.parametrize("routine", LAPACK)
def test_decompositions_have_bounds_or_are_undecided(routine: str, n: int, letter: str) -> None:
    pytest.importorskip("scipy", reason="LAPACK custom calls need SciPy")
    text, arrays = lapack(routine, letter, n)
    module = parse(text)
    found = truth(module, arrays)
    for outputs in (evaluate(module, arrays), compile_module(module, threads=1)(*arrays)):
        compared = compare_with_truth(outputs, found, max_undecided=1.0)
        assert all(c.ok for c in compared), [str(c) for c in compared]
    decided = {"potrf": (0, 1), "getrf": (0, 1, 2), "syevd": (1, 2), "gesdd": (1, 4), "trsm": (0,)}.get(routine, ())
    assert {k for k, leaf in enumerate(found) if np.isfinite(leaf.errors()).all()} == set(decided)
    for place in decided:
        if found[place].value.dtype.kind in "fc":
            largest = float(np.max(np.abs(found[place].value)))
            assert found[place].errors().max() < 3e5 * 2.0 ** (-24 if letter in "sc" else -53) * largest


def test_of_matrices_near_singular_ones_nothing_is_known() -> None:
    pytest.importorskip("scipy", reason="LAPACK custom calls need SciPy")
    for routine in ("potrf", "getrf"):
        text, (matrix, *_) = lapack(routine, "s", 5)
        matrix[4] = matrix[3]
        matrix[:, 4] = matrix[:, 3]
        assert all(np.isinf(leaf.errors()).all() for leaf in truth(parse(text), [matrix]))
    text, (matrix,) = lapack("getrf", "s", 5)
    matrix[:, 0] = 1 + np.arange(5) * np.float32(2**-20)  # the last row is the pivot: it is compared, not computed
    assert all(np.isfinite(leaf.errors()).all() for leaf in truth(parse(text), [matrix]))

MODULE = "ENTRY main { p0 = f32[4] parameter(0)\n ROOT r = f32[4] exponential(p0) }"


def test_the_command_prints_values_and_bounds(hlotool: Run, tmp_path: Any) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    done = hlotool("run", "m.hlo", "--input", "p0=1,2,3,4", "--backend", "evaluate", "--precision", "f64")
    assert done.returncode == 0, done.stderr
    assert "within" in done.stdout
    assert "undecided: 0 of 4" in done.stdout
    words = ("--backend", "evaluate", "--precision", "f64", "--format", "json")
    row = json.loads(hlotool("run", "m.hlo", "--input", "p0=1,2,3,4", *words).stdout)["outputs"][0]
    assert row["undecided"] == 0
    assert 0 < row["largest_bound"] < 1e-4
    assert hlotool("run", "m.hlo", "--precision", "f64").returncode == 2


def test_the_command_compares_with_the_truth(hlotool: Run, tmp_path: Any) -> None:
    (tmp_path / "m.hlo").write_text(MODULE)
    given = ("--input", "p0=1,2,3,4")
    done = hlotool("run", "m.hlo", *given, "--compare", "evaluate", "-o", "out.npz")
    assert done.returncode == 0, done.stderr
    truth_mode = ("--backend", "evaluate", "--precision", "f64", "--compare", "out.npz")
    assert hlotool("run", "m.hlo", *given, *truth_mode).returncode == 0
    wrong = np.exp(np.arange(1, 5)).astype(np.float32)
    wrong[2] = np.nextafter(wrong[2], np.float32(100)) + np.float32(1e-4)
    np.savez(tmp_path / "out.npz", out0=wrong)
    done = hlotool("run", "m.hlo", *given, *truth_mode)
    assert done.returncode == 1
    assert "1 of 4 elements differ" in done.stderr


def test_integer_products_of_uncertain_operands() -> None:
    """Integers that come from rounded floats have errors, and so have their products; exact ones have none."""
    text = (
        "ENTRY e {\na = f32[2,3] parameter(0)\nb = s32[3,2] parameter(1)\nt = f32[2,3] tanh(a)\n"
        "k = f32[] constant(1000)\nw = f32[2,3] broadcast(k), dimensions={}\nm = f32[2,3] multiply(t, w)\n"
        "c = s32[2,3] convert(m)\nROOT d = s32[2,2] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    )
    module = parse(text)
    values = [np.linspace(0.1, 2, 6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.int32).reshape(3, 2)]
    (bound,) = truth(module, values)
    (row,) = compare_with_truth(list(evaluate(module, values)), [bound], max_undecided=1.0)
    assert row.ok, str(row)


def folded(kind: str, fold: str, array: Array, initial: float, opcode: str = "reduce") -> tuple[Bounded, Array]:
    """A reduction of a vector by lines of a computation of `a` and `b`: the truth, and what the evaluator gives."""
    fold = fold.format(t=kind)
    head = f"HloModule m\nfold {{\na = {kind}[] parameter(0)\nb = {kind}[] parameter(1)\n{fold}\n}}\nENTRY main {{\n"
    how = {"reduce": "dimensions={0}", "reduce-window": f"window={{size={array.size}}}"}[opcode]
    kept = "" if opcode == "reduce" else "1"
    body = f"p = {kind}[{array.size}] parameter(0)\nz = {kind}[] constant({initial})\n"
    body += f"ROOT r = {kind}[{kept}] {opcode}(p, z), {how}, to_apply=fold\n}}"
    module = parse(head + body)
    (found,), (result,) = truth(module, [array]), evaluate(module, [array])
    return found, result


@pytest.mark.parametrize("opcode", ["reduce", "reduce-window"])
def test_what_underflows_in_f64_has_an_error(opcode: str) -> None:
    """Half of the least number of f64 is zero in f64, in which bounds are."""
    square = "s = {t}[] multiply(b, b)\nROOT r = {t}[] multiply(a, s)"
    found, result = folded("f64", square, np.array([1e-170, np.inf]), 1, opcode)
    assert np.isnan(result).all()  # in extended precision the first step is not zero, and the second infinite
    assert np.isinf(found.errors()).all()
    found, result = folded("f64", square, np.array([6e-162, 1e80, 1e80]), 1, opcode)
    assert (result != found.value).all()  # the first step has three bits
    assert compare_with_truth([result], [found], max_undecided=1.0)[0].ok


def test_selection_and_scatter_of_products_that_underflow() -> None:
    text = """HloModule m
    ge { a = f64[] parameter(0)
      b = f64[] parameter(1)
      ROOT c = pred[] compare(a, b), direction=GE }
    fold { a = f64[] parameter(0)
      b = f64[] parameter(1)
      s = f64[] multiply(b, b)
      ROOT c = f64[] multiply(a, s) }
    ENTRY main { x = f64[4] parameter(0)
      u = f64[3] parameter(1)
      z = f64[] constant(1)
      ROOT r = f64[4] select-and-scatter(x, u, z), window={size=2}, select=ge, scatter=fold }"""
    module = parse(text)
    arrays = [np.array([1.0, 5, 2, 1]), np.array([6e-162, 1e80, 1])]
    (found,) = truth(module, arrays)
    (result,) = evaluate(module, arrays)
    assert result[1] != found.value[1]
    assert compare_with_truth([result], [found], max_undecided=1.0)[0].ok


def test_sums_of_fractions_that_make_whole_numbers_round() -> None:
    x = f32(2**23, 0.5, 0.5)
    found, result = folded("f32", "ROOT r = {t}[] add(a, b)", x, 0)
    in_order = (x[0] + x[1]) + x[2]
    assert in_order != result
    assert compare_with_truth([np.asarray(in_order)], [found])[0].ok
    assert folded("f32", "ROOT r = {t}[] add(a, b)", f32(2**23, 1, 1), 0)[0].error is None


def test_products_in_any_order() -> None:
    multiply = "ROOT r = {t}[] multiply(a, b)"
    found, _ = folded("f32", multiply, f32(np.inf, 1e-30, 1e-30), 1)
    assert np.isinf(found.errors())  # infinite, or NaN where the others meet first
    found, _ = folded("f32", multiply, f32(np.inf, 1e-3, -1e-3), 1)
    assert found.value == -np.inf
    assert found.errors() == 0
    x = np.random.default_rng(1).uniform(0.5, 2, 50)
    found, _ = folded("f64", multiply, x, 1)
    assert abs(np.multiply.reduce(x[::-1]) - found.value) <= found.errors() < 1e-13 * found.value


def test_scattered_products_round_in_their_type() -> None:
    text = """HloModule m
    mul { a = f16[] parameter(0)
      b = f16[] parameter(1)
      ROOT c = f16[] multiply(a, b) }
    ENTRY main { x = f16[1] parameter(0)
      i = s32[2,1] constant({{0},{0}})
      u = f16[2] parameter(1)
      ROOT r = f16[1] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=mul }"""
    module = parse(text)
    arrays = [np.array([1.2e-7], np.float16), np.array([0.75, 1000], np.float16)]
    (found,) = truth(module, arrays)
    (result,) = evaluate(module, arrays)
    assert abs(float(result[0]) - float(found.value[0])) > 0.2 * found.value[0]  # of two bits one was lost
    assert compare_with_truth([result], [found], max_undecided=1.0)[0].ok


@pytest.mark.parametrize("opcode", ["reduce", "reduce-window"])
def test_sums_beside_others_are_sums_in_any_order(opcode: str) -> None:
    """Each pair of a variadic reduction by itself: whatever is reduced beside it leaves a sum open in its order."""
    kept, how = ("", "dimensions={0}") if opcode == "reduce" else ("1", "window={size=3}")
    text = f"""HloModule m
    both {{ a = f32[] parameter(0)
      i = s32[] parameter(1)
      b = f32[] parameter(2)
      j = s32[] parameter(3)
      s = f32[] add(a, b)
      o = s32[] or(i, j)
      ROOT t = (f32[], s32[]) tuple(s, o) }}
    ENTRY main {{ x = f32[3] parameter(0)
      i = s32[3] parameter(1)
      z = f32[] constant(0)
      n = s32[] constant(8)
      ROOT r = (f32[{kept}], s32[{kept}]) {opcode}(x, i, z, n), {how}, to_apply=both }}"""
    x, numbers = f32(1e8, -1e8, 1), np.array([1, 2, 2], np.int32)
    total, bits = truth(parse(text), [x, numbers])
    assert compare_with_truth([np.float32(0).reshape(total.shape)], [total])[0].ok  # (x[0] + x[2]) + x[1]
    assert bits.value == 11
    assert bits.error is None


def test_products_of_extreme_numbers() -> None:
    body = "p0 = f64[1,2] parameter(0)\np1 = f64[2,1] parameter(1)\nl = f64[2,1] log(p1)\n"
    body += "ROOT r = f64[1,1] dot(p0, l), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for size in (1e-200, 1e200):
        x, y = np.array([[size, 0]]), np.array([[3.0], [5]])
        found = true(body, x, y)
        least, most = (size * np.log(np.nextafter(3.0, end)) for end in (0, 9))
        assert most - least < 2 * found.errors() < 100 * (most - least)
    body = "p0 = f32[1,64] parameter(0)\np1 = f32[64,1] parameter(1)\n"
    body += "ROOT r = f32[1,1] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    x = np.full((1, 64), 1e-23, np.float32)
    rounded_each = np.float32(0)
    for a, b in zip(x[0], x[0] * np.float32(60), strict=True):
        rounded_each = rounded_each + a * b  # each product is four or five of the least number, and a fraction
    found = true(body, x, x.T * np.float32(60))
    assert compare_with_truth([np.full((1, 1), rounded_each, np.float32)], [found])[0].ok


def test_products_of_integers_wrap_beside_undecided_ones() -> None:
    text = (
        "ENTRY e {\na = f32[2,1] parameter(0)\nb = s32[1,2] parameter(1)\nt = f32[2,1] exponential(a)\n"
        "l = f32[2,1] log(t)\nc = s32[2,1] convert(l)\n"
        "ROOT d = s32[2,2] dot(c, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    )
    values = [f32(2, 10.5).reshape(2, 1), np.array([[3, 2**30]], np.int32)]
    module = parse(text)
    (found,) = truth(module, values)
    assert np.isinf(found.errors()).tolist() == [[True, True], [False, False]]
    assert found.value[1].tolist() == [30, (10 * 2**30 + 2**31) % 2**32 - 2**31]


@pytest.mark.parametrize("opcode", ["training", "grad"])
def test_batch_norms_of_nothing_are_nan(opcode: str) -> None:
    shapes = "f32[0,3,2] p0", "f32[3] p1", "f32[3] p2", "f32[3] p3", "f32[0,3,2] p4"
    count = 3 if opcode == "training" else 5
    lines = [f"{s} = {t} parameter({n})" for n, (t, s) in enumerate(shape.split() for shape in shapes[:count])]
    names = ", ".join(f"p{n}" for n in range(count))
    body = "\n".join(lines) + f"\nROOT r = (f32[0,3,2], f32[3], f32[3]) batch-norm-{opcode}({names}), "
    body += "epsilon=0.1, feature_index=1"
    module = parse("ENTRY main {\n" + body + "\n}")
    arrays = [np.ones((0, 3, 2) if n in (0, 4) else 3, np.float32) for n in range(count)]
    found, outputs = truth(module, arrays), evaluate(module, arrays)
    assert all(c.ok for c in compare_with_truth(outputs, found))
    for column in found[1:]:
        assert np.isnan(column.value).all() == (opcode == "training")
        assert (column.errors() < 1e-40).all()


def test_parts_of_complex_numbers_that_are_not_finite() -> None:
    add, multiply = "ROOT r = {t}[] add(a, b)", "ROOT r = {t}[] multiply(a, b)"
    x = np.array([complex(np.nan, 3e38), complex(0, 3e38), complex(0, -3e38)], np.complex64)
    assert np.isinf(folded("c64", add, x, 0)[0].errors())  # two of the three overflow
    found, _ = folded("c64", add, x[:1], 0)
    assert found.value.imag == x[0].imag
    assert np.isfinite(found.errors())
    x = np.array([complex(0, np.inf), complex(2, 1), complex(1, -1)], np.complex64)
    assert np.isinf(folded("c64", multiply, x, 1)[0].errors())


def test_integers_from_sums_that_are_not_numbers() -> None:
    body = "p0 = f64[1,3] parameter(0)\np1 = f64[3,1] parameter(1)\n"
    body += "ROOT r = s8[1,1] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    x = np.array([[1e308, 1e308, -np.inf]])
    assert np.isinf(true(body, x, np.ones((3, 1))).errors())  # -128, or 0 for NaN where the first two meet first
    assert true(body, x[:, ::-1][:, :1].repeat(3, 1), np.ones((3, 1))).errors() == 0


def test_batch_norms_may_take_other_ways() -> None:
    """Where a step is infinite in one of them."""
    body = """p0 = f32[2,1] parameter(0)
    p1 = f32[1] parameter(1)
    p2 = f32[1] parameter(2)
    r = (f32[2,1], f32[1], f32[1]) batch-norm-training(p0, p1, p2), epsilon=0.1, feature_index=1
    ROOT n = f32[2,1] get-tuple-element(r), index=0"""
    found = true(body, f32(1e20, -1e20).reshape(2, 1), f32(3), f32(4))
    assert np.isinf(found.errors()).all()  # 7 and 1, or 4 where the variance overflows
    body = """p0 = f32[2,1] parameter(0)
    p1 = f32[1] parameter(1)
    p2 = f32[2,1] parameter(2)
    r = (f32[2,1], f32[1], f32[1]) batch-norm-grad(p0, p1, p1, p1, p2), epsilon=0.1, feature_index=1
    ROOT n = f32[1] get-tuple-element(r), index=1"""
    arrays = [f32(1e30, -1e30).reshape(2, 1), f32(1e30), f32(1e20, 1e20).reshape(2, 1)]
    assert np.isinf(true(body, *arrays).errors()).all()  # products overflow unless they are divided first


def test_what_is_exact_stays_exact_where_a_computation_is_applied_element_by_element() -> None:
    """A negative f8e8m0fnu is a NaN: the declared type decides, as long as the value is known exactly."""
    body = (
        "c {\n a = f8e8m0fnu[] parameter(0)\n b = f8e8m0fnu[] parameter(1)\n n = f8e8m0fnu[] negate(b)\n"
        " v = f8e8m0fnu[1] reshape(n)\n w = f8e8m0fnu[2] concatenate(v, v), dimensions={0}\n"
        " i = s32[] constant(0)\n q = f8e8m0fnu[1] dynamic-slice(w, i), dynamic_slice_sizes={1}\n"
        " s = f8e8m0fnu[] reshape(q)\n ROOT r = f8e8m0fnu[] minimum(a, s)\n}\n"
        "ENTRY e {\n x = f8e8m0fnu[3] parameter(0)\n z = f8e8m0fnu[] constant(1)\n"
        " ROOT r = f8e8m0fnu[] reduce(x, z), dimensions={0}, to_apply=c\n}\n"
    )
    (found,) = truth(parse(body), [np.array([1, 2, 4]).astype(dtype_of("f8e8m0fnu"))])
    assert np.isnan(found.value)
    assert not found.errors()


_REAL = (
    "exponential exponential-minus-one log log-plus-one logistic sqrt rsqrt cbrt sine cosine tan sinh cosh tanh asin "
    "acos asinh acosh atanh erf abs negate sign ceil floor round-nearest-afz round-nearest-even "
    "add subtract multiply divide remainder power atan2 maximum minimum"
)
_COMPLEX = (
    "exponential exponential-minus-one log log-plus-one logistic sqrt rsqrt sine cosine tan sinh cosh tanh asinh "
    "negate sign add subtract multiply divide power"
)
_KINDS = (
    "f64", "f32", "f16", "bf16", "f8e3m4", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e8m0fnu", "f4e2m1fn", "c64", "c128"
)  # fmt: skip
_BINARY = frozenset(["add", "subtract", "multiply", "divide", "remainder", "power", "atan2", "maximum", "minimum"])


@pytest.mark.parametrize("kind", _KINDS)
def test_bounds_of_elementwise_opcodes_hold_whatever_the_values(kind: str) -> None:
    """Of exact operands, and of a product and a quotient that were rounded."""
    count = 300
    made = f"{kind}[{count}]"
    lines = [f"{name} = {made} parameter({n})" for n, name in enumerate("xyz")]
    lines += [f"m = {made} multiply(x, z)", f"d = {made} divide(y, z)"]
    rows = [
        f"{opcode}({operands})"
        for opcode in (_COMPLEX if kind in ("c64", "c128") else _REAL).split()
        for operands in (("x, y", "m, y", "x, d", "m, d") if opcode in _BINARY else ("x", "m"))
    ]
    lines += [f"v{n} = {made} {row}" for n, row in enumerate(rows)]
    shapes, names = ", ".join([made] * len(rows)), ", ".join(f"v{n}" for n in range(len(rows)))
    module = parse("ENTRY main {\n" + "\n".join(lines) + f"\nROOT t = ({shapes}) tuple({names})\n}}")
    for seed in range(4):
        generator = np.random.default_rng([seed, 7])
        values = [anything(generator, kind, (count,)) for _ in range(3)]
        if seed % 2:
            values[2] = generator.choice([0.1, 0.3, 0.7, 1.1, 3.3], count).astype(values[2].dtype)
        found = compare_with_truth(evaluate(module, values), truth(module, values), max_undecided=1.0)
        assert not [(row, str(c)) for row, c in zip(rows, found, strict=True) if not c.ok]


def test_where_elementwise_opcodes_say_nothing() -> None:
    """A divisor that may be zero, and a number that may be on the other side of a branch cut."""
    body = "p0 = f32[2] parameter(0)\np1 = f32[2] parameter(1)\nd = f32[2] divide(p0, p1)\n"
    found = true(body + "ROOT r = f32[2] remainder(p0, d)", f32(1e-30, 1), f32(1e30, 3))
    assert np.isinf(found.errors()).tolist() == [True, False]
    body = "p0 = c64[2] parameter(0)\np1 = c64[2] parameter(1)\nm = c64[2] multiply(p0, p1)\n"
    x = np.array([complex(0.1, 0.3), 1], np.complex64)
    found = true(body + "ROOT r = c64[2] log(m)", x, np.array([complex(-0.1, 0.3), complex(1, 3)], np.complex64))
    assert np.isinf(found.errors()).tolist() == [True, False]
    x = np.array([complex(-2, -0.0)], np.complex64)
    found = true("p0 = c64[1] parameter(0)\nROOT r = c64[1] log-plus-one(p0)", x)
    assert found.value.imag < -3


@pytest.mark.parametrize(
    "body",
    [
        "s = (f32[4], f32[4]) all-gather-start(x), replica_groups={{0}}, dimensions={0}\n  "
        "ROOT r = f32[4] all-gather-done(s)",
        "s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(x), source_target_pairs={{0,0}}\n  "
        "ROOT r = f32[4] collective-permute-done(s)",
        "s = (f32[4], f32[4]) all-reduce-start(x, x), replica_groups={{0}}, to_apply=add\n  "
        "t = (f32[4], f32[4]) all-reduce-done(s)\n  ROOT r = f32[4] get-tuple-element(t), index=1",
        "z = s32[] constant(0)\n  i = (s32[]) tuple(z)\n  ROOT r = f32[4] collective-permute(x, p, i, i), "
        "source_target_pairs={{0,0}}, slice_sizes={{4}}",
        "z = s32[] constant(0)\n  i = (s32[]) tuple(z)\n  f = (f32[4], f32[4]) tuple(p, x)\n  "
        "o = (f32[4], f32[4]) tuple(p, p)\n  j = ((s32[]), (s32[])) tuple(i, i)\n  "
        "t = (f32[4], f32[4]) collective-permute(f, o, j, j), source_target_pairs={{0,0}}, slice_sizes={{4},{4}}\n  "
        "ROOT r = f32[4] get-tuple-element(t), index=1",
    ],
)
def test_what_is_started_and_done_has_the_bounds_of_what_was_given(body: str) -> None:
    text = (
        "HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n"
        f"ENTRY e {{\n  p = f32[4] parameter(0)\n  x = f32[4] tanh(p)\n  {body}\n}}\n"
    )
    arguments = [np.array([0.1, 0.2, 0.3, 4], np.float32)]
    (alone,) = truth(parse("ENTRY e {\n  p = f32[4] parameter(0)\n  ROOT x = f32[4] tanh(p)\n}"), arguments)
    (found,) = truth(parse(text), arguments)
    assert found.value.tolist() == alone.value.tolist()
    assert found.errors().tolist() == alone.errors().tolist()
    assert found.errors().all()


def test_a_scan_of_nothing_has_its_carry() -> None:
    text = """HloModule m
total {
  x = f32[] parameter(0)
  c = f32[] parameter(1)
  s = f32[] add(c, x)
  ROOT r = (f32[], f32[]) tuple(s, s)
}
ENTRY e {
  x = f32[0] parameter(0)
  a = f32[] parameter(1)
  ROOT r = (f32[0], f32[]) scan(x, a), dimensions={0}, num_carries=1, to_apply=total
}"""
    made, carry = truth(parse(text), [np.zeros(0, np.float32), np.float32(2.5)])
    assert made.shape == (0,)
    assert carry.value == 2.5
