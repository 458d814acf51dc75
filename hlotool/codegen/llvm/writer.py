"""A thin writer of textual LLVM IR.

Text is the fastest road into LLVM from Python (measured: several times faster than building
``llvmlite.ir`` objects), so the emitters write text; this module only numbers values, opens and
closes loops, and gathers the declarations that a function needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hlotool.codegen.kernel import KERNEL_SIGNATURE, Definition, Helper
from hlotool.codegen.machine import Machine
from hlotool.ir import Computation

__all__ = ["LIBRARY", "Function", "Loop", "Unit", "symbols"]

Operand = str | int

LIBRARY = ".hlo"
"""How the names end of functions and data that stand for all of their text, so that a module needs each but once."""


def symbols(text: str, ending: str) -> set[str]:
    """What the names in `text` begin with that end in `ending`, which nothing else there contains."""
    return {part.rpartition("@")[2] for part in text.split(ending)[:-1]}


class Unit:
    """One piece of IR that compiles alone: functions and their data, plus what they declare and need of the library.

    `machine` lets emitters choose instructions that only some processors have; without one they
    write what runs everywhere.  `helpers` are functions it calls that a program holds once.
    """

    __slots__ = ("declarations", "definitions", "helpers", "library", "machine", "routines", "sizes", "steps")

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine
        self.declarations: dict[str, str] = {}
        self.library: dict[str, str] = {}
        self.routines: dict[tuple[Computation, int], str] = {}  # names in the library, by what they apply and lanes
        self.sizes: dict[Computation, int] = {}  # how many instructions computations are with all calls written out
        self.definitions: list[Definition] = []
        self.helpers: dict[Helper, None] = {}
        self.steps: dict[str, Function] = {}

    def declare(self, result: str, name: str, parameters: Sequence[str]) -> str:
        """Declare function `name` (without ``@``) once; return ``@name``."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(parameters)})"
        return f"@{name}"

    def function(self, signature: str, lines: Iterable[str]) -> None:
        """Define a function; see `Function` for its signature."""
        head, _, parameters = signature.removeprefix("internal ").rpartition(")")[0].partition("(")
        types = ", ".join(p.rpartition(" ")[0].removesuffix(" noalias") for p in parameters.split(", "))
        text = "\n".join([f"define {signature} {{", "entry:", *lines, "}"])
        self.definitions.append(Definition(head.rpartition("@")[2], text, f"declare {head}({types})"))

    def constant(self, name: str, text: str) -> None:
        """Define data by its type and value."""
        self.definitions.append(Definition(name, f"@{name} = private constant {text}"))

    def data(self, name: str, held: bytes) -> None:
        """Define data that begins a line of the caches."""
        text = "\\" + held.hex("\\") if held else ""
        self.constant(name, f'[{len(held)} x i8] c"{text}", align 64')

    def variable(self, name: str, text: str) -> None:
        """Define data that changes, by its type and first value."""
        self.definitions.append(Definition(name, f"@{name} = internal global {text}", is_variable=True))

    @property
    def declared(self) -> tuple[str, ...]:
        """The texts of what is declared and of what is needed of the library."""
        return (*self.declarations.values(), *self.library.values())

    @property
    def defined(self) -> str:
        """The text of all definitions."""
        return "\n".join(definition.text for definition in self.definitions)

    def use(self, helper: Helper) -> None:
        """Declare what `helper` defines."""
        self.declarations[helper.declared] = helper.declared
        self.helpers[helper] = None

    def text(self) -> str:
        return "\n".join([*self.declared, self.defined]) + "\n"


@dataclass(slots=True)
class Loop:
    """A loop: `index` counts, `values` are the carried values at the top of the body.

    `label` is empty where the body runs once and no loop is made.  When it is closed, the lines from `latch_line` to
    `last_line`, in block `latch`, go to the next trip or past the last.
    """

    index: str
    values: list[str]
    label: str
    exit: str
    stop: Operand
    step: Operand
    types: list[str]
    guarded: bool
    phi_lines: list[int]
    entry: str
    starts: list[str]
    most: int | None = None  # trips, where they are not known
    latch: str = ""
    latch_line: int = 0
    last_line: int = 0

    @property
    def first_line(self) -> int:
        """The first of its lines in the function."""
        return self.phi_lines[0]

    @property
    def trips(self) -> int | None:
        """How often it goes round; None where the text does not say."""
        if not (isinstance(self.stop, int) and isinstance(self.step, int) and self.starts[0].isdecimal()):
            return None
        return max(0, -((int(self.starts[0]) - self.stop) // self.step))


class Function:
    """The text of one function while it is being written.

    `signature` is everything between ``define`` and the opening brace, for instance
    ``internal void @k(ptr noalias %args, i64 %begin, i64 %end)``.
    """

    __slots__ = ("block", "counter", "lines", "loops", "signature", "stop", "unit", "watch")

    def __init__(self, unit: Unit, signature: str) -> None:
        self.unit = unit
        self.signature = signature
        self.lines: list[str] = []
        self.counter = 0
        self.block = "entry"
        self.loops: list[Loop] = []  # those that are closed
        self.watch = "%args"  # ahead of what it points to is the address of the execution's status
        self.stop: tuple[str, ...] = ()  # how it returns early; what it leaves must do no harm

    def let(self, text: str) -> str:
        """Append ``%vN = text`` and return ``%vN``."""
        name = f"%v{self.counter}"
        self.counter += 1
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Append an instruction that gives no value."""
        self.lines.append("  " + text)

    def fresh(self, hint: str = "b") -> str:
        """A label not used before (without ``%``)."""
        self.counter += 1
        return f"{hint}{self.counter}"

    def label(self, name: str) -> None:
        """Start block `name`; the block before must have ended."""
        self.lines.append(f"{name}:")
        self.block = name

    def jump(self, label: str) -> None:
        self.lines.append(f"  br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}")

    def switch(self, kind: str, number: str, labels: Sequence[str]) -> None:
        """Go to the label with this number (of LLVM type `kind`); the last is for all other numbers too."""
        cases = " ".join(f"{kind} {n}, label %{label}" for n, label in enumerate(labels[:-1]))
        self.do(f"switch {kind} {number}, label %{labels[-1]} [ {cases} ]")

    def intrinsic(self, result: str, name: str, arguments: Sequence[tuple[str, str]], flags: str = "") -> str:
        """Call function `name` (declared on first use) with (type, value) pairs and `flags`; return its value."""
        callee = self.unit.declare(result, name, [t for t, _ in arguments])
        call = f"call {flags}{' ' * bool(flags)}{result} {callee}({', '.join(f'{t} {v}' for t, v in arguments)})"
        if result == "void":
            self.do(call)
            return ""
        return self.let(call)

    def fence(self) -> None:
        """Whatever was written before is seen before what is written later."""
        self.do("fence seq_cst")

    def fetch(self, pointer: str) -> None:
        """Ask for the line of the caches at `pointer`, which will be read soon; any address will do."""
        self.intrinsic("void", "llvm.prefetch.p0", [("ptr", pointer), ("i32", "0"), ("i32", "3"), ("i32", "1")])

    def clear(self, pointer: str, size: Operand) -> None:
        """Zero `size` bytes."""
        arguments = [("ptr", pointer), ("i8", "0"), ("i64", str(size)), ("i1", "false")]
        self.intrinsic("void", "llvm.memset.p0.i64", arguments)

    def copy(self, target: str, source: str, size: Operand) -> None:
        """Copy `size` bytes to where none of them lies."""
        arguments = [("ptr", target), ("ptr", source), ("i64", str(size)), ("i1", "false")]
        self.intrinsic("void", "llvm.memcpy.p0.p0.i64", arguments)

    def begin_loop(
        self,
        start: Operand,
        stop: Operand,
        step: Operand = 1,
        carried: Iterable[tuple[str, str]] = (),
        at_least_once: bool = False,
        most: int | None = None,
    ) -> Loop:
        """Open ``for (i64 index = start; index < stop; index += step)``, with `most` trips where the bounds do not say.

        `carried` lists (type, initial value).  Bounds known as integers with at least one trip, or
        the caller's word for it, give a loop tested at the bottom; any other is tested at the top
        and may run zero times.  A single trip known in advance is no loop at all: `index` is then `start`.
        """
        carried = list(carried)
        if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int) and start < stop <= start + step:
            return Loop(str(start), [v for _, v in carried], "", "", stop, step, [], False, [], "", [])
        guarded = not (at_least_once or (isinstance(start, int) and isinstance(stop, int) and start < stop))
        entry, label, leave = self.block, self.fresh("loop"), self.fresh("done")
        self.jump(label)
        self.label(label)
        index = f"%v{self.counter}"
        self.counter += 1
        phi_lines = [len(self.lines)]
        self.lines.append(f"  {index} = phi i64")
        values = []
        for _ in carried:
            name = f"%v{self.counter}"
            self.counter += 1
            phi_lines.append(len(self.lines))
            self.lines.append("")
            values.append(name)
        loop = Loop(
            index, values, label, leave, stop, step, [t for t, _ in carried], guarded, phi_lines, entry,
            [str(start), *(v for _, v in carried)], most,
        )  # fmt: skip
        if guarded:
            body = self.fresh("body")
            self.branch(self.let(f"icmp slt i64 {index}, {stop}"), body, leave)
            self.label(body)
        return loop

    def end_loop(self, loop: Loop, values: Sequence[str] = ()) -> list[str]:
        """Close `loop`, carrying `values` to the next trip; return the carried values after it."""
        if not loop.label:
            return list(values)
        loop.latch_line = len(self.lines)
        following = self.let(f"add nsw i64 {loop.index}, {loop.step}")
        latch = loop.latch = self.block
        self.loops.append(loop)
        names = [loop.index, *loop.values]
        for line, name, kind, first, again in zip(
            loop.phi_lines, names, ["i64", *loop.types], loop.starts, [following, *values], strict=True
        ):
            self.lines[line] = f"  {name} = phi {kind} [ {first}, %{loop.entry} ], [ {again}, %{latch} ]"
        if loop.guarded:
            self.jump(loop.label)
            loop.last_line = len(self.lines)
            self.label(loop.exit)
            return loop.values
        self.branch(self.let(f"icmp slt i64 {following}, {loop.stop}"), loop.label, loop.exit)
        loop.last_line = len(self.lines)
        self.label(loop.exit)
        return list(values)

    def leave(self, result: str = "void") -> None:
        """Return `result` (``void`` or ``type value``)."""
        self.do(f"ret {result}")

    def finish(self, result: str = "void") -> None:
        """Return `result` and hand the text to the unit."""
        self.leave(result)
        self.unit.function(self.signature, self.lines)
        if self.loops and (KERNEL_SIGNATURE in self.signature or self.stop):
            self.unit.steps[self.unit.definitions[-1].name] = self
