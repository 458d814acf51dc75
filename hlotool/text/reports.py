"""Diagnostics in the forms that other programs read: one line each, GitHub's workflow commands, SARIF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from hlotool.ir import Diagnostic, Location
from hlotool.text.codes import CATALOGUE
from hlotool.text.diagnostics import suggestion
from hlotool.text.page import Page

__all__ = ["concise", "github", "sarif"]


def concise(diagnostic: Diagnostic) -> str:
    """``file:line:column: CODE message``, one line."""
    place = diagnostic.location
    where = f"{place.file}:{place.line}:{place.column}: " if place else ""
    hint = f" ({diagnostic.hint})" if diagnostic.hint else ""
    return _one_line(f"{where}{diagnostic.code} {diagnostic.message}{hint}")


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def github(diagnostic: Diagnostic) -> str:
    """A workflow command of GitHub Actions, which becomes an annotation of the line."""
    place = diagnostic.location
    properties: list[tuple[str, object]] = []
    if place is not None:
        properties += [("file", place.file), ("line", place.line), ("endLine", place.end_line)]
        if place.line == place.end_line:  # columns are only taken inside one line
            properties += [("col", place.column), ("endColumn", place.end_column)]
    properties.append(("title", diagnostic.code))
    message = diagnostic.message if diagnostic.hint is None else f"{diagnostic.message}\n{diagnostic.hint}"
    inside = ",".join(f"{name}={_escape_property(str(value))}" for name, value in properties)
    return f"::{_LEVELS.get(diagnostic.severity, 'error')} {inside}::{_escape_data(message)}"


_LEVELS = {"warning": "warning", "note": "notice"}


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def sarif(
    diagnostics: Sequence[Diagnostic], version: str, pages: Mapping[str, Page] = CATALOGUE
) -> dict[str, Any]:
    """A SARIF 2.1.0 log (OASIS standard) with one run; `version` is this program's, `pages` say what codes mean."""
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    driver = {"name": "hlotool", "version": version, "rules": [_rule(code, pages.get(code)) for code in codes]}
    results = [_result(diagnostic, codes.index(diagnostic.code)) for diagnostic in diagnostics]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


def _rule(code: str, page: Page | None) -> dict[str, Any]:
    if page is None:
        return {"id": code}
    help_text = f"{page.meaning}\n\nWrong:\n\n{page.wrong}\nRight:\n\n{page.right}"
    return {
        "id": code,
        "shortDescription": {"text": page.title},
        "fullDescription": {"text": page.meaning},
        "help": {"text": help_text.replace("\0", "\N{SYMBOL FOR NULL}")},
        "defaultConfiguration": {"level": "error"},
    }


def _result(diagnostic: Diagnostic, rule: int) -> dict[str, Any]:
    text = diagnostic.message if diagnostic.hint is None else f"{diagnostic.message}\n{diagnostic.hint}"
    level = diagnostic.severity if diagnostic.severity in ("error", "warning", "note") else "error"
    found: dict[str, Any] = {
        "ruleId": diagnostic.code, "ruleIndex": rule, "level": level, "message": {"text": text},
    }  # fmt: skip
    place = diagnostic.location
    if place is not None:
        found["locations"] = [_location(place)]
    if diagnostic.related:
        found["relatedLocations"] = [
            {"id": number, **_location(other), "message": {"text": note}}
            for number, (note, other) in enumerate(diagnostic.related)
        ]
    fix = suggestion(diagnostic)
    if fix is not None and place is not None:
        replacement = {"deletedRegion": _region(place), "insertedContent": {"text": fix}}
        change = {"artifactLocation": {"uri": _uri(place.file)}, "replacements": [replacement]}
        found["fixes"] = [{"description": {"text": str(diagnostic.hint)}, "artifactChanges": [change]}]
    return found


def _location(place: Location) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": _region(place)}}


def _region(place: Location) -> dict[str, int]:
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": max(place.line, place.end_line),
        "endColumn": max(place.end_column, place.column) if place.end_line <= place.line else place.end_column,
    }


def _uri(file: str) -> str:
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix(), errors="replace")
