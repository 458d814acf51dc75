"""Loops, branches and calls over typed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVarTuple, cast

from hlotool.codegen.llvm import writer
from hlotool.codegen.llvm.values import Index, Int, Truth, Value, operand
from hlotool.codegen.llvm.writer import Function

__all__ = ["Loop", "begin_loop", "call", "when"]

Ts = TypeVarTuple("Ts")


class Loop(Generic[*Ts]):
    """An open loop: `index` counts, `values` are what it carries, at the top of its body.

    `text` is the loop as it is written, without a label where the body runs once and there is none.
    """

    __slots__ = ("_f", "index", "text", "values")

    def __init__(self, f: Function, text: writer.Loop, carried: tuple[*Ts]) -> None:
        self._f = f
        self.text = text
        self.index: Index = Int(f, text.index) if text.index.startswith("%") else int(text.index)
        self.values = _named(carried, text.values)

    def end(self, *values: *Ts) -> tuple[*Ts]:
        """Close the loop, carrying `values` to the next trip; what they are after the last one."""
        return _named(values, self._f.end_loop(self.text, [value.name for value in _values(values)]))


def begin_loop(
    f: Function, start: Index, stop: Index, step: Index = 1, *carried: *Ts, at_least_once: bool = False,
    most: int | None = None,
) -> Loop[*Ts]:  # fmt: skip
    """Open a loop that carries values, which are `carried` at first; see `writer.Function.begin_loop`."""
    pairs = [(value.type, value.name) for value in _values(carried)]
    text = f.begin_loop(_plain(start), _plain(stop), _plain(step), pairs, at_least_once, most)
    return Loop(f, text, carried)


def _plain(value: Index) -> writer.Operand:
    return value if isinstance(value, int) else value.name


def _values(carried: tuple[*Ts]) -> tuple[Value, ...]:
    return cast(tuple[Value, ...], carried)


def _named(carried: tuple[*Ts], names: Sequence[str]) -> tuple[*Ts]:
    """Values of the types of those carried, with these names."""
    named = (value.named(name) for value, name in zip(_values(carried), names, strict=True))
    return cast(tuple[*Ts], tuple(named))


def when(condition: Truth, body: Callable[[], None]) -> None:
    """Emit `body` under `condition`."""
    if isinstance(condition, bool):
        if condition:
            body()
        return
    f = condition.f
    then, after = f.fresh("then"), f.fresh("after")
    f.branch(condition.name, then, after)
    f.label(then)
    body()
    f.jump(after)
    f.label(after)


def call(f: Function, name: str, *arguments: Value | int) -> None:
    """Call the function of the program whose name (with ``@``, or of a pointer) this is, for what it does."""
    f.do(f"call void {name}({', '.join(map(operand, arguments))})")
