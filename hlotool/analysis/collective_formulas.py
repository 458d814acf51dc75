"""How long collectives take among devices that all reach each other alike: published formulas.

A message of n bytes takes ``latency + n / bandwidth`` (alpha and beta of the papers), and reducing n bytes takes
``n * reduce`` (gamma).  Sizes are those of the whole array: what a device gives to all-reduce, reduce-scatter and
all-to-all, what it gets from all-gather.  Sources:

* Thakur, Rabenseifner and Gropp: Optimization of Collective Communication Operations in MPICH (2005): recursive
  doubling and halving, Bruck's algorithm, pairwise exchange, binomial trees;
* Rabenseifner: Optimization of Collective Reduction Operations (2004): halving, then doubling;
* Patarasuk and Yuan: Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations (2009): the ring;
* Chan, Heimlich, Purkayastha and van de Geijn: Collective Communication (2007): lower bounds, scatter and all-gather.
"""

from __future__ import annotations

from collections.abc import Callable

from hlotool.lazy_dataclass import dataclass

__all__ = ["FORMULAS", "Link", "Predicted", "best"]


@dataclass(frozen=True, slots=True)
class Link:
    """What a device sends by: seconds for a message however small, bytes per second, seconds per byte reduced."""

    latency: float
    bandwidth: float
    reduce: float = 0.0

    def message(self, size: float) -> float:
        """Seconds for a message of `size` bytes."""
        return self.latency + size / self.bandwidth


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a collective is expected to take: by which algorithm, in how many steps, seconds, bytes a device sends."""

    algorithm: str
    steps: int
    sent: float
    seconds: float


Formula = Callable[[Link, int, float], Predicted]
"""(link, devices, bytes) to what it takes; devices are two at least."""


def _log(count: int) -> int:
    """The logarithm to base two, rounded up."""
    return (count - 1).bit_length()


def _is_power(count: int) -> bool:
    return count & (count - 1) == 0


def _made(
    link: Link, algorithm: str, steps: int, sent: float, reduced: float = 0.0, wait: float | None = None
) -> Predicted:
    seconds = (steps * link.latency if wait is None else wait) + sent / link.bandwidth + reduced * link.reduce
    return Predicted(algorithm, steps, sent, seconds)


# ---- all-reduce


def ring_all_reduce(link: Link, count: int, size: float) -> Predicted:
    """2(p-1) alpha + 2 (p-1)/p n beta + (p-1)/p n gamma."""
    share = (count - 1) / count * size
    return _made(link, "ring", 2 * (count - 1), 2 * share, share)


def doubling_all_reduce(link: Link, count: int, size: float) -> Predicted:
    """lg p (alpha + n beta + n gamma); others than powers of two fold into one first, and unfold: two steps more."""
    rounds = count.bit_length() - 1
    folds = 0 if _is_power(count) else 2
    return _made(link, "recursive-doubling", rounds + folds, (rounds + folds) * size, (rounds + folds // 2) * size)


def halving_all_reduce(link: Link, count: int, size: float) -> Predicted:
    """2 lg p alpha + 2 (p-1)/p n beta + (p-1)/p n gamma (Rabenseifner); folding as in recursive doubling."""
    rounds, folds = count.bit_length() - 1, 0 if _is_power(count) else 2
    power = 1 << rounds
    share = (power - 1) / power * size
    sent, reduced = 2 * share + folds * size, share + folds // 2 * size
    return _made(link, "rabenseifner", 2 * rounds + folds, sent, reduced)


def tree_all_reduce(link: Link, count: int, size: float) -> Predicted:
    """A binomial reduce and a binomial broadcast: 2 lg p (alpha + n beta) + lg p n gamma."""
    rounds = _log(count)
    return _made(link, "tree", 2 * rounds, 2 * rounds * size, rounds * size)


# ---- reduce-scatter, all-gather


def ring_reduce_scatter(link: Link, count: int, size: float) -> Predicted:
    """(p-1) alpha + (p-1)/p n beta + (p-1)/p n gamma."""
    share = (count - 1) / count * size
    return _made(link, "ring", count - 1, share, share)


def halving_reduce_scatter(link: Link, count: int, size: float) -> Predicted:
    """lg p alpha + (p-1)/p n beta + (p-1)/p n gamma; others than powers of two take the ring."""
    if not _is_power(count):
        return ring_reduce_scatter(link, count, size)
    share = (count - 1) / count * size
    return _made(link, "recursive-halving", _log(count), share, share)


def ring_all_gather(link: Link, count: int, size: float) -> Predicted:
    """(p-1) alpha + (p-1)/p n beta."""
    return _made(link, "ring", count - 1, (count - 1) / count * size)


def bruck_all_gather(link: Link, count: int, size: float) -> Predicted:
    """lg p alpha + (p-1)/p n beta: recursive doubling of powers of two, Bruck's algorithm of others."""
    name = "recursive-doubling" if _is_power(count) else "bruck"
    return _made(link, name, _log(count), (count - 1) / count * size)


# ---- all-to-all, broadcast


def pairwise_all_to_all(link: Link, count: int, size: float) -> Predicted:
    """(p-1) alpha + (p-1)/p n beta."""
    return _made(link, "pairwise", count - 1, (count - 1) / count * size)


def bruck_all_to_all(link: Link, count: int, size: float) -> Predicted:
    """lg p alpha + n/2 lg p beta."""
    return _made(link, "bruck", _log(count), _log(count) * size / 2)


def tree_broadcast(link: Link, count: int, size: float) -> Predicted:
    """lg p (alpha + n beta): a binomial tree."""
    return _made(link, "tree", _log(count), _log(count) * size)


def scattered_broadcast(link: Link, count: int, size: float) -> Predicted:
    """(lg p + p - 1) alpha + 2 (p-1)/p n beta: a binomial scatter, then a ring of all-gather (van de Geijn)."""
    return _made(link, "scatter-all-gather", _log(count) + count - 1, 2 * (count - 1) / count * size)


FORMULAS: dict[str, tuple[Formula, ...]] = {
    "all-reduce": (halving_all_reduce, ring_all_reduce, doubling_all_reduce, tree_all_reduce),
    "reduce-scatter": (halving_reduce_scatter, ring_reduce_scatter),
    "all-gather": (bruck_all_gather, ring_all_gather),
    "all-to-all": (pairwise_all_to_all, bruck_all_to_all),
    "collective-broadcast": (tree_broadcast, scattered_broadcast),
}
"""The algorithms of each collective; MPI libraries, too, take the one that suits the size."""


def best(opcode: str, link: Link, count: int, size: float) -> Predicted:
    """The algorithm that takes the least time, the first of those that take as long; nothing for a lone device."""
    if count == 1:
        return Predicted("none", 0, 0.0, 0.0)
    return min((formula(link, count, size) for formula in FORMULAS[opcode]), key=lambda found: found.seconds)
