"""Layers of language models: prefill of a prompt, and decoding of one token against a cache of keys and values.

Sizes are those of the published models: GPT-2 (Radford et al. 2019), Llama 3.2 1B and 3B and Llama 3.1 8B
(configurations of Meta, 2024).  A case is one layer, with its attention and its feed-forward part, in f32, in bf16, or
in f32 with weights of 8 bits and a scale for each column; and the product that gives the logits.
"""

from __future__ import annotations

from collections.abc import Iterator

from hlotool.lazy_dataclass import dataclass
from hlotool.suites.case import FULL, Case, Graph, Scale, headlines

__all__ = ["cases"]

SUITE = "llm"


@dataclass(frozen=True, slots=True)
class _Model:
    name: str
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    words: int
    source: str


_MODELS = (
    _Model("gpt2", 12, 12, 64, 3072, 50257, "GPT-2, 124 million parameters"),
    _Model("llama-1b", 32, 8, 64, 8192, 128256, "Llama 3.2 1B"),
    _Model("llama-3b", 24, 8, 128, 8192, 128256, "Llama 3.2 3B"),
    _Model("llama-8b", 32, 8, 128, 14336, 128256, "Llama 3.1 8B"),
)
_PREFILL, _CACHE = 128, 1024
_HEADLINES = ("gpt2-prefill-f32", "llama-1b-decode-f32", "llama-1b-decode-bf16", "llama-1b-decode-int8")


def cases(scale: Scale = FULL) -> list[Case]:
    return headlines(list(_cases(scale)), _HEADLINES)


def _cases(scale: Scale) -> Iterator[Case]:
    for model in _MODELS:
        for use in ("prefill", "decode"):
            for form in ("f32", "bf16", *(("int8",) if model.name != "gpt2" else ())):
                layer = _gpt_layer if model.name == "gpt2" else _llama_layer
                yield layer(_Layer(scale, model, use, form), f"{model.name}-{use}-{form}")
        yield _logits(_Layer(scale, model, "decode", "f32"), f"{model.name}-logits-f32")


class _Layer:
    """The parts that layers are made of, at a scale."""

    def __init__(self, scale: Scale, model: _Model, use: str, form: str) -> None:
        self.model, self.form, self.graph = model, form, Graph("bf16" if form == "bf16" else "f32")
        shared = model.heads // model.kv_heads
        self.kv_heads = scale(model.kv_heads, 2)
        self.heads, self.size = self.kv_heads * scale(shared), 2 * scale(model.head_size // 2)
        self.width, self.inner, self.words = self.heads * self.size, scale(model.inner), scale(model.words)
        self.rows = scale(_PREFILL) if use == "prefill" else 1
        self.seen = self.rows if use == "prefill" else scale(_CACHE)
        self.prefill = use == "prefill"

    def linear(self, x: str, before: int, after: int, bias: bool = False) -> str:
        if self.form == "int8":
            w = self.graph.argument((before, after), element="s8")
            scales = self.graph.argument((after,), f"scales {before}")
            return self.graph.add("linear_int8", x, w, scales)
        w = self.graph.weights(before, after)
        if bias:
            return self.graph.add("linear", x, w, self.graph.argument((after,)))
        return self.graph.add("matmul", x, w)

    def attention(self, q: str, k: str, v: str) -> str:
        """Over the rows themselves, or over a cache."""
        if not self.prefill:
            cache = (1, self.seen, self.kv_heads * self.size)
            k, v = self.graph.argument(cache), self.graph.argument(cache)
        return self.graph.add(
            "attention", q, k, v, heads=self.heads, kv_heads=self.kv_heads, causal=self.prefill
        )  # fmt: skip


def _gpt_layer(layer: _Layer, name: str) -> Case:
    graph, width = layer.graph, layer.width

    def normal(x: str) -> str:
        return graph.add("layer_norm", x, graph.argument((width,), "positive"), graph.argument((width,)))

    x = graph.argument((1, layer.rows, width))
    h = normal(x)
    q, k, v = (layer.linear(h, width, width, bias=True) for _ in range(3))
    mixed = layer.attention(q, k, v)
    x = graph.add("add", x, layer.linear(mixed, width, width, bias=True))
    wide = graph.add("gelu", layer.linear(normal(x), width, layer.inner, bias=True))
    x = graph.add("add", x, layer.linear(wide, layer.inner, width, bias=True))
    results = (x,) if layer.prefill else (x, k, v)
    return graph.case(SUITE, name, *results, source=layer.model.source)


def _llama_layer(layer: _Layer, name: str) -> Case:
    graph, width, kv = layer.graph, layer.width, layer.kv_heads * layer.size
    x = graph.argument((1, layer.rows, width))
    angles = [graph.argument((layer.rows, layer.size // 2)) for _ in range(2)]
    h = graph.add("rms_norm", x, graph.argument((width,), "positive"))
    q = graph.add("rope", layer.linear(h, width, width), *angles, heads=layer.heads)
    k = graph.add("rope", layer.linear(h, width, kv), *angles, heads=layer.kv_heads)
    v = layer.linear(h, width, kv)
    x = graph.add("add", x, layer.linear(layer.attention(q, k, v), width, width))
    h = graph.add("rms_norm", x, graph.argument((width,), "positive"))
    gate, up = (layer.linear(h, width, layer.inner) for _ in range(2))
    x = graph.add("add", x, layer.linear(graph.add("multiply", graph.add("silu", gate), up), layer.inner, width))
    results = (x,) if layer.prefill else (x, k, v)
    return graph.case(SUITE, name, *results, source=layer.model.source)


def _logits(layer: _Layer, name: str) -> Case:
    graph = layer.graph
    x = graph.argument((1, layer.width))
    scores = graph.add("matmul", x, graph.weights(layer.width, layer.words))
    return graph.case(SUITE, name, scores, graph.add("largest_place", scores), source=layer.model.source)
