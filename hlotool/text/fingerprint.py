"""A hash of what a module computes.

Names, metadata, source places, the order in which independent instructions stand (schedules aside) and whether equal
computations are shared make no difference; shapes, layouts, constants, attributes and backend configurations do.
Every computation is hashed once, with the hashes of those that it calls in the place of their names.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import replace
from hashlib import sha256
from typing import Any

from hlotool.ir import Module
from hlotool.text.presets import FINGERPRINT, canonical_form
from hlotool.text.printer import print_computation, print_module

__all__ = ["content_hash", "without_places"]

_OPTIONS = replace(FINGERPRINT, nested=False, backend_config=True)
_PATH = re.compile(
    r"(?:file:)?(?:[A-Za-z]:[\\/]|~?/|\.{1,2}/)(?:[^\s\"'<>|:*?/\\]{1,255}[/\\]){0,64}[^\s\"'<>|:*?/\\]{1,200}"
    r"\.(?:py|ipynb|cc|cpp|cxx|cu|c|h|hpp|mlir|hlo|txt)(?::\d+){0,2}"
)
_WHOLE_PATH = re.compile(r"(?:[A-Za-z]:)?[^\n\"'<>|*?:]{0,4096}[/\\][^\n\"'<>|*?:/\\]{1,200}\.\w{1,5}(?::\d+){0,2}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}", re.ASCII)
_SOURCE_KEYS = frozenset(
    (
        "source_file", "source_line", "source_end_line", "source_column", "source_end_column", "op_name", "op_type",
        "stack_frame_id", "scheduling_name", "deduplicated_name", "metadata", "debug_info",
    )
)  # fmt: skip


def content_hash(module: Module) -> str:
    """SHA-256, in hexadecimal, of the module without its names, metadata and source paths.

    The same for a module and for what any lossless preset of it parses to.
    """
    form = canonical_form(module)
    for computation in form.computations.values():  # callees come first
        for instruction in computation:
            config = instruction.attributes.get("backend_config")
            if config is not None:
                instruction.attributes["backend_config"] = without_places(config)
        computation.name = "c" + sha256(_bytes(print_computation(computation, _OPTIONS))).hexdigest()
    top = Module("", form.attributes)
    top.computations, top.entry = {form.entry.name: form.entry}, form.entry
    return sha256(_bytes(print_module(top, _OPTIONS))).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def without_places(config: str) -> str:
    """A backend configuration without source paths: JSON with sorted keys, other text with the paths cut out."""
    if config.startswith("{"):
        try:
            return json.dumps(_cleaned(json.loads(config)), sort_keys=True, separators=(",", ":"))
        except (ValueError, RecursionError):
            pass
    return _text(config)


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cleaned(one) for key, one in value.items() if key not in _SOURCE_KEYS}
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """Text without paths; base64 whose content has paths becomes the hash of the content without them."""
    if _WHOLE_PATH.fullmatch(text):
        return ""
    if _BASE64.fullmatch(text) and len(text) % 4 == 0:
        try:
            content = base64.b64decode(text, validate=True).decode("latin-1")
        except binascii.Error:
            return text
        bare = _PATH.sub("", content)
        return text if bare == content else "base64:" + sha256(bare.encode("latin-1")).hexdigest()
    return _PATH.sub("", text)
