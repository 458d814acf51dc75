"""Bitcast-convert reshaper: bitcasts between shapes of which only the total fits, by way of the standard shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import ELEMENT_TYPES, Module, array
from hlotool.ir.builder import Builder
from hlotool.ir.shape_written import bitcast_rows
from hlotool.passes.framework.graph import replace_with

__all__ = ["BitcastConvertReshaper"]


@dataclass(frozen=True, slots=True)
class BitcastConvertReshaper:
    """Puts reshapes around a bitcast-convert that changes more than the last dimension."""

    name: ClassVar[str] = "bitcast-convert-reshaper"
    opcodes: ClassVar[frozenset[str]] = frozenset({"bitcast-convert"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.callees_first():
            for cast in list(computation):
                if cast.opcode != "bitcast-convert":
                    continue
                rows = bitcast_rows(cast.operands[0].shape, cast.shape)
                if rows is None or not log.allow():
                    continue
                build = Builder(computation, cast, like=cast)
                given = build.reshape(cast.operands[0], rows)
                have, want = (ELEMENT_TYPES[s.element_type].bits for s in (given.shape, cast.shape))
                sizes = (*rows, have // want) if have > want else rows[:-1] if have < want else rows
                made = build.bitcast_convert(given, array(cast.shape.element_type, sizes))
                result = build.reshape(made, cast.shape.dimensions)
                log.rewrite("expand", cast, result, "only the total of its bits fits")
                replace_with(cast, result)
                changed = True
        return changed
