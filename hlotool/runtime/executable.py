"""A program in memory, ready to be called with arrays, on one device or on several.

The devices of a run take turns in one thread, or are threads of this process; all run the same code with arrays of
their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import Decision
from hlotool.codegen.machine import Machine, host, runs_here
from hlotool.display import shown_by
from hlotool.ir import InputError, Module, Shape, UnsupportedError
from hlotool.ir.devices import Topology, topology_of
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime import pool
from hlotool.runtime.cache import default_cache
from hlotool.runtime.callback import on_device
from hlotool.runtime.entry import Entry, check_apart, check_output
from hlotool.runtime.image import Image, load_image

if TYPE_CHECKING:  # what programs from the cache, or most, go without
    from hlotool.analysis.clusters import Partition
    from hlotool.codegen.launches import LaunchProgram
    from hlotool.codegen.plan.probes import Probe
    from hlotool.codegen.plan.steps import HostCall
    from hlotool.codegen.program import Program
    from hlotool.evaluate.devices import Device, World
    from hlotool.evaluate.feeds import Feeds
    from hlotool.runtime.compilation import Compilation, Library
    from hlotool.runtime.coroutines import Coroutines
    from hlotool.runtime.custom_calls import Site
    from hlotool.runtime.lapack import NativeSite
    from hlotool.runtime.recorder import Recorder
    from hlotool.runtime.rendezvous import RendezvousTable

__all__ = ["Executable", "Memory", "link", "refuse_call"]

Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]

_SHORT_NANOSECONDS = 20_000


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that an execution takes: temporaries in the arena, arguments, results and constants."""

    arena_bytes: int
    parameter_bytes: int
    output_bytes: int
    constant_bytes: int

    @property
    def peak_bytes(self) -> int:
        """All of them together: they are alive at the same time."""
        return self.arena_bytes + self.parameter_bytes + self.output_bytes + self.constant_bytes


@dataclass(frozen=True, slots=True)
class Executable:
    """A compiled module.  Call it with one array per parameter leaf; it gives one array per root leaf.

    `run` does that on one device with nothing but arrays, as quickly as can be; `work` is one device's part in a run of
    several, or with queues or a time limit (None where the backend knows no such things); `together` is that of all
    devices, where they can take turns. `devices` is how many there are in this process; where others are in other
    processes, `here` are their numbers and `new_world` makes what they share in a run. `timeout` is how many seconds a
    run may take. `image` is all that `run` needs, for
    another process; None where the code needs more of this one than memory and threads. `into` takes arguments and
    arrays for results, and writes results there without a copy (None where that is not possible). `entry` is the
    native function behind `run`, where nothing else happens between the two. `donated` maps results to the
    arguments that they overwrite: their arrays are the results. `recorder` has what the probes of a profiled
    program saw.
    `launches` is what a program for a device other than the processor does.  A program that several backends made
    has `parts`, which run in this order, as `partition` says.  `compile_seconds` is how long it took to make it.
    """

    module: Module
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    memory: Memory
    decisions: tuple[Decision, ...]
    run: Callable[..., Arrays]
    program: Program | None = None
    launches: LaunchProgram | None = None
    machine: Machine | None = None
    objects: tuple[bytes, ...] = ()
    image: Image | None = None
    work: Callable[[Device, Sequence[object]], Arrays] | None = None
    together: Coroutines | None = None
    into: Callable[[Sequence[object], Sequence[object]], Arrays] | None = None
    entry: Entry | None = None
    devices: int = 1
    here: tuple[int, ...] | None = None
    new_world: Callable[[Feeds | None], World] | None = None
    timeout: float | None = None
    donated: Mapping[int, int] = field(default_factory=dict)
    recorder: Recorder | None = None
    parts: tuple[Executable, ...] = ()
    partition: Partition | None = None
    compile_seconds: float | None = None

    def __repr__(self) -> str:
        program = self.program or self.launches
        made = "interpreted" if program is None else f"{len(program.kernels)} kernels"
        made = f"{len(self.parts)} parts" if self.parts else made
        return f"Executable({self.module.entry.signature()}, {made}, {self.memory.peak_bytes:,} bytes at peak)"

    _repr_html_ = shown_by("executable_html")

    @property
    def topology(self) -> Topology:
        """The devices that a call runs on."""
        return topology_of(self.module)

    def __call__(
        self, *arrays: object, feeds: Feeds | None = None, out: Sequence[npt.NDArray[Any]] | None = None
    ) -> Arrays:
        """Run; InputError names the parameter whose array does not fit.

        With `out`, dense writable arrays of the results' types and shapes, results are written there, and no memory is
        taken for them; an argument that lies there too is read before.  A result that overwrites a donated argument is
        that array, with or without `out`; other arguments in its memory are read before, too.

        On several devices an array of the parameter's shape goes to all of them, one with a leading dimension of as
        many rows as there are devices goes to each its row, and results have such a dimension.  `feeds` are the queues
        of infeed, outfeed and host transfers.
        """
        if feeds is not None:
            _check_feeds(feeds)
        if out is not None:
            return self._run_into(arrays, feeds, out)
        if self.devices == 1:
            return self.run(*arrays) if feeds is None else self.run_devices([arrays], feeds)[0]
        rows = self._rows(arrays, self.devices)
        return tuple(np.stack(leaf) for leaf in zip(*self.run_devices(rows, feeds), strict=True))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            "an Executable is code in the memory of this process: it cannot be pickled; pickle the text of its module "
            "(hlotool.print_module) and compile that again, which the cache makes quick"
        )

    def __copy__(self) -> Executable:
        return self  # nothing in it changes

    def __deepcopy__(self, memo: object) -> Executable:
        return self

    def _run_into(self, arrays: Sequence[object], feeds: Feeds | None, out: Sequence[npt.NDArray[Any]]) -> Arrays:
        if not isinstance(out, Sequence):
            raise InputError(f"out: expected one array for each of {len(self.outputs)} results, not a {_name(out)}")
        for result, number in self.donated.items():
            if result < len(out) and number < len(arrays) and out[result] is not arrays[number]:
                raise InputError(f"result {result}: expected the array of parameter {number}, which it overwrites")
        if self.into is not None and feeds is None:
            return self.into(arrays, out)
        results = self(*arrays, feeds=feeds)
        if len(out) != len(results):
            raise InputError(f"expected {len(results)} arrays for results, got {len(out)}")
        pairs = zip(out, results, strict=True)
        checked = [check_output(n, (found.dtype, found.shape), array) for n, (array, found) in enumerate(pairs)]
        check_apart(checked)
        for array, found in zip(checked, results, strict=True):
            if array is not found:
                array[...] = found
        return tuple(checked)

    def run_devices(self, arrays: Sequence[Sequence[object]], feeds: Feeds | None = None) -> list[Arrays]:
        """Run with the arrays of each device of this process, in order of their numbers; the results of each."""
        topology = self.topology
        if len(arrays) != self.devices:
            here = "" if self.devices == topology.devices else f", {self.devices} of its devices here"
            raise InputError(f"arrays for {len(arrays)} devices were given, the program runs on {topology}{here}")
        work = self.work
        if work is None:
            if self.devices > 1 or feeds is not None or self.timeout is not None:
                raise UnsupportedError("this backend has neither several devices nor queues nor a time limit")
            return [self.run(*arrays[0])]
        from hlotool.evaluate.devices import ThreadWorld

        world = ThreadWorld(topology, feeds, self.timeout) if self.new_world is None else self.new_world(feeds)
        if self.together is not None and isinstance(world, ThreadWorld):
            return self.together(world, arrays)
        given = dict(zip(world.here, arrays, strict=True))
        return world.run(lambda device: work(device, given[device.number]))

    def _rows(self, arrays: Sequence[object], devices: int) -> list[list[object]]:
        """The arrays of each device; what fits neither way stays as it is, to be refused with its name."""
        rows: list[list[object]] = [[] for _ in range(devices)]
        for number, value in enumerate(arrays):
            dimensions = getattr(value, "shape", None)
            each = number < len(self.parameters) and dimensions == (devices, *self.parameters[number].dimensions)
            for device, row in enumerate(rows):
                row.append(np.asarray(value)[device] if each else value)
        return rows

    def text(self, stage: str) -> str:
        """The program as ``llvm`` IR or ``asm`` text; of a program of launches also as ``ptx`` and, in JSON, as
        ``launches``; of parts, that of those with code.  UnsupportedError for a backend that makes none of that."""
        coded = [(n, part) for n, part in enumerate(self.parts) if part.machine is not None]
        if coded:
            return "\n".join(f"; part {n}\n{part.text(stage)}" for n, part in coded)
        if self.machine is None or (self.program is None and self.launches is None):
            raise UnsupportedError("this backend makes no native code")
        units = self.program.texts if self.program is not None else self.launches.units if self.launches else ()
        from hlotool.runtime.object_code import assembly

        match stage:
            case "llvm":
                return "\n".join(f"; unit {n}\n{text}" for n, text in enumerate(units))
            case "launches" if self.launches is not None:
                from hlotool.codegen.launches import manifest

                return json.dumps(manifest(self.launches), indent=1)
            case "ptx" if not self.machine.triple.startswith("nvptx"):
                raise UnsupportedError(f"code for {self.machine.triple} is no PTX: nvptx:sm_90 makes that")
            case "asm" | "ptx":
                return "\n".join(assembly(text, self.machine) for text in units)
            case "launches":
                raise UnsupportedError("this program has no launches: nvptx:sm_90 makes some")
        raise ValueError(f"unknown stage {stage!r}; known: llvm, asm, ptx, launches")

    def device_object(self) -> bytes:
        """The object with all kernels of a program of launches, for a linker (ld.lld) that makes of it what a device's
        runtime loads; UnsupportedError where there is none."""
        if self.launches is None or self.machine is None or self.machine.triple.startswith("nvptx"):
            raise UnsupportedError("kernels for nvptx are text, which its driver assembles: --emit ptx writes it")
        from hlotool.runtime.object_code import object_of

        (text,) = self.launches.units
        return object_of(text, self.machine)


def _check_feeds(feeds: object) -> None:
    from hlotool.evaluate.feeds import Feeds

    if not isinstance(feeds, Feeds):
        raise InputError(f"feeds: expected hlotool.Feeds, not a {_name(feeds)}")


def _recorder(probes: Sequence[Probe]) -> Recorder:
    from hlotool.runtime.recorder import Recorder

    return Recorder(len(probes))


def _name(value: object) -> str:
    return type(value).__name__


def compilation(machine: Machine, library: Library, threads: int | None = None, to_run: bool = True) -> Compilation:
    """Makes objects, of its `library` once in this process.

    UnsupportedError if they are `to_run`, and `machine` is not like the one that the process is on.
    """
    if to_run and not runs_here(machine):
        raise UnsupportedError(f"code for {machine.cpu} ({machine.triple}) does not run on this machine: {host().cpu}")
    from hlotool.runtime.compilation import Compilation

    return Compilation(machine, library, pool.default_threads() if threads is None else threads, default_cache())


def link(
    program: Program,
    module: Module,
    machine: Machine,
    units: Compilation,
    decisions: Sequence[Decision] = (),
    threads: int | None = None,
    timeout: float | None = None,
    to_run: bool = True,
    quick_calls: bool = True,
) -> Executable:
    """Load `program`, whose `units` are being compiled; nothing is loaded, and calls are refused, if not `to_run`.

    `timeout` is the number of seconds that a run may take.  Without `quick_calls` it is called by its entry.
    UnsupportedError names a custom call without a handler.
    """
    sites = _sites(program.host_calls)
    devices = topology_of(module).devices
    rendezvous = _rendezvous(topology_of(module), sites, threads) if devices > 1 and to_run else None
    symbols = {call.symbol: site.address for call, site in zip(program.host_calls, sites, strict=True)}
    objects = tuple(units.finish(program.units, program.library))
    # Without the GIL other devices, and whoever waits for the end, have their turn.
    image = _image(program, objects, _takes_long(program, module) or devices > 1 or timeout is not None)
    executable = partial(
        Executable,
        module=module,
        parameters=program.parameters,
        outputs=program.outputs,
        memory=_memory(program),
        decisions=tuple(decisions),
        program=program,
        machine=machine,
        objects=image.objects,
        devices=devices,
        timeout=timeout,
        donated=program.assignment.aliases,
    )
    if not to_run:
        return executable(run=refuse_call, work=refuse_call)
    recorder = None if program.probes is None else _recorder(program.probes)
    entry = load_image(image, threads, symbols | (recorder.symbols if recorder else {}), sites)
    call = entry.function(image.releases_gil) if quick_calls else entry

    def work(device: Device, arrays: Sequence[object]) -> Arrays:
        with on_device(device):
            return call(*arrays)

    def alone(*arrays: object) -> Arrays:
        from hlotool.evaluate.devices import Device, ThreadWorld

        return work(Device(ThreadWorld(seconds=timeout)), arrays)

    needs_device = timeout is not None or any(site.needs_device for site in sites)
    return executable(
        run=alone if needs_device else call,
        image=image if not sites and timeout is None and recorder is None else None,
        work=work, together=_coroutines(entry, rendezvous),
        into=None if needs_device or devices > 1 else entry.run_into,
        entry=None if needs_device or devices > 1 else entry, recorder=recorder,
    )  # fmt: skip


def _rendezvous(topology: Topology, sites: Sequence[Site | NativeSite], threads: int | None) -> RendezvousTable | None:
    """Where devices meet that take turns, if they can: then all `sites` are native code."""
    from hlotool.runtime.coroutines import MOST, usable

    if not usable() or topology.devices > MOST:
        return None
    from hlotool.runtime.rendezvous import RendezvousTable

    rendezvous = RendezvousTable(topology, threads)
    return rendezvous if all(site.meet_in(rendezvous) for site in sites) else None


def _coroutines(entry: Entry, rendezvous: RendezvousTable | None) -> Coroutines | None:
    if rendezvous is None:
        return None
    from hlotool.runtime.coroutines import Coroutines

    return Coroutines(entry, rendezvous)


def _image(program: Program, objects: tuple[bytes, ...], releases_gil: bool) -> Image:
    return Image(
        objects,
        program.entry,
        program.parameters,
        program.outputs,
        program.assignment.arena_bytes,
        program.constants,
        releases_gil,
        aliases=tuple(program.assignment.aliases.items()),
        overwritten=program.assignment.overwritten,
    )


def refuse_call(*arrays: object) -> NoReturn:
    """What is called in the place of code that was not to run."""
    raise UnsupportedError("this executable was compiled to be looked at: compile it with to_run")


def _takes_long(program: Program, module: Module) -> bool:
    """Whether others should have the interpreter meanwhile."""
    loops = any(instruction.opcode == "while" for instruction in module.instructions())  # who knows for how long
    return loops or sum(use.cost for use in program.kernels) > _SHORT_NANOSECONDS


def _memory(program: Program) -> Memory:
    own = (shape for number, shape in enumerate(program.outputs) if number not in program.assignment.aliases)
    return Memory(
        program.assignment.arena_bytes,
        sum(shape.byte_size for shape in program.parameters),
        sum(shape.byte_size for shape in own),
        program.constants.nbytes,
    )


def _sites(calls: Sequence[HostCall]) -> Sequence[Site | NativeSite]:
    if not calls:
        return ()
    from hlotool.runtime.sites import site_of  # loads the evaluator, too

    return [site_of(call) for call in calls]
