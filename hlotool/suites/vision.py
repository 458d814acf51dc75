"""Blocks of networks for images, for inference, with the statistics of their normalisations folded into no weights.

ResNet-50 (He et al. 2016) in its blocks and as a whole, VGG-16 (Simonyan and Zisserman 2014), MobileNet v2 (Sandler et
al. 2018), the patches and a layer of ViT-B/16 (Dosovitskiy et al. 2021), ConvNeXt-T (Liu et al. 2022).
"""

from __future__ import annotations

from collections.abc import Iterator

from hlotool.suites.case import FULL, Case, Graph, Scale, headlines

__all__ = ["bottleneck", "cases", "conv_norm", "resnet50_stages", "transformer_layer"]

SUITE = "vision"
_HEADLINES = ("resnet50-b1", "mobilenet-block-14x96-b1")


def cases(scale: Scale = FULL) -> list[Case]:
    return headlines(list(_cases(scale)), _HEADLINES)


def _cases(scale: Scale) -> Iterator[Case]:
    for batch in (1, 8):
        for size, inner, stride in ((56, 64, 1), (56, 128, 2), (28, 128, 1), (14, 256, 1), (7, 512, 1)):
            graph = Graph()
            width = scale(4 * inner if stride == 1 else 2 * inner)
            x = graph.argument((scale(batch), scale(size), scale(size), width))
            bottleneck(graph, x, width, scale(inner), width if stride == 1 else scale(4 * inner), stride)
            name = f"resnet50-block-{size}x{4 * inner}{'s2' if stride > 1 else ''}-b{batch}"
            yield graph.case(SUITE, name, source="He et al. 2016, table 1")
        yield _resnet(scale, batch)
        for size, from_, to, count in ((224, 3, 64, 2), (56, 128, 256, 3), (14, 512, 512, 3)):
            yield _vgg(scale, size, from_, to, count, batch)
        for size, from_, to, stride in ((112, 16, 24, 2), (56, 24, 24, 1), (14, 96, 96, 1), (7, 160, 320, 1)):
            yield _mobilenet(scale, size, from_, to, stride, batch)
        yield _patches(scale, batch)
        yield _vit_layer(scale, batch)
        yield _convnext(scale, batch)


def conv_norm(
    graph: Graph, x: str, from_: int, to: int, window: int, stride: int = 1, groups: int = 1, relu: bool = True
) -> str:
    """A square convolution that keeps the size (over the stride), a normalisation, a ReLU."""
    each, pad = from_ // groups, window // 2
    w = graph.weights(window, window, each, to)
    x = graph.add("convolution", x, w, stride=[stride] * 2, pad=[pad] * 2, groups=groups)
    statistics = [graph.argument((to,), values) for values in ("positive", "normal", "normal", "positive")]
    x = graph.add("batch_norm", x, *statistics)
    return graph.add("relu", x) if relu else x


def bottleneck(graph: Graph, x: str, from_: int, inner: int, to: int, stride: int) -> str:
    """ResNet's block of 1x1, 3x3 and 1x1, with a projection where sizes change."""
    shortcut = x if from_ == to and stride == 1 else conv_norm(graph, x, from_, to, 1, stride, relu=False)
    h = conv_norm(graph, x, from_, inner, 1)
    h = conv_norm(graph, h, inner, inner, 3, stride)
    return graph.add("relu", graph.add("add", conv_norm(graph, h, inner, to, 1, relu=False), shortcut))


def resnet50_stages() -> tuple[tuple[int, int], ...]:
    """Blocks, and their inner features, of each of the four stages."""
    return ((3, 64), (4, 128), (6, 256), (3, 512))


def _resnet(scale: Scale, batch: int) -> Case:
    graph = Graph()
    x = graph.argument((scale(batch), scale(224, 32), scale(224, 32), 3))
    width = scale(64)
    x = conv_norm(graph, x, 3, width, 7, 2)
    x = graph.add("max_pool", x, window=[3, 3], stride=[2, 2], pad=[1, 1])
    for number, (blocks, inner) in enumerate(resnet50_stages()):
        for block in range(blocks):
            stride = 2 if block == 0 and number else 1
            x = bottleneck(graph, x, width, scale(inner), 4 * scale(inner), stride)
            width = 4 * scale(inner)
    x = graph.add("spatial_mean", x)
    classes = scale(1000)
    graph.add("linear", x, graph.weights(width, classes), graph.argument((classes,)))
    return graph.case(SUITE, f"resnet50-b{batch}", source="He et al. 2016, table 1")


def _vgg(scale: Scale, size: int, from_: int, to: int, count: int, batch: int) -> Case:
    graph, before, after = Graph(), scale(from_), scale(to)
    x = graph.argument((scale(batch), scale(size), scale(size), before))
    for _ in range(count):
        w = graph.weights(3, 3, before, after)
        x = graph.add("convolution", x, w, stride=[1, 1], pad=[1, 1])
        x = graph.add("relu", graph.add("add", x, graph.argument((after,))))
        before = after
    graph.add("max_pool", x, window=[2, 2], stride=[2, 2], pad=[0, 0])
    return graph.case(SUITE, f"vgg16-block-{size}x{to}-b{batch}", source="Simonyan and Zisserman 2014, table 1")


def _mobilenet(scale: Scale, size: int, from_: int, to: int, stride: int, batch: int) -> Case:
    """An inverted residual: 1x1 to six times the features, 3x3 of each feature, 1x1."""
    graph, before, after = Graph(), scale(from_), scale(to)
    wide = 6 * before
    x = graph.argument((scale(batch), scale(size), scale(size), before))
    h = conv_norm(graph, x, before, wide, 1)
    h = conv_norm(graph, h, wide, wide, 3, stride, groups=wide)
    h = conv_norm(graph, h, wide, after, 1, relu=False)
    if from_ == to and stride == 1:
        h = graph.add("add", h, x)
    return graph.case(SUITE, f"mobilenet-block-{size}x{to}-b{batch}", h, source="Sandler et al. 2018, table 2")


def _patches(scale: Scale, batch: int) -> Case:
    graph, to = Graph(), scale(768)
    x = graph.argument((scale(batch), scale(224, 32), scale(224, 32), 3))
    graph.add("convolution", x, graph.weights(16, 16, 3, to), stride=[16, 16], pad=[0, 0])
    return graph.case(SUITE, f"vit-patches-b{batch}", source="Dosovitskiy et al. 2021, ViT-B/16")


def _vit_layer(scale: Scale, batch: int) -> Case:
    graph = Graph()
    heads, size = scale(12), scale(64)
    x = graph.argument((scale(batch), scale(197), heads * size))
    transformer_layer(graph, x, heads, heads * size, scale(3072), first=True)
    return graph.case(SUITE, f"vit-layer-b{batch}", source="Dosovitskiy et al. 2021, ViT-B/16")


def transformer_layer(graph: Graph, x: str, heads: int, width: int, inner: int, first: bool) -> str:
    """Attention and two dense layers, with normalisations first, as in GPT, or last, as in BERT."""

    def linear(x: str, before: int, after: int) -> str:
        return graph.add("linear", x, graph.weights(before, after), graph.argument((after,)))

    def normal(x: str) -> str:
        return graph.add("layer_norm", x, graph.argument((width,), "positive"), graph.argument((width,)))

    h = normal(x) if first else x
    mixed = graph.add("attention", *(linear(h, width, width) for _ in range(3)), heads=heads)
    x = graph.add("add", x, linear(mixed, width, width))
    x = x if first else normal(x)
    h = graph.add("gelu", linear(normal(x) if first else x, width, inner))
    x = graph.add("add", x, linear(h, inner, width))
    return x if first else normal(x)


def _convnext(scale: Scale, batch: int) -> Case:
    graph, width = Graph(), scale(192)
    x = graph.argument((scale(batch), scale(28), scale(28), width))
    h = graph.add("convolution", x, graph.weights(7, 7, 1, width), stride=[1, 1], pad=[3, 3], groups=width)
    h = graph.add("layer_norm", h, graph.argument((width,), "positive"), graph.argument((width,)))
    h = graph.add("gelu", graph.add("linear", h, graph.weights(width, 4 * width), graph.argument((4 * width,))))
    h = graph.add("linear", h, graph.weights(4 * width, width), graph.argument((width,)))
    graph.add("add", x, graph.add("multiply", h, graph.argument((width,), "positive")))
    return graph.case(SUITE, f"convnext-block-b{batch}", source="Liu et al. 2022, ConvNeXt-T, second stage")
