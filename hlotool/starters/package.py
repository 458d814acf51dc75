"""Write a package that adds a pass, a rule, a command or a backend to hlotool."""

from __future__ import annotations

import keyword
import re
import shutil
import tempfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from hlotool.driver.backends import backend_names
from hlotool.ir import InputError
from hlotool.passes.framework.registry import PIPELINES, pass_names
from hlotool.passes.simplify.algebra import all_rules

__all__ = ["KINDS", "new_package"]

KINDS = ("pass", "rule", "command", "backend")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 60


def new_package(name: str, kind: str = "pass", folder: Path | None = None, taken: tuple[str, ...] = ()) -> list[Path]:
    """Write the package ``hlotool-NAME`` into `folder` (by default one of that name), which must not exist; its files.

    InputError where the name is none that hlotool could look up, or is taken: by hlotool itself, by an installed
    package, or among `taken`.
    """
    _check(name, kind, taken)
    folder = Path(f"hlotool-{name}") if folder is None else folder
    if folder.exists() or folder.is_symlink():
        raise InputError(f"{folder} is there already; nothing was written")
    module = name.replace("-", "_")
    words = {
        "name": name, "package": f"hlotool_{module}", "function": module, "kind": kind, "groups": _group(kind),
        "Class": "".join(word.capitalize() for word in name.split("-")),
    }  # fmt: skip
    words["value"] = {"pass": words["Class"], "rule": module, "command": "command", "backend": "BACKEND"}[kind]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as made:
        whole = Path(made) / "package"
        for part in ("all", kind):
            _copy(files("hlotool.starters").joinpath("templates", part), whole, words)
        written = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
        shutil.move(whole, folder)  # complete, or not there at all
    return [folder / path for path in written]


def _check(name: str, kind: str, taken: tuple[str, ...]) -> None:
    if kind not in KINDS:
        raise InputError(f"kind: expected {', '.join(KINDS)}, not {kind!r}")
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        hint = f"at most {_LONGEST} small letters and digits, in words with hyphens between them, as in fold-twice"
        raise InputError(f"{name!r} is no name of a {kind}: expected {hint}")
    if keyword.iskeyword(name):
        raise InputError(f"{name!r} is a keyword of Python; choose another name")
    own = {
        "pass": [*pass_names(), *PIPELINES], "rule": [rule.name for rule in all_rules()], "backend": backend_names(),
        "command": taken,
    }  # fmt: skip
    if name in own[kind]:
        raise InputError(f"there is a {kind} called {name!r} already; choose another name")


def _group(kind: str) -> str:
    return {"pass": "passes"}.get(kind, f"{kind}s")


def _copy(source: Traversable, target: Path, words: dict[str, str]) -> None:
    """Copy a folder of templates, with `words` in the places of ``$name`` in texts and of ``_name_`` in paths."""
    target.mkdir(exist_ok=True)
    for entry in sorted(source.iterdir(), key=lambda entry: entry.name):
        called = entry.name.removesuffix(".in").replace("_package_", words["package"])
        called = called.replace("_function_", words["function"]).replace("_name_", words["name"])
        if entry.is_dir():
            _copy(entry, target / called, words)
        else:
            text = Template(entry.read_text(encoding="utf-8")).substitute(words)
            (target / called).write_text(text, encoding="utf-8")
