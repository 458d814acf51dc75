"""Custom calls that XLA and JAX emit for themselves, and whose meaning is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlotool.evaluate.check_calls import CHECK_CALLS
from hlotool.evaluate.custom_call import Array, CustomCall, Handler
from hlotool.evaluate.sort import top_positions
from hlotool.evaluate.xla_annotations import IDENTITY_TARGETS, SINK_TARGETS
from hlotool.evaluate.xla_linalg import eigh, householder_product, qr
from hlotool.ir import ExecutionError, UnsupportedError

__all__ = ["XLA_CALLS", "check_form"]


def check_form(call: CustomCall) -> None:
    """UnsupportedError where one of XLA's own calls has other operands and results than XLA gives it."""
    form = _FORMS.get(call.target)
    if form is None:
        return
    operands, outputs = form
    given = len(call.operands), len(call.outputs)
    if operands not in (None, given[0]) or outputs not in (None, given[1]):
        raise UnsupportedError(
            f"{call.name}: custom call {call.target!r} takes {_counted(operands, 'array')} and gives "
            f"{_counted(outputs, 'array')}; this one takes {given[0]} and gives {given[1]}"
        )
    if call.target == "TopK":
        (_, source), (_, values), (_, positions) = *call.operands, *call.outputs
        if not source or values != positions or source[:-1] != values[:-1] or values[-1] > source[-1]:
            raise UnsupportedError(
                f"{call.name}: custom call 'TopK' gives values and positions of some elements of each row, not "
                f"{list(values)} and {list(positions)} of {list(source)}"
            )
    elif call.target.startswith("X64") and any(shape != call.outputs[0][1] for _, shape in call.operands):
        raise UnsupportedError(f"{call.name}: custom call {call.target!r} gives as many elements as it takes")


def _counted(count: int | None, what: str) -> str:
    return f"any {what}s" if count is None else f"{count} {what}{'s' * (count != 1)}"


def _identity(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    if call.operands != call.outputs:
        raise UnsupportedError("it changes the shape: a module must be partitioned before it is run")
    return inputs


def _nothing(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    return []


def _allocate_buffer(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    """Memory for what follows: zeros."""
    return [np.zeros(shape, dtype) for dtype, shape in call.outputs]


def _top_k(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    """(values, positions) of the k largest or smallest of each row, as many as the result is long.

    Which of them, ``largest`` in the config says, or the comparator: whether it puts 1 before 0 (2 before 1 in
    f8e8m0fnu, which has no zero).
    """
    (array,) = inputs
    (_, shape), (position, _) = call.outputs
    config = call.backend_config
    largest = True if isinstance(config, str) else bool(config.get("largest", True))
    if call.computations:
        kind = array.dtype.type
        low, high = (kind(0), kind(1)) if kind(0) == 0 else (kind(1), kind(2))
        zero = np.zeros((), position)
        (before,) = call.computations[0](np.array(high), np.array(low), zero, zero)
        largest = bool(before)
    order = top_positions(array, shape[-1], largest)
    return np.take_along_axis(array, order, axis=-1), order.astype(position)


def _combine(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
    """64-bit integers from their low and high halves."""
    ((dtype, _),) = call.outputs
    low, high = (part.astype(np.uint32).astype(np.uint64) for part in inputs)
    return [(low | (high << np.uint64(32))).astype(dtype)]


def _split(shift: int) -> Handler:
    def handler(inputs: tuple[Array, ...], call: CustomCall) -> Sequence[Array]:
        """A half of each 64-bit integer."""
        ((dtype, _),) = call.outputs
        if inputs[0].dtype.kind not in "iu":
            raise ExecutionError(f"it splits 64-bit integers, not {inputs[0].dtype}")
        return [(inputs[0].astype(np.uint64) >> np.uint64(shift)).astype(np.uint32).astype(dtype)]

    return handler


XLA_CALLS: dict[str, Handler] = {
    **dict.fromkeys(sorted(IDENTITY_TARGETS), _identity),
    **dict.fromkeys(sorted(SINK_TARGETS), _nothing),
    **CHECK_CALLS,
    "AllocateBuffer": _allocate_buffer,
    "Eigh": eigh,
    "ProductOfElementaryHouseholderReflectors": householder_product,
    "Qr": qr,
    "TopK": _top_k,
    "X64Combine": _combine,
    "X64SplitLow": _split(0),
    "X64SplitHigh": _split(32),
}
"""Target -> handler."""

_FORMS: dict[str, tuple[int | None, int | None]] = {
    "AllocateBuffer": (0, None),
    "Eigh": (1, 2),
    "ProductOfElementaryHouseholderReflectors": (2, 1),
    "Qr": (1, 2),
    "TopK": (1, 2),
    "X64Combine": (2, 1),
    "X64SplitLow": (1, 1),
    "X64SplitHigh": (1, 1),
}
"""Target -> how many arrays it takes and gives (None: any)."""
