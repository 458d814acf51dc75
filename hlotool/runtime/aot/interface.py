"""What a library takes and gives: the description that its code, header, wrappers and manifest are written from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hlotool.codegen.plan.steps import HostCall
from hlotool.codegen.program import Program
from hlotool.ir import Instruction, Module, Shape, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.aot.identifiers import Names

__all__ = ["ALIGNMENT", "Array", "Call", "Entry", "Interface", "Source", "interface_of", "symbol_of"]

ALIGNMENT = 64
"""Of the workspace and of weights; arrays may lie anywhere."""

_ENDINGS = ("", "_SIZE", "_BYTES", "_DIMENSIONS")
"""Of constants for an array, in C."""

_FRAME_WORDS = 7
"""Of a call's frame, besides the addresses of arrays: arena, constants, status, when it was asked, context, error, and
where the state of random numbers is, which may come behind."""

@dataclass(frozen=True, slots=True)
class Source:
    """Where an entry comes from: the file as the user named it, the hash of its bytes, and its module."""

    file: str
    sha256: str
    module: Module


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """An argument or result: dense and row-major, whatever the layout in the module.

    `name` is HLO's, with the place in a tuple; `alias` is the number of the argument whose memory a result takes, or of
    the result that an argument becomes, or -1.  An argument that is `overwritten` holds something else after the call.
    """

    name: str
    identifier: str
    shape: Shape
    alias: int = -1
    overwritten: bool = False

    @property
    def bytes(self) -> int:
        return self.shape.byte_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A function of the library; `arena_bytes` are those of its program for each processor."""

    name: str
    source: Source
    arguments: tuple[Array, ...]
    results: tuple[Array, ...]
    arena_bytes: tuple[int, ...]
    random_words: int = 0

    @property
    def workspace_bytes(self) -> int:
        """With the frame of a call behind the arena."""
        frame = 8 * (len(self.arguments) + len(self.results) + _FRAME_WORDS + self.random_words)
        return -(-(max(self.arena_bytes) + frame) // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A place where the code calls a function of its context: `target` is that of a custom call, or an opcode."""

    symbol: str
    name: str
    target: str
    text: str
    operands: tuple[Array, ...]
    results: tuple[Array, ...]
    function: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A library: its functions begin with `name`; `functions` are what its context has to offer."""

    name: str
    entries: tuple[Entry, ...]
    calls: tuple[Call, ...]
    functions: tuple[str, ...]


def interface_of(
    name: str, sources: Mapping[str, Source], programs: Sequence[Sequence[Program]], texts: Mapping[Instruction, str]
) -> Interface:
    """The interface of the entries in `sources`, by name, whose `programs` these are, for one processor after another.

    `texts` are those of the instructions that call functions of the context.
    """
    entries = [
        _entry(entry, source, [row[number] for row in programs])
        for number, (entry, source) in enumerate(sources.items())
    ]
    sites = [(level, call) for level, row in enumerate(programs) for program in row for call in program.host_calls]
    functions = tuple(dict.fromkeys(_target(site.instruction) for _, site in sites))
    calls = [
        _call(symbol_of(site, level), site.instruction, functions.index(_target(site.instruction)), texts)
        for level, site in sites
    ]
    return Interface(name=name, entries=tuple(entries), calls=tuple(calls), functions=functions)


def _entry(name: str, source: Source, programs: Sequence[Program]) -> Entry:
    first, entry = programs[0], source.module.entry
    names = Names(_ENDINGS)
    if any(p.assignment.aliases != first.assignment.aliases for p in programs):
        raise UnsupportedError(
            f"{source.module.name}: which results overwrite arguments differs between the processors: build a library "
            "for each, or donate nothing"
        )
    becomes = {argument: result for result, argument in first.assignment.aliases.items()}
    overwritten = {number for program in programs for number in program.assignment.overwritten} | set(becomes)
    given = [row for parameter in entry.parameters for row in _leaves(parameter.name, parameter.shape)]
    results = list(_results(entry.root))
    arguments = [
        Array(
            name=label, identifier=names(label), shape=shape, alias=becomes.get(number, -1),
            overwritten=number in overwritten,
        )
        for number, ((label, _), shape) in enumerate(zip(_sized(given), first.parameters, strict=True))
    ]  # fmt: skip
    outputs = [
        Array(
            name=label, identifier=names(f"out_{label}"), shape=shape, alias=first.assignment.aliases.get(number, -1)
        )
        for number, ((label, _), shape) in enumerate(zip(_sized(results), first.outputs, strict=True))
    ]
    return Entry(
        name=name, source=source, arguments=tuple(arguments), results=tuple(outputs),
        arena_bytes=tuple(program.assignment.arena_bytes for program in programs),
    )  # fmt: skip


def _leaves(name: str, shape: Shape) -> Iterator[tuple[str, Shape]]:
    """The arrays of a value, with names: ``state.0.1``."""
    if shape.is_tuple:
        for number, element in enumerate(shape.elements):
            yield from _leaves(f"{name}.{number}", element)
    elif shape.is_array:
        yield name, shape


def _results(root: Instruction) -> Iterator[tuple[str, Shape]]:
    """The arrays of a result, each with the name of what gives it."""
    if root.opcode == "tuple":
        for operand in root.operands:
            yield from _results(operand)
    else:
        yield from _leaves(root.name, root.shape)


def _sized(rows: Sequence[tuple[str, Shape]]) -> Iterator[tuple[str, Shape]]:
    """With the sizes that come behind an array whose dimensions are bounds."""
    for name, shape in rows:
        yield name, shape
        if not shape.is_static:
            yield from ((f"{name}.size{number}", shape) for number in range(shape.rank))


def _target(instruction: Instruction) -> str:
    target = instruction.attributes.get("custom_call_target")
    return instruction.opcode if target is None else str(target)


def symbol_of(site: HostCall, level: int) -> str:
    """The name of a site in the code for the processor with this number."""
    return f"{site.symbol}.{level}"


def _call(symbol: str, instruction: Instruction, function: int, texts: Mapping[Instruction, str]) -> Call:
    operands = [row for operand in instruction.operands for row in _leaves(operand.name, operand.shape)]
    results = list(_leaves(instruction.name, instruction.shape))

    def arrays(rows: Sequence[tuple[str, Shape]]) -> tuple[Array, ...]:
        names = Names()
        return tuple(Array(name=name, identifier=names(name), shape=shape) for name, shape in rows)

    return Call(
        symbol=symbol, name=instruction.name, target=_target(instruction), text=texts[instruction],
        operands=arrays(operands), results=arrays(results), function=function,
    )  # fmt: skip
