"""``hlotool lsp``: a server in a process of its own, asked through the protocol by a client library."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Run, environment

pytest.importorskip("pygls.lsp.client", reason="needs pygls: pip install 'hlotool[test]'")

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from hlotool.lsp.document import Document, Edit
from hlotool.lsp.fixes import apply
from hlotool.text.format import formatted
from hlotool.text.load import Source, parse_all

BROKEN = sorted((ROOT.parent / "shared" / "badhlo").glob("*.hlo"))
SAMPLE = ROOT / "samples" / "while_loop.hlo"
SERVER = [sys.executable, "-m", "hlotool", "lsp"]
TEXT = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY main {
  x = f32[4,8]{1,0} parameter(0)
  zero = f32[] constant(0)
  t = f32[4,8]{1,0} tanh(x)
  ROOT sum = f32[4]{0} reduce(t, zero), dimensions={1}, to_apply=add
}
"""
URI = "file:///nowhere/m.hlo"


class Editor:
    """A client and what the server has told it."""

    def __init__(self, client: LanguageClient, answer: types.InitializeResult) -> None:
        self.client = client
        self.capabilities = answer.capabilities
        self.encoding = str(answer.capabilities.position_encoding)
        self.published: list[types.PublishDiagnosticsParams] = []
        self.messages: list[types.ShowMessageParams] = []
        self.logs: list[types.LogMessageParams] = []
        self.shown: list[types.ShowDocumentParams] = []
        self.news = asyncio.Event()
        self.document = Document("")

    def open(self, text: str, uri: str = URI) -> None:
        self.document = Document(text, 1, self.encoding)
        item = types.TextDocumentItem(uri, "hlo", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(self, offset: int, text: str, removed: int = 0) -> None:
        """An edit, as the difference that editors send."""
        version = self.document.version + 1
        change = types.TextDocumentContentChangePartial(self.range(offset, offset + removed), text)
        name = types.VersionedTextDocumentIdentifier(version, URI)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(name, [change]))
        self.document = self.document.changed(Edit(offset, offset + removed, text), version)

    async def diagnostics(self, version: int | None = None, uri: str = URI) -> list[types.Diagnostic]:
        """The last diagnostics of a version of a text, once the server has nothing more to say of it."""
        wanted = self.document.version if version is None else version
        while True:
            found = [one for one in self.published if one.uri == uri and one.version == wanted]
            if found:
                return list(found[-1].diagnostics)
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), 120)

    def range(self, start: int, end: int) -> types.Range:
        first, last = self.document.position(start), self.document.position(end)
        return types.Range(types.Position(*first), types.Position(*last))

    def place(self, word: str, nth: int = 0) -> dict[str, Any]:
        """The words of a question about the n-th occurrence of a word."""
        at = [found.start() for found in re.finditer(re.escape(word), self.document.text)][nth]
        return {"text_document": types.TextDocumentIdentifier(URI), "position": self.range(at, at).start}

    def words(self, places: Any) -> list[tuple[int, str]]:
        """Lines, from 1, and the text at places."""
        found = []
        for one in places:
            start = self.document.offset(one.range.start.line, one.range.start.character)
            end = self.document.offset(one.range.end.line, one.range.end.character)
            found.append((one.range.start.line + 1, self.document.text[start:end]))
        return found

    def edited(self, edits: Any) -> str:
        """The text after edits."""
        places = [(one, self.document.offset(one.range.start.line, one.range.start.character),
                   self.document.offset(one.range.end.line, one.range.end.character)) for one in edits]  # fmt: skip
        return apply(self.document.text, [Edit(start, end, one.new_text) for one, start, end in places])


Session = Callable[[Editor], Awaitable[None]]


def session(body: Session, capabilities: types.ClientCapabilities | None = None, **changes: str | None) -> int | None:
    """Start a server, have `body` talk to it, and end it as editors do; its exit code."""

    async def run() -> int | None:
        client = LanguageClient("tests", "1")
        await client.start_io(*SERVER, env=environment(**changes))
        offered = capabilities or types.ClientCapabilities(
            window=types.WindowClientCapabilities(show_document=types.ShowDocumentClientCapabilities(True)),
            text_document=types.TextDocumentClientCapabilities(
                rename=types.RenameClientCapabilities(prepare_support=True),
                completion=types.CompletionClientCapabilities(
                    completion_item=types.ClientCompletionItemOptions(snippet_support=True)
                ),
                code_action=types.CodeActionClientCapabilities(
                    resolve_support=types.ClientCodeActionResolveOptions(["edit"])
                ),
            ),
        )
        answer = await client.initialize_async(types.InitializeParams(capabilities=offered))
        editor = Editor(client, answer)

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            editor.published.append(params)
            editor.news.set()

        @client.feature(types.WINDOW_SHOW_MESSAGE)
        def message(params: types.ShowMessageParams) -> None:
            editor.messages.append(params)

        @client.feature(types.WINDOW_LOG_MESSAGE)
        def log(params: types.LogMessageParams) -> None:
            editor.logs.append(params)

        @client.feature(types.WINDOW_SHOW_DOCUMENT)
        def show(params: types.ShowDocumentParams) -> types.ShowDocumentResult:
            editor.shown.append(params)
            assert Path(params.uri.removeprefix("file://")).stat().st_size > 0
            return types.ShowDocumentResult(success=True)

        client.initialized(types.InitializedParams())
        try:
            await body(editor)
        finally:
            await client.shutdown_async(None)
            client.exit(None)
            process: asyncio.subprocess.Process = client._server  # type: ignore[attr-defined]
            code = await asyncio.wait_for(process.wait(), 60)
            await client.stop()
        assert not [log.message for log in editor.logs if "bug in hlotool" in log.message]
        return code

    return asyncio.run(run())


def test_it_says_what_it_can() -> None:
    async def body(editor: Editor) -> None:
        found = editor.capabilities
        for name in ("hover", "definition", "references", "document_highlight", "document_formatting",
                     "document_symbol", "folding_range", "semantic_tokens", "code_lens", "completion"):  # fmt: skip
            assert getattr(found, f"{name}_provider"), name
        assert isinstance(found.rename_provider, types.RenameOptions)
        assert found.execute_command_provider is not None
        assert sorted(found.execute_command_provider.commands) == [
            "hlotool.compare", "hlotool.explain", "hlotool.graph", "hlotool.run",
        ]  # fmt: skip

    assert session(body) == 0


def test_diagnostics_while_typing() -> None:
    """Errors with ranges, codes and fixes; none once the text is right again; the last good module stays known."""

    async def body(editor: Editor) -> None:
        editor.open(TEXT)
        assert await editor.diagnostics() == []
        at = TEXT.index("tanh(x)")
        editor.type(at, "tahn(y)", 7)
        wrong, undefined = await editor.diagnostics()
        assert (wrong.code, undefined.code, wrong.source) == ("HLO0108", "HLO0141", "hlotool")
        assert wrong.severity == types.DiagnosticSeverity.Error
        assert editor.words([wrong, undefined]) == [(12, "tahn"), (12, "y")]
        assert "did you mean 'tan'?" in wrong.message
        editor.type(at, "tanh(", 7)  # half typed
        assert await editor.diagnostics() != []
        hover = await editor.client.text_document_hover_async(types.HoverParams(**editor.place("x = f32")))
        assert hover is not None
        assert "32 elements, 128 B" in hover.contents.value  # type: ignore[union-attr]
        editor.type(at + 5, "x)")
        assert await editor.diagnostics() == []
        assert editor.document.text == TEXT

    assert session(body) == 0


def test_only_the_newest_text_is_checked_to_the_end() -> None:
    async def body(editor: Editor) -> None:
        editor.open(TEXT)
        await editor.diagnostics()
        at = TEXT.index("tanh(") + 5
        for letter in "abcdef":
            editor.type(at, letter)
        await editor.diagnostics()
        versions = [one.version for one in editor.published]
        assert versions[-1] == 7
        assert len(set(versions)) < 7  # most of those between were never checked
        assert versions == sorted(versions)  # type: ignore[type-var]

    assert session(body) == 0


def test_names() -> None:
    async def body(editor: Editor) -> None:
        editor.open(TEXT)
        client = editor.client
        place = await client.text_document_definition_async(types.DefinitionParams(**editor.place("add", 2)))
        assert editor.words([place]) == [(3, "add")]
        context = types.ReferenceContext(include_declaration=True)
        found = await client.text_document_references_async(types.ReferenceParams(context, **editor.place("zero")))
        assert editor.words(found) == [(11, "zero"), (13, "zero")]
        asked = types.PrepareRenameParams(**editor.place("zero", 1))
        prepared = await client.text_document_prepare_rename_async(asked)
        assert prepared is not None
        assert prepared.placeholder == "zero"  # type: ignore[union-attr]
        renamed = await client.text_document_rename_async(types.RenameParams(new_name="nought", **editor.place("zero")))
        assert renamed is not None
        (change,) = renamed.document_changes  # type: ignore[misc]
        text = editor.edited(change.edits)
        assert text == TEXT.replace("zero", "nought")
        with pytest.raises(JsonRpcException, match="already has an instruction 't'"):
            await client.text_document_rename_async(types.RenameParams(new_name="t", **editor.place("zero")))
        with pytest.raises(JsonRpcException, match="is no name"):
            await client.text_document_rename_async(types.RenameParams(new_name="1", **editor.place("zero")))
        asked_symbols = types.DocumentSymbolParams(types.TextDocumentIdentifier(URI))
        outline = await client.text_document_document_symbol_async(asked_symbols)
        assert [one.name for one in outline or ()] == ["add", "main"]

    assert session(body) == 0


def test_definition_leads_to_the_source(tmp_path: Path) -> None:
    """From metadata to the line of the user's program, where that file exists."""
    source = tmp_path / "model.py"
    source.write_text("import jax\n")

    async def body(editor: Editor) -> None:
        editor.open(TEXT.replace("tanh(x)", f'tanh(x), metadata={{op_name="t" source_file="{source}" source_line=7}}'))
        await editor.diagnostics()
        asked = types.DefinitionParams(**editor.place("metadata"))
        place = await editor.client.text_document_definition_async(asked)
        assert isinstance(place, types.Location)
        assert (place.uri, place.range.start.line) == (source.as_uri(), 6)

    assert session(body) == 0


def test_completion_hover_and_the_rest() -> None:
    async def body(editor: Editor) -> None:
        editor.open(TEXT)
        await editor.diagnostics()
        client, document = editor.client, types.TextDocumentIdentifier(URI)
        offered = await client.text_document_completion_async(types.CompletionParams(**editor.place("x)", 0)))
        assert isinstance(offered, types.CompletionList)
        assert [one.label for one in offered.items] == ["zero", "x"]
        opcodes = await client.text_document_completion_async(types.CompletionParams(**editor.place("tanh(")))
        assert isinstance(opcodes, types.CompletionList)
        assert {"tanh", "reduce", "custom-call"} <= {one.label for one in opcodes.items}
        hover = await client.text_document_hover_async(types.HoverParams(**editor.place("t = ")))
        assert hover is not None
        folds = await client.text_document_folding_range_async(types.FoldingRangeParams(document))
        assert [(fold.start_line, fold.end_line) for fold in folds or ()] == [(2, 5), (8, 12)]
        full = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(document))
        asked = types.SemanticTokensRangeParams(document, editor.range(0, TEXT.index("add")))
        some = await client.text_document_semantic_tokens_range_async(asked)
        assert full is not None
        assert some is not None
        assert list(full.data[: len(some.data)]) == list(some.data)
        assert 0 < len(some.data) < len(full.data)
        edits = await client.text_document_formatting_async(
            types.DocumentFormattingParams(document, types.FormattingOptions(2, True))
        )
        assert editor.edited(edits or ()) == formatted(Source("x", "hlo", b"", TEXT)).text

    assert session(body) == 0


def test_formatting_refuses_to_lose_comments() -> None:
    async def body(editor: Editor) -> None:
        editor.open(TEXT.replace("tanh(x)", "tanh(x)  // between -1 and 1"))
        asked = types.DocumentFormattingParams(types.TextDocumentIdentifier(URI), types.FormattingOptions(2, True))
        with pytest.raises(JsonRpcException, match="the comment in line 12 would be lost"):
            await editor.client.text_document_formatting_async(asked)

    assert session(body) == 0


def test_lenses_run_what_they_say(tmp_path: Path) -> None:
    """run, compare and open graph, on the text as it is in the editor."""

    async def body(editor: Editor) -> None:
        editor.open(TEXT.replace("constant(0)", "constant(1)").replace("tanh(x)", "subtract(x, x)"))
        asked = types.CodeLensParams(types.TextDocumentIdentifier(URI))
        lenses = await editor.client.text_document_code_lens_async(asked)
        commands = [lens.command for lens in lenses or () if lens.command is not None]
        assert [one.title for one in commands] == ["run", "compare with evaluator", "open graph"]
        results: list[Any] = [
            await editor.client.workspace_execute_command_async(types.ExecuteCommandParams(one.command, one.arguments))
            for one in commands
        ]
        run, compared, drawn = results
        assert run["exit_code"] == 0
        assert run["output"] == "out0: f32[4]\n[1. 1. 1. 1.]\n"
        assert compared["output"].startswith("ok: ")
        assert [one.uri.rpartition(".")[2] for one in editor.shown] == ["html"]
        assert drawn["page"] == editor.shown[0].uri
        assert [one.message.partition(":")[0] for one in editor.messages] == ["run", "compare with evaluator"]
        explain = types.ExecuteCommandParams("hlotool.explain", ["HLO0108"])
        await editor.client.workspace_execute_command_async(explain)
        assert len(editor.shown) == 2

    assert session(body) == 0


def test_commands_that_fail_say_why() -> None:
    async def body(editor: Editor) -> None:
        editor.open(TEXT.replace("tanh(", "tahn("))
        asked = types.ExecuteCommandParams("hlotool.run", [URI])
        done: Any = await editor.client.workspace_execute_command_async(asked)
        assert done["exit_code"] == 3
        assert editor.messages[-1].type == types.MessageType.Error
        assert "HLO0108" in editor.messages[-1].message
        for command, arguments in (("hlotool.run", ["file:///other"]), ("hlotool.run", []), ("hlotool.none", [URI])):
            with pytest.raises(JsonRpcException):
                await editor.client.workspace_execute_command_async(types.ExecuteCommandParams(command, arguments))

    assert session(body) == 0


def test_editors_that_show_no_pages_are_told_where_they_are() -> None:
    async def body(editor: Editor) -> None:
        editor.open(TEXT)
        await editor.client.workspace_execute_command_async(types.ExecuteCommandParams("hlotool.graph", [URI]))
        assert editor.messages[-1].message.endswith(".html")
        assert not editor.shown

    assert session(body, types.ClientCapabilities()) == 0


def actions_at(editor: Editor, diagnostic: types.Diagnostic) -> types.CodeActionParams:
    context = types.CodeActionContext([diagnostic])
    return types.CodeActionParams(types.TextDocumentIdentifier(URI), diagnostic.range, context)


def test_quick_fixes() -> None:
    async def body(editor: Editor) -> None:
        editor.open(TEXT.replace("tanh(", "tanhh("))
        (wrong,) = await editor.diagnostics()
        actions = await editor.client.text_document_code_action_async(actions_at(editor, wrong))
        assert [one.title for one in actions or ()] == ["change to 'tanh'", "explain HLO0108"]
        fix = next(one for one in actions or () if isinstance(one, types.CodeAction))
        assert fix.is_preferred
        assert fix.edit is not None
        (change,) = fix.edit.document_changes  # type: ignore[misc]
        assert editor.edited(change.edits) == TEXT

    assert session(body) == 0


@pytest.mark.parametrize("resolves", [True, False])
def test_smells_are_mended_and_silenced(resolves: bool) -> None:
    from hlotool.lint.rules import RULES

    text = RULES["HLO6101"].wrong

    async def body(editor: Editor) -> None:
        editor.open(text)
        while not (found := await editor.diagnostics()):
            await asyncio.sleep(0.1)
        smell = next(one for one in found if one.code == "HLO6101")
        assert smell.severity == types.DiagnosticSeverity.Warning
        given = await editor.client.text_document_code_action_async(actions_at(editor, smell))
        actions = [one for one in given or () if isinstance(one, types.CodeAction)]
        mend = next(one for one in actions if one.title.startswith("mend: "))
        if resolves:
            assert mend.edit is None
            mend = await editor.client.code_action_resolve_async(mend)
        assert mend.edit is not None
        (change,) = mend.edit.document_changes  # type: ignore[misc]
        mended = editor.edited(change.edits)
        assert mended != text
        parse_all(mended)
        assert any(one.title == "silence HLO6101 here" for one in actions)

    assert session(body, None if resolves else types.ClientCapabilities()) == 0


@pytest.mark.skipif(not BROKEN, reason="the malformed files lie beside the repository")
def test_malformed_files() -> None:
    """Every one has the diagnostics that `hlotool verify` gives, and leaves the server alive."""

    async def body(editor: Editor) -> None:
        for number, path in enumerate(BROKEN):
            text = path.read_bytes().decode("utf-8", "surrogateescape")
            uri = f"file:///nowhere/{number}.hlo"
            editor.open(text, uri)
            found = await editor.diagnostics(1, uri)
            wrong = [one for one in found if one.severity == types.DiagnosticSeverity.Error]
            assert bool(wrong) != path.stem.startswith("legal_"), path.stem
            assert all(re.fullmatch(r"HLO\d{4}", str(one.code)) for one in found)
            identifier = types.TextDocumentIdentifier(uri)
            await editor.client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(identifier))
            await editor.client.text_document_document_symbol_async(types.DocumentSymbolParams(identifier))
            editor.client.text_document_did_close(types.DidCloseTextDocumentParams(identifier))

    assert session(body) == 0


def test_positions_count_utf16() -> None:
    """A letter outside of the basic plane is two units, and lines end where the protocol says."""
    text = TEXT.replace("ENTRY", "// 𝄞 \u2028 x\n/* 𝄞𝄞 */ ENTRY")
    text = text.replace("tanh(x)", 'tanh(x), metadata={op_name="𝄞"}, oops=1')

    async def body(editor: Editor) -> None:
        editor.open(text)
        (wrong,) = await editor.diagnostics()
        line = text.split("\n")[wrong.range.start.line]
        units = line.encode("utf-16-le")[: 2 * wrong.range.start.character].decode("utf-16-le")
        assert line[len(units) :].startswith("oops=1")
        editor.type(text.index("oops"), "", len("oops=1"))
        editor.type(text.index(", oops"), "", 2)
        assert await editor.diagnostics() == []

    assert session(body) == 0


# ---- how it ends


def framed(*messages: dict[str, Any]) -> bytes:
    bodies = [json.dumps({"jsonrpc": "2.0", **one}).encode() for one in messages]
    return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)


INITIALIZE = {"id": 1, "method": "initialize", "params": {"capabilities": {}, "processId": None, "rootUri": None}}
INITIALIZED = {"method": "initialized", "params": {}}


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ((), 0),
        ((INITIALIZE, INITIALIZED), 1),
        ((INITIALIZE, INITIALIZED, {"method": "exit"}), 1),
        ((INITIALIZE, INITIALIZED, {"id": 2, "method": "shutdown"}, {"method": "exit"}), 0),
    ],
    ids=["nothing", "went away", "exit", "shutdown"],
)
def test_exit_codes(messages: tuple[dict[str, Any], ...], code: int) -> None:
    done = subprocess.run(SERVER, input=framed(*messages), capture_output=True, env=environment(), check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)
    assert done.stdout.startswith(b"Content-Length: ") if messages else done.stdout == b""


def test_only_the_protocol_is_on_standard_output() -> None:
    """Each message is whole, and nothing stands between them."""
    opened = {"uri": URI, "languageId": "hlo", "version": 1, "text": TEXT}
    messages = (
        INITIALIZE, INITIALIZED, {"method": "textDocument/didOpen", "params": {"textDocument": opened}},
        {"id": 2, "method": "workspace/executeCommand", "params": {"command": "hlotool.run", "arguments": [URI]}},
    )  # fmt: skip
    with subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(framed(*messages))
        process.stdin.flush()
        found: list[dict[str, Any]] = []
        while not any(one.get("id") == 2 for one in found):
            header = process.stdout.readline()
            assert header.startswith(b"Content-Length: ")
            while process.stdout.readline().strip():
                pass
            found.append(json.loads(process.stdout.read(int(header.split()[1]))))
        process.stdin.write(framed({"id": 3, "method": "shutdown"}, {"method": "exit"}))
        process.stdin.close()
        rest = process.stdout.read()
    assert process.returncode == 0
    assert rest.count(b"Content-Length: ") == 1


def test_broken_messages_do_not_end_it() -> None:
    broken = b"Content-Length: 7\r\n\r\n{oops: " + framed({"id": 7, "method": "textDocument/hover", "params": {}})
    end = framed({"id": 2, "method": "shutdown"}, {"method": "exit"})
    data = framed(INITIALIZE, INITIALIZED) + broken + end
    done = subprocess.run(SERVER, input=data, capture_output=True, env=environment(), check=False)
    assert done.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_interrupts() -> None:
    with subprocess.Popen(
        SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(framed(INITIALIZE))
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b"interrupted\n"


def test_without_pygls(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "pygls").mkdir()
    (tmp_path / "pygls" / "__init__.py").write_text("raise ModuleNotFoundError('no pygls', name='pygls')\n")
    done = hlotool("lsp", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])})
    assert (done.returncode, done.stdout) == (4, "")
    assert "pip install 'hlotool[lsp]'" in done.stderr


@pytest.mark.parametrize("arguments", ["--tcp nowhere", "--tcp localhost:0", "--stdio --tcp a:1", "x"])
def test_usage(hlotool: Run, arguments: str) -> None:
    done = hlotool("lsp", *arguments.split())
    assert (done.returncode, done.stdout) == (2, "")


def test_a_port() -> None:
    """One editor on a port; the server ends with it."""
    import socket

    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    command = [*SERVER, "--tcp", f"localhost:{port}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment()) as process:
        try:
            while True:
                try:
                    connection = socket.create_connection(("localhost", port))
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None
                    time.sleep(0.1)
            with connection:
                connection.sendall(framed(INITIALIZE, INITIALIZED, {"id": 2, "method": "shutdown"}, {"method": "exit"}))
                data = b""
                while chunk := connection.recv(1 << 16):
                    data += chunk
            assert b'"capabilities"' in data
            assert process.wait(60) == 0
        finally:
            process.kill()
