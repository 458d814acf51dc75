"""``hlotool memory``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

import click

import hlotool
from hlotool.analysis.donation import Donate
from hlotool.cli.common import read_module
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import (
    cpu_option,
    devices_options,
    donate_option,
    file_argument,
    form_of,
    module_inputs_options,
    output_options,
    strict_option,
    threads_option,
)
from hlotool.cli.output import write_text
from hlotool.cli.passes_options import named_pipeline, passes_options
from hlotool.cli.sizes import Size
from hlotool.cli.tables import Table, byte_text, plain_table
from hlotool.cli.words import say
from hlotool.codegen.machine import Machine
from hlotool.driver import compile_module, on_devices
from hlotool.harness.resident import Resident, measure_resident, process_bytes
from hlotool.inspect.labels import short
from hlotool.inspect.memory import (
    Buffer,
    BufferPlan,
    buffer_plan,
    live_bytes,
    peak_buffers,
    peak_position,
    plan_picture,
    step_at,
)
from hlotool.inspect.memory_chart import live_range_chart, live_range_text
from hlotool.inspect.memory_hints import Donatable, Waiting, donatable, donates_less, waiting
from hlotool.inspect.site import cards, page, table
from hlotool.ir import Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.executable import Executable, Memory

__all__ = ["command"]

_FORMS = ("text", "json", "svg", "html")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What is shown; `spared` are the bytes that all of `donations` together save."""

    file: str
    module: Module
    passes: str
    memory: Memory
    process: int
    plan: BufferPlan
    donated: Mapping[int, int]
    donations: Sequence[Donatable]
    spared: int
    declared: bool
    waiting: Sequence[Waiting]
    resident: Resident | None
    limit: int
    ceiling: int | None

    @property
    def in_use(self) -> int:
        """Bytes of the arena that are in use at most."""
        return max((amount for _, amount in live_bytes(self.plan)), default=0)

    @property
    def is_too_much(self) -> bool:
        """Whether what is predicted, or measured, is more than was allowed."""
        held = self.resident.peak_bytes if self.resident is not None else 0
        return self.ceiling is not None and max(self.memory.peak_bytes, held) > self.ceiling

    def at_peak(self) -> list[Buffer]:
        """What is alive when the arena is fullest, largest first."""
        always = [b for b in self.plan.buffers if b.offset is None and b.size]
        found = sorted([*peak_buffers(self.plan), *always], key=lambda b: (-b.size, b.number))
        return found[: self.limit or None]

    def scratch(self) -> list[Buffer]:
        found = [b for b in self.plan.buffers if b.kind == "scratch" and b.size]
        return sorted(found, key=lambda b: (-b.size, b.number))[: self.limit or None]


@click.command("memory")
@file_argument
@passes_options()
@donate_option
@devices_options
@click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True,
    help="How many of the largest buffers, and kernels with scratch; 0 for all.",
)  # fmt: skip
@click.option("--fail-if-peak", "ceiling", type=Size(), metavar="SIZE", help="Exit 1 if it takes more, as in 1GiB.")
@click.option("--measure", is_flag=True, help="Run it once in a process of its own, and say what that took.")
@module_inputs_options(", for --measure")
@cpu_option
@threads_option
@strict_option
@output_options(*_FORMS, words="svg draws live ranges, html is one page with all there is.")
def command(
    file: str,
    passes: str,
    donate: Donate,
    replicas: int | None,
    partitions: int | None,
    limit: int,
    ceiling: int | None,
    measure: bool,
    inputs: str | None,
    seed: int,
    machine: Machine | None,
    threads: int | None,
    form: str | None,
    output: str | None,
) -> None:
    """Show what memory the native code of FILE takes: how much at most, when, and for what.

    \b
        hlotool memory samples/mlp_step.hlo
        hlotool memory samples/attention.hlo --fail-if-peak 1GiB --format json
        hlotool memory samples/mlp_step.hlo --donate 0,1,2,3 -o ranges.svg
        hlotool memory samples/conv_net.hlo --measure

    The largest buffers when most is taken, with where they come from; what kernels need working memory for; live
    ranges; arguments that results could overwrite, and values that wait while most is taken.  Arguments, results and
    constants count as alive all the time.  --measure holds the sum against what a process takes that runs the code
    (in pages, and for threads too: small programs disappear among that); --fail-if-peak looks at the larger of the two.
    Exit code 1: it takes more than --fail-if-peak.
    """
    form = form_of(form, output, _FORMS)
    module = on_devices(read_module(file), replicas, partitions)
    executable = compile_module(
        module, pipeline=named_pipeline(passes), threads=threads, machine=machine, donate=donate, to_run=measure
    )
    answer = _answer(file, passes, executable, donate, limit, ceiling, _resident(executable, module, inputs, seed,
        threads) if measure else None)  # fmt: skip
    match form:
        case "svg":
            write_text(output, live_range_chart(answer.plan, f"{module.name}: live ranges", 3 * limit))
        case "html":
            write_text(output, _page(answer))
        case "json":
            write_text(output, json.dumps(_json(answer), indent=1) + "\n")
        case _:
            write_text(output, _text(answer))
    if answer.is_too_much:
        say(f"{file}: takes more than {byte_text(ceiling)}", err=True)
        raise CheckFailed


def _resident(
    executable: Executable, module: Module, inputs: str | None, seed: int, threads: int | None
) -> Resident:
    from hlotool.harness.input_files import module_inputs

    return measure_resident(executable, module_inputs(module, inputs, seed), threads)


def _answer(
    file: str, passes: str, executable: Executable, donate: Donate, limit: int, ceiling: int | None,
    resident: Resident | None,
) -> _Answer:  # fmt: skip
    program, machine, module = executable.program, executable.machine, executable.module
    if program is None or machine is None:
        raise UnsupportedError("the evaluator runs the module: there is no native code whose memory is planned")
    plan, memory = buffer_plan(program.assignment, module), executable.memory
    donations, taken = donatable(module, machine, executable.donated)
    spared = memory.arena_bytes + memory.output_bytes - taken
    return _Answer(
        file=file, module=module, passes=passes, memory=memory, process=process_bytes(executable), plan=plan,
        donated=executable.donated, donations=donations if spared > 0 else (), spared=max(0, spared),
        declared=donates_less(module, donate), waiting=waiting(plan, memory.peak_bytes),
        resident=resident, limit=limit, ceiling=ceiling,
    )  # fmt: skip


# ---- for people


def _text(answer: _Answer) -> str:
    plan, step = answer.plan, step_at(answer.plan, peak_position(answer.plan))
    where = f", most at {step}" if plan.arena_bytes else ""
    head = f"{answer.file}: {byte_text(answer.memory.peak_bytes)} at peak{where}"
    parts = [
        Table(head, ("what", "buffers", "bytes", "note"), _sums(answer), frozenset(("buffers", "bytes"))),
        Table(
            "largest buffers at the peak", ("buffer", "kind", "bytes", "shape", "alive", "source"),
            [_cells(buffer) for buffer in answer.at_peak()], frozenset(("bytes",)),
        ),
        Table("scratch of kernels", ("kernel", "bytes", "for"), _scratch(answer), frozenset(("bytes",))),
    ]  # fmt: skip
    texts = [plain_table(table) for table in parts if table.rows]
    texts.append("live ranges\n" + live_range_text(plan, answer.limit))
    hints = _hints(answer)
    if hints:
        texts.append("\n".join(["hints", *(f"  {hint}" for hint in hints)]))
    return "\n\n".join(texts) + "\n"


def _sums(answer: _Answer) -> list[tuple[str, str, str, str]]:
    memory, plan = answer.memory, answer.plan
    counts, sizes = Counter[str](), Counter[str]()
    for buffer in plan.buffers:
        counts[buffer.kind] += 1
        sizes[buffer.kind] += buffer.size
    held = sizes["temporary"] + sizes["scratch"]
    note = f"{byte_text(held)} in all, {byte_text(answer.in_use)} at once" if plan.arena_bytes else ""
    inside = f"{len(answer.donated)} lie in arguments" if answer.donated else ""
    rows = [
        ("arguments", str(counts["parameter"]), byte_text(memory.parameter_bytes), ""),
        ("results", str(counts["output"]), byte_text(memory.output_bytes), inside),
        ("constants", str(counts["constant"]), byte_text(memory.constant_bytes), ""),
        ("temporaries", str(counts["temporary"] + counts["scratch"]), byte_text(memory.arena_bytes), note),
    ]
    if answer.resident is not None:
        held = answer.resident.peak_bytes
        note = "predicted: temporaries and results in huge pages"
        rows.append(("of a process", "", byte_text(answer.process), note))
        rows.append(("measured", "", byte_text(held), _difference(answer)))
    return rows


def _difference(answer: _Answer) -> str:
    assert answer.resident is not None
    if not answer.process:
        return ""
    more = answer.resident.peak_bytes / answer.process - 1
    return f"{abs(more):.1%} {'more' if more > 0 else 'less'} than predicted"


def _cells(buffer: Buffer) -> tuple[str, ...]:
    alive = "always" if buffer.offset is None else f"{buffer.start} to {buffer.end}"
    return (
        short(buffer.title, 40), buffer.kind, byte_text(buffer.size), short(buffer.shape, 40), alive,
        short(buffer.source or buffer.op_name, 48),
    )  # fmt: skip


def _scratch(answer: _Answer) -> list[tuple[str, str, str]]:
    return [(buffer.names[0], byte_text(buffer.size), _uses(buffer)) for buffer in answer.scratch()]


def _uses(buffer: Buffer) -> str:
    return ", ".join(f"{use} ({byte_text(size)})" if len(buffer.uses) > 1 else use for use, size in buffer.uses)


def _hints(answer: _Answer) -> list[str]:
    hints = []
    if answer.declared:
        hints.append("the module declares donations: --donate declared makes them")
    if answer.donations:
        numbers = ",".join(map(str, sorted({one.number for one in answer.donations})))
        hints.append(f"--donate {numbers}, where the caller can give them up, saves {byte_text(answer.spared)}:")
        hints += [
            f"  result {one.result} in the memory of argument {one.number}, {one.name} ({byte_text(one.bytes)})"
            for one in answer.donations[: answer.limit or None]
        ]
    hints += [
        f"{one.buffer.title} ({byte_text(one.buffer.size)}) waits at the peak, from {one.after} to {one.until}: "
        "computed later, or again, it would not"
        for one in answer.waiting[: answer.limit or None]
    ]
    return hints


def _page(answer: _Answer) -> str:
    memory, title = answer.memory, f"{answer.module.name}: memory"
    top = [("at peak", memory.peak_bytes), ("arguments", memory.parameter_bytes), ("results", memory.output_bytes),
           ("constants", memory.constant_bytes), ("temporaries", memory.arena_bytes)]  # fmt: skip
    if answer.resident is not None:
        top.append(("measured", answer.resident.peak_bytes))
    hints = "".join(f"<li>{escape(hint.strip())}</li>" for hint in _hints(answer))
    body = [
        f"<h1>{escape(title)}</h1>",
        cards((words, byte_text(number)) for words, number in top),
        f"<figure>{live_range_chart(answer.plan, 'live ranges', 3 * answer.limit)}</figure>",
        f"<h2>Hints</h2><ul>{hints}</ul>" if hints else "",
        "<h2>Largest buffers at the peak</h2>",
        table(("buffer", "kind", "bytes", "shape", "alive", "source"), map(_cells, answer.at_peak()), ("bytes",)),
        "<h2>Scratch of kernels</h2>" if _scratch(answer) else "",
        table(("kernel", "bytes", "for"), _scratch(answer), ("bytes",)) if _scratch(answer) else "",
        "<h2>Where temporaries lie</h2>",
        f"<figure>{plan_picture(answer.plan)}<figcaption>Offset in the arena over time.</figcaption></figure>",
    ]
    return page("", title, "\n".join(body), links=())


# ---- for programs


def _json(answer: _Answer) -> dict[str, Any]:
    memory, resident, plan = answer.memory, answer.resident, answer.plan
    return {
        "schema_version": 1,
        "kind": "memory",
        "tool_version": hlotool.__version__,
        "file": answer.file,
        "module": answer.module.name,
        "passes": answer.passes,
        "peak_bytes": memory.peak_bytes,
        "process_bytes": answer.process,
        **asdict(memory),
        "arena": {
            "in_use_bytes": answer.in_use,
            "all_bytes": sum(b.size for b in plan.buffers if b.offset is not None),
            "peak_at": step_at(plan, peak_position(plan)) or None,
        },
        "limit_bytes": answer.ceiling,
        "within_limit": None if answer.ceiling is None else not answer.is_too_much,
        "measured": None if resident is None else asdict(resident),
        "at_peak": [_buffer(buffer) for buffer in answer.at_peak()],
        "scratch": [_buffer(buffer) for buffer in answer.scratch()],
        "hints": {
            "declared_donations_unused": answer.declared,
            "donations": [asdict(one) for one in answer.donations],
            "donations_save_bytes": answer.spared,
            "waiting": [
                {"buffer": one.buffer.title, "bytes": one.buffer.size, "after": one.after, "until": one.until}
                for one in answer.waiting
            ],
        },
    }


def _buffer(buffer: Buffer) -> dict[str, Any]:
    return {
        "name": buffer.title, "kind": buffer.kind, "bytes": buffer.size, "shape": buffer.shape,
        "offset": buffer.offset, "start": buffer.start, "end": buffer.end, "instructions": list(buffer.names),
        "uses": [{"for": use, "bytes": size} for use, size in buffer.uses], "op_name": buffer.op_name,
        "source": buffer.source or None, "line": buffer.line,
    }  # fmt: skip
