"""What JAX tests itself with, on the plug-in and on stock JAX: do both give the same?

    python tests/survey_jax_harnesses.py [--family NAME] [--only WORD] [--skip WORDS] [--shard I/N] [--sample N]
                                         [--x64 0|1] [--results FILE] [--again VERDICT] [--summary]

Cases come from `jax_families.py`: the harnesses of the jax wheel, one or more for each primitive, its records of
operations, and functions of jax.numpy, jax.nn, jax.scipy, jax.random and so on over element types and shapes.  Each
runs in a process with ``JAX_PLATFORMS=hlotool`` and in one with ``JAX_PLATFORMS=cpu``, both of which stay; one that
dies is started again, and what it died of is the verdict.  Results are lines of JSON; cases that have one are not run
again.  The order is drawn from their names, so that what has run by now is a fair sample.

The verdicts: ``same`` (every bit, type, weak type and shape), ``close`` (within JAX's own tolerance for the type, NaN
and infinities in the same places), ``near`` (within 100 times that: sums in another order), ``differs``, ``type``,
``errors`` (both raise the same kind), ``error`` (one raises, or another kind), ``crash``.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_LIFETIME = 600  # cases that one process runs: what it has compiled fills its memory
_NEAR = 100  # how many times the tolerance a sum in another order may be away


@dataclass(frozen=True, slots=True)
class Leaf:
    """One array of a result."""

    values: Any
    type: str
    weak: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one process made of a case; `error` is empty where it gave a result."""

    leaves: tuple[Leaf, ...] = ()
    tree: str = ""
    error: str = ""
    message: str = ""
    fell_back: tuple[str, ...] = ()


# ---- in the process of a platform


def _leaf(value: Any) -> Leaf:
    import jax

    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return Leaf(np.asarray(jax.random.key_data(value)), str(value.dtype), False)
    array = np.asarray(value)
    return Leaf(array, str(array.dtype), bool(getattr(value, "weak_type", False)))


def _run(case: Any) -> Outcome:
    import jax

    programs: Any = ()
    if os.environ["JAX_PLATFORMS"] == "hlotool":
        from hlotool.jax.record import PROGRAMS as programs  # noqa: N811

        programs.clear()
    try:
        leaves, tree = jax.tree.flatten(case())
        outcome = Outcome(tuple(_leaf(leaf) for leaf in leaves), str(tree))
    except Exception as error:
        said = "".join(traceback.format_exception_only(error)).strip()
        outcome = Outcome(error=type(error).__name__, message=said[:600])
    reasons = tuple({program.reason for program in programs if not program.compiled})
    return Outcome(outcome.leaves, outcome.tree, outcome.error, outcome.message, reasons)


def _child(family: str) -> None:
    """Answer names, a line each, with pickled outcomes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import jax_families

    cases = dict(jax_families.cases(family))
    for line in sys.stdin:
        answer = pickle.dumps(_run(cases[line.rstrip("\n")]))
        answers.write(struct.pack("q", len(answer)) + answer)
        answers.flush()


# ---- in the process that compares


class Worker:
    """A process of one platform that runs cases, and is started again when it has died."""

    def __init__(self, platform: str, family: str, x64: str) -> None:
        self.platform, self.family = platform, family
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115  for as long as the process lives
        self.environment = {
            **os.environ, "JAX_PLATFORMS": platform, "JAX_ENABLE_X64": x64, "HLOTOOL_FALLBACK": "silent",
            "JAX_NUM_CPU_DEVICES": "4" if family == "behaviours" else "1",
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None
        self.runs = 0

    def ask(self, name: str) -> None:
        if self.process is None or self.runs >= _LIFETIME:
            self.close()
            self.process = subprocess.Popen(
                [sys.executable, __file__, "--child", self.family], env=self.environment,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            )  # fmt: skip
            self.runs = 0
        self.runs += 1
        assert self.process.stdin
        try:
            self.process.stdin.write(name.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says that it has died

    def answer(self) -> Outcome:
        assert self.process
        assert self.process.stdout
        pipe: BinaryIO = self.process.stdout  # type: ignore[assignment]  # a buffered reader
        head = pipe.read(8)
        if len(head) == 8:
            found = pickle.loads(pipe.read(struct.unpack("q", head)[0]))
            assert isinstance(found, Outcome)
            return found
        code = self.process.wait()
        self.errors.seek(max(0, self.errors.seek(0, os.SEEK_END) - 2000))
        said = self.errors.read().decode(errors="replace")
        self.process = None
        return Outcome(error="crash", message=f"{self.platform} ended with {code}: {said}")

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()
            self.process = None


def tolerance(kind: np.dtype[Any]) -> float:
    """What `jax._src.test_util.default_tolerance` says, of numbers of a type."""
    wide = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-15}
    wide |= {"complex64": 1e-6, "complex128": 1e-15}
    if kind.name in wide:
        return wide[kind.name]
    return 1.0 if kind.name in ("float4_e2m1fn", "float8_e8m0fnu") else 0.1 if kind.name.startswith("float8") else 0.0


def _parts(values: Any) -> list[Any]:
    return [values.real, values.imag] if values.dtype.kind == "c" else [values]


def compare_values(found: Any, wanted: Any) -> tuple[str, str]:
    """A verdict about two arrays of one type and shape, and what is to be seen."""
    if found.tobytes() == wanted.tobytes():
        return "same", ""
    bound = tolerance(wanted.dtype)
    if not bound:
        wrong = np.flatnonzero((found != wanted).ravel())
        if not wrong.size:
            return "same", ""
        return "differs", f"{wrong.size} of {found.size}, first at {wrong[0]}: {_first(found, wanted, wrong)}"
    worst = 0.0
    zeros = False
    for one, other in zip(_parts(found), _parts(wanted), strict=True):
        a, b = np.asarray(one, np.float64).ravel(), np.asarray(other, np.float64).ravel()
        plain = np.isfinite(a) & np.isfinite(b)
        kinds = np.where(plain, True, (np.isnan(a) & np.isnan(b)) | (a == b))
        if not kinds.all():
            wrong = np.flatnonzero(~kinds)
            return "differs", f"{wrong.size} of {found.size} in kind, first: {_first(found, wanted, wrong)}"
        a, b = a[plain], b[plain]
        zeros = zeros or bool(((a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))).any())
        away = abs(a - b) / (bound + bound * abs(b))
        worst = max(worst, float(away.max(initial=0.0)))
    said = ("sign of zero; " if zeros else "") + (f"{worst:.3g} tolerances" if worst else "")
    return "same" if not said else "close" if worst <= 1 else "near" if worst <= _NEAR else "differs", said


def _first(found: Any, wanted: Any, wrong: Any) -> str:
    return ", ".join(f"{found.ravel()[index]} for {wanted.ravel()[index]}" for index in wrong[:4])


_ORDER = ("same", "close", "near", "type", "differs")


def compare(found: Outcome, wanted: Outcome) -> tuple[str, str]:
    """The verdict about a case, and what is to be seen."""
    if "crash" in (found.error, wanted.error):
        return "crash", found.message if found.error == "crash" else wanted.message
    if found.error or wanted.error:
        if found.error == wanted.error:
            return "errors", "" if found.message == wanted.message else f"{found.message} / {wanted.message}"
        return "error", f"{found.message or 'a result'}; stock: {wanted.message or 'a result'}"
    if found.tree != wanted.tree or len(found.leaves) != len(wanted.leaves):
        return "type", f"{found.tree} for {wanted.tree}"
    verdict, said = "same", ""
    for index, (one, other) in enumerate(zip(found.leaves, wanted.leaves, strict=True)):
        if one.values.dtype.kind == other.values.dtype.kind == "U":
            equal = one.values.tolist() == other.values.tolist()
            new, text = ("same", "") if equal else ("differs", f"{one.values} for {other.values}")
        elif (one.type, one.weak, one.values.shape) != (other.type, other.weak, other.values.shape):
            seen = [f"{leaf.type}{leaf.values.shape}{' weak' if leaf.weak else ''}" for leaf in (one, other)]
            new, text = "type", " for ".join(seen)
        else:
            new, text = compare_values(one.values, other.values)
        if _ORDER.index(new) > _ORDER.index(verdict) or (not said and text):
            verdict, said = max(new, verdict, key=_ORDER.index), f"result {index}: {text}"
    return verdict, said


def summary(results: Path) -> None:
    """Counts by family and verdict."""
    found: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    latest = {}
    for line in results.read_text().splitlines():
        entry = json.loads(line)
        latest[entry["family"], entry["x64"], entry["name"]] = entry
    for (family, x64, _), entry in latest.items():
        found[f"{family} x64={x64}"].update([entry["verdict"], "all", *(["fell back"] if entry["fell_back"] else [])])
    for family, counts in sorted(found.items()):
        print(f"{family:24} " + "  ".join(f"{word}: {count}" for word, count in sorted(counts.items())))


def _chosen(names: list[str], arguments: argparse.Namespace) -> list[str]:
    index, count = (int(part) for part in arguments.shard.split("/"))
    names = [name for name in names if arguments.only in name]
    if arguments.skip:
        names = [name for name in names if not any(word in name for word in arguments.skip.split(","))]
    names.sort(key=lambda name: hashlib.sha256(name.encode()).digest())  # what has run by now is a fair sample
    return names[index::count][: arguments.sample or None]


def _names(family: str, x64: str) -> list[str]:
    text = f"import jax_families; print('\\n'.join(name for name, _ in jax_families.cases({family!r})))"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": x64}
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=Path(__file__).parent, env=environment, stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode().splitlines()


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", default="harnesses")
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="", help="words, with commas")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--x64", default="1")
    parser.add_argument("--results", type=Path, default=Path("survey_jax_harnesses.jsonl"))
    parser.add_argument("--again", default="", help="verdicts, with commas, whose cases are run again; 'all'")
    parser.add_argument("--summary", action="store_true")
    arguments = parser.parse_args()
    if arguments.summary:
        summary(arguments.results)
        return 0
    done: dict[str, str] = {}
    if arguments.results.exists():
        for line in arguments.results.read_text().splitlines():
            entry = json.loads(line)
            if (entry["family"], entry["x64"]) == (arguments.family, arguments.x64):
                done[entry["name"]] = entry["verdict"]
    again = arguments.again.split(",")
    if arguments.again:
        names = [name for name, verdict in done.items() if verdict in again or "all" in again]
        names = [name for name in names if arguments.only in name]
    else:
        names = [name for name in _chosen(_names(arguments.family, arguments.x64), arguments) if name not in done]
    workers = [Worker(platform, arguments.family, arguments.x64) for platform in ("hlotool", "cpu")]
    counts: collections.Counter[str] = collections.Counter()
    with arguments.results.open("a") as file:
        for name in names:
            for worker in workers:
                worker.ask(name)
            found, wanted = (worker.answer() for worker in workers)
            verdict, said = compare(found, wanted)
            counts[verdict] += 1
            entry = {
                "family": arguments.family, "x64": arguments.x64, "name": name, "verdict": verdict, "said": said,
                "fell_back": found.fell_back,
            }  # fmt: skip
            file.write(json.dumps(entry) + "\n")
            file.flush()
            if verdict in ("differs", "type", "error", "crash") or found.fell_back:
                print(f"{verdict:8} {name}: {said[:200]} {'; '.join(found.fell_back)[:200]}", flush=True)
    for worker in workers:
        worker.close()
    print(f"{len(names)} cases: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    return int(any(counts[word] for word in ("differs", "type", "error", "crash")))


if __name__ == "__main__":
    sys.exit(main())
