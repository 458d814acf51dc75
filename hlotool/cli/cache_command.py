"""``hlotool cache``."""

from __future__ import annotations

import json
import time
from typing import Any

import click

import hlotool
from hlotool.cli.durations import Seconds
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import cpu_option, file_argument, format_option
from hlotool.cli.passes_options import OWN_PIPELINES, passes_options
from hlotool.cli.sizes import Size
from hlotool.cli.tables import Table, byte_text, show_tables
from hlotool.cli.warm import digest_of_file, program_key
from hlotool.cli.words import say
from hlotool.codegen.machine import Machine, default_machine
from hlotool.ir import ParseError
from hlotool.runtime.cache import Cache, Entry, code_key, default_cache
from hlotool.runtime.cache_contents import Answer, Difference, contents, prune, why
from hlotool.runtime.cache_key import About

__all__ = ["command"]

_KEY = 12  # characters of a key that are shown
_WIDEST = 60


@click.group("cache")
def command() -> None:
    """The cache of compiled code: what is in it, why a file is in it or not, and how to make room.

    HLOTOOL_CACHE says where it is, or that it is off.  An entry is the program of a file that was run ("program"), or
    the code of one kernel or function ("code"), which programs share.  All of this is safe while others use the cache:
    entries come and go as a whole.

    \b
    Examples:
        hlotool cache list                      entries, the most recently used first
        hlotool cache why model.hlo             will the next run compile, and why?
        hlotool cache prune --older-than 30d --max-size 1GiB
        du -sh "$(hlotool cache path)"
    """


@command.command("path")
def _path() -> None:
    """Print the folder of the cache.  Exits 1 where it is off."""
    click.echo(str(_open().directory))


@command.command("list")
@format_option
def _list(form: str) -> None:
    """List the entries, the most recently used first: kind, label, processor, version, bytes, and when it was used."""
    cache = _open()
    found = contents(cache)[::-1]
    now = time.time_ns()
    if form == "json":
        rows = [_entry_json(entry, about, now) for entry, about in found]
        _print_json("cache-list", path=str(cache.directory), bytes=sum(e.size for e, _ in found), entries=rows)
        return
    rows_ = [
        (entry.key[:_KEY], *_described(about), byte_text(entry.size), _age(now - entry.used)) for entry, about in found
    ]
    headings = ("key", "kind", "label", "processor", "hlotool", "bytes", "used")
    title = f"{cache.directory}: {len(found)} entries, {byte_text(sum(entry.size for entry, _ in found))}"
    if rows_:
        show_tables([Table(title, headings, rows_, frozenset({"bytes"}))])
    else:
        say(title)


@command.command("why")
@file_argument
@passes_options()
@cpu_option
@format_option
def _why(file: str, passes: str, machine: Machine | None, form: str) -> None:
    """Say whether the next 'hlotool run FILE' finds its code in the cache, and if not, what differs from what is there.

    The program of a file is found under its name and bytes, the passes, the processor, and the versions of what makes
    code.  Where it is not there, the code of its kernels may be: for each that is not, the nearest entry is named.
    Nothing is compiled and no entry changes.  Exits 1 where the program is not there.
    """
    cache, machine = _open(), machine or default_machine()
    digest = digest_of_file(file)
    if digest is None:
        raise ParseError(f"cannot read {file} twice: the cache knows files, not streams")
    known = contents(cache)
    storable = passes in OWN_PIPELINES
    program = why(cache, program_key(file, digest, passes, machine), known)
    code = [] if program.hit and storable else _code_of(file, passes, machine, cache, known)
    hit = program.hit and storable
    if form == "json":
        head = {"file": file, "hit": hit, "storable": storable, "program": _answer_json(program)}
        _print_json("cache-why", **head, code=[{"label": label, **_answer_json(answer)} for label, answer in code])
    else:
        _show_why(file, passes, program, code)
    if not hit:
        raise CheckFailed


def _code_of(
    file: str, passes: str, machine: Machine, cache: Cache, known: list[tuple[Entry, About | None]]
) -> list[tuple[str, Answer]]:
    """The texts that `file` compiles to, by label, and whether their code is there."""
    from hlotool.cli.common import read_module
    from hlotool.codegen.target import target_of
    from hlotool.driver import CompileOptions, find_backend
    from hlotool.driver.options import checked_tuning
    from hlotool.passes import parse_pipeline

    make = find_backend("cpu").code
    assert make is not None
    options = CompileOptions(pipeline=parse_pipeline(passes), machine=machine, tuning=checked_tuning(None))
    texts = make(read_module(file), options, "llvm")
    shared = target_of(machine).library(machine)  # one entry
    keys = [code_key([text], machine) for text in texts if text not in shared]
    if any(text in shared for text in texts):
        keys.append(code_key(shared, machine))
    return [(key.label, why(cache, key, known)) for key in keys]


def _show_why(file: str, passes: str, program: Answer, code: list[tuple[str, Answer]]) -> None:
    if passes not in OWN_PIPELINES:
        say(f"{file}: not kept as a whole: passes of other packages may be among '{passes}', which change unseen")
    elif program.hit:
        used = f", used {_age(time.time_ns() - program.entry.used)}" if program.entry is not None else ""
        say(f"{file}: hit: 'hlotool run' takes its program from the cache{used}")
    elif program.entry is None:
        say(f"{file}: miss: no program of this name, or with these bytes, is there")
    else:
        say(f"{file}: miss: the nearest program ({_nearest(program)}) differs:")
        for difference in program.differences:
            say(f"  {_difference_text(difference)}")
    if code:
        say(f"code of {sum(answer.hit for _, answer in code)} of {len(code)} texts is there")
    for label, answer in code:
        if not answer.hit and answer.entry is None:
            say(f"  miss {label}: no entry has this code")
        elif not answer.hit:
            differences = "; ".join(map(_difference_text, answer.differences))
            say(f"  miss {label}: the nearest ({_nearest(answer)}) differs: {differences}")


def _nearest(answer: Answer) -> str:
    assert answer.entry is not None
    return f"{answer.entry.key[:_KEY]}, used {_age(time.time_ns() - answer.entry.used)}"


def _difference_text(difference: Difference) -> str:
    name, old, new = difference.part, difference.cached, difference.wanted
    if old is None or new is None:
        return f"{name}: {'new' if old is None else 'gone'}"
    if name == "features":
        had, wants = ({word[1:] for word in text.split(",") if word[:1] == "+"} for text in (old, new))
        words = [f"lacks {name}" for name in sorted(wants - had)] + [f"has {name}" for name in sorted(had - wants)]
        return f"features: it {', '.join(words)}" if words else "features differ in what is off"
    if max(len(old), len(new)) > _WIDEST:
        return f"{name} differs"
    return f"{name} {old}, now {new}"


@command.command("prune")
@click.option("--max-size", type=Size(), metavar="SIZE", help="Keep so many bytes: the most recently used (1GiB).")
@click.option("--older-than", type=Seconds(), metavar="TIME", help="Remove what was not used for so long (30d, 12h).")
@click.option("--all", "everything", is_flag=True, help="Remove all entries.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@format_option
def _prune(max_size: int | None, older_than: float | None, everything: bool, dry_run: bool, form: str) -> None:
    """Remove entries: those not used for a while, the least recently used ones above a size, or all.

    Programs that use the cache meanwhile find an entry as a whole, or compile.
    """
    if not everything and max_size is None and older_than is None:
        raise click.UsageError("say what to remove: --max-size, --older-than or --all")
    if everything and (max_size is not None or older_than is not None):
        raise click.UsageError("--all goes without --max-size and --older-than")
    cache = _open()
    found = prune(cache, max_size=0 if everything else max_size, older_than=older_than, dry_run=dry_run)
    removed, left = sum(entry.size for entry in found), cache.entries()
    if dry_run:
        gone = {entry.key for entry in found}
        left = [entry for entry in left if entry.key not in gone]
    size = sum(entry.size for entry in left)
    if form == "json":
        _print_json(
            "cache-prune", path=str(cache.directory), dry_run=dry_run, removed=len(found), removed_bytes=removed,
            left=len(left), left_bytes=size,
        )  # fmt: skip
    else:
        verb = "would remove" if dry_run else "removed"
        say(f"{verb} {len(found)} entries, {byte_text(removed)}; left: {len(left)}, {byte_text(size)}")


# ---- what they share


def _open() -> Cache:
    cache = default_cache()
    if cache is None:
        say("the cache is off: HLOTOOL_CACHE says so, or the user has no home", err=True)
        raise CheckFailed
    return cache


def _described(about: About | None) -> tuple[str, str, str, str]:
    if about is None:
        return "unknown", "", "", ""
    label = about.label if len(about.label) <= _WIDEST else about.label[: _WIDEST - 1] + "…"
    return about.kind, label, about.parts.get("cpu", ""), about.parts.get("hlotool", "")


def _age(nanoseconds: int) -> str:
    """How long ago something was."""
    seconds = max(0, nanoseconds) / 1e9
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def _entry_json(entry: Entry, about: About | None, now: int) -> dict[str, Any]:
    kind, label, parts = ("unknown", "", {}) if about is None else (about.kind, about.label, dict(about.parts))
    age = round(max(0, now - entry.used) / 1e9, 3)
    return {"key": entry.key, "kind": kind, "label": label, "bytes": entry.size, "age_s": age, "parts": parts}


def _answer_json(answer: Answer) -> dict[str, Any]:
    near = None if answer.entry is None else _entry_json(answer.entry, answer.about, time.time_ns())
    differences = [{"part": d.part, "cached": d.cached, "wanted": d.wanted} for d in answer.differences]
    return {"hit": answer.hit, "entry": near, "differences": differences}


def _print_json(kind: str, **fields: Any) -> None:
    head = {"schema_version": 1, "kind": kind, "tool_version": hlotool.__version__}
    click.echo(json.dumps({**head, **fields}, indent=1))
