"""What a backend is: it turns modules into something that runs."""

from __future__ import annotations

from collections.abc import Callable

from hlotool.driver.options import CompileOptions
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable

__all__ = ["Backend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """`compile` makes a valid module run; it does not change it, and raises UnsupportedError for what it cannot do.

    `code` gives the texts of a module at one of the `stages`: ``hlo`` as code generation gets it, ``llvm``, ``asm`` and
    so on; None where nothing is made.  `donates` and `has_time_limit` say whether options with a donation and with a
    time limit are understood: others never get any.
    """

    compile: Callable[[Module, CompileOptions], Executable]
    code: Callable[[Module, CompileOptions, str], tuple[str, ...]] | None = None
    stages: tuple[str, ...] = ("hlo", "llvm", "asm")
    donates: bool = False
    has_time_limit: bool = False
