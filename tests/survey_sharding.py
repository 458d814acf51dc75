"""Programs with shardings as JAX hands them over, and what XLA's partitioner makes of them.

    python tests/survey_sharding.py --jax-python PYTHON [--only PATTERN] [--write]

Runs `tests/sharded_programs.py` by a Python that has JAX, twice: with Shardy, JAX's default, and with GSPMD.  Prints,
per program, what the collectives of XLA's modules move, and how many values of arrays hlotool's propagation gives the
sharding that GSPMD's gives them.  With --write, ``tests/data/sharded`` gets the modules, without metadata, as
``NAME.hlo`` (and ``NAME.gspmd.hlo`` where the two differ in how they call functions of parts of arrays), and
``NAME.json``: the collectives of XLA's partitioned modules.

Bytes are those that a device sends in a ring, per run of the module: ``2 (n-1)/n`` of an all-reduce of n devices,
``(n-1)/n`` of the whole for all-gather, reduce-scatter and all-to-all, all of a collective-permute.  Loops count by
their trips.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from hlotool.analysis.decisions import DecisionLog
from hlotool.analysis.trip_count import known_trip_count
from hlotool.driver import optimise
from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.devices import device_groups, topology_of
from hlotool.ir.sharding import Sharding, parse_sharding
from hlotool.passes import parse_pipeline
from hlotool.text.parser import parse
from hlotool.text.printer import PrintOptions, print_module

DATA = Path(__file__).parent / "data" / "sharded"
_COLLECTIVES = frozenset({"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute"})


def collectives_of(module: Module) -> list[dict[str, Any]]:
    """The collectives of a partitioned module, with the bytes that a device sends."""
    found: list[dict[str, Any]] = []
    _collect(module.entry, 1, module, found)
    return found


def _collect(computation: Computation, times: int, module: Module, found: list[dict[str, Any]]) -> None:
    for one in computation:
        opcode = one.opcode.removesuffix("-start")
        if opcode in _COLLECTIVES:
            groups = device_groups(one, topology_of(module)) if opcode != "collective-permute" else ()
            size = len(groups[0]) if groups else 2
            row = {"opcode": opcode, "shape": str(one.shape), "group": size, "times": times}
            found.append({**row, "bytes": times * _sent(one, opcode, size)})
        trips = (known_trip_count(one) or 1) if one.opcode == "while" else 1
        for callee in one.called if one.opcode in ("while", "call", "conditional", "fusion") else ():
            _collect(callee, times * trips, module, found)


def _sent(one: Instruction, opcode: str, size: int) -> int:
    given = sum(operand.shape.byte_size for operand in one.operands)
    share = {"all-reduce": 2 * (size - 1) / size, "all-gather": size - 1.0, "collective-permute": 1.0}
    return round(given * share.get(opcode, (size - 1) / size))


def _agreement(source: Module, theirs: Module) -> tuple[int, int]:
    """How many array values have the sharding that XLA gives them, of those that it gives one."""
    source = optimise(source, parse_pipeline("sharding-propagation"), DecisionLog())
    ours = {one.name: one for one in source.instructions()}
    same = count = 0
    for one in theirs.instructions():
        mine, written = ours.get(one.name), one.attributes.get("sharding")
        if mine is None or written is None or not one.shape.is_array or not one.shape.rank:
            continue
        count += 1
        own = mine.attributes.get("sharding")
        wanted = parse_sharding(written.text)
        got = parse_sharding(own.text) if own is not None else Sharding("replicated")
        same += got == wanted
    return same, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax-python", default=sys.executable)
    parser.add_argument("--only", default="")
    parser.add_argument("--recorded", type=Path, help="a folder of an earlier run, instead of running JAX")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    folder = options.recorded or Path(tempfile.mkdtemp(prefix="sharded-"))
    script = Path(__file__).parent / "sharded_programs.py"
    for kind, more in (("shardy", []), ("gspmd", ["--gspmd"])):
        if options.recorded is None:
            subprocess.run([options.jax_python, str(script), str(folder / kind), *more], check=True)
    print(f"{'program':<24}{'shardy bytes':>14}{'gspmd bytes':>14}  same as GSPMD's propagation")
    for path in sorted((folder / "shardy").glob("*.partitioned.hlo")):
        name = path.name.split(".")[0]
        if not re.search(options.only, name):
            continue
        rows = {
            kind: collectives_of(parse((folder / kind / f"{name}.partitioned.hlo").read_text()))
            for kind in ("shardy", "gspmd")
        }
        bytes_of = {kind: sum(row["bytes"] for row in found) for kind, found in rows.items()}
        given = {kind: parse((folder / kind / f"{name}.hlo").read_text()) for kind in ("shardy", "gspmd")}
        if options.write:
            _write(name, given, rows, bytes_of)
        same, count = _agreement(given["gspmd"], parse((folder / "gspmd" / f"{name}.propagated.hlo").read_text()))
        print(f"{name:<24}{bytes_of['shardy']:>14,}{bytes_of['gspmd']:>14,}  {same} of {count}")


def _write(name: str, given: dict[str, Module], rows: dict[str, Any], bytes_of: dict[str, int]) -> None:
    DATA.mkdir(exist_ok=True)
    plain = PrintOptions(metadata=False, backend_config=True)
    (DATA / f"{name}.hlo").write_text(print_module(given["shardy"], plain))
    if any(one.attributes.get("custom_call_target", "").startswith("SPMD") for one in given["gspmd"].instructions()):
        (DATA / f"{name}.gspmd.hlo").write_text(print_module(given["gspmd"], plain))
    content = {kind: {"bytes": bytes_of[kind], "collectives": found} for kind, found in rows.items()}
    (DATA / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
