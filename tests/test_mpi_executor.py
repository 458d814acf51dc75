"""Jobs on the ranks of MPI: ``--executor mpi``, below ``mpiexec``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Run, environment

pytest.importorskip("mpi4py")
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")

HEAD = "// CHECK-COUNT add 1\n"
MODULE = "HloModule m\n\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT r = f32[4] add(a, a)\n}\n"


def mpi(folder: Path, ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    assert MPIEXEC is not None
    command = [MPIEXEC, "-n", str(ranks), sys.executable, "-m", "mpi4py.futures", "-m", "hlotool", *words]
    allowed = environment(  # what Open MPI asks for
        OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
    )  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=allowed, timeout=300, check=False)


def test_checks_are_those_of_one_process(hlotool: Run, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.hlo").write_text(HEAD + MODULE)
    one = hlotool("check", ".", "-v", "-j", "1")
    done = mpi(tmp_path, 3, "check", ".", "-v", "--executor", "mpi")
    assert (done.returncode, done.stdout) == (0, one.stdout), done.stderr


def test_a_run_that_loses_a_rank_goes_on(hlotool: Run, tmp_path: Path) -> None:
    """MPI ends all ranks with one; what was answered by then is in the journal."""
    (tmp_path / "m.hlo").write_text(MODULE)
    kill = "[ -e mark ] || [ $(ls done | wc -l) -lt 2 ] || { touch mark; kill -9 $(ps -o ppid= -p $PPID); }"
    command = f"cd {tmp_path}; mkdir -p done; touch done/$$; {kill}; grep -q add {{}} && exit 1 || exit 0"
    words = ("reduce", "m.hlo", "--cmd", command, "--executor", "mpi", "--journal", "j", "-o", "out.hlo")
    assert mpi(tmp_path, 2, *words).returncode != 0
    assert (tmp_path / "mark").exists()
    assert not (tmp_path / "out.hlo").exists()
    done = mpi(tmp_path, 2, *words)
    assert "goes on from j: " in done.stderr
    assert done.returncode == 0
    assert (tmp_path / "out.hlo").exists()


def test_there_are_no_ranks(hlotool: Run, tmp_path: Path) -> None:
    (tmp_path / "a.hlo").write_text(HEAD + MODULE)
    done = hlotool("check", "a.hlo", "--executor", "mpi")
    assert done.returncode == 4
    assert "finds no ranks that work: 'mpiexec -n 4 python -m mpi4py.futures" in done.stderr
