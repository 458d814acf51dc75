"""DeepBench: products, convolutions, recurrent layers and all-reduces of networks that Baidu trained and served.

The shapes are those of https://github.com/baidu-research/DeepBench, ``code/kernels/*_problems.h`` (2016 to 2018), of
its training set and its set for servers.  Repetitions of a shape under other batch sizes are left out where the table
would only grow; what takes minutes on a processor with few cores, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlotool.suites.case import FULL, Case, Graph, Scale, headlines

__all__ = ["cases"]

SUITE = "deepbench"

_GEMM = {  # m, n, k; transposed: n neither, t the first, s the second
    "training": (
        *((size, batch, size, "n") for size in (1760, 2048, 2560, 4096) for batch in (16, 32, 64, 128)),
        *((size, batch, size, "t") for size in (1760, 2048, 2560, 4096) for batch in (16, 128)),
        *((size, 7000, size, form) for size in (1760, 2560) for form in "nt"),
        *((size, 7133, size, "s") for size in (1760, 2560)),
        *((m, n, k, "n") for k in (1760, 2560) for m, n in ((5124, 9124), (35, 8457))),
        *((35, 8457, k, "t") for k in (1760, 2560)),
        *((m, batch, k, form) for m, k in ((7680, 2560), (3072, 1024)) for batch in (16, 128) for form in "nt"),
        (3072, 7435, 1024, "s"), (512, 8, 500000, "n"), (512, 16, 500000, "t"), (1024, 700, 512, "n"),
        (1024, 700, 512, "t"), (6144, 16, 2048, "n"), (4608, 32, 1536, "n"), (8448, 32, 2816, "t"),
        (512, 16, 512, "n"), (1024, 32, 512, "s"),
    ),
    "inference": (
        *((m, n, k, "n") for n in (700, 1500) for m in (5124, 35) for k in (2048, 2560)),
        *((m, batch, k, "n") for m, k in ((7680, 2560), (3072, 1024), (6144, 2048)) for batch in (1, 2, 4)),
        (512, 1, 500000, "n"), (1024, 4, 500000, "n"), (7680, 1500, 2560, "n"), (3072, 1500, 1024, "n"),
        (512, 1500, 2816, "n"), (512, 1, 512, "n"), (1024, 4, 512, "n"),
        (64, 1, 1216, "n"), (128, 1500, 1280, "n"), (176, 1500, 1408, "n"), (4224, 1, 128, "n"),
    ),
}  # fmt: skip
_CONVOLUTION = (  # width, height, from, to, window, pad, stride; and the batch in training
    (700, 161, 1, 32, (20, 5), (0, 0), 2, 4), (341, 79, 32, 32, (10, 5), (0, 0), 2, 4),
    (480, 48, 1, 16, (3, 3), (1, 1), 1, 16), (240, 24, 16, 32, (3, 3), (1, 1), 1, 16),
    (120, 12, 32, 64, (3, 3), (1, 1), 1, 16), (60, 6, 64, 128, (3, 3), (1, 1), 1, 16),
    (108, 108, 3, 64, (3, 3), (1, 1), 2, 8), (54, 54, 64, 64, (3, 3), (1, 1), 1, 8),
    (27, 27, 128, 128, (3, 3), (1, 1), 1, 8), (14, 14, 128, 256, (3, 3), (1, 1), 1, 8),
    (7, 7, 256, 512, (3, 3), (1, 1), 1, 8), (224, 224, 3, 64, (3, 3), (1, 1), 1, 8),
    (112, 112, 64, 128, (3, 3), (1, 1), 1, 8), (56, 56, 128, 256, (3, 3), (1, 1), 1, 8),
    (28, 28, 256, 512, (3, 3), (1, 1), 1, 8), (14, 14, 512, 512, (3, 3), (1, 1), 1, 8),
    (7, 7, 512, 512, (3, 3), (1, 1), 1, 8), (224, 224, 3, 64, (7, 7), (3, 3), 2, 16),
    (28, 28, 192, 32, (5, 5), (2, 2), 1, 16), (28, 28, 192, 64, (1, 1), (0, 0), 1, 16),
    (14, 14, 512, 48, (5, 5), (2, 2), 1, 16), (7, 7, 832, 128, (5, 5), (2, 2), 1, 16),
    (56, 56, 64, 64, (3, 3), (1, 1), 1, 8), (56, 56, 64, 256, (1, 1), (0, 0), 2, 8),
    (28, 28, 128, 128, (3, 3), (1, 1), 1, 8), (14, 14, 256, 1024, (1, 1), (0, 0), 2, 8),
    (7, 7, 2048, 512, (1, 1), (3, 3), 2, 8), (350, 80, 64, 64, (3, 3), (1, 1), 1, 16),
    (175, 40, 128, 256, (5, 5), (1, 1), 2, 16), (56, 56, 256, 64, (1, 1), (0, 0), 1, 8),
    (28, 28, 512, 1024, (1, 1), (0, 0), 2, 8), (14, 14, 1024, 2048, (1, 1), (0, 0), 2, 8),
)  # fmt: skip
_RECURRENT = (  # kind, hidden, batch, steps
    *(("rnn", size, batch, 50) for size in (1760, 2560) for batch in (16, 128)),
    *(("lstm", size, batch, 25) for size in (512, 1024, 2048) for batch in (1, 4, 16, 128)),
    *(("lstm", 1536, batch, 50) for batch in (1, 16)),
    *(("lstm", 256, batch, 150) for batch in (1, 4, 16, 64)),
    *(("gru", size, batch, 187) for size in (1536, 2816) for batch in (1, 32)),
    ("gru", 512, 1, 1), ("gru", 512, 32, 1), ("gru", 1024, 1, 1500),
    ("rnn", 32, 1, 672), ("rnn", 64, 1, 96),
)  # fmt: skip
_ALL_REDUCE = (100000, 3097600, 4194304, 6553600, 16777217, 38360000, 64500000)
_HEADLINES = (
    "gemm-training-1760x128x1760", "gemm-inference-7680x1x2560", "conv-inference-56x56x128x256-3x3",
    "lstm-512-b1-t25",
)  # fmt: skip


def cases(scale: Scale = FULL) -> list[Case]:
    return headlines([*_products(scale), *_convolutions(scale), *_recurrent(scale), *_all_reduces(scale)], _HEADLINES)


def _products(scale: Scale) -> Iterator[Case]:
    for use, rows in _GEMM.items():
        for m, n, k, form in rows:
            graph, (sm, sn, sk) = Graph(), scale.all(m, n, k)
            a = graph.argument((sk, sm) if form == "t" else (sm, sk))
            b = graph.weights(*((sn, sk) if form == "s" else (sk, sn)))
            graph.add("matmul", a, b, transpose_a=form == "t", transpose_b=form == "s")
            name = f"gemm-{use}-{m}x{n}x{k}{'' if form == 'n' else '-ta' if form == 't' else '-tb'}"
            yield graph.case(SUITE, name, source="gemm_problems.h")


def _convolutions(scale: Scale) -> Iterator[Case]:
    for width, height, from_, to, window, pad, stride, batch in _CONVOLUTION:
        name = f"{width}x{height}x{from_}x{to}-{window[0]}x{window[1]}{f's{stride}' if stride > 1 else ''}"
        small, inner = tuple(map(scale, window)), {"stride": [stride, stride], "pad": list(pad)}
        sizes = [scale(size, least) for size, least in zip((width, height), small, strict=True)]
        for use, count in (("training", batch), ("inference", 1)):
            graph = Graph()
            x = graph.argument((scale(count), *sizes, scale(from_)))
            w = graph.weights(*small, scale(from_), scale(to))
            if use == "inference":
                graph.add("convolution", x, w, **inner)
            else:
                out = [(n + 2 * p - s) // stride + 1 for n, s, p in zip(sizes, small, pad, strict=True)]
                slope = graph.argument((scale(count), *out, scale(to)))
                forward = graph.add("convolution", x, w, **inner)
                back = graph.several(2, "convolution_gradients", x, w, slope, **inner)
                yield graph.case(SUITE, f"conv-training-{name}-b{count}", forward, *back, source="conv_problems.h")
                continue
            yield graph.case(SUITE, f"conv-inference-{name}", source="conv_problems.h")


def _recurrent(scale: Scale) -> Iterator[Case]:
    gates = {"rnn": 1, "lstm": 4, "gru": 3}
    for kind, hidden, batch, steps in _RECURRENT:
        graph, size = Graph(), scale(hidden)
        x = graph.argument((scale(steps), scale(batch), size))
        w, r = (graph.weights(size, gates[kind] * size) for _ in range(2))
        biases = [graph.argument((gates[kind] * size,)) for _ in range(2 if kind == "gru" else 1)]
        graph.add(kind, x, w, r, *biases)
        yield graph.case(SUITE, f"{kind}-{hidden}-b{batch}-t{steps}", source="rnn_problems.h")


def _all_reduces(scale: Scale) -> Iterator[Case]:
    for size in _ALL_REDUCE:
        for devices in (2, 4):
            graph = Graph()
            graph.add("all_reduce", graph.argument((scale(size),)), devices=devices)
            yield graph.case(
                SUITE, f"all-reduce-{size}-on-{devices}", source="all_reduce_problems.h", devices=devices
            )  # fmt: skip
