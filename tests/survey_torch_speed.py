"""Models of PyTorch through hlotool, inductor and eagerly: how long does a call take, and how long the first one?

    python tests/survey_torch_speed.py [NAME...] [--threads 1] [--rounds 40] [--wall] [--only inference|training]

A line per model and size.  All run in turns in one process, in short rounds, with as many threads each.  Times are
lower quartiles over the rounds, in microseconds, of processor time (``--wall``: of the clock, which says nothing on a
busy machine); ratios are of lower quartiles, and in brackets of medians.  ``direct`` is `hlotool.torch.compile`,
``hlotool`` and ``inductor`` are backends of ``torch.compile``.  A training step is the forward pass, the backward pass
and a step of the optimiser, which is PyTorch's own.  At the end: the geometric means.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A model, an argument of it, and whether Adam trains it or plain SGD."""

    make: Callable[[], Any]
    example: Callable[[], Any]
    adam: bool = False


def cases() -> dict[str, Case]:
    """By name; the name says the size of the model and the batch."""
    import torch
    from torch import nn
    from torch_models import Sequence, Transformer, ViT, mlp, resnet

    def pictures(batch: int, size: int) -> Callable[[], Any]:
        return lambda: torch.randn(batch, 3, size, size)

    def tokens(words: int, batch: int, length: int) -> Callable[[], Any]:
        return lambda: torch.randint(words, (batch, length))

    def wide_mlp() -> Any:
        return nn.Sequential(
            nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 10)
        )

    class Recurrent(nn.Module):
        def __init__(self, inside: int, width: int, layers: int) -> None:
            super().__init__()
            self.recurrent = nn.LSTM(inside, width, layers, batch_first=True)
            self.head = nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.recurrent(x)[0][:, -1])

    return {
        "mlp-1": Case(mlp, lambda: torch.randn(1, 13)),
        "mlp-32": Case(mlp, lambda: torch.randn(32, 13), adam=True),
        "mlp-wide-64": Case(wide_mlp, lambda: torch.randn(64, 256)),
        "resnet-2": Case(resnet, pictures(2, 32)),
        "resnet-wide-4": Case(lambda: resnet(32), pictures(4, 64)),
        "bert-2": Case(lambda: Transformer(False), tokens(50, 2, 12), adam=True),
        "bert-wide-4": Case(lambda: Transformer(False, 128, 3, 4, 1000), tokens(1000, 4, 64)),
        "gpt-2": Case(lambda: Transformer(True), tokens(50, 2, 12)),
        "gpt-wide-4": Case(lambda: Transformer(True, 128, 3, 4, 1000), tokens(1000, 4, 64), adam=True),
        "vit-2": Case(ViT, pictures(2, 32)),
        "vit-wide-16": Case(lambda: ViT(128), pictures(16, 32)),
        "lstm-3": Case(Sequence, lambda: torch.randn(3, 5, 8)),
        "lstm-wide-16": Case(lambda: Sequence(64), lambda: torch.randn(16, 24, 8)),
        "lstm-layer-8": Case(lambda: Recurrent(32, 64, 2), lambda: torch.randn(8, 16, 32)),
    }


def inference(case: Case) -> dict[str, Run]:
    """What computes the model's result, by way."""
    import torch

    import hlotool.torch

    model, x = case.make().eval(), case.example()

    def of(function: Callable[..., Any]) -> Run:
        def run() -> Any:
            with torch.no_grad():
                return function(x)

        return run

    direct: list[Any] = []

    def first() -> Any:
        if not direct:
            direct.append(hlotool.torch.compile(model, (x,)))
        return direct[0](x)

    return {
        "eager": of(model),
        "inductor": of(torch.compile(model)),
        "hlotool": of(torch.compile(model, backend="hlotool")),
        "direct": first,
    }


def training(case: Case) -> dict[str, Run]:
    """What trains a copy of the model for a step, by way; the loss comes back."""
    import torch

    first, x = case.make(), case.example()

    def of(**options: Any) -> Run:
        model = copy.deepcopy(first)
        kind = torch.optim.Adam if case.adam else torch.optim.SGD
        optimiser = kind(model.parameters(), lr=1e-3)
        called = torch.compile(model, **options) if options else model

        def run() -> Any:
            optimiser.zero_grad()
            loss = called(x).square().mean()
            loss.backward()
            optimiser.step()
            return loss.detach()

        return run

    return {"eager": of(), "inductor": of(backend="inductor"), "hlotool": of(backend="hlotool")}


def measured(runs: dict[str, Run], rounds: int, clock: Callable[[], float]) -> tuple[dict[str, list[float]], str]:
    """Seconds of a call in each round, by way, after the first calls; what is said of those."""
    said, found = [], []
    for way, run in runs.items():
        start = time.perf_counter()
        found.append(run())
        said.append(f"{way} {time.perf_counter() - start:.1f}")
    for _ in range(4):  # gradients get their memory in the first steps
        for run in runs.values():
            run()
    start = clock()
    runs["eager"]()
    count = max(1, min(50, round(2e-3 / max(clock() - start, 1e-6))))
    times: dict[str, list[float]] = {way: [] for way in runs}
    for _ in range(rounds):
        for way, run in runs.items():
            run()  # caches are those of this way again
            start = clock()
            for _ in range(count):
                run()
            times[way].append((clock() - start) / count)
    return times, ", ".join(said[1:]) + ("" if are_close(found) else "  RESULTS DIFFER")


def are_close(found: list[Any]) -> bool:
    """Whether all results are the first one, or nearly."""
    import torch

    return all(torch.allclose(own, found[0], rtol=1e-3, atol=1e-4) for own in found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="Models whose names begin so; else all.")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--without", action="append", default=[], metavar="WAY")
    parser.add_argument("--only", choices=("inference", "training"))
    options = parser.parse_args()
    os.environ["HLOTOOL_THREADS"] = str(options.threads)
    os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(options.threads)
    clock = time.perf_counter if options.wall else time.process_time
    for backend in ("inductor", "hlotool"):  # so that first calls below load nothing any more
        if backend not in options.without:
            torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(3))
    ratios: dict[str, list[float]] = {}
    for kind, make in (("inference", inference), ("training", training)):
        if options.only not in (None, kind):
            continue
        for name, case in cases().items():
            if options.names and not any(name.startswith(own) for own in options.names):
                continue
            torch._dynamo.reset()
            torch.manual_seed(0)
            runs = {way: run for way, run in make(case).items() if way not in options.without}
            times, first = measured(runs, options.rounds, clock)
            low = {way: statistics.quantiles(own, n=4)[0] for way, own in times.items()}
            middle = {way: statistics.median(own) for way, own in times.items()}
            parts = [f"{way} {low[way] * 1e6:8.0f}" for way in runs]
            for way in ("hlotool", "direct"):
                for other in ("inductor", "eager"):
                    if way in runs and other in runs:
                        ratio = low[way] / low[other]
                        ratios.setdefault(f"{kind}: {way}/{other}", []).append(ratio)
                        parts.append(f"{way}/{other} {ratio:.2f} ({middle[way] / middle[other]:.2f})")
            print(f"{kind:9} {name:13} {'  '.join(parts)}  first calls (s): {first}", flush=True)
    for name, own in ratios.items():
        print(f"{name}: geometric mean {math.exp(statistics.fmean(map(math.log, own))):.2f} over {len(own)}")


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
