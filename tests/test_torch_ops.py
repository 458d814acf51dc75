"""Operations of PyTorch as hlotool lowers them, against eager ones."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch_graphs import run_lowered  # noqa: E402

import hlotool.torch.ops  # noqa: E402, F401 - fills the table
from hlotool.torch.lowering import LOWERINGS  # noqa: E402


def close(function: Any, *arguments: Any) -> None:
    wanted, found = function(*arguments), run_lowered(function, *arguments)
    torch.testing.assert_close(found, wanted, check_stride=True, equal_nan=True)


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


NAMES = [
    "abs", "add", "addcmul", "angle", "arange", "as_strided", "atan2", "bitwise_and", "bitwise_left_shift",
    "bitwise_right_shift", "cat", "clamp", "copysign", "diag_embed", "diagonal", "diagonal_scatter",
    "div.floor_rounding", "div.trunc_rounding", "eq", "expand", "eye", "flip", "floor_divide", "fmax", "fmod",
    "full_like", "heaviside", "hypot", "isposinf", "lerp", "linspace", "log2", "logical_xor", "maximum", "pow",
    "remainder", "repeat", "roll", "round", "rsub", "select_scatter", "sgn", "sign", "signbit", "slice_scatter",
    "split", "stack", "tril", "unbind", "unfold", "view_as_real", "where", "xlogy",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_samples_of_pytorch(name: str) -> None:
    """Without decompositions: the lowering of each operation itself; `survey_torch_opinfo.py` does this for all."""
    database = pytest.importorskip(
        "torch.testing._internal.common_methods_invocations", reason="PyTorch's test data need expecttest"
    )
    from survey_torch_opinfo import cases, same

    (op,) = [o for o in database.op_db if name == o.name + (f".{o.variant_test_name}" if o.variant_test_name else "")]
    tried = 0
    for dtype in (torch.float32, torch.int64, torch.bfloat16, torch.complex64):
        if dtype not in op.supported_dtypes("cpu"):
            continue
        for function, tensors in cases(op, dtype, 2, False):
            wanted = function(*tensors)
            assert same(run_lowered(function, *tensors), wanted) is None, (dtype, [t.shape for t in tensors])
            tried += 1
    assert tried


def test_steps_between_tensors_are_between_what_the_result_can_hold() -> None:
    """Of integers: both ends are cut before there are steps, and what is below zero wraps."""
    types, counts = (torch.uint8, torch.int8, torch.int64, torch.float32), (0, 1, 2, 3, 50)

    def every(low: Any, high: Any) -> Any:
        ends = ((low, high), (low, 2.9), (4, high))
        return [torch.linspace(*both, steps=n, dtype=dtype) for both in ends for dtype in types for n in counts]

    close(every, torch.tensor(4.3), torch.tensor(-3))


def test_what_is_not_a_number_and_what_is_infinite() -> None:
    x = torch.tensor([0.0, -0.0, 1.5, -2.5, float("inf"), -float("inf"), float("nan")])
    for function in (torch.sign, torch.signbit, torch.trunc, torch.round, torch.isnan, torch.isinf, torch.relu):
        close(function, x)
    y = x.flip(0)
    for function in (torch.maximum, torch.fmax, torch.remainder, torch.fmod, torch.floor_divide, torch.copysign):
        close(function, x, y)
    close(lambda a: torch.clamp(a, -1, 1), x)


def test_integers_wrap_as_in_c() -> None:
    x = torch.tensor([300, -1, 127, -129])
    close(lambda a: a.to(torch.uint8), x)
    close(lambda a: a.to(torch.int8), x)
    close(lambda a, b: a**b, torch.tensor([2, -1, 1, 5]), torch.tensor([3, -3, -2, 0]))


def test_float_to_narrow_integers_goes_through_wide_ones() -> None:
    close(lambda a: a.to(torch.uint8), torch.tensor([300.0, -1.0, 255.5]))


def test_numbers_beside_narrow_floats_are_rounded_as_in_eager() -> None:
    """Multiplied and divided by as they are, and of the tensor's type elsewhere."""
    torch.manual_seed(0)
    functions = [
        lambda x, y: x * 0.1, lambda x, y: x / 3, lambda x, y: x + 1e-3, lambda x, y: 1.1 - x, lambda x, y: x - 0.1,
        lambda x, y: torch.add(x, y, alpha=0.3), lambda x, y: torch.rsub(x, 2.3, alpha=0.7), lambda x, y: x % 0.3,
        lambda x, y: torch.fmod(x, 0.3), lambda x, y: x.abs() ** 0.3, lambda x, y: x + torch.tensor(0.1),
        lambda x, y: torch.addcmul(x, y, x, value=0.3), lambda x, y: torch.floor_divide(x, 0.1),
    ]  # fmt: skip
    for dtype in (torch.bfloat16, torch.float16):
        x, y = (torch.randn(4096).to(dtype) for _ in range(2))
        for number, function in enumerate(functions):
            found = run_lowered(function, x, y)
            assert torch.equal(found, function(x, y)), (dtype, number)


def test_conjugates_of_numbers() -> None:
    """The gradient of a quotient has them."""
    grad = torch.randn(3, dtype=torch.complex64)
    x = torch.randn(3, dtype=torch.complex64, requires_grad=True)
    found = torch.compile(lambda a: a / (1 + 2j), backend="hlotool")(x)
    torch.testing.assert_close(torch.autograd.grad(found, x, grad), torch.autograd.grad(x / (1 + 2j), x, grad))


def test_lowerings_take_the_names_of_their_schemas() -> None:
    """Those of this version of PyTorch, which change from one to the next."""
    wrong = {}
    for name, function in LOWERINGS.items():
        if "." not in name:  # of an operation that is given functions, which has none
            continue
        space, operation, overload = name.split(".")
        found = getattr(getattr(getattr(torch.ops, space), operation, None), overload, None)
        if found is None:  # of another version
            continue
        parameters = inspect.signature(function).parameters
        given = {argument.name for argument in found._schema.arguments}
        plain = {n: p for n, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD and n != "c"}
        needed = {n for n, p in plain.items() if p.default is p.empty}
        if not needed <= given:
            wrong[name] = needed - given
    assert not wrong
