"""``hlotool explain``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from hlotool.analysis.decision_codes import KINDS, DecisionKind, find_kind
from hlotool.analysis.decisions import Decision, DecisionLog
from hlotool.cli.clusters_report import clusters_json, clusters_of_file, clusters_text
from hlotool.cli.completion import explained
from hlotool.cli.lint_command import page_of
from hlotool.cli.options import format_option, strict_option
from hlotool.cli.passes_options import named_pipeline, passes_options
from hlotool.cli.tables import time_text
from hlotool.cli.times_option import read_or_measure, times_option
from hlotool.cli.viewing import view_module
from hlotool.cli.words import say
from hlotool.codegen.kernel import KernelCrash
from hlotool.driver import optimise
from hlotool.driver.predict import predict
from hlotool.inspect.reasons import Blame, Compilation, FusionAnswer, Hop, explain_fusion, explain_instruction, title_of
from hlotool.inspect.sharding_origin import explain_sharding
from hlotool.ir import HloError, Instruction, Module, VerificationError
from hlotool.lazy_dataclass import dataclass
from hlotool.lint import RULES
from hlotool.text.codes import CATALOGUE, find_page, near_codes
from hlotool.text.page import Page
from hlotool.text.printer import PrintOptions, print_instruction
from hlotool.text.sources import Sources

if TYPE_CHECKING:
    from hlotool.harness.times import Times

__all__ = ["command"]

_TEXT = PrintOptions(metadata=False, annotations=False, layouts=False, elide_above=16, index_comments=False)
_MOST = 40


@click.command("explain")
@click.argument("words", nargs=-1, shell_complete=explained)
@click.option("--file", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE", help="The module of NAME.")
@passes_options()
@times_option(help_="; tells what NAME's kernel takes")
@format_option
@strict_option
def command(words: tuple[str, ...], file: str | None, passes: str, times: str | None, form: str) -> None:
    """Explain a code, a fusion, clusters, a sharding, or an instruction.  Without WORDS, list all codes.

    \b
        hlotool explain HLO0102                 what an error means, or a choice of a pass (HLO4012)
        hlotool explain fusion FILE A B         why A and B are in one kernel, or are not
        hlotool explain clusters FILE BACKEND   what a backend compiles of FILE, and why it leaves the rest
        hlotool explain sharding FILE NAME      how NAME is cut among devices, and where that comes from
        hlotool explain NAME --file FILE        what NAME was made from or became, and by which passes
    """
    if times is not None and file is None:
        raise click.UsageError("--times goes with NAME --file FILE")
    if file is not None:
        if len(words) != 1:
            raise click.UsageError("--file goes with one NAME")
        _explain_name(words[0], file, passes, times, form)
    elif len(words) == 4 and words[0] == "fusion":
        _explain_fusion(*words[1:], passes, form)
    elif len(words) == 3 and words[0] == "clusters":
        _explain_clusters(*words[1:], form)
    elif len(words) == 3 and words[0] == "sharding":
        _explain_sharding(*words[1:], form)
    elif len(words) < 2:
        _explain_code(words[0] if words else None, form)
    else:
        raise click.UsageError(
            "expected a code, 'fusion FILE A B', 'clusters FILE BACKEND', 'sharding FILE NAME', or NAME --file FILE"
        )


# ---- codes


def _explain_code(code: str | None, form: str) -> None:
    rules = {rule.code: page_of(rule) for rule in RULES.values()}
    pages: Sequence[Page | DecisionKind] = [*CATALOGUE.values(), *KINDS.values(), *rules.values()]
    if code is not None:
        page = find_page(code) or find_kind(code) or rules.get(f"HLO{code.strip().upper().removeprefix('HLO')}")
        if page is None:
            near = near_codes(code)
            hint = f"  Did you mean {' or '.join(near)}?" if near else "  'hlotool explain' lists all codes."
            raise click.UsageError(f"There is no code {code!r}.{hint}")
        pages = [page]
    if form == "json":
        click.echo(json.dumps({"schema_version": 1, "kind": "explain", "pages": [asdict(p) for p in pages]}, indent=1))
    elif code is None:
        say("\n".join(f"{page.code}  {page.title}" for page in sorted(pages, key=lambda page: page.code)))
    elif isinstance(pages[0], DecisionKind):
        say(_kind_text(pages[0]))
    else:
        say(_page_text(pages[0]))


def _page_text(page: Page) -> str:
    head = f"{page.code}: {page.title}\n\n{page.meaning}"
    wrong = f"\n\nWrong:\n\n{_shown(page.wrong)}" if page.wrong else ""
    return f"{head}{wrong}\n\nRight:\n\n{_shown(page.right)}"


def _kind_text(kind: DecisionKind) -> str:
    where = "any pass" if kind.pass_name == "*" else f"pass {kind.pass_name}"
    rule = "" if kind.rule == "*" else f", {kind.rule}"
    text = f"{kind.code}: {kind.title}  ({where}{rule})\n\n{kind.meaning}"
    return f"{text}\n\nExample, with -p '{kind.pipeline}':\n\n{_shown(kind.example)}" if kind.example else text


def _shown(example: str) -> str:
    clean = "".join(c if c.isprintable() or c == "\n" else "\N{SYMBOL FOR NULL}" for c in example)
    return "\n".join(f"    {line}"[:120].rstrip() for line in clean.rstrip().split("\n"))


# ---- compilations


def _compiled(file: str, passes: str) -> Compilation:
    """The module before and after the passes; one that is not valid stays as it is."""
    view, log = view_module(file), DecisionLog()
    if view.notes:
        return Compilation(view.module, view.module, (), "the module is not valid")
    result = optimise(view.module, named_pipeline(passes), log)
    return Compilation(view.module, result, tuple(log))


def _explain_fusion(file: str, first: str, second: str, passes: str, form: str) -> None:
    compiled = _compiled(file, passes)
    if compiled.problem:
        raise VerificationError(f"no pass was run, so nothing was fused: {compiled.problem}")
    answer = explain_fusion(compiled, first, second)
    if form == "json":
        head = {"schema_version": 1, "kind": "explain-fusion", "fused": answer.kernel is not None}
        hops = [
            {
                "producer": hop.producer.name, "consumer": hop.consumer.name, "code": hop.code, "reason": hop.reason,
                "decisions": [_decision_json(d) for d in hop.decisions],
            }
            for hop in answer.hops
        ]  # fmt: skip
        kernel = answer.kernel.name if answer.kernel is not None else None
        rest = {"reason": answer.reason, "decisions": [_decision_json(d) for d in answer.decisions]}
        click.echo(json.dumps({**head, "kernel": kernel, "hops": hops, **rest}, indent=1))
    else:
        say("\n".join(_fusion_lines(answer)))


def _explain_clusters(file: str, backend: str, form: str) -> None:
    clusters = clusters_of_file(file, backend)
    if form == "json":
        click.echo(json.dumps(clusters_json(clusters), indent=1))
    else:
        say(clusters_text(clusters))


def _explain_sharding(file: str, name: str, form: str) -> None:
    view = view_module(file)
    if view.notes:
        raise VerificationError("only valid modules have shardings that follow", view.notes)
    origin = explain_sharding(view.module, name)
    if form == "json":
        values = [
            {
                "name": value.name, "shape": value.shape, "sharding": value.sharding, "why": value.why,
                "ways": [
                    {"code": w.code, "rule": w.rule, "sharding": w.sharding, "from": w.source, "by": w.by,
                     "level": w.level} for w in value.ways
                ],
            }
            for value in origin.values
        ]  # fmt: skip
        head = {"schema_version": 1, "kind": "explain-sharding", "name": name}
        click.echo(json.dumps({**head, "values": values, "conflicts": origin.conflicts}, indent=1))
        return
    lines: list[str] = []
    for value in origin.values[:_MOST]:
        place = value.instruction.location
        where = f"  ({place.file}:{place.line})" if place is not None else ""
        lines.append(f"{value.name} {value.shape}: {value.sharding or 'no sharding'}{where}")
        for way in value.ways:
            by = f" by {way.by}" if way.by not in (way.source.partition("{")[0], value.instruction.name) else ""
            lines.append(f"  {way.code} {way.rule} from {way.source}{by}: {way.sharding}")
        lines += [f"  {value.why}"] if value.why else []
    say("\n".join([*lines, *_more(origin.values), *(f"conflict: {words}" for words in origin.conflicts)]))


def _fusion_lines(answer: FusionAnswer) -> list[str]:
    if answer.kernel is not None:
        made = answer.decisions[-1] if answer.decisions else None
        code = f"{made.code} " if made is not None else ""
        reason = f": {made.reason}" if made is not None and made.reason else ""
        if answer.kernel.opcode != "fusion":
            return [f"both became one instruction: {_line(answer.kernel)}"]
        return [f"fused: {code}in {answer.kernel.name}{reason}", f"  {_line(answer.kernel)}"]
    if answer.reason:
        return [f"not fused: {answer.reason}", *(f"  {_decision_line(d)}" for d in answer.decisions)]
    lines = []
    for hop in answer.hops:
        if len(answer.hops) > 1:
            lines.append(f"{hop.producer.name} -> {hop.consumer.name}")
        lines += _hop_lines(hop)
    codes = list(dict.fromkeys(code for hop in answer.hops for code in (hop.code, *(d.code for d in hop.decisions))))
    return [*lines, f"'hlotool explain {next(filter(None, codes), 'HLO4000')}' says more"]


def _hop_lines(hop: Hop) -> list[str]:
    if not hop.decisions:
        return [f"not fused: {hop.code} {hop.reason}", f"  {_line(hop.producer)}", f"  {_line(hop.consumer)}"]
    lines = []
    for d in hop.decisions:
        title = title_of(d.code).removeprefix("not fused: ").removeprefix("not merged: ")
        lines.append(f"not fused: {d.code} {title}: {d.reason}{_numbers(d)}")
        lines.append(f"  {' into '.join(d.before)}, pass {d.pass_name}")
    return lines


def _numbers(decision: Decision) -> str:
    """Numbers and the limit that they were held against: ``(64× > 1×)``."""
    numbers = dict(decision.numbers)
    limit = numbers.pop("limit", None)
    if limit is not None and len(numbers) == 1:
        ((name, value),) = numbers.items()
        sign = "×" if name == "times" else ""
        return f" ({value:g}{sign} > {limit:g}{sign})"
    return f" ({', '.join(f'{name} {value:g}' for name, value in numbers.items())})" if numbers else ""


# ---- blame


def _explain_name(name: str, file: str, passes: str, times: str | None, form: str) -> None:
    compiled = _compiled(file, passes)
    blame = explain_instruction(compiled, name)
    kernels = _kernels(compiled, blame, times)
    if form == "json":
        head = {"schema_version": 1, "kind": "explain-instruction", "name": name}
        places = {
            "sources": [_instruction_json(i, compiled.source) for i in blame.sources],
            "results": [_instruction_json(i, compiled.result) for i in blame.results],
        }
        decisions = {
            "rewrites": [_decision_json(d) for d in blame.rewrites],
            "refusals": [_decision_json(d) for d in blame.refusals],
            "notes": [_decision_json(d) for d in blame.notes],
        }
        rows = None if kernels is None else [_kernel_json(kernel) for kernel in kernels]
        answer = {**head, **places, **decisions, "kernels": rows, "problem": compiled.problem}
        click.echo(json.dumps(answer, indent=1))
    else:
        said = [] if kernels is None else _kernel_lines(kernels)
        say("\n".join([*_blame_lines(blame, compiled), *said]))


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A kernel in which a result is: `seconds` of it, which are a `share` of all, and those that were `predicted`."""

    instruction: Instruction
    seconds: float
    share: float
    predicted: float | None


def _kernels(compiled: Compilation, blame: Blame, times: str | None) -> list[_Kernel] | None:
    """The kernels that NAME's results are in, with their times; None without any."""
    if times is None:
        return None
    if compiled.problem:
        raise VerificationError(f"no code was made, so there are no times: {compiled.problem}")
    from hlotool.harness.times import time_of

    module, seconds = read_or_measure(times, compiled.result)
    there = {(i.parent.name if i.parent else "", i.name): i for i in module.instructions()}
    named = [there.get((i.parent.name if i.parent else "", i.name)) for i in blame.results]
    found = dict(filter(None, [time_of(one, seconds) for one in named if one is not None]))
    total = sum(seconds.values()) or 1.0
    guesses = _predicted(module) if found else {}
    return [
        _Kernel(one, taken, taken / total, guesses.get((one.parent.name if one.parent else "", one.name)))
        for one, taken in found.items()
    ]


def _predicted(module: Module) -> Times:
    """What the model says of the kernels of an optimised module; nothing where they cannot be written."""
    try:
        return predict(module, "none").prediction.times()
    except (HloError, KernelCrash):
        return {}


def _kernel_lines(kernels: Sequence[_Kernel]) -> list[str]:
    if not kernels:
        return ["", "takes: no time is known of it"]
    rows = [
        f"  {time_text(one.seconds)}, {one.share:.1%} of all, "
        + (f"predicted {time_text(one.predicted)}, " if one.predicted is not None else "")
        + f"in {_line(one.instruction)}"
        for one in kernels
    ]
    return ["", "takes:", *rows]


def _kernel_json(kernel: _Kernel) -> dict[str, Any]:
    one = kernel.instruction
    computation = one.parent.name if one.parent is not None else None
    return {"name": one.name, "computation": computation, "seconds": kernel.seconds, "share": kernel.share,
            "predicted": kernel.predicted}  # fmt: skip


def _blame_lines(blame: Blame, compiled: Compilation) -> list[str]:
    sources = Sources(compiled.source)
    lines = ["made from:" if len(blame.sources) != 1 else "source:"]
    for instruction in blame.sources[:_MOST]:
        place, written = instruction.location, sources.of(instruction)
        where = f"{place.file}:{place.line}: " if place is not None else ""
        lines.append(f"  {where}{_line(instruction)}")
        name = instruction.metadata.op_name if instruction.metadata is not None else ""
        said = " ".join(filter(None, [name, f"({written.file}:{written.line})" if written is not None else ""]))
        if said:
            lines.append(f"      {said}")
    lines += _more(blame.sources)
    lines += ["", "became:" if blame.results else "became nothing: it was removed"]
    lines += [f"  {_line(instruction)}" for instruction in blame.results[:_MOST]] + _more(blame.results)
    nothing = f"by: no pass was run, as {compiled.problem}" if compiled.problem else "by: no pass changed it"
    lines += ["", "by:" if blame.rewrites else nothing]
    lines += [f"  {_decision_line(d)}" for d in blame.rewrites[:_MOST]] + _more(blame.rewrites)
    if blame.refusals:
        lines += ["", "refused:", *(f"  {_decision_line(d)}" for d in blame.refusals[:_MOST]), *_more(blame.refusals)]
    if blame.notes:
        counts = Counter((d.code, d.pass_name, d.rule, d.reason) for d in blame.notes)
        lines += ["", "noted:"]
        lines += [
            f"  {code} {pass_name}, {rule}: {reason}" + (f" ({count} times)" if count > 1 else "")
            for (code, pass_name, rule, reason), count in counts.items()
        ]
    return lines


def _more(rows: Sequence[object]) -> list[str]:
    return [f"  and {len(rows) - _MOST} more"] if len(rows) > _MOST else []


def _decision_line(decision: Decision) -> str:
    arrow = f" -> {', '.join(decision.after)}" if decision.after else ""
    reason = f": {decision.reason}" if decision.reason else ""
    names = ", ".join(decision.before)
    return f"{decision.code} {decision.pass_name}, {decision.rule}: {names}{arrow}{reason}{_numbers(decision)}"


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        "code": decision.code, "pass": decision.pass_name, "action": decision.action, "rule": decision.rule,
        "before": decision.before, "after": decision.after, "reason": decision.reason,
        "numbers": dict(decision.numbers),
    }  # fmt: skip


def _instruction_json(instruction: Instruction, module: Module) -> dict[str, Any]:
    place, written = instruction.location, Sources(module).of(instruction)
    return {
        "name": instruction.name,
        "computation": instruction.parent.name if instruction.parent is not None else None,
        "text": _line(instruction),
        "line": place.line if place is not None else None,
        "op_name": instruction.metadata.op_name if instruction.metadata is not None else "",
        "source": f"{written.file}:{written.line}" if written is not None else "",
    }


def _line(instruction: Instruction) -> str:
    return print_instruction(instruction, _TEXT)
