"""Pictures of drawings, made by Graphviz."""

from __future__ import annotations

from hlotool.inspect.render import HOW_TO_GET_DOT, NoPicture, find_dot, picture
from hlotool.ir import UnsupportedError

__all__ = ["drawn_picture"]

_SECONDS = 60.0


def drawn_picture(text: str, form: str) -> bytes:
    """The picture of a DOT text as ``svg``, ``png`` or ``pdf``; UnsupportedError says what to do without one."""
    dot = find_dot()
    if dot is None:
        raise UnsupportedError(
            f"{form} pictures need the program 'dot', which is not on PATH; html needs nothing. To get it, "
            f"{HOW_TO_GET_DOT}"
        )
    try:
        return picture(dot, text, form, _SECONDS)
    except NoPicture as problem:
        raise UnsupportedError(
            f"{problem}; html draws modules of any size, and --around and --paths of hlotool graph a part"
        ) from None
