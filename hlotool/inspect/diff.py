"""Unified diffs of long texts, in nearly linear time.

Lines that occur once in both texts are matched first, as many as keep their order (patience diff, after Bram Cohen);
what lies between them is compared alone.  In HLO text nearly all lines are of that kind: they define names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher

__all__ = ["matching_blocks", "rising", "unified_diff"]

_SMALL = 20_000  # pairs of lines that may be compared one by one
_MOST_EDITS = 400

_Block = tuple[int, int, int]
"""Where equal lines start in the old and the new text, and how many they are."""


def unified_diff(old: str, new: str, old_name: str, new_name: str, context: int = 3) -> str:
    """The difference of two texts in the form of ``diff -u``; empty when there is none."""
    before, after = old.splitlines(), new.splitlines()
    lines = [line for hunk in _hunks(matching_blocks(before, after), before, after, context) for line in hunk]
    return "\n".join([f"--- {old_name}", f"+++ {new_name}", *lines, ""]) if lines else ""


def matching_blocks(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[_Block]:
    """Blocks of equal lines, or of whatever is given, in order, and an empty one at the end."""
    found: list[_Block] = []
    stack = [(0, len(old), 0, len(new))]
    while stack:
        i, end_i, j, end_j = stack.pop()
        start = 0
        while i + start < end_i and j + start < end_j and old[i + start] == new[j + start]:
            start += 1
        if start:
            found.append((i, j, start))
            i, j = i + start, j + start
        size = 0
        while i < end_i - size and j < end_j - size and old[end_i - size - 1] == new[end_j - size - 1]:
            size += 1
        if size:
            end_i, end_j = end_i - size, end_j - size
            found.append((end_i, end_j, size))
        if i == end_i or j == end_j:
            continue
        anchors = _anchors(old, i, end_i, new, j, end_j)
        if anchors:
            for (a, b), (next_a, next_b) in zip([(i, j), *anchors], [*anchors, (end_i, end_j)], strict=True):
                stack.append((a, next_a, b, next_b))
        elif (end_i - i) * (end_j - j) <= _SMALL:
            matcher = SequenceMatcher(None, old[i:end_i], new[j:end_j], autojunk=False)
            found += [(i + a, j + b, n) for a, b, n in matcher.get_matching_blocks() if n]
        else:
            found += [(i + a, j + b, n) for a, b, n in _few_edits(old[i:end_i], new[j:end_j])]
    return [*_joined(sorted(found)), (len(old), len(new), 0)]


def _few_edits(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[_Block]:
    """Blocks of sequences that a few insertions and removals turn into each other, none where that takes too many:
    E. W. Myers, An O(ND) difference algorithm and its variations (1986), forwards."""
    furthest = {1: 0}  # how far along `old` the best way comes on each diagonal
    before: list[dict[int, int]] = []
    for edits in range(_MOST_EDITS + 1):
        before.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            i = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            j = i - diagonal
            while i < len(old) and j < len(new) and old[i] == new[j]:
                i, j = i + 1, j + 1
            furthest[diagonal] = i
            if i >= len(old) and j >= len(new):
                return _way_back(before, diagonal, len(old))
    return []


def _way_back(before: list[dict[int, int]], diagonal: int, i: int) -> list[_Block]:
    """The equal parts on the way that ends at `i` on `diagonal`, from what was furthest before each edit."""
    found: list[_Block] = []
    for edits in range(len(before) - 1, -1, -1):
        furthest = before[edits]
        down = diagonal == -edits or (
            diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
        )
        start = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
        if i > start:
            found.append((start, start - diagonal, i - start))
        diagonal = diagonal + 1 if down else diagonal - 1
        i = furthest[diagonal]
    return found


def _anchors(
    old: Sequence[Hashable], i: int, end_i: int, new: Sequence[Hashable], j: int, end_j: int
) -> list[tuple[int, int]]:
    """Places of lines that occur once in both ranges: the longest sequence that rises in both."""
    once_old, once_new = Counter(old[i:end_i]), Counter(new[j:end_j])
    place = {new[k]: k for k in range(j, end_j) if once_new[new[k]] == 1}
    return rising([(k, place[old[k]]) for k in range(i, end_i) if once_old[old[k]] == 1 and old[k] in place])


def rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of pairs whose first numbers rise, as many as possible whose second numbers rise too."""
    tails: list[int] = []  # the least end of a rising sequence of each length
    last: list[int] = []  # the pair that it belongs to
    before: list[int] = []
    for number, (_, b) in enumerate(pairs):
        length = bisect_left(tails, b)
        before.append(last[length - 1] if length else -1)
        tails[length : length + 1] = [b]
        last[length : length + 1] = [number]
    chain = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def _joined(blocks: list[_Block]) -> Iterator[_Block]:
    """Neighbouring blocks as one."""
    current: _Block | None = None
    for i, j, n in blocks:
        if current is not None and (current[0] + current[2], current[1] + current[2]) == (i, j):
            current = (current[0], current[1], current[2] + n)
            continue
        if current is not None:
            yield current
        current = (i, j, n)
    if current is not None:
        yield current


def _hunks(blocks: list[_Block], old: Sequence[str], new: Sequence[str], context: int) -> Iterator[list[str]]:
    """Changes that are near each other, with their surroundings."""
    changes = []
    i = j = 0
    for a, b, n in blocks:
        if i < a or j < b:
            changes.append((i, a, j, b))
        i, j = a + n, b + n
    group: list[tuple[int, int, int, int]] = []
    for change in changes:
        if group and change[0] - group[-1][1] > 2 * context:
            yield _hunk(group, old, new, context)
            group = []
        group.append(change)
    if group:
        yield _hunk(group, old, new, context)


def _hunk(group: list[tuple[int, int, int, int]], old: Sequence[str], new: Sequence[str], context: int) -> list[str]:
    start = max(0, group[0][0] - context)
    end = min(len(old), group[-1][1] + context)
    first = group[0][2] - (group[0][0] - start)
    last = group[-1][3] + (end - group[-1][1])
    lines = [f"@@ -{_range(start, end)} +{_range(first, last)} @@"]
    at = start
    for i, end_i, j, end_j in group:
        lines += [f" {line}" for line in old[at:i]]
        lines += [f"-{line}" for line in old[i:end_i]]
        lines += [f"+{line}" for line in new[j:end_j]]
        at = end_i
    return lines + [f" {line}" for line in old[at:end]]


def _range(start: int, end: int) -> str:
    length = end - start
    return f"{start + 1 if length else start},{length}" if length != 1 else f"{start + 1}"
