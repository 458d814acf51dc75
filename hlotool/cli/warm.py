"""Running a file that was run before: its compiled code is in the cache under the bytes of the file.

Nothing here imports the parser, passes or code generation, and neither does the command when the code is there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from hlotool.cli.passes_options import OWN_PIPELINES
from hlotool.codegen.machine import Machine
from hlotool.harness.inputs import Input
from hlotool.harness.roles import Role
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime import stored_programs
from hlotool.runtime.cache_key import Key
from hlotool.runtime.image import Image
from hlotool.runtime.stored_programs import recall_program, remember_program

__all__ = ["Prepared", "digest_of_file", "program_key", "recall", "remember"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """The code of a file, and what it takes."""

    inputs: tuple[Input, ...]
    image: Image


def digest_of_file(file: str) -> str | None:
    """The digest of what is in `file`; None where that cannot be read, or read twice."""
    if not os.path.isfile(file):
        return None
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return None


def recall(file: str, digest: str, passes: str, machine: Machine) -> Prepared | None:
    """What `remember` stored for this file and these options; None when there is nothing."""
    stored = recall_program(program_key(file, digest, passes, machine)) if passes in OWN_PIPELINES else None
    if stored is None:
        return None
    described, found = stored
    names = zip(json.loads(described), found.parameters, strict=True)
    return Prepared(tuple(Input(name, shape, bound, Role(*role)) for (name, bound, role), shape in names), found)


def remember(
    file: str, digest: str, passes: str, machine: Machine, inputs: Sequence[Input], image: Image | None
) -> None:
    """Store the code of a file whose bytes have `digest`; `image` is None for code that cannot be stored."""
    if passes in OWN_PIPELINES:
        described = json.dumps([[leaf.name, leaf.bound, astuple(leaf.role)] for leaf in inputs]).encode()
        remember_program(program_key(file, digest, passes, machine), described, image)


def program_key(file: str, digest: str, passes: str, machine: Machine) -> Key:
    """What the code of a file depends on, whose bytes have `digest`."""
    # The name of a file may say in which form it is.
    name = os.path.basename(file).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return stored_programs.program_key(name, {"file": name, "content": digest, "passes": passes}, machine)
