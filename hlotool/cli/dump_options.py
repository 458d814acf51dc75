"""The options that write and draw the module after every pass that changed it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from hlotool.cli.output import folder_of
from hlotool.cli.words import say
from hlotool.ir import Module, UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.manager import Progress

if TYPE_CHECKING:
    from hlotool.analysis.decisions import DecisionLog
    from hlotool.inspect.dump import Dump

__all__ = ["DumpChoice", "dump_options"]

_FORMATS = ("text", "diff", "html", "dot", "svg", "buffers", "llvm", "asm")
_DEFAULT = "text,diff,html"


@dataclass(frozen=True, slots=True)
class DumpChoice:
    """What the options of `dump_options` say."""

    dump_to: str | None
    dump_format: tuple[str, ...]
    dump_filter: re.Pattern[str] | None
    dump_filter_computation: re.Pattern[str] | None
    dump_filter_instruction: re.Pattern[str] | None
    dump_filter_module: re.Pattern[str] | None

    @contextmanager
    def watching(
        self, module: Module, progress: Progress, number: int | None = None, log: DecisionLog | None = None
    ) -> Iterator[list[Dump]]:
        """The instruments that were asked for (none without --dump-to); on leaving, index and pictures are made.

        The `number`-th of several modules has a directory of its own.  Drawings have the reasons of `log`.
        """
        unwanted = self.dump_filter_module is not None and not self.dump_filter_module.search(module.name)
        if self.dump_to is None or unwanted:
            yield []
            return
        from hlotool.inspect.dump import Dump, Filters

        directory = folder_of(self.dump_to, module, number)
        filters = Filters(self.dump_filter, self.dump_filter_computation, self.dump_filter_instruction)
        dump = Dump(module, directory, self.dump_format, filters, progress, log=log)
        try:
            yield [dump]
        except BaseException:
            with suppress(UnsupportedError, OSError):  # the error that is on its way matters more
                dump.finish()
            raise
        dump.finish()
        for step in dump.steps:
            if step.note.startswith("no picture"):
                say(f"{directory}: step {step.number}, {step.name}: {step.note}", err=True)


def _formats(context: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    chosen = tuple(name.strip() for name in value.split(",") if name.strip())
    if chosen == ("all",):
        return _FORMATS
    unknown = [name for name in chosen if name not in _FORMATS]
    if unknown or not chosen:
        raise click.BadParameter(f"expected a list of {', '.join(_FORMATS)}, or all, not {value!r}", context, parameter)
    return chosen


def _expression(context: click.Context, parameter: click.Parameter, value: str | None) -> re.Pattern[str] | None:
    try:
        return re.compile(value) if value else None
    except re.error as error:
        raise click.BadParameter(f"no regular expression: {error}", context, parameter) from None


_OPTIONS = [
    click.option(
        "--dump-to",
        type=click.Path(file_okay=False),
        metavar="DIR",
        help="Write every step into DIR, with an index.html to flip through.",
    ),
    click.option(
        "--dump-format",
        callback=_formats,
        default=_DEFAULT,
        show_default=True,
        metavar="LIST",
        help="Of text, diff, html, dot, svg (needs Graphviz), and when compiling buffers, llvm and asm; or all.",
    ),
    click.option(
        "--dump-filter",
        callback=_expression,
        metavar="RE",
        help="Only after passes whose name the regular expression finds.",
    ),
    click.option(
        "--dump-filter-computation",
        callback=_expression,
        metavar="RE",
        help="Only steps that change something in computations whose name RE finds.",
    ),
    click.option(
        "--dump-filter-instruction",
        callback=_expression,
        metavar="RE",
        help="Only steps that add, remove or change instructions whose name RE finds.",
    ),
    click.option(
        "--dump-filter-module", callback=_expression, metavar="RE", help="Only modules whose name RE finds."
    ),
]


def dump_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options; the command gets them as one `DumpChoice` called `dump`."""
    names = [row.name for row in fields(DumpChoice)]

    @wraps(command)
    def gathered(**values: Any) -> Any:
        return command(dump=DumpChoice(**{name: values.pop(name) for name in names}), **values)

    decorated: Callable[..., Any] = gathered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
