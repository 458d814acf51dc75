"""Whether compilations look for tuned choices, and where: the database of `hlotool tune`.

``HLOTOOL_TUNE`` is

- ``off``: formulas decide everything;
- not set: choices of the database that hlotool brings along, which leave every bit of all results as it is;
- ``exact``: those of the user's database, too, of which again only such are taken;
- ``read``: all choices of both;
- ``write``: the same, and kernels without an entry are noted in the user's database, for `hlotool tune`.

The user's database is the file ``HLOTOOL_TUNE_DATABASE``, by default ``hlotool/tuning.jsonl`` under ``XDG_DATA_HOME``
or ``~/.local/share``.  Nothing here imports a compiler.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = ["MODES", "SHIPPED", "Tuning", "default_database", "shipped", "target_key", "tuning_of"]

MODES = ("off", "exact", "read", "write")
SHIPPED = "shipped"
"""What is done where nothing is said."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a compilation takes of databases: one of `MODES`, or `SHIPPED`; and the user's database."""

    mode: str
    database: Path

    @property
    def exact(self) -> bool:
        """Whether only choices are taken that leave every bit as it is."""
        return self.mode in ("exact", SHIPPED)

    def files(self, target: str) -> tuple[Path, ...]:
        """The databases that there are for a target, the one that counts first."""
        if self.mode == "off":
            return ()
        own = (self.database,) if self.mode != SHIPPED and _is_there(self.database) else ()
        brought = shipped(target)
        return own if brought is None else (*own, brought)

    def identity(self, target: str) -> str:
        """What compiled programs depend on: changes with the databases."""
        found = []
        for path in self.files(target):
            with suppress(OSError):  # it was removed just now, and is none any more
                status = path.stat()
                found.append(f"{path} {status.st_size} {status.st_mtime_ns}")
        return " ".join([self.mode, *found])


def tuning_of(mode: str | None) -> Tuning:
    """What `mode` asks for, or, if that is None, ``HLOTOOL_TUNE``; ValueError for any other word."""
    asked = os.environ.get("HLOTOOL_TUNE", "").strip() if mode is None else mode
    if asked and asked not in MODES:
        where = "HLOTOOL_TUNE" if mode is None else "tune"
        raise ValueError(f"{where}={asked!r}: expected {', '.join(MODES[:-1])} or {MODES[-1]}")
    return Tuning(asked or SHIPPED, default_database())


def default_database() -> Path:
    """The user's database."""
    chosen = os.environ.get("HLOTOOL_TUNE_DATABASE", "").strip()
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.local/share").expanduser()) / "hlotool" / "tuning.jsonl"


def shipped(target: str) -> Path | None:
    """The database that hlotool brings along for a target, if there is one."""
    path = Path(__file__).with_name("tuned") / f"{target.replace(' ', '_')}.jsonl"
    return path if _is_there(path) else None


def _is_there(path: Path) -> bool:
    """Whether there is such a file; one that cannot be looked at is taken for none."""
    try:
        return path.is_file()
    except OSError:
        return False


def target_key(machine: Machine) -> str:
    """All that code generation asks of a processor, as far as choices depend on it."""
    traits = [machine.architecture or machine.triple.partition("-")[0], f"v{machine.vector_bits}"]
    words = {
        "tiles": machine.has_tiles, "byte-tiles": machine.has_byte_tiles, "dot-bytes": machine.has_dot_bytes,
        "pairs": machine.has_bf16_pairs, "portable": machine.portable,
        "excess": machine.numerics.excess_precision, "flush": machine.numerics.flush_denormals,
    }  # fmt: skip
    traits += [word for word, there in words.items() if there]
    traits += [f"{name}={getattr(machine, name) >> 10}K" for name in ("l1", "l2", "l3")]
    return " ".join([*traits, f"cores={machine.cores}"])
