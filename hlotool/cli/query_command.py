"""``hlotool query``."""

from __future__ import annotations

import json

import click

import hlotool
from hlotool.cli.common import show_diagnostics
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import form_option
from hlotool.cli.session import current
from hlotool.cli.viewing import view_module
from hlotool.cli.words import say
from hlotool.inspect.expression import QueryError
from hlotool.inspect.query import Query, describe, one_line
from hlotool.ir import Instruction
from hlotool.text.sources import Sources

__all__ = ["command"]


@click.command("query")
@click.argument("expression")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--count", "-c", is_flag=True, help="Print only how many instructions match.")
@form_option("text", "json", "jsonl", words="Lines for people, one JSON object, or one per line.")
@click.pass_context
def command(ctx: click.Context, expression: str, files: tuple[str, ...], count: bool, form: str) -> None:
    """Print the instructions of FILES for which EXPRESSION holds, as file:line: name = shape opcode(...).

    \b
        hlotool query 'opcode == dot and bytes > 1MiB' model.hlo
        hlotool query 'not opcode in [tuple, parameter] and users == 0' model.hlo
        hlotool query 'op_name =~ "attention.*softmax"' model.hlo
        hlotool query 'opcode == add and has_operand(opcode == dot)' model.hlo
        hlotool query '0 in attr.dimensions and type == bf16' model.hlo

    Fields: name, opcode, group, type, shape, rank, size (elements), bytes (of the result), flops, traffic (bytes read
    and written), computation, operands, users (a count, or names), op_name, source_file, source_line, is_root, and
    attr.NAME for any attribute.  Operators: == != < <= > >= =~ !~ in, not in, and, or, not.  Functions:
    has_operand(...), has_user(...).  Words that are no fields are text; numbers take KB, MB, KiB, MiB...

    Exits 0 when something matched and 1 when nothing did.
    """
    try:
        query = Query(expression)
    except QueryError as error:
        current().sources["<query>"] = expression
        show_diagnostics(error.diagnostics)
        ctx.exit(2)
    found = 0
    rows = []
    for file in files:
        module = view_module(file).module
        sources = Sources(module)
        name = "<stdin>" if file == "-" else file
        for instruction in query.matches(module):
            found += 1
            if count:
                continue
            if form == "json":
                rows.append({**describe(instruction, sources), "file": name})
            else:
                _show(name, instruction, sources, form)
    if form == "json":
        head = {"schema_version": 1, "kind": "query", "tool_version": hlotool.__version__, "expression": expression}
        click.echo(json.dumps({**head, "count": found, **({} if count else {"matches": rows})}, indent=1))
    elif count:
        click.echo(json.dumps({"count": found}) if form == "jsonl" else str(found))
    if not found:
        raise CheckFailed


def _show(name: str, instruction: Instruction, sources: Sources, form: str) -> None:
    if form == "jsonl":
        click.echo(json.dumps({**describe(instruction, sources), "file": name}))
    else:
        place = f"{name}:{instruction.location.line}" if instruction.location else name
        say(f"{place}: {one_line(instruction)}")
