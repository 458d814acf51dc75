"""Parts of computations without names: what repeats becomes layers, the rest is cut where little flows.

Both work on the order of the program, so that no part depends on a later one.  A stretch repeats when its opcodes and
shapes (or its opcodes alone) come again right after it; a cut is good where few values are needed on the other side.
All steps are linear in the number of boxes and edges.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from hlotool.analysis.cost import ModuleCost
from hlotool.inspect.contents import part_title, products_in
from hlotool.inspect.labels import shape_text
from hlotool.inspect.scene import Box
from hlotool.lazy_dataclass import dataclass

__all__ = ["divide"]

_SHORTEST_PERIOD = 8  # boxes of a repetition
_SMALLEST_PART, _LARGEST_PART = 12, 60
_STAY = 4  # boxes between layers that make no part of their own
_GRAM = 4  # boxes in a row that are looked for again
_CANDIDATES = 8  # distances that are tried
_MOST_PARTS = 36  # in one box
_BY_OPCODE = 1.3  # how much more must repeat without shapes than with them
_MOST_LETTERS = 26  # kinds of repetitions that are told apart by a letter
_LEAST_COVERED, _LEAST_OF_REST = 0.15, 0.4  # of a stretch, and of what is left of one or in a part
_ALIKE = 0.8  # how alike a repetition with more or fewer boxes is
_PRODUCTS_OF_LAYER = 1.5  # what repeats with fewer is a repetition, but no layer
_UNLIKE = 2  # boxes in a row that may differ within a repetition
_DIGITS = re.compile(r"\d+")

_Flows = Sequence[tuple[int, int]]  # from box to box, by their numbers


@dataclass(frozen=True, slots=True)
class _Piece:
    """Boxes from `start` to before `end`; `turn` says which repetition they are, if any."""

    start: int
    end: int
    turn: str = ""


def divide(parent: Box, boxes: Sequence[Box], flows: _Flows, full: int, costs: ModuleCost) -> None:
    """Put `boxes` into parts of `parent`, and those of parts with more than `full` boxes into parts again."""
    waist = _waists(len(boxes), [flow for flow in flows if not _is_parameter(boxes[flow[0]])])
    pieces = _pieces(boxes, waist, _LEAST_OF_REST if parent.kind == "scope" else _LEAST_COVERED)
    place = [0] * len(boxes)
    for number, piece in enumerate(pieces):
        place[piece.start : piece.end] = [number] * (piece.end - piece.start)
    inner: list[list[tuple[int, int]]] = [[] for _ in pieces]
    for source, target in flows:
        if (number := place[source]) == place[target]:
            start = pieces[number].start
            inner[number].append((source - start, target - start))
    parent.children = []
    made: list[tuple[str, Box]] = []
    for number, piece in enumerate(pieces):
        held = boxes[piece.start : piece.end]
        if len(held) <= _STAY and not piece.turn:
            made += [("", box) for box in held]
            continue
        part = Box(f"{parent.path.rstrip('/')}/{piece.turn or f'part {number + 1}'}/", "scope")
        if len(held) > full and len(pieces) > 1:
            divide(part, held, inner[number], full, costs)
        else:
            _fill(part, held)
        part.title = part_title(part, costs, piece.turn)
        made.append((piece.turn, part))
    _nest(parent, made, costs)


def _fill(part: Box, held: Sequence[Box]) -> None:
    for box in held:
        part.add(box)


def _nest(parent: Box, made: Sequence[tuple[str, Box]], costs: ModuleCost) -> None:
    """Put parts into `parent`, several in one where there are too many."""
    if len(made) <= _MOST_PARTS:
        _fill(parent, [box for _, box in made])
        return
    size = max(2, round(len(made) ** 0.5))
    for number, start in enumerate(range(0, len(made), size), 1):
        held = made[start : start + size]
        group = parent.add(Box(f"{parent.path.rstrip('/')}/parts {number}/", "scope"))
        _fill(group, [box for _, box in held])
        turns = [turn for turn, _ in held if turn]
        group.title = part_title(group, costs, f"{turns[0]} … {turns[-1].split()[-1]}" if len(turns) > 1 else "")


# ---- where to cut


def _pieces(boxes: Sequence[Box], waist: Sequence[int], least: float) -> list[_Piece]:
    groups = _repeats(boxes, waist, least)
    pieces: list[_Piece] = []
    at = 0
    for number, borders in enumerate(groups):
        pieces += _cuts(at, borders[0], waist)
        letter = chr(ord("A") + number) if 1 < len(groups) <= _MOST_LETTERS else ""
        products = sum(map(products_in, boxes[borders[0] : borders[-1]]))
        word = "layer" if products >= _PRODUCTS_OF_LAYER * (len(borders) - 1) else "repeat"
        for turn, (start, end) in enumerate(pairwise(borders), 1):
            pieces.append(_Piece(start, end, f"{word} {letter}{turn}"))
        at = borders[-1]
    return pieces + _cuts(at, len(boxes), waist)


def _cuts(start: int, end: int, waist: Sequence[int]) -> list[_Piece]:
    """A stretch in parts of about the same size, cut at waists."""
    size = min(_LARGEST_PART, max(_SMALLEST_PART, round(1.5 * (end - start) ** 0.5)))
    pieces = []
    while end - start > 1.6 * size:
        near = range(start + size // 2, start + round(1.5 * size))
        cut = min(near, key=lambda place: (waist[place], abs(place - start - size)))
        pieces.append(_Piece(start, cut))
        start = cut
    return [*pieces, _Piece(start, end)] if end > start else pieces


def _waists(count: int, flows: _Flows) -> list[int]:
    """How many values are needed on both sides of a cut before each box."""
    last = list(range(count))
    for source, target in flows:
        last[source] = max(last[source], target)
    steps = [0] * (count + 2)
    for source, end in enumerate(last):
        steps[source + 1] += 1
        steps[end + 1] -= 1
    return list(accumulate(steps))[: count + 1]


def _is_parameter(box: Box) -> bool:
    return box.instruction is not None and box.instruction.opcode == "parameter"


# ---- what repeats


class _Run(NamedTuple):
    """`covered` boxes from `start`, each as the one `period` boxes later, as far as there is one."""

    start: int = 0
    period: int = 1
    covered: int = 0


def _repeats(boxes: Sequence[Box], waist: Sequence[int], least: float) -> list[list[int]]:
    """Stretches that repeat, in order and apart: where their repetitions begin, and where the last one ends."""
    exact = _numbered([_token(box, shapes=True) for box in boxes])
    loose = _numbered([_token(box, shapes=False) for box in boxes])
    found: list[list[int]] = []
    waiting = [(0, len(boxes), least)]
    while waiting:
        start, end, least = waiting.pop()
        best, alike = _best(exact[start:end]), _best(loose[start:end])
        tokens = exact
        if alike.covered > _BY_OPCODE * best.covered:
            best, tokens = alike, loose
        if best.covered < 2 * best.period or best.covered < least * (end - start):
            continue
        likely = _aligned(best._replace(start=start + best.start), waist)
        borders = max((_grown(one, tokens, waist, start, end) for one in likely), key=len)
        found.append(borders)
        waiting += [(start, borders[0], _LEAST_OF_REST), (borders[-1], end, _LEAST_OF_REST)]
    return sorted(found)


def _token(box: Box, shapes: bool) -> str:
    """What makes two boxes alike."""
    one = box.instruction
    if one is None:
        return _DIGITS.sub("#", box.title)
    kind = f"{one.opcode} {one.called[0].root.opcode}" if one.opcode == "fusion" and one.called else one.opcode
    return f"{kind} {shape_text(one.shape)}" if shapes else kind


def _numbered(words: Sequence[str]) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(word, len(numbers)) for word in words]


def _best(tokens: Sequence[int]) -> _Run:
    """The repetition that covers most; of those that cover about as much, the one with the shortest period."""
    seen: dict[tuple[int, ...], int] = {}
    votes: Counter[int] = Counter()
    for end in range(_GRAM, len(tokens) + 1):
        gram = tuple(tokens[end - _GRAM : end])
        if gram in seen and end - seen[gram] >= _SHORTEST_PERIOD:
            votes[end - seen[gram]] += 1
        seen[gram] = end
    likely = sorted(votes, key=lambda period: (-votes[period], period))[:_CANDIDATES]
    runs = [_longest(tokens, period) for period in likely]
    most = max((run.covered for run in runs), default=0)
    return min((run for run in runs if run.covered >= 0.9 * most), key=lambda run: run.period, default=_Run())


def _longest(tokens: Sequence[int], period: int) -> _Run:
    """The longest run of boxes that are like those `period` later; a few that are not do not end it."""
    best = _Run()
    first = last = -1
    for at in range(len(tokens) - period):
        if tokens[at] != tokens[at + period]:
            continue
        if first < 0 or at - last > _UNLIKE + 1:
            first = at
        last = at
        if last + 1 - first + period > best.covered and last + 1 - first >= period:
            best = _Run(first, period, last + 1 - first + period)
    return best


def _aligned(run: _Run, waist: Sequence[int]) -> list[list[int]]:
    """The likely borders of repetitions: there where the fewest values flow from one to the next."""
    start, period, covered = run
    count = covered // period
    begins = range(start, start + covered - count * period + 1)
    flowing = [sum(waist[begin : begin + (count + 1) * period : period]) for begin in begins]
    best = [begin for begin, values in zip(begins, flowing, strict=True) if values == min(flowing)]
    return [list(range(begin, begin + count * period + 1, period)) for begin in best[:_CANDIDATES]]


def _grown(borders: list[int], tokens: Sequence[int], waist: Sequence[int], start: int, end: int) -> list[int]:
    """`borders` with the stretches before and after them that are nearly the same: first and last layers differ."""
    period = borders[1] - borders[0]
    model = Counter(tokens[borders[0] : borders[1]])
    grown = list(borders)
    while (begin := _similar(model, period, range(grown[0] - 1, start - 1, -1), tokens, waist, 0)) is not None:
        grown.insert(0, begin)
    while (stop := _similar(model, period, range(grown[-1], end), tokens, waist, 1)) is not None:
        grown.append(stop)
    return grown


def _similar(
    model: Counter[int], period: int, places: range, tokens: Sequence[int], waist: Sequence[int], after: int
) -> int | None:
    """The border (of a place, or `after` it) up to which the tokens at `places` are most like the model."""
    seen: Counter[int] = Counter()
    common, best, border = 0, (_ALIKE, 0), None
    for count, place in enumerate(places[: period + period // 2], 1):
        token = tokens[place]
        common += seen[token] < model[token]
        seen[token] += 1
        found = (round(2 * common / (count + period), 2), -waist[place + after])
        if found > best:
            best, border = found, place + after
    return border
