"""ONNX's own tests for backends (``onnx.backend.test``), run by hlotool, and the page of the manual about them.

    python tests/survey_onnx.py [--jobs 2] [--kind node ...] [--verbose] [--write man/guide/docs/onnx-operators.md]
                                [PATTERN ...]

Every test's model is compiled (never evaluated) for the test's inputs; the outputs are compared as ONNX's runner does.
A verdict is one of

- ``native``: the outputs are right, and the program is the same for all values of the inputs;
- ``native for values``: the outputs are right, and the program is for the values of inputs that decide about shapes or
  the course of the program (the shape that a Reshape is given as an input), which the verdict names;
- ``unsupported``, with the reason; ``strings``, where the model has strings in it;
- ``random``: nobody can say what the outputs should be, as the expected ones were drawn;
- ``wrong``, where outputs differ; ``error``, where something else went wrong, a process that ends among it.

What ends a process is a verdict, too: each share of the tests runs in a process of its own, which is started again.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner, _normalize_tensor

import hlotool.onnx.backend as backend
from hlotool.ir import HloError, UnsupportedError

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
PASSED = ("native", "native for values")
RANDOM = frozenset(
    {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial"}
)
_TEXT = onnx.TensorProto.STRING


def cases(kinds: list[str], patterns: list[str]) -> list[tuple[str, Any]]:
    """The tests, by kind and name."""
    found = []
    for kind in kinds:
        with warnings.catch_warnings():  # of how onnx makes its expected outputs
            warnings.simplefilter("ignore")
            rows = sorted(load_model_tests(kind=kind), key=lambda one: one.name)
        found += [
            (kind, one) for one in rows if not patterns or any(fnmatch.fnmatch(one.name, each) for each in patterns)
        ]
    return found


def model_of(case: Any) -> Any:
    return case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")


def data_of(case: Any, model: Any) -> list[tuple[list[Any], list[Any]]]:
    """Inputs and expected outputs."""
    if case.data_sets is not None:
        return [tuple([_normalize_tensor(x) for x in side] for side in row) for row in case.data_sets]  # type: ignore[misc]
    found = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
        sides: list[list[Any]] = []
        for side, infos in (("input", model.graph.input), ("output", model.graph.output)):
            values: list[Any] = []
            for number in range(len(list(folder.glob(f"{side}_*.pb")))):
                Runner._load_proto(None, str(folder / f"{side}_{number}.pb"), values, infos[number].type)
            sides.append(values)
        found.append((sides[0], sides[1]))
    return found


def has_strings(model: Any) -> bool:
    """Whether strings go into, through or out of the model."""
    types = [one.type for one in (*model.graph.input, *model.graph.output, *model.graph.value_info)]
    if any(f"elem_type: {_TEXT}\n" in f"{one}\n" for one in types):
        return True
    return any(
        (attribute.type == onnx.AttributeProto.STRINGS and attribute.name.startswith(("keys_", "values_", "cats_")))
        or (attribute.name == "to" and attribute.i == _TEXT)
        for node in model.graph.node for attribute in node.attribute
    )  # fmt: skip


def verdict(case: Any) -> tuple[str, str]:
    """The verdict on a test, and the reason."""
    model = model_of(case)
    if has_strings(model):
        return "strings", "arrays of HLO hold no strings"
    if any(node.op_type in RANDOM for node in model.graph.node):
        return "random", "the expected outputs were drawn"
    used: dict[str, None] = {}
    try:
        prepared = backend.prepare(model, folder=case.model_dir)
        for inputs, outputs in data_of(case, model):
            found = prepared.run(inputs)
            Runner.assert_similar_outputs(outputs, found, case.rtol, case.atol)
        for one in prepared.programs:
            used.update(dict.fromkeys(one.imported.values))
    except UnsupportedError as error:
        return "unsupported", str(error).partition(": ")[2] or str(error)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:300]
    except HloError as error:
        return "error", f"{type(error).__name__}: {error}"[:300]
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"[:300]
    return ("native for values", ", ".join(used)) if used else ("native", "")


def child(kinds: list[str], patterns: list[str], share: tuple[int, int], results: Path) -> None:
    """Run a share of the tests that have no result yet."""
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    done = {json.loads(line)[0] for line in results.read_text().splitlines()} if results.exists() else set()
    with results.open("a") as file:
        for kind, case in cases(kinds, patterns)[share[0] :: share[1]]:
            name = f"{kind}/{case.name}"
            if name in done:
                continue
            print(name, file=sys.stderr, flush=True)
            file.write(json.dumps([name, *verdict(case)]) + "\n")
            file.flush()


def survey(kinds: list[str], patterns: list[str], jobs: int) -> dict[str, tuple[str, str]]:
    """The verdicts by test, in order."""
    with tempfile.TemporaryDirectory() as folder:

        def run(number: int) -> list[Any]:
            results = Path(folder) / f"{number}.jsonl"
            command = [
                sys.executable, __file__, *patterns, "--kind", *kinds, "--share", f"{number}/{jobs}",
                "--results", results,
            ]  # fmt: skip
            while True:
                ended = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
                if not ended.returncode:
                    return [json.loads(line) for line in results.read_text().splitlines()]
                running = [line for line in ended.stderr.splitlines() if line.partition("/")[0] in KINDS]
                if not running:
                    raise RuntimeError(ended.stderr)
                row = [running[-1], "error", f"the process ended with {ended.returncode}: {ended.stderr[-300:]}"]
                with results.open("a") as file:
                    file.write(json.dumps(row) + "\n")

        with ThreadPoolExecutor(jobs) as pool:
            rows = [row for part in pool.map(run, range(jobs)) for row in part]
    order = {kind: n for n, kind in enumerate(KINDS)}
    rows.sort(key=lambda row: (order[row[0].partition("/")[0]], row[0]))
    return {name: (kind, reason) for name, kind, reason in rows}


WORDS = {
    "unsupported": "Not supported", "wrong": "Other outputs than expected", "error": "Errors",
    "strings": "Models with strings, which arrays of HLO do not hold",
    "random": "Random numbers, of which the expected ones were drawn",
}  # fmt: skip


def page(found: dict[str, tuple[str, str]]) -> str:
    """The page of the manual: counts, and every test that does not pass, with the reason."""
    lines = [
        "# ONNX's tests", "",
        f"The tests for backends that come with onnx {onnx.__version__} (operator set "
        f"{onnx.defs.onnx_opset_version()}), as `python tests/survey_onnx.py --write` found them. Every model is "
        "compiled; none is evaluated, apart from what shapes are computed from, and none is run by another library. "
        "*For values* are programs that are made for the values of inputs which decide about shapes or the course of "
        "the program, as the shape that a Reshape is given.", "",
        "| suite | tests | native | native for values | strings | random | others |", "|---|--:|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for suite in KINDS:
        rows = [kind for name, (kind, _) in found.items() if name.startswith(f"{suite}/")]
        if rows:
            counts = [rows.count(kind) for kind in ("native", "native for values", "strings", "random")]
            others = len(rows) - sum(counts)
            lines.append(f"| {suite} | {len(rows)} | {' | '.join(map(str, counts))} | {others} |")
    rest = [kind for kind, _ in found.values() if kind not in ("strings", "random")]
    share = sum(kind in PASSED for kind in rest) / len(rest)
    lines += ["", f"Of the tests without strings and random numbers {share:.1%} pass.", ""]
    for kind, words in WORDS.items():
        rows = [(name, reason) for name, (own, reason) in found.items() if own == kind]
        if not rows:
            continue
        lines += [f"## {words}", ""]
        if kind in ("strings", "random"):
            lines += [", ".join(f"`{name.partition('/')[2]}`" for name, _ in rows) + ".", ""]
            continue
        lines += ["| test | reason |", "|---|---|"]
        for name, reason in rows:
            why = reason.removeprefix("1 node is not supported: ").replace("|", "\\|")
            lines.append(f"| `{name.partition('/')[2]}` | {why[:200]} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--kind", nargs="+", default=list(KINDS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--share")
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    if given.share:
        first, count = map(int, given.share.split("/"))
        child(given.kind, given.patterns, (first, count), given.results)
        return
    found = survey(given.kind, given.patterns, given.jobs)
    for name, (kind, reason) in found.items():
        if given.verbose or kind not in (*PASSED, "strings", "random"):
            print(f"{kind:18} {name}: {reason[:400]}")
    if given.write:
        given.write.write_text(page(found), encoding="utf-8")
    for suite in given.kind:
        counts = Counter(kind for name, (kind, _) in found.items() if name.startswith(f"{suite}/"))
        print(suite, dict(sorted(counts.items())))


if __name__ == "__main__":
    main()
