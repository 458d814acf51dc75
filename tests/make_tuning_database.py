"""Make the tuning databases that hlotool brings along, in hlotool/runtime/tuned.

    python tests/make_tuning_database.py KERNELS.json --cpu x86-64-v3 --seconds 120

KERNELS.json is what ``tests/survey_tune.py --list`` writes.  Only choices are searched that leave every bit as it is,
and only gains are kept that two measurements apart from the search confirm.  A database is for the processor that it
was made on, as code generation sees it: instructions, caches, cores.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from survey_tune import ratio

from hlotool.codegen.configured import checked
from hlotool.codegen.machine import host, named
from hlotool.driver.tuned import VERSION, Entry
from hlotool.harness.tune import Budget, Journal, Local, Plan, Subject, add_entries, search
from hlotool.harness.tune.trial import Setting
from hlotool.harness.tune.write import text_of
from hlotool.inspect.files import write_file
from hlotool.runtime import tuning
from hlotool.runtime.tuning import target_key

_LEAST = 0.98
"""What a kernel may take of its untuned time, at most, in both measurements."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels")
    parser.add_argument("--cpu")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--count", type=int, default=40)
    given = parser.parse_args()
    machine = host() if given.cpu is None else named(given.cpu)
    subjects = [Subject(**row) for row in json.loads(Path(given.kernels).read_text())][: given.count]
    lab, target = Local(Setting(machine, None, True)), target_key(machine)
    try:
        result = search(
            subjects, lab, Budget(given.seconds), Plan(exact=True), Journal.open(None, {}), lambda words: None
        )
    finally:
        lab.close()
    rows = {
        one.subject.key: Entry(
            scope="kernel", key=one.subject.key, target=target, version=VERSION, about=one.subject.about,
            choices=checked(dict(one.values), one.subject.about), costs={}, gain=round(one.gain, 4),
            seconds=one.seconds, exact=True,
        )
        for one in result.found if one.exact
    }  # fmt: skip
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.jsonl"
        add_entries(path, rows.values(), write_file)
        os.environ["HLOTOOL_TUNE_DATABASE"] = str(path)
        for subject in subjects:
            if subject.key in rows:
                highest = [ratio(subject, given.cpu, 0.7)[2] for _ in range(2)]
                if max(highest) < _LEAST:
                    kept.append(rows[subject.key])
                print(f"{subject.about[:50]:50} {max(highest):.3f} {rows[subject.key].choices.text()}", flush=True)
    home = Path(tuning.__file__).with_name("tuned")
    home.mkdir(exist_ok=True)
    (home / f"{target.replace(' ', '_')}.jsonl").write_text(text_of(kept), encoding="utf-8")
    print(f"{len(result.tries)} candidates, {len(kept)} kept for {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
