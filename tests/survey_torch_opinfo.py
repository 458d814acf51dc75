"""Operations of PyTorch over the samples of its own OpInfo database, computed by hlotool and eagerly.

    python tests/survey_torch_opinfo.py [--lowered | --dynamo] [--backward] [--types f32,s64] [--samples 4]
                                        [--shard 0/2] [--results FILE] [NAME ...]

prints a line per operation: for each type ``.`` (as eager), ``n`` (differs, and is as near as eager to what f64 gives),
``D`` (differs), ``-`` (a part fell back), ``E`` (an error), then reasons.  With --lowered the operation is traced as it
is, without decompositions, and has to lower whole.
Otherwise it is decomposed as for ``torch.compile``; with --dynamo it really goes through that.  NAME may end in ``*``.

All samples of an operation and a type are one graph, compiled once, unless that ends in an error: then each is tried
alone.  With --results every verdict is a line of JSON in FILE, and what is there already is not done again (what ended
the process is an error then); --summary only counts what FILE has.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch_graphs import run_lowered

from hlotool.torch.autograd import Passes
from hlotool.torch.decompositions.table import decompositions
from hlotool.torch.draws import REASON
from hlotool.torch.dtypes import DTYPES
from hlotool.torch.record import clear, reports
from hlotool.torch.refusal import Refused

warnings.filterwarnings("ignore")

UNTRACED = "PyTorch cannot trace it"

_LISTED = 64  # samples that are looked at; some operations have thousands

TOLERANCE = {  # what functions of several ulps, and sums in another order, may be off
    torch.float32: (2e-5, 2e-5), torch.float64: (1e-10, 1e-10), torch.complex64: (4e-5, 4e-5),
    torch.complex128: (1e-10, 1e-10), torch.float16: (4e-3, 4e-3), torch.bfloat16: (2e-2, 2e-2),
}  # fmt: skip


ANY_PLACE = ("kthvalue", "median", "nanmedian", "mode", "sort", "topk")
"""Operations whose second result, where the element was, is any of several equal elements'."""


def same(found: Any, wanted: Any) -> str | None:
    """What is different, in a line."""
    ours, theirs = ([v for v in pytree.tree_leaves(t) if v is not None] for t in (found, wanted))
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            if a != b and not (a != a and b != b):
                return f"{a} for {b}"
            continue
        rtol, atol = TOLERANCE.get(b.dtype, (0, 0))
        try:
            own = b.resolve_conj().resolve_neg() if b.layout == torch.strided else b
            if b.dtype.itemsize == 1 and b.is_floating_point():
                a, own = a.float(), own.float()
                rtol, atol = 0.13, 1e-2
            torch.testing.assert_close(a, own, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            return " ".join(str(error).split())[:160]
    return None


def is_as_near(found: Any, wanted: Any, function: Any, tensors: list[Any]) -> bool:
    """Whether what differs from eager is no farther than eager from what the function gives in wide floats, but for the
    rounding of the result."""
    wide = dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64)
    wide[torch.complex64] = torch.complex128
    own = [t.detach().to(wide.get(t.dtype, t.dtype)).requires_grad_(t.requires_grad) for t in tensors]
    if all(a.dtype == b.dtype for a, b in zip(own, tensors, strict=True)):
        return False
    try:
        exact = function(*own)
    except Exception:  # the function makes tensors of its own types
        return False
    leaves = [pytree.tree_leaves(t) for t in (found, wanted, exact)]
    if len({len(own) for own in leaves}) > 1:
        return False
    for a, b, c in zip(*leaves, strict=True):
        if not isinstance(b, torch.Tensor) or same(a, b) is None:
            continue
        if c.dtype not in wide.values():
            return False
        ours, theirs = ((t.to(c.dtype) - c).abs().max() for t in (a, b))
        if not ours <= theirs.nan_to_num(torch.inf) + c.abs().max() * torch.finfo(b.dtype).eps / 2:
            return False
    return True


def cases(op: Any, dtype: Any, limit: int, gradients: bool) -> Iterator[tuple[Any, list[Any]]]:
    """Functions of tensors alone, with their arguments, for samples of an operation: as many as `limit`, from all over
    the list of them."""
    samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=gradients), _LISTED))
    count = min(limit, len(samples))
    for number in range(count):
        sample = samples[number * len(samples) // count]
        leaves, tree = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        keep = sample.output_process_fn_grad  # of factors of which several are right what they have in common

        def function(*tensors: Any, given: Any = (leaves, tree, places, keep)) -> Any:
            leaves, tree, places, keep = given
            own = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                own[place] = tensor
            args, kwargs = pytree.tree_unflatten(own, tree)
            return keep(op.op(*args, **kwargs))

        yield function, [leaves[n] for n in places]


def with_gradients(function: Any) -> Any:
    """The results and the gradients of their sum by every argument that has one."""

    def both(*tensors: Any) -> Any:
        found = function(*tensors)
        kept = [t for t in pytree.tree_leaves(found) if isinstance(t, torch.Tensor) and t.requires_grad]
        asked = [t for t in tensors if t.requires_grad]
        if not kept or not asked:
            return found, ()
        weights = [torch.linspace(0.5, 1.5, t.numel()).reshape(t.shape).to(t.dtype) for t in kept]
        return found, torch.autograd.grad(kept, asked, weights, allow_unused=True)

    return both


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of an operation at a type: ``.``, ``n``, ``D``, ``-`` or ``E``, why, and of how many samples."""

    mark: str
    reason: str
    samples: int


def together(cases: list[tuple[Any, list[Any]]], gradients: bool) -> tuple[Any, list[Any]]:
    """All cases as one function of the tensors of all."""
    ends = [0]
    for _, tensors in cases:
        ends.append(ends[-1] + len(tensors))

    def function(*tensors: Any) -> Any:
        own = [(f, tensors[a:b]) for (f, _), a, b in zip(cases, ends, ends[1:], strict=False)]
        return [f(*given) for f, given in own]

    return function, [t for _, tensors in cases for t in tensors]


def compiled(function: Any, tensors: list[Any], options: argparse.Namespace) -> tuple[Any, str]:
    """What hlotool computes, and what fell back."""
    torch.manual_seed(0)
    if options.lowered:
        return run_lowered(function, *tensors), ""
    clear()
    if options.dynamo:
        torch._dynamo.reset()
        own = torch.compile(function, backend="hlotool")
    else:
        passes = Passes(str, len(tensors))
        own = aot_function(
            function, passes.compiler("forward"), passes.compiler("backward"), decompositions=decompositions(),
            partition_fn=min_cut_rematerialization_partition,
        )  # fmt: skip
    run = with_gradients(own) if options.backward else own
    found = run(*tensors)
    if options.dynamo and options.backward:  # the first call goes through AOTAutograd's own code
        torch.manual_seed(0)
        found = run(*tensors)
    fallbacks = [f for r in reports() for f in r.fallbacks if "not worth a call" not in f.reason]
    rows = [f for f in fallbacks if f.operation != "with_effects"]  # those raise errors, and compute nothing
    return found, "; ".join(f"{f.operation}: {f.reason}" for f in rows)


@contextmanager
def as_given(tensors: list[Any]) -> Iterator[None]:
    """Writes into the tensors are undone."""
    saved = [(t.detach(), t.detach().clone()) for t in tensors if t.layout == torch.strided]
    try:
        yield
    finally:
        for tensor, copy in saved:
            if not torch.equal(tensor.nan_to_num(), copy.nan_to_num()):
                tensor.copy_(copy)


def judged(op: Any, own: list[tuple[Any, list[Any]]], options: argparse.Namespace) -> Verdict:
    """The verdict on some cases as one graph."""
    function, tensors = own[0] if len(own) == 1 else together(own, options.backward)
    torch.manual_seed(0)
    whole = with_gradients(function) if options.backward else function
    with as_given(tensors):
        wanted = whole(*tensors)
    try:
        with as_given(tensors):
            found, fell = compiled(function, tensors, options)
    except Refused as refused:
        return Verdict("-", str(refused), len(own))
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        return Verdict("-", f"{UNTRACED}: {error}", len(own))
    except Exception as error:
        return Verdict("E", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", len(own))
    different = None if "empty" in op.name else same(found, wanted)  # what is in those is anything
    if different and op.name in ANY_PLACE and not options.backward:
        different = same(*([o[0] for o in (t if len(own) > 1 else [t])] for t in (found, wanted)))
    if different:
        shapes = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors]
        near = len(own) == 1 and is_as_near(found, wanted, whole, tensors)
        return Verdict("n" if near else "D", f"{', '.join(shapes)}: {different}", len(own))
    return Verdict("-" if fell else ".", fell, len(own))


def one(op: Any, dtype: Any, options: argparse.Namespace) -> Verdict:
    """The verdict on an operation at a type."""
    kept = []
    for function, tensors in cases(op, dtype, options.samples, options.backward):
        try:
            torch.manual_seed(0)
            with as_given(tensors):
                (with_gradients(function) if options.backward else function)(*tensors)
        except Exception:  # eager refuses the sample: nothing to compare
            continue
        kept.append((function, tensors))
    if not kept:
        return Verdict(".", "", 0)
    found = judged(op, kept, options)
    if found.mark not in "nDE" and UNTRACED not in found.reason and not (options.lowered and found.mark == "-"):
        return found
    if len(kept) > 1:
        each = [judged(op, [case], options) for case in kept]
        worst = min(each, key=lambda v: "ED-n.".index(v.mark))
        if worst.mark != "." or found.mark == "-":
            return Verdict(worst.mark, worst.reason, len(kept))
        return Verdict(found.mark, f"only together: {found.reason}", len(kept))
    return found


def asked(options: argparse.Namespace) -> Iterator[tuple[str, Any, list[str]]]:
    """Operations by name, with the types to try."""
    number, count = map(int, options.shard.split("/"))
    for op in op_db[number::count]:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if options.names and not any(fnmatch.fnmatchcase(n, p) for n in (name, op.name) for p in options.names):
            continue
        if options.backward and not op.supports_autograd:
            continue
        supported = op.supported_backward_dtypes("cpu") if options.backward else op.supported_dtypes("cpu")
        types = [t for t in options.types.split(",") if DTYPES[t] in supported]
        floats = [t for t in types if DTYPES[t].is_floating_point or DTYPES[t].is_complex]
        yield name, op, floats if options.backward else types


Key = tuple[bool, str, str]


def known(file: Path | None) -> dict[Key, Verdict]:
    """Verdicts of a file of results, by direction, operation and type; what was begun without an end is an error."""
    found: dict[Key, Verdict] = {}
    for line in file.read_text().splitlines() if file and file.exists() else []:
        row = json.loads(line)
        verdict = Verdict(row.get("mark", "E"), row.get("reason", "the process ended"), row.get("samples", 0))
        found[row["backward"], row["name"], row["type"]] = verdict
    return found


def note(file: Path | None, key: Key, verdict: Verdict | None) -> None:
    if file:
        row = dict(zip(("backward", "name", "type"), key, strict=True))
        if verdict:
            row |= {"mark": verdict.mark, "reason": verdict.reason, "samples": verdict.samples}
        with file.open("a") as stream:
            stream.write(json.dumps(row) + "\n")


def summary(found: dict[Key, Verdict]) -> str:
    """Counts by direction and type, and how often which operation fell back."""
    lines = []
    for backward in (False, True):
        rows = {key: v for key, v in found.items() if key[0] is backward and v.samples}
        for element_type in sorted({key[2] for key in rows}):
            own = [v for key, v in rows.items() if key[2] == element_type]
            counts = Counter(v.mark for v in own)
            fallen = [v.reason for v in own if v.mark == "-"]
            untraced = sum(UNTRACED in reason for reason in fallen)
            random = sum(all(REASON in part for part in reason.split("; ")) for reason in fallen)
            lines.append(
                f"{'backward' if backward else 'forward':8} {element_type:5} {len(own)} operations,"
                f" {sum(v.samples for v in own)} samples: as eager {counts['.']}, as near as eager {counts['n']},"
                f" differs {counts['D']}, falls back {counts['-']} ({random} for random numbers, {untraced} not traced"
                f" by PyTorch), errors {counts['E']}"
            )
    reasons = Counter(part for v in found.values() if v.mark == "-" for part in set(v.reason.split("; ")))
    return "\n".join([*lines, *(f"{count:5} {reason}" for reason, count in reasons.most_common())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lowered", action="store_true")
    parser.add_argument("--dynamo", action="store_true")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--types", default="pred,u8,s32,s64,f16,bf16,f32,f64,c64")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--quiet", action="store_true", help="only operations that are not all dots")
    parser.add_argument("--shard", default="0/1", help="NUMBER/COUNT: every COUNT-th operation")
    parser.add_argument("--results", type=Path, help="a file of JSON lines that verdicts are added to")
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("HLOTOOL_FALLBACK", "silent")
    # The database seeds the generator within operations, which compiled code does not do; here it is done before.
    common_methods_invocations.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)
    torch.set_num_threads(1)
    done = known(options.results)
    if options.summary:
        print(summary(done))
        return
    for name, op, types in asked(options):
        verdicts, reasons = [], {}
        for element_type in types:
            key = (options.backward, name, element_type)
            if key not in done:
                note(options.results, key, None)
                done[key] = one(op, DTYPES[element_type], options)
                note(options.results, key, done[key])
            verdicts.append(f"{element_type} {done[key].mark}")
            if done[key].reason:
                reasons.setdefault(done[key].reason, []).append(element_type)
        if any(not v.endswith(".") for v in verdicts) or not options.quiet:
            print(f"{name:40} {', '.join(verdicts)}", flush=True)
            for reason, where in list(reasons.items())[:3]:
                print(f"      {','.join(where)}: {reason}", flush=True)
    print(summary(done))


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    main()
