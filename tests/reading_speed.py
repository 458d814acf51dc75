"""How many instructions are parsed and verified in a second: ``python tests/reading_speed.py [FILE...]``.

Without files: the modules of ../shared/wild together, where they are there, and a model of 55,000 lines.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mixture_module import mixture_module

from hlotool.ir.verifier import check
from hlotool.text.parser import parse

__all__ = ["measure"]

WILD = Path(__file__).parents[2] / "shared" / "wild"


def measure(texts: Sequence[str], rounds: int = 5) -> tuple[int, float, float]:
    """Instructions of all texts, and the least seconds that parsing and verifying them took."""
    parsing = verifying = float("inf")
    count = 0
    for _ in range(rounds):
        start = time.perf_counter()
        modules = [parse(text) for text in texts]
        parsed = time.perf_counter()
        for module in modules:
            check(module)
        verified = time.perf_counter()
        parsing, verifying = min(parsing, parsed - start), min(verifying, verified - parsed)
        count = sum(module.instruction_count() for module in modules)
    return count, parsing, verifying


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    cases: dict[str, list[str]] = {str(path): [path.read_text()] for path in options.files}
    if not cases:
        cases = {"mixture of 56 layers": [mixture_module(56)]}
        if WILD.exists():
            cases["wild"] = [path.read_text() for path in sorted(WILD.glob("*.hlo"))]
    for name, texts in cases.items():
        count, parsing, verifying = measure(texts, options.rounds)
        each = f"parse {parsing / count * 1e6:5.1f} us, verify {verifying / count * 1e6:5.1f} us an instruction"
        print(f"{name}: {count} instructions, {each}, {count / (parsing + verifying):,.0f} instructions a second")


if __name__ == "__main__":
    main(sys.argv[1:])
