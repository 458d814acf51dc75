"""The performance of a machine: as it was calibrated, which the cache keeps, else the figures that are built in."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from hlotool.analysis.figures import BUILT_IN
from hlotool.analysis.performance import FIGURES, Performance
from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import default_cache
from hlotool.runtime.cache_key import Key
from hlotool.version import __version__

__all__ = ["Found", "built_in", "keep_performance", "performance_of"]


@dataclass(frozen=True, slots=True)
class Found:
    """A performance, and a note where a calibration was there that could not be used."""

    performance: Performance
    note: str = ""


def performance_of(machine: Machine, threads: int) -> Found:
    """The figures of `machine` with so many threads: calibrated ones where the cache has them, else built in."""
    cache = default_cache()
    key = _key(machine, threads)
    if cache is None or not cache.has(key.digest):
        return Found(built_in(machine, threads))
    content = cache.get(key.digest)
    try:
        if content is None:
            raise ValueError("the file is damaged")
        figures = _read(content)
    except ValueError as error:
        note = f"the calibration of this machine is not used: {error}; 'hlotool doctor --calibrate' makes a new one"
        return Found(built_in(machine, threads), note)
    return Found(Performance(cpu=machine.cpu, threads=threads, origin="calibrated", figures=figures))


def built_in(machine: Machine, threads: int) -> Performance:
    """The figures for processors that have vectors as long: measured on one of them."""
    level = "generic"
    if machine.architecture == "x86_64":
        level = "x86-64-v4" if machine.vector_bits >= 512 else "x86-64-v3" if machine.vector_bits == 256 else level
    return Performance(cpu=level, threads=threads, origin="built in", figures=BUILT_IN[level])


def keep_performance(machine: Machine, performance: Performance) -> bool:
    """Put a calibration into the cache; False where there is none, or it does not take it."""
    cache, key = default_cache(), _key(machine, performance.threads)
    content = json.dumps({"figures": dict(performance.figures)}).encode()
    return cache is not None and cache.put(key.digest, content, key.about_bytes())


def _key(machine: Machine, threads: int) -> Key:
    parts = {
        "hlotool": __version__, "triple": machine.triple, "cpu": machine.cpu, "features": machine.features,
        "vectors": str(machine.vector_bits), "threads": str(threads),
    }  # fmt: skip
    return Key("performance", f"{machine.cpu}, {threads} threads", parts)


def _read(content: bytes) -> Mapping[str, float]:
    """The figures of a file; ValueError where they are not what this version asks for."""
    try:
        found = json.loads(content)["figures"]
        figures = {name: float(found[name]) for name in FIGURES}
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError("the file holds no figures of this version") from error
    if not all(0 < figure < math.inf for figure in figures.values()):
        raise ValueError("a figure is not a positive number")
    return figures
