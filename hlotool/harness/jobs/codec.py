"""Values of hlotool as JSON: what a job is told, and what it answers.

Numbers, words and lists are themselves.  What JSON has no form of is an object with the key ``is``: tuples, tables,
bytes, arrays, dataclasses and functions of hlotool by name, errors.  Long texts and bytes are named by their digest and
lie beside the JSON, so that a worker which has them already need not be sent them again.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hlotool.ir import ExecutionError, HloError, errors

__all__ = ["Contents", "digest_of", "function_of", "name_of", "packed", "packed_error", "unpacked", "unpacked_error"]

Contents = dict[str, bytes]
"""Long texts and bytes by their digest."""

_SHORT = 1024
"""Bytes that are written where they are used: a digest would save little."""


def digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def packed(value: Any, beside: Contents | None = None) -> Any:
    """A value as JSON; long contents go to `beside`, and into the JSON itself where there is none.

    TypeError for values that no job can have.
    """
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, str):
        return value if len(value) <= _SHORT or beside is None else {"is": "text", "of": _kept(value, beside)}
    if isinstance(value, float):
        return {"is": "float", "of": str(value)}
    if isinstance(value, list):
        return [packed(one, beside) for one in value]
    if isinstance(value, tuple):
        return {"is": "tuple", "of": [packed(one, beside) for one in value]}
    if isinstance(value, Mapping):
        return {"is": "table", "of": [[packed(key, beside), packed(one, beside)] for key, one in value.items()]}
    if isinstance(value, bytes):
        return {"is": "bytes", "of": _kept(value, beside)}
    if isinstance(value, Path):
        return {"is": "path", "of": str(value)}
    if isinstance(value, np.ndarray):
        kept = _kept(np.ascontiguousarray(value).tobytes(), beside)
        return {"is": "array", "of": kept, "type": value.dtype.name, "shape": list(value.shape)}
    if isinstance(getattr(value, "__qualname__", None), str) and not isinstance(value, type):
        return {"is": "function", "of": name_of(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        rows = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.init}
        return {"is": "record", "of": name_of(type(value)), "fields": {k: packed(v, beside) for k, v in rows.items()}}
    raise TypeError(f"a job cannot have a {type(value).__name__}")


def unpacked(value: Any, beside: Mapping[str, bytes]) -> Any:
    """The value that `packed` wrote; ValueError for JSON that is none."""
    if isinstance(value, list):
        return [unpacked(one, beside) for one in value]
    if not isinstance(value, dict):
        return value
    kind: str = value.get("is", "")
    of: Any = value.get("of")
    if kind in ("text", "bytes", "array"):
        data = beside[of["digest"]] if "digest" in of else base64.b64decode(of["base64"])
        if kind == "array":
            return np.frombuffer(bytearray(data), np.dtype(value["type"])).reshape(value["shape"])
        return data if kind == "bytes" else data.decode("utf-8", "surrogatepass")
    if kind == "tuple":
        return tuple(unpacked(one, beside) for one in of)
    if kind == "table":
        return {unpacked(key, beside): unpacked(one, beside) for key, one in of}
    if kind == "record":
        return function_of(of)(**{name: unpacked(one, beside) for name, one in value["fields"].items()})
    simple: dict[str, Callable[[str], Any]] = {"float": float, "path": Path, "function": function_of}
    if kind not in simple:
        raise ValueError(f"no value of a job: {kind!r}")
    return simple[kind](of)


def _kept(value: str | bytes, beside: Contents | None) -> dict[str, str]:
    data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    if beside is None or len(data) <= _SHORT:
        return {"base64": base64.b64encode(data).decode()}
    digest = digest_of(data)
    beside[digest] = data
    return {"digest": digest}


def name_of(function: Callable[..., Any]) -> str:
    """``module:name`` of a function or class of hlotool; TypeError for others, which a worker may not have."""
    module, name = function.__module__, function.__qualname__
    if module.partition(".")[0] != "hlotool" or "<" in name:
        raise TypeError(f"a job cannot have {module}.{name}")
    return f"{module}:{name}"


def function_of(name: str) -> Callable[..., Any]:
    """The function or class that `name_of` named."""
    module, _, path = name.partition(":")
    if module.partition(".")[0] != "hlotool":
        raise ValueError(f"no function of hlotool: {name}")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    made: Callable[..., Any] = found
    return made


def packed_error(error: BaseException) -> dict[str, Any]:
    """An error of a job: those of hlotool as they are, all others in words."""
    if isinstance(error, HloError) and getattr(errors, type(error).__name__, None) is type(error):
        return {"is": type(error).__name__, "message": error.message, "said": packed(error.diagnostics)}
    words = " ".join(str(error).split())
    return {"is": "ExecutionError", "message": f"a job failed: {type(error).__name__}: {words}", "said": None}


def unpacked_error(value: Mapping[str, Any]) -> HloError:
    kind = getattr(errors, str(value["is"]), None)
    if not (isinstance(kind, type) and issubclass(kind, HloError)):
        kind = ExecutionError
    made: HloError = kind(value["message"], unpacked(value["said"], {}) or ())
    return made
