"""Between what this room finds, as offsets into a text, and the types of the protocol."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lsprotocol import types

from hlotool.ir import Diagnostic, Location
from hlotool.lsp.completion import Item
from hlotool.lsp.document import Document, Edit
from hlotool.lsp.folding import Fold
from hlotool.lsp.navigation import Symbol
from hlotool.text.visible import visible

__all__ = [
    "completion_item", "diagnostic_of", "document_symbol", "edits_of", "folding_range", "offsets", "range_of",
    "source_location", "workspace_edit",
]  # fmt: skip

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}
_ITEM_KINDS = {
    "opcode": types.CompletionItemKind.Function,
    "attribute": types.CompletionItemKind.Property,
    "operand": types.CompletionItemKind.Variable,
    "computation": types.CompletionItemKind.Module,
    "type": types.CompletionItemKind.TypeParameter,
    "value": types.CompletionItemKind.EnumMember,
    "keyword": types.CompletionItemKind.Keyword,
}


def range_of(document: Document, start: int, end: int) -> types.Range:
    first, last = document.position(start), document.position(end)
    return types.Range(types.Position(*first), types.Position(*last))


def offsets(document: Document, place: types.Range) -> tuple[int, int]:
    start, end = place.start, place.end
    return document.offset(start.line, start.character), document.offset(end.line, end.character)


def edits_of(document: Document, edits: Iterable[Edit]) -> list[types.TextEdit]:
    return [types.TextEdit(range_of(document, edit.start, edit.end), edit.text) for edit in edits]


def workspace_edit(uri: str, document: Document, edits: Iterable[Edit]) -> types.WorkspaceEdit:
    """Edits of this version of the document."""
    place = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=document.version)
    return types.WorkspaceEdit(
        document_changes=[types.TextDocumentEdit(text_document=place, edits=edits_of(document, edits))]
    )


def diagnostic_of(document: Document, diagnostic: Diagnostic, uri: str, folder: Path | None) -> types.Diagnostic:
    """A diagnostic; its hint is a part of the message, places in other files are related where these files exist."""
    start, end = document.range_of(diagnostic.location) if diagnostic.location is not None else (0, 0)
    message = diagnostic.message if diagnostic.hint is None else f"{diagnostic.message}\n{diagnostic.hint}"
    related: list[types.DiagnosticRelatedInformation] = []
    own = diagnostic.location.file if diagnostic.location is not None else None
    for text, place in diagnostic.related:
        if place.file == own:
            where = types.Location(uri, range_of(document, *document.range_of(place)))
        elif (found := source_location(place, folder)) is not None:
            where = found
        else:
            message += f"\n{text}: {place.file}:{place.line}"
            continue
        related.append(types.DiagnosticRelatedInformation(where, visible(text)))
    return types.Diagnostic(
        range=range_of(document, start, end),
        message=visible(message),
        severity=_SEVERITIES.get(diagnostic.severity, types.DiagnosticSeverity.Error),
        code=diagnostic.code,
        source="hlotool",
        related_information=related or None,
    )


def source_location(place: Location, folder: Path | None) -> types.Location | None:
    """A place in a file of the user's program; None where there is no such file here."""
    try:
        path = Path(place.file) if folder is None else folder / place.file
        if not path.is_absolute() or not path.is_file():
            return None
        uri = path.as_uri()
    except (OSError, ValueError):
        return None
    first = types.Position(place.line - 1, max(0, place.column - 1))
    last = types.Position(place.end_line - 1, max(0, place.end_column - 1))
    return types.Location(uri, types.Range(first, last))


def completion_item(document: Document, item: Item, number: int) -> types.CompletionItem:
    """An item; the order is that of the list."""
    documentation = types.MarkupContent(types.MarkupKind.Markdown, item.documentation) if item.documentation else None
    form = types.InsertTextFormat.Snippet if item.snippet else types.InsertTextFormat.PlainText
    return types.CompletionItem(
        label=item.label,
        kind=_ITEM_KINDS[item.kind],
        detail=item.detail or None,
        documentation=documentation,
        sort_text=f"{number:06}",
        filter_text=item.label,
        insert_text_format=form,
        text_edit=types.TextEdit(range_of(document, item.start, item.end), item.text),
    )


def document_symbol(document: Document, symbol: Symbol) -> types.DocumentSymbol:
    kind = types.SymbolKind.Function if symbol.inside or symbol.detail in ("", "ENTRY") else types.SymbolKind.Variable
    return types.DocumentSymbol(
        name=symbol.name,
        detail=symbol.detail or None,
        kind=kind,
        range=range_of(document, *symbol.range),
        selection_range=range_of(document, *symbol.name_range),
        children=[document_symbol(document, one) for one in symbol.inside] or None,
    )


def folding_range(fold: Fold) -> types.FoldingRange:
    kind = types.FoldingRangeKind.Comment if fold.kind == "comment" else types.FoldingRangeKind.Region
    return types.FoldingRange(start_line=fold.first, end_line=fold.last, kind=kind)
