"""What XLA's parser and verifier take beside the usual form: facts of jaxlib 0.10.2, tried one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import Run

from hlotool.cli import cli
from hlotool.driver import compile_module
from hlotool.ir import ExecutionError, HloError, Module
from hlotool.ir.verifier import check
from hlotool.passes import parse_pipeline, run_pipeline
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

ADD = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"


def module_of(body: str, header: str = "HloModule m") -> Module:
    module = parse(f"{header}\n{ADD}ENTRY e {{\n{body}\n}}\n")
    check(module)
    check(parse(print_module(module)))
    return module


def both(body: str, *arguments: Any, header: str = "HloModule m") -> np.ndarray[Any, Any]:
    """The one result of native code, which is that of the evaluator."""
    module = module_of(body, header)
    (found,) = compile_module(module)(*arguments)
    (expected,) = compile_module(module, "evaluate")(*arguments)
    assert found.tobytes() == expected.tobytes()
    return found


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("f32[2,3] constant(1.5)", 1.5), ("pred[2,3] constant(true)", True), ("s8[2,3] constant(-7)", -7),
        ("bf16[2,3] constant(inf)", np.inf), ("c64[2,3] constant((1, -2))", 1 - 2j),
    ],
)  # fmt: skip
def test_a_scalar_stands_for_every_element(literal: str, expected: Any) -> None:
    found = both(f"ROOT r = {literal}")
    assert found.shape == (2, 3)
    assert (found == expected).all()


def test_a_scalar_inside_a_tuple_and_in_an_empty_array() -> None:
    module = module_of("ROOT r = (f32[2], s32[0,3], (u8[2,2])) constant((2, 1, (3)))")
    assert [leaf.tolist() for leaf in compile_module(module)()] == [[2, 2], [], [[3, 3], [3, 3]]]


@pytest.mark.parametrize("literal", ["f32[2] constant()", "f32[2] constant(x)", "f32[2] constant(1, 2)",
                                     "s8[2] constant(300)", "s8[2] constant(1.5)"])  # fmt: skip
def test_wrong_scalars_are_refused(literal: str) -> None:
    with pytest.raises(HloError):
        parse(f"HloModule m\nENTRY e {{\nROOT r = {literal}\n}}\n")


@pytest.mark.parametrize("words", ["HIGH,HIGHEST", "High,default", "DEFAULT,PACKED_NIBBLE"])
def test_precision_in_any_case(words: str) -> None:
    body = "a = f32[2,2] parameter(0)\nROOT r = f32[2,2] dot(a, a), lhs_contracting_dims={1}, "
    body += f"rhs_contracting_dims={{0}}, operand_precision={{{words}}}"
    dot = module_of(body).entry.root
    assert dot.attributes["operand_precision"] == tuple(words.lower().split(","))


def test_nested_broadcasts_need_no_dimensions() -> None:
    x = np.arange(4, dtype=np.float32)
    found = both("a = f32[] parameter(0)\nb = f32[4] parameter(1)\nROOT r = f32[4] add(b, f32[4] broadcast(a))",
                 np.float32(2), x)  # fmt: skip
    assert found.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("parameter", "operand"),
    [("f32[<=4]", "f32[4]"), ("f32[4]", "f32[<=4]"), ("(f32[<=4], s32[])", "(f32[4], s32[])")],
)
def test_operands_may_be_written_with_other_dynamic_dimensions(parameter: str, operand: str) -> None:
    module_of(f"a = {parameter} parameter(0)\nROOT r = {parameter} copy({operand} a)")
    with pytest.raises(HloError, match="not"):
        module_of(f"a = {parameter} parameter(0)\nROOT r = {parameter} copy({operand.replace('4', '5')} a)")


def test_a_comma_may_end_operands() -> None:
    found = both("a = f32[2] parameter(0)\nROOT r = f32[2] add(a, f32[2] negate(a,),)", np.ones(2, np.float32))
    assert found.tolist() == [0, 0]


@pytest.mark.parametrize("result", ["f32[2,2] reshape(a)", "s32[4] bitcast-convert(a)", "f32[4] negate(a)"])
def test_arrays_of_equal_bytes_may_be_aliases(result: str) -> None:
    header = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }"
    x = np.arange(4, dtype=np.float32)
    plain = both(f"a = f32[4] parameter(0)\nROOT r = {result}", x, header=header)
    module = module_of(f"a = f32[4] parameter(0)\nROOT r = {result}", header)
    (given,) = compile_module(module, donate="declared")(x.copy())
    assert given.tobytes() == plain.tobytes()


def test_arrays_of_other_bytes_are_no_aliases() -> None:
    header = "HloModule m, input_output_alias={{}: (0, {})}"
    with pytest.raises(HloError, match="cannot share memory"):
        module_of("a = f32[4] parameter(0)\nROOT r = f64[4] convert(a)", header)


@pytest.mark.parametrize(
    ("given", "made"),
    [("f32[4,2]", "u8[4,8]"), ("u8[4,8]", "f32[4,2]"), ("f32[4,2]", "s32[8]"), ("u8[4]", "f32[1]"),
     ("c64[4]", "f32[8]"), ("s4[4]", "s8[2]"), ("f32[2,3]", "u16[12]"), ("f64[0,3]", "u8[0]")],
)  # fmt: skip
def test_bitcasts_of_which_only_the_total_fits(given: str, made: str) -> None:
    module = module_of(f"a = {given} parameter(0)\nROOT r = {made} bitcast-convert(a)")
    shape = module.entry.parameters[0].shape
    raw = np.arange(1, shape.byte_size + 1, dtype=np.uint8)
    x = raw.view(np.dtype(shape_dtype(module))).reshape(shape.dimensions)
    found = both(f"a = {given} parameter(0)\nROOT r = {made} bitcast-convert(a)", x)
    if not given.startswith("s4"):
        assert found.tobytes() == x.tobytes()
    for wrong in (made.replace("]", ",2]"), made.replace("[", "[3,")):
        if "0" not in made:
            with pytest.raises(HloError):
                module_of(f"a = {given} parameter(0)\nROOT r = {wrong} bitcast-convert(a)")


def shape_dtype(module: Module) -> Any:
    from hlotool.ir import dtype_of

    return dtype_of(module.entry.parameters[0].shape.element_type)


def test_complex_numbers_are_clamped_by_their_real_parts() -> None:
    """Numbers that XLA's CPU backend gives."""
    nan = np.nan
    low = np.array([1 + 1j, 5j, 2, -1 - 1j, 1 + 3j, complex(nan, 0), 0, 0], np.complex64)
    x = np.array([3j, 1 + 1j, 2 + 5j, 9j, 1 + 2j, 1 + 1j, complex(nan, 3), complex(3, nan)], np.complex64)
    high = np.array([3, 1 + 4j, 2 + 3j, 5j, 1 + 1j, 2 + 2j, 2 + 2j, 5], np.complex64)
    body = "a = c64[8] parameter(0)\nb = c64[8] parameter(1)\nc = c64[8] parameter(2)\nROOT r = c64[8] clamp(a, b, c)"
    expected = np.array([1 + 1j, 1 + 1j, 2, 9j, 1 + 3j, 1 + 1j, 2 + 2j, complex(3, nan)], np.complex64)
    np.testing.assert_array_equal(both(body, low, x, high), expected)


@pytest.mark.parametrize("length", ["0", "4"])
def test_transforms_of_nothing(length: str) -> None:
    shape = "c64[3,0]" if length == "0" else "c64[0,4]"
    body = f"a = {shape} parameter(0)\nROOT r = {shape} fft(a), fft_type=FFT, fft_length={{{length}}}"
    assert both(body, np.zeros((3, 0) if length == "0" else (0, 4), np.complex64)).size == 0


GE = "ge {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), direction=GE\n}\n"


@pytest.mark.parametrize("sizes", ["", "4", "2,3"])
def test_select_and_scatter_without_a_window(sizes: str) -> None:
    shape = f"f32[{sizes}]"
    text = f"HloModule m\n{ADD}{GE}ENTRY e {{\na = {shape} parameter(0)\nb = {shape} parameter(1)\n"
    text += f"z = f32[] constant(1)\nROOT r = {shape} select-and-scatter(a, b, z), select=ge, scatter=add\n}}\n"
    module = parse(text)
    check(module)
    given = module.entry.root.shape
    b = np.arange(given.size, dtype=np.float32).reshape(given.dimensions)
    a = -b
    expanded = parse(text)
    assert run_pipeline(expanded, parse_pipeline("select-and-scatter-expander"))
    check(expanded)
    for one in (module, expanded):
        for backend in ("cpu", "evaluate"):
            assert compile_module(one, backend)(a, b)[0].tolist() == (b + 1).tolist()


def test_unspecified_version_of_a_custom_call() -> None:
    body = "a = f32[2] parameter(0)\nROOT r = f32[2] custom-call(a), custom_call_target=\"Sharding\", "
    assert both(body + "api_version=API_VERSION_UNSPECIFIED", np.ones(2, np.float32)).tolist() == [1, 1]


COLLECTIVES = f"""HloModule m
{ADD}ENTRY e {{
  a = f32[4] parameter(0)
  token = f32[] parameter(1)
  b = f32[4] all-reduce(a), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=add
  ROOT r = (f32[8], f32[]) all-gather(b, token), channel_id=1, replica_groups={{{{0,1}}}}, dimensions={{0}},
    use_global_device_ids=true
}}
"""


def test_a_channel_for_several_kinds_and_a_scalar_in_place_of_a_token() -> None:
    module = parse(COLLECTIVES)
    check(module)
    a, token = np.arange(8, dtype=np.float32).reshape(2, 4), np.array([5, 7], np.float32)
    for backend in ("cpu", "evaluate"):
        gathered, after = compile_module(module, backend, partitions=2)(a, token)
        assert gathered.tolist() == [[4, 6, 8, 10] * 2] * 2
        assert after.tolist() == [5, 7]


@pytest.mark.parametrize("command", ["compile", "run", "bench", "report"])
def test_commands_take_the_number_of_devices(command: str, tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(COLLECTIVES)
    more = {"report": ["-o", str(tmp_path / "out")], "bench": ["--no-roof", "--rounds", "1", "--time", "0.01"]}
    words = [command, str(path), *more.get(command, [])]
    refused = CliRunner().invoke(cli, words)
    if command == "report":  # it shows what it can
        assert "devices" in refused.output or "participants" in refused.output
    else:
        assert isinstance(refused.exception, HloError)
        assert "--partitions" in str(refused.exception.diagnostics[0].hint)
    assert CliRunner().invoke(cli, [*words, "--partitions", "2"]).exit_code == 0


DEAD = """HloModule m
for_ever { s = (s32[], f32[2]) parameter(0)
  ROOT c = pred[] constant(true) }
step { s = (s32[], f32[2]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[2] get-tuple-element(s), index=1
  m = s32[] add(n, n)
  y = f32[2] add(x, x)
  ROOT t = (s32[], f32[2]) tuple(m, y) }
inner { x = f32[2] parameter(0)
  n = s32[] constant(1)
  s = (s32[], f32[2]) tuple(n, x)
  w = (s32[], f32[2]) while(s), condition=for_ever, body=step
  y = f32[2] get-tuple-element(w), index=1
  z = f32[2] negate(y)
  ROOT r = f32[2] add(x, x) }
ENTRY e { x = f32[2] parameter(0)
  y = f32[2] call(x), to_apply=inner
  ROOT r = f32[2] negate(y) }
"""


@pytest.mark.parametrize("pipeline", ["default", "none"])
def test_endless_loops_that_nothing_needs_are_left_out(pipeline: str) -> None:
    module = parse(DEAD)
    x = np.array([1, 2], np.float32)
    assert compile_module(module, pipeline=pipeline)(x)[0].tolist() == [-2, -4]
    assert compile_module(module, "evaluate")(x)[0].tolist() == [-2, -4]


@pytest.mark.parametrize(("backend", "pipeline"), [("cpu", "default"), ("cpu", "none"), ("evaluate", "none")])
def test_endless_loops_are_kept_where_asked_for(backend: str, pipeline: str) -> None:
    kept = compile_module(parse(DEAD), backend, pipeline, timeout=0.1, finite_loops=False)
    with pytest.raises(ExecutionError, match="the time limit"):
        kept(np.array([1, 2], np.float32))


def test_loops_that_end_need_not_be_kept(hlotool: Run) -> None:
    counted = DEAD.replace("ROOT c = pred[] constant(true)", """n = s32[] get-tuple-element(s), index=0
      limit = s32[] constant(10)
      ROOT c = pred[] compare(n, limit), direction=LT""").replace("m = s32[] add(n, n)", """one = s32[] constant(1)
      m = s32[] add(n, one)""")
    for text, left in ((DEAD, True), (counted, False)):
        assert "while(" not in hlotool("opt", "-", stdin=text).stdout
        assert ("while(" in hlotool("opt", "--no-finite-loops", "-", stdin=text).stdout) == left
    stopped = hlotool("run", "--no-finite-loops", "--timeout", "0.1", "-", stdin=DEAD)
    assert (stopped.returncode, "time limit" in stopped.stderr) == (5, True)
    assert hlotool("run", "-", stdin=DEAD).returncode == 0


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("r = f32[4] iota(,), iota_dimension=0", "iota()"),
        ("r = f32[4] add(,x,, x,,)", "add(x, x)"),
        ("r = () tuple(,,)", "tuple()"),
    ],
)
def test_commas_without_operands_count_for_nothing(line: str, same: str) -> None:
    assert same in print_module(module_of(f"x = f32[4] parameter(0)\n{line}\nROOT n = f32[4] negate(x)"))


def test_a_device_may_be_written_as_the_only_tile() -> None:
    for shape in ("f32[4]", "f32[4,4]"):
        module_of(f"x = {shape} parameter(0)\nROOT r = {shape} negate(x), sharding={{maximal devices=[1]1}}",
            header="HloModule m, num_partitions=2")  # fmt: skip
    for wrong in ("maximal devices=[1]<=[1]", "maximal devices=[2]0,1", "replicated devices=[1]1"):
        with pytest.raises(HloError, match="sharding has no tiles"):
            module_of(f"x = f32[4] parameter(0)\nROOT r = f32[4] negate(x), sharding={{{wrong}}}",
                header="HloModule m, num_partitions=2")  # fmt: skip
