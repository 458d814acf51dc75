"""Attribute values as text: one writer per kind of ``ir.opcodes.Attribute``."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign, isnan
from typing import Any

from hlotool.ir import ConvDimensionNumbers, Metadata, Verbatim, Window
from hlotool.text.lexer import escape
from hlotool.text.print_shapes import print_shape

__all__ = ["WRITERS", "write_aliasing", "write_metadata", "write_string"]


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _float(value: float) -> str:
    return "-nan" if isnan(value) and copysign(1.0, value) < 0 else repr(value)


def _ints(values: tuple[int, ...]) -> str:
    return f"{{{','.join(map(str, values))}}}"


def write_string(value: str) -> str:
    return f'"{escape(value)}"'


def _config(value: str) -> str:
    """A JSON dictionary as it is, anything else as a quoted string."""
    return value if _is_json(value) else write_string(value)


def _is_json(value: str) -> bool:
    """Whether the text is one balanced pair of braces, strings aside (what the parser reads as a dictionary)."""
    if not value.startswith("{") or "\n" in value or "\r" in value:  # a brace after a line break ends a computation
        return False
    closing: list[str] = []
    quoted = escaped = False
    for position, character in enumerate(value):
        if quoted:
            quoted = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            quoted, escaped = True, False
        elif character in "{[(":
            closing.append({"{": "}", "[": "]", "(": ")"}[character])
        elif character in "}])" and (not closing or closing.pop() != character):
            return False
        if not closing:
            return position == len(value) - 1
    return False


def _window(window: Window) -> str:
    dimensions = window.dimensions
    if not dimensions:
        return "{}"
    parts = ["size=" + "x".join(str(d.size) for d in dimensions)]
    if any(d.stride != 1 for d in dimensions):
        parts.append("stride=" + "x".join(str(d.stride) for d in dimensions))
    if any(d.padding_low or d.padding_high for d in dimensions):
        parts.append("pad=" + "x".join(f"{d.padding_low}_{d.padding_high}" for d in dimensions))
    if any(d.base_dilation != 1 for d in dimensions):
        parts.append("lhs_dilate=" + "x".join(str(d.base_dilation) for d in dimensions))
    if any(d.window_dilation != 1 for d in dimensions):
        parts.append("rhs_dilate=" + "x".join(str(d.window_dilation) for d in dimensions))
    if any(d.reversal for d in dimensions):
        parts.append("rhs_reversal=" + "x".join(str(int(d.reversal)) for d in dimensions))
    return f"{{{' '.join(parts)}}}"


def _dim_labels(labels: ConvDimensionNumbers) -> str:
    if labels.text is not None:
        return labels.text

    def part(first: int, second: int, spatial: tuple[int, ...], letters: str) -> str:
        places = {first: letters[0], second: letters[1], **{place: str(n) for n, place in enumerate(spatial)}}
        return "".join(places[n] for n in range(len(places)))

    base = part(labels.input_batch, labels.input_feature, labels.input_spatial, "bf")
    kernel = part(labels.kernel_input_feature, labels.kernel_output_feature, labels.kernel_spatial, "io")
    return f"{base}_{kernel}->{part(labels.output_batch, labels.output_feature, labels.output_spatial, 'bf')}"


def _padding(value: Any) -> str:
    """Interior padding is written for all dimensions or for none."""
    interior = any(d.interior for d in value)
    return "x".join(f"{d.low}_{d.high}" + (f"_{d.interior}" if interior else "") for d in value)


def _slice(value: Any) -> str:
    """Strides are written for all dimensions or for none."""
    if all(d.stride == 1 for d in value):
        return f"{{{', '.join(f'[{d.start}:{d.limit}]' for d in value)}}}"
    return f"{{{', '.join(f'[{d.start}:{d.limit}:{d.stride}]' for d in value)}}}"


def _groups(value: Any) -> str:
    if value.compact is not None:
        return str(value.compact)
    return f"{{{','.join(map(_ints, value.groups))}}}"


def write_aliasing(value: Any) -> str:
    entries = [f"{_ints(a.output)}: ({a.operand}, {_ints(a.index)}{f', {a.kind}' if a.kind else ''})" for a in value]
    return f"{{{', '.join(entries)}}}"


def _map(value: dict[str, str]) -> str:
    return f"{{{','.join(f'{key}={_config(text)}' for key, text in value.items())}}}"


def _verbatim(value: Verbatim) -> str:
    return value.text


_METADATA_TEXT = ("op_type", "op_name", "source_file")


_METADATA_NUMBER = ("source_line", "source_end_line", "source_column", "source_end_column")


def write_metadata(metadata: Metadata) -> str:
    parts = [f"{key}={write_string(getattr(metadata, key))}" for key in _METADATA_TEXT if getattr(metadata, key)]
    parts += [f"{key}={getattr(metadata, key)}" for key in _METADATA_NUMBER if getattr(metadata, key)]
    if metadata.profile_type:
        bare = metadata.profile_type.startswith("{") and metadata.profile_type.endswith("}")
        parts.append(f"profile_type={metadata.profile_type if bare else write_string(metadata.profile_type)}")
    if metadata.deduplicated_name:
        parts.append(f"deduplicated_name={write_string(metadata.deduplicated_name)}")
    if metadata.preserve_layout:
        parts.append("preserve_layout=true")
    if metadata.scheduling_name:
        parts.append(f"scheduling_name={write_string(metadata.scheduling_name)}")
    if metadata.stack_frame_id:
        parts.append(f"stack_frame_id={metadata.stack_frame_id}")
    return f"{{{' '.join(parts)}}}"


WRITERS: dict[str, Callable[[Any], str]] = {
    "aliasing": write_aliasing,
    "bool": _bool,
    "bools": lambda value: f"{{{','.join(map(_bool, value))}}}",
    "config": _config,
    "dim_labels": _dim_labels,
    "float": _float,
    "int": str,
    "ints": _ints,
    "map": _map,
    "metadata": write_metadata,
    "padding": _padding,
    "pairs": lambda value: f"{{{','.join(map(_ints, value))}}}",
    "replica_groups": _groups,
    "shape": print_shape,
    "shapes": lambda value: f"{{{', '.join(map(print_shape, value))}}}",
    "slice": _slice,
    "string": write_string,
    "verbatim": _verbatim,
    "window": _window,
    "word": str,
    "words": lambda value: f"{{{','.join(value)}}}",
}
