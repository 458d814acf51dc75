"""Models exported from PyTorch, run by hlotool and by ONNX Runtime: are the outputs the same, and who is faster?

    python tests/survey_onnx_models.py [NAME...] [--threads 1] [--rounds 15] [--legacy] [--keep DIR]

needs torch, onnx, onnxscript and onnxruntime.  A line per model: nodes, the greatest difference of an output in parts
of the greatest element of that output (1e-4 is allowed), how long importing and compiling take, and the time of a call.
Both sides run in turns in one process, with as many threads each; times are lower quartiles, and the last line has the
geometric mean of their ratios (above 1: hlotool is faster).  Exit code 1 where an output differs by more.

--legacy exports by tracing, as PyTorch did before torch.export.  --keep leaves the files in DIR, and takes those that
are there.
"""

from __future__ import annotations

import argparse
import io
import math
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

BOUND = 1e-4


def models() -> dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]]:
    """By name: what makes a model and its arguments."""
    import torch
    from torch import nn
    from torch.nn import functional as f
    from torch_models import Transformer, ViT, mlp, resnet

    class Recurrent(nn.Module):
        def __init__(self, kind: Any, both: bool) -> None:
            super().__init__()
            self.layer = kind(32, 64, 2, batch_first=True, bidirectional=both)
            self.head = nn.Linear(64 * (1 + both), 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.layer(x)[0])

    class Mobile(nn.Module):
        """Convolutions of single channels, with gates."""

        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Conv2d(3, 16, 3, 2, 1)
            self.deep = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
            self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1))
            self.leave = nn.Conv2d(16, 32, 1)

        def forward(self, x: Any) -> Any:
            x = f.hardswish(self.enter(x))
            x = f.hardswish(self.deep(x))
            return self.leave(x * f.hardsigmoid(self.gate(x)))

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.low = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
            self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 3, padding=1)

        def forward(self, x: Any) -> Any:
            a = f.relu(self.down(x))
            b = self.up(f.relu(self.low(a)))
            return f.interpolate(self.last(torch.cat([a, b], 1)), scale_factor=2, mode="bilinear")

    class Detector(nn.Module):
        """Boxes of anchors decoded, and the best of them."""

        def forward(self, deltas: Any, anchors: Any, scores: Any) -> tuple[Any, ...]:
            size = anchors[:, 2:] - anchors[:, :2]
            middle = anchors[:, :2] + size / 2 + deltas[:, :2] * size
            extent = size * deltas[:, 2:].clamp(max=4.0).exp()
            boxes = torch.cat([middle - extent / 2, middle + extent / 2], 1).clamp(0, 640)
            best, kind = scores.softmax(-1).max(-1)
            top, index = best.topk(100)
            chosen = boxes[index]
            area = (chosen[:, 2:] - chosen[:, :2]).prod(1)
            low = torch.maximum(chosen[:, None, :2], chosen[None, :, :2])
            high = torch.minimum(chosen[:, None, 2:], chosen[None, :, 2:])
            common = (high - low).clamp(min=0).prod(2)
            return chosen, top, kind[index], common / (area[:, None] + area[None] - common)

    def tokens(words: int, *shape: int) -> Any:
        return torch.randint(words, shape)

    return {
        "mlp 13-64-64-1 b64": lambda: (mlp(), (torch.randn(64, 13),)),
        "resnet 16 b1 64x64": lambda: (resnet(16), (torch.randn(1, 3, 64, 64),)),
        "resnet 32 b4 64x64": lambda: (resnet(32), (torch.randn(4, 3, 64, 64),)),
        "mobile b1 128x128": lambda: (Mobile(), (torch.randn(1, 3, 128, 128),)),
        "u-net b1 64x64": lambda: (UNet(), (torch.randn(1, 3, 64, 64),)),
        "vit 64 b1 32x32": lambda: (ViT(64), (torch.randn(1, 3, 32, 32),)),
        "bert 128 b1 s48": lambda: (Transformer(False, 128, 2, 4), (tokens(50, 1, 48),)),
        "gpt 128 b2 s32": lambda: (Transformer(True, 128, 2, 4), (tokens(50, 2, 32),)),
        "lstm 64x2 both b4 s24": lambda: (Recurrent(nn.LSTM, True), (torch.randn(4, 24, 32),)),
        "gru 64x2 b4 s24": lambda: (Recurrent(nn.GRU, False), (torch.randn(4, 24, 32),)),
        "encoder layer 128 b2 s32": lambda: (
            nn.TransformerEncoderLayer(128, 4, 256, batch_first=True), (torch.randn(2, 32, 128),)
        ),
        "boxes 2000": lambda: (
            Detector(), (torch.randn(2000, 4) / 4, torch.rand(2000, 2).repeat(1, 2) * 500
                         + torch.tensor([0.0, 0.0, 60.0, 90.0]), torch.randn(2000, 20)),
        ),
    }  # fmt: skip


def exported(make: Callable[[], tuple[Any, tuple[Any, ...]]], path: Path, legacy: bool) -> list[Any]:
    """Write the model to a file, unless it is there; its arguments as arrays."""
    import torch

    torch.manual_seed(0)
    model, arguments = make()
    model.eval()
    if path.exists():
        return [one.numpy() for one in arguments]
    with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(model, arguments, str(path), dynamo=not legacy)
    return [one.numpy() for one in arguments]


def difference(found: list[Any], expected: list[Any]) -> float:
    """The greatest difference, in parts of the greatest element of an output; of integers, whether one differs."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return math.inf
        if a.dtype.kind != "f":
            worst = max(worst, 0.0 if np.array_equal(a, b) else math.inf)
        elif a.size:
            worst = max(worst, float(np.abs(a - b).max() / max(1e-30, np.abs(b).max())))
    return worst


def timed(runs: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Lower quartiles, in microseconds, of calls that take turns."""
    calls = []
    for run in runs:
        start = time.perf_counter()
        run()
        calls.append(max(1, int(0.01 / max(1e-9, time.perf_counter() - start))))
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for number, run in enumerate(runs):
            start = time.perf_counter()
            for _ in range(calls[number]):
                run()
            times[number].append((time.perf_counter() - start) / calls[number] * 1e6)
    return [statistics.quantiles(one, n=4, method="inclusive")[0] for one in times]


def main() -> int:
    import onnxruntime

    import hlotool
    from hlotool.onnx import import_model, read_model

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--legacy", action="store_true")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    ratios, wrong = [], 0
    print(f"{'model':26}{'nodes':>6}{'difference':>12}{'compile s':>11}{'hlotool us':>12}{'ort us':>10}{'ratio':>7}")
    for name, make in models().items():
        if given.names and not any(one in name for one in given.names):
            continue
        path = folder / f"{name.replace(' ', '_')}.onnx"
        try:
            arguments = exported(make, path, given.legacy)
        except Exception as error:  # the exporter's own
            print(f"{name:26}not exported: {type(error).__name__}: {str(error).splitlines()[0][:80]}", flush=True)
            continue
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = given.threads, 3
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        feeds = dict(zip([one.name for one in session.get_inputs()], arguments, strict=True))
        start = time.perf_counter()
        model = read_model(path)
        imported = import_model(model, values=feeds)
        executable = hlotool.compile(imported.module, threads=given.threads)
        took = time.perf_counter() - start
        inputs = [feeds[one] for one in imported.inputs]
        off = difference(list(executable(*inputs)), session.run(None, feeds))
        wrong += off > BOUND
        own, other = timed([partial(executable, *inputs), partial(session.run, None, feeds)], given.rounds)
        ratios.append(other / own)
        count = len(model.proto.graph.node)
        print(f"{name:26}{count:6}{off:12.1e}{took:11.2f}{own:12.1f}{other:10.1f}{other / own:7.2f}", flush=True)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"geometric mean of the ratios: {mean:.2f}; {wrong} of {len(ratios)} models differ by over {BOUND:g}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
