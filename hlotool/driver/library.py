"""From modules to a library for programs in other languages (`hlotool.runtime.aot`)."""

from __future__ import annotations

from collections.abc import Mapping

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.donation import Donate, donation_of
from hlotool.analysis.elided import refuse_elided
from hlotool.codegen.kernel import KernelCrash
from hlotool.codegen.machine import Machine, to_link, without_tiles
from hlotool.codegen.program import Constants, Program, build_together
from hlotool.driver.cpu import lower
from hlotool.driver.failures import is_strict
from hlotool.driver.options import CompileOptions, checked_tuning
from hlotool.ir import InputError, UnsupportedError
from hlotool.ir.collector import collector_paused
from hlotool.ir.depth import room
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.steps import Pipeline
from hlotool.runtime.aot.identifiers import is_identifier
from hlotool.runtime.aot.interface import Interface, Source, interface_of
from hlotool.runtime.aot.library import Library, library_of
from hlotool.runtime.aot.processors import check_levels
from hlotool.runtime.target_machines import pointer_bits
from hlotool.runtime.tuning import Tuning
from hlotool.text.printer import print_instruction

__all__ = ["RESERVED", "LibraryOptions", "build_library"]

RESERVED = ("library", "message", "weights_check", "threads_start", "threads_stop", "threads_run")
"""What a library has besides its entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryOptions:
    """How a library is made: for which `machines`, by which pipeline, with arguments that entries may overwrite.

    Constants of more than `weights_above` bytes altogether are a file of their own.  `tune` says which tuned choices
    are taken, as for `hlotool.compile`.
    """

    machines: tuple[Machine, ...]
    pipeline: Pipeline
    donate: Donate = ()
    weights_above: int = 64 << 10
    strict: bool | None = None
    tune: str | Tuning | None = None


def build_library(name: str, sources: Mapping[str, Source], options: LibraryOptions) -> Library:
    """The library `name` of entries by name.

    InputError for names that other languages do not take; UnsupportedError for a module without native code.
    """
    for entry in (name, *sources):
        if not is_identifier(entry) or (entry in RESERVED and entry != name):
            raise InputError(f"name {entry!r}: expected letters, digits and single underscores, and no word of C's")
    if len({entry.upper() for entry in sources}) < len(sources):
        raise InputError("names of entries differ in more than case: their constants are in capitals")
    machines = [to_link(without_tiles(machine)) for machine in options.machines]
    check_levels(machines)
    if pointer_bits(machines[0]) != 64 and not machines[0].is_wasm:
        raise UnsupportedError(
            f"{machines[0].triple}: libraries are for processors with 64-bit addresses, and for WebAssembly"
        )
    for source in sources.values():
        check(source.module)
        refuse_elided(source.module)
    constants = Constants(machines[0])
    programs = [_programs(sources, machine, level, options, constants) for level, machine in enumerate(machines)]
    sites = [call.instruction for row in programs for program in row for call in program.host_calls]
    interface: Interface = interface_of(name, sources, programs, {i: print_instruction(i) for i in sites})
    block = constants.block()
    about = {
        "pipeline": str(options.pipeline),
        "donate": options.donate or [],
        "excess_precision": machines[0].numerics.excess_precision,
        "flush_denormals": machines[0].numerics.flush_denormals,
    }
    return library_of(
        interface, programs, machines, block, external=len(block) > options.weights_above, options=about
    )


def _programs(
    sources: Mapping[str, Source], machine: Machine, level: int, options: LibraryOptions, constants: Constants
) -> tuple[Program, ...]:
    """The programs of all entries for one processor."""
    entries = {}
    for name, source in sources.items():
        donation = donation_of(source.module, options.donate)
        own = CompileOptions(
            pipeline=options.pipeline, machine=machine, donation=donation, strict=is_strict(options.strict),
            log=DecisionLog(), to_run=False, tuning=checked_tuning(options.tune),
        )  # fmt: skip
        with room(source.module), collector_paused():
            entries[f"code_{name}_{level}"] = lower(source.module, own, False), donation
    try:
        return build_together(entries, machine, constants=constants)
    except KernelCrash as crash:
        raise UnsupportedError(str(crash)) from crash
