"""Shapes, layouts and literals as text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import prod

from hlotool.ir import Layout, Literal, Shape
from hlotool.text.numbers import format_values

__all__ = ["listed", "print_literal", "print_shape"]

_MOST_BRACES = 1 << 20  # pairs that are printed for an array without elements


def listed(items: list[str], comments: bool = True) -> str:
    """Items with commas, and the number of every fifth as a comment."""
    if len(items) <= 5 or not comments:
        return ", ".join(items)
    return ", ".join(f"/*index={n}*/{item}" if n and n % 5 == 0 else item for n, item in enumerate(items))


def print_shape(shape: Shape, layouts: bool = True, index_comments: bool = True) -> str:
    """A shape, with its layout where it has one."""
    if shape.is_tuple:
        return f"({listed([print_shape(e, layouts, index_comments) for e in shape.elements], index_comments)})"
    if shape.element_type == "buffer":
        return f"b({print_shape(shape.elements[0], layouts)})"
    text = str(shape)
    return text + _layout(shape.layout) if layouts and shape.layout is not None else text


def _layout(layout: Layout) -> str:
    text = ",".join(map(str, layout.minor_to_major))
    rest = ""
    if layout.tiles:
        rest += "T" + "".join(f"({','.join('*' if n is None else str(n) for n in tile)})" for tile in layout.tiles)
    if layout.tail_padding_alignment != 1:
        rest += f"L({layout.tail_padding_alignment})"
    if layout.index_type is not None:
        rest += f"#({layout.index_type})"
    if layout.pointer_type is not None:
        rest += f"*({layout.pointer_type})"
    if layout.element_size_bits:
        rest += f"E({layout.element_size_bits})"
    if layout.memory_space:
        rest += f"S({layout.memory_space})"
    if layout.splits:
        rest += "SC" + "".join(f"({d}:{','.join(map(str, at))})" for d, at in layout.splits)
    if layout.dynamic_metadata_bytes:
        rest += f"M({layout.dynamic_metadata_bytes})"
    if not text and not rest:
        return ""
    return f"{{{text}:{rest}}}" if rest else f"{{{text}}}"


def print_literal(literal: Literal, elide_above: int | None = None, xla: bool = False) -> str:
    """A literal; arrays of more than `elide_above` elements, and elided ones, as ``{...}``.

    With `xla` byte for byte as XLA prints it: other digits, comments in arrays of rank 4 and more, tuples elided too.
    """
    if literal.shape.is_tuple:
        if literal.elided or (xla and elide_above is not None):
            return "{...}"
        inside = ", ".join(print_literal(e, elide_above, xla) for e in literal.elements)
        return f"( {inside} )" if xla else f"({inside})"
    shape = literal.shape
    if shape.dimensions and (literal.elided or (elide_above is not None and shape.size > elide_above)):
        return "{...}"
    if xla:
        endless = shape.size == 0 and prod(takewhile(bool, shape.dimensions)) > _MOST_BRACES
        return "{...}" if endless else _xla_array(literal)
    if shape.size == 0:
        outer = list(takewhile(bool, shape.dimensions))
        return _nested("{}", outer) if prod(outer) <= _MOST_BRACES else "{}"
    words = format_values(literal.value(), shape.element_type)
    for level, size in enumerate(reversed(shape.dimensions)):
        groups = [words[n : n + size] for n in range(0, len(words), size)]
        blank = " " if level or shape.rank > 1 else ""
        words = [f"{{{blank}{', '.join(group)}{blank}}}" for group in groups]
    return words[0]


def _nested(text: str, sizes: Sequence[int]) -> str:
    """Braces of these sizes around `text`, repeated."""
    for size in reversed(sizes):
        text = f"{{ {', '.join([text] * size)} }}"
    return text


def _xla_array(literal: Literal) -> str:
    shape = literal.shape
    words = format_values(literal.value(), shape.element_type, xla=True)
    for level in reversed(range(shape.rank)):
        size = shape.dimensions[level]
        count = prod(shape.dimensions[:level])
        groups = [words[n * size : (n + 1) * size] for n in range(count)]
        numbered = shape.rank >= 4 and 0 < level < shape.rank - 1
        blank = " " if level < shape.rank - 1 or (shape.rank > 1 and size > 1) else ""
        words = []
        for n, group in enumerate(groups):
            note = f"/*i{level - 1}={n % shape.dimensions[level - 1]}*/ " if numbered else ""
            words.append(f"{{{blank}{note}{', '.join(group)}{blank}}}")
    return words[0]
