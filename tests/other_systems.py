"""A process that is told it is on macOS or Windows: ``python other_systems.py darwin|win32 [FILE.hlo ...]``.

What Python has on Linux alone is taken away, all of hlotool is imported, and programs are compiled and run with the
code that those systems would get: objects in Mach-O, which LLVM's linker places here as well; on Windows, code that
calls by the conventions of Windows, with a function in between wherever the two worlds meet.  Only the processor is
this one's.

It says ``imported N``, and of each file ``ok`` or what differs from what it means.
"""

from __future__ import annotations

import ast
import ctypes
import importlib
import os
import platform
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXTRAS = {
    "distributed", "iree", "jax", "jaxlib", "lsprotocol", "mpi4py", "msvcrt", "numba", "onnx", "onnxruntime", "pygls",
    "safetensors", "scipy", "sklearn", "tensorflow", "torch",
}  # fmt: skip  # which may be missing here, as may a module of Windows
ABSENT = {  # modules and functions that Python has not there
    "darwin": ({"spwd", "ossaudiodev"}, {"os": ("sched_", "memfd_", "pidfd_", "eventfd", "getrandom", "splice")}),
    "win32": (
        {
            "crypt", "curses", "fcntl", "grp", "nis", "ossaudiodev", "posix", "pty", "pwd", "readline", "resource",
            "spwd", "syslog", "termios", "tty",
        },
        {
            "os": (
                "fork", "register_at_fork", "sched_", "memfd_", "pidfd_", "eventfd", "getrandom", "splice", "geteuid",
                "getuid", "getegid", "getgid", "getpgid", "getpgrp", "getpriority", "killpg", "setsid", "setpgid",
                "sysconf", "uname", "chown", "lchown", "fchmod", "getloadavg", "mkfifo", "O_NOFOLLOW", "O_CLOEXEC",
                "O_DIRECT", "wait", "W", "posix_", "nice", "statvfs", "pread", "pwrite", "ctermid", "ttyname",
            ),
            "signal": (
                "SIGKILL", "SIGALRM", "SIGHUP", "SIGQUIT", "SIGUSR", "SIGPIPE", "SIGCHLD", "SIGCONT", "SIGSTOP",
                "SIGTSTP", "SIGTT", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGRT", "setitimer", "getitimer",
                "alarm", "ITIMER_", "pthread_", "sigwait", "sigpending", "sigtimedwait", "siginterrupt", "pause",
            ),
        },
    ),
}  # fmt: skip


def sources() -> list[Path]:
    """The modules of hlotool."""
    found = sorted((ROOT / "hlotool").rglob("*.py"))
    return [path for path in found if "templates" not in path.parts and path.name != "__main__.py"]


def imported() -> Iterator[str]:
    """All that they import, but for one another."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("hlotool"):
                yield node.module


def pretend(name: str) -> None:
    """Have Python be that of another system, as far as hlotool can tell.  What others have loaded stays as it is."""
    modules, functions = ABSENT[name]
    for module in sorted({*imported(), "numpy.testing", "multiprocessing.spawn", "importlib.resources", "rich.table"}):
        top = module.partition(".")[0]
        if top != "hlotool" and top not in modules and (top not in EXTRAS or find_spec(top) is not None):
            importlib.import_module(module)
    for module in modules:
        sys.modules[module] = None  # type: ignore[assignment]  # it is not there, for `import`
    for module, beginnings in functions.items():
        for word in [word for word in vars(sys.modules[module]) if word.startswith(beginnings)]:
            delattr(sys.modules[module], word)
    sys.platform = name

    def no_linux(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(("/proc", "/sys")):
            raise FileNotFoundError(arguments[0])

    sys.addaudithook(no_linux)
    stat = os.stat

    def hidden(path: Any, *arguments: Any, **options: Any) -> Any:
        if str(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(path)
        return stat(path, *arguments, **options)

    os.stat = hidden  # type: ignore[assignment]
    ctypes.CDLL = Libraries(name)  # type: ignore[assignment, misc]


class Libraries:
    """``ctypes.CDLL`` of another system: of its own libraries there is what hlotool cannot do without."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._libc = ctypes.CDLL(None)

    def __call__(self, library: str | None) -> Any:
        if library == "ntdll" and self._name == "win32":
            return type("ntdll", (), {"__chkstk": ctypes.c_void_p(1)})  # the linker is given another one
        if library is None and self._name == "darwin":
            return type("libSystem", (), {"sysctlbyname": lambda *_: -1})
        raise (TypeError if library is None else OSError)(f"no library {library}")

    def own(self) -> dict[str, int]:
        """What code calls that the C library of every system has, macOS the first two."""
        names = {"bzero": "bzero", "__bzero": "bzero", "fmod": "fmod", "fmodf": "fmodf"}
        return {name: ctypes.cast(self._libc[own], ctypes.c_void_p).value or 0 for name, own in names.items()}


def link_mach_o(here: Any, own: dict[str, int]) -> None:
    """Have objects in Mach-O placed by the linker of this system, which knows nothing of the ``_`` before names."""
    from llvmlite import binding

    from hlotool.runtime import load

    class Builder(binding.JITLibraryBuilder):  # type: ignore[misc]
        def import_symbol(self, name: str, address: int) -> Any:
            return super().import_symbol(f"_{name}", address)

        def add_current_process(self) -> Any:
            for name, address in own.items():
                self.import_symbol(name, address)
            return self  # and nothing else of this process

    binding.JITLibraryBuilder = Builder
    linker = own_linker(here)
    look = binding.LLJIT.lookup

    def lookup(self: Any, library: str, name: str) -> Any:
        tracker = look(self, library, f"_{name}")
        return type("Found", (), {"__getitem__": lambda _, __: tracker[f"_{name}"], "tracker": tracker})()

    binding.LLJIT.lookup = lookup
    load._linker = linker  # type: ignore[assignment]


def own_linker(here: Any) -> Any:
    """A function in place of `load._linker`, for this system's objects."""
    from functools import cache

    from llvmlite import binding

    from hlotool.runtime.target_machines import target_machine

    return cache(lambda: binding.create_lljit_compiler(target_machine(here), use_jit_link=True, suppress_errors=True))


_DATA = ("array_type", "hlo_handler", "hlo_look", "kept", "hlo_host_")
"""What names begin with that are no functions."""
_ARGUMENTS = ", ".join(f"i64 %a{n}" for n in range(8))
_THREAD = """
declare ptr @malloc(i64)
declare void @free(ptr)
define internal void @born(ptr %record) {{
  %function = load ptr, ptr %record
  %at = getelementptr ptr, ptr %record, i64 1
  %argument = load ptr, ptr %at
  call void @free(ptr %record)
  call win64cc void %function(ptr %argument)
  ret void
}}
define win64cc i64 @"to.{name}"(ptr %function, ptr %argument) {{
  %record = call ptr @malloc(i64 16)
  store ptr %function, ptr %record
  %at = getelementptr ptr, ptr %record, i64 1
  store ptr %argument, ptr %at
  %thread = call i64 inttoptr (i64 {address} to ptr)(ptr @born, ptr %record)
  ret i64 %thread
}}
"""


class Border:
    """Functions between code with the conventions of Windows and those of this system, for whole numbers only."""

    def __init__(self, here: Any) -> None:
        from llvmlite import binding

        binding.initialize_native_asmparser()
        self._here = here
        self._builder = binding.JITLibraryBuilder
        self._linker = own_linker(here)()
        self._made: dict[tuple[str, int], int] = {}
        self.raw: dict[int, int] = {}
        self._kept: list[Any] = []

    def inwards(self, name: str, address: int) -> int:
        """What Windows' code may call in place of a function of this system."""
        if name.startswith(_DATA):
            return address
        if name == "__chkstk":
            return self._function(f'module asm "to.{name}: retq"\nmodule asm ".globl to.{name}"', f"to.{name}", address)
        if name == "PyThread_start_new_thread":
            return self._function(_THREAD.format(name=name, address=address), f"to.{name}", address)
        text = f"""define win64cc i64 @"to.{name}"({_ARGUMENTS}) {{
          %r = call i64 inttoptr (i64 {address} to ptr)({_ARGUMENTS}) ret i64 %r }}"""
        return self._function(text, f"to.{name}", address)

    def outwards(self, name: str, address: int) -> int:
        """What this system may call in place of a function of Windows' code."""
        if name.startswith(_DATA):
            return address
        text = f"""define i64 @"from.{name}"({_ARGUMENTS}) {{
          %r = call win64cc i64 inttoptr (i64 {address} to ptr)({_ARGUMENTS}) ret i64 %r }}"""
        found = self._function(text, f"from.{name}", address)
        self.raw[found] = address
        return found

    def _function(self, text: str, name: str, address: int) -> int:
        found = self._made.get((name, address))
        if found is None:
            from hlotool.runtime.object_code import object_of

            builder = self._builder().add_object_img(object_of(text, self._here))
            builder.add_current_process()
            library = f"border.{len(self._made)}"
            self._kept.append(builder.link(self._linker, library))
            self._kept.append(self._linker.lookup(library, name))
            found = self._made[name, address] = self._kept[-1][name]
        return found


def cross_border(here: Any) -> None:
    """Have the code of Windows be called, and call, by way of a `Border`."""
    from llvmlite import binding

    from hlotool.runtime import callback, fastcall, load

    border = Border(here)

    class Builder(binding.JITLibraryBuilder):  # type: ignore[misc]
        def import_symbol(self, name: str, address: int) -> Any:
            return super().import_symbol(name, border.inwards(name, address))

        def add_current_process(self) -> Any:
            return self  # though the linker finds functions of the C library all the same

    own_address, own_enter = load.Library.address, callback.enter
    load._linker = own_linker(here)  # type: ignore[assignment]
    load.Library.address = lambda self, name: border.outwards(name, own_address(self, name))  # type: ignore[method-assign]
    binding.JITLibraryBuilder = Builder

    def enter() -> Any:
        function = own_enter()
        return lambda address, frame: function(border.raw[address], frame)

    for module in ("hlotool.runtime.callback", "hlotool.runtime.entry"):
        sys.modules[module].enter = enter  # type: ignore[attr-defined]
    builtin = fastcall.builtin
    fastcall.builtin = lambda slow, address, *rest: builtin(slow, border.raw[address], *rest)


def main(name: str, files: list[str]) -> None:
    pretend(name)
    from llvmlite import binding

    from hlotool.codegen import machine
    from hlotool.system import system

    assert system().name == {"darwin": "darwin", "win32": "windows"}[name]
    assert system().portable
    here = machine.Machine(
        binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), 128
    )
    processor = platform.machine()
    system_of = {"darwin": "apple-darwin23.0.0", "win32": "pc-windows-msvc"}
    binding.get_process_triple = lambda: f"{processor}-{system_of[name]}"
    import_all()
    if files:
        if name == "darwin":
            link_mach_o(here, ctypes.CDLL.own())  # type: ignore[attr-defined]
        else:
            cross_border(here)
        for file in files:
            print(Path(file).name, run(Path(file)))
        print(parts())


def import_all() -> None:
    count = 0
    for path in sources():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        try:
            importlib.import_module(module)
            count += 1
        except Exception as error:
            if not any((cause.name or "").partition(".")[0] in EXTRAS for cause in causes(error)):
                raise
    print("imported", count)


def causes(error: BaseException | None) -> Iterator[ImportError]:
    """An error and those that it came from, which are about modules."""
    while error is not None:
        if isinstance(error, ImportError):
            yield error
        error = error.__cause__ or error.__context__


def run(path: Path) -> str:
    """``ok``, or what differs from what the module means, on two threads."""
    import hlotool
    from hlotool.evaluate import evaluate
    from hlotool.evaluate.truth import bounded_results
    from hlotool.harness.compare import compare_with_truth, verdict_of
    from hlotool.harness.inputs import random_inputs
    from hlotool.text.load import one_module, open_source

    module = one_module(open_source(path))
    arrays = random_inputs(module, 3)
    executable = hlotool.compile(module, threads=2)
    for _ in range(3):  # the second time there are threads, which may sleep
        results = executable(*arrays)
    comparisons = compare_with_truth(results, bounded_results(module, arrays), evaluate(module, arrays))
    return f"{verdict_of(comparisons)} {executable.machine.triple}"


def parts() -> str:
    """``parts ok`` where Python is called, its exceptions come through, and clock and pool are there."""
    import numpy as np

    import hlotool
    from hlotool.ir import ExecutionError
    from hlotool.runtime import compile_queue, pool
    from hlotool.runtime.custom_calls import register_custom_call
    from hlotool.runtime.recorder import Recorder

    def fail(arguments: Any, call: Any) -> None:
        raise LookupError(f"{call.target} is far away")

    register_custom_call("there", fail)
    call = 'f32[4] custom-call(x), custom_call_target="there"'
    try:
        hlotool.compile(hlotool.parse(f"HloModule m\nENTRY e {{ x = f32[4] parameter(0)\n ROOT y = {call} }}"))(
            np.ones(4, np.float32)
        )
    except ExecutionError as error:
        said = str(error)
    assert said.endswith("LookupError: there is far away")
    assert 0.9 < Recorder(1).nanoseconds_per_tick() < 1.1
    assert pool._pool.is_made
    assert compile_queue._code.is_made
    return "parts ok"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main(sys.argv[1], sys.argv[2:])
