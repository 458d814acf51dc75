"""Attribute values that have a structure of their own (XLA's ``xla_data.proto`` messages, as values)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from hlotool.lazy_dataclass import dataclass

__all__ = [
    "Aliasing",
    "ConvDimensionNumbers",
    "Metadata",
    "PaddingDimension",
    "ReplicaGroups",
    "SliceDimension",
    "StackFrames",
    "Verbatim",
    "Window",
    "WindowDimension",
]

_ITEM = r'(?a)(\w+)=(?:"([^"]*)"|(\d+))'


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window.  Padding may be negative."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    base_dilation: int = 1  # lhs_dilate
    window_dilation: int = 1  # rhs_dilate
    reversal: bool = False

    @property
    def dilated_size(self) -> int:
        """Elements that the window spans, holes counted."""
        return 0 if self.size == 0 else (self.size - 1) * self.window_dilation + 1

    def output_size(self, base: int) -> int:
        """Window positions over a base of `base` elements."""
        dilated = 0 if base == 0 else (base - 1) * self.base_dilation + 1
        padded = dilated + self.padding_low + self.padding_high
        return 0 if padded < self.dilated_size or padded <= 0 else (padded - self.dilated_size) // self.stride + 1

    @property
    def is_trivial(self) -> bool:
        return self == WindowDimension(1)


@dataclass(frozen=True, slots=True)
class Window:
    """``window={size=3x3 stride=2x2 pad=0_1x0_1 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x0}``."""

    dimensions: tuple[WindowDimension, ...] = ()


@dataclass(frozen=True, slots=True)
class ConvDimensionNumbers:
    """``dim_labels=b01f_01io->b01f``: where batch, feature and spatial dimensions sit."""

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]
    text: str | None = None  # kept where unknown '?' dimensions were written


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """One dimension of ``padding=low_high_interior``; low and high may be negative."""

    low: int
    high: int
    interior: int = 0


@dataclass(frozen=True, slots=True)
class SliceDimension:
    """One dimension of ``slice={[start:limit:stride]}``."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """``replica_groups``: explicit `groups`; the iota and mesh forms also keep their text for printing."""

    groups: tuple[tuple[int, ...], ...]
    compact: str | None = None


@dataclass(frozen=True, slots=True)
class Aliasing:
    """One entry of an aliasing map: output index path -> (operand or parameter, index path, kind)."""

    output: tuple[int, ...]
    operand: int
    index: tuple[int, ...]
    kind: str | None = None  # may-alias, must-alias or None where the form has none


@dataclass(frozen=True, slots=True)
class Verbatim:
    """An attribute value whose inside is kept as its exact text (sharding, origin, statistics, domain...)."""

    text: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where an instruction came from, as the framework said."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    profile_type: str = ""
    deduplicated_name: str = ""
    scheduling_name: str = ""
    stack_frame_id: int = 0
    preserve_layout: bool = False  # of older texts

    @classmethod
    def read(cls, text: str) -> Metadata:
        """From items of the usual form, ``op_name="a" source_line=3``: strings without escapes, numbers."""
        items: dict[str, Any] = {}
        for key, quoted, number in re.findall(_ITEM, text):
            items[key] = int(number) if number else quoted
        return cls(**items)

    def named(self, op_name: str) -> Metadata:
        return replace(self, op_name=op_name)


@dataclass(frozen=True, slots=True)
class StackFrames:
    """The four tables of the newer text form, by their numbers (rows kept in file order)."""

    file_names: tuple[tuple[int, str], ...] = ()
    function_names: tuple[tuple[int, str], ...] = ()
    file_locations: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = ()
    frames: tuple[tuple[int, tuple[tuple[str, int], ...]], ...] = ()
