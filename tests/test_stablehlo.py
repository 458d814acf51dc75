"""StableHLO in text: numbers of every operation, errors with places, types, locations, and the way there and back."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stablehlo_examples import EXAMPLES, WITHOUT_NUMBERS

import hlotool
from hlotool.ir import Diagnostic, ExecutionError, HloError, Module, ParseError, UnsupportedError, array
from hlotool.ir.verifier import check
from hlotool.text.fingerprint import content_hash
from hlotool.text.printer import print_module
from hlotool.text.stablehlo.export import export_stablehlo
from hlotool.text.stablehlo.operations import OPERATIONS
from hlotool.text.stablehlo.parse import parse_stablehlo

TWICE = """
func.func private @twice(%x: tensor<2xi32>) -> tensor<2xi32> {
  %y = stablehlo.add %x, %x : tensor<2xi32>
  return %y : tensor<2xi32>
}
"""


def program(body: str) -> str:
    return f"func.func @main() {{{body}\n  return\n}}\n{TWICE}"


def run(module: Module, *arrays: Any, backend: str = "evaluate") -> tuple[Any, ...]:
    check(module)
    return tuple(hlotool.compile(module, backend=backend)(*arrays))


def errors_of(text: str, kind: type[HloError] = ParseError) -> list[tuple[int, int, str, str | None]]:
    """Line, column, message and hint of all errors."""
    with pytest.raises(kind) as caught:
        parse_stablehlo(text, "model.mlir")
    return [
        (d.location.line if d.location else 0, d.location.column if d.location else 0, d.message, d.hint)
        for d in caught.value.diagnostics
    ]


# ---- numbers


def test_every_operation_has_an_example() -> None:
    ours = {name for name in OPERATIONS if name.partition(".")[0] in ("stablehlo", "chlo", "func")}
    assert ours == set(EXAMPLES) | WITHOUT_NUMBERS


@pytest.mark.parametrize("name", EXAMPLES)
def test_numbers(name: str) -> None:
    assert name in EXAMPLES[name] or name in ("stablehlo.constant", "func.call")
    module = parse_stablehlo(program(EXAMPLES[name]))
    run(module)
    run(module, backend="cpu")


@pytest.mark.parametrize("name", ["stablehlo.add", "stablehlo.sine", "stablehlo.while"])
def test_wrong_numbers_fail(name: str) -> None:
    wrong = re.sub(r"(expect\w+ %\S+, dense<)(\[?)", r"\g<1>\g<2>7", EXAMPLES[name])
    with pytest.raises(ExecutionError, match="elements are not"):
        run(parse_stablehlo(program(wrong)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_there_and_back(name: str) -> None:
    module = parse_stablehlo(program(EXAMPLES[name]))
    text = export_stablehlo(module)
    again = parse_stablehlo(text)
    assert content_hash(again) == content_hash(module)
    assert export_stablehlo(again) == export_stablehlo(parse_stablehlo(export_stablehlo(again)))


def test_quantised_sum_is_that_of_the_floats() -> None:
    text = """
func.func @main(%a: tensor<3xi8>, %b: tensor<3xi8>) -> tensor<3xi8> {
  %0 = stablehlo.bitcast_convert %a : (tensor<3xi8>) -> tensor<3x!quant.uniform<i8:f32, 0.5:1>>
  %1 = stablehlo.bitcast_convert %b : (tensor<3xi8>) -> tensor<3x!quant.uniform<i8:f32, 0.25:-2>>
  %2 = stablehlo.add %0, %1 : (tensor<3x!quant.uniform<i8:f32, 0.5:1>>, tensor<3x!quant.uniform<i8:f32, 0.25:-2>>)
    -> tensor<3x!quant.uniform<i8:f32, 1.0:4>>
  %3 = stablehlo.bitcast_convert %2 : (tensor<3x!quant.uniform<i8:f32, 1.0:4>>) -> tensor<3xi8>
  return %3 : tensor<3xi8>
}"""
    a, b = np.array([1, -128, 127], np.int8), np.array([2, 100, 127], np.int8)
    floats = (a.astype(np.float32) - 1) * np.float32(0.5) + (b.astype(np.float32) + 2) * np.float32(0.25)
    expected = np.rint(np.clip(floats + 4, -128, 127)).astype(np.int8)
    (found,) = run(parse_stablehlo(text), a, b)
    assert np.array_equal(found, expected)


def test_quantised_product_with_a_scale_for_each_column() -> None:
    kind = "!quant.uniform<i8<-127:127>:f32:1, {0.5, 0.25}>"
    text = f"""
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xi8>) -> tensor<2x2xf32> {{
  %0 = stablehlo.bitcast_convert %b : (tensor<3x2xi8>) -> tensor<3x2x{kind}>
  %1 = stablehlo.dot_general %a, %0, contracting_dims = [1] x [0]
    : (tensor<2x3xf32>, tensor<3x2x{kind}>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}}"""
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([[1, 2], [3, 4], [5, 6]], np.int8)
    expected = a @ (b.astype(np.float32) * np.array([0.5, 0.25], np.float32))
    (found,) = run(parse_stablehlo(text), a, b)
    assert np.array_equal(found, expected)


# ---- forms


def test_generic_and_pretty_form_are_the_same_module() -> None:
    pretty = """
module @m {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.exponential %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"""
    generic = """
#loc1 = loc("f.py":3:4)
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"}> ({
  ^bb0(%arg0: tensor<4xf32> loc("x")):
    %0 = "stablehlo.exponential"(%arg0) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc2)
    "func.return"(%0) : (tensor<4xf32>) -> () loc(#loc1)
  }) : () -> () loc(#loc1)
}) : () -> () loc(#loc1)
#loc2 = loc("jit(f)/exp"(#loc1))
"""
    one, two = parse_stablehlo(pretty), parse_stablehlo(generic)
    assert content_hash(one) == content_hash(two)
    metadata = two.entry.root.metadata
    assert metadata is not None
    assert (metadata.op_name, metadata.source_file, metadata.source_line) == ("jit(f)/exp", "f.py", 3)


def test_attributes_of_module_and_function() -> None:
    module = parse_stablehlo("""
module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%a: tensor<4x8xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}", tf.aliasing_output = 0 : i32},
                         %b: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>,
                                              jax.buffer_donor = true})
      -> (tensor<4x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.add %a, %b : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}""")
    assert module.attributes["num_partitions"] == 2
    assert module.attributes["input_output_alias"][0].operand == 0
    assert module.attributes["buffer_donor"].text == "{ (1, {}) }"
    first, second = module.entry.parameters
    assert first.attributes["sharding"].text == "{devices=[2,1]<=[2]}"
    assert second.attributes["sharding"].text == "{devices=[4,2]<=[2,4]T(1,0)}"


def test_bounds_become_bounded_dimensions() -> None:
    module = parse_stablehlo("""
func.func @main(%a: tensor<?x3xf32, #stablehlo.bounds<5, ?>>) -> tensor<?x3xf32, #stablehlo.bounds<5, ?>> {
  %0 = stablehlo.negate %a : tensor<?x3xf32, #stablehlo.bounds<5, ?>>
  return %0 : tensor<?x3xf32, #stablehlo.bounds<5, ?>>
}""")
    assert str(module.entry.root.shape) == "f32[<=5,3]"


def test_sizes_follow_from_given_shapes() -> None:
    from hlotool.text.parser import parse_shape

    text = """
func.func @main(%a: tensor<?x3xf32>) -> tensor<?x2x3xf32> {
  %0 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
  %2 = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %3 = stablehlo.concatenate %1, %2, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>
  %4 = stablehlo.dynamic_broadcast_in_dim %a, %3, dims = [0, 2] : (tensor<?x3xf32>, tensor<3xi32>) -> tensor<?x2x3xf32>
  return %4 : tensor<?x2x3xf32>
}"""
    module = parse_stablehlo(text, arguments=[parse_shape("f32[4,3]")])
    assert str(module.entry.root.shape) == "f32[4,2,3]"
    ((line, _, message, hint),) = errors_of(text, UnsupportedError)
    assert line == 7
    assert "only known when the program runs" in message
    assert hint is not None
    assert "--argument" in hint


SIZES_GO_INTO_FUNCTIONS = """
func.func @main(%a: tensor<?x3xf32>) -> (tensor<?xi32>, tensor<?xi32>, tensor<3xf32>) {
  %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %0 = call @count(%n) : (tensor<i32>) -> tensor<?xi32>
  %h = call @half(%n) : (tensor<i32>) -> tensor<i32>
  %1 = call @count(%h) : (tensor<i32>) -> tensor<?xi32>
  %2 = call @sum(%n, %a) : (tensor<i32>, tensor<?x3xf32>) -> tensor<3xf32>
  return %0, %1, %2 : tensor<?xi32>, tensor<?xi32>, tensor<3xf32>
}
func.func private @count(%n: tensor<i32>) -> tensor<?xi32> {
  %0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  return %1 : tensor<?xi32>
}
func.func private @half(%n: tensor<i32>) -> tensor<i32> {
  %two = stablehlo.constant dense<2> : tensor<i32>
  %0 = stablehlo.divide %n, %two : tensor<i32>
  %1 = stablehlo.sign %n : tensor<i32>
  %2 = stablehlo.compare GT, %1, %0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %3 = call @choose(%2, %n, %0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
  return %3 : tensor<i32>
}
func.func private @choose(%c: tensor<i1>, %a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.select %c, %a, %b : tensor<i1>, tensor<i32>
  return %0 : tensor<i32>
}
func.func private @sum(%n: tensor<i32>, %a: tensor<?x3xf32>) -> tensor<3xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %start = stablehlo.constant dense<0.0> : tensor<3xf32>
  %r:2 = stablehlo.while(%i = %zero, %s = %start) : tensor<i32>, tensor<3xf32>
  cond {
    %0 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  } do {
    %0 = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.reshape %zero : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %3 = stablehlo.constant dense<[1, 3]> : tensor<2xi32>
    %4 = stablehlo.add %2, %3 : tensor<2xi32>
    %5 = stablehlo.constant dense<1> : tensor<2xi32>
    %6 = stablehlo.real_dynamic_slice %a, %2, %4, %5 :
      (tensor<?x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x3xf32>
    %7 = stablehlo.reshape %6 : (tensor<?x3xf32>) -> tensor<3xf32>
    %8 = stablehlo.add %s, %7 : tensor<3xf32>
    %9 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %9, %8 : tensor<i32>, tensor<3xf32>
  }
  return %r#1 : tensor<3xf32>
}
"""


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
@pytest.mark.parametrize("rows", [1, 5, 8])
def test_sizes_go_into_functions_and_come_back(rows: int, backend: str) -> None:
    """So does JAX write programs for any size: functions take the sizes as arguments, and give others."""
    module = parse_stablehlo(SIZES_GO_INTO_FUNCTIONS, arguments=[array("f32", (rows, 3))])
    check(module)
    values = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
    counted, halves, total = run(module, values, backend=backend)
    assert counted.tolist() == list(range(rows))
    assert halves.tolist() == list(range(rows // 2 if rows > 1 else 1))
    assert total.tolist() == values.sum(0).tolist()
    whole = str(print_module(module))
    assert "half" not in whole
    assert "get-dimension-size" not in whole
    ((_, _, message, _), *_) = errors_of(SIZES_GO_INTO_FUNCTIONS, UnsupportedError)
    assert "only known when the program runs" in message


def test_constants_do_not_make_copies_of_functions() -> None:
    text = SIZES_GO_INTO_FUNCTIONS
    text = text[text.index("func.func private @half") : text.index("func.func private @sum")]
    module = parse_stablehlo(f"""func.func @main() -> (tensor<i32>, tensor<i32>) {{
  %0 = stablehlo.constant dense<8> : tensor<i32>
  %1 = stablehlo.constant dense<6> : tensor<i32>
  %2 = call @half(%0) : (tensor<i32>) -> tensor<i32>
  %3 = call @half(%1) : (tensor<i32>) -> tensor<i32>
  return %2, %3 : tensor<i32>, tensor<i32>
}}
{text}""")
    assert sorted(module.computations) == ["choose", "half", "main"]


DYNAMIC_CALLS = """
func.func @main(%a: tensor<?x4xf32>, %state: tensor<2xui64>) -> (RESULT) {
  %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %k = stablehlo.subtract %n, %one : tensor<i32>
  %k1 = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
  %ones = stablehlo.constant dense<1> : tensor<2xi32>
  %o = stablehlo.constant dense<1> : tensor<1xi32>
  %four = stablehlo.constant dense<4> : tensor<1xi32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %sizes = stablehlo.concatenate %n1, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
BODY
  return %r#0 : RESULT
}
func.func private @add(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %b : tensor<f32>
  return %0 : tensor<f32>
}
"""
_WINDOW = """
  %w = stablehlo.concatenate %n1, %o, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %p = stablehlo.concatenate %k1, %zero, %zero, %zero, dim = 0 :
    (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pad = stablehlo.reshape %p : (tensor<4xi32>) -> tensor<2x2xi32>
  %r:1 = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%a, %f, %w, %ones, %ones, %ones, %pad) {
    called_computations = [@add]} : (tensor<?x4xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>,
    tensor<2xi32>, tensor<2x2xi32>) -> tensor<?x4xf32>"""
_LARGEST = """
  %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %r:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%t, %k) : (tensor<4x?xf32>, tensor<i32>) ->
    (tensor<4x?xf32>, tensor<4x?xi32>)"""
_BITS = """
  %b:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%state, %sizes) {
    rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>} : (tensor<2xui64>, tensor<2xi32>) ->
    (tensor<2xui64>, tensor<?x4xui32>)
  %r:1 = stablehlo.bitcast_convert %b#1 : (tensor<?x4xui32>) -> tensor<?x4x2xui16>"""
_WRAPPED = """
  %r:1 = stablehlo.custom_call @stablehlo.shape_refinement_operand_wrapper(%a, %sizes) {
    indices_of_shape_operands = dense<1> : tensor<1xi64>} : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x4xf32>"""


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
@pytest.mark.parametrize(("body", "kind", "expected"), [
    (_WINDOW, "tensor<?x4xf32>", lambda a: np.cumsum(a, 0)),
    (_LARGEST, "tensor<4x?xf32>", lambda a: -np.sort(-a.T, axis=1)[:, :-1]),
    (_WRAPPED, "tensor<?x4xf32>", lambda a: a),
    (_BITS, "tensor<?x4x2xui16>", None),
])  # fmt: skip
def test_calls_that_take_sizes(body: str, kind: str, expected: Any, backend: str) -> None:
    text = DYNAMIC_CALLS.replace("BODY", body).replace("RESULT", kind)
    module = parse_stablehlo(text, arguments=[array("f32", (3, 4)), array("u64", (2,))])
    check(module)
    values = np.array([[3, 1, 4, 1], [5, 9, 2, 6], [5, 3, 5, 8]], np.float32)
    (found,) = run(module, values, np.array([1, 2], np.uint64), backend=backend)
    if expected is not None:
        assert found.tolist() == expected(values).tolist()
    else:
        plain = parse_stablehlo("""func.func @main(%s: tensor<2xui64>) -> tensor<3x4xui32> {
  %0:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3x4xui32>)
  return %0#1 : tensor<3x4xui32>
}""")
        (bits,) = run(plain, np.array([1, 2], np.uint64))
        assert found.tolist() == bits.view(np.uint16).reshape(3, 4, 2).tolist()


def test_operands_that_say_sizes_of_results() -> None:
    def text(places: str) -> str:
        return f"""func.func @main(%a: tensor<4xf32>) -> (tensor<?x?xf32>, tensor<3xf32>) {{
  %0 = stablehlo.constant dense<[2, 5]> : tensor<2xi64>
  %1 = stablehlo.constant dense<3> : tensor<1xi64>
  %2:2 = stablehlo.custom_call @other(%0, %a, %1) {{indices_of_shape_operands = dense<{places}> : tensor<2xi64>,
    operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>],
    result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>]}} :
    (tensor<2xi64>, tensor<4xf32>, tensor<1xi64>) -> (tensor<?x?xf32>, tensor<3xf32>)
  return %2#0, %2#1 : tensor<?x?xf32>, tensor<3xf32>
}}"""

    module = parse_stablehlo(text("[0, 2]"))
    (call,) = [one for one in module.entry if one.opcode == "custom-call"]
    assert "(f32[2,5]{0,1}, f32[3]{0}) custom-call(a)" in str(print_module(module))
    assert [one.opcode for one in call.operands] == ["parameter"]
    for places, message in (("[0, 3]", "names an operand"), ("[2, 0]", "of sizes [3]")):
        assert message in errors_of(text(places))[0][2]


def test_functions_without_arguments_run_one_after_another() -> None:
    text = """
func.func @one() { %0 = stablehlo.constant dense<1> : tensor<i32>
  check.expect_eq_const %0, dense<1> : tensor<i32>
  func.return }
func.func @two() { %0 = stablehlo.constant dense<1> : tensor<i32>
  check.expect_eq_const %0, dense<2> : tensor<i32>
  func.return }
"""
    run(parse_stablehlo(text, function="one"))
    with pytest.raises(ExecutionError):
        run(parse_stablehlo(text))


def constant(kind: str, body: str) -> str:
    return f"func.func @f() -> {kind} {{\n  %0 = stablehlo.constant dense<{body}> : {kind}\n  return %0 : {kind}\n}}"


@pytest.mark.parametrize("word", ["3..5", "1.2.3", "1" * 399 + ".5.e5", "0x", "1e", "-"])
def test_words_that_are_no_numbers(word: str) -> None:
    assert [said for _, _, said, _ in errors_of(constant("tensor<2xf32>", f"[1.5, {word}]"))] == [
        f"'{word[:40]}' is no value of f32"
    ]


def test_numbers_of_many_digits() -> None:
    assert run(parse_stablehlo(constant("tensor<f64>", f"0.{'0' * 400}25e401"))) == (2.5,)


TESTS = """// RUN: a command of another tool

func.func @add_test() {
  %0 = stablehlo.constant dense<[0, -8, 7]> : tensor<3xi4>
  %1 = stablehlo.add %0, %0 : tensor<3xi4>
  check.expect_eq_const %1, dense<[0, 0, -2]> : tensor<3xi4>
  func.return
}

// -----

module @second {
  func.func @main() {
    %0 = func.call @one() : () -> tensor<ui2>
    check.expect_eq_const %0, dense<1> : tensor<ui2>
    func.return
  }
  func.func private @one() -> tensor<ui2> {
    %0 = stablehlo.constant dense<1> : tensor<ui2>
    func.return %0 : tensor<ui2>
  }
}
"""


def test_tests_in_one_file_run_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "tests.mlir"
    path.write_text(TESTS)
    module = hlotool.load(path)
    run(module)
    run(module, backend="cpu")
    path.write_text(TESTS.replace("%0, dense<1>", "%0, dense<2>"))
    with pytest.raises(ExecutionError, match="1 of 1 elements are not equal"):
        run(hlotool.load(path))
    path.write_text(TESTS.replace("-> tensor<ui2>\n    check", "-> tensor<ui4>\n    check").replace("-2]", "-2, 3]"))
    with pytest.raises(ParseError) as caught:
        hlotool.load(path)
    assert [d.location.line for d in caught.value.diagnostics if d.location] == [6, 14]
    path.write_text(TESTS.replace("@add_test()", "@add_test(%x: tensor<f32>)"))
    with pytest.raises(ParseError, match="the file holds 2 modules"):
        hlotool.load(path)


PARALLEL = """
func.func @sum(%x: tensor<2xi64>, %y: tensor<i64>) -> (tensor<2xi64>, tensor<i64>) {
  %sum = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %0 = stablehlo.add %a, %b : tensor<i64>
      stablehlo.return %0 : tensor<i64>
  }) {replica_groups = dense<GROUPS> : tensor<SIZESxi64>,
      channel_handle = #stablehlo.channel_handle<handle = CHANNEL, type = 0>MORE} : (tensor<2xi64>) -> tensor<2xi64>
  return %sum, %y : tensor<2xi64>, tensor<i64>
}
func.func @other(%x: tensor<2xi64>, %y: tensor<i64>) -> (tensor<2xi64>, tensor<i64>) {
  return %x, %y : tensor<2xi64>, tensor<i64>
}
func.func @main() {
  %a = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %b = stablehlo.constant dense<[10, 20]> : tensor<2xi64>
  %m = stablehlo.constant dense<7> : tensor<i64>
  %n = stablehlo.constant dense<8> : tensor<i64>
  %r:8 = "interpreter.run_parallel"(%a, %m, %b, %n, %a, %n, %a, %m) {programs = TABLE} :
    (tensor<2xi64>, tensor<i64>, tensor<2xi64>, tensor<i64>, tensor<2xi64>, tensor<i64>, tensor<2xi64>, tensor<i64>) ->
    (tensor<2xi64>, tensor<i64>, tensor<2xi64>, tensor<i64>, tensor<2xi64>, tensor<i64>, tensor<2xi64>, tensor<i64>)
  check.expect_eq_const %r#0, dense<FIRST> : tensor<2xi64>
  check.expect_eq_const %r#2, dense<SECOND> : tensor<2xi64>
  check.expect_eq_const %r#5, dense<8> : tensor<i64>
  check.expect_eq_const %r#7, dense<7> : tensor<i64>
  return
}
"""


def parallel(**words: str) -> str:
    text = PARALLEL
    for name, word in words.items():
        text = text.replace(name, word)
    return text


_COLUMNS = {"TABLE": "[[@sum, @sum], [@sum, @sum]]", "GROUPS": "[[0, 1]]", "SIZES": "1x2"}
_GLOBAL = {"CHANNEL": "1", "MORE": ", use_global_device_ids", "GROUPS": "[[0, 1, 2, 3]]", "SIZES": "1x4"}


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
@pytest.mark.parametrize(("words", "devices"), [
    (_COLUMNS | {"CHANNEL": "0", "MORE": "", "FIRST": "[2, 4]", "SECOND": "[11, 22]"}, (2, 2)),
    (_COLUMNS | {"CHANNEL": "1", "MORE": "", "FIRST": "[13, 26]", "SECOND": "[13, 26]"}, (2, 2)),
    ({"TABLE": "[[@sum, @sum, @sum, @sum]]", "FIRST": "[13, 26]", "SECOND": "[13, 26]", **_GLOBAL}, (1, 4)),
    ({"TABLE": "[[@sum], [@sum], [@sum], [@sum]]", "FIRST": "[13, 26]", "SECOND": "[13, 26]", **_GLOBAL}, (4, 1)),
])  # fmt: skip
def test_programs_run_on_several_devices(words: dict[str, str], devices: tuple[int, int], backend: str) -> None:
    """`interpreter.run_parallel` of StableHLO's own tests: rows are replicas, columns partitions."""
    module = parse_stablehlo(parallel(**words))
    check(module)
    assert tuple(module.attributes.get(name, 1) for name in ("replica_count", "num_partitions")) == devices
    program = hlotool.compile(module, backend=backend)
    program.run_devices([[]] * 4)
    wrong = parse_stablehlo(parallel(**{**words, "SECOND": "[0, 0]"}))
    with pytest.raises(ExecutionError, match=r"expect_eq"):
        hlotool.compile(wrong, backend=backend).run_devices([[]] * 4)


def test_programs_that_are_not_one() -> None:
    words = {**_COLUMNS, "CHANNEL": "0", "MORE": "", "FIRST": "[2, 4]", "SECOND": "[11, 22]"}
    for table, kind, message in (
        ("[[@sum, @other], [@sum, @other]]", UnsupportedError, "runs several programs"),
        ("[[@sum, @sum], [@sum]]", ParseError, "a table of functions"),
        ("[[@sum, @sum, @sum]]", ParseError, "3 programs have 8 arguments and 8 results"),
        ("[[@none, @none]]", ParseError, "there is no function @none"),
    ):
        (row,) = errors_of(parallel(**{**words, "TABLE": table}), kind)
        assert message in row[2]


def along(mesh: str, axes: str) -> str:
    rows = [row.split(":") for row in axes.split() if axes]
    references = ", ".join(
        f'#stablehlo.axis_ref<name = "{name}"' + (f", sub_axis_info = {part[0]}>" if part else ">")
        for name, *part in rows
    )
    return f"""
func.func private @mesh() attributes {{stablehlo.mesh = {{axes = [{{name = "a", size = 2 : i64}},
  {{name = "b", size = 2 : i64}}], device_ids = dense<[3, 1, 2, 0]> : tensor<4xi64>}}}}
func.func @main(%x: tensor<3xi32>) -> tensor<3xi32> {{
  %0 = "stablehlo.cross-replica-sum"(%x) {{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = {mesh},
    axes = [{references}]>}} : (tensor<3xi32>) -> tensor<3xi32>
  return %0 : tensor<3xi32>
}}"""


def mesh(**sizes: int) -> str:
    rows = ", ".join(f'<name = "{name}", size = {size}>' for name, size in sizes.items())
    return f"#stablehlo.mesh<axes=[{rows}]>"


@pytest.mark.parametrize(("written", "axes", "groups"), [
    (mesh(x=2, y=2), "x", ((0, 2), (1, 3))),
    (mesh(x=2, y=2), "y", ((0, 1), (2, 3))),
    (mesh(x=2, y=2), "y x", ((0, 2, 1, 3),)),
    (mesh(x=2, y=4), "y:(2)2", ((0, 1), (2, 3), (4, 5), (6, 7))),
    (mesh(x=2, y=4), "y:(1)2", ((0, 2), (1, 3), (4, 6), (5, 7))),
    (mesh(p=4, q=3), "q p:(2)2", ((0, 3, 1, 4, 2, 5), (6, 9, 7, 10, 8, 11))),
    (mesh(x=1, y=2), "x y", ((0, 1),)),
    ('#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>]>', "x", ((0, 1),)),
    ("@mesh", "a", ((3, 2), (1, 0))),
    ("#stablehlo.mesh<axes = []>", "", ((0,),)),
])  # fmt: skip
def test_groups_along_axes_of_a_mesh(written: str, axes: str, groups: tuple[tuple[int, ...], ...]) -> None:
    (found,) = [one for one in parse_stablehlo(along(written, axes)).entry if one.opcode == "all-reduce"]
    assert found.attributes["replica_groups"].groups == groups


@pytest.mark.parametrize(("written", "axes", "message"), [
    ("@nowhere", "a", "or a function that has one"),
    (mesh(x=4), "y", "of the mesh"),
    (mesh(x=4), "x:(3)2", "does not divide"),
    (mesh(x=4), "x:(0)2", "does not divide"),
    (mesh(x=4), "x x", "named twice"),
    (mesh(x=12), "x:(1)2 x:(3)2", "overlap"),
    (mesh(x=2**20, y=2), "x", "a mesh of 2097152 devices"),
    (mesh(x=0), "x", "a name and a size"),
])  # fmt: skip
def test_axes_that_are_none(written: str, axes: str, message: str) -> None:
    assert message in errors_of(along(written, axes))[0][2]


def test_blobs_and_resources() -> None:
    module = parse_stablehlo("""
func.func @main() -> (tensor<2xf32>, tensor<3xi1>, tensor<2xi4>) {
  %0 = stablehlo.constant dense_resource<w> : tensor<2xf32>
  %1 = stablehlo.constant dense<"0x010001"> : tensor<3xi1>
  %2 = stablehlo.constant dense<"0x0F07"> : tensor<2xi4>
  return %0, %1, %2 : tensor<2xf32>, tensor<3xi1>, tensor<2xi4>
}
{-#
  dialect_resources: {
    builtin: {
      w: "0x040000000000803F00000040"
    }
  }
#-}
""")
    values = [one.literal.value().tolist() for one in module.entry if one.opcode == "constant"]
    assert values[:2] == [[1.0, 2.0], [True, False, True]]
    assert [int(v) for v in values[2]] == [-1, 7]


@pytest.mark.parametrize("backend", ["evaluate", "cpu"])
@pytest.mark.parametrize(("more", "sums", "last"), [
    ("", [[1, 3, 6], [4, 9, 15]], [6, 15]), ("attributes {is_reverse = true}", [[6, 5, 3], [15, 11, 6]], [6, 15]),
])  # fmt: skip
def test_scan_in_its_pretty_form(more: str, sums: list[Any], last: list[int], backend: str) -> None:
    run(parse_stablehlo(program(f"""
  %m = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %z = stablehlo.constant dense<0> : tensor<2xi32>
  %0:2 = chlo.scan(%m) inits (%z) dimension=1 {more} {{
  ^bb0(%a: tensor<2xi32>, %c: tensor<2xi32>):
    %s = stablehlo.add %a, %c : tensor<2xi32>
    stablehlo.return %s, %s : tensor<2xi32>, tensor<2xi32>
  }} : (tensor<2x3xi32>, tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>)
  check.expect_eq_const %0#0, dense<{sums}> : tensor<2x3xi32>
  check.expect_eq_const %0#1, dense<{last}> : tensor<2xi32>""")), backend=backend)


def test_tolerances_of_checks() -> None:
    def text(value: str) -> str:
        return program(f"""
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf64>
  check.expect_almost_eq_const %0, dense<[1.0, {value}]> : tensor<2xf64>, tolerance = 1.0e-2
  check.expect_eq_const %0, dense<[1.0, 2.0]> : tensor<2xf64>""")

    run(parse_stablehlo(text("2.001")))
    with pytest.raises(ExecutionError, match=r"within 0\.01"):
        run(parse_stablehlo(text("2.1")))


# ---- errors


@pytest.mark.parametrize(("body", "message"), [
    ("""%0 = "stablehlo.while"(%x) ({
  ^bb0(%a: tensor<f32>):
    %t = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %t : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) : (tensor<i32>) -> tensor<i32>""", "a region of the loop takes f32[], the loop s32[]"),
    ('%0 = "stablehlo.if"(%x) ({ stablehlo.return %x : tensor<i32> }, { stablehlo.return %x : tensor<i32> }) : '
     "(tensor<i32>) -> tensor<i32>", "stablehlo.if chooses by pred[], not s32[]"),
    ('%0 = "stablehlo.case"(%t) ({ stablehlo.return %x : tensor<i32> }, { stablehlo.return %x : tensor<i32> }) : '
     "(tensor<i1>) -> tensor<i32>", "stablehlo.case chooses by s32[], not pred[]"),
    ('%0 = "stablehlo.broadcast"(%x) {broadcast_sizes = array<i64: -1>} : (tensor<i32>) -> tensor<?xi32>',
     "broadcast_sizes [-1]"),
    ('%0 = "stablehlo.tuple"(%x, %t) : (tensor<i32>, tensor<i1>) -> tuple<tensor<i32>, tensor<f32>>',
     "stablehlo.tuple gives (s32[], pred[]), not (s32[], f32[])"),
    ('%0 = "stablehlo.dynamic_slice"(%v, %o) {slice_sizes = array<i64: 1>} : (tensor<3xf32>, tensor<1xi32>) -> '
     "tensor<1xf32>", "starts at integers of one type, not at s32[1]"),
    ("""%0 = "stablehlo.reduce"(%v, %f) ({
  ^bb0(%a: tensor<bf16>, %b: tensor<bf16>):
    %s = stablehlo.add %a, %b : tensor<bf16>
    stablehlo.return %s : tensor<bf16>
  }) {dimensions = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<bf16>""", "f32 is not promoted to"),
    ("""%0 = "stablehlo.reduce"(%o, %x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<1xi32>, tensor<i32>) -> tensor<f32>""", "s32 is not promoted to"),
    ("""%0 = "stablehlo.map"(%v) ({
  ^bb0(%a: tensor<f32>):
    stablehlo.return %a : tensor<f32>
  }) {dimensions = array<i64: 1>} : (tensor<3xf32>) -> tensor<3xf32>""", "a map is over the dimensions [0], not [1]"),
])  # fmt: skip
def test_types_that_do_not_fit(body: str, message: str) -> None:
    """What HLO would take, and mean something else by, or what would fail later."""
    ((line, _, said, _),) = errors_of(f"""func.func @main(%x: tensor<i32>, %t: tensor<i1>, %v: tensor<3xf32>,
  %o: tensor<1xi32>, %f: tensor<f32>) {{
  {body}
  return
}}""")
    assert line == 3
    assert message in said


@pytest.mark.parametrize(("narrow", "wide"), [("i1", "i32"), ("ui8", "i32"), ("i8", "i32"), ("bf16", "f32"),
                                              ("f64", "f32")])  # fmt: skip
def test_types_that_regions_promote(narrow: str, wide: str) -> None:
    values = "[true, true, false]" if narrow == "i1" else "[1, 1, 0]" if wide[0] == "i" else "[1.0, 1.0, 0.0]"
    two = "2" if wide[0] == "i" else "2.0"
    zero = "false" if narrow == "i1" else "0" if wide[0] == "i" else "0.0"
    run(parse_stablehlo(program(f"""
  %v = stablehlo.constant dense<{values}> : tensor<3x{narrow}>
  %z = stablehlo.constant dense<{zero}> : tensor<{narrow}>
  %0 = "stablehlo.reduce"(%v, %z) ({{
  ^bb0(%a: tensor<{wide}>, %b: tensor<{wide}>):
    %s = stablehlo.add %a, %b : tensor<{wide}>
    stablehlo.return %s : tensor<{wide}>
  }}) {{dimensions = array<i64: 0>}} : (tensor<3x{narrow}>, tensor<{narrow}>) -> tensor<{wide}>
  check.expect_eq_const %0, dense<{two}> : tensor<{wide}>""")))


def test_products_of_unknown_size_are_of_the_written_type() -> None:
    text = """func.func @main(%a: tensor<?x3xi8>, %b: tensor<3xi8>) -> tensor<?xi32> {
  %0 = stablehlo.dot %a, %b : (tensor<?x3xi8>, tensor<3xi8>) -> tensor<?xi32>
  return %0 : tensor<?xi32>
}"""
    module = parse_stablehlo(text, arguments=[array("s8", (2, 3)), array("s8", (3,))])
    (found,) = run(module, np.full((2, 3), 100, np.int8), np.full(3, 100, np.int8))
    assert found.tolist() == [30000, 30000]


def test_all_errors_in_one_run() -> None:
    found = errors_of("""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.exponentail %a : tensor<4xf32>
  %1 = stablehlo.add %a, %b : tensor<4xf32>
  %2 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>
  %3 = stablehlo.add %0, %1 : tensor<4xf32>
  %4 = stablehlo.transpose %a, dims = [1] : (tensor<4xf32>) -> tensor<4xf32>
  %5 = stablehlo.negate %a : tensor<4xf23>
  return %3 : tensor<4xf32>
}""")
    assert [(line, column) for line, column, _, _ in found] == [(2, 8), (3, 26), (4, 33), (6, 8), (7, 39)]
    assert found[0][3] == "did you mean 'stablehlo.exponential'?"
    assert "3" in found[2][2]
    assert found[4][3] is not None


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("func.func @main() { return", (1, 27), "ends"),
        ("func.func @main() { %0 = stablehlo.constant dense<1 : tensor<i32>\n return }", (1, 45), "not closed"),
        ("func.func @f(%a: tensor<f32>) { return }\nfunc.func @g(%a: tensor<f32>) { return }", (1, 11), "which"),
        ("func.func @main() { %0 = call @nowhere() : () -> tensor<f32>\n return }", (1, 26), "no function"),
        ("func.func @main() { call @main() : () -> ()\n return }", (1, 21), "calls itself"),
        ("module @m { }", (1, 1), "no functions"),
        ("func.func @main() { %0 = arith.constant 1 : i32\n return }", (1, 26), "unknown operation"),
        ("func.func @main(%a: tensor<*xf32>) { return }", (1, 21), "without a rank"),
    ],
)
def test_an_error(text: str, place: tuple[int, int], message: str) -> None:
    (line, column, said, _), *_ = errors_of(text)  # the first one
    assert message in said
    assert (line, column) == place


def test_errors_in_functions_that_nobody_calls() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @unused(%x: tensor<4xf32>, %y: tensor<3xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.dot_general"(%x, %y) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [0],
    rhs_contracting_dimensions = [0]>} : (tensor<4xf32>, tensor<3xf32>) -> tensor<f32>
  %1 = call @unused2() : () -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @sizes(%x: tensor<?xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
"""
    found = errors_of(text)
    assert [row[0] for row in found] == [5, 7]
    assert found[1][2:] == ("there is no function @unused2", "did you mean 'unused'?")
    assert parse_stablehlo(text, function="main").entry.name == "main"
    alone = text[: text.index("func.func private @unused")] + text[text.index("func.func private @sizes") :]
    assert list(parse_stablehlo(alone).computations) == ["main"]  # no error where it is not used


def test_what_has_no_counterpart_is_said_at_once() -> None:
    found = errors_of("""func.func @main(%n: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %1 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  return %0 : tensor<?xf32>
}""", UnsupportedError)
    assert [line for line, *_ in found] == [2, 3]


def test_export_refuses_all_at_once() -> None:
    module = hlotool.parse("""HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] copy(x)
  ROOT z = f32[4] add(x, y), backend_config="own"
}""")
    with pytest.raises(UnsupportedError) as caught:
        export_stablehlo(module)
    assert [d.location.line for d in caught.value.diagnostics if d.location] == [4, 5]


# ---- any text ends in success or in errors with places


def _mutants(text: str, count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    words = re.findall(r"\S+|\s+", text)
    found = []
    for _ in range(count):
        own = list(words)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(own))
            match draw.randrange(5):
                case 0:
                    del own[place]
                case 1:
                    own[place] = draw.choice(words)
                case 2:
                    own.insert(place, draw.choice(["{", "}", "(", ")", "<", ">", "\"", "-1", "x", "%9", "tensor<"]))
                case 3:
                    cut = draw.randrange(len(own[place]) + 1)
                    own[place] = own[place][:cut]
                case _:
                    own = own[:place] or own
        found.append("".join(own))
    return found


def diagnostics_of(text: str) -> tuple[Diagnostic, ...]:
    """What is wrong with a text, or nothing; any other exception than those of errors is a bug."""
    try:
        check(parse_stablehlo(text, "model.mlir"))
    except HloError as error:
        return error.diagnostics
    return ()


@pytest.mark.parametrize("seed", range(4))
def test_broken_texts(seed: int) -> None:
    names = sorted(EXAMPLES)[seed::4]
    for number, name in enumerate(names):
        for text in _mutants(program(EXAMPLES[name]), 12, 1000 * seed + number):
            for diagnostic in diagnostics_of(text):
                assert diagnostic.message
                assert diagnostic.location is None or diagnostic.location.line <= text.count("\n") + 1


@pytest.mark.parametrize("text", ["{" * 5000, "func.func @main() {" + "({" * 3000, "[" * 3000, "\0", "#a = #a", "loc("])
def test_deep_and_odd_texts(text: str) -> None:
    for whole in (text, f"module @m {{ {text}", f"#x = {text}\nmodule @m {{ func.func @main() {{ return }} }}"):
        diagnostics_of(whole)  # a text in which the odd part is never looked at is no error


# ---- files


def test_commands_take_it_directly(hlotool: object, tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text("""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}""")
    done = hlotool("run", path)  # type: ignore[operator]
    assert "out0" in done.stdout, done.stderr


def test_operations_of_mhlo() -> None:
    """What jaxlib gives for HLO has a few of them."""
    found = parse_stablehlo("""func.func @main(%x: tensor<3xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %0 = mhlo.erf %x : tensor<3xf32>
  %1, %2 = mhlo.topk(%0, k = 2, largest = false) : tensor<3xf32> -> (tensor<2xf32>, tensor<2xi32>)
  return %1, %2 : tensor<2xf32>, tensor<2xi32>
}""")
    values, places = run(found, np.array([1.0, -1.0, 0.5], np.float32))
    assert np.allclose(values, [-0.8427008, 0.5204999])
    assert places.tolist() == [1, 2]
    assert errors_of('func.func @main() {\n  "mhlo.nothing"() : () -> ()\n  return\n}')[0][2:] == (
        "unknown operation 'mhlo.nothing'", "'mhlo' is a form inside of compilers: StableHLO is what frameworks give"
    )


def test_layouts_of_a_tuple_are_those_of_its_elements() -> None:
    found = parse_stablehlo("""func.func @main(%x: tensor<2x3xf32>) -> tuple<tensor<2x3xf32>, tensor<i32>> {
  %0 = stablehlo.custom_call @f(%x) {operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
    result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]}
    : (tensor<2x3xf32>) -> tuple<tensor<2x3xf32>, tensor<i32>>
  return %0 : tuple<tensor<2x3xf32>, tensor<i32>>
}""")
    (call,) = (one for one in found.entry if one.opcode == "custom-call")
    layout = call.shape.elements[0].layout
    assert layout is not None
    assert layout.minor_to_major == (0, 1)


def test_hlo_does_not_load_it() -> None:
    import subprocess
    import sys

    code = (
        "import sys, hlotool; hlotool.parse('x = f32[4] parameter(0)'); "
        "sys.exit(any(name.startswith('hlotool.text.stablehlo') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
