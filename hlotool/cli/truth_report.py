"""``hlotool run --backend evaluate --precision f64``: true values with error bounds, and what they say of a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from hlotool.cli.errors import CheckFailed
from hlotool.cli.output import write_bytes
from hlotool.cli.words import say
from hlotool.evaluate.bounds import Bounded
from hlotool.harness.archive import read_arrays, write_named
from hlotool.harness.compare import Comparison, verdict_of
from hlotool.harness.references import Rules, Truth, judge_by_truth
from hlotool.ir import Module, Shape

__all__ = ["report_truth"]


def report_truth(
    module: Module,
    arrays: Sequence[npt.NDArray[Any]],
    shapes: Sequence[Shape],
    output: str | None,
    reference: str | None,
    form: str,
    max_undecided: float,
    excess_precision: bool = False,
) -> None:
    """Print the values and bounds (or save them: ``out0, bound0, out1...``); compare the arrays of a file with them."""
    truth = Truth(module, arrays, excess_precision)
    found = truth.bounds()
    if output is not None:
        named = [pair for n, t in enumerate(found) for pair in ((f"out{n}", _storable(t)), (f"bound{n}", t.errors()))]
        write_bytes(output, lambda stream: write_named(stream, named))
    comparisons: list[Comparison] = []
    if reference is not None:
        rules = Rules(max_undecided=max_undecided)
        comparisons = judge_by_truth(read_arrays(reference, "out", shapes), truth, rules).comparisons
    if form == "json":
        rows = [_row(shape, t) for shape, t in zip(shapes, found, strict=True)]
        for row, comparison in zip(rows, comparisons, strict=False):
            row.update(comparison.row())
        verdict = {"verdict": verdict_of(comparisons)} if comparisons else {}
        click.echo(json.dumps({"schema_version": 1, "kind": "truth", **verdict, "outputs": rows}))
    else:
        for number, (shape, t) in enumerate(zip(shapes, found, strict=True)):
            if output is None:
                with np.printoptions(threshold=64, edgeitems=3, linewidth=110):
                    say(f"out{number}: {shape}\n{t.value}\nwithin\n{np.array(t.errors())}")
            row = _row(shape, t)
            bound = "nothing is decided" if row["largest_bound"] is None else f"at most {row['largest_bound']:.3g}"
            say(f"out{number}: bound: {bound}; undecided: {row['undecided']} of {t.value.size}")
        for number, comparison in enumerate(comparisons):
            say(f"out{number}: {comparison.verdict}: {comparison}", err=not comparison.ok)
    if not all(c.ok for c in comparisons):
        raise CheckFailed


def _storable(t: Bounded) -> npt.NDArray[Any]:
    """Values of extended precision as f64, which every reader of archives knows."""
    if t.value.dtype == np.longdouble:
        return t.value.astype(np.float64)
    return t.value.astype(np.complex128) if t.value.dtype == np.clongdouble else t.value


def _row(shape: Shape, t: Bounded) -> dict[str, Any]:
    errors = np.asarray(t.errors())
    decided = errors[np.isfinite(errors)]
    row: dict[str, Any] = {"shape": str(shape), "undecided": int(errors.size - decided.size)}
    row["largest_bound"] = float(decided.max()) if decided.size else None if errors.size else 0.0
    row["median_bound"] = float(np.median(decided)) if decided.size else None
    return row
