"""The functions of kernels, one by one: equal ones are there once, and LLVM compiles them beside each other.

A kernel comes as a list of definitions.  Its functions become pieces of their own, each with the data that only it
reads, so that units which take equally long can be made of them.  Layers of a network differ in sizes and strides, but
often not in what is innermost: functions that say the same become one, which all their kernels call.

All names that a kernel defines end with the name of the kernel; what stands before tells its definitions apart.  So two
functions say the same if their texts are equal without the names of their kernels, and what they call is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

from hlotool.codegen.kernel import Definition, Kernel
from hlotool.codegen.llvm.writer import LIBRARY, symbols
from hlotool.codegen.plan.units import Piece
from hlotool.lazy_dataclass import dataclass

__all__ = ["Functions"]


@dataclass(slots=True, eq=False)
class _Bundle:
    """A function, or data and all functions that mention it: data is private to its unit, so they stay together.

    `mentions` has what of its kernel the text speaks of, without the kernel's name.
    """

    definitions: list[Definition]
    mentions: set[str]

    @property
    def text(self) -> str:
        return "\n".join(definition.text for definition in self.definitions)

    def others(self, kernel: str) -> list[str]:
        """What it mentions and does not define."""
        return sorted(self.mentions.difference(d.name.removesuffix(kernel) for d in self.definitions))


@dataclass(slots=True)
class Functions:
    """The functions of a program's kernels; `take` is given the pieces with them."""

    take: Callable[[Piece], None]
    _known: dict[tuple[str, ...], list[Definition]] = field(default_factory=dict)

    def add(self, name: str, kernel: Kernel) -> Kernel:
        """Take the functions of `kernel`, whose name is `name`; the kernel, with steps that are here."""
        groups = _groups(name, kernel)
        there = {d.name.removesuffix(name): d for d in kernel.definitions}  # what the kernel's names stand for
        settled: set[str] = set()
        kept = []
        for group in sorted(groups, key=lambda g: len(g.mentions)):  # callers come later than what they call
            known = group.definitions
            others = group.others(name)
            if settled.issuperset(others) and not any(d.is_variable for d in known):
                key = group.text.replace(name, ""), *(there[other].name for other in others)
                known = self._known.setdefault(key, known)
                own = [d.name.removesuffix(name) for d in group.definitions]
                settled.update(own)
                there.update(zip(own, known, strict=True))
            if known is group.definitions:
                kept.append(group)
        for group in groups:
            if group in kept:
                self.take(_piece(name, kernel, group, there))
        steps = (replace(step, function=there[step.function.removesuffix(name)].name) for step in kernel.steps)
        return replace(kernel, steps=tuple(steps))


def _groups(name: str, kernel: Kernel) -> list[_Bundle]:
    """The parts of kernel `name`."""
    groups = [_Bundle([definition], symbols(definition.text, name)) for definition in kernel.definitions]
    for data in kernel.definitions:
        if not data.declaration:
            users = [group for group in groups if data.name.removesuffix(name) in group.mentions]
            definitions = [definition for user in users for definition in user.definitions]
            whole = _Bundle(definitions, {mention for user in users for mention in user.mentions})
            groups[groups.index(users[0])] = whole
            groups = [group for group in groups if group not in users]
    return groups


def _piece(name: str, kernel: Kernel, group: _Bundle, there: Mapping[str, Definition]) -> Piece:
    """The functions of `group`, which call what is there."""
    text = group.text
    others = group.others(name)
    for other in others:
        text = text.replace(f"@{other}{name}", f"@{there[other].name}")
    needed = _needed(kernel.library, text)
    called = (there[other].declaration for other in others)
    offers = tuple(d.declaration for d in group.definitions if d.declaration)
    return Piece((*kernel.declarations.values(), *needed, *called), text, offers)


def _needed(library: Mapping[str, str], text: str) -> list[str]:
    """What `text` needs of the library, and what that needs of it."""
    wanted: set[str] = set()
    texts = [text]
    for look in texts:
        found = {symbol + LIBRARY for symbol in symbols(look, LIBRARY)} - wanted
        wanted |= found
        texts += [library[symbol] for symbol in library if symbol in found]
    return [line for symbol, line in library.items() if symbol in wanted]
