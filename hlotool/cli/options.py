"""Options and arguments that several commands have."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from hlotool.cli.completion import backends, cpus

if TYPE_CHECKING:
    from hlotool.analysis.donation import Donate
    from hlotool.codegen.machine import Machine

__all__ = [
    "Amount",
    "Setting",
    "Share",
    "backend_option",
    "check_backend",
    "cpu_option",
    "cpus_option",
    "devices_options",
    "diagnostics_format_option",
    "donate_option",
    "elided_option",
    "file_argument",
    "finite_loops_option",
    "form_of",
    "form_option",
    "format_option",
    "is_given",
    "max_undecided_option",
    "module_inputs_options",
    "mpi_options",
    "numerics_options",
    "optional_file_argument",
    "output_options",
    "strict_option",
    "threads_option",
    "tolerance_options",
    "tune_option",
]

file_argument = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
optional_file_argument = click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), required=False)


def form_option(*forms: str, words: str = "Form of the report.") -> Callable[..., Any]:
    """``--format``, one of `forms`, the first if it is not given, called `form`."""
    choice = click.Choice(forms)
    return click.option("--format", "form", type=choice, default=forms[0], show_default=True, help=words)


format_option = form_option("text", "json")
diagnostics_format_option = form_option(
    "text", "concise", "json", "github", "sarif",
    words="With source lines; a line each; JSON; commands for GitHub Actions; SARIF 2.1.0.",
)  # fmt: skip


def output_options(*forms: str, words: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--format``, one of `forms`, and ``-o``, called `form` and `output`: `form_of` says which form that makes."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        said = f"{words}  Else what -o ends in, else {forms[0]}.".strip()
        chosen = click.option("--format", "form", type=click.Choice(forms), help=said)
        path = click.Path(dir_okay=False, allow_dash=True)
        return chosen(click.option("-o", "--output", type=path, metavar="OUT", help="Write it here.")(command))

    return add


def form_of(form: str | None, output: str | None, forms: Sequence[str], *, others: bool = True) -> str:
    """Which of `forms` --format asks for; else the one that the name of the output ends in; else the first, or unless
    `others` may be, a UsageError for names that end in something else."""
    if form is not None or output is None:
        return form or forms[0]
    suffix = os.path.splitext(output)[1].lower().removeprefix(".")
    found = {"htm": "html", "gv": "dot"}.get(suffix, suffix)
    if found in forms:
        return found
    if suffix and not others:
        known = ", ".join(f".{one}" for one in sorted(forms))
        raise click.UsageError(f"-o {output}: no form ends in .{suffix}; known are {known}, and --format decides, too")
    return forms[0]


threads_option = click.option(
    "--threads", type=click.IntRange(1, 1024), metavar="N", help="Threads to use; else HLOTOOL_THREADS, else all cores."
)


def _strict(context: click.Context, parameter: click.Parameter, value: bool | None) -> None:
    if value is not None:
        os.environ["HLOTOOL_STRICT"] = str(int(value))  # for the whole command, child processes too


strict_option = click.option(
    "--strict/--no-strict",
    default=None,
    expose_value=False,
    callback=_strict,
    help="Whether a failure of a part of hlotool is an error (70), or compilation goes on without it; "
    "else HLOTOOL_STRICT. [default: no-strict]",
)


def _tune(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        os.environ["HLOTOOL_TUNE"] = value  # for the whole command, child processes too


tune_option = click.option(
    "--tune",
    type=click.Choice(["off", "exact", "read", "write"]),
    expose_value=False,
    callback=_tune,
    help="What is taken of tuning databases (see hlotool tune): nothing, what leaves all bits as they are, all, or all "
    "and note kernels that they lack; else HLOTOOL_TUNE, else exact, of what hlotool brings along.",
)


class Share(click.ParamType[float]):
    """A part of a whole: ``5%`` or ``0.05``, from 0 to 1."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is no share: expected something like 5% or 0.05", param, ctx)
        return share


class Setting(click.ParamType[tuple[str, str]]):
    """``NAME=VALUE``."""

    name = "setting"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, sign, text = str(value).partition("=")
        if not (name.strip() and sign and text.strip()):
            self.fail(f"{value!r} is no setting: expected NAME=VALUE, as in x.0=8", param, ctx)
        return name.strip().lstrip("%"), text.strip()


class Amount(click.FloatRange):
    """A number from 0 up that is a number."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail("not a number", param, ctx)
        return number


def module_inputs_options(purpose: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--inputs and --random, called `inputs` and `seed`: what `harness.input_files.module_inputs` takes."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        archive = click.option(
            "--inputs", type=click.Path(dir_okay=False), metavar="FILE",
            help=f"Arrays by name or as arg0, arg1, ... (.npz, .safetensors), or a snapshot of XLA{purpose}.",
        )  # fmt: skip
        random = click.option(
            "--random", "seed", type=click.IntRange(0), default=0, metavar="SEED", help=f"Random ones instead{purpose}."
        )
        return archive(random(command))

    return add


def is_given(*names: str) -> bool:
    """Whether the user gave one of the options, called by the names of their parameters."""
    context = click.get_current_context()
    sources = [context.get_parameter_source(name) for name in names]
    return any(source not in (None, click.core.ParameterSource.DEFAULT) for source in sources)


def tolerance_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--atol and --rtol: the tolerance of a comparison."""
    relative = click.option(
        "--rtol",
        type=Amount(),
        metavar="X",
        help="Relative tolerance (default: 64 epsilon with a file, error bounds with programs; integers exact).",
    )
    absolute = click.option(
        "--atol", type=Amount(), metavar="X", help="Absolute tolerance, times the output's root mean square."
    )
    return absolute(relative(command))


def max_undecided_option(words: str) -> Callable[..., Any]:
    """``--max-undecided``, explained by `words`."""
    return click.option("--max-undecided", type=Share(), default="1%", show_default=True, metavar="SHARE", help=words)


elided_option = click.option(
    "--elided",
    type=click.Choice(["zeros", "random"]),
    help="What constants hold whose contents the text leaves out ({...}); without it such a module is refused.",
)


def _donate(context: click.Context, parameter: click.Parameter, value: str | None) -> Donate:
    if value is None or value == "declared":
        return value or ()  # type: ignore[return-value]  # a str of one kind
    if not all(part.strip().isdecimal() for part in value.split(",")):
        raise click.BadParameter("expected numbers with commas, or 'declared'", context, parameter)
    return tuple(int(part) for part in value.split(","))


finite_loops_option = click.option(
    "--finite-loops/--no-finite-loops",
    default=True,
    show_default=True,
    help="Whether loops are taken to end, so that one whose results nobody reads is removed, as XLA does.",
)


donate_option = click.option(
    "--donate",
    callback=_donate,
    metavar="NUMBERS|declared",
    help="Parameters (0,2) whose arrays results may overwrite, or those that input_output_alias and buffer_donor name.",
)


def _assignment(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not all(part.strip().isdecimal() for part in value.split(",")):
        raise click.BadParameter("expected the rank of each device, with commas, as in 0,0,1,1", context, parameter)
    return tuple(int(part) for part in value.split(","))


def mpi_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--devices and what goes with --devices mpi."""
    options = [
        click.option(
            "--devices", type=click.Choice(["threads", "mpi"]), default="threads", show_default=True,
            help="Whether devices are threads of this process, or spread over the processes of an MPI job.",
        ),
        click.option(
            "--assignment", callback=_assignment, metavar="RANKS",
            help="With --devices mpi: the rank of each device, as in 0,0,1,1 (default: blocks of equal sizes).",
        ),
        click.option(
            "--fast-collectives", is_flag=True,
            help="With --devices mpi: reductions in any order, as MPI likes, so that bits may depend on how many "
            "processes there are.",
        ),
        click.option(
            "--log-ranks", is_flag=True,
            help="With --devices mpi: all ranks print, [rank 3] in front of each line, and not rank 0 alone.",
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def devices_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--replicas and --partitions: how many devices the program runs on."""
    for name in ("partitions", "replicas"):
        help_ = f"{name.capitalize()} (default: as FILE says)."
        command = click.option(f"--{name}", type=click.IntRange(1, 1024), metavar="N", help=help_)(command)
    return command


def numerics_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that trade exactness for speed."""
    options = [
        click.option(
            "--excess-precision",
            is_flag=True,
            help="Native code may keep f16 and bf16 results in f32 between elementwise operations.",
        ),
        click.option(
            "--flush-denormals",
            is_flag=True,
            help="Arithmetic on f32, f64 and bf16 takes subnormal numbers for zeros.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def backend_option(words: str) -> Callable[..., Any]:
    """``--backend``, explained by `words`; `check_backend` says whether there is such a one."""
    return click.option(
        "--backend", "--target", "backend", default="cpu", show_default=True, metavar="NAME", help=words,
        shell_complete=backends,
    )


def check_backend(name: str) -> None:
    """UsageError where no backend has that name."""
    from hlotool.driver import backend_names, find_backend
    from hlotool.ir import UnsupportedError

    if ":" in name:  # for one of its targets
        try:
            find_backend(name)
        except UnsupportedError as error:
            raise click.UsageError(error.message) from None
    elif name not in backend_names():
        known = ", ".join([*backend_names(), "nvptx:CHIP", "amdgcn:CHIP"])
        raise click.UsageError(f"no backend {name!r}; there are {known}")


def _machine(context: click.Context, parameter: click.Parameter, value: str | None) -> Machine | None:
    from hlotool.codegen.machine import named

    try:
        return None if value is None else named(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def _machines(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, Machine | None]:
    return {value: _machine(context, parameter, value) for value in values}


_NAMES = (
    "x86-64, x86-64-v2, -v3, -v4, aarch64, neoverse-v1, a64fx, rv64gc, rv64gcv; generic for any "
    "(generic,triple=s390x-unknown-linux-gnu); or host with "
    "other properties: host,l2=512K,cores=4."
)
cpu_option = click.option(
    "--cpu",
    "machine",
    callback=_machine,
    metavar="NAME",
    help=f"Processor to compile for, if not this one: {_NAMES}",
    shell_complete=cpus,
)
cpus_option = click.option(
    "--cpu",
    "machines",
    callback=_machines,
    metavar="NAME",
    multiple=True,
    help=f"Processor to compile for; several make several variants: {_NAMES}",
    shell_complete=cpus,
)
