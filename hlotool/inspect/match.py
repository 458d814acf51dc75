"""Which instruction of one computation is which of another: by what they are and by their neighbours, never by name.

Values that are the same from the parameters down, then what is used the same from the root up, then neighbours of what
is matched, then what stands in the same order.  All of this first for labels that are equal, then for looser ones.
Each step is linear but for sorting.  To match trees from the largest equal parts down is the idea of J. Falleri et al.,
Fine-grained and accurate source code differencing (2014); here on graphs, with numbers of hash-consed values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from math import inf

from hlotool.inspect.diff import matching_blocks
from hlotool.inspect.match_keys import EXACT, LEVELS, LOOSE, OPCODE, WHOLE, Keys
from hlotool.ir import Computation, Instruction
from hlotool.ir.effects import is_pure
from hlotool.lazy_dataclass import dataclass
from hlotool.text.arrange import post_order

__all__ = ["Graph", "Match", "graph_of", "match_graphs"]

_ROUNDS = 4
_COMMON = frozenset({"parameter", "constant", "iota", "broadcast", "tuple", "get-tuple-element", "bitcast", "reshape"})
"""Opcodes that say little about which instruction this is."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A computation by numbers: what each instruction reads, by which instructions (number, position) it is read, and
    its labels at each level.  Control predecessors are read at position -1.  `is_value` says of each whether it is
    nothing but what it is computed from: no parameter, and without effects."""

    instructions: tuple[Instruction, ...]
    reads: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    users: tuple[list[tuple[int, int]], ...]
    labels: tuple[tuple[int, ...], ...]
    is_value: tuple[bool, ...]
    root: int


def graph_of(computation: Computation, keys: Keys) -> Graph:
    """The graph, in an order that does not depend on how independent instructions stand."""
    order = post_order(computation)
    number = {instruction: n for n, instruction in enumerate(order)}
    reads = tuple([tuple([number[o] for o in one.operands]) for one in order])
    after = tuple([tuple([number[o] for o in one.control_predecessors]) for one in order])
    users: tuple[list[tuple[int, int]], ...] = tuple([[] for _ in order])
    for n, sources in enumerate(reads):
        for position, source in enumerate(sources):
            users[source].append((n, position))
        for source in after[n]:
            users[source].append((n, -1))
    labels = tuple(zip(*map(keys.labels, order), strict=True))
    known: dict[Computation, bool] = {}
    pure = tuple([one.opcode != "parameter" and is_pure(one, known) for one in order])
    return Graph(tuple(order), reads, after, users, labels, pure, number[computation.root])


class Match:
    """Pairs of instructions of two graphs, by their numbers: -1 where an instruction has no partner."""

    def __init__(self, old: Graph, new: Graph, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self.old, self.new = old, new
        self.to_new = [-1] * len(old.instructions)
        self.to_old = [-1] * len(new.instructions)
        for i, j in pairs:
            self.pair(i, j)

    def pair(self, i: int, j: int) -> None:
        self.to_new[i], self.to_old[j] = j, i

    def pairs(self) -> list[tuple[int, int]]:
        return [(i, j) for i, j in enumerate(self.to_new) if j >= 0]

    @property
    def is_done(self) -> bool:
        """Whether one side has nothing left to match."""
        return min(self.to_new, default=0) >= 0 or min(self.to_old, default=0) >= 0

    def values(self, level: int, apart: Sequence[bool] | None = None) -> tuple[list[int], list[int]]:
        """Numbers for the values of both graphs, from the parameters down: equal ones are computed in the same way from
        pairs.  With `apart` only those of its pairs are values of their own that it says this of, and what has no
        partner is one too; others are what they are computed from."""
        known: dict[Hashable, int] = {}
        if apart is None:
            fixed_old = [-1 - i if j >= 0 else 0 for i, j in enumerate(self.to_new)]
            fixed_new = [-1 - i if i >= 0 else 0 for i in self.to_old]
        else:
            count = len(self.to_new)
            fixed_old = [-1 - i if j < 0 or apart[i] else 0 for i, j in enumerate(self.to_new)]
            fixed_new = [
                -1 - count - j if i < 0 else -1 - i if apart[i] else 0 for j, i in enumerate(self.to_old)
            ]
        return _values(self.old, level, fixed_old, known), _values(self.new, level, fixed_new, known)


def match_graphs(old: Graph, new: Graph, pairs: Iterable[tuple[int, int]]) -> Match:
    """Match all that can be; `pairs` are matched already: the parameters."""
    match = Match(old, new, pairs)
    for level in LEVELS:
        for _ in range(_ROUNDS):
            before = match.to_new.count(-1)
            if match.is_done:
                return match
            _pair_equal(match, *match.values(level))
            _pair_equal(match, *_uses(match, level), most=1)  # what is not used can be anything
            _spread(match, level)
            _align(match, level)
            if match.to_new.count(-1) == before:
                break
    _pair_replaced(match)
    return match


# ---- equal values, equal uses


def _values(graph: Graph, level: int, fixed: Sequence[int], known: dict[Hashable, int]) -> list[int]:
    found: list[int] = []
    for label, reads, after, own in zip(graph.labels[level], graph.reads, graph.after, fixed, strict=True):
        if own:
            found.append(own)
            continue
        key: Hashable = (label, *[found[source] for source in reads])
        if after:
            key = (key, tuple(sorted([found[source] for source in after])))
        found.append(known.setdefault(key, len(known) + 1))
    return found


def _uses(match: Match, level: int) -> tuple[list[int], list[int]]:
    """Numbers that are equal for what is used in the same way, from the root up."""
    known: dict[Hashable, int] = {}
    tokens = []
    for graph, partners, mine in ((match.old, match.to_new, True), (match.new, match.to_old, False)):
        found = [0] * len(partners)
        labels, users = graph.labels[level], graph.users
        for n in range(len(partners) - 1, -1, -1):
            if partners[n] >= 0:
                found[n] = -1 - (n if mine else partners[n])
                continue
            key = (labels[n], n == graph.root, *sorted([(found[user], position) for user, position in users[n]]))
            found[n] = known.setdefault(key, len(known) + 1)
        tokens.append(found)
    return tokens[0], tokens[1]


def _pair_equal(match: Match, old: Sequence[Hashable], new: Sequence[Hashable], most: float = inf) -> None:
    """Pair what has equal numbers, in order, where there are as many on both sides, and no more than `most`."""
    ours = Counter([number for number, partner in zip(old, match.to_new, strict=True) if partner < 0])
    theirs = Counter([number for number, partner in zip(new, match.to_old, strict=True) if partner < 0])
    paired = {number for number, count in ours.items() if count <= most and theirs.get(number) == count}
    if not paired:
        return
    places: dict[Hashable, list[int]] = defaultdict(list)
    for i, number in enumerate(old):
        if number in paired and match.to_new[i] < 0:
            places[number].append(i)
    nexts = {number: iter(found) for number, found in places.items()}
    for j, number in enumerate(new):
        if number in paired and match.to_old[j] < 0:
            match.pair(next(nexts[number]), j)


# ---- neighbours


def _spread(match: Match, level: int) -> None:
    """Pair neighbours of pairs: operands at the same place, and the only user at a place."""
    old, new = match.old, match.new
    ours, theirs = old.labels[level], new.labels[level]
    work = match.pairs()
    while work:
        i, j = work.pop()
        found = list(_operands(match, level, i, j))
        by_use: dict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for user, position in old.users[i]:
            if match.to_new[user] < 0:
                by_use[ours[user], position][0].append(user)
        for user, position in new.users[j] if by_use else ():
            if match.to_old[user] < 0:
                by_use[theirs[user], position][1].append(user)
        for a, b in by_use.values():
            if len(a) == len(b) == 1 and (level <= EXACT or _fit(match, a[0], b[0])):
                found.append((a[0], b[0]))
        for i, j in found:
            if match.to_new[i] < 0 and match.to_old[j] < 0:
                match.pair(i, j)
                work.append((i, j))


def _operands(match: Match, level: int, i: int, j: int) -> Iterable[tuple[int, int]]:
    """Operands of a pair that may be a pair: at the same place, or, of lists that grow, in the same order."""
    a, b = match.old.reads[i], match.new.reads[j]
    ours, theirs = match.old.labels[level], match.new.labels[level]
    if len(a) == len(b):
        blocks = [(0, 0, len(a))]
    else:
        blocks = matching_blocks(
            [-1 - n if match.to_new[n] >= 0 else ours[n] for n in a],
            [-1 - match.to_old[n] if match.to_old[n] >= 0 else theirs[n] for n in b],
        )
    for x, y, size in blocks:
        for k in range(size):
            s, t = a[x + k], b[y + k]
            if match.to_new[s] < 0 and match.to_old[t] < 0 and ours[s] == theirs[t]:
                yield s, t


def _fit(match: Match, i: int, j: int) -> bool:
    """Whether what two instructions read can be the same."""
    a, b = match.old.reads[i], match.new.reads[j]
    if len(a) != len(b):
        return match.old.labels[LOOSE][i] == match.new.labels[LOOSE][j]
    return all(match.to_new[s] in (-1, t) and match.to_old[t] in (-1, s) for s, t in zip(a, b, strict=True))


def _pair_replaced(match: Match) -> None:
    """Pair an instruction with one of another opcode that reads the same values and alone stands in its place."""
    _pair_by_reads(match, match.values(WHOLE))
    _pair_by_reads(match, match.values(WHOLE, [not value for value in match.old.is_value]))


def _pair_by_reads(match: Match, values: tuple[list[int], list[int]]) -> None:
    old, new = match.old, match.new
    groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, (graph, partners) in enumerate(((old, match.to_new), (new, match.to_old))):
        for n, reads in enumerate(graph.reads):
            if partners[n] < 0 and reads:
                groups[tuple([values[side][source] for source in reads])][side].append(n)
    for ours, theirs in groups.values():
        if len(ours) == len(theirs) == 1:
            i, j = ours[0], theirs[0]
            uses = {(match.to_new[user], position) for user, position in old.users[i]}
            if (i == old.root) == (j == new.root) and (i == old.root or uses & set(new.users[j])):
                match.pair(i, j)


# ---- order


def _align(match: Match, level: int) -> None:
    """Pair what is left where it stands in the same order: with the same neighbours, then with the same label."""
    if level == OPCODE:
        return
    _align_by(match, *(_surroundings(match, level, mine) for mine in (True, False)))
    if level <= EXACT:
        labels = []
        for graph in (match.old, match.new):
            common = [one.opcode in _COMMON for one in graph.instructions]
            labels.append([0 if c else label + 1 for c, label in zip(common, graph.labels[level], strict=True)])
        _align_by(match, labels[0], labels[1])


def _surroundings(match: Match, level: int, mine: bool) -> list[Hashable]:
    """What an instruction is and what its neighbours are, for those that have no partner; 0 where nothing is known."""
    graph, partners = (match.old, match.to_new) if mine else (match.new, match.to_old)
    labels = graph.labels[level]
    tokens = [
        labels[n] if partners[n] < 0 else -1 - (n if mine else partners[n]) for n in range(len(partners))
    ]
    found: list[Hashable] = []
    for n, partner in enumerate(partners):
        if partner >= 0:
            found.append(0)
            continue
        users = tuple(sorted([(tokens[user], position) for user, position in graph.users[n]]))
        found.append((labels[n], tuple([tokens[source] for source in graph.reads[n]]), users))
    return found


def _align_by(match: Match, old: Sequence[Hashable], new: Sequence[Hashable]) -> None:
    ours = [n for n, partner in enumerate(match.to_new) if partner < 0 and old[n]]
    theirs = [n for n, partner in enumerate(match.to_old) if partner < 0 and new[n]]
    for i, j, size in matching_blocks([old[n] for n in ours], [new[n] for n in theirs]):
        for k in range(size):
            match.pair(ours[i + k], theirs[j + k])
