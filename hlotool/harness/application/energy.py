"""Energy that processors take, as they count it themselves: Intel's and AMD's running average power limit (RAPL).

The counters are files of Linux, one for each package, in microjoules ("Power Capping Framework" in the kernel's
documentation).  Virtual machines rarely have them, and since 2020 (CVE-2020-8694) only root may read them.
"""

from __future__ import annotations

from pathlib import Path

from hlotool.ir import UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Reading", "joules_between", "read_energy"]

_ROOT = Path("/sys/class/powercap")


@dataclass(frozen=True, slots=True)
class Reading:
    """The counter of each package in microjoules, and where it begins again."""

    counts: tuple[int, ...]
    ranges: tuple[int, ...]


def read_energy(root: Path = _ROOT) -> Reading:
    """What the counters say now.  UnsupportedError says why energy cannot be measured here."""
    packages = sorted(path for path in root.glob("intel-rapl:*") if path.name.count(":") == 1)
    if not packages:
        raise UnsupportedError(
            f"energy cannot be measured here: {root} has no counters of packages (intel-rapl:0); virtual machines and "
            "other processors have none"
        )
    try:
        counts = tuple(int((path / "energy_uj").read_text()) for path in packages)
        ranges = tuple(int((path / "max_energy_range_uj").read_text()) for path in packages)
    except PermissionError as error:
        raise UnsupportedError(f"energy cannot be measured here: {error.filename} may be read by root alone") from None
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"energy cannot be measured here: {error}") from None
    return Reading(counts, ranges)


def joules_between(before: Reading, after: Reading) -> float:
    """The energy of all packages; a counter began again at most once meanwhile (which takes a minute at least)."""
    rows = zip(before.counts, after.counts, after.ranges, strict=True)
    return sum((later - earlier) % (limit + 1) for earlier, later, limit in rows) / 1e6
