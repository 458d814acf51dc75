"""Operations of PyTorch as hlotool lowers them, against eager ones."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch_graphs import run_lowered  # noqa: E402


def close(function: Any, *arguments: Any) -> None:
    wanted, found = function(*arguments), run_lowered(function, *arguments)
    torch.testing.assert_close(found, wanted, check_stride=True)


def test_types_are_promoted_as_pytorch_does() -> None:
    x = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    close(lambda a, b: a + b, x, torch.tensor(2.5))
    close(lambda a: a * 2.5, x)
    close(lambda a, b: torch.add(a, b, alpha=3), x, torch.ones(3, dtype=torch.int8))
    close(lambda a, b: a - b, x.to(torch.bfloat16), torch.tensor(2.5, dtype=torch.float64))


def test_memory_orders_stay() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    close(lambda a: torch.relu(a) * 2, x)
    close(lambda a: a.permute(0, 2, 3, 1).exp(), x)
    close(lambda a, b: a + b, x[:, :, ::2], torch.randn(2, 1, 1, 1).expand(2, 3, 2, 5))
