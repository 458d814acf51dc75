"""Journals: lines that survive a kill, of one thing only."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlotool.harness.journal import Journal
from hlotool.ir import ExecutionError, InputError

ABOUT = {"kind": "some-journal", "files": {"run": "1"}}


def test_a_journal_goes_on(tmp_path: Path) -> None:
    path, row = tmp_path / "deep" / "journal.jsonl", {"seconds": 0.1, "pair": [1, 2]}
    journal = Journal.open(path, ABOUT)
    assert journal.rows == []
    assert journal.add({"seconds": 0.1, "pair": (1, 2)}) == row
    journal.add(row)
    assert journal.rows == Journal.open(path, ABOUT).rows == [row, row]
    journal.remove()
    assert not path.exists()


def test_half_a_line_is_dropped(tmp_path: Path) -> None:
    """Wherever the process was killed, what is whole stays, and what comes next is a line of its own."""
    path = tmp_path / "journal"
    journal = Journal.open(path, ABOUT)
    journal.add({"a": 1})
    journal.add({"b": 2})
    whole = path.read_bytes()
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        rows = [{"a": 1}, {"b": 2}][: max(0, whole[:end].count(b"\n") - 1)]
        journal = Journal.open(path, ABOUT)
        assert journal.rows == rows
        journal.add({"c": 3})
        assert Journal.open(path, ABOUT).rows == [*rows, {"c": 3}]


def test_what_is_no_journal_of_this_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal.open(path, ABOUT).add({"a": 1})
    whole = path.read_bytes()
    with pytest.raises(InputError, match=r"journal is the journal of something else \(files, kind\): --restart it"):
        Journal.open(path, {"kind": "other", "files": {}}, "--restart it")
    assert path.read_bytes() == whole
    for damage in (b"words\n", b"[1]\n", b"\xff\n", b"\n", b"[" * 100_000 + b"\n"):
        path.write_bytes(whole + damage)
        with pytest.raises(InputError, match=r"journal:3: this is no line of a journal: --restart it"):
            Journal.open(path, ABOUT, "--restart it")
        assert path.read_bytes() == whole + damage


def test_a_journal_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "journal"):
        with pytest.raises(ExecutionError, match="cannot write"):
            Journal.open(path, ABOUT)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device without space")
def test_no_space_left(tmp_path: Path) -> None:
    (tmp_path / "journal").symlink_to("/dev/full")
    with pytest.raises(ExecutionError, match="No space left on device; started again, it goes on"):
        Journal.open(tmp_path / "journal", ABOUT)


def test_a_journal_in_memory() -> None:
    journal = Journal.open(None, ABOUT)
    journal.add({"a": 1})
    journal.remove()
    assert journal.rows == [{"a": 1}]


def test_answers_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first = Journal.open(path, ABOUT)
    assert first.answer({"what": (1, 2)}, lambda: {"is": 0.1}) == {"is": 0.1}
    again = Journal.open(path, ABOUT)
    assert again.replayed
    assert again.answer({"what": (1, 2)}, pytest.fail) == {"is": 0.1}
    assert not again.replayed
    assert again.answer({"what": 3}, lambda: {"is": 4}) == {"is": 4}
    other = Journal.open(path, ABOUT)
    with pytest.raises(InputError, match="answer 1 is to another question"):
        other.answer({"what": 2}, pytest.fail)
