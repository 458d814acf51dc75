"""``hlotool lint``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from difflib import unified_diff
from typing import Any

import click
from click.shell_completion import CompletionItem

import hlotool
from hlotool.cli.common import read_all_modules, show_diagnostics
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import diagnostics_format_option
from hlotool.cli.output import write_text
from hlotool.cli.session import current
from hlotool.cli.words import say
from hlotool.ir import Diagnostic, Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.lint import RULES, Finding, Rule, lint
from hlotool.lint.comments import Silence, silence_of
from hlotool.text.diagnostics import render, to_json
from hlotool.text.load import SEPARATOR
from hlotool.text.page import Page
from hlotool.text.printer import print_module
from hlotool.text.reports import concise, github, sarif

__all__ = ["command", "page_of"]


@dataclass(frozen=True, slots=True)
class _Found:
    """Something found: the rule, what it found, and that as a diagnostic."""

    rule: Rule
    finding: Finding
    diagnostic: Diagnostic


class _Codes(click.ParamType[frozenset[str]]):
    """The codes that a list with commas names: codes, their beginnings, names of rules, or ``all``."""

    name = "codes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        found: set[str] = set()
        for word in filter(None, (part.strip() for part in value.split(","))):
            start = word.upper() if word.upper().startswith("HLO") else f"HLO{word}"
            these = {code for code, rule in RULES.items() if word in ("all", rule.name) or code.startswith(start)}
            if not these:
                self.fail(f"no rule is called {word!r}; --list shows them", param, ctx)
            found |= these
        return frozenset(found)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        titles = {name: rule.title for code, rule in RULES.items() for name in (code, rule.name)}
        return [
            CompletionItem(f"{before}{comma}{name}", help=title)
            for name, title in {**titles, "all": "all rules"}.items()
            if name.startswith(last)
        ]


@click.command("lint")
@click.argument("files", nargs=-1, type=click.Path(dir_okay=False, allow_dash=True))
@diagnostics_format_option
@click.option(
    "--select", type=_Codes(), metavar="CODES", help="Ask these rules: HLO6005, HLO61 for all that begin so, all."
)
@click.option("--ignore", type=_Codes(), metavar="CODES", help="Leave these rules out.")
@click.option("--fix", is_flag=True, help="Write the module with what can be mended for sure; see -o.")
@click.option("--diff", is_flag=True, help="Show what --fix would change.")
@click.option("--check/--no-check", default=True, show_default=True, help="Whether to try that fixes change no value.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever is found.")
@click.option("--list", "list_rules", is_flag=True, help="List the rules.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write the mended module here.")
def command(
    files: tuple[str, ...],
    form: str,
    select: frozenset[str] | None,
    ignore: frozenset[str] | None,
    fix: bool,
    diff: bool,
    check: bool,
    exit_zero: bool,
    list_rules: bool,
    output: str | None,
) -> None:
    """Look for smells in FILES: what is valid, but loses numbers, or does work for nothing.

    \b
        hlotool lint model.hlo                      exit 1 where something is found
        hlotool lint --select all model.hlo         with notes: what is often right as it is
        hlotool lint --fix model.hlo -o better.hlo  mend what can be mended for sure; exit 1 where something is left
        hlotool explain HLO6005                     what a finding means, with examples

    An instruction with frontend_attributes={lint="off:HLO6005"} is left alone by a rule, with lint="off" by all; so is
    one whose line ends in // lint: off HLO6005, or that follows a line of its own that says so; // lint: off-file
    HLO6005 is for a whole file.

    Fixes are tried on made-up inputs: no result may be further from its true value (in wider floats) than it was, by
    more than the rounding that any correct compiler may do; a module that cannot be tried takes --no-check.
    """
    if list_rules:
        _list()
        return
    if not files:
        raise click.UsageError("Missing argument 'FILES...'.")
    if output is not None and not fix:
        raise click.UsageError("-o goes with --fix")
    if (fix or diff) and (len(files) != 1 or (fix and diff) or form not in ("text", "concise")):
        raise click.UsageError("--fix and --diff take one file, each goes without the other, and with text alone")
    rules = _chosen(select, ignore)
    found: list[_Found] = []
    for file in files:
        modules = read_all_modules(file)
        silence = _silence(modules)
        found += [one for module in modules for one in _found(module, rules, silence)]
        if fix or diff:
            show_diagnostics([one.diagnostic for one in found])
            _mend(file, modules, rules, silence, check, diff, output)
    if not (fix or diff):
        _FORMS[form](found)
    left = [one for one in found if not (fix and one.finding.fix)]
    if left and not exit_zero:
        raise CheckFailed


def _chosen(select: frozenset[str] | None, ignore: frozenset[str] | None) -> list[Rule]:
    asked = {code for code, rule in RULES.items() if not rule.note} if select is None else select
    return [RULES[code] for code in sorted(asked - (ignore or frozenset()))]


def _silence(modules: Sequence[Module]) -> Silence:
    """What the comments of the file silence, from which the modules are; those of protocol buffers have none."""
    place = modules[0].entry.location if modules else None
    names = [place.file] if place is not None else []
    texts = [current().sources[name] for name in names if name in current().sources]
    return silence_of(texts[0] if texts else "")


def _found(module: Module, rules: Sequence[Rule], silence: Silence) -> list[_Found]:
    found = []
    for rule, finding in lint(module, rules):
        if silence.hides(rule.code, finding.instruction):
            continue
        place = finding.instruction.location
        hint = f"{finding.hint} (--fix does it)" if finding.fix is not None else finding.hint
        severity = "note" if rule.note else "warning"
        message = f"{finding.instruction.name}: {finding.message}"
        found.append(_Found(rule, finding, Diagnostic(message, place, hint, rule.code, severity)))
    return found


# ---- fixes


def _mend(
    file: str, modules: Sequence[Module], rules: Sequence[Rule], silence: Silence, check: bool, diff: bool,
    output: str | None,
) -> None:  # fmt: skip
    from hlotool.harness.lint_fixes import fixed

    before = f"\n{SEPARATOR}\n\n".join(print_module(module) for module in modules)
    mended = [fixed(module, rules, silence) for module in modules]
    if check:
        for module, one in zip(modules, mended, strict=True):
            _try(module, one.module, bool(one.applied))
    text = f"\n{SEPARATOR}\n\n".join(print_module(one.module) for one in mended)
    count = sum(sum(one.applied.values()) for one in mended)
    if diff:
        lines = unified_diff(before.splitlines(True), text.splitlines(True), file, f"{file} (mended)")
        write_text(None, "".join(lines))
    else:
        write_text(output, text)
    how = "" if not count else ", no result is worse" if check else ", not tried"
    say(f"{count} mended{how}", err=True)


def _try(module: Module, mended: Module, changed: bool) -> None:
    """Refuse a mended module that computes worse."""
    from hlotool.harness.compare import verdict_of
    from hlotool.harness.lint_fixes import no_worse

    if not changed:
        return
    try:
        comparisons = no_worse(module, mended)
    except UnsupportedError as error:
        raise UnsupportedError(f"the fixes cannot be tried: {error.message}; --no-check goes without") from error
    verdict = verdict_of(comparisons)
    if verdict != "ok":
        number = next(n for n, one in enumerate(comparisons) if not one.ok)
        say(f"nothing is written: out{number} of the mended module: {verdict}: {comparisons[number]}", err=True)
        raise CheckFailed


# ---- reports


def _text(found: Sequence[_Found]) -> None:
    for one in found:
        place = one.diagnostic.location
        source = current().sources.get(place.file) if place is not None else None
        say(render(one.diagnostic, source))
    if found:
        fixable = sum(one.finding.fix is not None for one in found)
        more = f", {fixable} that --fix mends" if fixable else ""
        say(f"{len(found)} found{more}; 'hlotool explain {found[0].rule.code}' says more", err=True)


def _json(found: Sequence[_Found]) -> None:
    head = {"schema_version": 1, "kind": "lint", "tool_version": hlotool.__version__}
    rows = [
        {
            **to_json(one.diagnostic), "rule": one.rule.name, "instruction": one.finding.instruction.name,
            "computation": one.finding.instruction.parent.name if one.finding.instruction.parent is not None else None,
            "fixable": one.finding.fix is not None,
        }
        for one in found
    ]  # fmt: skip
    click.echo(json.dumps({**head, "findings": rows}, indent=1))


def _concise(found: Sequence[_Found]) -> None:
    for one in found:
        say(concise(one.diagnostic))


def _github(found: Sequence[_Found]) -> None:
    for one in found:
        say(github(one.diagnostic))


def _sarif(found: Sequence[_Found]) -> None:
    pages = {code: page_of(rule) for code, rule in RULES.items()}
    log: dict[str, Any] = sarif([one.diagnostic for one in found], hlotool.__version__, pages)
    click.echo(json.dumps(log, indent=1))


_FORMS: dict[str, Callable[[Sequence[_Found]], None]] = {
    "text": _text,
    "concise": _concise,
    "json": _json,
    "github": _github,
    "sarif": _sarif,
}


def _list() -> None:
    for code, rule in RULES.items():
        say(f"{code}  {rule.name:22} {'note: ' if rule.note else ''}{rule.title}")


def page_of(rule: Rule) -> Page:
    """What ``hlotool explain`` says about a rule."""
    return Page(rule.code, f"{rule.title}  (lint, {rule.name})", rule.meaning, rule.wrong, rule.right)
