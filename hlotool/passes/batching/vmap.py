"""The pass vmap: a module that does for many examples what it did for one."""

from __future__ import annotations

from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import InputError, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.batching.batch import batch_module

__all__ = ["Vmap"]


@dataclass(frozen=True, slots=True)
class Vmap:
    """Makes of a module of one example one of `size` examples, each of which gets what the module gave for it.

    `axes` says for each array among the parameters, tuples taken apart, where the examples are in it, as ``0+none+-1``:
    a dimension of the new parameter, or ``none`` where all examples share it; one word stands for all.  `out` says the
    same of the results; those that are the same for all examples are repeated.  Random numbers are drawn for each
    example.  Refused are infeed, outfeed, send and recv, sizes that are known when it runs, and custom calls that
    nothing is known of.
    """

    name: ClassVar[str] = "vmap"
    changes_program: ClassVar[bool] = True
    budget: ClassVar[float] = 2000  # ciphers are spelled out
    size: int = 0
    axes: str = "0"
    out: str = "0"

    def __post_init__(self) -> None:
        for name in ("axes", "out"):
            _words(name, getattr(self, name))

    def run(self, module: Module, log: DecisionLog) -> bool:
        if self.size < 1:
            raise InputError("vmap needs the number of examples: vmap{size=8}")
        if not log.allow():
            return False
        entry = module.entry
        given = sum(1 for p in entry.parameters for _ in p.shape.leaves())
        wanted = sum(1 for _ in entry.root.shape.leaves())
        old = entry.root
        axes, places = _repeated(_words("axes", self.axes), given), _repeated(_words("out", self.out), wanted)
        batch_module(module, self.size, axes, places, log)
        log.rewrite("batch", old, module.entry.root, f"the module of {self.size} examples", examples=self.size)
        return True


def _words(name: str, text: str) -> list[int | None]:
    """The axes of an option: ``0+none``."""
    found: list[int | None] = []
    for word in text.split("+"):
        if word == "none":
            found.append(None)
            continue
        try:
            found.append(int(word))
        except ValueError:
            raise InputError(f"{name}={text}: an axis is a number or none, and + stands between them") from None
    return found


def _repeated(axes: list[int | None], count: int) -> list[int | None]:
    return axes * count if len(axes) == 1 else axes
