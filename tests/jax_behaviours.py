"""What JAX's tests of its interface try, as cases of `survey_jax_harnesses.py`: one function a case, which returns what
both platforms have to say alike.  Four devices are there.
"""

from __future__ import annotations

import gc
import io
import pickle
import tempfile
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def attempt(call: Any) -> Any:
    """What a call gives, or its error."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"


# ---- control flow


def empty_carries() -> Any:
    return [
        jax.jit(lambda x: lax.while_loop(lambda c: False, lambda c: c, ()))(X),
        jax.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: c, ()))(X),
        jax.jit(lambda x: lax.scan(lambda c, x: (c, x * 2), (), x))(X),
        jax.jit(lambda x: lax.scan(lambda c, x: (c + x, None), x[0], x))(X),
        jax.jit(lambda x: lax.scan(lambda c, _: (c, None), (), None, length=3))(X),
        jax.jit(lambda x: lax.scan(lambda c, x: (c + 1, x), 0, x[:0]))(X),
        jax.jit(lambda x: lax.cond(x[0, 0] > 1, lambda: (), lambda: ()))(X),
        jax.jit(lambda x: lax.scan(lambda c, x: (c + jnp.sum(x[0]), x), 0.0, (x, {"a": x, "b": ()})))(X),
        jax.jit(lambda x: lax.scan(lambda c, x: (c + x, x), x[0], x, reverse=True, unroll=2))(X),
        jax.jit(lambda x: lax.map(lambda r: r.sum(), x, batch_size=2))(X),
    ]


def branches() -> Any:
    def run(i: Any, x: Any) -> Any:
        return (
            lax.switch(i, [lambda x: x, lambda x: x * 2, lambda x: -x], x),
            lax.cond(i > 1, lambda x: (x.sum(), x), lambda x: (x.max(), x + 1), x),
            lax.cond(i > 1, lambda: 1, lambda: 2), lax.switch(i, [lambda: jnp.zeros((0, 2))]),
            lax.cond(True, lambda x: x, lambda x: x * 0, x), lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x),
        )  # fmt: skip
    return [
        [jax.jit(run)(i, X) for i in (-5, 0, 1, 2, 9)],
        jax.vmap(run, (0, None))(np.arange(4), X), jax.vmap(run, (None, 0))(1, X),
        jax.grad(lambda x: run(1, x)[0].sum())(X), jax.jvp(partial(run, 2), (X,), (X,)),
    ]  # fmt: skip


def loops() -> Any:
    def collatz(n: Any) -> Any:
        return lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2, 3 * s[0] + 1, s[0] // 2), s[1] + 1), (n, 0))[1]

    return [
        jax.vmap(collatz)(jnp.arange(1, 30)),
        jax.jit(lambda n: lax.fori_loop(2, n, lambda i, s: s + i, 0))(10),
        jax.jit(lambda n: lax.fori_loop(n, 2, lambda i, s: s + i, 0))(10),
        jax.grad(lambda x: lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) * x, x))(0.3),
        jax.jvp(lambda x: lax.while_loop(lambda c: c < 100, lambda c: c * x, x), (3.0,), (1.0,)),
        jax.hessian(lambda x: lax.scan(lambda c, y: (c * y + jnp.sin(c), c), x[0], x)[0])(jnp.arange(4.0)),
        jax.jit(partial(lax.associative_scan, jnp.add))(X), jax.jit(partial(lax.associative_scan, jnp.matmul, reverse=True))(np.ones((5, 2, 2)) * 0.5),
        jax.jit(lambda x: lax.associative_scan(jnp.maximum, x, axis=1))(X), lax.associative_scan(jnp.add, X[:0]),
        jax.jit(lambda x: lax.custom_root(lambda y: y**2 - x, 1.0, lambda f, y: lax.while_loop(lambda y: abs(f(y)) > 1e-3, lambda y: y - f(y) / (2 * y), y), lambda g, y: y / g(1.0)))(2.0),
    ]  # fmt: skip


def nested_loops() -> Any:
    def outer(c: Any, x: Any) -> Any:
        inner = lax.scan(lambda d, y: (d + y * c, jnp.sin(d)), 0.0, x)
        return lax.cond(inner[0] > 3, lambda: (c + 1, inner[1]), lambda: (lax.while_loop(lambda v: v < 2, lambda v: v + 0.7, c), inner[1] * 2))

    run = lambda x: lax.scan(outer, 0.5, x)  # noqa: E731
    return jax.jit(run)(X), jax.vmap(run)(X[None]), jax.jacfwd(run)(X), jax.jit(lambda x: lax.scan(jax.checkpoint(outer), 0.5, x))(X)


def effects_in_loops() -> Any:
    seen: list[Any] = []

    def body(c: Any, x: Any) -> Any:
        jax.debug.callback(lambda v: seen.append(float(v)), x.sum(), ordered=True)
        y = io_callback(lambda v: np.float32(v + 1), jax.ShapeDtypeStruct((), np.float32), c, ordered=True)
        return y, jax.pure_callback(lambda v: v * 2, jax.ShapeDtypeStruct((4,), np.float32), x)

    found = jax.jit(lambda x: lax.scan(body, np.float32(0), x))(X)
    lax.cond(True, lambda: jax.debug.callback(lambda: seen.append(-1)), lambda: None)
    jax.effects_barrier()
    return found, seen


# ---- callbacks


def callbacks() -> Any:
    def f(x: Any) -> Any:
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential")

    types = ["float32", "bfloat16", "int8", "bool", "complex64", "float16", "uint32", "int4", "float8_e5m2"]
    same = [attempt(lambda k=k: jax.jit(lambda x: jax.pure_callback(lambda v: v, x, x))(jnp.ones((2, 3), k))) for k in types]
    empty = jax.jit(lambda x: jax.pure_callback(lambda v: v, x, x))(X[:0])
    many = jax.jit(lambda x: jax.pure_callback(lambda a: (a, {"k": a + 1}, ()), (x, {"k": x}, ()), x))(X)
    none = jax.jit(lambda x: jax.pure_callback(lambda: np.float32(3), jax.ShapeDtypeStruct((), np.float32)) + x)(X)
    wrong = [
        attempt(lambda: jax.jit(lambda x: jax.pure_callback(lambda v: v[:1], x, x))(X).block_until_ready()).split(":")[0],
        attempt(lambda: jax.jit(lambda x: jax.pure_callback(lambda v: 1 / 0, x, x))(X).block_until_ready()).split(":")[0],
    ]
    return jax.jit(f)(X), jax.vmap(f)(X), jax.jit(jax.vmap(f))(X), same, empty, many, none, wrong


def prints() -> Any:
    out = io.StringIO()
    with redirect_stdout(out):
        jax.jit(lambda x: jax.debug.print("x {} y {y} {z:.2f}", x, y=x.sum(), z=x[0, 1] / 3))(X)
        jax.jit(lambda x: [jax.debug.print("{}", r, ordered=True) for r in x])(X)
        jax.vmap(lambda x: jax.debug.print("row {}", x))(X)
        jax.effects_barrier()
    return sorted(out.getvalue().splitlines())


# ---- transformations


def custom_rules() -> Any:
    @jax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    f.defvjp(lambda x, y: (f(x, y), (jnp.cos(x), y)), lambda r, g: (r[0] * g * r[1] * 2, None))

    @jax.custom_jvp
    def h(x: Any) -> Any:
        return jnp.where(x > 0, x, 0)

    h.defjvp(lambda p, t: (h(*p), t[0] * 3))
    return jax.grad(lambda x: f(x, X).sum())(X), jax.grad(lambda x: h(x).sum())(X), jax.jvp(h, (X,), (X,)), jax.jit(jax.vmap(jax.grad(h)))(X[0]), jax.linearize(h, X)[1](X)


def checkpoints() -> Any:
    f = lambda x: jnp.sin(jnp.sin(x) @ x.T).sum()  # noqa: E731
    policies = jax.checkpoint_policies
    return [
        jax.grad(jax.checkpoint(f, policy=policy))(X)
        for policy in (None, policies.everything_saveable, policies.dots_saveable, policies.nothing_saveable)
    ] + [jax.jit(lambda x: jax.vjp(f, x)[1](np.float32(1)))(X), jax.jit(jax.jacrev(lambda x: jnp.cumsum(x, 0)))(X), lax.optimization_barrier((X, X[0]))]


def jits() -> Any:
    return [
        jax.jit(lambda x, n: x * n, static_argnums=1)(X, 3), jax.jit(lambda x, *, a: x + a, static_argnames="a")(X, a=2),
        jax.jit(lambda x, y: y, keep_unused=False)(X, X[0]), jax.jit(lambda x, y: y, keep_unused=True)(X, X[0]),
        jax.jit(lambda: 3)(), jax.jit(lambda x: None)(X), jax.jit(lambda x: (x, 1, 2.0, True, 1j))(X), jax.jit(lambda x: x)(X),
        jax.jit(lambda x: jnp.array([]))(X), jax.jit(jax.jit(lambda x: x + 1), inline=True)(X),
        jax.jit(lambda x: x + 1).eval_shape(X).shape, jax.jit(lambda x: x.astype(int))(np.array([1.7, -2.9, np.nan, np.inf, 1e30])),
        jax.eval_shape(lambda x: x @ x.T, X).shape, str(jax.make_jaxpr(lambda x: x + 1)(X)),
        jax.jit(lambda x: x["a"] + x["b"][0])({"a": X, "b": [X]}), attempt(lambda: jax.jit(lambda x: int(x))(3)),
        attempt(lambda: jax.jit(lambda x: x if x.sum() > 1 else -x)(X)), attempt(lambda: jax.jit(lambda x: x + np.ones(7))(X)),
        jax.jit(lambda x: x, device=jax.devices()[2])(X).devices().pop().id if False else 0,
    ]  # fmt: skip


# ---- arrays


def methods() -> Any:
    x = jnp.asarray(X) + 0
    x.copy_to_host_async()
    y = x + 1
    size = y.on_device_size_in_bytes()
    pointer = isinstance(y.unsafe_buffer_pointer(), int)
    shards = [(s.device.id, str(s.index), s.data.shape, s.replica_id) for s in y.addressable_shards]
    z = y.copy()
    z.delete()
    return [
        size, pointer, str(shards), z.is_deleted(), attempt(lambda: z + 1), attempt(lambda: np.asarray(z)), y.is_fully_addressable, y.is_fully_replicated,
        y.committed, str(y.sharding), str(y.devices()), y.nbytes, y.itemsize, repr(y), str(y), float(y[0, 0]), int(jnp.int32(3)), bool(jnp.array(True)),
        y.tolist(), [v.item() for v in y[0]], hash(3), attempt(lambda: hash(y)), pickle.loads(pickle.dumps(y)), y.block_until_ready() is y,
        jax.block_until_ready({"a": y}), str(y.format) if hasattr(y, "format") else "", y.weak_type, list(y[0]), len(y), y.at[0].add(1), y.is_ready(),
        format(y[0, 0], ".3f"), y.__array__().flags.writeable, memoryview(np.asarray(y)).readonly, np.array(y, dtype=np.float64), y.device == jax.devices()[0],
    ]  # fmt: skip


def puts() -> Any:
    devices = jax.devices()
    x = jax.device_put(X, devices[1])
    y = x + 1
    kinds = ["int4", "uint4", "int2", "float8_e5m2", "bfloat16", "float4_e2m1fn", "float8_e8m0fnu", "complex64"]
    return [
        str(y.devices()), y, attempt(lambda: x + jax.device_put(X, devices[2])), jax.device_put({"a": X, "b": 1}), jax.device_get({"a": y, "b": [x]}),
        [attempt(lambda k=k: jax.device_put(np.ones((3, 5)).astype(jnp.dtype(k)))) for k in kinds],
        [attempt(lambda k=k: jax.device_put(np.ones((3, 5)).astype(jnp.dtype(k)))[1:, ::2].T) for k in kinds],
        jax.device_put(x, devices[3]), jax.device_put(X[:, ::-1]), jax.device_put(np.asfortranarray(X)), jax.device_put(np.array(3.0, ">f4")) if False else 0,
        jax.device_put(np.zeros((0, 3))), jax.device_put(3), jax.device_put(X, donate=True), jax.device_put(X, may_alias=False), str(jax.device_put(X).sharding),
        attempt(lambda: jax.device_put(np.array(["a"]))), attempt(lambda: jax.device_put(object())), str(jax.local_devices()), jax.device_count(), jax.process_count(),
        jax.devices()[0].platform, jax.devices()[0].device_kind, jax.devices()[1].id, str(jax.devices()[0]), repr(jax.devices()[0]), jax.devices()[0].process_index,
        str(jax.devices()[0].memory_stats()), [m.kind for m in jax.devices()[0].addressable_memories()], jax.devices()[0].default_memory().kind,
        attempt(lambda: jax.device_put(X, jax.memory.Space.Host).sharding.memory_kind), attempt(lambda: jax.device_put(X, SingleDeviceSharding(devices[0], memory_kind="pinned_host")).sharding.memory_kind),
        attempt(lambda: jax.device_put(X, SingleDeviceSharding(devices[0], memory_kind="unpinned_host")).sharding.memory_kind),
        attempt(lambda: jax.device_put(X, SingleDeviceSharding(devices[0], memory_kind="device")).sharding.memory_kind),
    ]  # fmt: skip


def dlpacks() -> Any:
    said: list[Any] = []
    for kind in ("float32", "int8", "bfloat16", "bool", "complex64", "uint16", "float16", "int4", "float8_e5m2"):
        x = (jnp.arange(6) % 2).reshape(2, 3).astype(kind) * 1
        said.append(attempt(lambda x=x: jnp.from_dlpack(x)))
        said.append(attempt(lambda x=x: np.from_dlpack(x)))
    given = X.copy()
    said += [jnp.from_dlpack(given), jnp.from_dlpack(given.T) if False else 0, str(jnp.asarray(X).__dlpack_device__()), attempt(lambda: jnp.from_dlpack(X[:0].copy()))]
    said += [attempt(lambda: jnp.from_dlpack(jnp.asarray(X), copy=True)), attempt(lambda: jnp.from_dlpack(np.float32(3) * np.ones(()))), attempt(lambda: jax.dlpack.is_supported_dtype(jnp.int4))]
    return said


def donations() -> Any:
    f = jax.jit(lambda x, y: (x + y, y), donate_argnums=(0,))
    x, y = jnp.asarray(X) + 0, jnp.asarray(X) + 1
    out = f(x, y)
    g = jax.jit(lambda t: jax.tree.map(lambda a: a * 2, t), donate_argnames="t")
    tree = {"a": jnp.asarray(X) + 1, "b": jnp.arange(3)}
    twice = g(tree)
    unused = jnp.asarray(X) + 0
    jax.jit(lambda x: 3, donate_argnums=0)(unused)
    return out, x.is_deleted(), y.is_deleted(), attempt(lambda: x + 1), twice, tree["a"].is_deleted(), unused.is_deleted(), attempt(lambda: f(y, y))


def live() -> Any:
    gc.collect()
    before = len(jax.live_arrays())
    x = jnp.ones(3) + 1
    grown = len(jax.live_arrays()) > before
    del x
    return grown


# ---- ahead of time, export, caches


def ahead() -> Any:
    lowered = jax.jit(lambda x, y: {"s": jnp.sin(x) @ y}, donate_argnums=()).lower(X, X.T)
    compiled = lowered.compile()
    cost = compiled.cost_analysis()
    memory = compiled.memory_analysis()
    again = lowered.compile(compiler_options={"xla_cpu_enable_fast_math": False})
    return [
        compiled(X, X.T), "stablehlo" in lowered.as_text(), "HloModule" in lowered.as_text("hlo"), "HloModule" in compiled.as_text(),
        sorted(set(cost) & {"flops", "bytes accessed"}), memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.alias_size_in_bytes,
        type(memory.temp_size_in_bytes).__name__, str(compiled.in_tree), str(compiled.out_tree), str(compiled.input_shardings), str(compiled.output_shardings),
        attempt(lambda: compiled(X, X)), attempt(lambda: compiled(X)), attempt(lambda: compiled(X.astype(int), X.T)), again(X, X.T), str(compiled.args_info), str(lowered.out_info),
        attempt(lambda: lowered.compile(compiler_options={"no_such_option": 1})), type(compiled.runtime_executable()).__name__, lowered.cost_analysis()["flops"],
        str(compiled.input_formats), str(compiled.output_formats), lowered.compiler_ir("hlo").as_hlo_text()[:9], compiled.runtime_executable().get_hlo_text()[:9] if hasattr(compiled.runtime_executable(), "get_hlo_text") else "",
        len(compiled.runtime_executable().hlo_modules()), [str(d) for d in compiled.runtime_executable().local_devices()],
        compiled.runtime_executable().get_output_memory_kinds(), [str(s) for s in compiled.runtime_executable().get_output_layouts()], [str(s) for s in compiled.runtime_executable().get_parameter_layouts()],
    ]  # fmt: skip


def exports() -> Any:
    from jax import export

    f = jax.jit(lambda x: jnp.sin(x) @ x.T)
    made = export.export(f)(jax.ShapeDtypeStruct((3, 4), np.float32))
    back = export.deserialize(made.serialize(vjp_order=1))
    sizes = export.symbolic_shape("a, b")
    free = export.export(f)(jax.ShapeDtypeStruct(sizes, np.float32))
    grads = jax.grad(lambda x: back.call(x).sum())(X)
    return back.call(X), export.deserialize(free.serialize()).call(X), free.call(X[:1, :2]), grads, made.platforms, jax.jit(back.call)(X), attempt(lambda: free.call(X[0]))


def checks() -> Any:
    said: list[Any] = []
    with jax.debug_nans(True):
        said += [attempt(lambda: jnp.log(jnp.array(-1.0))), attempt(lambda: jax.jit(lambda x: 0 / x)(0.0)), jnp.sqrt(2.0)]
        said += [attempt(lambda: jax.grad(jnp.sqrt)(0.0))]
    with jax.debug_infs(True):
        said += [attempt(lambda: 1 / jnp.array(0.0))]
    with jax.enable_checks(True):
        said += [jax.jit(lambda x: lax.scan(lambda c, x: (c + x, c), x[0], x))(X)]
    with jax.disable_jit():
        said += [jax.jit(lambda x: lax.cond(x > 1, lambda: x, lambda: -x))(2.0), lax.scan(lambda c, x: (c + x, c), X[0, 0] * 0, X[0])]
    with jax.default_matmul_precision("float32"):
        said += [jnp.dot(X, X.T)]
    with jax.transfer_guard("disallow"):
        said += [attempt(lambda: jnp.sin(X)), attempt(lambda: jax.device_put(X))]
    with jax.numpy_dtype_promotion("strict"):
        said += [attempt(lambda: jnp.int32(1) + jnp.float32(2))]
    with jax.numpy_rank_promotion("raise"):
        said += [attempt(lambda: jnp.asarray(X) + jnp.ones(4))]
    with jax.default_device(jax.devices()[2]):
        said += [str((jnp.ones(3) + 1).devices())]
    with jax.checking_leaks():
        said += [jax.jit(lambda x: x * 2)(X)]
    from jax.experimental import checkify
    err, out = checkify.checkify(jax.jit(lambda x: jnp.log(x)[5]), errors=checkify.all_checks)(X[0])
    said += [str(err.get()).splitlines()[0], out]
    return said


def profiles() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        jax.profiler.start_trace(folder)
        with jax.profiler.TraceAnnotation("mine"), jax.profiler.StepTraceAnnotation("step", step_num=1):
            y = jax.jit(lambda x: x + 1)(X).block_until_ready()
        jax.profiler.stop_trace()
        with jax.profiler.trace(folder):
            jnp.sin(y).block_until_ready()
        return y, type(jax.profiler.device_memory_profile()).__name__


# ---- several devices


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))


def maps() -> Any:
    x = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    return [
        jax.pmap(lambda x: x * 2)(x), jax.pmap(lambda x: lax.psum(x, "i"), "i")(x), jax.pmap(lambda x: lax.pmean(x, "i"), axis_name="i")(x),
        jax.pmap(lambda x: lax.all_gather(x, "i"), "i")(x), jax.pmap(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]), "i")(x),
        jax.pmap(lambda x, y: x + y, in_axes=(0, None))(x, 3.0), jax.pmap(lambda x: lax.axis_index("i"), "i")(x), jax.pmap(lambda x: lax.pmax(x, "i"), "i")(x),
        jax.pmap(lambda x: lax.psum_scatter(x, "i"), "i")(np.arange(16.0).reshape(4, 4)), jax.pmap(lambda x: lax.all_to_all(x, "i", 0, 0), "i")(np.arange(16.0).reshape(4, 4)),
        jax.pmap(jax.grad(lambda x: lax.pmean(jnp.sin(x).sum(), "i")), "i")(x), attempt(lambda: jax.pmap(lambda x: x)(np.ones((5, 2)))),
        jax.pmap(lambda x: x, out_axes=None)(np.ones((4, 2))), jax.pmap(lambda x: x.sum(), devices=jax.devices()[:2])(x[:2]), jax.pmap(lambda x: x, donate_argnums=0)(x),
        jax.pmap(lambda k: jax.random.normal(k, (2,)))(jax.random.split(jax.random.key(0), 4)), str(jax.pmap(lambda x: x)(x).sharding.device_set == set(jax.devices())),
        jax.vmap(lambda x: jax.pmap(lambda y: y + 1)(x), in_axes=1)(x),
    ]  # fmt: skip


def shards() -> Any:
    m = mesh()
    x = np.arange(32, dtype=np.float32).reshape(8, 4)
    put = jax.device_put(x, NamedSharding(m, P("a", "b")))
    f = jax.jit(lambda x: jnp.sin(x) @ x.T, out_shardings=NamedSharding(m, P("b", None)))
    said: list[Any] = [f(put), str(f(put).sharding.spec), str([(s.device.id, s.data.shape) for s in put.addressable_shards])]
    mapped = jax.shard_map(lambda x: lax.psum(x, "a"), mesh=m, in_specs=P("a", "b"), out_specs=P(None, "b"))
    said += [mapped(put), jax.jit(mapped)(put), jax.grad(lambda x: (mapped(x) ** 2).sum())(put)]
    said += [jax.jit(jax.shard_map(lambda x: lax.all_gather(x, "b", axis=1, tiled=True), mesh=m, in_specs=P("a", "b"), out_specs=P("a", None), check_vma=False))(put)]
    said += [jax.jit(jax.shard_map(lambda x: lax.scan(lambda c, r: (lax.psum(c + r, "a"), r), x[0] * 0, x)[0], mesh=m, in_specs=P(None, "b"), out_specs=P("b"), check_vma=False))(x)]
    said += [jax.jit(lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(m, P(None, "a"))))(put), jnp.sum(put, 0), jnp.sort(put, 0), put.T, put[3], put[1:3, ::2], jnp.cumsum(put, 1)]
    said += [jax.make_array_from_callback((8, 4), NamedSharding(m, P("a")), lambda i: x[i]), jax.device_put(put, NamedSharding(m, P())), np.asarray(put), jax.random.normal(jax.random.key(0), (8, 4), out_sharding=None)]
    said += [attempt(lambda: jax.jit(lambda x: jnp.linalg.qr(x)[1])(put).shape), jax.jit(lambda x: jnp.fft.fft(x, axis=0))(put), jax.jit(lambda x: lax.top_k(x, 2))(put), attempt(lambda: put + jax.device_put(x, jax.devices()[1]))]
    return said


def sparse() -> Any:
    from jax.experimental import sparse as sp

    dense = jnp.where(jnp.asarray(X) % 3 == 0, X, 0)
    b = sp.BCOO.fromdense(dense)
    c = sp.BCSR.fromdense(dense)
    return [
        b.todense(), b @ X.T, jax.jit(lambda b: b @ X.T)(b), c @ X.T, (b.T @ X).sum(), jax.grad(lambda d: (sp.BCOO((d, b.indices), shape=b.shape) @ X.T).sum())(b.data),
        sp.sparsify(lambda x: x * 2 + x)(b).todense(), sp.bcoo_reduce_sum(b, axes=(0,)).todense(), b.sum_duplicates().todense(), (b @ b.T).todense(), sp.CSR.fromdense(dense) @ X[0], sp.COO.fromdense(dense).T.todense(),
        sp.bcoo_dot_general(b, X, dimension_numbers=(((0,), (0,)), ((), ()))), sp.bcoo_concatenate([b, b], dimension=0).todense(), b.sort_indices().data, sp.empty((2, 2)).todense(), sp.eye(3).todense(), sp.random_bcoo(jax.random.key(0), (4, 4)).todense(),
    ]  # fmt: skip


def caches() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        kept = jax.config.jax_compilation_cache_dir
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        from jax.experimental.compilation_cache import compilation_cache

        compilation_cache.reset_cache()
        one = jax.jit(lambda x: jnp.cosh(x) * 3)(X)
        import os
        files = sum(len(f) for _, _, f in os.walk(folder)) > 0
        jax.clear_caches()
        two = jax.jit(lambda x: jnp.cosh(x) * 3)(X)
        jax.config.update("jax_compilation_cache_dir", kept)
        compilation_cache.reset_cache()
        return one, two, files


def serialised() -> Any:
    from jax.experimental import serialize_executable as s

    compiled = jax.jit(lambda x: (jnp.sin(x), {"n": x.sum()})).lower(X).compile()
    return s.deserialize_and_load(*s.serialize(compiled), execution_devices=jax.devices()[:1])(X)


def errors() -> Any:
    return [
        attempt(lambda: jnp.ones(3) + jnp.ones(4)), attempt(lambda: jnp.dot(X, X)), attempt(lambda: lax.add(1, 2.0)), attempt(lambda: jnp.zeros(-1)),
        attempt(lambda: jax.jit(lambda x: x.block_until_ready())(X)), attempt(lambda: jnp.linalg.inv(X)), attempt(lambda: jnp.reshape(X, (5,))), attempt(lambda: jnp.zeros((2**40, 2**10))),
        attempt(lambda: jax.devices("gpu")), attempt(lambda: jax.jit(lambda x: x, backend="nope")(X)), jax.default_backend(), attempt(lambda: jax.devices("tpu")), [d.id for d in jax.devices("cpu")],
        attempt(lambda: jax.jit(lambda x: x + 1, backend="cpu")(X)), jax.local_device_count(), jax.process_index(), [str(d) for d in jax.local_devices(backend="cpu")],
    ]  # fmt: skip


def ffi() -> Any:
    return [
        attempt(lambda: jax.jit(lambda x: jax.ffi.ffi_call("no_such_target", x)(x))(X)).split(":")[0],
        jax.jit(lambda x: lax.approx_max_k(x, 2))(X), jax.jit(lambda x: lax.approx_min_k(x, 2))(X), lax.reduce_precision(X / 7, 5, 4), lax.conv(X[None, None], X[None, None, :2, :2], (1, 1), "SAME"),
        lax.ragged_dot(X, np.ones((2, 4, 3), np.float32), np.array([1, 2])), jax.jit(lambda x: lax.composite(lambda x: x + 1, "my.op")(x))(X), lax.create_token() is not None,
        jax.nn.dot_product_attention(X.reshape(1, 3, 2, 2), X.reshape(1, 3, 2, 2), X.reshape(1, 3, 2, 2), is_causal=True), lax.rng_uniform(np.float32(0), np.float32(1), (3,)).shape, lax.rng_bit_generator(np.arange(4, dtype=np.uint32), (5,)),
    ]  # fmt: skip


CASES = [
    empty_carries, branches, loops, nested_loops, effects_in_loops, callbacks, prints, custom_rules, checkpoints, jits, methods, puts,
    dlpacks, donations, live, ahead, exports, checks, profiles, maps, shards, sparse, caches, serialised, errors, ffi,
]  # fmt: skip
