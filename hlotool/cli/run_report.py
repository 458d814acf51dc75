"""What becomes of the outputs of ``hlotool run``: saved, compared, printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from hlotool.cli.output import write_bytes
from hlotool.cli.run_options import RunOptions
from hlotool.cli.runnable import Runnable
from hlotool.cli.words import say
from hlotool.harness.archive import read_arrays, write_named
from hlotool.harness.compare import Comparison, verdict_of
from hlotool.harness.references import Truth, judge, judge_by_arrays
from hlotool.harness.safetensors import write_safetensors
from hlotool.ir import Shape

if TYPE_CHECKING:
    from hlotool.evaluate.feeds import Feeds

__all__ = ["compared", "feeds_of", "output_names", "report", "save"]


def output_names(program: Runnable, devices: Sequence[int]) -> list[str]:
    """What the outputs of `devices` are called, in order."""
    return [f"out{n}" + _at(d, program.devices) for d in devices for n in range(len(program.outputs))]


def compared(
    options: RunOptions, program: Runnable, arrays: list[list[npt.NDArray[Any]]], results: list[npt.NDArray[Any]]
) -> list[Comparison]:
    """The results of all devices against what --compare names, or what the file holds."""
    devices, recorded = program.devices, program.recorded
    if options.reference == "evaluate":
        return _evaluated(options, program, arrays, results)
    if options.reference is not None:
        expected = [a for d in range(devices) for a in read_arrays(options.reference, "out", program.outputs, d)]
        return judge_by_arrays(results, expected, options.rules).comparisons
    random = options.inputs is not None or options.seed is not None or options.edges is not None
    own = recorded is not None and not random and not options.values
    if own and program.result is not None and devices == 1:
        return judge_by_arrays(results, program.result, options.rules).comparisons
    return []


def save(
    options: RunOptions, program: Runnable, results: Mapping[str, npt.NDArray[Any]], feeds: Feeds | None
) -> None:
    """Write the files that were asked for."""
    if options.output is not None:
        write = write_safetensors if options.output.endswith(".safetensors") else write_named
        write_bytes(options.output, lambda stream: write(stream, results.items()))
    if options.outfeed is not None and feeds is not None:
        from hlotool.harness.feeds import write_feeds

        write_bytes(options.outfeed, lambda stream: write_feeds(stream, feeds, program.devices))


def _evaluated(
    options: RunOptions, program: Runnable, arrays: list[list[npt.NDArray[Any]]], results: list[npt.NDArray[Any]]
) -> list[Comparison]:
    """Results against those of the evaluator: within their error bounds, unless there are none or a tolerance says."""
    from hlotool.driver import compile_module

    module, flush = program.module, options.flush_denormals
    assert module is not None

    def evaluated() -> list[npt.NDArray[Any]]:
        found = compile_module(
            module, "evaluate", replicas=options.replicas, partitions=options.partitions, flush_denormals=flush
        )
        return [array for row in found.run_devices(arrays, feeds_of(options, program.devices)) for array in row]

    alone = program.devices == 1 and options.infeed is None and options.outfeed is None
    truth = Truth(module, arrays[0], _leaves_out_roundings(options)) if alone and not flush else None
    return judge(results, truth, evaluated, options.rules).comparisons


def _leaves_out_roundings(options: RunOptions) -> bool:
    """Whether values of narrow types keep more digits, by option or by a pass."""
    from hlotool.cli.pipeline_options import has_excess_precision

    return options.excess_precision or has_excess_precision([options.passes])


def _at(device: int, devices: int) -> str:
    return f"@{device}" if devices > 1 else ""


def feeds_of(options: RunOptions, devices: int) -> Feeds | None:
    """The queues that --infeed and --outfeed ask for."""
    if options.infeed is None and options.outfeed is None:
        return None
    from hlotool.evaluate.feeds import Feeds
    from hlotool.harness.feeds import read_feeds

    return Feeds() if options.infeed is None else read_feeds(options.infeed, devices)


def report(
    names: list[str],
    shapes: list[Shape],
    outputs: list[npt.NDArray[Any]],
    comparisons: list[Comparison],
    form: str,
    *,
    quiet: bool,
    more: Mapping[str, Any],
) -> None:
    if form == "json":
        rows = [_row(name, shape, array) for name, shape, array in zip(names, shapes, outputs, strict=True)]
        for row, comparison in zip(rows, comparisons, strict=False):
            row.update(comparison.row())
        verdict = {"verdict": verdict_of(comparisons)} if comparisons else {}
        click.echo(json.dumps({"schema_version": 1, "kind": "run", **verdict, **more, "outputs": rows}))
        return
    if not quiet:
        for name, shape, array in zip(names, shapes, outputs, strict=True):
            with np.printoptions(threshold=64, edgeitems=3, linewidth=110):
                say(f"{name}: {shape}\n{array}")
    for name, comparison in zip(names, comparisons, strict=False):
        say(f"{name}: {comparison.verdict}: {comparison}", err=not comparison.ok)


def _row(name: str, shape: Shape, array: npt.NDArray[Any]) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        finite = np.isfinite(wide)
        mean = wide[finite].mean() if finite.any() else None
    return {
        "name": name,
        "shape": str(shape),
        "mean": None if mean is None else [mean.real, mean.imag] if array.dtype.kind == "c" else float(mean),
        "finite": int(finite.sum()),
    }
