"""A mutation fuzzer for reading, verifying and printing HLO text.

Any text must end, in success or in an HloError whose diagnostics point into it; a module that verifies must print, and
read back as the same module.  Mutant number N of a seed is always the same text.

Long runs: ``python -m tests.fuzz.mutate --count N --seed S --jobs J --log FILE``.  Totals of earlier runs with the
same log are carried on; failing inputs are minimised and written to the directory ``FILE.failures``.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import re
import resource
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

if __package__ == "tests.fuzz":  # run as a module, not collected by pytest
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.properties import check
from fuzz.seeds import seeds
from hlotool.ir import ELEMENT_TYPES, OPCODES

__all__ = ["Failure", "attempt", "main", "minimise", "mutant", "run"]

_MEMORY = 4 << 30


# ---- mutations

_TOKEN = re.compile(r"\"[^\"\n]*\"|[A-Za-z_][\w.\-]*|\d+|\s+|.", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_OPCODE = re.compile(r"[a-z][a-z\-]+(?=\()")
_SHAPE = re.compile(r"\b[a-z][a-z0-9]*\[[^\]\n]*\](?:\{[\d:][^}\n]*\})?")
_ATTRIBUTE = re.compile(r", ([a-z_\-]+=(?:\{[^\n]*?\}+|[^,\n]+))(?=,|$)", re.MULTILINE)
_OPERAND = re.compile(r"(?<=[( ])[A-Za-z_][\w.\-]*(?=[,)])")
_CALL = re.compile(r"(?<=\()[^()\n]*(?=\))")
_EDGES_TEXT = "0 1 2 3 4 -1 -2 6 7 -0 00 1.5 1e400 nan -nan inf -inf nan(0x1) -nan(0x7fffff) true {} {1} () ? <=3 *"
_EDGES = (
    *_EDGES_TEXT.split(), "9" * 30, "1" * 5000, "", "0x10", "1_000", "1x1", "0_0", "\u0663",
    *(str(sign * (1 << n) + more) for n in (7, 8, 16, 31, 32, 62, 63, 64) for sign in (1, -1) for more in (-1, 0, 1)),
)  # fmt: skip
_SHAPES_TEXT = """
f32[] f32[0] f32[2]{0} s32[] pred[] token[] opaque[] () (f32[]) ((f32[2]),()) b(f32[2]) f32[?] f32[<=4] c64[2]
u64[2]{0} s4[8]{0:E(4)} f32[4,6]{0,1} f32[4,6]{1,0:T(8,128)S(1)} f32[9223372036854775807] bf16[1,1] u32[] f8e4m3fn[3]
f32[4294967296,4294967296,0] (f32[2],s32[],token[]) f32[1000000000000] f32[2,2]{0} f32[-1] ((f32[4,6]),f32[4,6],u32[])
"""
_SHAPES = (*_SHAPES_TEXT.split(), "f32[" + "1," * 40 + "1]")
_WORDS_TEXT = """
ROOT ENTRY HloModule FileNames StackFrames metadata sharding /* */ // ... -> <= = , : * ? # + ~ [ ] { } ( ) " \\ %
control-predecessors backend_config= origin= statistics= frontend_attributes= {...} {replicated} execution_thread=
"""
_WORDS = (
    *ELEMENT_TYPES, *OPCODES, *(a.name for row in OPCODES.values() for a in row.attributes), *_WORDS_TEXT.split(),
)  # fmt: skip
_ODD = "\0\udc80\udcff\ud83d\u00e9\u2028\x85\x1c\ufeff\U0001f600%\\\r\t\f"
_BRACKETS = "(){}[]"

Mutation = Callable[[Random, str, str], str]


def _pick(rng: Random, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """A match of the pattern at a random place."""
    start = rng.randrange(len(text) + 1)
    return pattern.search(text, start) or pattern.search(text)


def _replace(text: str, match: re.Match[str] | None, new: str) -> str:
    return text if match is None else text[: match.start()] + new + text[match.end() :]


def _flip(rng: Random, text: str, other: str) -> str:
    """Bits, or whole bytes."""
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(rng.choice((1, 1, 2, 4)) if data else 0):
        place = rng.randrange(len(data))
        flipped = data[place] ^ 1 << rng.randrange(8)
        data[place] = rng.choice((flipped, rng.randrange(256), rng.choice(b'(){}[]",=%\0 ')))
    return data.decode("utf-8", "surrogateescape")


def _insert(rng: Random, text: str, other: str) -> str:
    """A character that is unusual, or a word of the language."""
    place = rng.randrange(len(text) + 1)
    new = rng.choice(_ODD) if rng.random() < 0.3 else f" {rng.choice(_WORDS)} "
    return text[:place] + new + text[place:]


def _tokens(rng: Random, text: str, other: str) -> str:
    """Delete, double, exchange or replace tokens within a piece of the text."""
    start = rng.randrange(len(text) + 1)
    piece = text[start : start + 300]
    tokens = _TOKEN.findall(piece)
    if not tokens:
        return text
    first, second = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    match rng.randrange(4):
        case 0:
            del tokens[first : first + rng.choice((1, 1, 2, 5))]
        case 1:
            tokens.insert(first, tokens[first] * rng.choice((1, 1, 2, 20)))
        case 2:
            tokens[first], tokens[second] = tokens[second], tokens[first]
        case _:
            tokens[first] = rng.choice(_WORDS)
    return text[:start] + "".join(tokens) + text[start + 300 :]


def _lines(rng: Random, text: str, other: str) -> str:
    """Delete, double, exchange or shuffle lines, or take one from another text."""
    lines = text.split("\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[first]
        case 1:
            lines.insert(second, lines[first])
        case 2:
            lines[first], lines[second] = lines[second], lines[first]
        case 3:
            some = lines[first : first + 6]
            rng.shuffle(some)
            lines[first : first + 6] = some
        case _:
            lines.insert(first, rng.choice(other.split("\n")))
    return "\n".join(lines)


def _number(rng: Random, text: str, other: str) -> str:
    return _replace(text, _pick(rng, _NUMBER, text), rng.choice(_EDGES))


def _bracket(rng: Random, text: str, other: str) -> str:
    """Delete, add or replace a bracket, or nest many of them."""
    match = _pick(rng, re.compile(r"[(){}\[\]]"), text)
    if match is None:
        return text + rng.choice(_BRACKETS)
    new = rng.choice(("", rng.choice(_BRACKETS), match.group() * 2, match.group() * 150, match.group() + "}"))
    return _replace(text, match, new)


def _splice(rng: Random, text: str, other: str) -> str:
    """The start of one text and the end of another, or a piece in the middle."""
    here, there = rng.randrange(len(text) + 1), rng.randrange(len(other) + 1)
    if rng.random() < 0.5:
        return text[:here] + other[there:]
    return text[:here] + other[there : there + rng.choice((5, 40, 200))] + text[here:]


def _truncate(rng: Random, text: str, other: str) -> str:
    place = rng.randrange(len(text) + 1)
    return text[:place] if rng.random() < 0.7 else text[place:]


def _attribute(rng: Random, text: str, other: str) -> str:
    """Copy an attribute to another instruction, or remove one."""
    source = other if rng.random() < 0.3 else text
    found = _pick(rng, _ATTRIBUTE, source)
    if rng.random() < 0.3:
        return _replace(text, _pick(rng, _ATTRIBUTE, text), "")
    place = _pick(rng, re.compile(r"\)(?=,|\s*$)", re.MULTILINE), text)
    if found is None or place is None:
        return text
    return f"{text[: place.end()]}, {found.group(1)}{text[place.end() :]}"


def _rename(rng: Random, text: str, other: str) -> str:
    """Put another name of the text in the place of a name, mostly among operands."""
    pattern = _NAME if rng.random() < 0.3 else _OPERAND
    name = _pick(rng, pattern, text)
    return text if name is None else _replace(text, _pick(rng, pattern, text), name.group())


def _opcode(rng: Random, text: str, other: str) -> str:
    new = rng.choice(list(OPCODES)) + rng.choice(("", "", "", "-start", "-done"))
    return _replace(text, _pick(rng, _OPCODE, text), new)


def _shape(rng: Random, text: str, other: str) -> str:
    found = _pick(rng, _SHAPE, text)
    new = found.group() if found is not None and rng.random() < 0.5 else rng.choice(_SHAPES)
    return _replace(text, _pick(rng, _SHAPE, text), new)


def _operands(rng: Random, text: str, other: str) -> str:
    """Change the list in a pair of parentheses: fewer, more, another order, or that of another instruction."""
    match = _pick(rng, _CALL, text)
    if match is None:
        return text
    names = match.group().split(", ")
    chosen = rng.randrange(len(names))
    match rng.randrange(4):
        case 0:
            del names[chosen]
        case 1:
            names.insert(chosen, names[-1])
        case 2:
            rng.shuffle(names)
        case _:
            more = _pick(rng, _CALL, text)
            names = [more.group() if more else ""]
    return _replace(text, match, ", ".join(names))


def _everywhere(rng: Random, text: str, other: str) -> str:
    """Change a number, a shape, an element type or an opcode wherever it stands: what fits together still does."""
    match rng.randrange(4):
        case 0:
            old, new = _pick(rng, re.compile(r"\b\d+\b"), text), str(rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 128)))
        case 1:
            old, new = _pick(rng, _SHAPE, text), rng.choice(_SHAPES)
        case 2:
            old, new = _pick(rng, re.compile(r"\b[a-z]+\d*(?=\[)"), text), rng.choice(list(ELEMENT_TYPES))
        case _:
            old, new = _pick(rng, _OPCODE, text), rng.choice(list(OPCODES))
    return text if old is None else re.sub(rf"(?<![\w.\-]){re.escape(old.group())}(?![\w.\-])", new, text)


def _blank(rng: Random, text: str, other: str) -> str:
    """Blanks, comments and line ends in odd places."""
    if rng.random() < 0.2:
        return text.replace("\n", rng.choice(("\r\n", "\r", " ", "", "\n\n", "\f", "\v")))
    match = _pick(rng, re.compile(r"\s|(?<=[,=({\[])|(?=[,=)}\]])"), text)
    return _replace(text, match, rng.choice(("", "\n", "  ", "/* x */", "// x\n", "\t", "\r", "/*", "//", "*/")))


_MUTATIONS: tuple[Mutation, ...] = (
    _flip, _insert, _tokens, _tokens, _lines, _lines, _number, _number, _number, _bracket, _splice, _truncate,
    _attribute, _attribute, _rename, _opcode, _opcode, _shape, _shape, _operands, _operands, _blank,
    _everywhere, _everywhere, _everywhere, _everywhere,
)  # fmt: skip


def mutant(pool: Sequence[str], seed: int, number: int) -> str:
    """Mutant `number` of a seed: a text of the pool after one to six mutations."""
    rng = Random(f"{seed}/{number}")
    text = rng.choice(pool)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 6))):
        text = rng.choice(_MUTATIONS)(rng, text, rng.choice(pool))
    return text


# ---- failures


@dataclass(frozen=True, slots=True)
class Failure:
    """A mutant that did what must not happen; `signature` tells failures of different causes apart."""

    number: int
    text: str
    signature: str
    report: str


def _failure(number: int, text: str, error: BaseException) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "hlotool" in f.filename] or frames
    inner = own[-1]
    words = re.sub(r"\d+|'[^']*'", "N", str(error))[:60] if isinstance(error, AssertionError) else ""
    signature = f"{type(error).__name__} {Path(inner.filename).name}:{inner.name} {words}".strip()
    return Failure(number, text, signature, "".join(traceback.format_exception(error, limit=-6)))


def attempt(number: int, text: str) -> str | Failure:
    """What `check` says, or the failure."""
    try:
        return check(text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # recursion, memory and time limits too
        return _failure(number, text, error)


def minimise(failure: Failure, seconds: float = 20.0) -> Failure:
    """A smaller text with the same failure: lines go first, then words, then characters."""
    best, end = failure, time.monotonic() + seconds
    for pattern in (re.compile(r"[^\n]*\n?"), re.compile(r"[\w.\-]+|\s+|[^\w\s]"), re.compile(r".", re.DOTALL)):
        pieces = [p for p in pattern.findall(best.text) if p]
        width = max(1, len(pieces) // 2)
        while width:
            start = 0
            while start < len(pieces) and time.monotonic() < end:
                fewer = pieces[:start] + pieces[start + width :]
                tried = attempt(failure.number, "".join(fewer))
                if isinstance(tried, Failure) and tried.signature == failure.signature:
                    best, pieces = tried, fewer
                else:
                    start += width
            width //= 2
    return best


# ---- runs


def run(pool: Sequence[str], seed: int, first: int, count: int) -> tuple[Counter[str], list[Failure]]:
    """Check `count` mutants; how many ended how, and one failure of every signature."""
    ends: Counter[str] = Counter()
    failures: dict[str, Failure] = {}
    for number in range(first, first + count):
        result = attempt(number, mutant(pool, seed, number))
        if isinstance(result, Failure):
            failures.setdefault(result.signature, result)
            result = "failed"
        ends[result] += 1
    return ends, list(failures.values())


_TOTAL = re.compile(r"total=(\d+) error=(\d+) invalid=(\d+) valid=(\d+) failed=(\d+)")
_KINDS = ("error", "invalid", "valid", "failed")
_STEP = 2000
_REFRESH = 20_000  # mutants after which a fresh interpreter goes on, with the code as it is then


def _totals(log: Path) -> Counter[str]:
    """What the runs of a log add up to."""
    found = _TOTAL.findall(log.read_text()) if log.exists() else []
    return Counter(dict(zip(_KINDS, map(int, found[-1][1:]), strict=True))) if found else Counter()


def _long(arguments: argparse.Namespace) -> int:
    """One process of a long run; it replaces itself now and then."""
    log = Path(arguments.log)
    marker = log.with_suffix(".at")
    total = _totals(log)

    def say(line: str) -> None:
        with log.open("a") as file:
            file.write(line + "\n")

    if marker.exists():
        say(f"FAILURE the process died between mutants {marker.read_text()} of seed {arguments.seed}")
        total["failed"] += 1
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    pool = seeds()
    done, start = arguments.first, time.process_time()
    until = min(arguments.count, done + _REFRESH)
    while done < until:
        step = min(_STEP, until - done)
        marker.write_text(f"{done} {done + step}")
        ends, failures = run(pool, arguments.seed, done, step)
        total += ends
        done += step
        for failure in failures:
            _keep(failure, arguments.seed, log, say)
        rate = (done - arguments.first) / max(1e-9, time.process_time() - start)
        tally = " ".join(f"{kind}={total[kind]}" for kind in _KINDS)
        say(f"total={sum(total.values())} {tally} seed={arguments.seed} next={done} rate={rate:.0f}/s")
    marker.unlink(missing_ok=True)
    if done < arguments.count:
        again = [sys.executable, "-m", "tests.fuzz.mutate", *_options(arguments, done)]
        while subprocess.run([*again, "--dry"], capture_output=True, check=False).returncode:
            time.sleep(10)  # somebody is editing
        os.execv(sys.executable, again)
    return 1 if total["failed"] else 0


def _options(arguments: argparse.Namespace, first: int) -> list[str]:
    names: dict[str, Any] = {"count": arguments.count, "seed": arguments.seed, "log": arguments.log, "first": first}
    return [word for name, value in names.items() for word in (f"--{name}", str(value))]


def _keep(failure: Failure, seed: int, log: Path, say: Callable[[str], None]) -> None:
    """Write a failing input, and the smallest one that fails in the same way."""
    folder = log.with_suffix(".failures")
    folder.mkdir(exist_ok=True)
    name = re.sub(r"[^\w.]+", "_", failure.signature)[:80]
    if (folder / f"{name}.txt").exists():
        return
    say(f"FAILURE seed={seed} mutant={failure.number}: {failure.signature}")
    (folder / f"{name}.hlo").write_text(failure.text, "utf-8", "surrogatepass", newline="")
    small = minimise(failure)
    report = f"seed {seed}, mutant {failure.number}\n{small.text!r}\n\n{small.report}"
    (folder / f"{name}.txt").write_text(report, "utf-8", "backslashreplace")


def main(words: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="tests.fuzz.mutate", description=__doc__)
    options.add_argument("--count", type=int, default=10_000, help="mutants per process")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=1, help="processes, with following seeds and logs of their own")
    options.add_argument("--log", default="fuzz.log")
    options.add_argument("--first", type=int, default=0, help="the mutant to start with")
    options.add_argument("--dry", action="store_true", help="import and read the seeds only")
    arguments = options.parse_args(words)
    if arguments.dry:
        return 0 if seeds() else 1
    if arguments.jobs == 1:
        faulthandler.enable(Path(arguments.log).with_suffix(".crash").open("a"))
        return _long(arguments)
    running = []
    for job in range(arguments.jobs):
        own = argparse.Namespace(**vars(arguments))
        own.seed, own.log = arguments.seed + job, f"{arguments.log}.{job}" if job else arguments.log
        running.append(subprocess.Popen([sys.executable, "-m", "tests.fuzz.mutate", *_options(own, arguments.first)]))
    return max(process.wait() for process in running)


if __name__ == "__main__":
    raise SystemExit(main())
