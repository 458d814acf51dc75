"""What a target is: how code is made for a kind of processor, and what work costs there.

A target is data and a few functions; `hlotool.codegen.program` builds programs with them, and knows none itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TypeAlias

from hlotool.analysis.costs import Costs
from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.fusibility import has_many_sources
from hlotool.analysis.product_epilogue import fused_product
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.machine import Machine
from hlotool.codegen.plan.probes import Probe
from hlotool.codegen.plan.region import Schedule
from hlotool.codegen.plan.steps import HostCall, KernelUse, Routine, Steps
from hlotool.codegen.plan.units import Piece
from hlotool.codegen.plan.values import Value
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["Emitter", "FunctionPlan", "Target", "target_of"]

Emitter: TypeAlias = Callable[[str, Instruction, Machine, frozenset[int], frozenset[int]], Kernel]
"""Writes the kernel with this name for an instruction.  The numbers are those of output leaves that share memory with
the operand they update, and of operands of a concatenate that lie in its result already.  UnsupportedError where there
is no native code for the instruction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionPlan:
    """The function `name` of a computation, the entry or what calls run: its `steps`, and how they run.

    `kernel_names` are for reports; `constants` has the offsets of values in the block of constants.  Who writes the
    function adds the calls of the runtime and the kernels that it uses to `host_calls` and `uses`, and where it looks
    at the clock to `probes`, unless that is None: then it does not.
    """

    name: str
    is_entry: bool
    steps: Steps
    schedule: Schedule
    kernel_names: Mapping[Instruction, str]
    constants: Mapping[Value, int]
    machine: Machine
    host_calls: list[HostCall]
    uses: list[KernelUse]
    probes: list[Probe] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """How programs are made for some machines.

    `emitters` has one for each kind of kernel: an opcode, ``product fusion`` for a product and what is fused with it,
    and ``fusion`` for whatever has none of its own, as a fusion of itself.  `schedule` says in which order the steps of
    a computation run, and which of them on several threads; `shares_loop` whether threads should share a loop of so
    many trips around one step, `shares_step` whether they share the tasks of a step, in a loop or not;
    `function` writes the function of a computation, and those of its small loops: the
    former is ``void @name(ptr %frame)`` for the entry, a step for others.  `library` has the texts of functions that
    all programs for a machine may call: a process compiles them once.  `costs` are what passes and kernels go by.
    Where the function computes single elements `in_line`, they have no kernels.
    """

    name: str
    costs: Costs
    emitters: Mapping[str, Emitter]
    schedule: Callable[[Steps, DecisionLog], Schedule]
    shares_loop: Callable[[Step, int], bool]
    shares_step: Callable[[Step, bool], bool]
    function: Callable[[FunctionPlan], tuple[list[Piece], Routine]]
    library: Callable[[Machine], tuple[str, ...]]
    in_line: bool = True

    def emitter(self, instruction: Instruction) -> Emitter:
        """Who writes the kernel of an instruction."""
        kind = "product fusion" if fused_product(instruction) is not None else instruction.opcode
        if kind == "concatenate" and not has_many_sources(instruction):
            kind = "fusion"
        return self.emitters.get(kind, self.emitters["fusion"])


def target_of(machine: Machine) -> Target:
    """The target of a machine: that of its architecture, else the one that takes no instruction for granted."""
    module, _, name = _TARGETS[machine.architecture].partition(":")
    found: Target = getattr(import_module(module), name)
    return found


_TARGETS = {
    "x86_64": "hlotool.codegen.cpu.target:CPU",
    "aarch64": "hlotool.codegen.cpu.target:CPU",
    "": "hlotool.codegen.cpu.target:GENERIC",
}
"""Where targets are, by `Machine.architecture`.  Each is imported when it is first asked for."""
