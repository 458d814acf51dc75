"""What a backend is: it turns modules into something that runs.

There are two kinds of them, which say the same things.  One takes whole modules, as ``cpu`` does, and raises
UnsupportedError for what it cannot do.  One with a `fallback` takes what it `supports`: the driver cuts modules into
clusters of that (`hlotool.driver.clusters`), and the other backend makes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

from hlotool.driver.options import CompileOptions
from hlotool.ir import Instruction, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable

__all__ = ["Backend", "Capabilities", "Supports", "by_table"]

Supports: TypeAlias = Callable[[Instruction], str | None]
"""Why an instruction cannot be compiled, in a few words; None where it can.  What it calls is part of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend can do, as data: nobody asks it for anything else.

    `donates`: options with a donation are understood, and results are arrays of their own.  `time_limit`: options with
    a time limit are.  `dynamic_shapes`, `custom_calls`, `collectives` and `feeds` (of infeed, outfeed and host
    transfers) are about instructions, and about what these call: a backend that lacks one never sees any.  `stages`
    are those that `Backend.code` gives texts of.
    """

    donates: bool = False
    time_limit: bool = False
    dynamic_shapes: bool = False
    custom_calls: bool = False
    collectives: bool = False
    feeds: bool = False
    stages: tuple[str, ...] = ()

    @property
    def all_instructions(self) -> bool:
        """Whether it lacks nothing that an instruction may need."""
        return self.dynamic_shapes and self.custom_calls and self.collectives and self.feeds


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """`compile` makes a valid module run; it does not change it, and raises UnsupportedError for what it cannot do.

    `name` is what ``--backend`` calls it.  `targets` are the devices that it makes code for where there are several,
    and ``--backend NAME:TARGET`` is `at` that one.  `code` gives the texts of a module at one of the stages of its
    `capabilities`: ``hlo`` as code generation gets it, ``llvm``, ``asm`` and so on; None where nothing is made.

    `supports` says which instructions it takes (None: all).  Without a `fallback`, a module with others is refused.
    With one, which is the name of a backend, modules go through the pipeline `preparation` and are cut: `compile` gets
    clusters of instructions of the entry, as modules of their own, without calls that the preparation inlines, and the
    fallback gets the rest.  A cluster of less than `least_work`, operations and bytes moved (``hlotool cost``), is not
    worth a call.  For fallbacks that call one operation after the other there is `least_gain` in its place: what a
    cluster has to save each time it runs, in seconds, as `hlotool.analysis.gain` has it.
    """

    name: str
    compile: Callable[[Module, CompileOptions], Executable]
    capabilities: Capabilities = Capabilities()
    targets: tuple[str, ...] = ()
    at: Callable[[str], Backend] | None = None
    code: Callable[[Module, CompileOptions, str], tuple[str, ...]] | None = None
    supports: Supports | None = None
    fallback: str | None = None
    preparation: str = "call-inliner,tuple-simplifier,dce"
    least_work: float = 0.0
    least_gain: float | None = None


def by_table(table: Mapping[str, Collection[str]]) -> Supports:
    """What takes the opcodes of `table` on arrays of the element types that stand there."""

    def supports(instruction: Instruction) -> str | None:
        types = table.get(instruction.opcode)
        if types is None:
            return f"{instruction.opcode} is not supported"
        for one in (*instruction.operands, instruction):
            for leaf in one.shape.leaves():
                if leaf.is_array and leaf.element_type not in types:
                    return f"{instruction.opcode} of {leaf.element_type} is not supported"
        return None

    return supports
