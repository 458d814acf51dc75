"""Functions that run with subnormal numbers taken for zeros, in operands and in results.

The processor does it: flags of x86's MXCSR (flush to zero and denormals are zero), one of ARM's FPCR.  They belong to
a thread, so every function that a thread may begin with sets them and puts back what was there.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.ir import UnsupportedError

__all__ = ["define_flushing"]

_MXCSR_FLAGS = 0x8040
_FPCR_FLAG = 1 << 24


def define_flushing(unit: Unit, name: str, callee: str, types: Sequence[str], internal: bool = True) -> None:
    """Define ``void @name(types)``, which calls `callee` (with ``@``) under the flags."""
    parameters = [f"{kind} %p{number}" for number, kind in enumerate(types)]
    f = Function(unit, f"{'internal ' if internal else ''}void @{name}({', '.join(parameters)}) nounwind")
    call = f"call void {callee}({', '.join(parameters)})"
    architecture = unit.machine.architecture if unit.machine else ""
    if architecture == "x86_64":
        old, new = f.let("alloca i32, align 4"), f.let("alloca i32, align 4")
        f.intrinsic("void", "llvm.x86.sse.stmxcsr", [("ptr", old)])
        flags = f.let(f"load i32, ptr {old}")
        f.do(f"store i32 {f.let(f'or i32 {flags}, {_MXCSR_FLAGS}')}, ptr {new}")
        f.intrinsic("void", "llvm.x86.sse.ldmxcsr", [("ptr", new)])
        f.do(call)
        f.intrinsic("void", "llvm.x86.sse.ldmxcsr", [("ptr", old)])
    elif architecture == "aarch64":
        flags = f.intrinsic("i64", "llvm.aarch64.get.fpcr", [])
        changed = f.let(f"or i64 {flags}, {_FPCR_FLAG}")
        f.intrinsic("void", "llvm.aarch64.set.fpcr", [("i64", changed)])
        f.do(call)
        f.intrinsic("void", "llvm.aarch64.set.fpcr", [("i64", flags)])
    else:
        raise UnsupportedError("denormals cannot be flushed by portable code: that takes flags of the processor")
    f.finish()
