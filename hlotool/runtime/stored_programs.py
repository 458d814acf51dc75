"""Whole programs in the cache: who finds one there needs neither parser nor passes nor LLVM.

Nothing here imports them, and neither should those who look here first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from hlotool.codegen.machine import Machine
from hlotool.runtime.cache import compiler_identity, default_cache, pack, unpack
from hlotool.runtime.cache_key import Key
from hlotool.runtime.image import Image, image_from_bytes, image_to_bytes
from hlotool.runtime.tuning import target_key, tuning_of

__all__ = ["RECALLED", "program_key", "recall_program", "remember_program"]

RECALLED = "compiled by an earlier process"
"""What is said of a program from the cache."""


def program_key(label: str, parts: Mapping[str, str], machine: Machine) -> Key:
    """The key of a program for `machine` that depends on `parts`, and on this very compiler."""
    described = dict(parts)
    for field, value in asdict(machine).items():
        fields = {f"{field} {key}": one for key, one in value.items()} if isinstance(value, dict) else {field: value}
        described |= {key: str(one) for key, one in fields.items()}
    described["tuning"] = tuning_of(None).identity(target_key(machine))
    return Key("program", label, {**described, **compiler_identity()})


def recall_program(key: Key) -> tuple[bytes, Image] | None:
    """What `remember_program` stored under `key`; None when there is nothing."""
    store = default_cache()
    data = None if store is None else store.get(key.digest)
    if data is None:
        return None
    beside, image = unpack(data)
    return beside, image_from_bytes(image)


def remember_program(key: Key, beside: bytes, image: Image | None) -> None:
    """Store a program, and what its owner wants to know of it; `image` is None for code that cannot be stored."""
    store = default_cache()
    if store is None or image is None:
        return
    try:
        content = image_to_bytes(image)
    except ValueError:
        return
    store.put(key.digest, pack([beside, content]), key.about_bytes())
