"""LLVM's target machines, and the switches that LLVM runs with.

No IR pass is run but over small loops (`hlotool.runtime.promotion`): the emitters write code that is vectorised
already, so instruction selection is all that is left; texts of nothing but plumbing are compiled without any
optimisation.  Loop strength reduction, which the code generator runs of itself, is off: it took a sixth of the whole
time and gained nothing where addresses are written as pointers that move on.  So is constant hoisting, which wants to
know how often every block runs and then finds nothing to do: vectors of constants are no business of it.  So is list
scheduling after registers are assigned: the analyses that it asks for took a fifth of the time, and processors that
reorder instructions gain nothing.
(LLVM knows these switches for the process as a whole: other users of llvmlite in it go without those passes as well.
There is none for a module or a function, but ``optnone``, which turns all else off too; and a switch cannot be given to
and fro around a compilation, for others may be under way, and LLVM takes each switch once.)
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from hlotool.codegen.machine import Machine, host
from hlotool.runtime.once import once

if TYPE_CHECKING:  # it takes long to load, and nothing is compiled for --help
    from llvmlite import binding

__all__ = ["SWITCHES", "Emitters", "both_emitters", "emitter", "pointer_bits", "target_machine"]

SWITCHES = ("-disable-lsr", "-disable-constant-hoisting", "-disable-post-ra")
"""LLVM's switches that make other code."""


Emitters: TypeAlias = "tuple[binding.TargetMachine, binding.TargetMachine]"
"""The usual one and the quick one."""


@once
def _initialize() -> None:
    """Make LLVM's target for this process known, and set its switches."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    binding.initialize_native_asmparser()  # for assembly in LLVM IR
    for switch in SWITCHES:
        binding.set_option("hlotool", switch)


@once
def _initialize_others() -> None:
    """Make all of LLVM's targets known, which takes milliseconds: to compile for other machines."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


def target_machine(machine: Machine, quick: bool = False) -> binding.TargetMachine:
    """LLVM's target machine for `machine`: position-independent code, small code model, opt level 2 (0 if `quick`).

    In WebAssembly addresses are known when a module is linked.
    """
    from llvmlite import binding

    _initialize()
    if machine.triple != host().triple:
        _initialize_others()
    target = binding.Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=0 if quick else 2, reloc="static" if machine.is_wasm else "pic",
        codemodel="small",
    )  # fmt: skip


def pointer_bits(machine: Machine) -> int:
    """How wide addresses are."""
    with emitter(machine) as target:
        found = re.search(r"-p:([0-9]+):", str(target.target_data))
        return int(found[1]) if found else 64


@cache
def _idle(machine: Machine, quick: bool) -> deque[binding.TargetMachine]:
    """Target machines that no thread is using.  (Appending to a deque and taking from it need no lock.)"""
    return deque()


@contextmanager
def emitter(machine: Machine, quick: bool = False) -> Iterator[binding.TargetMachine]:
    """A target machine for one thread.  Making one, and its table of the processor's features, takes a millisecond."""
    idle = _idle(machine, quick)
    try:
        found = idle.popleft()
    except IndexError:
        found = target_machine(machine, quick)
    try:
        yield found
    finally:
        idle.append(found)


@contextmanager
def both_emitters(machine: Machine) -> Iterator[Emitters]:
    with emitter(machine) as usual, emitter(machine, quick=True) as quick:
        yield usual, quick
