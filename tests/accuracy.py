#!/usr/bin/env python3
"""How far the elementwise functions are from the true results, in units of the last place.

    tests/accuracy.py [--stride N] [--functions tanh,erf] [--kinds f32,f64] [--engine native|xla] [--write FILE.json]
                      [--cpu x86-64-v2] [--flush-denormals]

Every number of the types of up to 16 bits is tried; of f32 every N-th bit pattern (1: all of them), of f64 a sample.
References: for f32 and narrower NumPy and SciPy in f64, for f64 the same in extended precision, which x86 has.  Figures
for XLA come from a Python that has jax, named by HLOTOOL_XLA_PYTHON (``--engine xla``).  The table of the manual is
made of man/accuracy.json, in which ``--write`` replaces the rows that were measured.  ``--cpu`` and
``--flush-denormals`` are those of ``hlotool run``; flushed, only the errors of normal numbers mean something.

f32 is judged by a compiled module, a block of numbers at a time: by the same function in f64 as hlotool computes it.
The blocks with the largest errors are judged by NumPy too, and both must agree.  All 2^32 numbers take half a minute.

As a module: `measure` gives the row of one function and type.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from scipy import special

__all__ = ["BLOCK", "FUNCTIONS", "KINDS", "NARROW", "Engine", "Worst", "errors", "judge", "measure", "native", "xla"]

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
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
}
KINDS = {**NARROW, "f32": np.float32, "f64": np.float64}
"""Element types with their NumPy types."""

_POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)
"""Powers of two only: no zero, no sign."""


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


def native(
    opcode: str, kind: str, size: int, cpu: str = "host", flush_denormals: bool = False
) -> Callable[[Array], Array]:
    """hlotool's own code, for this processor or one that it can stand for."""
    import hlotool

    module = hlotool.parse(_text(opcode, kind, size))
    executable = hlotool.compile(module, threads=1, cpu=cpu, flush_denormals=flush_denormals)
    return lambda x: np.asarray(executable(x)[0])


def xla(opcode: str, kind: str, size: int) -> Callable[[Array], Array]:
    """XLA's CPU backend in a child process, with which it shares a file of `size` numbers."""
    from hlotool.harness.xla import xla_python

    python = xla_python()
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(size * np.dtype(KINDS[kind]).itemsize)
        shared = mmap.mmap(file.fileno(), 0)
        child = subprocess.Popen(
            [python, __file__, "--serve", opcode, kind, file.name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONSAFEPATH": "1"},
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        said = child.stdout.readline()
    if said != "ready\n":
        child.communicate()
        raise RuntimeError(said.strip() or f"{python} does not run XLA")
    numbers = np.frombuffer(shared, KINDS[kind])
    stdin, stdout = child.stdin, child.stdout

    def end() -> None:
        stdin.close()
        child.wait()

    def function(x: Array) -> Array:
        numbers[:] = x
        stdin.write("\n")
        stdin.flush()
        if not stdout.readline():
            raise RuntimeError("XLA's process died")
        return numbers.copy()

    weakref.finalize(function, end)
    return function


def _serve(opcode: str, kind: str, name: str) -> None:
    """The child's side of `xla`: for each line of input the numbers of a file are replaced by their results.

    StableHLO has no inverse trigonometric and no hyperbolic functions but tanh: JAX composes those.
    """
    import jax
    from jaxlib import _hlo, _jax

    jax.config.update("jax_enable_x64", True)
    with open(name, "r+b") as file:
        numbers = np.frombuffer(mmap.mmap(file.fileno(), 0), KINDS[kind])
    device = jax.local_devices(backend="cpu")[0]
    try:
        if opcode in ("acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh"):
            compiled = jax.jit(getattr(jax.lax, opcode)).lower(numbers).compile()

            def run(x: Any) -> Any:
                return compiled(x)
        else:
            module = _hlo.hlo_module_from_text(_text(opcode, kind, numbers.size))
            stable = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
            executable = device.client.compile_and_load(stable, _jax.DeviceList((device,)))

            def run(x: Any) -> Any:
                return executable.execute([x])[0]
    except Exception as error:
        print(str(error).partition("\n")[0], flush=True)
        return
    print("ready", flush=True)
    for _ in sys.stdin:
        numbers[:] = np.asarray(run(jax.device_put(numbers.copy(), device)))
        print("done", flush=True)


def _text(opcode: str, kind: str, size: int) -> str:
    shape = f"{kind}[{size}]"
    return f"HloModule m\nENTRY e {{\n  p = {shape} parameter(0)\n  ROOT r = {shape} {opcode}(p)\n}}\n"


_CHUNK = 1 << 20


def operands(kind: str, stride: int = 1) -> Array:
    """All numbers of a narrow type; of f64 as many as every `stride`-th of f32 would be but at most `_CHUNK`: of all
    sizes, of ordinary size, and near one."""
    dtype = np.dtype(KINDS[kind])
    bits = 4 if kind == "f4e2m1fn" else 8 * dtype.itemsize
    if bits <= 16:
        return np.arange(1 << bits, dtype=f"u{dtype.itemsize}").view(dtype)
    random = np.random.default_rng(11)
    part = min(_CHUNK, (1 << 32) // stride) // 4
    drawn = random.integers(0, 1 << 64, part, np.uint64).view(np.float64)
    near = np.ldexp(random.uniform(-1, 1, 2 * part), random.integers(-30, 12, 2 * part))
    ones = np.copysign(1.0, random.uniform(-1, 1, part)) + random.standard_normal(part) / 64
    return np.concatenate([drawn, near, ones])


def measure(function: str, kind: str, engine: Engine = native, stride: int = 1) -> Worst:
    """The worst error of one function over all operands of one type."""
    if kind == "f32":
        return _sweep(function, engine, stride)
    x = operands(kind, stride)
    got = engine(function, kind, x.size)(x)
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble if kind == "f64" else np.float64)
        error, tiny = errors(got, FUNCTIONS[function](wide), x)
    off = int(np.count_nonzero(error > 0.5 + 2.0**-10))
    normal, subnormal = float(np.where(tiny, 0, error).max()), float(np.where(tiny, error, 0).max())
    return Worst(function, kind, x.size, off, normal, subnormal, float(x[np.argmax(error)]))


def errors(got: Array, want: Array, operand: Array) -> tuple[Array, Array]:
    """|got - want| in units of the last place of `want` in the type of `got`, and where subnormal numbers are about.

    Beyond the largest number a type goes on as if it had one more exponent, and then overflows: to infinity, to NaN,
    or to the largest number.
    """
    dtype: Any = got.dtype
    info: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    wide = want.dtype
    if dtype == _POWERS:  # NaN stands for zero and below; ml_dtypes rounds up between the least two numbers
        least = wide.type(float(info.tiny))
        want = np.where(want <= least, np.where(want > 0, least, np.nan), np.maximum(want, 2 * least))
    smallest, largest = wide.type(float(info.tiny)), wide.type(float(info.max))
    size = np.abs(want)
    _, exponent = np.frexp(np.where(size > 0, size, smallest))  # of zero NumPy says 0
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


BLOCK = 1 << 15
"""Numbers that the full sweep takes at once: few enough for the caches."""


def _sweep(function: str, engine: Engine, stride: int) -> Worst:
    """`measure` for f32; the last block goes on with the first numbers that were left out."""
    compute, judged = engine(function, "f32", BLOCK), judge(function)
    steps = np.arange(BLOCK, dtype=np.uint32) * np.uint32(stride)
    worst, seen, off = np.zeros(2), np.zeros(2, np.uint32), 0
    starts = range(0, 1 << 32, BLOCK * stride)
    for start in starts:
        found, more = judged(compute((steps + np.uint32(start)).view(np.float32)), start, stride)
        seen[found > worst] = start
        worst, off = np.maximum(worst, found), off + more
    parts: list[tuple[float, float]] = []
    for begin, largest, part in zip(seen, worst, (False, True), strict=True):
        operand = (steps + begin).view(np.float32)
        with np.errstate(all="ignore"):
            error, tiny = errors(compute(operand), FUNCTIONS[function](operand.astype(np.float64)), operand)
        error = np.where(tiny == part, error, 0)
        if not (error.max() == largest or abs(error.max() - largest) < 2.0**-12):
            raise RuntimeError(f"{function}: {largest} ulp from {begin:#x} on, but {error.max()} as NumPy has it")
        parts.append((float(error.max()), float(operand[np.argmax(error)])))
    (normal, _), (subnormal, _) = parts
    return Worst(function, "f32", len(starts) * BLOCK, off, normal, subnormal, max(parts)[1])


def judge(function: str) -> Callable[[Array, int, int], tuple[Array, int]]:
    """What `errors` finds, compiled: from results of the f32 whose bits are start, start + stride, ... the worst errors
    of normal and of subnormal numbers, and how many results are not the nearest number."""
    import hlotool

    executable = hlotool.compile(hlotool.parse(_judge_text(function)), threads=1)

    def judged(got: Array, start: int, stride: int) -> tuple[Array, int]:
        normal, subnormal, off = executable(got, np.uint32(start), np.uint32(stride))
        return np.asarray([normal, subnormal]), int(off)

    return judged


def _judge_text(function: str) -> str:
    largest, ulp = float(np.finfo(np.float32).max), 2.0**104
    over = largest + ulp / 2
    lines: list[str] = []

    def let(element: str, opcode: str, *operands: str, attribute: str = "") -> str:
        lines.append(f"  v{len(lines)} = {element}[{BLOCK}] {opcode}({', '.join(operands)}){attribute}")
        return f"v{len(lines) - 1}"

    def constant(element: str, value: float) -> str:
        lines.append(f"  v{len(lines)} = {element}[] constant({value!r})")
        return let(element, "broadcast", f"v{len(lines) - 1}", attribute=", dimensions={}")

    def number(opcode: str, *operands: str | float) -> str:
        return let("f64", opcode, *(o if isinstance(o, str) else constant("f64", o) for o in operands))

    def compare(a: str, direction: str, b: str | float) -> str:
        b = b if isinstance(b, str) else constant("f64", b)
        return let("pred", "compare", a, b, attribute=f", direction={direction}")

    first, stride = (let("u32", "broadcast", name, attribute=", dimensions={}") for name in ("start", "stride"))
    code = let("u32", "multiply", let("u32", "iota", attribute=", iota_dimension=0"), stride)
    code = let("u32", "add", code, first)
    want = number(function, number("convert", let("f32", "bitcast-convert", code)))
    found, size = number("convert", "got"), number("abs", want)
    power = let("u64", "and", let("u64", "bitcast-convert", size), constant("u64", 0x7FF << 52))
    unit = number("multiply", number("maximum", number("bitcast-convert", power), 2.0**-126), 2.0**-23)
    apart = number("divide", number("abs", number("subtract", found, want)), unit)
    magnitude = number("abs", found)
    cut = let("pred", "and", compare(magnitude, "EQ", largest), compare(size, "LT", over + 8 * ulp))
    at_end = let("pred", "or", compare(magnitude, "EQ", np.inf), cut)
    near_end = let("pred", "and", compare(size, "GT", largest - 4 * ulp), compare(magnitude, "EQ", np.inf))
    gap = number("add", number("multiply", number("abs", number("subtract", size, over)), 1 / ulp), 0.5)
    apart = number("select", near_end, gap, apart)
    apart = number("select", compare(size, "GE", over), number("select", at_end, 0.0, np.inf), apart)
    missing = number("select", compare(found, "NE", found), 0.0, np.inf)
    apart = number("select", compare(want, "NE", want), missing, apart)
    apart = number("select", compare(apart, "NE", apart), np.inf, apart)
    # Subnormal operands have the magnitudes 1 to 2^23 - 1; less one, zero is not among them.
    above = let("u32", "and", code, constant("u32", 0x7FFFFFFF))
    above = let("u32", "subtract", above, constant("u32", 1))
    small = let("pred", "and", compare(size, "LT", 2.0**-126), compare(size, "GT", 0.0))
    tiny = let("pred", "or", compare(above, "LT", constant("u32", 0x7FFFFF)), small)
    normal, subnormal = number("select", tiny, 0.0, apart), number("select", tiny, apart, 0.0)
    off = let("u32", "convert", compare(apart, "GT", 0.5 + 2.0**-10))
    body = "\n".join(lines)
    return f"""HloModule judge

larger {{
  p = f64[] parameter(0)
  q = f64[] parameter(1)
  ROOT r = f64[] maximum(p, q)
}}

sum {{
  p = u32[] parameter(0)
  q = u32[] parameter(1)
  ROOT r = u32[] add(p, q)
}}

ENTRY e {{
  got = f32[{BLOCK}] parameter(0)
  start = u32[] parameter(1)
  stride = u32[] parameter(2)
{body}
  none = f64[] constant(0)
  nothing = u32[] constant(0)
  normal = f64[] reduce({normal}, none), dimensions={{0}}, to_apply=larger
  subnormal = f64[] reduce({subnormal}, none), dimensions={{0}}, to_apply=larger
  off = u32[] reduce({off}, nothing), dimensions={{0}}, to_apply=sum
  ROOT all = (f64[], f64[], u32[]) tuple(normal, subnormal, off)
}}
"""


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


def save(file: Path, engine: str, rows: list[Worst]) -> None:
    """Put the rows of an engine into `file`, those of the same functions and types in place of what was there."""
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    old = document.get(engine, {"rows": []})["rows"]
    merged = {(row["function"], row["kind"]): row for row in (*old, *map(asdict, rows))}
    document[engine] = {"version": version_of(engine), "rows": [merged[key] for key in sorted(merged)]}
    parts = []
    for name, part in sorted(document.items()):
        lines = ",\n".join("  " + json.dumps(row) for row in part.pop("rows"))
        parts.append(f' "{name}": {json.dumps(part)[:-1]}, "rows": [\n{lines}\n ]}}')
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def version_of(engine: str) -> str:
    if engine == "native":
        import hlotool

        return f"hlotool {hlotool.__version__}"
    from hlotool.harness.xla import xla_python

    python = xla_python()
    program = [python, "-c", "import jax; print(jax.__version__)"]
    return f"jax {subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()}"


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        _serve(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stride", type=int, default=4099, help="take every N-th f32")
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--engine", choices=("native", "xla"), default="native")
    parser.add_argument("--write", help="put the rows into this JSON file")
    parser.add_argument("--cpu", default="host", help="with --engine native")
    parser.add_argument("--flush-denormals", action="store_true", help="with --engine native")
    chosen = parser.parse_args()
    ours: Engine = partial(native, cpu=chosen.cpu, flush_denormals=chosen.flush_denormals)
    engine = ours if chosen.engine == "native" else xla
    if chosen.write and (chosen.cpu != "host" or chosen.flush_denormals):
        parser.error("--write is for this processor as it is")
    for row in table(engine, chosen.functions.split(","), chosen.kinds.split(","), chosen.stride, True):
        if chosen.write:
            save(Path(chosen.write), chosen.engine, [row])
        print(
            f"{row.function:22} {row.kind:14} {row.normal:10.4g} {row.subnormal:10.4g} "
            f"{row.off:>10} of {row.count:<10} at {row.at!r}",
            flush=True,
        )


if __name__ == "__main__":
    main()
