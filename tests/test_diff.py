"""``hlotool diff`` and the library function under it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Run, environment
from edits import edit, rename, shuffle
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_schemas import check_json
from large_module import large_module
from random_programs import Generator
from test_proto import NEGATE, NEGATE_TEXT, encode

import hlotool as package
from hlotool.inspect.diff import matching_blocks
from hlotool.inspect.module_diff import ModuleDiff, diff
from hlotool.inspect.module_diff_report import lines
from hlotool.ir import InputError
from hlotool.text.fingerprint import content_hash
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

MODEL = """HloModule model

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

ENTRY main {
  x = f32[4,8]{1,0} parameter(0)
  w = f32[8,8]{1,0} parameter(1)
  zero = f32[] constant(0)
  d = f32[4,8]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[4,8]{1,0} exponential(d), metadata={op_name="jit(f)/exp"}
  n = f32[4,8]{1,0} negate(e)
  ROOT r = f32[4]{0} reduce(n, zero), dimensions={1}, to_apply=add
}
"""


def between(old: str, new: str, **options: tuple[str, ...]) -> ModuleDiff:
    return diff(parse(old), parse(new), **options)


def said(found: ModuleDiff) -> list[str]:
    """Kind, name, and what of it is not as it was."""
    return sorted(
        " ".join([change.kind, (change.new or change.old).name, *(detail.what for detail in change.details)])  # type: ignore[union-attr]
        for change in found.changes
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("n = f32[4,8]{1,0} negate(e)", "n = f32[4,8]{1,0} abs(e)", "changed n opcode"),
        ("constant(0)", "constant(1)", "changed zero literal"),
        ("dimensions={1}", "dimensions={1}, sharding={replicated}", "changed r sharding"),
        ("n = f32[4,8]{1,0}", "n = f32[4,8]{0,1}", "changed n shape"),
        ("negate(e)", "negate(d)", "changed n operands"),
        ("s = f32[] add(a, b)", "s = f32[] add(b, a)", "changed s operands"),
        ("s = f32[] add(a, b)", "s = f32[] maximum(a, b)", "changed s opcode"),
        ("  n = ", "  e2 = f32[4,8]{1,0} abs(e)\n  n = ", "added e2"),
        ("n = f32[4,8]{1,0} negate(e)", "e2 = f32[4,8]{1,0} abs(e)\n  n = f32[4,8]{1,0} negate(e2)", "added e2"),
        ("n = f32[4,8]{1,0} negate(e)", "n2 = f32[4,8]{1,0} negate(e)\n  n = f32[4,8]{1,0} negate(n2)", "added n"),
        ("=add\n}", "=add\n  ROOT t = (f32[4]{0}) tuple(r)\n}", "added t"),
    ],
)
def test_one_edit_is_one_change(old: str, new: str, expected: str) -> None:
    changed = MODEL.replace(old, new)
    assert changed != MODEL
    changed = changed.replace("ROOT r", "r") if "ROOT t" in changed else changed
    found = diff(parse(MODEL), parse(changed))
    assert said(found) == [expected]
    assert not found.is_same
    back = diff(parse(changed), parse(MODEL))
    opposite = {"added": "removed", "changed": "changed"}
    assert [words.split()[0] for words in said(back)] == [opposite[expected.split()[0]]]


def test_names_metadata_and_order_make_no_difference() -> None:
    other = parse(MODEL.replace(', metadata={op_name="jit(f)/exp"}', ""))
    rename(other, random.Random(0))
    shuffle(other, random.Random(0))
    assert diff(parse(MODEL), other).is_same


def test_names_and_metadata_make_a_difference_where_they_are_to() -> None:
    renamed, moved = MODEL.replace("e = ", "f = ").replace("(e)", "(f)"), MODEL.replace("jit(f)/exp", "jit(g)/exp")
    assert said(between(MODEL, renamed, heed=("names",))) == ["changed f name"]
    assert said(between(MODEL, moved, heed=("metadata",))) == ["changed e metadata"]
    assert between(MODEL, moved, heed=("names",)).is_same
    names = between(MODEL, MODEL.replace("add {", "plus {").replace("=add", "=plus"), heed=("names",)).computations
    assert [[detail.what for detail in pair.details] for pair in names] == [[], ["name"]]


@pytest.mark.parametrize(
    ("aspect", "old", "new"),
    [
        ("layouts", "n = f32[4,8]{1,0}", "n = f32[4,8]{0,1}"),
        ("constants", "constant(0)", "constant(1)"),
        ("backend-config", "negate(e)", 'negate(e), backend_config="a"'),
    ],
)
def test_what_is_ignored(aspect: str, old: str, new: str) -> None:
    changed = MODEL.replace(old, new)
    assert not between(MODEL, changed).is_same
    assert between(MODEL, changed, ignore=(aspect,)).is_same


def test_only_known_aspects_can_be_ignored() -> None:
    with pytest.raises(InputError, match="sizes"):
        between(MODEL, MODEL, ignore=("sizes",))


def test_an_inserted_parameter_is_one_change() -> None:
    w = "w = f32[8,8]{1,0} parameter"
    changed = MODEL.replace(f"{w}(1)", f"{w}(2)\n  u = s32[] parameter(1)")
    assert said(between(MODEL, changed)) == ["added u"]
    assert said(between(changed, MODEL)) == ["removed u"]


def test_shapes_that_follow_are_marked() -> None:
    found = between(MODEL, MODEL.replace("f32[4", "f32[6"))
    assert {(c.new or c.old).name: c.follows for c in found.changes} == {  # type: ignore[union-attr]
        "x": False, "d": True, "e": True, "n": True, "r": True
    }  # fmt: skip
    text = [line for _, line in lines(found)]
    assert text.index("  ~ x = f32[6,8]{1,0} parameter(0)") < text.index("shapes that follow from those of operands: 4 instructions")  # noqa: E501


def test_what_is_fused_has_moved() -> None:
    fused = MODEL.replace(
        "ENTRY",
        "fused {\n  p = f32[4,8]{1,0} parameter(0)\n  e = f32[4,8]{1,0} exponential(p)\n"
        "  ROOT n = f32[4,8]{1,0} negate(e)\n}\n\nENTRY",
    )
    start, end = fused.rindex("  e = "), fused.rindex("  ROOT r")
    fused = fused[:start] + "  n = f32[4,8]{1,0} fusion(d), kind=kLoop, calls=fused\n" + fused[end:]
    found = between(MODEL, fused)
    assert said(found) == ["added n", "added p", "moved e computation", "moved n computation"]
    assert [pair.new.name for pair in found.computations if pair.old is None and pair.new] == ["fused"]
    assert found.new_totals.cost.bytes < found.old_totals.cost.bytes


def test_the_order_of_a_schedule_counts() -> None:
    old = MODEL.replace("HloModule model", "HloModule model, is_scheduled=true")
    line = "  zero = f32[] constant(0)\n"
    new = old.replace(line, "").replace("  ROOT r", f"{line}  ROOT r")
    assert said(between(old, new)) == ["moved zero order"]
    assert between(MODEL, MODEL.replace(line, "").replace("  ROOT r", f"{line}  ROOT r")).is_same


def test_computations_may_be_shared_or_not() -> None:
    """Two reductions by one `add` are two by an `add` each; one of them by another function is one change."""
    second = "  ROOT r2 = f32[] reduce(r, zero), dimensions={0}, to_apply=add\n"
    both = MODEL.replace("ROOT r", "r").replace("to_apply=add\n}", f"to_apply=add\n{second}}}")
    body = MODEL[MODEL.index("add {") : MODEL.index("ENTRY")]
    apart = both.replace(body, body + body.replace("add {", "add2 {")).replace("dimensions={0}, to_apply=add", "dimensions={0}, to_apply=add2")  # noqa: E501
    assert between(both, apart).is_same
    assert content_hash(parse(both)) == content_hash(parse(apart))
    other = apart.replace("add2 {", "most {").replace("=add2", "=most").replace("s = f32[] add", "s = f32[] maximum", 2)
    other = other.replace("s = f32[] maximum", "s = f32[] add", 1)
    found = between(both, other)
    assert [words for words in said(found) if not words.startswith("added")] == ["changed r2 to_apply"]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(2, 50), st.integers(0, 3))
def test_exactly_the_edits_are_found(choice: random.Random, length: int, count: int) -> None:
    text = Generator(choice, length).text
    old, new = parse(text), parse(text)
    expected = edit(new, choice, count)
    new = parse(print_module(new))
    if content_hash(old) == content_hash(new):
        assert not expected
    shuffle(new, choice)
    found = diff(old, new)
    assert sorted((change.kind, (change.new or change.old).name) for change in found.changes) == expected, text  # type: ignore[union-attr]
    assert found.is_same == (not expected)
    rename(new, choice)
    assert diff(old, new).counts == found.counts


def test_large_modules() -> None:
    text = large_module(2000)
    rows = text.split("\n")
    place = next(n for n, row in enumerate(rows) if row.startswith("  h.40 "))
    rows.insert(place + 1, "  new.0 = f32[64,128] abs(h.40)")
    rows[place + 2] = rows[place + 2].replace("h.40", "new.0")
    place = next(n for n, row in enumerate(rows) if row.startswith("  r.60 "))
    rows[place] = rows[place].replace("dimensions={1}", "dimensions={0}")
    found = between(text, "\n".join(rows).replace("t.80 = f32[64,128] tanh", "t.80 = f32[64,128] sine"))
    assert said(found) == ["added new.0", "changed r.60 dimensions", "changed t.80 opcode"]


def test_a_chain_without_landmarks() -> None:
    """Nothing tells the instructions apart but their order, between two insertions."""
    def chain(*extra: int) -> str:
        rows = []
        for n in range(900):
            rows += ["tanh", "negate", "abs"] if n % 3 else ["sine"]
            rows += ["floor"] if n in extra else []
        body = "\n".join(f"  v{n + 1} = f32[] {opcode}(v{n})" for n, opcode in enumerate(rows))
        return f"HloModule chain\n\nENTRY main {{\n  v0 = f32[] parameter(0)\n{body}\n}}\n".replace(
            f"  v{len(rows)} =", f"  ROOT v{len(rows)} ="
        )

    assert between(chain(), chain(100, 800)).counts == {
        "matched": 2101, "removed": 0, "added": 2, "changed": 0, "moved": 0
    }  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(0, 40), st.randoms(use_true_random=False))
def test_matching_blocks_of_long_sequences(kinds: int, edits: int, choice: random.Random) -> None:
    """Without elements that occur once, a few edits are found again."""
    old = [choice.randrange(kinds) for _ in range(400)]
    new = list(old)
    for _ in range(edits):
        new.insert(choice.randrange(len(new)), choice.randrange(kinds))
    blocks = matching_blocks(old, new)
    assert all(old[i : i + size] == new[j : j + size] for i, j, size in blocks)
    assert blocks == sorted(blocks)
    assert all(i + n <= k and j + n <= m for (i, j, n), (k, m, _) in pairwise(blocks))
    assert sum(size for _, _, size in blocks) == 400


# ---- the command


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """MODEL, and the same with another instruction and another attribute."""
    paths = tmp_path / "a.hlo", tmp_path / "b.hlo"
    paths[0].write_text(MODEL)
    paths[1].write_text(MODEL.replace("negate(e)", "negate(f)").replace("  n =", "  f = f32[4,8]{1,0} tanh(e)\n  n =").replace("constant(0)", "constant(1)"))  # noqa: E501
    return paths


def test_main_use(hlotool: Run, two: tuple[Path, Path]) -> None:
    done = hlotool("diff", *two)
    assert done.returncode == 1
    assert done.stderr == ""
    assert done.stdout == f"""--- {two[0]}
+++ {two[1]}
main
  ~ zero = f32[] constant(1)
      literal: 0 -> 1
  + f = f32[4,8]{{1,0}} tanh(e)
1 added, 1 changed; 10 instructions matched
  cost                     A          B        difference
  instructions            10         11        +1 (+10 %)
  flops                  572        572                 0
  transcendentals         32         64      +32 (+100 %)
  bytes            1.145 KiB  1.395 KiB  +256 B (+21.8 %)
  peak memory          644 B      644 B               0 B
"""


def test_no_difference(hlotool: Run, two: tuple[Path, Path]) -> None:
    done = hlotool("diff", two[0], two[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("no difference: 10 instructions matched\n")


@pytest.mark.parametrize("side", [0, 1])
def test_standard_input(hlotool: Run, two: tuple[Path, Path], side: int) -> None:
    names = [str(path) for path in two]
    text = two[side].read_text()
    names[side] = "-"
    done = hlotool("diff", *names, "--only-summary", stdin=text)
    assert done.returncode == 1
    assert "1 added, 1 changed; 10 instructions matched\n" in done.stdout
    assert "tanh" not in done.stdout


def test_json_keeps_to_its_schema(hlotool: Run, two: tuple[Path, Path]) -> None:
    answer = check_json(hlotool("diff", *two, "--format", "json").stdout)
    assert (answer["same"], answer["omitted"]) == (False, 0)
    assert {(c["kind"], c["new"]["name"]) for c in answer["changes"]} == {("added", "f"), ("changed", "zero")}
    assert answer["new"]["transcendentals"] - answer["old"]["transcendentals"] == 32
    short = check_json(hlotool("diff", *two, "--format", "json", "--max", "1").stdout)
    assert (len(short["changes"]), short["omitted"]) == (1, 1)
    same = check_json(hlotool("diff", two[0], two[0], "--format", "json").stdout)
    assert same["same"]


def test_json_of_what_can_only_be_looked_at(hlotool: Run, two: tuple[Path, Path]) -> None:
    two[1].write_text(MODEL.replace("negate(e)", "frobnicate(e), level=3"))
    done = hlotool("diff", *two, "--format", "json")
    assert done.returncode == 1
    answer = check_json(done.stdout)
    assert [detail["what"] for change in answer["changes"] for detail in change["details"]] == ["opcode", "level"]
    assert "new_notes" in answer


def test_output_goes_to_a_file(hlotool: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    done = hlotool("diff", *two, "-o", "out.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads((tmp_path / "out.json").read_text())["kind"] == "diff"


def test_the_page_shows_both_sides(hlotool: Run, two: tuple[Path, Path], tmp_path: Path) -> None:
    two[1].write_text(two[1].read_text().replace("e = f32", "<b> = f32").replace("(e)", "(<b>)").replace("<b>", "bold"))
    done = hlotool("diff", *two, "-o", "out.html")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    page = (tmp_path / "out.html").read_text()
    assert page.count('<div class="row added">') == 1
    assert page.count('<div class="row changed">') == 1
    assert "<b>zero = f32[] constant(<mark>1</mark>)</b>" in page
    assert "1 computations without a difference" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_closed_pipe_is_no_error(two: tuple[Path, Path]) -> None:
    line = f"{sys.executable} -m hlotool diff {two[0]} {two[1]} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode in (0, 1), done.stderr) == (True, "")


def test_binary_protocol_buffers(hlotool: Run, two: tuple[Path, Path]) -> None:
    proto = two[0].with_name("n.pb")
    proto.write_bytes(encode("HloModuleProto", NEGATE))
    two[1].write_text(NEGATE_TEXT)
    assert hlotool("diff", proto, two[1]).returncode == 0
    assert hlotool("diff", proto, two[0]).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("-", "-"), 2, "standard input"),
        (("a.hlo", "b.hlo", "--ignore", "sizes"), 2, "none of names, metadata"),
        (("a.hlo", "b.hlo", "--ignore", "names", "--heed", "names"), 2, "do not go together"),
        (("a.hlo",), 2, "Missing argument"),
        (("a.hlo", "none.hlo"), 3, "none.hlo"),
        (("a.hlo", "bad.hlo"), 3, "bad.hlo:"),
        (("a.hlo", "b.hlo", "-o", "no/such/folder.txt"), 5, "no/such"),
    ],
)
def test_what_is_refused(
    hlotool: Run, two: tuple[Path, Path], tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "bad.hlo").write_text("no module at all")
    done = hlotool("diff", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr


def test_aspects_are_given_with_commas_or_one_by_one(hlotool: Run, two: tuple[Path, Path]) -> None:
    two[1].write_text(MODEL.replace("n = f32[4,8]{1,0}", "n = f32[4,8]{0,1}").replace("constant(0)", "constant(2)"))
    assert hlotool("diff", *two, "--ignore", "layouts,constants").returncode == 0
    assert hlotool("diff", *two, "--ignore", "layouts", "--ignore", "constants").returncode == 0
    assert hlotool("diff", *two, "--ignore", "layouts").returncode == 1


def test_the_library_has_it() -> None:
    assert package.diff(package.parse(MODEL), package.parse(MODEL)).is_same
