"""Functions that run with subnormal numbers taken for zeros, in operands and in results.

The processor does it: flags of x86's MXCSR (flush to zero and denormals are zero), one of ARM's FPCR.  They belong to
a thread, so every function that a thread may begin with sets them and puts back what was there.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.codegen.kernel import PLUMBING
from hlotool.codegen.llvm.control import allocate
from hlotool.codegen.llvm.values import Int
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.ir import UnsupportedError

__all__ = ["define_flushing"]

_MXCSR_FLAGS = 0x8040
_FPCR_FLAG = 1 << 24


def define_flushing(unit: Unit, name: str, callee: str, types: Sequence[str], internal: bool = True) -> None:
    """Define ``void @name(types)``, which calls `callee` (with ``@``) under the flags."""
    parameters = [f"{kind} %p{number}" for number, kind in enumerate(types)]
    f = Function(unit, f"{'internal ' if internal else ''}void @{name}({', '.join(parameters)}) nounwind {PLUMBING}")
    call = f"call void {callee}({', '.join(parameters)})"
    architecture = unit.machine.architecture if unit.machine else ""
    if architecture == "x86_64":
        old, new = allocate(f, "i32", align=4), allocate(f, "i32", align=4)
        f.intrinsic("void", "llvm.x86.sse.stmxcsr", [old])
        new.store(old.load("i32") | _MXCSR_FLAGS)
        f.intrinsic("void", "llvm.x86.sse.ldmxcsr", [new])
        f.do(call)
        f.intrinsic("void", "llvm.x86.sse.ldmxcsr", [old])
    elif architecture == "aarch64":
        flags = Int(f, f.intrinsic("i64", "llvm.aarch64.get.fpcr", []))
        f.intrinsic("void", "llvm.aarch64.set.fpcr", [flags | _FPCR_FLAG])
        f.do(call)
        f.intrinsic("void", "llvm.aarch64.set.fpcr", [flags])
    else:
        raise UnsupportedError("denormals cannot be flushed by portable code: that takes flags of the processor")
    f.finish()
