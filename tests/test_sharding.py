"""Shardings as values: text to value and back, tiles, groups of devices, named axes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.ir import array, tuple_shape
from hlotool.ir.sharding import (
    Sharding,
    ShardingValueError,
    iota_text,
    manual,
    maximal,
    normalised,
    parse_sharding,
    print_sharding,
    replicated,
    tile,
    unreduced,
)
from hlotool.ir.sharding_sdy import read_axis_names, read_meshes, read_sdy_values
from hlotool.ir.sharding_text import sharding_errors

_ONE = [
    ("{replicated}", replicated()),
    ("{manual}", manual()),
    ("{unknown}", Sharding("unknown")),
    ("{unreduced}", Sharding("unreduced")),
    ("{maximal device=3}", maximal(3)),
    ("{devices=[2,2]0,1,2,3}", tile((2, 2))),
    ("{devices=[2,2]<=[4]}", tile((2, 2))),
    ("{devices=[2,2]<=[2,2]T(1,0)}", tile((2, 2), (0, 2, 1, 3))),
    ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", tile((2, 1), replicate=2)),
    ("{devices=[2,1,2]1,0,3,2 last_tile_dim_replicate}", tile((2, 1), replicate=2)),
    ("{devices=[1,1,4]<=[4] last_tile_dim_replicate}", replicated()),
    ("{devices=[1,4]<=[4] last_tile_dims={manual}}", manual()),
    ("{devices=[2,2,1]<=[4] last_tile_dims={manual, replicated}}", normalised((2,), [("manual", 2)], range(4))),
    ("{devices=[2,2,2]<=[8] last_tile_dims={replicated, manual}}",
     normalised((2,), [("manual", 2), ("replicated", 2)], (0, 2, 1, 3, 4, 6, 5, 7))),
    ("{mesh['x'=2,'y'=2], [{'y'}, {}]}", tile((2, 1), (0, 2, 1, 3), 2)),
    ("{mesh['x'=2,'y'=2], device_ids=(3,2,1,0), [{'x', 'y'}]}", tile((4,), (3, 2, 1, 0))),
    ("{mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x', 'y'}]}", tile((4,), (0, 2, 1, 3))),
    ("{mesh['a'=4], [{'a':(2)2}]}", tile((2,), (0, 2, 1, 3), 2)),
    ("{mesh['x'=2,'y'=2], replicated}", replicated()),
    ("{mesh['x'=2,'y'=2], [{'x'}], unreduced={'y'}}", normalised((2,), [("unreduced", 2)], range(4))),
    ("{mesh[x=2,y_1=2], [{x}], unreduced={y_1}}", normalised((2,), [("unreduced", 2)], range(4))),
    ("{mesh[x=4], [{x:(2)2}]}", tile((2,), (0, 2, 1, 3), 2)),
    ("{mesh[x=2,y=2], device_ids=([4]), [{y}]}", tile((2,), (0, 2, 1, 3), 2)),
    ("{mesh['x'=2,'y'=2], unreduced}", unreduced()),
    ("{mesh['x'=2,'y'=2], manual}", manual()),
    ("{maximal_mesh[device_id=3]}", maximal(3)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), _ONE, ids=[text for text, _ in _ONE])
def test_text_means(text: str, value: Sharding) -> None:
    assert parse_sharding(text) == value
    assert parse_sharding(print_sharding(value)) == value


def test_what_is_not_compared_is_kept() -> None:
    text = '{devices=[2]<=[2] shard_like 4 metadata={op_name="f"}}'
    found = parse_sharding(text)
    assert isinstance(found, Sharding)
    assert (found.group, found.metadata) == (("shard_like", 4), '{op_name="f"}')
    assert found == tile((2,))
    assert print_sharding(found) == text
    opened = parse_sharding("{mesh['x'=2], [{}, {'x', ?}]}")
    assert isinstance(opened, Sharding)
    assert opened.open_dimensions == (1,)


def test_tuples() -> None:
    assert parse_sharding("{}") == ()
    text = "{{replicated}, {devices=[2]1,0}, {mesh['x'=2], [{'x'}]}}"
    assert parse_sharding(text) == (replicated(), tile((2,), (1, 0)), tile((2,)))
    assert print_sharding(parse_sharding(text)) == "{{replicated}, {devices=[2]1,0}, {devices=[2]<=[2]}}"


@pytest.mark.parametrize(("text", "message"), [
    ("{devices=[3]<=[2]}", "3 tiles but lists 2"),
    ("{devices=[2]}", "lists no devices"),
    ("{devices=[2097152]<=[2097152]}", "more than"),
    ("{mesh['x'=2], [{'z'}]}", "no axis 'z'"),
    ("{mesh['x'=2], [{'x'}, {'x'}]}", "used twice"),
    ("{mesh['x'=6], [{'x':(1)4}]}", "no such part"),
    ("{mesh['x'=8], [{'x':(1)4}, {'x':(2)4}]}", "used twice"),
    ("{mesh['x'=2,'x'=2], [{'x'}]}", "one name"),
    ("{mesh['x'=2], device_ids=(0,0), [{'x'}]}", "device_ids"),
    ("{mesh['x'=2], [{'x'}] nonsense}", "unexpected 'nonsense'"),
    ("{mesh['x'=2], [{}], unreduced}", "lists its axes"),
    ("replicated", "braces"),
])  # fmt: skip
def test_what_is_no_sharding(text: str, message: str) -> None:
    with pytest.raises(ShardingValueError, match=message):
        parse_sharding(text)


@pytest.mark.parametrize(("text", "message"), [
    ("{mesh['x'=2], [{'x'}, {}]}", None),
    ("{mesh['x'=2,'y'=2], [{'x'}, {?}], unreduced={'y'}}", None),
    ("{mesh['x'=2], replicated}", None),
    ("{mesh['x'=2], [{'x'}]}", "axes for 1 dimension, the shape is"),
    ("{mesh['x'=8], [{'x'}, {}]}", "names device 4, the program runs on 4"),
    ("{maximal_mesh[device_id=7]}", "names device 7"),
    ("{{mesh['x'=2], [{'y'}]}}", "no axis 'y'"),
])  # fmt: skip
def test_the_verifier_looks_into_named_axes(text: str, message: str | None) -> None:
    shape = array("f32", (4, 4))
    found = sharding_errors(text, tuple_shape([shape]) if text.startswith("{{") else shape, 4)
    assert [message in error.message for error in found] == [True] if message is not None else not found


def test_tiles_that_do_not_divide() -> None:
    sharding = tile((4, 1), replicate=2)
    assert sharding.tile_shape((5, 3)) == (2, 3)
    assert [sharding.offsets(device, (5, 3)) for device in range(8)] == [(n // 2 * 2, 0) for n in range(8)]
    assert sharding.tile_of(5) == (2, 0)
    assert sharding.tile_of(8) is None
    assert maximal(1).offsets(0, (2,)) is None
    assert maximal(1).offsets(1, (2,)) == (0,)
    assert replicated().offsets(7, (2, 2)) == (0, 0)


def test_groups() -> None:
    sharding = tile((2, 4))
    assert sharding.groups_along([1]) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert sharding.groups_along([0]) == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert tile((4,), replicate=2).groups_along([1]) == ((0, 1), (2, 3), (4, 5), (6, 7))


@st.composite
def _shardings(draw: st.DrawFn) -> Sharding:
    tiles = draw(st.lists(st.integers(1, 4), max_size=3))
    subgroups = draw(st.lists(st.tuples(st.sampled_from(("manual", "replicated", "unreduced")), st.integers(1, 3)),
                              max_size=3))  # fmt: skip
    count = int(np.prod([*tiles, *(size for _, size in subgroups)]))
    return normalised(tiles, subgroups, draw(st.permutations(range(count))))


@settings(max_examples=150, deadline=None)
@given(_shardings())
def test_round_trip(sharding: Sharding) -> None:
    assert parse_sharding(print_sharding(sharding)) == sharding
    if sharding.is_tiled:
        assert normalised(sharding.tiles, sharding.subgroups, sharding.devices) == sharding
        groups = sharding.groups_along(range(len(sharding.tiles)))
        assert sorted(device for group in groups for device in group) == sorted(sharding.devices)
        cells = {sharding.tile_of(device) for device in sharding.devices}
        assert len(cells) == sharding.tile_count


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(2, 4), min_size=1, max_size=4).flatmap(
    lambda sizes: st.tuples(st.just(sizes), st.permutations(range(len(sizes))))))  # fmt: skip
def test_every_transposed_iota_is_found(drawn: tuple[list[int], list[int]]) -> None:
    sizes, order = drawn
    count = int(np.prod(sizes))
    devices = tuple(np.arange(count).reshape(sizes).transpose(order).reshape(-1).tolist())
    text = iota_text(devices)
    assert text is not None
    assert parse_sharding(f"{{devices=[{count}]{text}}}") == tile((count,), devices)


def test_axes_whose_names_have_brackets() -> None:
    """As those of JAX's pmap."""
    meshes = read_meshes('{mesh = #sdy.mesh<["<axis 0x7f>"=4, "b]}"=2], device_ids=[1,0,2,3,4,5,6,7]>}')
    assert meshes["mesh"].axes == (("<axis 0x7f>", 4), ("b]}", 2))
    text = '#sdy.sharding_per_value<[<@mesh, [{"<axis 0x7f>"}, {"b]}", ?}]>, <mesh<["<q>"=2]>, [{}, {"<q>"}]>]>'
    first, second = read_sdy_values(text, meshes)
    assert first.dimensions == [[("<axis 0x7f>", 1, 4)], [("b]}", 1, 2)]]
    assert first.open_dimensions == (1,)
    assert second.dimensions == [[], [("<q>", 1, 2)]]
    assert read_axis_names('#sdy<manual_axes{"<a>", "y"}>') == ["<a>", "y"]
