"""All planted miscompiles in modules of 500 to 20,000 instructions: does ``hlotool bisect rewrites`` name each?

    python tests/survey_bisect.py [KIND...]     a table: the place, whether pass and rewrite are named, tries, seconds
    python tests/survey_bisect.py --reduce      and through ``hlotool reduce``: how many instructions are left

Sizes, the place in the pipeline and that in the module change from kind to kind.  Exit code 1 where one was missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from planted_rewrites import KINDS, WRONG, Planted, varied_module

from hlotool.analysis.decisions import DecisionLog
from hlotool.cli import COMMANDS
from hlotool.driver import optimise
from hlotool.passes.framework.steps import Pipeline
from hlotool.text.parser import parse

ROOT = Path(__file__).parents[1]
SIZES = (500, 500, 1000, 2000, 5000, 500, 1000, 2000, 5000, 20_000)
PIPELINES = (
    "unfuse,expand,inline,PLANTED,default",
    "unfuse,expand,inline,zero-sized-hlo-elimination,cse,PLANTED,dce,fusion,copy-insertion,dce",
    "PLANTED,default",
)
"""Where the wrong pass stands: ahead of what simplifies and fuses, which has to be told apart from it."""


def installed(home: Path) -> dict[str, str]:
    """An environment with the pass ``planted``."""
    information = home / "planted-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[hlotool.passes]\nplanted = planted_rewrites:Planted\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(home), str(Path(__file__).parent)])}


def case(number: int) -> tuple[str, str, int]:
    """The text of the module, the pipeline without the planted pass, and the place of the wrong rewrite there."""
    kind = list(KINDS)[number]
    text = varied_module(SIZES[number % len(SIZES)])
    pipeline = PIPELINES[number % len(PIPELINES)]
    log = DecisionLog()
    ahead = pipeline.partition("PLANTED")[0].rstrip(",")
    optimise(optimise(parse(text), ahead), Pipeline((Planted(kind, 1),)), log)
    total = log.counts()["planted", kind]
    at = 1 + (total - 1) * (3 + 2 * number % 7) // 11
    return text, pipeline, at


def main(arguments: list[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    reducing = "--reduce" in arguments
    wanted = [word for word in arguments if not word.startswith("-")] or list(KINDS)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        env = installed(home / "packages")
        print(f"{'planted':22}{'instructions':>13}{'at':>6}  pass     rewrite    of  tries  seconds")
        for number, kind in enumerate(KINDS):
            if kind not in wanted:
                continue
            text, pipeline, at = case(number)
            path = home / f"{kind}.hlo"
            path.write_text(text)
            passes = pipeline.replace("PLANTED", f"planted{{kind={kind},at={at}}}")
            command = [sys.executable, "-m", "hlotool"]
            bisect = [*command, "bisect", "rewrites", str(path), "-p", passes, "--format", "json", "-o", "out"]
            start = time.perf_counter()
            done = subprocess.run(bisect, capture_output=True, text=True, env=env, check=False, cwd=home)
            seconds = time.perf_counter() - start
            count = parse(text).instruction_count()
            if done.returncode:
                missed += 1
                said = (done.stdout or done.stderr).strip().splitlines()[-1:]
                print(f"{kind:22}{count:13,}{at:6}  MISSED (exit code {done.returncode}) {said}", flush=True)
                continue
            answer = json.loads(done.stdout)
            rewrite = answer["rewrite"] or {"first": 0, "of": 0, "decisions": []}
            named = [row["reason"] for row in rewrite["decisions"]] == [WRONG]
            missed += not named
            row = f"{answer['pass']['name']:8}{rewrite['first']:8}{rewrite['of']:6}{answer['tries']:7}{seconds:9.1f}"
            print(f"{kind:22}{count:13,}{at:6}  {row}{'' if named else '  MISSED'}", flush=True)
            if reducing:
                print(_reduced(command, path, passes, env, home), flush=True)
    print(f"{len(wanted) - missed} of {len(wanted)} named")
    return 1 if missed else 0


def _reduced(command: list[str], path: Path, passes: str, env: dict[str, str], home: Path) -> str:
    """What ``hlotool reduce`` leaves of the module."""
    if "reduce" not in COMMANDS:
        return "    hlotool has no command 'reduce'"
    target = home / "reduced.hlo"
    target.unlink(missing_ok=True)
    start = time.perf_counter()
    done = subprocess.run(
        [*command, "reduce", str(path), "-p", passes, "-o", str(target)], capture_output=True, text=True, env=env,
        check=False, cwd=home,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    if not target.exists():
        return f"    reduce: exit code {done.returncode}: {done.stderr.strip()[-200:]}"
    return f"    reduced to {parse(target.read_text()).instruction_count()} instructions in {seconds:.1f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
