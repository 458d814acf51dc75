"""Models of transformers, torchvision and timm, compiled by hlotool and eagerly: the same numbers, and how fast?

    python tests/survey_torch_zoo.py [PATTERN...] [--ways infer,train,export,generate,onnx] [--results FILE]
                                     [--limit 120] [--memory 6] [--inductor] [--summary]

prints a line per model and way, as ``transformers/bert infer``; PATTERN is of such names (``timm/*``).  The models are
made here, small, with random weights (`tests/zoo`): nothing is downloaded.  Ways:

    build      only made, and called eagerly
    infer      ``torch.compile(model, backend="hlotool")`` without gradients, in eval mode
    train      the same in training mode without dropout, and the gradients of all parameters
    export     `hlotool.torch.compile`
    dynamic    ``torch.compile(..., dynamic=True)``, for two batch sizes
    generate   eight tokens by a model whose forward is compiled, with a cache that grows
    static     the same with a cache of a fixed size
    onnx       exported by ``torch.onnx.export``, read by `hlotool.onnx`

Verdicts: ``right`` (within 8 times of what eager is off from f64, and a little), ``wrong``, ``fell back`` (right, but
operations ran eagerly: listed with reasons), ``failed``, ``timed out``, ``eager fails``.  Each is tried in a process of
its own, which may take so many seconds of the processor (--limit) and GiB (--memory).  First calls are in seconds of
the processor and of the clock, of which hlotool's own part in brackets; ratios are of the least time of a later call
against eager (below 1: faster).

With --results every verdict is a line of JSON in FILE, and what is there already is not done again; --summary only
counts what FILE has.
"""

from __future__ import annotations

import argparse
import copy
import fnmatch
import importlib
import json
import math
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from zoo import timm_models, torchvision_models, transformers_models
from zoo.case import Case, Make

PACKAGES = {"timm": timm_models, "torchvision": torchvision_models, "transformers": transformers_models}
VERDICTS = ("right", "fell back", "wrong", "failed", "timed out", "eager fails")

_TIMES_EAGER, _SHARE = 8, 2e-5
"""How far off a tensor may be: so many times what eager is, and such a part of its greatest element."""

_ROUNDS = 15

_PATIENCE = 10
"""Seconds that may pass for one of the processor's: a child that waits for ever uses none."""

_SLACK = {"train": 2e-4}
"""The part where it is more: gradients are sums of many terms that cancel."""


def zoo() -> dict[str, Make]:
    """All models of the packages that are there, by names like ``timm/test_vit``."""
    return {f"{package}/{name}": make for package, own in PACKAGES.items() for name, make in own.models().items()}


# ---- what a model gives


def tensors_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All tensors in what a model returns, with where they are: in tuples, mappings, and objects such as caches."""
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, own in value.items():
            yield from tensors_of(own, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for number, own in enumerate(value):
            yield from tensors_of(own, f"{path}[{number}]")
    elif hasattr(value, "__dict__") and not isinstance(value, (type, torch.nn.Module)) and path.count("/") < 3:
        for key, own in vars(value).items():
            if not callable(own):
                yield from tensors_of(own, f"{path}/{key}")


def wide(value: Any) -> Any:
    """Floats among arguments as f64, everything copied."""
    import torch
    from torch.utils import _pytree as pytree

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.double() if leaf.is_floating_point() else leaf.clone()

    return pytree.tree_map(own, value)


def without_dropout(model: Any) -> Any:
    """`model` in training mode, with nothing in it that draws random numbers."""
    model.train()
    for part in model.modules():
        for name, value in vars(part).items():
            if isinstance(value, float) and any(word in name for word in ("drop", "mask_time", "mask_feature")):
                setattr(part, name, 0.0)
        if "Drop" in type(part).__name__ and isinstance(getattr(part, "p", None), float):
            part.p = 0.0
        config = getattr(part, "config", None)
        for name in ("mask_time_prob", "mask_feature_prob", "layerdrop", "attention_dropout", "apply_spec_augment"):
            if hasattr(config, name):
                setattr(config, name, type(getattr(config, name))(0))
    return model


def difference(found: Any, eager: Any, exact: Any, slack: float) -> str | None:
    """What is farther off than may be, in a line."""
    import torch

    rows = [list(tensors_of(value)) for value in (found, eager, exact if exact is not None else eager)]
    if [name for name, _ in rows[0]] != [name for name, _ in rows[1]]:
        return f"results {[name for name, _ in rows[0]][:6]} for {[name for name, _ in rows[1]][:6]}"
    for (name, ours), (_, theirs), (_, truth) in zip(*rows, strict=True):
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return f"{name}: {ours.dtype}{list(ours.shape)} for {theirs.dtype}{list(theirs.shape)}"
        if not theirs.dtype.is_floating_point:
            if not torch.equal(ours, theirs):
                return f"{name}: {int((ours != theirs).sum())} of {theirs.numel()} numbers differ"
            continue
        if not theirs.numel():
            continue
        a, b, c = (t.detach().double() for t in (ours, theirs, truth))
        if c.shape != b.shape:
            c = b
        finite = b.isfinite() & c.isfinite()
        if not torch.equal(a.isfinite() & c.isfinite(), finite) or not torch.equal(a.isnan(), b.isnan()):
            return f"{name}: not finite in other places"
        a, b, c = (torch.where(finite, t, 0) for t in (a, b, c))
        most, off, allowed = (float(t.abs().max()) for t in (c, a - c, b - c))
        if off > _TIMES_EAGER * allowed + slack * most + 1e-12:
            most = max(most, 1e-300)
            return f"{name}: off by {off / most:.1e} of the greatest element, eager by {allowed / most:.1e}"
    return None


# ---- ways to run it; each gives a function that runs it, of a case and what compiles


def infer(case: Case, compiled: Callable[[Any], Any]) -> Callable[[], Any]:
    import torch

    model = compiled(case.model.eval())

    def run() -> Any:
        torch.manual_seed(0)
        with torch.no_grad():
            return model(*case.arguments, **case.options)

    return run


def train(case: Case, compiled: Callable[[Any], Any]) -> Callable[[], Any]:
    import torch

    model = without_dropout(case.model)
    called = compiled(model)

    def run() -> Any:
        torch.manual_seed(0)
        model.zero_grad()
        found = dict(tensors_of(called(*case.arguments, **case.options)))
        parts = [t.square().mean() for t in found.values() if t.requires_grad]
        loss = torch.stack([p.to(parts[0].dtype) for p in parts]).sum()
        loss.backward()
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients.values()))
        # all on one scale: a gradient that is zero but for rounding has no digits that are right
        rows = {name: torch.cat([g.flatten(), g.new_full((1,), norm)]) for name, g in gradients.items()}
        return {"loss": loss.detach(), **rows}

    return run


def dynamic(case: Case, compiled: Callable[[Any], Any]) -> Callable[[], Any]:
    """For the batch that it has, and one of another size."""
    import torch
    from torch.utils import _pytree as pytree

    model = compiled(case.model.eval())

    def longer(value: Any) -> Any:
        return torch.cat([value, value[:1]]) if isinstance(value, torch.Tensor) else value

    def run() -> Any:
        torch.manual_seed(0)
        arguments, options = pytree.tree_map(longer, (case.arguments, dict(case.options)))
        with torch.no_grad():
            return model(*case.arguments, **case.options), model(*arguments, **options)

    return run


def generate(case: Case, compiled: Callable[[Any], Any], **options: Any) -> Callable[[], Any]:
    import torch

    model = case.model.eval()
    model.forward = compiled(model.forward)
    given = {name: value for name, value in case.options.items() if not name.startswith("decoder")}

    def run() -> Any:
        torch.manual_seed(0)
        found = model.generate(
            **given, max_new_tokens=8, min_new_tokens=8, do_sample=False, output_logits=True,
            return_dict_in_generate=True, **options,
        )  # fmt: skip
        return {"sequences": found.sequences, "logits": torch.stack(found.logits)}

    return run


def static(case: Case, compiled: Callable[[Any], Any]) -> Callable[[], Any]:
    return generate(case, compiled, cache_implementation="static", disable_compile=True)


def onnx(case: Case, compiled: Callable[[Any], Any]) -> Callable[[], Any]:
    """`compiled` is only asked whether to export: eagerly the model itself runs."""
    import io
    from contextlib import redirect_stderr, redirect_stdout

    import torch

    model = case.model.eval()
    plain = infer(case, lambda own: own)
    with torch.no_grad():
        results = [name for name, _ in tensors_of(plain())]
    if compiled(model) is model:
        return lambda: list(dict(tensors_of(plain())).values())
    import hlotool.onnx

    model.config = getattr(model, "config", None)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        program = torch.onnx.export(model, case.arguments, kwargs=dict(case.options), dynamo=True)
    function = hlotool.onnx.load(program.model_proto)
    arrays = [t.numpy() for _, t in tensors_of((case.arguments, dict(case.options)))]

    def run() -> Any:
        found = function(*arrays)
        own = list(found.values()) if isinstance(found, dict) else found
        own = own if isinstance(own, (list, tuple)) else [own]
        return [torch.from_numpy(a.copy()) for a in own][: len(results)]

    return run


WAYS: dict[str, Callable[[Case, Callable[[Any], Any]], Callable[[], Any]]] = {
    "build": infer, "infer": infer, "train": train, "export": infer, "dynamic": dynamic, "generate": generate,
    "static": static, "onnx": onnx,
}  # fmt: skip


def fits(way: str, case: Case) -> bool:
    if way in ("generate", "static"):
        return case.words > 0
    return way != "train" or case.trains


# ---- one model, one way


def verdict(make: Make, way: str, inductor: bool) -> dict[str, Any]:
    """In a process of its own: what becomes of it."""
    import torch

    torch.manual_seed(0)
    try:
        first = make()
        if not fits(way, first):
            return {"verdict": "not asked"}
        arguments = (first.arguments, dict(first.options))

        def fresh() -> Case:
            model = copy.deepcopy(first.model)
            args, options = copy.deepcopy(arguments)
            return Case(model, args, options, first.trains, first.words)

        run_eager = WAYS[way](fresh(), lambda own: own)
        eager = run_eager()
    except Exception as error:
        return {"verdict": "eager fails", "reason": _line(error)}
    if way == "build":
        size = sum(p.numel() for p in first.model.parameters())
        return {"verdict": "right", "reason": f"{size} numbers, {len(list(tensors_of(eager)))} results"}
    from hlotool.torch.record import clear, reports

    clear()
    start, start_busy = time.perf_counter(), time.process_time()
    row: dict[str, Any] = {}
    try:
        run = WAYS[way](fresh(), _compiler(way, first))
        found = run()
        row["first"] = round(time.perf_counter() - start, 3)
        row["busy"] = round(time.process_time() - start_busy, 3)
        if way in ("generate", "static"):
            found = run()
    except Exception as error:
        return {"verdict": "failed", "reason": _line(error), "trace": traceback.format_exc()[-3000:]}
    exact = None
    try:
        if way not in ("generate", "static", "onnx"):
            case = fresh()
            args, options = wide((case.arguments, dict(case.options)))
            exact = WAYS[way](Case(case.model.double(), args, options, case.trains, case.words), lambda own: own)()
    except Exception:
        row["truth"] = "eager"
    different = difference(found, eager, exact, _SLACK.get(way, _SHARE))
    fell = Counter[str]()
    for graph in reports():
        for f in graph.fallbacks:
            if "not worth a call" not in f.reason:
                fell[f"{f.operation}: {f.reason}"] += f.count
    row["own"] = round(sum(graph.program.compile_seconds or 0 for graph in reports()), 3)
    row["graphs"] = len(reports())
    row["breaks"] = dict(torch._dynamo.utils.counters["graph_break"])
    row["fell"] = dict(fell)
    row["ratio"] = _ratio(run, run_eager)
    if inductor:
        own = WAYS[way](fresh(), lambda model: torch.compile(model))
        start = time.perf_counter()
        own()
        row["inductor_first"] = round(time.perf_counter() - start, 3)
        row["inductor"] = _ratio(own, run_eager)
    if different:
        return {"verdict": "wrong", "reason": different, **row}
    return {"verdict": "fell back" if fell else "right", **row}


def _compiler(way: str, case: Case) -> Callable[[Any], Any]:
    import torch

    import hlotool.torch

    if way == "export":
        return lambda model: hlotool.torch.compile(model, case.arguments, dict(case.options))
    if way == "dynamic":
        return lambda model: torch.compile(model, backend="hlotool", dynamic=True)
    if way == "onnx":
        return lambda model: None
    return lambda model: torch.compile(model, backend="hlotool")


def _ratio(run: Callable[[], Any], eager: Callable[[], Any]) -> float:
    """Least time of a call against that of eager's, in turns."""
    best = [math.inf, math.inf]
    for _ in range(_ROUNDS):
        for number, function in enumerate((run, eager)):
            start = time.perf_counter()
            function()
            best[number] = min(best[number], time.perf_counter() - start)
    return round(best[0] / best[1], 3)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def in_child(make: Make, way: str, options: argparse.Namespace) -> dict[str, Any]:
    """`verdict` by a fork of this process, which has everything loaded."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.setsid()
        nothing = os.open(os.devnull, os.O_WRONLY)
        if not options.loud:
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (int(options.memory * 2**30),) * 2)
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time()) + options.limit,) * 2)
            row = verdict(make, way, options.inductor)
        except BaseException as error:
            row = {"verdict": "failed", "reason": _line(error)}
        os.write(theirs, json.dumps(row).encode())
        os._exit(0)
    os.close(theirs)
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))
    signal.alarm(_PATIENCE * options.limit)
    with os.fdopen(ours, "rb") as stream:
        said = stream.read()
    late = not signal.alarm(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if said:
        row = json.loads(said)
        return row if isinstance(row, dict) else {}
    if late or status in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"verdict": "timed out", "reason": f"more than {options.limit} s"}
    return {"verdict": "failed", "reason": f"the process ended with {status}"}


# ---- all of them


def said_of(name: str, row: Mapping[str, Any]) -> str:
    parts = [f"{name:52} {row['verdict']:11}"]
    if "first" in row:
        parts.append(f"first {row['busy']:5.1f} of {row['first']:5.1f} ({row['own']:.1f})  ratio {row['ratio']:.2f}")
    if "inductor" in row:
        parts.append(f"inductor: first {row['inductor_first']:.1f}  ratio {row['inductor']:.2f}")
    if row.get("reason"):
        parts.append(row["reason"])
    parts += [f"{count} x {what}" for what, count in row.get("fell", {}).items()]
    return "  ".join(parts)


def summary(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Verdicts by package and way, geometric means of ratios, and operations by how many models have them."""
    lines = []
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for name, row in rows.items():
        if row["verdict"] in VERDICTS:
            groups.setdefault((name.split("/")[0], name.split()[-1]), []).append(row)
    for (package, way), own in sorted(groups.items()):
        counts = Counter(row["verdict"] for row in own)
        ratios = [row["ratio"] for row in own if row.get("ratio")]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
        said = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])
        lines.append(f"{package:13} {way:9} {len(own):4}: {said}; ratio to eager {mean:.2f} over {len(ratios)}")
    fell = Counter(what for row in rows.values() for what in row.get("fell", {}))
    lines += [f"{count:4} x {what}" for what, count in fell.most_common()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--ways", default="infer", help="commas between them")
    parser.add_argument("--results", type=Path, help="a file of JSON lines that verdicts are added to")
    parser.add_argument("--limit", type=int, default=120, metavar="SECONDS")
    parser.add_argument("--memory", type=float, default=6, metavar="GiB")
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--loud", action="store_true", help="what children print is printed")
    parser.add_argument("--shard", default="0/1", help="NUMBER/COUNT: every COUNT-th one")
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    if options.results and options.results.exists():
        rows = {row["name"]: row for row in map(json.loads, options.results.read_text().splitlines())}
    if options.summary:
        print(summary(rows))
        return
    os.environ.setdefault("HLOTOOL_FALLBACK", "silent")
    os.environ.setdefault("HLOTOOL_THREADS", "1")
    warnings.filterwarnings("ignore")
    load()
    number, count = map(int, options.shard.split("/"))
    wanted = [
        (f"{name} {way}", make, way)
        for way in options.ways.split(",")
        for name, make in zoo().items()
        if not options.patterns or any(fnmatch.fnmatchcase(name, p) for p in options.patterns)
    ]
    for name, make, way in wanted[number::count]:
        if name in rows:
            continue
        rows[name] = {"name": name, **in_child(make, way, options)}
        if rows[name]["verdict"] == "not asked":
            continue
        print(said_of(name, rows[name]), flush=True)
        if options.results:
            with options.results.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(rows[name]) + "\n")
    print(summary(rows))


def load() -> None:
    """What children need, once for all of them; packages that are not there are left out."""
    import torch
    import torch._dynamo
    import torch._functorch.aot_autograd

    import hlotool.torch.dynamo
    import hlotool.torch.export  # noqa: F401

    torch.set_num_threads(1)
    warmed = torch.compile(torch.nn.Linear(2, 2), backend="aot_eager")
    with torch.no_grad():
        warmed(torch.zeros(1, 2))
    torch._dynamo.reset()
    for name in tuple(PACKAGES):
        try:
            importlib.import_module(name)
            if name == "transformers":
                importlib.import_module("transformers.modeling_utils")
                importlib.import_module("transformers.models.auto.modeling_auto")
        except ImportError as error:
            del PACKAGES[name]
            print(f"without {name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
