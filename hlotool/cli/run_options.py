"""The options of ``hlotool run``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hlotool.codegen.machine import Machine, Numerics, default_machine
from hlotool.harness.compare import tolerance_of
from hlotool.harness.references import Rules
from hlotool.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hlotool.analysis.donation import Donate

__all__ = ["RunOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the user asks for, by the names of the command line's parameters."""

    file: str
    inputs: str | None
    values: tuple[str, ...]
    seed: int | None
    edges: float | None
    repeat: int
    bitwise: bool
    output: str | None
    backend: str
    precision: str
    reference: str | None
    atol: float | None
    rtol: float | None
    max_undecided: float
    replicas: int | None
    partitions: int | None
    infeed: str | None
    outfeed: str | None
    timeout: float | None
    elided: str | None
    donate: Donate
    machine: Machine | None
    threads: int | None
    excess_precision: bool
    flush_denormals: bool
    form: str
    passes: str
    finite_loops: bool
    devices: str
    assignment: tuple[int, ...] | None
    fast_collectives: bool
    log_ranks: bool

    @property
    def target(self) -> Machine:
        """What to compile for, and how exactly to compute."""
        numerics = Numerics(self.excess_precision, self.flush_denormals)
        return replace(self.machine or default_machine(), numerics=numerics)

    @property
    def rules(self) -> Rules:
        """What counts as equal."""
        return Rules(tolerance_of(self.atol, self.rtol), self.max_undecided)

    @property
    def is_cacheable(self) -> bool:
        """Whether the code depends on the file, the pipeline and the target alone."""
        one_device = self.replicas is None and self.partitions is None
        return one_device and not self.donate and self.elided is None and self.finite_loops

    @property
    def may_be_warm(self) -> bool:
        """Whether code from the cache serves, without the module: others look closer, which costs more anyway."""
        runs = self.backend == "cpu" and self.precision == "declared" and self.timeout is None
        here = self.devices == "threads" and self.reference != "evaluate" and self.infeed is None
        return runs and here and self.is_cacheable
