"""Operations of PyTorch over the samples of its own OpInfo database: lowered by hlotool, or through ``torch.compile``.

    python tests/survey_torch_opinfo.py [--lowered] [--backward] [--types f32,s64] [--samples 4] [NAME ...]

prints a line per operation: for each type ``.`` (as eager), ``D`` (differs), ``-`` (a part fell back), ``E`` (an
error), then reasons.  With --lowered the operation is traced as it is, without decompositions, and has to lower whole.
NAME may be a prefix with ``*``.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch_graphs import run_lowered

from hlotool.ir import HloError
from hlotool.torch.dtypes import DTYPES
from hlotool.torch.refusal import Refused

warnings.filterwarnings("ignore")

TOLERANCE = {  # what functions of several ulps, and sums in another order, may be off
    torch.float32: (2e-5, 2e-5), torch.float64: (1e-10, 1e-10), torch.complex64: (4e-5, 4e-5),
    torch.complex128: (1e-10, 1e-10), torch.float16: (4e-3, 4e-3), torch.bfloat16: (2e-2, 2e-2),
}  # fmt: skip


def same(found: Any, wanted: Any) -> str | None:
    """What is different, in a line."""
    ours, theirs = pytree.tree_leaves(found), pytree.tree_leaves(wanted)
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


def cases(op: Any, dtype: Any, limit: int, gradients: bool) -> Iterator[tuple[Any, list[Any]]]:
    """Functions of tensors alone, with their arguments, for the samples of an operation."""
    for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=gradients)):
        if number == limit:
            return
        leaves, tree = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def function(*tensors: Any, leaves: Any = leaves, tree: Any = tree, places: Any = places) -> Any:
            own = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                own[place] = tensor
            args, kwargs = pytree.tree_unflatten(own, tree)
            return op.op(*args, **kwargs)

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


def one(op: Any, dtype: Any, options: argparse.Namespace) -> tuple[str, str]:
    """The verdict of an operation at a type, and why."""
    fell = ""
    for function, tensors in cases(op, dtype, options.samples, options.backward):
        try:
            torch.manual_seed(0)
            wanted = (with_gradients(function) if options.backward else function)(*tensors)
        except Exception:  # eager refuses the sample: nothing to compare
            continue
        try:
            torch.manual_seed(0)
            if options.lowered:
                found = run_lowered(function, *tensors)
            else:
                from hlotool.torch.record import clear, reports

                torch._dynamo.reset()
                clear()
                own = torch.compile(function, backend="hlotool")
                found = (with_gradients(own) if options.backward else own)(*tensors)
                rows = [f for r in reports() for f in r.fallbacks if "not worth a call" not in f.reason]
                fell = fell or "; ".join(f"{f.operation}: {f.reason}" for f in rows)
        except Refused as refused:
            fell = fell or str(refused)
            continue
        except (HloError, Exception) as error:
            return "E", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        different = None if "empty" in op.name else same(found, wanted)  # what is in those is anything
        if different:
            shapes = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors]
            return "D", f"{shapes}: {different}"
    return ("-", fell) if fell else (".", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--lowered", action="store_true")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--types", default="pred,u8,s32,s64,f16,bf16,f32,f64,c64")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--quiet", action="store_true", help="only operations that are not all dots")
    parser.add_argument("--part", default="0/1", help="NUMBER/COUNT: every COUNT-th operation")
    options = parser.parse_args()
    os.environ.setdefault("HLOTOOL_FALLBACK", "silent")
    types = options.types.split(",")
    number, count = map(int, options.part.split("/"))
    counts: Counter[str] = Counter()
    print("types:", *types)
    for op in op_db[number::count]:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if options.names and not any(fnmatch.fnmatchcase(n, p) for n in (name, op.name) for p in options.names):
            continue
        supported = op.supported_backward_dtypes("cpu") if options.backward else op.supported_dtypes("cpu")
        if options.backward and not op.supports_autograd:
            continue
        verdicts, reasons = "", {}
        for element_type in types:
            dtype = DTYPES[element_type]
            if dtype not in supported or (options.backward and not (dtype.is_floating_point or dtype.is_complex)):
                verdicts += " "
                continue
            verdict, reason = one(op, dtype, options)
            verdicts += verdict
            counts[verdict] += 1
            if reason:
                reasons.setdefault(reason, []).append(element_type)
        if set(verdicts) - {" ", "."} or not options.quiet:
            print(f"{name:40} {verdicts}", flush=True)
            for reason, where in list(reasons.items())[:3]:
                print(f"      {','.join(where)}: {reason}", flush=True)
    print(f"as eager {counts['.']}, differs {counts['D']}, falls back {counts['-']}, errors {counts['E']}")


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    main()
