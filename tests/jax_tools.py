"""What JAX's tests try besides computing: memory that is shared, references, effects, keys, Pallas, tools around programs.

More cases of `survey_jax_harnesses.py`, as `jax_behaviours.py` has them: one function a case, four devices.
"""

from __future__ import annotations

import gc
import io
import logging
import pickle
import threading
import warnings
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jax_behaviours import X, attempt, mesh


def _address(array: Any) -> int:
    return int(np.asarray(array).__array_interface__["data"][0])


def _aligned(shape: tuple[int, ...], kind: Any = np.float32) -> Any:
    """A NumPy array that begins at a multiple of 64 bytes."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size].view(kind).reshape(shape)


# ---- memory that is shared, or is not


def pointers() -> Any:
    x = jnp.asarray(X) + 0
    given = _aligned((8, 64))
    given[...] = 1
    put, shared, copied = jnp.asarray(given), jnp.from_dlpack(given), jnp.array(given)
    said = [
        x.unsafe_buffer_pointer() == _address(x), _address(np.asarray(x)) == _address(np.asarray(x)), _address(np.from_dlpack(x)) == x.unsafe_buffer_pointer(),
        _address(shared) == given.ctypes.data, _address(copied) == given.ctypes.data, _address(jnp.asarray(x)) == _address(x), _address(jnp.array(x)) == _address(x),
        _address(jnp.array(x, copy=False)) == _address(x), _address(jax.device_put(x)) == _address(x), _address(x.copy()) == _address(x), _address(jax.jit(lambda x: x)(x)) == _address(x),
        _address(jax.device_put(x, jax.devices()[1])) == _address(x), _address(jax.device_put(x, may_alias=False)) == _address(x), _address(jax.device_put(x, may_alias=True)) == _address(x),
        x.addressable_data(0).unsafe_buffer_pointer() == _address(x), x.unsafe_buffer_pointer() % 64, _address(jnp.from_dlpack(x)) == _address(x), _address(jnp.from_dlpack(x, copy=True)) == _address(x),
        attempt(lambda: jnp.from_dlpack(given, copy=False).shape), _address(jax.dlpack.from_dlpack(given)) == given.ctypes.data,
    ]  # fmt: skip
    given[...] = 2
    return [*said, shared, copied, put.shape, x.on_device_size_in_bytes(), jnp.ones((3, 5), "int4").on_device_size_in_bytes(), jnp.ones((0, 5)).on_device_size_in_bytes(), (jnp.ones(3) > 0).on_device_size_in_bytes()]


def views() -> Any:
    x = jnp.asarray(X) + 0
    view = np.asarray(x)
    capsules = [attempt(lambda o=o: type(x.__dlpack__(**o)).__name__) for o in ({}, {"max_version": (1, 0)}, {"max_version": (0, 8)}, {"copy": True}, {"copy": False}, {"dl_device": (1, 0)}, {"stream": None}, {"stream": 3}, {"dl_device": (2, 0)})]
    return [
        *capsules, view.flags.writeable, np.from_dlpack(x).flags.writeable, np.array(x).flags.writeable, attempt(lambda: np.array(x, copy=False).flags.writeable), attempt(lambda: np.asarray(x, dtype=np.float64, copy=False)),
        np.asarray(x, dtype=np.float16), attempt(lambda: view.__setitem__(0, 1)), attempt(lambda: memoryview(x)), hasattr(x, "__array_interface__"), attempt(lambda: x.__cuda_array_interface__), x.__dlpack_device__(), str(x.__array_namespace__().__name__),
        attempt(lambda: np.frombuffer(x, np.float32).shape), view.strides, np.asarray(x.T).strides, np.asarray(jnp.ones((2, 0))).strides, np.asarray(x[0, 0]).shape, np.asarray(jnp.ones(2, "int4")).dtype.name, np.asarray(jnp.ones(2, "bfloat16")).dtype.name,
        np.add(x, 1), np.sin(x).__class__.__name__, np.sum(x).__class__.__name__, np.concatenate([x, x]).shape, X @ np.asarray(x).T, (X + x).__class__.__name__, attempt(lambda: np.ones(3) + jnp.ones(4)),
    ]  # fmt: skip


def writes_of_the_owner() -> Any:
    """What is written to a NumPy array after a call that took it is not seen."""
    said = []
    for shape in ((3,), (64, 64), (1024, 33)):
        given = _aligned(shape)
        given[...] = 1
        put, doubled = jax.device_put(given), jax.jit(lambda x: x * 2)(given)
        traced, held = jax.jit(lambda x: x + 0 * x)(given), jnp.array(given)
        given[...] = 5
        said += [doubled.sum(), traced.sum(), held.sum(), put.shape]
    return said


def kept_alive() -> Any:
    """A view outlives its array, its deletion, and what was donated."""
    x = jnp.asarray(X) * 3
    view = np.asarray(x)
    del x
    gc.collect()
    y = jnp.asarray(X) * 5
    other = np.asarray(y)
    y.delete()
    z = jnp.asarray(X) * 7
    third = np.asarray(z)
    made = jax.jit(lambda z: z + 1, donate_argnums=0)(z)
    fill = [jnp.full((3, 4), n) + 1 for n in range(20)]
    return view, other, third, made, len(fill), y.is_deleted(), z.is_deleted()


def gone() -> Any:
    x = jnp.asarray(X) + 0
    x.delete()
    x.delete()
    calls = [
        lambda: x + 1, lambda: np.asarray(x), lambda: jax.device_put(x), lambda: repr(x), lambda: x.block_until_ready(), lambda: x.unsafe_buffer_pointer(), lambda: x.shape, lambda: x.on_device_size_in_bytes(), lambda: x.__dlpack__(), lambda: jnp.from_dlpack(x),
        lambda: x.copy(), lambda: x[0], lambda: jax.jit(lambda x: x)(x), lambda: float(x.sum()), lambda: x.addressable_shards[0].data, lambda: pickle.dumps(x), lambda: x.tolist(), lambda: jax.vmap(jnp.sin)(x), lambda: jax.device_get(x), lambda: x.copy_to_host_async(), lambda: str(x.sharding), lambda: x.dtype.name, lambda: jax.grad(lambda x: x.sum())(x),
    ]  # fmt: skip
    return [attempt(lambda call=call: str(call())) for call in calls]


def given_up() -> Any:
    """Donation that JAX has something to say about."""
    said: list[Any] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        x = jnp.asarray(X) + 0
        said.append(jax.jit(lambda x: x.sum(), donate_argnums=0)(x))
        said.append(x.is_deleted())
        y = jnp.asarray(X) + 0
        said.append(jax.jit(lambda x, y: (x + y, x), donate_argnums=(0, 1))(y, X)[1])
    said += [sorted(str(one.message).splitlines()[0][:90] for one in heard if "onat" in str(one.message))]
    twice = jnp.asarray(X) + 0
    said += [attempt(lambda: jax.jit(lambda x, y: x + y, donate_argnums=(0, 1))(twice, twice)), attempt(lambda: jax.jit(lambda x, y: x + y, donate_argnums=(0,))(twice, twice)), twice.is_deleted()]
    said += [attempt(lambda: jax.jit(lambda x: x, donate_argnums=0, static_argnums=0)(3)), attempt(lambda: jax.jit(lambda x: x, donate_argnums=4)), attempt(lambda: jax.jit(lambda x: x * 2, donate_argnames=("no",)))]
    a, b = jnp.asarray(X) + 0, jnp.asarray(X) + 0
    swap = jax.jit(lambda a, b: (b, a), donate_argnums=(0, 1))
    said += [swap(a, b + 1), a.is_deleted(), jax.jit(lambda c: lax.scan(lambda c, _: (c + 1, None), c, None, 5)[0], donate_argnums=0)(jnp.asarray(X) + 0)]
    tree = {"p": jnp.ones(3) + 0, "q": (jnp.zeros(2) + 0,)}
    said += [jax.jit(lambda t, g: jax.tree.map(lambda p: p - g, t), donate_argnums=0)(tree, 0.5), tree["q"][0].is_deleted()]
    return said


# ---- references


def references() -> Any:
    new = getattr(jax, "new_ref", None) or jax.array_ref

    def inside(x: Any) -> Any:
        ref = new(x)
        ref[0, :] = ref[1, :] * 2
        ref[1, :] += 5
        return ref[...], ref[2, :]

    @jax.jit
    def add(ref: Any, x: Any) -> Any:
        ref[...] += x
        return ref[0] * 1

    outer = new(jnp.asarray(X))
    first = add(outer, X)
    second = add(outer, X)
    third = add(outer, np.float32(1))

    @jax.jit
    def loop(ref: Any) -> Any:
        def body(i: Any, _: Any) -> Any:
            i = jnp.asarray(i, np.int32)
            ref[i % 3] = ref[(i + 1) % 3] + 1
            return ()
        return lax.fori_loop(0, 7, body, ())

    loop(outer)

    @jax.jit
    def scanned(ref: Any, xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            ref[...] = ref[...] + x
            return c + ref[0, 0], ref[1]
        return lax.scan(body, 0.0, xs)

    return [
        jax.jit(inside)(X), attempt(lambda: jax.vmap(inside)(np.stack([X, X * 2]))), first, second, third, scanned(outer, X), outer[...], str(outer.dtype), outer.shape,
        attempt(lambda: jax.jit(lambda r: r)(outer)), attempt(lambda: add(outer, outer)), attempt(lambda: jax.grad(lambda x: inside(x)[0].sum())(X)), attempt(lambda: jax.jit(lambda r: lax.cond(True, lambda: r[0], lambda: r[1]))(outer)),
        attempt(lambda: jax.ref.freeze(outer)) if hasattr(jax, "ref") else 0,
    ]  # fmt: skip


# ---- effects


def ordered() -> Any:
    seen: list[Any] = []
    log = lambda tag: lambda *v: seen.append((tag, *(np.asarray(one).tolist() for one in v)))  # noqa: E731

    def f(x: Any) -> Any:
        jax.debug.callback(log("a"), x, ordered=True)
        y = io_callback(lambda v: (log("b")(v), v + 1)[1], jax.ShapeDtypeStruct((), np.float32), x, ordered=True)
        x = lax.while_loop(lambda c: c < 5, lambda c: (jax.debug.callback(log("w"), c, ordered=True), c + 2)[1], x)
        lax.cond(x > 5, lambda: jax.debug.callback(log("t"), ordered=True), lambda: jax.debug.callback(log("f"), ordered=True))
        return y * x

    found = jax.jit(f)(np.float32(2))
    for n in range(3):
        jax.jit(lambda x: jax.debug.callback(log("m"), x, ordered=True))(n)
    jax.effects_barrier()
    # callbacks for debugging have an order among themselves, as those for input and output have
    first = [[one for one in seen if one[0] in tags] for tags in ("awtfm", "b")]
    seen.clear()
    jax.jit(jax.vmap(lambda x: jax.debug.callback(log("v"), x)))(np.arange(3.0))
    jax.grad(lambda x: (jax.debug.callback(log("g"), x), x**2)[1])(3.0)
    jax.jvp(lambda x: (jax.debug.callback(log("j"), x), x**2)[1], (3.0,), (1.0,))
    jax.jit(jax.checkpoint(lambda x: (jax.debug.callback(log("c"), x), jnp.sin(x))[1]))(1.0)
    jax.effects_barrier()
    wrong = [
        attempt(lambda: jax.vmap(lambda x: io_callback(lambda v: v, x, x, ordered=True))(np.arange(3.0))), attempt(lambda: jax.grad(lambda x: io_callback(lambda v: v, jax.ShapeDtypeStruct((), np.float32), x))(1.0)),
        attempt(lambda: jax.vmap(lambda x: jax.pure_callback(lambda v: v, x, x))(np.arange(3.0, dtype=np.float32))), attempt(lambda: jax.jit(lambda x: jax.pure_callback(lambda v: (v, v), x, x))(1.0)).split(":")[0],
        attempt(lambda: jax.jit(lambda x: jax.pure_callback(lambda v: np.float64(v), jax.ShapeDtypeStruct((), np.float32), x))(np.float32(1))).__class__.__name__,
    ]  # fmt: skip
    ways = [attempt(lambda way=way: jax.vmap(lambda x: jax.pure_callback(lambda v: np.asarray(v) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method=way))(X)) for way in ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")]
    return found, first, sorted(map(str, seen)), wrong, ways


def callbacks_of_arrays() -> Any:
    """What a callback gets, and what it may do."""
    kinds: list[Any] = []

    def look(*v: Any) -> Any:
        kinds.append([(type(one).__name__, str(one.dtype), one.shape) for one in v])
        return [np.asarray(one) for one in v]

    given = (jnp.arange(3, dtype="int8"), jnp.ones((2, 2), "bfloat16"), jnp.float32(2), jnp.ones((0, 3)), jnp.array([True]), jnp.ones(2, "complex64"), jnp.arange(4, dtype="uint32"))
    out = jax.jit(lambda *v: jax.pure_callback(look, list(v), *v))(*given)
    nested = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(jax.jit(lambda u: u * 3)(np.asarray(v))), x, x))(X)
    eager = jax.pure_callback(lambda v: v + 1, jax.ShapeDtypeStruct((3, 4), np.float32), X)
    big = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(v).sum(0), jax.ShapeDtypeStruct((1000,), np.float32), x))(np.ones((1000, 1000), np.float32))
    many = jax.jit(lambda x: sum(jax.pure_callback(lambda v, n=n: np.asarray(v) * n, jax.ShapeDtypeStruct((3, 4), np.float32), x) for n in range(12)))(X)
    lists = jax.jit(lambda x: jax.pure_callback(lambda v: [np.asarray(v)][0], jax.ShapeDtypeStruct((3, 4), np.float32), x))(X)
    out_of_loops = jax.jit(lambda x: lax.map(lambda r: jax.pure_callback(lambda v: np.asarray(v)[::-1].copy(), jax.ShapeDtypeStruct((4,), np.float32), r), x))(X)
    return out, kinds, nested, eager, big[:3], many, lists, out_of_loops


def printing() -> Any:
    out = io.StringIO()
    with redirect_stdout(out):
        jax.debug.print("eager {}", 3)
        jax.jit(lambda x: jax.debug.print("{x:.2e} {{}} {}", x[0, 1], x=x[1, 1]))(X)
        jax.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: (jax.debug.print("i {}", i, ordered=True), c)[1], x))(X)
        jax.jit(jax.grad(lambda x: (jax.debug.print("grad {}", x), x * x)[1]))(2.0)
        jax.jit(lambda k: jax.debug.print("key {}", k))(jax.random.key(1))
        jax.jit(lambda x: jax.debug.print("{}", x))(jnp.ones((2, 2), "bfloat16"))
        jax.jit(lambda x: jax.debug.print("{}", x))(jnp.array([1, 2], "int4"))
        jax.debug.print("bool {}", jnp.array([True, False]))
        jax.effects_barrier()
    return out.getvalue().splitlines(), attempt(lambda: jax.debug.print("{} {}", 1)), attempt(lambda: jax.debug.print("{a}", b=1))


# ---- keys


def keys() -> Any:
    k = jax.random.key(3)
    many = jax.random.split(k, 6)
    grid = many.reshape(2, 3)
    return [
        many, grid.T, grid[0], grid[:, 1:], jnp.concatenate([many, many]), jnp.stack([k, k]), many.at[1].set(k), jnp.where(np.arange(6) > 2, many, k), lax.scan(lambda c, k: (c, jax.random.normal(k)), 0, many), jax.vmap(jax.random.normal)(many),
        lax.cond(True, lambda k: k, lambda k: jax.random.fold_in(k, 1), k), lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jax.random.split(s[1])[0]), (0, k)), jax.jit(lambda k: k)(many), jnp.broadcast_to(k, (3,)), jnp.ravel(grid), jnp.roll(many, 1), jnp.take(many, np.array([3, 1])),
        many == many[0], many[0] == many[1], str(k.dtype), k.shape, grid.ndim, grid.size, attempt(lambda: k + 1), attempt(lambda: np.asarray(k)), attempt(lambda: jnp.sort(many)), attempt(lambda: float(k)), repr(k), jax.random.key_impl(k), attempt(lambda: jax.random.key(1, impl="nope")),
        pickle.loads(pickle.dumps(jax.random.key_data(k))), jax.device_put(many, jax.devices()[1]), jax.tree.map(jax.random.key_data, {"k": k}), jax.random.wrap_key_data(np.array([1, 2], np.uint32)), attempt(lambda: jax.random.wrap_key_data(np.array([1, 2, 3], np.uint32))), jnp.expand_dims(many, 1), many[::-1], jnp.squeeze(grid[:1]), jnp.moveaxis(grid, 0, 1), many.is_fully_replicated, lax.dynamic_slice(many, (2,), (2,)), jnp.zeros_like(many).shape if False else 0, jnp.tile(k[None], 3), jnp.repeat(many, 2), jnp.delete(many, 0),
    ]  # fmt: skip


# ---- arrays on several devices


def several() -> Any:
    m = mesh()
    x = np.arange(32.0, dtype=np.float32).reshape(8, 4)
    put = jax.device_put(x, NamedSharding(m, P("a")))
    shards = [jax.device_put(x[2 * n : 2 * n + 2], d) for n, d in enumerate(jax.devices())]
    made = jax.make_array_from_single_device_arrays((8, 4), NamedSharding(m, P(("a", "b"))), shards)
    return [
        made, [s.replica_id for s in put.addressable_shards], [str(s.index) for s in made.addressable_shards], jax.jit(lambda x: x + 1)(made), str(jax.jit(lambda x: x + 1)(made).sharding), made.is_fully_replicated, put.is_fully_addressable,
        jax.make_array_from_process_local_data(NamedSharding(m, P("a")), x), made[3], made[2:5], np.asarray(made.T), jax.device_put(made, jax.devices()[3]).devices() == {jax.devices()[3]}, attempt(lambda: made.unsafe_buffer_pointer()), pickle.loads(pickle.dumps(made)), made.copy(), made.nbytes, made.on_device_size_in_bytes(),
        jax.jit(lambda x: jnp.sort(x, axis=0), out_shardings=NamedSharding(m, P()))(made), attempt(lambda: jax.device_put(x[:7], NamedSharding(m, P(("a", "b"))))), attempt(lambda: jax.make_array_from_single_device_arrays((9, 4), NamedSharding(m, P(("a", "b"))), shards)), jax.device_put([x, made], [jax.devices()[0], NamedSharding(m, P())]),
        jax.jit(lambda x: x.sum(), in_shardings=NamedSharding(m, P("b")))(x), jax.vmap(lambda r: r * 2, spmd_axis_name="a")(put), made.addressable_data(2), sorted(str(d) for d in made.devices()), made.sharding.is_equivalent_to(put.sharding, 2), made.committed, jax.live_arrays() != [], jax.random.uniform(jax.random.key(1), (8, 4), out_sharding=None),
    ]  # fmt: skip


# ---- tools around programs


def told() -> Any:
    """What JAX counts and writes while it compiles."""
    heard: list[str] = []
    from jax import monitoring

    listen = lambda name, *_, **__: heard.append(name)  # noqa: E731
    monitoring.register_event_duration_secs_listener(listen)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger("jax").addHandler(handler)
    with jax.log_compiles():
        f = jax.jit(lambda x: x * 3 - 1)
        f(X), f(X), f(X[0])
    logging.getLogger("jax").removeHandler(handler)
    lines = [line.split(" in ")[0][:60] for line in stream.getvalue().splitlines() if line.startswith("Finished")]
    counted = [f._cache_size()]
    f.clear_cache()
    counted.append(f._cache_size())
    jax.clear_caches()
    return sorted({name for name in heard if "pjit" in name or "compile" in name}), lines, counted, f(X)


def options() -> Any:
    """Options of XLA's compiler: known ones are taken, others refused, by the same words."""
    given = [
        {"xla_cpu_enable_fast_math": True}, {"xla_cpu_enable_fast_math": "true"}, {"xla_backend_optimization_level": 0}, {"xla_dump_to": ""}, {"xla_no_such_thing": 1}, {"xla_cpu_enable_fast_math": "maybe"}, {"xla_embed_ir_in_executable": True}, {"xla_cpu_prefer_vector_width": 256}, {"exec_time_optimization_effort": 0.5}, {"xla_cpu_max_isa": "AVX2"}, {"xla_llvm_disable_expensive_passes": True}, {"xla_disable_hlo_passes": "dce"}, {3: 4},
    ]  # fmt: skip
    return [attempt(lambda o=o: jax.jit(lambda x: x * 3, compiler_options=o)(X)) for o in given] + [
        attempt(lambda: jax.jit(lambda x: x * 3).lower(X).compile({"xla_cpu_enable_fast_math": False})(X))
    ]


def texts() -> Any:
    def f(x: Any) -> Any:
        with jax.named_scope("room"):
            return jnp.tanh(x) @ x.T

    lowered = jax.jit(f).lower(X)
    compiled = lowered.compile()
    cost, memory = compiled.cost_analysis(), compiled.memory_analysis()
    run = compiled.runtime_executable()
    return [
        "room" in lowered.as_text(debug_info=True), "tanh" in lowered.as_text(), lowered.compiler_ir("stablehlo").operation.name, compiled.as_text().startswith("HloModule jit_f"), type(cost).__name__, cost["flops"] > 0, "bytes accessed" in cost, memory.generated_code_size_in_bytes >= 0, memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.host_temp_size_in_bytes,
        len(run.hlo_modules()), run.hlo_modules()[0].name, type(run.cost_analysis()).__name__, run.is_deleted() if hasattr(run, "is_deleted") else False, run.fingerprint is None or isinstance(run.fingerprint, bytes), run.size_of_generated_code_in_bytes() >= 0, run.get_output_shardings(), run.get_parameter_shardings(), str(compiled.in_avals), str(compiled.out_tree), compiled(X), compiled._executable.xla_extension_executable() is not None,
        attempt(lambda: compiled(X, X)), attempt(lambda: compiled(X.astype(np.float16))), attempt(lambda: compiled(x=X)), attempt(lambda: jax.grad(lambda x: compiled(x).sum())(X)), attempt(lambda: jax.jit(compiled)(X)), jax.jit(f, static_argnames=()).trace(X).jaxpr.jaxpr.eqns[-1].primitive.name, str(jax.jit(f).eval_shape(X)), len(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()) > 10,
        isinstance(compiled.runtime_executable().client.platform_version, str), jax.devices()[0].client.platform, run.client.runtime_type if False else "", len(jax.devices()[0].client.devices()), jax.devices()[0].client.process_index(), len(jax.devices()[0].client.live_buffers() if hasattr(jax.devices()[0].client, "live_buffers") else [1]) > 0, jax.devices()[0].host_id if hasattr(jax.devices()[0], "host_id") else 0, jax.devices()[0].local_hardware_id, attempt(lambda: jax.devices()[0].live_buffers().__class__.__name__),
    ]  # fmt: skip


def loaded() -> Any:
    from jax.experimental import serialize_executable as s

    f = jax.jit(lambda x, y: {"a": jnp.sin(x) + y, "b": lax.scan(lambda c, r: (c + r, c * r), y[0], x)}, donate_argnums=())
    compiled = f.lower(X, X).compile()
    packed, ins, outs = s.serialize(compiled)
    first = jax.devices()[:1]
    back = s.deserialize_and_load(packed, ins, outs, execution_devices=first)
    sharded = NamedSharding(mesh(), P("a"))
    wide = jax.jit(lambda x: x * 2, in_shardings=sharded, out_shardings=sharded).lower(np.ones((4, 4), np.float32)).compile()
    return back(X, X), s.deserialize_and_load(*s.serialize(wide))(jax.device_put(np.ones((4, 4), np.float32), sharded)), attempt(lambda: s.deserialize_and_load(b"nothing", ins, outs)).split(":")[0]


def exported() -> Any:
    from jax import export

    said: list[Any] = []
    f = jax.jit(lambda x, k: (jnp.sort(x, 0), jax.random.normal(k, x.shape), lax.top_k(x, 2), jnp.linalg.svd(x, compute_uv=False)))
    made = export.export(f, platforms=["cpu"])(X, jax.random.key(0))
    back = export.deserialize(made.serialize())
    said += [back.call(X, jax.random.key(0)), str(back.in_avals), str(back.platforms), back.fun_name, back.nr_devices, attempt(lambda: back.call(X[:2], jax.random.key(0)))]
    a, b = export.symbolic_shape("a, 2*b", constraints=["a >= 2"])
    g = export.export(jax.jit(lambda x: (jnp.cumsum(x, 0), x.reshape(-1), jnp.concatenate([x, x], 1), x.shape[0] * 2 + jnp.sum(x), lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i].sum(), 0.0))))(jax.ShapeDtypeStruct((a, b), np.float32))
    said += [g.call(X), export.deserialize(g.serialize()).call(X[:2, :2]), attempt(lambda: g.call(X[:1])), attempt(lambda: g.call(X[:, :3])), str(g.out_avals)]
    both = export.export(jax.jit(jnp.sin), platforms=["cpu", "tpu"])(X)
    said += [both.call(X), attempt(lambda: export.export(jax.jit(jnp.sin), platforms=["tpu"])(X).call(X)), jax.vmap(lambda x: x)(back.call(X, jax.random.key(0))[0])]
    effect = export.export(jax.jit(lambda x: (jax.debug.print("x"), x * 2)[1]), disabled_checks=[export.DisabledSafetyCheck.custom_call("xla_ffi_python_cpu_callback")])
    said += [attempt(lambda: type(effect(X).serialize()).__name__), attempt(lambda: export.deserialize(b"no"))]
    named = export.export(jax.jit(lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(mesh(), P("a"))), in_shardings=NamedSharding(mesh(), P("a"))))(np.ones((4, 4), np.float32))
    said += [named.call(jax.device_put(np.ones((4, 4), np.float32), NamedSharding(mesh(), P("a")))), named.nr_devices, attempt(lambda: named.call(X))]
    return said


def guards() -> Any:
    said: list[Any] = []
    for name in ("transfer_guard", "transfer_guard_host_to_device", "transfer_guard_device_to_host", "transfer_guard_device_to_device"):
        for level in ("disallow", "disallow_explicit", "allow"):
            with getattr(jax, name)(level):
                calls = (lambda: jnp.sin(X), lambda: jax.device_put(X), lambda: np.asarray(jax.jit(lambda: 3)()), lambda: jax.device_get(jax.jit(lambda: 3)()), lambda: jax.device_put(jax.jit(lambda: 3)(), jax.devices()[1]), lambda: jax.jit(lambda x: x)(3))
                said.append([attempt(lambda call=call: call() is None).__class__.__name__ for call in calls])
    with jax.debug_nans(True):
        said += [attempt(lambda: jax.jit(lambda x: jnp.log(x) + 1)(X - 5)), attempt(lambda: jax.grad(lambda x: jnp.sqrt(x).sum())(X)), attempt(lambda: jax.jit(lambda x: lax.scan(lambda c, r: (c / r, c), x[0], x))(X * 0))]
    with jax.debug_infs(True):
        said += [attempt(lambda: jax.jit(lambda x: 1 / x)(X)), attempt(lambda: jnp.exp(X * 1000)), jnp.log(X + 1)]
    with jax.check_tracer_leaks():
        kept: list[Any] = []
        said += [attempt(lambda: jax.jit(lambda x: (kept.append(x), x)[1])(X)).split(":")[0]]
    leaked: list[Any] = []
    jax.jit(lambda x: (leaked.append(x), x)[1])(X)
    said += [attempt(lambda: leaked[0] + 1).split(":")[0], attempt(lambda: jax.jit(lambda x: np.asarray(x))(X)).split(":")[0], attempt(lambda: jax.jit(lambda n: jnp.ones(n))(3)).split(":")[0], attempt(lambda: jax.jit(lambda x: x[x > 1])(X)).split(":")[0], attempt(lambda: jax.jit(lambda x: list(range(x)))(3)).split(":")[0]]
    said += [attempt(lambda: jnp.ones((2**45,))).split(":")[0], attempt(lambda: jnp.ones((1 << 20, 1 << 20)).block_until_ready()).split(":")[0], attempt(lambda: jax.jit(lambda: jnp.ones((1 << 22, 1 << 20), np.int8).sum(0).max())()).__class__.__name__]
    from jax.experimental import checkify

    def f(x: Any, i: Any) -> Any:
        checkify.check(x[0, 0] >= 0, "first is {}", x[0, 0])
        return jnp.log(x)[i] / x[0, 0]

    for errors in (checkify.user_checks, checkify.nan_checks, checkify.index_checks, checkify.div_checks, checkify.float_checks, checkify.all_checks):
        for given in ((X, 0), (X - 3, 7), (X + 1, 9), (X * 0, 0)):
            err, out = jax.jit(checkify.checkify(f, errors=errors))(*given)
            said += [str(err.get()).splitlines()[0], str(attempt(err.throw)).split("(")[0], out.shape]
    err, out = checkify.checkify(lambda x: lax.while_loop(lambda c: c < 9, lambda c: (checkify.check(c < 7, "c {}", c), c + x)[1], x))(np.float32(2))
    return [*said, str(err.get()), out]


def kernels() -> Any:
    """Pallas, interpreted."""
    from jax.experimental import pallas as pl

    def scale(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2 + y_ref[...]

    def product(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] @ y_ref[...]

    def count(x_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(0) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)
        o_ref[...] += x_ref[...].sum(axis=0, keepdims=True)

    a, b = np.arange(64, dtype=np.float32).reshape(8, 8), np.ones((8, 8), np.float32)
    call = partial(pl.pallas_call, interpret=True)
    return [
        jax.jit(call(scale, out_shape=jax.ShapeDtypeStruct((8, 8), np.float32)))(a, b),
        jax.jit(call(product, out_shape=jax.ShapeDtypeStruct((8, 8), np.float32), grid=(2, 2), in_specs=[pl.BlockSpec((4, 8), lambda i, j: (i, 0)), pl.BlockSpec((8, 4), lambda i, j: (0, j))], out_specs=pl.BlockSpec((4, 4), lambda i, j: (i, j))))(a, b),
        jax.jit(call(count, out_shape=jax.ShapeDtypeStruct((1, 8), np.float32), grid=(4,), in_specs=[pl.BlockSpec((2, 8), lambda i: (i, 0))], out_specs=pl.BlockSpec((1, 8), lambda i: (0, 0))))(a),
        call(scale, out_shape=jax.ShapeDtypeStruct((8, 8), np.float32), input_output_aliases={0: 0})(a, b), jax.vmap(call(scale, out_shape=jax.ShapeDtypeStruct((8, 8), np.float32)))(a[None], b[None]),
    ]  # fmt: skip


def annotations() -> Any:
    from jax.experimental.compute_on import compute_on
    from jax.experimental.shard_alike import shard_alike
    from jax.experimental.xla_metadata import set_xla_metadata

    @jax.jit
    def f(x: Any) -> Any:
        with set_xla_metadata(key="value"):
            y = jnp.sin(x)
        with compute_on("device_host"):
            z = y * 2
        return shard_alike(y, z)

    named = jax.jit(jax.named_call(lambda x: x + 1, name="mine"))
    return [
        attempt(lambda: f(X)), named(X), jax.jit(lambda x: lax.optimization_barrier(x * 2))(X), attempt(lambda: jax.profiler.annotate_function(lambda x: x + 1, name="n")(X)), attempt(lambda: jax.ensure_compile_time_eval().__enter__()).__class__.__name__,
        jax.jit(lambda x: jax.tree_util.Partial(jnp.add, x)(1))(X), jax.closure_convert(lambda x: x * 2, X)[0](X), attempt(lambda: jax.custom_batching.sequential_vmap(lambda x: x * 2)(X)), jax.vmap(jax.custom_batching.sequential_vmap(lambda x: jnp.sin(x)))(X), jax.checkpoint_policies.dots_saveable is not None,
    ]  # fmt: skip


def at_once() -> Any:
    """Eight threads that compile and run, the same programs and others."""
    found: dict[int, Any] = {}

    def work(n: int) -> None:
        f = jax.jit(lambda x: jnp.sin(x) * (n % 3) + jnp.sum(x))
        for _ in range(5):
            out = f(X + n)
        found[n] = np.asarray(out)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def narrow() -> Any:
    """Arrays of types below a byte, and the byte-wide floats, in and out."""
    said: list[Any] = []
    for kind in ("int4", "uint4", "float8_e4m3fn", "float8_e8m0fnu", "float8_e3m4"):
        x = (np.arange(15).reshape(3, 5) % 2).astype(jnp.dtype(kind))
        y = jnp.asarray(x)
        said += [
            y, y.T, y[1:, ::2], attempt(lambda y=y: y + y), attempt(lambda y=y: jnp.concatenate([y, y])), attempt(lambda y=y: y.at[1].set(0)), attempt(lambda y=y: lax.scan(lambda c, r: (c, r), 0, y)[1]), attempt(lambda y=y: y.astype("float32") @ jnp.ones((5, 2))), y.nbytes, y.itemsize, y.on_device_size_in_bytes(), attempt(lambda y=y: jnp.sort(y, 1)), attempt(lambda y=y: pickle.loads(pickle.dumps(y))), attempt(lambda y=y: jnp.where(y > 0, y, y[0])), attempt(lambda y=y: lax.bitcast_convert_type(y, "int8")), attempt(lambda y=y: jnp.zeros_like(y)), attempt(lambda y=y: np.asarray(y[0, 0]).item()), attempt(lambda y=y: y.sum(0)), attempt(lambda y=y: jax.jit(lambda a: a, donate_argnums=0)(y + 0)), attempt(lambda y=y: jax.device_put(y, jax.devices()[2])), attempt(lambda y=y: str(y)),
        ]  # fmt: skip
    return said


def checks_of_shapes() -> Any:
    calls = [
        lambda: lax.dot_general(X, X, (((0,), (1,)), ((), ()))), lambda: lax.conv(X, X, (1, 1), "SAME"), lambda: lax.concatenate([X, X.T], 0), lambda: lax.reshape(X, (5,)), lambda: lax.transpose(X, (0, 0)), lambda: lax.broadcast_in_dim(X, (2,), (0, 1)), lambda: lax.slice(X, (0, 0), (9, 9)), lambda: lax.dynamic_slice(X, (0, 0), (9, 9)), lambda: lax.dynamic_update_slice(X, X.T, (0, 0)), lambda: lax.pad(X, np.int32(0), ((0, 0, 0), (0, 0, 0))), lambda: lax.select(X > 0, X, X[0]), lambda: lax.clamp(X, X[0], X), lambda: lax.reduce(X, 0, lax.add, (5,)), lambda: lax.gather(X, np.zeros(1, np.int32), lax.GatherDimensionNumbers((0,), (0, 1), (0,)), (1, 1)), lambda: lax.top_k(X, 9), lambda: lax.sort((X, X.T)), lambda: lax.scan(lambda c, x: (c.astype(int), x), X[0], X), lambda: lax.while_loop(lambda c: c, lambda c: c, X), lambda: lax.cond(True, lambda: X, lambda: X[0]), lambda: lax.cond(3.0, lambda: 1, lambda: 2), lambda: lax.switch(0.5, [lambda: 1]), lambda: lax.fori_loop(0, 3, lambda i, c: c[0], X), lambda: lax.scan(lambda c, x: (c, x), 0, (X, X[:1])), lambda: lax.rev(X, (3,)), lambda: lax.argmax(X[:0], 0, np.int32), lambda: lax.bitcast_convert_type(X[:, :3], np.float64), lambda: lax.population_count(X), lambda: lax.add(X, np.int32(1)), lambda: lax.fft(X, "RFFT", (9,)), lambda: lax.cumsum(X, 4), lambda: lax.all_gather(X, "i"), lambda: lax.psum(X, "i"),
        lambda: jnp.concatenate([]), lambda: jnp.stack([X, X[0]]), lambda: jnp.einsum("ij,jk", X, X), lambda: jnp.linalg.cholesky(X), lambda: jnp.linalg.solve(X, X), lambda: jnp.take(X, 1.5), lambda: X[1.5], lambda: X["a"], lambda: X[0, 0, 0], lambda: jnp.asarray(X)[0, 0, 0], lambda: jnp.asarray(X)[1.5], lambda: jnp.asarray(X)[[0, 1]], lambda: jnp.asarray(X).__setitem__(0, 1), lambda: jnp.split(X, 3, 1), lambda: jnp.array(["a"]), lambda: jnp.array([object()]), lambda: jnp.reshape(X, -2), lambda: jnp.transpose(X, (0, 2)), lambda: jnp.expand_dims(X, 9), lambda: jnp.squeeze(X, 0), lambda: jnp.moveaxis(X, 0, 7), lambda: jnp.argmax(X, axis=(0, 1)), lambda: jnp.max(X[:0]), lambda: jnp.nonzero(X > 3) and 0, lambda: jax.jit(jnp.nonzero)(X), lambda: jax.jit(jnp.unique)(X), lambda: jnp.interp(X, X, X), lambda: jnp.pad(X, 1, mode="no"), lambda: jnp.quantile(X, 2, method="no"), lambda: jnp.arange(0, 1, 0), lambda: jnp.linspace(0, 1, -1), lambda: jax.nn.one_hot(X, 3).shape, lambda: jax.random.choice(jax.random.key(0), 3, (5,), replace=False), lambda: jax.random.normal(jax.random.key(0), (2,), dtype=int), lambda: jax.random.split(3), lambda: jax.image.resize(X, (2,), "linear"), lambda: jax.vmap(lambda x, y: x)(X, X.T), lambda: jax.vmap(lambda x: x, in_axes=5)(X), lambda: jax.grad(lambda x: x)(X), lambda: jax.grad(lambda x: x.sum())(X.astype(int)), lambda: jax.jvp(lambda x: x, (X,), (X[0],)), lambda: jax.vjp(lambda x: x, X)[1](X[0]), lambda: jax.jacfwd(lambda x: x)(X.astype(int)), lambda: jax.jit(lambda x: x)("a"), lambda: jax.jit(3), lambda: jax.jit(lambda x: x, static_argnums=0)([1]),
    ]  # fmt: skip
    return [attempt(lambda call=call: call() is None) for call in calls]


_HANDLERS = """
#include <cmath>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

static ffi::Error scale(float by, int64_t more, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t n = 0; n < x.element_count(); ++n) y->typed_data()[n] = x.typed_data()[n] * by + more;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Scale, scale, ffi::Ffi::Bind().Attr<float>("by").Attr<int64_t>("more")
    .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

static ffi::Error both(ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> sizes, ffi::Result<ffi::AnyBuffer> same) {
  for (size_t n = 0; n < x.dimensions().size(); ++n) sizes->typed_data<int32_t>()[n] = x.dimensions()[n];
  std::memcpy(same->untyped_data(), x.untyped_data(), x.size_bytes());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Both, both, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>().Ret<ffi::AnyBuffer>());

static ffi::Error refuse(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  return ffi::Error::InvalidArgument("it said no");
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Refuse, refuse, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
"""


def handlers() -> Any:
    """Functions of the user's, in C++, as targets of custom calls."""
    import ctypes
    import subprocess
    import tempfile
    from pathlib import Path

    folder = Path(tempfile.mkdtemp())
    (folder / "handlers.cc").write_text(_HANDLERS)
    command = ["g++", "-std=c++17", "-shared", "-fPIC", "-include", "cstring", f"-I{jax.ffi.include_dir()}"]
    subprocess.run([*command, "-o", folder / "handlers.so", folder / "handlers.cc"], check=True)
    library = ctypes.CDLL(str(folder / "handlers.so"))
    for name in ("Scale", "Both", "Refuse"):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    kind = jax.ShapeDtypeStruct

    def scale(x: Any, **options: Any) -> Any:
        return jax.ffi.ffi_call("Scale", kind(x.shape, x.dtype), **options)(x, by=np.float32(2), more=np.int64(3))

    def both(x: Any) -> Any:
        return jax.ffi.ffi_call("Both", (kind((x.ndim,), np.int32), kind(x.shape, x.dtype)))(x)

    kinds = ("float32", "bfloat16", "int8", "complex64", "bool", "uint16", "float8_e5m2", "int4")
    refuse = lambda x: jax.ffi.ffi_call("Refuse", kind(x.shape, x.dtype))(x)  # noqa: E731
    mapped = jax.shard_map(scale, mesh=mesh(), in_specs=P("a"), out_specs=P("a"), check_vma=False)
    return [
        scale(jnp.asarray(X)), jax.jit(lambda x: jnp.sin(scale(x + 1)) * 2)(X), jax.vmap(partial(scale, vmap_method="sequential"))(X), jax.jit(jax.vmap(partial(scale, vmap_method="broadcast_all")))(X),
        jax.jit(partial(scale, input_output_aliases={0: 0}), donate_argnums=0)(jnp.asarray(X) + 0), [attempt(lambda k=k: jax.jit(both)(jnp.ones((2, 3), k))) for k in kinds], jax.jit(both)(np.ones((0, 3), np.float32)),
        attempt(lambda: jax.jit(refuse)(X).block_until_ready()), attempt(lambda: jax.jit(lambda x: scale(x.astype(int)))(X)).split(":")[0], jax.jit(lambda x: lax.scan(lambda c, r: (scale(c), r), x[0], x))(X), jax.jit(lambda x: lax.cond(x[0, 0] > 1, scale, lambda x: x, x))(X),
        attempt(lambda: mapped(np.ones((4, 2), np.float32))), attempt(lambda: jax.grad(lambda x: scale(x).sum())(X)), jax.jit(lambda x: [scale(x), scale(x.T), both(x)])(X), jax.ffi.ffi_call("Scale", kind((3, 4), np.float32), has_side_effect=True)(X, by=np.float32(1), more=np.int64(0)),
    ]  # fmt: skip


CASES = [
    handlers, pointers, views, writes_of_the_owner, kept_alive, gone, given_up, references, ordered, callbacks_of_arrays, printing, keys, several, told, options, texts, loaded,
    exported, guards, kernels, annotations, at_once, narrow, checks_of_shapes,
]  # fmt: skip
