"""``hlotool compare``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy.typing as npt

from hlotool.cli.command_jobs import Splittable
from hlotool.cli.common import read_run
from hlotool.cli.compare_jobs import compare_jobs
from hlotool.cli.compare_report import Output, Report, json_report, text_report
from hlotool.cli.compare_values import Values
from hlotool.cli.error_drawing import check_drawing, draw_errors
from hlotool.cli.errors import CheckFailed
from hlotool.cli.executor_options import executor_options
from hlotool.cli.input_options import input_arrays, inputs_options
from hlotool.cli.interruptible import interruptible
from hlotool.cli.options import (
    backend_option,
    check_backend,
    devices_options,
    elided_option,
    finite_loops_option,
    format_option,
    max_undecided_option,
    numerics_options,
    strict_option,
    threads_option,
    tolerance_options,
)
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import named_pipeline, passes_options
from hlotool.cli.pipeline_options import has_excess_precision
from hlotool.cli.progress import progress
from hlotool.codegen.machine import host
from hlotool.driver import compile_module, on_devices, optimise
from hlotool.harness.all_values import ValuesComparison
from hlotool.harness.archive import read_arrays
from hlotool.harness.blame import Confirmation
from hlotool.harness.compare import Comparison, tolerance_of
from hlotool.harness.differences import differences
from hlotool.harness.elided import filled
from hlotool.harness.input_files import recorded_arrays
from hlotool.harness.inputs import inputs_of
from hlotool.harness.references import Judgement, Rules, Truth, judge, judge_by_arrays
from hlotool.ir import InputError, Module, Shape, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable

__all__ = ["command"]

Rows: TypeAlias = list[list[npt.NDArray[Any]]]

_WORDS = ("truth", "evaluate", "xla")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What the user asks for, by the names of the command line's parameters."""

    file: str
    against: str | None
    other: str | None
    other_passes: str | None
    inputs: str | None
    values: tuple[str, ...]
    seed: int | None
    edges: float | None
    backend: str
    passes: str
    atol: float | None
    rtol: float | None
    max_undecided: float
    xla_python: str | None
    replicas: int | None
    partitions: int | None
    elided: str | None
    threads: int | None
    excess_precision: bool
    flush_denormals: bool
    finite_loops: bool
    all_values: bool
    graph: str | None
    form: str
    output: str | None

    @property
    def rules(self) -> Rules:
        return Rules(tolerance_of(self.atol, self.rtol), self.max_undecided)

    @property
    def reference(self) -> str:
        """What is compared with, in words."""
        if self.other is not None or self.other_passes is not None:
            passes = f" with -p {self.other_passes}" if self.other_passes is not None else ""
            return (self.other or self.file) + passes
        return {None: "truth", "evaluate": "evaluator", "xla": "XLA"}.get(self.against, self.against or "")

    def prepared(self, module: Module) -> Module:
        """The module as it runs: on so many devices, with contents for constants that have none."""
        module = on_devices(module, self.replicas, self.partitions)
        return module if self.elided is None else filled(module, self.elided)

    def compiled(self, module: Module, passes: str, backend: str | None = None) -> Executable:
        return compile_module(
            module, backend or self.backend, named_pipeline(passes), self.threads, finite_loops=self.finite_loops,
            excess_precision=self.excess_precision, flush_denormals=self.flush_denormals,
        )  # fmt: skip


@click.command("compare", cls=Splittable)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--against",
    metavar="truth|evaluate|xla|REF.npz",
    help="What to compare with: the truth (the default), the evaluator, XLA in a child process, or the arrays out0, "
    "out1, ... of a file, as run -o saves them.",
)
@click.option(
    "--with",
    "other",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="OTHER",
    help="Compare with what this module gives on the same inputs.",
)
@click.option(
    "--with-passes",
    "other_passes",
    metavar="PIPELINE",
    help="The passes of the reference: of OTHER, or without it of FILE, which then is compared with itself.",
)
@click.option("--xla-python", metavar="PYTHON", help="A Python with jax; else HLOTOOL_XLA_PYTHON, else this one.")
@click.option(
    "--all-values",
    is_flag=True,
    help="Compare every value of the optimised module, too, and name the first that is wrong.",
)
@click.option(
    "--graph",
    type=click.Path(dir_okay=False),
    metavar="FILE.html|svg|png|dot",
    help="Draw the optimised module coloured by error, with wrong values outlined; implies --all-values.",
)
@inputs_options
@backend_option("cpu, evaluate, or an installed one.")
@passes_options()
@tolerance_options
@max_undecided_option("How much of an output may be undecided, as in 5% or 0.05.")
@devices_options
@elided_option
@threads_option
@numerics_options
@finite_loops_option
@executor_options("a FILE")
@strict_option
@format_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), metavar="OUT", help="Write here.")
def command(
    files: tuple[str, ...], executor: str | None, job_limit: float, journal: Path | None, **given: Any
) -> None:
    """Compare what FILE gives with what it should: exit code 0 where every output is ok, else 1.

    \b
        hlotool compare model.hlo
        hlotool compare model.hlo --with optimised.hlo --random 7
        hlotool compare model.hlo --with-passes none
        hlotool compare model.hlo --against xla --format json
        hlotool compare model.hlo --against saved.npz --inputs in.npz --rtol 1e-4
        hlotool compare model.hlo --all-values --graph errors.html
        hlotool compare a.hlo b.hlo --executor dask:tcp://10.0.0.1:8786

    The truth is what wider floats give, with a bound of the error of every element. Each output is ok, MISMATCH, or
    UNDECIDED where more of it than --max-undecided has no bound that says something: that is never ok. The outputs of
    two programs are both held against the truth of the reference; with a file, and with --atol or --rtol, it is their
    difference that counts.

    With --all-values every value of the optimised module is compared: inside of fusions, and of the first trip of
    loops, as the evaluator gives it, with the truth of the instruction that it stands for, which is found by structure,
    name, origin, the log of decisions or metadata; and what kernels give with the truth of the optimised module.
    So the first wrong value is named, with what it was made from, its source, and whether passes or native code are to
    blame; the blame is confirmed where the outputs are right once the right value is put in its place. A wrong value
    ends with exit code 1 even where no output shows it. Ctrl-C reports what is known so far.

    Of each output: quantiles of the absolute and relative difference and of that in units in the last place (ulp),
    where the first and the worst bad element are, how many are NaN or infinite on one side, and how the differences
    are spread.  Inputs are those of run: random values of seed 0 unless an option or FILE itself gives some.

    Several FILEs are compared each for itself, at the same time, with reports in their order; the exit code is that of
    the first which ends with an error, else 1 unless all are ok.
    """
    options = CompareOptions(file=files[0], **given)
    for file in files:
        _check(replace(options, file=file))
    if executor is None and len(files) == 1:
        _compare(options)
        return
    if len(files) > 1 and options.graph is not None:
        raise click.UsageError("--graph goes with one FILE")
    compare_jobs(files, executor or f"processes:{min(host().cores, len(files))}", job_limit, journal, given)


def _compare(options: CompareOptions) -> None:
    """Compare one file, in this process."""
    _, snapshot = read_run(options.file)
    module = options.prepared(snapshot.module)
    executable = options.compiled(module, options.passes)
    inputs = inputs_of(module)
    random = options.inputs is not None or options.seed is not None or options.edges is not None
    recorded = None if random else recorded_arrays(snapshot, executable.devices, len(inputs))
    arrays = input_arrays(
        inputs, executable.parameters, executable.devices, options.inputs, options.values, options.seed, recorded,
        options.edges,
    )  # fmt: skip
    outputs = _flat(interruptible(lambda: executable.run_devices(arrays)))
    other = None if options.other is None else options.prepared(read_run(options.other)[1].module)
    judgement = _judged(options, module, other, executable, arrays, outputs)
    report = _report(options, executable, outputs, judgement)
    if options.all_values or options.graph is not None:
        report = replace(report, values=_values(options, module, other, executable, arrays, outputs))
    write_text(options.output, (json_report if options.form == "json" else text_report)(report))
    if report.values is not None and options.graph is not None:
        draw_errors(report.values, options.graph)
    if report.values is not None and not report.values.complete:
        raise KeyboardInterrupt
    if report.verdict != "ok":
        raise CheckFailed


def _check(options: CompareOptions) -> None:
    """UsageError for options that do not go together."""
    check_backend(options.backend)
    if options.against is not None and (options.other is not None or options.other_passes is not None):
        raise click.UsageError("--against and --with each choose the reference: give one of them")
    if options.graph is not None:
        check_drawing(options.graph)
    if options.other == "-" and options.file == "-":
        raise click.UsageError("FILE and --with are both standard input")


def _flat(rows: Sequence[Sequence[npt.NDArray[Any]]]) -> list[npt.NDArray[Any]]:
    return [array for row in rows for array in row]


def _judged(
    options: CompareOptions,
    module: Module,
    other: Module | None,
    executable: Executable,
    arrays: Rows,
    outputs: list[npt.NDArray[Any]],
) -> Judgement:
    """The outputs of every device against the reference that the options choose."""
    devices, rules = executable.devices, options.rules
    if other is not None or options.other_passes is not None:
        other = other or module
        program = options.compiled(other, options.other_passes or options.passes)
        _check_alike(executable, program, options.reference)
        wanted = _flat(interruptible(lambda: program.run_devices(arrays)))
        return judge_by_arrays(outputs, wanted, rules, _truth(options, other, arrays))
    if options.against == "xla":
        return judge_by_arrays(outputs, _of_xla(options, module, arrays), rules, _truth(options, module, arrays))

    def evaluated() -> list[npt.NDArray[Any]]:
        return _flat(options.compiled(module, "none", "evaluate").run_devices(arrays))

    truth = _truth(options, module, arrays)
    if options.against == "evaluate":
        return judge_by_arrays(outputs, evaluated(), rules, truth)
    if options.against in (None, "truth"):
        return judge(outputs, truth, evaluated, rules)
    assert options.against is not None
    saved = [a for device in range(devices) for a in read_arrays(options.against, "out", executable.outputs, device)]
    return judge_by_arrays(outputs, saved, rules)


def _values(
    options: CompareOptions,
    module: Module,
    other: Module | None,
    executable: Executable,
    arrays: Rows,
    outputs: list[npt.NDArray[Any]],
) -> Values:
    """The values of the optimised module against those of FILE, or of OTHER; those so far after Ctrl-C."""
    if executable.devices > 1 or options.flush_denormals:
        raise click.UsageError("--all-values is for one device, and without --flush-denormals")
    native = executable.program is not None
    made = executable.module if native else optimise(module, named_pipeline(options.passes))

    def compiled(variant: Module) -> Callable[..., tuple[npt.NDArray[Any], ...]]:
        program = options.compiled(variant, "none")
        return lambda *given: interruptible(lambda: program.run(*given))

    truth = _truth(options, module, arrays)
    with progress() as tell:
        comparison = ValuesComparison(
            original=other or module, made=made, arrays=arrays[0], decisions=executable.decisions,
            compile_=compiled if native else None, same_names=other is None,
            excess_precision=truth is not None and truth.excess_precision, max_undecided=options.max_undecided,
            tell=tell,
        )  # fmt: skip
        with suppress(KeyboardInterrupt):
            comparison.run(outputs)
        rows, first = comparison.rows(), comparison.first_divergence()
        confirmation, complete = None, comparison.complete
        if first is not None:
            confirmation, complete = Confirmation("undecided", "interrupted"), False
            if comparison.complete:
                with suppress(KeyboardInterrupt):
                    confirmation, complete = comparison.confirm(first, outputs), True
    return Values(
        made=made, rows=rows, first=first, confirmation=confirmation, moved=comparison.moved,
        complete=complete,
    )  # fmt: skip


def _truth(options: CompareOptions, module: Module, arrays: Rows) -> Truth | None:
    """The truth of a module; None where it knows none: on several devices, or where subnormal numbers are zeros."""
    if len(arrays) > 1 or options.flush_denormals:
        return None
    passes = [text for text in (options.passes, options.other_passes) if text is not None]
    return Truth(module, arrays[0], options.excess_precision or has_excess_precision(passes))


def _check_alike(executable: Executable, other: Executable, name: str) -> None:
    """InputError where two programs take or give different arrays."""
    for what, ours, theirs in (
        ("takes", executable.parameters, other.parameters), ("gives", executable.outputs, other.outputs),
    ):  # fmt: skip
        if list(map(_plain, ours)) != list(map(_plain, theirs)):
            raise InputError(f"{name} {what} ({_list(theirs)}), the module that is compared with it ({_list(ours)})")
    if executable.devices != other.devices:
        raise InputError(f"{name} runs on {other.devices} devices, the module that is compared with it on "
                         f"{executable.devices}")  # fmt: skip


def _plain(shape: Shape) -> Shape:
    return shape.without_layout()


def _list(shapes: Sequence[Shape]) -> str:
    return ", ".join(str(_plain(shape)) for shape in shapes)


def _of_xla(options: CompareOptions, module: Module, arrays: Rows) -> list[npt.NDArray[Any]]:
    """What XLA's CPU backend gives, in a child process; UnsupportedError says how to get it."""
    from hlotool.harness.xla import RefusedError, Xla
    from hlotool.text.printer import print_module

    if len(arrays) > 1:
        raise click.UsageError("--against xla is for programs on one device")
    try:
        with Xla(options.xla_python) as xla:
            xla.compile(print_module(module))
            xla.give(arrays[0])
            return list(xla.run()[0])
    except RefusedError:
        raise
    except UnsupportedError as error:
        raise UnsupportedError(
            f"{error.message}; XLA needs a Python with jax, as 'pip install jax' makes one: --xla-python PYTHON, or "
            "HLOTOOL_XLA_PYTHON"
        ) from None


def _report(
    options: CompareOptions, executable: Executable, outputs: list[npt.NDArray[Any]], judgement: Judgement
) -> Report:
    shapes = [shape for _ in range(executable.devices) for shape in executable.outputs]
    rows = []
    of_reference: Sequence[Comparison | None] = judgement.of_reference or [None] * len(outputs)
    pairs = zip(shapes, outputs, judgement.wanted, judgement.comparisons, of_reference, strict=True)
    for number, (shape, got, wanted, comparison, other) in enumerate(pairs):
        device, place = divmod(number, len(executable.outputs))
        alike = got.shape == wanted.shape
        rows.append(
            Output(
                name=f"out{place}" + (f"@{device}" if executable.devices > 1 else ""),
                shape=str(_plain(shape)),
                comparison=comparison,
                of_reference=other,
                differences=differences(got, wanted, shape.element_type) if alike else None,
            )
        )
    return Report(file=options.file, reference=options.reference, by=judgement.by, outputs=rows)
