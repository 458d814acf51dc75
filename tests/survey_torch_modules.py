"""Modules and optimisers of PyTorch over its own databases of them, through ``torch.compile`` and eagerly.

    python tests/survey_torch_modules.py [--optimisers] [--types f32] [--inputs 2] [--shard 0/2] [--results FILE] NAME..

prints a line per module (``Conv2d.train``) or optimiser and argument, with the marks of `survey_torch_opinfo.py`.  Of a
module the results, the gradients by its parameters and arguments, and its buffers are compared; of an optimiser the
parameters after three compiled steps.  NAME may end in ``*``.  With --results verdicts are lines of JSON in FILE, and
what is there already is not done again.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from survey_torch_opinfo import Verdict, same
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils import _pytree as pytree

from hlotool.torch.draws import REASON
from hlotool.torch.dtypes import DTYPES
from hlotool.torch.record import clear, reports

warnings.filterwarnings("ignore")

_STEPS = 3


def modules(element_type: str, count: int) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """By name: what gives all that can be compared, for a function that compiles (or not)."""
    dtype = DTYPES[element_type]
    for info in module_db:
        supported = info.dtypes if isinstance(info.dtypes, (list, tuple, set)) else info.supported_dtypes("cpu")
        if dtype not in supported:
            continue
        for training in (True, False):
            if not training and not info.train_and_eval_differ:
                continue
            torch.manual_seed(0)
            given = {"device": "cpu", "dtype": dtype, "requires_grad": True, "training": training}
            for number, sample in enumerate(islice(info.module_inputs_func(info, **given), count)):
                name = f"{info.name}.{'train' if training else 'eval'}.{element_type}.{number}"
                yield name, _module_run(info, sample, dtype, training)


def _copy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return copy.deepcopy(value)
    return value.detach().clone().requires_grad_(value.requires_grad)


def _module_run(info: Any, sample: Any, dtype: Any, training: bool) -> Callable[[Any], Any]:
    def run(compiled: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        made = sample.constructor_input
        module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
        args, kwargs = pytree.tree_map(_copy, (sample.forward_input.args, sample.forward_input.kwargs))
        own = compiled(module)
        torch.manual_seed(1)
        results = own(*args, **kwargs)
        leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        asked = [t for t in (*module.parameters(), *leaves) if t.requires_grad]
        kept = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor) and t.requires_grad]
        grads: Any = ()
        if asked and kept:
            grads = torch.autograd.grad(kept, asked, [torch.ones_like(t) for t in kept], allow_unused=True)
        return pytree.tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, results), grads, dict(
            module.named_buffers()
        )

    return run


def optimisers(element_type: str, count: int) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """The same of steps of optimisers: their settings, looping over parameters and over lists of them."""
    for info in optim_db:
        for number, sample in enumerate(islice(info.optim_inputs_func(device="cpu"), count)):
            ways = [w for w in ("foreach", "fused") if w in info.supported_impls] if not sample.kwargs else ["foreach"]
            for way in ("", *ways):
                kwargs = sample.kwargs | ({way: True} if way else {})
                yield f"{info.name}.{way or 'loop'}.{element_type}.{number}", _steps(info, kwargs, DTYPES[element_type])


def _steps(info: Any, kwargs: dict[str, Any], dtype: Any) -> Callable[[Any], Any]:
    def run(compiled: Callable[[Any], Any]) -> Any:
        torch.manual_seed(0)
        sizes = ((3, 4), (5, 1), (2, 2)) if info.name == "Muon" else ((3, 4), (5,), (2, 2))
        parameters = [torch.randn(size, dtype=dtype).requires_grad_() for size in sizes]
        optimiser = info.optim_cls(parameters, **copy.deepcopy(kwargs))
        step = compiled(optimiser.step)
        for number in range(_STEPS):
            for p in parameters:
                p.grad = (p.detach() * (0.5 + number)).cos()
            step()
        return [p.detach() for p in parameters]

    return run


def verdict(run: Callable[[Any], Any]) -> Verdict:
    try:
        wanted = run(lambda function: function)
    except Exception as error:
        return Verdict(".", f"eager PyTorch refuses it: {' '.join(str(error).split())[:80]}", 0)
    torch._dynamo.reset()
    clear()
    try:
        found = run(lambda function: torch.compile(function, backend="hlotool"))
    except Exception as error:
        return Verdict("E", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", 1)
    different = same(found, wanted)
    if different:
        return Verdict("D", different, 1)
    rows = [f for r in reports() for f in r.fallbacks if "not worth a call" not in f.reason]
    if rows:
        return Verdict("-", "; ".join(sorted({f"{f.operation}: {f.reason}" for f in rows})), 1)
    return Verdict(".", "" if reports() else "no graph came", 1)


def summary(found: dict[str, Verdict]) -> str:
    own = [v for v in found.values() if v.samples]
    counts = Counter(v.mark for v in own)
    random = sum(v.mark == "-" and all(REASON in part for part in v.reason.split("; ")) for v in own)
    none = sum(v.reason == "no graph came" for v in own)
    return (
        f"{len(own)}: as eager {counts['.']} ({none} without a graph), differs {counts['D']}, falls back {counts['-']}"
        f" ({random} for random numbers), errors {counts['E']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--optimisers", action="store_true")
    parser.add_argument("--types", default="f32")
    parser.add_argument("--inputs", type=int, default=2)
    parser.add_argument("--shard", default="0/1", help="NUMBER/COUNT: every COUNT-th one")
    parser.add_argument("--results", type=Path, help="a file of JSON lines that verdicts are added to")
    options = parser.parse_args()
    os.environ.setdefault("HLOTOOL_FALLBACK", "silent")
    torch.set_num_threads(1)
    torch._dynamo.config.recompile_limit = 64
    done: dict[str, Verdict] = {}
    if options.results and options.results.exists():
        for line in options.results.read_text().splitlines():
            row = json.loads(line)
            done[row["name"]] = Verdict(row["mark"], row["reason"], row["samples"])
    number, count = map(int, options.shard.split("/"))
    every = optimisers if options.optimisers else modules
    listed = [one for t in options.types.split(",") for one in every(t, options.inputs)]
    for name, run in listed[number::count]:
        if name in done or (options.names and not any(fnmatch.fnmatchcase(name, p) for p in options.names)):
            continue
        done[name] = verdict(run)
        print(f"{name:60} {done[name].mark} {done[name].reason}", flush=True)
        if options.results:
            row = {"name": name, "mark": done[name].mark, "reason": done[name].reason, "samples": done[name].samples}
            with options.results.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
    print(summary(done))


if __name__ == "__main__":
    main()
