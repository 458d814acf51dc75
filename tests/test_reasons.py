"""Decisions: their codes and pages, why instructions are fused or not, and where they come from."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Run

from hlotool.analysis.decision_codes import KINDS, DecisionKind, code_of, find_kind
from hlotool.analysis.decisions import DecisionLog
from hlotool.driver import optimise
from hlotool.inspect.reasons import Compilation, explain_fusion, explain_instruction
from hlotool.ir import InputError
from hlotool.ir.verifier import check
from hlotool.text.codes import CATALOGUE
from hlotool.text.load import load
from hlotool.text.parser import parse

SAMPLES = ROOT / "samples"
LOOPS = "simplify,fusion,multi-output-fusion"
EXAMPLES = [kind for kind in KINDS.values() if kind.example]


def compiled(text: str | Path, pipeline: str = "default") -> Compilation:
    module, log = load(text) if isinstance(text, Path) else parse(text), DecisionLog()
    return Compilation(module, optimise(module, pipeline, log), tuple(log))


# ---- codes


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.code)
def test_examples_show_the_decision(kind: DecisionKind) -> None:
    module, log = parse(kind.example), DecisionLog()
    check(module)
    optimise(module, kind.pipeline, log)
    assert kind.code in {decision.code for decision in log}


def test_kinds_are_complete() -> None:
    assert len({(k.pass_name, k.action, k.rule) for k in KINDS.values()}) == len(KINDS)
    assert len({kind.title for kind in KINDS.values()}) == len(KINDS)
    assert all(kind.meaning.endswith(".") and kind.title for kind in KINDS.values())
    assert not set(KINDS) & set(CATALOGUE)
    assert {"4010", "4012", "4014", "4030"} <= {kind.code[3:] for kind in EXAMPLES}


def logged() -> Iterator[tuple[str, str, str, str]]:
    """(file, pass, action, rule) of everything that passes record under a name of their own."""
    for path in sorted((ROOT / "hlotool" / "passes").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [
            node.value.value
            for node in ast.walk(tree)
            if isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == "name"
            and isinstance(node.value, ast.Constant)
        ]
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Attribute(owner, "rewrite" | "refuse" | "note" as action), [ast.Constant(rule), *_]):
                    recorded = ast.unparse(owner) in ("log", "self.log")
                case ast.Call(ast.Name("expand_each"), [_, _, _, _, ast.Constant(rule), *_]):
                    recorded, action = True, "rewrite"
                case _:
                    recorded = False
            if recorded:
                for name in names or ["*"]:
                    yield path.name, name, action, rule


def test_every_decision_of_a_pass_has_a_page() -> None:
    found: dict[tuple[str, str, str], set[str]] = {}
    for file, name, action, rule in logged():
        found.setdefault((file, action, rule), set()).add(code_of(name, action, rule))
    assert len(found) > 50
    missing = [place for place, codes in found.items() if codes == {"HLO4000"}]
    assert missing == [], "add rows to hlotool/analysis/decision_codes.py"


def test_obstacles_of_fusions_have_pages() -> None:
    source = (ROOT / "hlotool" / "passes" / "fuse" / "fusion.py").read_text(encoding="utf-8")
    rules = {
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Obstacle"
        and isinstance(node.args[0], ast.Constant)
    }  # fmt: skip
    assert len(rules) > 12
    assert [rule for rule in rules if code_of("fusion", "refuse", rule) == "HLO4000"] == []


@pytest.mark.parametrize("text", ["HLO4012", "hlo4012", "4012"])
def test_codes_are_found_however_they_are_written(text: str) -> None:
    kind = find_kind(text)
    assert kind is not None
    assert kind.rule == "repeated-work"
    assert find_kind("4999") is None


def test_decisions_of_others_have_a_code() -> None:
    log = DecisionLog()
    log.pass_name = "mine"
    log.note("special", "x", "because")
    assert log.decisions[0].code == "HLO4000"
    log.pass_name = "algebraic-simplifier"
    log.rewrite("any-rule", "x", "y")
    assert log.decisions[1].code == "HLO4001"


# ---- why fused, or not


def test_fused() -> None:
    answer = explain_fusion(compiled(SAMPLES / "lstm_cell.hlo"), "both", "gates")
    assert answer.kernel is not None
    assert {"both", "gates"} <= set(answer.kernel.origins)
    assert [d.code for d in answer.decisions] == ["HLO4033"]


def test_merged_kernels_are_fused() -> None:
    answer = explain_fusion(compiled(SAMPLES / "lstm_cell.hlo", LOOPS), "new_c", "new_h")
    assert answer.kernel is not None
    assert answer.decisions[-1].code == "HLO4030"


@pytest.mark.parametrize("code", ["HLO4011", "HLO4012", "HLO4013", "HLO4015", "HLO4016", "HLO4022", "HLO4023"])
def test_refusals_have_their_code(code: str) -> None:
    kind = KINDS[code]
    found = compiled(kind.example, kind.pipeline)
    refused = next(d for d in found.decisions if d.code == code)
    answer = explain_fusion(found, *refused.before)
    assert answer.kernel is None
    assert code in {d.code for hop in answer.hops for d in hop.decisions}


def test_numbers_are_given() -> None:
    kind = KINDS["HLO4012"]
    answer = explain_fusion(compiled(kind.example, kind.pipeline), "t", "y")
    assert dict(answer.hops[0].decisions[0].numbers) == {"times": 64, "limit": 1}


def test_the_way_between_distant_instructions() -> None:
    answer = explain_fusion(compiled(SAMPLES / "lstm_cell.hlo", LOOPS), "from_x", "new_h")
    assert len(answer.hops) == 2
    assert answer.hops[0].producer.name == "from_x"
    assert answer.hops[0].decisions[0].code == "HLO4011"


def test_strangers_were_not_considered() -> None:
    answer = explain_fusion(compiled(SAMPLES / "attention.hlo"), "q", "v")
    assert answer.kernel is None
    assert "not considered together" in answer.reason


def test_what_is_no_more() -> None:
    text = "HloModule m\nENTRY main {\n x = f32[8] parameter(0)\n dead = f32[8] tanh(x)\n ROOT y = f32[8] abs(x)\n}"
    answer = explain_fusion(compiled(text), "dead", "y")
    assert "simplified away" in answer.reason
    assert answer.decisions[-1].code == "HLO4050"


# ---- blame


def test_what_a_fusion_was_made_from() -> None:
    found = compiled(SAMPLES / "lstm_cell.hlo", LOOPS)
    kernel = next(i for i in found.result.entry if "new_h" in i.origins)
    blame = explain_instruction(found, kernel.name)
    assert {"new_h", "new_c", "gate_i"} <= {i.name for i in blame.sources}
    assert [d.code for d in blame.rewrites][-2:] == ["HLO4010", "HLO4030"]
    assert kernel in blame.results
    found = compiled(SAMPLES / "lstm_cell.hlo")
    kernel = next(i for i in found.result.entry if "new_h" in i.origins)
    assert "from_h" in kernel.origins
    codes = [d.code for d in explain_instruction(found, kernel.name).rewrites]
    assert codes[-2:] == ["HLO4033", "HLO4033"]
    assert {"HLO4010", "HLO4030"} < set(codes)


def test_what_became_of_an_instruction() -> None:
    found = compiled(SAMPLES / "attention.hlo")
    blame = explain_instruction(found, "powers")
    assert [i.name for i in blame.sources] == ["powers"]
    assert [i.opcode for i in blame.results] == ["fusion"]
    assert "HLO4010" in {d.code for d in blame.rewrites}
    with pytest.raises(InputError, match="did you mean"):
        explain_instruction(found, "power")


# ---- the command


def test_explain_prints_a_decision(hlotool: Run) -> None:
    done = hlotool("explain", "HLO4012")
    assert done.returncode == 0
    assert done.stdout.startswith("HLO4012: not fused: duplicate work  (pass fusion, repeated-work)")
    assert "Example" in done.stdout


def test_explain_fusion_says_why(hlotool: Run, tmp_path: Path) -> None:
    kind = KINDS["HLO4012"]
    (tmp_path / "x.hlo").write_text(kind.example)
    done = hlotool("explain", "fusion", "x.hlo", "t", "y", "-p", "fusion")
    words = "not fused: HLO4012 duplicate work: each element would be computed 64 times (64× > 1×)"
    assert done.stdout.startswith(words)
    data = json.loads(hlotool("explain", "fusion", "x.hlo", "t", "y", "-p", "fusion", "--format", "json").stdout)
    assert (data["fused"], data["hops"][0]["decisions"][0]["code"]) == (False, "HLO4012")
    done = hlotool("explain", "fusion", SAMPLES / "lstm_cell.hlo", "both", "gates")
    assert done.stdout.startswith("fused: HLO4033 in add_multiply_fusion")


def test_explain_an_instruction(hlotool: Run) -> None:
    done = hlotool("explain", "powers", "--file", SAMPLES / "attention.hlo")
    assert done.returncode == 0
    assert "attention.hlo:44: powers = f32[4,64,64] exponential(shifted)" in done.stdout
    assert "HLO4010 fusion, fuse" in done.stdout
    data = json.loads(hlotool("explain", "powers", "--file", SAMPLES / "attention.hlo", "--format", "json").stdout)
    assert data["sources"][0]["line"] == 44


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["fusion", "x"], 2),
        (["a", "b", "--file", "x"], 2),
        (["nonsense"], 2),
        (["power", "--file", SAMPLES / "attention.hlo"], 3),
    ],
)
def test_mistakes(hlotool: Run, arguments: list[object], code: int) -> None:
    done = hlotool("explain", *arguments)
    assert done.returncode == code
    assert done.stderr
