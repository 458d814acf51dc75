"""Decisions: what a pass did, or would not do, and why.

Every applied rewrite and every refusal worth knowing is one `Decision` in the `DecisionLog` of a compilation.
Reports, ``explain`` and bisection read the log; the log can also stop all rewriting after the n-th rewrite, which
is how a wrong rewrite is found by halving.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple, TypeAlias

from hlotool.display import shown_by
from hlotool.ir import Instruction, Module
from hlotool.ir.brief import one_line
from hlotool.lazy_dataclass import dataclass

__all__ = ["Decision", "DecisionLog"]

_Subject: TypeAlias = Instruction | str | Sequence[Instruction | str]


class Decision(NamedTuple):
    """One choice of a pass.

    `action` is ``rewrite``, ``refuse`` or ``note``; `rule` is the name of the rule or of the obstacle; `before` and
    `after` name instructions (of a refused fusion the producer and the consumer); `numbers` are what the choice was
    made from (bytes, counts, limits).  `origins` has, for every name of `before`, the source instructions behind it.
    """

    pass_name: str
    action: str
    rule: str
    before: tuple[str, ...]
    after: tuple[str, ...] = ()
    reason: str = ""
    numbers: tuple[tuple[str, float], ...] = ()
    origins: tuple[tuple[str, ...], ...] = ()

    def __repr__(self) -> str:
        return f"Decision({one_line(str(self), 160)})"

    @property
    def code(self) -> str:
        """The stable code that ``hlotool explain`` knows: HLO4012."""
        from hlotool.analysis.decision_codes import code_of  # a long table, and few ask

        return code_of(self.pass_name, self.action, self.rule)

    def __str__(self) -> str:
        arrow = f" -> {', '.join(self.after)}" if self.after else ""
        numbers = "".join(f" {key}={value:g}" for key, value in self.numbers)
        reason = f": {self.reason}" if self.reason else ""
        names = ", ".join(self.before)
        return f"{self.pass_name}: {self.action} {self.rule} ({self.code}): {names}{arrow}{reason}{numbers}"


@dataclass(slots=True)
class DecisionLog:
    """The decisions of a compilation, in order.

    `limit` stops rewriting: once that many rewrites are recorded, `allow` says no.  `pass_name` is the pass that is
    running; the pass manager says so.  A pass asks `allow()` before each rewrite and records it afterwards.
    """

    limit: int | None = None
    pass_name: str = ""
    decisions: list[Decision] = field(default_factory=list)
    rewrites: int = 0

    def __repr__(self) -> str:
        return f"DecisionLog({len(self.decisions)} decisions, {self.rewrites} rewrites)"

    _repr_html_ = shown_by("log_html")

    def start_pass(self, name: str, run: int, module: Module) -> None:
        """The pass called `name` is about to run on `module`, as the `run`-th of its pipeline, counting from 1."""
        self.pass_name = name

    def end_pass(self, changed: bool) -> None:
        """The pass that ran has ended, and `changed` something or not."""

    def rewind(self, decisions: int, rewrites: int) -> None:
        """Forget all but the first `decisions`, of which so many were rewrites: what came of them was thrown away."""
        del self.decisions[decisions:]
        self.rewrites = rewrites

    def allow(self) -> bool:
        """Whether one more rewrite may be applied."""
        return self.limit is None or self.rewrites < self.limit

    def rewrite(
        self,
        rule: str,
        before: _Subject,
        after: Instruction | str | Sequence[str] = (),
        reason: str = "",
        **numbers: float,
    ) -> None:
        """Record that `before` was rewritten into `after` (nothing: it was removed) by `rule`."""
        self.rewrites += 1
        self._record("rewrite", rule, before, after, reason, numbers)

    def refuse(self, rule: str, subject: _Subject, reason: str, **numbers: float) -> None:
        """Record that a rewrite of `subject` was considered and left out."""
        self._record("refuse", rule, subject, (), reason, numbers)

    def note(self, rule: str, subject: _Subject, reason: str, **numbers: float) -> None:
        """Record a choice that changes no instruction."""
        self._record("note", rule, subject, (), reason, numbers)

    def _record(
        self,
        action: str,
        rule: str,
        before: _Subject,
        after: Instruction | str | Sequence[str],
        reason: str,
        numbers: Mapping[str, float],
    ) -> None:
        old: tuple[str, ...]
        origins: tuple[tuple[str, ...], ...]
        if isinstance(before, Instruction):
            old, origins = (before.name,), (before.origins or (before.name,),)
        else:
            subjects = (before,) if isinstance(before, str) else before
            old = tuple([one if isinstance(one, str) else one.name for one in subjects])
            origins = tuple([(one,) if isinstance(one, str) else one.origins or (one.name,) for one in subjects])
        new = (after.name,) if isinstance(after, Instruction) else (after,) if isinstance(after, str) else tuple(after)
        self.decisions.append(
            Decision(self.pass_name, action, rule, old, new, reason, tuple(numbers.items()), origins)
        )

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def __len__(self) -> int:
        return len(self.decisions)

    def counts(self, action: str = "rewrite") -> dict[tuple[str, str], int]:
        """How often each (pass, rule) occurs among the decisions with `action`, most frequent first."""
        found = Counter((d.pass_name, d.rule) for d in self.decisions if d.action == action)
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
