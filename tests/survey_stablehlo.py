"""StableHLO as JAX writes it, read by hlotool: whether it computes the same bits as the HLO that JAX makes of it.

    python tests/survey_stablehlo.py [--only PATTERN] [--families | --files FILE...] [--json FILE]

Needs JAX.  Every program is lowered once; its text in the pretty form and in the generic form (with locations) is read
by hlotool, written again, and read again; the three modules must have the same hash.  The module is run beside the HLO
that jaxlib makes of the same program, on the same inputs, by the reference evaluator after the same passes.  With
--files the programs are files of HLO, which jaxlib converts to StableHLO; the module is run beside the file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import hlotool
from hlotool.harness.inputs import random_inputs
from hlotool.ir import HloError, Module
from hlotool.ir.verifier import check
from hlotool.text.fingerprint import content_hash
from hlotool.text.proto.load import read_binary
from hlotool.text.stablehlo.export import export_stablehlo
from hlotool.text.stablehlo.parse import parse_stablehlo

Program = tuple[str, Callable[..., Any], tuple[Any, ...]]


class Recorder:
    """Keeps what `jax.jit` lowers while cases run."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, str, bytes]] = []
        self.name = ""
        self.seen: set[str] = set()

    def __enter__(self) -> Recorder:
        from jax._src import compiler

        self.compiler = compiler
        self.before = compiler.compile_or_get_cached

        def keep(backend: Any, computation: Any, *rest: Any, **options: Any) -> Any:
            self.keep(computation)
            return self.before(backend, computation, *rest, **options)

        compiler.compile_or_get_cached = keep
        return self

    def __exit__(self, *_: object) -> None:
        self.compiler.compile_or_get_cached = self.before

    def keep(self, module: Any) -> None:
        """Both forms of a module, and its HLO by jaxlib."""
        operation = module.operation
        pretty = operation.get_asm()
        if pretty in self.seen:
            return
        self.seen.add(pretty)
        generic = operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
        self.found.append((self.name, pretty, generic, hlo_of(module)))


def hlo_of(module: Any) -> bytes:
    """The HLO that jaxlib makes, as a message; empty where it makes none."""
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client

    try:
        computation = xla_client._xla.mlir.mlir_module_to_xla_computation(
            mlir.module_to_bytecode(module), use_tuple_args=False, return_tuple=False
        )
    except Exception:
        return b""
    proto: bytes = computation.as_serialized_hlo_module_proto()
    return proto


def _of_proto(proto: bytes) -> Module:
    return read_binary(proto, "jaxlib.pb").module


def converted(path: Path) -> tuple[str, str]:
    """Both forms of what jaxlib makes of a file of HLO."""
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib import _hlo, _jax  # no public interface: as of jaxlib 0.10
    from jaxlib.mlir import ir

    proto = _hlo.hlo_module_from_text(path.read_text("utf-8")).as_serialized_hlo_module_proto()
    with make_ir_context():
        operation = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(proto)).operation
        return operation.get_asm(), operation.get_asm(print_generic_op_form=True, enable_debug_info=True)


def cases(families: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is run, by name."""
    import jax_behaviours

    for name, value in vars(jax_behaviours).items():
        if callable(value) and getattr(value, "__module__", "") == "jax_behaviours" and not name.startswith("_"):
            yield f"behaviours/{name}", value
    if families:
        import jax_families

        for name, value in vars(jax_families).items():
            generates = callable(value) and getattr(value, "__module__", "") == "jax_families"
            if generates and getattr(value, "__annotations__", {}).get("return") == "Iterator[Case]":
                for case, run in value():
                    yield f"{name}/{case}", run


def verdict(pretty: str, generic: str, reference: Callable[[], Module] | None) -> tuple[str, str]:
    """What came of a program, in a word, and why."""
    try:
        module = parse_stablehlo(pretty, "pretty.mlir")
        check(module)
        other = parse_stablehlo(generic, "generic.mlir")
    except HloError as error:
        return "refused", error.message
    if content_hash(module) != content_hash(other):
        return "FORMS DIFFER", ""
    try:
        again = parse_stablehlo(export_stablehlo(module), "again.mlir")
        if content_hash(again) != content_hash(module):
            return "ROUND TRIP DIFFERS", ""
    except HloError as error:
        return "NOT WRITTEN", error.message
    if reference is None:
        return "read; jaxlib makes no HLO", ""
    return compared(module, reference())


def compared(module: Module, reference: Module) -> tuple[str, str]:
    """Whether two modules give the same bits."""
    if content_hash(module) == content_hash(reference):
        return "the same module", ""
    try:
        arrays = random_inputs(reference, seed=1)
        both = [hlotool.optimise(one, "simplify") for one in (module, reference)]
        if content_hash(both[0]) == content_hash(both[1]):
            return "the same module after passes", ""
        ours, theirs = (hlotool.compile(one, backend="evaluate")(*arrays) for one in both)
    except HloError as error:
        return "read; not run", error.message
    rows = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    for number, (one, two) in enumerate(rows):
        if one.dtype != two.dtype or one.shape != two.shape:
            return "RESULTS DIFFER", f"result {number}: {one.dtype}{one.shape} and {two.dtype}{two.shape}"
        if np.asarray(one).tobytes() != np.asarray(two).tobytes():
            with np.errstate(all="ignore"):
                worst = np.nanmax(np.abs(np.asarray(one, complex) - np.asarray(two, complex)))
            return "BITS DIFFER", f"result {number}, by {worst:.3g} at most"
    return "the same bits", ""


def programs(options: argparse.Namespace) -> Iterator[tuple[str, str, str, Callable[[], Module] | None]]:
    """Name, both forms, and what the program is compared with."""
    if options.files:
        for path in options.files:
            if options.only not in path.name:
                continue
            try:
                pretty, generic = converted(path)
            except Exception as error:
                print(f"{path}: jaxlib does not convert it: {str(error)[:120]!r}", file=sys.stderr)
                continue
            yield path.name, pretty, generic, partial(hlotool.parse, path.read_text("utf-8"), str(path))
        return
    with Recorder() as recorder:
        for name, run in cases(options.families):
            if options.only not in name:
                continue
            recorder.name, before = name, len(recorder.found)
            try:
                run()
            except Exception as error:
                print(f"{name}: the case itself fails: {type(error).__name__}: {str(error)[:80]}", file=sys.stderr)
            for number, (_, pretty, generic, proto) in enumerate(recorder.found[before:]):
                yield f"{name}#{number}", pretty, generic, partial(_of_proto, proto) if proto else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names hold this")
    parser.add_argument("--families", action="store_true", help="the families of survey_jax_harnesses.py, too")
    parser.add_argument("--files", type=Path, nargs="+", help="files of HLO instead")
    parser.add_argument("--json", type=Path, help="write verdicts here")
    parser.add_argument("--limit", type=int, default=0, help="at most so many programs")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, str]] = []
    counts: Counter[str] = Counter()
    for name, pretty, generic, reference in programs(options):
        begin = time.perf_counter()
        word, why = verdict(pretty, generic, reference)
        counts[word] += 1
        rows.append({"case": name, "verdict": word, "why": why, "text": pretty})
        if word.isupper() or word == "refused" or word == "read; not run":
            print(f"{name}: {word} {why} ({time.perf_counter() - begin:.1f} s)"[:220], flush=True)
        if options.limit and len(rows) >= options.limit:
            break
    for word, count in counts.most_common():
        print(f"{count:6} {word}")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    return int(any(word.isupper() for word in counts))


if __name__ == "__main__":
    sys.exit(main())
