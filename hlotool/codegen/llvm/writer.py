"""A thin writer of textual LLVM IR.

Text is the fastest road into LLVM from Python (measured: several times faster than building
``llvmlite.ir`` objects), so the emitters write text; this module only numbers values, opens and
closes loops, and gathers the declarations that a function needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from hlotool.codegen.byte_order import bytes_of
from hlotool.codegen.instruction_sets import PORTABLE, InstructionSet
from hlotool.codegen.kernel import KERNEL_SIGNATURE, Definition, Helper
from hlotool.codegen.machine import Machine
from hlotool.ir import Computation
from hlotool.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["LIBRARY", "ClosedLoop", "Function", "Unit", "Value", "symbols", "with_variables"]

LIBRARY = ".hlo"
"""How the names end of functions and data that stand for all of their text, so that a module needs each but once."""


def symbols(text: str, ending: str) -> set[str]:
    """What the names in `text` begin with that end in `ending`, which nothing else there contains."""
    return {part.rpartition("@")[2] for part in text.split(ending)[:-1]}


_VARIABLE = """@{name}.state = internal global i64 {first}
define internal ptr @{name}(ptr %args) nounwind {{
entry:
  ret ptr @{name}.state
}}"""
_STATE = _VARIABLE.format(name=r"([\w.]+)", first="([0-9]+)").replace("(ptr %args)", r"\(ptr %args\)")


def with_variables(text: str, place: Callable[[int], str]) -> str:
    """`text` with the variables of kernels elsewhere: `place` is given the first value of each, and gives the body of
    the function that finds it by the arguments of a kernel."""


    def elsewhere(found: re.Match[str]) -> str:
        return f"define internal ptr @{found[1]}(ptr %args) nounwind {{\n{place(int(found[2]))}\n}}"

    return re.sub(_STATE, elsewhere, text)


class Unit:
    """One piece of IR that compiles alone: functions and their data, plus what they declare and need of the library.

    `machine` lets emitters choose instructions that only some processors have; without one they
    write what runs everywhere.  `helpers` are functions it calls that a program holds once.
    """

    __slots__ = ("declarations", "definitions", "helpers", "library", "machine", "routines", "sizes", "steps", "work")

    def __init__(self, machine: Machine | None = None) -> None:
        self.machine = machine
        self.declarations: dict[str, str] = {}
        self.library: dict[str, str] = {}
        self.routines: dict[tuple[Computation, int], str] = {}  # names in the library, by what they apply and lanes
        self.sizes: dict[Computation, int] = {}  # how many instructions computations are with all calls written out
        self.definitions: list[Definition] = []
        self.helpers: dict[Helper, None] = {}
        self.steps: dict[str, Function] = {}
        self.work: dict[str, float] = {}  # see `Kernel`

    def count(self, work: Mapping[str, float]) -> None:
        """Add to the work that is done."""
        for kind, amount in work.items():
            self.work[kind] = self.work.get(kind, 0.0) + amount

    @property
    def instructions(self) -> InstructionSet:
        """Those of its machine, or what every processor has."""
        return PORTABLE if self.machine is None else self.machine.instructions

    @property
    def is_big_endian(self) -> bool:
        """Whether its machine has high bytes first; ValueError where code is for every machine."""
        if self.machine is None:
            raise ValueError("the order of bytes depends on the machine")
        return self.machine.is_big_endian

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

    def data(self, name: str, content: bytes | npt.NDArray[Any]) -> None:
        """Define data that begins a line of the caches: bytes, or numbers as the processor reads them."""
        held = content if isinstance(content, bytes) else bytes_of(content, self.is_big_endian)
        text = "\\" + held.hex("\\") if held else ""
        self.constant(name, f'[{len(held)} x i8] c"{text}", align 64')

    def shared(self, name: str, text: str) -> None:
        """Define memory that the threads of a block share, by its type and first value."""
        self.definitions.append(Definition(name, f"@{name} = internal addrspace(3) global {text}"))

    def variable(self, name: str, first: int) -> None:
        """Define a number of 64 bits that changes, by its first value, and function `name`, which says where it is."""
        self.definitions.append(Definition(name, _VARIABLE.format(name=name, first=first), is_variable=True))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """A loop that is written: its `index` grows by `step`.

    The lines `phi_lines` are its index and what it carries; those from `latch_line` to `last_line`, in block `latch`,
    go to the next trip or past the last.
    """

    index: str
    step: int | str
    trips: int | None  # None where the text does not say
    most: int | None  # trips, where they are not known
    phi_lines: range
    latch: str
    latch_line: int
    last_line: int


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
        self.loops: list[ClosedLoop] = []
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

    def intrinsic(self, result: str, name: str, arguments: Sequence[Value], flags: str = "") -> str:
        """Call function `name` (declared on first use) with `arguments` and `flags`; return its value."""
        if name not in self.unit.declarations:
            self.unit.declare(result, name, [argument.type for argument in arguments])
        operands = ", ".join([f"{argument.type} {argument.name}" for argument in arguments])
        call = f"call {flags}{' ' * bool(flags)}{result} @{name}({operands})"
        if result == "void":
            self.do(call)
            return ""
        return self.let(call)

    def fence(self, order: str = "seq_cst", scope: str = "") -> None:
        """Whatever was written before is seen before what is written later; LLVM's `order`, within a `scope` if given.
        """
        within = f'syncscope("{scope}") ' if scope else ""
        self.do(f"fence {within}{order}")

    def leave(self, result: str = "void") -> None:
        """Return `result` (``void`` or ``type value``)."""
        self.do(f"ret {result}")

    def finish(self, result: str = "void") -> None:
        """Return `result` and hand the text to the unit."""
        self.leave(result)
        self.unit.function(self.signature, self.lines)
        if self.loops and (KERNEL_SIGNATURE in self.signature or self.stop):
            self.unit.steps[self.unit.definitions[-1].name] = self


class Value:
    """The name of an LLVM value, of a `type`, in function `f`."""

    __slots__ = ("f", "name")

    type: str

    def __init__(self, f: Function, name: str) -> None:
        self.f = f
        self.name = name

    def named(self, name: str, f: Function | None = None) -> Self:
        """Another value of the same type, in the same function unless `f` is given."""
        return type(self)(f or self.f, name)

    def let(self, text: str) -> Self:
        """Append instruction `text`, whose value has the same type."""
        return type(self)(self.f, self.f.let(text))
