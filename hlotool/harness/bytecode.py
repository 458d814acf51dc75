"""StableHLO in MLIR's binary form, as `jax.export` and MLIR's tools write it: made text by jaxlib, and read as that.

jaxlib runs in a child process, which may die of a damaged file (`hlotool.text.load.READERS`).
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.harness.xla import RefusedError, Xla
from hlotool.ir import Diagnostic, Location, Module, ParseError, Shape, UnsupportedError
from hlotool.text.load import Source
from hlotool.text.stablehlo.parse import parse_stablehlo

__all__ = ["read"]

_SECONDS = 300.0


def read(
    source: Source,
    function: str | None = None,
    arguments: Sequence[Shape] | None = None,
    python: str | None = None,
) -> Module:
    """The module of a file; places in messages are those of the text that jaxlib prints.

    `python` has jaxlib (None: see `hlotool.harness.xla.xla_python`).  ParseError where it cannot read the file,
    UnsupportedError where there is none, and as `parse_stablehlo` says.
    """
    try:
        with Xla(python, timeout=_SECONDS) as child:
            text = child.text_of(source.data)
    except RefusedError as error:
        hint = "files of a newer StableHLO than that of jaxlib are refused, too: pip install --upgrade jax"
        message, place = "the bytecode of MLIR cannot be read", Location(source.name, 1, 1, 1, 5)
        found = Diagnostic(message, place, hint, "HLO0001")
        raise ParseError(f"{source.name}: {message} ({error.message})", [found]) from error
    except UnsupportedError as error:
        message = f"{source.name} is StableHLO as bytecode of MLIR, which is made text by jaxlib: {error.message}"
        raise UnsupportedError(message) from error
    return parse_stablehlo(text, f"{source.name} as text", function=function, arguments=arguments)
