"""Functions, loops, branches and calls over typed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Generic, TypeVar, TypeVarTuple, cast, get_type_hints

from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, Truth, Value, number, operand
from hlotool.codegen.llvm.writer import ClosedLoop, Function, Unit

__all__ = [
    "Callee", "Header", "Loop", "allocate", "ask", "begin_loop", "call", "conditional", "define", "flat",
    "open_function", "phi", "return_when", "stop_early", "when",
]  # fmt: skip

Ts = TypeVarTuple("Ts")
_Value = TypeVar("_Value", bound=Value)
_Given = TypeVar("_Given", bound=Value | None)
_Record = TypeVar("_Record")
_Result = TypeVar("_Result", Int, Ptr, Bool)

_hints = cache(get_type_hints)


class Loop(Generic[*Ts]):
    """An open loop: `index` counts, `values` are what it carries, at the top of its body."""

    __slots__ = (
        "_entry", "_exit", "_f", "_guarded", "_label", "_most", "_phi_lines", "_start", "_starts", "_step", "_stop",
        "index", "values",
    )  # fmt: skip

    def __init__(
        self, f: Function, start: Index, stop: Index, step: Index, carried: tuple[*Ts], guarded: bool, most: int | None
    ) -> None:
        self._f, self._start, self._stop, self._step = f, start, stop, step
        self.index, self.values = start, carried
        if _trips(start, stop, step) == 1:
            return
        self._guarded, self._most = guarded, most
        self._entry, self._label, self._exit = f.block, f.fresh("loop"), f.fresh("done")
        f.jump(self._label)
        f.label(self._label)
        self._starts = [number(f, start), *_values(carried)]
        self._phi_lines = range(len(f.lines), len(f.lines) + len(self._starts))
        index, *names = [f.let(f"phi {value.type} ") for value in self._starts]
        self.index, self.values = Int(f, index), _named(carried, names)
        if guarded:
            body = f.fresh("body")
            f.branch((self.index < stop).name, body, self._exit)
            f.label(body)

    def step_by(self, step: Index) -> None:
        """Go on by so much instead, which the body has found out."""
        self._step = step

    def end(self, *values: *Ts) -> tuple[*Ts]:
        """Close the loop, carrying `values` to the next trip; what they are after the last one."""
        if isinstance(self.index, int):
            return values
        f, step, latch, latch_line = self._f, self._step, self._f.block, len(self._f.lines)
        following = self.index.plus(step)
        for line, first, again in zip(self._phi_lines, self._starts, (following, *_values(values)), strict=True):
            f.lines[line] += f"[ {first.name}, %{self._entry} ], [ {again.name}, %{latch} ]"
        if self._guarded:
            f.jump(self._label)
        else:
            f.branch((following < self._stop).name, self._label, self._exit)
        f.loops.append(ClosedLoop(
            index=self.index.name, step=step if isinstance(step, int) else step.name,
            trips=_trips(self._start, self._stop, step), most=self._most, phi_lines=self._phi_lines,
            latch=latch, latch_line=latch_line, last_line=len(f.lines),
        ))  # fmt: skip
        f.label(self._exit)
        return self.values if self._guarded else values


def begin_loop(
    f: Function, start: Index, stop: Index, step: Index = 1, *carried: *Ts, at_least_once: bool = False,
    most: int | None = None,
) -> Loop[*Ts]:  # fmt: skip
    """Open ``for (i64 index = start; index < stop; index += step)``, with `most` trips where the bounds do not say.

    It carries values, which are `carried` at first.  Bounds known as integers with at least one trip, or the caller's
    word for it, give a loop tested at the bottom; any other is tested at the top and may run zero times.  A single trip
    known in advance is no loop at all: `index` is then `start`.
    """
    known = isinstance(start, int) and isinstance(stop, int) and start < stop
    return Loop(f, start, stop, step, carried, not (known or at_least_once), most)


def _trips(start: Index, stop: Index, step: Index) -> int | None:
    """How often a loop goes round; None where that is not known."""
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(0, -((start - stop) // step))
    return None


def _values(carried: tuple[*Ts]) -> tuple[Value, ...]:
    return cast("tuple[Value, ...]", carried)


def _named(carried: tuple[*Ts], names: Sequence[str]) -> tuple[*Ts]:
    """Values of the types of those carried, with these names."""
    return cast("tuple[*Ts]", tuple([value.named(name) for value, name in zip(_values(carried), names, strict=True)]))


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


def conditional(
    condition: Truth, body: Callable[[], tuple[*Ts]], *otherwise: *Ts, unless: bool = False
) -> tuple[*Ts]:
    """What `body` gives, which runs where `condition` holds (`unless`: does not hold), or else the other values."""
    if isinstance(condition, bool):
        return otherwise if condition is unless else body()
    f = condition.f
    work, done, before = f.fresh("work"), f.fresh("done"), f.block
    f.branch(condition.name, *((done, work) if unless else (work, done)))
    f.label(work)
    results = body()
    after = f.block
    f.jump(done)
    f.label(done)
    pairs = zip(_values(otherwise), _values(results), strict=True)
    return cast("tuple[*Ts]", tuple(phi((old, before), (new, after)) for old, new in pairs))


def return_when(condition: Bool, result: Callable[[], Value | None]) -> None:
    """Return early under `condition`."""
    f = condition.f
    early, on = f.fresh("early"), f.fresh("on")
    f.branch(condition.name, early, on)
    f.label(early)
    value = result()
    f.leave("void" if value is None else operand(value))
    f.label(on)


def phi(*ways: tuple[_Value, str]) -> _Value:
    """The value that comes with the block (without ``%``) from which this one is reached."""
    first, _ = ways[0]
    return first.named(first.f.let(f"phi {first.type} " + ", ".join(f"[ {v.name}, %{block} ]" for v, block in ways)))


class Header(Generic[_Value]):
    """The first block of a loop that ends where it will: `value` is the `first` one, then what it comes back with."""

    __slots__ = ("_label", "_line", "value")

    def __init__(self, first: _Value) -> None:
        f = first.f
        entry, self._label = f.block, f.fresh("head")
        f.jump(self._label)
        f.label(self._label)
        self._line = len(f.lines)
        self.value = phi((first, entry))

    def again(self, value: _Value) -> None:
        """End the block that goes round."""
        f = value.f
        f.lines[self._line] += f", [ {value.name}, %{f.block} ]"
        f.jump(self._label)


def open_function(
    unit: Unit, name: str, parameters: type[_Record], *, internal: bool = False, noalias: bool = False
) -> tuple[Function, _Record]:
    """Open function `name`, which returns nothing; its parameters are the fields of a record, and come back as one.

    With `noalias` nothing else points to what its pointers point to.
    """
    record: Any = parameters
    kinds: dict[str, type[Int | Ptr | Bool]] = _hints(record)
    texts = [f"{kind.type}{' noalias' * (noalias and kind is Ptr)} %{label}" for label, kind in kinds.items()]
    f = Function(unit, f"{'internal ' * internal}void @{name}({', '.join(texts)}) nounwind")
    return f, record(*(kind(f, f"%{label}") for label, kind in kinds.items()))


class Callee(Generic[_Given]):
    """A function of the program: its name, with ``@``, and a value of the type that it gives, if any."""

    __slots__ = ("_result", "name")

    def __init__(self, name: str, result: _Given) -> None:
        self.name = name
        self._result = result

    def __call__(self, f: Function, *arguments: Value | int) -> _Given:
        """Call it."""
        given = ", ".join(map(operand, arguments))
        if self._result is None:
            f.do(f"call void {self.name}({given})")
            return self._result
        return self._result.named(f.let(f"call {self._result.type} {self.name}({given})"), f)


def define(f: Function, name: str, parameters: Sequence[Value], result: _Given) -> Callee[_Given]:
    """End internal function `f`, called `name` (without ``@``), which takes `parameters` and returns `result` or None.

    Until then it is open without a signature, and the parameters have names of the emitter's own.
    """
    kind = "void" if result is None else result.type
    f.signature = f"internal {kind} @{name}({', '.join(map(operand, parameters))}) nounwind"
    f.finish("void" if result is None else operand(result))
    return Callee(f"@{name}", result)


def stop_early(
    f: Function, watch: Ptr, result: Value | None = None, first: Callable[[], None] | None = None
) -> None:
    """Let internal function `f` look whether to go on, by the address ahead of `watch`; see `polling`.

    If not, it does what `first` writes, and returns `result`.
    """
    begun = len(f.lines)
    if first is not None:
        first()
    f.leave("void" if result is None else operand(result))
    f.watch, f.stop = watch.name, tuple(line.strip() for line in f.lines[begun:])
    del f.lines[begun:]


def call(f: Function, name: str, *arguments: Value | int) -> None:
    """Call the function of the program whose name (with ``@``, or of a pointer) this is, for what it does."""
    f.do(f"call void {name}({', '.join(map(operand, arguments))})")


def ask(f: Function, name: str, result: type[_Result], *arguments: Value | int) -> _Result:
    """Call such a function for its result."""
    return result(f, f.let(f"call {result.type} {name}({', '.join(map(operand, arguments))})"))


def flat(f: Function, name: str, space: int) -> Ptr:
    """The address called `name`, which is one of an address space of its own, as one of all."""
    return Ptr(f, f.let(f"addrspacecast ptr addrspace({space}) {name} to ptr"))


def allocate(f: Function, kind: str, size: Index = 1, align: int = 0) -> Ptr:
    """Room for so many values of LLVM type `kind` on the stack."""
    text = f"{kind}, {operand(size)}" if isinstance(size, Int) else kind if size == 1 else f"[{size} x {kind}]"
    aligned = f", align {align}" if align else ""
    space = f.unit.instructions.stack
    if space:
        return flat(f, f.let(f"alloca {text}{aligned}, addrspace({space})"), space)
    return Ptr(f, f.let(f"alloca {text}{aligned}"))
