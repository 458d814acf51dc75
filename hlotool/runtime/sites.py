"""What stands behind a place where emitted code calls out: the evaluator, a handler of custom calls, or LAPACK."""

from __future__ import annotations

from hlotool.codegen.plan.steps import HostCall
from hlotool.runtime import custom_calls
from hlotool.runtime.custom_calls import CallSite, Site, is_registered
from hlotool.runtime.lapack import NativeSite, lapack_site

__all__ = ["site_of"]


def site_of(call: HostCall) -> Site | NativeSite:
    """What the call runs; UnsupportedError names a custom call without a handler."""
    site = custom_calls.site_of(call.instruction)
    if isinstance(site, CallSite) and not is_registered(site.call.target):
        return lapack_site(site.call) or site
    return site
