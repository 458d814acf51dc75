"""Several devices in one process: collectives against their definitions, messages, queues, deadlocks, time limits."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlotool
from hlotool.driver import compile_module
from hlotool.evaluate.feeds import Feeds
from hlotool.ir import ExecutionError, InputError, UnsupportedError, VerificationError, dtype_of
from hlotool.ir.devices import Topology, device_groups, topology_of
from hlotool.ir.verifier import check
from hlotool.runtime.executable import Executable
from hlotool.text.parser import parse

Array = np.ndarray[Any, Any]

REDUCERS = """sum {
 x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = f32[] add(x, y)
}
minus {
 x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = f32[] subtract(x, y)
}
"""


def program(body: str, replicas: int = 1, partitions: int = 1) -> str:
    return f"HloModule m, replica_count={replicas}, num_partitions={partitions}\n{REDUCERS}ENTRY e {{\n{body}\n}}"


@pytest.fixture(params=["cpu", "evaluate"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def build(text: str, backend: str = "cpu", **options: Any) -> Executable:
    return compile_module(parse(text), backend, threads=1, **options)


def one(text: str, backend: str, *arrays: Array) -> Array:
    (result,) = build(text, backend)(*arrays)
    return result


FOUR = np.array([[1, 2], [30, 40], [500, 600], [7000, 8000]], np.float32)


# ---- who works together

GROUPS = [
    ("", [[0, 2, 4], [1, 3, 5]]),
    ("replica_groups={{2,0},{1}}", [[4, 0], [5, 1], [2], [3]]),
    ("replica_groups={}, channel_id=1", [[0, 1, 2, 3, 4, 5]]),
    ("replica_groups={{1,0},{2}}, channel_id=1", [[2, 3, 0, 1], [4, 5]]),
    ("replica_groups={{0,5},{3,1,2,4}}, channel_id=1, use_global_device_ids=true", [[0, 5], [3, 1, 2, 4]]),
    ("replica_groups=[2,3]<=[3,2]T(1,0), channel_id=1, use_global_device_ids=true", [[0, 2, 4], [1, 3, 5]]),
]


@pytest.mark.parametrize(("attributes", "groups"), GROUPS)
def test_groups_of_a_reduction(attributes: str, groups: list[list[int]], backend: str) -> None:
    """Three replicas of two partitions; the reducer shows the order."""
    comma = ", " if attributes else ""
    text = program(f"p = f32[] parameter(0)\n ROOT r = f32[] all-reduce(p), {attributes}{comma}to_apply=minus", 3, 2)
    module = parse(text)
    assert [list(group) for group in device_groups(module.entry.root, topology_of(module))] == groups
    values = np.array([2.0**n for n in range(6)], np.float32)
    want = values.copy()
    for group in groups:
        first, *others = group
        want[group] = values[first] - values[others].sum()
    assert one(text, backend, values).tolist() == want.tolist()


def test_groups_of_partitions(backend: str) -> None:
    text = program("p = f32[2] parameter(0)\n ROOT r = f32[2] all-to-all(p), channel_id=1, dimensions={0}", 2, 2)
    assert one(text, backend, FOUR).tolist() == [[1, 30], [2, 40], [500, 7000], [600, 8000]]
    text = text.replace(", channel_id=1", "")
    assert one(text, backend, FOUR).tolist() == [[1, 500], [30, 7000], [2, 600], [40, 8000]]


def test_device_numbers(backend: str) -> None:
    text = program("a = u32[] replica-id()\n b = u32[] partition-id()\n ROOT r = (u32[], u32[]) tuple(a, b)", 2, 3)
    replica, partition = build(text, backend)()
    assert (replica.tolist(), partition.tolist()) == ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])


# ---- what they compute

P = "p = f32[2] parameter(0)\n "
CASES: list[tuple[str, Any]] = [
    ("ROOT r = f32[8] all-gather(p), dimensions={0}", [FOUR.ravel().tolist()] * 4),
    ("ROOT r = f32[4] all-gather(p), dimensions={0}, replica_groups={{3,0},{1,2}}",
     [[7000, 8000, 1, 2], [30, 40, 500, 600], [30, 40, 500, 600], [7000, 8000, 1, 2]]),
    ("ROOT r = f32[1] reduce-scatter(p), dimensions={0}, replica_groups={{0,1},{3,2}}, to_apply=minus",
     [[-29], [-38], [7400], [6500]]),
    ("ROOT r = f32[2] collective-broadcast(p), replica_groups={{2,0}}", [[500, 600], [0, 0], [500, 600], [0, 0]]),
    ("ROOT r = f32[2] collective-permute(p), source_target_pairs={{0,1},{1,0},{3,2}}",
     [[30, 40], [1, 2], [7000, 8000], [0, 0]]),
    ("s = (f32[2], f32[2], u32[], u32[]) collective-permute-start(p), source_target_pairs={{0,3}}\n "
     "ROOT r = f32[2] collective-permute-done(s)", [[0, 0], [0, 0], [0, 0], [1, 2]]),
    ("s = f32[2] all-reduce-start(p), to_apply=sum\n ROOT r = f32[2] all-reduce-done(s)", [[7531, 8642]] * 4),
    ("s = (f32[2], f32[4]) all-gather-start(p), dimensions={0}, replica_groups={{0,1},{2,3}}\n "
     "ROOT r = f32[4] all-gather-done(s)", [[1, 2, 30, 40]] * 2 + [[500, 600, 7000, 8000]] * 2),
]  # fmt: skip


@pytest.mark.parametrize(("body", "want"), CASES)
def test_results(body: str, want: Any, backend: str) -> None:
    assert one(program(P + body, 4), backend, FOUR).tolist() == want


def test_several_operands(backend: str) -> None:
    body = (
        "q = f32[] parameter(1)\n a = (f32[2], f32[]) all-reduce(p, q), to_apply=sum\n "
        "n = f32[2] negate(p)\n t = (f32[2], f32[2]) all-to-all(p, n), replica_groups={{0,1},{2,3}}\n "
        "c = (f32[2], f32[]) collective-permute(p, q), source_target_pairs={{1,0}}\n "
        "ROOT r = ((f32[2], f32[]), (f32[2], f32[2]), (f32[2], f32[])) tuple(a, t, c)"
    )
    scalars = np.arange(4, dtype=np.float32)
    found = [leaf.tolist() for leaf in build(program(P + body, 4), backend)(FOUR, scalars)]
    assert found[0] == [[7531, 8642]] * 4
    assert found[1] == [6] * 4
    assert found[2] == [[1, 2], [-1, -2], [500, 600], [-500, -600]]
    assert found[3] == [[30, 40], [-30, -40], [7000, 8000], [-7000, -8000]]
    assert found[4] == [[30, 40], [0, 0], [0, 0], [0, 0]]
    assert found[5] == [1, 0, 0, 0]


def test_asynchronous_computations(backend: str) -> None:
    text = program(
        P + "s = ((f32[2]), f32[2], u32[]) async-start(p), calls=wrapped\n "
        "u = ((f32[2]), f32[2], u32[]) async-update(s)\n ROOT d = f32[2] async-done(u)",
        4,
    ).replace("ENTRY", "wrapped {\n w = f32[2] parameter(0)\n ROOT a = f32[2] all-reduce(w), to_apply=sum\n}\nENTRY")
    assert one(text, backend, FOUR).tolist() == [[7531, 8642]] * 4


def test_narrow_types_are_reduced_in_their_order(backend: str) -> None:
    """bf16 keeps 8 bits: 256 + 1 + 1 is 256 from the left, and 258 from the right."""
    text = program("p = bf16[] parameter(0)\n ROOT r = bf16[] all-reduce(p), replica_groups={{0,1,2}}, to_apply=sum", 3)
    narrow, wide = text.replace(" f32[]", " bf16[]"), text
    data = np.array([256, 1, 1], ml_dtypes.bfloat16)
    assert one(narrow, backend, data).astype(float).tolist() == [256] * 3
    assert one(wide, backend, data).astype(float).tolist() == [258] * 3


def test_ragged_all_to_all(backend: str) -> None:
    """Two devices, two parts for each; rows that do not exist are left out."""
    numbers = "".join(f" n{k} = s32[4] parameter({k})\n" for k in range(2, 6))
    body = (
        f"p = f32[4] parameter(0)\n o = f32[6] parameter(1)\n{numbers}"
        " ROOT r = f32[6] ragged-all-to-all(p, o, n2, n3, n4, n5), replica_groups={{0,1}}"
    )
    data = np.array([[1, 2, 3, 4], [10, 20, 30, 40]], np.float32)
    output = np.full((2, 6), -1, np.float32)
    begins = np.array([[0, 1, 2, 3], [0, 0, 3, -1]], np.int32)
    counts = np.array([[1, 1, 1, 5], [2, 0, 1, 2]], np.int32)
    places = np.array([[0, 1, 0, 1], [2, 0, 5, 3]], np.int32)
    found = one(program(body, 2), backend, data, output, begins, counts, places, counts)
    assert found.tolist() == [[1, 2, 10, 20, -1, -1], [3, 4, -1, -1, 10, 40]]


STARTED = (
    "ROOT r = f32[4] collective-permute(",
    "s = (f32[4], f32[4], u32[], u32[]) collective-permute-start(",
    "\n ROOT r = f32[4] collective-permute-done(s)",
)


@pytest.mark.parametrize("started", [False, True])
def test_permute_in_place(backend: str, started: bool) -> None:
    """Slices of the input of the source, in the output of the target."""
    body = (
        "p = f32[4] parameter(0)\n o = f32[4] parameter(1)\n i = s32[] parameter(2)\n j = s32[] parameter(3)\n "
        "a = (s32[]) tuple(i)\n b = (s32[]) tuple(j)\n from = ((s32[]), (s32[])) tuple(a, b)\n "
        "to = ((s32[]), (s32[])) tuple(b, a)\n ROOT r = f32[4] collective-permute(p, o, from, to), "
        "source_target_pairs={{0,1}}, slice_sizes={{2},{1}}"
    )
    if started:
        body = body.replace(*STARTED[:2]) + STARTED[2]
    data = np.array([[1, 2, 3, 4], [10, 20, 30, 40]], np.float32)
    output = np.zeros((2, 4), np.float32)
    found = one(program(body, 2), backend, data, output, np.array([2, 0], np.int32), np.array([0, 0], np.int32))
    assert found.tolist() == [[0, 0, 0, 0], [3, 4, 1, 0]]


def test_loops_of_collectives_are_the_same_every_time() -> None:
    text = """HloModule m, replica_count=3
sum {
 x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = f32[] add(x, y)
}
condition {
 s = (s32[], f32[50]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 k = s32[] constant(20)
 ROOT c = pred[] compare(n, k), direction=LT
}
body {
 s = (s32[], f32[50]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 v = f32[50] get-tuple-element(s), index=1
 a = f32[50] all-reduce(v), to_apply=sum
 q = f32[50] negate(a)
 p = f32[50] collective-permute(q), source_target_pairs={{0,1},{1,2},{2,0}}
 m = f32[50] add(p, v)
 one = s32[] constant(1)
 next = s32[] add(n, one)
 ROOT t = (s32[], f32[50]) tuple(next, m)
}
ENTRY e {
 v = f32[50] parameter(0)
 zero = s32[] constant(0)
 s = (s32[], f32[50]) tuple(zero, v)
 w = (s32[], f32[50]) while(s), condition=condition, body=body
 ROOT r = f32[50] get-tuple-element(w), index=1
}"""
    values = np.random.default_rng(3).standard_normal((3, 50)).astype(np.float32)
    executable = build(text)
    first = executable(values)[0].tobytes()
    assert all(executable(values)[0].tobytes() == first for _ in range(10))
    assert one(text, "evaluate", values).tobytes() == first


# ---- calling


def test_arrays_for_all_and_for_each() -> None:
    executable = build(program(P + "q = f32[2] parameter(1)\n ROOT r = f32[2] add(p, q)", 4))
    assert executable.topology == Topology(4, 1)
    assert executable(FOUR, np.ones(2, np.float32))[0].tolist() == (FOUR + 1).tolist()
    rows = executable.run_devices([(row, row) for row in FOUR])
    assert [result.tolist() for (result,) in rows] == (2 * FOUR).tolist()
    with pytest.raises(InputError, match="arrays for 2 devices were given, the program runs on 4 replicas and 1 part"):
        executable.run_devices([(FOUR[0], FOUR[0])] * 2)
    with pytest.raises(InputError, match="parameter 1"):
        executable(FOUR, FOUR[:3])


def test_the_number_of_devices_can_be_given(backend: str) -> None:
    text = f"HloModule m\n{REDUCERS}ENTRY e {{\n{P}ROOT r = f32[2] all-reduce(p), to_apply=sum\n}}"
    assert one(text, backend, FOUR[0]).tolist() == [1, 2]
    (result,) = build(text, backend, replicas=2, partitions=2)(FOUR)
    assert result.tolist() == [[501, 602], [7030, 8040]] * 2
    alone = build(text.replace("HloModule m", "HloModule m, replica_count=2"), backend, replicas=1)
    assert alone(FOUR[0])[0].tolist() == [1, 2]
    with pytest.raises(InputError, match="replicas: expected a whole number from 1"):
        build(text, backend, replicas=0)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "all-reduce(p), replica_groups={{0,1,2}}, to_apply=sum",
            "on 2 replicas and 1 partition, there is no replica 2",
        ),
        ("all-reduce(p), replica_groups={{0}}, to_apply=sum", "device 1 is in none of the replica groups"),
        (
            "all-reduce(p), channel_id=1, replica_groups={{0,1,2}}, use_global_device_ids=true, to_apply=sum",
            "no device 2",
        ),
        ("all-reduce(p), replica_groups={{0,1}}, use_global_device_ids=true, to_apply=sum", "needs a channel_id"),
        ("all-gather(p), dimensions={0}", r"of f32\[2\] gives f32\[2\], which is not right for a group of 2"),
        ("collective-permute(p), source_target_pairs={{0,2}}", "there is no replica 2"),
        ("collective-permute(p), channel_id=1, source_target_pairs={{0,1}}", "there is no partition 1"),
    ],
)
def test_what_does_not_fit_the_devices_is_refused(body: str, why: str, backend: str) -> None:
    with pytest.raises((UnsupportedError, VerificationError), match=f"r: .*{why}"):
        build(program(f"{P}ROOT r = f32[2] {body}", 2), backend)


def test_parts_for_devices_that_are_not_there_are_refused(backend: str) -> None:
    with pytest.raises(UnsupportedError, match=r"r: .*of 2 operands in a group of 1"):
        build(program(f"{P}ROOT r = (f32[2], f32[2]) all-to-all(p, p)", 1), backend)


def test_errors_of_one_device_arrive(backend: str) -> None:
    """Device 1 fails; device 0, which waits for it, does too, and the error is that of device 1."""

    def picky(inputs: tuple[Array, ...], call: Any) -> tuple[Array, ...]:
        if inputs[0][0] == 30:
            raise ValueError("not 30")
        return inputs

    hlotool.register_custom_call("test_picky", picky, replace=True)
    body = (
        P + 'c = f32[2] custom-call(p), custom_call_target="test_picky"\n ROOT r = f32[2] all-reduce(c), to_apply=sum'
    )
    executable = build(program(body, 2), backend)
    with pytest.raises(ExecutionError, match=r"^c: custom call 'test_picky' failed: ValueError: not 30"):
        executable(FOUR[:2])
    assert executable(FOUR[2:])[0].tolist() == [[7500, 8600]] * 2


LEAST = """
 x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = f32[] minimum(x, y)
"""
DISAGREE = """HloModule m, replica_count=2
sum {
 x = f32[] parameter(0)
 y = f32[] parameter(1)
 ROOT r = f32[] add(x, y)
}
yes {
 v = f32[] parameter(0)
 ROOT here = f32[] all-reduce(v), to_apply=sum
}
no {
 v = f32[] parameter(0)
 ROOT n = f32[] negate(v)
}
ENTRY e {
 p = pred[] parameter(0)
 v = f32[] parameter(1)
 ROOT r = f32[] conditional(p, v, v), true_computation=yes, false_computation=no
}"""


def test_a_deadlock_is_an_error(backend: str) -> None:
    executable = build(DISAGREE, backend)
    one = np.float32(1)
    for _ in range(3):
        with pytest.raises(
            ExecutionError, match="here: the devices wait in vain: device 0 waits in here for device 1, "
        ):
            executable(np.array([True, False]), one)
    assert executable(np.array([True, True]), one)[0].tolist() == [2, 2]
    other = DISAGREE.replace("negate(v)", "all-reduce(v), to_apply=least").replace(
        "yes {", f"least {{{LEAST}}}\nyes {{"
    )
    with pytest.raises(ExecutionError, match="device 0 waits in here for device 1, device 1 waits in n for device 0"):
        build(other, backend)(np.array([True, False]), one)


# ---- messages

RING = (
    "t = token[] after-all()\n v = (f32[2], u32[], token[]) recv(t), channel_id=1, frontend_attributes={PAIRS}\n "
    "s = (f32[2], u32[], token[]) send(p, t), channel_id=1, frontend_attributes={PAIRS}\n "
    "d = (f32[2], token[]) recv-done(v), channel_id=1\n e = token[] send-done(s), channel_id=1\n "
    "ROOT r = f32[2] get-tuple-element(d), index=0"
)


@pytest.mark.parametrize("quoted", [True, False])
def test_send_and_receive(backend: str, quoted: bool) -> None:
    pairs = "{{0,1},{1,2}}"
    attribute = "_xla_send_recv_source_target_pairs=" + (f'"{pairs}"' if quoted else pairs)
    text = program(P + RING.replace("PAIRS", attribute), 1, 3)
    assert one(text, backend, FOUR[:3]).tolist() == [[0, 0], [1, 2], [30, 40]]


def test_a_message_that_nobody_sends(backend: str) -> None:
    body = RING.replace("PAIRS", '_xla_send_recv_source_target_pairs="{{1,0}}"', 1)
    body = body.replace("PAIRS", '_xla_send_recv_source_target_pairs="{}"')
    with pytest.raises(ExecutionError, match=r"d: .*device 0 waits in d for device 1 to send on channel 1"):
        build(program(P + body, 1, 2), backend)(FOUR[:2])


def test_messages_need_another_end(backend: str) -> None:
    with pytest.raises(UnsupportedError, match="v: recv says neither is_host_transfer=true nor"):
        build(program(P + RING.replace(", frontend_attributes={PAIRS}", "")), backend)


def test_transfers_with_the_host(backend: str) -> None:
    body = (
        "t = token[] after-all()\n v = (f32[2], u32[], token[]) recv(t), channel_id=1, is_host_transfer=true\n "
        "d = (f32[2], token[]) recv-done(v), channel_id=1, is_host_transfer=true\n "
        "g = f32[2] get-tuple-element(d), index=0\n a = f32[2] add(p, g)\n "
        "s = (f32[2], u32[], token[]) send(a, t), channel_id=2, is_host_transfer=true\n "
        "e = token[] send-done(s), channel_id=2, is_host_transfer=true\n ROOT r = f32[2] negate(a)"
    )
    feeds = Feeds(received={1: {0: [FOUR[1]], 1: [FOUR[2], FOUR[3]]}})
    executable = build(program(P + body, 2), backend)
    assert executable(FOUR[:2], feeds=feeds)[0].tolist() == [[-31, -42], [-530, -640]]
    assert [a.tolist() for a in feeds.sent(2, 1)] == [[530, 640]]
    with pytest.raises(ExecutionError, match="d: the channel 1 from the host to device 0 is empty: all of 1 array"):
        executable(FOUR[:2], feeds=feeds)


# ---- queues

FEED = """HloModule m
condition {
 s = (s32[], f32[2], token[]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 k = s32[] constant(3)
 ROOT c = pred[] compare(n, k), direction=LT
}
body {
 s = (s32[], f32[2], token[]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 v = f32[2] get-tuple-element(s), index=1
 t = token[] get-tuple-element(s), index=2
 f = ((f32[2], s32[]), token[]) infeed(t), infeed_config="x"
 d = (f32[2], s32[]) get-tuple-element(f), index=0
 i = f32[2] get-tuple-element(d), index=0
 j = s32[] get-tuple-element(d), index=1
 u = token[] get-tuple-element(f), index=1
 w = f32[2] add(v, i)
 o = (f32[2], s32[]) tuple(w, j)
 q = token[] outfeed(o, u), outfeed_shape=(f32[2], s32[])
 one = s32[] constant(1)
 m = s32[] add(n, one)
 ROOT r = (s32[], f32[2], token[]) tuple(m, w, q)
}
ENTRY e {
 zero = s32[] constant(0)
 v = f32[2] parameter(0)
 t = token[] after-all()
 s = (s32[], f32[2], token[]) tuple(zero, v, t)
 l = (s32[], f32[2], token[]) while(s), condition=condition, body=body
 ROOT r = f32[2] get-tuple-element(l), index=1
}"""


def test_infeed_and_outfeed(backend: str) -> None:
    numbers = [np.int32(n) for n in range(4)]
    queue = [array for row, number in zip(FOUR, numbers, strict=True) for array in (row, number)]
    feeds = Feeds(infeed=queue)
    executable = build(FEED, backend)
    (result,) = executable(np.zeros(2, np.float32), feeds=feeds)
    assert result.tolist() == [531, 642]
    assert [a.tolist() for a in feeds.outfeed()] == [[1, 2], 0, [31, 42], 1, [531, 642], 2]
    with pytest.raises(
        ExecutionError, match=r"f: the infeed of device 0 is empty: all of 8 arrays were read, f32\[2\]"
    ):
        executable(np.zeros(2, np.float32), feeds=feeds)
    with pytest.raises(ExecutionError, match="f: the infeed of device 0 is empty: all of 0 arrays"):
        executable(np.zeros(2, np.float32))
    with pytest.raises(ExecutionError, match=r"f: array 0 in the infeed of device 0 is int32\[\], f32\[2\] is wanted"):
        executable(np.zeros(2, np.float32), feeds=Feeds(infeed=numbers))
    with pytest.raises(InputError, match="a queue is a sequence of arrays"):
        Feeds(infeed=FOUR)


def test_every_device_has_queues_of_its_own(backend: str) -> None:
    body = (
        "t = token[] after-all()\n f = (f32[2], token[]) infeed(t)\n g = f32[2] get-tuple-element(f), index=0\n "
        "a = f32[2] all-reduce(g), to_apply=sum\n o = token[] outfeed(g, t), outfeed_shape=f32[2]\n "
        "ROOT r = f32[2] negate(a)"
    )
    executable = build(program(body, 2), backend)
    feeds = Feeds(infeed={0: [FOUR[0]], 1: [FOUR[1]]})
    assert executable(feeds=feeds)[0].tolist() == [[-31, -42]] * 2
    assert [feeds.outfeed(device)[0].tolist() for device in (0, 1)] == FOUR[:2].tolist()
    assert executable(feeds=Feeds(infeed=[FOUR[1]]))[0].tolist() == [[-60, -80]] * 2


# ---- time

ENDLESS = """HloModule m
sum {
 x = s32[] parameter(0)
 y = s32[] parameter(1)
 ROOT r = s32[] add(x, y)
}
condition {
 s = s32[] parameter(0)
 ROOT c = pred[] constant(true)
}
body {
 s = s32[] parameter(0)
 one = s32[] constant(1)
 ROOT n = s32[] add(s, one)
}
ENTRY e {
 s = s32[] parameter(0)
 ROOT forever = s32[] while(s), condition=condition, body=body
}"""


def test_an_endless_loop_is_stopped(backend: str) -> None:
    executable = build(ENDLESS, backend, timeout=0.1)
    for _ in range(2):
        with pytest.raises(ExecutionError, match=r"stopped: the time limit of 0.1 s is over"):
            executable(np.int32(0))
    quick = build(ENDLESS.replace("constant(true)", "constant(false)"), backend, timeout=60)
    assert quick(np.int32(5))[0] == 5
    with pytest.raises(InputError, match="a time limit is a positive number"):
        build(ENDLESS, backend, timeout=0)


def test_devices_that_wait_for_an_endless_loop_are_stopped(backend: str) -> None:
    text = (
        ENDLESS.replace("HloModule m", "HloModule m, replica_count=2")
        .replace(
            "ROOT c = pred[] constant(true)",
            "one = s32[] constant(1000)\n ROOT c = pred[] compare(s, one), direction=GT",
        )
        .replace("ROOT n = s32[] add(s, one)", "ROOT n = s32[] maximum(s, one)")
        .replace("ROOT forever", "forever")
        .replace("body=body\n}", "body=body\n ROOT a = s32[] all-reduce(forever), to_apply=sum\n}")
    )
    assert one(text, backend, np.array([1, 2], np.int32)).tolist() == [3, 3]
    executable = build(text, backend, timeout=0.1)
    with pytest.raises(ExecutionError, match=r"stopped: the time limit of 0.1 s is over"):
        executable(np.array([1, 2000], np.int32))


def test_a_late_run_does_not_stop_another() -> None:
    """Both are in the same code, one of them with half the work still to do when the other one's time is over."""
    text = ENDLESS.replace(
        "ROOT c = pred[] constant(true)", "k = s32[] constant(1)\n ROOT c = pred[] compare(s, k), direction=LT"
    ).replace(
        "one = s32[] constant(1)\n ROOT n = s32[] add(s, one)",
        'ROOT n = s32[] custom-call(s), custom_call_target="test_step"',
    )
    late, started = threading.Event(), threading.Event()

    def step(inputs: tuple[Array, ...], call: Any) -> tuple[Array, ...]:
        if inputs[0] < 0:  # this one goes on until its time is over
            started.set()
            return inputs
        return (np.array(1, np.int32),)

    hlotool.register_custom_call("test_step", step, replace=True)
    executable = build(text, timeout=1)
    errors: list[str] = []

    def endless() -> None:
        try:
            executable(np.int32(-1))
        except ExecutionError as error:
            errors.append(str(error))
        late.set()

    worker = threading.Thread(target=endless)
    worker.start()
    started.wait()
    results = []
    while not late.is_set():
        results.append(int(executable(np.int32(0))[0]))
    worker.join()
    assert errors == ["forever: stopped: the time limit of 1 s is over"]
    assert results
    assert set(results) == {1}


def test_threads_end_with_the_run() -> None:
    executable = build(DISAGREE)
    before = threading.active_count()
    for flags in ([True, True], [True, False]):
        with contextlib.suppress(ExecutionError):
            executable(np.array(flags), np.float32(1))
    assert threading.active_count() == before


# ---- what the verifier refuses

PLACES = "a = s32[] constant(0)\n i = (s32[]) tuple(a)\n "
IN_PLACE = (
    f"{PLACES}ROOT r = f32[2] collective-permute(p, p, i, i), source_target_pairs={{{{0,1}}}}, slice_sizes={{{{1}}}}"
)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("ROOT r = f32[2] all-reduce(p), replica_groups={{0,0}}, to_apply=sum", "0 is in the replica groups twice"),
        ("ROOT r = f32[2] all-reduce(p), replica_groups={{0},{}}, to_apply=sum", "a replica group is empty"),
        ("ROOT r = f32[2] all-reduce(p), replica_groups={{0,2}}, to_apply=sum", "1 is missing in the replica groups"),
        ("ROOT r = f32[2] all-reduce(p), channel_id=1, use_global_device_ids=true, to_apply=sum", "names them"),
        ("ROOT r = f32[4] all-gather(p), replica_groups={{0,1},{2}}, dimensions={0}", "in groups of"),
        ("ROOT r = f32[2] collective-permute(p), source_target_pairs={{0,1},{2,1}}", "1 is the target of two pairs"),
        ("ROOT r = f32[2] collective-permute(p), source_target_pairs={{0,1},{0,2}}", "0 is the source of two pairs"),
        (IN_PLACE.replace("slice_sizes={{1}}", "slice_sizes={{3}}"), "a slice of"),
        (IN_PLACE.replace("slice_sizes={{1}}", "slice_sizes={{1},{1}}"), "more sizes than there are slices"),
        (IN_PLACE.replace("(s32[]) tuple(a)", "(s32[], s32[]) tuple(a, a)"), "a tuple of as many integers"),
        (IN_PLACE.replace("p, p, i, i", "p, p, i"), "takes 4 operands"),
        ("c = s32[2] convert(p)\n ROOT r = (f32[2], s32[2]) all-reduce(p, c), to_apply=sum", "the reducer works on"),
    ],
)
def test_what_is_no_collective(body: str, why: str) -> None:
    with pytest.raises(VerificationError, match=why):
        check(parse(program(P + body)))
    check(parse(program(P + IN_PLACE)))


# ---- in turns


def takes_turns(executable: Executable) -> bool:
    """Whether devices run in one thread, as they do where this processor and system let them."""
    from hlotool.runtime.coroutines import usable

    assert not usable() or executable.together is not None
    return usable()


EACH_OPCODE = [
    "ROOT r = KIND[6,5,4] all-reduce(p), channel_id=1, replica_groups={{2,0},{3,1}}, use_global_device_ids=true, "
    "to_apply=own",
    "ROOT r = (KIND[6,5,4], KIND[6,5,4]) all-reduce(p, p), to_apply=own",
    "ROOT r = KIND[6,20,4] all-gather(p), dimensions={1}",
    "ROOT r = KIND[6,5,8] all-gather(p), dimensions={2}, replica_groups={{3,0},{1,2}}",
    "ROOT r = KIND[3,5,4] reduce-scatter(p), dimensions={0}, replica_groups={{3,0},{1,2}}, to_apply=own",
    "ROOT r = KIND[6,5,1] reduce-scatter(p), dimensions={2}, to_apply=own",
    "ROOT r = KIND[6,5,4] all-to-all(p), dimensions={2}, replica_groups={{1,0,3,2}}",
    "ROOT r = (KIND[6,5,4], KIND[6,5,4]) all-to-all(p, q), replica_groups={{1,3},{2,0}}",
    "ROOT r = KIND[6,5,4] collective-broadcast(p), replica_groups={{2,0,1,3}}",
    "ROOT r = KIND[6,5,4] collective-permute(p), source_target_pairs={{0,3},{3,1},{2,2}}",
]


@pytest.mark.parametrize("kind", ["f32", "bf16", "s8", "u64", "pred", "c64"])
@pytest.mark.parametrize("body", EACH_OPCODE)
def test_turns_give_what_the_evaluator_gives(body: str, kind: str) -> None:
    """To the bit: reductions go from the first member to the last."""
    opcode = "or" if kind == "pred" else "add"
    own = f"own {{\n a = {kind}[] parameter(0)\n b = {kind}[] parameter(1)\n ROOT c = {kind}[] {opcode}(a, b)\n}}\n"
    given = f"p = {kind}[6,5,4] parameter(0)\n q = {kind}[6,5,4] {'not(p)' if kind == 'pred' else 'add(p, p)'}\n "
    text = program(given + body.replace("KIND", kind), 4).replace("ENTRY", own + "ENTRY")
    executable = build(text)
    takes_turns(executable)
    rng = np.random.default_rng(0)
    values = (rng.standard_normal((4, 6, 5, 4)) * 10).astype(dtype_of(kind))
    for mine, theirs in zip(executable(values), build(text, "evaluate")(values), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("threads", [1, 2])
def test_large_arrays_are_shared_by_threads(threads: int) -> None:
    text = program(
        "p = f32[300,1001] parameter(0)\n a = f32[300,1001] all-reduce(p), to_apply=sum\n "
        "g = f32[300,3003] all-gather(p), dimensions={1}\n ROOT r = (f32[300,1001], f32[300,3003]) tuple(a, g)", 3
    )  # fmt: skip
    values = np.random.default_rng(0).standard_normal((3, 300, 1001)).astype(np.float32)
    whole, gathered = compile_module(parse(text), threads=threads)(values)
    np.testing.assert_array_equal(whole, np.stack([values[0] + values[1] + values[2]] * 3))
    np.testing.assert_array_equal(gathered, np.stack([np.concatenate(values, axis=1)] * 3))


COUNTING = """body {
 s = (s32[], f32[2]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 v = f32[2] get-tuple-element(s), index=1
 one = s32[] constant(1)
 m = s32[] add(n, one)
 t = f32[2] all-reduce(v), to_apply=sum, replica_groups={{0,1},{2,3}}
 h = f32[] constant(0.5)
 hs = f32[2] broadcast(h), dimensions={}
 a = f32[2] multiply(t, hs)
 w = f32[2] collective-permute(a), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
 ROOT r = (s32[], f32[2]) tuple(m, w)
}
cond {
 s = (s32[], f32[2]) parameter(0)
 n = s32[] get-tuple-element(s), index=0
 k = s32[] constant(9)
 ROOT r = pred[] compare(n, k), direction=LT
}
"""
COUNTED = program(
    "z = s32[] constant(0)\n p = f32[2] parameter(0)\n t = (s32[], f32[2]) tuple(z, p)\n "
    "w = (s32[], f32[2]) while(t), condition=cond, body=body\n ROOT r = f32[2] get-tuple-element(w), index=1", 4
).replace("ENTRY", COUNTING + "ENTRY")  # fmt: skip


def test_a_thousand_runs_in_several_threads() -> None:
    """Two programs, whose runs are all over at once."""
    programs = [build(COUNTED), build(program(P + "ROOT r = f32[2] all-reduce(p), to_apply=minus", 4))]
    wanted = [each(FOUR)[0] for each in programs]
    wrong = []

    def work(number: int) -> None:
        for turn in range(250):
            one = (turn + number) % 2
            if not np.array_equal(programs[one](FOUR)[0], wanted[one]):
                wrong.append((number, turn))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    np.testing.assert_array_equal(wanted[0], build(COUNTED, "evaluate")(FOUR)[0])


def test_runs_start_no_threads() -> None:
    executable = build(COUNTED)
    if not takes_turns(executable):
        pytest.skip("devices have threads here")
    started = []
    before = threading.Thread.start
    try:
        threading.Thread.start = lambda self: started.append(self) or before(self)  # type: ignore[method-assign, func-returns-value]
        executable(FOUR)
    finally:
        threading.Thread.start = before  # type: ignore[method-assign]
    assert not started


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_of_a_process_in_the_midst_of_runs() -> None:
    executable = build(COUNTED)
    (wanted,) = executable(FOUR)
    going = threading.Event()
    busy = threading.Thread(target=lambda: [executable(FOUR) for _ in range(100_000) if not going.is_set()])
    busy.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(executable(FOUR)[0], wanted) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        going.set()
        busy.join()
