"""The server: requests of an editor, answered by the other files of this room.

Texts are checked in a thread of their own, a moment after the last keystroke; a newer edit ends the check of an older
text at its next step.  Until a text can be read again, what was known of the last one that could stays.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lsprotocol import types
from pygls import uris
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from hlotool.ir import Diagnostic
from hlotool.lsp import wire
from hlotool.lsp.completion import complete
from hlotool.lsp.diagnostics import Report, Smell, errors, smells
from hlotool.lsp.document import Document, Edit, Refused
from hlotool.lsp.fixes import error_fix, lint_edits, silence_fix
from hlotool.lsp.folding import folds
from hlotool.lsp.formatting import format_edit
from hlotool.lsp.hover import hover
from hlotool.lsp.known import Known
from hlotool.lsp.lens import COMMANDS, lenses
from hlotool.lsp.navigation import definition, named_part, references, rename, symbols
from hlotool.lsp.processes import Done, Processes
from hlotool.lsp.tokens import MODIFIERS, TYPES, encoded
from hlotool.text.visible import visible
from hlotool.version import __version__

__all__ = ["FEATURES", "Server", "serve"]

_T = TypeVar("_T")
_DELAY = 0.2  # seconds without a keystroke before a text is checked
_LONGEST = 2000  # characters of a message; the log has all
_REFUSED = -32803  # the protocol's code for requests that failed for a reason


class _Protocol(LanguageServerProtocol):
    """The protocol, but that texts are kept by `Server`: its own documents end lines at characters that end none in the
    protocol, such as U+2028, and so apply later edits in the wrong place."""

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Iterator[Any]:
        yield self.fm.features[types.TEXT_DOCUMENT_DID_CHANGE], (params,), None


class _Open:
    """A text that an editor has open: as it is now, and what is known of it or of an earlier version."""

    def __init__(self, document: Document, name: str) -> None:
        self.document = document
        self.name = name
        self.known: Known | None = None
        self.checked: Document | None = None
        """The text that the diagnostics are about."""
        self.errors: tuple[Diagnostic, ...] = ()
        self.smells: list[Smell] = []
        self.check: asyncio.Task[None] | None = None


class Server(LanguageServer):
    """A language server for HLO."""

    def __init__(self) -> None:
        super().__init__(
            "hlotool", __version__, types.TextDocumentSyncKind.Incremental, protocol_cls=_Protocol
        )  # fmt: skip
        self.texts: dict[str, _Open] = {}
        self.was_shut_down = False
        self.was_started = False
        self.processes = Processes()
        self.checker = ThreadPoolExecutor(1, "hlotool-check")
        for method, handler, options in FEATURES:
            self.feature(method, options)(partial(handler, self))
        for name in COMMANDS:
            self.command(name)(_document_command(self, name))
        self.command("hlotool.explain")(_explain_command(self))

    def close(self) -> None:
        """End all that runs."""
        self.checker.shutdown(wait=False, cancel_futures=True)
        self.processes.close()

    def text(self, uri: str) -> _Open:
        """An open text; the one of the file where the editor has not opened it."""
        found = self.texts.get(uri)
        if found is None:
            raise JsonRpcException(f"{uri} is not open", _REFUSED)
        return found

    @property
    def encoding(self) -> str:
        """What columns count."""
        chosen = self.server_capabilities.position_encoding
        return str(getattr(chosen, "value", chosen) or "utf-16")

    @property
    def folder(self) -> Path | None:
        """Where the editor works."""
        root = self.workspace.root_path
        return Path(root) if root else None

    # ---- checks

    def check_soon(self, uri: str, delay: float = _DELAY) -> None:
        """Check a text when nobody has typed for a moment."""
        held = self.text(uri)
        if held.check is not None:
            held.check.cancel()
        held.check = asyncio.get_running_loop().create_task(self._check(uri, held, delay))

    async def _check(self, uri: str, held: _Open, delay: float) -> None:
        await asyncio.sleep(delay)
        document = held.document
        try:
            report: Report = await self._aside(errors, document.text, held.name)
            held.errors, held.smells, held.checked = report.diagnostics, [], document
            held.known = report.known or held.known
            if report.known is None or not report.known.is_whole:
                self._publish(uri, held)
                return
            held.smells = await self._aside(smells, report.known, document.text)
            self._publish(uri, held)
        except Exception as error:
            text = f"checking {uri}: {type(error).__name__}: {error}; this is a bug in hlotool"
            self._log(text, types.MessageType.Error)

    def _aside(self, function: Callable[..., _T], *arguments: object) -> Awaitable[_T]:
        """In the thread of the checks."""
        return asyncio.get_running_loop().run_in_executor(self.checker, function, *arguments)

    def _publish(self, uri: str, held: _Open) -> None:
        document = held.checked
        if document is None or self.texts.get(uri) is not held:
            return
        found = [*held.errors, *(smell.diagnostic for smell in held.smells)]
        rows = [wire.diagnostic_of(document, one, uri, self.folder) for one in found]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, rows, document.version))

    def _log(self, text: str, kind: types.MessageType = types.MessageType.Info) -> None:
        self.window_log_message(types.LogMessageParams(kind, visible(text)))

    # ---- commands

    async def show(self, title: str, done: Done) -> dict[str, Any]:
        """Tell how a command ended: a page in the editor or the browser, else a message; the log has all."""
        said = "\n".join(filter(None, (done.output.strip(), done.errors.strip())))
        self._log(f"{title}: exit code {done.exit_code}\n{said}")
        opened = False
        if done.page is not None:
            opened = await self._open(done.page)
        if not opened:
            kind = types.MessageType.Info if done.exit_code == 0 else types.MessageType.Error
            if done.exit_code == 1:
                kind = types.MessageType.Warning
            text = f"{title}: {done.page}" if done.page is not None else f"{title}: {said or 'done'}"
            text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
            self.window_show_message(types.ShowMessageParams(kind, visible(text)))
        page = done.page.as_uri() if done.page is not None else None
        return {"exit_code": done.exit_code, "output": done.output, "errors": done.errors, "page": page}

    async def _open(self, page: Path) -> bool:
        """Whether the editor shows a page."""
        window = self.client_capabilities.window
        if window is None or window.show_document is None or not window.show_document.support:
            return False
        external = page.suffix == ".html"
        asked = types.ShowDocumentParams(uri=page.as_uri(), external=external, take_focus=True)
        result = await self.window_show_document_async(asked)
        return bool(result.success)


def _document_command(server: Server, name: str) -> Callable[..., Any]:
    """What runs when an editor calls a command with the address of a text."""
    command = COMMANDS[name]

    async def handler(uri: str) -> dict[str, Any]:
        held = server.text(uri)
        return await server.show(command.title, await server.processes.on_text(command, held.document.text, held.name))

    return handler


def _explain_command(server: Server) -> Callable[..., Any]:
    async def handler(code: str) -> dict[str, Any]:
        word = "".join(c for c in code if c.isalnum())[:20]
        return await server.show(f"explain {word}", await server.processes.explained(word))

    return handler


@contextmanager
def _refusals() -> Iterator[None]:
    """What cannot be done is an answer, not a bug."""
    try:
        yield
    except Refused as reason:
        raise JsonRpcException(str(reason), _REFUSED) from None


# ---- texts


def _did_open(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    item = params.text_document
    path = uris.to_fs_path(item.uri)
    server.texts[item.uri] = _Open(Document(item.text, item.version, server.encoding), path or item.uri)
    server.check_soon(item.uri, 0)


def _did_change(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    uri, version = params.text_document.uri, params.text_document.version
    held = server.text(uri)
    for change in params.content_changes:
        if isinstance(change, types.TextDocumentContentChangePartial):
            edit = Edit(*wire.offsets(held.document, change.range), change.text)
            held.document = held.document.changed(edit, version)
        else:
            held.document = Document(change.text, version, server.encoding)
    server.check_soon(uri)


def _did_close(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    uri = params.text_document.uri
    held = server.texts.pop(uri, None)
    if held is not None and held.check is not None:
        held.check.cancel()
    server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))


def _did_start(server: Server, params: types.InitializedParams) -> None:
    server.was_started = True


def _did_shut_down(server: Server, params: Any = None) -> None:
    server.was_shut_down = True


# ---- questions


class _Placed(Protocol):
    """What all questions about a place have."""

    text_document: types.TextDocumentIdentifier
    position: types.Position


def _at(server: Server, params: _Placed) -> tuple[_Open, int]:
    held = server.text(params.text_document.uri)
    return held, held.document.offset(params.position.line, params.position.character)


def _hover(server: Server, params: types.HoverParams) -> types.Hover | None:
    held, offset = _at(server, params)
    part = held.document.part_at(offset)
    text = hover(held.document, held.known, part) if part is not None else None
    if part is None or text is None:
        return None
    contents = types.MarkupContent(types.MarkupKind.Markdown, visible(text))
    return types.Hover(contents, wire.range_of(held.document, part.start, part.end))


def _definition(server: Server, params: types.DefinitionParams) -> types.Location | None:
    held, offset = _at(server, params)
    document, part = held.document, held.document.part_at(offset)
    if part is not None and part.kind == "attribute" and document.word(part) == "metadata":
        return _written(server, held, offset)
    part = named_part(document, offset)
    place = definition(document, part) if part is not None else None
    if place is None:
        return None
    return types.Location(params.text_document.uri, wire.range_of(document, place.start, place.end))


def _written(server: Server, held: _Open, offset: int) -> types.Location | None:
    """Where the user's program has the instruction at `offset`, as its metadata says."""
    statement = held.document.statement_at(offset)
    if statement is None or held.known is None:
        return None
    found = held.known.named(held.document, statement.scope, statement.name)
    place = found.facts.sources.of(found.instruction) if found is not None else None
    return wire.source_location(place, server.folder) if place is not None else None


def _references(server: Server, params: types.ReferenceParams) -> list[types.Location]:
    held, offset = _at(server, params)
    document, part = held.document, named_part(held.document, offset)
    found = references(document, part, params.context.include_declaration) if part is not None else []
    return [types.Location(params.text_document.uri, wire.range_of(document, p.start, p.end)) for p in found]


def _highlights(server: Server, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
    held, offset = _at(server, params)
    part = named_part(held.document, offset)
    kinds = {"definition": types.DocumentHighlightKind.Write, "computation": types.DocumentHighlightKind.Write}
    return [
        types.DocumentHighlight(
            wire.range_of(held.document, one.start, one.end), kinds.get(one.kind, types.DocumentHighlightKind.Read)
        )
        for one in (references(held.document, part) if part is not None else [])
    ]


def _prepare_rename(server: Server, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
    held, offset = _at(server, params)
    part = named_part(held.document, offset)
    if part is None:
        return None
    place = wire.range_of(held.document, part.start, part.end)
    return types.PrepareRenamePlaceholder(range=place, placeholder=held.document.word(part))


def _rename(server: Server, params: types.RenameParams) -> types.WorkspaceEdit:
    held, offset = _at(server, params)
    part = named_part(held.document, offset)
    with _refusals():
        if part is None:
            raise Refused("there is no name here")
        edits = rename(held.document, part, params.new_name)
    return wire.workspace_edit(params.text_document.uri, held.document, edits)


def _completion(server: Server, params: types.CompletionParams) -> types.CompletionList:
    held, offset = _at(server, params)
    offer = complete(held.document, offset, _takes_snippets(server))
    rows = [wire.completion_item(held.document, item, number) for number, item in enumerate(offer.items)]
    return types.CompletionList(is_incomplete=offer.is_cut, items=rows)


def _takes_snippets(server: Server) -> bool:
    of_text = server.client_capabilities.text_document
    item = of_text.completion.completion_item if of_text is not None and of_text.completion is not None else None
    return bool(item is not None and item.snippet_support)


def _symbols(server: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    document = server.text(params.text_document.uri).document
    return [wire.document_symbol(document, symbol) for symbol in symbols(document)]


def _tokens(server: Server, params: types.SemanticTokensParams) -> types.SemanticTokens:
    document = server.text(params.text_document.uri).document
    return types.SemanticTokens(encoded(document, document.scan.parts))


def _some_tokens(server: Server, params: types.SemanticTokensRangeParams) -> types.SemanticTokens:
    document = server.text(params.text_document.uri).document
    return types.SemanticTokens(encoded(document, document.parts_between(*wire.offsets(document, params.range))))


def _folding(server: Server, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
    return [wire.folding_range(fold) for fold in folds(server.text(params.text_document.uri).document)]


def _formatting(server: Server, params: types.DocumentFormattingParams) -> list[types.TextEdit]:
    document = server.text(params.text_document.uri).document
    with _refusals():
        edit = format_edit(document)
    return wire.edits_of(document, [edit] if edit is not None else [])


def _lenses(server: Server, params: types.CodeLensParams) -> list[types.CodeLens]:
    uri = params.text_document.uri
    document = server.text(uri).document
    return [
        types.CodeLens(
            wire.range_of(document, one.start, one.end),
            types.Command(COMMANDS[one.command].title, one.command, arguments=[uri]),
        )
        for one in lenses(document)
    ]


# ---- what mends diagnostics


def _actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """What can be done about the diagnostics in a range; nothing where the text has changed since it was checked."""
    uri = params.text_document.uri
    held = server.text(uri)
    if held.checked is not held.document:
        return []
    document, (start, end) = held.document, wire.offsets(held.document, params.range)
    found: list[types.CodeAction] = []
    codes: list[str] = []
    for diagnostic in _touched(document, held.errors, start, end):
        codes.append(diagnostic.code)
        fix = error_fix(document, diagnostic)
        if fix is not None:
            found.append(_quick_fix(server, uri, held, diagnostic, fix.title, fix.edits, preferred=True))
    for number, smell in enumerate(held.smells):
        if not _touched(document, (smell.diagnostic,), start, end):
            continue
        codes.append(smell.rule.code)
        if smell.finding.fix is not None:
            found.append(_lint_fix(server, uri, held, number))
        silence = silence_fix(document, smell)
        if silence is not None:
            found.append(_quick_fix(server, uri, held, smell.diagnostic, silence.title, silence.edits))
    for code in dict.fromkeys(codes):
        command = types.Command(f"explain {code}", "hlotool.explain", arguments=[code])
        found.append(types.CodeAction(f"explain {code}", types.CodeActionKind.Empty, command=command))
    return found


def _touched(document: Document, found: tuple[Diagnostic, ...], start: int, end: int) -> list[Diagnostic]:
    """The diagnostics whose ranges meet another."""
    ranges = [(one, document.range_of(one.location)) for one in found if one.location is not None]
    return [one for one, (first, last) in ranges if first <= end and start <= last]


def _quick_fix(
    server: Server, uri: str, held: _Open, diagnostic: Diagnostic, title: str, edits: tuple[Edit, ...],
    preferred: bool = False,
) -> types.CodeAction:  # fmt: skip
    return types.CodeAction(
        title,
        types.CodeActionKind.QuickFix,
        diagnostics=[wire.diagnostic_of(held.document, diagnostic, uri, server.folder)],
        is_preferred=preferred,
        edit=wire.workspace_edit(uri, held.document, edits),
    )


def _lint_fix(server: Server, uri: str, held: _Open, number: int) -> types.CodeAction:
    """What lint proposes; the edits are found when the user has chosen it, if the editor can ask again."""
    diagnostic = held.smells[number].diagnostic
    action = types.CodeAction(
        f"mend: {diagnostic.hint}",
        types.CodeActionKind.QuickFix,
        diagnostics=[wire.diagnostic_of(held.document, diagnostic, uri, server.folder)],
        data={"uri": uri, "version": held.document.version, "smell": number},
    )
    of_text = server.client_capabilities.text_document
    support = of_text.code_action.resolve_support if of_text is not None and of_text.code_action is not None else None
    if support is None or "edit" not in support.properties:
        try:
            return _resolved(server, action)
        except JsonRpcException as reason:
            action.disabled = types.CodeActionDisabled(reason.message)
    return action


def _resolved(server: Server, action: types.CodeAction) -> types.CodeAction:
    data = action.data if isinstance(action.data, dict) else {}
    held = server.texts.get(str(data.get("uri")))
    number = data.get("smell")
    with _refusals():
        stale = held is None or held.known is None or held.document.version != data.get("version")
        if held is None or held.known is None or stale or not isinstance(number, int) or number >= len(held.smells):
            raise Refused("the text has changed since")
        edits = lint_edits(held.document, held.known, held.smells[number])
        action.edit = wire.workspace_edit(str(data["uri"]), held.document, edits)
    return action


_LEGEND = types.SemanticTokensLegend(token_types=list(TYPES), token_modifiers=list(MODIFIERS))
FEATURES: tuple[tuple[str, Callable[..., Any], Any], ...] = (
    (types.INITIALIZED, _did_start, None),
    (types.SHUTDOWN, _did_shut_down, None),
    (types.TEXT_DOCUMENT_DID_OPEN, _did_open, None),
    (types.TEXT_DOCUMENT_DID_CHANGE, _did_change, None),
    (types.TEXT_DOCUMENT_DID_CLOSE, _did_close, None),
    (types.TEXT_DOCUMENT_HOVER, _hover, None),
    (types.TEXT_DOCUMENT_DEFINITION, _definition, None),
    (types.TEXT_DOCUMENT_REFERENCES, _references, None),
    (types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, _highlights, None),
    (types.TEXT_DOCUMENT_PREPARE_RENAME, _prepare_rename, None),
    (types.TEXT_DOCUMENT_RENAME, _rename, types.RenameOptions(prepare_provider=True)),
    (
        types.TEXT_DOCUMENT_COMPLETION,
        _completion,
        types.CompletionOptions(trigger_characters=[" ", "(", ",", "=", "{", "%"]),
    ),
    (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols, None),
    (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, _tokens, _LEGEND),
    (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, _some_tokens, _LEGEND),
    (types.TEXT_DOCUMENT_FOLDING_RANGE, _folding, None),
    (types.TEXT_DOCUMENT_FORMATTING, _formatting, None),
    (types.TEXT_DOCUMENT_CODE_LENS, _lenses, None),
    (
        types.TEXT_DOCUMENT_CODE_ACTION,
        _actions,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix], resolve_provider=True),
    ),
    (types.CODE_ACTION_RESOLVE, _resolved, None),
)


def serve(tcp: tuple[str, int] | None = None) -> int:
    """Serve one editor, on standard input and output or a port, until it ends; the exit code that the protocol wants:
    1 where the editor went away without saying so first."""
    server = Server()
    try:
        if tcp is not None:
            server.start_tcp(*tcp)
        else:
            with _own_output() as stream:
                server.start_io(sys.stdin.buffer, stream)
    finally:
        server.close()
    return 0 if server.was_shut_down or not server.was_started else 1


@contextmanager
def _own_output() -> Iterator[Any]:
    """Standard output for the protocol alone: what anything else prints goes to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    before, sys.stdout = sys.stdout, sys.stderr
    try:
        with os.fdopen(own, "wb") as stream:
            yield stream
    finally:
        sys.stdout = before
