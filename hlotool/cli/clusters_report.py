"""The clusters of a module for a backend: what ``explain clusters`` and ``graph --clusters`` show."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from hlotool.analysis.clusters import Partition
from hlotool.cli.common import read_module
from hlotool.cli.options import check_backend
from hlotool.cli.tables import time_text
from hlotool.ir import HloError, Module
from hlotool.lazy_dataclass import dataclass

__all__ = ["Clusters", "clusters_json", "clusters_of_file", "clusters_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """How a `module` is cut for a `backend`, and the name of the one that does the rest."""

    module: Module
    cut: Partition
    backend: str
    fallback: str


def clusters_of_file(file: str, backend: str) -> Clusters:
    """How the module of FILE is cut for a backend; a usage error where that takes whole modules."""
    from hlotool.codegen.machine import default_machine
    from hlotool.driver import CompileOptions, find_backend, is_strict
    from hlotool.driver.clusters import clusters_of, prepared
    from hlotool.driver.support import reasons
    from hlotool.passes.framework.steps import Pipeline

    check_backend(backend)
    found = find_backend(backend)
    if found.fallback is None:
        raise click.UsageError(f"backend {backend} takes whole modules, and cuts no clusters")
    options = CompileOptions(pipeline=Pipeline(()), machine=default_machine(), strict=is_strict())
    module = prepared(found, read_module(file), options)
    cut = clusters_of(found, module, reasons(found, module, options))
    return Clusters(module=module, cut=cut, backend=backend, fallback=found.fallback)


def _predicted(clusters: Clusters) -> list[tuple[float, float] | None]:
    """Of each cluster the seconds of its operations one by one and compiled together, as native code; None where there
    is none."""
    from hlotool.codegen.kernel import KernelCrash
    from hlotool.driver.predict import predicted_apart_and_together

    by_name = {one.name: one for one in clusters.module.entry}
    found: list[tuple[float, float] | None] = []
    for part in clusters.cut.clusters:
        try:
            found.append(predicted_apart_and_together([by_name[node.name] for node in part.nodes]))
        except (HloError, KernelCrash):
            found.append(None)
    return found


def clusters_text(clusters: Clusters) -> str:
    """What is compiled, why the rest is not, what each operation would bring if it were, and how long native code for
    the clusters would take."""
    cut = clusters.cut
    lines = [cut.report().text(), *([f"what falls back is compiled by {clusters.fallback}"] if cut.fallbacks else [])]
    rows = cut.what_if_each()
    if rows:
        lines += ["", "what if it could be compiled:", *(f"  {row.text()}" for row in rows)]
    predicted = _predicted(clusters)
    if predicted:
        lines += ["", "predicted, as native code for this machine, a call each and together:"]
    for part, times in zip(cut.clusters, predicted, strict=True):
        said = "nothing" if times is None else f"{time_text(times[0])} and {time_text(times[1])}"
        lines.append(f"  {part.nodes[0].name} to {part.nodes[-1].name}: {said}")
    return "\n".join(lines)


def clusters_json(clusters: Clusters) -> dict[str, Any]:
    """The same for programs."""
    cut = clusters.cut
    return {
        "schema_version": 1, "kind": "explain-clusters", "backend": clusters.backend, "fallback": clusters.fallback,
        "report": asdict(cut.report()), "what_if": [asdict(row) for row in cut.what_if_each()],
        "predicted": [
            None if times is None else {"one_by_one_s": times[0], "compiled_s": times[1]}
            for times in _predicted(clusters)
        ],
    }  # fmt: skip
