"""``hlotool fmt``."""

from __future__ import annotations

from difflib import unified_diff

import click

from hlotool.cli.common import read_source
from hlotool.cli.errors import CheckFailed
from hlotool.cli.output import write_text
from hlotool.cli.words import say
from hlotool.text.format import formatted
from hlotool.text.presets import PRESETS

__all__ = ["command"]


_OTHERS = {"stablehlo": "StableHLO", "bytecode": "bytecode of MLIR", "onnx": "a model in ONNX"}


@click.command("fmt")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("-i", "--in-place", is_flag=True, help="Rewrite the files.")
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a file is not in the normal form.")
@click.option("--diff", is_flag=True, help="Show what would change.")
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    default="default",
    show_default=True,
    help="default: all; short: no annotations; canonical, fingerprint: without names; xla: as XLA prints.",
)
@click.option("--strip-comments", is_flag=True, help="With --in-place: also rewrite files that lose comments by it.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write here instead of standard output.")
def command(
    files: tuple[str, ...],
    in_place: bool,
    check: bool,
    diff: bool,
    preset: str,
    strip_comments: bool,
    output: str | None,
) -> None:
    """Print FILES in the normal form, which parses to the same module and does not change when printed again.

    FILES may also be protocol buffers (.pb, .pbtxt) and gzip files.  Several modules in one file, separated by lines
    // -----, stay separated.  Comments ahead of a module are kept, others are not: --in-place refuses files that
    have them, with exit code 1.  Presets other than default leave something out.
    """
    if in_place and "-" in files:
        raise click.UsageError("--in-place needs files, not standard input")
    if output is not None and (in_place or check or diff or len(files) > 1):
        raise click.UsageError("-o takes one file and goes without --in-place, --check and --diff")
    refused = False
    for file in files:
        source = read_source(file)
        if source.form != "hlo" and (in_place or check or diff):
            what = _OTHERS.get(source.form, "a protocol buffer")
            raise click.UsageError(f"{file} is {what}; --in-place, --check and --diff are for HLO text")
        result = formatted(source, preset)
        text, lost = result.text, result.lost
        before = source.text or ""
        if diff and text != before:
            lines = unified_diff(before.splitlines(True), text.splitlines(True), file, f"{file} (formatted)")
            write_text(None, "".join(lines))
        if check and text != before:
            say(f"{file}: not in the normal form", err=True)
            refused = True
        elif in_place and text != before:
            if lost is not None and not strip_comments:
                say(f"{file}:{lost}: this comment would be lost; --strip-comments drops it", err=True)
                refused = True
            else:
                write_text(file, text)
        elif not (in_place or check or diff):
            write_text(output, text)
    if refused:
        raise CheckFailed
