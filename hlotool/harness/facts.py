"""Facts about this installation and the machine that it is on: what a report of a bug should say."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from hlotool.codegen.machine import Machine, default_machine, host
from hlotool.harness.limits import address_space_limit, cpu_limit, memory_limit
from hlotool.harness.xla import xla_python
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import default_cache, llvm_version
from hlotool.runtime.pool import default_threads
from hlotool.system import memory_bytes, system
from hlotool.version import __version__

__all__ = ["Fact", "facts", "processor_name", "shortened"]

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_INSTRUCTIONS = ("sse4.2", "avx", "f16c", "fma", "avx2", "avxvnni", "avx512", "amx", "neon", "fp16", "bf16", "dotprod",
                 "i8mm", "sve", "v")  # fmt: skip
"""What features begin with that emitters or LLVM make much of."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is so: its group, its name, and its value as text."""

    group: str
    name: str
    value: str


def facts(variables: Iterable[str]) -> Iterator[Fact]:
    """All facts, those about `variables` of the environment among them.  Folders below the user's home begin with
    ``~``; nothing else of the environment is told."""
    for group, rows in (
        ("versions", _versions()),
        ("processor", _processor(host())),
        ("limits", _limits()),
        ("environment", _environment(variables)),
        ("cache", _cache()),
        ("programs", _programs()),
    ):
        for name, value in rows:
            yield Fact(group, name, shortened(value))


def shortened(text: str) -> str:
    """`text` with ``~`` for the user's home."""
    home = os.path.expanduser("~").rstrip("/")
    return re.sub(rf"{re.escape(home)}(?![^/:\s'\",;)])", "~", text) if len(home) > 1 else text


def _versions() -> Iterator[tuple[str, str]]:
    yield "hlotool", __version__
    yield platform.python_implementation(), f"{platform.python_version()} ({platform.python_compiler()})"
    for name, extra in _requirements():
        try:
            yield name, version(name)
        except PackageNotFoundError:
            yield name, f"not installed{f' (extra {extra})' if extra else ''}"
    yield "LLVM", llvm_version()
    yield "platform", platform.platform()


def _requirements() -> list[tuple[str, str]]:
    """The packages that hlotool needs, then those of its extras but ``test``, with the extra's name."""
    try:
        rows = requires("hlotool") or []
    except PackageNotFoundError:  # a copy of the sources
        rows = ["click", "graphviz", "llvmlite", "ml_dtypes", "numpy", "rich", "scipy; extra == 'lapack'"]
    found = []
    for row in rows:
        name = re.match(r"[A-Za-z0-9._-]+", row)
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", row)
        if name is not None and (extra is None or extra[1] != "test"):
            found.append((name[0], extra[1] if extra is not None else ""))
    return sorted(found, key=lambda pair: (pair[1], pair[0].lower()))


def _processor(machine: Machine) -> Iterator[tuple[str, str]]:
    yield "name", processor_name() or platform.processor() or platform.machine()
    yield "for LLVM", f"{machine.cpu}, {machine.triple}"
    yield "vectors", f"{machine.vector_bits} bits, {machine.registers} registers to plan with"
    yield "instructions", ", ".join(_instructions(machine)) or "what the architecture has"
    yield "runtime", "portable" if system().portable else "of Linux"
    yield "tile registers", "yes" if machine.has_tiles else "no"
    caches = (("L1", machine.l1), ("L2", machine.l2), ("L3", machine.l3))
    yield "caches", ", ".join(f"{name} {_bytes(size)}" for name, size in caches) + " (L3: this process's part)"
    try:
        chosen = default_machine()
    except ValueError as error:
        yield "to compile for", str(error)
    else:
        yield "to compile for", f"{chosen.cpu}, {chosen.vector_bits}-bit vectors, {chosen.cores} cores"


def _instructions(machine: Machine) -> list[str]:
    has = [name.removeprefix("+") for name in machine.features.split(",") if name.startswith("+")]
    return sorted(name for name in has if name.startswith(_INSTRUCTIONS[:-1]) or name == _INSTRUCTIONS[-1])


def processor_name() -> str:
    """What the processor calls itself; nothing where the system does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return ""
    found = re.search(r"^(?:model name|Hardware|cpu model)\s*:\s*(.*)$", text, re.MULTILINE)
    return found[1].strip() if found is not None else ""


def _limits() -> Iterator[tuple[str, str]]:
    share, memory, space = cpu_limit(), memory_limit(), address_space_limit()
    yield "cores", f"{host().cores} of {os.cpu_count() or 'unknown'}"
    yield "control group, processors", "none found" if share is None else f"{share:g}"
    yield "control group, memory", "none found" if memory is None else _bytes(memory)
    yield "memory", _bytes(memory_bytes())
    yield "address space", "no limit" if space is None else _bytes(space)
    try:
        yield "threads", str(default_threads())
    except ValueError as error:
        yield "threads", str(error)


def _environment(variables: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in variables:
        value = os.environ.get(name)
        yield name, "not set" if value is None else value or "empty"


def _cache() -> Iterator[tuple[str, str]]:
    cache = default_cache()
    if cache is None:
        yield "folder", "none: it is off, or the user has no home"
        return
    sizes = [entry.size for entry in cache.entries()]
    there = "" if cache.directory.is_dir() else " (not there yet)"
    trusted = "" if cache.is_ours() else " (not used: others may write to it)"
    yield "folder", f"{cache.directory}{there}{trusted}"
    yield "entries", f"{len(sizes)}, {_bytes(sum(sizes))} of at most {_bytes(cache.limit)}"


def _programs() -> Iterator[tuple[str, str]]:
    from shutil import which

    dot = which("dot")
    yield "dot (Graphviz)", "not found" if dot is None else f"{_first_line([dot, '-V'])} ({dot})"
    yield "Python for XLA", xla_python()


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    return (done.stdout + done.stderr).strip().partition("\n")[0]


def _bytes(number: int | None) -> str:
    if number is None:
        return "unknown"
    size, unit = next(((size, unit) for size, unit in _UNITS if number >= size), (1, "B"))
    return f"{number / size:.4g} {unit}"
