"""Imports go one way: the table of hlotool/README.md."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from conftest import ROOT, environment

PACKAGE = ROOT / "hlotool"
_COMPILER = {"ir", "text", "evaluate", "analysis", "passes", "codegen", "runtime", "driver"}
MAY_IMPORT = {
    "ir": set(),
    "text": {"ir"},
    "evaluate": {"ir"},
    "analysis": {"ir", "evaluate"},
    "lint": {"ir", "analysis"},
    "passes": {"ir", "analysis", "evaluate"},
    "codegen": {"ir", "analysis"},
    "runtime": {"ir", "codegen", "analysis", "evaluate"},
    "harness": {"ir", "text", "lint", "evaluate", "analysis", "passes", "codegen", "runtime", "driver"},
    "inspect": {"ir", "text", "analysis", "passes", "codegen"},
    "checks": {"ir", "text", "evaluate", "runtime", "harness", "inspect", "driver"},
    "cli": {
        "ir", "text", "lint", "evaluate", "analysis", "passes", "codegen", "runtime", "harness", "inspect", "checks",
        "devices", "driver", "lsp", "starters", "onnx", "suites",
    },
    "devices": {"ir", "text", "evaluate", "analysis", "codegen", "runtime"},
    "driver": {"ir", "text", "evaluate", "analysis", "passes", "codegen", "runtime"},
    "lsp": {"ir", "text", "lint", "analysis"},
    "starters": {"ir", "passes", "driver"},
    "suites": {"ir", "text", "harness", "numpy", "driver"},
    "frontends": set(),
    "numpy": _COMPILER | {"frontends"},
    "jax": _COMPILER | {"frontends", "harness"},
    "torch": _COMPILER | {"frontends", "inspect"},
    "tensorflow": _COMPILER | {"frontends"},
    "onnx": _COMPILER | {"numpy"},
}
MAY_USE = {  # the rooms of codegen, of one another
    "instruction_sets": set(),
    "choices": set(),
    "machine": {"choices", "instruction_sets"},
    "byte_order": set(),
    "kernel": set(),
    "llvm": {"byte_order", "instruction_sets", "kernel", "machine"},
    "plan": {"kernel", "machine", "llvm"},
    "loops": {"machine", "llvm"},
    "nests": {"machine", "llvm", "loops"},
    "algorithms": {"kernel", "machine", "llvm"},
    "target": {"kernel", "machine", "plan"},
    "configured": {"choices"},
    "kernels": {"byte_order", "choices", "configured", "kernel", "machine", "plan", "target"},
    "program": {"kernel", "kernels", "machine", "plan", "target"},
    "prediction": {"kernel", "kernels", "machine", "plan", "target"},
    "launches": {"plan"},
    "gpu": {
        "kernel", "kernels", "launches", "machine", "llvm", "plan", "loops", "nests", "algorithms", "target",
    },
    "cpu": {"kernel", "machine", "llvm", "plan", "loops", "nests", "algorithms", "target"},
}
ANYWHERE = {"", "display", "ending", "lazy_dataclass", "plugins", "system", "version"}  # may be imported
LIBRARIES = {  # beyond the standard library
    "ir": {"numpy", "ml_dtypes"},
    "text": {"numpy", "ml_dtypes"},
    "evaluate": {"numpy", "ml_dtypes", "scipy"},
    "analysis": {"numpy"},
    "lint": {"numpy", "ml_dtypes"},
    "passes": {"numpy", "ml_dtypes"},
    "codegen": {"numpy", "ml_dtypes", "llvmlite"},
    "runtime": {"numpy", "ml_dtypes", "llvmlite", "scipy"},
    "harness": {  # all but the first four in child processes only
        "numpy", "ml_dtypes", "safetensors", "sklearn", "jax", "jaxlib", "tensorflow", "torch", "distributed", "mpi4py",
    },
    "inspect": {"graphviz"},
    "checks": {"numpy"},
    "cli": {"click", "rich", "numpy"},
    "devices": {"numpy", "mpi4py"},
    "driver": set(),
    "lsp": {"pygls", "lsprotocol"},
    "starters": set(),
    "suites": {"numpy", "ml_dtypes", "numba", "torch", "onnx", "onnxruntime", "iree"},  # most in child processes only
    "frontends": set(),
    "numpy": {"numpy", "ml_dtypes"},
    "jax": {"numpy", "ml_dtypes", "jax", "jaxlib"},
    "torch": {"numpy", "ml_dtypes", "torch"},
    "tensorflow": {"numpy", "ml_dtypes", "tensorflow"},
    "onnx": {"numpy", "ml_dtypes", "onnx"},
}
ROOMS = sorted(p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists())


def imports(path: Path) -> set[str]:
    """Full names of everything that a file imports, also inside functions and for type checking."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import in line {node.lineno}"
            assert node.module is not None
            # `from hlotool import ir` imports a room as well.
            found |= {f"hlotool.{alias.name}" for alias in node.names} if node.module == "hlotool" else {node.module}
    return found


def test_every_room_is_in_the_table() -> None:
    assert set(ROOMS) == set(MAY_IMPORT)


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_rooms_import_what_the_table_allows(room: str) -> None:
    files = sorted((PACKAGE / room).rglob("*.py"))
    wrong = []
    for path in files:
        for name in imports(path):
            top, _, rest = name.partition(".")
            target = rest.partition(".")[0]
            if top == "hlotool":
                allowed = MAY_IMPORT[room] | {room} | ANYWHERE
                if target not in allowed:
                    wrong.append(f"{path.relative_to(ROOT)} imports {name}")
            elif top not in sys.stdlib_module_names and top not in LIBRARIES[room]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_nothing_neutral_imports_a_target() -> None:
    wrong = []
    for path in sorted((PACKAGE / "codegen").rglob("*.py")):
        room = path.relative_to(PACKAGE / "codegen").parts[0].removesuffix(".py")
        used = {name.split(".")[2] for name in imports(path) if name.startswith("hlotool.codegen.")}
        if room != "__init__":
            wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in used - MAY_USE[room] - {room}]
    makers = {"cpu": set(), "gpu": {PACKAGE / "driver" / "gpu.py"}}
    for name, others in makers.items():
        target = PACKAGE / "codegen" / name
        for path in sorted(set(PACKAGE.rglob("*.py")) - set(target.rglob("*.py")) - others):
            found = [used for used in imports(path) if used.startswith(f"hlotool.codegen.{name}")]
            wrong += [f"{path.relative_to(ROOT)} imports {used}" for used in found]
    assert not wrong, "\n".join(wrong)


def test_the_table_has_no_cycles() -> None:
    order: list[str] = []
    while len(order) < len(MAY_IMPORT):
        ready = [room for room in MAY_IMPORT if room not in order and MAY_IMPORT[room] <= set(order)]
        assert ready, f"a cycle among {set(MAY_IMPORT) - set(order)}"
        order += ready


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_files_import_each_other() -> None:
    files = {module_of(path): path for path in PACKAGE.rglob("*.py")}
    graph = {}
    for module, path in files.items():
        names = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= parts & files.keys() or {str(node.module)}
        graph[module] = names & files.keys() - {module}
    TopologicalSorter(graph).prepare()  # CycleError names the files of a circle


def test_every_package_says_what_enters_and_leaves() -> None:
    silent = [str(p.relative_to(ROOT)) for p in PACKAGE.rglob("__init__.py") if len(_docstring(p)) < 60]
    assert not silent


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def test_every_file_says_what_it_is() -> None:
    silent = [str(p.relative_to(ROOT)) for p in PACKAGE.rglob("*.py") if not _docstring(p)]
    assert not silent


HELP = """import sys
from hlotool.cli import main
sys.argv = ["hlotool", "--help"]
try: main()
except SystemExit: pass"""


_LONGEST = 60  # lines, the docstring not counted


def _functions(path: Path) -> Iterator[tuple[str, int]]:
    """The name of each function and method, and its lines without the docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            docstring = ast.get_docstring(node, clean=False) or ""
            yield node.name, node.end_lineno - node.lineno + 1 - (docstring.count("\n") + 1 if docstring else 0)


def test_functions_fit_a_screen() -> None:
    found = [(path, *row) for path in PACKAGE.rglob("*.py") for row in _functions(path)]
    assert len(found) > 4000
    assert [(path.relative_to(PACKAGE), name, lines) for path, name, lines in found if lines > _LONGEST] == []


def test_instructions_are_written_by_values() -> None:
    """Nothing but codegen/llvm writes the text of an LLVM instruction."""
    found: list[tuple[str, int]] = []
    for path in (PACKAGE / "codegen").rglob("*.py"):
        name = path.relative_to(PACKAGE / "codegen").as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                not name.startswith("llvm/")
                and isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("let", "do")
                and isinstance(node.args[0], (ast.Constant, ast.JoinedStr, ast.BinOp))
            ):
                found.append((name, node.lineno))
    assert found == []


@pytest.mark.parametrize("code", ["import hlotool", HELP])
def test_starting_loads_nothing_heavy(code: str) -> None:
    program = f"{code}\nimport sys; print(sorted({{'numpy', 'llvmlite', 'scipy', 'ml_dtypes'}} & set(sys.modules)))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_command_loads_llvm_before_it_compiles() -> None:
    """It takes long to load: ``hlotool CMD --help`` and completions do without."""
    program = (
        "import sys\nfrom importlib import import_module\nfrom hlotool.cli import COMMANDS\n"
        "for name in COMMANDS:\n    import_module(f'hlotool.cli.{name.replace(\"-\", \"_\")}_command')\n"
        "print(*sorted(name for name in sys.modules if name.partition('.')[0] in ('llvmlite', 'rich', 'jax')))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


_SMALL = """
import sys
import numpy as np
import hlotool
from hlotool.runtime import compile_queue, fastcall, pool
module = hlotool.parse("HloModule m\\nENTRY e { x = f32[4] parameter(0)\\n ROOT y = f32[4] add(x, x) }")
print(*hlotool.compile(module)(np.ones(4, np.float32))[0])
print(pool._binding.cache_info().misses, pool._pool.is_made, compile_queue._code.is_made)
print(*sorted(name for name in sys.modules if name.startswith("hlotool.")))
"""


def test_a_small_program_loads_and_compiles_nothing_that_it_does_not_need() -> None:
    """A first start is mostly that: files of Python that are read, and native code around the program."""
    command = [sys.executable, "-c", _SMALL]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(HLOTOOL_CACHE="off"), check=True)
    result, native, names = done.stdout.splitlines()
    assert (result, native) == ("2.0 2.0 2.0 2.0", "0 False False")
    needless = (
        "hlotool.evaluate.interpreter", "hlotool.evaluate.custom_calls", "hlotool.text.printer", "hlotool.text.proto",
        "hlotool.passes.expand.scan_expander", "hlotool.passes.loops.", "hlotool.passes.fuse.product_",
        "hlotool.passes.dynamic.dynamic_rules", "hlotool.passes.simplify.algebra.co",
        "hlotool.passes.simplify.algebra.identities_", "hlotool.passes.simplify.algebra.slicing",
        "hlotool.codegen.cpu.products.", "hlotool.codegen.llvm.math.complex", "hlotool.codegen.llvm.math.trig",
        "hlotool.codegen.llvm.math.power", "hlotool.evaluate.devices", "hlotool.ir.sharding_text",
        "hlotool.codegen.cpu.algorithms.", "hlotool.runtime.custom_calls", "hlotool.runtime.lapack", "hlotool.inspect",
        "hlotool.harness", "hlotool.numpy",
    )  # fmt: skip
    assert [name for name in names.split() if name.startswith(needless)] == []
