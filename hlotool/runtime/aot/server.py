"""A program that serves a library over HTTP: C around its interface, linked with it to one file that needs no other.

`templates/server.c` says what it serves, and how; a container image is made of it by `oci`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import UnsupportedError
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.aot.header import header, template
from hlotool.runtime.aot.library import Library
from hlotool.runtime.aot.linker import linked_program
from hlotool.version import __version__

__all__ = ["Service", "check_servable", "server_program"]


@dataclass(frozen=True, slots=True)
class Service:
    """How a server works where its command line says nothing else: processes, and the threads of each."""

    replicas: int = 1
    threads: int = 1


def check_servable(functions: Sequence[str]) -> None:
    """UnsupportedError for a library whose calls ask for `functions` of their context: a server has none."""
    if functions:
        raise UnsupportedError(
            f"a server has no function for {', '.join(functions)}: serve its library by a program of yours"
        )


def server_program(library: Library, service: Service) -> bytes:
    """The program, for the system that the library is for.

    UnsupportedError where the library asks for functions or threads that a server lacks, or where nothing compiles C;
    ExecutionError has what a compiler says.
    """
    interface, triple = library.interface, str(library.manifest["triple"])
    check_servable(interface.functions)
    if library.threads is None or "linux" not in triple:
        raise UnsupportedError(f"{triple}: servers are for Linux")
    weights = library.manifest["weights"]
    about = f"Written by hlotool {__version__}."
    source = template(
        "server.c", ABOUT=about, NAME=interface.name, NAME_UPPER=interface.name.upper(), REPLICAS=service.replicas,
        THREADS=service.threads,
    )  # fmt: skip
    size = weights["bytes"] if weights else 0
    files = {
        "server.c": source.encode(),
        f"{interface.name}.h": header(interface, size, library.manifest["random"], library.threads, about).encode(),
    }
    return linked_program([library.object, library.threads.object], files, triple)
