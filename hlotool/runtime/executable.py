"""A program in memory, ready to be called with arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.analysis.decisions import Decision
from hlotool.codegen.machine import Machine
from hlotool.codegen.program import Program
from hlotool.ir import Module, Shape, UnsupportedError, dtype_of
from hlotool.runtime import pool
from hlotool.runtime.cache import compiled, default_cache
from hlotool.runtime.compile import assembly
from hlotool.runtime.custom_calls import CallSite, custom_call_of
from hlotool.runtime.entry import Entry
from hlotool.runtime.load import load

__all__ = ["Executable", "Memory", "link"]

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
    """A compiled module.  Call it with one array per parameter leaf; it gives one array per root leaf."""

    module: Module
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    memory: Memory
    decisions: tuple[Decision, ...]
    run: Callable[..., tuple[npt.NDArray[Any], ...]]
    program: Program | None = None
    machine: Machine | None = None
    objects: tuple[bytes, ...] = field(default=(), repr=False)

    def __call__(self, *arrays: object) -> tuple[npt.NDArray[Any], ...]:
        """Run; InputError names the parameter whose array does not fit."""
        return self.run(*arrays)

    def text(self, stage: str) -> str:
        """The program as ``llvm`` IR or ``asm`` text; UnsupportedError for a backend that makes none."""
        if self.program is None or self.machine is None:
            raise UnsupportedError("this backend makes no native code")
        if stage == "llvm":
            return "\n".join(f"; unit {n}\n{text}" for n, text in enumerate(self.program.units))
        if stage == "asm":
            return "\n".join(assembly(text, self.machine) for text in self.program.units)
        raise ValueError(f"unknown stage {stage!r}; known: llvm, asm")


def link(
    program: Program, module: Module, machine: Machine, decisions: Sequence[Decision] = (), threads: int | None = None
) -> Executable:
    """Compile the units of `program` (or find them in the cache) and load them.

    UnsupportedError names a custom call without a handler.
    """
    sites = [CallSite(custom_call_of(site.instruction)) for site in program.custom_calls]
    workers = pool.default_threads() if threads is None else threads
    objects = compiled(program.units, machine, workers, default_cache())
    symbols = dict(pool.symbols(threads))
    symbols.update({use.symbol: site.address for use, site in zip(program.custom_calls, sites, strict=True)})
    library = load(objects, symbols)
    entry = Entry(
        library.address(program.entry),
        [_leaf(shape) for shape in program.parameters],
        [_leaf(shape) for shape in program.outputs],
        program.arena_bytes,
        program.constants,
        keep=library,
        custom_calls=sites,
        alignment=1,
        allow_bits=True,
    )
    work = sum(use.cost for use in program.kernels)
    return Executable(
        module=module,
        parameters=program.parameters,
        outputs=program.outputs,
        memory=Memory(
            program.arena_bytes,
            sum(s.byte_size for s in program.parameters),
            sum(s.byte_size for s in program.outputs),
            program.constants.nbytes,
        ),
        decisions=tuple(decisions),
        run=entry.function(release_gil=work > _SHORT_NANOSECONDS),
        program=program,
        machine=machine,
        objects=tuple(objects),
    )


def _leaf(shape: Shape) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return dtype_of(shape.element_type), shape.dimensions
