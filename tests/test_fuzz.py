"""Fuzzing with a small budget, and the inputs of long runs that once failed."""

from __future__ import annotations

import gc
import time
from random import Random

import pytest
from fuzz import mutate
from fuzz.grammar import MAKERS, random_module, respell, sugar
from fuzz.properties import check, check_module, check_presets
from fuzz.seeds import seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hlotool.ir import ParseError
from hlotool.ir.opcodes import SPELLED
from hlotool.ir.verifier import verify
from hlotool.text.compare import difference
from hlotool.text.fingerprint import content_hash
from hlotool.text.parser import parse
from hlotool.text.presets import PRESETS
from hlotool.text.printer import print_module

# ---- mutations


def test_mutants_end_in_success_or_in_diagnostics() -> None:
    pool = seeds(corpus=1)
    ends, failures = mutate.run(pool, seed=1, first=0, count=2500)
    assert not failures, f"{failures[0].text!r}\n{failures[0].report}"
    assert min(ends["error"], ends["invalid"], ends["valid"]) > 50  # the fuzzer reaches all of the way


@pytest.mark.parametrize(
    "sharding",
    ["{mesh[a=2] [{a}]negate\n }", "{mesh[a=1,b=// x\n4], unreduced}", "{mesh[a=2], [{a:(1// x\n)2}]}",
     '{maximal_mesh[device_id=5], metadata={op_name="q"}}', '{mesh[a=2], [{a}], metadata={op_name="q"}}'],
)  # fmt: skip
def test_what_fuzzing_found_in_shardings(sharding: str) -> None:
    text = f"ENTRY e {{\n  x = f32[8] parameter(0), sharding={sharding}\n  ROOT y = f32[8] negate(x)\n}}\n"
    assert isinstance(mutate.attempt(1, text), str)


def test_mutants_are_reproducible() -> None:
    pool = seeds(corpus=0)
    assert pool == seeds(corpus=0)
    made = [mutate.mutant(pool, 7, number) for number in range(50)]
    assert made == [mutate.mutant(pool, 7, number) for number in range(50)]
    assert len(set(made)) > 40


def test_failures_are_noticed_and_minimised(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> str:
        if "dot" in text:
            raise IndexError("planted")
        return check(text)

    monkeypatch.setattr(mutate, "check", broken)
    pool = [text for text in seeds(corpus=0) if " dot(" in text]
    ends, failures = mutate.run(pool, seed=1, first=0, count=3)
    assert ends["failed"]
    assert mutate.minimise(failures[0], seconds=5).text == "dot"


def test_a_hang_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(text: str, file: str) -> None:
        while True:
            pass

    monkeypatch.setattr("fuzz.properties.parse", slow)
    monkeypatch.setattr("fuzz.properties.SECONDS", 0.05)
    failure = mutate.attempt(0, "")
    assert isinstance(failure, mutate.Failure)
    assert failure.signature.startswith("Hang")


@pytest.mark.parametrize(
    "text",
    [
        "acos-start()",
        "e=f32[]{1\n}",
        "f8e5m2[2]constant({infnan",
        'e{ROOT y=f32[]custom-call(),custom_call_target="",backend_config="{\n}"}',
        "e{f=f32[]dynamic-reshape()}",
        "e{p=s32[]parameter(0) o=f32[4]parameter(1) f{a=f32[]parameter(0)}",
        "e=(f32[],s2[4,0]{1,0})parameter-start()",
        "e=(f32[],s2[4,0]{1,0})constant-start()",
        "HloModule i\nStackFrames\ne{m=f32[]parameter(0)}",
        "e{\r\nY{",
        "e{i=pred[]constant({...})}",
        "e{t=(f32[2],s32[])constant({...})}",
        "e{x=f32[4]parameter(0)v=f32[4]parameter(1)r=(f32[4],f32[4],f32[4])"
        "batch-norm-training(x,v,v),epsilon=-nan,feature_index=0}",
        "e{s=(f32[4]{0},f32[4]{0})all-gather-start(),dimensions={0}}",
        "e{s=(f32[4]{0},f32[4]{0})collective-permute-start(),source_target_pairs={}}",
        "dot(f32[],f32[]),lhdims=",
        "f32[]ragged-dot(f32[],f32[])",
        "n{ROOT\nN",
        "HloModule t\n\nFileNames // x\n1 \"a\" /* y */\n\n2 \"b\"\ne{p=f32[]parameter(0)}",
        "(f32[2,0], s32[]) constant(({}, 1))",
        "f32[] custom-call(), custom_call_target=\"x\", literal=f32[2,0] {}, schedule=SCHEDULE_NONE",
        "m{p=f32[]parameter(0) q=f32[]pad(p,p),padding= // scalars have none\nROOT r=f32[]negate(q)\n}",
        "f32[1000000000000] constant({...})",
        "f32[1000000000000] constant(5)",
        "scan() dimensions=,num_s=,to_apply=n",
        "opaque[] custom-call(), custom_call_target=\"x\"",
        "m{p=f32[]parameter(0) q=f32[]pad(p,p),padding=\nROOT r=f32[]negate(q)\n}",
        "r{a=f32[]parameter(0)b=f32[]parameter(1)ROOT c=f32[]add(a,b)}e{x=f32[4]parameter(0)i=s32[1]parameter(1)"
        "u=f32[]parameter(2)ROOT s=f32[4]scatter(x,i,u),update_window_dims={},inserted_window_dims={0},"
        "scatter_dims_to_operand_dims={0},index_vector_dim=-8,to_apply=r}",
    ],
)  # fmt: skip
def test_inputs_that_once_failed(text: str) -> None:
    check(text)


# ---- depth, width and length

_DEEP = 100_000
_PRELUDE = "HloModule m\nENTRY e {\n  p = f32[2]{0} parameter(0)\n"


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("{", "}"), ("[", "]"), ("", "")])
@pytest.mark.parametrize(
    "form",
    [
        "add({0}p{1}, p)", "constant({0}1{1})", "constant({0}", "add(p, p), sharding={0}{1}", "{0}{1}",
        "add(p, p), metadata={0}{1}",
        "add(p, p), backend_config={0}{1}", "add(p, p), frontend_attributes={{a={0}{1}}}", "add(p, p), origin={0}",
        "add(p, p), control-predecessors={0}{1}", "reduce(p, p), to_apply={0}{1}", "add(p, p) /* {0} {1} */ // {0}",
        'add(p, p), metadata={{op_name="{0}{1}"}}', "all-reduce(p), replica_groups={{{0}{1}}}",
    ],
)  # fmt: skip
def test_deep_brackets(form: str, opening: str, closing: str) -> None:
    line = form.format(opening * _DEEP, closing * _DEEP)
    check(f"{_PRELUDE}  ROOT r = f32[2]{{0}} {line}\n}}\n")


@pytest.mark.parametrize(
    "shape", ["(" * _DEEP + "f32[2]" + ")" * _DEEP, "b(" * _DEEP + "f32[2]", "(f32[2], " * _DEEP, "f32[" * _DEEP]
)
def test_deep_shapes(shape: str) -> None:
    with pytest.raises(ParseError):
        parse(f"{_PRELUDE}  ROOT r = {shape} add(p, p)\n}}\n")


def test_deep_operands_and_bodies() -> None:
    for line in (
        "negate(" * _DEEP + "p" + ")" * _DEEP,
        "f32[2] call(p), to_apply="
        + "{ x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=" * _DEEP
        + "}" * _DEEP,
    ):
        with pytest.raises(ParseError):
            parse(f"{_PRELUDE}  ROOT r = {line}\n}}\n")


@pytest.mark.parametrize(
    "line",
    [
        'negate(p), metadata={op_name="' + "x/" * 5_000_000 + '"}',
        'negate(p), metadata={op_name="' + "x/" * 5_000_000,
        "negate(p), backend_config={" + '"x":[1,2],' * 1_000_000 + "}",
        "tuple(" + "p, " * 300_000 + "p)",
        "tuple(" + "p, " * 300_000 + "q)",
        "negate(p) /*" + "x" * 10_000_000,
        "r" * 10_000_000,
    ],
)
def test_long_lines(line: str) -> None:
    assert isinstance(mutate.attempt(0, f"{_PRELUDE}  ROOT r = {line}\n}}\n"), str)


def test_time_grows_with_the_length_only() -> None:
    def seconds(count: int) -> float:
        lines = [f"  a{n} = f32[2]{{0}} add({f'a{n - 1}' if n else 'p'}, p)\n" for n in range(count)]
        text = _PRELUDE + "".join(lines) + "}\n"
        start = time.process_time()
        module = parse(text)
        assert not verify(module)
        print_module(module)
        return time.process_time() - start

    gc.collect()
    gc.freeze()  # or a full collection goes through what other tests left, once the module is large enough for one
    try:
        small, large = (min(seconds(count) for _ in range(3)) for count in (5_000, 40_000))
    finally:
        gc.unfreeze()
    assert large < 8 * 3 * small


# ---- the grammar

_SOME = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
_RANDOM = st.integers(0, 2**32).map(Random)


def test_every_opcode_has_a_maker() -> None:
    assert sorted(MAKERS) == sorted(SPELLED)


@pytest.mark.parametrize("opcode", MAKERS)
def test_modules_of_one_opcode(opcode: str) -> None:
    for seed in range(3):
        module = random_module(Random(seed), [opcode, opcode])
        assert not (errors := verify(module)), errors[0].message
        check_presets(module, check_module(module))


@_SOME
@given(_RANDOM)
def test_valid_modules_read_back(rng: Random) -> None:
    module = random_module(rng)
    assert not (errors := verify(module)), errors[0].message
    again = check_module(module)
    check_presets(module, again)
    canonical = parse(PRESETS["canonical"](module))
    assert PRESETS["fingerprint"](module) == PRESETS["fingerprint"](canonical)
    assert content_hash(module) == content_hash(again)


@_SOME
@given(_RANDOM)
def test_spelling_makes_no_difference(rng: Random) -> None:
    text = print_module(random_module(rng))
    assert difference(parse(text), parse(respell(rng, text))) is None


@_SOME
@given(_RANDOM)
def test_short_spellings_of_asynchronous_operations(rng: Random) -> None:
    module = parse(sugar(rng))
    assert not (errors := verify(module)), errors[0].message
    check_module(module)
