"""``hlotool.jax.jit``: results as jax gives them, alone and under transformations; caching; what bad use is told."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import environment

jax = pytest.importorskip("jax", reason="jax is not installed: pip install 'hlotool[jax]'")

import jax.numpy as jnp  # noqa: E402

import hlotool.jax  # noqa: E402
from hlotool.ir import InputError, UnsupportedError  # noqa: E402
from hlotool.jax.record import PROGRAMS  # noqa: E402

jit = hlotool.jax.jit


@pytest.fixture(autouse=True)
def _fresh_record(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")  # a test that wants another way says so
    PROGRAMS.clear()
    yield
    PROGRAMS.clear()


def same(found: Any, wanted: Any, bound: float = 1e-5) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.shape(one) == np.shape(other)
        assert one.dtype == other.dtype
        if one.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(
                np.asarray(one, np.complex128), np.asarray(other, np.complex128), rtol=bound, atol=bound
            )


def mlp(weights: Any, x: Any) -> Any:
    for layer in weights[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ weights[-1]["w"] + weights[-1]["b"]


def loss(weights: Any, x: Any, y: Any) -> Any:
    return jnp.mean((mlp(weights, x) - y) ** 2)


def mlp_arguments() -> tuple[Any, Any, Any]:
    random = np.random.default_rng(0)
    sizes = [(5, 16), (16, 16), (16, 1)]
    weights = [
        {"w": random.normal(size=size).astype("f4") * 0.3, "b": np.zeros(size[1], np.float32)} for size in sizes
    ]
    return weights, random.normal(size=(8, 5)).astype("f4"), random.normal(size=(8, 1)).astype("f4")


def test_trees_go_in_and_come_out_as_numpy() -> None:
    arguments = mlp_arguments()
    step = jit(jax.value_and_grad(loss))
    for _ in range(3):
        found = step(*arguments)
        assert all(type(leaf) is np.ndarray for leaf in jax.tree.leaves(found))
        same(found, jax.value_and_grad(loss)(*arguments))
    same(step(*jax.tree.map(jnp.asarray, arguments)), jax.value_and_grad(loss)(*arguments))


class Pair(NamedTuple):
    first: Any
    second: Any


def test_structures_of_all_kinds() -> None:
    function = jit(lambda pair, *rest, scale: {"b": Pair(pair.second, None), "a": [rest[0] * scale, (rest[1],)]})
    found = function(Pair(np.float32(1), np.arange(3)), 2.0, True, scale=np.ones(2, np.float32))
    assert found["b"].second is None
    same(found["a"], [np.full(2, 2, np.float32), (np.array(True),)])
    assert jit(lambda: jnp.zeros(3))().shape == (3,)
    assert jit(lambda x: ())(1.0) == ()


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64", "int4", "float8_e5m2"],
)
def test_types(dtype: str) -> None:
    x = jnp.asarray(np.arange(5) % 2, dtype)

    def function(x: Any) -> Any:
        return x + x, x[::-1]

    same(jit(function)(np.asarray(x)), jax.jit(function)(x), 1e-3)
    same(jit(function)(x), jax.jit(function)(x), 1e-3)
    same(jax.jit(jit(function))(x), jax.jit(function)(x), 1e-3)


@pytest.mark.parametrize("value", [True, 3, 2.5, 1 + 2j, np.float64(2), np.int8(3), np.arange(4), np.ones(3)[::-1]])
def test_values_are_converted_as_jax_converts_them(value: Any) -> None:
    half = np.float16(1.5)  # tells weak types from others
    same(jit(lambda x, h: (x * h, x))(value, half), jax.jit(lambda x, h: (x * h, x))(value, half))


def test_subnormal_numbers_are_zeros_in_arithmetic_as_in_jax() -> None:
    def f(x: Any) -> Any:
        return x + x, x[::-1]

    tiny = np.full(5, 1e-39, np.float32)
    added, moved = hlotool.jax.jit(f)(tiny)
    wanted = jax.jit(f)(tiny)
    assert not np.any(added)
    assert not np.any(wanted[0])
    assert np.all(moved == tiny)
    assert np.all(wanted[1] == tiny)


def test_numbers_that_do_not_fit_are_refused_with_the_place() -> None:
    with pytest.raises(OverflowError) as caught:
        jit(lambda x: x + 1)(2**40)
    assert "test_jax_jit.py" in "".join(caught.value.__notes__)


def test_modes_of_jax_are_part_of_the_program() -> None:
    function = jit(lambda x: x + jnp.zeros(2))
    x = np.ones(2)
    assert function(x).dtype == np.float32
    with jax.enable_x64(True):
        assert function(x).dtype == np.float64
        assert function(x).dtype == np.float64
    assert function(x).dtype == np.float32
    with jax.numpy_dtype_promotion("strict"), pytest.raises(Exception, match="promotion"):
        jit(lambda x, y: x + y)(np.ones(2, np.float32), np.ones(2, np.int32))


def test_programs_are_made_once_for_what_they_depend_on() -> None:
    traces = []

    @partial(jit, static_argnums=(1,), static_argnames=("mode",))
    def function(x: Any, count: int, mode: str = "a") -> Any:
        traces.append((x.shape, count, mode))
        return x * count if mode == "a" else x - count

    x = np.ones(3, np.float32)
    for _ in range(3):
        assert function(x, 2)[0] == 2
        assert function(x, 3)[0] == 3
        assert function(x, 3, mode="b")[0] == -2
        assert function(x[:2], 2).shape == (2,)
    assert len(traces) == 4
    function.clear_cache()  # type: ignore[attr-defined]
    function(x, 2)
    assert len(traces) == 5


def test_static_names_and_numbers_stand_for_each_other() -> None:
    by_name = jit(lambda x, n: x**n, static_argnames="n")
    assert by_name(2.0, 3) == by_name(2.0, n=3) == 8
    by_number = jit(lambda x, n: x**n, static_argnums=-1)
    assert by_number(2.0, 3) == by_number(2.0, n=3) == 8


def test_methods_and_partial_functions() -> None:
    class Model:
        scale = 3.0

        @partial(jit, static_argnums=0)
        def apply(self, x: Any) -> Any:
            return x * self.scale

    assert Model().apply(2.0) == 6
    assert jit(partial(lambda a, b: a - b, 5.0))(2.0) == 3


def test_donated_arrays_hold_results() -> None:
    @partial(jit, donate_argnums=0)
    def function(state: Any, x: Any) -> Any:
        return {"v": state["v"] * 2 + x}

    for _ in range(3):
        state, x = {"v": np.ones(1000, np.float32)}, np.ones(1000, np.float32)
        found = function(state, x)
        assert found["v"] is state["v"]
        assert found["v"][0] == 3
        assert x[0] == 1
    before = jnp.ones(1000)
    assert function({"v": before}, x)["v"][0] == 3
    assert before[0] == 1  # an array of JAX is nobody's to write to


def test_results_are_not_overwritten_by_later_calls() -> None:
    function = jit(lambda x: x + 1)
    first = function(np.zeros(4, np.float32))
    second = function(first)
    assert first.tolist() == [1] * 4
    assert second.tolist() == [2] * 4


def test_keys_of_random_numbers() -> None:
    def function(key: Any) -> Any:
        key, mine = jax.random.split(key)
        return key, jax.random.normal(mine, (3,))

    key = jax.random.key(7)
    for _ in range(2):
        found, wanted = jit(function)(key), function(key)
        same(found[1], wanted[1])
        assert (jax.random.key_data(found[0]) == jax.random.key_data(wanted[0])).all()
    old = jax.random.PRNGKey(1)
    same(jit(lambda k: jax.random.uniform(k, (2,)))(old), jax.random.uniform(old, (2,)))
    keys = jax.random.split(key, 3)
    same(jax.vmap(jit(jax.random.normal))(keys), jax.vmap(jax.random.normal)(keys))


def wave(x: Any) -> Any:
    return jnp.sin(x) * x**2


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: jax.grad(f),
        lambda f: jax.grad(jax.grad(f)),
        lambda f: jax.hessian(f),
        lambda f: jax.value_and_grad(f),
        lambda f: jax.jacfwd(f),
        lambda f: jax.jit(f),
        lambda f: jax.jit(jax.grad(f)),
        lambda f: jax.checkpoint(f),
        lambda f: jax.grad(jax.checkpoint(f)),
        lambda f: lambda x: jax.jvp(f, (x,), (2.0,)),
        lambda f: lambda x: jax.vmap(f)(jnp.arange(3.0) + x),
        lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.arange(3.0) + x),
        lambda f: jax.grad(lambda x: jax.vmap(f)(jnp.arange(3.0) * x).sum()),
        lambda f: lambda x: jax.lax.scan(lambda c, _: (f(c) / 3 + 0.1, c), x, None, length=4),
        lambda f: jax.grad(lambda x: jax.lax.scan(lambda c, _: (f(c) / 3 + 0.1, c), x, None, length=4)[0]),
        lambda f: lambda x: jax.lax.fori_loop(0, 3, lambda i, c: f(c) / 3 + 0.1, x),
        lambda f: lambda x: jax.lax.cond(x > 0, f, lambda y: y, x),
        lambda f: lambda x: jax.linearize(f, x)[1](1.0),
        lambda f: jax.jit(lambda x: jax.vmap(f)(x[None])),
    ],
)
def test_transformations(transformed: Any) -> None:
    x = jnp.float32(0.7)
    same(transformed(jit(wave))(x), transformed(wave)(x))
    same(jit(transformed(jit(wave)))(x), transformed(wave)(x))


def test_derivatives_by_some_of_several_arguments() -> None:
    def function(x: Any, i: Any, w: Any) -> Any:
        return {"v": x[i] * w["a"], "n": x.argmax(), "m": (x * w["b"]).sum()}

    arguments = jnp.arange(3.0), 1, {"a": 2.0, "b": jnp.ones(3)}

    def total(f: Any) -> Any:
        return lambda *a: f(*a)["v"] + 2 * f(*a)["m"]

    for numbers in (0, 2, (0, 2)):
        same(jax.grad(total(jit(function)), numbers)(*arguments), jax.grad(total(function), numbers)(*arguments))
    found, wanted = (jax.grad(total(f), (0, 1), allow_int=True)(*arguments) for f in (jit(function), function))
    same(found, wanted)

    def along(f: Any) -> Any:
        return jax.jvp(lambda x: f(x, 1, arguments[2]), arguments[:1], (jnp.ones(3),))

    same(along(jit(function)), along(function))


def test_batches_along_any_axis() -> None:
    def function(x: Any, y: Any) -> Any:
        return x @ y, x.T

    x, y = jnp.arange(24.0).reshape(2, 3, 4), jnp.arange(4.0)
    axes = {"in_axes": (1, None), "out_axes": (0, 2)}
    same(jax.vmap(jit(function), **axes)(x, y), jax.vmap(function, **axes)(x, y))


def test_collectives_of_a_batch() -> None:
    def function(x: Any) -> Any:
        return x / jax.lax.psum(x, "i")

    x = jnp.arange(1.0, 4)
    same(jax.vmap(jit(function), axis_name="i")(x), jax.vmap(function, axis_name="i")(x))


def test_values_of_transformations_that_a_function_captures() -> None:
    def outer(w: Any) -> Any:
        return jit(lambda x: x * w**2)(np.float32(3))

    assert jax.grad(outer)(2.0) == 12
    assert outer(2.0) == 12
    kept = jit(lambda x: x * held[0])
    held = [2.0]
    assert kept(3.0) == 6

    def through(w: Any) -> Any:
        held[0] = w
        return kept(np.float32(3))  # a new type of argument: traced anew

    assert jax.grad(through)(2.0) == 3


def test_a_call_in_a_program_of_xla_is_one_custom_call() -> None:
    text = jax.jit(jit(wave)).lower(1.0).as_text()
    assert "hlotool_call" in text
    assert "sine" not in text
    module = jit(lambda x: jit(wave)(x) + 1).program(1.0).module
    assert "custom-call" not in {instruction.opcode for instruction in module.instructions()}


def test_failures_within_a_program_of_xla_are_errors_of_its_call() -> None:
    from hlotool.jax import foreign

    function = jax.jit(jit(wave))
    assert function(1.0) > 0
    first, programs = foreign._first.value, dict(foreign._programs)
    foreign._first.value += 1 << 40  # as if its number were another process's
    foreign._programs.clear()
    try:
        with pytest.raises(Exception, match="compiled in another process"):
            function(1.0).block_until_ready()
    finally:
        foreign._first.value = first
        foreign._programs.update(programs)
    assert function(1.0) > 0


def test_native_calls_of_a_program_of_xla_are_counted() -> None:
    function = jax.jit(lambda x: jax.lax.fori_loop(0, 7, lambda i, c: jit(wave)(c) / 3 + 0.1, x))
    function(0.5).block_until_ready()
    (record,) = hlotool.jax.explain()
    assert record.runs == 7


def test_threads_share_programs() -> None:
    function = jit(wave)
    results: list[Any] = []

    def work() -> None:
        for n in range(50):
            results.append((n % 5, function(np.full(n % 5 + 1, 2.0, np.float32))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 200
    assert all(len(array) == n + 1 and np.allclose(array, wave(2.0)) for n, array in results)


def printing(x: Any) -> Any:
    jax.debug.print("x is {}", x)
    return x + 1


def test_what_hlotool_does_not_take_jax_runs_and_that_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HLOTOOL_FALLBACK")
    function = jit(printing)
    assert type(function(1.0)) is np.ndarray
    assert function(2.0) == 3
    jax.effects_barrier()
    out, err = capfd.readouterr()
    assert out.splitlines() == ["x is 1.0", "x is 2.0"]
    (line,) = err.splitlines()
    assert "printing" in line
    assert "debug_print" in line
    assert "test_jax_jit.py:" in line
    assert line.endswith("jax runs it")
    (record,) = hlotool.jax.explain()
    assert not record.compiled
    assert record.runs == 2


def test_fallback_silent_error_and_nonsense(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")
    assert jit(printing)(1.0) == 2
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("HLOTOOL_FALLBACK", "error")
    with pytest.raises(UnsupportedError, match="printing"):
        jit(printing)(1.0)
    monkeypatch.setenv("HLOTOOL_FALLBACK", "perhaps")
    with pytest.raises(InputError, match="perhaps"):
        jit(printing)(1.0)


def test_callbacks_fall_back_under_transformations_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HLOTOOL_FALLBACK", "silent")

    def function(x: Any) -> Any:
        return jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct((), jnp.float32), x) + 1

    assert jit(function)(3.0) == 7
    assert jax.jit(jit(function))(3.0) == 7
    assert jax.jit(jit(printing))(3.0) == 4


def test_explain_lists_programs() -> None:
    assert "no program" in str(hlotool.jax.explain())
    function = jit(wave)
    for _ in range(5):
        function(np.float32(1))
    (record,) = hlotool.jax.explain()
    assert (record.name, record.runs, record.compiled) == ("wave", 5, True)
    assert record.compile_seconds > 0
    assert record.seconds_each is not None
    assert "1 of 1 programs compiled" in str(hlotool.jax.explain())


def branching(x: Any) -> Any:
    if x > 0:  # the line that errors name
        return x
    return -x


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


def test_bad_use_is_told_with_file_and_line() -> None:
    line = branching.__code__.co_firstlineno
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        jit(branching)(1.0)
    assert f"branching ({__file__}:{line}), at line {line + 1}" in notes(caught.value)

    with pytest.raises(ValueError, match=r"wave \(.*test_jax_jit.py:\d+\): static argument 0 has to be hashable"):
        jit(wave, static_argnums=0)([1])
    with pytest.raises(ValueError, match="no argument is called 'y'"):
        jit(wave, static_argnames="y")
    with pytest.raises(ValueError, match="none of them number 4"):
        jit(wave, donate_argnums=4)
    with pytest.raises(TypeError, match="expected a function"):
        jit(3)  # type: ignore[call-overload]
    for wrong in ("text", np.array(["a"], object), object()):
        with pytest.raises(TypeError, match="path x") as refused:
            jit(wave)(wrong)
        assert __file__ in notes(refused.value)
    with pytest.raises(TypeError) as odd:
        jit(lambda x: "text")(1.0)
    assert __file__ in notes(odd.value)
    with pytest.raises(TypeError):
        jit(wave)()

    kept = []
    jit(lambda x: kept.append(x))(1.0)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        kept[0] + 1

    def recursive(x: Any) -> Any:
        return again(x)

    again = jit(recursive)
    with pytest.raises(RecursionError) as deep:
        again(1.0)
    assert "recursive" in notes(deep.value)


def test_jax_can_run_everything_itself_to_debug() -> None:
    seen = []

    @jit
    def function(x: Any) -> Any:
        seen.append(float(x))
        return jnp.log(x)

    with jax.disable_jit():
        function(np.float32(1))
    assert seen == [1.0]
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        jit(jnp.log)(np.float32(-1))


def test_importing_is_light_and_says_what_is_missing() -> None:
    code = (
        "import sys, hlotool.jax; assert not {'jax', 'numpy'} & sys.modules.keys()\n"
        "sys.modules['jax'] = None\n"
        "try: hlotool.jax.jit\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert "hlotool[jax]" in run.stdout
