"""Propagation of shardings: what rules say of each opcode, what is carried and united, annotations, growth, order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest
import semantics.families  # noqa: F401
from hypothesis import given, settings
from hypothesis import strategies as st
from semantics.check import draw
from semantics.sample import FAMILIES, Family, Sample
from semantics.values import Array

from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import compile_module, optimise
from hlotool.ir import Instruction, Module, UnsupportedError, Verbatim
from hlotool.ir.opcodes import SPELLED
from hlotool.ir.sharding import Sharding, normalised, parse_sharding, print_sharding, replicated, tile
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline
from hlotool.passes.sharding.factors import CARRYING, RULES, SILENT, Link, links_of, reshape_factors
from hlotool.passes.sharding.graph import Edge
from hlotool.passes.sharding.projection import Factors, project, unite
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

DATA = Path(__file__).parent / "data" / "sharded"


def _propagated(text: str) -> tuple[Module, DecisionLog]:
    log = DecisionLog()
    module = optimise(parse(text), parse_pipeline("sharding-propagation"), log)
    check(module)
    return module, log


# ---- rules


def test_every_opcode_is_accounted_for() -> None:
    kinds = [set(RULES), set(CARRYING), set(SILENT)]
    assert set.union(*kinds) == set(SPELLED)
    assert sum(map(len, kinds)) == len(SPELLED), "an opcode is accounted for twice"


NOT_DRAWN = {
    "domain": "no family draws it",
    "all-reduce": "its devices have values of their own", "collective-permute": "its devices have values of their own",
    "collective-broadcast": "its devices have values of their own",
    "custom-call": "what is called is known by its target", "set-dimension-size": "its shape is not static",
    "pad": "families pad along all dimensions", "bitcast": "no family draws it between arrays row by row",
}  # fmt: skip
_BY_WINDOWS = ("reduce-window", "select-and-scatter")


def _neighbourly(one: Instruction) -> set[int]:
    """The dimensions of the first operand along which what is next to an element counts, or all that there is."""
    rank = one.operands[0].shape.rank
    if one.opcode == "pad":
        return {d for d, p in enumerate(one.attributes["padding"]) if (p.low, p.high, p.interior) != (0, 0, 0)}
    if one.opcode in _BY_WINDOWS:
        return {d for d, w in enumerate(one.attributes["window"].dimensions) if not w.is_trivial}
    if one.opcode == "convolution":
        return set(one.attributes["dim_labels"].input_spatial)
    if one.opcode.startswith("batch-norm"):
        return set(range(rank)) - {one.attributes["feature_index"]}
    return set()


def _axis_of(rows: Factors, factor: int) -> int:
    return [f for row in rows for f in row].index(factor)


def _in_factors(array: Array, rows: Factors, sizes: Sequence[int]) -> Array | None:
    """The array with a dimension for every factor; None where it has more elements than these."""
    wanted = [sizes[f] for row in rows for f in row]
    exact = all(prod(sizes[f] for f in row) == size for row, size in zip(rows, array.shape, strict=True))
    return array.reshape(wanted) if exact else None


def _pairs(one: Instruction, link: Link) -> Iterator[tuple[int, int, int]]:
    """(operand, leaf of the result, factor) that they have in common, where places are to depend on places alone."""
    near = _neighbourly(one)
    rows = link.operands[0]
    skipped = {f for d, row in enumerate(rows or ()) if d in near for f in row}
    for k, mine in enumerate(link.operands):
        for n, theirs in enumerate(link.results):
            common = {f for row in mine or () for f in row} & {f for row in theirs for f in row}
            for factor in sorted(common - skipped):
                if link.sizes[factor] > 1:
                    yield k, n, factor


def _holds(sample: Sample, seed: int) -> int:
    """How often one place along a factor of an operand was changed, and no other place of the result changed."""
    (one,) = sample.results
    links = links_of(one)[:1] if one.opcode in ("concatenate", "slice") else links_of(one)
    executable = compile_module(sample.module, "evaluate")
    generator = np.random.default_rng(seed)
    first, second = sample.arguments(generator), sample.arguments(generator)
    leaves = [p for p in sample.module.entry.parameters if p.shape.is_array]
    if executable.devices > 1 or len(leaves) != len(first):
        return 0
    before = executable(*first)
    tried = 0
    for link in links:
        for k, n, factor in _pairs(one, link):
            operand, rows = one.operands[k], link.operands[k]
            if operand not in leaves or one.operands.count(operand) > 1 or rows is None:
                continue
            at = leaves.index(operand)
            mine = _in_factors(first[at].copy(), rows, link.sizes)
            other = _in_factors(second[at], rows, link.sizes)
            result = _in_factors(before[n], link.results[n], link.sizes)
            if mine is None or other is None or result is None or result.size == 0:
                continue
            place = generator.integers(link.sizes[factor])
            axis = _axis_of(rows, factor)
            where = (slice(None),) * axis + (place,)
            mine[where] = other[where]
            changed = list(first)
            changed[at] = mine.reshape(first[at].shape)
            after = _in_factors(executable(*changed)[n], link.results[n], link.sizes)
            assert after is not None
            axis = _axis_of(link.results[n], factor)
            if factor in link.mirrored:
                place = link.sizes[factor] - 1 - place
            a, b = (np.delete(one_result, place, axis) for one_result in (result, after))
            assert a.tobytes() == b.tobytes(), f"factor {factor} of operand {k}: {print_module(sample.module)}"
            tried += 1
    return tried


def _families(opcode: str) -> list[tuple[Family, str]]:
    rng = Random(opcode)
    return [(family, rng.choice(family.types)) for family in FAMILIES.get(opcode, ())]


@pytest.mark.parametrize("opcode", sorted(set(RULES) - set(NOT_DRAWN)))
def test_places_depend_on_places_alone(opcode: str) -> None:
    tried = 0
    for family, kind in _families(opcode):
        for seed in range(80):
            tried += _holds(draw([(0, (family, kind))], seed), seed)
            if tried > 4:
                return
    assert tried, f"{opcode} was not tried"


# ---- carrying and uniting

_SHAPES = st.lists(st.sampled_from((1, 2, 3, 4, 6, 8)), max_size=3)


def _elements(sharding: Sharding, dimensions: Sequence[int], device: int) -> set[int]:
    """The elements, counted row by row, that a device has."""
    numbers = np.arange(prod(dimensions)).reshape(dimensions)
    offsets, shape = sharding.offsets(device, dimensions), sharding.tile_shape(dimensions)
    assert offsets is not None
    part = numbers[tuple(slice(o, o + s) for o, s in zip(offsets, shape, strict=True))]
    return set(part.reshape(-1).tolist())


@st.composite
def _cut(draw: st.DrawFn, rank: int, count: int = 8) -> Sharding:
    """A sharding of an array of some rank over so many devices."""
    tiles, left = [], count
    for _ in range(rank):
        tiles.append(draw(st.sampled_from([n for n in (1, 2, 4, 8) if left % n == 0])))
        left //= tiles[-1]
    return normalised(tiles, [("replicated", left)], draw(st.permutations(range(count))))


@st.composite
def _regrouped(draw: st.DrawFn, dimensions: Sequence[int]) -> list[int]:
    """Other dimensions with as many elements."""
    primes = [p for size in dimensions for p in {1: (), 2: (2,), 3: (3,), 4: (2, 2), 6: (2, 3), 8: (2, 2, 2)}[size]]
    if draw(st.booleans()):
        primes = draw(st.permutations(primes))
    found = [1]
    for prime in primes:
        if draw(st.booleans()):
            found.append(1)
        found[-1] *= prime
    return found


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_carried_through_a_reshape_a_device_has_what_it_had(data: st.DataObject) -> None:
    before = data.draw(_SHAPES)
    after = data.draw(_regrouped(before))
    source, target, sizes = reshape_factors(before, after)
    assert [prod(sizes[f] for f in row) for row in source] == before
    assert [prod(sizes[f] for f in row) for row in target] == after
    sharding = data.draw(_cut(len(before)))
    if not sharding.is_tiled or any(t > 1 and size % t for t, size in zip(sharding.tiles, before, strict=True)):
        return
    carried = project(sharding, source, target, sizes)
    if carried is not None:
        for device in sharding.devices:
            assert _elements(sharding, before, device) <= _elements(carried, after, device)
            assert len(_elements(carried, after, device)) < prod(after)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_united_is_as_fine_as_both(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    first, second = data.draw(_cut(rank)), data.draw(_cut(rank))
    found = unite(first, second)
    assert found == unite(second, first)
    if found is not None and found.is_tiled:
        for device in found.devices:
            for one in (first, second):
                assert _elements(found, [8] * rank, device) <= _elements(one, [8] * rank, device)
    assert unite(first, first) == first
    assert unite(first, replicated()) == first


@pytest.mark.parametrize(("before", "after", "tiles", "expected"), [
    ((6, 4), (24,), (2, 1), (2,)),
    ((6, 4), (24,), (6, 2), (12,)),
    ((24,), (6, 4), (3,), (3, 1)),
    ((24,), (6, 4), (12,), (6, 2)),
    ((24,), (6, 4), (8,), None),  # 8 tiles of 3: no row of 4 is a number of them
    ((8, 3), (3, 8), (8, 1), None),
    ((4, 6), (6, 4), (2, 1), (2, 1)),
    ((8,), (1, 8, 1), (4,), (1, 4, 1)),
])  # fmt: skip
def test_reshapes(
    before: tuple[int, ...], after: tuple[int, ...], tiles: tuple[int, ...], expected: tuple[int, ...] | None
) -> None:
    found = project(tile(tiles), *reshape_factors(before, after))
    assert (found.tiles if found is not None else None) == expected


# ---- whole programs


@pytest.mark.parametrize("path", sorted(DATA.glob("*.hlo")), ids=lambda path: path.stem)
def test_programs_of_jax(path: Path) -> None:
    module, log = _propagated(path.read_text())
    written = {d.before[0].partition("{")[0] for d in log if d.action == "rewrite"}
    source = {i.name: i.attributes.get("sharding") for i in parse(path.read_text()).instructions()}
    for one in module.instructions():
        sharding = one.attributes.get("sharding")
        if sharding is not None and source.get(one.name) is None:
            made = {name for d in log if d.rule == "shardy" for name in d.after}
            fresh = one.name in written or one.name in made or one.name not in source
            assert fresh, f"{one.name} has a sharding without a decision"
        given = source.get(one.name)
        if sharding is not None and given is not None:
            assert parse_sharding(given.text) == parse_sharding(sharding.text)
    assert print_module(module) == print_module(_propagated(path.read_text())[0])
    again, log = _propagated(print_module(module))
    assert print_module(again) == print_module(module)
    assert not log.rewrites


def _cut_at_random(module: Module, rng: Random, devices: int = 8) -> None:
    """Shardings of half the parameters; all others may be chosen."""
    free = Verbatim("true")
    module.attributes["num_partitions"] = devices
    module.attributes["allow_spmd_sharding_propagation_to_output"] = free
    module.attributes["allow_spmd_sharding_propagation_to_parameters"] = free
    arrays = [p for p in module.entry.parameters if p.shape.is_array and p.shape.rank]
    for parameter in rng.sample(arrays, (len(arrays) + 1) // 2):
        tiles, left = [], devices
        for size in parameter.shape.dimensions:
            tiles.append(rng.choice([n for n in (1, 2, 4, 8) if left % n == 0 and n <= max(size, 1)]))
            left //= tiles[-1]
        sharding = normalised(tiles, [("replicated", left)], rng.sample(range(devices), devices))
        parameter.attributes["sharding"] = Verbatim(print_sharding(sharding))


@pytest.mark.parametrize("path", sorted((DATA.parent / "models").glob("*.hlo")), ids=lambda path: path.stem)
def test_models_cut_at_random(path: Path) -> None:
    module = parse(path.read_text())
    _cut_at_random(module, Random(path.stem))
    text = print_module(module)
    found, log = _propagated(text)
    assert print_module(found) == print_module(_propagated(text)[0])
    again, log = _propagated(print_module(found))
    assert print_module(again) == print_module(found)
    assert not log.rewrites
    for one in found.entry.parameters:
        given = next(p for p in module.entry.parameters if p.name == one.name).attributes.get("sharding")
        assert given is None or one.attributes["sharding"] == given


def test_the_data_says_what_xla_moves() -> None:
    for path in sorted(DATA.glob("*.json")):
        found = json.loads(path.read_text())
        for kind in ("shardy", "gspmd"):
            assert found[kind]["bytes"] == sum(row["bytes"] for row in found[kind]["collectives"])


def _chain(length: int) -> str:
    rows = ["x0 = f32[8,8] parameter(0), sharding={devices=[4,2]<=[8]}"]
    for n in range(1, length):
        rows.append(f"x{n} = f32[8,8] {'add' if n % 3 else 'multiply'}(x{n - 1}, x{max(n - 7, 0)})")
    rows[-1] = "ROOT " + rows[-1]
    head = "HloModule m, num_partitions=8, allow_spmd_sharding_propagation_to_output=true\n\nENTRY main {\n"
    return head + "\n".join(rows) + "\n}\n"


def _counting(carry: Callable[[Edge, Sharding], Sharding | None], calls: list[int]) -> Callable[..., Sharding | None]:
    def counted(edge: Edge, sharding: Sharding) -> Sharding | None:
        calls[0] += 1
        return carry(edge, sharding)

    return counted


def test_work_grows_with_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for length in (200, 800):
        calls = [0]
        with monkeypatch.context() as patch:
            patch.setattr(Edge, "carry", _counting(Edge.carry, calls))
            module, _ = _propagated(_chain(length))
        assert all(i.attributes["sharding"].text == "{devices=[4,2]<=[8]}" for i in module.entry)
        counts.append(calls[0])
    assert counts[1] < 5 * counts[0]


def test_what_cannot_be_read_is_an_error() -> None:
    sharding = '"#sdy.sharding_per_value<[<@nowhere, [{}]>]>"'
    bad = f"""HloModule m
ENTRY main {{
  x = f32[8] parameter(0)
  ROOT y = f32[8] custom-call(x), custom_call_target="xla.sdy.FuncResultSharding",
    frontend_attributes={{xla.sdy.sharding={sharding}}}
}}
"""
    with pytest.raises(UnsupportedError, match="unknown mesh"):
        _propagated(bad)


def test_the_limit_of_rewrites_holds() -> None:
    log = DecisionLog(limit=1)
    module = optimise(parse(_chain(10)), parse_pipeline("sharding-propagation"), log)
    assert sum("sharding" in i.attributes for i in module.entry) == 2  # one is annotated
