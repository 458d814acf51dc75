"""Choose the modules of `tests/data/wild` from a store: few, small, quick, and of everything something.

    python -m tests.wild.sample STORE FOLDER [--count N] [--log FILE]

Taken are modules of one device that were judged ok, and are so with inputs made up for them, in less than a second of
processor time.  Each choice is the module with the most that no earlier one has (opcodes with their element types,
ways in which operations feed each other, libraries), for its length.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if __package__ == "tests.wild":  # run as a module, not collected by pytest
    sys.path.insert(0, str(Path(__file__).parents[1]))

from hlotool.ir import Module
from hlotool.text.fingerprint import content_hash
from hlotool.text.parser import parse
from wild import store
from wild.judge import judge

__all__ = ["features", "main"]

_LONGEST = 30_000
_SECONDS = 0.6


def features(module: Module, programs: Sequence[str]) -> frozenset[str]:
    """What a module has: operations of types, which feed which, and the libraries it is of."""
    found = {f"library {name.partition('.')[0]}" for name in programs}
    found |= {f"program {name.partition('[')[0]}" for name in programs}
    for instruction in module.instructions():
        kind = instruction.shape.element_type
        found.add(f"{instruction.opcode} {kind}")
        found |= {f"{o.opcode} into {instruction.opcode}" for o in instruction.operands}
    return frozenset(found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Choose a sample of a store.")
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args(arguments)
    log = options.log or options.store / "verdicts.jsonl"
    words = {row["key"]: row["word"] for row in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    left: dict[str, tuple[frozenset[str], int]] = {}
    for key in store.keys(options.store):
        text = store.text(options.store, key)
        if words.get(key, "ok") == "ok" and len(text) <= _LONGEST and store.devices(options.store, key) == 1:
            left[key] = features(parse(text), store.programs(options.store, key)), len(text)
    options.folder.mkdir(parents=True, exist_ok=True)
    have: set[str] = set()
    hashes: set[str] = set()
    count = 0
    while count < options.count and left:
        # a line of text costs little beside the second that a test may take
        key = max(sorted(left), key=lambda k: len(left[k][0] - have) / (1500 + left[k][1]) ** 0.5)
        own, _ = left.pop(key)
        text = store.text(options.store, key)
        begin = time.process_time()
        verdict, digest = judge(text), content_hash(parse(text))
        seconds = time.process_time() - begin
        if verdict.word != "ok" or seconds > _SECONDS or digest in hashes:
            continue
        have |= own
        hashes.add(digest)
        count += 1
        program = re.sub(r"\W+", "-", store.programs(options.store, key)[0]).strip("-")
        (options.folder / f"{program}-{key[:6]}.hlo").write_text(text)
        print(f"{count} {program} {key} {seconds:.2f} s, {len(text)} bytes", flush=True)


if __name__ == "__main__":
    main()
