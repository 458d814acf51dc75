"""What `test_jax_plugin.py` runs in processes of its own, with ``JAX_PLATFORMS=hlotool``: one function a case.

``python jax_plugin_cases.py PREFIX`` runs those whose names begin so, and writes what went wrong with each as JSON.
"""

from __future__ import annotations

import gc
import itertools
import json
import pickle
import sys
import tempfile
import threading
import traceback
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.experimental.layout import Format, Layout, with_layout_constraint
from jax.experimental.scheduling_groups import xla_metadata_call
from jax.experimental.serialize_executable import deserialize_and_load, serialize
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from hlotool.jax.explain import explain
from hlotool.jax.pjrt import executables
from hlotool.jax.record import PROGRAMS

X = np.arange(12, dtype=np.float32).reshape(3, 4)
X24 = np.arange(24, dtype=np.float32).reshape(4, 6)


def same(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-5, atol=2e-5)


def fails(call: Any, kind: type[BaseException], text: str) -> None:
    found = "nothing was raised"
    try:
        call()
    except kind as error:
        found = str(error)
    assert text in found, found


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


# ---- one device


def one_backend() -> None:
    assert jax.default_backend() == "cpu"
    assert jax.devices() == jax.devices("cpu") == jax.devices("hlotool")
    assert "hlotool" in jax.devices()[0].client.platform_version
    own = "TFRT_CPU_0" if jax.lib.__version__.startswith("0.9.") else "cpu:0"  # as jaxlib calls its own
    assert [str(device) for device in jax.devices()] == [own]


def one_is_compiled_here() -> None:
    before = len(PROGRAMS)
    same(jax.jit(lambda x: x * 3 + 1)(X), X * 3 + 1)
    new = list(PROGRAMS)[before:]
    assert new
    assert all(program.compiled for program in new)


def one_types() -> None:
    for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "bfloat16", "float32", "complex64"):
        x = jnp.arange(5).astype(name)
        assert x.dtype == name
        same(np.asarray(x + x).astype(np.complex64), np.arange(5) * 2)
    for name in ("int4", "uint4", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e3m4"):
        same(np.asarray(jnp.arange(4).astype(name)).astype(np.float32), np.arange(4))
    same(jnp.array([True, False]) ^ True, [False, True])


def one_wide_types() -> None:
    with jax.enable_x64(True):
        for name in ("int64", "uint64", "float64", "complex128"):
            x = jnp.arange(5, dtype=name)
            assert (x * x).dtype == name
            same(x * x, np.arange(5) ** 2)


def one_sizes() -> None:
    assert (jnp.zeros((0, 3)) + 1).shape == (0, 3)
    assert float(jnp.sum(jnp.zeros((0,)))) == 0
    assert jnp.float32(3) + 1 == 4
    assert jnp.asarray(2.0).weak_type


def one_view() -> None:
    x = jnp.asarray(X) + 1
    array = np.asarray(x)
    assert array.__array_interface__["data"][0] == x.unsafe_buffer_pointer()
    del x
    gc.collect()
    same(array, X + 1)


def one_arrays_of_the_host() -> None:
    same(jax.device_put(X.T), X.T)
    same(jax.device_put(X[::-1, ::2]), X[::-1, ::2])
    same(jnp.asarray(np.broadcast_to(np.float32(3), (4, 5))), np.full((4, 5), 3))
    given = X.copy()
    x = jnp.array(given)
    given[...] = -1
    same(x, X)
    x.copy_to_host_async()
    same(x, X)


def one_donation() -> None:
    step = jax.jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    x, y = jnp.asarray(X) + 0, jnp.asarray(X) + 1
    place = x.unsafe_buffer_pointer()
    found = step(x, y)
    assert x.is_deleted()
    assert not y.is_deleted()
    assert found[0].unsafe_buffer_pointer() == place
    same(found[0], X + X + 1)
    fails(lambda: x + 1, Exception, "deleted or donated")


def one_donation_with_a_view() -> None:
    x = jnp.asarray(X) + 0
    view = np.asarray(x)
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    same(view, X)
    same(y, X + 1)
    assert not x.is_deleted()  # who looks at it keeps it
    del view
    y = jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    x = jnp.asarray(X) + 0
    for given, text in ((0, "f(donate(a), a)"), (1, "f(a, donate(a))")):
        fails(lambda given=given: jax.jit(lambda a, b: a + b, donate_argnums=given)(x, x), Exception, text)
    both = jax.jit(lambda a, b: (a + b, a - b), donate_argnums=(0, 1))
    fails(lambda: both(x, x), Exception, "f(donate(a), donate(a))")
    sums = jax.jit(lambda a, b: (jnp.cumsum(a, 0), jnp.cumsum(b, 1) @ b.T @ b), donate_argnums=(0, 1))
    fails(lambda: sums(x, x), Exception, "Attempt to donate the same buffer twice in Execute() (flattened argument 1")
    same(sums(x, x + 1)[0], np.cumsum(X, 0))
    fails(lambda: x + 1, Exception, "deleted or donated")


def one_donors() -> None:
    """A donor for which there is a result of its size is given up, whatever its type and dimensions."""
    def given_up(call: Any, *arrays: Any) -> list[bool]:
        jax.jit(call, donate_argnums=tuple(range(len(arrays))))(*arrays)
        return [array.is_deleted() for array in arrays]

    def new(*sizes: int) -> Any:
        return jnp.ones(sizes) + 1

    assert given_up(lambda x: x.T, new(3, 4)) == [True]
    assert given_up(lambda x: x.astype(jnp.int32), new(3, 4)) == [True]
    assert given_up(lambda x: x.astype(jnp.int8), new(3, 4)) == [False]
    assert given_up(lambda x: x[:2], new(3, 4)) == [False]
    assert given_up(lambda x, y, z: (y.T, x + z), new(2, 6), new(2, 6), new(2, 6)) == [True, True, False]
    assert given_up(lambda x, y, z: (x.sum(), y.T, z.astype(jnp.int32)), new(3, 4), new(2, 6), new(4)) == [
        True, False, True,
    ]  # fmt: skip


def one_many_arguments() -> None:
    numbers = [np.float32(number) for number in range(2500)]
    assert float(jax.jit(lambda *xs: sum(xs))(*numbers)) == sum(numbers)
    assert len(jax.jit(lambda x: [x + n for n in range(300)])(X)) == 300


def one_result_is_an_argument() -> None:
    x = jnp.asarray(X)
    y, z = jax.jit(lambda x: (x, x))(x)
    same(y, X)
    same(z, X)


def one_loops() -> None:
    carry, sums = lax.scan(lambda c, x: (c + x, c), 0.0, jnp.arange(5.0))
    same(carry, 10)
    same(sums, [0, 0, 1, 3, 6])
    same(lax.while_loop(lambda x: x < 100, lambda x: x * 3, 1), 243)
    same(jax.jit(lambda n: lax.fori_loop(0, n, lambda i, x: x + i, 0))(10), 45)
    same(jax.jit(lambda x: lax.cond(x > 0, lambda: 1, lambda: 2))(3), 1)
    same(jax.jit(lambda n: lax.switch(n, [lambda: 1, lambda: 2, lambda: 3]))(2), 3)


def one_subnormal_numbers() -> None:
    """They are zeros in arithmetic, as on JAX's own platform, in kernels of any size; what moves them keeps them."""
    for size in (1, 400_000):
        tiny = np.full(size, 1e-39, np.float32)
        added, scaled, moved = jax.jit(lambda x: (x + x, x * 2, x[::-1]))(tiny)
        assert not np.any(added)
        assert not np.any(scaled)
        assert np.all(moved == tiny)

    def step(_: Any, x: Any) -> Any:
        return x - jnp.float32(2e-2) * x / jnp.sqrt(4 * x * x + jnp.float32(1e-8))

    assert float(lax.fori_loop(0, 200, step, np.float32(5.8e-37))) == np.float32(5.8e-37), "a step that is zero"
    assert float(np.float32(1e-39) * np.float32(2)) > 0, "the thread keeps its own mode"


def one_linalg() -> None:
    a = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    s = a @ a.T + np.eye(5, dtype=np.float32)
    same(jnp.linalg.svd(a)[1], np.linalg.svd(a)[1])
    same(jnp.linalg.eigvalsh(s), np.linalg.eigvalsh(s))
    same(jnp.linalg.cholesky(s), np.linalg.cholesky(s))
    same(jnp.linalg.solve(s, a), np.linalg.solve(s, a))
    same(jnp.linalg.det(a), np.linalg.det(a))
    same(np.sort_complex(jnp.linalg.eigvals(s)).real, np.sort_complex(np.linalg.eigvals(s)).real)
    q, r = jnp.linalg.qr(a)
    same(q @ r, a)
    same(jax.scipy.linalg.expm(a * 0), np.eye(5))
    if jax.__version_info__ >= (0, 10):  # the first that has vectors there
        d, e = s.diagonal(), s.diagonal(1)
        w, v = jax.scipy.linalg.eigh_tridiagonal(d, e)
        band = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
        same(w, np.linalg.eigvalsh(band))
        same(v @ np.diag(w) @ v.T, band)


def one_random() -> None:
    key = jax.random.key(7)
    found = jax.random.uniform(key, (3,))
    assert found.shape == (3,)
    assert np.all((found >= 0) & (found < 1))
    same(jnp.sort(jax.random.permutation(key, 6)), range(6))
    assert jax.random.split(key, 3).shape == (3,)


def one_gradients() -> None:
    found = jax.grad(lambda w: jnp.sum(jnp.tanh(w @ w.T)))(X / 10)
    step = 1e-3
    move = np.zeros_like(X)
    move[1, 2] = step

    def value(w: Any) -> float:
        return float(np.sum(np.tanh(w @ w.T)))

    assert abs(found[1, 2] - (value(X / 10 + move) - value(X / 10 - move)) / (2 * step)) < 1e-2
    same(jax.vmap(lambda x: jnp.dot(x, x))(X), np.sum(X * X, 1))
    same(jax.hessian(lambda x: jnp.sum(x**3))(jnp.arange(3.0)), np.diag([0, 6, 12]))


def one_pure_callback() -> None:
    @jax.jit
    def call(x: Any) -> Any:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x) + 1

    same(call(X), np.sin(X) + 1)
    same(jax.vmap(lambda x: jax.pure_callback(np.cos, x, x, vmap_method="sequential"))(jnp.asarray(X)), np.cos(X))


def one_ordered_callbacks() -> None:
    seen: list[int] = []

    def note(x: Any) -> Any:
        seen.append(int(x))
        return x

    @jax.jit
    def call(x: Any) -> Any:
        y = io_callback(note, jax.ShapeDtypeStruct((), x.dtype), x, ordered=True)
        return io_callback(note, jax.ShapeDtypeStruct((), x.dtype), y + 1, ordered=True)

    result = call(call(jnp.int32(3)))
    jax.effects_barrier()
    assert int(result) == 5
    assert seen == [3, 4, 4, 5]


def one_callbacks_compiled_at_once() -> None:
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        @jax.jit
        def call(x: Any) -> Any:
            return jax.pure_callback(lambda x: x * number, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        found[number] = call(X)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        same(found[number], X * number)


def one_failing_callback() -> None:
    def bad(x: Any) -> Any:
        raise ValueError("boom")

    call = jax.jit(lambda x: jax.pure_callback(bad, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    for text in ("INTERNAL: CpuCallback error calling callback: Traceback", ", in bad\n", "ValueError: boom"):
        fails(lambda: call(X).block_until_ready(), jax.errors.JaxRuntimeError, text)
    same(jnp.asarray(X) + 1, X + 1)


def one_callback_that_exits() -> None:
    """It ends as one that fails: the way out of a program is not through a callback."""

    def leave(x: Any) -> Any:
        raise SystemExit(3)

    call = jax.jit(lambda x: jax.pure_callback(leave, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    for text in ("INTERNAL: CpuCallback error calling callback: Traceback", ", in leave\n", "SystemExit: 3"):
        fails(lambda: call(X).block_until_ready(), jax.errors.JaxRuntimeError, text)


def one_callbacks_of_parts() -> None:
    """On one device, the part is the whole."""
    seen: list[Any] = []
    PROGRAMS.clear()
    step = jax.jit(lambda x: (jax.debug.callback(lambda v: seen.append(np.array(v)), x, partitioned=True), x + 1)[1])
    same(step(X), X + 1)
    jax.effects_barrier()
    same(seen, [X])
    assert all(program.compiled for program in PROGRAMS)


def one_call_that_stays() -> None:
    """A function that its user does not want in its caller is one of the compiled program, too, and of gradients."""
    PROGRAMS.clear()
    double = xla_metadata_call(lambda x: x * 2, inlineable="false")
    slope = jax.jit(jax.grad(lambda x: jnp.sin(double(x)).sum()))
    compiled = slope.lower(X).compile()
    assert 'inlineable="false"' in compiled.as_text()
    same(compiled(X), jax.jit(jax.grad(lambda x: jnp.sin(x * 2).sum()))(X))
    assert all(program.compiled for program in PROGRAMS)


def one_nans() -> None:
    jax.config.update("jax_debug_nans", True)
    try:
        fails(lambda: jnp.log(jnp.float32(-1)), FloatingPointError, "nan")
    finally:
        jax.config.update("jax_debug_nans", False)


def one_dlpack() -> None:
    x = jnp.arange(6.0) + 1
    same(np.from_dlpack(x), np.arange(1, 7))
    array = np.arange(5, dtype=np.float32)
    same(jnp.from_dlpack(array), array)
    same(jnp.from_dlpack(x), x)


def one_dlpack_copies() -> None:
    block = np.zeros(4096, np.uint8)
    first = -block.ctypes.data % 64
    given = block[first : first + 96].view(np.float32).reshape(4, 6)
    given[...] = np.arange(24).reshape(4, 6)
    assert jnp.from_dlpack(given, copy=False).unsafe_buffer_pointer() == given.ctypes.data
    odd = block[first + 128 + 4 : first + 128 + 100].view(np.float32)
    odd[...] = 7
    made = [jnp.from_dlpack(value, copy=copy) for value in (odd, given.T) for copy in (None, True)]
    made += [jnp.from_dlpack(given, copy=True), jnp.from_dlpack(jnp.asarray(given), copy=True)]
    assert jnp.from_dlpack(given[:0], copy=True).shape == (0, 6)
    block[...] = 0
    for found, wanted in zip(made, [np.full(24, 7)] * 2 + [X24.T] * 2 + [X24] * 2, strict=True):
        same(found, wanted)
    fails(lambda: jnp.from_dlpack(odd, copy=False), ValueError, "not aligned to 64 bytes")
    column = given.reshape(24, 1)
    for value in (column.T.reshape(1, 24).T, np.ndarray((24, 1), np.float32, given, 0, (4, 96))):
        assert jnp.from_dlpack(value).unsafe_buffer_pointer() == given.ctypes.data


def one_dlpack_in_other_orders() -> None:
    """What may not be copied stays where it is, in the order it lies in."""
    block = np.zeros(4096, np.uint8)
    first = -block.ctypes.data % 64
    given = block[first : first + 96].view(np.float32).reshape(2, 3, 4)
    given[...] = np.arange(24).reshape(2, 3, 4)
    for order in itertools.permutations(range(3)):
        value = given.transpose(order)
        found = jnp.from_dlpack(value, copy=False)
        assert found.unsafe_buffer_pointer() == given.ctypes.data
        assert found.format.layout.major_to_minor == tuple(np.argsort(order))
        assert np.asarray(found).strides == value.strides
        for made in (found, found + 0, jnp.array(found), jax.device_put(found), np.from_dlpack(found), found.copy()):
            same(made, value)
        same(jax.jit(lambda x: x * 2, donate_argnums=0)(found), value * 2)
        same(given, np.arange(24).reshape(2, 3, 4))
    x = jnp.from_dlpack(given.T, copy=False)
    array = np.asarray(x)
    owner = weakref.ref(block)
    del x, given, value, found, made, block
    gc.collect()
    same(array, np.arange(24).reshape(2, 3, 4).T)
    del array
    gc.collect()
    assert owner() is None


def one_memories_of_results() -> None:
    for x in (X, jnp.asarray(X)):
        assert jax.device_put(x, jax.memory.Space.Host).sharding.memory_kind == "pinned_host"
    y, z = jax.jit(lambda x: (jax.device_put(x * 2, jax.memory.Space.Host), x + 1))(X)
    assert (y.sharding.memory_kind, z.sharding.memory_kind) == ("pinned_host", "device")
    same(y, X * 2)
    same(jax.jit(lambda x: jax.device_put(x, jax.memory.Space.Device) + 1)(y), X * 2 + 1)


def one_deleted() -> None:
    x = jnp.ones(3) + 1
    x.delete()
    assert x.is_deleted()
    fails(lambda: x + 1, RuntimeError, "deleted")


def one_ended_and_counted() -> None:
    """Programs that JAX has given up go when the next one is compiled; those that are there count their runs."""
    for number in range(20):
        jax.jit(lambda x, number=number: x + number)(X)
    jax.clear_caches()
    gc.collect()
    kept = jax.jit(lambda x: x * 7)
    for _ in range(5):
        kept(X)
    assert len(executables._loaded) < 8, len(executables._loaded)
    assert explain().as_json()[-1]["runs"] == 5


def one_compiled_text() -> None:
    lowered = jax.jit(lambda x: jnp.sin(x) @ x.T).lower(X)
    compiled = lowered.compile()
    text = compiled.as_text()  # after the passes
    assert "HloModule" in text
    assert "kind=kOutput" in text
    for cost in (lowered.cost_analysis(), compiled.cost_analysis()):
        assert cost["flops"] == 2 * 3 * 4 * 3, cost
        assert cost["transcendentals"] == 12, cost
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == X.nbytes
    assert memory.output_size_in_bytes == 36
    assert compiled.cost_analysis()["bytes accessedout{}"] == 36
    two = jax.jit(lambda x: (x + 1, x.sum())).lower(X).compile()
    assert two.memory_analysis().output_size_in_bytes == X.nbytes + 4 + 2 * 8  # and their addresses, as XLA counts
    same(compiled(X), np.sin(X) @ X.T)


def one_layouts() -> None:
    x = jnp.ones((2, 3, 4))
    compiled = jax.jit(lambda x, y: (x.transpose(2, 0, 1), y + 1)).lower(x, 1.0).compile()
    (first, second), _ = compiled.input_formats
    assert x.format.layout.major_to_minor == first.layout.major_to_minor == (0, 1, 2)
    assert second.layout.major_to_minor == ()
    assert [form.layout.major_to_minor for form in compiled.output_formats] == [(0, 1, 2), ()]
    assert jnp.ones((0, 3)).format.layout.major_to_minor == (0, 1)


def one_layouts_that_are_asked_for() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    single = SingleDeviceSharding(jax.devices()[0])
    for order in itertools.permutations(range(3)):
        form = Format(Layout(order), single)
        for given in (x, jnp.asarray(x)):
            y = jax.device_put(given, form)
            assert y.format.layout.major_to_minor == order
            view = np.asarray(y)
            assert view.transpose(order).flags.c_contiguous
            same(view, x)
            same(np.from_dlpack(y), x)
            same(y.sum(1) + 1, x.sum(1) + 1)
            same(jax.device_put(y, Format(Layout((0, 1, 2)), single)), x)
            same(y.copy(), x)
        step = jax.jit(lambda x: (x * 2, x + 1), in_shardings=form, out_shardings=form, donate_argnums=0)
        y = jax.device_put(x, form)
        first, second = step(y)
        assert y.is_deleted()
        assert first.format.layout.major_to_minor == second.format.layout.major_to_minor == order
        same(first, x * 2)
        same(second, x + 1)


def one_layouts_that_are_none() -> None:
    """An order has every dimension once: what has not is refused, and never lies somehow."""
    device = jax.devices()[0]
    single = SingleDeviceSharding(device)
    wrong = {(0, 0): "duplicate values: {0, 0}", (0, 2): "out-of-bounds value: {2, 0}", (0, -1): "value: {-1, 0}"}
    for order, text in wrong.items():
        for sharding in (single, NamedSharding(Mesh([device], "x"), P("x"))):
            form = Format(Layout(order), sharding)
            fails(lambda form=form: jax.device_put(X24, form).block_until_ready(), jax.errors.JaxRuntimeError, text)
            fails(lambda form=form: jax.jit(lambda x: x, out_shardings=form)(X24), jax.errors.JaxRuntimeError, text)
            fails(lambda form=form: jax.jit(jnp.sin, in_shardings=form)(X24), jax.errors.JaxRuntimeError, text)
    sin = jax.jit(jnp.sin).lower(jax.ShapeDtypeStruct((8, 2), np.float32, sharding=Format(Layout((0,)), single)))
    few = "contains 1 elements, but shape has 2 dimensions: {0}; shape: f32[8,2]"
    fails(sin.compile, jax.errors.JaxRuntimeError, few)
    tiled = jax.jit(jnp.sin, out_shardings=Format(Layout((0, 1), tiling=((8, 128),)), single))
    fails(lambda: tiled(X24), jax.errors.JaxRuntimeError, "hlotool has no tiled layouts")


def one_donated_and_of_no_use() -> None:
    """What is given up is gone, also where no result has its order."""
    single = SingleDeviceSharding(jax.devices()[0])
    x = jnp.asarray(X) + 0
    y = jax.jit(lambda x: x + 1, donate_argnums=0, out_shardings=Format(Layout((1, 0)), single))(x)
    assert x.is_deleted()
    same(y, X + 1)


def _by_columns(sharding: Any) -> None:
    """Arrays that lie by columns, put so, given by programs, and taken by them."""
    form = Format(Layout((1, 0)), sharding)

    def lies_so(array: Any, wanted: Any) -> None:
        assert array.format.layout.major_to_minor == (1, 0)
        same(array, wanted)

    x = jax.device_put(X24, form)
    lies_so(x, X24)
    lies_so(jax.jit(lambda x: x + 1, out_shardings=form)(X24), X24 + 1)
    lies_so(jax.jit(lambda x: x + 1, in_shardings=form, out_shardings=form, donate_argnums=0)(x), X24 + 1)
    assert x.is_deleted()
    same(jax.jit(lambda x: x @ x.T)(jax.device_put(X24, form)), X24 @ X24.T)
    compiled = jax.jit(jnp.sin, in_shardings=form).lower(X24).compile()
    assert compiled.input_formats[0][0].layout.major_to_minor == (1, 0)
    same(compiled(jax.device_put(X24, form)), np.sin(X24))


def one_other_layouts() -> None:
    device = jax.devices()[0]
    _by_columns(jax.sharding.SingleDeviceSharding(device))
    x = jax.device_put(X24, Format(Layout((1, 0)), jax.sharding.SingleDeviceSharding(device)))
    assert np.asarray(x).strides == (4, 16)
    same(jnp.from_dlpack(x), X24)
    call = jax.jit(lambda x: with_layout_constraint(x * 2, Layout((1, 0))))
    left_to_us = 'mhlo.layout_mode = "auto"' in call.lower(X24).as_text()  # from JAX 0.10 on
    assert call(X24).format.layout.major_to_minor == ((1, 0) if left_to_us else (0, 1))
    same(call(X24), X24 * 2)



def one_serialized() -> None:
    compiled = jax.jit(lambda x: x * 3).lower(X).compile()
    same(deserialize_and_load(*serialize(compiled))(X), X * 3)
    same(pickle.loads(pickle.dumps(jnp.asarray(X))), X)


def one_compilation_cache() -> None:
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        try:
            same(jax.jit(lambda x: jnp.cos(x) * 3.25)(X), np.cos(X) * 3.25)
            stored = len([*Path(folder).iterdir()])
            assert stored
            jax.clear_caches()
            same(jax.jit(lambda x: jnp.cos(x) * 3.25)(X), np.cos(X) * 3.25)
        finally:
            jax.config.update("jax_compilation_cache_dir", None)


def one_mesh() -> None:
    sharding = NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x"))
    x = jax.device_put(X, sharding)
    same(jax.jit(lambda x: x + 1, out_shardings=sharding)(x), X + 1)
    same(jax.pmap(lambda x: x + 1)(X[None]), X[None] + 1)


def one_memories() -> None:
    device = jax.devices()[0]
    assert [memory.kind for memory in device.addressable_memories()] == ["device", "pinned_host", "unpinned_host"]
    assert list(map(str, device.addressable_memories())) == [
        "CpuDeviceMemory(id=0, process_index=0, client=cpu)", "PinnedHostMemory(id=1, process_index=0, client=cpu)",
        "UnpinnedHostMemorySpace(id=2, process_index=0, client=cpu)",
    ]  # fmt: skip
    pinned = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
    x = jax.device_put(X, pinned)
    assert x.sharding.memory_kind == "pinned_host"
    same(x, X)
    y = jax.device_put(x, jax.sharding.SingleDeviceSharding(device, memory_kind="device"))
    assert y.sharding.memory_kind == "device"
    same(y + 1, X + 1)


def one_no_leak() -> None:
    step = jax.jit(lambda x, y: (x + y, y * 2), donate_argnums=0)
    double = jax.jit(lambda x: x * 2)
    x, y, array = jnp.ones(1000), jnp.ones(1000), np.ones(100, np.float32)

    def work(count: int, x: Any) -> Any:
        for _ in range(count):
            x, z = step(x, y)
            np.asarray(double(z))
            jax.device_put(array)
        return x

    x = work(1000, x)
    before = resident()
    work(20_000, x)
    assert resident() - before < 4 << 20


def one_threads() -> None:
    product = jax.jit(lambda x: jnp.sum(x @ x.T))
    wanted = float(product(X))
    found: list[float] = []

    def work(number: int) -> None:
        found.extend(float(product(X)) for _ in range(200))
        found.append(wanted + float(jax.jit(lambda x: x * number)(0.0)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 4 * 201


def one_training() -> None:
    random = np.random.default_rng(1)
    x, y = random.standard_normal((32, 13)).astype(np.float32), random.standard_normal((32, 1)).astype(np.float32)
    weights = [random.standard_normal(shape).astype(np.float32) / 8 for shape in ((13, 64), (64, 64), (64, 1))]

    def loss(weights: Any) -> Any:
        hidden = x
        for weight in weights[:-1]:
            hidden = jnp.tanh(hidden @ weight)
        return jnp.mean((hidden @ weights[-1] - y) ** 2)

    @partial(jax.jit, donate_argnums=0)
    def step(weights: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - 0.05 * g, weights, gradient), value

    weights, first = step([jnp.asarray(weight) for weight in weights])
    for _ in range(200):
        weights, last = step(weights)
    assert last < first / 2


def one_wrong_arguments() -> None:
    """Errors of executions have the words of XLA's."""
    run = jax.jit(lambda x, y: x + y).lower(X, X).compile().runtime_executable().execute_sharded
    x = jnp.asarray(X)
    fails(lambda: run([x]), Exception, "Execution supplied 1 arguments but compiled program expected 2")
    fails(lambda: run([x, x[0]]), Exception, "of size 48 (f32[3,4]) but got buffer with incompatible size")
    step = jax.jit(lambda x, y: x + y, donate_argnums=1)
    y = x + 1
    step(x, y)
    fails(lambda: step(x, y), Exception, "Invalid buffer passed to Execute() as argument 1 to replica 0")


def one_options_of_the_compiler() -> None:
    """Options are called by XLA's names, and have its values, though hlotool has no use for them."""
    lowered = jax.jit(lambda x: x + 1).lower(X)
    same(lowered.compile(compiler_options={"xla_embed_ir_in_executable": True})(X), X + 1)
    for options, text in (
        ({"no_such_option": 1}, "No such compile option: 'no_such_option'"),
        ({"xla_embed_ir_in_executable": "perhaps"}, "'perhaps' is not a valid bool value."),
    ):
        fails(lambda options=options: lowered.compile(compiler_options=options), Exception, text)


def one_clients_anew() -> None:
    """JAX may give up its clients, and ask for others with other options; the last case of its process."""
    from jax.extend.backend import clear_backends

    device = jax.devices()[0]
    clear_backends()
    jax.config.update("jax_num_cpu_devices", 3)
    assert len(jax.devices()) == 3
    assert jax.devices()[0] != device
    assert jax.devices("cpu") == jax.devices("hlotool")
    same(jax.device_put(X, jax.devices()[2]) + 1, X + 1)


# ---- several devices


def four_devices() -> None:
    assert len(jax.devices()) == 4
    x = jax.device_put(X, jax.devices()[2])
    assert (x + 1).devices() == {jax.devices()[2]}
    same(x + 1, X + 1)
    same(jax.device_put(x, jax.devices()[1]), X)


def four_sharded() -> None:
    mesh = Mesh(np.array(jax.devices()), "x")
    x = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(mesh, P("x")))
    y = jax.jit(lambda x: jnp.sum(x) + x)(x)
    same(y, np.arange(28.0, 36.0))
    assert len(y.sharding.device_set) == 4
    divided = [program for program in PROGRAMS if program.note == "on 4 partitions"]
    assert divided
    assert all(program.compiled for program in divided)


def four_pmap() -> None:
    same(jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i")(np.arange(4.0)), [6] * 4)


def four_layouts() -> None:
    sharding = NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x"))
    given = np.arange(96, dtype=np.float32).reshape(4, 6, 4)
    x = jax.device_put(given, Format(Layout((2, 0, 1)), sharding))
    assert x.format.layout.major_to_minor == (2, 0, 1)
    same(x, given)
    y = jax.jit(lambda x: x + jnp.sum(x, 0), out_shardings=Format(Layout((1, 2, 0)), sharding))(x)
    assert y.format.layout.major_to_minor == (1, 2, 0)
    same(y, given + given.sum(0))


def four_shard_map() -> None:
    mesh = Mesh(np.array(jax.devices()), "x")
    call = jax.shard_map(lambda x: x * lax.axis_index("x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    same(jax.jit(call)(np.ones(4)), range(4))


def four_by_columns() -> None:
    _by_columns(NamedSharding(Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y")), P("x", "y")))


def four_donors() -> None:
    x = jax.device_put(np.ones((4, 8)), NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x")))
    jax.jit(lambda x: x.T, donate_argnums=0)(x)
    assert x.is_deleted()


def four_effects() -> None:
    """Effects happen, in their order, and before the arguments are gone."""
    seen: list[Any] = []

    def note(x: Any) -> None:
        seen.append(np.array(x))

    mapped = jax.pmap(lambda x: io_callback(note, None, x))  # without results
    for _ in range(3):
        mapped(np.arange(4.0))
    assert sorted(map(float, seen)) == sorted([0, 1, 2, 3] * 3)
    seen.clear()
    x = jax.device_put(np.arange(8.0, dtype=np.float32), NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x")))
    step = jax.jit(lambda x: (io_callback(note, None, x, ordered=True), x + 1)[1])
    for _ in range(3):
        x = step(x)
    jax.effects_barrier()
    same(seen, [np.arange(8.0) + n for n in range(3)])


def four_failing_callback() -> None:
    def bad(x: Any) -> Any:
        raise ValueError("boom")

    call = jax.pmap(lambda x: jax.pure_callback(bad, jax.ShapeDtypeStruct(x.shape, x.dtype), x))
    found = ""
    try:
        jax.block_until_ready(call(np.ones((4, 2), np.float32)))
    except jax.errors.JaxRuntimeError as error:
        found = str(error)
    assert found.startswith("INTERNAL: CpuCallback error"), found


def four_callbacks_of_parts() -> None:
    """Every device calls with the part that it has; nothing is gathered for that, and parts have no padding."""
    seen: list[Any] = []

    def note(*arrays: Any) -> None:
        seen.append([np.array(array) for array in arrays])

    def told(ordered: bool, x: Any) -> Any:
        jax.debug.callback(note, x, x.T * 2, x[:6], partitioned=True, ordered=ordered)
        return x + 1

    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    given = jax.device_put(x, NamedSharding(Mesh(np.array(jax.devices()), "x"), P("x")))
    step = jax.jit(partial(told, False))
    assert 'custom_call_target="xla_ffi_partitioned_python_cpu_callback"' in step.lower(given).compile().as_text()
    for call in (step, jax.jit(lambda x: lax.fori_loop(0, 1, lambda i, x: told(False, x), x))):
        seen.clear()
        same(call(given), x + 1)
        jax.effects_barrier()
        seen.sort(key=lambda row: float(row[0][0, 0]))
        same([row[0] for row in seen], np.split(x, 4))
        same([row[1] for row in seen], [part.T * 2 for part in np.split(x, 4)])
        same([row[2] for row in seen], [x[:6]] * 4)


def main(prefix: str) -> None:
    verdicts = {}
    for name, case in list(globals().items()):
        if name.startswith(f"{prefix}_") and callable(case):
            try:
                case()
            except BaseException:
                verdicts[name] = traceback.format_exc()
            else:
                verdicts[name] = ""
    print(json.dumps(verdicts))


if __name__ == "__main__":
    main(sys.argv[1])
