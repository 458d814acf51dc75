"""Extensions of the table: for calls that pass data to programs, which hlotool passes itself; layouts; shardings.

Arrays lie row by row, those that programs take and give too, unless a program asks for another order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache

from hlotool.ir import Shape
from hlotool.jax.pjrt.client import Pinned
from hlotool.jax.pjrt.executables import Loaded, loaded_at
from hlotool.jax.pjrt.interface import Structure
from hlotool.jax.pjrt.lowering import Order
from hlotool.jax.pjrt.native import Buffer, pointer
from hlotool.jax.pjrt.table import Function, callback

__all__ = ["extensions"]

_LAYOUTS, _FFI, _SHARDINGS = 4, 5, 19
_HEAD = 24
"""Bytes of an extension before its functions."""

_pinned = Pinned()


@cache
def _layout(rank: int, order: Order | None = None) -> int:
    """The layout of arrays with `rank` dimensions, row by row or in another order: where address and size of its text
    are."""
    numbers = ",".join(map(str, reversed(range(rank)) if order is None else order))
    return _pinned.words(_pinned.text(f"{{{numbers}}}"))


def _serialize(arguments: Structure) -> None:
    text, size = (_words(arguments.layout)[number] for number in range(2))
    arguments.serialized_bytes, arguments.serialized_bytes_size = text, size
    arguments.serialized_layout, arguments.serialized_layout_deleter = text, pointer("Event_Error")  # it stays


def _words(address: int) -> list[int]:
    return [*(ctypes.c_uint64 * 2).from_address(address)]


def _default(arguments: Structure) -> None:
    arguments.layout = _layout(arguments.num_dims)


def _of_buffer(arguments: Structure) -> None:
    buffer = Buffer(arguments.buffer)
    arguments.layout = _layout(len(buffer.dimensions), buffer.order)


def _of_outputs(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    arguments.num_outputs = len(loaded.made.outputs)
    arguments.layouts = _layouts(loaded, "outputs", loaded.made.outputs, loaded.orders[1])


def _of_parameters(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    arguments.num_parameters = len(loaded.made.parameters)
    arguments.layouts = _layouts(loaded, "parameters", loaded.made.parameters, loaded.orders[0])


def _layouts(loaded: Loaded, what: str, shapes: Sequence[Shape], orders: Sequence[Order | None]) -> int:
    def make() -> tuple[int, ...]:
        given = orders or [None] * len(shapes)
        return (loaded.pinned.words([_layout(shape.rank, order) for shape, order in zip(shapes, given, strict=True)]),)

    return loaded.once(f"layouts of {what}", make)[0]


def _parameter_shardings(arguments: Structure) -> None:
    made = loaded_at(arguments.executable).made
    arguments.num_parameters = len(made.parameters)
    _shardings(arguments, "parameters", made.parameters, made.runner.parameter_shardings if made.runner else None)


def _output_shardings(arguments: Structure) -> None:
    made = loaded_at(arguments.executable).made
    arguments.num_outputs = len(made.outputs)
    _shardings(arguments, "outputs", made.outputs, made.runner.output_shardings if made.runner else None)


def _shardings(
    arguments: Structure, what: str, arrays: Sequence[Shape], find: Callable[[], Sequence[bytes] | None] | None
) -> None:
    """Tell the shardings of `arrays`, twice null where there are none."""
    loaded = loaded_at(arguments.executable)

    def make() -> tuple[int, ...]:
        texts = find() if find and arrays else None  # jaxlib has one for no arrays, too, which JAX refuses
        if texts is None:
            return 0, 0
        places = [loaded.pinned.text(text) for text in texts]
        return loaded.pinned.words([at for at, _ in places]), loaded.pinned.words([size for _, size in places])

    arguments.shardings, arguments.sharding_sizes = loaded.once(f"shardings of {what}", make)


@cache
def extensions() -> int:
    """The address of the list of extensions."""
    nothing = pointer("Event_Error")  # a function that says that all is well
    following = 0
    for number, functions in (
        (_SHARDINGS, _entries({"Parameters": _parameter_shardings, "Outputs": _output_shardings}, "Shardings")),
        (_FFI, [nothing] * 3),
        (_LAYOUTS, [nothing, *_entries(_OF_LAYOUTS, "Layouts")]),
    ):
        following = _pinned.words([_HEAD + 8 * len(functions), number, following, *functions])
    return following


_OF_LAYOUTS: dict[str, Function] = {  # in their order, behind the one that ends a layout
    "Serialize": _serialize,
    "Client": _default,
    "Buffer": _of_buffer,
    "Topology": _default,
    "Outputs": _of_outputs,
    "Parameters": _of_parameters,
}


def _entries(functions: dict[str, Function], extension: str) -> list[int]:
    return [callback(f"struct {extension}_{name}", function) for name, function in functions.items()]
