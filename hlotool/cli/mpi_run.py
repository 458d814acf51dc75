"""``hlotool run --devices mpi``: one process of an MPI job."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

import click
import numpy as np
import numpy.typing as npt

from hlotool.cli.errors import CheckFailed
from hlotool.cli.input_options import input_arrays
from hlotool.cli.interruptible import interruptible
from hlotool.cli.options import check_backend
from hlotool.cli.run_options import RunOptions
from hlotool.cli.run_report import compared, output_names, report, save
from hlotool.cli.runnable import Rows, Runnable, compiled
from hlotool.cli.words import say
from hlotool.devices.mpi import MpiDevices
from hlotool.ir import ExecutionError, Module, Shape, dtype_of
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable

__all__ = ["run_over_mpi"]

_RANK = "{rank}"


def run_over_mpi(options: RunOptions) -> int | None:
    """The part of this process; what ends it, ends all of them."""
    _check(options)
    devices = MpiDevices(assignment=options.assignment, fast=options.fast_collectives)
    loud = sys.stderr
    if devices.rank:
        sys.stdout, sys.stderr = _streams(devices.rank, options.log_ranks)
    signal.signal(signal.SIGTERM, lambda *_: _end(devices, loud, "a signal of the launcher ended it"))
    devices.control.last_resort = lambda: _end(devices, loud, "it did not end")
    try:
        return _run(options, devices)
    except ExecutionError as error:
        if devices.control.failure is None:
            raise
        _end(devices, loud, str(error))


def _run(options: RunOptions, devices: MpiDevices) -> int | None:
    later, error = _Later(), None
    try:
        check_backend(options.backend)
        program = compiled(options, later)
        arrays = _arrays(options, program)
    except Exception as found:
        error = found
    devices.agree({"what came of reading and compiling": "" if error is None else f"{type(error).__name__}: {error}"})
    if error is not None:
        raise error  # the same everywhere: rank 0 says it
    executable = later.attached(devices)
    here = executable.here or ()
    mine = [arrays[device] for device in here]
    for _ in range(options.repeat):
        kept = [[array.copy() for array in row] for row in mine] if options.donate else mine
        outputs = interruptible(lambda kept=kept: executable.run_devices(kept))  # type: ignore[misc]
    own_files = options.output is not None and _RANK in options.output
    if own_files:
        _save_own(options, program, devices.rank, here, outputs)
    code = 0
    if not own_files or options.reference is not None:
        found_outputs = _all_outputs(devices, program, here, outputs, options.assignment, executable)
        if found_outputs is not None:
            code = _told(options, program, arrays, found_outputs, saves=not own_files)
    code = devices.told(code)
    if code:
        raise CheckFailed
    return None


def _check(options: RunOptions) -> None:
    refused = {
        "--bitwise": options.bitwise, "--precision f64": options.precision != "declared",
        "--infeed": options.infeed is not None, "--outfeed": options.outfeed is not None,
    }  # fmt: skip
    for name, given in refused.items():
        if given:
            raise click.UsageError(f"{name} is for devices in one process, not for --devices mpi")


def _arrays(options: RunOptions, program: Runnable) -> Rows:
    random = options.inputs is not None or options.seed is not None or options.edges is not None
    return input_arrays(
        program.inputs, program.parameters, program.devices, options.inputs, options.values, options.seed,
        None if random else program.recorded, options.edges,
    )  # fmt: skip


@dataclass(slots=True)
class _Later:
    """Keeps what was compiled until all ranks have got so far."""

    kept: tuple[Executable, Module, str] | None = None

    def attach(self, executable: Executable, module: Module, options: str) -> Executable:
        self.kept = executable, module, options
        return executable

    def attached(self, devices: MpiDevices) -> Executable:
        assert self.kept is not None
        return devices.attach(*self.kept)


def _save_own(
    options: RunOptions, program: Runnable, rank: int, here: Sequence[int], outputs: Sequence[Sequence[Any]]
) -> None:
    from dataclasses import replace

    assert options.output is not None
    names = output_names(program, here)
    own = replace(options, output=options.output.replace(_RANK, str(rank)))
    save(own, program, dict(zip(names, [array for row in outputs for array in row], strict=True)), None)


def _told(
    options: RunOptions, program: Runnable, arrays: Rows, results: list[npt.NDArray[Any]], *, saves: bool
) -> int:
    """At rank 0: save, compare and print the outputs of all devices; the exit code."""
    names = output_names(program, range(program.devices))
    if saves:
        save(options, program, dict(zip(names, results, strict=True)), None)
    comparisons = compared(options, program, arrays, results)
    shapes: list[Shape] = list(program.outputs) * program.devices
    report(names, shapes, results, comparisons, options.form, quiet=options.output is not None, more={})
    return int(not all(one.ok for one in comparisons))


def _all_outputs(
    devices: MpiDevices, program: Runnable, here: Sequence[int], outputs: Sequence[Sequence[npt.NDArray[Any]]],
    assignment: Sequence[int] | None, executable: Executable,
) -> list[npt.NDArray[Any]] | None:  # fmt: skip
    """At rank 0 the outputs of all devices, in order."""
    heads = devices.gathered(json.dumps([list(here), [[a.shape for a in row] for row in outputs]]).encode())
    bodies = devices.gathered(b"".join(np.asarray(a, order="C").tobytes() for row in outputs for a in row))
    if heads is None or bodies is None:
        return None
    rows: dict[int, list[npt.NDArray[Any]]] = {}
    for head, body in zip(heads, bodies, strict=True):
        at = 0
        for device, shapes in zip(*json.loads(head), strict=True):
            rows[device] = []
            for shape, output in zip(shapes, program.outputs, strict=True):
                dtype = dtype_of(output.element_type)
                count = int(np.prod(shape, dtype=np.int64))
                rows[device].append(np.frombuffer(body, dtype, count, at).reshape(shape))
                at += count * dtype.itemsize
    return [array for device in sorted(rows) for array in rows[device]]


# ---- printing, ending


class _Lines(io.TextIOBase):
    """Writes lines with the number of a rank in front."""

    def __init__(self, rank: int, stream: TextIO) -> None:
        self._head, self._stream, self._rest = f"[rank {rank}] ", stream, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        self._stream.write("".join(f"{self._head}{line}\n" for line in lines))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def _streams(rank: int, loud: bool) -> tuple[Any, Any]:
    if loud:
        return _Lines(rank, sys.stdout), _Lines(rank, sys.stderr)
    nobody = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # for as long as the process lives
    return nobody, nobody


def _end(devices: MpiDevices, loud: TextIO, text: str) -> NoReturn:
    """End this process after a failure with exit code 5: one rank says what happened, and MPI cannot end in order."""
    control = devices.control
    control.look()
    failure = control.fail(f"rank {control.rank}: {text}")
    if control.speaker == control.rank or not control.wait_until_said(5):
        sys.stderr = loud
        say(f"error: {failure.text}", err=True)
        loud.flush()
        control.said()
    sys.stdout.flush()
    os._exit(5)
