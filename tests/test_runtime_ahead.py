"""LLVM's library, and code, made on a thread of its own before anybody asks for them."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from hlotool.runtime.ahead import begin

LOADED = """
import sys
from hlotool.runtime.ahead import load_llvm
import ctypes
loaded = ctypes.CDLL.__init__
def noted(self, name, *rest, **options):  # ctypes would load it with the interpreter's lock held
    if "libllvmlite" in str(name):
        assert any("libllvmlite" in line for line in open("/proc/self/maps"))
    loaded(self, name, *rest, **options)
ctypes.CDLL.__init__ = noted
load_llvm()
assert "llvmlite.binding" in sys.modules
before = sum("libllvmlite" in line for line in open("/proc/self/maps"))
from llvmlite import binding
binding.llvm_version_info
after = sum("libllvmlite" in line for line in open("/proc/self/maps"))
print(before, after)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="where files are in memory is read from /proc")
def test_llvmlite_finds_its_library_in_memory() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 0
    assert before == after


def test_what_fails_ahead_is_left_to_whoever_needs_it(capsys: pytest.CaptureFixture[str]) -> None:
    reached = threading.Event()

    def fail() -> None:
        reached.set()
        raise RuntimeError("no such code")

    begin(fail, "hlotool-test")
    assert reached.wait(60)
    for thread in threading.enumerate():
        if thread.name == "hlotool-test":
            thread.join(60)
    assert capsys.readouterr().err == ""
