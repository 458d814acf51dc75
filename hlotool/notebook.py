"""What notebooks show of values: a few numbers, a table, a drawing, all of bounded size.

HTML that takes its colours from the page that it stands in, so that it is as light or dark as that.  Classes name these
functions by `hlotool.display.shown_by`; as the command line, this file may import everything, and nothing imports it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.decisions import Decision, DecisionLog
from hlotool.harness.all_values import ValuesComparison
from hlotool.harness.compare import Comparison
from hlotool.harness.profile import Profile
from hlotool.inspect.drawing import Drawing, drawing, framed
from hlotool.inspect.labels import plain_text, short
from hlotool.inspect.memory import BufferPlan, peak_buffers
from hlotool.inspect.module_diff import ModuleDiff
from hlotool.inspect.module_diff_report import lines, summary
from hlotool.inspect.select import Selection, near
from hlotool.inspect.site import Markup, bar, table
from hlotool.inspect.svg import byte_words, count_words, time_words
from hlotool.ir import Computation, Instruction, Module
from hlotool.ir.verifier import verify
from hlotool.runtime.executable import Executable
from hlotool.text.printer import print_shape
from hlotool.text.visible import visible

__all__ = [
    "comparison_html", "computation_html", "diff_html", "drawing", "executable_html", "instruction_html", "log_html",
    "module_html", "plan_html", "profile_html", "values_html",
]  # fmt: skip

_SKETCHED = 40  # boxes that are drawn without being asked
_FRAMED = 1_000  # instructions of which the page to look around in is shown without being asked
_COSTED = 20_000  # instructions of which costs are added up
_ROWS = 12

_STYLE = """<style>
.hlo{font:13px/1.5 system-ui,-apple-system,"Segoe UI","Liberation Sans",sans-serif;overflow-x:auto;max-width:100%}
.hlo p{margin:.2em 0 .6em}
.hlo code,.hlo td:first-child{font-family:ui-monospace,"Liberation Mono",Menlo,Consolas,monospace}
.hlo .dim{opacity:.65}.hlo table{font:inherit;
border-collapse:collapse;margin:.3em 0 .8em;font-variant-numeric:tabular-nums}
.hlo th,.hlo td{padding:.15em .8em;text-align:left;border-bottom:1px solid #8884;background:none;color:inherit}
.hlo th{white-space:nowrap}.hlo th.n,.hlo td.n{text-align:right;white-space:nowrap}
.hlo i.bar{display:block;height:.8em;background:#6c9be8;
border-radius:3px;min-width:1px}.hlo td:has(>i.bar){min-width:9em}
</style>"""


def _shown(head: str, *parts: str) -> str:
    """A bold line and what stands below it."""
    return f'{_STYLE}<div class="hlo"><p>{head}</p>{"".join(parts)}</div>'


def _table(
    title: str, note: str, headings: Sequence[str], rows: Sequence[Sequence[str | Markup]], right: Iterable[str] = ()
) -> str:
    """A table of which the first rows are shown."""
    left = f'<p class="dim">{len(rows) - _ROWS:,} more</p>' if len(rows) > _ROWS else ""
    cut = [[cell if isinstance(cell, Markup) else short(visible(cell), 80) for cell in row] for row in rows[:_ROWS]]
    return _shown(_head(title, note), table(headings, cut, right), left)


def _head(title: str, note: str) -> str:
    return f'<b>{escape(short(visible(title), 80))}</b> <span class="dim">{escape(visible(note))}</span>'


# ---- modules and their parts


def module_html(module: Module) -> str:
    """Its size, what goes in and out, and a drawing, or how to get one."""
    count = module.instruction_count()
    note = f"{count:,} instructions, {len(module.computations):,} computations"
    if module.entry.name not in module.computations:
        return _shown(_head(module.name, f"{note}, no entry"))
    wrong = _errors(module)
    if wrong:
        return _shown(_head(module.name, note), _ports(module.entry), wrong)
    if count <= _COSTED:
        total = ModuleCost(module).total
        more = "" if total.is_exact else "at least "
        note += f"; {more}{count_words(total.flops + total.transcendentals)} flops, {byte_words(total.bytes)} moved"
    return _shown(_head(module.name, note), _ports(module.entry), _picture(module, Selection(module.entry)))


def computation_html(computation: Computation) -> str:
    """As a module, when it is part of one."""
    head = _head(computation.name, f"{len(computation):,} instructions")
    if computation.module is None:
        return _shown(head, _ports(computation))
    return _shown(head, _ports(computation), _picture(computation.module, Selection(computation)))


def instruction_html(instruction: Instruction) -> str:
    """Its text and what is around it."""
    text = f"<p><code>{escape(visible(plain_text(instruction)))}</code></p>"
    home = instruction.parent
    if home is None or home.module is None:
        return _shown(_head(instruction.name, instruction.written), text)
    picture = _picture(home.module, near(instruction, 1))
    return _shown(_head(instruction.name, f"in {home.name}"), text, picture)


def _ports(computation: Computation) -> str:
    """What goes in and what comes out."""
    given = [(p.name, p.shape) for p in computation.parameters[: _ROWS - 1]]
    rows = [[name, print_shape(shape, index_comments=False), byte_words(shape.byte_size)] for name, shape in given]
    hidden = len(computation.parameters) - len(given)
    if hidden > 0:
        rows.append([f"{hidden:,} more", "", ""])
    try:
        result = computation.root
    except ValueError:
        return table(["", "shape", "size"], rows, ["size"])
    shape = result.shape
    rows.append(["→ " + result.name, print_shape(shape, index_comments=False), byte_words(shape.byte_size)])
    return table(["", "shape", "size"], [[short(visible(cell), 80) for cell in row] for row in rows], ["size"])


def _errors(module: Module) -> str:
    """What is wrong in a module, so that nothing else can be said of it; huge ones are not asked."""
    found = verify(module) if module.instruction_count() <= _COSTED else []
    if not found:
        return ""
    words = f"{found[0].message}; {len(found):,} errors (hlotool.verify raises them)"
    return f"<p>not valid: {escape(short(visible(words), 300))}</p>"


def _picture(module: Module, selection: Selection) -> str:
    """A sketch where that is small, else a page in a frame, else how to get one; or why there is none."""
    wrong = _errors(module)
    if wrong:
        return wrong
    found, count = Drawing(module, selection), module.instruction_count()
    if count <= _COSTED and found.boxes <= _SKETCHED:
        return found.svg
    if count <= _FRAMED:
        return framed(found.html)
    return '<p class="dim">large: <code>.graph()</code> is a drawing to look around in</p>'


# ---- what became of modules


def diff_html(found: ModuleDiff) -> str:
    """What differs, the first lines."""
    listed = [escape(short(visible(text), 160)) for _, text in lines(found, _ROWS)][: 4 * _ROWS]
    return _shown(_head(f"{found.old.name} → {found.new.name}", summary(found)), f"<pre>{'<br>'.join(listed)}</pre>")


def log_html(log: DecisionLog) -> str:
    """How many decisions of which kind."""
    return _decisions(log.decisions)


def _decisions(decisions: Sequence[Decision]) -> str:
    counts = Counter((d.pass_name, d.action, d.rule) for d in decisions)
    rows = [[*key, f"{count:,}"] for key, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    return _table("decisions", f"{len(decisions):,}", ["pass", "action", "rule", "times"], rows, ["times"])


def plan_html(plan: BufferPlan) -> str:
    """The largest buffers at the peak."""
    held = sorted(peak_buffers(plan), key=lambda buffer: -buffer.size)
    most = max((buffer.size for buffer in held), default=1)
    rows: list[list[str | Markup]] = [
        [b.title, b.kind, b.shape, byte_words(b.size), bar(b.size / most)] for b in held
    ]  # fmt: skip
    note = f"{byte_words(plan.arena_bytes)} of temporaries; alive at the peak:"
    return _table("memory", note, ["buffer", "kind", "shape", "size", ""], rows, ["size"])


# ---- what runs


def executable_html(executable: Executable) -> str:
    """What it takes to run, and what the passes decided."""
    memory, program = executable.memory, executable.program
    facts = [("at the peak", byte_words(memory.peak_bytes)), ("of it temporary", byte_words(memory.arena_bytes))]
    if program is not None:
        parallel = sum(use.parallel for use in program.kernels)
        facts.insert(0, ("kernels", f"{len(program.kernels):,} ({parallel:,} parallel)"))
    if executable.compile_seconds is not None:
        facts.append(("compiled in", time_words(executable.compile_seconds)))
    if executable.machine is not None:
        facts.append(("for", f"{executable.machine.cpu}, {executable.machine.vector_bits}-bit vectors"))
    if executable.devices > 1:
        facts.append(("devices", str(executable.devices)))
    note = "native code" if program is not None else "no native code"
    numbers = table([words for words, _ in facts], [[value for _, value in facts]])
    return _shown(_head(executable.module.name, note), numbers, _ports(executable.module.entry)) + _decisions(
        executable.decisions
    )


def comparison_html(found: Comparison) -> str:
    """The verdict with its numbers."""
    rows = [[row, str(value)] for row, value in found.row().items() if value is not None and row != "comparison"]
    return _table(found.verdict, str(found), ["", "value"], rows)


def profile_html(found: Profile) -> str:
    """The steps that take the longest."""
    steps = sorted(found.steps, key=lambda step: -step.seconds)
    most = max((step.seconds for step in steps), default=0.0) or 1.0
    rows: list[list[str | Markup]] = [
        [s.name, s.kernel or s.kind, f"{s.count:,}", time_words(s.seconds), f"{s.seconds / (found.seconds or 1.0):.1%}",
         bar(s.seconds / most)]
        for s in steps
    ]  # fmt: skip
    note = f"{time_words(found.bare.median)} a run; all steps {found.explained:.0%} of it, probes {found.overhead:+.0%}"
    numbers = ["times", "time", "share"]
    return _table(found.module.name, note, ["step", "kernel", *numbers, ""], rows, numbers)


def values_html(found: ValuesComparison) -> str:
    """The values that differ, or are undecided, in the order of the run."""
    verdicts = Counter(row.verdict for row in found.rows() if row.verdict)
    rows = [
        [row.instruction.name, row.verdict, "; ".join(str(side.comparison) for side in row.sides)]
        for row in found.rows()
        if row.verdict not in ("", "ok")
    ]
    note = ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items()) or "nothing was compared"
    return _table("values", note, ["instruction", "verdict", "comparison"], rows)
