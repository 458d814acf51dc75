"""Writing files so that a failure on the way leaves the old one as it was."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import IO

__all__ = ["write_file"]


def write_file(path: str | Path, content: bytes | str | Callable[[IO[bytes]], object]) -> None:
    """Write `content` (bytes, text as UTF-8, or a function that writes to a binary stream) to the file `path`.

    It appears under its name only when it is complete.  Links are followed, the mode of an existing file stays, and
    what is no regular file (``/dev/null``, a pipe) is written to directly.
    """
    target = os.path.realpath(path)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        buffer = BytesIO()  # archives want a file that can be rewound
        _write(buffer, content)
        with open(target, "wb") as stream:
            stream.write(buffer.getbuffer())
        return
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:100]}.{token_hex(8)}.tmp")
    created = False
    try:
        with open(temporary, "xb") as stream:  # new: it follows no link that somebody put there
            created = True
            _write(stream, content)
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException as error:
        if created:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == temporary:
            error.filename = str(path)  # the name that the user knows
        raise


def _write(stream: IO[bytes], content: bytes | str | Callable[[IO[bytes]], object]) -> None:
    if callable(content):
        content(stream)
    else:
        stream.write(content.encode() if isinstance(content, str) else content)
