"""How far off `hlotool simulate` is: ``python tests/survey_simulate.py [--seconds S] [--mpiexec MPIEXEC]``, by hand.

Programs run on 1, 2 and 4 devices: threads of this process, or with --mpiexec the ranks of MPI jobs.  A model of this
machine is fitted to some of them: operations and bytes per second, the time to launch a kernel, latency and bandwidth
of exchanges, the time to start several devices.  With it runs of the others are predicted and held against what was
measured.  Devices share the cores and the one memory: with more devices than cores each computes at its share of them,
and exchanges have their share of the bandwidth.  How many cores there are is fitted, too, since two threads of one core
are no two cores.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from hlotool.analysis.collective_formulas import Link
from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.exchanges import Exchanges
from hlotool.analysis.network import parse_topology
from hlotool.analysis.timeline import Chip, simulate
from hlotool.driver import compile_module
from hlotool.harness.inputs import random_inputs
from hlotool.ir import Module
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable
from hlotool.text.parser import parse

DEVICES = (1, 2, 4)
_DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def _module(devices: int, body: str, before: str = "") -> str:
    add = "sum {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] add(x, y)\n}\n\n"
    return f"HloModule m, replica_count={devices}\n\n{add}{before}ENTRY e {{\n{body}\n}}\n"


def product(size: int) -> Callable[[int], str]:
    """A product, and nothing exchanged."""
    return lambda devices: _module(devices, f"""p = f32[{size},{size}] parameter(0)
ROOT r = f32[{size},{size}] dot(p, p), {_DOT}""")


def data_parallel(batch: int, width: int, layers: int) -> Callable[[int], str]:
    """Products, and a sum over devices of the gradient of each."""
    def text(devices: int) -> str:
        lines = [f"h0 = f32[{batch},{width}] parameter(0)"]
        outs = []
        for n in range(layers):
            lines += [
                f"w{n} = f32[{width},{width}] parameter({n + 1})",
                f"d{n} = f32[{batch},{width}] dot(h{n}, w{n}), {_DOT}",
                f"h{n + 1} = f32[{batch},{width}] tanh(d{n})",
                f"g{n} = f32[{width},{width}] dot(h{n}, h{n + 1}), lhs_contracting_dims={{0}}, "
                "rhs_contracting_dims={0}",
                f"a{n} = f32[{width},{width}] all-reduce(g{n}), to_apply=sum",
                f"u{n} = f32[{width},{width}] subtract(w{n}, a{n})",
            ]
            outs.append(f"u{n}")
        shapes = ", ".join([f"f32[{width},{width}]"] * layers)
        return _module(devices, "\n".join([*lines, f"ROOT r = ({shapes}) tuple({', '.join(outs)})"]))

    return text


def tensor_parallel(batch: int, width: int, blocks: int) -> Callable[[int], str]:
    """Blocks of two products, the second of which is summed over devices."""
    def text(devices: int) -> str:
        lines = [f"h0 = f32[{batch},{width}] parameter(0)", f"v = f32[{width},{width}] parameter(1)",
                 f"w = f32[{width},{width}] parameter(2)"]  # fmt: skip
        for n in range(blocks):
            root = "ROOT " if n == blocks - 1 else ""
            lines += [
                f"a{n} = f32[{batch},{width}] dot(h{n}, v), {_DOT}", f"t{n} = f32[{batch},{width}] tanh(a{n})",
                f"b{n} = f32[{batch},{width}] dot(t{n}, w), {_DOT}",
                f"{root}h{n + 1} = f32[{batch},{width}] all-reduce(b{n}), to_apply=sum",
            ]  # fmt: skip
        return _module(devices, "\n".join(lines))

    return text


def reduced(size: int, times: int) -> Callable[[int], str]:
    """One sum over devices after the other."""
    def text(devices: int) -> str:
        lines = [f"h0 = f32[{size}] parameter(0)"]
        for n in range(times):
            root = "ROOT " if n == times - 1 else ""
            lines += [
                f"n{n} = f32[{size}] negate(h{n})", f"{root}h{n + 1} = f32[{size}] all-reduce(n{n}), to_apply=sum",
            ]  # fmt: skip
        return _module(devices, "\n".join(lines))

    return text


def sharded(batch: int, width: int, layers: int) -> Callable[[int], str]:
    """Weights of which each device holds a part are gathered ahead of each product."""
    def text(devices: int) -> str:
        lines = [f"h0 = f32[{batch},{width}] parameter(0)"]
        for n in range(layers):
            root = "ROOT " if n == layers - 1 else ""
            lines += [
                f"s{n} = f32[{width // devices},{width}] parameter({n + 1})",
                f"g{n} = f32[{width},{width}] all-gather(s{n}), dimensions={{0}}",
                f"d{n} = f32[{batch},{width}] dot(h{n}, g{n}), {_DOT}",
                f"{root}h{n + 1} = f32[{batch},{width}] tanh(d{n})",
            ]
        return _module(devices, "\n".join(lines))

    return text


def stencil(size: int, steps: int) -> Callable[[int], str]:
    """Borders go around a ring, and a grid is averaged."""
    def text(devices: int) -> str:
        pairs = ",".join(f"{{{n},{(n + 1) % devices}}}" for n in range(devices))
        lines = [f"h0 = f32[{size},{size}] parameter(0)"]
        for n in range(steps):
            root = "ROOT " if n == steps - 1 else ""
            lines += [
                f"b{n} = f32[1,{size}] slice(h{n}), slice={{[0:1], [0:{size}]}}",
                f"c{n} = f32[1,{size}] collective-permute(b{n}), source_target_pairs={{{pairs}}}",
                f"i{n} = f32[{size - 1},{size}] slice(h{n}), slice={{[1:{size}], [0:{size}]}}",
                f"j{n} = f32[{size},{size}] concatenate(i{n}, c{n}), dimensions={{0}}",
                f"{root}h{n + 1} = f32[{size},{size}] add(h{n}, j{n})",
            ]
        return _module(devices, "\n".join(lines))

    return text


FITTED = {
    "product": product(512), "large product": product(768), "small reduces": reduced(256, 20),
    "large reduces": reduced(1 << 20, 4), "data parallel": data_parallel(128, 512, 2),
    "sharded": sharded(64, 512, 3), "long rows": reduced(1 << 17, 12),
}  # fmt: skip
PREDICTED = {
    "data parallel, wide": data_parallel(256, 768, 2), "data parallel, deep": data_parallel(64, 256, 6),
    "tensor parallel": tensor_parallel(256, 512, 3), "sharded, wide": sharded(128, 768, 3),
    "stencil": stencil(1024, 8),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """A program on some devices: what runs of it took, and what a model needs to know of it."""

    name: str
    devices: int
    module: Module
    costs: ModuleCost
    seconds: float


def compiled(text: str, devices: Any = None) -> Executable:
    """A program whose devices have one thread each."""
    return compile_module(parse(text), threads=1, devices=devices)


def timed(run: Callable[[], object], seconds: float, goes_on: Callable[[bool], bool] = bool) -> float:
    """The median of runs for so many seconds, five at least; `goes_on` has all ranks agree."""
    times: list[float] = []
    run()
    while goes_on(len(times) < 5 or sum(times) < seconds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def in_process(text: str, devices: int, seconds: float) -> float:
    """What a run takes on threads of this process."""
    executable = compiled(text)
    arguments = [random_inputs(executable.module, 1, device) for device in range(devices)]
    if devices == 1:
        return timed(lambda: executable(*arguments[0]), seconds)
    return timed(lambda: executable.run_devices(arguments), seconds)


def on_ranks(seconds: float) -> None:
    """What a rank of an MPI job does: runs all programs, of which the first rank prints the times."""
    from mpi4py import MPI

    from hlotool.devices.mpi import MpiDevices

    comm = MPI.COMM_WORLD
    found = {}
    for name, make in {**FITTED, **PREDICTED}.items():
        executable = compiled(make(comm.size), MpiDevices(comm))
        arguments = random_inputs(executable.module, 1, comm.rank)

        def run(executable: Executable = executable, arguments: Sequence[Any] = arguments) -> None:
            comm.Barrier()
            executable(*arguments)

        found[name] = timed(run, seconds, comm.bcast)
    if comm.rank == 0:
        print(json.dumps(found))


def by_mpi(mpiexec: str, devices: int, seconds: float) -> dict[str, float]:
    """The times of all programs as an MPI job of so many ranks."""
    command = [mpiexec, "-n", str(devices), sys.executable, __file__, "--ranks", "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    times: dict[str, float] = json.loads(done.stdout)
    return times


def point_of(name: str, text: str, devices: int, seconds: float) -> Point:
    """A program that took so many seconds."""
    module = compiled(text).module
    return Point(name, devices, module, ModuleCost(module), seconds)


Model = dict[str, float]
"""Figures of this machine by their names, in the order in which they are printed."""

_BEGIN: Model = {
    "FLOP/s": 2e11, "B/s": 1e10, "s of a launch": 5e-6, "s of latency": 5e-4, "B/s of exchanges": 2e9,
    "s to start devices": 5e-4, "cores": 1.5,
}  # fmt: skip


def predicted(model: Model, point: Point) -> float:
    """Seconds of a run by the model."""
    flops, bandwidth, launch, latency, rate, start, cores = model.values()
    share = min(1.0, cores / point.devices)
    chip = Chip(flops=flops * share, bandwidth=bandwidth * share, memory=0, launch=launch / share)
    network = parse_topology("switch", point.devices, Link(latency, rate / point.devices))
    line = simulate(Exchanges(point.module, network), point.costs, chip, events=False)
    return line.seconds + (start * point.devices if point.devices > 1 else 0.0)


def fitted(points: Sequence[Point]) -> Model:
    """The model with the least sum of squared logarithms, by steps along one figure after the other."""
    best = _BEGIN

    def miss(model: Model) -> float:
        return sum(math.log(predicted(model, point) / point.seconds) ** 2 for point in points)

    least, step = miss(best), 2.0
    while step > 1.01:
        before = least
        for name in best:
            for factor in (step, 1 / step):
                other = {**best, name: best[name] * factor}
                if other["cores"] <= (os.cpu_count() or 1) and (found := miss(other)) < least:
                    best, least = other, found
        if least > before * 0.999:
            step = math.sqrt(step)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.3, help="to measure each program on some devices for")
    parser.add_argument("--mpiexec", help="run several devices as an MPI job, by this program")
    parser.add_argument("--ranks", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks:
        on_ranks(options.seconds)
        return 0
    jobs = {d: by_mpi(options.mpiexec, d, options.seconds) for d in DEVICES if d > 1 and options.mpiexec}
    known, others = (
        [
            point_of(name, make(d), d, jobs[d][name] if d in jobs else in_process(make(d), d, options.seconds))
            for name, make in programs.items() for d in DEVICES
        ]
        for programs in (FITTED, PREDICTED)
    )  # fmt: skip
    model = fitted(known)
    print("; ".join(f"{value:.3g} {name}" for name, value in model.items()))
    print(f"{'program':22} devices  measured ms  predicted ms     off")
    for kind, points in (("fitted", known), ("predicted", others)):
        off = []
        for point in points:
            guess = predicted(model, point)
            off.append(abs(guess / point.seconds - 1))
            print(f"{point.name:22} {point.devices:7}  {point.seconds * 1e3:11.3f}  {guess * 1e3:12.3f}  "
                  f"{guess / point.seconds - 1:+6.0%}")  # fmt: skip
        within = sum(one <= 0.25 for one in off)
        average = sum(off) / len(off)
        print(f"{kind}: {within} of {len(off)} within 25 %, {average:.0%} on average, {max(off):.0%} at most")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
