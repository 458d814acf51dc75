"""The clusters of a module for a backend: what ``explain clusters`` and ``graph --clusters`` show."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from hlotool.analysis.clusters import Partition
from hlotool.cli.common import read_module
from hlotool.cli.options import check_backend

__all__ = ["clusters_json", "clusters_text", "partition_of"]


def partition_of(file: str, backend: str) -> tuple[Partition, str]:
    """How the module of FILE is cut for a backend, and the name of the one that does the rest."""
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
    return clusters_of(found, module, reasons(found, module, options)), found.fallback


def clusters_text(cut: Partition, fallback: str) -> str:
    """What is compiled, why the rest is not, and what each operation would bring if it were."""
    lines = [cut.report().text(), *([f"what falls back is compiled by {fallback}"] if cut.fallbacks else [])]
    rows = cut.what_if_each()
    if rows:
        lines += ["", "what if it could be compiled:", *(f"  {row.text()}" for row in rows)]
    return "\n".join(lines)


def clusters_json(cut: Partition, backend: str, fallback: str) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schema_version": 1, "kind": "explain-clusters", "backend": backend, "fallback": fallback,
        "report": asdict(cut.report()), "what_if": [asdict(row) for row in cut.what_if_each()],
    }  # fmt: skip
