"""What a model expects of a configuration, before anything is measured: the one place that asks it.

The seconds of a request are those of its kernels (`hlotool.driver.predict`), as code is written for the number of
threads that a replica has; of tuned kernels, less what they gained when they were tuned.  Replicas are taken not to
disturb each other.  The bytes are those that are alive at once in the optimised module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.peak_memory import peak_bytes
from hlotool.codegen.machine import Machine, default_machine
from hlotool.driver.predict import Forecast, predict
from hlotool.driver.tuned import Tuned, tuned_for
from hlotool.harness.application.batching import with_batch
from hlotool.harness.application.measure import Figures
from hlotool.harness.application.replica import load_application, machine_for, tuning_for
from hlotool.harness.application.space import Configuration
from hlotool.harness.tune import Subject, kernels_in
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.performance import performance_of

__all__ = ["Expectation", "expect", "figures_for", "form_of", "kernels_to_tune"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """The seconds of a request by the number of threads, the same with tuned kernels where a database has some, and the
    bytes that it takes."""

    seconds: Mapping[int, float]
    tuned: Mapping[int, float]
    peak_bytes: int


def form_of(configuration: Configuration) -> tuple[str, str, str, int]:
    """What an expectation depends on, threads and tuning aside."""
    return configuration.level, configuration.precision, configuration.target, configuration.batch


def expect(folder: str, configuration: Configuration, threads: Sequence[int]) -> Expectation:
    """What is expected of all configurations of this form, with any of these numbers of threads."""
    seconds, tuned, peak = dict[int, float](), dict[int, float](), 0
    for count in threads:
        found = _forecasts(folder, configuration, count)
        seconds[count] = sum(forecast.seconds for forecast in found)
        machine = machine_for(configuration.target, count)
        database = tuned_for(machine, tuning_for(folder, "read"), DecisionLog())
        saved = [_saved(forecast, database) for forecast in found]
        if any(one is not None for one in saved):
            tuned[count] = seconds[count] - sum(one or 0.0 for one in saved)
        peak = max([peak, *(peak_bytes(forecast.module) for forecast in found)])
    return Expectation(seconds, tuned, peak)


def kernels_to_tune(folder: str, configuration: Configuration) -> list[Subject]:
    """The kernels of a configuration, those first that are expected to take longest."""
    found: dict[str, Subject] = {}
    for forecast in _forecasts(folder, configuration, configuration.threads):
        for one in kernels_in(forecast.module, forecast.prediction.times()):
            if one.key not in found or found[one.key].seconds < one.seconds:
                found[one.key] = one
    return sorted(found.values(), key=lambda one: -one.seconds)


def _forecasts(folder: str, configuration: Configuration, threads: int) -> list[Forecast]:
    application = load_application(folder, configuration.precision)
    machine = machine_for(configuration.target, threads)
    performance = performance_of(_calibrated_as(configuration.target, machine), threads).performance
    return [
        predict(
            with_batch(module, application.over, configuration.batch), configuration.pipeline, machine=machine,
            threads=threads, performance=performance,
        )
        for module in application.modules().values()
    ]  # fmt: skip


def _calibrated_as(target: str, machine: Machine) -> Machine:
    """The machine by whose name the figures are kept: this one is calibrated as it is, with all that it has."""
    return default_machine() if target == "host" else machine


def _saved(forecast: Forecast, database: Tuned) -> float | None:
    """The seconds that tuned kernels save; None where there are none."""
    gains = database.gains(forecast.module)
    if not gains:
        return None
    return sum(kernel.seconds * gains.get(kernel.instruction, 0.0) for kernel in forecast.prediction.kernels)


def figures_for(configuration: Configuration, expected: Expectation) -> Figures | None:
    """The figures of one configuration; None where no database has a kernel of one that reads them."""
    of = expected.tuned if configuration.tuning == "read" else expected.seconds
    seconds = of.get(configuration.threads)
    if seconds is None:
        return None
    items = (configuration.batch or 1) * configuration.replicas
    return Figures(
        latency=seconds, throughput=items / seconds if seconds else None,
        memory=expected.peak_bytes * configuration.replicas,
    )  # fmt: skip
