"""The options that choose passes: -p, -O, --disable and --only.  No pass is imported where none is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from hlotool.cli.completion import passes, pipelines

if TYPE_CHECKING:
    from hlotool.passes.framework.steps import Pipeline

__all__ = [
    "DEFAULT",
    "OWN_PIPELINES",
    "choosing_options",
    "named_pipeline",
    "pass_list",
    "passes_options",
    "variants_options",
]

DEFAULT = "default"

OWN_PIPELINES = frozenset({DEFAULT, "none", "O0", "O1", "O2", "O3"})
"""Those that hold no passes of other packages, whose code may change without our knowing."""


def named_pipeline(text: str, disable: frozenset[str] = frozenset(), only: frozenset[str] = frozenset()) -> Pipeline:
    """A pipeline in which names of ``hlotool.toml`` may stand, without the passes in `disable`, and if `only` names
    some, with no others."""
    from hlotool.cli.config import named_pipelines
    from hlotool.passes.framework.pipeline import parse_pipeline
    from hlotool.passes.framework.select import only as with_only
    from hlotool.passes.framework.select import without

    found = parse_pipeline(text, named_pipelines())
    if only:
        found = with_only(found, only)
    return without(found, disable) if disable else found


def pass_list(context: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[str]:
    """The names of passes in a list with commas."""
    names = frozenset(filter(None, (name.strip() for name in (value or "").split(","))))
    if not names:
        return names
    from hlotool.passes.framework.registry import pass_names

    unknown = sorted(names - set(pass_names()))
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], pass_names(), 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise click.BadParameter(f"no pass is called {unknown[0]!r}{hint}", context, parameter)
    return names


def choosing_options(
    default: str = DEFAULT, several: bool = False
) -> tuple[list[Callable[..., Any]], list[Callable[..., Any]]]:
    """-p and -O, and --disable and --only; `several` of the former make several variants."""
    more = " Several make several variants." if several else ""
    text = "Passes to apply: simplify,fusion{max-ops=64},fixpoint(cse,dce). 'hlotool passes' lists them."
    levels = click.Choice(["0", "1", "2", "3"])
    first = [
        click.option(
            "-p", "--passes", multiple=several, metavar="PIPELINE", help=f"{text}{more} [default: {default}]",
            shell_complete=pipelines,
        ),
        click.option("-O", "level", type=levels, multiple=several, help="A pipeline by effort: -O2 is 'default'."),
    ]  # fmt: skip
    second = [
        click.option(
            name, callback=pass_list, metavar="PASS,...", help=f"Leave {what} passes out.", shell_complete=passes
        )
        for name, what in (("--disable", "these"), ("--only", "all other"))
    ]
    return first, second


def passes_options(default: str = DEFAULT) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options; the command gets the text of the pipeline that they choose, called `passes`."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        def chosen(passes: str | None, level: str | None, disable: frozenset[str], only: frozenset[str]) -> str:
            if passes is not None and level is not None:
                raise click.UsageError("-p and -O each choose the passes: give one of them")
            if default == "none" and passes is None and level is None and (disable or only):
                raise click.UsageError("--disable and --only leave out passes of -p or -O: give one of these")
            return _text(passes or (f"O{level}" if level else default), disable, only)

        return _gathered(command, "passes", chosen, choosing_options(default))

    return add


def variants_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options, of which several -p and -O make variants; the command gets the texts of their pipelines by the
    options that chose them, called `pipelines`."""

    def chosen(
        passes: Sequence[str], level: Sequence[str], disable: frozenset[str], only: frozenset[str]
    ) -> dict[str, str]:
        asked = {f"-p {text}": text for text in passes} | {f"-O{digit}": f"O{digit}" for digit in level}
        return {label: _text(text, disable, only) for label, text in (asked or {f"-p {DEFAULT}": DEFAULT}).items()}

    return _gathered(command, "pipelines", chosen, choosing_options(several=True))


def _text(passes: str, disable: frozenset[str], only: frozenset[str]) -> str:
    """The text of a pipeline without names of ``hlotool.toml``."""
    if passes in OWN_PIPELINES and not disable and not only:
        return passes
    from hlotool.passes.framework.steps import pipeline_text

    return pipeline_text(named_pipeline(passes, disable, only), names=False)


def _gathered(
    command: Callable[..., Any], name: str, chosen: Callable[..., Any], options: Sequence[Sequence[Callable[..., Any]]]
) -> Callable[..., Any]:
    """`command` with `options`, whose values it gets as what `chosen` makes of them."""

    @wraps(command)
    def gathered(**values: Any) -> Any:
        own = {key: values.pop(key) for key in ("passes", "level", "disable", "only")}
        return command(**{name: chosen(**own)}, **values)

    decorated: Callable[..., Any] = gathered
    for option in reversed([option for group in options for option in group]):
        decorated = option(decorated)
    return decorated
