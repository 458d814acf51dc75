"""A module for other sizes: what follows from another size of a parameter, or from a parameter with one value.

Nothing is guessed: where the new sizes do not follow from the old ones, the answer is an error that names the
instruction, and what comes out is verified.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import isfinite
from typing import Any

from hlotool.analysis.dimensions import Dimensions
from hlotool.ir import (
    ELEMENT_TYPES,
    UNBOUNDED,
    WRITTEN,
    Diagnostic,
    InputError,
    Instruction,
    Literal,
    Module,
    Shape,
    UnsupportedError,
    VerificationError,
    clone_module,
    literal,
)
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass

__all__ = ["BATCH", "Specialised", "bind", "specialise"]

BATCH = "batch"
"""What the dimensions of parameters without a fixed size are called together."""

_LAYOUT = "entry_computation_layout"
_BY_NUMBER = ("input_output_alias", "buffer_donor", "allow_spmd_sharding_propagation_to_parameters")


@dataclass(frozen=True, slots=True)
class Specialised:
    """The new module; `notes` are about constants that may depend on an old size and were kept."""

    module: Module
    notes: tuple[Diagnostic, ...]


def specialise(module: Module, settings: Mapping[str, str]) -> Specialised:
    """A copy of a valid module with other sizes, and with constants in the place of scalar parameters.

    `settings` maps what is set to its new value, as text: ``x.0`` is dimension 0 of parameter x, ``p2.0`` of parameter
    number 2; ``32`` is every dimension of a parameter with 32 elements; ``batch`` every dimension of a parameter
    without a fixed size (``?``, ``<=32``); a parameter by name (``x``) or number (``p2``) is a scalar that becomes a
    constant.
    InputError for settings that the module has no place for, UnsupportedError, with diagnostics, where new sizes do not
    follow.  The time grows with the size of the module.
    """
    copy = clone_module(module)
    sizes = {name: text for name, text in settings.items() if _parameter(copy, name) is None}
    notes: list[Diagnostic] = []
    if sizes:
        notes = _resize(copy, sizes)
    for name, text in settings.items():
        parameter = _parameter(module, name)
        if parameter is not None:
            _make_constant(copy, copy.entry.parameters.index(_same(copy, parameter)), name, text)
    try:
        check(copy)
    except VerificationError as error:
        raise UnsupportedError("the new sizes do not fit together", error.diagnostics) from None
    return Specialised(copy, tuple(notes))


def bind(module: Module, values: Mapping[str, Literal]) -> Module:
    """A copy of a valid module in which constants are in the place of parameters: `values` by their names.

    InputError for values that no parameter fits; UnsupportedError where the module names parameters by number.
    """
    if not values:
        return module
    copy = clone_module(module)
    for name, value in values.items():
        parameter = next((one for one in copy.entry.parameters if one.name == name), None)
        if parameter is None:
            known = ", ".join(f"{one.name} {one.shape}" for one in copy.entry.parameters[:8])
            raise InputError(f"{name}: no parameter is called so; there are {known}")
        shape = parameter.shape
        if value.shape.without_layout() != shape.without_layout():
            raise InputError(f"{name}: expected {shape}, got {value.shape}")
        _put_constant(copy, parameter, value, name)
    check(copy)
    return copy


def _parameter(module: Module, name: str) -> Instruction | None:
    """The parameter called so, by name or as ``pN``."""
    parameters = module.entry.parameters
    by_name = {one.name: one for one in parameters}
    if name in by_name:
        return by_name[name]
    number = name[1:]
    if name[:1] == "p" and number.isascii() and number.isdecimal() and int(number) < len(parameters):
        return parameters[int(number)]
    return None


def _same(module: Module, parameter: Instruction) -> Instruction:
    return next(one for one in module.entry.parameters if one.name == parameter.name)


# ---- sizes


def _resize(module: Module, settings: Mapping[str, str]) -> list[Diagnostic]:
    dimensions = Dimensions(module)
    given: dict[int, int] = {}
    for name, text in settings.items():
        size = int(text) if text.isascii() and text.isdecimal() else 0
        if not 0 < size < 1 << 31:
            raise InputError(f"{name}={text}: a size is a whole number from 1 on")
        for variable in _named(module, dimensions, name):
            if given.setdefault(variable, size) != size:
                raise InputError(f"{name}={text}: the same dimension is set to {given[variable]} too")
    new, conflicts = dimensions.solve(given)
    if conflicts:
        diagnostics = [
            Diagnostic(f"{c.instruction.name}: {c.message}", c.instruction.location, None, UnsupportedError.code)
            for c in conflicts
        ]
        raise UnsupportedError("the module cannot have these sizes", diagnostics)
    sizes = {variable: new[dimensions.find(variable)] for variable in range(len(dimensions.old))
             if dimensions.find(variable) in new}  # fmt: skip
    notes = _doubts(module, dimensions, sizes)
    _write(module, dimensions, sizes)
    return notes


def _named(module: Module, dimensions: Dimensions, name: str) -> list[int]:
    """The variables that a setting is about."""
    found = []
    for parameter in module.entry.parameters:
        for leaf, shape in enumerate(parameter.shape.leaves()):
            variables = dimensions.variables(parameter, leaf)
            flags = shape.dynamic or (False,) * shape.rank
            for variable, size, flag in zip(variables, shape.dimensions, flags, strict=True):
                if name == str(size) or (name == BATCH and (flag or size == UNBOUNDED)):
                    found.append((variable, size))
    if name == BATCH and len({size for _, size in found}) > 1:
        raise InputError(f"{BATCH}: parameters have dimensions with different bounds; name one, as in x.0=8")
    if found:
        return [variable for variable, _ in found]
    head, _, number = name.rpartition(".")
    named = _parameter(module, head)
    if named is None or not named.shape.is_array or not (number.isascii() and number.isdecimal()):
        raise InputError(f"{name}: {_choices(module, name)}")
    if int(number) >= named.shape.rank:
        raise InputError(f"{name}: {named.name} is {named.shape}, its dimensions are numbered from 0")
    return [dimensions.variables(named)[int(number)]]


def _choices(module: Module, name: str) -> str:
    shapes = ", ".join(f"{one.name} {one.shape}" for one in module.entry.parameters[:8])
    what = "no parameter has a dimension without a fixed size" if name == BATCH else "no such parameter or size"
    return f"{what}; set a dimension (x.0=8), all of a size (32=8), or a scalar (x=2) of the parameters: {shapes}"


def _write(module: Module, dimensions: Dimensions, sizes: Mapping[int, int]) -> None:
    """Put the new sizes into shapes, and into the attributes and constants that state them."""
    old = {one: one.shape for one in module.instructions()}
    for one in old:
        one.shape = _resized(one.shape, iter(dimensions.first[one]), sizes)
    for one, before in old.items():
        values = one.attributes
        if one.opcode == "slice":
            sides = zip(values["slice"], old[one.operands[0]].dimensions, one.shape.dimensions, strict=True)
            values["slice"] = tuple(
                [replace(p, limit=new) if (p.start, p.limit, p.stride) == (0, size, 1) else p for p, size, new in sides]
            )
        elif one.opcode == "dynamic-slice":
            values["dynamic_slice_sizes"] = one.shape.dimensions
        elif one.opcode == "gather":
            whole = one.operands[0]
            parts = zip(values["slice_sizes"], old[whole].dimensions, whole.shape.dimensions, strict=True)
            values["slice_sizes"] = tuple([new if part == size else part for part, size, new in parts])
        elif one.opcode == "constant" and one.shape != before:
            filled = one.literal.value().reshape(-1)[:1].repeat(one.shape.size).reshape(one.shape.dimensions)
            values["literal"] = Literal(one.shape.without_layout(), filled)
    if _LAYOUT in module.attributes and f"{WRITTEN}{_LAYOUT}" not in module.attributes:
        parameters, result = module.attributes[_LAYOUT]
        entry = module.entry
        pairs = zip(parameters, entry.parameters, strict=True)
        module.attributes[_LAYOUT] = (
            tuple([_resized(shape, iter(dimensions.first[one]), sizes) for shape, one in pairs]),
            _resized(result, iter(dimensions.first[entry.root]), sizes),
        )


def _resized(shape: Shape, starts: Iterator[int], sizes: Mapping[int, int]) -> Shape:
    """A shape with the new sizes; what has one is no longer dynamic."""
    if shape.is_tuple:
        return replace(shape, elements=tuple([_resized(element, starts, sizes) for element in shape.elements]))
    start = next(starts)
    places = range(start, start + shape.rank)
    if not any(place in sizes for place in places):
        return shape
    dimensions = tuple([sizes.get(place, size) for place, size in zip(places, shape.dimensions, strict=True)])
    flags = shape.dynamic or (False,) * shape.rank
    dynamic = tuple([flag and place not in sizes for place, flag in zip(places, flags, strict=True)])
    return replace(shape, dimensions=dimensions, dynamic=dynamic if any(dynamic) else ())


def _doubts(module: Module, dimensions: Dimensions, sizes: Mapping[int, int]) -> list[Diagnostic]:
    """Constants that are an old size, a number of elements, or one divided by it: they may have been computed
    from it, and stay as they are."""
    old = {dimensions.old[v] for v, size in sizes.items() if size != dimensions.old[v]}
    for one in module.instructions():
        for start, shape in zip(dimensions.first[one], one.shape.leaves(), strict=True):
            if any(place in sizes for place in range(start, start + shape.rank)):
                old.add(shape.size)
    found = []
    numbers = {float(size) for size in old if size > 1}
    for one in module.instructions():
        number = _number(one)
        if number and (number in numbers or round(1 / number, 4) in numbers):
            message = f"{one.name}: the constant {number:.9g} may have been computed from an old size; it stays"
            found.append(Diagnostic(message, one.location, severity="note"))
    return found


def _number(one: Instruction) -> float:
    """The value of all elements of a constant, where they are equal and a real number, else 0."""
    if one.opcode != "constant" or not one.shape.is_array or not one.literal.is_splat:
        return 0.0
    if ELEMENT_TYPES[one.shape.element_type].kind in ("pred", "complex"):
        return 0.0
    number = float(one.literal.value().reshape(-1)[0])
    return number if isfinite(number) else 0.0


# ---- constants


def _make_constant(module: Module, number: int, name: str, text: str) -> None:
    """Put a constant in the place of a scalar parameter."""
    parameter = module.entry.parameters[number]
    if not parameter.shape.is_scalar:
        raise InputError(f"{name}={text}: {parameter.name} is {parameter.shape}, only scalars become constants")
    _put_constant(module, parameter, _value(parameter.shape, name, text), f"{name}={text}")


def _put_constant(module: Module, parameter: Instruction, value: Literal, what: str) -> None:
    entry, number = module.entry, parameter.parameter_number
    stated = [key for key in _BY_NUMBER if key in module.attributes]
    if stated:
        raise UnsupportedError(f"{what}: {stated[0]} names parameters by number, so that none can be taken out")
    constant = Instruction("constant", parameter.shape, (), {"literal": value})
    constant.origins, constant.location = parameter.origins or (parameter.name,), parameter.location
    entry.add(constant, before=parameter)
    parameter.replace_all_uses(constant)
    entry.erase(parameter)
    entry.renumber_parameters()
    if _LAYOUT in module.attributes:
        parameters, result = module.attributes[_LAYOUT]
        module.attributes[_LAYOUT] = (tuple([s for n, s in enumerate(parameters) if n != number]), result)


def _value(shape: Shape, name: str, text: str) -> Literal:
    kind = ELEMENT_TYPES[shape.element_type].kind
    value: Any
    try:
        if kind == "pred":
            value = {"true": True, "false": False}[text.lower()]
        elif kind == "float":
            value = float(text)
        elif kind == "complex":
            value = complex(text)
        else:
            value = int(text)
        made = literal(value, shape.element_type)
        fits = kind in ("pred", "float", "complex") or made.number == value
    except (KeyError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise InputError(f"{name}={text}: that is no {shape.element_type}")
    return made
