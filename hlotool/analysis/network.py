"""Networks of devices: which links there are, where a group of devices lies on them, and what a collective takes there.

A network is a list of *axes*, the innermost first: of 64 devices on ``nvlink(8)xib``, eight on an NVLink switch each
and eight of these on InfiniBand, device d has place ``d % 8`` on the first axis and ``d // 8`` on the second.  An axis
is a *switch*, on which every device reaches every other one at once, or a *ring*, on which it reaches two neighbours
in both directions at once; a torus is several rings, the last of which varies fastest.

A group that has the same places on every axis wherever it is on the others works axis by axis, as BlueConnect (Cho,
Finkler and Kung 2019) and the bucket algorithms of tori do (Jain and Sabharwal 2010): reduce-scatter from the
innermost axis outwards, each with what is left of the array, an all-reduce outermost, and all-gather back.  On the
rings of one torus the array is cut into a part for each ring, which begins there, so that all links are busy at once.
Where one algorithm over the slowest link of all is quicker it is taken, and any other group is taken to be that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod

from hlotool.analysis.collective_formulas import Link, Predicted, best
from hlotool.analysis.sizes import number_of
from hlotool.ir.errors import UnsupportedError
from hlotool.lazy_dataclass import dataclass

__all__ = ["Axis", "Network", "collective_time", "parse_link", "parse_topology", "permute_time", "seconds_of"]


@dataclass(frozen=True, slots=True)
class Axis:
    """So many devices, or groups of devices, on a ``switch`` or a ``ring``; `torus` tells rings of one torus."""

    kind: str
    size: int
    link: Link
    torus: int = -1


@dataclass(frozen=True, slots=True)
class Network:
    """The axes that devices lie on, the innermost first."""

    text: str
    axes: tuple[Axis, ...]

    @property
    def devices(self) -> int:
        """How many there is room for."""
        return prod(axis.size for axis in self.axes)

    def places(self, device: int) -> tuple[int, ...]:
        """Where a device is on each axis."""
        found = []
        for axis in self.axes:
            device, place = divmod(device, axis.size)
            found.append(place)
        return tuple(found)


# ---- text

_KINDS = {
    # Per device and direction.  NVLink 4: 900 GB/s both ways together (NVIDIA H100 data sheet, 2023); InfiniBand NDR:
    # 400 Gb/s, a port for each device; a torus of TPU v4: 50 GB/s a link (Jouppi et al. 2023).  Latencies are those of
    # short messages on such links, in round numbers.
    "nvlink": Link(1e-6, 450e9),
    "ib": Link(2e-6, 50e9),
    "torus": Link(1e-6, 50e9),
    "ring": Link(1e-6, 50e9),
    "fat-tree": Link(2e-6, 50e9),
    "switch": Link(2e-6, 25e9),
}
_PART = re.compile(r"\s*([a-z-]+)\s*(?:\(([\d,\s]*)\))?\s*(?:@([^@]*))?")
_TIMES = re.compile(r"\s*[x×]\s*(?=[a-z])")
_SECONDS = re.compile(r"\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)\s*(s|ms|us|µs|ns)\s*")
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_MOST = 1 << 20


def parse_link(text: str) -> Link:
    """``latency=2us,bandwidth=25GB/s``, in any order; ValueError says what is wrong."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, sign, value = (word.strip() for word in part.partition("="))
        if name not in ("latency", "bandwidth") or not sign or name in found:
            raise ValueError(f"{part.strip()!r}: expected latency=2us,bandwidth=25GB/s")
        found[name] = seconds_of(value) if name == "latency" else _rate(value)
    missing = {"latency", "bandwidth"} - found.keys()
    if missing:
        raise ValueError(f"{text!r} does not say the {missing.pop()}: expected latency=2us,bandwidth=25GB/s")
    return Link(found["latency"], found["bandwidth"])


def parse_topology(text: str, devices: int, link: Link | None = None) -> Network:
    """``torus(16,16,16)``, ``fat-tree``, ``nvlink(8)xib``, for so many devices; ValueError says what is wrong.

    Parts are joined by x, the innermost first; the last one that says no size takes as many as are needed.  What
    follows an @ is a link of its own: ``torus(4,4)@100GB/s,1us``.  Other parts have the link that their kind usually
    has; `link` is that of all that say none.
    """
    axes: list[Axis] = []
    parts = _TIMES.split(text)
    for number, part in enumerate(parts):
        found = _PART.fullmatch(part)
        if found is None or found[1] not in _KINDS:
            known = ", ".join(sorted(_KINDS))
            raise ValueError(f"{part.strip()!r} is no network: expected torus(16,16,16), or other parts of {known}")
        kind, sizes, own = found[1], _sizes(found[2], part), found[3]
        used = _own_link(own) if own is not None else link or _KINDS[kind]
        if kind in ("torus", "ring"):
            if not sizes or (kind == "ring" and len(sizes) != 1):
                raise ValueError(f"{part.strip()!r}: expected the sizes of its rings, as in {kind}(16)")
            axes += [Axis("ring", size, used, number) for size in reversed(sizes)]
            continue
        if len(sizes) > 1 or (not sizes and number < len(parts) - 1):
            raise ValueError(f"{part.strip()!r}: expected how many devices there are on one, as in {kind}(8)")
        inside = prod(axis.size for axis in axes)
        axes.append(Axis("switch", sizes[0] if sizes else max(1, -(-devices // inside)), used))
    network = Network(text.strip(), tuple(axes))
    if network.devices < devices:
        raise ValueError(f"{text.strip()!r} has room for {network.devices} devices, not for {devices}")
    return network


def _sizes(text: str | None, part: str) -> list[int]:
    words = [word.strip() for word in (text or "").split(",") if text and text.strip()]
    if not all(word.isdecimal() and 1 <= int(word[:9]) <= _MOST for word in words):
        raise ValueError(f"{part.strip()!r}: sizes are numbers from 1 to {_MOST}")
    return [int(word) for word in words]


def _own_link(text: str) -> Link:
    rate, _, latency = text.partition(",")
    return Link(seconds_of(latency) if latency.strip() else 1e-6, _rate(rate))


def seconds_of(text: str) -> float:
    """A time with its unit, ``2us``, in seconds; ValueError where it is none."""
    found = _SECONDS.fullmatch(text)
    value = None if found is None else float(found[1]) * _UNITS[found[2]]
    if value is None or not value < 1e3:
        raise ValueError(f"{text.strip()!r} is no time: expected something like 2us")
    return value


def _rate(text: str) -> float:
    number = number_of(text.strip().removesuffix("/s"))
    if number is None or not 1 <= number <= 1e18:
        raise ValueError(f"{text.strip()!r} is no rate: expected something like 25GB/s")
    return number


# ---- groups on axes


@dataclass(frozen=True, slots=True)
class _Span:
    """What a group has of an axis: so many places, reached by `link` in a message; all of a `ring`, or not."""

    count: int
    link: Link
    torus: int


def _spans(network: Network, group: Sequence[int]) -> list[_Span] | None:
    """The axes on which a group has several places, innermost first; None where places depend on each other."""
    taken: list[set[int]] = [set() for _ in network.axes]
    for device in group:
        for places, place in zip(taken, network.places(device), strict=True):
            places.add(place)
    if prod(map(len, taken)) != len(group):
        return None
    pairs = zip(network.axes, taken, strict=True)
    return [_Span(len(places), _hop(axis, sorted(places)), axis.torus) for axis, places in pairs if len(places) > 1]


def _hop(axis: Axis, places: Sequence[int]) -> Link:
    """The link from one of `places` on an axis to the next.

    Places all around a ring use both directions, half of the array in each; on a part of it the way back takes the
    other direction.  Between places that are further apart messages pass others', which share the links.
    """
    if axis.kind == "switch":
        return axis.link
    apart = max(b - a for a, b in pairwise(places))
    whole = len(places) * apart == axis.size
    rate = axis.link.bandwidth * (2 if whole and axis.size > 2 else 1) / apart
    return Link(axis.link.latency * apart, rate, axis.link.reduce)


def collective_time(network: Network, opcode: str, group: Sequence[int], size: float) -> Predicted:
    """What a collective takes among the devices of `group`, of an array of `size` bytes.

    `size` is that of the whole array (`analysis.collective_formulas`).  UnsupportedError for an unknown opcode.
    """
    if opcode not in _BY_AXIS:
        raise UnsupportedError(f"there is no formula for {opcode}")
    if len(group) < 2:
        return Predicted("none", 0, 0.0, 0.0)
    spans = _spans(network, group)
    crossed = _crossed(network, group)
    slow = Link(
        max(link.latency for link in crossed), min(link.bandwidth for link in crossed), crossed[-1].reduce
    )  # fmt: skip
    rings = any(axis.kind == "ring" for axis in network.axes)
    choices = [] if rings and spans is not None else [best(opcode, slow, len(group), size)]
    if spans:
        choices.append(_by_axis(opcode, _tori(spans), size))
    return min(choices, key=lambda found: found.seconds)


def _crossed(network: Network, group: Sequence[int]) -> list[Link]:
    """The links of all axes on which devices of a group are apart."""
    taken = zip(*map(network.places, group), strict=True)
    return [axis.link for axis, places in zip(network.axes, taken, strict=True) if len(set(places)) > 1]


def _tori(spans: Sequence[_Span]) -> list[list[_Span]]:
    """The axes in order, rings of one torus together."""
    found: list[list[_Span]] = []
    for span in spans:
        if found and span.torus >= 0 and found[-1][0].torus == span.torus:
            found[-1].append(span)
        else:
            found.append([span])
    return found


Step = Callable[[_Span, float], Predicted]


def _one_axis(opcode: str) -> Step:
    """A collective on one axis: the best algorithm on a switch, between neighbours on a ring."""

    def step(span: _Span, size: float) -> Predicted:
        if span.torus < 0:
            return best(opcode, span.link, span.count, size)
        count, link = span.count, span.link
        share = (count - 1) / count * size
        match opcode:
            case "all-to-all":  # what crosses a link in one direction: of a ring, by shortest ways, p^2/8 parts
                sent = size * (count * count // 8 * 2 if count > 2 else 1) / count
                return Predicted("ring", count // 2, sent, count // 2 * link.latency + sent / link.bandwidth)
            case "collective-broadcast":  # pieces follow each other, half of them in each direction
                return Predicted("ring", count - 1, size, (count - 1) * link.latency + size / link.bandwidth)
            case "all-reduce":
                sent, steps = 2 * share, 2 * (count - 1)
            case _:
                sent, steps = share, count - 1
        reduced = 0.0 if opcode == "all-gather" else share
        return Predicted("ring", steps, sent, steps * link.latency + sent / link.bandwidth + reduced * link.reduce)

    return step


def _by_axis(opcode: str, tori: Sequence[Sequence[_Span]], size: float) -> Predicted:
    return _BY_AXIS[opcode](tori, size)


def _all_reduced(tori: Sequence[Sequence[_Span]], size: float) -> Predicted:
    """Reduce-scatter outwards, all-reduce on the outermost axes, all-gather back."""
    steps: list[Predicted] = []
    left = size
    for spans in tori[:-1]:
        steps += [_rotated("reduce-scatter", spans, left), _rotated("all-gather", spans, left)]
        left /= prod(span.count for span in spans)
    last = tori[-1]
    if len(last) == 1:
        steps.append(_one_axis("all-reduce")(last[0], left))
    else:
        steps += [_rotated("reduce-scatter", last, left), _rotated("all-gather", last, left)]
    return _in_order(steps)


def _narrowing(opcode: str) -> Callable[[Sequence[Sequence[_Span]], float], Predicted]:
    """Reduce-scatter from inside, and all-gather the other way: each axis has what is left of the inner ones."""

    def run(tori: Sequence[Sequence[_Span]], size: float) -> Predicted:
        steps, left = [], size
        for spans in tori:
            steps.append(_rotated(opcode, spans, left))
            left /= prod(span.count for span in spans)
        return _in_order(steps)

    return run


def _whole(opcode: str) -> Callable[[Sequence[Sequence[_Span]], float], Predicted]:
    """All-to-all and broadcast: every axis moves all of the array."""

    def run(tori: Sequence[Sequence[_Span]], size: float) -> Predicted:
        return _in_order([_rotated(opcode, spans, size) for spans in tori])

    return run


_BY_AXIS: dict[str, Callable[[Sequence[Sequence[_Span]], float], Predicted]] = {
    "all-reduce": _all_reduced,
    "reduce-scatter": _narrowing("reduce-scatter"),
    "all-gather": _narrowing("all-gather"),
    "all-to-all": _whole("all-to-all"),
    "collective-broadcast": _whole("collective-broadcast"),
}


def _rotated(opcode: str, spans: Sequence[_Span], size: float) -> Predicted:
    """A collective on the rings of a torus: part j of the array goes along ring j first, then j+1, and so on."""
    step, count = _one_axis(opcode), len(spans)
    if count == 1:
        return step(spans[0], size)
    left = [size / count] * count
    rounds: list[Predicted] = []
    for turn in range(count):
        parts = []
        for number in range(count):
            span = spans[(number + turn) % count]
            parts.append(step(span, left[number]))
            if opcode in ("reduce-scatter", "all-gather"):
                left[number] /= span.count
        slowest = max(parts, key=lambda found: found.seconds)
        rounds.append(Predicted("rings", slowest.steps, sum(part.sent for part in parts), slowest.seconds))
    return _in_order(rounds)


def _in_order(steps: Sequence[Predicted]) -> Predicted:
    """What several take one after the other."""
    if len(steps) == 1:
        return steps[0]
    names = list(dict.fromkeys(step.algorithm for step in steps))
    return Predicted(
        "+".join(names), sum(step.steps for step in steps), sum(step.sent for step in steps),
        sum(step.seconds for step in steps),
    )  # fmt: skip


# ---- permutes


def permute_time(network: Network, pairs: Sequence[tuple[int, int]], size: float) -> Predicted:
    """What a permute takes in which each source sends `size` bytes to its target, all at once.

    Messages go axis by axis, along rings the shorter way; the busiest link says how long it takes.
    """
    load: dict[tuple[object, ...], int] = {}
    wait, far = 0.0, 0
    for source, target in pairs:
        if source == target:
            continue
        here, there = list(network.places(source)), network.places(target)
        way, hops = 0.0, 0
        for number, axis in enumerate(network.axes):
            for link in _ways(axis, here[number], there[number]):
                key = (number, tuple(here[:number]), tuple(here[number + 1 :]), link)
                load[key] = load.get(key, 0) + 1
                hops += axis.kind == "ring"
                way += axis.link.latency if axis.kind == "ring" else axis.link.latency / 2
            here[number] = there[number]
        wait, far = max(wait, way), max(far, hops)
    if not load:
        return Predicted("none", 0, 0.0, 0.0)
    busiest = max(count * size / network.axes[key[0]].link.bandwidth for key, count in load.items())  # type: ignore[call-overload]
    return Predicted("direct", max(1, far), size, wait + busiest)


def _ways(axis: Axis, here: int, there: int) -> Iterator[tuple[str, int]]:
    """The links of an axis that a message takes, each in one direction: out of a place and into one, or hops."""
    if here == there:
        return
    if axis.kind == "switch":
        yield "out", here
        yield "in", there
        return
    forward = (there - here) % axis.size
    step = 1 if forward <= axis.size - forward else -1
    while here != there:
        yield ("up" if step > 0 else "down"), here
        here = (here + step) % axis.size
