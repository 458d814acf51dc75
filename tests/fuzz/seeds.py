"""Texts that the mutation fuzzer starts from: small complete modules, excerpts of large ones, and a few large ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tiny_modules import TINY, tiny_module

from hlotool.ir import Computation, HloError, Instruction, Module
from hlotool.text.parser import parse

__all__ = ["excerpts", "seeds"]

_ROOT = Path(__file__).parents[2]
_SHARED = _ROOT.parent / "shared"
_LONGEST = 5000  # characters of a small seed
_WHOLE = 20_000  # characters of a large seed
_ROOT_WORD = re.compile(r"^\s*(?:ROOT\s+)?")


def seeds(corpus: int = 8) -> list[str]:
    """All seeds, always in the same order; `corpus` says how many excerpts of every corpus model are taken."""
    found = [path.read_text() for path in sorted((Path(__file__).parent / "texts").glob("*.hlo"))]
    rng = Random(0)
    for opcode in TINY:
        found += excerpts(tiny_module(opcode), rng, 1, last=True)
    for path in _files():
        text = path.read_text("utf-8", "surrogateescape")
        if len(text) < (_WHOLE if path.parent.name == "samples" else _LONGEST):
            found.append(text)
        if corpus:
            found += excerpts(text, rng, corpus)
    return found


def _files() -> list[Path]:
    samples = sorted((_ROOT / "samples").glob("*.hlo"))
    bad = sorted((_SHARED / "badhlo").rglob("*.hlo"))
    return [*samples, *bad, *sorted((_SHARED / "corpus" / "models").glob("*.hlo"))]


def excerpts(text: str, rng: Random, count: int, last: bool = False) -> Iterator[str]:
    """Small modules made of some lines of one computation; what they read from elsewhere become parameters."""
    try:
        module = parse(text)
    except HloError:
        return
    lines = text.split("\n")
    chosen = [c for c in module.computations.values() if c.location is not None]
    for _ in range(count):
        computation = module.entry if last else rng.choice(chosen)
        every = [i for i in computation if i.opcode != "parameter"]
        if not every:
            continue
        size = rng.choice((1, 2, 4, 8, 12))
        start = rng.randrange(len(every))
        some = every[-2:] if last else every[start : start + size]
        made = _excerpt(module, some, lines)
        if made is not None and len(made) < _LONGEST:
            yield made


def _excerpt(module: Module, some: list[Instruction], lines: list[str]) -> str | None:
    called: dict[Computation, str] = {}
    for instruction in some:
        if not _collect(instruction, called, lines):
            return None
    inside = set(some)
    outside = {operand: None for instruction in some for operand in instruction.operands if operand not in inside}
    head = [f"  {o.name} = {_line(o, lines)[1]} parameter({n})" for n, o in enumerate(outside)]
    body = [f"  {_line(i, lines)[0]}" for i in some]
    body = [re.sub(r", control-predecessors=\{[^}]*\}", "", line) for line in body]
    entry = "\n".join(["ENTRY e {", *head, *body, "}"])
    return "\n\n".join([f"HloModule {module.name}", *called.values(), entry]) + "\n"


def _line(instruction: Instruction, lines: list[str]) -> tuple[str, str]:
    """The text of an instruction, and of its shape."""
    place = instruction.location
    assert place is not None
    line = _ROOT_WORD.sub("", lines[place.line - 1].rstrip("\r"))
    shape = line.partition("=")[2].rpartition(f" {instruction.opcode}(")[0].strip()
    return line, shape or str(instruction.shape)


def _collect(instruction: Instruction, called: dict[Computation, str], lines: list[str]) -> bool:
    """Gather the texts of the computations that an instruction calls, callees first; False where they are long."""
    for callee in instruction.called:
        if callee in called:
            continue
        if callee.location is None or len(callee) > 30:
            return False
        for inner in callee:
            if not _collect(inner, called, lines):
                return False
        first = callee.location.line - 1
        end = next((n for n in range(first, len(lines)) if lines[n].startswith("}")), None)
        if end is None:
            return False
        called[callee] = "\n".join(lines[first : end + 1])
    return True
