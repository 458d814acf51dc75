"""The test suites of libraries over JAX, on stock CPU and on hlotool's plug-in, verdict by verdict.

    python tests/jax_suites/run.py                       all packages, all files
    python tests/jax_suites/run.py chex optax            these
    python tests/jax_suites/run.py optax --files 'losses/*' --seconds 300

Source distributions of the versions that are installed are downloaded and unpacked into a folder (``--folder``); every
test file runs in a process of its own, on either platform.  Verdicts stay in that folder, and what has one is not run
again without ``--again``.  It prints a table by package, and the tests that pass on stock alone with what they say.
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
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = ("chex", "optax", "distrax", "dm-haiku", "blackjax", "flax", "numpyro")
PLATFORMS = ("cpu", "hlotool")
Verdicts = dict[str, dict[str, str]]


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


def read(path: Path) -> Verdicts:
    """The last word on each test."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return {line["test"]: line for line in map(json.loads, lines)}


def run_file(source: Path, name: str, platform: str, path: Path, seconds: float) -> None:
    """Write the verdicts of one file to `path`; a test that ends the process is left out of another try."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    end = time.monotonic() + seconds
    environment = {
        **os.environ, "JAX_PLATFORMS": platform, "JAX_SUITES_VERDICTS": str(path), "PYTHONPATH": str(HERE),
        "HLOTOOL_FALLBACK": os.environ.get("HLOTOOL_FALLBACK", "silent"), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-p", "verdicts", "-p", "no:cacheprovider", "-p", "no:xdist"]
    while time.monotonic() < end:
        known = [part for test in read(path) for part in ("--deselect", test)]
        with path.with_suffix(".log").open("ab") as log:
            process = subprocess.Popen(
                [*command, name, *known], cwd=source, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                status = process.wait(max(1.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = None
        if status is None or status in range(6):
            break
    if not path.exists():
        path.touch()
    if time.monotonic() >= end:
        late = [{**line, "verdict": "late"} for line in read(path).values() if line["verdict"] == "crashed"]
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in late)


def differences(stock: Verdicts, other: Verdicts) -> Iterator[tuple[str, dict[str, str]]]:
    """Tests that pass on stock, and what the other says where it is something else."""
    for test, line in stock.items():
        if line["verdict"] == "passed":
            found = other.get(test, {"verdict": "missing", "message": ""})
            if found["verdict"] != "passed":
                yield test, found


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="of " + ", ".join(PACKAGES))
    parser.add_argument("--files", action="append", help="only files that fit this pattern (several are possible)")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "jax_suites")
    parser.add_argument("--seconds", type=float, default=1800, help="that a file may take on a platform")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="run what has verdicts already")
    parser.add_argument("--platforms", default=",".join(PLATFORMS), help="one of them where only it is to run now")
    return parser.parse_args()


def main() -> int:
    options = parsed()
    folder: Path = options.folder.absolute()
    (folder / "archives").mkdir(parents=True, exist_ok=True)
    tasks, listed = [], {}
    for package in options.packages:
        try:
            source = unpacked(package, folder)
        except PackageNotFoundError:
            print(f"{package}: not installed")
            continue
        listed[package] = [
            (name, {p: folder / "verdicts" / package / p / f"{name}.jsonl" for p in PLATFORMS})
            for name in test_files(source, options.files or ["*"])
        ]
        for name, paths in listed[package]:
            for platform in options.platforms.split(","):
                if options.again or not paths[platform].exists():
                    tasks.append((source, name, platform, paths[platform], options.seconds))
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, _ in enumerate(pool.map(lambda task: run_file(*task), tasks), 1):
            print(f"{number}/{len(tasks)}", end="\r", file=sys.stderr, flush=True)
    return report(listed)


def report(listed: dict[str, list[tuple[str, dict[str, Path]]]]) -> int:
    """Print the table and the differences; 1 where there are any."""
    rows, lines = [("package", "files", "tests", "pass on stock", "of them on hlotool", "share")], []
    for package, files in listed.items():
        stock_count, same, tests, seen = 0, 0, 0, 0
        for name, paths in files:
            if not all(path.exists() for path in paths.values()):
                continue
            seen += 1
            stock, other = (read(paths[platform]) for platform in PLATFORMS)
            tests += len(stock)
            passed = Counter(line["verdict"] for line in stock.values())["passed"]
            missing = list(differences(stock, other))
            stock_count += passed
            same += passed - len(missing)
            lines += [f"{package} {name}: {test.partition('::')[2]}: {line['verdict']}: {_first(line)}"
                      for test, line in missing]  # fmt: skip
        share = f"{same / stock_count:.2%}" if stock_count else ""
        rows.append((package, f"{seen} of {len(files)}", str(tests), str(stock_count), str(same), share))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(*lines, sep="\n")
    return 1 if lines else 0


def _first(line: dict[str, str]) -> str:
    return next(iter(line["message"].splitlines()), "")[:200]


if __name__ == "__main__":
    raise SystemExit(main())
