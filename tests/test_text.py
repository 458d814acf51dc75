"""The parser, the printer and diagnostics."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from models import models

from hlotool.evaluate import evaluate
from hlotool.ir import (
    ELEMENT_TYPES,
    UNBOUNDED,
    Aliasing,
    Computation,
    ConvDimensionNumbers,
    Instruction,
    Layout,
    Literal,
    Metadata,
    Module,
    PaddingDimension,
    ParseError,
    ReplicaGroups,
    Shape,
    SliceDimension,
    Verbatim,
    WindowDimension,
    array,
    dtype_of,
    literal,
    row_major,
    scalar,
    tuple_shape,
)
from hlotool.ir.builder import Builder
from hlotool.ir.verifier import verify
from hlotool.text.compare import difference, same
from hlotool.text.diagnostics import render, to_json
from hlotool.text.lexer import escape, unescape
from hlotool.text.load import load
from hlotool.text.parser import parse, parse_literal, parse_shape
from hlotool.text.printer import SHORT, PrintOptions, print_literal, print_module, print_shape

_SHARED = Path(__file__).parents[2] / "shared"
_BAD = _SHARED / "badhlo"


def _instruction(line: str, before: str = "") -> Instruction:
    """The root of a module whose last line is `line`; x and y are f32[4,6], s is f32[], i is s32[]."""
    return parse(_text(line, before)).entry.root


def _text(line: str, before: str = "") -> str:
    return f"""HloModule m

add_f32 {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

{before}
ENTRY main {{
  x = f32[4,6]{{1,0}} parameter(0)
  y = f32[4,6]{{1,0}} parameter(1)
  s = f32[] parameter(2)
  i = s32[] parameter(3)
  {line}
}}
"""


def _round_trip(module: Module) -> str:
    """The printed text, after checking that it reads back to the same module and prints the same bytes."""
    text = print_module(module)
    again = parse(text)
    assert difference(module, again) is None
    assert print_module(again) == text
    return text


def _errors(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(ParseError) as caught:
        parse(text)
    found = []
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.location is not None
        found.append((diagnostic.location.line, diagnostic.location.column, diagnostic.message))
    return found


# ---- the corpus


def test_corpus_reads_and_prints_back() -> None:
    for file in models():
        _round_trip(load(file))


@pytest.mark.skipif(not _BAD.exists(), reason="the corpus of bad modules is not here")
def test_legal_oddities_read_and_print_back() -> None:
    for file in sorted(_BAD.glob("legal_*.hlo")) + sorted(_BAD.glob("fixed/*.hlo")):
        _round_trip(load(file))


# ---- instructions


def test_percent_signs_and_operand_shapes_are_optional() -> None:
    plain = parse(_text("ROOT r = f32[4,6]{1,0} add(x, y)"))
    for line in (
        "ROOT %r = f32[4,6]{1,0} add(%x, %y)",
        "ROOT r = f32[4,6]{1,0} add(f32[4,6] x, f32[4,6]{1,0} %y)",
        "ROOT r=f32[4,6]{1,0} add( x ,/*index=1*/y )",
        "ROOT r = f32[4,6]{1,0} add(x, // the left one\n y)",
        "ROOT r = add(x, y)",
        "r = f32[4,6]{1,0} add(x, y)",
        "ROOT r/* name */ = f32 [4,6] {1,/* minor */0} add(x, y)",
    ):
        assert same(parse(_text(line)), plain), line


def test_options_of_the_printer() -> None:
    module = parse(_text('ROOT r = f32[4,6]{1,0} add(x, y), metadata={op_name="sum"}, backend_config={"n":1}'))
    assert "%r = f32[4,6]{1,0} add(%x, %y)" in print_module(module, PrintOptions(percent=True))
    assert "add(f32[4,6]{1,0} x, f32[4,6]{1,0} y)" in print_module(module, PrintOptions(operand_shapes=True))
    assert "add_f32 (a: f32[], b: f32[]) -> f32[] {" in print_module(module, PrintOptions(signatures=True))
    assert "r = f32[4,6] add(x, y), metadata" in print_module(module, PrintOptions(layouts=False))
    short = print_module(module, SHORT)
    assert "metadata" not in short
    assert "backend_config" not in short
    for options in (PrintOptions(percent=True), PrintOptions(operand_shapes=True), PrintOptions(signatures=True)):
        assert same(parse(print_module(module, options)), module)


def test_constants_can_be_elided() -> None:
    module = parse("ENTRY e { ROOT c = s32[4]{0} constant({1,2,3,4}) }")
    assert "constant({...})" in print_module(module, PrintOptions(elide_above=3))
    assert "constant({1, 2, 3, 4})" in print_module(module, PrintOptions(elide_above=4))
    elided = parse(print_module(module, PrintOptions(elide_above=3)))
    assert elided.entry.root.literal.elided
    assert not same(elided, module)
    _round_trip(elided)


@pytest.mark.parametrize(
    ("line", "attribute", "value"),
    [
        ("ROOT r = f32[6,4]{1,0} transpose(x), dimensions={1,0}", "dimensions", (1, 0)),
        ("ROOT r = f32[6,4]{1,0} transpose(x), dimensions={ 1 , 0 }", "dimensions", (1, 0)),
        ("ROOT r = pred[4,6]{1,0} compare(x, y), direction=LT, type=TOTALORDER", "type", "TOTALORDER"),
        ("ROOT r = f32[4,6]{1,0} iota(), iota_dimension=1", "iota_dimension", 1),
        ("ROOT r = f32[2,3]{1,0} slice(x), slice={[0:4:2], [3:6]}", "slice",
         (SliceDimension(0, 4, 2), SliceDimension(3, 6))),
        ("ROOT r = f32[8,5]{1,0} pad(x, s), padding=0_1_1x-1_0", "padding",
         (PaddingDimension(0, 1, 1), PaddingDimension(-1, 0))),
        ("ROOT r = f32[4,4]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
         "operand_precision={default, highest}", "operand_precision", ("default", "highest")),
        ("ROOT r = f32[4,6]{1,0} all-reduce(x), replica_groups=[2,4]<=[8], to_apply=add_f32", "replica_groups",
         ReplicaGroups(((0, 1, 2, 3), (4, 5, 6, 7)), "[2,4]<=[8]")),
        ("ROOT r = f32[4,6]{1,0} all-reduce(x), replica_groups=[4,2]<=[2,2,2]T(2,1,0), to_apply=add_f32",
         "replica_groups", ReplicaGroups(((0, 4), (2, 6), (1, 5), (3, 7)), "[4,2]<=[2,2,2]T(2,1,0)")),
        ("ROOT r = f32[4,6]{1,0} all-reduce(x), replica_groups=mesh['x'=2,'y'=4] {'y'}, to_apply=add_f32",
         "replica_groups", ReplicaGroups(((0, 1, 2, 3), (4, 5, 6, 7)), "mesh['x'=2,'y'=4] {'y'}")),
        ("ROOT r = f32[4,6]{1,0} all-reduce(x), replica_groups=mesh[a_0=2,b.c=2] {b.c:(1)2}, to_apply=add_f32",
         "replica_groups", ReplicaGroups(((0, 1), (2, 3)), "mesh[a_0=2,b.c=2] {b.c:(1)2}")),
        ("ROOT r = f32[4,6]{1,0} all-reduce(x), replica_groups={{0,1},{2,3}}, to_apply=add_f32", "replica_groups",
         ReplicaGroups(((0, 1), (2, 3)))),
        ("ROOT r = f32[4,6]{1,0} collective-permute(x), source_target_pairs={{0,1},{1,0}}", "source_target_pairs",
         ((0, 1), (1, 0))),
        ('ROOT r = f32[4,6]{1,0} custom-call(x), custom_call_target="a\\"b\\\\c\\303\\266"', "custom_call_target",
         'a"b\\cö'),
        ('ROOT r = f32[4] custom-call(x), custom_call_target="t", operand_layout_constraints={f32[4,6]{0,1}}',
         "operand_layout_constraints", (Shape("f32", (4, 6), Layout((0, 1))),)),
        ('ROOT r = f32[4] custom-call(x), custom_call_target="t", output_to_operand_aliasing={{1}: (0, {2})}',
         "output_to_operand_aliasing", (Aliasing((1,), 0, (2,)),)),
        ('ROOT r = f32[4] custom-call(x), custom_call_target="t", literal=f32[2]{0} {1, 2}', "literal",
         Literal(array("f32", (2,)), np.array([1, 2], np.float32))),
        ('ROOT r = f32[4] custom-call(x), custom_call_target="t", literal=( s32[2]{0} {1, 2}, (pred[] true) )',
         "literal", literal((literal([1, 2], "s32"), literal((literal(True, "pred"),))))),
        ('ROOT r = f32[4] custom-call(x), custom_call_target="t", literal=()', "literal", literal(())),
        ('ROOT r = f32[4] custom-call(x), custom_call_target="t", backend_config="p\\n"', "backend_config", "p\n"),
        ('ROOT r = f32[4] custom-call(x), custom_call_target="t", backend_config={"k":{"v":"}"}}', "backend_config",
         '{"k":{"v":"}"}}'),
        ("ROOT r = f32[4,6]{1,0} negate(x), sharding={devices=[2,1]<=[2]}", "sharding",
         Verbatim("{devices=[2,1]<=[2]}")),
        ("ROOT r = f32[4,6]{1,0} negate(x), sharding={mesh['x'=2,'y'=2], [{'x'}, {?}], unreduced={'y'}}", "sharding",
         Verbatim("{mesh['x'=2,'y'=2], [{'x'}, {?}], unreduced={'y'}}")),
        ("ROOT r = f32[4,6]{1,0} negate(x), sharding={devices=[2,1,2]0,1,2,3 last_tile_dims={manual}}", "sharding",
         Verbatim("{devices=[2,1,2]0,1,2,3 last_tile_dims={manual}}")),
        ('ROOT r = f32[4,6]{1,0} negate(x), frontend_attributes={a="1",b={"k":2}}', "frontend_attributes",
         {"a": "1", "b": '{"k":2}'}),
        ("ROOT r = f32[4,6]{1,0} negate(x), frontend_attributes={a='1\"'}", "frontend_attributes", {"a": '1"'}),
        ("ROOT r = f32[3] rng(s, s), distribution=RNG_UNIFORM", "distribution", "rng_uniform"),
        ('ROOT r = f32[4,6]{1,0} negate(x), origin={{"v" {1}}}', "origin", Verbatim('{{"v" {1}}}')),
        ("ROOT r = f32[4,6]{1,0} parameter(4), parameter_replication={true,false}", "parameter_replication",
         (True, False)),
        ("ROOT r = f32[4,6]{1,0} reduce-precision(x), exponent_bits=5, mantissa_bits=10", "mantissa_bits", 10),
        ("ROOT r = f32[4,4]{1,0} scaled-dot(x, y, s, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
         "algorithm=dot_bf16_bf16_f32", "algorithm", "dot_bf16_bf16_f32"),
        ("ROOT r = f32[4,6]{1,0} exponential(x), result_accuracy={tolerance={rtol=0.5, atol=1.0, ulps=2}}",
         "result_accuracy", Verbatim("{tolerance={rtol=0.5, atol=1.0, ulps=2}}")),
        ("ROOT r = f32[4,6]{1,0} negate(x), statistics={visualizing_index=1,stat-1=33,s.2=-4.5}", "statistics",
         Verbatim("{visualizing_index=1,stat-1=33,s.2=-4.5}")),
    ],
)  # fmt: skip
def test_attribute_values(line: str, attribute: str, value: object) -> None:
    module = parse(_text(line))
    assert module.entry.root.attributes[attribute] == value
    _round_trip(module)


@pytest.mark.parametrize(
    "line",
    [  # all of them read by XLA; the module says nothing of partitions
        "ROOT r = f32[4,6]{1,0} negate(x), sharding={replicated shard_as 1}",
        "ROOT r = f32[4,6]{1,0} negate(x), sharding={devices=[2,1]0,5 shard_like 2}",
        "ROOT r = f32[4,6]{1,0} negate(x), sharding={maximal device=-1}",
        "ROOT r = f32[4,6]{1,0} negate(x), sharding={maximal_mesh[device_id=3]}",
        'ROOT r = f32[4,6]{1,0} negate(x), sharding={maximal_mesh[device_id=3], metadata={op_name="a"}}',
        "ROOT r = f32[4,6]{1,0} negate(x), sharding={mesh[a=2,b.c=4], [{a}, {b.c:(2)2, ?}]}",
        "ROOT r = f32[4,6]{1,0} negate(x), sharding={mesh[a=4], device_ids=([4]), [{a}, {}]}",
        "ROOT r = f32[4,6]{1,0} negate(x), sharding={mesh['a'=2,'b'=4], unreduced}",
        'ROOT r = f32[4,6]{1,0} negate(x), sharding={mesh[a=2,b=4], manual, metadata={{op_name="a"}, {op_name="b"}}}',
        "ROOT r = (f32[4,6]{1,0}, f32[4,6]{1,0}) tuple(x, x), sharding={{mesh['a'=2], [{'a'}, {}]}, {replicated}}",
        "ROOT r = () tuple(), sharding={}",
        "t = token[] after-all()\n u = (f32[4,6]{1,0}, f32[4,6]{1,0}) tuple(x, x)\n"
        " ROOT r = token[] outfeed(u, t), sharding={{maximal device=0}, {maximal device=0}}",
    ],
)
def test_shardings_that_xla_takes(line: str) -> None:
    module = parse(_text(line))
    assert not verify(module)
    _round_trip(module)


@pytest.mark.parametrize(
    ("mesh", "groups"),
    [  # as XLA gathers over them, but for the device_ids, which it loses on the way
        ("mesh['x'=2,'y'=4] {'x'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh[ 'x' = 2 , 'y' = 4 ]{ 'x' , 'y' }", (tuple(range(8)),)),
        ("mesh['x'=2,'y'=4] {}", tuple((n,) for n in range(8))),
        ("mesh['x'=2,'y'=2,'z'=2] {'z','x'}", ((0, 4, 1, 5), (2, 6, 3, 7))),
        ("mesh['x'=8] {'x':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['x'=8] {'x':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['x'=8] {'x':(4)2,'x':(1)2}", ((0, 4, 1, 5), (2, 6, 3, 7))),
        ("mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['x'=2,'y'=4], device_ids=(7,6,5,4,3,2,1,0) {'x'}", ((7, 3), (6, 2), (5, 1), (4, 0))),
    ],
)  # fmt: skip
def test_groups_along_axes_of_a_mesh(mesh: str, groups: tuple[tuple[int, ...], ...]) -> None:
    module = parse(_text(f"ROOT r = f32[4,6]{{1,0}} all-reduce(x), replica_groups={mesh}, to_apply=add_f32"))
    assert module.entry.root.attributes["replica_groups"].groups == groups
    _round_trip(module)


@pytest.mark.parametrize(
    ("mesh", "words"),
    [
        ("mesh['x'=2,'x'=4] {'x'}", "different names"),
        ("mesh['x'=0] {'x'}", "at least one device"),
        ("mesh['x'=2] {'y'}", "no axis 'y'"),
        ("mesh['x'=8] {'x':(3)2}", "do not divide"),
        ("mesh['x'=8] {'x':(2)0}", "empty"),
        ("mesh['x'=8] {'x':(1)4,'x':(2)4}", "overlap"),
        ("mesh['x'=8] {'x','x'}", "overlap"),
        ("mesh['x'=2], device_ids=(0,2) {'x'}", "device_ids"),
        ("mesh['x'=4], device_ids=([2,3]T(1,0)) {'x'}", "device_ids"),
        ("mesh['x'=4], device_ids=([2,2]T(1,1)) {'x'}", "device_ids"),
        ("mesh['x'=99999999999] {'x'}", "too many devices"),
    ],
)
def test_wrong_groups_over_a_mesh(mesh: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse(_text(f"ROOT r = f32[4,6]{{1,0}} all-reduce(x), replica_groups={mesh}, to_apply=add_f32"))


def test_windows_and_dimension_labels() -> None:
    before = """conv {
  a = f32[1,8,8,3]{3,2,1,0} parameter(0)
  k = f32[3,3,3,5]{3,2,1,0} parameter(1)
  ROOT r = f32[1,4,8,5]{3,2,1,0} convolution(a, k), window={stride=2x1 size=3x3 pad=1_1x1_1 rhs_reversal=1x0},
    dim_labels=b01f_01io->b01f
}
"""
    module = parse(_text("ROOT r = f32[4,6]{1,0} add(x, y)", before))
    attributes = module.computations["conv"].root.attributes
    assert attributes["window"].dimensions == (
        WindowDimension(3, 2, 1, 1, reversal=True), WindowDimension(3, 1, 1, 1),
    )  # fmt: skip
    assert attributes["dim_labels"] == ConvDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    assert "window={size=3x3 stride=2x1 pad=1_1x1_1 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f" in _round_trip(
        module
    )


def test_metadata_forms() -> None:
    for text in (
        'op_type="t" op_name="a/b" source_file="f.py" source_line=3 source_end_line=4 source_column=1',
        'source_column=1, source_line=3, op_name="a/b", op_type="t", source_file="f.py" source_end_line=4',
    ):
        root = _instruction(f"ROOT r = f32[4,6]{{1,0}} negate(x), metadata={{{text}}}")
        assert root.metadata == Metadata("t", "a/b", "f.py", 3, 4, 1)
    module = parse(_text("ROOT r = f32[] negate(s), metadata={profile_type={1} stack_frame_id=7}"))
    assert module.entry.root.metadata == Metadata(profile_type="{1}", stack_frame_id=7)
    _round_trip(module)


def test_control_predecessors() -> None:
    module = parse(_text("n = f32[] negate(s)\n  ROOT r = f32[4,6]{1,0} add(x, y), control-predecessors={n, %i}"))
    assert [before.name for before in module.entry.root.control_predecessors] == ["n", "i"]
    assert [after.name for after in module.entry.root.control_predecessors[0].control_successors] == ["r"]
    _round_trip(module)


def test_bodies_in_braces_and_nested_operands() -> None:
    module = parse(
        _text(
            """ROOT r = f32[4]{0} reduce(x, s), dimensions={1}, to_apply={
    p = f32[] parameter(0)
    q = f32[] parameter(1)
    ROOT z = f32[] multiply(add(p, q), negate(f32[] q))
  }"""
        )
    )
    called = module.entry.root.attributes["to_apply"]
    assert called.root.opcode == "multiply"
    assert [o.name for o in called.root.operands] == ["add.anon", "negate.anon"]
    _round_trip(module)


def test_the_kind_of_a_convolution_is_kept() -> None:
    module = parse(
        "ENTRY e { a = f32[1,2,1] parameter(0) k = f32[1,1,1] parameter(1)\n"
        "ROOT r = f32[1,2,1] convolution(a, k), window={size=1}, dim_labels=b0f_0io->b0f, conv_kind=fprop }"
    )
    assert module.entry.root.attributes["conv_kind"] == "fprop"
    _round_trip(module)


def test_bounds_and_layouts_of_older_texts() -> None:
    shape = parse_shape("f32[?<=4,<=5,?]")
    assert shape.dimensions == (4, 5, UNBOUNDED)
    assert all(shape.dynamic)
    module = parse(_text('ROOT r = f32[] negate(s), metadata={op_name="a" preserve_layout=true}'))
    assert module.entry.root.metadata == Metadata(op_name="a", preserve_layout=True)
    _round_trip(module)


_WRAPPED = "w {\n  p = f32[4,6] parameter(0)\n  ROOT n = f32[4,6] negate(p)\n}\n"
_STARTED = "((f32[4,6]), f32[4,6], u32[])"


def test_what_an_asynchronous_start_shares_with_its_operands() -> None:
    aliases = "output_to_operand_aliasing={{1}: (0, {}), {0,0}: (0, {})}"
    for start in (f"async-start(x), {aliases}, calls=w", f"negate-start(x), {aliases}"):
        module = parse(_text(f"st = {_STARTED} {start}\n  ROOT r = f32[4,6] async-done(st)", _WRAPPED))
        (start_of,) = (one for one in module.entry if one.opcode == "async-start")
        assert start_of.attributes["output_to_operand_aliasing"] == (Aliasing((1,), 0, ()), Aliasing((0, 0), 0, ()))
        assert not verify(module)
        _round_trip(module)
    module = parse(
        _text(f"st = {_STARTED} async-start(x), output_to_operand_aliasing={{{{2}}: (0, {{}})}}, calls=w\n"
              "  ROOT r = f32[4,6] async-done(st)", _WRAPPED)
    )  # fmt: skip
    assert ["cannot replace" in one.message for one in verify(module)] == [True]


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("ROOT r = f32[4,6] async-done(st), calls=v", "started w, not v"),
        (f"u = {_STARTED} async-update(st), async_execution_thread=\"a\"\n  ROOT r = f32[4,6] async-done(u)",
         "runs on the thread 'main', not 'a'"),
        ("ROOT r = f32[4,6] floor-done(st)", "started negate, not floor"),
        (f"u = {_STARTED} floor-update(st)\n  ROOT r = f32[4,6] async-done(u)", "started negate, not floor"),
        (f"u = {_STARTED} negate-update(st)\n  ROOT r = f32[4,6] negate-done(u)", ""),
        ("ROOT r = f32[4,6] async-done(st), async_execution_thread=\"main\", calls=w", ""),
    ],
)  # fmt: skip
def test_an_end_names_what_was_started(rest: str, words: str) -> None:
    text = _text(f"st = {_STARTED} async-start(x), calls=w\n  {rest}", _WRAPPED + _WRAPPED.replace("w {", "v {"))
    try:
        said = [one.message for one in verify(parse(text))]
    except ParseError as error:
        said = [one.message for one in error.diagnostics]
    assert [words in one for one in said] == ([True] if words else [])


@pytest.mark.parametrize(
    "line",
    [
        "ROOT r = f32[4,6] exponential(x), result_accuracy={mode=high}",
        "ROOT r = f32[4,6] exponential(x), result_accuracy={0.5}",
        "ROOT r = f32[4,6] exponential(x), result_accuracy={tolerance={foo=1}}",
        "ROOT r = f32[4,6] negate(x), statistics={a}",
        "ROOT r = f32[4,6] negate(x), statistics={visualizing_index=0,a=b}",
    ],
)
def test_values_that_are_kept_have_their_form(line: str) -> None:
    with pytest.raises(ParseError, match="wants a form such as"):
        parse(_text(line))


def test_donors_have_their_form() -> None:
    text = "HloModule m, buffer_donor={DONORS}\nENTRY e { ROOT x = f32[4] parameter(0) }"
    assert parse(text.replace("DONORS", " (0, {}), (0, {1, 2}) "))
    for donors in ("(zero, {})", "(0, {0, a})", "0", "(0)"):
        with pytest.raises(ParseError, match="buffer_donor"):
            parse(text.replace("DONORS", donors))


@pytest.mark.parametrize(("side", "dimension"), [("L", 1), ("R", 0)])
def test_sparse_dots_are_dots_of_dense_operands(side: str, dimension: int) -> None:
    """Two of four elements are stored, and where they were: two bits each, the first the lowest."""
    random = np.random.default_rng(3)
    stored, dense = random.standard_normal((2, 5, 16)).astype(np.float16), np.zeros((2, 5, 32), np.float16)
    places = np.zeros((2, 5, 2), np.uint16)
    for at in np.ndindex(2, 5, 8):
        pair = np.sort(random.choice(4, 2, replace=False))
        *row, group = at
        dense[(*row, group * 4 + pair)] = stored[(*row, slice(group * 2, group * 2 + 2))]
        places[(*row, group // 4)] |= int(pair[0] | pair[1] << 2) << 4 * (group % 4)
    other = random.standard_normal((2, 32, 7)).astype(np.float16)
    left, right = "f16[2,5,16] parameter(0)", "f16[2,32,7] parameter(1)"
    if side == "R":
        stored, dense, places, other = (np.ascontiguousarray(a.swapaxes(1, 2)) for a in (stored, dense, places, other))
        left, right = "f16[2,7,32] parameter(1)", "f16[2,16,5] parameter(0)"
    kinds = f"u16[{','.join(map(str, places.shape))}]"
    rows, columns = (5, 7) if side == "L" else (7, 5)
    module = parse(
        f"ENTRY e {{\n  l = {left}\n  r = {right}\n  p = {kinds} parameter(2)\n"
        f"  d = f32[2,{rows},{columns}] dot(l, r, p), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        f"lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}, sparsity={side}.{dimension + 1}@2:4\n"
        f"  ROOT s = f32[2,{rows},{columns}] dot(l, r, p), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        f"lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}, sparsity={side}.{dimension + 1}@2:4\n}}\n"
    )
    assert not verify(module)
    _round_trip(module)
    pair = (dense, other) if side == "L" else (other, dense)
    want = np.einsum("bik,bkj->bij", *(a.astype(np.float64) for a in pair))
    np.testing.assert_allclose(evaluate(module, [stored, other, places])[0], want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dot(l, r), sparsity=L.1@2:4", "takes 3 operands"),
        ("dot(l, r, p), sparsity=L.1@1:2", "only 2:4"),
        ("dot(l, r, p), sparsity=L.2@2:4", "does not say where"),
        ("dot(l, r, p), sparsity=L.0@2:4", "does not say where"),
        ("dot(l, r, p), sparsity=X", "such as L.1@2:4"),
    ],
)
def test_sparse_dots_that_do_not_fit(line: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse(
            "ENTRY e {\n  l = f16[8,16] parameter(0)\n  r = f16[32,8] parameter(1)\n  p = u16[8,2] parameter(2)\n"
            f"  ROOT d = f32[8,8] {line}, lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n}}\n"
        )


def test_asynchronous_forms() -> None:
    explicit = """wrapped {
  p = f32[4,6]{1,0} parameter(0)
  ROOT n = f32[4,6]{1,0} negate(p)
}, execution_thread="io"
"""
    module = parse(
        _text(
            """st = ((f32[4,6]{1,0}), f32[4,6]{1,0}, u32[]) async-start(x), async_execution_thread="io", calls=wrapped
  up = ((f32[4,6]{1,0}), f32[4,6]{1,0}, u32[]) async-update(st)
  ROOT r = f32[4,6]{1,0} async-done(up)""",
            explicit,
        )
    )
    assert module.computations["wrapped"].execution_thread == "io"
    _round_trip(module)
    sugar = parse(
        _text(
            """st = ((f32[4,6]{1,0}), f32[6,4]{1,0}) transpose-start(x), dimensions={1,0}
  ROOT r = f32[6,4]{1,0} transpose-done(st)"""
        )
    )
    start = sugar.entry.root.operands[0]
    assert (start.opcode, sugar.entry.root.opcode) == ("async-start", "async-done")
    assert start.attributes["calls"].root.attributes == {"dimensions": (1, 0)}
    _round_trip(sugar)


def test_inferred_shapes() -> None:
    assert _instruction("ROOT r = reduce(x, s), dimensions={0}, to_apply=add_f32").shape == array("f32", (6,))
    assert _instruction("ROOT r = tuple(s, i)").shape == tuple_shape([scalar("f32"), scalar("s32")])
    assert _errors(_text("ROOT r = reshape(x)"))[0] == (
        15, 12, "reshape needs its result shape written before it",
    )  # fmt: skip


# ---- modules


def test_header_attributes() -> None:
    module = parse(
        """HloModule m, is_scheduled=true, input_output_alias={ {0}: (1, {}, must-alias) }, buffer_donor={ (0, {}) },
  entry_computation_layout={(f32[2]{0}, s32[])->(s32[], f32[2]{0})}, replica_count=2, num_partitions=4,
  allow_spmd_sharding_propagation_to_output={true,false}, frontend_attributes={k="v"}

ENTRY e {
  p = f32[2]{0} parameter(0)
  q = s32[] parameter(1)
  ROOT t = (s32[], f32[2]{0}) tuple(q, p)
}"""
    )
    assert module.attributes == {
        "is_scheduled": True,
        "input_output_alias": (Aliasing((0,), 1, (), "must-alias"),),
        "buffer_donor": Verbatim("{ (0, {}) }"),
        "entry_computation_layout": (
            (array("f32", (2,)), scalar("s32")), tuple_shape([scalar("s32"), array("f32", (2,))]),
        ),
        "replica_count": 2,
        "num_partitions": 4,
        "allow_spmd_sharding_propagation_to_output": Verbatim("{true,false}"),
        "frontend_attributes": {"k": "v"},
    }  # fmt: skip
    _round_trip(module)


def test_stack_frame_tables() -> None:
    module = parse(
        """HloModule m

FileNames
1 "a.py"

FunctionNames
1 "main"

FileLocations
1 {file_name_id=1 function_name_id=1 line=2 end_line=2 column=3 end_column=4}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY e { ROOT p = f32[] parameter(0), metadata={stack_frame_id=1} }
"""
    )
    assert module.stack_frames is not None
    assert module.stack_frames.file_names == ((1, "a.py"),)
    assert module.stack_frames.frames == ((1, (("file_location_id", 1), ("parent_frame_id", 1))),)
    _round_trip(module)


def test_a_table_in_the_header_may_end_on_a_line_of_its_own() -> None:
    table = '{\n  {"a"} : {"b"},\n  "\n  HloModule r\n  }\n  "\n}'
    entry = "ENTRY e {\nROOT t = () tuple()\n}"
    module = parse(f"HloModule m, origin_recovery_table={table}, replica_count=2\n\n{entry}")
    assert module.attributes["origin_recovery_table"] == Verbatim(table)
    assert parse(print_module(module)).attributes == module.attributes


def test_modules_without_header_entry_or_root() -> None:
    module = parse("first { a = f32[] parameter(0) }\n%last (p: f32[2]) -> f32[2] {\n p = f32[2]{0} parameter(0)\n}")
    assert (module.name, module.entry.name, module.entry.root.name) == ("module_last", "last", "p")
    assert parse("HloModule m:\nENTRY e { p = f32[] parameter(0) }").name == "m"


@pytest.mark.parametrize(
    "text",
    [
        "f32[10] add(f32[10] x, f32[10] y)",
        "r = f32[10] add(f32[10], f32[10])",
        "add(f32[10], f32[10])",
        "%r = f32[10]{0} add(f32[10]{0} %x, f32[10]{0} %y)",
    ],
)
def test_a_single_instruction_is_a_module(text: str) -> None:
    module = parse(text)
    assert module.name == "_"
    assert module.attributes == {"is_scheduled": True}
    assert module.entry.root.opcode == "add"
    assert [p.parameter_number for p in module.entry.parameters] == [0, 1]
    _round_trip(module)


def test_line_ends_and_signatures() -> None:
    text = "HloModule m\r\n\r\nENTRY e (a: f32[], b: (f32[], s32[2])) -> f32[] {\r\n  a = f32[] parameter(0)\r\n"
    text += "  b = (f32[], s32[2]{0}) parameter(1)\r\n  ROOT r = f32[] negate(a)\r\n}\r\n"
    assert same(parse(text), parse(text.replace("\r\n", "\r")))
    assert same(parse(text), parse(text.replace("\r\n", "\n")))


def test_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "m.hlo"
    file.write_bytes(b"\xef\xbb\xbfENTRY e { p = f32[] parameter(0) }")
    assert load(file).entry.name == "e"
    with pytest.raises(ParseError, match=r"absent\.hlo"):
        load(tmp_path / "absent.hlo")
    with pytest.raises(ParseError, match="cannot read"):
        load(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert load("-").entry.name == "e"


# ---- shapes


@pytest.mark.parametrize(
    "text",
    [
        "f32[]", "f32[2,3]", "f32[2,3]{1,0}", "s4[8]{0:E(4)}", "f32[<=5,?]{1,0}", "token[]", "opaque[]", "()",
        "(f32[2]{0}, (s32[], pred[3]), token[])", "b(f32[2]{0})", "f32[]{:T(128)}",
        "bf16[16,256]{1,0:T(8,128)(2,1)S(1)}", "f32[4,4]{0,1:T(*,128)L(4)#(u32)*(u8)E(4)S(5)SC(0:1,2)(1:3)M(8)}",
        "f32[0,3]{1,0}",
    ],
)  # fmt: skip
def test_shape_forms(text: str) -> None:
    assert print_shape(parse_shape(text)) == text


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("f32[100000000,1000000000]", True), ("f32[576460752303423488]", False), ("s8[1073741824,536870912]", True),
        ("s8[1073741824,1073741824]", False), ("f64[2147483648,0,2147483648]", False), ("f64[1048576,0,?]", True),
    ],
)  # fmt: skip
def test_shapes_have_less_than_an_exbibyte(text: str, fits: bool) -> None:
    """NumPy counts the bytes of an array without elements, too."""
    if fits:
        assert str(parse_shape(text).without_layout()) == text
    else:
        with pytest.raises(ParseError, match="exbibyte"):
            parse_shape(text)


def test_shape_values() -> None:
    assert parse_shape("f32[<=5,?]") == Shape("f32", (5, -1), None, (), (True, True))
    assert parse_shape("f32[]").layout == row_major(0)
    assert parse_shape("f32[2,3]").layout is None
    assert parse_shape("s8[4]{0:S(5)}").layout == Layout((0,), memory_space=5)


_types = st.sampled_from([name for name, row in ELEMENT_TYPES.items() if row.is_array])


@st.composite
def _array_shapes(draw: st.DrawFn) -> Shape:
    sizes = draw(st.lists(st.integers(0, 9), max_size=4))
    if draw(st.booleans()) and sizes:
        return Shape(draw(_types), tuple(sizes), None)
    order = draw(st.permutations(range(len(sizes))))
    return Shape(draw(_types), tuple(sizes), Layout(tuple(order), memory_space=draw(st.integers(0, 2))))


_shapes = st.recursive(_array_shapes(), lambda inner: st.lists(inner, max_size=7).map(tuple_shape), max_leaves=9)


@settings(max_examples=60, deadline=None)
@given(_shapes)
def test_any_shape_reads_back(shape: Shape) -> None:
    assert parse_shape(print_shape(shape)) == shape


# ---- literals


@pytest.mark.parametrize(
    ("shape", "text", "value"),
    [
        ("f32[]", "1.5", 1.5), ("f32[]", "-0", -0.0), ("f32[]", ".5", 0.5), ("f32[]", "5.", 5.0), ("f32[]", "3e2", 300),
        ("f32[]", "inf", np.inf), ("f32[]", "-inf", -np.inf), ("pred[]", "true", True), ("pred[]", "0", False),
        ("s32[3]", "{1, -2, 3}", [1, -2, 3]), ("s32[3]", "{1 2,,3,}", [1, 2, 3]),
        ("pred[2]", "{true, 0}", [True, False]),
        ("f32[2,2]", "{ /*i0=0*/ { 1, 2 }, { 3, nan } }", [[1, 2], [3, np.nan]]),
        ("u64[]", "18446744073709551615", 2**64 - 1), ("u64[]", "-1", 2**64 - 1),
        ("s4[3]", "{-8, 0, 7}", [-8, 0, 7]), ("u2[2]", "{0, 3}", [0, 3]), ("bf16[]", "1", 1.0),
        ("c64[2]", "{(1, -2), 3}", [1 - 2j, 3]), ("c128[]", "(0, 1)", 1j), ("f32[2,0]", "{}", np.zeros((2, 0))),
        ("f32[2,0]", "{{},{}}", np.zeros((2, 0))), ("f32[0]", "{}", []),
    ],
)  # fmt: skip
def test_literal_forms(shape: str, text: str, value: object) -> None:
    wanted = np.asarray(value).astype(dtype_of(parse_shape(shape).element_type))
    literal = parse_literal(text, parse_shape(shape))
    assert literal == Literal(literal.shape, wanted)
    assert parse_literal(print_literal(literal), literal.shape) == literal


def test_nan_payloads_and_complex_parts_keep_their_bits() -> None:
    for kind, text, bits in (
        ("f32", "nan", 0x7FC00000), ("f32", "-nan", 0xFFC00000), ("f32", "nan(0x7f)", 0x7F80007F),
        ("f32", "-nan(0x400001)", 0xFFC00001), ("f16", "nan(0x1)", 0x7C01), ("bf16", "-nan(0x3)", 0xFF83),
        ("f64", "nan(0x1)", 0x7FF0000000000001),
    ):  # fmt: skip
        value = parse_literal(text, scalar(kind)).value()
        assert value.reshape(1).view(f"u{value.itemsize}")[0] == bits, text
        assert print_literal(parse_literal(text, scalar(kind))) == text
    for kind, text in (("f8e4m3fn", "nan(0x7)"), ("f8e4m3fnuz", "-nan(0x1)"), ("bf16", "nan(0x80)")):
        with pytest.raises(ParseError, match="does not fit"):
            parse_literal(text, scalar(kind))
    parts = parse_literal("(nan, 1)", scalar("c64")).value().reshape(1).view(np.float32)
    assert np.isnan(parts[0])
    assert parts[1] == 1


def test_arrays_without_elements_show_their_dimensions() -> None:
    """As XLA wants them."""
    for shape, text in (
        ("f32[0]", "{}"), ("s32[0,4]", "{}"), ("s32[2,0]", "{ {}, {} }"),
        ("c64[2,1,0,3]", "{ { {} }, { {} } }"),
    ):  # fmt: skip
        literal = parse_literal(text, parse_shape(shape))
        assert print_literal(literal) == text
    many = Literal(parse_shape("f32[1000000000,2,0]"), np.zeros((1000000000, 2, 0), np.float32))
    assert print_literal(many) == "{}"


def test_tuple_and_elided_literals() -> None:
    shape = parse_shape("(f32[2]{0}, (s32[], pred[1]{0}))")
    literal = parse_literal("({1, 2}, (3, {1}))", shape)
    assert print_literal(literal) == "({1, 2}, (3, {1}))"
    elided = parse_literal("{...}", parse_shape("f32[1000,1000]{1,0}"))
    assert elided.elided
    assert print_literal(elided) == "{...}"


@settings(max_examples=150, deadline=None)
@given(st.data(), _types)
def test_any_literal_reads_back_to_the_same_bits(data: st.DataObject, kind: str) -> None:
    dtype = dtype_of(kind)
    sizes = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    count = int(np.prod(sizes)) * dtype.itemsize
    raw = np.frombuffer(data.draw(st.binary(min_size=count, max_size=count)), dtype=np.uint8)
    row = ELEMENT_TYPES[kind]
    if row.bits < 8:
        low = -(1 << (row.bits - 1)) if row.kind == "signed" else 0
        numbers = raw.astype(np.int64) % (1 << row.bits) + low
        if row.is_float:
            value = (raw % 16).astype(np.uint8).view(dtype).reshape(sizes)
        else:
            value = numbers.astype(dtype).reshape(sizes)
    else:
        value = raw.view(dtype).reshape(sizes)
    literal = Literal(array(kind, sizes), value)
    text = print_literal(literal)
    again = parse_literal(text, literal.shape)
    assert again == literal
    assert print_literal(again) == text


def test_floats_print_in_few_digits() -> None:
    values = {"f32": [0.1, 1e-7, 16, 3.4028235e38], "f64": [0.1, 2 / 3], "bf16": [0.1, 3.14], "f16": [0.1, 65504]}
    texts = {
        "f32": "{0.1, 1e-07, 16, 3.4028235e+38}", "f64": "{0.1, 0.6666666666666666}", "bf16": "{0.1, 3.14}",
        "f16": "{0.1, 65500}",
    }  # fmt: skip
    for kind, numbers in values.items():
        value = np.array(numbers).astype(dtype_of(kind))
        assert print_literal(Literal(array(kind, value.shape), value)) == texts[kind]


def test_large_literals_are_read() -> None:
    count = 200_000
    text = f"ENTRY e {{ ROOT c = s32[{count}]{{0}} constant({{{', '.join(map(str, range(count)))}}}) }}"
    root = parse(text).entry.root
    assert (root.literal.value() == np.arange(count)).all()


@given(st.text())
def test_any_string_reads_back(text: str) -> None:
    clean = text.encode("utf-8", "replace").decode()
    assert unescape(escape(clean)) == clean
    assert unescape(escape(b"\xff\x00\xfe1".decode("utf-8", "surrogateescape"))) == "\udcff\0\udcfe1"


# ---- random modules


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_modules_read_back(data: st.DataObject) -> None:
    module = Module("random")
    computation = Computation("main")
    module.add(computation, entry=True)
    builder = Builder(computation)
    sizes = tuple(data.draw(st.lists(st.integers(1, 4), max_size=3)))
    pool = [builder.parameter(n, array("f32", sizes)) for n in range(2)]
    for _ in range(data.draw(st.integers(0, 12))):
        a, b = data.draw(st.sampled_from(pool)), data.draw(st.sampled_from(pool))
        kind = data.draw(st.integers(0, 3))
        if kind == 0:
            pool.append(builder.binary(data.draw(st.sampled_from(["add", "divide", "maximum"])), a, b))
        elif kind == 1:
            pool.append(builder.unary(data.draw(st.sampled_from(["negate", "tanh"])), a))
        elif kind == 2:
            pool.append(builder.select(builder.compare(a, b, "LT"), a, b))
        else:
            pool.append(builder.splat(data.draw(st.floats(width=32)), a.shape))
        pool[-1].metadata = Metadata(
            op_name=data.draw(st.text(max_size=5).map(lambda t: t.encode("utf-8", "replace").decode()))
        )
        if data.draw(st.booleans()):
            pool[-1].add_control_predecessor(pool[0])
    computation.root = builder.tuple(pool[-3:])
    _round_trip(module)


def test_difference_names_what_differs() -> None:
    base = _text("ROOT r = f32[4,6]{1,0} add(x, y)")
    assert difference(parse(base), parse(base)) is None
    other = difference(parse(base), parse(base.replace("add(x", "subtract(x")))
    assert other is not None
    assert "instruction r" in other
    assert not same(parse(base), parse(base.replace("HloModule m", "HloModule n")))


# ---- errors


@pytest.mark.parametrize(
    ("line", "column", "message", "hint"),
    [
        ("ROOT r = f32[4,6]{1,0} addd(x, y)", 26, "unknown opcode 'addd'", "add"),
        ("ROOT r = i32[4,6]{1,0} add(x, y)", 12, "unknown element type 'i32'", "s32"),
        ("ROOT r = f32[4,6]{1,0} add(x, yy)", 33, "operand 'yy' is not defined", None),
        ("ROOT r = f32[4,6]{0} add(x, y)", 20, "layout {0} has 1 number, the shape has 2 dimensions", "{1,0}"),
        ("ROOT r = f32[4,6]{1,0} add(x, y), shrding={replicated}", 37,
         "unknown attribute 'shrding' for add", "sharding"),
        ("ROOT r = f32[6,4] transpose(x), dimensions=1", 46,
         "expected '{' at the start of the list of 'dimensions', found '1'",
         None),
        ("ROOT r = pred[4,6] compare(x, y), direction=LTE", 47,
         "'LTE' is no value of 'direction' (EQ NE GE GT LE LT)", "LE"),
        ("ROOT r = pred[4,6] compare(x, y)", 22, "compare needs the attribute 'direction'", None),
        ("ROOT r = f32[4,6] add(x, y", 1, "expected ',' or ')' after operand 1 of add, found '}'", None),
        ("ROOT r = s8[2] constant({1, 300})", 31, "300 is out of range for s8 (-128 to 127)", None),
        ("ROOT r = f32[] constant(1e999)", 27, "1e999 is out of range for f32", None),
        ("ROOT r = f32[] constant(abc)", 27, "expected a value of f32, found 'abc'", None),
        ("ROOT r = f32[99999999999999999999999] parameter(4)", 16, "the number does not fit into 64 bits", None),
        ('ROOT r = f32[] negate(s), metadata={op_name="x}', 47, "the string is never closed", None),
        ("ROOT r = f32[] negate((s))", 25, "an operand cannot stand in parentheses", None),
        ("ROOT r = f32[] call(s), to_apply=add_f31", 36, "computation 'add_f31' is not defined", "add_f32"),
        ("ROOT r = f32[] call(s), to_apply=main", 36, "computation main calls itself; HLO has no recursion", None),
        ("ROOT r = f32[] negate(s), metadata={op_nam=\"x\"}", 39, "metadata: unknown key 'op_nam'", "op_name"),
        ("ROOT r = f32[] negate(s) s", 28, "expected '=' after the instruction name s", None),
    ],
)  # fmt: skip
def test_messages_have_places_and_hints(line: str, column: int, message: str, hint: str | None) -> None:
    with pytest.raises(ParseError) as caught:
        parse(_text(line))
    first = caught.value.diagnostics[0]
    assert first.message == message
    assert first.location is not None
    assert first.location.column == (column if column > 1 else 1)
    if hint is not None:
        assert first.hint is not None
        assert f"'{hint}'" in first.hint


def test_several_errors_are_reported_without_followers() -> None:
    text = _text("a = f32[] ad(s, s)\n  b = f32[] negate(a)\n  c = f32[] negate(bb)\n  ROOT d = f32[] add(b, c), x=1")
    found = _errors(text)
    assert [(line - 15, message) for line, _, message in found] == [
        (0, "unknown opcode 'ad'"),
        (2, "operand 'bb' is not defined"),
        (3, "unknown attribute 'x' for add"),
    ]


def test_second_definitions_name_the_first() -> None:
    with pytest.raises(ParseError) as caught:
        parse(_text("x = f32[] negate(s)\n  ROOT r = f32[] negate(s)"))
    ((note, place),) = caught.value.diagnostics[0].related
    assert (note, place.line, place.column) == ("first defined here", 11, 3)
    assert _errors("a { p = f32[] parameter(0) }\na { p = f32[] parameter(0) }") == [
        (2, 1, "computation 'a' is defined twice")
    ]
    assert _errors("ENTRY a { p = f32[] parameter(0) }\nENTRY b { p = f32[] parameter(0) }")[0][0] == 2
    later = _errors(_text("a = f32[] negate(b)\n  ROOT b = f32[] negate(s)"))
    assert later == [(15, 20, "operand 'b' is used before its definition")]


@pytest.mark.parametrize(
    "text", ["stnt(", "constan (", "r = consant(1)", "r = copy-stort(a)", "ENTRY e { r = (f32[]) ad-start() }"]
)
def test_errors_about_an_opcode_point_at_the_word_that_is_written(text: str) -> None:
    """Though what follows is read as the opcode that was meant, which may be longer."""
    with pytest.raises(ParseError) as caught:
        parse(text)
    for diagnostic in caught.value.diagnostics:
        place = diagnostic.location
        assert place is not None
        assert (1, 1) <= (place.line, place.column) <= (place.end_line, place.end_column)
        if diagnostic.code == "HLO0114":
            assert text[place.column - 1 : place.end_column - 1] == text.split("=")[-1].split("(")[0].strip()


def test_the_number_of_errors_is_bounded() -> None:
    assert len(_errors(_text("\n".join(f"  v{n} = f32[] ad(s)" for n in range(200))))) == 100


@pytest.mark.parametrize(
    "text",
    [
        "", "   \n", "// only this", "/* open", "HloModule", "HloModule m", "HloModule m,", "HloModule m, x",
        "ENTRY", "ENTRY e", "ENTRY e {", "ENTRY e {}", "ENTRY e { p", "ENTRY e { p =", "ENTRY e { p = f32", "}{", "\0",
        "\udcff", "ENTRY e { p = f32[] parameter(0) } x", "ENTRY e { p = f32[] parameter(-1) }",
        "ENTRY e { p = token[] constant(1) }", "ENTRY e { p = s32[] constant(true) }", "f32[2] add(f32[2] x, y",
        "HloModule m, entry_computation_layout={(f32[2]{0})",
        "ENTRY e { p = f32[1099511627776,1099511627776] constant({1}) }",
        "ENTRY e { p = f32[" + "1," * 50000 + "1] parameter(0) }",
        "ENTRY e { p = f32[] constant(" + "9" * 100000 + ") }",
        "ENTRY e { p = " + "(" * 100000, "ENTRY e { p = f32[1] constant(" + "{" * 100000,
        "ENTRY e { ROOT r = f32[] negate(" + "(" * 100000 + "p" + ")" * 100000 + ") }",
        "ENTRY e { p = f32[] parameter(0), sharding=" + "{" * 100000, "ENTRY e { p = f32[] " + "negate(" * 100000,
        "ENTRY e { r = f32[] call(), " + "to_apply={ r = f32[] call(), " * 10000, "ENTRY e { r = " + "b(" * 100000,
        "ENTRY e { p = f32[] parameter(0) r = broadcast() }", "ENTRY e { p = f32[] parameter(0) r = reduce(p) }",
        "ENTRY e { r = f32[] constant(nan(0x0)) }", "ENTRY e { p = f32[] parameter(0), metadata={" + "a=" * 50000,
    ],
)  # fmt: skip
def test_bad_texts_end_in_a_parse_error(text: str) -> None:
    found = _errors(text)
    assert all(line >= 1 and column >= 1 for line, column, _ in found)


def test_nesting_inside_the_limit_is_read() -> None:
    shape = "(" * 60 + "f32[]" + ")" * 60
    assert print_shape(parse_shape(shape)) == shape


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_texts_never_escape_as_other_errors(data: st.DataObject) -> None:
    text = _text(
        'ROOT r = f32[4]{0} reduce(x, s), dimensions={1}, to_apply=add_f32, metadata={op_name="a" source_line=1}'
    )
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + data.draw(st.text(st.sampled_from('(){}[]",=%ab1-/*\n'), max_size=3)) + text[end:]
    with contextlib.suppress(ParseError):
        module = parse(text)
        assert same(parse(print_module(module)), module)


# ---- diagnostics


def test_rendering() -> None:
    text = _text("ROOT r = f32[4,6]{1,0} addd(x, y)")
    with pytest.raises(ParseError) as caught:
        parse(text, "m.hlo")
    assert str(caught.value) == "m.hlo:15:26: unknown opcode 'addd'"
    assert render(caught.value.diagnostics[0], text).split("\n") == [
        "m.hlo:15:26: error[HLO0108]: unknown opcode 'addd'",
        "    ROOT r = f32[4,6]{1,0} addd(x, y)",
        "                           ^^^^",
        "hint: did you mean 'add'?",
    ]
    assert "\033[" in render(caught.value.diagnostics[0], text, colour=True)
    found = to_json(caught.value.diagnostics[0])
    assert (found["line"], found["column"], found["end_column"], found["suggestion"]) == (15, 26, 30, "add")


def test_rendering_of_long_lines_and_tabs() -> None:
    text = "ENTRY e {\n\tp = f32[] parameter(0)" + " " * 5000 + "q\n}"
    with pytest.raises(ParseError) as caught:
        parse(text)
    lines = render(caught.value.diagnostics[0], text).split("\n")
    assert max(map(len, lines)) < 200
