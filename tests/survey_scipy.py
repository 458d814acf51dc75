"""The tests that SciPy and scikit-learn bring for arrays of any namespace, handed arrays of `hlotool.numpy`.

    python tests/survey_scipy.py [FILES OR FOLDERS...] [--sample N] [--offset K] [--results FILE] [--seconds S]

FILES are within the installed packages, such as ``scipy/special``; without any, all that have such tests.  What fails
is run once more with array-api-strict, and with NumPy where that is not asked for: a test that fails there, too, says
nothing about arrays of this package.  It prints counts for each folder, and the tests that fail with ours alone, by
what they say.  ``--sample 8`` runs one test of eight, drawn from their names.

The file is also the plug-in of pytest by which these tests get to know another namespace.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

OURS = "hlotool.numpy"
FOLDERS = (
    "scipy/special", "scipy/stats", "scipy/signal", "scipy/fft", "scipy/integrate", "scipy/optimize", "scipy/cluster",
    "scipy/ndimage", "scipy/spatial", "scipy/differentiate", "scipy/interpolate", "scipy/linalg", "scipy/constants",
    "scipy/sparse", "scipy/_lib/tests/test_array_api.py", "sklearn",
)  # fmt: skip


# ---- the plug-in


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("arrays")
    group.addoption("--namespace", default="")
    group.addoption("--one-of", type=int, default=1)
    group.addoption("--drawn", type=int, default=0)
    group.addoption("--outcomes", default="")


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--namespace")
    if not name:
        return
    import importlib

    import scipy.conftest as known
    import sklearn.utils._array_api as learned

    namespace = importlib.import_module(name)
    known.xp_known_backends.add(name)
    given = (pytest.param(namespace, id=name, marks=pytest.mark.array_api_backends),)
    object.__setattr__(known.xp._fixture_function_marker, "params", given)
    learned.yield_namespaces = lambda include_numpy_namespaces=True: iter([name])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    name, count = config.getoption("--namespace"), config.getoption("--one-of")
    if not name:
        return

    def chosen(item: pytest.Item) -> bool:
        if name not in item.name:
            return False
        drawn = hashlib.sha256(item.nodeid.replace(name, "").encode()).digest()
        return bool(int.from_bytes(drawn[:4], "little") % count == config.getoption("--drawn") % count)

    items[:] = [item for item in items if chosen(item)]


_FILE: list[Any] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Any:
    """Write what became of a test when it is known."""
    report = yield
    path = item.config.getoption("--outcomes")
    if path and (report.when == "call" or report.outcome != "passed"):
        error = call.excinfo
        said = f"{error.typename}: {str(error.value)[:400]}" if error and report.outcome == "failed" else ""
        where = [f"{place.path}:{place.lineno + 1}" for place in error.traceback[-1:]] if said else []
        entry = {"test": item.nodeid, "outcome": report.outcome, "said": said, "where": where, "took": call.duration}
        with open(path, "a") as file:
            file.write(json.dumps(entry) + "\n")
    return report


# ---- the driver


def _home() -> Path:
    import scipy

    return Path(scipy.__file__).parents[1]


def _run(tests: list[str], namespace: str, outcomes: Path, extra: list[str], seconds: float) -> None:
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    here = str(Path(__file__).parent)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (here, environment.get("PYTHONPATH", ""))))
    command = [
        sys.executable, "-m", "pytest", "-p", "survey_scipy", "-p", "no:cacheprovider", "-q", "--no-header", "-x",
        "--maxfail", "100000", "--tb=no", "-W", "ignore", "-n", "0", "--timeout", "120", "--namespace", namespace,
        "--outcomes", str(outcomes), *extra, *tests,
    ]  # fmt: skip
    log = outcomes.with_suffix(".log")
    with log.open("w") as file:
        try:
            subprocess.run(
                command, cwd=_home(), env=environment, stdout=file, stderr=file, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            print(f"stopped after {seconds:.0f} s", flush=True)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    found: dict[str, dict[str, Any]] = {}
    for entry in map(json.loads, lines):
        if entry["outcome"] == "failed" or found.get(entry["test"], {}).get("outcome") != "failed":
            found[entry["test"]] = entry
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=list(FOLDERS))
    parser.add_argument("--sample", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--only", default="", help="an expression for pytest's -k")
    parser.add_argument("--results", type=Path, default=Path(tempfile.gettempdir()) / "survey_scipy")
    parser.add_argument("--seconds", type=float, default=100_000)
    arguments = parser.parse_args()
    results = arguments.results.absolute()
    results.mkdir(parents=True, exist_ok=True)
    ours, theirs = results / "ours.jsonl", results / "theirs.jsonl"
    ours.unlink(missing_ok=True)
    theirs.unlink(missing_ok=True)
    extra = ["--one-of", str(arguments.sample), "--drawn", str(arguments.offset)]
    extra += ["-k", arguments.only] if arguments.only else []
    _run(arguments.tests, OURS, ours, extra, arguments.seconds)
    found = _read(ours)
    failed = [name for name, entry in found.items() if entry["outcome"] == "failed"]
    strict = "array_api_strict"
    if failed:
        again = sorted({re.sub(r"\[.*", "", name) for name in failed})
        _run(again, strict, theirs, [], arguments.seconds)
    others = _read(theirs)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    causes: dict[str, list[str]] = collections.defaultdict(list)
    for name, entry in found.items():
        verdict = entry["outcome"]
        if verdict == "failed":
            # scikit-learn's tests name a device and a type of array-api-strict, too
            names = [one for one in others if _matches(one, name.replace(OURS, strict))]
            if names and all(others[one]["outcome"] == "failed" for one in names):
                verdict = "failed by strict arrays, too"
            else:
                causes[entry["said"].split("\n")[0][:160]].append(f"{name} {' '.join(entry['where'])}")
        counts["/".join(name.split("/")[:2])][verdict] += 1
    for folder, counted in counts.items():
        print(f"{folder:24} " + ", ".join(f"{count} {word}" for word, count in sorted(counted.items())))
    for said, names in sorted(causes.items(), key=lambda one: -len(one[1])):
        print(f"\n{len(names)} x {said}")
        for name in names[:4]:
            print(f"    {name}")
    return bool(causes)


def _matches(name: str, wanted: str) -> bool:
    return name == wanted or re.sub(r"array_api_strict-\w+-float\d+", "array_api_strict-None-None", name) == wanted


if __name__ == "__main__":
    sys.exit(main())
