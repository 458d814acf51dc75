"""What ``hlotool run`` runs: a file compiled now, or the code that an earlier run left in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy.typing as npt

from hlotool.cli.run_options import RunOptions
from hlotool.cli.warm import digest_of_file, recall, remember
from hlotool.harness.input_files import arrays_of, recorded_arrays
from hlotool.harness.inputs import Input
from hlotool.ir import Module, Shape
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.image import load_image

if TYPE_CHECKING:
    from hlotool.driver.options import Devices
    from hlotool.evaluate.feeds import Feeds

__all__ = ["Runnable", "compiled", "warm"]

Rows: TypeAlias = list[list[npt.NDArray[Any]]]


@dataclass(frozen=True, slots=True)
class Runnable:
    """A program on `devices` devices; `run` takes the arrays of each, and gives the results of each.

    `recorded` and `result` are arrays that a snapshot holds: the arguments of each device, and what they gave.
    `module` is None where the code came from the cache.
    """

    inputs: tuple[Input, ...]
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    devices: int
    run: Callable[[Rows, Feeds | None], Sequence[Sequence[npt.NDArray[Any]]]]
    recorded: Rows | None = None
    result: list[npt.NDArray[Any]] | None = None
    module: Module | None = None


def warm(options: RunOptions) -> Runnable | None:
    """The program from the cache; None where it is not there."""
    digest = digest_of_file(options.file)
    found = None if digest is None else recall(options.file, digest, options.passes, options.target)
    if found is None:
        return None
    call = load_image(found.image, options.threads).function(found.image.releases_gil)
    return Runnable(
        found.inputs, found.image.parameters, found.image.outputs, 1, lambda rows, feeds: [call(*row) for row in rows]
    )


def compiled(options: RunOptions, devices: Devices | None = None) -> Runnable:
    """Read the file and compile it, to run on `devices`, if they are not threads of this process."""
    from hlotool.cli.common import read_run
    from hlotool.cli.compiling import compiling
    from hlotool.cli.models import given_arrays, named_inputs
    from hlotool.driver import compile_module
    from hlotool.text.load import READERS

    source, snapshot = read_run(options.file, lambda source: given_arrays(source, options.inputs))
    module = snapshot.module
    if options.elided is not None:
        from hlotool.harness.elided import filled

        module = filled(module, options.elided)
    machine = options.target
    with compiling(options.file) as shown:
        executable = compile_module(
            module, options.backend, options.passes, options.threads, machine, instruments=shown,
            replicas=options.replicas, partitions=options.partitions, timeout=options.timeout, donate=options.donate,
            finite_loops=options.finite_loops, devices=devices,
        )  # fmt: skip
    inputs = named_inputs(source, module)
    recorded = recorded_arrays(snapshot, executable.devices, len(inputs))
    own = source.form not in READERS  # others depend on more than the bytes of the file
    plain = devices is None and own and recorded is None and snapshot.result is None and options.is_cacheable
    notes = _told_of_shardings(options.file, module) or any(d.rule.endswith("-failed") for d in executable.decisions)
    if plain and not notes:  # say it every time
        remember(options.file, source.digest, options.passes, machine, inputs, executable.image)
    return Runnable(
        inputs,
        executable.parameters,
        executable.outputs,
        executable.devices,
        executable.run_devices,
        recorded,
        None if snapshot.result is None else arrays_of(snapshot.result),
        module,
    )


def _told_of_shardings(file: str, module: Module) -> bool:
    """Whether it was said that every device computes all of the module, although it has shardings."""
    if not any("sharding" in instruction.attributes for instruction in module.entry):
        return False
    from hlotool.cli.words import say
    from hlotool.passes.sharding.annotations import unpartitioned

    cut = unpartitioned(module)
    if cut is None:
        return False
    value, parts = cut
    say(
        f"note: {file}: every device computes all of it although {value} is cut among devices: it is probably not "
        f"partitioned; hlotool opt {file} -p 'sharding-propagation,spmd-partitioner{{partitions={parts}}}' -o NEW does "
        "that", err=True,
    )  # fmt: skip
    return True
