"""The file ``hlotool.toml``: named pipelines of a project.

    [pipelines]
    mine = "simplify,fusion{max-ops=64}"

What ``hlotool optimise-app`` chose stands there, too, in a table [application], for those who read it.

It is looked for in the working directory and then in the folders above it; ``HLOTOOL_CONFIG`` names another file.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import click

__all__ = ["find_config", "named_pipelines"]


def named_pipelines() -> dict[str, str]:
    """The pipelines of the project by name; UsageError where the file is wrong."""
    path = _find()
    if path is None:
        return {}
    content = _read(path)
    unknown = sorted(set(content) - {"pipelines", "application"})
    if unknown:
        raise click.UsageError(f"{path}: there is no table [{unknown[0]}]; hlotool knows [pipelines] and [application]")
    pipelines = content.get("pipelines", {})
    if not isinstance(pipelines, dict) or not all(isinstance(text, str) for text in pipelines.values()):
        raise click.UsageError(f'{path}: [pipelines] has lines like  mine = "simplify,fusion"')
    from hlotool.passes.framework.registry import PIPELINES, pass_names

    taken = sorted(set(pipelines) & {*PIPELINES, *pass_names(), "fixpoint"})
    if taken:
        raise click.UsageError(f"{path}: {taken[0]!r} is a pass or pipeline of hlotool; choose another name")
    return pipelines


def _find() -> Path | None:
    given = os.environ.get("HLOTOOL_CONFIG")
    if given:
        return Path(given)
    return find_config(Path.cwd())


def find_config(here: Path) -> Path | None:
    """The file in a folder, or in the nearest one above it that has one."""
    return next((p for folder in (here, *here.parents) if (p := folder / "hlotool.toml").is_file()), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from None
