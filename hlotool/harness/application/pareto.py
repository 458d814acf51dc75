"""Goals, and which configurations nothing beats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hlotool.harness.application.measure import Figures

__all__ = ["GOALS", "cost_for", "nothing_beats"]

GOALS: Mapping[str, Callable[[Figures], float | None]] = {
    "latency": lambda figures: figures.latency,
    "throughput": lambda figures: None if figures.throughput is None else -figures.throughput,
    "energy": lambda figures: figures.energy,
    "memory": lambda figures: figures.memory,
}
"""What is to be as small as can be."""


def cost_for(goal: str, figures: Figures) -> tuple[float, float] | None:
    """What a goal compares: the figure, and the latency where two are equal; None where it is not known."""
    figure = GOALS[goal](figures)
    return None if figure is None else (figure, figures.latency or 0.0)


def nothing_beats(rows: Sequence[Figures]) -> list[bool]:
    """Which rows are on the Pareto front of latency, throughput, memory and energy: no other one is as good in all, and
    better in one.  A figure that a row lacks is the worst there can be."""
    worst = float("inf")
    costs = [tuple(worst if (c := goal(row)) is None else c for goal in GOALS.values()) for row in rows]

    def beaten(own: tuple[float, ...]) -> bool:
        return any(other != own and all(a <= b for a, b in zip(other, own, strict=True)) for other in costs)

    return [not beaten(own) for own in costs]
