"""Commands of hlotool on the text of an editor, each in a process of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from hlotool.lazy_dataclass import dataclass
from hlotool.lsp.lens import EXPLAIN, Command

__all__ = ["Done", "Processes"]

_LONGEST = 60  # characters of a name


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, what it wrote, and the page that it made."""

    exit_code: int
    output: str
    errors: str
    page: Path | None = None


class Processes:
    """The processes that run, and a folder for what they read and write; both end with `close`."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hlotool-lsp-", ignore_cleanup_errors=True)
        self._running: set[asyncio.subprocess.Process] = set()
        self._count = 0

    def close(self) -> None:
        for process in self._running:
            with suppress(ProcessLookupError):
                process.kill()
        self._folder.cleanup()

    async def on_text(self, command: Command, text: str, name: str) -> Done:
        """Run a command on a text, in a file of about that name."""
        self._count += 1
        folder = Path(self._folder.name) / str(self._count)
        folder.mkdir()
        stem = "".join(c if c.isalnum() or c in "._-" else "_" for c in PurePath(name).name)[:_LONGEST].lstrip(".")
        file = folder / f"{(stem or 'module').removesuffix('.hlo')}.hlo"
        page = folder / f"{file.stem}{command.page}" if command.page else None
        file.write_bytes(text.encode("utf-8", "surrogateescape" if _has_only_bytes(text) else "replace"))
        line = command.line(file=file.name, out=page.name if page is not None else "")
        return await self._run(line, folder, page)

    async def explained(self, code: str) -> Done:
        """What a code means, as a page."""
        folder = Path(self._folder.name)
        done = await self._run(EXPLAIN.line(code=code), folder, None)
        if done.exit_code:
            return done
        page = folder / f"{code}{EXPLAIN.page}"
        page.write_text(done.output, encoding="utf-8")
        return Done(0, done.output, done.errors, page)

    async def _run(self, line: Sequence[str], folder: Path, page: Path | None) -> Done:
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*line, stdin=nothing, stdout=pipe, stderr=pipe, cwd=folder)
        self._running.add(process)
        try:
            output, errors = await process.communicate()
        finally:
            self._running.discard(process)
            if process.returncode is None:  # the editor asks no more
                with suppress(ProcessLookupError):
                    process.kill()
        made = page if page is not None and page.is_file() else None
        words = (output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))
        return Done(process.returncode or 0, *words, made)


def _has_only_bytes(text: str) -> bool:
    """Whether all surrogates stand for bytes that are no UTF-8."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
