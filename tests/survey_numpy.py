"""Draws many more cases of the properties in `test_numpy_properties.py`: ``python tests/survey_numpy.py [COUNT]``.

Each shape and type is compiled, which is why this is no test of every day.  It prints how many properties held, and the
smallest case of each that did not.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["HLOTOOL_TESTS_SURVEY"] = sys.argv[1] if len(sys.argv) > 1 else "2000"

import test_numpy_properties as properties


def main() -> int:
    """How many properties failed."""
    failed = 0
    for name in [one for one in vars(properties) if one.startswith("test_")]:
        try:
            getattr(properties, name)()
        except Exception:
            failed += 1
            traceback.print_exc(limit=3)
        print(f"{name}: {os.environ['HLOTOOL_TESTS_SURVEY']} cases", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
