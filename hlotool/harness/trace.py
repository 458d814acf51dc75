"""A profile as a trace for Perfetto (https://ui.perfetto.dev) and chrome://tracing: one run, thread by thread.

The format is that of Chrome's trace events (Trace Event Format, 2016): complete events (``ph`` X) with microseconds
since the run began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hlotool.analysis.timeline import Timeline
from hlotool.codegen.plan.probes import Probe
from hlotool.harness.inside import Part
from hlotool.harness.profile import Profile
from hlotool.ir import Instruction
from hlotool.text.sources import Sources

__all__ = ["timeline_trace", "trace_json"]

_STREAMS = ("compute", "network", "wait")


def trace_json(
    profile: Profile, inside: Mapping[Instruction, Sequence[Part]] | None = None
) -> dict[str, Any]:
    """Events of one run, and under ``otherData`` how many there were more than are kept.

    All are measured; what is `inside` of fusions is in the arguments of theirs: shares, and how they are known.
    """
    sources = Sources(profile.module)
    events = sorted(profile.events.tolist(), key=lambda event: (event[2], -event[3]))
    entry = next((probe.scope for probe in profile.probes if probe.kind == "rest"), None)
    main = [thread for probe, thread, _, _ in events if profile.probes[probe].kind != "tasks"]
    threads = {thread: number for number, thread in enumerate(dict.fromkeys([*main, *(e[1] for e in events)]))}
    names = ["caller" if not number else f"worker {number}" for number in threads.values()]
    rows = _head(f"hlotool {profile.module.name}", names)
    known: dict[int, dict[str, Any]] = {}
    for number, thread, begin, end in events:
        if number not in known:
            known[number] = _described(profile.probes[number], sources, inside or {})
        rows.append({
            **known[number], "ph": "X", "pid": 1, "tid": threads[thread], "ts": begin / 1e3,
            "dur": (end - begin) / 1e3,
        })  # fmt: skip
    passed = int(profile.passed.sum())
    other = {
        "tool": "hlotool profile", "module": profile.module.name, "entry": entry or "", "events": len(events),
        "events_left_out": passed - len(events), "threads": profile.threads,
    }  # fmt: skip
    return {"traceEvents": rows, "displayTimeUnit": "ns", "otherData": other}


def timeline_trace(timeline: Timeline, name: str) -> dict[str, Any]:
    """A simulated run of a device (`analysis.timeline`): the streams of kernels and of exchanges, and what waits."""
    rows = _head(name, list(_STREAMS))
    for event in timeline.events:
        rows.append({
            "name": event.name, "cat": event.stream, "args": {"how": "predicted", "opcode": event.opcode}, "ph": "X",
            "pid": 1, "tid": _STREAMS.index(event.stream), "ts": event.start * 1e6,
            "dur": (event.end - event.start) * 1e6,
        })  # fmt: skip
    other = {
        "tool": "hlotool simulate", "events": len(timeline.events), "events_left_out": timeline.left_out,
    }  # fmt: skip
    return {"traceEvents": rows, "displayTimeUnit": "ns", "otherData": other}


def _head(process: str, threads: Sequence[str]) -> list[dict[str, Any]]:
    """The events that say what is called what."""
    rows: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": process}}]
    for number, name in enumerate(threads):
        rows.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": name}})
        rows.append({"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": number, "args": {"sort_index": number}})
    return rows


def _described(probe: Probe, sources: Sources, inside: Mapping[Instruction, Sequence[Part]]) -> dict[str, Any]:
    """What the viewer shows of all events of a probe."""
    instruction = probe.instruction
    if instruction is None:
        words = {"region": "side by side", "scalars": "scalars", "rest": "end", "copy": "copies"}
        name = words.get(probe.kind, probe.kind)
        return {"name": name, "cat": probe.kind, "args": {"computation": probe.computation}}
    name = instruction.name
    if probe.kind in ("copy", "host"):
        name = f"{name} ({probe.kind})"
    args: dict[str, Any] = {
        "how": "measured", "opcode": instruction.opcode, "shape": str(instruction.shape),
        "computation": probe.computation, "kernel": probe.kernel,
    }  # fmt: skip
    if instruction.metadata is not None and instruction.metadata.op_name:
        args["op_name"] = instruction.metadata.op_name
    parts = inside.get(instruction, ())
    if parts:
        args["inside"] = {
            part.instruction.name if part.instruction is not None else "rest": f"{part.share:.1%} ({part.how})"
            for part in parts
        }
    written = sources.of(instruction)
    if written is not None:
        args["source"] = f"{written.file}:{written.line}"
    return {"name": name, "cat": probe.kind, "args": {key: value for key, value in args.items() if value}}
