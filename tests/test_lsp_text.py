"""What an editor is told about a text, without a server; and no text, however broken, that breaks any of it."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from large_module import large_module
from models import models

from hlotool.analysis.value_ranges import ranges
from hlotool.evaluate import Value, evaluate
from hlotool.harness.inputs import random_inputs
from hlotool.ir import COMMON_ATTRIBUTES, ELEMENT_TYPES, OPCODES, HloError, Instruction
from hlotool.ir.opcodes import SPELLED
from hlotool.lsp.completion import Item, complete
from hlotool.lsp.diagnostics import errors, smells
from hlotool.lsp.document import Document, Edit, Refused, smallest_edit
from hlotool.lsp.fixes import apply, error_fix, lint_edits, silence_fix
from hlotool.lsp.folding import Fold, folds
from hlotool.lsp.formatting import format_edit
from hlotool.lsp.hover import attribute_text, hover, opcode_text
from hlotool.lsp.lens import lenses
from hlotool.lsp.meanings import ATTRIBUTES, HEADER
from hlotool.lsp.meanings import OPCODES as MEANINGS
from hlotool.lsp.navigation import definition, named_part, references, rename, symbols
from hlotool.lsp.scan import Part, scan
from hlotool.lsp.tokens import TYPES, encoded
from hlotool.text.format import formatted
from hlotool.text.header import HEADER_ATTRIBUTES
from hlotool.text.load import Source, parse_all
from hlotool.text.printer import print_module

SAMPLES = sorted((ROOT / "samples").rglob("*.hlo"))
BROKEN = sorted((ROOT.parent / "shared" / "badhlo").glob("*.hlo"))
PROGRAMS = sorted((ROOT / "samples").glob("*.hlo"))

TEXT = """HloModule m, is_scheduled=false

// Adds.
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}

ENTRY main (a: f32[4,8]) -> f32[4] {
  a = f32[4,8]{1,0} parameter(0), metadata={op_name="x/a" source_file="model.py" source_line=7}
  zero = f32[] constant(0)
  t = f32[4,8]{1,0} tanh(a)
  ROOT sum = f32[4]{0} reduce(t, zero), dimensions={1}, to_apply=add
}
"""


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def at(text: str) -> tuple[Document, int]:
    """A document and the offset of the mark ``|`` in it, which is left out."""
    offset = text.index("|")
    return Document(text[:offset] + text[offset + 1 :]), offset


def part(document: Document, word: str, nth: int = 0) -> Part:
    return [one for one in document.scan.parts if document.word(one) == word][nth]


# ---- what stands where


@pytest.mark.parametrize("path", [*SAMPLES, *models(), *BROKEN], ids=lambda path: path.stem)
def test_the_scan_finds_what_the_parser_finds(path: Path) -> None:
    """Every instruction and computation with its name, and for every name that is used its definition."""
    text = text_of(path)
    try:
        modules = parse_all(text)
    except HloError:
        return  # what is broken is no measure; see the other tests
    document = Document(text)
    words = [document.word(one) for one in document.scan.parts if one.kind == "definition"]
    named = [i.name for module in modules for i in module.instructions() if ".anon" not in i.name and i.location]
    assert sorted(set(words)) == sorted(set(named))
    assert len(words) == sum(len(c) for module in modules for c in module.computations.values())
    bodies = [scope for scope in document.scan.scopes if scope.name]
    assert all(text[scope.end - 1] == "}" for scope in bodies)
    assert {scope.name for scope in bodies} <= {c for module in modules for c in module.computations}
    used = [one for one in document.scan.parts if one.kind in ("operand", "called", "signature")]
    assert all(definition(document, one) is not None for one in used)


def test_parts_are_in_order_and_inside() -> None:
    for path in SAMPLES:
        text = text_of(path)
        parts = scan(text).parts
        assert all(0 <= one.start < one.end <= len(text) for one in parts)
        assert all(one.end <= other.start for one, other in pairwise(parts))


def test_edits_give_the_scan_of_the_new_text() -> None:
    """What is scanned again after an edit is what the whole text would give, and most edits need only a part."""
    rng = random.Random(1)
    pieces = [
        "add(", "a", " ", "\n", "}", "{", "(", ")", "%x = ", '"', "f32[2]", "//", "/*", ", dimensions={0}", "=", "",
        " ROOT ", "x = f32[] add(a, b)\n",
    ]  # fmt: skip
    some = 0
    for _ in range(200):
        document = Document(text_of(rng.choice(SAMPLES)))
        for _ in range(5):
            assert document.scan
            start = rng.randrange(len(document.text) + 1)
            end = min(len(document.text), start + rng.choice([0, 0, 0, 1, 2, 7, 40]))
            document = document.changed(Edit(start, end, rng.choice(pieces)), 1)
            some += "scan" in document.__dict__
            assert document.scan == scan(document.text)
    assert some > 300


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
def test_positions(encoding: str) -> None:
    """Lines end as in the protocol; columns count units of the encoding."""
    text = "a\u2028é𝄞b\r\nc\rd\x0ce\n"
    document = Document(text, 0, encoding)
    for offset, letter in enumerate(text):
        if letter in "\r\n":
            continue
        line, column = document.position(offset)
        assert document.offset(line, column) == offset
    units = {"utf-8": 1 + 3 + 2 + 4, "utf-16": 1 + 1 + 1 + 2, "utf-32": 4}[encoding]
    assert document.position(text.index("b")) == (0, units)
    assert document.position(text.index("e")) == (2, 2)
    assert document.offset(0, 99) == text.index("\r\n")
    assert document.offset(99, 0) == len(text)


# ---- names


def test_definitions_and_references() -> None:
    document = Document(TEXT)
    entry = part(document, "a", 4)  # add has a parameter of this name, too, and the signature names it
    assert [TEXT[: one.start].count("\n") + 1 for one in references(document, entry)] == [10, 11, 13]
    assert definition(document, part(document, "sum")) == part(document, "sum")
    called = [one for one in document.scan.parts if one.kind == "called"]
    assert [document.word(one) for one in called] == ["add"]
    found = definition(document, called[0])
    assert found is not None
    assert found.start == TEXT.index("add {")
    assert len(references(document, called[0])) == 2
    assert len(references(document, called[0], declaration=False)) == 1


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_renaming_changes_names_alone(path: Path) -> None:
    """Each name, renamed and renamed back, gives the text that was; between, a module that differs in it alone."""
    text = text_of(path)
    document = Document(text)
    names = [one for one in document.scan.parts if one.kind in ("definition", "computation")]
    for one in names[:: max(1, len(names) // 10)]:
        old = document.word(one)
        changed = apply(text, rename(document, one, "%new.name-1"))
        modules = parse_all(changed)
        assert any("new.name-1" in print_module(module) for module in modules)
        again = Document(changed)
        back = part(again, "new.name-1")
        assert apply(changed, rename(again, back, old)) == text


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        ("zero", "already has an instruction 'zero'"), ("1st", "is no name"), ("a b", "is no name"), ("", "is no name"),
        ("ROOT", "word of the language"), ("x\u0301", "is no name"),
    ],
)  # fmt: skip
def test_names_that_are_refused(new: str, reason: str) -> None:
    document = Document(TEXT)
    with pytest.raises(Refused, match=reason):
        rename(document, part(document, "t"), new)


def test_undefined_names_are_not_renamed() -> None:
    document = Document(TEXT.replace("tanh(a)", "tanh(b)"))
    with pytest.raises(Refused, match="not defined"):
        rename(document, part(document, "b", 2), "c")
    with pytest.raises(Refused, match="already has a computation"):
        rename(document, next(p for p in document.scan.parts if p.kind == "called"), "main")


def test_modules_of_one_text_have_their_own_names() -> None:
    document = Document(f"{TEXT}\n// -----\n\n{TEXT}")
    called = [one for one in document.scan.parts if one.kind == "called"]
    assert [definition(document, one) for one in called] == [p for p in document.scan.parts if document.word(p) == "add"
                                                            and p.kind == "computation"]  # fmt: skip
    assert lenses(document) == []


def test_bodies_in_braces() -> None:
    """Names of a body that stands in the place of a name are its own."""
    body = "{ x = f32[] parameter(0)\n y = f32[] parameter(1)\n a = f32[] add(x, y) }"
    text = TEXT.replace("to_apply=add", f"to_apply={body}")
    parse_all(text)
    document = Document(text)
    inner = document.definitions[2, "a"]
    assert (inner.kind, len(references(document, inner))) == ("definition", 1)
    statement = document.statement_at(text.index("dimensions={1}"))
    assert statement is not None
    assert statement.name == "sum"
    assert document.scope_at(text.index("f32[] add(x, y)")) == 2


def test_outline() -> None:
    found = symbols(Document(TEXT))
    assert [(one.name, one.detail, [inside.name for inside in one.inside]) for one in found] == [
        ("add", "", ["a", "b", "sum"]), ("main", "ENTRY", ["a", "zero", "t", "sum"]),
    ]  # fmt: skip
    for symbol in (*found, *(inside for one in found for inside in one.inside)):
        assert symbol.range[0] <= symbol.name_range[0] <= symbol.name_range[1] <= symbol.range[1]


# ---- completion


def offered(text: str, kind: str | None = None) -> list[Item]:
    document, offset = at(text)
    return [item for item in complete(document, offset).items if kind in (None, item.kind)]


def labels(text: str, kind: str | None = None) -> list[str]:
    return [item.label for item in offered(text, kind)]


def test_opcodes_follow_a_shape() -> None:
    text = TEXT.replace("t = f32[4,8]{1,0} tanh(a)", "t = f32[4,8]{1,0} ta|")
    found = offered(text)
    assert {item.kind for item in found} == {"opcode"}
    assert sorted(item.label for item in found) == sorted(SPELLED)
    tanh = next(item for item in found if item.label == "tanh")
    assert (tanh.text, tanh.snippet, tanh.detail) == ("tanh($1)", True, "tanh(operand)")
    assert "hyperbolic tangent" in tanh.documentation
    reduce = next(item for item in found if item.label == "reduce")
    assert reduce.text == "reduce($1), dimensions={$2}, to_apply=$3"


def test_opcodes_keep_parentheses_that_are_there() -> None:
    found = offered(TEXT.replace("tanh(a)", "ta|(a)"), "opcode")
    assert next(item for item in found if item.label == "tanh").text == "tanh"


def test_types_follow_the_equals_sign() -> None:
    found = labels(TEXT.replace("t = f32[4,8]{1,0} tanh(a)", "t = |"))
    assert {"f32", "bf16", "pred", "add"} <= set(found)
    assert "reduce" not in labels(TEXT.replace("t = f32[4,8]{1,0} tanh(a)", "t = |"), "type")


def test_operands_are_those_ahead() -> None:
    assert labels(TEXT.replace("tanh(a)", "tanh(|"), "operand") == ["zero", "a"]
    assert labels(TEXT.replace("tanh(a)", "tanh(z|"), "operand") == ["zero"]
    (zero,) = offered(TEXT.replace("tanh(a)", "tanh(z|"), "operand")
    assert zero.detail == "f32[] constant"
    assert labels(TEXT.replace("(t, zero)", "(t, |)"), "operand") == ["t", "zero", "a"]


def test_operands_have_percent_signs_where_names_do() -> None:
    text = print_module(parse_all(TEXT)[0])
    assert "%" not in text
    percent = TEXT.replace("a =", "%a =").replace("b =", "%b =").replace("zero =", "%zero =").replace("add {", "%add {")
    percent = percent.replace("ENTRY main", "ENTRY %main").replace("sum =", "%sum =").replace("t =", "%t =", 1)
    assert labels(percent.replace("tanh(a)", "tanh(%|"), "operand") == ["%zero", "%a"]
    assert labels(percent.replace("to_apply=add", "to_apply=%|"), "computation") == ["%add"]


def test_attributes_of_the_opcode() -> None:
    found = labels(TEXT.replace(", dimensions={1}, to_apply=add", ", |"), "attribute")
    assert found[:2] == ["dimensions", "to_apply"]
    assert set(found) == {"dimensions", "to_apply", *COMMON_ATTRIBUTES}
    assert "dimensions" not in labels(TEXT.replace(", to_apply=add", ", |"), "attribute")
    assert offered(TEXT.replace(", to_apply=add", ", |"), "attribute")[0].text == "to_apply=$1"


def test_values_of_attributes() -> None:
    assert labels(TEXT.replace("to_apply=add", "to_apply=|")) == ["add"]
    compare = "  c = pred[4,8] compare(t, t), direction=|\n  ROOT"
    found = labels(TEXT.replace("  ROOT sum = f32[4]", f"{compare} sum = f32[4]"))
    assert sorted(found) == ["EQ", "GE", "GT", "LE", "LT", "NE"]
    precision = "  c = f32[4,4] dot(t, t), operand_precision={|\n  ROOT"
    assert "highest" in labels(TEXT.replace("  ROOT sum = f32[4]", f"{precision} sum = f32[4]"))


def test_around_computations() -> None:
    assert "HloModule" in labels("|")
    assert "ENTRY" in labels("HloModule m\n\n|")
    assert "is_scheduled" not in labels("HloModule m, is_scheduled=true, |")
    assert "replica_count" in labels("HloModule m, |")
    assert labels("// a comment f|") == []


def test_parameters_count_up() -> None:
    assert labels(TEXT.replace("zero = f32[] constant(0)", "zero = f32[] parameter(|)"), "value") == ["1"]


# ---- hover


def said(text: str, word: str, nth: int = 0) -> str:
    document = Document(text)
    return hover(document, errors(text, "m.hlo").known, part(document, word, nth)) or ""


def test_hover_of_an_instruction() -> None:
    text = said(TEXT, "t")
    assert "t = f32[4,8]{1,0} tanh(a)" in text
    assert "32 elements, 128 B, row-major" in text
    assert "32 transcendentals; 128 B read, 128 B written" in text
    assert "values: from -1 to 1, or NaN" in text
    assert "users: 1 (`sum`)" in text
    assert "`model.py:7`" in said(TEXT, "a", 4)
    assert "values" not in said(TEXT, "a", 4)
    assert "values: all 0\n" in said(TEXT, "zero")


def test_hover_shows_stack_frames() -> None:
    tables = """HloModule m

FileNames
1 "model.py"

FunctionNames
1 "main"
2 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=4 end_column=9}
2 {file_name_id=1 function_name_id=2 line=12 end_line=12 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=0}
2 {file_location_id=2 parent_frame_id=2}

ENTRY e {
  p = f32[] parameter(0)
  ROOT n = f32[] negate(p), metadata={op_name="layer/neg" stack_frame_id=2}
}
"""
    assert "source: `model.py:12` in `layer`, called from `model.py:30` in `main`" in said(tables, "n")


def test_hover_of_words() -> None:
    assert "reduce(arrays..., initial values...), dimensions=..., to_apply=..." in said(TEXT, "reduce")
    assert "The computation that is applied." in said(TEXT, "to_apply")
    assert "Whether the order of the text" in said(TEXT, "is_scheduled")
    assert "32 elements, 128 B" in said(TEXT, "f32[4,8]{1,0}")
    assert "called 1 time" in said(TEXT, "add", 0)
    assert said(TEXT, "0") == ""


def test_hover_in_a_text_with_unknown_words() -> None:
    """Opcodes that do not exist leave the rest known."""
    broken = TEXT.replace("tanh(", "tahn(")
    assert "32 elements" in said(broken, "a", 4)
    assert said(broken, "tahn") == ""


def test_all_words_have_a_meaning() -> None:
    assert set(SPELLED) == set(MEANINGS)
    assert {a.name for row in OPCODES.values() for a in row.attributes} | set(COMMON_ATTRIBUTES) == set(ATTRIBUTES)
    assert set(HEADER_ATTRIBUTES) == set(HEADER)
    for opcode in SPELLED:
        assert opcode in (opcode_text(opcode) or "")
        for attribute in OPCODES[opcode].attributes:
            assert attribute_text(attribute.name, opcode)


# ---- ranges


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_values_are_in_their_ranges(path: Path) -> None:
    for module in parse_all(text_of(path)):
        known = {i: found for c in module.computations.values() for i, found in ranges(c).items()}
        seen = 0

        def observe(instruction: Instruction, value: Value) -> None:
            nonlocal seen
            if instruction not in known or not isinstance(value, np.ndarray):  # noqa: B023
                return
            seen += 1
            low, high, nan = known[instruction]  # noqa: B023
            values = value.astype(np.float64)
            assert nan or not np.isnan(values).any()
            values = values[~np.isnan(values)]
            assert not values.size or (low <= values.min() and values.max() <= high)

        evaluate(module, random_inputs(module, 3), observe)
        assert seen or not known


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("ROOT r = s32[8] iota(), iota_dimension=0", (0, 7, False)),
        ("c = f32[3] constant({1, nan, -2})\n ROOT r = f32[3] abs(c)", (0, 2.0, True)),
        ("x = f32[3] parameter(0)\n ROOT r = f32[3] logistic(x)", (0, 1, True)),
        ("c = u8[2] constant({3, 200})\n ROOT r = u8[2] add(c, c)", None),
        ("c = u8[2] constant({3, 100})\n ROOT r = u8[2] add(c, c)", (6, 200, False)),
        ("x = s8[] parameter(0)\n l = s8[] constant(0)\n ROOT r = s8[] clamp(l, x, l)", (0, 0, False)),
        ("x = f32[] parameter(0)\n h = f32[] constant(9)\n ROOT r = f32[] minimum(x, h)", (-np.inf, 9, True)),
        ("x = pred[2] parameter(0)\n ROOT r = f32[2] convert(x)", (0, 1, False)),
        ("x = s8[2] parameter(0)\n m = s8[2] constant({3, 3})\n ROOT r = s8[2] and(x, m)", (0, 3, False)),
        ("x = s8[2] parameter(0)\n m = s8[2] constant({5, 5})\n ROOT r = s8[2] remainder(x, m)", (-4, 4, False)),
        ("x = f32[2] parameter(0)\n ROOT r = f32[2] add(x, x)", None),
        ("x = s8[2] parameter(0)\n ROOT r = s8[2] abs(x)", None),
    ],
)  # fmt: skip
def test_ranges(body: str, wanted: tuple[float, float, bool] | None) -> None:
    (module,) = parse_all(f"ENTRY e {{\n {body}\n}}\n")
    assert ranges(module.entry).get(module.entry.root) == wanted


# ---- colours, folds


def test_tokens_cover_the_words() -> None:
    document = Document(TEXT)
    line = column = 0
    found = []
    numbers = encoded(document, document.scan.parts)
    for down, right, length, kind, _ in zip(*(numbers[n::5] for n in range(5)), strict=True):
        line, column = line + down, right + (column if not down else 0)
        found.append((document.line(line)[column : column + length], TYPES[kind]))
    assert ("tanh", "method") in found
    assert ("zero", "variable") in found
    assert ("a", "parameter") in found
    assert ("// Adds.", "comment") in found
    assert len(found) == len(document.scan.parts)


def test_tokens_of_comments_of_several_lines() -> None:
    document = Document("/* one\n   two */\nHloModule m\n")
    assert encoded(document, document.scan.parts)[:10] == [0, 0, 6, 11, 0, 1, 0, 9, 11, 0]


def test_folds() -> None:
    text = "// a\n// b\n" + TEXT.replace("constant(0)", "constant(\n0\n)")
    assert folds(Document(text)) == [Fold(0, 1, "comment"), Fold(5, 8), Fold(11, 17), Fold(13, 15)]
    body = "ENTRY e {\n  p = f32[] parameter(0)\n  q = f32[] negate(p)\n}\n"
    tables = f'HloModule m\n\nFileNames\n1 "a.py"\n2 "b.py"\n\n{body}'
    assert folds(Document(tables)) == [Fold(2, 4), Fold(6, 8)]


# ---- formatting and fixes


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_formatting_is_that_of_fmt(path: Path) -> None:
    text = text_of(path)
    wanted = formatted(Source("x", "hlo", b"", text))
    if wanted.lost is not None:
        with pytest.raises(Refused, match=f"line {wanted.lost} "):
            format_edit(Document(text))
        return
    edit = format_edit(Document(text))
    assert apply(text, [edit] if edit is not None else []) == wanted.text


def test_formatting_refuses() -> None:
    with pytest.raises(Refused, match="the comment in line 3 would be lost"):
        format_edit(Document(TEXT))
    with pytest.raises(Refused, match="line 2: "):
        format_edit(Document("HloModule m\n%"))
    clean = formatted(Source("x", "hlo", b"", TEXT)).text
    assert format_edit(Document(clean)) is None


def test_the_smallest_edit() -> None:
    rng = random.Random(0)
    for _ in range(500):
        one, other = ("".join(rng.choices("ab", k=rng.randrange(8))) for _ in range(2))
        edit = smallest_edit(one, other)
        assert (apply(one, [edit]) if edit is not None else one) == other
        assert (edit is None) == (one == other)


def test_the_word_that_was_meant() -> None:
    text = TEXT.replace("tanh(", "tanhh(").replace("dimensions={1}", "dimension={1}").replace("zero)", "zera)")
    document = Document(text)
    found = [error_fix(document, one) for one in errors(text, "m").diagnostics]
    assert [fix.title for fix in found if fix is not None] == [
        "change to 'tanh'", "change to 'zero'", "change to 'dimensions'",
    ]  # fmt: skip
    assert apply(text, [edit for fix in found if fix is not None for edit in fix.edits]) == TEXT


def test_lint_fixes_as_edits() -> None:
    """What lint mends in a module it mends in the text, and nothing else in the text changes."""
    from hlotool.lint.rules import RULES

    tried = 0
    for rule in RULES.values():
        document = Document(rule.wrong)
        report = errors(rule.wrong, "m")
        if report.known is None:
            continue  # a rule whose example is too long to be written out
        for smell in smells(report.known, rule.wrong):
            if smell.finding.fix is None:
                continue
            mended = apply(rule.wrong, lint_edits(document, report.known, smell))
            again = errors(mended, "m")
            assert not again.diagnostics
            assert again.known is not None
            left = [one.diagnostic.message for one in smells(again.known, mended)]
            assert smell.diagnostic.message not in left
            assert mended.splitlines()[0] == rule.wrong.splitlines()[0]
            tried += 1
    assert tried > 5


def test_silencing() -> None:
    from hlotool.lint.rules import RULES

    text = RULES["HLO6005"].wrong
    report = errors(text, "m")
    assert report.known is not None
    for smell in smells(report.known, text):
        fix = silence_fix(Document(text), smell)
        assert fix is not None
        quiet = apply(text, fix.edits)
        again = errors(quiet, "m").known
        assert again is not None
        assert smell.rule.code not in [
            one.rule.code for one in smells(again, quiet)
            if one.finding.instruction.name == smell.finding.instruction.name
        ]  # fmt: skip


# ---- texts that are not whole


def everything(text: str, offsets: list[int], known_of: str | None = None) -> None:
    """Ask all questions about a text, at these places."""
    document = Document(text)
    known = errors(known_of if known_of is not None else text, "m.hlo").known
    for diagnostic in errors(text, "m.hlo").diagnostics:
        error_fix(document, diagnostic)
        if diagnostic.location is not None:
            start, end = document.range_of(diagnostic.location)
            assert 0 <= start <= end <= len(text)
    encoded(document, document.scan.parts)
    folds(document)
    lenses(document)
    symbols(document)
    for offset in offsets:
        complete(document, offset)
        one = document.part_at(offset)
        if one is not None:
            hover(document, known, one)
        name = named_part(document, offset)
        if name is not None:
            definition(document, name)
            references(document, name)
            with suppress(Refused):
                rename(document, name, "other")
    with suppress(Refused):
        format_edit(document)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_no_beginning_of_a_text_breaks_anything(path: Path) -> None:
    """Texts that end anywhere, as while they are typed, with what was known of the whole."""
    data = path.read_bytes()
    rng = random.Random(path.name)
    for _ in range(40):
        text = data[: rng.randrange(len(data) + 1)].decode("utf-8", "surrogateescape")
        places = [len(text), *(rng.randrange(len(text) + 1) for _ in range(3))]
        everything(text, places, data.decode() if len(data) < 4000 else None)


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_no_broken_file_breaks_anything(path: Path) -> None:
    text = text_of(path)
    rng = random.Random(path.name)
    everything(text, [len(text), *(rng.randrange(len(text) + 1) for _ in range(20))])


@pytest.mark.skipif(not BROKEN, reason="the malformed files lie beside the repository")
def test_broken_files_have_diagnostics() -> None:
    for path in BROKEN:
        report = errors(text_of(path), str(path))
        legal = path.stem.startswith("legal_")
        assert bool(report.diagnostics) != legal, path.stem


@pytest.mark.parametrize("seed", range(60))
def test_no_noise_breaks_anything(seed: int) -> None:
    rng = random.Random(seed)
    text = text_of(rng.choice(SAMPLES))
    for _ in range(rng.randrange(1, 30)):
        place = rng.randrange(len(text) + 1)
        noise = rng.choice(["\0", "\ud800", '"', "{", "}", "(", "/*", "\r", "=", "%", "é𝄞", "\n"])
        text = text[:place] + noise + text[place:]
    everything(text, [rng.randrange(len(text) + 1) for _ in range(6)])


def test_large_texts_take_linear_time() -> None:
    """The scan of ten times the text finds ten times the parts: no statement makes it look at all others."""
    small, large = (Document(large_module(size)) for size in (200, 2000))
    assert 8 < len(large.scan.parts) / len(small.scan.parts) < 12
    kinds = {one.shape.element_type for module in parse_all(small.text) for one in module.instructions()}
    assert kinds <= set(ELEMENT_TYPES)
