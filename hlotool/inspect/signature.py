"""What goes into a module and what comes out: one port per array, tuples flattened depth first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from hlotool.analysis.donation import buffer_donors
from hlotool.analysis.traffic import shape_bytes
from hlotool.ir import Instruction, Module, Shape
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import print_shape

__all__ = ["Port", "Signature", "signature"]


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output array.

    `number` is its place among all inputs or outputs (``arg0``, ``out0``); `index` its path inside the tuple of the
    parameter or of the result.  `layout` is minor to major.  `alias` says with what it shares its memory.
    """

    number: int
    name: str
    parameter: int | None
    index: tuple[int, ...]
    shape: str
    element_type: str
    dimensions: tuple[int, ...]
    layout: tuple[int, ...] | None
    bytes: int | None
    donated: bool = False
    alias: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs by parameter number, and the outputs."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def signature(module: Module) -> Signature:
    """The signature of the entry computation; the layouts of ``entry_computation_layout`` win."""
    entry = module.entry
    layouts = module.attributes.get("entry_computation_layout")
    given = [p.shape for p in entry.parameters] if layouts is None else layouts[0]
    result = entry.root.shape if layouts is None else layouts[1]
    into = {(a.operand, a.index): _braces("output", a.output) for a in module.attributes.get("input_output_alias", ())}
    outof = {
        a.output: f"parameter {a.operand}{_path(a.index)}" for a in module.attributes.get("input_output_alias", ())
    }
    donors = buffer_donors(module)
    inputs: list[Port] = []
    for number, (parameter, shape) in enumerate(zip(entry.parameters, given, strict=False)):
        for index, leaf in _leaves(shape):
            alias = into.get((number, index))
            donated = alias is not None or (number, index) in donors
            inputs.append(_port(len(inputs), parameter, number, index, leaf, donated, alias))
    outputs: list[Port] = []
    for index, leaf in _leaves(result):
        outputs.append(_port(len(outputs), _producer(entry.root, index), None, index, leaf, False, outof.get(index)))
    return Signature(tuple(inputs), tuple(outputs))


def _port(
    number: int,
    instruction: Instruction,
    parameter: int | None,
    index: tuple[int, ...],
    shape: Shape,
    donated: bool,
    alias: str | None,
) -> Port:
    layout = shape.layout.minor_to_major if shape.layout is not None else None
    text, size = print_shape(shape, index_comments=False), shape_bytes(shape)
    return Port(
        number, instruction.name, parameter, index, text, shape.element_type, shape.dimensions, layout, size, donated,
        alias,
    )  # fmt: skip


def _leaves(shape: Shape, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Shape]]:
    if shape.is_tuple:
        for number, element in enumerate(shape.elements):
            yield from _leaves(element, (*index, number))
    else:
        yield index, shape


def _producer(root: Instruction, index: tuple[int, ...]) -> Instruction:
    """The instruction that gives this leaf, looked up through tuples."""
    for number in index:
        if root.opcode != "tuple":
            return root
        root = root.operands[number]
    return root


def _path(index: tuple[int, ...]) -> str:
    return _braces("", index) if index else ""


def _braces(word: str, index: tuple[int, ...]) -> str:
    return f"{word}{' ' if word else ''}{{{','.join(map(str, index))}}}"
