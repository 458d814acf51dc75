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
from typing import Any, TypeAlias

HERE = Path(__file__).parent
PACKAGES = ("chex", "optax", "distrax", "dm-haiku", "blackjax", "flax", "numpyro")
PLUGIN, STOCK = "hlotool", "cpu"
PLUGINS = ("verdicts", "no:cacheprovider", "no:xdist")
Start: TypeAlias = Callable[[str, dict[str, Any]], int | None]
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
    """How many seconds a file may take on a platform, and a test of it; how many tests of a file, and from which on."""

    file: float
    test: float
    sample: int
    offset: int


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
            file.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 on
            file.extractall(target.parent)
    return target


def test_files(source: Path, patterns: Iterable[str]) -> list[str]:
    """Paths within `source` of files with tests, those that fit one of the patterns."""
    found = {*source.rglob("*_test.py"), *source.rglob("test_*.py")}
    names = sorted(str(path.relative_to(source)) for path in found)
    return [name for name in names if any(Path(name).match(pattern) for pattern in patterns)]


def environment_of(platform: str) -> dict[str, str]:
    """The environment of all processes of a platform."""
    search = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "JAX_PLATFORMS": platform, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"}


def cold_start(platform: str, request: dict[str, Any]) -> int | None:
    """The exit status of pytest, in a new process; None where it takes too long."""
    with open(request["log"], "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *request["arguments"]], cwd=request["folder"], stdout=log, stderr=log,
            env={**environment_of(platform), **request["environment"]}, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(request["seconds"])
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None


class Warm:
    """The same by processes that are forked from one that has imported much already, one after another (`warm.py`)."""

    def __init__(self, sources: Iterable[Path]) -> None:
        self._sources = [*map(str, sources)]
        self._servers: dict[str, subprocess.Popen[str]] = {}

    def __call__(self, platform: str, request: dict[str, Any]) -> int | None:
        if platform not in self._servers:
            self._servers[platform] = subprocess.Popen(
                [sys.executable, str(HERE / "warm.py"), *self._sources], env=environment_of(platform), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        server = self._servers[platform]
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        status: int | None = json.loads(server.stdout.readline())
        return status


def run_file(file: File, platform: str, limits: Limits, start_pytest: Start, choice: dict[str, Any]) -> None:
    """Write down the verdicts of one file, of the tests of `choice`; one that ends the process is not tried again."""
    path = file.path(platform)
    path.parent.mkdir(parents=True, exist_ok=True)
    chosen = path.with_suffix(".choice")
    environment = {
        "JAX_SUITES_VERDICTS": str(path), "JAX_SUITES_CHOICE": str(chosen), "JAX_SUITES_SECONDS": str(limits.test),
        "HLOTOOL_FALLBACK": os.environ.get("HLOTOOL_FALLBACK", "silent"),
    }  # fmt: skip
    request: dict[str, Any] = {
        "folder": str(file.source), "environment": environment, "log": str(path.with_suffix(".log")),
        "arguments": ["-q", *(word for name in PLUGINS for word in ("-p", name)), file.name],
    }  # fmt: skip
    path.touch()
    begun = path.stat().st_size
    start = time.monotonic()
    left_out = [*choice.get("not", ())]
    sampling = {"sample": limits.sample, "offset": limits.offset}
    while True:
        chosen.write_text(json.dumps({**sampling, **choice, "not": left_out}), "utf-8")
        status = start_pytest(platform, {**request, "seconds": max(1.0, start + limits.file - time.monotonic())})
        late = status is None
        now = _lines(path, begun)
        if late or status in range(6):
            break
        begun_tests = {line["test"] for line in now if "test" in line} - {*left_out}
        if not begun_tests:
            _append(path, test=file.name, verdict="error", message=f"pytest ended with {status} before a test")
            break
        left_out += sorted(begun_tests)
    if late and now and now[-1].get("verdict") == "crashed":  # it was running
        _append(path, test=now[-1]["test"], verdict="late", message="the file took too long")
    _append(path, late=late, seconds=round(time.monotonic() - start, 1))


def _append(path: Path, **line: Any) -> None:
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def _lines(path: Path, begin: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes()[begin:].splitlines()]


def tasks_of(files: Iterable[File], again: str, stock: str) -> Iterator[Callable[[Limits, Start], None]]:
    """What there is to run, small files first: each of these is a file on one or both platforms."""
    for file in sorted(files, key=lambda file: (file.source / file.name).stat().st_size):
        yield partial(_run_both, file, again, stock)


def _run_both(file: File, again: str, stock: str, limits: Limits, start: Start) -> None:
    plugin, other = file.verdicts(PLUGIN), file.verdicts(STOCK)
    if plugin is None or again == "all":
        file.path(PLUGIN).unlink(missing_ok=True)
        run_file(file, PLUGIN, limits, start, {})
    elif again == "differences" and (names := {*_differences(plugin, other or Verdicts())}):
        run_file(file, PLUGIN, limits, start, {"only": sorted(names), "sample": 0})
    elif again == "rest" and _not_run(plugin):
        run_file(file, PLUGIN, limits, start, {"not": sorted(plugin.named(*DECIDED))})
    plugin = file.verdicts(PLUGIN) or Verdicts()
    if stock == "all" and (other is None or again == "all"):
        file.path(STOCK).unlink(missing_ok=True)
        run_file(file, STOCK, limits, start, {})
    elif stock == "failures":
        known = other.named(*DECIDED) if other else set()
        if names := plugin.named("failed", "error", "crashed") - known:
            # A file that cannot be read has no tests to choose from.
            run_file(file, STOCK, limits, start, {} if plugin.named("error") else {"only": sorted(names), "sample": 0})


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
    parser.add_argument("--offset", type=int, default=0, help="which sample: each number has tests of its own")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--warm", action="store_true", help="fork a process for every file instead of starting one")
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
        limits = Limits(options.seconds, options.test_seconds, options.sample, options.offset)
        tasks = [*tasks_of(files, options.again, options.stock)]
        start = Warm({file.source: None for file in files}) if options.warm else cold_start
        with ThreadPoolExecutor(1 if options.warm else options.jobs) as pool:
            for number, _ in enumerate(pool.map(lambda task: task(limits, start), tasks), 1):
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
