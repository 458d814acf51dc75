"""What a model expects of a configuration, before anything is measured: the one place that asks it.

The seconds of a request are those of the roofline, kernel by kernel, for the number of threads that a replica has;
replicas are taken not to disturb each other.  The bytes are those that are alive at once in the optimised module.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.peak_memory import peak_bytes
from hlotool.analysis.roofline import Roof
from hlotool.driver import optimise
from hlotool.harness.application.batching import with_batch
from hlotool.harness.application.measure import Figures
from hlotool.harness.application.replica import load_application
from hlotool.harness.application.space import Configuration
from hlotool.harness.roof import measure_roof
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.pipeline import parse_pipeline

__all__ = ["Expectation", "expect", "figures_for", "form_of", "roofs_for"]

_DISPATCH_SECONDS = 1e-6
"""Of every kernel, besides its work."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The seconds of a request by the number of threads, and the bytes that it takes."""

    seconds: Mapping[int, float]
    peak_bytes: int


def form_of(configuration: Configuration) -> tuple[str, str, str, int]:
    """What an expectation depends on, threads aside."""
    return configuration.level, configuration.precision, configuration.target, configuration.batch


def roofs_for(threads: tuple[int, ...]) -> dict[int, Roof]:
    """The roofs of this machine by the number of threads: about a second for each."""
    return {count: measure_roof(count) for count in threads}


def expect(folder: str, configuration: Configuration, roofs: Mapping[int, Roof]) -> Expectation:
    """What is expected of all configurations of this form, with any number of threads that there is a roof for."""
    application = load_application(folder)
    pipeline = parse_pipeline(configuration.pipeline)
    modules = [
        optimise(with_batch(module, application.over, configuration.batch), pipeline)
        for module in application.modules().values()
    ]
    seconds = {threads: sum(_seconds(module, roof) for module in modules) for threads, roof in roofs.items()}
    return Expectation(seconds, max(map(peak_bytes, modules)))


def _seconds(module: Module, roof: Roof) -> float:
    cost, total = ModuleCost(module), 0.0
    for instruction in module.entry:
        own = cost.of(instruction)
        if own.bytes or own.flops or own.transcendentals:
            total += roof.seconds(own, own.bytes) + _DISPATCH_SECONDS
    return total


def figures_for(configuration: Configuration, expected: Expectation) -> Figures:
    """The figures of one configuration."""
    seconds = expected.seconds[configuration.threads]
    items = (configuration.batch or 1) * configuration.replicas
    return Figures(
        latency=seconds, throughput=items / seconds if seconds else None,
        memory=expected.peak_bytes * configuration.replicas,
    )  # fmt: skip
