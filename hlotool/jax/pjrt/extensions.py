"""Extensions of the table: for calls that pass data to programs, which hlotool passes itself; layouts; shardings.

Arrays lie row by row, those that programs take and give too, unless JAX asks for another order.  Who is told so need
not look into programs for it.
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
def _layout(order: Order) -> int:
    """The layout of arrays whose dimensions lie in this order: the address and size of its text."""
    return _pinned.words(_pinned.text(f"{{{','.join(map(str, reversed(order)))}}}"))


def _serialize(arguments: Structure) -> None:
    text, size = (_words(arguments.layout)[number] for number in range(2))
    arguments.serialized_bytes, arguments.serialized_bytes_size = text, size
    arguments.serialized_layout, arguments.serialized_layout_deleter = text, pointer("Event_Error")  # it stays


def _words(address: int) -> list[int]:
    return [*(ctypes.c_uint64 * 2).from_address(address)]


def _default(arguments: Structure) -> None:
    arguments.layout = _layout(tuple(range(arguments.num_dims)))


def _of_buffer(arguments: Structure) -> None:
    buffer = Buffer(arguments.buffer)
    arguments.layout = _layout(buffer.order or tuple(range(buffer.word(1))))


def _of_outputs(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    arguments.num_outputs = len(loaded.made.outputs)
    arguments.layouts = _layouts(loaded, "outputs", loaded.made.outputs, loaded.places.outputs)


def _of_parameters(arguments: Structure) -> None:
    loaded = loaded_at(arguments.executable)
    arguments.num_parameters = len(loaded.made.parameters)
    arguments.layouts = _layouts(loaded, "parameters", loaded.made.parameters, loaded.places.parameters)


def _layouts(loaded: Loaded, what: str, shapes: Sequence[Shape], orders: Sequence[Order | None]) -> int:
    def make() -> tuple[int, ...]:
        usual = [tuple(range(shape.rank)) for shape in shapes]
        found = [_layout(order or rows) for order, rows in zip(orders or usual, usual, strict=True)]
        return (loaded.pinned.words(found),)

    return loaded.once(f"layouts of {what}", make)[0]


def _parameter_shardings(arguments: Structure) -> None:
    made = loaded_at(arguments.executable).made
    arguments.num_parameters = len(made.parameters)
    _shardings(arguments, "parameters", made.parameters, made.stock.parameter_shardings if made.stock else None)


def _output_shardings(arguments: Structure) -> None:
    made = loaded_at(arguments.executable).made
    arguments.num_outputs = len(made.outputs)
    _shardings(arguments, "outputs", made.outputs, made.stock.output_shardings if made.stock else None)


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
