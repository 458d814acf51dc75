"""Which instructions a backend takes, and why not the others."""

from __future__ import annotations

from hlotool.driver.backend import Backend, Capabilities
from hlotool.driver.failures import report
from hlotool.driver.options import CompileOptions
from hlotool.ir import Computation, Diagnostic, Instruction, Module, UnsupportedError
from hlotool.passes.framework.isolation import alone
from hlotool.passes.framework.steps import Pipeline

__all__ = ["PLUMBING", "reasons", "refuse_unsupported"]

PLUMBING = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})
"""What nobody has to support: it is no work."""


def reasons(backend: Backend, module: Module, options: CompileOptions) -> dict[str, str]:
    """Why the backend cannot compile instructions of the entry, by their names; those that it can are left out."""
    found: dict[str, str] = {}
    lacks = _Lacks(backend.capabilities)
    broken = ""
    for instruction in module.entry:
        plumbing = instruction.opcode in PLUMBING
        if plumbing and backend.fallback is not None:
            continue
        reason = lacks.of(instruction) or broken
        if not reason and not plumbing and backend.supports is not None:
            try:
                reason = _said(backend, instruction)
            except Exception as error:
                if options.strict or backend.fallback is None:
                    raise
                report(
                    options.log, f"backend {backend.name}", error, f"{backend.fallback} does what follows",
                    alone(instruction), Pipeline(()),
                )  # fmt: skip
                reason = broken = f"supports failed: {type(error).__name__}: {' '.join(str(error).split())}"
        if reason:
            found[instruction.name] = reason
    return found


def _said(backend: Backend, instruction: Instruction) -> str:
    assert backend.supports is not None
    reason: object = backend.supports(instruction)
    if reason is not None and not isinstance(reason, str):
        raise TypeError(f"supports gives None or a reason, not {type(reason).__name__} ({instruction.name})")
    return reason or ""


class _Lacks:
    """What a backend lacks for an instruction and all that it calls."""

    __slots__ = ("_capabilities", "_known")

    def __init__(self, capabilities: Capabilities) -> None:
        self._capabilities = capabilities
        self._known: dict[Computation, str] = {}

    def of(self, instruction: Instruction) -> str:
        """What is missing, in words; "" where nothing is."""
        if self._capabilities.all_instructions:
            return ""
        own = self._own(instruction)
        return own or next(filter(None, map(self._inside, instruction.called)), "")

    def _inside(self, computation: Computation) -> str:
        if computation not in self._known:
            found = ((f"{one.name} in {computation.name}", self.of(one)) for one in computation)
            self._known[computation] = next((f"{where}: {why}" for where, why in found if why), "")
        return self._known[computation]

    def _own(self, instruction: Instruction) -> str:
        has, group = self._capabilities, instruction.info.group
        if not has.custom_calls and instruction.opcode == "custom-call":
            return f"custom calls are not supported ({instruction.attributes.get('custom_call_target')})"
        if not has.collectives and group == "collective":
            return "communication between devices is not supported"
        if not has.feeds and group == "feed":
            return "feeds and host transfers are not supported"
        values = (*instruction.operands, instruction)
        if not has.dynamic_shapes and any(not leaf.is_static for one in values for leaf in one.shape.leaves()):
            return "dynamic shapes are not supported"
        return ""


def refuse_unsupported(backend: Backend, module: Module, options: CompileOptions) -> None:
    """UnsupportedError with a diagnostic for each instruction that a backend without a fallback does not take."""
    if backend.supports is None and backend.capabilities.all_instructions:
        return
    against = reasons(backend, module, options)
    if not against:
        return
    by_name: dict[str, Instruction] = {one.name: one for one in module.entry}
    diagnostics = [
        Diagnostic(f"{name}: {reason}", by_name[name].location, None, UnsupportedError.code)
        for name, reason in against.items()
    ]
    more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
    raise UnsupportedError(f"backend {backend.name}: {diagnostics[0].message}{more}", diagnostics)
