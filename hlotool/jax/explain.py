"""``hlotool.jax.explain``: what became of the programs of this process."""

from __future__ import annotations

from dataclasses import dataclass

from hlotool.jax.programs import Record, records

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """All programs, oldest first, also as text: what was compiled, what fell back and why, and how long it took."""

    programs: tuple[Record, ...]

    @property
    def compiled(self) -> tuple[Record, ...]:
        return tuple(record for record in self.programs if record.refusal is None)

    @property
    def fallen_back(self) -> tuple[Record, ...]:
        return tuple(record for record in self.programs if record.refusal is not None)

    def __str__(self) -> str:
        if not self.programs:
            return "no program was compiled yet"
        total = len(self.programs)
        lines = [f"{len(self.compiled)} of {total} {'program' if total == 1 else 'programs'} compiled by hlotool"]
        rows = [("program", "from", "compiled in", "runs", "a run takes", "by")]
        for record in self.programs:
            seconds = record.run_seconds
            took = "" if seconds is None else _duration(seconds)
            by = "hlotool" if record.refusal is None else f"jax: {record.refusal}"
            rows.append((record.name, record.front, _duration(record.compile_seconds), f"{record.runs}", took, by))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for name, *rest, by in rows:
            cells = [name.ljust(widths[0]), rest[0].ljust(widths[1])]
            cells += [cell.rjust(width) for cell, width in zip(rest[1:], widths[2:], strict=True)]
            lines.append("  ".join([*cells, by]).rstrip())
        return "\n".join(lines)

    __repr__ = __str__


def explain() -> Explanation:
    """What was compiled, what was left to jax and why, with times; runs are timed by samples.

    Print it, or look at its `programs`, `compiled` and `fallen_back`.
    """
    return Explanation(records())


def _duration(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
