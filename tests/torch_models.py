"""Small models of the usual kinds, written with ``torch.nn`` alone, and arguments for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["MODELS", "training_step"]


class Block(nn.Module):
    """A residual block of a convolutional net."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm_one = nn.BatchNorm2d(outside)
        self.two = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm_two = nn.BatchNorm2d(outside)
        self.short = nn.Conv2d(inside, outside, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norm_one(self.one(x)))
        return torch.relu(self.norm_two(self.two(y)) + self.short(x))


def resnet(width: int = 8) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Block(width, width, 1), Block(width, 2 * width, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(2 * width, 10),
    )  # fmt: skip


class Attention(nn.Module):
    """Attention of several heads, and the layers around it."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projected, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.projected(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.wide(self.between(x))


class Transformer(nn.Module):
    """Tokens in, scores of tokens out: GPT if causal, BERT if not."""

    def __init__(self, causal: bool, width: int = 32, layers: int = 2, heads: int = 4, words: int = 50) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.layers = nn.ModuleList(Attention(width, heads, causal) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class ViT(nn.Module):
    """Pictures in patches."""

    def __init__(self, width: int = 32, patch: int = 8) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.layers = nn.Sequential(Attention(width, 4, False), Attention(width, 4, False))
        self.head = nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


class Sequence(nn.Module):
    """A recurrent net over a sequence, step by step."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(8, width), nn.Linear(width, 4)
        self.width = width

    def forward(self, x: Any) -> Any:
        h = c = x.new_zeros(x.shape[0], self.width)
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
        return self.head(h)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]] = {
    "mlp": (mlp, lambda: torch.randn(32, 13)),
    "resnet": (resnet, lambda: torch.randn(2, 3, 32, 32)),
    "bert": (lambda: Transformer(False), lambda: torch.randint(50, (2, 12))),
    "gpt": (lambda: Transformer(True), lambda: torch.randint(50, (2, 12))),
    "vit": (ViT, lambda: torch.randn(2, 3, 32, 32)),
    "lstm": (Sequence, lambda: torch.randn(3, 5, 8)),
}
"""By name: what makes the model, and what makes its argument."""


def training_step(model: Any, x: Any) -> tuple[Any, list[Any]]:
    """The loss of a batch, and the gradients of the model's parameters."""
    loss = model(x).square().mean()
    loss.backward()
    return loss.detach(), [p.grad for p in model.parameters()]
