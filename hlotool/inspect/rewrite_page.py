"""The page that shows rewrites one by one: what each touched, before and after, as a drawing and as text.

``--trace`` makes it of all that passes did, ``bisect`` of the guilty one.  The page has the instructions as data and
draws the rewrite that one looks at; nothing is laid out before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from html import escape
from typing import Any

from hlotool.analysis.decisions import Decision
from hlotool.inspect.colours import GROUPS
from hlotool.inspect.diff import unified_diff
from hlotool.inspect.labels import shape_text, title
from hlotool.inspect.page import asset, keys_help, to_json
from hlotool.inspect.reasons import meaning_of
from hlotool.inspect.trace import State, Step, step_between
from hlotool.ir import OPCODES, UNKNOWN, Module
from hlotool.lazy_dataclass import dataclass
from hlotool.text.printer import print_module

__all__ = ["RewritePage", "rewrite_diff", "rewrite_page", "rewrites_page"]

_KEYS = (
    ("j  ↓  →", "the next rewrite"),
    ("k  ↑  ←", "the one before"),
    ("Shift", "with any of these: the next pass, the one before"),
    ("Home  End", "the first; the last"),
    ("/", "filter by pass, rule, code, instruction, source"),
    ("Esc", "leave the filter; empty it"),
    ("?", "this help"),
)


@dataclass(frozen=True, slots=True)
class RewritePage:
    """What stands in the head of the page; `links` are (words, address)."""

    title: str
    note: str = ""
    links: Sequence[tuple[str, str]] = ()


def rewrite_diff(before: Module, after: Module) -> str:
    """The difference of the texts, as ``diff -u`` writes it."""
    return unified_diff(print_module(before), print_module(after), "before.hlo", "after.hlo")


def rewrite_page(
    before: Module, after: Module, page: RewritePage, pass_name: str, decisions: Sequence[Decision] = ()
) -> str:
    """The page of what turned one module into another: of a pass that said these `decisions`."""
    return rewrites_page([step_between(before, after, pass_name, decisions)], page, alone=True)


def rewrites_page(steps: Sequence[Step], page: RewritePage, alone: bool = False) -> str:
    """The page that steps through `steps`; of one that stands `alone` there is no list."""
    note = f"<small>{escape(page.note)}</small>"
    links = "".join(f'<a href="{escape(address)}">{escape(words)}</a>' for words, address in page.links)
    groups = {key: (group.light, group.dark) for key, group in GROUPS.items()}
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(page.title)}: rewrites</title>
<style>
{asset("page.css")}{asset("rewrites.css")}</style></head>
<body{" class=alone" if alone else ""}>
<header><h1>{escape(page.title)}{"" if alone else note}</h1><nav>{links}</nav><span class="space"></span>
<span id="count"></span>
<input id="find" type="search" placeholder="filter  ( / )" autocomplete="off" spellcheck="false" aria-label="filter">
<button id="ask" title="help ( ? )">?</button></header>
<aside id="list"><div id="rows"></div></aside>
<main id="step" tabindex="-1">{f"<p id=note>{escape(page.note)}</p>" if alone else ""}<div id="head"></div>
<div id="drawings"><figure><figcaption>before</figcaption><div id="before"></div></figure>
<figure><figcaption>after</figcaption><div id="after"></div></figure></div>
<div id="lines"></div></main>
<footer><div id="legend"><span><i class="removed"></i>goes</span><span><i class="added"></i>new</span>
<span><i class="changed"></i>changes</span><span><i class="around"></i>beside it</span></div>
<span>? shows the keys</span></footer>
<div id="help" hidden><div><b>Keys</b><dl>{keys_help(_KEYS)}</dl></div></div>
<script type="application/json" id="data">{to_json(_Data(groups).of(steps))}</script>
<script>
{asset("layout.js")}{asset("rewrites.js")}</script>
</body></html>
"""


@dataclass(slots=True)
class _Data:
    """What the page gets.  Words are numbers of strings, and instructions numbers of nodes: what one rewrite makes is
    often what a later one changes, and is written once.

    A node is [name, computation, title, shape, group, line, called, operand names...], a step [index, number, run,
    pass, rule, code, meaning, reason, subject, source, op_name, with_next, edits, unread, around], edits before and
    after by turns, -1 for none.
    """

    groups: dict[str, tuple[str, str]]
    strings: dict[str, int] = field(default_factory=dict)
    nodes: list[list[Any]] = field(default_factory=list)
    known: dict[int, int] = field(default_factory=dict)  # by identity of states: all of them live in the steps

    def of(self, steps: Sequence[Step]) -> dict[str, Any]:
        rows = [self.step(step) for step in steps]
        return {"groups": self.groups, "strings": list(self.strings), "nodes": self.nodes, "steps": rows}

    def word(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def step(self, step: Step) -> list[Any]:
        made = step.decision
        numbers = "" if made is None else "  ".join(f"{key} {value:g}" for key, value in made.numbers)
        reason = "" if made is None else "; ".join(filter(None, (made.reason, numbers)))
        decided = ("", "", "", "", "")
        if made is not None:
            decided = made.rule, made.code, meaning_of(made), reason, made.before[0] if made.before else ""
        words = (step.pass_name, *decided, step.source, step.op_name)
        edits = [-1 if state is None else self.node(state) for edit in step.edits for state in edit]
        unread, around = ([self.node(state) for state in states] for states in (step.unread, step.around))
        return [step.index or 0, step.number or 0, step.run, *map(self.word, words), int(step.with_next), edits, unread,
                around]  # fmt: skip

    def node(self, state: State) -> int:
        number = self.known.get(id(state))
        if number is None:
            group = OPCODES.get(state.opcode, OPCODES[UNKNOWN]).group
            alone = state.alone()
            words = (state.name, state.computation, title(alone), shape_text(state.shape), group, state.line)
            row = [*map(self.word, words), [self.word(computation.name) for computation in alone.called]]
            number = self.known[id(state)] = len(self.nodes)
            self.nodes.append([*row, *map(self.word, state.operands)])
        return number
