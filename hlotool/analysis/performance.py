"""How fast a machine is, and how long kernels take there: amounts of work, each with its figure.

Code generation counts the work of a kernel (`hlotool.codegen.prediction`): starts, nanoseconds as its emitter plans
them, bytes by the cache that they come from, arrays that have to be fetched first.  A figure says how many
nanoseconds one of them takes.  So a prediction can be read: every term of it is an amount times a figure.  What caches
move, and what is computed meanwhile, hide each other in part: both together take the root of the sum of their squares.
Figures are built in, or measured (`hlotool.harness.calibration`), by `fitted`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["FIGURES", "Amounts", "KernelPrediction", "ModulePrediction", "Performance", "Sample", "fitted"]

Amounts = Mapping[str, float]
"""How much of what takes time there is in a kernel, by the names of `FIGURES`."""

LEVELS = ("L1", "L2", "L3", "memory")
"""Where what a kernel reads may be, by how much else was touched since."""

FIGURES: Mapping[str, str] = {
    "start": "of a kernel: its call, and the clock's around it",
    "step": "of a further function of a kernel",
    "task": "of a further task of a function",
    "fork": "of handing tasks to other threads and waiting for them",
    "line": "of a kernel's code: one of LLVM IR, run once",
    "vector": "of arithmetic on a vector",
    "division": "of divisions and roots, in cycles for which all else has to wait for them",
    "division of integers": "of quotients of integers, in the cycles planned for them",
    "half": "of arithmetic on vectors of f16 and bf16, likewise",
    "function exp": "of exponentials of vectors, likewise",
    "function log": "of logarithms, likewise",
    "function tanh": "of hyperbolic tangents and error functions, likewise",
    "function root": "of roots, likewise",
    "function sine": "of sines and cosines, likewise",
    "function other": "of other functions, likewise",
    "function f64": "of functions of f64, likewise",
    "complex function": "of functions of complex numbers, likewise",
    "scalar": "of arithmetic on single elements, likewise",
    "other": "of indices and what else is in a loop",
    "access": "of reading or writing a vector whose elements lie side by side",
    "masked": "of the lanes of one that do not count, which are left out",
    "far access": "of reading one in a reduction along columns, each element in another line or page",
    "scattered load": "of reading one whose elements lie near each other, likewise",
    "scattered store": "of writing such a one, likewise",
    "far load": "of reading one whose elements lie far from each other, likewise",
    "far store": "of writing such a one, likewise",
    "indexed load": "of reading one whose elements lie anywhere, likewise",
    "indexed store": "of writing such a one, likewise",
    "scalar access": "of reading or writing a single element",
    "guarded": "of the condition of a vector that is read only where it holds",
    "combined": "of applying a reducer of several operations to vectors, likewise",
    "results": "of beginning and ending a reduction",
    "latency": "of the longest chain of operations of a kernel, once, in cycles: small ones do not hide it",
    "waiting": "of operations that wait for the one before, likewise, where nothing else is to do",
    "fill": "of writing a byte where nothing is read or computed meanwhile",
    "horizontal": "of putting together the lanes of a reduction",
    "trips": "of entering a loop",
    "iteration": "of a trip of a loop: its counter and its branch",
    "product": "planned for copies of the operands of products, and for products that have no tiles",
    "tile": "of a product: of its result",
    "tile run": "of a product: of a run of terms that lie evenly, in a tile",
    "tile step": "of a product: of the sum of a tile, in the cycles planned for it",
    "convolution": "planned for convolutions",
    "scatter": "planned for scatters",
    "sort": "planned for sorts and the largest elements",
    "copy": "planned for kernels that copy",
    "complex": "of arithmetic on vectors of complex numbers, in the cycles planned for it",
    "algorithm": "planned for all other kernels",
    **{f"read {level}": f"of a byte of an array that is in {level}" for level in LEVELS},
    **{f"write {level}": f"of writing a byte of an array that is in {level}" for level in LEVELS},
    **{f"update {level}": f"of writing a byte of an array in {level} that is read, too" for level in LEVELS},
    "array": "until an array is found that has left a core's own caches: of a cube root of milliseconds since then",
    **{f"lines {level}": f"of an array that begins in {level}: one of its first lines" for level in LEVELS[1:]},
}
"""What each figure is: nanoseconds, of one of these.  Nanoseconds that emitters plan count as amounts of work."""


_MOVED = ("read ", "write ", "update ")
_ALONE = {"start", "step", "task", "fork", "line", "array", *(f"lines {level}" for level in LEVELS)}
"""How the names of what caches move begin, and those of what nothing hides."""


def _group(name: str) -> int:
    """Which terms hide each other: 0 of what nothing hides, 1 of what is computed, 2 of what is moved."""
    return 2 if name.startswith(_MOVED) else 0 if name in _ALONE else 1


_GROUPS: Mapping[str, int] = {name: _group(name) for name in FIGURES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """The figures of a machine: nanoseconds by the names of `FIGURES`, measured with `threads`.

    `origin` is ``calibrated`` on this machine, or ``built in``, for processors like `cpu`.
    """

    cpu: str
    threads: int
    origin: str
    figures: Mapping[str, float]

    def nanoseconds(self, amounts: Amounts) -> float:
        """The time of so much work."""
        alone, computed, moved = self._groups(amounts)
        return alone + math.hypot(computed, moved)

    def _groups(self, amounts: Amounts) -> list[float]:
        """The time of each group, if nothing hid anything."""
        groups = [0.0, 0.0, 0.0]
        for name, amount in amounts.items():
            groups[_GROUPS[name]] += self.figures[name] * amount
        return groups

    def parts(self, amounts: Amounts) -> dict[str, float]:
        """Its terms in nanoseconds, less what is hidden of them, the largest first."""
        _, computed, moved = self._groups(amounts)
        both = math.hypot(computed, moved) or 1.0
        shares = 1.0, computed / both, moved / both
        terms = {
            name: self.figures[name] * amount * shares[_GROUPS[name]]
            for name, amount in amounts.items() if amount
        }  # fmt: skip
        return dict(sorted(terms.items(), key=lambda term: (-term[1], term[0])))


@dataclass(frozen=True, slots=True)
class KernelPrediction:
    """The kernel of an instruction: how often it runs, the work of one run (of the second and later ones of a loop),
    and the seconds of all runs together."""

    instruction: Instruction
    runs: int
    amounts: Amounts
    seconds: float


@dataclass(frozen=True, slots=True)
class ModulePrediction:
    """Kernels in the order of the program.  `unknown` are loops whose trips are not known, which count once, and what
    the runtime carries out, which does not count."""

    kernels: tuple[KernelPrediction, ...]
    unknown: tuple[Instruction, ...]

    @property
    def seconds(self) -> float:
        """Of all kernels, one after the other."""
        return sum(kernel.seconds for kernel in self.kernels)

    def times(self) -> dict[tuple[str, str], float]:
        """Seconds by computation and instruction, as measured times have them (`hlotool.harness.times`)."""
        found: dict[tuple[str, str], float] = {}
        for kernel in self.kernels:
            parent = kernel.instruction.parent
            key = parent.name if parent is not None else "", kernel.instruction.name
            found[key] = found.get(key, 0.0) + kernel.seconds
        return found


@dataclass(frozen=True, slots=True)
class Sample:
    """A kernel that was measured: its work, and nanoseconds."""

    amounts: Amounts
    nanoseconds: float


def fitted(samples: Sequence[Sample], prior: Mapping[str, float], trust: float = 1.0) -> dict[str, float]:
    """The figures that explain the samples best: least squares of how far off predictions are, relative to the times,
    with less weight for what is far off; near those of `prior`.

    `trust` is how many samples a figure of the prior counts like, one that is off by a factor of e being as bad as a
    sample that is off by its own time.  Figures stay above zero.  Gauss and Newton's steps, of Levenberg's length; the
    same samples always give the same figures.
    """
    names = list(prior)
    work = np.array([[s.amounts.get(name, 0.0) for name in names] for s in samples], float).reshape(-1, len(names))
    target = np.log([s.nanoseconds for s in samples])
    first = np.log([prior[name] for name in names])
    group = np.array([_GROUPS[name] for name in names])
    slower = float(np.median(target - np.log(_terms(work, group, first).sum(axis=1)))) if len(target) else 0.0
    found, damping = first + slower, 1e-3  # errors of what is far too low have no slope
    value = _loss(work, group, target, first, found, trust)[0]
    for _ in range(_STEPS):
        _, residual, slope, weight = _loss(work, group, target, first, found, trust)
        left = (slope.T * weight) @ slope + np.eye(len(names)) * trust
        right = (slope.T * weight) @ residual + trust * (found - first)
        step = np.linalg.solve(left + damping * np.diag(np.diag(left)), right)
        tried = found - np.clip(step, -1, 1)
        better = _loss(work, group, target, first, tried, trust)[0]
        if better < value:
            done = value - better < 1e-9 * value
            found, value, damping = tried, better, damping / 3
            if done:
                break
        else:
            damping *= 4
            if damping > _MOST_DAMPING:
                break
    return {name: float(np.exp(number)) for name, number in zip(names, found, strict=True)}


_STEPS = 300
_MOST_DAMPING = 1e9
_FAR = 1.0
"""The error from which on a sample weighs less than its square: most are nearer, and a few that nothing here explains
should not move the rest."""

_FARTHEST = 20.0
"""The most that a prediction may be of a time, and keep its slope."""

_Numbers = npt.NDArray[np.float64]


def _terms(work: _Numbers, group: npt.NDArray[np.int_], figures: _Numbers) -> _Numbers:
    """The parts of times (`Performance.parts`) at logarithms of figures, which are their slopes by these, too."""
    terms = work * np.exp(figures)
    computed, moved = (terms[:, group == one].sum(axis=1, keepdims=True) for one in (1, 2))
    both = np.maximum(np.hypot(computed, moved), np.finfo(float).tiny)
    shares = np.hstack([np.ones_like(both), computed / both, moved / both])
    return np.asarray(terms * shares[:, group])


def _loss(
    work: _Numbers, group: npt.NDArray[np.int_], target: _Numbers, first: _Numbers, figures: _Numbers, trust: float
) -> tuple[float, _Numbers, _Numbers, _Numbers]:
    """The loss at logarithms of figures; errors, their slopes, and the weights of samples (Huber)."""
    terms = _terms(work, group, figures)
    times = terms.sum(axis=1)
    ratio = np.minimum(times / np.exp(target), _FARTHEST)
    residual = ratio - 1
    size = np.abs(residual)
    loss = np.where(size <= _FAR, residual**2 / 2, _FAR * (size - _FAR / 2)).sum()
    weight = np.where(size <= _FAR, 1.0, _FAR / np.maximum(size, _FAR))
    total = float(loss + trust * ((figures - first) ** 2).sum() / 2)
    return total, residual, terms * (ratio / times)[:, None], weight
