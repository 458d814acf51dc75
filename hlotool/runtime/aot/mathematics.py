"""What code for plainer processors would ask the C library's mathematics for, or the compiler's own library: functions
of the library itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hlotool.codegen.machine import Machine
from hlotool.runtime.native_text import native_text

__all__ = ["mathematics"]

_INTRINSIC = re.compile(r"@llvm\.(floor|ceil|trunc|round|roundeven|rint|nearbyint|fma)\.(?:v[0-9]+)?f(32|64)\b")
_REMAINDER = re.compile(r" frem (?:<[0-9]+ x )?(float|double)\b")
_LONG_PRODUCT = re.compile(r" mul (?:nuw |nsw )*(?:<[0-9]+ x )?i128\b")
_FUNCTION = re.compile(r"^define [^@\n]*@(\w+)\(.*?^}\n", re.MULTILINE | re.DOTALL)
_CALLED = re.compile(r"@(\w+)\(")

_FUSED = frozenset({"ppc64", "ppc64le", "powerpc64", "powerpc64le", "riscv64", "s390x"})
"""Architectures whose processors all multiply and add with one rounding, though code does not count on its speed."""


def mathematics(texts: Sequence[str], machine: Machine) -> dict[str, str]:
    """LLVM IR of the functions that LLVM calls in code for `machine` that `texts` are, by name, and what they need."""
    named = {match for text in texts for match in _INTRINSIC.findall(text)}
    named |= {("fmod", {"float": "32", "double": "64"}[kind]) for text in texts for kind in _REMAINDER.findall(text)}
    wanted = [name + ("f" if bits == "32" else "") for name, bits in sorted(named) if not _has(machine, name)]
    whole = native_text("library_math")
    functions = {match[1]: match[0] for match in _FUNCTION.finditer(whole)}
    if machine.is_wasm and any(map(_LONG_PRODUCT.search, [*texts, *(functions[name] for name in wanted)])):
        wanted.append("__multi3")
    if not wanted:
        return {}
    needed = {line: line for line in whole.splitlines() if line.startswith("declare ")}
    for name in wanted:  # grows on the way
        if name not in needed:
            needed[name] = functions[name]
            wanted += [called for called in _CALLED.findall(functions[name]) if called in functions]
    return needed


def _has(machine: Machine, name: str) -> bool:
    """Whether there surely is an instruction for it; one more function than LLVM calls does no harm."""
    if name == "fmod":
        return False
    if machine.is_wasm:  # trunc, ceil, floor, nearest
        return name not in ("fma", "round")
    if name == "fma":
        return machine.instructions.fma or machine.triple.partition("-")[0] in _FUSED
    if machine.architecture == "aarch64":
        return True
    return machine.cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4") or machine.has("sse4.1")
