"""``hlotool graph``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hlotool.analysis.decisions import DecisionLog
from hlotool.cli.clusters_report import clusters_of_file
from hlotool.cli.completion import backends, computations, instructions
from hlotool.cli.options import file_argument, form_of, is_given, output_options, strict_option
from hlotool.cli.output import write_bytes, write_text
from hlotool.cli.passes_options import named_pipeline, passes_options
from hlotool.cli.pictures import drawn_picture
from hlotool.cli.times_option import read_or_measure, times_option
from hlotool.cli.viewing import view_module
from hlotool.driver import optimise
from hlotool.inspect.cluster_drawing import draw_clusters
from hlotool.inspect.drawing import amounts
from hlotool.inspect.graph import draw_scene
from hlotool.inspect.page import PageOptions, drawing_page
from hlotool.inspect.records import Records
from hlotool.inspect.scene import Scene, build_scene
from hlotool.inspect.scopes import add_scopes
from hlotool.inspect.select import selected
from hlotool.inspect.sharding_colours import sharding_fills
from hlotool.ir import Instruction, Module, VerificationError

if TYPE_CHECKING:
    from hlotool.harness.times import Times

__all__ = ["command"]

_FORMS = ("html", "dot", "svg", "png", "pdf")
_BINARY = ("png", "pdf")
_HEAT_WORDS = {"bytes": "bytes moved", "flops": "flops", "time": "s"}


@click.command("graph")
@file_argument
@output_options(*_FORMS, words="html is one page that needs nothing else; svg, png and pdf need Graphviz.")
@passes_options("none")
@click.option(
    "--computation", metavar="NAME", help="Draw this computation, not the entry.", shell_complete=computations
)
@click.option(
    "--around", metavar="NAME", help="Draw only what is near this instruction (NAME or COMPUTATION/NAME).",
    shell_complete=instructions,
)  # fmt: skip
@click.option("--radius", type=click.IntRange(0), default=3, show_default=True, help="How near: edges from --around.")
@click.option(
    "--paths", nargs=2, metavar="A B", help="Draw only what is on paths between two instructions.",
    shell_complete=instructions,
)  # fmt: skip
@click.option(
    "--scopes/--no-scopes",
    default=None,
    help="Boxes for the scopes of op_name, and parts of what has none; without either, where a computation is large.",
)
@click.option(
    "--clusters", metavar="BACKEND", help="Draw the clusters that this backend compiles, and what it leaves.",
    shell_complete=backends,
)  # fmt: skip
@click.option("--heat", type=click.Choice(["bytes", "flops", "time"]), help="Colour by bytes moved, flops or time.")
@click.option("--sharding", is_flag=True, help="Colour by sharding: what is cut alike among devices has one colour.")
@times_option("|evaluate", " (which --heat time takes), or of the evaluator")
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
    clusters: str | None,
    heat: str | None,
    sharding: bool,
    times: str | None,
) -> None:
    """Draw FILE: instructions as boxes in the colour of their kind, fusions and loops as boxes around their bodies.

    The page opens in any browser, also without network: it can be searched, and boxes opened and closed; ? shows its
    keys.  Large modules start closed.

    With --times native the drawing is of what the native code computes: FILE as code generation gets it, with the times
    of a few runs on random inputs.  A file of times should be of the module that is drawn.
    """
    form = form_of(form, output, _FORMS, others=False)
    if sum(option is not None for option in (computation, around, paths)) > 1:
        raise click.UsageError("--computation, --around and --paths do not go together")
    if sharding and heat is not None:
        raise click.UsageError("--heat and --sharding do not go together")
    if heat == "time" and times is None:
        times = "native"
    if form in _BINARY and output in (None, "-"):
        raise click.UsageError(f"--format {form} needs -o FILE: it is binary")
    if clusters is not None:
        _draw_clusters(file, clusters, output, form)
        return
    view = view_module(file)
    module = view.module
    if passes != "none" and view.notes:
        raise VerificationError(f"--passes {passes} needs a valid module", view.notes)
    log = DecisionLog()
    if passes != "none":
        module = optimise(module, named_pipeline(passes), log)
    if times == "evaluate":
        seconds = _evaluated(module)
    else:
        module, seconds = read_or_measure(times, module)
    scene = build_scene(module, selected(module, computation, around, radius, paths))
    if form == "html":
        if scopes is not False:
            add_scopes(scene, always=bool(scopes))
        write_text(output, _page(scene, seconds, "sharding" if sharding else heat, log))
        return
    if scopes:
        add_scopes(scene, always=True)
    fills = sharding_fills(module.instructions()) if sharding else None
    amount = _amounts(module, heat, seconds)
    text = draw_scene(scene, heat=amount, fills=fills, heat_as=_HEAT_WORDS.get(heat or "", ""))
    _write(text, output, form)


def _draw_clusters(file: str, backend: str, output: str | None, form: str) -> None:
    if is_given("computation", "around", "paths", "passes", "heat", "times", "scopes", "sharding"):
        raise click.UsageError("--clusters draws the entry, as it is cut: no other option goes with it")
    if form == "html":
        raise click.UsageError("--clusters makes no page: --format dot, svg, png or pdf")
    _write(draw_clusters(clusters_of_file(file, backend).cut), output, form)


def _write(text: str, output: str | None, form: str) -> None:
    """A drawing as it is, or as a picture."""
    if form == "dot":
        write_text(output, text)
        return
    content = drawn_picture(text, form)
    if output in (None, "-"):
        write_text(None, content.decode())
    else:
        assert output is not None
        write_bytes(output, lambda stream: stream.write(content))


def _evaluated(module: Module) -> Times:
    """The times of the evaluator on random inputs."""
    from hlotool.harness.inputs import random_inputs
    from hlotool.harness.times import measure_times

    return measure_times(module, random_inputs(module, 0))


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
    return amounts(module, heat)
