"""How far off `hlotool simulate` is: ``python tests/survey_simulate.py [--mpiexec MPIEXEC] [--times FILE]``, by hand.

Programs run on 1, 2 and 4 devices: threads of this process, or with --mpiexec the ranks of MPI jobs.  A model of this
machine is fitted to programs made for the purpose, and with it runs of others are predicted and held against what was
measured.  The model has three parts:

* What kernels take on one device, by the model of `hlotool cost --predict`, times a factor for products and one for
  all else: for each number of devices, which share cores, caches and memory, and polling ones take time from others.
  They are fitted to programs that exchange nothing, and so is the time to start and to end a run.
* What each kind of exchange takes, by its size: a table for each number of devices.  Programs that do little else are
  measured, and what their kernels take by the first part is taken off.
* How much of the time of several arrays in one exchange is saved beside that of one after the other.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.exchanges import Exchanges
from hlotool.analysis.measured_network import MeasuredNetwork, Times
from hlotool.analysis.performance import Performance
from hlotool.analysis.timeline import simulate
from hlotool.driver import compile_module
from hlotool.driver.predict import Forecast, predict
from hlotool.harness.calibration import synthetic_modules
from hlotool.harness.inputs import random_inputs
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable
from hlotool.text.parser import parse

DEVICES = (1, 2, 4)
_DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def _module(devices: int, body: str, before: str = "") -> str:
    add = "sum {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = f32[] add(x, y)\n}\n\n"
    return f"HloModule m, replica_count={devices}\n\n{add}{before}ENTRY e {{\n{body}\n}}\n"


def _ring(devices: int) -> str:
    return "{" + ",".join(f"{{{n},{(n + 1) % devices}}}" for n in range(devices)) + "}"


def product(size: int) -> Callable[[int], str]:
    """A product, and nothing exchanged."""
    return lambda devices: _module(devices, f"""p = f32[{size},{size}] parameter(0)
ROOT r = f32[{size},{size}] dot(p, p), {_DOT}""")


def few_rows(batch: int, width: int, layers: int) -> Callable[[int], str]:
    """Products of few rows with large weights, one after the other, and nothing exchanged."""
    def text(devices: int) -> str:
        lines = [f"h0 = f32[{batch},{width}] parameter(0)"]
        for n in range(layers):
            root = "ROOT " if n == layers - 1 else ""
            lines += [
                f"w{n} = f32[{width},{width}] parameter({n + 1})",
                f"d{n} = f32[{batch},{width}] dot(h{n}, w{n}), {_DOT}",
                f"{root}h{n + 1} = f32[{batch},{width}] tanh(d{n})",
            ]
        return _module(devices, "\n".join(lines))

    return text


def swept(size: int, times: int) -> Callable[[int], str]:
    """A grid is read and written again and again, and nothing exchanged."""
    def text(devices: int) -> str:
        lines = [f"h0 = f32[{size},{size}] parameter(0)"]
        for n in range(times):
            root = "ROOT " if n == times - 1 else ""
            lines += [
                f"r{n} = f32[{size},{size}] reverse(h{n}), dimensions={{0}}",
                f"{root}h{n + 1} = f32[{size},{size}] add(h{n}, r{n})",
            ]
        return _module(devices, "\n".join(lines))

    return text


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


def gathered(size: int, times: int) -> Callable[[int], str]:
    """One gather after the other; `size` elements of all devices together."""
    def text(devices: int) -> str:
        own = size // devices
        lines = [f"h0 = f32[{own}] parameter(0)"]
        for n in range(times):
            root = "ROOT " if n == times - 1 else ""
            lines += [
                f"g{n} = f32[{size}] all-gather(h{n}), dimensions={{0}}",
                f"s{n} = f32[{own}] slice(g{n}), slice={{[0:{own}]}}",
                f"{root}h{n + 1} = f32[{own}] negate(s{n})",
            ]
        return _module(devices, "\n".join(lines))

    return text


def permuted(size: int, times: int) -> Callable[[int], str]:
    """Arrays go around a ring."""
    def text(devices: int) -> str:
        lines = [f"h0 = f32[{size}] parameter(0)"]
        for n in range(times):
            root = "ROOT " if n == times - 1 else ""
            lines += [
                f"n{n} = f32[{size}] negate(h{n})",
                f"{root}h{n + 1} = f32[{size}] collective-permute(n{n}), source_target_pairs={_ring(devices)}",
            ]
        return _module(devices, "\n".join(lines))

    return text


def together(opcode: str, size: int, count: int, times: int) -> Callable[[int], str]:
    """As many arrays in one exchange, one such after the other; `size` elements of each."""
    def text(devices: int) -> str:
        own = size // devices if opcode == "all-gather" else size
        rest = "dimensions={0}" if opcode == "all-gather" else "to_apply=sum"
        lines = [f"h0_{k} = f32[{own}] parameter({k})" for k in range(count)]
        whole = ", ".join([f"f32[{size}]"] * count)
        for n in range(times):
            arrays = ", ".join(f"h{n}_{k}" for k in range(count))
            lines.append(f"x{n} = ({whole}) {opcode}({arrays}), {rest}")
            for k in range(count):
                lines += [
                    f"y{n}_{k} = f32[{size}] get-tuple-element(x{n}), index={k}",
                    f"s{n}_{k} = f32[{own}] slice(y{n}_{k}), slice={{[0:{own}]}}",
                    f"h{n + 1}_{k} = f32[{own}] negate(s{n}_{k})",
                ]
        last = ", ".join(f"h{times}_{k}" for k in range(count))
        return _module(devices, "\n".join([*lines, f"ROOT r = ({', '.join([f'f32[{own}]'] * count)}) tuple({last})"]))

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
        lines = [f"h0 = f32[{size},{size}] parameter(0)"]
        for n in range(steps):
            root = "ROOT " if n == steps - 1 else ""
            lines += [
                f"b{n} = f32[1,{size}] slice(h{n}), slice={{[0:1], [0:{size}]}}",
                f"c{n} = f32[1,{size}] collective-permute(b{n}), source_target_pairs={_ring(devices)}",
                f"i{n} = f32[{size - 1},{size}] slice(h{n}), slice={{[1:{size}], [0:{size}]}}",
                f"j{n} = f32[{size},{size}] concatenate(i{n}, c{n}), dimensions={{0}}",
                f"{root}h{n + 1} = f32[{size},{size}] add(h{n}, j{n})",
            ]
        return _module(devices, "\n".join(lines))

    return text


Program = Callable[[int], str]
"""The text of a program for so many devices."""

def copied(text: str) -> Program:
    """A program for one device, on each."""
    first, rest = text.split("\n", 1)
    return lambda devices: f"{first}, replica_count={devices}\n{rest}"


COMPUTING: Mapping[str, Program] = {
    "product": product(512), "large product": product(768), "few rows": few_rows(64, 512, 3),
    "more rows": few_rows(160, 640, 3), "sweep": swept(1024, 8), "small sweep": swept(300, 8),
    "next to nothing": swept(16, 1),
    **{
        name: copied(text) for name, text in synthetic_modules() if name in (
            "stream of 12000", "stream of 200000", "stream of 4000000", "rows of 64 x 1000", "rows of 700 x 1500",
            "transpose of 700 x 1500", "reductions of 1000 x 64", "product 1 x 64 x 64 x 64",
            "product 1 x 256 x 256 x 256", "product 1 x 600 x 500 x 700", "product 1 x 128 x 1000 x 10",
        )
    },
}  # fmt: skip
"""They exchange nothing; those of the calibration are among them."""

_TIMES = 6
_SIZES = (1 << 8, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20)
EXCHANGING: Mapping[tuple[str, int], Program] = {
    **{("all-reduce", 4 * size): reduced(size, _TIMES) for size in _SIZES},
    **{("all-gather", 4 * size): gathered(size, _TIMES) for size in _SIZES},
    **{("collective-permute", 4 * size): permuted(size, _TIMES) for size in _SIZES[:-1]},
}
"""By opcode and bytes of the array."""

_COUNT = 4
TOGETHER: Mapping[tuple[str, int], Program] = {
    (opcode, 4 * size): together(opcode, size, _COUNT, _TIMES)
    for opcode in ("all-reduce", "all-gather") for size in (1 << 14, 1 << 17)
}  # fmt: skip
"""Likewise: bytes of each array."""

PREDICTED: Mapping[str, Program] = {
    "data parallel": data_parallel(128, 512, 2), "data parallel, wide": data_parallel(256, 768, 2),
    "data parallel, deep": data_parallel(64, 256, 6), "tensor parallel": tensor_parallel(256, 512, 3),
    "sharded": sharded(64, 512, 3), "sharded, wide": sharded(128, 768, 3), "stencil": stencil(1024, 8),
}  # fmt: skip

ALL: Mapping[str, Program] = {
    **COMPUTING, **PREDICTED, **{f"{opcode} {size}": make for (opcode, size), make in EXCHANGING.items()},
    **{f"{opcode} {_COUNT} x {size}": make for (opcode, size), make in TOGETHER.items()},
}  # fmt: skip


# ---- measuring

Seconds = dict[str, float]
"""Of a run of each program, by its name."""


def compiled(text: str, devices: Any = None) -> Executable:
    """A program whose devices have one thread each."""
    return compile_module(parse(text), threads=1, devices=devices)


def timed(
    runs: Mapping[str, Callable[[], object]], rounds: int, seconds: float, agreed: Callable[[int], int]
) -> Seconds:
    """What runs take, one after the other for so many seconds: medians of rounds, in which programs take turns.

    `agreed` has all ranks make as many runs.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(rounds):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            count = agreed(max(3, math.ceil(seconds / max(time.perf_counter() - begin, 1e-7))))
            run()
            begin = time.perf_counter()
            for _ in range(count):
                run()
            found[name].append((time.perf_counter() - begin) / count)
    return {name: sorted(times)[len(times) // 2] for name, times in found.items()}


def in_process(devices: int, rounds: int, seconds: float) -> Seconds:
    """What runs take on threads of this process."""

    def run_of(text: str) -> Callable[[], object]:
        executable = compiled(text)
        arguments = [random_inputs(executable.module, 1, device) for device in range(devices)]
        return lambda: executable(*arguments[0]) if devices == 1 else executable.run_devices(arguments)

    return timed({name: run_of(make(devices)) for name, make in ALL.items()}, rounds, seconds, int)


def on_ranks(rounds: int, seconds: float) -> None:
    """What a rank of an MPI job does: runs all programs, of which the first rank prints the times.

    A run ends on all ranks at once, so nothing has to be done for the next one to begin on all of them.
    """
    from mpi4py import MPI

    from hlotool.devices.mpi import MpiDevices

    comm = MPI.COMM_WORLD
    devices = MpiDevices(comm)

    def run_of(text: str) -> Callable[[], object]:
        executable = compiled(text, devices)
        arguments = random_inputs(executable.module, 1, comm.rank)
        return lambda: executable(*arguments)

    found = timed({name: run_of(make(comm.size)) for name, make in ALL.items()}, rounds, seconds, comm.bcast)
    if comm.rank == 0:
        print(json.dumps(found))


def by_mpi(mpiexec: str, devices: int, rounds: int, seconds: float) -> Seconds:
    """What runs take as MPI jobs of so many ranks."""
    command = [mpiexec, "-n", str(devices), sys.executable, __file__, "--ranks",
               "--rounds", str(rounds), "--seconds", str(seconds)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    times: Seconds = json.loads(done.stdout)
    return times


# ---- the model

_PRODUCTS = frozenset({"product", "tile", "tile run", "tile step"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """So many devices: seconds to start and end a run, factors of what kernels take, and what exchanges take."""

    start: float
    products: float
    others: float
    network: MeasuredNetwork

    def seconds(self, forecast: Forecast) -> float:
        """What a run takes."""
        figures = {
            name: figure * (self.products if name in _PRODUCTS else self.others)
            for name, figure in forecast.performance.figures.items()
        }
        here = Performance(cpu="", threads=1, origin="calibrated", figures=figures)
        kernels = {one.instruction: here.nanoseconds(one.amounts) * 1e-9 for one in forecast.prediction.kernels}
        exchanges = Exchanges(forecast.module, self.network)
        return self.start + simulate(exchanges, ModuleCost(forecast.module), kernels, events=False).seconds


def fitted(devices: int, seconds: Seconds) -> Machine:
    """So many devices of this machine, by what programs took that are not among those to be predicted."""
    nothing = MeasuredNetwork("no network", {})
    programs = [(forecast_of(make, devices), seconds[name]) for name, make in COMPUTING.items()]

    def miss(start: float, products: float, others: float) -> float:
        machine = Machine(start=start, products=products, others=others, network=nothing)
        return sum(math.log(machine.seconds(forecast) / taken) ** 2 for forecast, taken in programs)

    start, products, others = least(miss, [seconds["next to nothing"], float(devices), float(devices)])
    computing = Machine(start=start, products=products, others=others, network=nothing)
    if devices == 1:
        return computing
    points: dict[str, list[tuple[float, float]]] = {}
    for (opcode, size), make in EXCHANGING.items():
        taken = seconds[f"{opcode} {size}"] - alone(computing, make, devices)
        points.setdefault(opcode, []).append((size, max(taken / _TIMES, 1e-7)))
    times = {(opcode, devices): Times(tuple(found)) for opcode, found in points.items()}
    for opcode in points:
        pairs = []
        for (name, size), make in TOGETHER.items():
            if name == opcode:
                taken = (seconds[f"{opcode} {_COUNT} x {size}"] - alone(computing, make, devices)) / _TIMES
                one = times[opcode, devices]
                pairs.append((taken, _COUNT * one.seconds(size), one.seconds(_COUNT * size)))
        if pairs:
            times[opcode, devices] = Times(tuple(points[opcode]), apart(pairs))
    network = MeasuredNetwork("this machine", times)
    return Machine(start=start, products=products, others=others, network=network)


def apart(pairs: list[tuple[float, float, float]]) -> float:
    """The share of the time of one array after the other in what several took, of (taken, one after the other, as one
    array): the median, and nothing less than none or more than all."""
    shares = sorted((taken - whole) / (each - whole) if each != whole else 0.0 for taken, each, whole in pairs)
    return min(max((shares[(len(shares) - 1) // 2] + shares[len(shares) // 2]) / 2, 0.0), 1.0)


def alone(machine: Machine, make: Program, devices: int) -> float:
    """What a run takes but for its exchanges."""
    free = {
        (opcode, devices): Times(((0.0, 0.0),)) for opcode in ("all-reduce", "all-gather", "collective-permute")
    }  # fmt: skip
    network = MeasuredNetwork("no network", free)
    without = Machine(start=machine.start, products=machine.products, others=machine.others, network=network)
    return without.seconds(forecast_of(make, devices))


def forecast_of(make: Program, devices: int) -> Forecast:
    """What is known of the kernels of a program before it runs."""
    return predict(parse(make(devices)), threads=1)


def least(miss: Callable[..., float], begin: list[float]) -> list[float]:
    """Where `miss` is least, by steps along one number after the other."""
    best, lowest, step = begin, miss(*begin), 2.0
    while step > 1.005:
        before = lowest
        for place in range(len(best)):
            for factor in (step, 1 / step):
                other = [value * factor if n == place else value for n, value in enumerate(best)]
                if (found := miss(*other)) < lowest:
                    best, lowest = other, found
        if lowest > before * 0.999:
            step = math.sqrt(step)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.03, help="to measure each program for, in each round")
    parser.add_argument("--rounds", type=int, default=7, help="in which all programs are measured")
    parser.add_argument("--mpiexec", help="run several devices as an MPI job, by this program")
    parser.add_argument("--times", metavar="FILE", help="what was measured: read if it is there, else written")
    parser.add_argument("--ranks", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ranks:
        on_ranks(options.rounds, options.seconds)
        return 0
    if options.times and os.path.exists(options.times):
        with open(options.times) as file:
            measured = {int(devices): seconds for devices, seconds in json.load(file).items()}
    else:
        measured = {
            devices: by_mpi(options.mpiexec, devices, options.rounds, options.seconds)
            if options.mpiexec and devices > 1 else in_process(devices, options.rounds, options.seconds)
            for devices in DEVICES
        }  # fmt: skip
        if options.times:
            with open(options.times, "w") as file:
                json.dump(measured, file)
    off: dict[str, list[float]] = {}
    print(f"{'program':27} devices  measured ms  predicted ms     off")
    for devices, seconds in measured.items():
        machine = fitted(devices, seconds)
        for kind, programs in (("fitted", COMPUTING), ("predicted", PREDICTED)):
            for name, make in programs.items():
                guess = machine.seconds(forecast_of(make, devices))
                off.setdefault(kind, []).append(abs(guess / seconds[name] - 1))
                print(f"{name:27} {devices:7}  {seconds[name] * 1e3:11.3f}  {guess * 1e3:12.3f}  "
                      f"{guess / seconds[name] - 1:+6.0%}")  # fmt: skip
        print(f"{devices} devices: {machine.start * 1e6:.3g} us to start, "
              f"kernels times {machine.products:.3g} (products) and {machine.others:.3g}")  # fmt: skip
        for (opcode, _), times in machine.network.times.items():
            row = ", ".join(f"{size:.0f} B {taken * 1e6:.0f} us" for size, taken in times.points)
            print(f"  {opcode}: {row}; apart {times.apart:.2f}")
    for kind, shares in off.items():
        within = sum(one <= 0.25 for one in shares)
        average = sum(shares) / len(shares)
        print(f"{kind}: {within} of {len(shares)} within 25 %, {average:.0%} on average, {max(shares):.0%} at most")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
