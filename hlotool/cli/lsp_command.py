"""``hlotool lsp``."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any

import click

from hlotool.cli.words import say
from hlotool.ir import UnsupportedError

__all__ = ["command"]


class _Port(click.ParamType[tuple[str, int]]):
    """``HOST:PORT``."""

    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        host, _, port = str(value).rpartition(":")
        if not host or not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65535):
            self.fail(f"{value!r} is no HOST:PORT, as localhost:8765 is", param, ctx)
        return host.strip("[]"), int(port)


@click.command("lsp")
@click.option("--stdio", is_flag=True, help="Speak on standard input and output, as without options.")
@click.option("--tcp", type=_Port(), metavar="HOST:PORT", help="Wait for one editor on a port instead.")
@click.pass_context
def command(ctx: click.Context, stdio: bool, tcp: tuple[str, int] | None) -> None:
    """Serve an editor: errors and smells while you type, what is known of values, names, completion, formatting.

    It speaks the Language Server Protocol; editors start it by themselves.  samples/editors has an extension for VS
    Code, and what to put into the settings of Neovim, Helix and Emacs.  It needs the package pygls:
    pip install 'hlotool[lsp]'.

    Errors are those of hlotool verify, smells those of hlotool lint; formatting is that of hlotool fmt.  Over the entry
    of a module the editor shows what it can run: run, compare with evaluator, open graph.  These run in processes of
    their own, on the text as it is in the editor.

    Exits 0 when the editor has ended it, 1 when it went away without a word, 4 without pygls.
    """
    if stdio and tcp is not None:
        raise click.UsageError("--stdio and --tcp do not go together")
    try:
        from hlotool.lsp.server import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise UnsupportedError("the language server needs pygls 2: pip install 'hlotool[lsp]'") from error
    signal.signal(signal.SIGINT, _interrupted)
    if tcp is not None:
        say(f"waiting for an editor on {tcp[0]}:{tcp[1]}", err=True)
    ctx.exit(serve(tcp))


def _interrupted(number: int, frame: FrameType | None) -> None:
    """End at once: a thread waits for standard input, which nothing but its end would wake."""
    say("interrupted", err=True)
    os._exit(130)
