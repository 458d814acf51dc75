"""Bitcast-convert reshaper: bitcasts between shapes of which only the total fits, by way of the standard shapes."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Instruction, Module, array
from hlotool.ir.builder import Builder
from hlotool.ir.shape_written import bitcast_rows
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["BitcastConvertReshaper"]


@dataclass(frozen=True, slots=True)
class BitcastConvertReshaper:
    """Puts reshapes around a bitcast-convert that changes more than the last dimension."""

    name: ClassVar[str] = "bitcast-convert-reshaper"
    opcodes: ClassVar[frozenset[str]] = frozenset({"bitcast-convert"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        return expand_each(module, log, self.opcodes, _reshaped, "expand", "only the total of its bits fits")


def _reshaped(build: Builder, cast: Instruction) -> Instruction | None:
    rows = bitcast_rows(cast.operands[0].shape, cast.shape)
    if rows is None:
        return None
    given = build.reshape(cast.operands[0], rows)
    have, want = (ELEMENT_TYPES[s.element_type].bits for s in (given.shape, cast.shape))
    sizes = (*rows, have // want) if have > want else rows[:-1] if have < want else rows
    made = build.bitcast_convert(given, array(cast.shape.element_type, sizes))
    return build.reshape(made, cast.shape.dimensions)
