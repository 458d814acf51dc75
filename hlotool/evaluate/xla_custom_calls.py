"""Calls of GPU libraries as HLO: what cuBLAS, cuDNN and cuSOLVER compute in a module that XLA optimised for a GPU.

Everything follows from the text: operands, shapes, and the fields of the backend config as XLA's
``backend_configs.proto`` names them.  The workspace among the results is zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hlotool.evaluate import own_derivatives
from hlotool.evaluate.backend_config import parse_backend_config
from hlotool.evaluate.xla_custom_calls_cudnn import CONVOLUTIONS
from hlotool.evaluate.xla_custom_calls_math import activation, broadcast_along, computing_type, scaled
from hlotool.ir import Computation, HloError, Instruction, UnsupportedError
from hlotool.ir.builder import Builder, binary_computation

__all__ = ["LIBRARY_CALLS", "library_computation"]


def library_computation(call: Instruction) -> Computation | None:
    """A computation from the operands of a custom call to its result; None where the target is no GPU library, and no
    function with a derivative of its own.

    UnsupportedError, naming instruction and target, for what these libraries do and HLO does not say.
    """
    target = call.attributes["custom_call_target"]
    if target in own_derivatives.TARGETS:
        function: Computation = call.called[0]
        return function
    rule = LIBRARY_CALLS.get(target)
    if rule is None:
        return None
    computation = Computation(f"library_{call.name}")
    build = Builder(computation)
    operands = [build.parameter(n, o.shape) for n, o in enumerate(call.operands)]
    try:
        found = list(rule(build, call, operands, _config(call)))
        results = list(call.shape.elements) if call.shape.is_tuple else [call.shape]
        if len(found) > len(results):
            raise UnsupportedError(f"{len(found)} results, {call.shape} declared")
        for value, shape in zip(found, results, strict=False):
            if not value.shape.compatible(shape):
                raise UnsupportedError(f"a result is {value.shape}, {shape} declared")
        found += [build.splat(0, shape) for shape in results[len(found) :]]
    except (HloError, LookupError, TypeError, ValueError) as error:
        reason = error.message if isinstance(error, HloError) else f"its form is unknown ({error})"
        raise UnsupportedError(f"{call.name}: custom call {target!r}: {reason}") from error
    computation.root = build.tuple(found) if call.shape.is_tuple else found[0]
    return computation


def _config(call: Instruction) -> Mapping[str, Any]:
    config = parse_backend_config(call.attributes.get("backend_config", ""))
    return config if not isinstance(config, str) else {}


# ---- cuBLAS


def _integers(config: Mapping[str, Any], name: str) -> tuple[int, ...]:
    return tuple(int(value) for value in config.get(name, ()))


def _matmul(
    build: Builder, call: Instruction, operands: Sequence[Instruction], config: Mapping[str, Any]
) -> Sequence[Instruction]:
    """``epilogue(alpha * dot(a, b) + beta * c + bias)``, computed in f32 or wider.

    Operands: a, b, then c where beta is not 0, the two scales of 8-bit floats, the bias vector of the last dimension.
    An epilogue ``..._AUX`` also gives the value before its function.
    """
    config = config.get("gemm_backend_config", config)
    numbers = config["dot_dimension_numbers"]
    result = call.shape.elements[0] if call.shape.is_tuple else call.shape
    kind = computing_type(result.element_type)
    a, b, *rest = operands
    contracting = [_integers(numbers, f"{side}_contracting_dimensions") for side in ("lhs", "rhs")]
    batch = [_integers(numbers, f"{side}_batch_dimensions") for side in ("lhs", "rhs")]
    value = build.dot(a, b, contracting, batch, kind)
    beta = float(config.get("beta", 0))
    c = rest.pop(0) if beta else None
    if call.attributes["custom_call_target"].endswith("$f8"):
        for scale in (rest.pop(0), rest.pop(0)):
            value = build.binary("multiply", value, build.broadcast(build.convert(scale, kind), (), value.shape))
    value = scaled(build, value, complex(config.get("alpha_real", 1), config.get("alpha_imag", 0)))
    if c is not None:
        value = build.binary("add", value, scaled(build, build.convert(c, kind), beta))
    epilogue = str(config.get("epilogue", "DEFAULT"))
    words = [] if epilogue == "DEFAULT" else epilogue.split("_")
    if "BIAS" in words:
        value = build.binary("add", value, broadcast_along(build, build.convert(rest.pop(0), kind), value.shape, -1))
        words.remove("BIAS")
    if rest:
        raise UnsupportedError(f"{len(operands)} operands, {len(operands) - len(rest)} have a known meaning")
    before = value
    auxiliary = "AUX" in words
    if auxiliary:
        words.remove("AUX")
    for word in words:
        value = activation(build, value, word)
    found = [value, before] if auxiliary else [value]
    return [build.convert(one, result.element_type) for one in found]


def _triangular_solve(
    build: Builder, call: Instruction, operands: Sequence[Instruction], config: Mapping[str, Any]
) -> Sequence[Instruction]:
    names = ("left_side", "lower", "unit_diagonal", "transpose_a")
    attributes = {name: config[name] for name in names if name in config}
    return [build.add("triangular-solve", None, operands[:2], attributes)]


# ---- cuSOLVER


def _cholesky(
    build: Builder, call: Instruction, operands: Sequence[Instruction], config: Mapping[str, Any]
) -> Sequence[Instruction]:
    """(the factor, workspace, for each matrix a number that is not 0 where it is not positive definite)."""
    factor = build.add("cholesky", None, operands[:1], {"lower": bool(config.get("lower", False))})
    shapes = call.shape.elements
    if len(shapes) < 3:
        return [factor]
    broken = build.convert(build.compare(factor, factor, "NE"), shapes[2].element_type)
    zero = build.scalar_constant(0, shapes[2].element_type)
    rank = factor.shape.rank
    largest = binary_computation("maximum", shapes[2].element_type, f"{call.name}_maximum")
    info = build.reduce(broken, zero, (rank - 2, rank - 1), largest)
    if info.shape.dimensions != shapes[2].dimensions:
        info = build.reshape(info, shapes[2].dimensions)
    return [factor, build.splat(0, shapes[1]), info]


_Rule = Callable[[Builder, Instruction, Sequence[Instruction], Mapping[str, Any]], Sequence[Instruction]]

LIBRARY_CALLS: dict[str, _Rule] = {
    "__cublas$gemm": _matmul,
    "__cublas$lt$matmul": _matmul,
    "__cublas$lt$matmul$f8": _matmul,
    "__cublas$triangularSolve": _triangular_solve,
    "__cusolver$cholesky": _cholesky,
    **CONVOLUTIONS,
}
"""Target -> what builds its results."""
