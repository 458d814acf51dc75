"""``hlotool extract``."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import click
import numpy.typing as npt

from hlotool.cli.common import read_module, show_diagnostics
from hlotool.cli.completion import computations, instructions
from hlotool.cli.options import file_argument, format_option, is_given, module_inputs_options
from hlotool.cli.output import write_bytes, write_text
from hlotool.cli.session import current
from hlotool.cli.words import say
from hlotool.harness.archive import write_named
from hlotool.harness.capture import capture
from hlotool.harness.capture import captured as captured_values
from hlotool.harness.input_files import module_inputs
from hlotool.harness.units import unit_text, units
from hlotool.inspect.cones import cone, paths_between
from hlotool.inspect.expression import QueryError
from hlotool.inspect.query import Query
from hlotool.inspect.select import find_computation, find_instruction
from hlotool.ir import InputError, Instruction, Module
from hlotool.ir.cut import Cut, cut
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.text.fingerprint import content_hash
from hlotool.text.printer import print_module

__all__ = ["command"]

_ALL = "all"


class _Levels(click.ParamType[int]):
    """How far: a number of edges, or ``all``."""

    name = "levels"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if value == _ALL:
            return -1
        if not value.isdecimal():
            self.fail(f"{value!r}: expected a number of edges, or all", param, ctx)
        return int(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What to cut out."""

    names: tuple[str, ...]
    query: Query | None
    backward: int
    forward: int
    between: tuple[str, str] | None
    computation: str | None


@click.command("extract")
@file_argument
@click.argument("names", nargs=-1, shell_complete=instructions)
@click.option("--query", "expression", metavar="EXPRESSION", help="Also the instructions that match (hlotool query).")
@click.option("--backward", type=_Levels(), default=0, metavar="N|all", help="With what they need, so far back.")
@click.option("--forward", type=_Levels(), default=0, metavar="N|all", help="With what needs them.")
@click.option("--between", nargs=2, metavar="A B", help="All that lies on paths from one instruction to another.",
              shell_complete=instructions)  # fmt: skip
@click.option("--computation", metavar="NAME", help="A whole computation: of a fusion, the body of a loop.",
              shell_complete=computations)  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write the module here.")
@click.option("--capture", "captured", type=click.Path(dir_okay=False), metavar="OUT.npz",
              help="Evaluate all of FILE; write the values of the inputs (arg0...) and results (out0...).")  # fmt: skip
@module_inputs_options(", for --capture and --split")
@click.option("--split", type=click.Path(file_okay=False), metavar="DIR",
              help="Every instruction as a unit test of its own, equal ones once, with manifest.json.")  # fmt: skip
@format_option
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    names: tuple[str, ...],
    expression: str | None,
    backward: int,
    forward: int,
    between: tuple[str, str] | None,
    computation: str | None,
    output: str | None,
    captured: str | None,
    inputs: str | None,
    seed: int,
    split: str | None,
    form: str,
) -> None:
    """Cut instructions out of FILE, by NAMES (NAME or COMPUTATION/NAME) or otherwise, as a module that runs.

    \b
        hlotool extract model.hlo dot.3 | hlotool run - --compare evaluate
        hlotool extract model.hlo --query 'opcode == dot' --backward 2 -o dots.hlo
        hlotool extract model.hlo --between exp.1 divide.2 --capture values.npz -o softmax.hlo
        hlotool extract model.hlo --split tests/ --random 1 && hlotool check tests/

    What is read from outside becomes parameters of the same names, constants come along, and results are what others
    read (with --backward alone, the instructions themselves).  'hlotool run OUT --inputs values.npz --compare
    values.npz' runs a cut on captured values: those of the first run of its computation, as the evaluator gives them.
    Files of --split hold CHECK-EQUAL evaluate for hlotool check, which takes made-up inputs; with --inputs or --random
    FILE is evaluated, and each unit is checked on what it reads there, which lies beside it.
    """
    given = bool(names or expression or between or computation)
    if given == (split is not None):
        raise click.UsageError("say what to cut out: names, --query, --between or --computation; or --split alone")
    if split is not None and (output or captured or backward or forward):
        raise click.UsageError("--split takes no -o, --capture, --backward and --forward")
    given_inputs = is_given("inputs", "seed")
    if given_inputs and captured is None and split is None:
        raise click.UsageError("--inputs and --random are for --capture and --split")
    if form == "json" and split is None and output in (None, "-"):
        raise click.UsageError("--format json needs -o FILE for the module")
    try:
        query = None if expression is None else Query(expression)
    except QueryError as error:
        current().sources["<query>"] = expression or ""
        show_diagnostics(error.diagnostics)
        ctx.exit(2)
    module = read_module(file)
    if split is not None:
        arguments = module_inputs(module, inputs, seed) if given_inputs else None
        answer = _split(module, file, Path(split), arguments)
    else:
        choice = _Choice(names=names, query=query, backward=backward, forward=forward, between=between,
                         computation=computation)  # fmt: skip
        answer = _extract(module, file, choice, output, captured, inputs, seed)
    if form == "json":
        click.echo(json.dumps(answer, indent=1))
    elif split is not None:
        count = sum(row["count"] for row in answer["modules"])
        left = f"; {len(answer['left_out'])} left out" if answer["left_out"] else ""
        say(f"{split}: {len(answer['modules'])} modules for {count} instructions{left}")


def _chosen(module: Module, choice: _Choice) -> Cut:
    if choice.computation is not None:
        if choice.names or choice.query or choice.between or choice.backward or choice.forward:
            raise click.UsageError("--computation takes all of one computation, and nothing else")
        home = find_computation(module, choice.computation)
        return cut(list(home), [home.root])
    starts = [find_instruction(module, name) for name in choice.names]
    if choice.query is not None:
        matching = list(choice.query.matches(module))
        if not matching:
            raise InputError(f"no instruction matches {choice.query.source!r}")
        starts += matching
    if choice.between is not None:
        starts += paths_between(*(find_instruction(module, name) for name in choice.between))
    found = cone(starts, *(None if levels < 0 else levels for levels in (choice.backward, choice.forward)))
    _one_home(found)
    if choice.backward and not choice.forward:  # what they need is there for their sake
        return cut(found, [one for one in dict.fromkeys(starts) if one.opcode != "parameter"])
    return cut(found)


def _one_home(found: Collection[Instruction]) -> None:
    homes = sorted({i.parent.name for i in found if i.parent is not None})
    if len(homes) > 1:
        raise InputError(
            f"the instructions are in {len(homes)} computations ({', '.join(homes[:4])}): 'computation == {homes[0]}' "
            "in a query, or COMPUTATION/NAME, chooses one"
        )


def _extract(
    module: Module,
    file: str,
    choice: _Choice,
    output: str | None,
    captured: str | None,
    inputs: str | None,
    seed: int,
) -> dict[str, Any]:
    made = _chosen(module, choice)
    check(made.module)
    if captured is not None:
        values = capture(module, module_inputs(module, inputs, seed), (*made.parameters, *made.results))
        rows = [
            (f"{prefix}{number}", array)
            for prefix, sources in (("arg", made.parameters), ("out", made.results))
            for number, array in enumerate(array for source in sources for array in values[source])
        ]
        write_bytes(captured, lambda stream: write_named(stream, rows))
    write_text(output, print_module(made.module))
    row = {**_row(output or "-", content_hash(made.module), made.results), "inputs": captured}
    return {"schema_version": 1, "kind": "extract", "file": file, "modules": [row], "left_out": []}


def _split(
    module: Module, file: str, folder: Path, arguments: Sequence[npt.NDArray[Any]] | None
) -> dict[str, Any]:
    """Write all units; with `arguments` also what each first source reads where FILE gets them, if it comes by it."""
    found, left_out = units(module)
    read = [source for unit in found for source in unit.cut.parameters]
    values = None if arguments is None else captured_values(module, arguments, read)
    os.makedirs(folder, exist_ok=True)
    rows = []
    for unit in found:
        inputs = None
        if values is not None and unit.cut.parameters and all(one in values for one in unit.cut.parameters):
            inputs = f"{unit.name}.npz"
            arrays = [array for source in unit.cut.parameters for array in values[source]]
            named = [(f"arg{number}", array) for number, array in enumerate(arrays)]
            write_bytes(str(folder / inputs), partial(_write_named, named))
        write_text(str(folder / f"{unit.name}.hlo"), unit_text(unit, file, inputs))
        rows.append({**_row(f"{unit.name}.hlo", unit.sha256, unit.sources), "inputs": inputs})
    answer = {
        "schema_version": 1,
        "kind": "extract",
        "file": file,
        "modules": rows,
        "left_out": [{**_source(one.instruction), "reason": one.reason} for one in left_out],
    }
    write_text(str(folder / "manifest.json"), json.dumps(answer, indent=1) + "\n")
    return answer


def _write_named(arrays: Sequence[tuple[str, npt.NDArray[Any]]], stream: IO[bytes]) -> None:
    write_named(stream, arrays)


def _row(file: str, digest: str, sources: Collection[Instruction]) -> dict[str, Any]:
    return {"file": file, "sha256": digest, "count": len(sources), "sources": [_source(one) for one in sources]}


def _source(instruction: Instruction) -> dict[str, Any]:
    metadata = instruction.metadata
    return {
        "computation": instruction.parent.name if instruction.parent else None,
        "instruction": instruction.name,
        "opcode": instruction.written,
        "op_name": metadata.op_name or None if metadata else None,
    }
