"""Run programs under a Python that has jax, and keep every module that JAX compiles, with inputs and XLA's outputs.

    python tests/wild/recorder.py STORE DEVICES [FILE|FILE.PROGRAM ...]

For a module of content KEY (a hash of its text without names of places): ``KEY.hlo``; ``KEY.npz`` with arg0, ... and
out0, ... of its first run, as `hlotool run --inputs` reads them (arg0@3 is of device 3), unless they are larger than
32 MB; ``KEY.json`` with the programs that it is of.  Where JAX partitions a program, the module is the one
that every device runs.  The hooks are private functions of jax 0.10.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np

_LARGEST_ARRAYS = 32 << 20
_LARGEST_TEXT = 4 << 20


class Recorder:
    """Hooks JAX's compile and execute; `program` is what the modules are said to be of."""

    def __init__(self, store: Path, dump: Path | None) -> None:
        self.store, self.dump = store, dump
        self.program = ""
        self.new = 0
        self._waiting: dict[int, tuple[str, Any]] = {}  # executables that have not run, kept alive

    def install(self) -> None:
        from jax._src import compiler, pjit
        from jax._src.interpreters import pxla

        compile_, call = compiler.backend_compile_and_load, pxla.ExecuteReplicated.__call__

        def compiling(backend: Any, module: Any, devices: Any, options: Any, callbacks: Any) -> Any:
            seen = self._dumps()
            made = compile_(backend, module, devices, options, callbacks)
            if not callbacks:
                with contextlib.suppress(Exception):
                    self._compiled(made, module, options, seen)
            return made

        def calling(replicated: Any, *arguments: Any) -> Any:
            waiting = self._waiting.pop(id(replicated.xla_executable), None)
            if waiting is None:
                return call(replicated, *arguments)
            given = self._given(replicated, arguments)
            found = call(replicated, *arguments)
            self._ran(waiting[0], given, found)
            return found

        compiler.backend_compile_and_load = compiling
        pxla.ExecuteReplicated.__call__ = calling
        pjit._get_fastpath_data = lambda *_: None  # calls that would pass by the hook

    # ---- texts

    def _compiled(self, executable: Any, module: Any, options: Any, seen: set[str]) -> None:
        from jaxlib import _hlo, _jax

        if options.num_partitions * options.num_replicas > 1:
            text = self._partitioned(seen)
            if text is None:
                return
            hlo = _hlo.hlo_module_from_text(text)
        else:
            computation = _jax.mlir.mlir_module_to_xla_computation(str(module), False, False)
            hlo = (
                computation.get_hlo_module() if hasattr(computation, "get_hlo_module") else computation.as_hlo_module()
            )
        bare = _hlo.HloPrintOptions.short_parsable()
        bare.print_large_constants = True
        bare.print_metadata = False
        text = hlo.to_string(bare)
        body = text.partition("\n")[2]
        devices = options.num_partitions * options.num_replicas
        key = hashlib.sha256(f"{devices}{body}".encode()).hexdigest()[:16]
        self._said(key, devices, len(text))
        if len(text) > _LARGEST_TEXT:
            return
        path = self.store / f"{key}.hlo"
        if not path.exists():
            self.new += 1
            path.write_text(text)
        if not (self.store / f"{key}.npz").exists():
            self._waiting[id(executable)] = (key, executable)

    def _dumps(self) -> set[str]:
        return set(os.listdir(self.dump)) if self.dump is not None else set()

    def _partitioned(self, seen: set[str]) -> str | None:
        """The newest module that the partitioner left."""
        new = sorted(name for name in self._dumps() - seen if "after_spmd-partitioning" in name)
        return (self.dump / new[-1]).read_text() if new and self.dump is not None else None

    def _said(self, key: str, devices: int, length: int) -> None:
        path = self.store / f"{key}.json"
        said = json.loads(path.read_text()) if path.exists() else {"programs": []}
        if self.program not in said["programs"]:
            said["programs"].append(self.program)
        path.write_text(json.dumps({**said, "devices": devices, "length": length}))

    # ---- arrays

    def _given(self, replicated: Any, arguments: Any) -> dict[str, Any] | None:
        kept = [a for i, a in enumerate(arguments) if i in replicated.kept_var_idx]
        if replicated.mut or replicated.ordered_effects:
            return None
        return _arrays("arg", replicated.in_handler(kept))

    def _ran(self, key: str, given: dict[str, Any] | None, found: Any) -> None:
        results = _arrays("out", found)
        if given is None:
            return
        if sum(a.nbytes for a in (*given.values(), *results.values())) <= _LARGEST_ARRAYS:
            with tempfile.NamedTemporaryFile(dir=self.store, delete=False, suffix=".tmp") as file:
                np.savez(file, **given, **results)
            Path(file.name).rename(self.store / f"{key}.npz")


def _arrays(prefix: str, values: Any) -> dict[str, Any]:
    """What every device holds of JAX's arrays."""
    made: dict[str, Any] = {}
    for number, value in enumerate(values):
        value = getattr(value, "_base_array", value)  # keys of random numbers
        shards = getattr(value, "addressable_shards", None)
        if shards is None:
            made[f"{prefix}{number}"] = _bits(np.array(value))
            continue
        if len(shards) == 1:
            made[f"{prefix}{number}"] = _bits(np.array(value))
            continue
        for shard in sorted(shards, key=lambda s: s.device.id):
            made[f"{prefix}{number}@{shard.device.id}"] = _bits(np.array(shard.data))
    return made


def _bits(array: Any) -> Any:
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def main() -> None:
    store, devices, wanted = Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3:]
    store.mkdir(parents=True, exist_ok=True)
    dump = Path(tempfile.mkdtemp(prefix="wild-")) if devices > 1 else None
    # What LLVM makes of the modules is not looked at.
    flags = "--xla_backend_optimization_level=0"
    if dump is not None:
        flags += (
            f" --xla_force_host_platform_device_count={devices} --xla_dump_to={dump} --xla_dump_hlo_as_text "
            "--xla_dump_hlo_pass_re=spmd-partitioning --xla_dump_large_constants"
        )
    os.environ["XLA_FLAGS"] = flags
    os.environ["JAX_PLATFORMS"] = "cpu"
    sys.path.insert(0, str(Path(__file__).parent))
    import jax
    from registry import PROGRAMS

    recorder = Recorder(store, dump)
    recorder.install()
    names = wanted or sorted(p.stem for p in (Path(__file__).parent / "programs").glob("[a-z]*.py"))
    try:
        for name in names:
            file, _, only = name.partition(".")
            recorder.program = f"{file}.import"
            try:
                importlib.import_module(f"programs.{file}")
            except Exception as error:
                print(f"{name}: left out: {type(error).__name__}: {error}", flush=True)
                continue
            for one in PROGRAMS:
                chosen = one.name == f"programs.{name}" if only else one.name.startswith(f"programs.{file}.")
                for kind in one.kinds if chosen and one.devices == devices else ():
                    _run(jax, recorder, one, kind)
    finally:
        if dump is not None:
            shutil.rmtree(dump)


def _run(jax: Any, recorder: Recorder, one: Any, kind: str) -> None:
    recorder.program, recorder.new = f"{one.name.removeprefix('programs.')}[{kind}]", 0
    jax.config.update("jax_enable_x64", kind == "float64")
    begin, said = time.monotonic(), "ran"
    try:
        one.run(kind)
    except Exception as error:
        inner = traceback.extract_tb(error.__traceback__)[-1]
        first = (str(error).splitlines() or [""])[0][:200]
        said = f"FAILED: {type(error).__name__}: {first} ({Path(inner.filename).name}:{inner.lineno})"
    print(f"{recorder.program}: {said}, {recorder.new} new, {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
