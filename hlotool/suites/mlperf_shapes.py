"""Layers of the reference models of MLPerf Training and Inference (https://github.com/mlcommons/inference and
.../training), each at the sizes that its implementation there has.

ResNet-50, RetinaNet (ResNeXt-50, 800x800), 3D-UNet (KiTS19, 128 cubed), BERT-large (384 tokens), RNN-T (LibriSpeech),
DLRM (Criteo), GPT-J, Stable Diffusion's U-Net.  Tables of embeddings have a hundred thousand rows here, of up to forty
million.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hlotool.suites.case import FULL, Case, Graph, Scale, headlines
from hlotool.suites.vision import bottleneck, conv_norm, resnet50_stages, transformer_layer

__all__ = ["cases"]

SUITE = "mlperf-shapes"
_HEADLINES = ("bert-large-layer-s384", "dlrm-top-b256", "unet3d-level2")


def cases(scale: Scale = FULL) -> list[Case]:
    return headlines(list(_cases(scale)), _HEADLINES)


def _cases(scale: Scale) -> Iterator[Case]:
    yield from _resnet(scale)
    yield from _retinanet(scale)
    yield from _unet3d(scale)
    yield from _bert(scale)
    yield from _rnnt(scale)
    yield from _dlrm(scale)
    yield from _gptj(scale)
    yield from _diffusion(scale)


def _resnet(scale: Scale) -> Iterator[Case]:
    graph = Graph()
    x = graph.argument((1, scale(224, 8), scale(224, 8), 3))
    x = conv_norm(graph, x, 3, scale(64), 7, 2)
    graph.add("max_pool", x, window=[3, 3], stride=[2, 2], pad=[1, 1])
    yield graph.case(SUITE, "resnet50-stem", source="ResNet-50 v1.5")
    width = scale(64)
    for number, (_, inner) in enumerate(resnet50_stages()):
        graph, size = Graph(), 56 >> max(0, number - 1)
        x = graph.argument((1, scale(size), scale(size), width))
        bottleneck(graph, x, width, scale(inner), 4 * scale(inner), 2 if number else 1)
        yield graph.case(SUITE, f"resnet50-stage{number + 1}-first", source="ResNet-50 v1.5")
        width = 4 * scale(inner)


def _retinanet(scale: Scale) -> Iterator[Case]:
    """The grouped convolutions of its body, and its heads: four of 3x3, and one that gives boxes or classes."""
    graph, groups = Graph(), scale(32, 2)
    width = groups * scale(8, 2)
    x = graph.argument((1, scale(100), scale(100), 2 * width))
    h = conv_norm(graph, x, 2 * width, width, 1)
    h = conv_norm(graph, h, width, width, 3, groups=groups)
    graph.add("relu", graph.add("add", conv_norm(graph, h, width, 2 * width, 1, relu=False), x))
    yield graph.case(SUITE, "retinanet-resnext-block", source="RetinaNet, ResNeXt-50 32x4d, 800x800")
    for size in (100, 50, 13):
        for what, to in (("boxes", 9 * 4), ("classes", 9 * 264)):
            graph, width = Graph(), scale(256)
            x = graph.argument((1, scale(size), scale(size), width))
            for number in range(5):
                after = width if number < 4 else scale(to)
                w = graph.weights(3, 3, width, after)
                x = graph.add("convolution", x, w, stride=[1, 1], pad=[1, 1])
                x = graph.add("add", x, graph.argument((after,)))
                x = graph.add("relu", x) if number < 4 else x
            yield graph.case(SUITE, f"retinanet-{what}-{size}", source="RetinaNet, OpenImages, 264 classes")


def _unet3d(scale: Scale) -> Iterator[Case]:
    for level, width in enumerate((32, 64, 128, 256, 320)):
        graph, size, features = Graph(), scale(128 >> level), scale(width)
        before = scale(1 if level == 0 else width // 2 if level < 4 else 256)
        x = graph.argument((1, size, size, size, before))
        for _ in range(2):
            w = graph.weights(3, 3, 3, before, features)
            x = graph.add("convolution", x, w, stride=[1, 1, 1], pad=[1, 1, 1])
            gain, bias = graph.argument((features,), "positive"), graph.argument((features,))
            x = graph.add("relu", graph.add("add", graph.add("multiply", x, gain), bias))
            before = features
        yield graph.case(SUITE, f"unet3d-level{level}", source="3D-UNet, KiTS19, 128x128x128")


def _bert(scale: Scale) -> Iterator[Case]:
    heads, size = scale(16), scale(64)
    for rows, batch in ((384, 1), (128, 1), (384, 8)):
        graph = Graph()
        x = graph.argument((scale(batch), scale(rows), heads * size))
        transformer_layer(graph, x, heads, heads * size, scale(4096), first=False)
        name = f"bert-large-layer-s{rows}{f'-b{batch}' if batch > 1 else ''}"
        yield graph.case(SUITE, name, source="BERT-large, SQuAD")
    graph, words, width = Graph(), scale(30522), heads * size
    rows_ = graph.argument((1, scale(384)), f"below {words}", "s32")
    x = graph.add("take_rows", graph.argument((words, width)), rows_)
    x = graph.add("add", x, graph.argument((scale(384), width)))
    graph.add("layer_norm", x, graph.argument((width,), "positive"), graph.argument((width,)))
    yield graph.case(SUITE, "bert-large-embedding", source="BERT-large, SQuAD")


def _rnnt(scale: Scale) -> Iterator[Case]:
    """Layers of the encoder, whose second half sees two frames as one, of the predictor, and the joint network."""
    for name, steps, before, size, batch in (
        ("encoder-first", 128, 240, 1024, 1), ("encoder", 64, 2048, 1024, 1), ("encoder-b16", 64, 1024, 1024, 16),
        ("predictor", 1, 320, 320, 16),
    ):  # fmt: skip
        graph, hidden = Graph(), scale(size)
        x = graph.argument((scale(steps), scale(batch), scale(before)))
        graph.add("lstm", x, graph.weights(scale(before), 4 * hidden), graph.weights(hidden, 4 * hidden),
                  graph.argument((4 * hidden,)))  # fmt: skip
        yield graph.case(SUITE, f"rnnt-{name}", source="RNN-T, LibriSpeech")
    graph, width, inner, words = Graph(), scale(1344), scale(512), scale(29)
    x = graph.argument((scale(16), width))
    x = graph.add("relu", graph.add("linear", x, graph.weights(width, inner), graph.argument((inner,))))
    graph.add("linear", x, graph.weights(inner, words), graph.argument((words,)))
    yield graph.case(SUITE, "rnnt-joint", source="RNN-T, LibriSpeech")


def _dlrm(scale: Scale) -> Iterator[Case]:
    for batch in (1, 256, 2048):
        for part, sizes in (("bottom", (13, 512, 256, 128)), ("top", (479, 1024, 1024, 512, 256, 1))):
            graph = Graph()
            widths = [scale(size) for size in sizes]
            x = graph.argument((scale(batch), widths[0]))
            for number, (before, after) in enumerate(pairwise(widths)):
                x = graph.add("linear", x, graph.weights(before, after), graph.argument((after,)))
                last = part == "top" and number == len(widths) - 2
                x = graph.add("sigmoid" if last else "relu", x)
            yield graph.case(SUITE, f"dlrm-{part}-b{batch}", source="DLRM, Criteo Terabyte")
        graph, count, rows, width = Graph(), scale(26, 3), scale(100_000), scale(128)
        first = graph.argument((scale(batch), width))
        found = [
            graph.add("take_rows", graph.argument((rows, width)),
                      graph.argument((scale(batch),), f"below {rows}", "s32"))
            for _ in range(count)
        ]  # fmt: skip
        graph.add("interaction", first, *found)
        yield graph.case(SUITE, f"dlrm-interaction-b{batch}", source="DLRM, 26 tables of 128 features")


def _gptj(scale: Scale) -> Iterator[Case]:
    """6 billion parameters: the two halves of a layer are computed side by side; one token after 1024."""
    heads, size = scale(16), 2 * scale(128)
    graph, width, inner = Graph(), heads * size, scale(16384)
    x = graph.argument((1, 1, width))
    h = graph.add("layer_norm", x, graph.argument((width,), "positive"), graph.argument((width,)))
    q = graph.add("matmul", h, graph.weights(width, width))
    cache = [graph.argument((1, scale(1024), width)) for _ in range(2)]
    mixed = graph.add("matmul", graph.add("attention", q, *cache, heads=heads), graph.weights(width, width))
    wide = graph.add("gelu", graph.add("linear", h, graph.weights(width, inner), graph.argument((inner,))))
    out = graph.add("linear", wide, graph.weights(inner, width), graph.argument((width,)))
    graph.add("add", graph.add("add", x, mixed), out)
    yield graph.case(SUITE, "gptj-decode", source="GPT-J 6B")


def _diffusion(scale: Scale) -> Iterator[Case]:
    for size, width in ((64, 320), (32, 640)):
        graph, features = Graph(), scale(width)
        x = graph.argument((1, scale(size), scale(size), features))
        h = x
        for _ in range(2):
            h = graph.add("silu", graph.add("multiply", h, graph.argument((features,), "positive")))
            h = graph.add("convolution", h, graph.weights(3, 3, features, features), stride=[1, 1], pad=[1, 1])
        graph.add("add", x, h)
        yield graph.case(SUITE, f"diffusion-res-block-{size}", source="Stable Diffusion, U-Net")
    graph, heads, each = Graph(), scale(10), scale(64)
    q = graph.argument((1, scale(1024), heads * each))
    k, v = (graph.argument((1, scale(77), heads * each)) for _ in range(2))
    graph.add("attention", q, k, v, heads=heads)
    yield graph.case(SUITE, "diffusion-cross-attention", source="Stable Diffusion, U-Net, 77 words")
