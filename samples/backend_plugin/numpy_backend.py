"""The backend ``numpy``: dot and convolution by NumPy, with the BLAS in it, and what is elementwise around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from hlotool.driver import Backend, CompileOptions, by_table, executable_of
from hlotool.ir import Instruction, Module
from hlotool.runtime.executable import Executable


def dot(one: Instruction, a: Any, b: Any) -> Any:
    """Dimensions get numbers, equal ones where they are multiplied together."""
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    batch, contracting, b_batch, b_contracting = (one.attributes.get(name, ()) for name in names)
    left, right = list(range(a.ndim)), list(range(a.ndim, a.ndim + b.ndim))
    for mine, other in zip((*batch, *contracting), (*b_batch, *b_contracting), strict=True):
        right[other] = mine
    rows = [n for n in left if n not in (*batch, *contracting)]
    return np.einsum(a, left, b, right, [*batch, *rows, *(n for n in right if n >= a.ndim)], optimize=True)


def convolution(one: Instruction, x: Any, kernel: Any) -> Any:
    at, window = one.attributes["dim_labels"], one.attributes["window"].dimensions
    x = x.transpose(at.input_batch, at.input_feature, *at.input_spatial)
    kernel = kernel.transpose(at.kernel_output_feature, at.kernel_input_feature, *at.kernel_spatial)
    x = np.pad(x, [(0, 0), (0, 0), *((one.padding_low, one.padding_high) for one in window)])
    places = sliding_window_view(x, kernel.shape[2:], axis=tuple(range(2, x.ndim)))
    places = places[(slice(None), slice(None), *(slice(None, None, one.stride) for one in window))]
    terms = range(x.ndim, 2 * x.ndim - 2)
    found = np.tensordot(places, kernel, ((1, *terms), (1, *range(2, x.ndim))))  # batch, places, features
    return np.moveaxis(found, range(x.ndim), (at.output_batch, *at.output_spatial, at.output_feature))


UFUNCS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "tanh": np.tanh}
RULES: dict[str, Callable[..., Any]] = {
    "dot": dot, "convolution": convolution,
    **{name: lambda one, *given, of=of: of(*given) for name, of in UFUNCS.items()},
}  # fmt: skip
by_types = by_table(dict.fromkeys(RULES, ("f32", "f64")))


def supports(one: Instruction) -> str | None:
    """Why NumPy does not run an instruction; None where it does."""
    if one.opcode == "convolution":
        groups = {one.attributes.get(f"{name}_group_count", 1) for name in ("feature", "batch")}
        holes = any(w.base_dilation > 1 or w.window_dilation > 1 for w in one.attributes["window"].dimensions)
        if groups != {1} or holes or any(w.reversal or w.padding_low < 0 or w.padding_high < 0
                                         for w in one.attributes["window"].dimensions):  # fmt: skip
            return "a convolution with groups, holes, turned windows or negative padding"
    return by_types(one)


def compile_cluster(module: Module, options: CompileOptions) -> Executable:
    """The cluster as a walk over its instructions; whatever arrays come, one for each array of a parameter."""
    body = [one for one in module.entry if one.opcode != "parameter"]

    def run(*arrays: Any) -> list[Any]:
        values: dict[Instruction, Any] = dict(zip(module.entry.parameters, arrays, strict=True))
        for one in body:
            if one.opcode == "constant":
                values[one] = one.literal.value()
            elif one.opcode != "tuple":  # it is the root, with the results
                values[one] = RULES[one.opcode](one, *(values[operand] for operand in one.operands))
        root = module.entry.root
        return [values[one] for one in (root.operands if root.opcode == "tuple" else [root])]

    return executable_of(module, run)


BACKEND = Backend(name="numpy", compile=compile_cluster, supports=supports, fallback="cpu", least_work=3e5)
