#!/usr/bin/env python3
"""Write the table of times in the README from runs of ``hlotool bench --suite ... --format json``.

    man/speed.py RUN.json... [--readme FILE]

The table stands between the lines ``<!-- speed: begin -->`` and ``<!-- speed: end -->``; nothing else is changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from hlotool.inspect.files import write_file
from hlotool.inspect.suite_run import SuiteRun, geometric_mean, run_from_json
from hlotool.inspect.svg import time_words

BEGIN, END = "<!-- speed: begin -->\n", "<!-- speed: end -->\n"
NAMES = {
    "xla": "XLA", "onnxruntime": "ONNX Runtime", "iree": "IREE", "torch": "PyTorch", "inductor": "inductor",
    "numpy": "NumPy", "numba": "numba",
}  # fmt: skip


def table(runs: list[SuiteRun]) -> str:
    """Markdown: a row for each case, hlotool's time over that of each peer, and geometric means."""
    peers = list(dict.fromkeys(peer for run in runs for peer in run.peers()))
    rows = [["", "hlotool", *(NAMES.get(peer, peer) for peer in peers)], ["---", *["--:"] * (len(peers) + 1)]]
    ratios: dict[str, list[float]] = {peer: [] for peer in peers}
    for run in runs:
        for case in run.cases:
            if case.seconds is None:
                continue
            cells = [f"{case.suite}/{case.name}", time_words(case.seconds)]
            for peer in peers:
                ratio, result = case.ratio(peer), case.result(peer)
                if ratio is not None:
                    ratios[peer].append(ratio)
                mismatch = result is not None and result.status == "MISMATCH"
                cells.append(f"{ratio:.2g}" if ratio is not None else "other numbers" if mismatch else "–")
            rows.append(cells)
    means = [geometric_mean(ratios[peer]) for peer in peers]
    counts = [len(ratios[peer]) for peer in peers]
    cells = ["" if mean is None else f"{mean:.2f} of {n}" for mean, n in zip(means, counts, strict=True)]
    rows.append(["**geometric mean**", "", *cells])
    versions = sorted({run.versions[peer] for run in runs for peer in peers if peer in run.versions})
    machine = runs[-1].machine
    where = f"{machine.get('name', 'unknown')} ({machine.get('for LLVM', '').partition(',')[0]})"
    note = f"On {where}, {machine.get('threads', '?')} threads, with {', '.join(versions)}."
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows) + f"\n{note}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN.json")
    parser.add_argument("--readme", type=Path, default=Path(__file__).resolve().parents[1] / "README.md")
    options = parser.parse_args()
    try:
        runs = [run_from_json(json.loads(path.read_text("utf-8"))) for path in options.runs]
        before, begin, rest = options.readme.read_text("utf-8").partition(BEGIN)
        _, end, after = rest.partition(END)
    except (OSError, ValueError) as error:
        print(f"speed.py: {error}", file=sys.stderr)
        return 3
    if not begin or not end:
        print(f"speed.py: {options.readme} has no lines {BEGIN.strip()} and {END.strip()}", file=sys.stderr)
        return 3
    write_file(options.readme, f"{before}{begin}{table(runs)}{end}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
