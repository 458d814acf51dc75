"""The quick way of a call that is like the one before: Python code written for its containers.

Arguments are taken apart by assignments (``a, b = arguments``) instead of by a walk, and results put together the same
way.  Shapes and types are compared by the compiled code itself, which refuses what it was not made for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from hlotool.ir import InputError
from hlotool.numpy.array import Array
from hlotool.numpy.dtypes import DEFAULTS
from hlotool.numpy.pytree import LEAF, Structure

__all__ = ["MISS", "quick_call"]

MISS = object()
"""What a quick call gives when it is not for these arguments."""

_MOST_LEAVES = 400


class _Writer:
    """The source of one function, and the objects that it names."""

    def __init__(self, kinds: Sequence[Any]) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"Array": Array, "ndarray": numpy.ndarray, "MISS": MISS, "InputError": InputError}
        self.values: list[str] = []
        self._kinds = kinds
        self._count = 0

    def name(self, value: Any) -> str:
        """A name for an object."""
        found = f"k{len(self.names)}"
        self.names[found] = value
        return found

    def fresh(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def apart(self, structure: Structure, place: str) -> bool:
        """Assign the leaves of the container at `place`; False for a container that this does not know."""
        if structure == LEAF:
            self._leaf(place)
            return True
        kind, fixed, *inside = structure
        if kind is type(None):
            self.lines.append(f"if {place} is not None: return MISS")
            return True
        if kind not in (tuple, list, dict):
            return False
        self.lines.append(f"if type({place}) is not {kind.__name__} or len({place}) != {len(inside)}: return MISS")
        children = [self.fresh() for _ in inside]
        if kind is dict:
            self.lines += [f"{child} = {place}[{self.name(key)}]" for child, key in zip(children, fixed, strict=True)]
        elif children:
            self.lines.append(f"{', '.join(children)}, = {place}")
        return all(self.apart(one, child) for one, child in zip(inside, children, strict=True))

    def _leaf(self, place: str) -> None:
        kind = self._kinds[len(self.values)]
        if isinstance(kind, type):
            self.lines.append(f"if type({place}) is not {kind.__name__}: return MISS")
            self.values.append(f"{self.name(numpy.array)}({place}, {self.name(DEFAULTS[kind])})")
            return
        self.lines += [
            f"if type({place}) is Array:",
            f"    if {place}._trace is not None or {place}._weak: return MISS",
            f"    {place} = {place}._value",
            f"elif type({place}) is not ndarray: return MISS",
        ]
        if kind[0].isbuiltin != 1:  # the compiled code takes unsigned integers with the same bits, too
            self.lines.append(f"if {place}.dtype != {self.name(kind[0])}: return MISS")
        self.values.append(place)

    def together(self, structure: Structure, leaves: list[str]) -> str | None:
        """An expression of the container; None for one that this does not know."""
        if structure == LEAF:
            return f"Array({leaves.pop(0)})"
        kind, fixed, *inside = structure
        if kind is type(None):
            return "None"
        if kind not in (tuple, list, dict):
            return None
        children = [self.together(one, leaves) for one in inside]
        if any(one is None for one in children):
            return None
        if kind is dict:
            pairs = zip(fixed, children, strict=True)
            return "{" + ", ".join(f"{self.name(key)}: {child}" for key, child in pairs) + "}"
        listed = "".join(f"{child}, " for child in children)
        return f"({listed})" if kind is tuple else f"[{listed}]"


def quick_call(
    structure: Structure,
    kinds: Sequence[Any],
    run: Callable[..., Any],
    captured: Sequence[Array],
    reads: Sequence[tuple[Array, Any]],
    result: Structure,
) -> Callable[[Any, Any], Any] | None:
    """A function of (arguments, options), for those of one structure: it runs, or gives `MISS`.

    It hands on what `captured` hold, and is for no arguments once an array of `reads` holds something else than it did.

    None where the containers are of other kinds than tuples, lists and dictionaries, or there are very many leaves.
    """
    writer = _Writer(kinds)
    writer.names["run"] = run
    if len(kinds) > _MOST_LEAVES or not all(
        [writer.apart(structure[2], "arguments"), writer.apart(structure[3], "options")]
    ):
        return None
    writer.lines += [f"if {writer.name(one)}._value is not {writer.name(held)}: return MISS" for one, held in reads]
    given = ", ".join([*writer.values, *(f"{writer.name(one)}._value" for one in captured)])
    outputs = [f"r{n}" for n in range(_leaves(result))]
    expression = writer.together(result, list(outputs))
    if expression is None:
        return None
    unpack = [f"{', '.join(outputs)}, = run({given})"] if outputs else [f"run({given})"]
    body = [*writer.lines, *unpack]
    source = "\n".join([
        "def call(arguments, options):", "    try:", *(f"        {line}" for line in body),
        "    except (KeyError, InputError):", "        return MISS", f"    return {expression}",
    ])  # fmt: skip
    exec(compile(source, "<hlotool.jit>", "exec"), writer.names)
    made: Callable[[Any, Any], Any] = writer.names["call"]
    return made


def _leaves(structure: Structure) -> int:
    return 1 if structure == LEAF else sum(_leaves(one) for one in structure[2:])
