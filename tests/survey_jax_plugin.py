"""Operations of jax.numpy and jax.lax on the plug-in, compared with stock JAX: ``python survey_jax_plugin.py [WORD]``.

Runs every case in a process with ``JAX_PLATFORMS=hlotool`` and in one with ``JAX_PLATFORMS=cpu``, those whose names
contain WORD, and prints where results or errors differ, and what fell back.  It takes some minutes; it is no test.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def _names(text: str) -> list[str]:
    return text.split()


UNARY = _names(
    "abs acos acosh angle arcsinh argmax argmin argsort atan atanh average cbrt ceil conj cos cosh count_nonzero "
    "cumprod cumsum deg2rad diag diagonal diff exp exp2 expm1 fabs "
    "fix flip fliplr flipud floor frexp i0 imag isfinite isinf "
    "isnan log log10 log1p log2 max mean median min modf nan_to_num nancumsum nanmax nanmean nansum nanstd negative "
    "positive prod ptp rad2deg ravel real reciprocal rint rot90 round sign signbit sin sinc sinh sort spacing sqrt "
    "square squeeze std sum tan tanh trace transpose tril triu trunc unwrap var"
)
BINARY = _names(
    "add arctan2 copysign correlate divide equal floor_divide float_power fmax fmin fmod greater heaviside hypot inner "
    "isclose kron less logaddexp logaddexp2 matmul maximum minimum mod multiply nextafter not_equal outer power "
    "remainder subtract tensordot vdot dot convolve cross"
)
INTEGER = _names(
    "bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm floor_divide mod power"
)
TYPES = ("float32", "bfloat16", "float16", "int32", "uint8", "complex64", "bool")
FUNCTIONS = _names(
    "relu gelu softmax log_softmax silu elu selu softplus swish sigmoid glu celu logsumexp standardize"
)
SPECIAL = _names(
    "erf erfc erfinv gammaln digamma i0e i1e bessel_jn expit logit ndtr ndtri log_ndtr zeta betaln xlogy"
)
RANDOM = _names(
    "uniform normal bernoulli exponential gamma beta gumbel laplace cauchy poisson categorical truncated_normal t "
    "rademacher dirichlet multivariate_normal"
)


def cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names, and what gives a tree of arrays."""
    import jax
    import jax.numpy as jnp

    random = np.random.default_rng(3)

    def given(kind: str, shape: tuple[int, ...] = (5, 5)) -> Any:
        values = random.standard_normal(shape) * 3
        return jnp.asarray(np.abs(values) if kind == "uint8" else values.round(2)).astype(kind)

    for kind in TYPES:
        x, y = given(kind), given(kind)
        for name in UNARY:
            yield f"jnp.{name} {kind}", lambda name=name, x=x: jax.jit(getattr(jnp, name))(x)
        for name in BINARY:
            a, b = (x[0], y[0]) if name in ("correlate", "convolve") else (x, y)
            a, b = (x[:, :3], y[:, :3]) if name == "cross" else (a, b)
            yield f"jnp.{name} {kind}", lambda name=name, a=a, b=b: jax.jit(getattr(jnp, name))(a, b)
    for name in INTEGER:
        x, y = abs(given("int32")) + 1, abs(given("int32")) + 1
        yield f"jnp.{name} integers", lambda name=name, x=x, y=y: jax.jit(getattr(jnp, name))(x, y)
    for name in FUNCTIONS:
        x = given("float32", (4, 6))
        yield f"nn.{name}", lambda name=name, x=x: jax.jit(getattr(jax.nn, name))(x)
        yield f"grad nn.{name}", lambda name=name, x=x: jax.grad(lambda x: jnp.sum(getattr(jax.nn, name)(x)))(x)
    for name in SPECIAL:
        x = abs(given("float32")) / 10 + 0.05
        both = (x + 1, x) if name in ("zeta", "betaln", "xlogy") else (x,)
        options = {"v": 3} if name == "bessel_jn" else {}
        yield f"special.{name}", lambda name=name, both=both, o=options: getattr(jax.scipy.special, name)(*both, **o)
    for name in RANDOM:
        extra = {
            "bernoulli": (0.3,), "gamma": (2.0,), "beta": (2.0, 3.0), "poisson": (3.0,), "categorical": (jnp.zeros(5),),
            "truncated_normal": (-1.0, 1.0), "t": (3.0,), "dirichlet": (jnp.ones(3),),
            "multivariate_normal": (jnp.zeros(2), jnp.eye(2)),
        }.get(name, ())  # fmt: skip
        draw = getattr(jax.random, name)
        yield f"random.{name}", lambda draw=draw, extra=extra: draw(jax.random.key(1), *extra, shape=(7,))
    for name in ("fft", "ifft", "rfft", "fft2", "irfft"):
        x = given("float32", (6, 8))
        yield f"fft.{name}", lambda name=name, x=x: getattr(jnp.fft, name)(x)
    for name in ("inv", "det", "slogdet", "eigvalsh", "pinv", "matrix_rank", "norm", "cond", "svdvals"):
        x = given("float32")
        yield f"linalg.{name}", lambda name=name, x=x: getattr(jnp.linalg, name)(x + x.T)


def run(word: str) -> dict[str, Any]:
    """What every case gives, or the name of its error."""
    import jax

    found: dict[str, Any] = {}
    for name, case in cases():
        if word in name:
            try:
                found[name] = [np.asarray(leaf) for leaf in jax.tree.leaves(case())]
            except Exception as error:
                found[name] = type(error).__name__
    return found


def difference(found: Any, wanted: Any) -> str:
    """What is wrong with `found`, or nothing."""
    if isinstance(found, str) or isinstance(wanted, str):
        said = [value if isinstance(value, str) else "a result" for value in (found, wanted)]
        return "" if said[0] == said[1] else f"{said[0]}, stock: {said[1]}"
    for one, other in zip(found, wanted, strict=True):
        if one.dtype != other.dtype or one.shape != other.shape:
            return f"{one.dtype}{one.shape}, stock: {other.dtype}{other.shape}"
        wide = np.complex128 if one.dtype.kind == "c" else np.float64
        bound = 3e-2 if one.dtype.itemsize == 2 else 2e-4
        a, b = one.astype(wide), other.astype(wide)
        if not np.allclose(a, b, rtol=bound, atol=bound, equal_nan=True):
            return f"values differ by {np.nanmax(abs(a - b)):.3g}"
    return ""


def main() -> int:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    if word == "--child":
        sys.stdout.buffer.write(pickle.dumps(run(sys.argv[2])))
        return 0
    results = []
    for platform in ("hlotool", "cpu"):
        done = subprocess.run(
            [sys.executable, __file__, "--child", word], capture_output=True, check=False,
            env={**os.environ, "JAX_PLATFORMS": platform},
        )  # fmt: skip
        fell_back = [line for line in done.stderr.decode().splitlines() if line.startswith("hlotool:")]
        print("\n".join(sorted({*fell_back})) or f"{platform}: nothing fell back")
        if done.returncode:
            print(f"{platform}: the process ended with {done.returncode}: {done.stderr.decode()[-500:]}")
            return 1
        results.append(pickle.loads(done.stdout))
    found, wanted = results
    wrong = {name: said for name in wanted if (said := difference(found[name], wanted[name]))}
    for name, said in wrong.items():
        print(f"{name}: {said}")
    print(f"{len(wanted) - len(wrong)} of {len(wanted)} agree")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
