"""Clusters of graphs: every operation in one part, an order that runs, and as few clusters as there can be."""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, replace
from itertools import pairwise, product
from random import Random

import pytest

from hlotool.analysis.clusters import Node, Partition, partition
from hlotool.inspect.cluster_drawing import draw_clusters, draw_clusters_svg
from hlotool.inspect.render import find_dot
from hlotool.ir import InputError


def chain(pattern: str) -> list[Node]:
    """``cfc``: an operation that is compiled, one that falls back, and so on, each reading the one before."""
    return [
        Node(
            name=f"n{i}", op="add" if letter == "c" else "odd", inputs=(f"n{i - 1}",) if i else ("x",),
            reason="" if letter == "c" else "no rule", where=f"model.py:{i + 1}",
        )
        for i, letter in enumerate(pattern)
    ]  # fmt: skip


def random_graph(rng: Random, count: int, refused: float = 0.2) -> list[Node]:
    nodes: list[Node] = []
    for i in range(count):
        reach = nodes[-8:] if rng.random() < 0.8 else nodes
        sources = [one.name for one in rng.sample(reach, min(len(reach), rng.choice((0, 1, 1, 2, 3))))]
        sources += ["x"] if rng.random() < 0.2 else []
        tuples = [one for one in nodes if one.op == "split"]
        if tuples and rng.random() < 0.1:
            nodes.append(Node(name=f"n{i}", op="item", inputs=(rng.choice(tuples).name,), element_of_input=True))
            continue
        nodes.append(
            Node(
                name=f"n{i}", op=rng.choice(("add", "split", "mul")), inputs=tuple(sources),
                after=(rng.choice(nodes).name,) if nodes and rng.random() < 0.1 else (),
                reason="no rule" if rng.random() < refused else "", cost=rng.choice((0.5, 1.0, 4.0)),
            )
        )  # fmt: skip
    return nodes


def check(nodes: list[Node], made: Partition) -> None:
    """What holds of every partition."""
    names = [node.name for part in made.parts for node in part.nodes]
    assert sorted(names) == sorted(node.name for node in nodes)
    place = {name: position for position, name in enumerate(names)}
    known = {node.name: node for node in made.nodes}
    for node in made.nodes:
        part = made.parts[made.part_of[node.name]]
        assert part.compiled == (not node.reason)
        for name in (*node.inputs, *node.after):
            if name in place:
                assert place[name] < place[node.name]
                if made.part_of[name] != made.part_of[node.name] and name in node.inputs:
                    assert name in part.inputs
                    assert name in made.parts[made.part_of[name]].outputs
        if node.element_of_input:
            assert made.part_of[node.inputs[0]] == made.part_of[node.name]
    for one in nodes:
        assert not one.reason or known[one.name].reason == one.reason
    for before, after in pairwise(made.parts):
        assert before.compiled != after.compiled
    assert all(part.cost >= made.minimum for part in made.clusters)


@pytest.mark.parametrize("seed", range(60))
def test_every_partition_holds_together(seed: int) -> None:
    rng = Random(seed)
    nodes = random_graph(rng, rng.randint(1, 80), rng.choice((0.0, 0.05, 0.3, 0.9)))
    for minimum in (0.0, 2.0, 10.0):
        made = partition(nodes, minimum=minimum)
        check(nodes, made)
        again = partition(nodes, minimum=minimum)
        assert again.parts == made.parts
        if not minimum:
            assert [node.reason for node in made.nodes if not node.element_of_input] == [
                node.reason for node in nodes if not node.element_of_input
            ]


def fewest(nodes: list[Node]) -> int:
    """The least number of clusters of any order, by trying all ways to take turns."""
    best = len(nodes)

    def go(done: frozenset[str], clusters: int) -> None:
        nonlocal best
        if clusters >= best and len(done) < len(nodes):
            return
        if len(done) == len(nodes):
            best = min(best, clusters)
            return
        for compiled in (False, True):
            reach = set(done)
            for node in nodes:
                inside = all(name in reach for name in (*node.inputs, *node.after) if name != "x")
                if node.name not in reach and (not node.reason) == compiled and inside:
                    reach.add(node.name)
            if reach != done:
                go(frozenset(reach), clusters + compiled)

    go(frozenset(), 0)
    return best


@pytest.mark.parametrize("seed", range(20))
def test_no_order_has_fewer_clusters(seed: int) -> None:
    nodes = [
        node if not node.element_of_input else replace(node, element_of_input=False)
        for node in random_graph(Random(seed), 14, 0.4)
    ]
    assert len(partition(nodes).clusters) <= fewest(nodes)


@pytest.mark.parametrize("pattern", ["".join(one) for n in range(1, 7) for one in product("cf", repeat=n)])
def test_chains_have_a_cluster_for_each_run(pattern: str) -> None:
    made = partition(chain(pattern))
    check(chain(pattern), made)
    assert len(made.parts) == sum(a != b for a, b in pairwise(pattern)) + 1


def test_what_starts_late_does_not_make_a_cluster_of_its_own() -> None:
    nodes = [
        Node(name="a", op="odd", inputs=("x",), reason="no rule"),
        Node(name="b", op="add", inputs=("x",)),
        Node(name="c", op="add", inputs=("a", "b")),
    ]
    assert [[node.name for node in part.nodes] for part in partition(nodes).parts] == [["a"], ["b", "c"]]


def test_constants_are_made_where_they_are_read() -> None:
    nodes = [Node(name="one", op="full"), *chain("cfc")]
    nodes[-1] = replace(nodes[-1], inputs=("n1", "one"))
    assert partition(nodes).parts[2].nodes[0].name == "one"


def test_what_is_too_small_falls_back_and_says_so() -> None:
    nodes = chain("cccfcfccc")
    made = partition(nodes, minimum=2.0)
    check(nodes, made)
    assert [part.operations for part in made.parts] == [3, 3, 3]
    assert "not worth a call" in made.nodes[4].reason
    assert made.report().headline == "6 of 9 ops in 2 clusters; 3 fall back"


def test_what_is_too_small_joins_a_later_cluster_where_it_can() -> None:
    nodes = [
        Node(name="a", op="add", inputs=("x",)),
        Node(name="b", op="add", inputs=("y",)),
        Node(name="f", op="odd", inputs=("a",), reason="no rule"),
        *(Node(name=f"c{i}", op="add", inputs=("f", "b")) for i in range(4)),
    ]
    made = partition(nodes, minimum=3.0)
    assert [[node.name for node in part.nodes] for part in made.parts] == [["a", "f"], ["b", "c0", "c1", "c2", "c3"]]


def test_reports_say_what_why_and_where() -> None:
    report = partition([*chain("ccfccf"), Node(name="z", op="other", reason="no such type")]).report()
    assert report.text() == (
        "4 of 7 ops in 2 clusters; 3 fall back:\n"
        "  2 x odd: no rule (model.py:3, model.py:6)\n"
        "  1 x other: no such type"
    )
    assert json.loads(json.dumps(asdict(report)))["fallbacks"][0]["nodes"] == ["n2", "n5"]
    assert partition(chain("c")).report().text() == "1 of 1 op in 1 cluster"
    assert partition([]).report().text() == "0 of 0 ops in 0 clusters"


def test_what_if_an_operation_could_be_compiled() -> None:
    nodes = chain("cfcfc")
    nodes[3] = replace(nodes[3], op="rare")
    made = partition(nodes)
    assert len(made.clusters) == 3
    assert made.what_if(["odd", "rare"]).report().headline == "5 of 5 ops in 1 cluster"
    assert [row.text() for row in made.what_if_each()] == [
        "with odd: 4 of 5 ops in 2 clusters", "with rare: 4 of 5 ops in 2 clusters",
    ]  # fmt: skip


def test_graphs_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="n0 needs its own result"):
        partition([Node(name="n0", op="add", inputs=("n1",)), Node(name="n1", op="add", inputs=("n0",))])
    with pytest.raises(InputError, match="two nodes are named n0"):
        partition([Node(name="n0", op="add"), Node(name="n0", op="add")])
    with pytest.raises(InputError, match="an element of its input"):
        partition([Node(name="n0", op="item", inputs=("x",), element_of_input=True)])
    with pytest.raises(InputError, match="nothing named y"):
        partition(chain("cc"), outputs=["y"])


def test_only_what_is_asked_for_leaves() -> None:
    made = partition(chain("cc"), outputs=["n0"])
    assert made.parts[0].outputs == ("n0",)


def test_large_graphs_take_time_in_proportion() -> None:
    """Calls, not seconds: a deep graph of 50,000 operations given backwards, and one with 10,000 turns."""
    nodes = list(reversed(chain("c" * 50_000)))
    assert len(partition(nodes).parts) == 1
    assert len(partition(chain("cf" * 10_000)).clusters) == 10_000


def test_drawings_have_every_operation() -> None:
    made = partition(chain("ccfc"))
    text = draw_clusters(made)
    assert all(f"n{i}" in text for i in range(4))
    assert text.count("subgraph") == 3
    assert "falls back" in text
    assert draw_clusters(partition(chain("ccfc"))) == text
    assert "2 ops" in draw_clusters(made, most=1)


def test_drawings_survive_any_name() -> None:
    made = partition([Node(name='"<&>\\\n', op="<b>", reason="a < b & c", where="x.py:1")])
    dot = find_dot()
    if dot is None:
        pytest.skip("Graphviz's dot is not installed")
    assert b"<svg" in draw_clusters_svg(made)
    done = subprocess.run([dot, "-Tplain"], input=draw_clusters(made).encode(), capture_output=True, check=False)
    assert not done.returncode
    assert not done.stderr
