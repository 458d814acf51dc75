"""What devices exchange, how long that takes, and runs on machines that are not there."""

from __future__ import annotations

import json
from math import ceil, log2

import pytest
from conftest import ROOT
from json_schemas import check_json

from hlotool.analysis.collective_formulas import (
    FORMULAS,
    Link,
    best,
    doubling_all_reduce,
    halving_all_reduce,
    ring_all_reduce,
    tree_all_reduce,
)
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.exchanges import Exchanges
from hlotool.analysis.measured_network import MeasuredNetwork, Times
from hlotool.analysis.network import collective_time, parse_link, parse_topology, permute_time
from hlotool.analysis.scaling import grown_pairs, scaling_of
from hlotool.analysis.timeline import Chip, simulate
from hlotool.driver import optimise
from hlotool.ir import UnsupportedError
from hlotool.text.parser import parse

LINK = Link(3e-6, 10e9, 1e-10)
ALPHA, BETA, GAMMA = LINK.latency, 1 / LINK.bandwidth, LINK.reduce
CHIP = Chip(flops=1e12, bandwidth=1e11, memory=1 << 30)

# ---- formulas


@pytest.mark.parametrize("count", [2, 4, 8, 64, 1024])
@pytest.mark.parametrize("size", [4.0, 4096.0, 1e8])
def test_all_reduce_takes_what_the_papers_say(count: int, size: float) -> None:
    lg, share = log2(count), (count - 1) / count
    expected = {
        ring_all_reduce: 2 * (count - 1) * ALPHA + 2 * share * size * BETA + share * size * GAMMA,
        doubling_all_reduce: lg * (ALPHA + size * BETA + size * GAMMA),
        halving_all_reduce: 2 * lg * ALPHA + 2 * share * size * BETA + share * size * GAMMA,
        tree_all_reduce: 2 * lg * (ALPHA + size * BETA) + lg * size * GAMMA,
    }
    for formula, seconds in expected.items():
        assert formula(LINK, count, size).seconds == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("count", [2, 3, 5, 8, 12, 64])
def test_other_collectives_take_what_the_papers_say(count: int) -> None:
    lg, share, size = ceil(log2(count)), (count - 1) / count, 1e5
    moved = share * size * BETA
    halves = lg if count & (count - 1) == 0 else count - 1
    expected = {
        "reduce-scatter": [halves * ALPHA + moved + share * size * GAMMA,
                           (count - 1) * ALPHA + moved + share * size * GAMMA],
        "all-gather": [lg * ALPHA + moved, (count - 1) * ALPHA + moved],
        "all-to-all": [(count - 1) * ALPHA + moved, lg * (ALPHA + size / 2 * BETA)],
        "collective-broadcast": [lg * (ALPHA + size * BETA), (lg + count - 1) * ALPHA + 2 * moved],
    }  # fmt: skip
    for opcode, seconds in expected.items():
        assert [f(LINK, count, size).seconds for f in FORMULAS[opcode]] == pytest.approx(seconds, rel=1e-12)


def test_no_algorithm_beats_the_lower_bounds() -> None:
    """Chan et al. 2007: lg p messages, 2 (p-1)/p n bytes of an all-reduce and (p-1)/p n of others."""
    for count in range(2, 40):
        for opcode, formulas in FORMULAS.items():
            least = 2 if opcode == "all-reduce" else 1
            for formula in formulas:
                found = formula(Link(1.0, 1.0), count, 1000.0)
                assert found.steps >= ceil(log2(count))
                if opcode != "collective-broadcast":
                    rounds = count.bit_length() - 1
                    bound = least * (count - 1) / count * 1000
                    folded = least * ((1 << rounds) - 1) / (1 << rounds) * 1000  # of those who are not folded away
                    assert found.sent >= min(bound, folded) - 1e-9


def test_small_messages_take_few_steps_and_large_ones_few_bytes() -> None:
    assert best("all-reduce", LINK, 64, 4).algorithm == "recursive-doubling"
    assert best("all-reduce", LINK, 64, 1e9).algorithm == "rabenseifner"
    assert best("all-to-all", LINK, 64, 64).algorithm == "bruck"
    assert best("all-to-all", LINK, 64, 1e9).algorithm == "pairwise"
    assert best("all-reduce", LINK, 1, 1e9).seconds == 0


# ---- networks


def test_a_ring_is_used_in_both_directions() -> None:
    ring = parse_topology("ring(8)@10GB/s,3us", 8)
    found = collective_time(ring, "all-reduce", range(8), 8e6)
    assert found.seconds == pytest.approx(14 * 3e-6 + 2 * 7 / 8 * 8e6 / 20e9)
    half = collective_time(ring, "all-reduce", range(4), 8e6)  # a part of it has no other way back
    assert half.seconds == pytest.approx(6 * 3e-6 + 2 * 3 / 4 * 8e6 / 10e9)
    apart = collective_time(ring, "all-reduce", (0, 2, 4, 6), 8e6)  # messages pass those of the other four
    assert apart.seconds == pytest.approx(6 * 6e-6 + 2 * 3 / 4 * 8e6 / 10e9)
    everyone = collective_time(ring, "all-to-all", range(8), 8e6)  # 8^2/8 parts of n/8 cross a link each way
    assert everyone.seconds == pytest.approx(4 * 3e-6 + 8e6 / 10e9)


def test_a_torus_keeps_all_its_links_busy() -> None:
    """The bucket algorithm on D rings (Jain and Sabharwal 2010): 2 (p-1)/p n bytes over 2 D links."""
    torus = parse_topology("torus(4,4,4)@10GB/s,1us", 64)
    found = collective_time(torus, "all-reduce", range(64), 64e6)
    assert found.seconds == pytest.approx(18 * 1e-6 + 2 * 63 / 64 * 64e6 / (6 * 10e9))
    plane = collective_time(torus, "all-gather", range(16), 64e6)  # the last two rings
    assert plane.seconds == pytest.approx(6 * 1e-6 + 15 / 16 * 64e6 / (4 * 10e9))


def test_levels_work_one_after_the_other() -> None:
    network = parse_topology("nvlink(8)@100GB/s,1us×ib@10GB/s,2us", 64)
    size = 64e6
    found = collective_time(network, "all-reduce", range(64), size).seconds
    inside, outside = Link(1e-6, 100e9), Link(2e-6, 10e9)
    expected = (
        best("reduce-scatter", inside, 8, size).seconds + best("all-reduce", outside, 8, size / 8).seconds
        + best("all-gather", inside, 8, size).seconds
    )  # fmt: skip
    assert found == pytest.approx(expected)
    assert collective_time(network, "all-reduce", range(8), size) == best("all-reduce", inside, 8, size)
    assert collective_time(network, "all-reduce", range(0, 64, 8), size) == best("all-reduce", outside, 8, size)
    uneven = collective_time(network, "all-reduce", (0, 1, 8), size)  # no product of places: over the slow link
    assert uneven == best("all-reduce", Link(2e-6, 10e9), 3, size)


def test_permutes_take_as_long_as_the_busiest_link() -> None:
    ring = parse_topology("ring(8)@10GB/s,1us", 8)
    for shift, hops in ((1, 1), (3, 3), (5, 3), (7, 1)):
        pairs = [(n, (n + shift) % 8) for n in range(8)]
        assert permute_time(ring, pairs, 1e6).seconds == pytest.approx(hops * (1e-6 + 1e6 / 10e9))
    switch = parse_topology("switch@10GB/s,1us", 8)
    assert permute_time(switch, [(0, 5), (5, 0)], 1e6).seconds == pytest.approx(1e-6 + 1e6 / 10e9)
    assert permute_time(switch, [(3, 3)], 1e6).seconds == 0


@pytest.mark.parametrize(
    ("text", "devices", "words"),
    [("torus", 4, "sizes of its rings"), ("torus(4,4)", 64, "room for 16"), ("nvlink x ib", 8, "how many devices"),
     ("tours(4)", 4, "no network"), ("torus(0)", 1, "sizes are"), ("switch(4)@fast", 4, "no rate"),
     ("switch(4)@1GB/s,1", 4, "no time"), ("", 1, "no network")],
)  # fmt: skip
def test_what_is_no_network_is_told(text: str, devices: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_topology(text, devices)


@pytest.mark.parametrize("text", ["latency=2us", "latency=2,bandwidth=1GB/s", "latency=2us,bandwidth=x", "a=b"])
def test_what_is_no_link_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"latency|no time|no rate"):
        parse_link(text)


def test_places_follow_the_axes() -> None:
    network = parse_topology("torus(2,3)xib", 24)
    assert [axis.size for axis in network.axes] == [3, 2, 4]  # the last ring of a torus varies fastest
    assert network.places(7) == (1, 0, 1)
    assert parse_link("bandwidth=25GB/s, latency=2us") == Link(2e-6, 25e9)


# ---- programs

SUM = "sum {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] add(x, y)\n}\n\n"


def module(body: str, devices: int = 8, before: str = ""):
    return parse(f"HloModule m, num_partitions={devices}\n\n{SUM}{before}ENTRY e {{\n{body}\n}}\n")


def channel(groups: str) -> str:
    return f"channel_id=1, replica_groups={groups}, use_global_device_ids=true"


ALL = "{{0,1,2,3,4,5,6,7}}"
STEP = f"""p = f32[1024,1024] parameter(0)
q = f32[1024,1024] parameter(1)
m = f32[1024,1024] dot(q, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
a = f32[1024,1024] all-reduce(p), {channel(ALL)}, to_apply=sum
ROOT r = f32[1024,1024] add(a, m)"""


def test_weak_scaling_grows_the_outermost_groups() -> None:
    network = parse_topology("switch", 64)
    inner = f"ROOT r = f32[4] all-reduce(p), {channel('{{0,1,2,3},{4,5,6,7}}')}, to_apply=sum"
    outer = f"p = f32[4] parameter(0)\na = f32[4] all-reduce(p), {channel('{{0,4},{1,5},{2,6},{3,7}}')}, to_apply=sum\n"
    mesh = Exchanges(module(f"{outer}{inner.replace('(p)', '(a)')}"), network, 64)
    assert mesh.scaling.block == 4
    assert {(e.members, e.groups) for e in mesh.all()} == {(4, 16), (16, 4)}
    data = Exchanges(module(STEP), network, 64)
    assert data.scaling.block == 1
    assert [(e.members, e.groups, e.bytes) for e in data.all()] == [(64, 1, 4 << 20)]
    copies = Exchanges(module(f"p = f32[4] parameter(0)\n{inner.replace('4,5,6,7', '4,5,7,6')}"), network, 64)
    assert copies.scaling.block == 8
    assert "copies" in copies.scaling.words()


def test_what_is_not_defined_is_refused() -> None:
    gather = module(f"p = f32[4] parameter(0)\nROOT r = f32[32] all-gather(p), {channel(ALL)}, dimensions={{0}}")
    with pytest.raises(UnsupportedError, match="weak scaling is not defined"):
        Exchanges(gather, None, 16).all()
    (sharded,) = Exchanges(gather, None, 16, "sharded").all()
    assert (sharded.bytes, sharded.members) == (128, 16)
    divided = module("p = f32[32] parameter(0)\nROOT r = f32[32] all-to-all(p), channel_id=1, dimensions={0}")
    assert Exchanges(divided, None, 32).all()[0].members == 32
    with pytest.raises(UnsupportedError, match="cannot divide"):
        Exchanges(divided, None, 64).all()
    model = module(f"p = f32[4] parameter(0)\nROOT r = f32[4] all-reduce(p), {channel('{{0,1,2,3},{4,5,6,7}}')}, "
                   "to_apply=sum")  # fmt: skip
    with pytest.raises(UnsupportedError, match="no multiple of 4"):
        Exchanges(model, None, 6)


def test_shifts_stay_shifts() -> None:
    ring = [(n, (n + 1) % 8) for n in range(8)]
    grown = grown_pairs(ring, scaling_of(8, 16, (), [ring], "weak"))
    assert sorted(grown) == [(n, (n + 1) % 16) for n in range(16)]
    line = [(n, n + 2) for n in range(6)]
    scaled = scaling_of(8, 12, (), [line], "weak")
    assert (scaled.block, sorted(grown_pairs(line, scaled))) == (1, [(n, n + 2) for n in range(10)])
    swaps = [(0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4), (6, 7), (7, 6)]
    assert scaling_of(8, 64, (), [swaps], "weak").block == 2


def test_pairs_hide_what_they_exchange() -> None:
    network = parse_topology("switch", 8, Link(1e-6, 10e9))
    plain = module(STEP)
    before = simulate(Exchanges(plain, network), ModuleCost(plain), CHIP)
    assert before.seconds == pytest.approx(before.computing + before.exchanging)
    hidden = optimise(plain, "async-collective-creator,latency-hiding-scheduler{bandwidth=10e9}")
    after = simulate(Exchanges(hidden, network), ModuleCost(hidden), CHIP)
    assert (after.computing, after.exchanging) == pytest.approx((before.computing, before.exchanging))
    product = 2 * 1024**3 / 1e12
    assert after.seconds == pytest.approx(before.seconds - min(product, before.exchanging))


@pytest.mark.parametrize("trips", [1, 2, 7, 1000])
def test_loops_take_as_long_as_their_trips(trips: int) -> None:
    network = parse_topology("switch", 8, Link(1e-6, 10e9))
    before = f"""body {{
  s = (s32[], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4096] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  t = f32[4096] tanh(x)
  a = f32[4096] all-reduce(t), {channel(ALL)}, to_apply=sum
  ROOT o = (s32[], f32[4096]) tuple(j, a)
}}

condition {{
  s = (s32[], f32[4096]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant({trips})
  ROOT c = pred[] compare(i, n), direction=LT
}}

"""
    body = """x = f32[4096] parameter(0)
zero = s32[] constant(0)
t = (s32[], f32[4096]) tuple(zero, x)
l = (s32[], f32[4096]) while(t), condition=condition, body=body
ROOT r = f32[4096] get-tuple-element(l), index=1"""
    given = module(body, before=before)
    line = simulate(Exchanges(given, network), ModuleCost(given), CHIP)
    one = best("all-reduce", Link(1e-6, 10e9), 8, 4 * 4096).seconds
    assert line.exchanging == line.exposed == pytest.approx(trips * one)
    assert line.seconds == pytest.approx(line.computing + line.exposed)
    per_trip = (2 * 4096 * 4 + 12 + 9) / 1e11
    assert line.computing == pytest.approx(trips * per_trip + 9 / 1e11, rel=0.01)


def test_measured_times_lie_on_the_lines_between_sizes() -> None:
    times = Times(((1000.0, 1e-4), (2000.0, 2e-4), (4000.0, 8e-4)))
    assert [times.seconds(size) for size in (0, 1000, 1500, 3000, 5000)] == pytest.approx(
        [1e-4, 1e-4, 1.5e-4, 5e-4, 11e-4]
    )
    assert Times(((1000.0, 1e-4),)).seconds(1e9) == 1e-4
    falling = Times(((1000.0, 4e-4), (2000.0, 1e-4)))
    assert falling.seconds(1e6) == 0.0  # nothing takes less
    assert times.together([1000, 1000]) == pytest.approx(2e-4)  # as one array of 2000
    assert Times(times.points, 1.0).together([2000, 2000]) == pytest.approx(4e-4)  # one after the other
    assert Times(times.points, 0.5).together([2000, 2000]) == pytest.approx(6e-4)


def test_a_run_takes_what_kernels_and_exchanges_were_measured_to_take() -> None:
    pairs = ",".join(f"{{{n},{(n + 1) % 8}}}" for n in range(8))
    given = module(f"""p = f32[1024] parameter(0)
q = f32[256] parameter(1)
n = f32[1024] negate(p)
a = (f32[1024], f32[256]) all-reduce(n, q), {channel("{{0,1,2,3},{4,5,6,7}}")}, to_apply=sum
b = f32[1024] get-tuple-element(a), index=0
c = f32[1024] collective-permute(b), channel_id=2, source_target_pairs={{{pairs}}}
ROOT g = f32[8192] all-gather(c), channel_id=3, replica_groups={ALL}, use_global_device_ids=true, dimensions={{0}}""")
    reduced = Times(((1024.0, 1e-3), (5120.0, 3e-3)), 0.25)
    measured = {("all-reduce", 4): reduced, ("collective-permute", 8): Times(((4096.0, 2e-3),)),
                ("all-gather", 8): Times(((16384.0, 3e-3), (32768.0, 4e-3)))}  # fmt: skip
    network = MeasuredNetwork("a cluster", measured)
    costs = ModuleCost(given)
    negate = next(i for i in given.entry if i.name == "n")
    line = simulate(Exchanges(given, network), costs, {negate: 7e-3})
    together = 0.25 * (2.5e-3 + 1e-3) + 0.75 * 3e-3
    assert [line.computing, line.exchanging, line.exposed] == pytest.approx([7e-3, *[together + 2e-3 + 4e-3] * 2])
    assert {e.predicted.algorithm for e in Exchanges(given, network).all()} == {"measured"}
    less = MeasuredNetwork("a cluster", {key: times for key, times in measured.items() if key[0] != "all-gather"})
    with pytest.raises(UnsupportedError, match="all-gather among 8 devices was not measured on a cluster"):
        simulate(Exchanges(given, less), costs, {})


def test_calls_by_the_million_are_refused() -> None:
    """Each computation calls the next one twice: what is walked doubles."""
    reduce = f"ROOT a = f32[4] all-reduce(p0), {channel(ALL)}, to_apply=sum"
    before = f"c0 {{\n  p0 = f32[4] parameter(0)\n  {reduce}\n}}\n\n"
    for n in range(1, 30):
        before += (
            f"c{n} {{\n  p{n} = f32[4] parameter(0)\n  one{n} = f32[4] call(p{n}), to_apply=c{n - 1}\n"
            f"  ROOT two{n} = f32[4] call(one{n}), to_apply=c{n - 1}\n}}\n\n"
        )
    given = module("x = f32[4] parameter(0)\nROOT r = f32[4] call(x), to_apply=c29", before=before)
    with pytest.raises(UnsupportedError, match="steps around its exchanges"):
        simulate(Exchanges(given, parse_topology("switch", 8)), ModuleCost(given), CHIP)


def test_the_command(hlotool, tmp_path) -> None:
    file = tmp_path / "step.hlo"
    file.write_text(f"HloModule m, num_partitions=8\n\n{SUM}ENTRY e {{\n{STEP}\n}}\n")
    words = [str(file), "--chip", "1T,100G,1GiB", "--topology", "nvlink(8)xib", "--devices", "64"]
    answer = check_json(hlotool("simulate", *words, "--format", "json").stdout)
    assert answer["scaling"]["block"] == 1
    assert [point["devices"] for point in answer["curve"]] == [1, 2, 4, 8, 16, 32, 64]
    assert answer["curve"][-1]["seconds"] == answer["seconds"]
    text = hlotool("simulate", *words).stdout
    assert "8 blocks of 1 become 64" in text
    assert hlotool("simulate", *words, "--format", "svg").stdout.startswith("<svg")
    trace = json.loads(hlotool("simulate", *words, "--format", "trace").stdout)
    assert {event.get("cat") for event in trace["traceEvents"]} == {None, "compute", "network", "wait"}
    small = hlotool("simulate", str(file), "--chip", "1T,100G,1MB")
    assert (small.returncode, "does not fit" in small.stdout) == (1, True)
    assert hlotool("simulate", *words, "--topology", "torus(4)").returncode == 2
    assert hlotool("simulate", *words, "--curve", "8,wrong").returncode == 2


def test_a_module_that_is_not_partitioned_is_told(hlotool) -> None:
    file = ROOT / "tests" / "data" / "sharded" / "mlp_data_parallel.hlo"
    words = ["simulate", str(file), "--chip", "1T,100G,1GiB"]
    note = "nothing is exchanged although x.1 is cut among devices: it is probably not partitioned"
    assert note in hlotool(*words).stderr
    passes = "sharding-propagation,spmd-partitioner{partitions=8}"
    partitioned = hlotool(*words, "-p", passes)
    assert (partitioned.stderr, "all-reduce.1" in partitioned.stdout) == ("", True)


def test_cost_and_report_list_exchanges(hlotool, tmp_path) -> None:
    file = tmp_path / "step.hlo"
    file.write_text(f"HloModule m, num_partitions=8\n\n{SUM}ENTRY e {{\n{STEP}\n}}\n")
    link = "latency=2us,bandwidth=25GB/s"
    (row,) = check_json(hlotool("cost", str(file), "--network", link, "--format", "json").stdout)["exchanges"]
    expected = best("all-reduce", Link(2e-6, 25e9), 8, 4 << 20)
    assert row["predicted_seconds"] == pytest.approx(expected.seconds)
    assert (row["bytes"], row["members"], row["algorithm"]) == (4 << 20, 8, "rabenseifner")
    assert hlotool("cost", str(file), "--network", "latency=2").returncode == 2
    assert hlotool("report", str(file), "-p", "none", "--network", link, "-o", str(tmp_path / "out")).returncode == 0
    assert "What devices exchange" in (tmp_path / "out" / "cost.html").read_text()
    (told,) = json.loads((tmp_path / "out" / "summary.json").read_text())["exchanges"]
    assert told["predicted_seconds"] == pytest.approx(expected.seconds)
