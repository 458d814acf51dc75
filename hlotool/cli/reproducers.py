"""Where reproducers are written, and what is left of them beside."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from hlotool.cli.words import say
from hlotool.inspect.files import write_file

__all__ = ["reduce_beside", "write_reproducer"]


def write_reproducer(pass_name: str, text: str, backend: str | None = None, seed: int = 0) -> None:
    """Leave a reproducer in the working directory, or where that cannot be written to in the temporary one, and a
    reduced one beside it; say so on standard error.

    `backend` and `seed` say how its numbers are found to be wrong; without, the pass crashes.
    """
    name = f"hlotool-repro-{pass_name}.hlo"
    for path in (Path(name), Path(tempfile.gettempdir()) / name):
        with suppress(OSError):
            write_file(path, text)
            say(f"a module that shows it is in {path}; to run it again: hlotool repro {path}", err=True)
            reduce_beside(path, backend, seed)
            return


def reduce_beside(path: Path, backend: str | None = None, seed: int = 0) -> None:
    """Leave ``NAME-reduced.hlo`` beside the reproducer ``NAME.hlo``, with what a few seconds leave of it.

    Whatever happens here is no failure of the command; Ctrl-C ends it.
    """
    from hlotool.harness.reduce.report import with_head
    from hlotool.harness.reduce.reproducers import reduced_reproducer, seconds_to_reduce

    with suppress(Exception, KeyboardInterrupt):
        reduction = reduced_reproducer(path.read_text("utf-8"), backend, seed, seconds_to_reduce())
        if reduction is None or reduction.after >= reduction.before:
            return
        beside = path.with_name(f"{path.stem}-reduced.hlo")
        write_file(beside, with_head(reduction, str(path), str(beside)))
        more = f"; to go on: hlotool reduce {path}" if reduction.stopped else ""
        say(f"{reduction.after} of its {reduction.before} instructions do, in {beside}{more}", err=True)
