"""The test suites of libraries over JAX, on stock CPU and on hlotool's plug-in, verdict by verdict.

    python tests/jax_suites/run.py                       all packages, all files
    python tests/jax_suites/run.py chex optax            these
    python tests/jax_suites/run.py optax --files 'losses/*' --seconds 300
    python tests/jax_suites/run.py --stock failures      stock runs only what does not pass on the plug-in
    python tests/jax_suites/run.py --again differences   what passed on stock alone, once more on the plug-in

Source distributions of the versions that are installed are downloaded and unpacked into a folder (``--folder``); every
test file runs in a process of its own, on either platform, small files first.  Verdicts stay in that folder, and what
has one is not run again without ``--again``, so that a run can be stopped and taken up.  It prints a table by package,
the tests that pass on stock alone with what they say, and why programs fell back to jaxlib.  The suites themselves need
mock, funsor, tfp-nightly, pytest-benchmark and more; a file that cannot be read for lack of one fails on stock, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGES = ("chex", "optax", "distrax", "dm-haiku", "blackjax", "flax", "numpyro")
PLUGIN, STOCK = "hlotool", "cpu"
DECIDED = ("passed", "failed", "skipped", "error", "crashed")


@dataclass(slots=True)
class Verdicts:
    """What is known of a test file on a platform: the last word on each test, and a summary of each process."""

    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    collected: int = 0
    seconds: float = 0.0
    late: bool = False
    programs: int = 0
    cpu_seconds: float = 0.0
    fallbacks: Counter[str] = field(default_factory=Counter)

    def named(self, *verdicts: str) -> set[str]:
        """The tests with one of these verdicts."""
        return {test for test, line in self.tests.items() if line["verdict"] in verdicts}


@dataclass(frozen=True, slots=True)
class File:
    """A test file of a package, `name` within its source."""

    package: str
    source: Path
    name: str
    folder: Path

    def path(self, platform: str) -> Path:
        """Where its verdicts are."""
        return self.folder / "verdicts" / self.package / platform / f"{self.name}.jsonl"

    def verdicts(self, platform: str) -> Verdicts | None:
        """Its verdicts on a platform; None where it never ran."""
        path = self.path(platform)
        if not path.exists():
            return None
        found = Verdicts()
        for line in _lines(path):
            if "test" in line:
                found.tests[line["test"]] = line
            found.collected = max(found.collected, line.get("collected", 0))
            found.programs += line.get("programs", 0)
            found.cpu_seconds += line.get("cpu_seconds", 0.0)
            found.fallbacks.update(line.get("fallbacks", {}))
            if "late" in line:
                found.late, found.seconds = line["late"], found.seconds + line["seconds"]
        return found


@dataclass(frozen=True, slots=True)
class Limits:
    """How many seconds a file may take on a platform, and a test of it; how many tests of a file are run."""

    file: float
    test: float
    sample: int


def unpacked(package: str, folder: Path) -> Path:
    """The sources of the installed version of a package."""
    name = f"{package.replace('-', '_')}-{version(package)}"
    target = folder / "sources" / name
    if not target.exists():
        archives = folder / "archives"
        archive = archives / f"{name}.tar.gz"
        if not archive.exists():
            wanted = f"{package}=={version(package)}"
            command = ["download", "-q", "--no-binary", ":all:", "--no-deps", "-d", str(archives), wanted]
            subprocess.run([sys.executable, "-m", "pip", *command], check=True)
        with tarfile.open(archive) as file:
            file.extractall(target.parent, filter="data")
    return target


def test_files(source: Path, patterns: Iterable[str]) -> list[str]:
    """Paths within `source` of files with tests, those that fit one of the patterns."""
    found = {*source.rglob("*_test.py"), *source.rglob("test_*.py")}
    names = sorted(str(path.relative_to(source)) for path in found)
    return [name for name in names if any(Path(name).match(pattern) for pattern in patterns)]


def run_file(file: File, platform: str, limits: Limits, choice: dict[str, Any]) -> None:
    """Write down the verdicts of one file, of the tests of `choice`; one that ends the process is not tried again."""
    path = file.path(platform)
    path.parent.mkdir(parents=True, exist_ok=True)
    chosen = path.with_suffix(".choice")
    environment = {
        **os.environ, "JAX_PLATFORMS": platform, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1",
        "JAX_SUITES_VERDICTS": str(path), "JAX_SUITES_CHOICE": str(chosen), "JAX_SUITES_SECONDS": str(limits.test),
        "HLOTOOL_FALLBACK": os.environ.get("HLOTOOL_FALLBACK", "silent"),
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-p", "verdicts", "-p", "no:cacheprovider", "-p", "no:xdist"]
    path.touch()
    begun = path.stat().st_size
    start = time.monotonic()
    left_out = [*choice.get("not", ())]
    late = False
    while True:
        chosen.write_text(json.dumps({"sample": limits.sample, **choice, "not": left_out}), "utf-8")
        with path.with_suffix(".log").open("ab") as log:
            process = subprocess.Popen(
                [*command, file.name], cwd=file.source, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                status = process.wait(max(1.0, start + limits.file - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                late, status = True, 0
        now = _lines(path, begun)
        if status in range(6):
            break
        left_out += [line["test"] for line in now if "test" in line]
    with path.open("a", encoding="utf-8") as out:
        running = now[-1]["test"] if late and now and now[-1].get("verdict") == "crashed" else None
        if running is not None:
            out.write(json.dumps({"test": running, "verdict": "late", "message": "the file took too long"}) + "\n")
        out.write(json.dumps({"late": late, "seconds": round(time.monotonic() - start, 1)}) + "\n")


def _lines(path: Path, begin: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes()[begin:].splitlines()]


def tasks_of(files: Iterable[File], again: str, stock: str) -> Iterator[Callable[[Limits], None]]:
    """What there is to run, small files first: each of these is a file on one or both platforms."""
    for file in sorted(files, key=lambda file: (file.source / file.name).stat().st_size):
        yield partial(_run_both, file, again, stock)


def _run_both(file: File, again: str, stock: str, limits: Limits) -> None:
    plugin, other = file.verdicts(PLUGIN), file.verdicts(STOCK)
    if plugin is None or again == "all":
        file.path(PLUGIN).unlink(missing_ok=True)
        run_file(file, PLUGIN, limits, {})
    elif again == "differences" and (names := {*_differences(plugin, other or Verdicts())}):
        run_file(file, PLUGIN, limits, {"only": sorted(names), "sample": 0})
    elif again == "rest" and _not_run(plugin):
        run_file(file, PLUGIN, limits, {"not": sorted(plugin.named(*DECIDED))})
    plugin = file.verdicts(PLUGIN) or Verdicts()
    if stock == "all" and (other is None or again == "all"):
        file.path(STOCK).unlink(missing_ok=True)
        run_file(file, STOCK, limits, {})
    elif stock == "failures":
        known = other.named(*DECIDED) if other else set()
        if names := plugin.named("failed", "error", "crashed") - known:
            # A file that cannot be read has no tests to choose from.
            run_file(file, STOCK, limits, {} if plugin.named("error") else {"only": sorted(names), "sample": 0})


def _differences(plugin: Verdicts, stock: Verdicts) -> dict[str, dict[str, Any]]:
    """Tests that pass on stock and not on the plug-in, which has run them; and what it says."""
    missing = {"verdict": "missing", "message": ""}
    return {
        test: plugin.tests.get(test, missing)
        for test in sorted(stock.named("passed") - plugin.named("passed", "late"))
        if test in plugin.tests or not (plugin.collected or plugin.late)
    }


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="of " + ", ".join(PACKAGES))
    parser.add_argument("--files", action="append", help="only files that fit this pattern (several are possible)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "jax_suites")
    parser.add_argument("--seconds", type=float, default=1800, help="that a file may take on a platform")
    parser.add_argument("--test-seconds", type=float, default=600, help="that a test may take")
    parser.add_argument("--sample", type=int, default=0, help="how many tests of a file to run, evenly (0: all)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", choices=("all", "differences", "rest"), default="", help="run what has verdicts")
    parser.add_argument("--stock", choices=("all", "failures", "none"), default="all", help="what stock runs")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--json", type=Path, help="write a line of JSON for every test")
    return parser.parse_args()


def main() -> int:
    options = parsed()
    folder: Path = options.folder.absolute()
    (folder / "archives").mkdir(parents=True, exist_ok=True)
    files: list[File] = []
    for package in options.packages:
        try:
            source = unpacked(package, folder)
        except PackageNotFoundError:
            print(f"{package}: not installed")
            continue
        files += [File(package, source, name, folder) for name in test_files(source, options.files or ["*"])]
    if not options.report:
        limits = Limits(options.seconds, options.test_seconds, options.sample)
        tasks = [*tasks_of(files, options.again, options.stock)]
        with ThreadPoolExecutor(options.jobs) as pool:
            for number, _ in enumerate(pool.map(lambda task: task(limits), tasks), 1):
                print(f"{number}/{len(tasks)}", end="\r", file=sys.stderr, flush=True)
    if options.json:
        _write_json(files, options.json)
    return report(files)


def _write_json(files: Iterable[File], path: Path) -> None:
    """A line for every test: what both platforms say, and how long they took."""
    with path.open("w", encoding="utf-8") as out:
        for file in files:
            found = {platform: file.verdicts(platform) or Verdicts() for platform in (PLUGIN, STOCK)}
            for test in sorted({test for verdicts in found.values() for test in verdicts.tests}):
                line: dict[str, Any] = {"package": file.package, "file": file.name, "test": test}
                for platform, verdicts in found.items():
                    said = verdicts.tests.get(test, {})
                    line[platform] = said.get("verdict")
                    line[f"{platform}_seconds"] = said.get("seconds")
                line["message"] = found[PLUGIN].tests.get(test, {}).get("message", "")
                out.write(json.dumps(line) + "\n")


HEAD = (
    "package", "files", "late", "tests", "pass on hlotool", "on stock alone", "share", "not run", "programs",
    "fell back", "cpu s hlotool", "cpu s stock",
)  # fmt: skip


def report(files: Sequence[File]) -> int:
    """Print the table, the differences and why programs fell back; 1 where there are differences.

    The share is of the tests that pass on either platform; a test that passes on the plug-in and was not run on stock
    counts as one.  Seconds are those of files of which both ran as many tests, to the end.
    """
    rows: list[tuple[str, ...]] = [HEAD]
    lines, fallbacks = [], Counter[str]()
    for package in dict.fromkeys(file.package for file in files):
        of_package = [file for file in files if file.package == package]
        counts: Counter[str] = Counter()
        for file in of_package:
            plugin, stock = file.verdicts(PLUGIN), file.verdicts(STOCK) or Verdicts()
            if plugin is None:
                continue
            failing = stock.named("failed", "error", "crashed")
            alone = _differences(plugin, stock)
            counts.update(
                files=1, late=int(plugin.late), tests=max(plugin.collected, len(plugin.tests)), alone=len(alone),
                passed=len(plugin.named("passed") - failing), programs=plugin.programs, not_run=_not_run(plugin),
                fallbacks=plugin.fallbacks.total(),
            )  # fmt: skip
            if len(stock.tests) == len(plugin.tests) and not (plugin.late or stock.late):
                counts.update(plugin_seconds=round(plugin.cpu_seconds), stock_seconds=round(stock.cpu_seconds))
            lines += [f"{package} {file.name}: {test.partition('::')[2]}: {line['verdict']}: {_first(line)}"
                      for test, line in alone.items()]  # fmt: skip
            fallbacks.update(plugin.fallbacks)
        either = counts["passed"] + counts["alone"]
        numbers = [counts[name] for name in ("late", "tests", "passed", "alone")]
        rest = [counts[n] for n in ("not_run", "programs", "fallbacks", "plugin_seconds", "stock_seconds")]
        share = f"{counts['passed'] / either:.2%}" if either else ""
        rows.append((package, f"{counts['files']} of {len(of_package)}", *map(str, numbers), share, *map(str, rest)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(*lines, sep="\n")
    for reason, count in fallbacks.most_common():
        print(f"fell back {count} times: {reason[:300]}")
    return 1 if lines else 0


def _not_run(verdicts: Verdicts) -> int:
    """Tests that were not run to the end."""
    return max(verdicts.collected, len(verdicts.tests)) - len(verdicts.named(*DECIDED))


def _first(line: dict[str, Any]) -> str:
    return next(iter(line["message"].splitlines()), "")[:200]


if __name__ == "__main__":
    raise SystemExit(main())
