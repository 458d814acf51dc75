"""Whether derivatives of modules are right: against differences, and both modes against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import hlotool
from hlotool.ir import ELEMENT_TYPES, Module, dtype_of
from hlotool.passes.autodiff import jvp_module, vjp_module

ADD = "add {\n  a = f64[] parameter(0)\n  b = f64[] parameter(1)\n  ROOT s = f64[] add(a, b)\n}\n"


def module_of(body: str, before: str = ADD) -> Module:
    """A module with these lines in its entry; computations go ahead of it."""
    return hlotool.parse(f"HloModule m\n{before}\nENTRY main {{\n{body}\n}}\n")


def floats(module: Module) -> list[int]:
    """The parameters that have derivatives."""
    kinds = [ELEMENT_TYPES[p.shape.element_type].kind for p in module.entry.parameters]
    return [number for number, kind in enumerate(kinds) if kind in ("float", "complex")]


def run(module: Module, arrays: Sequence[Any]) -> list[Any]:
    """The leaves of the result, by the evaluator."""
    hlotool.verify(module)
    result = hlotool.compile(module, backend="evaluate")(*arrays)
    return list(result) if isinstance(result, list | tuple) else [result]


def inputs(module: Module, low: float = -1.0, high: float = 1.0) -> list[Any]:
    """Numbers between `low` and `high` for the parameters, of complex ones for both parts."""
    found = []
    for number, parameter in enumerate(module.entry.parameters):
        shape = parameter.shape
        array = np.random.default_rng(number + 3).uniform(low, high, shape.dimensions)
        if ELEMENT_TYPES[shape.element_type].is_complex:
            array = array + 1j * np.random.default_rng(number + 77).uniform(low, high, shape.dimensions)
        found.append(array.astype(dtype_of(shape.element_type)))
    return found


def noise(rng: np.random.Generator, like: Any) -> Any:
    array = np.asarray(like)
    values = rng.standard_normal(array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(array.shape)
    return values.astype(array.dtype)


def check(
    module: Module, arrays: Sequence[Any], wrt: Sequence[int] | None = None, step: float = 1e-6, bound: float = 1e-6
) -> None:
    """Forward mode against central differences in a random direction, reverse mode against forward mode."""
    wrt = floats(module) if wrt is None else wrt
    rng = np.random.default_rng(1)
    arrays = [np.asarray(array) for array in arrays]
    tangents = [noise(rng, arrays[number]) for number in wrt]

    def moved(by: float) -> list[Any]:
        new = list(arrays)
        for number, tangent in zip(wrt, tangents, strict=True):
            new[number] = (arrays[number] + by * tangent).astype(arrays[number].dtype)
        return [np.asarray(one) for one in run(module, new)]

    results = [np.asarray(one) for one in run(module, arrays)]
    moving = [n for n, one in enumerate(results) if one.dtype.kind in "fc" or one.dtype.kind == "V"]
    found = run(jvp_module(module, wrt), [*arrays, *tangents])
    values, slopes = found[: len(results)], found[len(results) :]
    for value, result in zip(values, results, strict=True):
        np.testing.assert_allclose(value, result, rtol=1e-13, atol=1e-15)  # what is expanded first rounds otherwise
    ahead, behind = moved(step), moved(-step)
    for number, slope in zip(moving, slopes, strict=True):
        expected = (ahead[number] - behind[number]) / (2 * step)
        np.testing.assert_allclose(slope, expected, rtol=bound, atol=bound)
    check_transpose(module, arrays, wrt, tangents, [results[n] for n in moving], slopes, bound)


def check_transpose(
    module: Module,
    arrays: Sequence[Any],
    wrt: Sequence[int],
    tangents: Sequence[Any],
    results: Sequence[Any],
    slopes: Sequence[Any],
    bound: float,
) -> None:
    """The product of cotangents and slopes is that of what comes back and tangents; of complex ones the real part."""
    rng = np.random.default_rng(2)
    cotangents = [noise(rng, one) for one in results]
    back = run(vjp_module(module, wrt), [*arrays, *cotangents])
    for one, number in zip(back, wrt, strict=True):
        assert np.shape(one) == arrays[number].shape
        assert np.asarray(one).dtype == arrays[number].dtype
    left = sum(np.sum(c * s).real for c, s in zip(cotangents, slopes, strict=True))
    right = sum(np.sum(b * t).real for b, t in zip(back, tangents, strict=True))
    size = 1 + sum(np.sum(np.abs(c * s)) for c, s in zip(cotangents, slopes, strict=True))
    assert abs(left - right) <= bound * size, (left, right)
