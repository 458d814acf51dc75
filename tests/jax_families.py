"""Families of cases for `survey_jax_harnesses.py`: names, and functions without arguments that give trees of arrays.

Inputs are drawn from the name of a case, so that every process has the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Case = tuple[str, Callable[[], Any]]


def seeded(name: str) -> Any:
    return np.random.RandomState(zlib.crc32(name.encode()))


def harnesses() -> Iterator[Case]:
    """The harnesses of the primitives, which the jax wheel brings."""
    np.random.seed(0)  # some arguments are drawn when the module is imported
    from jax._src.internal_test_util import test_harnesses

    for harness in test_harnesses.all_harnesses:
        if not harness.filter("cpu"):
            continue

        def run(harness: Any = harness) -> Any:
            return jax.jit(harness.dyn_fun)(*harness.dyn_args_maker(seeded(harness.fullname)))

        yield harness.fullname, run


# ---- values

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NARROW = (
    "int2", "int4", "uint2", "uint4", "float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3b11fnuz",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
)  # fmt: skip
USUAL = (*FLOATS, *COMPLEX, *SIGNED, *UNSIGNED, "bool")


def kept(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those types that there are: not the wide ones where JAX has them switched off."""
    wide = ("float64", "int64", "uint64", "complex128")
    return tuple(name for name in names if jax.config.jax_enable_x64 or name not in wide)


def specials(kind: str) -> Any:
    """NaN, infinities, both zeros, extremes, and some that are plain, of a type.

    Denormals only of types below 32 bits with a range of their own: stock JAX takes all others for zeros on CPUs.
    """
    dtype = jnp.dtype(kind)
    if dtype == bool:
        return np.array([False, True])
    if jnp.issubdtype(dtype, jnp.complexfloating):
        parts = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-3, 1, -2.5, 30, -700.25])
        return _complex(parts).astype(dtype).ravel()
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        values = {info.min, info.max, 0, 1, *(v for v in (-1, 2, 3, 7, 31, 32, -3, 100) if info.min <= v <= info.max)}
        return np.array(sorted(values | {info.max - 1, info.min + 1})).astype(dtype)
    info = jnp.finfo(dtype)
    large, small, least = float(info.max), float(info.tiny), float(info.smallest_subnormal)
    plain = [0.0, 1.0, 0.5, 1.5, 2.0, 2.5, 3.0, 0.1, 1e-3, 7.3, 20.0, 88.0, 100.5, 710.0, 1e4]
    tiny = [small, least, small * 0.5] if info.minexp > -120 else [small]
    values = [np.nan, np.inf, large, *tiny, large / 2, 1 + float(info.eps), *plain]
    with np.errstate(all="ignore"):
        return np.array([*values, *(-value for value in values)]).astype(dtype)


def _complex(parts: Any) -> Any:
    values = np.empty((parts.size, parts.size), np.complex128)
    values.real, values.imag = parts[:, None], parts[None, :]
    return values


def plain(name: str, kind: str, shape: tuple[int, ...]) -> Any:
    """Numbers of no great size, drawn from a name."""
    dtype, random = jnp.dtype(kind), seeded(name)
    values = random.standard_normal(shape) * 3
    if dtype == bool:
        return values > 0
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return (values + 1j * random.standard_normal(shape)).astype(dtype)
    if jnp.issubdtype(dtype, jnp.integer):
        info = jnp.iinfo(dtype)
        return random.randint(max(int(info.min), -9), min(int(info.max), 9) + 1, shape).astype(dtype)
    return values.astype(dtype)


# ---- lax


def records() -> Iterator[Case]:
    """The records of elementwise operations, with every special value (in pairs), and empty and 0-d arrays."""
    from jax._src.internal_test_util import lax_test_util

    seen = set()
    for record in lax_test_util.lax_ops():
        kinds = [np.dtype(kind).name for kind in record.dtypes]
        kinds += [kind for kind in NARROW if len(kinds) > 3 and "float32" in kinds]
        for kind in kinds:
            if (record.op, kind) in seen:
                continue
            seen.add((record.op, kind))

            def run(record: Any = record, kind: str = kind) -> Any:
                op, count = getattr(lax, record.op), record.nargs
                values = specials(kind)
                some = [plain(f"{kind}{index}", kind, (7, 5)) for index in range(count)]
                if count == 1:
                    given = [values]
                elif count == 2:
                    given = [np.repeat(values, values.size), np.tile(values, values.size)]
                else:
                    given = [seeded(f"{index}").permutation(np.tile(values, 4)) for index in range(count)]
                empty = [value[:0] for value in given]
                scalars = [value[0, 0] for value in some]
                return jax.jit(lambda *rows: [op(*row) for row in rows])(given, some, empty, scalars)

            yield f"{record.op} {kind}", run


def reductions() -> Iterator[Case]:
    """Reductions, cumulative and windowed operations, sorts, over types and axes, with special values too."""
    named = ("sum", "prod", "max", "min", "and", "or", "xor")
    for kind in kept((*USUAL, *NARROW)):
        for word in named:
            def run(word: str = word, kind: str = kind) -> Any:
                op, x, y = getattr(lax, f"reduce_{word}"), plain(kind, kind, (4, 5, 3)), specials(kind)
                return jax.jit(
                    lambda x, y: [op(x, axes) for axes in ((0,), (1, 2), (0, 1, 2), ())] + [op(y, (0,)), op(x[:0], (0,))]
                )(x, y)
            yield f"reduce_{word} {kind}", run
        for word in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"):
            def run(word: str = word, kind: str = kind) -> Any:
                op, x, y = getattr(lax, word), plain(kind, kind, (4, 5)), specials(kind)
                return jax.jit(lambda x, y: [op(x, 1), op(x, 0, reverse=True), op(y, 0), op(x[:0], 0)])(x, y)
            yield f"{word} {kind}", run
        for word, given in (("sort", {}), ("sort unstable", {"is_stable": False})):
            def run(kind: str = kind, given: Any = given) -> Any:
                x, y = plain(kind, kind, (4, 5)), specials(kind)
                return jax.jit(lambda x, y: [
                    lax.sort(x, **given), lax.sort((y, jnp.arange(y.size))), lax.sort((x, x + x), num_keys=2),
                    lax.sort(x[:0]), lax.argmax(x, 0, np.int32), lax.argmin(y, 0, np.int32), lax.argmax(y, 0, np.int32),
                    lax.top_k(x, 2),
                ])(x, y)  # fmt: skip
            yield f"{word} {kind}", run
        for word in ("add", "max", "min", "mul"):
            def run(word: str = word, kind: str = kind) -> Any:
                x = plain(kind, kind, (1, 6, 7))
                op, init = getattr(lax, word), {"add": 0, "mul": 1}.get(word)
                if init is None:
                    init = _least(kind) if word == "max" else _most(kind)
                return jax.jit(lambda x: lax.reduce_window(
                    x, np.array(init, x.dtype), op, (1, 2, 3), (1, 2, 1), ((0, 0), (1, 0), (2, 1)), (1, 1, 2), (1, 2, 1)
                ))(x)  # fmt: skip
            yield f"reduce_window {word} {kind}", run


def _least(kind: str) -> Any:
    dtype = jnp.dtype(kind)
    return False if dtype == bool else -np.inf if jnp.issubdtype(dtype, jnp.inexact) else jnp.iinfo(dtype).min


def _most(kind: str) -> Any:
    dtype = jnp.dtype(kind)
    return True if dtype == bool else np.inf if jnp.issubdtype(dtype, jnp.inexact) else jnp.iinfo(dtype).max


def conversions() -> Iterator[Case]:
    """Every type into every other with special values, and their bits."""
    kinds = kept((*USUAL, *NARROW))
    for source in kinds:
        def run(source: str = source) -> Any:
            x = specials(source)
            return jax.jit(lambda x: {kind: lax.convert_element_type(x, kind) for kind in kinds})(x)
        yield f"convert from {source}", run

        def bits(source: str = source) -> Any:
            x = specials(source)[:2]
            said = {}
            for kind in kinds:
                try:
                    said[kind] = jax.jit(lambda x: lax.bitcast_convert_type(x, kind))(x)
                except Exception as error:
                    said[kind] = len(type(error).__name__)
            return said
        yield f"bits of {source}", bits

        def moved(source: str = source) -> Any:
            x = plain(source, source, (4, 6))
            index = np.array([3, 0, -1, 7], np.int32)
            return jax.jit(lambda x, i: [
                x.T, x[::-1, ::2], x[i], jnp.concatenate([x, x], 1), jnp.pad(x, 1), jnp.where(x == x, x, x[:1]),
                x.at[i].set(x[0]), lax.dynamic_slice(x, (i[0], i[1]), (2, 2)), lax.dynamic_update_slice(x, x[:2], (i[0], 0)),
                jnp.tile(x, (2, 1)), lax.rev(x, (0,)), jnp.broadcast_to(x[0], (3, 6)), x == x[::-1], x.reshape(3, 8),
                lax.select(x == x[0, 0], x, x[::-1]), jnp.roll(x, 2, 1),
            ])(x, index)  # fmt: skip
        yield f"moved {source}", moved

        def dot(source: str = source) -> Any:
            x, y = plain(source, source, (4, 6)), plain(source + "y", source, (6, 3))
            return jax.jit(lambda x, y: [x @ y, x[0] @ y[:, 0], jnp.einsum("ij,kj->ik", x, x), (x[:0] @ y), (x[:, :0] @ y[:0])])(x, y)
        yield f"dot {source}", dot


# ---- jax.numpy and others, by what their arguments are

SHAPES = ((), (0,), (1,), (7,), (3, 4), (4, 4), (2, 0, 3), (2, 3, 4))


def public(room: Any) -> list[str]:
    return [name for name in sorted(dir(room)) if not name.startswith("_") and callable(getattr(room, name))]


_LEFT = frozenset((
    "array", "asarray", "save", "savez", "load", "fromfile", "frompyfunc", "vectorize", "set_printoptions",
    "get_printoptions", "array_repr", "array_str", "printoptions", "dtype", "finfo", "iinfo", "einsum_path", "empty",
    "empty_like", "from_dlpack", "ndarray", "generic", "ufunc", "apply_along_axis", "apply_over_axes", "piecewise",
    "fromfunction", "fromiter", "promote_types", "result_type", "can_cast", "issubdtype", "isdtype", "iscomplexobj",
    "isscalar", "ndim", "shape", "size", "object_", "mask_indices",
))  # fmt: skip


def _called(function: Any, name: str, kind: str, shape: tuple[int, ...], count: int, special: bool) -> Any:
    given = []
    for index in range(count):
        x = plain(f"{name}{index}", kind, shape)
        if special:
            values = seeded(f"{name}{index}").permutation(specials(kind))
            x = np.resize(values, shape).astype(x.dtype)
        given.append(x)
    return jax.jit(function)(*given)


def functions(room: Any, title: str, kinds: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> Iterator[Case]:
    """Functions of a module, of one and of two arrays, over types and shapes, jitted; without jit where that fails."""
    for name in public(room):
        function = getattr(room, name)
        if name in _LEFT or isinstance(function, type):
            continue
        for kind in kept(kinds):
            for shape in shapes:
                for count in (1, 2):
                    for special in (False, True):
                        if special and shape not in ((7,), (3, 4)):
                            continue
                        text = f"{title}.{name} {kind}{list(shape)}x{count}{' special' if special else ''}"
                        yield text, lambda f=function, t=text, k=kind, s=shape, c=count, p=special: _called(f, t, k, s, c, p)


def numpy_functions() -> Iterator[Case]:
    yield from functions(jnp, "jnp", (*USUAL, *NARROW), SHAPES)


def nn_functions() -> Iterator[Case]:
    yield from functions(jax.nn, "nn", (*FLOATS, "int32", "bool", "complex64"), ((), (0,), (7,), (3, 4)))


def grads() -> Iterator[Case]:
    """First and second derivatives of functions of one array, at special values too."""
    import jax.scipy.special

    for room, title in ((jnp, "jnp"), (jax.nn, "nn"), (jax.scipy.special, "special"), (lax, "lax")):
        for name in public(room):
            function = getattr(room, name)
            if name in _LEFT or isinstance(function, type):
                continue
            for kind in kept(("float32", "float64", "bfloat16", "complex64")):
                for special in (False, True):
                    text = f"grad {title}.{name} {kind}{' special' if special else ''}"
                    def run(f: Any = function, text: str = text, kind: str = kind, special: bool = special) -> Any:
                        x = specials(kind) if special else plain(text, kind, (7,))
                        def total(x: Any) -> Any:
                            return jnp.sum(jnp.real(f(x))).astype(jnp.finfo(x.dtype).dtype)
                        return jax.jit(jax.value_and_grad(total))(x), jax.jit(jax.jvp, static_argnums=0)(f, (x,), (x,))
                    yield text, run


def scipy_functions() -> Iterator[Case]:
    import jax.scipy.linalg
    import jax.scipy.signal
    import jax.scipy.special
    import jax.scipy.stats

    floats = ("float32", "float64", "bfloat16")
    yield from functions(jax.scipy.special, "special", (*FLOATS, "int32", "complex64"), ((), (0,), (7,)))
    yield from functions(jax.scipy.signal, "signal", (*floats, "complex64", "int32"), ((7,), (4, 4), (0,)))
    yield from functions(jax.scipy.linalg, "scipy.linalg", ("float32", "float64", "complex64", "int32"), ((4, 4), (2, 3, 3), (0, 0), (3, 4), (4,)))
    for law in sorted(dir(jax.scipy.stats)):
        room = getattr(jax.scipy.stats, law)
        if law.startswith("_") or callable(room):
            continue
        for name in public(room):
            for kind in kept(floats):
                for count in (1, 2, 3, 4):
                    for special in (False, True):
                        text = f"stats.{law}.{name} {kind}x{count}{' special' if special else ''}"
                        yield text, lambda f=getattr(room, name), t=text, k=kind, c=count, p=special: _called(f, t, k, (7,), c, p)


def linalg_functions() -> Iterator[Case]:
    kinds = ("float32", "float64", "complex64", "complex128", "int32", "bfloat16")
    shapes = ((4, 4), (3, 5), (5, 3), (2, 3, 3), (0, 0), (0, 3), (1, 1), (2, 0, 0), (4,))
    yield from functions(jnp.linalg, "jnp.linalg", kinds, shapes)
    yield from functions(lax.linalg, "lax.linalg", kinds, shapes)
    def matrices(kind: str, shape: tuple[int, ...]) -> Any:
        x = plain(f"{kind}{shape}", kind, shape)
        return x, x @ np.swapaxes(x.conj(), -1, -2) + 3 * np.eye(shape[-2], dtype=x.dtype)

    for kind in kept(("float32", "float64", "complex64", "complex128")):
        for shape in ((4, 4), (2, 3, 3), (0, 0), (6, 6), (33, 33)):
            x, square = matrices(kind, shape)
            options: dict[str, Callable[[Any, Any], Any]] = {
                "eigh rebuilt": lambda x, p: (lambda v, w: [w, (v * w[..., None, :]) @ jnp.swapaxes(v.conj(), -1, -2)])(*lax.linalg.eigh(p)),
                "svd rebuilt": lambda x, p: (lambda u, s, v: [s, (u * s[..., None, :]) @ v])(*lax.linalg.svd(x, full_matrices=False)),
                "qr rebuilt": lambda x, p: (lambda q, r: [abs(r), q @ r])(*lax.linalg.qr(x, full_matrices=False)),
                "qr pivoted": lambda x, p: lax.linalg.qr(x, pivoting=True, full_matrices=False)[2],
                "lu": lambda x, p: lax.linalg.lu(x),
                "cholesky": lambda x, p: lax.linalg.cholesky(p),
                "cholesky of no such matrix": lambda x, p: lax.linalg.cholesky(-p),
                "cholesky_update": lambda x, p: lax.linalg.cholesky_update(p, x[..., 0]),
                "hessenberg": lambda x, p: lax.linalg.hessenberg(x),
                "householder": lambda x, p: lax.linalg.householder_product(*lax.linalg.geqrf(x)) if hasattr(lax.linalg, "geqrf") else 0,
                "schur": lambda x, p: (lambda t, z: z @ t @ jnp.swapaxes(z.conj(), -1, -2))(*lax.linalg.schur(x)),
                "tridiagonal": lambda x, p: lax.linalg.tridiagonal(p, lower=True)[1:3],
                "tridiagonal_solve": lambda x, p: lax.linalg.tridiagonal_solve(x[..., 0], x[..., 1] + 9, x[..., 2], x),
                "triangular_solve": lambda x, p: [lax.linalg.triangular_solve(p, x, left_side=l, lower=w, transpose_a=t, conjugate_a=t, unit_diagonal=u) for l in (0, 1) for w in (0, 1) for t in (0, 1) for u in (0, 1)],
                "eig": lambda x, p: jnp.sort(lax.linalg.eig(x)[0]),
                "eigvalsh nan": lambda x, p: jnp.linalg.eigvalsh(p.at[..., 0, 0].set(jnp.nan)),
                "lu nan": lambda x, p: lax.linalg.lu(x.at[..., 0, 0].set(jnp.nan)),
                "qr nan": lambda x, p: lax.linalg.qr(x.at[..., 0, 0].set(jnp.nan)),
                "svd nan": lambda x, p: lax.linalg.svd(x.at[..., 0, 0].set(jnp.nan)),
                "expm": lambda x, p: jax.scipy.linalg.expm(x),
                "sqrtm": lambda x, p: jax.scipy.linalg.sqrtm(p),
                "polar": lambda x, p: jax.scipy.linalg.polar(x),
                "solve": lambda x, p: jnp.linalg.solve(p, x),
                "lstsq": lambda x, p: jnp.linalg.lstsq(p, x)[0],
                "pinv": lambda x, p: jnp.linalg.pinv(p),
                "lu_solve": lambda x, p: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(p), x),
                "cho_solve": lambda x, p: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(p), x),
                "grads": lambda x, p: [jax.grad(lambda a: jnp.sum(jnp.real(f(a))))(p) for f in (jnp.linalg.inv, jnp.linalg.det, jnp.linalg.cholesky, jnp.linalg.eigvalsh)],
            }  # fmt: skip
            for word, run in options.items():
                yield f"{word} {kind}{list(shape)}", lambda run=run, x=x, p=square: jax.jit(run)(x, p)


def random_functions() -> Iterator[Case]:
    """Distributions over types, and every implementation of keys."""
    laws: dict[str, tuple[Any, ...]] = {
        "uniform": (), "normal": (), "bernoulli": (0.3,), "exponential": (), "gumbel": (), "laplace": (), "cauchy": (),
        "logistic": (), "gamma": (2.5,), "loggamma": (0.3,), "beta": (2.0, 0.5), "t": (3.0,), "chisquare": (3.0,),
        "f": (3.0, 4.0), "poisson": (4.0,), "binomial": (20.0, 0.3), "geometric": (0.2,), "pareto": (2.0,),
        "rayleigh": (1.5,), "wald": (1.5,), "weibull_min": (1.5, 2.0), "lognormal": (), "maxwell": (),
        "double_sided_maxwell": (0.5, 1.5), "rademacher": (), "triangular": (0.0, 0.3, 1.0), "generalized_normal": (1.5,),
        "truncated_normal": (-1.0, 2.0), "dirichlet": (np.ones(3),), "multivariate_normal": (np.zeros(3), np.eye(3)),
        "categorical": (np.arange(5.0),), "orthogonal": (3,), "ball": (3,), "randint": (-5, 100), "bits": (),
    }  # fmt: skip
    for how in ("threefry2x32", "rbg", "unsafe_rbg"):
        for law, given in laws.items():
            for kind in kept(("float32", "float64", "bfloat16", "float16", "int32", "int8", "uint8", "int64", "uint32", "complex64", "bool")):
                for shape in ((), (7,), (3, 1001), (0, 2)):
                    def run(how: str = how, law: str = law, given: Any = given, kind: str = kind, shape: Any = shape) -> Any:
                        draw = getattr(jax.random, law)
                        named = {} if law in ("bernoulli", "categorical") else {"dtype": kind}
                        key = jax.random.key(7, impl=how)
                        return jax.jit(lambda key: draw(key, *given, shape=shape, **named))(key)
                    yield f"{how} {law} {kind}{list(shape)}", run
        def keys(how: str = how) -> Any:
            key = jax.random.key(123456789, impl=how)
            return [
                key, jax.random.split(key), jax.random.split(key, (2, 3)), jax.random.fold_in(key, 5),
                jax.random.clone(key), jax.random.permutation(key, 50), jax.random.choice(key, 50, (5,), replace=False),
                jax.random.choice(key, 5, (9,), p=np.array([0.1, 0.2, 0.3, 0.2, 0.2])), jax.random.wrap_key_data(jax.random.key_data(key), impl=how),
                jax.vmap(lambda k: jax.random.bits(k, (5,)))(jax.random.split(key, 4)),
                jax.random.permutation(key, np.arange(12).reshape(4, 3), axis=1, independent=True),
                jax.random.choice(key, 50, (5,), replace=False, p=np.ones(50) / 50),
            ]  # fmt: skip
        yield f"{how} keys", keys


def fft_functions() -> Iterator[Case]:
    kinds = kept(("float32", "float64", "complex64", "complex128", "int32"))
    for kind in kinds:
        for shape in ((1,), (7,), (8,), (30,), (0,), (3, 4), (4, 6, 5), (2, 0, 3), (2, 17, 3, 4)):
            for word in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn", "fftshift"):
                text = f"{word} {kind}{list(shape)}"
                yield text, lambda w=word, t=text, k=kind, s=shape: _called(getattr(jnp.fft, w), t, k, s, 1, False)
        for kinds_of in ("FFT", "IFFT", "RFFT", "IRFFT"):
            def grad(kind: str = kind, how: str = kinds_of) -> Any:
                x = plain(kind + how, kind, (3, 4, 6))
                lengths = (4, 10) if how == "IRFFT" else (4, 6)
                run = lambda x: lax.fft(x, how, lengths)  # noqa: E731
                return jax.jit(lambda x: [run(x), jax.vjp(run, x)[1](run(x)), jax.vmap(run)(x[None])])(x)
            yield f"lax.fft {kinds_of} {kind}", grad


def behaviours() -> Iterator[Case]:
    """Control flow, callbacks, arrays, devices, export and so on: `jax_behaviours.py` and `jax_tools.py`."""
    import jax_behaviours
    import jax_tools

    for case in (*jax_behaviours.CASES, *jax_tools.CASES):
        yield case.__name__, case


def calls() -> Iterator[Case]:
    """Functions with axes, masks, modes and all else that is theirs, and their derivatives: `jax_calls.py`."""
    import jax_calls

    yield from jax_calls.calls()


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "harnesses": harnesses, "records": records, "reductions": reductions, "conversions": conversions,
    "numpy": numpy_functions, "nn": nn_functions, "scipy": scipy_functions, "linalg": linalg_functions,
    "random": random_functions, "fft": fft_functions, "grads": grads,
    "behaviours": behaviours, "calls": calls,
}  # fmt: skip


def cases(family: str) -> Iterator[Case]:
    """The cases of a family."""
    return FAMILIES[family]()
