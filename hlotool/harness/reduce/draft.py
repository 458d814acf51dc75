"""A copy of a module that edits are made on, and what has to be put right after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from hlotool.ir import Computation, Instruction, Module, Shape, clone_module
from hlotool.lazy_dataclass import dataclass

__all__ = ["Draft", "Edit", "EditFailed"]

_OF_THE_BORDER = ("entry_computation_layout", "input_output_alias", "buffer_donor")
"""Attributes of a module that speak of its parameters and results."""


_LEAVES = frozenset({"parameter", "constant", "iota", "after-all"})
"""What nobody wants as a result."""


class EditFailed(Exception):  # noqa: N818
    """An edit that cannot be made here."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change that makes a module smaller or plainer: `change` of a draft, and of `values`, in which instructions
    and computations are those of the original.  The same edit of a later version has the same `key`."""

    key: tuple[str, ...]
    change: Callable[..., None]
    values: tuple[Any, ...] = ()

    def apply(self, draft: Draft) -> None:
        """Make the change; EditFailed where that cannot be."""
        self.change(draft, *self.values)


class Draft:
    """A copy of `module`.  Instructions are named by those of the original: `of` gives the copy.

    Edits may do anything to the copies that keeps the graph in one piece, and drop or replace instructions by the
    methods, whose work is done by `finish`.
    """

    def __init__(self, module: Module) -> None:
        self.module = clone_module(module)
        self._copies = dict(zip(module.instructions(), self.module.instructions(), strict=True))
        self._dropped: set[Instruction] = set()
        self._loose: list[Instruction] = []
        self._border = _border(module.entry)

    def of(self, instruction: Instruction) -> Instruction:
        """The copy; EditFailed where an edit before has removed it."""
        copy = self._copies.get(instruction)
        if copy is None or copy.parent is None:
            raise EditFailed
        return copy

    def computation(self, computation: Computation) -> Computation:
        return self.module.computations[computation.name]

    def drop(self, instruction: Instruction) -> None:
        """Leave out an instruction of the entry: who reads it reads a parameter, and what only it reads is a result."""
        self._dropped.add(self.of(instruction))

    def replace(self, copy: Instruction, new: Instruction) -> None:
        """Let all who read a copy read `new`, which stands before it, and leave it out with what only it needs."""
        if new is copy:
            raise EditFailed
        copy.replace_all_uses(new)
        self._loose.append(copy)

    def loosen(self, copy: Instruction) -> None:
        """Leave out a copy, and what only it needs, if nobody reads it in the end."""
        self._loose.append(copy)

    def finish(self) -> Module:
        """The module as edited; EditFailed where nothing is left of it."""
        self._sweep()
        if self._dropped:
            self._cut()
        entry = self.module.entry
        entry.renumber_parameters()
        if _border(entry) != self._border:
            for name in _OF_THE_BORDER:
                self.module.attributes.pop(name, None)
        self.module.remove_unreachable()
        return self.module

    def _cut(self) -> None:
        """Leave out what was dropped from the entry."""
        entry = self.module.entry
        old = entry.root
        entry.root = Instruction("after-all", Shape("token"))  # until the results are known
        if old.opcode == "tuple" and not old.users:
            results = dict.fromkeys(old.operands)
            entry.erase(old)
        else:
            results = {old: None}
        open_: dict[Instruction, None] = {}
        numbers = count(1 + max((p.parameter_number for p in entry.parameters), default=-1))
        for copy in reversed(list(entry)):
            if copy in self._dropped:
                if copy.users:
                    copy.replace_all_uses(entry.add(_source(copy.shape, numbers), before=next(iter(entry))))
                open_.update(dict.fromkeys(reversed(copy.operands)))
                entry.erase(copy)
        unread = [x for x in reversed(open_) if x.parent is entry and not x.users and x not in results]
        for copy in unread:
            if copy.opcode in _LEAVES:
                entry.erase(copy)
        found = [x for x in (*results, *unread) if x.parent is entry and _is_array(x.shape)]
        if not found:  # all that is left was dead: its last part has to do
            found = [x for x in reversed(entry) if _is_array(x.shape) and x.opcode not in _LEAVES][:1]
        if not found:
            raise EditFailed
        if len(found) == 1:
            entry.root = found[0]
        else:
            shape = Shape("tuple", elements=tuple(x.shape for x in found))
            entry.root = entry.add(Instruction("tuple", shape, found))

    def _sweep(self) -> None:
        """Erase what edits left without readers, and what only that needed."""
        stack = self._loose
        while stack:
            copy = stack.pop()
            computation = copy.parent
            if computation is None or copy.users or copy.is_root or copy in self._dropped:
                continue
            if copy.opcode == "parameter" and computation is not self.module.entry:
                continue  # of its callers
            operands = list(dict.fromkeys(copy.operands))
            computation.erase(copy)
            stack.extend(operands)
        self._loose = []


def _source(shape: Shape, numbers: Iterator[int]) -> Instruction:
    """What gives a value out of nothing: a parameter of the next of `numbers`, as a rule."""
    if shape.is_token:
        return Instruction("after-all", shape)
    if not _is_array(shape):
        raise EditFailed
    return Instruction("parameter", shape, (), {"parameter_number": next(numbers)})


def _is_array(shape: Shape) -> bool:
    """Whether it is of arrays alone: neither tokens nor buffers."""
    return all(leaf.is_array for leaf in shape.leaves())


def _border(entry: Computation) -> tuple[Any, ...]:
    return (*(parameter.shape for parameter in entry.parameters), entry.root.shape)
