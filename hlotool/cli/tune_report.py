"""What ``hlotool tune`` shows: what a search found, what could be chosen, what is in a database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

import hlotool
from hlotool.cli.tables import Table, show_tables, time_text
from hlotool.cli.words import say
from hlotool.driver.tuned import Database
from hlotool.harness.tune import Local, Subject
from hlotool.harness.tune.search import Result
from hlotool.harness.tune.space import changes, legal
from hlotool.harness.tune.trial import Setting
from hlotool.runtime.tuning import target_key

__all__ = ["show_database", "show_result", "show_space"]

_RIGHT = frozenset({"before", "gain"})


def _values(values: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def show_result(path: Path, results: Sequence[tuple[Sequence[Subject], Result]], form: str) -> None:
    found = [one for _, result in results for one in result.found]
    tries = [one for _, result in results for one in result.tries]
    words = Counter(one.word for one in tries)
    seconds = sum(result.seconds for _, result in results)
    count = sum(len(subjects) for subjects, _ in results)
    if form == "json":
        rows = [
            {
                "about": one.subject.about, "key": one.subject.key,
                "scope": "module" if one.subject.is_module else "kernel", "choices": dict(one.values),
                "gain": one.gain, "seconds": one.seconds, "exact": one.exact,
            }
            for one in found
        ]  # fmt: skip
        _print_json("tune", database=str(path), subjects=count, tries=len(tries), outcomes=dict(sorted(words.items())),
                    seconds=seconds, found=rows)  # fmt: skip
        return
    table = [
        (one.subject.about, time_text(one.seconds), f"{one.gain:.1%}", _values(one.values))
        for one in sorted(found, key=lambda one: -one.gain)
    ]
    if table:
        show_tables([Table("clearly quicker", ("kernel", "before", "gain", "choices"), table, _RIGHT)])
    came = ", ".join(f"{number} {word}" for word, number in sorted(words.items()))
    say(f"{path}: {len(found)} of {count} are quicker; {len(tries)} candidates in {seconds:.0f} s: {came or 'none'}")
    for one in tries:
        if one.word in ("wrong", "crashed", "hung"):
            say(f"note: {_values(dict(one.change))} was {one.word}: {one.why}", err=True)


def show_space(subjects: Sequence[Subject], setting: Setting, form: str) -> None:
    """What could be chosen, and which values make a difference."""
    lab = Local(setting)
    try:
        makes = [lab.distinct(one, changes(one, setting.exact), {}) for one in subjects]
    finally:
        lab.close()
    if form == "json":
        rows = [
            {
                "about": subject.about, "key": subject.key, "kind": subject.kind,
                "knobs": [
                    {"name": name, "values": list(knob.values), "unit": knob.unit, "changes_sums": knob.sums,
                     "other_code": [value for other, value in found if other == name]}
                    for name, knob in legal(subject).items()
                ],
            }
            for subject, found in zip(subjects, makes, strict=True)
        ]  # fmt: skip
        _print_json("tune-space", target=target_key(setting.machine), kernels=rows)
        return
    for subject, found in zip(subjects, makes, strict=True):
        table = [
            (name, ", ".join(str(value) for other, value in found if other == name), knob.unit,
             "sums" if knob.sums else "")
            for name, knob in legal(subject).items() if any(other == name for other, _ in found)
        ]  # fmt: skip
        show_tables([Table(f"{subject.kind}: {subject.about}", ("knob", "other values", "unit", "changes"), table)])


def show_database(path: Path, database: Database, form: str) -> None:
    entries = sorted(database.entries.values(), key=lambda one: (one.target, -one.gain))
    if form == "json":
        rows = [
            {"scope": one.scope, "key": one.key, "target": one.target, "version": one.version, "about": one.about,
             "choices": one.choices.given if one.scope == "kernel" else dict(one.costs), "gain": one.gain,
             "seconds": one.seconds, "exact": one.exact}
            for one in entries
        ]  # fmt: skip
        notes = list(database.notes)
        _print_json("tune-database", path=str(path), entries=rows, wanted=len(database.wanted), notes=notes)
        return
    for target in dict.fromkeys(one.target for one in entries):
        table = [
            (one.about, time_text(one.seconds), f"{one.gain:.1%}", "same bits" if one.exact else "",
             one.choices.text() if one.scope == "kernel" else _values(one.costs))
            for one in entries if one.target == target
        ]  # fmt: skip
        show_tables([Table(target, ("kernel", "before", "gain", "results", "choices"), table, _RIGHT)])
    say(f"{path}: {len(entries)} entries, {len(database.wanted)} kernels noted for a search")
    for note in database.notes:
        say(f"note: {note}", err=True)


def _print_json(kind: str, **fields: Any) -> None:
    click.echo(json.dumps({"schema_version": 1, "kind": kind, "tool_version": hlotool.__version__, **fields}, indent=1))
