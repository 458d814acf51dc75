"""The text in the normal form, as ``hlotool fmt`` writes it."""

from __future__ import annotations

from hlotool.ir import HloError
from hlotool.lsp.document import Document, Edit, Refused, smallest_edit
from hlotool.text.format import formatted
from hlotool.text.load import Source

__all__ = ["format_edit"]


def format_edit(document: Document) -> Edit | None:
    """What ``hlotool fmt --in-place`` changes; None where it changes nothing, Refused where it refuses."""
    try:
        result = formatted(Source("text", "hlo", b"", document.text))
    except HloError as error:
        first = error.diagnostics[0]
        where = f"line {first.location.line}: " if first.location is not None else ""
        raise Refused(f"not formatted: {where}{first.message}") from None
    edit = smallest_edit(document.text, result.text)
    if edit is not None and result.lost is not None:
        raise Refused(f"not formatted: the comment in line {result.lost} would be lost")
    return edit
