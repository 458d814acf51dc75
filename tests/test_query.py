"""``hlotool query``, ``stats`` and ``signature``."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import ROOT, Run
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.inspect.expression import And, Comparison, Has, ListOf, Not, Number, Or, QueryError, Text, Word
from hlotool.inspect.expression import parse_expression as read
from hlotool.inspect.query import FIELDS, Query
from hlotool.inspect.signature import signature
from hlotool.inspect.stats import stats
from hlotool.ir import Module
from hlotool.text.parser import parse

MODEL = """HloModule model, input_output_alias={ {0}: (1, {}, may-alias) }, buffer_donor={ (2, {}) }

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[8,16]{1,0} parameter(0)
  w = f32[16,4]{1,0} parameter(1), metadata={op_name="params/w"}
  spare = s32[3]{0} parameter(2)
  zero = f32[] constant(0)
  product = f32[8,4]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="f.py" source_line=12}
  twice = f32[8,4]{1,0} add(product, product)
  sum = f32[8]{0} reduce(twice, zero), dimensions={1}, to_apply=add
  custom = f32[8]{0} custom-call(sum), custom_call_target="secret"
  ROOT out = (f32[16,4]{1,0}, f32[8]{0}, (s32[3]{0})) tuple(w, custom, nested)
}
""".replace("  ROOT out", "  nested = (s32[3]{0}) tuple(spare)\n  ROOT out")  # noqa: E501


@pytest.fixture(scope="module")
def model() -> Module:
    return parse(MODEL)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("opcode == dot", "product"),
        ("opcode == 'dot'", "product"),
        ("name == %twice", "twice"),
        ("opcode in [dot, reduce]", "product sum"),
        ("opcode in (dot)", "product"),
        ("not opcode in [parameter, constant, tuple, add, dot]", "sum custom"),
        ("opcode not in [parameter, constant, tuple, add, dot]", "sum custom"),
        ("bytes > 200 and opcode != tuple", "x w"),
        ("bytes >= 0.5KB and opcode != tuple", "x"),
        ("bytes == 0.25KiB", "w"),
        ("size == 3", "spare"),
        ("rank == 0 and computation == main", "zero"),
        ("type == s32", "spare"),
        ("shape == f32[8,4]", "product twice"),
        ("shape == f32[8,4]{1,0} and opcode == dot", "product"),
        ("shape == 'f32[8, 4]' and opcode == dot", "product"),
        ("flops > 300", "product"),
        ("flops == 24", "sum"),
        ("flops == 2 or flops == 32", "twice"),
        ("flops >= 0 and opcode == custom-call", ""),
        ("flops != 0 and opcode == custom-call", "custom"),
        ("traffic == 896", "product"),
        ("users == 0", "c out"),
        ("operands == product", "twice"),
        ("product in operands", "twice"),
        ("users > operands and computation == main and opcode != constant", "x w spare"),
        ("is_root", "c out"),
        ("is_root == false and opcode == add", "twice"),
        ("is_root != true and opcode == add", "twice"),
        ("op_name =~ 'params|jit'", "w product"),
        ("op_name !~ 'params' and opcode == parameter and computation == main", "x spare"),
        ("source_file == f.py and source_line == 12", "product"),
        ("source_line < 100", "product"),
        ("group == elementwise", "c twice"),
        ("attr.dimensions == {1}", "sum"),
        ("1 in attr.dimensions", "sum"),
        ("0 in attr.dimensions", ""),
        ("attr.to_apply == add", "sum"),
        ("attr.custom_call_target =~ '^sec'", "custom"),
        ("attr.parameter_number > 1", "spare"),
        ("attr.dimensions", "sum"),
        ("has_operand(opcode == dot)", "twice"),
        ("has_user(opcode == reduce)", "zero twice"),
        ("has_user(has_operand(opcode == constant)) and has_operand(opcode == dot)", "twice"),
        ("opcode == dot or opcode == add and is_root", "c product"),
        ("(opcode == dot or opcode == add) and is_root", "c"),
        ("not not opcode == dot", "product"),
        ("name =~ o and not (is_root or opcode == constant)", "product custom"),
        ("sec in attr.custom_call_target", "custom"),
    ],
)
def test_what_matches(model: Module, expression: str, names: str) -> None:
    assert " ".join(one.name for one in Query(expression).matches(model)) == names


def test_precedence() -> None:
    word = Word("x", 0)
    assert isinstance(read("a or b and not c"), Or)
    assert isinstance(read("a and b or c"), Or)
    assert isinstance(read("(a or b) and c"), And)
    assert read("not x == 1") == Not(Comparison(Word("x", 4), "==", Number(1.0), 4))
    assert read("x in [1, two, 'three']") == Comparison(
        word, "in", ListOf((Number(1.0), Word("two", 9), Text("three"))), 0
    )
    assert read("has_user(x)") == Has("user", Word("x", 9))


@pytest.mark.parametrize(
    ("expression", "column", "message", "hint"),
    [
        ("opcod == dot", 1, "there is no field 'opcod'", "did you mean 'opcode'?"),
        ("is_root and opcod == dot", 13, "there is no field 'opcod'", "did you mean 'opcode'?"),
        ("opcode = dot", 8, "unexpected '='", "did you mean '=='?"),
        ("opcode == ", 11, "expected a value after '==', found the end", None),
        ("(opcode == dot", 15, "expected ')', found the end", None),
        ("opcode == dot)", 14, "expected 'and', 'or' or the end, found ')'", None),
        ("opcode == dot adn is_root", 15, "expected 'and', 'or' or the end, found 'adn'", "did you mean 'and'?"),
        ("opcode == 'dot", 11, "this text never ends", None),
        ("bytes > lots", 9, "'bytes' is a number, 'lots' is not", None),
        ("opcode > 3", 1, "'opcode' is text, not a number", None),
        ("opcode < dot", 1, "'<' compares numbers, 'dot' is text", None),
        ("is_root == maybe", 1, "'is_root' is true or false", None),
        ("op_name =~ '('", 13, "not a regular expression", None),
        ("bytes =~ 3", 1, "=~ and !~ compare text", None),
        ("has_user opcode", 10, "expected '(' after has_user", None),
        ("5 > 3", 1, "the left side must be a field", None),
        ("5", 2, "expected one of", None),
        ("", 1, "expected a field", None),
        ("opcode in dot", 11, "there is no field 'dot'", None),
        ("opcode == [a]", 1, "a list goes with 'in'", None),
        ("(" * 101 + "is_root" + ")" * 101, 102, "nested more than 100 levels deep", None),
        ("__import__('os')", 11, "expected 'and', 'or' or the end", None),
        ("opcode.__class__ == x", 1, "there is no field 'opcode.__class__'", None),
    ],
)
def test_errors_have_columns(expression: str, column: int, message: str, hint: str | None) -> None:
    with pytest.raises(QueryError) as caught:
        Query(expression)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location is not None
    assert message in diagnostic.message
    assert diagnostic.location.column == column
    assert hint is None or diagnostic.hint == hint


def test_a_long_expression_is_read(model: Module) -> None:
    for text in ("not " * 100_000 + "is_root", " and ".join(["is_root"] * 20_000)):
        assert [one.name for one in Query(text).matches(model)] == ["c", "out"]


def test_a_deep_expression_is_refused() -> None:
    with pytest.raises(QueryError, match="nested more than 100 levels deep"):
        Query("(" * 100_000)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab ()[]{}<>=!~'\"\\,.0123e", max_size=30) | st.sampled_from(sorted(FIELDS)))
def test_any_text_is_an_expression_or_a_query_error(text: str) -> None:
    with suppress(QueryError):
        list(Query(text).matches(parse(MODEL)))


# ---- the commands


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.hlo"
    path.write_text(MODEL)
    return path


def test_query_prints_places_and_instructions(hlotool: Run, file: Path) -> None:
    done = hlotool("query", "opcode == dot", file.name)
    assert done.returncode == 0
    assert done.stdout == (
        "model.hlo:14: product = f32[8,4]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    )


def test_query_exit_codes_are_those_of_grep(hlotool: Run, file: Path) -> None:
    none = hlotool("query", "opcode == tan", file.name)
    assert (none.returncode, none.stdout, none.stderr) == (1, "", "")
    bad = hlotool("query", "opcod == tan", file.name)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.splitlines()[1:] == ["  opcod == tan", "  ^^^^^", "hint: did you mean 'opcode'?"]
    assert hlotool("query", "opcode == tan", "nothing.hlo").returncode == 3


def test_query_counts(hlotool: Run, file: Path) -> None:
    assert hlotool("query", "--count", "opcode == parameter", file.name).stdout == "5\n"
    done = hlotool("query", "-c", "--format", "jsonl", "opcode == tan", file.name)
    assert (done.returncode, json.loads(done.stdout)) == (1, {"count": 0})


def test_query_json_lines(hlotool: Run, file: Path) -> None:
    done = hlotool("query", "--format", "jsonl", "has_operand(opcode == dot) or opcode == dot", file.name)
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["file"], first["line"], first["column"]) == ("model.hlo", 14, 3)
    assert (first["source_file"], first["source_line"], first["op_name"]) == ("f.py", 12, "jit(f)/dot")
    assert (second["operands"], second["users"]) == (["product", "product"], ["sum"])


def test_stats_counts(model: Module) -> None:
    found = stats(model, 2)
    rows = {row.opcode: row for row in found.opcodes}
    assert found.instructions == 13
    assert (rows["dot"].count, rows["dot"].flops, rows["dot"].bytes) == (1, 1024, 896)
    assert (rows["add"].count, rows["add"].runs, rows["add"].flops) == (2, 1, 32)
    assert (found.constants, found.constant_bytes) == (1, 4)
    assert found.custom_calls == {"secret": 1}
    assert found.total.unknown == 1
    assert sum(row.flops for row in found.opcodes) == found.total.flops
    assert sum(row.bytes for row in found.opcodes) == found.total.bytes
    assert [row.name for row in found.largest] == ["x", "w"]
    assert [(row.name, row.role, row.runs) for row in found.computations] == [
        ("add", "reduce", 0),
        ("main", "entry", 1),
    ]


def test_signature_flattens_tuples_and_shows_what_shares_memory(model: Module) -> None:
    found = signature(model)
    assert [(p.number, p.name, p.shape, p.bytes) for p in found.inputs] == [
        (0, "x", "f32[8,16]{1,0}", 512), (1, "w", "f32[16,4]{1,0}", 256), (2, "spare", "s32[3]{0}", 12),
    ]  # fmt: skip
    assert [p.donated for p in found.inputs] == [False, True, True]
    assert found.inputs[1].alias == "output {0}"
    assert [(p.index, p.name, p.alias) for p in found.outputs] == [
        ((0,), "w", "parameter 1"), ((1,), "custom", None), ((2, 0), "spare", None),
    ]  # fmt: skip


def test_stats_and_signature_commands(hlotool: Run, file: Path) -> None:
    data = json.loads(hlotool("stats", "--format", "json", file.name).stdout)
    assert (data["kind"], data["schema_version"], data["total"]["flops"]) == ("stats", 1, 1024 + 32 + 24)
    assert [one["name"] for one in data["inputs"]] == ["x", "w", "spare"]
    text = hlotool("stats", file.name).stdout
    assert ">= 1.08 k" in text
    assert "unknown" in next(line for line in text.splitlines() if line.startswith("  custom-call"))
    assert "\033" not in text
    data = json.loads(hlotool("signature", "--format", "json", file.name).stdout)
    assert data["outputs"][2]["index"] == [2, 0]
    assert "shared with output {0}" in hlotool("signature", file.name).stdout


def test_stats_shows_loops(hlotool: Run) -> None:
    text = hlotool("stats", ROOT / "samples" / "while_loop.hlo").stdout
    assert "1 loops of unknown length are counted once" in text
    assert "while body" in text
