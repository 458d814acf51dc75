"""``hlotool cache``: what is in the cache of compiled code, why something is not, and making room."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Run, environment
from json_schemas import check_json

from hlotool.codegen.machine import host
from hlotool.runtime.cache import Cache, code_key
from hlotool.runtime.cache_contents import contents, prune, why
from hlotool.runtime.cache_key import Key, about_from_bytes

SMALL = """HloModule small

ENTRY main {
  x = f32[40,50]{1,0} parameter(0)
  ROOT e = f32[40,50]{1,0} tanh(x)
}
"""
MACHINE = host()
TEXT = "define i64 @f() { ret i64 1 }"


def put(cache: Cache, key: Key, content: bytes = b"code") -> None:
    assert cache.put(key.digest, content, key.about_bytes())


@pytest.fixture
def given(tmp_path: Path) -> dict[str, str | None]:
    (tmp_path / "small.hlo").write_text(SMALL)
    return {"HLOTOOL_CACHE": str(tmp_path / "cache")}


def test_hit_and_miss(hlotool: Run, tmp_path: Path, given: dict[str, str | None]) -> None:
    first = hlotool("cache", "why", "small.hlo", env=given)
    assert first.returncode == 1
    assert "code of 0 of " in first.stdout
    assert "no entry has this code" in first.stdout
    assert not (tmp_path / "cache").exists()  # looking changes nothing
    assert hlotool("run", "small.hlo", "--random", "1", env=given).returncode == 0
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    hit = check_json(hlotool("cache", "why", "small.hlo", "--format", "json", env=given).stdout)
    assert (hit["hit"], hit["program"]["hit"], hit["code"]) == (True, True, [])
    assert hit["program"]["entry"]["label"] == "small.hlo"
    other = hlotool("cache", "why", "small.hlo", "--cpu", "x86-64-v2", "-O1", env=given)
    assert other.returncode == 1
    assert f"cpu {MACHINE.cpu}, now x86-64-v2" in other.stdout
    assert "passes default, now O1" in other.stdout
    (tmp_path / "small.hlo").write_text(SMALL.replace("tanh", "exponential"))
    edited = check_json(hlotool("cache", "why", "small.hlo", "--format", "json", env=given).stdout)
    assert [difference["part"] for difference in edited["program"]["differences"]] == ["content"]
    assert False in [row["hit"] for row in edited["code"]]
    (tmp_path / "small.hlo").write_text(SMALL + "\n// a comment\n")
    commented = hlotool("cache", "why", "small.hlo", env=given)
    assert commented.returncode == 1
    assert "content differs" in commented.stdout
    assert "miss k0" not in commented.stdout
    assert before == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}


def test_list_and_prune(hlotool: Run, tmp_path: Path, given: dict[str, str | None]) -> None:
    assert "0 entries" in hlotool("cache", "list", env=given).stdout
    hlotool("run", "small.hlo", "--random", "1", env=given)
    (tmp_path / "cache" / "old.hlo-cache").write_bytes(b"hlotool object cache 1\nwhatever")
    os.utime(tmp_path / "cache" / "old.hlo-cache", (1, 1))
    listed = check_json(hlotool("cache", "list", "--format", "json", env=given).stdout)
    kinds = [entry["kind"] for entry in listed["entries"]]
    assert (kinds.count("program"), kinds[-1]) == (1, "unknown")
    assert "program  small.hlo" in hlotool("cache", "list", env=given).stdout
    dry = check_json(
        hlotool("cache", "prune", "--older-than", "1d", "--dry-run", "--format", "json", env=given).stdout
    )
    assert (dry["removed"], dry["left"], dry["dry_run"]) == (1, len(kinds) - 1, True)
    assert hlotool("cache", "prune", "--older-than", "1d", env=given).stdout.startswith("removed 1 entries")
    assert hlotool("cache", "prune", "--all", env=given).stdout.endswith("left: 0, 0 B\n")
    assert list((tmp_path / "cache").iterdir()) == []
    assert hlotool("cache", "path", env=given).stdout == f"{tmp_path / 'cache'}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["prune"], 2, "--max-size"),
        (["prune", "--all", "--max-size", "1K"], 2, "--all"),
        (["prune", "--max-size", "much"], 2, "1GiB"),
        (["prune", "--older-than", "-1d"], 2, "30d"),
        (["why"], 2, "FILE"),
        (["why", "absent.hlo"], 3, "absent.hlo"),
        (["why", "-"], 3, "cannot read -"),
        (["why", "bad.hlo"], 3, "error[HLO"),
        (["what"], 2, "No such command"),
    ],
)
def test_mistakes(hlotool: Run, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    (tmp_path / "bad.hlo").write_text("nothing")
    done = hlotool("cache", *arguments, env={"HLOTOOL_CACHE": str(tmp_path / "cache")})
    assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (code, True, False)


@pytest.mark.parametrize("arguments", [["path"], ["list"], ["why", "small.hlo"], ["prune", "--all"]])
def test_a_cache_that_is_off(hlotool: Run, given: dict[str, str | None], arguments: list[str]) -> None:
    done = hlotool("cache", *arguments, env={**given, "HLOTOOL_CACHE": "off"})
    assert (done.returncode, done.stdout) == (1, "")
    assert "off" in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    line = f"'{sys.executable}' -m hlotool cache list | true; exit ${{PIPESTATUS[0]}}"
    variables = environment(HLOTOOL_CACHE=str(tmp_path))
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=variables, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_nearest_entry_is_named(tmp_path: Path) -> None:
    cache, wanted = Cache(tmp_path), code_key([TEXT], MACHINE)
    assert why(cache, wanted).entry is None
    put(cache, code_key([TEXT + "\n"], MACHINE))
    assert why(cache, wanted).entry is None  # another text is not near
    far = code_key([TEXT], replace(MACHINE, cpu="other", triple="other-unknown"))
    put(cache, far)
    near = code_key([TEXT], replace(MACHINE, features=MACHINE.features + ",+new"))
    put(cache, near)
    os.utime(cache.directory / f"{near.digest}.hlo-cache", (1, 1))
    found = why(cache, wanted)
    assert found.entry is not None
    assert (found.hit, found.entry.key, [d.part for d in found.differences]) == (False, near.digest, ["features"])
    put(cache, wanted)
    assert why(cache, wanted).hit


def test_entries_say_what_they_are(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    key = Key("code", "a\udce9 label", {"text": "x" * 100_000, "cpu": "mine"})
    put(cache, key, b"content")
    assert cache.get(key.digest) == b"content"
    about = cache.about(key.digest)
    assert about == key.about
    assert about is not None
    assert about.parts["text"].startswith("sha256:")
    assert cache.put("plain", b"")
    assert (cache.get("plain"), cache.about("plain"), cache.about("absent")) == (b"", None, None)
    for damage in (b"", b"[]", b"[1]", b'["a", "b", 3]', b"\xff", b"[" * 100_000):
        assert about_from_bytes(damage) is None


@pytest.mark.parametrize("cut", range(0, 90, 7))
def test_no_part_of_an_entry_is_taken_for_one(tmp_path: Path, cut: int) -> None:
    cache, key = Cache(tmp_path), code_key([TEXT], MACHINE)
    put(cache, key, bytes(50))
    path = tmp_path / f"{key.digest}.hlo-cache"
    path.write_bytes(path.read_bytes()[:cut])
    contents(cache)
    assert cache.get(key.digest) is None
    assert not path.exists()


def test_pruning_keeps_what_was_used_last(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    now = time.time()
    for number in range(5):
        cache.put(f"k{number}", bytes(1000))
        os.utime(tmp_path / f"k{number}.hlo-cache", (now - 100 * number - 50, now - 100 * number - 50))
    size = cache.entries()[0].size
    assert [entry.key for entry in prune(cache, older_than=400, dry_run=True)] == ["k4"]
    assert [entry.key for entry in prune(cache, max_size=3 * size, dry_run=True)] == ["k4", "k3"]
    assert [entry.key for entry in prune(cache, max_size=3 * size, older_than=400)] == ["k4", "k3"]
    assert [entry.key for entry in prune(cache, max_size=3 * size - 1)] == ["k2"]
    assert prune(cache, max_size=1 << 40) == []
    (tmp_path / ".new-abandoned.hlo-cache").write_bytes(b"half")
    (tmp_path / ".new-fresh.hlo-cache").write_bytes(b"half")
    os.utime(tmp_path / ".new-abandoned.hlo-cache", (now - 7200, now - 7200))
    (tmp_path / "notes.txt").write_text("mine")
    assert len(prune(cache, max_size=0)) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new-fresh.hlo-cache", "notes.txt"]


def test_pruning_while_others_use_the_cache(tmp_path: Path) -> None:
    cache, stop = Cache(tmp_path), threading.Event()
    contents_ = {f"key{number}": bytes([number]) * 5000 for number in range(8)}
    torn: list[str] = []

    def use() -> None:
        while not stop.is_set():
            for key, content in contents_.items():
                cache.put(key, content)
                if cache.get(key) not in (None, content):
                    torn.append(key)

    users = [threading.Thread(target=use) for _ in range(3)]
    for user in users:
        user.start()
    for _ in range(100):
        prune(cache, max_size=0)
    stop.set()
    for user in users:
        user.join()
    assert not torn


def test_a_cache_is_empty_until_something_is_there(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.is_empty()
    cache.directory.mkdir()
    assert cache.is_empty()
    assert cache.put("0" * 64, b"code")
    assert not cache.is_empty()
