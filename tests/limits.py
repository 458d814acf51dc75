"""hlotool against the limits of the machine: libraries written for one thing, measured in the same run.

    python tests/limits.py [--torch-python PYTHON] [--xla-python PYTHON] [--rounds N] [--time SECONDS] [NAME ...]

Products and convolutions stand beside OpenBLAS (through NumPy), torch (in NCHW and in channels-last order) and XLA,
streaming kernels beside NumPy and torch writing to memory that is there already, elementwise functions beside XLA.
Peers are child processes that take turns; those whose Python lacks the package are left out.  ``share`` is hlotool's
speed over that of the best peer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CASES", "Case"]


@dataclass(frozen=True, slots=True)
class Case:
    """One computation: HLO, the numbers of operations and bytes of a run, and what peers need to know of it."""

    name: str
    hlo: str
    flops: float
    bytes: float
    kind: str
    sizes: tuple[int, ...]


def product(m: int, k: int, n: int) -> Case:
    text = (
        f"HloModule m\nENTRY e {{ a = f32[{m},{k}] parameter(0)\n b = f32[{k},{n}] parameter(1)\n"
        f"ROOT c = f32[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
    )
    return Case(f"product {m}x{k}x{n}", text, 2.0 * m * k * n, 4.0 * (m * k + k * n + m * n), "product", (m, k, n))


def convolution(
    batch: int, size: int, inputs: int, outputs: int, window: int, stride: int = 1, groups: int = 1
) -> Case:
    pad = window // 2
    out = (size + 2 * pad - window) // stride + 1
    text = (
        f"HloModule m\nENTRY e {{ x = f32[{batch},{size},{size},{inputs}] parameter(0)\n"
        f"w = f32[{window},{window},{inputs // groups},{outputs}] parameter(1)\n"
        f"ROOT y = f32[{batch},{out},{out},{outputs}] convolution(x, w), window={{size={window}x{window} "
        f"stride={stride}x{stride} pad={pad}_{pad}x{pad}_{pad}}}, dim_labels=b01f_01io->b01f, "
        f"feature_group_count={groups} }}"
    )
    flops = 2.0 * batch * out * out * outputs * window * window * inputs / groups
    name = f"convolution {window}x{window}/{stride} {inputs}->{outputs} of {batch}x{size}x{size}"
    sizes = (batch, size, inputs, outputs, window, stride, groups)
    return Case(name + (f" in {groups} groups" if groups > 1 else ""), text, flops, 0.0, "convolution", sizes)


def stream(kind: str, length: int) -> Case:
    body = {
        "triad": "s = f32[] constant(3)\n t = f32[N] broadcast(s), dimensions={}\n m = f32[N] multiply(y, t)\n"
        "ROOT r = f32[N] add(x, m)",
        "add": "ROOT r = f32[N] add(x, y)",
        "negate": "ROOT r = f32[N] negate(x)",
        "sum": "z = f32[] constant(0)\n ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum",
    }[kind]
    both = kind in ("triad", "add")
    text = "HloModule m\nsum { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n" + (
        "ENTRY e { x = f32[N] parameter(0)\n" + ("y = f32[N] parameter(1)\n" if both else "") + body + " }"
    )
    arrays = {"triad": 3, "add": 3, "negate": 2, "sum": 1}[kind]
    return Case(f"{kind} of {length}", text.replace("[N]", f"[{length}]"), 0.0, 4.0 * arrays * length, kind, (length,))


def function(opcode: str, operands: int = 1, length: int = 1 << 18) -> Case:
    """An elementwise function of numbers that are in the caches; `flops` counts results."""
    names = "xy"[:operands]
    text = "HloModule m\nENTRY e {\n" + "".join(
        f"{name} = f32[{length}] parameter({number})\n" for number, name in enumerate(names)
    )
    text += f"ROOT r = f32[{length}] {opcode}({', '.join(names)}) }}"
    return Case(f"{opcode} of {length}", text, float(length), 0.0, "function", (operands, length))


FUNCTIONS = (
    "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "sine", "cosine", "tan",
    "sqrt", "rsqrt", "cbrt", "erf",
)  # those that XLA takes from StableHLO

CASES = (
    product(512, 512, 512),
    product(1024, 1024, 1024),
    product(2048, 2048, 2048),
    convolution(1, 56, 256, 256, 3),
    convolution(4, 28, 128, 128, 3),
    convolution(1, 56, 256, 64, 1),
    convolution(1, 224, 3, 64, 7, 2),
    convolution(1, 56, 128, 128, 3, 2),
    convolution(4, 28, 128, 128, 3, 1, 4),
    stream("triad", 16 << 20),
    stream("add", 16 << 20),
    stream("negate", 16 << 20),
    stream("sum", 16 << 20),
    stream("triad", 1 << 17),
    *map(function, FUNCTIONS),
    function("atan2", 2),
    function("power", 2),
)


def arguments(case: Case) -> list[Any]:
    """The same random arrays for everyone."""
    rng = np.random.default_rng(0)
    if case.kind == "product":
        m, k, n = case.sizes
        shapes: list[tuple[int, ...]] = [(m, k), (k, n)]
    elif case.kind == "convolution":
        batch, size, inputs, outputs, window, _, groups = case.sizes
        shapes = [(batch, size, size, inputs), (window, window, inputs // groups, outputs)]
    elif case.kind == "function":
        operands, length = case.sizes
        return [rng.uniform(0.1, 4, length).astype(np.float32) for _ in range(operands)]
    else:
        shapes = [case.sizes] * (2 if case.kind in ("triad", "add") else 1)
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


# ---- peers (this file is also the program of the child, which needs nothing of hlotool)


def numpy_runs(case: Case) -> list[Callable[[], Any]]:
    """What NumPy has for a case; it knows no convolutions, and its streams use one thread."""
    arrays = arguments(case)
    out = np.empty((case.sizes[0], case.sizes[2]) if case.kind == "product" else arrays[0].shape, np.float32)
    runs: dict[str, Callable[[], Any]] = {
        "product": lambda: np.matmul(*arrays, out=out),
        "add": lambda: np.add(*arrays, out=out),
        "negate": lambda: np.negative(arrays[0], out=out),
        "sum": lambda: arrays[0].sum(),
    }
    return [runs[case.kind]] if case.kind in runs else []


def torch_runs(case: Case) -> list[Callable[[], Any]]:
    """What torch has for a case, in several ways where it matters."""
    import torch

    torch.set_grad_enabled(False)
    arrays = [torch.from_numpy(a) for a in arguments(case)]
    if case.kind == "product":
        out = torch.empty(case.sizes[0], case.sizes[2])
        return [lambda: torch.matmul(*arrays, out=out)]
    if case.kind == "convolution":
        *_, window, stride, groups = case.sizes
        x, w = arrays[0].permute(0, 3, 1, 2), arrays[1].permute(3, 2, 0, 1)
        forms = [
            (x.contiguous(memory_format=f), w.contiguous(memory_format=f))
            for f in (torch.contiguous_format, torch.channels_last)
        ]
        conv = torch.nn.functional.conv2d
        return [partial(conv, *form, stride=stride, padding=window // 2, groups=groups) for form in forms]
    out = torch.empty_like(arrays[0])
    runs: dict[str, Callable[[], Any]] = {
        "triad": lambda: torch.add(*arrays, alpha=3, out=out),
        "add": lambda: torch.add(*arrays, out=out),
        "negate": lambda: torch.neg(arrays[0], out=out),
        "sum": lambda: torch.sum(arrays[0]),
    }
    return [runs[case.kind]] if case.kind in runs else []


PEERS = {"numpy": numpy_runs, "torch": torch_runs}


def serve(peer: str) -> None:
    """The child: for every line {case, seconds} the seconds of each call of the best way."""
    for line in sys.stdin:
        request = json.loads(line)
        case = next(c for c in CASES if c.name == request["case"])
        found = [sampled(run, request["seconds"]) for run in PEERS[peer](case)]
        print(json.dumps(min(found, key=median) if found else []), flush=True)


def sampled(run: Callable[[], Any], seconds: float) -> list[float]:
    """Seconds of each call, after as much time of warming up."""
    samples: list[float] = []
    for _ in range(2):
        samples, end = [], time.perf_counter() + seconds / 2
        while not samples or time.perf_counter() < end:
            begin = time.perf_counter()
            run()
            samples.append(time.perf_counter() - begin)
    return samples


def median(samples: Sequence[float]) -> float:
    return sorted(samples)[len(samples) // 2]


class Child:
    """A peer in a process of its own."""

    def __init__(self, peer: str, python: str) -> None:
        environment = {**os.environ, "PYTHONSAFEPATH": "1"}
        self._process = subprocess.Popen(
            [python, __file__, "--serve", peer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def sample(self, case: Case, seconds: float) -> list[float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"case": case.name, "seconds": seconds}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a peer died")
        samples: list[float] = json.loads(line)
        return samples

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


# ---- the table


def measure(
    case: Case, children: dict[str, Child], xla_python: str | None, rounds: int, seconds: float
) -> dict[str, float]:
    """The median seconds of a call by peer, all taking turns."""
    from hlotool.driver import compile_module
    from hlotool.harness.xla import XlaPeer
    from hlotool.text.parser import parse

    module = parse(case.hlo)
    run, arrays = compile_module(module).run, arguments(case)
    found: dict[str, list[float]] = {}
    xla = None
    if xla_python is not None:
        xla = XlaPeer(case.hlo, arrays, xla_python)
        xla.start()
    try:
        for _ in range(rounds):
            found.setdefault("hlotool", []).extend(sampled(lambda: run(*arrays), seconds))
            for name, child in children.items():
                found.setdefault(name, []).extend(child.sample(case, seconds))
            if xla is not None:
                xla.sample(seconds / 2, 1)
                found.setdefault("xla", []).extend(xla.sample(seconds / 2, 1))
    finally:
        if xla is not None:
            xla.close()
    return {name: median(samples) for name, samples in found.items() if samples}


def row(case: Case, times: dict[str, float]) -> str:
    """A line of the table, in GFLOP/s, GB/s or, of functions, billions of results."""
    work, unit = (case.flops, "GFLOP/s") if case.flops else (case.bytes, "GB/s")
    unit = "G/s" if case.kind == "function" else unit
    best = min((seconds for name, seconds in times.items() if name != "hlotool"), default=float("nan"))
    columns = [f"{work / times[name] / 1e9:.1f}" if name in times else "" for name in ("hlotool", *PEERS, "xla")]
    return f"| {case.name} | {unit} | " + " | ".join(columns) + f" | {best / times['hlotool']:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="cases whose names contain one of these (default: all)")
    parser.add_argument("--torch-python", help="a Python with torch")
    parser.add_argument("--xla-python", default=os.environ.get("HLOTOOL_XLA_PYTHON"), help="a Python with jax")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--time", type=float, default=0.4, help="seconds per turn")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    pythons = {"numpy": sys.executable, "torch": options.torch_python}
    children = {name: Child(name, python) for name, python in pythons.items() if python}
    try:
        print("| case | unit | hlotool | numpy | torch | xla | share |\n|---|---|--:|--:|--:|--:|--:|")
        for case in CASES:
            if not options.names or any(name in case.name for name in options.names):
                times = measure(case, children, options.xla_python, options.rounds, options.time)
                print(row(case, times), flush=True)
    finally:
        for child in children.values():
            child.close()


if __name__ == "__main__":
    main()
