"""Many modules, one after the other, in a child process that may die; a table of the verdicts.

    python -m tests.wild.sweep STORE [--log FILE] [--seconds S] [--only WORD] [KEY ...]

Modules that a log holds already are not judged again, unless by ``--again WORD``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

if __package__ == "tests.wild":  # run as a module, not collected by pytest
    sys.path.insert(0, str(Path(__file__).parents[1]))

from wild import store
from wild.children import answers, requests
from wild.judge import VERDICTS, judge

__all__ = ["main", "table"]


def _work(folder: Path, seconds: float) -> None:
    """The child: a key on a line in, a verdict on a line out."""
    from hlotool.ir import HloError
    from hlotool.text.parser import parse

    for key in requests(seconds):
        text = store.text(folder, key)
        try:
            given, wanted = store.arrays(folder, key, parse(text))
        except HloError:
            given = wanted = None
        verdict = judge(text, given, wanted, store.devices(folder, key))
        print(json.dumps(verdict.record()), flush=True)


def _records(log: Path) -> dict[str, dict[str, object]]:
    if not log.exists():
        return {}
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return {row["key"]: row for row in rows}


def table(records: Sequence[dict[str, object]]) -> str:
    counts = Counter(str(row["word"]) for row in records)
    lines = ["| verdict | modules |", "|---|--:|"]
    lines += [f"| {word} | {counts[word]} |" for word in VERDICTS]
    return "\n".join([*lines, f"| **all** | **{len(records)}** |"])


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every module is ok or refused with a reason."""
    parser = argparse.ArgumentParser(description="Judge recorded modules.")
    parser.add_argument("store", type=Path)
    parser.add_argument("keys", nargs="*")
    parser.add_argument("--log", type=Path, help="a line of JSON for each module (default: STORE/verdicts.jsonl)")
    parser.add_argument("--seconds", type=float, default=120.0, help="of the processor, for one module")
    parser.add_argument("--again", action="append", default=[], metavar="WORD", help="judge these verdicts anew")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        _work(options.store, options.seconds)
        return 0
    log = options.log or options.store / "verdicts.jsonl"
    records = _records(log)
    keys = options.keys or [
        key
        for key in store.keys(options.store)
        if key not in records or records[key]["word"] in options.again or "all" in options.again
    ]
    with log.open("a") as file:
        child = ["-m", "tests.wild.sweep", str(options.store), "--work", "--seconds", str(options.seconds)]
        for key, said in answers(child, keys, options.seconds):
            programs = store.programs(options.store, key)
            records[key] = {"key": key, "programs": programs, **said}
            print(json.dumps(records[key]), file=file, flush=True)
            if said["word"] != "ok":
                print(f"{key} {said['word']}: {said['detail'] or '; '.join(programs[:2])}", flush=True)
    print(table(list(records.values())))
    return int(any(row["word"] in ("mismatch", "crash", "timeout", "undecided") for row in records.values()))


if __name__ == "__main__":
    raise SystemExit(main())
