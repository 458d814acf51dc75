"""Functions, loops, branches and calls over typed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, TypeVarTuple, cast, get_type_hints

from hlotool.codegen.llvm import writer
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, Truth, Value, operand
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = ["Loop", "allocate", "ask", "begin_loop", "call", "open_function", "return_when", "when"]

Ts = TypeVarTuple("Ts")
_Record = TypeVar("_Record")
_Result = TypeVar("_Result", Int, Ptr, Bool)

_TYPES = {Int: "i64", Ptr: "ptr", Bool: "i1"}


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

    def step_by(self, step: Index) -> None:
        """Go on by so much instead, which the body has found out."""
        self.text.step = _plain(step)

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


def when(condition: Truth, body: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    """Emit `body` under `condition`, and what is to be done `otherwise`."""
    if isinstance(condition, bool):
        if condition:
            body()
        elif otherwise is not None:
            otherwise()
        return
    f = condition.f
    then, after = f.fresh("then"), f.fresh("after")
    other = after if otherwise is None else f.fresh("otherwise")
    f.branch(condition.name, then, other)
    f.label(then)
    body()
    f.jump(after)
    if otherwise is not None:
        f.label(other)
        otherwise()
        f.jump(after)
    f.label(after)


def return_when(condition: Bool, result: Callable[[], Value | None]) -> None:
    """Return early under `condition`."""
    f = condition.f
    early, on = f.fresh("early"), f.fresh("on")
    f.branch(condition.name, early, on)
    f.label(early)
    value = result()
    f.do("ret void" if value is None else f"ret {operand(value)}")
    f.label(on)


def open_function(
    unit: Unit, name: str, parameters: type[_Record], result: str = "void", *, internal: bool = False,
    noalias: bool = False, attributes: str = "",
) -> tuple[Function, _Record]:
    """Open function `name`; the fields of the record `parameters` are those that it has, and come back as values.

    With `noalias` nothing else points to what its pointers point to.
    """
    kinds = _kinds(parameters)
    texts = [f"{_TYPES[kind]}{' noalias' * (noalias and kind is Ptr)} %{label}" for label, kind in kinds.items()]
    head = f"{'internal ' * internal}{result} @{name}({', '.join(texts)}) nounwind"
    f = Function(unit, f"{head} {attributes}".rstrip())
    return f, cast(Any, parameters)(*(kind(f, f"%{label}") for label, kind in kinds.items()))


def _kinds(parameters: type[object]) -> dict[str, type[Int | Ptr | Bool]]:
    """What parameters are, by name."""
    return get_type_hints(parameters)


def call(f: Function, name: str, *arguments: Value | int) -> None:
    """Call the function of the program whose name (with ``@``, or of a pointer) this is, for what it does."""
    f.do(f"call void {name}({', '.join(map(operand, arguments))})")


def ask(f: Function, name: str, result: type[_Result], *arguments: Value | int) -> _Result:
    """Call such a function for its result."""
    return result(f, f.let(f"call {_TYPES[result]} {name}({', '.join(map(operand, arguments))})"))


def allocate(f: Function, kind: str, size: Index = 1, align: int = 0) -> Ptr:
    """Room for so many values of LLVM type `kind` on the stack."""
    text = f"{kind}, {operand(size)}" if isinstance(size, Int) else kind if size == 1 else f"[{size} x {kind}]"
    return Ptr(f, f.let(f"alloca {text}" + (f", align {align}" if align else "")))
