"""The ways from PyTorch into hlotool: ``torch.compile`` and `hlotool.torch.compile`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from conftest import environment

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch_graphs import begin_anew  # noqa: E402

import hlotool.torch  # noqa: E402
from hlotool.ir import InputError, UnsupportedError  # noqa: E402
from hlotool.torch import program  # noqa: E402
from hlotool.torch.record import reports  # noqa: E402


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew()
    monkeypatch.delenv("HLOTOOL_FALLBACK", raising=False)


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="hlotool", **options)


# ---- torch.compile


def test_the_backend_is_known_by_name() -> None:
    assert "hlotool" in torch._dynamo.list_backends()


def test_gradients_are_those_of_eager() -> None:
    def f(x: Any, y: Any) -> Any:
        return (torch.relu(x * y + 2).exp().permute(1, 0) / 3).sum(0)

    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    wanted = torch.autograd.grad(f(x, y).sum(), (x, y))
    found = torch.autograd.grad(compiled(f)(x, y).sum(), (x, y))
    torch.testing.assert_close(found, wanted)
    assert [graph.program.name.split()[0] for graph in reports()] == ["forward", "backward"]


def test_memory_orders_of_results_are_those_of_eager() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    found = compiled(lambda a: (a * 2, a.permute(0, 2, 3, 1) + 1))(x)
    assert [t.stride() for t in found] == [(x * 2).stride(), (x.permute(0, 2, 3, 1) + 1).stride()]
    torch.testing.assert_close(found, (x * 2, x.permute(0, 2, 3, 1) + 1))


def test_arguments_that_are_written_to_are_changed() -> None:
    def f(x: Any) -> Any:
        x.add_(1)
        x[1:].mul_(2)
        return x * 3

    x, own = torch.randn(4), torch.zeros(4)
    own.copy_(x)
    torch.testing.assert_close(compiled(f)(own), f(x))
    torch.testing.assert_close(own, x)


def test_results_that_are_views_of_arguments_share_their_memory() -> None:
    x = torch.randn(3, 4)
    view, same = compiled(lambda a: (a.t()[1:], a))(x)
    assert same.data_ptr() == x.data_ptr()
    view.fill_(7)
    assert (x[:, 1:] == 7).all()


def test_other_sizes_are_compiled_when_they_come() -> None:
    f = compiled(lambda x: (x * x.shape[0]).sum(1))
    for rows in (2, 3, 5, 3):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(f(x), (x * rows).sum(1))
    names = [graph.program.name for graph in reports()]
    assert len(names) == 3  # the first one, and symbols for others: 5 after 3
    assert names[-1].endswith("[5]")


def test_arguments_in_other_memory_are_copied() -> None:
    f = compiled(lambda x, y: x + y)
    wide = torch.randn(8, 6)
    torch.testing.assert_close(f(wide[::2, ::3], torch.ones(1).expand(4, 2)), wide[::2, ::3] + 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64, torch.bool, torch.uint8])
def test_types_that_numpy_lacks_enter_and_leave(dtype: Any) -> None:
    x = torch.randint(0, 2, (3, 4)).to(dtype)
    found, turned = compiled(lambda a: (torch.where(a == 0, a, a * a), a.t().clone()))(x)
    torch.testing.assert_close((found, turned), (x * x, x.t()))


def test_float8_enters_and_leaves() -> None:
    x = torch.randn(3, 4)
    found = compiled(lambda a: a.to(torch.float8_e4m3fn))(x)
    assert found.dtype == torch.float8_e4m3fn
    assert torch.equal(found.float(), x.to(torch.float8_e4m3fn).float())
    torch.testing.assert_close(compiled(lambda a: a.float() + 1)(found), found.float() + 1)


def test_conjugate_views_come_with_their_values() -> None:
    x = torch.randn(3, dtype=torch.complex64).conj()
    torch.testing.assert_close(compiled(lambda a: a * 2)(x), x * 2)


def test_random_numbers_are_those_of_eager(capfd: pytest.CaptureFixture[str]) -> None:
    """They are drawn by PyTorch's own generator, with the rest compiled around."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    own = compiled(model)
    for _ in range(2):
        torch.manual_seed(3)
        wanted = model(x)
        torch.manual_seed(3)
        torch.testing.assert_close(own(x), wanted)
    assert "bernoulli" in capfd.readouterr().err


def test_no_gradient_graph_breaks_or_recompiles() -> None:
    f = compiled(torch.nn.Linear(3, 2))
    for _ in range(5):
        f(torch.randn(4, 3))
    assert len(reports()) == 1


def test_equal_graphs_are_compiled_once() -> None:
    program._EXECUTABLES.clear()
    x = torch.randn(5, 7)
    for _ in range(3):
        torch._dynamo.reset()
        compiled(lambda a: a.exp() * 2 + 1)(x)
    assert len(reports()) == 3
    assert len(program._EXECUTABLES) == 1


# ---- what falls back


def halves(x: Any) -> Any:
    """An operation in the middle that has no lowering."""
    return torch.special.airy_ai(x * 2) + torch.sin(x)


def test_what_has_no_lowering_runs_eagerly_and_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.rand(5)
    torch.testing.assert_close(compiled(halves)(x), halves(x))
    said = capfd.readouterr().err
    assert "1 x aten.special_airy_ai.default" in said
    assert "test_torch_bridge.py" in said
    assert "it runs eagerly" in said
    text = str(hlotool.torch.explain())
    assert "3 of 4 ops in 2 clusters; 1 falls back" in text
    assert "no lowering" in text
    (graph,) = hlotool.torch.explain()
    (fallback,) = graph.fallbacks
    assert fallback.count == 1
    line = halves.__code__.co_firstlineno + 2
    assert fallback.where == (f"{__file__}:{line}",)
    assert hlotool.torch.explain().as_json()[0]["fallbacks"][0]["operation"] == "aten.special_airy_ai.default"


def test_fallbacks_can_be_silent_or_errors(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    compiled(halves)(torch.rand(3))
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")
    torch._dynamo.reset()
    with pytest.raises(Exception, match="airy_ai") as caught:
        compiled(halves)(torch.rand(3))
    chain: list[BaseException | None] = [caught.value]
    while chain[-1] is not None:
        chain.append(chain[-1].__cause__)
    assert any(isinstance(one, UnsupportedError) for one in chain) or "UnsupportedError" in str(caught.value)


def test_sizes_that_follow_from_values_run_eagerly() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        x = torch.tensor([1.0, 0.0, 2.0])
        torch.testing.assert_close(compiled(lambda a: torch.nonzero(a * 2) + 1)(x), torch.nonzero(x) + 1)


def test_sparse_tensors_are_refused_with_a_reason() -> None:
    dense = torch.eye(3)
    f = hlotool.torch.compile(lambda x: x * 2, (dense,))
    with pytest.raises(InputError, match="expected a dense tensor of the CPU"):
        f(dense.to_sparse())


# ---- hlotool.torch.compile


class Counting(torch.nn.Module):
    """Has parameters, a buffer that it changes, and arguments of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any, scale: float = 1.0, *, more: Any = None) -> Any:
        self.calls.add_(1)
        y = self.linear(x) * scale
        return {"y": y if more is None else y + more[0], "x": x}


def test_trees_of_arguments_and_results() -> None:
    model, x = Counting().eval(), torch.randn(3, 4)
    f = hlotool.torch.compile(model, (x, 2.0), {"more": [torch.ones(2)]})
    found = f(x, 2.0, more=[torch.full((2,), 5.0)])
    assert found["x"] is x
    torch.testing.assert_close(found["y"], model.linear(x) * 2 + 5)
    assert model.calls.item() == 1
    assert not found["y"].requires_grad


def test_parameters_are_those_of_the_module() -> None:
    model, x = torch.nn.Linear(4, 2).eval(), torch.randn(3, 4)
    f = hlotool.torch.compile(model, (x,))
    torch.testing.assert_close(f(x), model(x).detach())
    with torch.no_grad():
        model.weight.mul_(2)  # in its place
    torch.testing.assert_close(f(x), model(x).detach())
    model.weight.data = torch.randn(2, 4)  # in another
    torch.testing.assert_close(f(x), model(x).detach())
    model.bias = torch.nn.Parameter(torch.randn(2))
    torch.testing.assert_close(f(x), model(x).detach())
    f.load_state_dict({name: torch.zeros_like(value) for name, value in model.state_dict().items()})
    assert (f(x) == 0).all()
    assert list(f.state_dict()) == ["weight", "bias"]
    model.double()
    with pytest.raises(InputError, match=r"weight: expected torch\.float32"):
        f(x)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((torch.ones(2, 4),), {}, r"x: expected torch.float32 of sizes \[3, 4\], got torch.float32 of sizes \[2, 4\]"),
        ((torch.ones(3, 4).double(),), {}, r"x: expected torch.float32 of .*, got torch.float64"),
        ((5,), {}, r"x: expected a tensor, .*, got a int"),
        ((), {}, r"arguments: expected 1 argument, got 0 arguments"),
        ((torch.ones(3, 4), 1), {}, r"arguments: expected 1 argument, got 2 arguments"),
        ((torch.ones(3, 4, device="meta"),), {}, r"x: expected a dense tensor of the CPU, got one of meta"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: Any, options: Any, message: str) -> None:
    f = hlotool.torch.compile(torch.nn.Linear(4, 2).eval(), (torch.ones(3, 4),))
    inner = message.replace("x: ", "input: ", 1)
    with pytest.raises(InputError, match=inner):
        f(*arguments, **options)


def test_numbers_are_part_of_the_program() -> None:
    f = hlotool.torch.compile(lambda x, n: x * n, (torch.ones(3), 2))
    assert f(torch.ones(3), 2).tolist() == [2, 2, 2]
    with pytest.raises(InputError, match="2 is part of the compiled program, got 3"):
        f(torch.ones(3), 3)


def test_what_cannot_be_exported_is_refused() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(InputError, match="PyTorch cannot export f"):
        hlotool.torch.compile(f, (torch.ones(3),))
    with pytest.raises(InputError, match="expected a tuple of arguments, not a Tensor"):
        hlotool.torch.compile(f, torch.ones(3))


def test_parts_that_fall_back_work_there_too() -> None:
    x = torch.rand(4)
    f = hlotool.torch.compile(halves, (x,))
    torch.testing.assert_close(f(x), halves(x))
    assert "1 falls back" in repr(f)


def test_arguments_are_not_copied() -> None:
    """What a call returns lies in memory of its own, arguments are read where they are."""
    x = torch.zeros(1 << 16)
    f = hlotool.torch.compile(lambda a: a + 1, (x,))
    first = f(x)
    x.fill_(5)
    second = f(x)
    assert (first == 1).all()
    assert (second == 6).all()


@pytest.mark.parametrize("function", [lambda x: x.sum().item() * 2, lambda x: x.clamp(max=x.mean().item())])
def test_numbers_that_are_known_only_when_it_runs(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is computed with a number out of a tensor runs eagerly, where PyTorch keeps that in the graph."""
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    torch._dynamo.reset()
    x = torch.tensor([1.0, 2.0, 5.0])
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        found = torch.compile(function, backend="hlotool")(x)
    torch.testing.assert_close(found, function(x))


# ---- without PyTorch


def test_importing_is_light_and_a_missing_torch_is_named() -> None:
    program = """import sys
import hlotool.torch
print(sorted({"torch", "numpy", "llvmlite"} & set(sys.modules)))
sys.modules["torch"] = None
try: hlotool.torch.compile(abs)
except ImportError as error: print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment(), check=True
    )
    assert done.stdout.splitlines() == ["[]", "hlotool.torch needs PyTorch: pip install 'hlotool[torch]'"]
