"""From a module to an optimised one."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.analysis.costs import Costs
from hlotool.analysis.decisions import DecisionLog
from hlotool.driver.failures import is_strict, report
from hlotool.ir import Module, VerificationError, clone_module
from hlotool.ir.collector import collector_paused
from hlotool.ir.depth import room
from hlotool.ir.given import check_module
from hlotool.ir.structure import check_structure
from hlotool.ir.verifier import check
from hlotool.passes.framework.instruments import VerifyEach
from hlotool.passes.framework.isolation import LeaveOut
from hlotool.passes.framework.manager import Instrument, PassCrash, Progress, changes_program, run_pipeline
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.steps import Pass, Pipeline

__all__ = ["optimise", "optimised"]


def optimise(
    module: Module,
    pipeline: str | Pipeline = "default",
    log: DecisionLog | None = None,
    instruments: Sequence[Instrument] = (),
    progress: Progress | None = None,
    strict: bool | None = None,
) -> Module:
    """A copy of `module` with `pipeline` applied.

    A pass that fails is left out, from the run on in which it did: that is said by a CompilerWarning and in `log`
    (``pass-failed``).  If `strict` it ends with a PassCrash, which carries `module`; by default that is what the
    variable ``HLOTOOL_STRICT`` of the environment says.
    """
    check_module(module, "optimise")
    steps = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    log, progress = DecisionLog() if log is None else log, progress or Progress()
    with room(module), collector_paused():
        return optimised(module, steps, None, log, instruments, progress, is_strict(strict))


def optimised(
    module: Module,
    steps: Pipeline,
    required: Pipeline | None,
    log: DecisionLog,
    instruments: Sequence[Instrument],
    progress: Progress,
    strict: bool,
    verify: bool = False,
    costs: Costs | None = None,
) -> Module:
    """A copy of `module` with `steps` and then `required` applied; PassCrash where one fails that cannot be left out.

    Passes go by `costs`, or by those that the module carries if none are given.  The module is verified after each pass
    if asked for, and once something has failed: it may be an earlier pass that did it.
    """
    shown: list[tuple[Pass, Module]] = []

    def keep(pass_: Pass, ahead: Module) -> None:
        shown.append((pass_, clone_module(ahead)))

    def optional() -> bool:
        return required is None or progress.later[0] != ()

    watcher, crashes = LeaveOut(instruments, keep, optional), dict[Pass, PassCrash]()
    verifying: list[Instrument] = [VerifyEach(check)] if verify else []
    start = len(log), log.rewrites
    while True:
        copy = clone_module(module)
        copy.costs = costs or copy.costs
        try:
            run_pipeline(copy, steps, log, instruments if strict else [watcher, *verifying], progress, required)
            if not strict:
                check_structure(copy, copy if any(map(changes_program, steps.passes())) else module)
            break
        except PassCrash as crash:
            crash.module = module
            if strict or (crash.required and verifying):
                raise
            if verifying:
                crashes[crash.pass_] = crash
                watcher.leave_out(crash.pass_)
        except VerificationError:
            if verifying:
                raise
        verifying = verifying or [VerifyEach(check)]
        watcher.count = 0
        shown.clear()
        log.rewind(*start)
        progress.runs = 0
        progress.later.clear()
    for pass_, ahead in shown:
        report(log, f"pass {pass_.name}", crashes[pass_].__cause__, "left out", ahead, Pipeline((pass_,)))
    return copy
