"""The rules of derivatives: every opcode that has some, against central differences in f64."""

from __future__ import annotations

import numpy as np
import pytest
from derivative_cases import BASIC, CASES, HALVE, REDUCERS
from derivatives import check, inputs, module_of, noise, run

from hlotool.ir import UnsupportedError, dtype_of
from hlotool.ir.elementwise import ELEMENTWISE_OPCODES
from hlotool.ir.opcodes import SPELLED, UNKNOWN
from hlotool.passes.autodiff import gradient_module, jvp_module, vjp_module
from hlotool.passes.autodiff.elementwise import BINARY, UNARY
from hlotool.passes.autodiff.table import REFUSED, REWRITTEN, RULES, ZERO

DOMAINS = {
    "log": (0.2, 3), "log-plus-one": (-0.5, 3), "sqrt": (0.2, 3), "rsqrt": (0.2, 3), "cbrt": (0.3, 3),
    "asin": (-0.8, 0.8), "acos": (-0.8, 0.8), "acosh": (1.2, 3), "atanh": (-0.8, 0.8), "tan": (-1, 1),
}  # fmt: skip
SHAPES = [(), (3,), (2, 3), (0, 4), (1, 1, 2)]


def values(shape: tuple[int, ...], low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape)


def text(shape: tuple[int, ...], element_type: str = "f64") -> str:
    return f"{element_type}[{','.join(map(str, shape))}]"


def test_every_opcode_is_accounted_for() -> None:
    """Each is differentiated, is constant, is rewritten first, or is refused with a reason."""
    for opcode in [*SPELLED, UNKNOWN]:
        rewritten = opcode in REWRITTEN
        assert rewritten == (opcode in REFUSED and opcode in REWRITTEN)
        assert (opcode in RULES) + (opcode in ZERO) + (opcode in REFUSED) == 1, opcode
    assert set(RULES) | ZERO | set(REFUSED) <= set(SPELLED) | {UNKNOWN}
    assert all(REFUSED.values())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("opcode", UNARY)
def test_unary(opcode: str, shape: tuple[int, ...]) -> None:
    t = text(shape)
    check(module_of(f"x = {t} parameter(0)\nROOT y = {t} {opcode}(x)"), [values(shape, *DOMAINS.get(opcode, (-2, 2)))])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("opcode", BINARY)
def test_binary(opcode: str, shape: tuple[int, ...]) -> None:
    t = text(shape)
    low = 0.3 if opcode in ("power", "divide") else -2.0
    module = module_of(f"x = {t} parameter(0)\ny = {t} parameter(1)\nROOT z = {t} {opcode}(x, y)")
    check(module, [values(shape, low), values(shape, 0.3, seed=1)])


COMPLEX = [name for name in [*UNARY, "sign"] if "complex" in ELEMENTWISE_OPCODES[name].kinds]
COMPLEX_PAIRS = [name for name in BINARY if "complex" in ELEMENTWISE_OPCODES[name].kinds]


@pytest.mark.parametrize("opcode", COMPLEX)
def test_unary_of_complex_numbers(opcode: str) -> None:
    z = values((3,), 0.3, 0.9) + 1j * values((3,), 0.2, 0.9, seed=1)
    result = "f64" if ELEMENTWISE_OPCODES[opcode].result == "part" else "c128"
    check(module_of(f"x = c128[3] parameter(0)\nROOT y = {result}[3] {opcode}(x)"), [z])


@pytest.mark.parametrize("opcode", COMPLEX_PAIRS)
def test_binary_of_complex_numbers(opcode: str) -> None:
    z = values((3,), 0.3, 0.9) + 1j * values((3,), 0.2, 0.9, seed=1)
    body = f"x = c128[3] parameter(0)\ny = c128[3] parameter(1)\nROOT z = c128[3] {opcode}(x, y)"
    check(module_of(body), [z, z[::-1].copy()])


@pytest.mark.parametrize("name", CASES)
def test_opcode(name: str) -> None:
    module = module_of(CASES[name][0], REDUCERS)
    check(module, inputs(module))


SECOND = [
    name for name in BASIC
    if name not in ("reduce-window by product",) and not name.startswith(("triangular-solve", "scatter by m"))
]  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
def test_derivative_of_the_gradient(name: str) -> None:
    """The gradient modules are programs, too: what they compute is differentiated once more, in both modes."""
    body, shapes = CASES[name]
    module = module_of(body, REDUCERS)
    arrays = inputs(module)
    rng = np.random.default_rng(5)
    cotangents = [noise(rng, one) for one in run(module, arrays)]
    check(vjp_module(module, range(len(shapes))), [*arrays, *cotangents], range(len(shapes)), bound=1e-5)


@pytest.mark.parametrize("opcode", [*UNARY, *BINARY])
def test_second_derivative(opcode: str) -> None:
    names = ["x"] if opcode in UNARY else ["x", "y"]
    given = "\n".join(f"{name} = f64[3] parameter({number})" for number, name in enumerate(names))
    module = module_of(f"{given}\nROOT z = f64[3] {opcode}({', '.join(names)})")
    low, high = DOMAINS.get(opcode, (0.3, 2.0))
    arrays = [values((3,), max(low, 0.1), high, seed=n) for n in range(len(names))]
    wrt = range(len(names))
    check(vjp_module(module, wrt), [*arrays, values((3,), seed=9)], [*wrt, len(names)], bound=1e-5)


def test_a_loop_without_a_bound_runs_forwards_only() -> None:
    module = module_of(HALVE, REDUCERS)
    (_, slope) = run(jvp_module(module, (0, 1)), [np.array(number) for number in (8.0, 0.4, 1.0, 0.5)])
    ahead, behind = (run(module, [np.array(8.0 + h), np.array(0.4 + 0.5 * h)])[0] for h in (1e-6, -1e-6))
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-6, rtol=1e-6)
    with pytest.raises(UnsupportedError, match=r"no derivative of while l: how often"):
        gradient_module(module, (0,))


def test_powers_of_zero() -> None:
    """x^0 is 1 everywhere, and 0^y is 0 for all positive y."""
    module = module_of("x = f64[4] parameter(0)\ny = f64[4] parameter(1)\nROOT z = f64[4] power(x, y)")
    by_x, by_y = run(vjp_module(module, (0, 1)), [np.zeros(4), np.array([0.0, 1.0, 2.0, 3.0]), np.ones(4)])
    np.testing.assert_array_equal(by_x, [0, 1, 0, 0])
    np.testing.assert_array_equal(by_y, [0, 0, 0, 0])


@pytest.mark.parametrize("element_type", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("opcode", [*UNARY, *BINARY])
def test_narrower_types(opcode: str, element_type: str) -> None:
    """Gradients in other types are those of f64 but for rounding."""
    names = ["x"] if opcode in UNARY else ["x", "y"]
    low, high = DOMAINS.get(opcode, (0.5, 2.0))
    found = []
    for name in ("f64", element_type):
        given = "\n".join(f"{one} = {name}[8] parameter({number})" for number, one in enumerate(names))
        module = module_of(f"{given}\nROOT z = {name}[8] {opcode}({', '.join(names)})")
        dtype = dtype_of(name)
        narrow = dtype_of(element_type)
        arrays = [values((8,), max(low, 0.2), high, seed=n).astype(narrow).astype(dtype) for n in range(len(names))]
        found.append(run(vjp_module(module, range(len(names))), [*arrays, np.ones(8, dtype)]))
    bound = {"f32": 1e-5, "bf16": 0.1, "f16": 0.02}[element_type]
    for wide, narrow in zip(*found, strict=True):
        assert narrow.dtype == dtype_of(element_type)
        np.testing.assert_allclose(narrow.astype(np.float64), wide, rtol=bound, atol=bound)
