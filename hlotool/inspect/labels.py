"""What is written on a drawing: the title, details and tooltip of an instruction."""

from __future__ import annotations

import re
from html import escape

from hlotool.ir import NOTE, Computation, Instruction, Shape, brief
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import PrintOptions, print_instruction, print_literal, print_shape

__all__ = [
    "Label",
    "inline_value",
    "is_element",
    "is_word",
    "label",
    "label_of",
    "plain_text",
    "shape_text",
    "short",
    "title",
    "tooltip",
    "trip_text",
]

_LONGEST_LINE = 42
_LONGEST_VALUE = 18
_MOST_INLINE_ELEMENTS = 8
_MOST_OPERANDS = 12
_SMALL, _GREY = "8", "#5f5f5f"
_PLAIN = PrintOptions(metadata=False, annotations=False, layouts=False, elide_above=16, index_comments=False)
_NUMBER = re.compile(r"\.\d+$")
_TRIPS = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d+)')
_SHOWN = (
    "dimensions", "slice", "padding", "index", "iota_dimension", "dim_labels", "window", "feature_group_count",
    "custom_call_target", "lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims",
    "fft_type", "fft_length", "algorithm", "distribution", "k", "dynamic_slice_sizes", "slice_sizes", "offset_dims",
    "update_window_dims", "replica_groups", "epsilon", "feature_index", "exponent_bits", "mantissa_bits",
)  # fmt: skip
"""Attributes that say what an instruction computes; the tooltip has all of them."""

_SHORT_NAMES = {
    "dimensions": "", "slice": "", "padding": "", "dim_labels": "", "window": "", "custom_call_target": "",
    "iota_dimension": "dim ", "index": "", "feature_group_count": "groups ", "lhs_contracting_dims": "contract ",
    "rhs_contracting_dims": "× ", "lhs_batch_dims": "batch ", "rhs_batch_dims": "× ", "dynamic_slice_sizes": "size ",
    "slice_sizes": "size ", "fft_type": "", "fft_length": "",
}  # fmt: skip


def short(text: str, longest: int = _LONGEST_LINE) -> str:
    """`text`, with its middle left out when it is long."""
    return brief.short(text, longest)


def shape_text(shape: Shape) -> str:
    """A shape without its layout, unless the layout is not the usual one."""
    usual = all(leaf.layout is None or leaf.layout.is_row_major for leaf in shape.leaves())
    return print_shape(shape, layouts=not usual, index_comments=False)


def is_word(caller: Instruction, computation: Computation) -> bool:
    """Whether a word in its caller's title stands for a computation: one operation on the parameters, and no branch."""
    if caller.opcode in ("while", "conditional", "fusion"):
        return False
    root = computation.root
    others = [one for one in computation if one.opcode != "parameter" and one is not root]
    return not others and (root.has("elementwise") or root.opcode == "parameter")


def inline_value(instruction: Instruction) -> str | None:
    """How a small constant, or a broadcast of one, is written into its users; None when it has a box of its own."""
    if instruction.is_root:
        return None
    if instruction.opcode == "broadcast" and instruction.operands[0].shape.is_scalar:
        return inline_value(instruction.operands[0])
    if instruction.opcode != "constant" or not instruction.shape.is_array:
        return None
    value = instruction.literal
    if value.elided or value.shape.size > _MOST_INLINE_ELEMENTS:
        return None
    return short(print_literal(value), _LONGEST_VALUE)


def is_element(instruction: Instruction) -> bool:
    """A get-tuple-element that is only the number on an edge."""
    return instruction.opcode == "get-tuple-element" and not instruction.is_root and bool(instruction.users)


def title(instruction: Instruction) -> str:
    """The opcode with the one word that matters most: ``compare LT``, ``reduce add``, ``parameter 3``."""
    attributes = instruction.attributes
    match instruction.opcode:
        case "parameter":
            return f"parameter {instruction.parameter_number}"
        case "compare":
            return f"compare {attributes['direction']}"
        case "while":
            trips = trip_text(instruction)
            return f"while, {trips} times" if trips else "while"
        case _:
            words = [_word(callee) for callee in instruction.called if is_word(instruction, callee)]
            return " ".join([instruction.written, *dict.fromkeys(words)])


def trip_text(loop: Instruction) -> str:
    """How often a loop runs, where its configuration says so; else empty."""
    trips = _TRIPS.search(str(loop.attributes.get("backend_config", "")))
    return trips.group(1) if trips else ""


def plain_text(instruction: Instruction) -> str:
    """The whole instruction without what only says where it came from, long constants cut."""
    return short(print_instruction(instruction, _PLAIN), 400)


def _word(computation: Computation) -> str:
    root = computation.root
    if root.opcode == "parameter":
        return f"parameter {root.parameter_number}"
    return title(root)


@dataclass(frozen=True, slots=True)
class Label:
    """The words of an instruction's box, empty where there is nothing to say.

    `name` is the part of the name that the title does not say already, `arguments` the constants that it reads.
    """

    title: str
    name: str
    arguments: str
    shape: str
    details: str


def label_of(instruction: Instruction) -> Label:
    """The words of an instruction's box."""
    name = instruction.name
    plain = _NUMBER.sub("", name).replace("_", "-") == instruction.written
    return Label(
        title(instruction),
        "" if plain and "." not in name else _name_suffix(name, plain),
        _arguments(instruction),
        short(shape_text(instruction.shape)),
        _details(instruction),
    )


def label(instruction: Instruction) -> str:
    """The label of an instruction's box, in Graphviz's HTML form."""
    words = label_of(instruction)
    lines = [f"<b>{escape(words.title)}</b>"]
    if words.name:
        lines[0] += f'  <font color="{_GREY}">{escape(words.name)}</font>'
    if words.arguments:
        lines.append(f'<font point-size="{_SMALL}">{escape(words.arguments)}</font>')
    lines.append(escape(words.shape))
    if words.details:
        lines.append(f'<font point-size="{_SMALL}" color="{_GREY}">{escape(words.details)}</font>')
    return f"<{'<br/>'.join(lines)}>"


def _name_suffix(name: str, plain: bool) -> str:
    """The part of the name that the title does not say already."""
    return f".{name.rpartition('.')[2]}" if plain else short(name, 30)


def _arguments(instruction: Instruction) -> str:
    """The operands with values in them, dots for those that come by an edge: ``( ·, 0.5 )``."""
    values = [inline_value(operand) for operand in instruction.operands]
    if not any(value is not None for value in values):
        return ""
    words = [value if value is not None else "·" for value in values[:_MOST_OPERANDS]]
    return f"( {', '.join(words)}{', …' if len(values) > _MOST_OPERANDS else ''} )"


def _details(instruction: Instruction) -> str:
    note = instruction.attributes.get(NOTE)
    return short(f"\N{WARNING SIGN} {note}", 60) if note else _attributes(instruction)


def _attributes(instruction: Instruction) -> str:
    if instruction.opcode in ("get-tuple-element", "map", "while", "call", "conditional"):
        return f"index {instruction.attributes['index']}" if instruction.opcode == "get-tuple-element" else ""
    text = print_instruction(instruction, _PLAIN)
    found = []
    for key in _SHOWN:
        value = _attribute_text(text, key) if key in instruction.attributes else None
        if value and value != "{}":
            found.append(_SHORT_NAMES.get(key, f"{key} ") + value.strip('"'))
    return short(" ".join(found), 60)


def _attribute_text(line: str, key: str) -> str | None:
    """The text of attribute `key` in a printed instruction."""
    match = re.search(rf", {key}=(\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}}|\"[^\"]*\"|[^,\s]+)", line)
    return match.group(1) if match else None


def tooltip(instruction: Instruction) -> str:
    """The whole instruction and where it came from, for hovering over."""
    lines = [plain_text(instruction)]
    if note := instruction.attributes.get(NOTE):
        lines.append(f"\N{WARNING SIGN} {note}")
    metadata = instruction.metadata
    if metadata is not None:
        if metadata.op_name:
            lines.append(metadata.op_name)
        if metadata.source_file:
            lines.append(f"{metadata.source_file}:{metadata.source_line}")
    if instruction.origins:
        lines.append(f"from {short(', '.join(instruction.origins), 200)}")
    return "\n".join(lines)
