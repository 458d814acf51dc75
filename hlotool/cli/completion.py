"""What a shell is offered for values of options and arguments, by ``shell_complete`` of click.

A shell waits for the answer at every key: files are looked at as text, and where something is wrong nothing is offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

__all__ = [
    "backends",
    "codes",
    "computations",
    "cpus",
    "explained",
    "instructions",
    "pass_or_pipeline",
    "passes",
    "pipelines",
]

_LOOKED_AT = 8 << 20
"""Bytes of a file in which names are looked for."""
_INSTRUCTION = re.compile(r"^\s+(?:ROOT\s+)?%?([\w.-]+)\s*=\s", re.MULTILINE)
_COMPUTATION = re.compile(r"^(?:ENTRY\s+)?%?([\w.-]+)\s*(?:\(.*)?\{\s*$", re.MULTILINE)


def _items(words: Iterable[tuple[str, str]], incomplete: str, before: str = "") -> list[CompletionItem]:
    return [CompletionItem(before + word, help=about) for word, about in words if word.startswith(incomplete)]


def _named(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, "") for name in names]


def _pass_rows() -> list[tuple[str, str]]:
    from hlotool.ir import HloError
    from hlotool.passes.framework.registry import find_pass, pass_help, pass_names

    rows = []
    for name in pass_names():
        with suppress(HloError):  # of another package, and not to be loaded
            rows.append((name, pass_help(find_pass(name)).partition("\n")[0]))
    return rows


def _pipeline_rows() -> list[tuple[str, str]]:
    from hlotool.cli.config import named_pipelines
    from hlotool.ir import HloError
    from hlotool.passes.framework.registry import PIPELINES

    rows = [(name, f"pipeline: {text or 'no passes'}") for name, text in PIPELINES.items()]
    with suppress(HloError, click.ClickException):
        rows += [(name, f"pipeline: {text}") for name, text in named_pipelines().items()]
    return rows


def passes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of passes, with commas between them."""
    head, comma, last = incomplete.rpartition(",")
    return _items(_pass_rows(), last, head + comma)


def pass_or_pipeline(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The name of a pass or of a pipeline."""
    return _items([*_pass_rows(), *_pipeline_rows()], incomplete)


def pipelines(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The last name in a pipeline, or, in its braces, an option of it."""
    inside = re.search(r"([\w-]+)\{[^{}]*$", incomplete)
    if inside is None:
        begin = re.split(r"[,(]", incomplete)[-1]
        return _items([*_pass_rows(), *_pipeline_rows()], begin, incomplete.removesuffix(begin))
    from hlotool.ir import HloError
    from hlotool.passes.framework.registry import find_pass, pass_names, pass_options

    begin = re.split(r"[{,]", incomplete)[-1]
    with suppress(HloError):
        if inside[1] in pass_names():
            rows = [(f"{name}=", f"default: {o.default}") for name, o in pass_options(find_pass(inside[1])).items()]
            return _items(rows, begin, incomplete.removesuffix(begin))
    return []


def backends(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from hlotool.driver import backend_names

    return _items(_named(backend_names()), incomplete)


def cpus(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A processor, and after a comma what may differ from it."""
    from hlotool.codegen.machine import NAMES

    head, comma, last = incomplete.rpartition(",")
    if comma:
        return _items(_named(["l1=", "l2=", "l3=", "cores=", "triple="]), last, head + comma)
    return _items(_named(NAMES), incomplete)


def codes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Codes of diagnostics, of decisions and of smells."""
    from hlotool.analysis.decision_codes import KINDS
    from hlotool.lint import RULES
    from hlotool.text.codes import CATALOGUE

    rows = [(page.code, page.title) for page in CATALOGUE.values()]
    rows += [(kind.code, kind.title) for kind in KINDS.values()] + [(rule.code, rule.title) for rule in RULES.values()]
    return _items(sorted(rows), incomplete.upper())


def _found(ctx: click.Context, pattern: re.Pattern[str], incomplete: str) -> list[CompletionItem]:
    # Where the line ends in an option without its value, click leaves arguments as they are.
    file = ctx.params.get("file") or next(iter(ctx.args), "-")
    if file == "-":
        return []
    try:
        with open(file, "rb") as stream:
            text = stream.read(_LOOKED_AT).decode("utf-8", "replace")
    except OSError:
        return []
    return _items(_named(dict.fromkeys(pattern.findall(text))), incomplete)


def instructions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of instructions in FILE."""
    return _found(ctx, _INSTRUCTION, incomplete)


def computations(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of computations in FILE."""
    return _found(ctx, _COMPUTATION, incomplete)


def explained(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A code, ``fusion FILE A B`` or ``sharding FILE NAME``; or an instruction of --file."""
    if ctx.params.get("file"):
        return instructions(ctx, param, incomplete)
    words: tuple[str, ...] = ctx.params.get("words") or ()
    if words[:1] not in (("fusion",), ("sharding",)):
        kinds = [("fusion", "why two instructions are fused or not"), ("sharding", "where a sharding comes from")]
        return [*codes(ctx, param, incomplete), *_items(kinds, incomplete)]
    if len(words) == 1:
        return [CompletionItem(incomplete, type="file")]
    ctx.params["file"] = words[1]
    return instructions(ctx, param, incomplete)
