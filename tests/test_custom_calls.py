"""Custom-call handlers: the registry, backend configs, and the LAPACK targets against their definitions."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlotool.driver import compile_module, optimise
from hlotool.evaluate import evaluate_computation
from hlotool.evaluate.backend_config import parse_backend_config
from hlotool.evaluate.custom_call import CustomCall
from hlotool.evaluate.custom_calls import (
    custom_call_of,
    register_custom_call,
    run_custom_call,
    unregister_custom_call,
)
from hlotool.ir import ExecutionError, UnsupportedError, VerificationError, dtype_of
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline
from hlotool.runtime.lapack import lapack_site
from hlotool.text.parser import parse

F4 = np.dtype(np.float32)


def test_registry() -> None:
    with pytest.raises(UnsupportedError, match="'no_such_target' has no handler; register one"):
        run_custom_call([], CustomCall("no_such_target", (), ()))
    register_custom_call("test_twice", lambda inputs, call: ())
    with pytest.raises(ValueError, match="handler already"):
        register_custom_call("test_twice", lambda inputs, call: ())
    unregister_custom_call("test_twice")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("opaque bytes", "opaque bytes"),
        ("{}", {}),
        ('{"a": [1, 2]}', {"a": [1, 2]}),
        ("{mode = 86 : ui8, uplo = 76 : ui8}", {"mode": 86, "uplo": 76}),
        ('{s = "a, \\"b\\"}", x = -1.5e3 : f32, b = true, u}', {"s": 'a, "b"}', "x": -1500.0, "b": True, "u": True}),
        ("{v = array<i64: 1, -2>, l = [1 : i32, {k = 2}]}", {"v": (1, -2), "l": (1, {"k": 2})}),
        ("{= 3}", "{= 3}"),
    ],
)
def test_backend_config(text: str, expected: object) -> None:
    assert parse_backend_config(text) == expected


# ---- LAPACK


def lapack(target: str, inputs: list[Any], outputs: list[tuple[Any, tuple[int, ...]]], config: str = "") -> Any:
    pytest.importorskip("scipy")
    inputs = [np.array(array, order="C") for array in inputs]
    call = CustomCall(
        f"lapack_{target}_ffi",
        tuple((array.dtype, array.shape) for array in inputs),
        tuple((np.dtype(dtype), shape) for dtype, shape in outputs),
        parse_backend_config(config),
    )
    return run_custom_call(inputs, call)


def codes(**options: str) -> str:
    return "{" + ", ".join(f"{name} = {ord(letter)} : ui8" for name, letter in options.items()) + "}"


class Numbers:
    """Random matrices of one LAPACK kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.dtype = np.dtype({"s": "f4", "d": "f8", "c": "c8", "z": "c16"}[kind])
        self.real = self.dtype.type(0).real.dtype
        self.complex = np.result_type(self.dtype, np.complex64)
        self.is_complex = kind in "cz"
        self.generator = np.random.default_rng(5)

    def random(self, *shape: int) -> Any:
        values = self.generator.standard_normal(shape)
        if self.is_complex:
            values = values + 1j * self.generator.standard_normal(shape)
        return values.astype(self.dtype)

    def close(self, found: Any, expected: Any) -> bool:
        return bool(np.allclose(found, expected, rtol=0, atol=2e-3 if self.kind in "sc" else 1e-9))


@pytest.fixture(params="sdcz")
def numbers(request: pytest.FixtureRequest) -> Numbers:
    return Numbers(request.param)


def adjoint(a: Any) -> Any:
    return np.conj(np.swapaxes(a, -1, -2))


def test_potrf(numbers: Numbers) -> None:
    k, t = numbers.kind, numbers.dtype
    a = numbers.random(3, 5, 5)
    a = a @ adjoint(a) + 5 * np.eye(5, dtype=t)
    for uplo in "LU":
        factor, info = lapack(f"{k}potrf", [a], [(t, (3, 5, 5)), ("i4", (3,))], codes(uplo=uplo))
        lower = np.tril(factor) if uplo == "L" else adjoint(np.triu(factor))
        assert numbers.close(lower @ adjoint(lower), a)
        assert not info.any()
    assert lapack(f"{k}potrf", [-a[0]], [(t, (5, 5)), ("i4", ())], codes(uplo="L"))[1] == 1


def test_getrf(numbers: Numbers) -> None:
    k, t = numbers.kind, numbers.dtype
    a = numbers.random(2, 4, 6)
    factors, pivots, info = lapack(f"{k}getrf", [a], [(t, (2, 4, 6)), ("i4", (2, 4)), ("i4", (2,))])
    assert not info.any()
    for matrix, found, swaps in zip(a, factors, pivots, strict=True):
        product = (np.tril(found[:, :4], -1) + np.eye(4)) @ np.triu(found)
        for row in reversed(range(4)):
            other = swaps[row] - 1
            product[[row, other]] = product[[other, row]]
        assert numbers.close(product, matrix)


@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("trans", "NTC")
def test_trsm(numbers: Numbers, side: str, trans: str) -> None:
    a = numbers.random(2, 5, 5) + 4 * np.eye(5, dtype=numbers.dtype)
    b = numbers.random(2, 5, 3) if side == "L" else numbers.random(2, 3, 5)
    for uplo in "LU":
        for diag in "NU":
            config = codes(diag=diag, side=side, trans_x=trans, uplo=uplo)
            (x,) = lapack(f"{numbers.kind}trsm", [a, b], [(numbers.dtype, b.shape)], config)
            m = np.tril(a) if uplo == "L" else np.triu(a)
            if diag == "U":
                m[:, range(5), range(5)] = 1
            m = {"N": m, "T": np.swapaxes(m, 1, 2), "C": adjoint(m)}[trans]
            assert np.allclose(m @ x if side == "L" else x @ m, b, rtol=0, atol=0.05 if numbers.kind in "sc" else 1e-7)


def test_qr(numbers: Numbers) -> None:
    k, t = numbers.kind, numbers.dtype
    a = numbers.random(2, 6, 4)
    factors, tau = lapack(f"{k}geqrf", [a], [(t, (2, 6, 4)), (t, (2, 4))])
    form = "ungqr" if numbers.is_complex else "orgqr"
    padded = np.concatenate([factors, np.zeros((2, 6, 2), t)], axis=2)
    (q,) = lapack(f"{k}{form}", [padded, tau], [(t, (2, 6, 6))])
    assert numbers.close(q[:, :, :4] @ np.triu(factors)[:, :4], a)
    assert numbers.close(adjoint(q) @ q, np.eye(6))
    outputs = [(t, (2, 6, 4)), ("i4", (2, 4)), (t, (2, 4))]
    factors, pivots, tau = lapack(f"{k}geqp3", [a, np.zeros((2, 4), "i4")], outputs)
    (q,) = lapack(f"{k}{form}", [factors, tau], [(t, (2, 6, 4))])
    for i in range(2):
        assert numbers.close(q[i] @ np.triu(factors[i])[:4], a[i][:, pivots[i] - 1])
    for fixed in ([0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 7, 7]):
        factors, pivots, tau = lapack(f"{k}geqp3", [a, np.array([fixed, fixed], "i4")], outputs)
        (q,) = lapack(f"{k}{form}", [factors, tau], [(t, (2, 6, 4))])
        for i in range(2):
            assert numbers.close(q[i] @ np.triu(factors[i])[:4], a[i][:, pivots[i] - 1])
            front = np.flatnonzero(fixed) + 1
            assert pivots[i][: len(front)].tolist() == front.tolist()
            sizes = np.abs(np.diagonal(factors[i]))[len(front) :]
            assert (np.diff(sizes) <= 1e-3 * sizes[:-1]).all()


def test_names_before_ffi(numbers: Numbers) -> None:
    """Scalars ahead of the arrays, workspaces behind the results."""
    k, t, real = numbers.kind, numbers.dtype, numbers.random(2).real.dtype
    a = numbers.random(2, 5, 5)
    square = a @ adjoint(a) + 5 * np.eye(5, dtype=t)

    def old(target: str, scalars: list[Any], arrays: list[Any], outputs: list[tuple[Any, tuple[int, ...]]]) -> Any:
        values = [s if isinstance(s, np.generic) else np.int32(s) for s in scalars]
        inputs = [np.asarray(v) for v in (*values, *arrays)]
        call = CustomCall(
            target, tuple((x.dtype, x.shape) for x in inputs), tuple((np.dtype(d), s) for d, s in outputs)
        )
        return run_custom_call(inputs, call)

    pytest.importorskip("scipy")
    work, info = (t, (64,)), ("i4", (2,))
    factor, failed = old(f"lapack_{k}potrf", [1, 2, 5], [square], [(t, (2, 5, 5)), info])
    assert numbers.close(np.tril(factor) @ adjoint(np.tril(factor)), square)
    assert not failed.any()
    lu, pivots, _ = old(f"lapack_{k}getrf", [2, 5, 5], [a], [(t, (2, 5, 5)), ("i4", (2, 5)), info])
    for i in range(2):
        rows = np.arange(5)
        for place, other in enumerate(pivots[i] - 1):
            rows[[place, other]] = rows[[other, place]]
        assert numbers.close((np.tril(lu[i], -1) + np.eye(5)) @ np.triu(lu[i]), a[i][rows])
    factors, tau, failed, space = old(
        f"lapack_{k}geqrf", [2, 5, 5, 64], [a], [(t, (2, 5, 5)), (t, (2, 5)), info, work]
    )
    assert not failed.any()
    assert not space.any()
    form = "ungqr" if numbers.is_complex else "orgqr"
    q, *_ = old(f"lapack_{k}{form}", [2, 5, 5, 5, 64], [factors, tau], [(t, (2, 5, 5)), info, work])
    assert numbers.close(q @ np.triu(factors), a)
    eigen = "heevd" if numbers.is_complex else "syevd"
    vectors, values, *_ = old(f"lapack_{k}{eigen}", [1, 2, 5], [square], [(t, (2, 5, 5)), (real, (2, 5)), info, work])
    assert numbers.close(square @ vectors, vectors * values[:, None])
    outputs = [(t, (2, 5, 5)), (real, (2, 5)), (t, (2, 5, 5)), (t, (2, 5, 5)), info, work]
    _, s, u, vt, *_ = old(f"lapack_{k}gesdd", [1, 1, 2, 5, 5, 64], [a], outputs)
    assert numbers.close(u * s[:, None] @ vt, a)
    alpha = np.dtype(t).type(2)
    (x,) = old(f"blas_{k}trsm", [1, 1, 0, 0, 5, 5, 2, alpha], [np.tril(square), a], [(t, (2, 5, 5))])
    assert numbers.close(np.tril(square) @ x, 2 * a)
    matrix, wide, values = (t, (5, 5)), np.result_type(t, np.complex64), [(t, (2, 5))] * (2 - numbers.is_complex)
    spaces = [matrix, (real, (10,))] if numbers.is_complex else [matrix] * 3
    outputs = [*spaces, *values, (wide, (2, 5, 5)), (wide, (2, 5, 5)), info]
    letters = [np.uint8(ord(letter)) for letter in "NV"]
    found = old(f"lapack_{k}geev", [2, 5, *letters], [a], outputs)
    right, parts = found[-2], found[len(spaces) : len(spaces) + len(values)]
    eigenvalues = parts[0] if numbers.is_complex else parts[0] + 1j * parts[1]
    assert numbers.close(a @ right, right * eigenvalues[:, None])
    spaces = [(real, (5,))] if numbers.is_complex else []
    outputs = [(t, (2, 5, 5)), *spaces, *values, (t, (2, 5, 5)), info, info]
    schur, *_, z, _, _ = old(f"lapack_{k}gees", [2, 5, *letters[::-1]], [a], outputs)
    assert numbers.close(z @ schur @ adjoint(z), a)
    with pytest.raises(ExecutionError, match="expected 3 scalars"):
        old(f"lapack_{k}potrf", [2, 5], [square], [(t, (2, 5, 5)), info])
    with pytest.raises(UnsupportedError, match="no handler"):
        old(f"lapack_{k}trsm", [2, 5], [square], [(t, (2, 5, 5)), info])


def test_syevd(numbers: Numbers) -> None:
    k, t = numbers.kind, numbers.dtype
    a = numbers.random(3, 5, 5)
    a = a + adjoint(a)
    name = "heevd" if numbers.is_complex else "syevd"
    outputs = [(t, (3, 5, 5)), (numbers.real, (3, 5)), ("i4", (3,))]
    for uplo in "LU":
        vectors, values, _ = lapack(f"{k}{name}", [a], outputs, codes(mode="V", uplo=uplo))
        assert numbers.close(a @ vectors, vectors * values[:, None, :])
        assert numbers.close(lapack(f"{k}{name}", [a], outputs, codes(mode="N", uplo=uplo))[1], values)


@pytest.mark.parametrize(("mode", "columns", "rows"), [("A", 6, 4), ("S", 4, 4), ("N", 6, 4)])
@pytest.mark.parametrize("name", ["gesdd", "gesvd"])
def test_singular_values(numbers: Numbers, name: str, mode: str, columns: int, rows: int) -> None:
    k, t = numbers.kind, numbers.dtype
    a = numbers.random(2, 6, 4)
    outputs = [(t, a.shape), (numbers.real, (2, 4)), (t, (2, 6, columns)), (t, (2, rows, 4)), ("i4", (2,))]
    _, values, u, vt, info = lapack(f"{k}{name}", [a], outputs, codes(mode=mode))
    assert not info.any()
    assert numbers.close(values, np.linalg.svd(a, compute_uv=False))
    if mode != "N":
        assert numbers.close((u[:, :, :4] * values[:, None, :]) @ vt, a)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_products_with_reflectors(numbers: Numbers, left: bool, transpose: bool) -> None:
    k, t = numbers.kind, numbers.dtype
    a = numbers.random(2, 6, 4)
    factors, tau = lapack(f"{k}geqrf", [a], [(t, (2, 6, 4)), (t, (2, 4))])
    padded = np.concatenate([factors, np.zeros((2, 6, 2), t)], axis=2)
    (q,) = lapack(f"{k}{'ungqr' if numbers.is_complex else 'orgqr'}", [padded, tau], [(t, (2, 6, 6))])
    c = numbers.random(2, 6, 3) if left else numbers.random(2, 3, 6)
    name = "unmqr" if numbers.is_complex else "ormqr"
    config = f"{{left = {str(left).lower()}, transpose = {str(transpose).lower()}}}"
    (found,) = lapack(f"{k}{name}", [factors, tau, c], [(t, c.shape)], config)
    op = adjoint(q) if transpose else q
    assert numbers.close(found, op @ c if left else c @ op)
    (same,) = lapack(f"{k}{name}", [factors[:, :, :0], tau[:, :0], c], [(t, c.shape)], config)
    assert same.tobytes() == c.tobytes()


_UPLO, _VECTORS, _ALL = "{uplo = 76 : ui8}", "{mode = 86 : ui8, uplo = 76 : ui8}", "{mode = 65 : ui8}"
_SIDES = "{side = 76 : ui8, uplo = 76 : ui8, trans_x = 78 : ui8, diag = 78 : ui8}"
_WRONG = {
    "few pivots": ("sgetrf", "f32[900,40]", "f32[900,40] s32[1] s32[]", "", "output 1 is int32[1]"),
    "narrow pivots": ("sgetrf", "f32[900,900]", "f32[900,900] s8[900] s32[]", "", "output 1 is int8[900]"),
    "another type": ("sgetrf", "f64[40,40]", "f64[40,40] s32[40] s32[]", "", "operand 0 has type float64"),
    "small result": ("sgetrf", "f32[40,40]", "f32[3,3] s32[40] s32[]", "", "output 0 is float32[3, 3]"),
    "no batch": ("sgetrf", "f32[5,4,4]", "f32[5,4,4] s32[4] s32[]", "", "output 1 has shape (4,)"),
    "a vector": ("sgetrf", "f32[40]", "f32[40] s32[40] s32[]", "", "expected 2 dimensions+"),
    "no operand": ("sgetrf", "", "f32[40,40] s32[40] s32[]", "", "0 operands, expected 1"),
    "two operands": ("sgetrf", "f32[4,4] f32[4,4]", "f32[4,4] s32[4] s32[]", "", "2 operands, expected 1"),
    "few results": ("sgetrf", "f32[4,4]", "f32[4,4] s32[4]", "", "2 outputs, expected 3"),
    "many results": ("sgetrf", "f32[40,40]", "f32[40,40] s32[40] s32[] f32[]", "", "4 outputs, expected 3"),
    "not square": ("spotrf", "f32[3,900]", "f32[3,900] s32[]", _UPLO, "shape(a,0)==shape(a,1)"),
    "few factors": ("sgeqrf", "f32[90,90]", "f32[90,90] f32[1]", "", "output 1 is float32[1]"),
    "wide": ("sorgqr", "f32[3,900] f32[3]", "f32[3,900]", "", "no 3 reflectors give a matrix of 3x900"),
    "few values": ("ssyevd", "f32[90,90]", "f32[90,90] f32[1] s32[]", _VECTORS, "output 1 is float32[1]"),
    "wide values": ("zheevd", "c128[9,9]", "c128[9,9] f32[9] s32[]", _VECTORS, "output 1 is float32[9]"),
    "a small u": ("sgesdd", "f32[9,9]", "f32[9,9] f32[9] f32[1,1] f32[9,9] s32[]", _ALL, "output 2 is float32[1, 1]"),
    "a small side": ("strsm", "f32[3,3] f32[2,2]", "f32[2,2]", _SIDES, "failed"),
}


@pytest.mark.parametrize("name", _WRONG)
@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
def test_calls_of_lapack_with_other_arrays_are_errors(name: str, backend: str) -> None:
    """LAPACK gets addresses: it would read and write what lies beside arrays that are too small."""
    pytest.importorskip("scipy")
    target, operands, results, config, said = _WRONG[name]
    lines = [f"p{n} = {shape} parameter({n})" for n, shape in enumerate(operands.split())]
    given = ", ".join(f"p{n}" for n in range(len(lines)))
    shape = results if " " not in results else f"({results.replace(' ', ', ')})"
    call = f"ROOT c = {shape} custom-call({given}), custom_call_target=\"lapack_{target}_ffi\""
    call += ", api_version=API_VERSION_TYPED_FFI" + (f", backend_config={config}" if config else "")
    module = parse("HloModule m\nENTRY e {\n" + "\n".join([*lines, call]) + "\n}")
    inputs = [np.ones(p.shape.dimensions, dtype_of(p.shape.element_type)) for p in module.entry.parameters]
    with pytest.raises(ExecutionError, match=re.escape(said)):
        compile_module(module, backend)(*inputs)


SINKS = """HloModule m
ENTRY e {
  a = f32[4] parameter(0)
  t = f32[4] custom-call(a), custom_call_target="xla.sdy.PropagationBarrier"
  u = () custom-call(t), custom_call_target="TARGET", custom_call_has_side_effect=true
  ROOT r = f32[4] negate(t), control-predecessors={u}
}"""


@pytest.mark.parametrize("target", ["xla.sdy.ShardingGroup", "dce_sink"])
def test_sinks_do_nothing(target: str) -> None:
    """Shardy's groups and the sink of JAX's dce_sink: calls with effects that compute nothing."""
    module = parse(SINKS.replace("TARGET", target))
    x = np.arange(4, dtype=np.float32)
    for backend in ("cpu", "evaluate"):
        (found,) = compile_module(module, backend)(x)
        assert found.tolist() == (-x).tolist()
    after = optimise(module, parse_pipeline("sharding-remover"))
    assert [i.opcode for i in after.entry] == ["parameter", "negate"]


def test_general_eigenproblems(numbers: Numbers) -> None:
    k, t = numbers.kind, numbers.dtype
    a = numbers.random(2, 5, 5)
    parts = [(t, (2, 5))] if numbers.is_complex else [(numbers.real, (2, 5))] * 2
    info = ("i4", (2,))
    vectors = [(numbers.complex, (2, 5, 5))] * 2
    *values, left, right, _ = lapack(
        f"{k}geev", [a], [*parts, *vectors, info], codes(compute_left="V", compute_right="V")
    )
    w = values[0] if numbers.is_complex else values[0] + 1j * values[1]
    assert numbers.close(a @ right, right * w[:, None, :])
    assert numbers.close(adjoint(left) @ a, w[:, :, None] * adjoint(left))
    form, schur, *_ = lapack(
        f"{k}gees", [a], [(t, (2, 5, 5))] * 2 + parts + [info, info], codes(mode="V", sort="N")
    )
    assert numbers.close(schur @ form @ adjoint(schur), a)


def test_reductions_to_condensed_form(numbers: Numbers) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    k, t = numbers.kind, numbers.dtype
    a = numbers.random(2, 5, 5)
    outputs = [(t, (2, 5, 5)), (t, (2, 4)), ("i4", (2,))]
    reduced, _, _ = lapack(f"{k}gehrd", [a], outputs, "{high = 5 : i32, low = 1 : i32}")
    assert numbers.close(np.triu(reduced[1], -1), linalg.hessenberg(a[1]))
    a = a + adjoint(a)
    real = [(numbers.real, (2, 5)), (numbers.real, (2, 4))]
    name = "hetrd" if numbers.is_complex else "sytrd"
    _, d, e, _, _ = lapack(f"{k}{name}", [a], [(t, (2, 5, 5)), *real, (t, (2, 4)), ("i4", (2,))], codes(uplo="L"))
    assert numbers.close(linalg.eigvalsh_tridiagonal(d[0], e[0]), np.linalg.eigvalsh(a[0]))


def test_gtsv(numbers: Numbers) -> None:
    t = numbers.dtype
    dl, d, du, b = numbers.random(2, 4), numbers.random(2, 4) + 5, numbers.random(2, 4), numbers.random(2, 4, 3)
    *_, x, info = lapack(
        f"{numbers.kind}gtsv", [dl, d, du, b], [(t, (2, 4))] * 3 + [(t, (2, 4, 3)), ("i4", (2,))]
    )
    assert not info.any()
    for i in range(2):
        matrix = np.diag(d[i]) + np.diag(dl[i][1:], -1) + np.diag(du[i][:-1], 1)
        assert numbers.close(matrix @ x[i], b[i])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("left", "VN")
def test_no_eigenvalues_where_numbers_are_not_finite(
    numbers: Numbers, value: float, left: str, capfd: pytest.CaptureFixture[str]
) -> None:
    a, t = numbers.random(3, 3), numbers.complex
    a[1, 2] = value
    values = [(t, (3,))] if numbers.is_complex else [(numbers.real, (3,))] * 2
    config = codes(compute_left=left, compute_right="V")
    *_, info = lapack(f"{numbers.kind}geev", [a], [*values, (t, (3, 3)), (t, (3, 3)), ("i4", ())], config)
    assert info != 0
    assert capfd.readouterr() == ("", ""), "LAPACK itself complains on stderr"


def perturbed(below: Any, diagonal: Any, above: Any, b: Any) -> Any:
    inputs = [below, diagonal, above, b]
    call = CustomCall(
        "tridiagonal_solve_perturbed_ffi", tuple((a.dtype, a.shape) for a in inputs), ((b.dtype, b.shape),), {}
    )
    (x,) = run_custom_call(inputs, call)
    return x


def tridiagonal_matrix(below: Any, diagonal: Any, above: Any) -> Any:
    return np.diag(diagonal) + np.diag(below[1:], -1) + np.diag(above[:-1], 1)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_tridiagonal_systems_with_rows_exchanged(numbers: Numbers, size: int) -> None:
    bands = [numbers.random(3, 2, size) for _ in range(3)]
    bands[1][0] /= 1000  # so that rows are exchanged
    b = numbers.random(3, 2, size, 4)
    x = perturbed(*bands, b)
    for index in np.ndindex(3, 2):
        matrix = tridiagonal_matrix(*(band[index] for band in bands))
        scale = np.linalg.norm(matrix) * np.linalg.norm(x[index])
        assert np.linalg.norm(matrix @ x[index] - b[index]) < 50 * np.finfo(numbers.dtype).eps * scale
    assert perturbed(*(band[:, :, :0] for band in bands), b[:, :, :0]).shape == (3, 2, 0, 4)


def test_singular_tridiagonal_systems_have_finite_solutions(numbers: Numbers) -> None:
    """They point where the matrix gives next to nothing, as inverse iteration for eigenvectors wants it."""
    t, size, limits = numbers.dtype, 8, np.finfo(numbers.dtype)
    beside, diagonal = np.full(size, -1, t), np.full(size, 2, t)
    diagonal[[0, -1]] = 1  # rows and columns sum to zero
    x = perturbed(beside, diagonal, beside, numbers.random(size, 1))[:, 0]
    assert np.isfinite(x).all()
    assert np.abs(x).max() > 1000
    assert np.ptp(np.abs(x)) < 0.01 * np.abs(x).max()
    none = np.zeros(size, t)
    assert np.isfinite(perturbed(none, none, none, np.ones((size, 2), t))).all()
    tiny = perturbed(none, np.full(size, 1e-30, t), none, np.ones((size, 1), t))
    assert np.allclose(tiny, 1e30, rtol=10 * limits.eps, atol=0)  # nothing overflows here: the numbers are as they were
    apart = perturbed(none, np.array([np.nan] + [1] * 7, t), none, np.ones((size, 1), t))
    assert np.isnan(apart[0]).all()
    assert (apart[1:] == 1).all()


def test_operands_of_tridiagonal_systems_are_checked() -> None:
    with pytest.raises(ExecutionError, match="expected three of"):
        perturbed(*[np.ones((2, 3), F4)] * 3, np.ones((3, 2), F4))


@pytest.mark.parametrize(("layout", "refused"), [("{0,1}", False), ("{1,0}", True)])
def test_lapack_has_matrices_by_columns(layout: str, refused: bool) -> None:
    text = f"""
HloModule m

ENTRY main {{
  a = f32[40,40] parameter(0)
  r = (f32[40,40]{layout}, f32[40]{{0}}) custom-call(a), custom_call_target="lapack_sgeqrf_ffi",
    operand_layout_constraints={{f32[40,40]{layout}}}, api_version=API_VERSION_TYPED_FFI
  ROOT tau = f32[40] get-tuple-element(r), index=1
}}
"""
    module = parse(text)
    a = np.eye(40, dtype=np.float32)
    for run in (lambda: evaluate_computation(module.entry, [a]), lambda: compile_module(module)):
        if refused:
            with pytest.raises(UnsupportedError, match="do not lie by columns"):
                run()
        else:
            run()


@pytest.mark.parametrize(
    ("column", "pivot"), [((np.nan, 1, 7), 1), ((1, np.nan, 7), 3), ((9, 1, np.nan), 1), ((np.nan,) * 3, 1)]
)
def test_a_pivot_beside_nan(column: tuple[float, ...], pivot: int) -> None:
    """As BLAS has it: nothing is larger than a NaN that comes first, and one that comes later is not larger."""
    text = """
HloModule m

ENTRY main {
  a = f32[3,3] parameter(0)
  r = (f32[3,3], s32[3], s32[]) custom-call(a), custom_call_target="lapack_sgetrf_ffi"
  ROOT pivots = s32[3] get-tuple-element(r), index=1
}
"""
    a = np.ones((3, 3), np.float32)
    a[:, 0] = column
    (pivots,) = compile_module(parse(text)).run(a)
    assert pivots[0] == pivot


def test_one_equation() -> None:
    one = np.full((2, 1), 4, np.float32)
    outputs: list[tuple[Any, tuple[int, ...]]] = [*[("f4", (2, 1))] * 3, ("f4", (2, 1, 3)), ("i4", (2,))]
    found = lapack("sgtsv", [one, one, one, np.ones((2, 1, 3), "f4")], outputs)
    assert (found[3] == 0.25).all()
    assert not found[4].any()


def test_lapack_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.eye(2, dtype=np.float32)
    outputs: list[tuple[Any, tuple[int, ...]]] = [("f4", (2, 2)), ("i4", ())]
    with pytest.raises(ExecutionError, match="option uplo is 33"):
        lapack("spotrf", [a], outputs, codes(uplo="!"))
    with pytest.raises(ExecutionError, match="option uplo is None"):
        lapack("spotrf", [a], outputs)
    with pytest.raises(ExecutionError, match="expected 2"):
        lapack("spotrf", [a], outputs[:1], codes(uplo="L"))
    with pytest.raises(UnsupportedError, match="lapack_corgqr_ffi"):
        lapack("corgqr", [a], outputs)
    for output in lapack("spotrf", [np.zeros((0, 3, 3), "f4")], [("f4", (0, 3, 3)), ("i4", (0,))], codes(uplo="L")):
        assert output.size == 0
    for name in [name for name in sys.modules if name.split(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "scipy", None)
    call = CustomCall("lapack_spotrf_ffi", ((F4, (2, 2)),), ((F4, (2, 2)), (np.dtype("i4"), ())), {"uplo": 76})
    with pytest.raises(UnsupportedError, match=r'pip install "hlotool\[lapack\]"'):
        run_custom_call([a], call)


# ---- what a handler is told, and how often it is called

CALLED = """HloModule m
twice {
  v = f32[2] parameter(0)
  ROOT t = f32[2] add(v, v)
}
both {
  v = f32[2] parameter(0)
  n = f32[2] negate(v)
  ROOT t = (f32[2], f32[2]) tuple(n, v)
}
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  k = token[] after-all()
  p = ((f32[2], f32[2]), token[]) tuple(xy, k)
  ROOT call = (f32[2], (f32[2], token[])) custom-call(p, y), custom_call_target="test_told",
    called_computations={twice, both}, output_to_operand_aliasing={{1,0}: (0, {0,1})},
    api_version=API_VERSION_TYPED_FFI,
    backend_config="{mode = 3 : i32}", frontend_attributes={note="hello"}, custom_call_has_side_effect=true
}""".replace("  k =", "  xy = (f32[2], f32[2]) tuple(x, y)\n  k =").replace(",\n    ", ", ")


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
def test_a_handler_is_told_all(backend: str) -> None:
    seen: list[CustomCall] = []

    def handler(inputs: tuple[Any, ...], call: CustomCall) -> tuple[Any, ...]:
        seen.append(call)
        assert not inputs[0].flags.writeable
        inputs[1][0] = 100  # it is the second output
        (doubled,) = call.computations[0](inputs[0])
        assert [leaf.tolist() for leaf in call.computations[1](inputs[2])] == [[-3, -4], [3, 4]]
        return doubled, inputs[1]

    register_custom_call("test_told", handler, replace=True)
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    results = compile_module(parse(CALLED), backend)(x, y)
    assert [result.tolist() for result in results] == [[2, 4], [100, 4]]
    assert y.tolist() == [3, 4]
    (call,) = seen
    assert (call.name, call.target, call.api_version) == ("call", "test_told", "API_VERSION_TYPED_FFI")
    assert (call.backend_config, call.frontend_attributes) == ({"mode": 3}, {"note": "hello"})
    assert (call.aliases, len(call.operands), len(call.outputs)) == ({1: 1}, 3, 2)


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
def test_errors_name_the_instruction(backend: str) -> None:
    def broken(inputs: tuple[Any, ...], call: CustomCall) -> tuple[Any, ...]:
        raise KeyError("gone")

    register_custom_call("test_told", broken, replace=True)
    values = np.zeros(2, np.float32)
    with pytest.raises(ExecutionError, match=r"^call: custom call 'test_told' failed: KeyError: 'gone'"):
        compile_module(parse(CALLED), backend)(values, values)


def test_aliases_must_fit() -> None:
    for wrong, message in [
        ("{{1,1}: (0, {0,1})}", "cannot replace"), ("{{3}: (0, {0,1})}", r"has no part \{3\}"),
        ("{{0}: (2, {})}", "no operand 2"), ("{{0}: (0, {0,5})}", r"has no part \{0,5\}"),
    ]:  # fmt: skip
        with pytest.raises(VerificationError, match=message):
            check(parse(CALLED.replace("{{1,0}: (0, {0,1})}", wrong)))


def effects(seed: int) -> str:
    """A program of custom calls with effects, in calls, loops and branches; the results of many are not read."""
    rng = Random(seed)
    count = 0

    def some(prefix: str, known: list[str]) -> tuple[list[str], list[str]]:
        nonlocal count
        lines, known = [], list(known)
        for number in range(rng.randint(3, 8)):
            name, a, b = f"{prefix}{number}", rng.choice(known), rng.choice(known)
            match rng.randrange(4):
                case 0:
                    config = f'custom_call_has_side_effect=true, backend_config="{{\\"id\\": {count}}}"'
                    lines.append(f'{name} = f32[64] custom-call({a}), custom_call_target="test_effect", {config}')
                    count += 1
                case 1:
                    lines.append(f"{name}z = f32[] constant(0)")
                    lines.append(f"{name}r = f32[] reduce({a}, {name}z), dimensions={{0}}, to_apply=sum")
                    lines.append(f"{name} = f32[64] broadcast({name}r), dimensions={{}}")
                case 2:
                    lines.append(f"{name} = f32[64] {rng.choice(('add', 'multiply', 'maximum'))}({a}, {b})")
                case _:
                    lines.append(f"{name} = f32[64] {rng.choice(('negate', 'sine', 'abs'))}({a})")
            known.append(name)
        return lines, known

    lines, known = some("b", ["p"])
    branch = ["p = f32[64] parameter(0)", *lines, f"ROOT r = f32[64] copy({rng.choice(known)})"]
    lines, known = some("w", ["p"])
    body = [
        "s = (s32[], f32[64]) parameter(0)", "i = s32[] get-tuple-element(s), index=0",
        "p = f32[64] get-tuple-element(s), index=1", "one = s32[] constant(1)", "j = s32[] add(i, one)", *lines,
        f"ROOT t = (s32[], f32[64]) tuple(j, {rng.choice(known)})",
    ]  # fmt: skip
    main, known = some("e", ["x", "y"])
    main += [f"ca = f32[64] call({rng.choice(known)}), to_apply=branch"]
    more, known = some("f", [*known, "ca"])
    main += [
        *more, "zero = s32[] constant(0)", f"st = (s32[], f32[64]) tuple(zero, {rng.choice(known)})",
        "wl = (s32[], f32[64]) while(st), condition=test, body=turn", "wg = f32[64] get-tuple-element(wl), index=1",
    ]  # fmt: skip
    more, known = some("g", [*known, "wg"])
    main += [
        *more, "q0 = f32[1] slice(x), slice={[0:1]}", "q1 = f32[] reshape(q0)", "q2 = f32[] constant(0)",
        "pr = pred[] compare(q1, q2), direction=GT",
        f"cd = f32[64] conditional(pr, {known[-1]}, {known[0]}), true_computation=branch, false_computation=other",
    ]  # fmt: skip
    more, known = some("h", [*known, "cd"])
    main += [*more, f"ROOT r = (f32[64], f32[64]) tuple({rng.choice(known)}, {rng.choice(known)})"]
    return f"""HloModule m
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}
branch {{
{chr(10).join(branch)}
}}
other {{
  q = f32[64] parameter(0)
  ROOT n = f32[64] negate(q)
}}
turn {{
{chr(10).join(body)}
}}
test {{
  s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  k = s32[] constant(2)
  ROOT c = pred[] compare(i, k), direction=LT
}}
ENTRY e {{
x = f32[64] parameter(0)
y = f32[64] parameter(1)
{chr(10).join(main)}
}}"""


@pytest.mark.parametrize("seed", range(8))
def test_effects_happen_once_and_in_order(seed: int) -> None:
    done: list[int] = []

    def effect(inputs: tuple[Any, ...], call: CustomCall) -> tuple[Any, ...]:
        assert not isinstance(call.backend_config, str)
        done.append(call.backend_config["id"])
        return inputs

    register_custom_call("test_effect", effect, replace=True)
    module = parse(effects(seed))
    x = np.random.default_rng(seed).standard_normal(64).astype(np.float32)
    compile_module(module, "evaluate")(x, x)
    want = list(done)
    assert want
    for pipeline in ("default", "none"):
        done.clear()
        compile_module(module, pipeline=pipeline, threads=1)(x, x)
        assert done == want


# ---- XLA's own targets


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
@pytest.mark.parametrize("direction", ["GT", "LT"])
def test_top_k_of_a_type_without_zero(backend: str, direction: str) -> None:
    text = """HloModule m
first {
  a = f8e8m0fnu[] parameter(0)
  b = f8e8m0fnu[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT g = pred[] compare(a, b), direction=DIRECTION
}
ENTRY e {
  x = f8e8m0fnu[5] parameter(0)
  ROOT k = (f8e8m0fnu[3], s32[3]) custom-call(x), custom_call_target="TopK", called_computations={first}
}"""
    x = np.array([1, np.nan, 0.25, 2, 4]).astype(ml_dtypes.float8_e8m0fnu)
    values, places = compile_module(parse(text.replace("DIRECTION", direction)), backend)(x)
    expected = [np.nan, 4, 2] if direction == "GT" else [0.25, 1, 2]
    np.testing.assert_array_equal(values.astype(np.float32), np.float32(expected))
    assert places.tolist() == ([1, 4, 3] if direction == "GT" else [2, 0, 3])


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
def test_targets_of_xla(backend: str) -> None:
    text = """HloModule m
greater {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT g = pred[] compare(a, b), direction=DIRECTION
}
ENTRY e {
  x = f32[2,4] parameter(0)
  n = u64[2] parameter(1)
  k = (f32[2,2], s32[2,2]) custom-call(x), custom_call_target="TopK", called_computations={greater}
  h = u32[2] custom-call(n), custom_call_target="X64SplitHigh"
  l = u32[2] custom-call(n), custom_call_target="X64SplitLow"
  c = u64[2] custom-call(l, h), custom_call_target="X64Combine"
  b = f32[2] custom-call(), custom_call_target="AllocateBuffer"
  s = f32[2,4] custom-call(x), custom_call_target="Sharding", sharding={replicated}
  ROOT r = ((f32[2,2], s32[2,2]), u32[2], u32[2], u64[2], f32[2], f32[2,4]) tuple(k, h, l, c, b, s)
}"""
    x = np.array([[1, 3, 3, 2], [-1, np.nan, 0, 5]], np.float32)
    n = np.array([1 << 40 | 7, 2**64 - 1], np.uint64)
    for direction, values, places in [
        ("GT", [[3, 3], [np.nan, 5]], [[1, 2], [1, 3]]), ("LT", [[1, 2], [-1, 0]], [[0, 3], [0, 2]]),
    ]:  # fmt: skip
        executable = compile_module(parse(text.replace("DIRECTION", direction)), backend)
        top, where, high, low, whole, buffer, same = executable(x, n)
        assert np.array_equal(top, np.float32(values), equal_nan=True)
        assert where.tolist() == places
        assert (high.tolist(), low.tolist()) == ([256, 2**32 - 1], [7, 2**32 - 1])
        assert whole.tolist() == n.tolist()
        assert buffer.tolist() == [0, 0]
        assert np.array_equal(same, x, equal_nan=True)
    shard = 'x = f32[4] parameter(0)\nROOT s = f32[2] custom-call(x), custom_call_target="SPMDFullToShardShape"'
    with pytest.raises(UnsupportedError, match="s: custom call 'SPMDFullToShardShape': it changes the shape"):
        compile_module(parse(f"HloModule m\nENTRY e {{\n{shard}\n}}"), backend)(np.zeros(4, np.float32))


FACTORED = """HloModule factored
ENTRY e {{
  a = {t}[2,{m},{n}] parameter(0)
  both = ({t}[2,{m},{n}], {t}[2,{k}]) custom-call(a), custom_call_target="Qr"
  packed = {t}[2,{m},{n}] get-tuple-element(both), index=0
  tau = {t}[2,{k}] get-tuple-element(both), index=1
  left = {t}[2,{m},{k}] slice(packed), slice={{[0:2],[0:{m}],[0:{k}]}}
  q = {t}[2,{m},{k}] custom-call(left, tau), custom_call_target="ProductOfElementaryHouseholderReflectors"
  ROOT r = ({t}[2,{m},{n}], {t}[2,{m},{k}]) tuple(packed, q)
}}"""

SYMMETRIC = """HloModule symmetric
ENTRY e {{
  a = {t}[3,{n},{n}] parameter(0)
  ROOT e = ({t}[3,{n},{n}], {r}[3,{n}]) custom-call(a), custom_call_target="Eigh", backend_config="{lower},1,4,1e-6"
}}"""


def _random(kind: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(4)
    array = rng.normal(size=shape)
    dtype = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}[kind]
    return (array + 1j * rng.normal(size=shape) if kind[0] == "c" else array).astype(dtype)


@pytest.mark.parametrize("backend", ["cpu", "evaluate"])
@pytest.mark.parametrize("kind", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize(("m", "n"), [(4, 3), (3, 5), (1, 1), (4, 4)])
def test_qr_and_the_product_of_its_reflectors(kind: str, m: int, n: int, backend: str) -> None:
    a, k = _random(kind, 2, m, n), min(m, n)
    module = parse(FACTORED.format(t=kind, m=m, n=n, k=k))
    packed, q = compile_module(module, backend=backend)(a)
    tolerance = 20 * np.finfo(a.dtype).eps
    np.testing.assert_allclose(q @ np.triu(packed)[:, :k], a, atol=10 * tolerance)
    np.testing.assert_allclose(np.swapaxes(q.conj(), 1, 2) @ q, np.broadcast_to(np.eye(k), (2, k, k)), atol=tolerance)


@pytest.mark.parametrize("lower", [0, 1])
@pytest.mark.parametrize(("kind", "real"), [("f32", "f32"), ("f64", "f64"), ("c64", "f32"), ("c128", "f64")])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_eigh_reads_one_triangle(kind: str, real: str, n: int, lower: int) -> None:
    a = _random(kind, 3, n, n)
    half = np.tril(a) if lower else np.swapaxes(np.triu(a).conj(), 1, 2)
    whole = np.tril(half, -1) + np.swapaxes(np.tril(half, -1).conj(), 1, 2)
    whole = whole + np.einsum("bi,ij->bij", np.einsum("bii->bi", a).real, np.eye(n))
    vectors, values = compile_module(parse(SYMMETRIC.format(t=kind, r=real, n=n, lower=lower)))(a)
    again = vectors * values[:, None] @ np.swapaxes(vectors.conj(), 1, 2)
    np.testing.assert_allclose(again, whole, atol=100 * np.finfo(a.dtype).eps)
    assert (np.diff(values) >= 0).all()


FACTORS = """HloModule factors
ENTRY e {{
  a = {t}[{batch}{m},{n}] parameter(0)
  ROOT r = ({t}[{batch}{m},{n}], s32[{batch}{k}], s32[{flat}]) custom-call(a),
    custom_call_target="lapack_{kind}getrf_ffi"
}}"""

SOLVED = """HloModule solved
ENTRY e {{
  a = {t}[2,3,4,4] parameter(0)
  both = ({t}[2,3,4,4], s32[2,3]) custom-call(a), custom_call_target="lapack_{kind}potrf_ffi",
    backend_config={{uplo = {uplo} : ui8}}
  factor = {t}[2,3,4,4] get-tuple-element(both), index=0
  info = s32[2,3] get-tuple-element(both), index=1
  zero = s32[] constant(0)
  zeros = s32[2,3] broadcast(zero), dimensions={{}}
  good = pred[2,3] compare(zeros, info), direction=NE
  b = {t}[2,3,4,2] parameter(1)
  x = {t}[2,3,4,2] custom-call(factor, b), custom_call_target="lapack_{kind}trsm_ffi",
    backend_config={{diag = 78 : ui8, side = 76 : ui8, trans_x = {trans} : ui8, uplo = {uplo} : ui8}}
  ROOT r = ({t}[2,3,4,4], pred[2,3], {t}[2,3,4,2]) tuple(factor, good, x)
}}"""

_KINDS = [("f32", "s"), ("f64", "d"), ("c64", "c"), ("c128", "z")]


@pytest.mark.skipif(find_spec("scipy") is None, reason="SciPy is not installed")
@pytest.mark.parametrize(("t", "kind"), _KINDS)
@pytest.mark.parametrize("m", [1, 2, 5, 32, 33])
@pytest.mark.parametrize("n", [1, 5, 32])
@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_factors_of_small_matrices_are_lapacks(t: str, kind: str, m: int, n: int, batch: tuple[int, ...]) -> None:
    a = _random(t, *batch, m, n)
    if batch and min(m, n) > 1:
        a[0] = 0  # all pivots are zero
        a[1, ..., 1] = a[1, ..., 0]  # the second one is, about
        a[1, ..., 0, :] = a[1, ..., -1, :]
    words = "".join(f"{size}," for size in batch)
    text = FACTORS.format(t=t, kind=kind, m=m, n=n, k=min(m, n), batch=words, flat=words[:-1])
    module = parse(text)
    wanted = compile_module(module, backend="evaluate")(a)
    found = compile_module(module)(a)
    scale = np.finfo(a.dtype).eps * 100 * max(m, n)
    regular = np.ones(len(a) if batch else 1, bool)
    if batch and min(m, n) > 1:
        regular[1] = False  # rounding decides
    for one, other in zip(found, wanted, strict=True):
        if batch:
            one, other = one[regular], other[regular]
        np.testing.assert_allclose(one, other, atol=scale)


@pytest.mark.skipif(find_spec("scipy") is None, reason="SciPy is not installed")
@pytest.mark.parametrize(("t", "kind"), _KINDS)
@pytest.mark.parametrize(("uplo", "trans"), [("L", "N"), ("U", "C")])
def test_cholesky_and_triangular_systems_are_lapacks(t: str, kind: str, uplo: str, trans: str) -> None:
    a = _random(t, 2, 3, 4, 4)
    a = a @ np.swapaxes(a.conj(), -1, -2) + np.eye(4, dtype=a.dtype)
    a[1, 2, 0, 0] = 0  # not positive definite
    b = _random(t, 2, 3, 4, 2)
    module = parse(SOLVED.format(t=t, kind=kind, uplo=ord(uplo), trans=ord(trans)))
    assert not [i for i in optimise(module).instructions() if i.opcode == "custom-call"]
    wanted, found = compile_module(module, backend="evaluate")(a, b), compile_module(module)(a, b)
    np.testing.assert_array_equal(found[1], wanted[1])
    assert wanted[1].sum() == 1
    for one, other in zip(found, wanted, strict=True):
        good = ~wanted[1]
        np.testing.assert_allclose(one[good], other[good], atol=100 * np.finfo(a.dtype).eps)


NATIVE = """HloModule native
ENTRY e {{
  a = {t}[{batch}{m},{n}] parameter(0)
  ROOT r = {result} custom-call(a), custom_call_target="lapack_{kind}{routine}_ffi", backend_config={{{config}}}
}}"""


def _results(t: str, real: str, batch: tuple[int, ...], m: int, n: int) -> dict[str, tuple[str, str]]:
    """Routine and options -> results and config."""
    words = "".join(f"{size}," for size in batch)
    k, info = min(m, n), f"s32[{words[:-1]}]"
    found = {
        "geqrf": (f"({t}[{words}{m},{n}], {t}[{words}{k}])", ""),
        "getrf": (f"({t}[{words}{m},{n}], s32[{words}{k}], {info})", ""),
    }
    for mode in "ASN":
        u, vt = (m, n) if mode == "A" else (k, k)
        shapes = f"{t}[{words}{m},{n}], {real}[{words}{k}], {t}[{words}{m},{u}], {t}[{words}{vt},{n}], {info}"
        found[f"gesdd {mode}"] = f"({shapes})", f"mode = {ord(mode)} : ui8"
    if m == n:
        eigen = "heevd" if t[0] == "c" else "syevd"
        for mode, uplo in ("VL", "VU", "NL"):
            config = f"mode = {ord(mode)} : ui8, uplo = {ord(uplo)} : ui8"
            found[f"{eigen} {mode}{uplo}"] = f"({t}[{words}{n},{n}], {real}[{words}{n}], {info})", config
        found["potrf"] = f"({t}[{words}{n},{n}], {info})", "uplo = 76 : ui8"
    return found


@pytest.mark.skipif(find_spec("scipy") is None, reason="SciPy is not installed")
@pytest.mark.parametrize(("t", "kind"), _KINDS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 3), (5, 2), (2, 5), (40, 40)])
def test_native_calls_of_lapack_give_what_the_handlers_do(
    t: str, kind: str, batch: tuple[int, ...], m: int, n: int
) -> None:
    real = {"c64": "f32", "c128": "f64"}.get(t, t)
    a = _random(t, *batch, m, n)
    tolerance = 200 * np.finfo(a.dtype).eps * max(m, n)
    words = "".join(f"{size}," for size in batch)
    for options, (result, config) in _results(t, real, batch, m, n).items():
        routine, x = options.split()[0], a
        if routine == "potrf":
            x = a @ np.swapaxes(a.conj(), -1, -2) + np.eye(n, dtype=a.dtype)
        elif routine.endswith("evd"):
            x = a + np.swapaxes(a.conj(), -1, -2)
        text = NATIVE.format(t=t, batch=words, m=m, n=n, result=result, kind=kind, routine=routine, config=config)
        module = parse(text)
        site = lapack_site(custom_call_of(module.entry.root, evaluate_computation))
        assert site is not None
        scratch = int(site.keep[0][1])  # bytes: a workspace is some rows of the matrix
        assert scratch < 100_000 + 1000 * a.itemsize * max(m, n)
        wanted, found = (compile_module(module, backend=backend)(x) for backend in ("evaluate", "cpu"))
        for one, other in zip(found, wanted, strict=True):  # vectors but for their signs
            np.testing.assert_allclose(np.abs(one), np.abs(other), atol=tolerance, err_msg=options)


def test_what_has_no_native_call_is_left_to_the_handlers() -> None:
    def site(target: str, shape: tuple[int, ...], **config: int) -> object:
        leaf = (np.dtype(np.float32), shape)
        return lapack_site(CustomCall(target, (leaf,), (leaf, leaf), config))

    assert site("lapack_sgeev_ffi", (3, 3)) is None
    assert site("lapack_spotrf_ffi", (3, 0), uplo=76) is None
    assert site("lapack_spotrf_ffi", (3, 3), uplo=90) is None
    assert site("else", (3, 3)) is None
