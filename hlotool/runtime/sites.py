"""What stands behind a place where emitted code calls out: the evaluator, a handler of custom calls, or LAPACK."""

from __future__ import annotations

from hlotool.codegen.plan.steps import HostCall
from hlotool.evaluate import evaluate_computation
from hlotool.evaluate.custom_call import EVALUATED
from hlotool.runtime.custom_calls import CallSite, HostSite, Site, custom_call_of, is_registered
from hlotool.runtime.lapack import NativeSite, lapack_site

__all__ = ["site_of"]


def site_of(call: HostCall) -> Site | NativeSite:
    """What the call runs; UnsupportedError names a custom call without a handler."""
    if call.instruction.attributes.get("custom_call_target") == EVALUATED:
        return HostSite(call.instruction)
    if call.instruction.opcode == "custom-call":
        described = custom_call_of(call.instruction, evaluate_computation)
        native = None if is_registered(described.target) else lapack_site(described)
        return native or CallSite(described)
    return HostSite(call.instruction)
