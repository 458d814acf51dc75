"""The pass spmd-partitioner: a module for one device becomes what each of many does."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import InputError, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.spmd.partition import partition_module

__all__ = ["SpmdPartitioner"]


@dataclass(frozen=True, slots=True)
class SpmdPartitioner:
    """Makes of a module for one device one for each of `partitions` devices, with collectives between them.

    What an instruction's ``sharding`` says is where its result is; one without is divided as its operands are, where
    that is cheap.  Parameters and results have the shapes of their tiles; what has no sharding is on every device.
    A dot one of whose operands would be gathered to `windowed-from` bytes or more is a loop, in which tiles go round
    the devices while others are multiplied.  What cannot be divided is computed as a whole by every device, which is
    noted with the bytes that it moves.  A custom call on one device (``maximal``) happens there, and others get its
    results.  Refused are infeed, outfeed, send and recv, and other custom calls with side effects.
    """

    name: ClassVar[str] = "spmd-partitioner"
    changes_program: ClassVar[bool] = True
    budget: ClassVar[float] = 200  # halos, masks and tables of numbers
    partitions: int = 0
    windowed_from: int = 268_435_456

    def run(self, module: Module, log: DecisionLog) -> bool:
        if self.partitions < 1:
            raise InputError("spmd-partitioner needs the number of devices: spmd-partitioner{partitions=8}")
        if not log.allow():
            return False
        old = module.entry.root
        partition_module(module, self.partitions, log, self.windowed_from)
        log.rewrite("partition", old, module.entry.root, "what each device does", devices=self.partitions)
        return True
