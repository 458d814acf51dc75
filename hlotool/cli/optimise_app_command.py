"""``hlotool optimise-app``."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import click
import numpy.typing as npt

from hlotool.analysis.elided import refuse_elided
from hlotool.cli.application_report import Found, report_json, report_picture, report_text
from hlotool.cli.common import read_source
from hlotool.cli.durations import Seconds
from hlotool.cli.errors import CheckFailed
from hlotool.cli.options import Amount, form_option, module_inputs_options
from hlotool.cli.output import write_bytes, write_text
from hlotool.cli.progress import progress
from hlotool.cli.words import say
from hlotool.codegen.machine import default_machine, named, runs_here
from hlotool.driver.library import LibraryOptions, build_library
from hlotool.driver.tuned import Entry
from hlotool.harness.application.batching import own_batch, with_batch
from hlotool.harness.application.energy import read_energy
from hlotool.harness.application.measure import cores_here
from hlotool.harness.application.pareto import GOALS
from hlotool.harness.application.quantised import make_quantised
from hlotool.harness.application.replica import (
    DATABASE,
    Application,
    bound,
    load_application,
    machine_for,
    make_case,
    tuning_for,
)
from hlotool.harness.application.search import Settings, best_of, search
from hlotool.harness.application.space import INT8, PRECISIONS, UNAVAILABLE, Configuration, Knob, Space
from hlotool.harness.application.tuning import Tuner, known_entries
from hlotool.harness.archive import from_bits
from hlotool.harness.children import ChildDied, Children, TimeLimit
from hlotool.harness.input_files import arrays_named, module_inputs
from hlotool.harness.journal import Journal
from hlotool.harness.tune import add_entries
from hlotool.ir import ExecutionError, InputError, Module, UnsupportedError
from hlotool.ir.devices import topology_of
from hlotool.ir.verifier import check
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.runtime.aot.files import files_of
from hlotool.runtime.aot.identifiers import identifier
from hlotool.runtime.aot.interface import Source
from hlotool.runtime.aot.library import Library
from hlotool.runtime.aot.linker import has_c_compiler
from hlotool.runtime.aot.oci import File, Image, blobs_of, layout
from hlotool.runtime.aot.server import Service, server_program
from hlotool.runtime.tuning import default_database
from hlotool.text.load import one_module
from hlotool.text.printer import print_module
from hlotool.version import __version__

__all__ = ["command"]

_T = TypeVar("_T")
_TUNED_FOR = ("latency", "throughput")
"""Goals for which kernels are tuned: how quick they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """What the user asks for, by the names of the command line's parameters."""

    files: tuple[str, ...]
    output: str | None
    goal: str
    budget: float
    accuracy: float
    calibrate: tuple[str, ...]
    batches: tuple[int, ...]
    over: tuple[str, ...]
    weights: str | None
    inputs: str | None
    seed: int
    reference: str
    precisions: tuple[str, ...]
    targets: tuple[str, ...]
    levels: tuple[str, ...]
    cores: int | None
    seconds: float
    limit: float
    name: str | None
    tag: str
    port: int
    no_image: bool
    no_tuning: bool
    show_space: bool
    restart: bool
    form: str


def _list(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in (value or "").split(","))))


def _sizes(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    words = _list(context, parameter, value)
    if not all(word.isascii() and word.isdecimal() and 0 < int(word) < 1 << 31 for word in words):
        raise click.BadParameter("expected sizes with commas: 1,8,32", context, parameter)
    return tuple(dict.fromkeys(map(int, words)))


def _precisions(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    words = _list(context, parameter, value)
    for word in words:
        if word not in PRECISIONS:
            raise click.BadParameter(f"{word} is none; there are {', '.join(PRECISIONS)}", context, parameter)
    return tuple(name for name in PRECISIONS if name in words or name == "f32") if words else ()


def _targets(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    for name in values:
        try:
            machine = default_machine() if name == "host" else named(name)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from None
        if not runs_here(machine):
            raise click.BadParameter(f"{name}: this processor does not run its code, so that it cannot be measured",
                                     context, parameter)  # fmt: skip
    if values:
        return tuple(dict.fromkeys(values))
    mine = default_machine()
    return ("host", "x86-64-v3") if mine.architecture == "x86_64" and mine.vector_bits > 256 else ("host",)


@click.command("optimise-app")
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE...")
@click.option("-o", "--output", type=click.Path(file_okay=False), metavar="DIR", help="Write what is chosen here.")
@click.option(
    "--goal", type=click.Choice(list(GOALS)), default="latency", show_default=True, help="What is to be best."
)
@click.option(
    "--budget", type=Seconds(), default="10min", show_default=True, metavar="TIME", help="Time for the search."
)
@click.option(
    "--accuracy", type=Amount(), default=1e-3, show_default=True, metavar="X",
    help="How far results may be off: x (rms + |wanted|), rms being that of the wanted array; integers are exact.",
)
@click.option(
    "--batch-over", "over", callback=_list, metavar="NAMES",
    help="What has a batch: dimensions of parameters (x.0,y.0), or parameters of one example (x,y).",
)
@click.option("--batch", "batches", callback=_sizes, metavar="N,...", help="With --batch-over: sizes to try.")
@click.option(
    "--weights", type=click.Path(dir_okay=False), metavar="FILE",
    help="Parameters that are a part of the program, by their names (.npz, .safetensors).",
)
@module_inputs_options()
@click.option(
    "--reference", type=click.Choice(["program", "evaluate"]), default="program", show_default=True,
    help="What numbers are compared with: FILE as native code without optional passes, or the evaluator.",
)
@click.option(
    "--precision", "precisions", callback=_precisions, metavar="NAME,...",
    help=f"Precisions to try besides f32: {', '.join(PRECISIONS)}. [default: all]",
)
@click.option(
    "--calibrate", multiple=True, type=click.Path(exists=True), metavar="FILE",
    help="With int8: inputs of one run to calibrate with, as for quantise; again for more, or a folder of archives.",
)
@click.option(
    "--cpu", "targets", callback=_targets, multiple=True, metavar="NAME",
    help="Processors to compile for, as for compile, which this one has to be like; 'host' is this one.",
)
@click.option(
    "-O", "levels", type=click.Choice(["0", "1", "2", "3"]), multiple=True, default=("2", "3", "1"), show_default=True,
    help="Passes by effort to try, the usual ones first.",
)
@click.option("--cores", type=click.IntRange(1, 1024), metavar="N", help="Cores to use. [default: all]")
@click.option(
    "--time", "seconds", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds of a measurement."
)
@click.option(
    "--timeout", "limit", type=Seconds(), default="2min", show_default=True, metavar="TIME",
    help="A measurement that takes longer, compilation included, has failed.",
)
@click.option("--name", metavar="NAME", help="What library and image are called. [default: as the first FILE]")
@click.option("--tag", default="latest", show_default=True, metavar="TAG", help="Of the image.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="On which the image listens."
)
@click.option("--no-image", is_flag=True, help="Write no image, which takes a C compiler.")
@click.option("--no-tuning", is_flag=True, help="Tune no kernels, and read no database of tuned ones.")
@click.option("--space", "show_space", is_flag=True, help="Print what can be chosen, and end.")
@click.option("--restart", is_flag=True, help="Forget what DIR/journal.jsonl says was measured.")
@form_option("text", "json")
def command(**given: Any) -> None:
    """Choose how FILE runs best on this machine; build the library, and an image that serves it.

    Passes, precision, processor, batch, threads, replicas and tuning are tried together: a model ranks all
    combinations, the best are measured, each in processes of its own, and their numbers are compared first.  Every row
    says what was predicted and what was measured, and whether it was: measured, predicted only, refused, wrong or
    failed.  For latency and throughput a quarter of the time goes to tuning the kernels of the best one so far.

    The precision int8 takes inputs to calibrate with (--calibrate): products are of integers, as quantise makes them,
    but for those without which the error would be above --accuracy.

    DIR gets hlotool.toml with the choice, library/ (see build), image/ (a container image as the OCI lays it out, with
    a server), pareto.svg, pareto.json, tuning.jsonl (the database of tuned kernels: what was found, what that of
    hlotool tune has for these processors, and what hlotool brings along), and journal.jsonl, from which a search that
    was stopped goes on.

    \b
        hlotool optimise-app model.hlo -o app/ --goal throughput --budget 10min
        hlotool optimise-app model.hlo -o app/ --batch-over x.0 --batch 1,8,32
        hlotool optimise-app model.hlo -o app/ --calibrate inputs/ --accuracy 5e-2
        skopeo copy oci:app/image docker://registry.example/model
    """
    options = AppOptions(**given)
    if options.batches and not options.over:
        raise click.UsageError("--batch goes with --batch-over, which says what has a batch")
    if options.inputs is not None and len(options.files) > 1:
        raise click.UsageError("--inputs goes with one FILE")
    if options.calibrate and len(options.files) > 1:
        raise click.UsageError("--calibrate goes with one FILE")
    if INT8 in options.precisions and not options.calibrate:
        raise click.UsageError(f"--precision {INT8} is not available: {UNAVAILABLE[INT8]}")
    if options.calibrate and options.precisions and INT8 not in options.precisions:
        raise click.UsageError(f"--calibrate is for {INT8}, which --precision leaves out")
    if options.output is None and not options.show_space:
        raise click.UsageError("give a folder for what is chosen: -o DIR")
    application, sources = _loaded(options)
    space = _space(options, [source.module for source in sources.values()])
    if options.show_space:
        _show_space(space, options.form)
        return
    if options.goal == "energy":
        read_energy()
    if not options.no_image and not has_c_compiler(default_machine().triple):
        raise UnsupportedError(
            "an image takes a C compiler for its server: install one (cc), or pip install 'hlotool[build]' (zig), or "
            "do without one: --no-image"
        )
    found, chosen = _searched(options, application, sources, space)
    if found.chosen is None:
        _nothing_works(found)
        return
    files = _written(options, chosen, found)
    if options.form == "json":
        click.echo(json.dumps(report_json(found) | {"output": options.output, "files": files}, indent=1))
    else:
        write_text(None, report_text(found))
        for path, size in files.items():
            say(f"{str(options.output).rstrip('/')}/{path}: {size:,} bytes")


def _loaded(options: AppOptions) -> tuple[Application, dict[str, Source]]:
    """The modules by the names of their entries; the sources have their weights in them."""
    found: dict[str, Source] = {}
    texts: dict[str, str] = {}
    weights_of: dict[str, dict[str, npt.NDArray[Any]]] = {}
    weights = {} if options.weights is None else arrays_named(options.weights)
    used: set[str] = set()
    for file in options.files:
        read = read_source(file)
        module = one_module(read)
        check(module)
        refuse_elided(module)
        if topology_of(module).devices > 1:
            raise UnsupportedError(f"{read.name} runs on {topology_of(module).devices} devices; here there is one")
        own = {p.name for p in module.entry.parameters} & set(weights)
        used |= own
        stem = "model" if file == "-" else Path(read.name).name.partition(".")[0]
        entry = "run" if len(options.files) == 1 else identifier(stem)
        if entry in found:
            raise click.UsageError(f"two files are called {entry}: an entry is named by its file")
        texts[entry], weights_of[entry] = print_module(module), _typed(module, own, weights)
        found[entry] = Source(Path(read.name).name, read.digest, bound(module, weights_of[entry]))
    missing = sorted(set(weights) - used)
    if missing:
        raise InputError(f"{options.weights}: {missing[0]} is the name of no parameter")
    return Application(entries=texts, weights=weights_of, over=options.over), found


def _typed(
    module: Module, names: set[str], weights: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """Arrays as elements of the parameters: archives have some types as their bits."""
    return {p.name: from_bits(weights[p.name], p.shape) for p in module.entry.parameters if p.name in names}


def _space(options: AppOptions, modules: Sequence[Module]) -> Space:
    cores = min(options.cores or len(cores_here()), len(cores_here()))
    own = {own_batch(module, options.over) for module in modules}
    if len(own) > 1:
        raise InputError(f"the modules have batches of {', '.join(map(str, sorted(own)))}: one application has one")
    batch = own.pop()
    counts = [1 << n for n in range(cores.bit_length()) if 1 << n < cores]
    levels = tuple(f"O{digit}" for digit in dict.fromkeys(options.levels))
    precisions = options.precisions or tuple(name for name in PRECISIONS if name != INT8 or options.calibrate)
    return Space(
        cores=cores,
        knobs=(
            Knob(name="level", values=levels, meaning="passes, as of compile -O"),
            Knob(name="precision", values=precisions, meaning="of products, or of all values; sums are f32"),
            Knob(name="target", values=options.targets, meaning="processor, as of compile --cpu"),
            Knob(
                name="batch", values=tuple(dict.fromkeys((batch, *options.batches))),
                meaning="items of a request" if options.over else "as FILE says: --batch-over names what has one",
            ),
            Knob(name="threads", values=(cores, *reversed(counts)), meaning="of a replica"),
            Knob(name="replicas", values=tuple(sorted({1, *counts, cores})), meaning="processes on cores of their own"),
            Knob(
                name="tuning", values=("off",) if options.no_tuning else ("off", "read"),
                meaning="whether a database of tuned kernels is read",
            ),
        ),
    )  # fmt: skip


def _show_space(space: Space, form: str) -> None:
    if form == "json":
        click.echo(json.dumps({"schema_version": 1, "kind": "optimise-app-space", **space.json()}, indent=1))
        return
    for knob in space.knobs:
        say(f"{knob.name}: {', '.join(map(str, knob.values))} ({knob.meaning})")
    for name, why in space.unavailable.items():
        say(f"{name}: not available: {why}")
    say(f"{space.json()['configurations']} configurations on {space.cores} cores")


def _searched(
    options: AppOptions, application: Application, sources: Mapping[str, Source], space: Space
) -> tuple[Found, Mapping[str, Source]]:
    """The search, and the modules that the chosen configuration begins with."""
    settings = Settings(
        goal=options.goal, budget=options.budget, accuracy=options.accuracy, seconds=options.seconds,
        limit=options.limit,
    )  # fmt: skip
    given = {
        name: module_inputs(source.module, options.inputs, options.seed)
        for name, source in sources.items()
        if options.inputs is not None
    }
    root = Path(str(options.output))
    journal_path = root / "journal.jsonl"
    about = {
        "kind": "optimise-app-journal",
        "hlotool": __version__,
        "files": {name: source.sha256 for name, source in sources.items()},
        "space": space.json(),
        "asked": {
            name: getattr(options, name)
            for name in ("goal", "accuracy", "over", "weights", "inputs", "calibrate", "seed", "reference", "seconds")
        },
    }
    with tempfile.TemporaryDirectory(prefix="hlotool-") as folder, progress() as tell:
        (Path(folder) / "application").write_bytes(pickle.dumps(application))
        for batch in space.values("batch"):
            tell(f"the numbers that are wanted, batch {batch}" if batch else "the numbers that are wanted")
            _in_child(options, make_case, folder, int(batch), given, options.seed, options.reference == "evaluate")
        if INT8 in space.values("precision"):
            tell("integers of 8 bits")
            said = _in_child(options, make_quantised, folder, options.calibrate, options.accuracy)
            say(f"note: {INT8}: {said}", err=True)
        if options.restart:
            journal_path.unlink(missing_ok=True)
            (root / DATABASE).unlink(missing_ok=True)
        journal = Journal.open(journal_path, about, "--restart begins anew")
        tuner = None if options.no_tuning else _tuner(options, folder, space, tell)
        rows = search(folder, space, settings, journal, tell, tuner)
        chosen = best_of(rows, options.goal)
        if chosen is not None and chosen.configuration.precision == INT8:
            integers = load_application(folder, INT8).modules()
            sources = {name: Source(one.file, one.sha256, integers[name]) for name, one in sources.items()}
    usual = next(row for row in rows if row.configuration == space.usual)
    found = Found(name=_name(options), settings=settings, space=space, rows=tuple(rows), usual=usual, chosen=chosen)
    return found, sources


def _tuner(options: AppOptions, folder: str, space: Space, tell: Callable[[str], None]) -> Tuner | None:
    """Make the database of the application, in DIR and in `folder`; who adds to it, where that is wanted."""
    kept, users = Path(str(options.output)) / DATABASE, default_database()
    own = [kept] if kept.is_file() else [users] if users.is_file() else []
    try:
        known = known_entries(space, own)
    except InputError as error:
        say(f"note: {error}; it is left out", err=True)
        known = known_entries(space, [])

    def keep(found: Sequence[Entry]) -> None:
        for path in (kept, Path(folder) / DATABASE) if found else ():
            add_entries(path, found, lambda where, text: write_text(str(where), text))

    keep(known)
    return Tuner(folder, options.limit, keep, tell) if options.goal in _TUNED_FOR else None


def _in_child(options: AppOptions, work: Callable[..., _T], *arguments: Any) -> _T:
    """What `work` gives, in a child process, as the code of FILE itself may do anything."""
    with Children(1, max(600.0, options.budget)) as children:
        try:
            return children.submit(work, *arguments).result()
        except ChildDied as death:
            raise ExecutionError(f"the program itself dies: {death.said or death.code}") from None
        except TimeLimit as late:
            raise ExecutionError(f"the program itself does not end: {late}") from None


def _name(options: AppOptions) -> str:
    if options.name is not None:
        return options.name
    first = options.files[0]
    return identifier("model" if first == "-" else Path(first).name.partition(".")[0])


def _nothing_works(found: Found) -> None:
    result = found.usual.result
    assert result is not None
    said = f"no configuration is good; the usual one ({found.usual.configuration}): {found.usual.word}"
    match result.status:
        case "refused":
            raise UnsupportedError(said)
        case "wrong":
            say(f"MISMATCH: {said}", err=True)
            raise CheckFailed
        case "measured":
            raise UnsupportedError(f"{found.settings.goal} cannot be measured here")
    raise ExecutionError(said)


# ---- what is written


def _written(options: AppOptions, sources: Mapping[str, Source], found: Found) -> dict[str, int]:
    """Write everything; the sizes of files by their paths in DIR, those of blobs together."""
    assert found.chosen is not None
    chosen = found.chosen.configuration
    changed = {
        name: Source(source.file, source.sha256, with_batch(source.module, options.over, chosen.batch))
        for name, source in sources.items()
    }
    machine = machine_for(chosen.target, chosen.threads)
    root = Path(str(options.output))
    built = LibraryOptions(
        machines=(machine,), pipeline=parse_pipeline(chosen.pipeline), tune=tuning_for(root, chosen.tuning)
    )
    library = build_library(found.name, changed, built)
    toml = _toml(options, found.name, chosen).encode()
    sizes: dict[str, int] = {}

    def write(path: str, parts: Sequence[bytes]) -> None:
        try:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExecutionError(f"cannot write {root / path}: {error.strerror or error}") from error
        write_bytes(root / path, partial(_write, parts))
        sizes[path] = sum(map(len, parts))

    for path, parts in files_of(library, "static").items():
        write(f"library/{path}", parts)
    if not options.no_image:
        files = layout(_image(options, library, chosen, toml))
        for path, parts in files.items():
            write(f"image/{path}", parts)
        _drop_old_blobs(root / "image" / "blobs" / "sha256", blobs_of(files))
    write("pareto.svg", [report_picture(found).encode()])
    write("pareto.json", [json.dumps(report_json(found), indent=1).encode() + b"\n"])
    write("hlotool.toml", [toml])
    blobs = [path for path in sizes if path.startswith("image/")]
    total = sum(sizes.pop(path) for path in blobs)
    return sizes | ({"image": total} if blobs else {})


def _write(parts: Sequence[bytes], stream: IO[bytes]) -> None:
    for part in parts:
        stream.write(part)


def _drop_old_blobs(folder: Path, wanted: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in wanted:
            path.unlink()


def _image(options: AppOptions, library: Library, chosen: Configuration, toml: bytes) -> Image:
    name = library.interface.name
    server = server_program(library, Service(chosen.replicas, chosen.threads))
    manifest = files_of(library, "object")[f"{name}.json"]
    layers: list[tuple[str, dict[str, File]]] = []
    if library.weights:
        layers.append(("weights", {f"app/{name}.weights": File(library.weights)}))
    layers.append((
        "the library in its server, and its configuration",
        {
            "app/server": File([server], program=True),
            f"app/{name}.json": File(manifest),
            "app/hlotool.toml": File([toml]),
        },
    ))  # fmt: skip
    labels = {
        "org.opencontainers.image.title": name,
        "hlotool.version": __version__,
        "hlotool.processors": ",".join(library.manifest["processors"]),
        "hlotool.configuration": str(chosen),
    }
    port = [] if options.port == 8080 else ["--port", str(options.port)]
    return Image(
        triple=str(library.manifest["triple"]), layers=layers, entrypoint=("/app/server", *port), folder="/app",
        port=options.port, tag=options.tag, labels=labels,
    )  # fmt: skip


def _toml(options: AppOptions, name: str, chosen: Configuration) -> str:
    """The choice as ``hlotool.toml``: its passes as a pipeline of that name, and all of it for those who read."""
    values: dict[str, Any] = {
        "name": name, "goal": options.goal, "accuracy": options.accuracy, **chosen.json(),
        "batch_over": list(options.over), **({"database": DATABASE} if chosen.tuning == "read" else {}),
    }  # fmt: skip
    rows = "".join(f"{key} = {_toml_value(value)}\n" for key, value in values.items())
    return (
        f"# Written by hlotool optimise-app: hlotool run -p {name} applies these passes.\n\n"
        f"[pipelines]\n{name} = {json.dumps(chosen.pipeline)}\n\n[application]\n{rows}"
    )


_Words = Callable[[Any], str]


def _toml_value(value: Any) -> str:
    words: _Words = json.dumps
    return repr(value) if isinstance(value, float) else words(value)
