"""Texts that are long, deep or odd end in a module or in a diagnostic."""

from __future__ import annotations

import pytest
from fuzz.properties import SECONDS, hang_after

from hlotool.ir import HloError
from hlotool.ir.verifier import verify
from hlotool.text.parser import parse

_DEEP = 100_000
_LONG = 10_000_000


def entry(*lines: str) -> str:
    return "\n".join(["HloModule m", "", "ENTRY main {", *lines, "}", ""])


X = "x = f32[] parameter(0)"
DEEP = {
    "operands in parentheses": entry(X, f"ROOT y = f32[] negate({'(' * _DEEP}x{')' * _DEEP})"),
    "nested operands": entry(X, f"ROOT y = f32[] {'negate(' * _DEEP}x{')' * _DEEP}"),
    "tuple shapes": entry(f"ROOT x = {'(' * _DEEP}f32[]{')' * _DEEP} parameter(0)"),
    "open tuple shapes": entry(f"ROOT x = {'(' * _DEEP}"),
    "buffer shapes": entry(f"ROOT x = {'b(' * _DEEP}f32[]{')' * _DEEP} parameter(0)"),
    "literals": entry(f"ROOT x = f32[2] constant({'{' * _DEEP}1{'}' * _DEEP})"),
    "computations": entry(X, "ROOT y = f32[] call(x), to_apply=" + "{ p = f32[] call(p), to_apply=" * _DEEP),
    "shardings": entry(f"ROOT x = f32[] parameter(0), sharding={'{' * _DEEP}{'}' * _DEEP}"),
    "backend configurations": entry(f"ROOT x = f32[] parameter(0), backend_config={'{' * _DEEP}{'}' * _DEEP}"),
    "braces": "{" * _DEEP,
    "comments": "/*" * _DEEP,
}
LONG = {
    "string": entry(f'ROOT x = f32[] parameter(0), metadata={{op_name="{"a" * _LONG}"}}'),
    "open string": entry(f'ROOT x = f32[] parameter(0), metadata={{op_name="{"a" * _LONG}'),
    "name": entry(f"ROOT {'a' * _LONG} = f32[] parameter(0)"),
    "undefined name": entry(f"ROOT x = f32[] negate({'a' * _LONG})"),
    "digits": entry(f"ROOT x = f32[{'9' * _LONG}] parameter(0)"),
    "blanks": entry(X, f"y {' ' * _LONG} f32[] negate(x)"),
    "slashes": entry(X, f"y {'/' * _LONG}"),
    "comments": entry(X, f"y {'/**/' * (_LONG // 4)} f32[] negate(x)"),
}
ODD = {  # a pattern that backtracks takes years for these
    "blanks": entry(X, f"y{' ' * 60}f32[] negate(x)"),
    "slashes": entry(X, f"y {'/' * 60}", "f32[] negate(x)"),
    "comments": entry(X, f"y {'/**/' * 60} f32[] negate(x)"),
    "blanks in a type": entry(X, f"y = f32{' ' * 60}negate(x)"),
}
WIDE = {
    "a tuple of many": entry(X, f"ROOT t = ({', '.join(['f32[]'] * 30_000)}) tuple({', '.join(['x'] * 30_000)})"),
    "operands without names": entry(X, f"ROOT t = f32[30000] concatenate({', '.join(['negate(x)'] * 30_000)})"),
    "control predecessors that come later": entry(
        X,
        *(f"a{n} = f32[] negate(x), control-predecessors={{a{n + 1}}}" for n in range(10_000)),
        "a10000 = f32[] abs(x)",
    ),
    "aliases": f"HloModule m, input_output_alias={{ {', '.join(f'{{{n}}}: ({n}, {{}})' for n in range(10_000))} }}\n\n"
    + entry(
        *(f"p{n} = f32[] parameter({n})" for n in range(10_000)),
        f"ROOT t = ({', '.join(['f32[]'] * 10_000)}) tuple({', '.join(f'p{n}' for n in range(10_000))})",
    ).removeprefix("HloModule m\n"),
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [pytest.param(text, id=f"{group}: {name}") for group, texts in
     (("deep", DEEP), ("long", LONG), ("odd", ODD), ("wide", WIDE)) for name, text in texts.items()],
)  # fmt: skip
def test_ends(text: str) -> None:
    with hang_after(SECONDS):
        try:
            verify(parse(text))
        except HloError as error:
            assert error.diagnostics[0].code != "HLO0990"  # noqa: PT017
