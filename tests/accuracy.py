#!/usr/bin/env python3
"""How far the elementwise functions are from the true results, in units of the last place.

    tests/accuracy.py [--stride N] [--functions tanh,erf] [--kinds f32,f64] [--engine native|xla] [--write FILE.json]

Every number of the types of up to 16 bits is tried; of f32 every N-th bit pattern (1 is all of them), of f64 a sample.
References: for f32 and narrower NumPy and SciPy in f64, for f64 the same in extended precision, which x86 has.  Figures
for XLA come from running this program with a Python that has jax (``--engine xla``).  The table of the manual is made
of man/accuracy.json, which ``--write`` brings up to date for one engine.

As a module: `measure` gives the rows of one function.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from scipy import special

__all__ = ["FUNCTIONS", "KINDS", "NARROW", "Engine", "Worst", "measure", "native", "xla"]

Array: TypeAlias = np.ndarray[Any, Any]
Engine: TypeAlias = Callable[[str, str, int], Callable[[Array], Array]]
"""(opcode, element type, size) to the function on arrays of that size."""

NARROW = {
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e4m3": ml_dtypes.float8_e4m3,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
}
KINDS = {**NARROW, "f32": np.float32, "f64": np.float64}
"""Element types with their NumPy types (without f8e8m0fnu, which has powers of two only)."""


def _logistic(x: Array) -> Array:
    """Without overflow: e^x / (1 + e^x) below 0."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, small, 1) / (1 + small))


def _rsqrt(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


def _away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole)


def _erf(x: Array) -> Array:
    """In extended precision up to 2 by a series of positive terms (Abramowitz and Stegun 7.1.6), then as 1 - erfc."""
    if x.dtype != np.longdouble:
        return np.asarray(special.erf(x))
    z = np.where(np.abs(x) < 2, x, 0)
    term, total = z, z
    for n in range(1, 80):
        term = term * z * z * 2 / (2 * n + 1)
        total = total + term
    root_of_pi = np.sqrt(np.longdouble(np.pi) + np.longdouble(1.2246467991473532e-16))
    far = np.copysign(1 - special.erfc(np.abs(x).astype(np.float64)).astype(np.longdouble), x)
    return np.asarray(np.where(np.abs(x) < 2, total * 2 / root_of_pi * np.exp(-z * z), far))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cosh": np.cosh,
    "cosine": np.cos,
    "erf": _erf,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": _logistic,
    "negate": np.negative,
    "round-nearest-afz": _away,
    "round-nearest-even": np.rint,
    "rsqrt": _rsqrt,
    "sign": lambda x: np.copysign(np.sign(x), x),
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""By opcode: what it is, on f64 or wider."""


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest error of a function in an element type: `normal` where operand and result are normal numbers (or
    zeros), `subnormal` where one of them is not; at `at` the larger of the two.  `off` of `count` results are not the
    nearest number.  Errors are infinite where NaNs, infinities or (of normal results) signs are wrong."""

    function: str
    kind: str
    count: int
    off: int
    normal: float
    subnormal: float
    at: float


def native(opcode: str, kind: str, size: int) -> Callable[[Array], Array]:
    """hlotool's own code, for this processor."""
    import hlotool

    executable = hlotool.compile(hlotool.parse(_text(opcode, kind, size)), threads=1)
    return lambda x: np.asarray(executable(x)[0])


def xla(opcode: str, kind: str, size: int) -> Callable[[Array], Array]:
    """XLA's CPU backend, in a Python that has jax."""
    import jax
    from jaxlib import _hlo, _jax

    jax.config.update("jax_enable_x64", True)
    device = jax.local_devices(backend="cpu")[0]
    module = _hlo.hlo_module_from_text(_text(opcode, kind, size))
    stable = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    executable = device.client.compile_and_load(stable, _jax.DeviceList((device,)))
    return lambda x: np.asarray(executable.execute([jax.device_put(x, device)])[0])


def _text(opcode: str, kind: str, size: int) -> str:
    shape = f"{kind}[{size}]"
    return f"HloModule m\nENTRY e {{\n  p = {shape} parameter(0)\n  ROOT r = {shape} {opcode}(p)\n}}\n"


_CHUNK = 1 << 20


def operands(kind: str, stride: int = 1) -> Iterator[Array]:
    """Arrays of at most `_CHUNK` numbers: all bit patterns of narrow types, every `stride`-th of f32, as many of f64
    but at most a million: of all sizes, of ordinary size, and near one."""
    dtype = np.dtype(KINDS[kind])
    bits = 4 if kind == "f4e2m1fn" else 8 * dtype.itemsize
    if bits <= 16:
        yield np.arange(1 << bits, dtype=f"u{dtype.itemsize}").view(dtype)
    elif bits == 32:
        for start in range(0, 1 << 32, _CHUNK * stride):
            codes = np.arange(start, min(1 << 32, start + _CHUNK * stride), stride, np.uint64)
            yield codes.astype(np.uint32).view(np.float32)
    else:
        random = np.random.default_rng(11)
        part = min(_CHUNK, (1 << 32) // stride) // 4
        drawn = random.integers(0, 1 << 64, part, np.uint64).view(np.float64)
        near = np.ldexp(random.uniform(-1, 1, 2 * part), random.integers(-30, 12, 2 * part))
        ones = np.copysign(1.0, random.uniform(-1, 1, part)) + random.standard_normal(part) / 64
        yield np.concatenate([drawn, near, ones])


def measure(function: str, kind: str, engine: Engine = native, stride: int = 1) -> Worst:
    """The worst error of one function over all operands of one type."""
    compiled: dict[int, Callable[[Array], Array]] = {}
    count, off, normal, subnormal, at = 0, 0, 0.0, 0.0, 0.0
    for x in operands(kind, stride):
        if x.size not in compiled:
            compiled[x.size] = engine(function, kind, x.size)
        got = compiled[x.size](x)
        with np.errstate(all="ignore"):
            wide = x.astype(np.longdouble if kind == "f64" else np.float64)
            error, tiny = errors(got, FUNCTIONS[function](wide), x)
        count, off = count + x.size, off + int(np.count_nonzero(error > 0.5 + 2.0**-10))
        ordinary, rest = np.where(tiny, 0, error), np.where(tiny, error, 0)
        if max(ordinary.max(), rest.max()) > max(normal, subnormal):
            at = float(x[int(np.argmax(error))])
        normal, subnormal = max(normal, float(ordinary.max())), max(subnormal, float(rest.max()))
    return Worst(function, kind, count, off, normal, subnormal, at)


def errors(got: Array, want: Array, operand: Array) -> tuple[Array, Array]:
    """|got - want| in units of the last place of `want` in the type of `got`, and where subnormal numbers are about.

    Beyond the largest number a type goes on as if it had one more exponent, and then overflows: to infinity, to NaN,
    or to the largest number.
    """
    dtype: Any = got.dtype
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    wide = want.dtype
    smallest, largest = wide.type(float(info.tiny)), wide.type(float(info.max))
    size = np.abs(want)
    _, exponent = np.frexp(size)
    unit = np.ldexp(wide.type(1), np.maximum(exponent - 1, info.minexp) - info.nmant)
    found = got.astype(wide)
    apart = np.abs(found - want) / unit
    over = largest + np.ldexp(wide.type(1), int(info.maxexp) - 1 - int(info.nmant)) / 2
    with np.errstate(all="ignore"):
        end = np.asarray([np.inf], np.float32).astype(dtype).astype(wide)[0]
    beyond = size >= over
    at_end = (np.isnan(found) if np.isnan(end) else np.abs(found) == end) | (np.abs(found) == largest) & (
        size < over + 8 * np.ldexp(wide.type(1), int(info.maxexp) - 1 - int(info.nmant))
    )
    near_end = (size > largest - 8 * (over - largest)) & ~beyond
    apart = np.where(beyond, np.where(at_end, 0, np.inf), apart)
    apart = np.where(near_end & ~np.isfinite(found), np.abs(over - size) / (2 * (over - largest)) + 0.5, apart)
    nan = np.isnan(want)
    none = got.dtype.name == "float4_e2m1fn"  # which has no NaN: minus zero stands for it
    apart = np.where(nan, np.where((found == 0) if none else np.isnan(found), 0, np.inf), apart)
    apart = np.where(np.isnan(apart), np.inf, apart)
    start = np.abs(operand.astype(wide))
    tiny = ((size < smallest) & (size > 0)) | ((start < smallest) & (start > 0))
    return apart, tiny


def table(
    engine: Engine, functions: Iterable[str], kinds: Iterable[str], stride: int, progress: bool
) -> Iterator[Worst]:
    """All rows; those that the engine refuses are left out, with a note."""
    for function in functions:
        for kind in kinds:
            start = time.perf_counter()
            try:
                row = measure(function, kind, engine, stride)
            except Exception as error:
                print(f"{function} {kind}: {error}", file=sys.stderr)
                continue
            if progress:
                print(f"{row} {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
            yield row


def save(file: Path, engine: str, stride: int, rows: list[Worst]) -> None:
    """Put the rows of an engine into `file` in place of those that were there."""
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    document[engine] = {"stride": stride, "version": version_of(engine), "rows": [asdict(row) for row in rows]}
    parts = []
    for name, part in sorted(document.items()):
        lines = ",\n".join("  " + json.dumps(row) for row in part.pop("rows"))
        parts.append(f' "{name}": {json.dumps(part)[:-1]}, "rows": [\n{lines}\n ]}}')
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def version_of(engine: str) -> str:
    if engine == "native":
        import hlotool

        return f"hlotool {hlotool.__version__}"
    import jax

    return f"jax {jax.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stride", type=int, default=4099, help="take every N-th f32")
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--engine", choices=("native", "xla"), default="native")
    parser.add_argument("--write", help="put the rows into this JSON file")
    chosen = parser.parse_args()
    engine = {"native": native, "xla": xla}[chosen.engine]
    rows = list(table(engine, chosen.functions.split(","), chosen.kinds.split(","), chosen.stride, True))
    if chosen.write:
        save(Path(chosen.write), chosen.engine, chosen.stride, rows)
    for row in rows:
        print(
            f"{row.function:22} {row.kind:14} {row.normal:10.4g} {row.subnormal:10.4g} "
            f"{row.off:>10} of {row.count:<10} at {row.at!r}"
        )


if __name__ == "__main__":
    main()
