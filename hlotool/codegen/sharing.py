"""The functions of kernels, one by one: equal ones are there once, and LLVM compiles them beside each other.

A kernel comes as one text.  Its functions become pieces of their own, each with the data that only it reads, so that
units which take equally long can be made of them.  Layers of a network differ in sizes and strides, but often not in
what is innermost: functions that say the same become one, which all their kernels call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from hlotool.codegen.kernel import Kernel
from hlotool.codegen.units import Piece

__all__ = ["Functions"]

_HEAD = re.compile(r"define (?:internal )?([^@]+)@([\w.]+)\((.*)\)[^()]*$")
_DATA = re.compile(r"^@([\w.]+) =", re.MULTILINE)
_NAMED = re.compile(r"(?:define [^@]+)?@([\w.]+)")
_PARAMETER = re.compile(r"(?: noalias)? %\w+")
_REST = re.compile(r"[\w.]*")


@dataclass(slots=True, eq=False)
class _Group:
    """Functions of a kernel, and private data that nothing else reads.

    `names` are those of its definitions, in order, with how each function is declared; `mentions` what of its kernel it
    speaks of.
    """

    text: str
    names: dict[str, str]
    mentions: set[str]
    is_data: bool = False

    @property
    def others(self) -> set[str]:
        """What it mentions and does not define."""
        return self.mentions.difference(self.names)

    @property
    def is_variable(self) -> bool:
        """Whether there is data that changes, so that nobody else may have it."""
        return self.is_data and " internal global " in self.text


@dataclass(slots=True)
class Functions:
    """The functions of a program's kernels."""

    pieces: list[Piece] = field(default_factory=list)
    _known: dict[str, dict[str, str]] = field(default_factory=dict)
    _declared: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, kernel: Kernel) -> Kernel:
        """Take the functions of `kernel`, whose names all begin with `name`; the kernel, with steps that are here."""
        groups = _groups(name, kernel.definitions)
        start = f"@{name}"
        same: dict[str, str] = {}  # by which name others know it too
        kept = []
        for group in sorted(groups, key=lambda g: len(g.mentions)):  # callers come later than what they call
            known = group.names
            if group.others <= same.keys() and not group.is_variable:
                text = _with_names(group, start, {other: f"={same[other]}" for other in group.others})
                known = self._known.setdefault(text.replace(start, "@"), group.names)
                same.update(zip(group.names, known, strict=True))
            if known is group.names:
                kept.append(group)
        for group in kept:
            self._declared.update(group.names)
        renamed = {old: new for old, new in same.items() if old != new}
        self.pieces += [self._piece(kernel, group, start, renamed) for group in groups if group in kept]
        if not renamed:
            return kernel
        steps = (replace(step, function=renamed.get(step.function, step.function)) for step in kernel.steps)
        return replace(kernel, steps=tuple(steps))

    def _piece(self, kernel: Kernel, group: _Group, start: str, renamed: dict[str, str]) -> Piece:
        text = _with_names(group, start, renamed)
        others = (self._declared.get(renamed.get(other, other), "") for other in sorted(group.others))
        offers = tuple(line for line in group.names.values() if line)
        return Piece((*_needed(kernel.declarations, text), *filter(None, others)), text, offers)


def _groups(name: str, definitions: str) -> list[_Group]:
    """The parts of a kernel's text; data is private to its unit, so all who mention it stay together."""
    start = f"@{name}"
    groups: list[_Group] = []
    data: list[_Group] = []
    for chunk in f"\n{definitions}".split("\ndefine "):
        body, mark, rest = chunk.partition("\n@")
        if body:
            text = f"define {body}"
            found = _HEAD.match(text, 0, text.index(" {\n"))
            assert found is not None
            declared = f"declare {found[1]}@{found[2]}({_PARAMETER.sub('', found[3])})"
            groups.append(_Group(text, {found[2]: declared}, _mentions(text, start)))
        if mark:
            text = f"@{rest}"
            data.append(_Group(text, dict.fromkeys(_DATA.findall(text), ""), _mentions(text, start), True))
            groups.append(data[-1])
    for one in data:
        users = [group for group in groups if not group.mentions.isdisjoint(one.names)]
        whole = _Group("\n".join(g.text for g in users), {}, set(), True)
        for user in users:
            whole.names.update(user.names)
            whole.mentions.update(user.mentions)
        groups[groups.index(users[0])] = whole
        groups = [group for group in groups if group not in users]
    return groups


def _mentions(text: str, start: str) -> set[str]:
    """The names in `text` that begin with `start`, which has the ``@``; they have not."""
    return {start[1:] + name for name in _endings(text.split(start))}


def _endings(parts: list[str]) -> list[str]:
    """How the names go on with which all parts but the first begin."""
    return [found[0] for part in parts[1:] if (found := _REST.match(part))]


def _with_names(group: _Group, start: str, renamed: dict[str, str]) -> str:
    """The text of `group` with other names for functions that it calls; theirs begin with `start`."""
    if group.others.isdisjoint(renamed):
        return group.text
    parts = group.text.split(start)
    texts = parts[:1]
    for part, ending in zip(parts[1:], _endings(parts), strict=True):
        name = start[1:] + ending
        texts += ["@", renamed.get(name, name), part[len(ending) :]]
    return "".join(texts)


def _needed(declarations: tuple[str, ...], text: str) -> list[str]:
    """Declarations that `text` may need: those with a body or data only where it, or what it needs, mentions them."""
    bodies = {found[1]: line for line in declarations if (found := _NAMED.match(line))}
    if not bodies:
        return list(declarations)
    wanted: set[str] = set()
    texts = [text]
    for look in texts:
        for symbol, line in bodies.items():
            if symbol not in wanted and symbol in _mentions(look, f"@{symbol}"):
                wanted.add(symbol)
                texts.append(line)
    return [line for line in declarations if not (found := _NAMED.match(line)) or found[1] in wanted]
