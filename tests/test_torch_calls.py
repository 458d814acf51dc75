"""Calls of compiled modules and graphs of PyTorch: whose memory, which tensors, other sizes, copies, threads."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402
from torch_graphs import begin_anew  # noqa: E402

import hlotool.torch  # noqa: E402
from hlotool.ir import InputError  # noqa: E402
from hlotool.torch import call, fastcall  # noqa: E402
from hlotool.torch.record import reports  # noqa: E402

close = torch.testing.assert_close


@pytest.fixture(autouse=True)
def fresh() -> None:
    begin_anew()


@pytest.fixture(params=["short", "numpy"])
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways from tensors into the code."""
    if request.param == "numpy":
        monkeypatch.setattr(fastcall, "usable", lambda executable: False)
    return str(request.param)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def backend(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="hlotool", **options)


def direct(function: Any, *examples: Any) -> Any:
    return hlotool.torch.compile(function, examples)


# ---- tensors as they come


def test_the_short_way_is_there() -> None:
    """This version of PyTorch has what it needs."""
    compiled = direct(mlp(), torch.randn(5, 4))
    assert fastcall.usable(compiled._origin[2].whole.executable)


def test_views_of_other_memory(way: str) -> None:
    def f(x: Any) -> Any:
        return x * 2 + 1

    given = [
        torch.randn(4, 5).t(), torch.randn(10, 8)[::2, ::2], torch.randn(1, 4).expand(5, 4),
        torch.randn(21)[1:].view(5, 4), torch.randn(5, 4, dtype=torch.complex64).conj().imag,
    ]  # fmt: skip
    ours = [direct(f, torch.randn(5, 4)), backend(f)]
    for function in ours:
        for x in given:
            close(function(x), f(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int8])
def test_types_and_empty_tensors(way: str, dtype: Any) -> None:
    x = torch.ones(3, 5).to(dtype)
    for example in (x, x[:0], x[0, 0]):
        close(direct(lambda a: a.t() if a.dim() else a, example)(example), example.t() if example.dim() else example)


def test_large_results(way: str) -> None:
    """Those in recycled memory, in another order than row-major, too."""
    x = torch.randn(700, 900)
    assert 4 * x.numel() > call._RECYCLED_BYTES
    for example in (x, x.bfloat16().repeat(2, 1), x.t()):
        function = direct(lambda a: a + 1, example)
        found = function(example)
        close(found, example + 1)
        assert found.stride() == (example + 1).stride()
        again = function(example)
        assert again.data_ptr() != found.data_ptr()


def test_conjugated_and_negated_gradients(way: str) -> None:
    def f(x: Any) -> Any:
        return x * x

    def loss(function: Any, x: Any) -> Any:
        y = function(x)
        return (torch.complex(y, y.detach()).conj() * 1j).real.sum()

    x = torch.randn(4, requires_grad=True)
    close(torch.autograd.grad(loss(backend(f), x), x), torch.autograd.grad(loss(f, x), x))


def test_batches_of_gradients() -> None:
    x = torch.randn(3, requires_grad=True)
    y = backend(lambda a: a * a)(x)
    (found,) = torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True)
    close(found, torch.diag(2 * x.detach()))


def test_within_vmap() -> None:
    def f(x: Any) -> Any:
        return (x * 2).sum()

    x = torch.randn(3, 4)
    close(torch.vmap(backend(f))(x), torch.vmap(f)(x))
    with pytest.raises(InputError, match=r"torch.func"):
        torch.vmap(direct(f, x[0]))(x)


def test_subclasses(way: str) -> None:
    class Own(torch.Tensor):
        pass

    x = torch.randn(3)
    function = direct(lambda a: a + 1, x)
    close(function(x.as_subclass(Own)), x + 1)
    close(function(nn.Parameter(x)), x + 1)
    two = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor(x, x)
    with pytest.raises(InputError, match="memory of its own, got a TwoTensor"):
        function(two)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("other", ["meta", "sparse", "double", "number", "longer", "nested", "mkldnn"])
def test_what_does_not_fit_is_refused(way: str, other: str) -> None:
    x = torch.randn(3)
    given = {
        "meta": x.to("meta"), "sparse": x.to_sparse(), "double": x.double(), "number": 3, "longer": torch.randn(4),
        "nested": torch.nested.nested_tensor([x, x]), "mkldnn": x.to_mkldnn(),
    }  # fmt: skip
    with pytest.raises(InputError, match="expected"):
        direct(lambda a: a + 1, x)(given[other])


# ---- memory that is written to


def test_written_arguments_that_share_memory_are_refused() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    function = direct(f, torch.randn(3), torch.randn(3))
    x = torch.arange(6.0)
    with pytest.raises(InputError, match="written to, and shares memory"):
        function(x[:3], x[1:4])
    with pytest.raises(InputError, match="written to, and shares memory"):
        function(x[:3], x[:3])
    close(x, torch.arange(6.0))
    close(function(x[:3], x[3:]), torch.tensor([3.0, 8.0, 15.0]))
    close(x, torch.tensor([1.0, 2.0, 3.0, 3.0, 4.0, 5.0]))


def test_statistics_of_a_batch_norm_are_the_module_s() -> None:
    eager = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    x = torch.randn(2, 3, 8, 8)
    own, theirs = copy.deepcopy(eager), copy.deepcopy(eager)
    functions = direct(own, x), backend(theirs)
    for _ in range(3):
        x = torch.randn(2, 3, 8, 8)
        wanted = eager(x)
        for function in functions:
            close(function(x), wanted, rtol=1e-4, atol=1e-4)
    for module in (own, theirs):
        close(dict(module.state_dict()), dict(eager.state_dict()))


# ---- modules that change


def test_states_are_those_of_the_call(way: str) -> None:
    module, x = mlp(), torch.randn(5, 4)
    function = direct(module, x)
    for assign in (False, True):
        module.load_state_dict(mlp().state_dict(), assign=assign)
        close(function(x), module(x))
    module[0].weight.data = torch.randn(4, 8).t()
    close(function(x), module(x))
    with torch.no_grad():
        module[0].weight.mul_(2)
    close(function(x), module(x))
    module.double()
    with pytest.raises(InputError, match=r"0\.weight: expected torch.float32"):
        function(x)


def test_parts_that_were_replaced_are_refused() -> None:
    module, x = mlp(), torch.randn(5, 4)
    function = direct(module, x)
    module[1] = nn.GELU()
    with pytest.raises(InputError, match="another 1 than when it was compiled"):
        function(x)


def test_copies_have_their_own_states() -> None:
    module, x = mlp(), torch.randn(5, 4)
    function = direct(module, x)
    other = copy.deepcopy(function)
    wanted = module(x)
    with torch.no_grad():
        module[0].weight.mul_(3)
    close(other(x), wanted)
    close(function(x), module(x))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(function)


# ---- modes, threads, memory


def test_modes(way: str) -> None:
    module, x = mlp(), torch.randn(5, 4)
    functions = direct(module, x), backend(module)
    with torch.inference_mode():
        inside = torch.randn(5, 4)
        for function in functions:
            assert function(x).is_inference()
            close(function(inside), module(inside))
    functions[1](x).sum().backward()
    assert module[0].weight.grad is not None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = functions[1](x)
        assert found.dtype == torch.bfloat16
        close(found, module(x), rtol=2e-2, atol=2e-2)


def test_threads_and_many_calls() -> None:
    module = mlp()
    functions = direct(module, torch.randn(5, 4)), backend(module)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        xs = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))
        with torch.no_grad():
            for _ in range(200):
                wrong.extend(f for f in functions if not torch.allclose(f(xs), module(xs), atol=1e-5))

    with torch.no_grad():
        functions[1](torch.randn(5, 4))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    x = torch.randn(5, 4)
    functions[1](x).sum().backward()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(2000):
        functions[0](x)
        functions[1](x).sum().backward()
    gc.collect()
    assert len(gc.get_objects()) < before + 200


# ---- sizes that vary


def test_sizes_within_bounds() -> None:
    batch = torch.export.Dim("batch", max=64)
    module = mlp()
    function = hlotool.torch.compile(module, (torch.randn(5, 4),), dynamic_shapes=({0: batch},))
    for size in (2, 64, 5, 2):
        x = torch.randn(size, 4)
        close(function(x), module(x))
    assert [graph.program.name.partition("for ")[2] for graph in reports()] == ["sizes [2]", "sizes [64]", "sizes [5]"]
    for wrong, message in (
        (torch.randn(65, 4), "dimension 0 is 65, the program is for 0 to 64"),
        (torch.randn(2, 5), "dimension 1 is 5, the program is for 4"),
        (torch.randn(4), "expected torch.float32 of 2 dimensions"),
        (7, "expected a tensor"),
    ):
        with pytest.raises(InputError, match=message):
            function(wrong)
    close(copy.deepcopy(function)(x), module(x))


def test_sizes_that_depend_on_each_other() -> None:
    batch = torch.export.Dim("batch", max=64)

    def f(x: Any, y: Any) -> Any:
        return x @ y.t() + x.shape[0]

    function = hlotool.torch.compile(
        f, (torch.randn(5, 4), torch.randn(10, 4)), dynamic_shapes=({0: batch}, {0: 2 * batch})
    )
    for size in (2, 3):
        x, y = torch.randn(size, 4), torch.randn(2 * size, 4)
        close(function(x, y), f(x, y))
    with pytest.raises(InputError, match="dimension 0 is 7, the program is for 6"):
        function(torch.randn(3, 4), torch.randn(7, 4))


def test_sizes_that_vary_in_training() -> None:
    module = mlp().train()
    function = backend(module, dynamic=True)
    for size in (2, 5, 3):
        x = torch.randn(size, 4)
        wanted = torch.autograd.grad(module(x).square().sum(), list(module.parameters()))
        close(torch.autograd.grad(function(x).square().sum(), list(module.parameters())), wanted)
    assert [g.program.name.split("[")[1] for g in reports()] == ["2]", "2]", "5]", "5]", "3]", "3]"]


def test_sizes_that_come_once_are_not_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that grows has another length each time: after some, one is compiled for when it has come often."""
    monkeypatch.setattr("hlotool.torch.program._AT_ONCE", 2)
    monkeypatch.setattr("hlotool.torch.program.fmean", lambda times: 1e-9)  # what comes twice has taken longer

    def f(x: Any) -> Any:
        return x.sin() @ x.mT + x.shape[0]

    function = backend(f, dynamic=True)
    for size in (2, 3, 4, 5, 4, 4, 2):
        x = torch.randn(size, 3)
        close(function(x), f(x))
    assert [g.program.name.partition("[")[2] for g in reports()] == ["2, 3]", "3, 3]", "", "4, 3]"]
    seldom = reports()[2]
    assert not seldom.program.compiled
    assert {row.reason for row in seldom.fallbacks} == {seldom.program.reason}


def test_checks_of_types_are_left_out() -> None:
    """``to`` has one beside it where a module is exported."""
    x = torch.ones(3)
    close(hlotool.torch.compile(lambda x: x.to(torch.float64) * 2, (x,))(x), torch.full((3,), 2.0, dtype=torch.float64))
    (graph,) = reports()
    assert not graph.fallbacks
