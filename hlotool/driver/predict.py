"""How long a module will take, before it is compiled: what the model of `hlotool.analysis.performance` says."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.gain import USUAL
from hlotool.analysis.performance import ModulePrediction, Performance
from hlotool.codegen.machine import Machine, default_machine
from hlotool.codegen.prediction import predicted
from hlotool.driver.cpu import lower
from hlotool.driver.failures import is_strict
from hlotool.driver.options import CompileOptions
from hlotool.ir import Instruction, Module
from hlotool.ir.collector import collector_paused
from hlotool.ir.cut import cut
from hlotool.ir.depth import room
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.steps import Pipeline
from hlotool.runtime.performance import performance_of
from hlotool.runtime.pool import default_threads

__all__ = ["Forecast", "predict", "predicted_apart_and_together"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is predicted of `module`, as code generation gets it, by the figures of `performance`; `note` is about a
    calibration that could not be used."""

    module: Module
    prediction: ModulePrediction
    performance: Performance
    note: str = ""

    @property
    def seconds(self) -> float:
        """All kernels, one after the other."""
        return self.prediction.seconds


def predict(
    module: Module,
    pipeline: str | Pipeline = "default",
    *,
    machine: Machine | None = None,
    threads: int | None = None,
    performance: Performance | None = None,
    log: DecisionLog | None = None,
) -> Forecast:
    """How long the kernels of `module` take after `pipeline`, on `machine` with so many threads (this one, all).

    Nothing is compiled, but kernels are written: some milliseconds for each.  UnsupportedError names an instruction
    without native code; KernelCrash those whose kernels could not be written.
    """
    machine = default_machine() if machine is None else machine
    threads = default_threads() if threads is None else threads
    note = ""
    if performance is None:
        found = performance_of(machine, threads)
        performance, note = found.performance, found.note
    steps = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    options = CompileOptions(
        pipeline=steps, machine=machine, threads=threads, log=DecisionLog() if log is None else log,
        strict=is_strict(None), to_run=False,
    )  # fmt: skip
    with room(module), collector_paused():
        lowered = lower(module, options, False)
        prediction = predicted(lowered, performance, machine, threads)
    return Forecast(module=lowered, prediction=prediction, performance=performance, note=note)


def predicted_apart_and_together(instructions: Sequence[Instruction]) -> tuple[float, float]:
    """The seconds of instructions of one computation with a native call for each, and compiled together.

    The time of calls is that of `hlotool.analysis.gain`.  UnsupportedError and KernelCrash as of `predict`.
    """
    apart = [predict(cut([one]).module).seconds + USUAL.call for one in instructions]
    return sum(apart), predict(cut(instructions).module).seconds + USUAL.call
