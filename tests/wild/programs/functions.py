"""Functions of jax.numpy, lax, scipy and random, each compiled on its own for several shapes and types."""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax, random
from registry import program

FLOATS = ("float32", "bfloat16", "float16", "float64")
SHAPES = ((7,), (33, 40), (4, 3, 65))


def _array(seed, shape, kind, low=None):
    generator = np.random.default_rng(seed)
    if jnp.issubdtype(kind, jnp.floating):
        values = generator.standard_normal(shape)
        return jnp.asarray(np.abs(values) + low if low is not None else values, kind)
    if jnp.issubdtype(kind, jnp.complexfloating):
        return jnp.asarray(generator.standard_normal(shape) + 1j * generator.standard_normal(shape), kind)
    return jnp.asarray(generator.integers(0 if low is None else low, 9, shape), kind)


def _each(functions, *arguments):
    """Those that are not for these arguments are passed by."""
    for function in functions:
        try:
            jax.jit(lambda *a, f=function: f(*a))(*arguments)
        except (TypeError, ValueError, NotImplementedError, IndexError):
            continue


def _named(module, names):
    return [getattr(module, name) for name in names.split() if hasattr(module, name)]


_UNARY = """abs sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp exp2 expm1 log log2 log10
log1p sqrt cbrt square reciprocal sign floor ceil trunc rint fix negative isnan isfinite isinf signbit degrees radians
sinc i0 nan_to_num conj real imag angle spacing frexp modf"""
_BINARY = """add subtract multiply divide floor_divide remainder fmod power float_power maximum minimum fmax fmin
arctan2 hypot logaddexp logaddexp2 copysign nextafter heaviside equal less greater_equal ldexp divmod"""
_REDUCE = """sum prod mean var std max min argmax argmin any all ptp median nansum nanmean nanmax nanstd count_nonzero
cumsum cumprod nancumsum average"""
_MOVE = """ravel transpose flip fliplr flipud rot90 squeeze sort argsort unique_counts diff ediff1d gradient trapezoid
tril triu diag diagonal trace roll atleast_3d vander"""


@program((*FLOATS, "complex64", "int32", "uint8"))
def elementwise(kind):
    for shape in SHAPES[1:]:
        x = _array(0, shape, kind)
        _each(_named(jnp, _UNARY), x)
        _each(_named(jnp, _BINARY), x, _array(1, shape, kind))
        _each(_named(jnp, "add multiply power maximum where"), x, _array(2, shape[-1:], kind))


@program((*FLOATS, "int32", "int8"))
def reductions(kind):
    for shape in SHAPES:
        x = _array(3, shape, kind)
        _each(_named(jnp, _REDUCE), x)
        for axis in range(len(shape)):
            _each([partial(f, axis=axis) for f in _named(jnp, _REDUCE)], x)
        _each([partial(f, axis=(0, len(shape) - 1)) for f in _named(jnp, "sum max mean var")], x)


@program(("float32", "bfloat16", "int32"))
def movement(kind):
    for shape in SHAPES:
        x = _array(4, shape, kind)
        _each(_named(jnp, _MOVE), x)
        _each([partial(f, axis=-1) for f in _named(jnp, "sort argsort flip diff cumsum")], x)
        _each(
            [
                lambda x: jnp.pad(x, 2, mode="reflect"),
                lambda x: jnp.pad(x, 1, mode="wrap"),
                lambda x: jnp.pad(x, 3, mode="edge"),
                lambda x: jnp.tile(x, 3),
                lambda x: jnp.repeat(x, 2, axis=0),
                lambda x: jnp.roll(x, 5),
                lambda x: jnp.stack([x, x + 1], -1),
                lambda x: jnp.concatenate([x, x[:2]]),
                lambda x: x[::2],
                lambda x: x[::-3],
                lambda x: x.at[1:3].add(2),
                lambda x: x.at[::2].multiply(3),
                lambda x: x[jnp.array([3, 1, 1, -1])],
                lambda x: x.at[jnp.array([3, 1, 1, 0])].add(1),
                lambda x: x.at[jnp.array([3, 1, 1, 0])].max(1),
                lambda x: jnp.take(x, jnp.array([1, 99]), mode="clip"),
                lambda x: jnp.take(x, jnp.array([1, 99]), mode="fill"),
                lambda x: jnp.where(x > 0, x, -x),
                lambda x: jnp.nonzero(x, size=5),
                lambda x: jnp.unique(x, size=9),
                lambda x: lax.top_k(x, 3),
                lambda x: jnp.searchsorted(jnp.sort(x.ravel()), x.ravel()[:11]),
                lambda x: jnp.histogram(x, 10),
                lambda x: jnp.digitize(x, jnp.arange(5)),
                lambda x: jnp.percentile(x.astype("float32"), 30.0),
                lambda x: jnp.bincount(x.ravel().astype(int), length=10),
                lambda x: jnp.convolve(x.ravel(), x.ravel()[:4]),
                lambda x: jnp.interp(x.ravel(), jnp.arange(9.0), jnp.arange(9.0) ** 2),
                lambda x: jnp.cov(x),
                lambda x: jnp.corrcoef(x),
                lambda x: jnp.argpartition(x, 3),
                lambda x: jnp.lexsort((x, -x)),
                lambda x: lax.dynamic_slice_in_dim(x, x.ravel()[0].astype(int), 3),
                lambda x: jnp.packbits(x > 0),
                lambda x: lax.sort((x, -x), num_keys=2),
                lambda x: lax.cumlogsumexp(x),
                lambda x: lax.cummax(x, reverse=True),
                lambda x: lax.associative_scan(jnp.add, x),
                lambda x: lax.reduce_precision(x, 5, 4),
                lambda x: lax.expand_dims(x, (0, 2)),
                lambda x: jnp.moveaxis(x, 0, -1),
                lambda x: jnp.block([[x], [x]]),
            ],
            x,
        )


@program((*FLOATS, "complex64", "int8"))
def products(kind):
    for m, k, n in ((5, 7, 3), (1, 64, 64), (65, 33, 17), (128, 128, 1), (96, 200, 160)):
        a, b = _array(5, (m, k), kind), _array(6, (k, n), kind)
        _each([jnp.matmul, lambda a, b: b.T @ a.T, lambda a, b: jnp.einsum("mk,kn->nm", a, b)], a, b)
        _each([lambda a, b: jnp.maximum(a @ b, 0) + 1, lambda a, b: jnp.exp((a @ b) / 50).sum(0)], a, b)
    a, b = _array(7, (3, 4, 20, 18), kind), _array(8, (3, 4, 18, 9), kind)
    for text in ("abij,abjk->abik", "abij,abjk->ik", "abij,abjk->bai", "abij,acjk->ibk", "abij,abjk->aikb"):
        _each([partial(jnp.einsum, text)], a, b)
    _each(
        [jnp.vdot, jnp.inner, jnp.outer, jnp.kron, jnp.tensordot], _array(9, (12, 12), kind), _array(10, (12, 12), kind)
    )


@program(("float32", "float64", "complex64"))
def linear_algebra(kind):
    for n in (3, 12, 31):
        x = _array(11, (n, n), kind)
        s = x @ x.conj().T + n * jnp.eye(n, dtype=kind)
        b = _array(12, (n, 2), kind)
        _each(_named(jnp.linalg, "det inv slogdet qr svd norm pinv cond matrix_rank svdvals"), x)
        _each(_named(jnp.linalg, "cholesky eigh eigvalsh"), s)
        _each([*_named(jnp.linalg, "solve lstsq"), partial(jsp.linalg.solve_triangular, lower=True)], s, b)
        _each(_named(jsp.linalg, "lu lu_factor expm sqrtm schur polar hessenberg"), x)
        _each([lambda s, b: jsp.linalg.cho_solve(jsp.linalg.cho_factor(s), b)], s, b)
        _each([lambda x: jnp.linalg.matrix_power(x, 5), lambda x: jnp.linalg.norm(x, 2)], x)
    batch = _array(13, (5, 4, 4), kind)
    _each(_named(jnp.linalg, "det inv qr svd"), batch)
    _each([jax.grad(lambda x: jnp.linalg.slogdet(x)[1].sum().real)], batch)


@program(("float32", "float64"))
def special(kind):
    names = """gammaln digamma erf erfc erfinv expit logit ndtr ndtri log_ndtr i0 i0e i1 i1e entr xlog1py bessel_jn
    factorial gamma sinc expi exp1 spence zeta"""
    for shape in SHAPES[:2]:
        x = _array(14, shape, kind, 0.1)
        _each(_named(jsp.special, names), x)
        _each(
            _named(jsp.special, "betaln beta xlogy xlog1py rel_entr kl_div gammainc gammaincc hyp1f1 polygamma"),
            x,
            x + 1,
        )
        _each([lambda x: jsp.special.betainc(x, x + 1, x / 10), lambda x: jsp.special.logsumexp(x, axis=-1)], x)
        _each([jsp.special.softmax, jsp.special.log_softmax, lambda x: jsp.special.polygamma(2, x)], x)
        for name in [
            "norm",
            "gamma",
            "beta",
            "cauchy",
            "expon",
            "laplace",
            "logistic",
            "pareto",
            "t",
            "uniform",
            "chi2",
            "gumbel_r",
        ]:
            law = getattr(jsp.stats, name)
            extra = {"gamma": (2.0,), "beta": (2.0, 3.0), "pareto": (2.0,), "t": (3.0,), "chi2": (3.0,)}.get(name, ())
            _each([lambda x, f=f, e=extra: f(x, *e) for f in _named(law, "pdf logpdf cdf logcdf sf ppf")], x)
            _each([jax.grad(lambda x, f=f, e=extra: f(x, *e).sum()) for f in _named(law, "logpdf")], x)


@program(("float32", "float64", "complex64"))
def transforms(kind):
    for shape in ((8,), (30,), (6, 17), (5, 8, 12), (4, 97)):
        x = _array(15, shape, kind)
        _each(_named(jnp.fft, "fft ifft rfft irfft fft2 ifft2 rfft2 fftn fftshift hfft"), x)
        _each([jsp.fft.dct, jsp.fft.idct, lambda x: jnp.abs(jnp.fft.fft(x)) ** 2], x)
        _each([jax.grad(lambda x: jnp.abs(jnp.fft.rfft(x)).sum())], x)
    x = _array(16, (300,), kind)
    _each([partial(jsp.signal.stft, nperseg=32), partial(jsp.signal.welch, nperseg=32), jsp.signal.detrend], x)
    _each([jsp.signal.convolve, jsp.signal.fftconvolve, jsp.signal.correlate], x, x[:19])
    image = _array(17, (20, 24), kind)
    _each([jsp.signal.convolve2d, jsp.signal.correlate2d], image, image[:3, :5])
    _each([lambda x, m=m: jax.image.resize(x, (31, 17), m) for m in ("linear", "cubic", "nearest", "lanczos3")], image)
    _each([lambda x: jsp.ndimage.map_coordinates(x, [x[0] * 3, x[1] * 3], order=1)], image)


@program(("float32", "bfloat16"))
def activations(kind):
    names = """relu relu6 sigmoid softplus sparse_plus soft_sign silu mish log_sigmoid leaky_relu hard_sigmoid hard_silu
    hard_tanh elu celu selu gelu squareplus softmax log_softmax standardize glu identity"""
    for shape in ((40,), (16, 130), (2, 3, 8, 10)):
        x = _array(18, shape, kind)
        _each(_named(jax.nn, names), x)
        _each([jax.grad(lambda x, f=f: f(x).astype("float32").sum()) for f in _named(jax.nn, names)], x)
        _each([jax.nn.logsumexp, partial(jax.nn.softmax, axis=0), partial(jax.nn.logsumexp, axis=0)], x)


@program(("float32", "float64", "bfloat16"))
def randomness(kind):
    key = random.key(3)
    for shape in ((11,), (6, 20)):
        draws = {
            "normal": (),
            "uniform": (),
            "exponential": (),
            "gumbel": (),
            "laplace": (),
            "logistic": (),
            "cauchy": (),
            "gamma": (2.5,),
            "beta": (2.0, 3.0),
            "t": (3.0,),
            "pareto": (2.0,),
            "weibull_min": (1.0, 2.0),
            "rayleigh": (1.0,),
            "truncated_normal": (-1.0, 2.0),
            "chisquare": (3.0,),
            "maxwell": (),
            "wald": (1.0,),
        }
        for name, arguments in draws.items():
            _each([lambda k, f=getattr(random, name), a=arguments: f(k, *a, shape=shape, dtype=kind)], key)
        _each(
            [
                lambda k: random.randint(k, shape, 0, 100),
                lambda k: random.bernoulli(k, 0.3, shape),
                lambda k: random.poisson(k, 3.0, shape),
                lambda k: random.categorical(k, jnp.zeros(shape)),
                lambda k: random.permutation(k, jnp.arange(50)),
                lambda k: random.choice(k, 30, (4,), replace=False),
                lambda k: random.binomial(k, 10, 0.4, shape),
                lambda k: random.bits(k, shape),
                random.split,
                lambda k: random.dirichlet(k, jnp.ones(4), shape[:1]),
                lambda k: random.orthogonal(k, 5),
                lambda k: random.multivariate_normal(k, jnp.zeros(3), jnp.eye(3)),
                lambda k: random.ball(k, 3),
                lambda k: random.fold_in(k, 7),
                lambda k: random.rademacher(k, shape),
                lambda k: random.geometric(k, 0.2),
            ],
            key,
        )
    for name in ("rbg", "unsafe_rbg"):
        _each([lambda k: random.normal(k, (9,), kind), lambda k: random.split(k, 3)], random.key(3, impl=name))


@program(("int8", "uint8", "int16", "int32", "uint32", "int4", "uint4", "bool"))
def integers(kind):
    x, y = _array(19, (9, 30), kind), _array(20, (9, 30), kind)
    names = """bitwise_and bitwise_or bitwise_xor left_shift right_shift floor_divide remainder add multiply subtract
    maximum minimum power gcd lcm equal less divide"""
    _each([*_named(jnp, names), lax.shift_right_logical, lax.div, lax.rem], x, y)
    _each([*_named(jnp, "invert abs sign sum max min prod cumsum sort argmax any negative bitwise_count"), lax.clz], x)
    for other in ("float32", "bfloat16", "int8", "uint16", "int32", "float8_e4m3fn", "bool", "int4"):
        _each([lambda x, o=other: x.astype(o)], x)


@program(("float32", "bfloat16", "int32"))
def windows(kind):
    x = _array(21, (2, 13, 15, 3), kind)
    for op, start in ((lax.add, 0), (lax.max, -100), (lax.min, 100), (lax.mul, 1)):
        for size, stride, padding in itertools.product((2, 3), (1, 2), ("SAME", "VALID")):
            window = (1, size, size + 1, 1)
            initial = np.asarray(start, kind)
            _each(
                [
                    lambda x, w=window, p=padding, i=initial, o=op, s=stride: lax.reduce_window(
                        x, i, o, w, (1, s, s, 1), p
                    )
                ],
                x,
            )
    _each(
        [
            lambda x: lax.reduce_window(
                x, np.asarray(0, kind), lax.add, (1, 4, 1, 1), (1, 1, 1, 1), "SAME", window_dilation=(1, 2, 1, 1)
            )
        ],
        x,
    )
    _each([lambda x: lax.cumsum(x, 1), lambda x: lax.cumprod(x, 2), lambda x: lax.cumsum(x, 1, reverse=True)], x)

    def pooled(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    _each([jax.grad(lambda x: (pooled(x) ** 2).sum().astype("float32"))], x)


@program(("float32", "int32"))
def control(kind):
    x = _array(22, (6, 5), kind)
    _each(
        [
            lambda x: lax.fori_loop(0, 7, lambda i, v: v * 2 - i.astype(kind), x),
            lambda x: lax.while_loop(
                lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1] + s[1].T @ s[1] if 0 else s[1] + 1), (0, x)
            ),
            lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x),
            lambda x: lax.scan(lambda c, r: (c + r, (c, r.sum())), x[0], x, reverse=True, unroll=2),
            lambda x: lax.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, x),
            lambda x: lax.switch(x[0, 0].astype(int), [lambda v: v, lambda v: v * 2, lambda v: -v], x),
            lambda x: lax.map(lambda r: r.sum() * r, x),
            lambda x: jax.vmap(lambda r: lax.cond(r[0] > 0, jnp.sin, jnp.cos, r))(x),
            lambda x: jax.vmap(lambda r: lax.while_loop(lambda v: v.sum() < 40, lambda v: v + 3, r))(x),
            lambda x: lax.fori_loop(0, x[0, 0].astype(int) + 3, lambda i, v: v.at[i].set(i.astype(kind)), x),
            lambda x: lax.fori_loop(0, 4, lambda i, v: lax.fori_loop(0, i, lambda j, u: u + 1, v), x),
            lambda x: lax.scan(lambda c, _: (lax.dynamic_update_slice(c, c[:1] * 2, (_, 0)), None), x, jnp.arange(6))[
                0
            ],
        ],
        x,
    )
    if kind == "float32":
        _each([jax.grad(lambda x: lax.scan(lambda c, r: (jnp.tanh(c * r), c), x[0], x)[0].sum())], x)
        _each([jax.jacobian(lambda x: lax.fori_loop(0, 3, lambda i, v: jnp.sin(v) * x, x))], x)
        _each([jax.grad(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x).sum())], x)
