"""What a program is once it is compiled: by hlotool, now or in another process that left it in the cache, or by jaxlib.

The compiler is loaded when a program is not in the cache, and not before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy.typing as npt

from hlotool.codegen.machine import default_machine
from hlotool.ir import Shape
from hlotool.jax.pjrt.lowering import Options, without_locations
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import default_cache
from hlotool.runtime.cache_key import Key
from hlotool.runtime.entry import Entry
from hlotool.runtime.image import Image, load_image
from hlotool.runtime.stored_programs import RECALLED, program_key, recall_program, remember_program

if TYPE_CHECKING:
    from hlotool.runtime.coroutines import Coroutines

__all__ = ["Code", "Made", "Runner", "code_of_image", "key_of", "recall", "remember"]

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Code:
    """Native code: `run` takes and gives arrays; `entry` is the function behind it, None where there is more to do;
    several devices run that as `coroutines`.

    `donated` maps results to the parameters in whose memory they are.
    """

    run: Callable[..., Sequence[Array]]
    entry: Entry | None
    donated: Mapping[int, int]
    arena_bytes: int
    code_bytes: int
    coroutines: Coroutines | None = None


class Runner(Protocol):
    """What runs programs on several devices, and those that hlotool does not compile."""

    def run(self, arguments: Sequence[Sequence[Array]], arrays: Sequence[bool]) -> list[list[Array]]:
        """The results of every device, of the arguments of every device; `arrays` tells those results from tokens."""
        ...

    def text(self) -> bytes:
        """The program of a device, optimised, as a serialized HloModuleProto."""
        ...

    def parameter_shardings(self) -> list[bytes] | None:
        """A serialized OpSharding for every parameter; None where nothing is divided."""
        ...

    def output_shardings(self) -> list[bytes] | None:
        """A serialized OpSharding for every result; None where nothing is divided."""
        ...


@dataclass(frozen=True, slots=True)
class Made:
    """A program: its `code` or, for a `reason`, what jaxlib makes of it; either is the `runner` of several devices.

    `donated` are the parameters that a run gives up, `targets` the custom calls that it alone has.
    """

    name: str
    signature: str
    parameters: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    donated: frozenset[int]
    code: Code | None = None
    runner: Runner | None = None
    reason: str = ""
    note: str = ""
    targets: tuple[str, ...] = ()


def code_of_image(image: Image) -> Code:
    """The code of an image, loaded."""
    entry = load_image(image)
    return Code(entry, entry, dict(image.aliases), image.arena_bytes, sum(map(len, image.objects)))


def key_of(program: bytes, options: Options) -> Key | None:
    """Where the cache has what is made of a program, wherever it is written; None where it cannot be there."""
    if len(options.devices) > 1 or default_cache() is None:
        return None
    found = without_locations(program)
    if found is None:
        return None
    name, code = found
    parts = {"program": name, "content": sha256(code).hexdigest(), "jaxlib": _jaxlib()}
    return program_key(name, parts, default_machine())


@cache
def _jaxlib() -> str:
    from jaxlib import version

    return str(version.__version__)


def recall(key: Key) -> Made | None:
    """What another process left under `key`; None where there is nothing."""
    found = recall_program(key)
    if found is None:
        return None
    described, image = found
    name, signature, donated = json.loads(described)
    return Made(
        name, signature, image.parameters, image.outputs, frozenset(donated), code_of_image(image),
        note=RECALLED,
    )  # fmt: skip


def remember(key: Key, made: Made, image: Image | None) -> None:
    """Leave a program for other processes, where it can be stored."""
    described = json.dumps([made.name, made.signature, sorted(made.donated)]).encode()
    remember_program(key, described, image)
