"""``hlotool graph``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hlotool.analysis.cost import ModuleCost
from hlotool.analysis.decisions import DecisionLog
from hlotool.cli.options import file_argument, strict_option
from hlotool.cli.output import write_bytes, write_text
from hlotool.cli.passes_options import named_pipeline, passes_options
from hlotool.cli.pictures import drawn_picture
from hlotool.driver import optimise
from hlotool.inspect.graph import draw_scene
from hlotool.inspect.page import PageOptions, drawing_page
from hlotool.inspect.records import Records
from hlotool.inspect.scene import Scene, build_scene
from hlotool.inspect.scopes import add_scopes
from hlotool.inspect.select import Selection, between, find_computation, find_instruction, near
from hlotool.ir import Instruction, Module

if TYPE_CHECKING:
    from hlotool.harness.times import Times
from hlotool.cli.viewing import view_module
from hlotool.ir import VerificationError

__all__ = ["command"]

_FORMS = ("html", "dot", "svg", "png", "pdf")
_SUFFIXES = {form: form for form in _FORMS} | {"htm": "html", "gv": "dot"}
_BINARY = ("png", "pdf")
_HEAT_WORDS = {"bytes": "bytes moved", "flops": "flops", "time": "s"}
_PROFILED = 0.5
"""Seconds to measure times for."""


@click.command("graph")
@file_argument
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), help="Write here.")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMS),
    help="html is one page that needs nothing else; svg, png and pdf need Graphviz.  Else what -o ends in, else html.",
)
@passes_options("none")
@click.option("--computation", metavar="NAME", help="Draw this computation, not the entry.")
@click.option("--around", metavar="NAME", help="Draw only what is near this instruction (NAME or COMPUTATION/NAME).")
@click.option("--radius", type=click.IntRange(0), default=3, show_default=True, help="How near: edges from --around.")
@click.option("--paths", nargs=2, metavar="A B", help="Draw only what is on paths between two instructions.")
@click.option(
    "--scopes/--no-scopes",
    default=None,
    help="Boxes for the scopes of op_name, and parts of what has none; without either, where a computation is large.",
)
@click.option("--heat", type=click.Choice(["bytes", "flops", "time"]), help="Colour by bytes moved, flops or time.")
@click.option(
    "--times",
    metavar="FILE.json|native|evaluate",
    help="Time per instruction: from a file, as 'profile --format json' writes it, of native code (which --heat time "
    "takes), or of the evaluator.",
)
@strict_option
def command(
    file: str,
    output: str | None,
    form: str | None,
    passes: str,
    computation: str | None,
    around: str | None,
    radius: int,
    paths: tuple[str, str] | None,
    scopes: bool | None,
    heat: str | None,
    times: str | None,
) -> None:
    """Draw FILE: instructions as boxes in the colour of their kind, fusions and loops as boxes around their bodies.

    The page opens in any browser, also without network: it can be searched, and boxes opened and closed; ? shows its
    keys.  Large modules start closed.

    With --times native the drawing is of what the native code computes: FILE as code generation gets it, with the times
    of a few runs on random inputs.  A file of times should be of the module that is drawn.
    """
    form = form or _form_of(output)
    if sum(option is not None for option in (computation, around, paths)) > 1:
        raise click.UsageError("--computation, --around and --paths do not go together")
    if heat == "time" and times is None:
        times = "native"
    if form in _BINARY and output in (None, "-"):
        raise click.UsageError(f"--format {form} needs -o FILE: it is binary")
    view = view_module(file)
    module = view.module
    if passes != "none" and view.notes:
        raise VerificationError(f"--passes {passes} needs a valid module", view.notes)
    log = DecisionLog()
    if passes != "none":
        module = optimise(module, named_pipeline(passes), log)
    if times == "native":
        module, seconds = _native(module)
    else:
        seconds = _times(module, times)
    scene = build_scene(module, _selection(module, computation, around, radius, paths))
    if form == "html":
        if scopes is not False:
            add_scopes(scene, always=bool(scopes))
        write_text(output, _page(scene, seconds, heat, log))
        return
    if scopes:
        add_scopes(scene, always=True)
    text = draw_scene(scene, heat=_amounts(module, heat, seconds), heat_as=_HEAT_WORDS.get(heat or "", ""))
    if form == "dot":
        write_text(output, text)
        return
    content = drawn_picture(text, form)
    if output in (None, "-"):
        write_text(None, content.decode())
    else:
        assert output is not None
        write_bytes(output, lambda stream: stream.write(content))


def _form_of(output: str | None) -> str:
    """The form that the name of a file asks for; html for names that ask for none."""
    suffix = Path(output).suffix.lower().lstrip(".") if output else ""
    if suffix and suffix not in _SUFFIXES:
        known = ", ".join(f".{one}" for one in sorted(_SUFFIXES))
        raise click.UsageError(f"-o {output}: no drawing ends in .{suffix}; known are {known}; or use --format")
    return _SUFFIXES.get(suffix, "html")


def _selection(
    module: Module, computation: str | None, around: str | None, radius: int, paths: tuple[str, str] | None
) -> Selection | None:
    if computation is not None:
        return Selection(find_computation(module, computation))
    if around is not None:
        return near(find_instruction(module, around), radius)
    return between(*(find_instruction(module, name) for name in paths)) if paths else None


def _times(module: Module, source: str | None) -> Times:
    if source is None:
        return {}
    from hlotool.harness.times import measure_times, read_times

    if source != "evaluate":
        return read_times(source)
    from hlotool.harness.inputs import random_inputs

    return measure_times(module, random_inputs(module, 0))


def _native(module: Module) -> tuple[Module, Times]:
    """The module as code generation gets it, and the times of its native code."""
    from hlotool.driver import compile_module
    from hlotool.harness.inputs import random_inputs
    from hlotool.harness.profile import Measurement

    bare, probed = (compile_module(module, pipeline="none", profiled=profiled) for profiled in (False, True))
    measurement = Measurement(bare, probed, random_inputs(module, 0))
    measurement.run(_PROFILED)
    profile = measurement.profile()
    return profile.module, profile.times()


def _page(scene: Scene, seconds: Times, heat: str | None, log: DecisionLog) -> str:
    records = Records(seconds)
    records.add(scene, scene.module.name, decisions=log)
    count = scene.module.instruction_count()
    options = PageOptions(scene.module.name, f"{count:,} instructions", heat=heat or "group", times=bool(seconds))
    return drawing_page(records, options)


def _amounts(module: Module, heat: str | None, seconds: Times) -> dict[Instruction, float] | None:
    if heat is None:
        return None
    if heat == "time":
        return {i: seconds.get((i.parent.name if i.parent else "", i.name), 0.0) for i in module.instructions()}
    costs = ModuleCost(module)
    return {
        i: float(costs.of(i).bytes if heat == "bytes" else costs.of(i).flops + costs.of(i).transcendentals)
        for i in module.instructions()
    }
