"""Dense networks of the sizes of Neill, Drebes and Pop (Automated analysis and benchmarking of JIT compilation in
machine learning frameworks): 13 inputs, one to three hidden layers of 10 to 1000; a step of training, and inference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hlotool.suites.case import FULL, Case, Graph, Scale, headlines

__all__ = ["cases"]

SUITE = "mlp"
_INPUTS = 13
_HEADLINES = ("train-1x10-b1", "train-2x100-b16", "train-3x1000-b256")


def cases(scale: Scale = FULL) -> list[Case]:
    return headlines(list(_cases(scale)), _HEADLINES)


def _cases(scale: Scale) -> Iterator[Case]:
    for use in ("train", "infer"):
        for layers in (1, 2, 3):
            for width in (10, 100, 1000):
                for batch in (1, 16, 256):
                    yield _network(scale, use, layers, width, batch)


def _network(scale: Scale, use: str, layers: int, width: int, batch: int) -> Case:
    graph, sizes = Graph(), [scale(_INPUTS), *[scale(width)] * layers, 1]
    x = graph.argument((scale(batch), sizes[0]))
    wanted = graph.argument((scale(batch), 1)) if use == "train" else ""
    weights = []
    for before, after in pairwise(sizes):
        weights += [graph.weights(before, after), graph.argument((after,))]
    name = f"{use}-{layers}x{width}-b{batch}"
    if use == "train":
        return graph.case(SUITE, name, *graph.several(len(weights), "train_mlp", x, wanted, *weights, rate=0.001))
    for number in range(0, len(weights), 2):
        x = graph.add("linear", x, *weights[number : number + 2])
        x = graph.add("relu", x) if number + 2 < len(weights) else x
    return graph.case(SUITE, name)
