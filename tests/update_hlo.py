"""Writes what the tests in HLO expect anew: ``python tests/update_hlo.py [FILE...]``, by default all of them.

A file stays as it is where a rewritten module computes other values than the module of the case: such an expectation
would be wrong.  Read the difference before you commit it.  Exit status 1 when a file was refused.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from hlo_cases import FOLDER, cases_of, name_of, run_here, values_differ

from hlotool.text.load import SEPARATOR


def update(path: Path) -> str:
    """Rewrite the file; why not, or an empty text."""
    before = path.read_text(encoding="utf-8")
    cases = cases_of(path)
    pieces = []
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            results = run_here(case, Path(folder))
        wrong = values_differ(case, results)
        if wrong:
            return f"{name_of(case)}: {wrong}"
        pieces.append(case.text + case.rendered(results))
    after = cases[0].head + "\n" + f"\n{SEPARATOR}\n\n".join(pieces)
    if after != before:
        path.write_text(after, encoding="utf-8")
        print(f"{path.relative_to(FOLDER)}: updated")
    return ""


def main() -> int:
    os.environ["HLOTOOL_STRICT"] = "1"
    paths = [Path(name).resolve() for name in sys.argv[1:]] or sorted(FOLDER.rglob("*.hlo"))
    refused = [why for path in paths if (why := update(path))]
    print("".join(f"not updated: {why}\n" for why in refused), end="")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
