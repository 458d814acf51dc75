"""Attributes that are written alike are read once: nothing may follow from that but speed."""

from __future__ import annotations

import pytest

from hlotool.ir import ParseError
from hlotool.text.parser import parse
from hlotool.text.printer import print_module


def _module(*lines: str) -> str:
    body = "\n".join(f"  {line}" for line in lines)
    adder = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"
    return f"HloModule m\n\n{adder}ENTRY main {{\n  x = f32[4,4] parameter(0)\n  z = f32[] constant(0)\n{body}\n}}\n"


_REDUCE = ', dimensions={1}, to_apply=add, metadata={op_name="sum" source_line=3}'


def test_equal_lines_give_equal_attributes() -> None:
    module = parse(_module(f"p = f32[4] reduce(x, z){_REDUCE}", f"q = f32[4] reduce(x, z){_REDUCE}",
                           "ROOT r = f32[4] add(p, q)"))  # fmt: skip
    first, second = [i for i in module.entry if i.opcode == "reduce"]
    assert first.attributes == second.attributes
    assert first.attributes is not second.attributes
    assert first.metadata == second.metadata
    assert print_module(parse(print_module(module))) == print_module(module)


def test_values_that_can_change_are_not_shared() -> None:
    tail = ', frontend_attributes={a="b"}'
    module = parse(_module(f"p = f32[4,4] negate(x){tail}", f"ROOT q = f32[4,4] negate(p){tail}"))
    first, second = [i for i in module.entry if i.opcode == "negate"]
    first.attributes["frontend_attributes"]["a"] = "c"
    assert second.attributes["frontend_attributes"] == {"a": "b"}


def test_bodies_in_place_are_not_shared() -> None:
    tail = ", dimensions={1}, to_apply={ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
    module = parse(_module(f"p = f32[4] reduce(x, z){tail}", f"q = f32[4] reduce(x, z){tail}",
                           "ROOT r = f32[4] add(p, q)"))  # fmt: skip
    first, second = [i.attributes["to_apply"] for i in module.entry if i.opcode == "reduce"]
    assert first is not second


def test_control_predecessors_are_read_each_time() -> None:
    tail = ", control-predecessors={x}"
    module = parse(_module(f"p = f32[4,4] negate(x){tail}", f"ROOT q = f32[4,4] negate(p){tail}"))
    assert all(len(i.control_predecessors) == 1 for i in module.entry if i.opcode == "negate")


def test_the_same_attributes_may_go_on_in_the_next_line() -> None:
    module = parse(_module(f"p = f32[4] reduce(x, z){_REDUCE}", f"q = f32[4] reduce(x, z){_REDUCE}",
                           ', sharding={replicated}', "ROOT r = f32[4] add(p, q)"))  # fmt: skip
    first, second = [i for i in module.entry if i.opcode == "reduce"]
    assert "sharding" not in first.attributes
    assert "sharding" in second.attributes


@pytest.mark.parametrize("tail", [", dimension={1}", ", dimensions={x}", ", dimensions={1}, dimensions={1}"])
def test_equal_errors_are_all_said(tail: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(
            _module(
                *(f"p{n} = f32[4] reduce(x, z), to_apply=add{tail}" for n in range(3)), "ROOT r = f32[4] add(p0, p1)"
            )
        )
    assert len({d.location.line for d in caught.value.diagnostics if d.location}) >= 3


def test_a_value_beside_a_brace_is_no_element() -> None:
    for literal in ("{1,2}3", "3{1,2}", "{1}2"):
        with pytest.raises(ParseError):
            parse(f"HloModule m\n\nENTRY e {{\n  ROOT c = s32[2] constant({literal})\n}}\n")
    with pytest.raises(ParseError):
        parse("HloModule m\n\nENTRY e {\n  ROOT c = s32[] constant(}1)\n}\n")
