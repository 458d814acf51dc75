"""What holds of every command, whatever it does: one row for each, and the same questions to all of them.

Main use; standard input in place of a file; JSON; exit codes; files that are no modules; streams that are closed or
that nobody reads; Ctrl-C.  Processes are forked (`processes`), so that there can be many.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from conftest import environment
from json_schemas import check_json
from processes import Done, Processes
from tiny_modules import ENDLESS

from hlotool.cli import COMMANDS, cli
from hlotool.runtime.aot.metadata import metadata_block

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked at in /proc")

SMALL = """HloModule small

ENTRY main {
  x = f32[4]{0} parameter(0)
  y = f32[4]{0} parameter(1)
  ROOT sum = f32[4]{0} add(x, y)
}
"""
CHECKED = "// RUN: hlotool opt %s -p none\n// CHECK: add(\n" + SMALL
OPTIONS = {"pipeline": "default", "donate": [], "excess_precision": False, "flush_denormals": False}
LIBRARY = {
    "schema_version": 1, "kind": "library", "name": "small", "hlotool": "0", "abi": 1, "triple": "x86_64-linux-gnu",
    "processors": ["x86-64"], "byte_order": "little", "constant_bytes": 0, "weights": None, "random": [],
    "alignment": {"arrays": 1, "workspace": 64, "weights": 64}, "options": OPTIONS,
    "entries": [{
        "name": "run", "module": "small", "file": "small.hlo", "sha256": 64 * "0", "workspace_bytes": 64,
        "arguments": [], "kernels": {}, "results": [{
            "name": "sum", "identifier": "out_sum", "type": "f32", "dimensions": [4], "bytes": 16, "alias": None,
            "overwritten": False,
        }],
    }],
    "context_functions": [],
}  # fmt: skip
FILES: dict[str, str | bytes] = {
    "small.hlo": SMALL,
    "other.hlo": SMALL.replace("add(", "multiply("),
    "untidy.hlo": SMALL.replace("ROOT sum", "ROOT    sum"),
    "wide.hlo": """HloModule wide

ENTRY main {
  x = f32[64] parameter(0)
  w = f64[64] convert(x)
  c = f64[] constant(0.1)
  b = f64[64] broadcast(c), dimensions={}
  m = f64[64] multiply(w, b)
  ROOT y = f32[64] convert(m)
}
""",
    "product.hlo": """HloModule product

ENTRY main {
  x = f32[4,2]{1,0} parameter(0)
  w = f32[2,2]{1,0} constant({{1, 2}, {3, 4}})
  ROOT y = f32[4,2]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""",
    "carrying.hlo": f"// pipeline: cse\n{SMALL}",
    "run.hlo": f"// RUN: hlotool run %s\n// CHECK: out0\n{ENDLESS}",
    "again.hlo": f"// RUN: hlotool run %s\n// CHECK: out0\n{ENDLESS}",
    "endless.hlo": ENDLESS,
    "unknown.hlo": SMALL.replace("add(x, y)", 'custom-call(x, y), custom_call_target="nowhere"'),
    "configured.hlo": SMALL.replace("add(x, y)", 'add(x, y), backend_config="own"'),
    "sized.mlir": """func.func @main(%n: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
""",
    "checked.hlo": CHECKED,
    "unmet.hlo": CHECKED.replace("CHECK: add", "CHECK: divide"),
    "empty.hlo": "",
    "garbage.hlo": bytes(range(256)) * 8,
    "wrong.hlo": SMALL.replace("add(x, y)", "add(x, w)"),
    "named.npz": SMALL,
    "library.o": b"\x7fELF" + metadata_block(LIBRARY, ["code_run_0"]),
}
BAD = ["missing.hlo", "folder.hlo", "empty.hlo", "garbage.hlo", "wrong.hlo"]


@dataclass(frozen=True, slots=True)
class Call:
    """Runs lines of the table in a folder with all files."""

    processes: Processes
    folder: Path

    def __call__(self, name: str, line: str, file: str = "small.hlo", **options: Any) -> Done:
        return self.processes.end(self.start(name, line, file, **options))

    def start(self, name: str, line: str, file: str = "small.hlo", **options: Any) -> int:
        words = [name, *shlex.split(line.replace("FILE", file))]
        env: dict[str, str | None] = {"HLOTOOL_TESTED_IN": str(self.folder)}
        if name == "cache":  # what it says depends on what others did
            env["HLOTOOL_CACHE"] = str(self.folder / "cache")
        return self.processes.start(words, self.folder, environment=environment(**env), **options)

    def files(self) -> set[str]:
        return set(os.listdir(self.folder))

    def children(self) -> list[int]:
        """The processes that were started in this folder by those that were forked."""
        mark = f"HLOTOOL_TESTED_IN={self.folder}".encode()
        found = []
        for path in Path("/proc").iterdir():
            with suppress(OSError):
                if path.name.isdecimal() and mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return found

    def has_begun(self, process: int) -> None:
        """Wait until a command works, or has another process work."""
        while _seconds(process) < 1 and not self.children():
            time.sleep(0.05)

    def is_waiting(self, process: int) -> None:
        """Wait until a command waits for its standard input."""
        seen = 0
        while seen < 3:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
            assert state != "Z", "it has ended"
            seen = seen + 1 if state == "S" else 0
            time.sleep(0.05)

    def nobody_is_left(self) -> None:
        """Every child ends, if not at once."""
        end = time.monotonic() + 60
        while self.children() and time.monotonic() < end:
            time.sleep(0.1)
        left = self.children()
        for child in left:
            os.kill(child, signal.SIGKILL)
        assert not left


def _seconds(process: int) -> float:
    """Of the processor that a process, and those of its children that ended, took."""
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A command: `main` is how it is mainly used, of FILE, and `says` what that prints, with `code`.

    Where FILE is in it, it may be ``-``, unless `stdin` says no; the output is then the same, if it is `steady`.  With
    the options `json` it is an answer of that `kind`.  `codes` has a line for other exit codes that files which can be
    read end with, `endless` one that never ends by itself.  Of files that cannot be read `verdicts` tell on standard
    output.
    """

    main: str
    says: str
    code: int = 0
    stdin: bool = True
    steady: bool = True
    verdicts: bool = False
    json: str = ""
    kind: str = ""
    codes: dict[int, str] = field(default_factory=dict)
    endless: str = ""


TABLE = {
    "bench": Row(
        main="FILE --no-roof --time 0 --warmup 0 --rounds 1", says="hlotool", json="--format json", kind="bench",
        steady=False,
        codes={3: "--suite mlp --cases nothing", 4: "unknown.hlo --no-roof",
               5: "FILE --no-roof --time 0 --warmup 0 --rounds 1 -o absent/out"},
        endless="endless.hlo --no-roof",
    ),
    "bisect": Row(main="passes FILE --cmd true", says="no-failure", code=1, steady=False, json="--format json",
                  kind="bisect", codes={5: "passes FILE --cmd false -o small.hlo/out"},
                  endless="passes FILE --cmd 'sleep 1000'"),
    "build": Row(main="FILE -o out", says="out/lib", steady=False, json="--format json -o out", kind="build",
                 codes={2: "FILE", 5: "FILE -o small.hlo/out"}),
    "cache": Row(main="why FILE", says="miss", code=1, stdin=False, json="--format json", kind="cache-why"),
    "check": Row(main="checked.hlo", says="1 passed", verdicts=True, json="--format json", kind="check",
                 codes={1: "unmet.hlo", 3: "small.hlo"}),
    "compare": Row(main="FILE", says="ok", json="--format json", kind="compare",
                   codes={1: "FILE --with other.hlo", 4: "unknown.hlo"}, endless="endless.hlo"),
    "compile": Row(main="FILE --emit hlo", says="HloModule",
                   codes={4: "unknown.hlo", 5: "FILE -o absent/out"}),
    "advise": Row(main="FILE", says="predicted", json="--format json", kind="advise"),
    "cost": Row(main="FILE --peaks 1e11,1e10", says="sum", json="--format json", kind="cost",
                codes={5: "FILE --peaks 1e11,1e10 -o absent/out"},
                endless="endless.hlo --peaks 1e11,1e10 --measure"),
    "diff": Row(main="small.hlo FILE", says="", json="--format json", kind="diff",
                codes={1: "FILE other.hlo", 5: "FILE other.hlo -o absent/out"}),
    "doctor": Row(main="--test none", says="processor", stdin=False, json="--format json", kind="doctor"),
    "emit": Row(main="FILE --stage hlo", says="HloModule"),
    "explain": Row(main="sum --file FILE", says="sum", json="--format json", kind="explain-instruction"),
    "export": Row(main="FILE", says="stablehlo.add", codes={4: "configured.hlo", 5: "FILE -o absent/out"}),
    "extract": Row(main="FILE sum", says="add(", json="--format json -o out.hlo", kind="extract",
                   codes={4: "unknown.hlo sum --capture out.npz", 5: "FILE sum -o absent/out"},
                   endless="endless.hlo end --capture out.npz -o out.hlo"),
    "fmt": Row(main="FILE", says="add(", codes={1: "untidy.hlo --check"}),
    "graph": Row(main="FILE --format dot", says="digraph", codes={4: "unknown.hlo --times native",
                 5: "FILE -o absent/out.dot"}, endless="endless.hlo --times native -o out.html"),
    "hash": Row(main="FILE", says="  ", json="--format json", kind="hash"),
    "import": Row(main="FILE", says="add(",
                  codes={2: "FILE --set batch=8", 4: "sized.mlir", 5: "FILE -o absent/out"}),
    "inspect": Row(main="library.o", says="f32[4]", json="--format json", kind="inspect"),
    "lint": Row(main="FILE", says="", json="--format json", kind="lint",
                codes={1: "wide.hlo", 5: "wide.hlo --fix -o absent/out"}),
    "lsp": Row(main="", says="", stdin=False),
    "memory": Row(main="FILE", says="peak", json="--format json", kind="memory",
                  codes={1: "FILE --fail-if-peak 1B", 4: "unknown.hlo", 5: "FILE -o absent/out"},
                  endless="endless.hlo --measure"),
    "new-pass": Row(main="fold-twice", says="pyproject.toml", stdin=False, codes={2: "dce"}),
    "opt": Row(main="FILE -p none", says="add(", codes={5: "FILE -p none -o absent/out"},
               endless="endless.hlo --check-each evaluate -o out.hlo"),
    "optimise-app": Row(
        main="FILE -o out --budget 0s --time 0 --cores 1 --no-image", says="chosen:", steady=False,
        json="--format json", kind="optimise-app",
        codes={2: "FILE", 4: "unknown.hlo -o out --no-image",
               5: "FILE -o small.hlo/out --no-image --budget 0s"},
        endless="endless.hlo -o out --no-image",
    ),
    "passes": Row(main="cse", says="cse", stdin=False, json="--format json", kind="passes"),
    "profile": Row(main="FILE --runs 1", says="sum", steady=False, json="--format json", kind="profile",
                   codes={4: "unknown.hlo", 5: "FILE --runs 1 -o absent/out"}, endless="endless.hlo"),
    "quantise": Row(
        main="product.hlo --to int8-weights -o -", says="s8[2,2]", steady=False,
        json="-o out.hlo --format json", kind="quantise",
        codes={2: "product.hlo --to int8", 3: "product.hlo -o out.hlo", 4: "small.hlo --to bf16 -o out.hlo",
               5: "product.hlo --to int8-weights -o absent/out"},
    ),
    "query": Row(main="name==sum FILE", says="add(", json="--format json", kind="query",
                 codes={1: "name==nothing FILE"}),
    "reduce": Row(main="FILE --cmd 'grep -q nothing {}; test $? = 0'", says="HloModule", json="--format json",
                  kind="reduce", codes={1: "FILE --cmd true"}, endless="FILE --cmd 'sleep 1000'"),
    "report": Row(main="FILE -o pages", says="index.html", codes={5: "FILE -o small.hlo/pages"}),
    "repro": Row(main="carrying.hlo", says="no failure", codes={2: "small.hlo"}),
    "run": Row(main="FILE", says="out0", json="--format json", kind="run",
               codes={1: "FILE --compare zeros.npz", 4: "unknown.hlo", 5: "FILE -o absent/out.npz"},
               endless="endless.hlo -o out.npz"),
    "schema": Row(main="hash", says="sha256", stdin=False),
    "signature": Row(main="FILE", says="f32[4]", json="--format json", kind="signature"),
    "simulate": Row(main="FILE --chip 1T,100G,1GiB", says="computes", json="--format json", kind="simulate",
                    codes={1: "FILE --chip 1T,100G,1", 2: "FILE", 5: "FILE --chip 1T,100G,1GiB -o small.hlo/out"}),
    "specialise": Row(main="FILE --set 4=8", says="f32[8]", codes={4: "unknown.hlo --set 4=8",
                      5: "FILE --set 4=8 -o absent/out"}),
    "stats": Row(main="FILE", says="add", json="--format json", kind="stats"),
    "study": Row(main="model FILE --time 0.001 --fusions 1 --clusters 1", says="compiled", steady=False,
                 json="--format json", kind="study-model",
                 codes={2: "mlp --widths nothing", 4: "model unknown.hlo", 5: "model FILE --time 0.001 -o absent/out"},
                 endless="model endless.hlo"),
    "tree": Row(main="FILE", says="main", json="--format json", kind="tree"),
    "tune": Row(
        main="FILE --trials 1 --database tuned/db.jsonl", says="quicker", steady=False,
        json="--trials 1 --database tuned/db.jsonl --format json", kind="tune",
        codes={4: "unknown.hlo --database tuned/db.jsonl", 5: "FILE --trials 1 --database small.hlo/db.jsonl"},
        endless="endless.hlo --database tuned/db.jsonl",
    ),
    "verify": Row(main="FILE", says="", json="--format json", kind="verify", codes={3: "wrong.hlo"}),
}  # fmt: skip
READERS = sorted(name for name, row in TABLE.items() if "FILE" in row.main)


@pytest.fixture
def call(processes: Processes, tmp_path: Path) -> Call:
    """Runs a line of the table, in a folder with all files, and whatever else is asked for."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "folder.hlo").mkdir()
    np.savez(tmp_path / "zeros.npz", out0=np.zeros(4, np.float32))
    return Call(processes, tmp_path)


def test_every_command_is_in_the_table() -> None:
    assert sorted(TABLE) == sorted(COMMANDS)
    for name, row in TABLE.items():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        forms = [p.type.choices for p in command.params if p.name == "form" and isinstance(p.type, click.Choice)]
        assert not forms or "json" not in forms[0] or row.json or name == "compile", f"{name} has JSON"


@pytest.mark.parametrize("name", sorted(TABLE))
def test_main_use(call: Call, name: str) -> None:
    row = TABLE[name]
    done = call(name, row.main)
    assert (done.code, row.says in done.stdout) == (row.code, True), done
    assert "Traceback" not in done.stderr
    if "FILE" in row.main and row.stdin:
        piped = call(name, row.main, "-", stdin=SMALL.encode())
        assert (piped.code, row.says in piped.stdout) == (row.code, True), piped
        if row.steady:
            assert piped.stdout in {done.stdout.replace("small.hlo", word) for word in ("-", "<stdin>")}


@pytest.mark.parametrize("name", sorted(name for name, row in TABLE.items() if row.json))
def test_json(call: Call, name: str) -> None:
    row = TABLE[name]
    done = call(name, f"{row.main} {row.json}")
    assert done.code == row.code, done
    assert check_json(done.stdout)["kind"] == row.kind


@pytest.mark.parametrize(
    ("name", "code"), [(name, code) for name, row in sorted(TABLE.items()) for code in sorted(row.codes)]
)
def test_exit_codes(call: Call, name: str, code: int) -> None:
    before = call.files()
    done = call(name, TABLE[name].codes[code])
    assert done.code == code, done
    assert "Traceback" not in done.stderr
    assert code == 1 or TABLE[name].verdicts or (done.stdout, bool(done.stderr)) == ("", True)
    assert code == 1 or call.files() == before


@pytest.mark.parametrize("name", ["", *sorted(TABLE)])
def test_help(call: Call, name: str) -> None:
    done = call(name, "--help") if name else call("--help", "")
    assert (done.code, done.stderr) == (0, "")
    assert f"Usage: hlotool {name}".rstrip() in done.stdout
    assert not {"\\b", "\b"} & set(re.findall(r"\\b|\x08", done.stdout))  # marks for click


@pytest.mark.parametrize("name", sorted(TABLE))
def test_mistakes_in_the_line(call: Call, name: str) -> None:
    done = call(name, "--nonsense")
    assert (done.code, done.stdout) == (2, "")
    assert "--nonsense" in done.stderr


@pytest.mark.parametrize("name", [*READERS, "check", "repro"])
def test_files_that_are_no_modules(call: Call, name: str) -> None:
    row, before = TABLE[name], call.files()
    for file in BAD:
        done = call(name, row.main.replace("checked.hlo", "FILE").replace("carrying.hlo", "FILE"), file)
        assert done.code == 3 or (done.code, file) == (2, "folder.hlo"), done
        assert row.verdicts or done.stdout == "", done
        assert file in done.stderr + done.stdout * row.verdicts or (name, file) == ("check", "folder.hlo"), done
        assert len(re.findall(r"\berror(?:\[|:)", done.stderr, re.IGNORECASE)) <= 1, done
        assert "Traceback" not in done.stderr
    assert call.files() == before
    if row.stdin and not row.verdicts:
        done = call(name, row.main.replace("carrying.hlo", "FILE"), "-")
        assert (done.code, done.stdout) == (3, ""), done
        assert "<stdin>" in done.stderr


@pytest.mark.parametrize("name", READERS)
def test_any_suffix_will_do(call: Call, name: str) -> None:
    done = call(name, TABLE[name].main, "named.npz")
    assert done.code == TABLE[name].code, done


@pytest.mark.parametrize("name", sorted(TABLE))
def test_streams_that_nobody_reads(call: Call, name: str) -> None:
    row, before = TABLE[name], call.files()
    away = call(name, row.main, gone=1)
    assert away.code in (0, row.code), away
    assert away.stderr == "" or name in {"new-pass", "reduce"}, away
    for made in call.files() - before:
        shutil.rmtree(call.folder / made)
    closed = call(name, row.main, closed=(1,))
    assert closed.code in (0, row.code), closed
    for options in ({"gone": 2}, {"closed": (2,)}, {"closed": (0, 1, 2)}):
        done = call(name, "--nonsense", **options)
        assert (done.code, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize("name", sorted(name for name, row in TABLE.items() if row.endless))
def test_interrupt(call: Call, processes: Processes, name: str) -> None:
    before = call.files()
    process = call.start(name, TABLE[name].endless)
    call.has_begun(process)
    os.killpg(process, signal.SIGINT)
    done = processes.end(process)
    assert (done.code, done.stdout, done.stderr.splitlines()[-1]) == (130, "", "interrupted")
    assert call.files() - before <= {"hlotool-bisect"}
    call.nobody_is_left()


@pytest.mark.parametrize("name", sorted(name for name in READERS if TABLE[name].stdin))
def test_interrupt_while_nothing_comes(call: Call, processes: Processes, name: str) -> None:
    process = call.start(name, TABLE[name].main, "-", stdin=None)
    call.is_waiting(process)
    os.killpg(process, signal.SIGINT)
    assert processes.end(process) == Done(130, "", "interrupted\n")


@pytest.mark.parametrize(("name", "line"), [("reduce", "endless.hlo --jobs 1"), ("check", "-j 2 run.hlo again.hlo")])
def test_children_end_with_a_parent_that_is_killed(call: Call, processes: Processes, name: str, line: str) -> None:
    process = call.start(name, line)
    while not any(_seconds(child) > 1.5 for child in call.children()):
        time.sleep(0.1)
    os.kill(process, signal.SIGKILL)
    assert processes.end(process).code == -signal.SIGKILL
    call.nobody_is_left()
