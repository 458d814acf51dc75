"""Recurrent layers of PyTorch: loops for inference, taken apart for training."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch_graphs import begin_anew  # noqa: E402

import hlotool.torch  # noqa: E402

LAYERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "lstm of two layers, both ways": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "lstm that projects": (nn.LSTM, {"proj_size": 5}),
    "lstm that projects, without bias": (nn.LSTM, {"proj_size": 5, "bias": False}),
    "lstm without bias": (nn.LSTM, {"bias": False}),
    "gru of two layers, both ways": (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    "gru without bias": (nn.GRU, {"bias": False}),
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu", "num_layers": 2, "batch_first": True}),
}


@pytest.fixture(autouse=True)
def fresh() -> None:
    begin_anew()


@pytest.mark.filterwarnings("ignore:The tensor attributes")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_loops(name: str) -> None:
    kind, options = LAYERS[name]
    layer, x = kind(6, 8, **options).eval(), torch.randn(7, 3, 6)
    compiled: Any = hlotool.torch.compile(layer, (x,))
    assert not compiled.graph.fallbacks
    module = compiled._origin[2].whole.lowered.module
    assert any(instruction.opcode == "while" for instruction in module.instructions())
    with torch.no_grad():
        wanted = layer(x)
    torch.testing.assert_close(compiled(x), wanted)


@pytest.mark.filterwarnings("ignore:The tensor attributes")
def test_states_of_the_caller_s() -> None:
    layer, x = nn.LSTM(6, 8).eval(), torch.randn(7, 3, 6)
    states = torch.randn(1, 3, 8), torch.randn(1, 3, 8)
    with torch.no_grad():
        wanted: Any = layer(x, states)
    torch.testing.assert_close(hlotool.torch.compile(layer, (x, states))(x, states), wanted)


@pytest.mark.parametrize(("kind", "grad"), [(nn.LSTM, False), (nn.GRU, False), (nn.GRU, True)])
def test_through_dynamo_where_it_takes_them(kind: Any, grad: bool) -> None:
    layer, x = kind(6, 8), torch.randn(4, 3, 6)
    with torch._dynamo.config.patch(allow_rnn=True), torch.set_grad_enabled(grad):
        found, wanted = torch.compile(layer, backend="hlotool")(x)[0], layer(x)[0]
        torch.testing.assert_close(found, wanted)
        if grad:
            ours = torch.autograd.grad(found.square().sum(), list(layer.parameters()))
            theirs = torch.autograd.grad(wanted.square().sum(), list(layer.parameters()))
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
