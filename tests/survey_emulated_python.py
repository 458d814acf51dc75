#!/usr/bin/env python3
"""Modules that hlotool itself compiles and runs on aarch64: Debian's Python for it, under QEMU's emulator of programs.

    python tests/survey_emulated_python.py FOLDER [--portable] [FILE...]

FOLDER gets that Python and what hlotool needs (apt-get and pip fetch it, once; nothing is installed).  One line a file,
the samples and some models without any: ok, or what differs from what the module means, within its bounds, on two
threads.  Exit code 1 where anything does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLAIN = ("click", "graphviz", "markdown_it", "mdurl", "pygments", "rich")
"""Packages that are the same everywhere."""
WHEELS = ("numpy", "llvmlite", "ml_dtypes")
MODELS = (
    "mlp_bf16_fwd", "switch", "complex_ops", "dtype_convert", "int_ops", "top_k", "rng_bit_generator",
    "gather_scatter_modes", "cholesky_native", "argsort_pairs", "black_scholes_greeks", "pooling",
)  # fmt: skip


def python_of(folder: Path) -> Path:
    """Debian's Python for aarch64, unpacked in `folder` if it is not there."""
    root = folder / "root"
    if not root.is_dir():
        state, cache = folder / "state", folder / "cache"
        for path in (state / "lists" / "partial", cache / "archives" / "partial", folder / "packages"):
            path.mkdir(parents=True, exist_ok=True)
        status = folder / "status"
        status.touch()
        config = folder / "apt.conf"
        config.write_text(
            f'APT::Architecture "arm64";\nAPT::Architectures {{ "arm64"; }};\n'
            f'Dir::State "{state}";\nDir::State::status "{status}";\nDir::Cache "{cache}";\n'
        )
        env = {**os.environ, "APT_CONFIG": str(config)}
        subprocess.run(["apt-get", "update", "-qq"], env=env, check=True)
        plan = ["apt-get", "-s", "install", "--no-install-recommends", "python3", "libstdc++6"]
        lines = subprocess.run(plan, env=env, check=True, capture_output=True, text=True).stdout.splitlines()
        names = [line.split()[1] for line in lines if line.startswith("Inst ")]
        subprocess.run(["apt-get", "download", "-qq", *names], env=env, check=True, cwd=folder / "packages")
        for package in sorted((folder / "packages").glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    return next(path for path in sorted((root / "usr" / "bin").glob("python3.*")) if path.name[8:].isdecimal())


def packages_of(folder: Path, minor: str) -> Path:
    """What hlotool needs, unpacked in `folder`."""
    site = folder / "site"
    if not site.is_dir():
        platforms = [f"manylinux_2_{n}_aarch64" for n in (17, 27, 28)]
        wanted = [f"{name}=={version(name)}" for name in WHEELS]
        options = ["--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", f"3.{minor}"]
        options += [word for name in (*platforms, "manylinux2014_aarch64") for word in ("--platform", name)]
        wheels = folder / "wheels"
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", *options, "-d", wheels, *wanted], check=True)
        for wheel in wheels.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(site)
        for name in PLAIN:
            shutil.copytree(Path(__import__(name).__file__ or "").parent, site / name)
    return site


def run_here(files: Sequence[str]) -> int:
    """In the emulator: a line for each file."""
    from other_systems import run

    wrong = 0
    for file in files:
        said = run(Path(file))
        wrong += not said.startswith("ok ")
        print(Path(file).name, said, flush=True)
    return int(wrong > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--portable", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    if not options.folder.is_absolute():
        options.folder = options.folder.absolute()
    python = python_of(options.folder)
    site = packages_of(options.folder, python.name.partition(".")[2])
    root = options.folder / "root"
    models = (ROOT / "tests" / "data" / "models" / f"{name}.hlo" for name in MODELS)
    files = options.files or [*map(str, sorted((ROOT / "samples").glob("*.hlo"))), *map(str, models)]
    env = {
        **os.environ, "PYTHONHOME": str(root / "usr"), "PYTHONPATH": os.pathsep.join(map(str, (ROOT, site))),
        "HLOTOOL_CACHE": str(options.folder / "hlotool"), "HLOTOOL_PORTABLE": str(int(options.portable)),
    }  # fmt: skip
    command = ["qemu-aarch64", "-L", root, python, __file__, "--inside", *files]
    return subprocess.run(command, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(run_here(sys.argv[2:]) if sys.argv[1:2] == ["--inside"] else main())
