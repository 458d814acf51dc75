"""How fast this machine is: kernels made for the purpose are timed, and the figures of the model fitted to them.

The modules here have every kind of work that `hlotool.analysis.performance` has figures for: arrays of all sizes, from
the nearest cache to memory, read and written in order or not; functions; reductions along rows and columns; products
and convolutions of all shapes; sorts, gathers and scatters; small kernels among large ones, which find nothing in the
caches.  Times are those of profiles, medians of runs in turns with the same program without probes.  What these kernels
say little about stays near the figures that are built in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from hlotool.analysis.performance import Performance, Sample, fitted
from hlotool.codegen.machine import Machine
from hlotool.codegen.prediction import predicted
from hlotool.driver import compile_module
from hlotool.harness.inputs import random_inputs
from hlotool.harness.profile import Measurement, Profile
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.performance import built_in
from hlotool.text.parser import parse

__all__ = ["Calibration", "calibrate", "samples_of", "synthetic_modules"]

_SECONDS = 0.25
"""For which each module runs, with and without probes."""

_TRUST = 0.5
"""How many kernels a figure that is built in counts like."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The performance that was found; how many kernels were timed; and the median of how far off its predictions of
    these are, and those of the figures that are built in, as shares."""

    performance: Performance
    kernels: int
    error: float
    error_before: float


Measure = Callable[[Module, Machine, int], Profile]


def measured(module: Module, machine: Machine, threads: int, seconds: float = _SECONDS) -> Profile:
    """The profile of a module on inputs that are made up."""
    bare, probed = (
        compile_module(module, machine=machine, threads=threads, profiled=profiled) for profiled in (False, True)
    )
    measurement = Measurement(bare, probed, random_inputs(module, 0), threads)
    measurement.run(seconds)
    return measurement.profile()


def calibrate(
    machine: Machine, threads: int, tell: Callable[[str], None] = lambda text: None, measure: Measure = measured
) -> Calibration:
    """Time kernels on this machine, which has to be able to run code for `machine`, and fit the figures to them.

    `measure` times the kernels of a module; `tell` is told which one is next.
    """
    before = built_in(machine, threads)
    samples: list[Sample] = []
    for name, text in synthetic_modules():
        tell(name)
        samples += samples_of(measure(parse(text), machine, threads), before, machine, threads)
    figures = fitted(samples, before.figures, _TRUST)
    found = Performance(cpu=machine.cpu, threads=threads, origin="calibrated", figures=figures)
    return Calibration(found, len(samples), _error(samples, found), _error(samples, before))


def samples_of(profile: Profile, performance: Performance, machine: Machine, threads: int) -> list[Sample]:
    """The kernels of a profile, with their work; without those whose number of runs is not known."""
    prediction = predicted(profile.module, performance, machine, threads)
    kernels = {kernel.instruction: kernel for kernel in prediction.kernels}
    found = []
    for step in profile.steps:
        kernel = kernels.get(step.instruction) if step.instruction is not None and step.kind == "kernel" else None
        if kernel is not None and kernel.runs == step.count and step.seconds > 0:
            found.append(Sample(kernel.amounts, step.seconds / step.count * 1e9))
    return found


def _error(samples: Sequence[Sample], performance: Performance) -> float:
    errors = sorted(abs(performance.nanoseconds(s.amounts) / s.nanoseconds - 1) for s in samples)
    return errors[len(errors) // 2] if errors else 0.0


# ---- modules


def synthetic_modules() -> Iterator[tuple[str, str]]:
    """Names and texts of the modules that are timed."""
    for length in (48, 1000, 12_000, 200_000, 4_000_000):
        yield f"stream of {length}", _stream(length)
    yield "functions", _functions("f32", 4096)
    yield "functions, few elements", _functions("f32", 48)
    yield "functions of f64", _functions("f64", 1000)
    yield "functions of complex numbers", _functions("c64", 1000)
    yield "bf16", _functions("bf16", 4096)
    for rows, columns in ((24, 10), (64, 1000), (1000, 64), (700, 1500)):
        yield f"reductions of {rows} x {columns}", _reductions(rows, columns)
        yield f"rows of {rows} x {columns}", _softmax(rows, columns)
        yield f"transpose of {rows} x {columns}", _moved(rows, columns)
    for batch, m, k, n in _PRODUCTS:
        yield f"product {batch} x {m} x {k} x {n}", _product("f32", batch, m, k, n)
    yield "product of f64", _product("f64", 1, 200, 200, 200)
    yield "product of bf16", _product("bf16", 1, 256, 256, 256)
    for size, features, window in ((8, 64, 3), (28, 32, 3), (14, 128, 1), (56, 3, 7)):
        yield f"convolution of {size} x {size} x {features}", _convolution(size, features, window)
    yield "indices", _INDICES
    yield "algorithms", _ALGORITHMS
    yield "steps of a loop", _LOOP
    yield "small kernels among large ones", _cold()


_PRODUCTS = (
    (1, 1, 400, 600), (1, 16, 13, 100), (1, 16, 300, 300), (1, 64, 64, 64), (1, 256, 256, 256), (1, 600, 500, 700),
    (1, 300, 16, 300), (12, 48, 32, 48), (1, 400, 600, 1), (1, 128, 1000, 10),
)  # fmt: skip


def _array(kind: str, *sizes: int) -> str:
    return f"{kind}[{','.join(map(str, sizes))}]"


def _stream(length: int) -> str:
    shape = _array("f32", length)
    return f"""HloModule stream
ENTRY e {{
  a = {shape} parameter(0)
  b = {shape} parameter(1)
  c = {shape} multiply(a, b)
  d = {shape} add(c, a)
  e = {shape} opt-barrier(d)
  f = {shape} subtract(e, b)
  g = {shape} opt-barrier(f)
  h = {shape} maximum(g, g)
  i = pred[{length}] compare(h, a), direction=LT
  j = {shape} select(i, b, h)
  ROOT r = ({shape}, {shape}) tuple(g, j)
}}"""


_ONE_EACH = {
    "f32": ("exponential", "log", "tanh", "sqrt", "rsqrt", "logistic", "erf", "sine", "atan2", "power", "divide",
            "cbrt", "exponential-minus-one", "log-plus-one"),
    "f64": ("exponential", "log", "tanh", "sqrt", "divide", "cosine"),
    "c64": ("exponential", "log", "multiply", "divide", "tanh"),
    "bf16": ("exponential", "multiply", "add", "tanh"),
}  # fmt: skip
"""Functions by type: each of an array of another length, so that there is a kernel for each."""
_PAIRS = frozenset({"atan2", "power", "divide", "multiply", "add"})


def _functions(kind: str, length: int) -> str:
    lines, results, shapes = [], [], []
    for number, opcode in enumerate(_ONE_EACH[kind]):
        shape = _array(kind, length + 16 * number)
        pair = f"p{number}, p{number}" if opcode in _PAIRS else f"p{number}"
        lines += [f"  p{number} = {shape} parameter({number})", f"  f{number} = {shape} {opcode}({pair})"]
        results.append(f"f{number}")
        shapes.append(shape)
    return "\n".join([
        "HloModule functions", "ENTRY e {", *lines,
        f"  ROOT r = ({', '.join(shapes)}) tuple({', '.join(results)})", "}",
    ])  # fmt: skip


_ADD = """add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}
max {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] maximum(x, y)
}
"""


def _reductions(rows: int, columns: int) -> str:
    one, two = _array("f32", rows, columns), _array("f32", rows + 1, columns + 2)
    return f"""HloModule reductions
{_ADD}
ENTRY e {{
  a = {one} parameter(0)
  b = {two} parameter(1)
  c = {_array("f32", rows, columns + 1)} parameter(2)
  o = f32[] constant(0)
  r = f32[{rows}] reduce(a, o), dimensions={{1}}, to_apply=add
  s = {two} multiply(b, b)
  t = f32[{columns + 2}] reduce(s, o), dimensions={{0}}, to_apply=add
  u = f32[] reduce(c, o), dimensions={{0,1}}, to_apply=max
  ROOT q = (f32[{rows}], f32[{columns + 2}], f32[]) tuple(r, t, u)
}}"""


def _softmax(rows: int, columns: int) -> str:
    shape = _array("f32", rows, columns)
    return f"""HloModule rows
{_ADD}
ENTRY e {{
  a = {shape} parameter(0)
  low = f32[] constant(-inf)
  o = f32[] constant(0)
  m = f32[{rows}] reduce(a, low), dimensions={{1}}, to_apply=max
  n = {shape} broadcast(m), dimensions={{0}}
  d = {shape} subtract(a, n)
  e = {shape} exponential(d)
  s = f32[{rows}] reduce(e, o), dimensions={{1}}, to_apply=add
  t = {shape} broadcast(s), dimensions={{0}}
  ROOT r = {shape} divide(e, t)
}}"""


def _moved(rows: int, columns: int) -> str:
    shape, turned = _array("f32", rows, columns), _array("f32", columns, rows)
    wide = _array("f32", rows + 2, columns + 2)
    return f"""HloModule moved
ENTRY e {{
  a = {shape} parameter(0)
  o = f32[] constant(0)
  t = {turned} transpose(a), dimensions={{1,0}}
  u = {turned} opt-barrier(t)
  v = {turned} negate(u)
  p = {wide} pad(a, o), padding=1_1x1_1
  s = {_array("f32", rows, columns // 2)} slice(a), slice={{[0:{rows}],[0:{columns // 2 * 2}:2]}}
  ROOT r = ({turned}, {wide}, {_array("f32", rows, columns // 2)}) tuple(v, p, s)
}}"""


def _product(kind: str, batch: int, m: int, k: int, n: int) -> str:
    left, right, result = _array(kind, batch, m, k), _array(kind, batch, k, n), _array(kind, batch, m, n)
    return f"""HloModule product
ENTRY e {{
  a = {left} parameter(0)
  b = {right} parameter(1)
  c = {result} dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
      rhs_contracting_dims={{1}}
  o = {kind}[] constant(0)
  z = {result} broadcast(o), dimensions={{}}
  ROOT r = {result} maximum(c, z)
}}"""


def _convolution(size: int, features: int, window: int) -> str:
    image, filters = _array("f32", 2, size, size, features), _array("f32", window, window, features, 32)
    result = _array("f32", 2, size, size, 32)
    pad = window // 2
    return f"""HloModule convolution
ENTRY e {{
  a = {image} parameter(0)
  b = {filters} parameter(1)
  c = {result} convolution(a, b), window={{size={window}x{window} pad={pad}_{pad}x{pad}_{pad}}},
      dim_labels=b01f_01io->b01f
  d = {result} tanh(c)
  ROOT r = ({result}, {result}) tuple(c, d)
}}"""


_INDICES = f"""HloModule indices
{_ADD}
second {{
  x = f32[] parameter(0)
  ROOT y = f32[] parameter(1)
}}
ENTRY e {{
  t = f32[2000,64] parameter(0)
  i = s32[500,1] iota(), iota_dimension=0
  three = s32[] constant(3)
  three_each = s32[500,1] broadcast(three), dimensions={{}}
  j = s32[500,1] multiply(i, three_each)
  g = f32[500,64] gather(t, j), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
      index_vector_dim=1, slice_sizes={{1,64}}
  k = s32[500,1] opt-barrier(j)
  u = f32[500,64] parameter(1)
  s = f32[2000,64] scatter(t, k, u), update_window_dims={{1}}, inserted_window_dims={{0}},
      scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add
  v = f32[4000] parameter(2)
  w = f32[500,1] parameter(3)
  e = f32[500] gather(v, k), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
      index_vector_dim=1, slice_sizes={{1}}
  x = f32[500] reshape(w)
  y = f32[4000] scatter(v, k, x), update_window_dims={{}}, inserted_window_dims={{0}},
      scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=second
  ROOT r = (f32[500,64], f32[2000,64], f32[500], f32[4000]) tuple(g, s, e, y)
}}"""

_ALGORITHMS = """HloModule algorithms
less {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = pred[] compare(x, y), direction=LT
}
less_pair {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  k = s32[] parameter(2)
  l = s32[] parameter(3)
  ROOT z = pred[] compare(x, y), direction=LT
}
max {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] maximum(x, y)
}
ENTRY e {
  a = f32[20000] parameter(0)
  b = f32[40,100] parameter(1)
  i = s32[40,100] iota(), iota_dimension=1
  s = f32[20000] sort(a), dimensions={0}, to_apply=less
  t = (f32[40,100], s32[40,100]) sort(b, i), dimensions={1}, to_apply=less_pair
  c = c64[8,1024] parameter(2)
  f = c64[8,1024] fft(c), fft_type=FFT, fft_length={1024}
  d = f32[1,28,28,16] parameter(3)
  low = f32[] constant(-inf)
  w = f32[1,14,14,16] reduce-window(d, low), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=max
  k = u64[2] parameter(4)
  g = (u64[2], u32[5000]) rng-bit-generator(k), algorithm=rng_three_fry
  l = f32[60,60] parameter(5)
  m = f32[60,60] transpose(l), dimensions={1,0}
  h = f32[60,60] triangular-solve(l, m), left_side=true, lower=true, transpose_a=NO_TRANSPOSE, unit_diagonal=true
  ROOT r = (f32[20000], (f32[40,100], s32[40,100]), c64[8,1024], f32[1,14,14,16], (u64[2], u32[5000]),
      f32[60,60]) tuple(s, t, f, w, g, h)
}"""

_LOOP = """HloModule loop
body {
  p = (s32[], f32[32,64], f32[64,64], f32[40,32,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  h = f32[32,64] get-tuple-element(p), index=1
  w = f32[64,64] get-tuple-element(p), index=2
  x = f32[40,32,64] get-tuple-element(p), index=3
  o = s32[] constant(0)
  q = f32[1,32,64] dynamic-slice(x, i, o, o), dynamic_slice_sizes={1,32,64}
  u = f32[32,64] reshape(q)
  d = f32[32,64] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[32,64] add(d, u)
  t = f32[32,64] tanh(a)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT r = (s32[], f32[32,64], f32[64,64], f32[40,32,64]) tuple(j, t, w, x)
}
condition {
  p = (s32[], f32[32,64], f32[64,64], f32[40,32,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(40)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  h = f32[32,64] parameter(0)
  w = f32[64,64] parameter(1)
  x = f32[40,32,64] parameter(2)
  o = s32[] constant(0)
  s = (s32[], f32[32,64], f32[64,64], f32[40,32,64]) tuple(o, h, w, x)
  l = (s32[], f32[32,64], f32[64,64], f32[40,32,64]) while(s), condition=condition, body=body
  ROOT r = f32[32,64] get-tuple-element(l), index=1
}"""


def _cold() -> str:
    """Large arrays are streamed, and after each of them small ones are read, which the caches have lost meanwhile."""
    big, lines, names, shapes, last = _array("f32", 3_000_000), [], [], [], "b"
    for number, size in enumerate((8, 16, 40, 64, 100, 300, 1000, 4000)):
        small = _array("f32", size)
        opcode = ("negate", "tanh", "rsqrt", "exponential")[number % 4]
        lines += [
            f"  s{number} = {small} parameter({number + 1})",
            f"  t{number} = {big} negate({last})",
            f"  u{number} = ({small}, {big}) tuple(s{number}, t{number})",
            f"  v{number} = ({small}, {big}) opt-barrier(u{number})",
            f"  w{number} = {small} get-tuple-element(v{number}), index=0",
            f"  x{number} = {small} {opcode}(w{number})",
            f"  y{number} = {big} get-tuple-element(v{number}), index=1",
        ]
        last = f"y{number}"
        names.append(f"x{number}")
        shapes.append(small)
    return "\n".join([
        "HloModule cold", "ENTRY e {", f"  b = {big} parameter(0)", *lines,
        f"  ROOT r = ({', '.join([*shapes, big])}) tuple({', '.join([*names, last])})", "}",
    ])  # fmt: skip
