"""The pass manager: pipeline text, running, instruments, decisions, limits, third-party passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool import plugins
from hlotool.analysis.decisions import Decision, DecisionLog
from hlotool.driver import optimise
from hlotool.harness.reproducer import crash_reproducer
from hlotool.ir import HloError, Module, VerificationError
from hlotool.passes import (
    PASSES,
    PIPELINES,
    Fixpoint,
    Pass,
    Pipeline,
    PipelineError,
    find_pass,
    parse_pipeline,
    pass_help,
    pass_names,
    pass_options,
    pipeline_text,
    run_pipeline,
)
from hlotool.passes.framework.instruments import ChangeLog, Statistics, StopAfter, VerifyEach
from hlotool.passes.framework.manager import PassCrash, Progress
from hlotool.passes.framework.pipeline import carried_pipeline, carry_pipeline
from hlotool.passes.framework.registry import WORKS_ON, deferred_pass, loaded_pass
from hlotool.passes.framework.select import only, without
from hlotool.passes.simplify.cse import CommonSubexpressionElimination
from hlotool.passes.simplify.dce import DeadCodeElimination
from hlotool.text.parser import parse
from hlotool.text.printer import print_module

TEXT = """
HloModule m

ENTRY main {
  x = f32[8] parameter(0)
  one = f32[] constant(1)
  a = f32[8] broadcast(one), dimensions={}
  b = f32[8] broadcast(one), dimensions={}
  y = f32[8] multiply(x, a)
  z = f32[8] multiply(x, b)
  unused = f32[8] negate(x)
  ROOT r = f32[8] add(y, z)
}
"""


@dataclass(frozen=True, slots=True)
class Options:
    """A pass with one option of each type."""

    name: ClassVar[str] = "options"
    flag: bool = False
    count_of_things: int = 3
    ratio: float = 0.5
    text: str = ""

    def run(self, module: Module, log: DecisionLog) -> bool:
        log.note("ran", module.entry.name, "nothing to do")
        return False


class FakeEntry:
    name, value, dist = "options", "somewhere:Options", None

    def __init__(self, loaded: object) -> None:
        self.loaded = loaded

    def load(self) -> object:
        if isinstance(self.loaded, Exception):
            raise self.loaded
        return self.loaded


@pytest.fixture
def options_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_entries", lambda what: {"options": [FakeEntry(Options)]})


def test_nested_pipeline_text() -> None:
    pipeline = parse_pipeline(" cse , fixpoint{limit=3}( dce,fixpoint(cse) ),dce ")
    assert str(pipeline) == "cse,fixpoint{limit=3}(dce,fixpoint(cse)),dce"
    assert [p.name for p in pipeline.passes()] == ["cse", "dce", "cse", "dce"]
    assert pipeline.steps[1] == Fixpoint((DeadCodeElimination(), Fixpoint((CommonSubexpressionElimination(),))), 3)


def test_empty_pipeline_changes_nothing() -> None:
    module = parse(TEXT)
    assert not run_pipeline(module, parse_pipeline(""))
    assert module.instruction_count() == 8


@pytest.mark.parametrize("name", [n for n in PIPELINES if n != "none"])
def test_named_pipelines_keep_their_name(name: str) -> None:
    pipeline = parse_pipeline(name)
    assert pipeline.name == name
    assert str(pipeline) == name
    assert str(parse_pipeline(f"{name},dce")) == f"{name},dce"


@pytest.mark.parametrize("name", list(PASSES))
def test_every_pass_is_described(name: str) -> None:
    pass_class = find_pass(name)
    assert pass_class.name == name
    assert pass_help(pass_class)[-1] in ".:"
    assert str(parse_pipeline(name)) == name
    for option in pass_options(pass_class).values():
        assert option.type in (bool, int, float, str)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("cse,dcee", 5, "did you mean dce"),
        ("cse,,dce", 5, "expected a pass or pipeline, found ','"),
        ("cse,", 5, "found the end"),
        ("fixpoint", 9, "expected '(' after fixpoint"),
        ("fixpoint(cse", 13, "expected ')'"),
        ("cse)", 4, "unexpected ')'"),
        ("call-inliner{max-instruction=3}", 14, "did you mean max-instructions"),
        ("call-inliner{max-instructions=lots}", 31, "takes a whole number, not 'lots'"),
        ("call-inliner{max-instructions}", 14, "needs a value"),
        ("call-inliner{max-instructions=1,max-instructions=2}", 33, "given twice"),
        ("call-inliner{max-instructions=1", 32, "expected '}'"),
        ("fixpoint{limit=x}(cse)", 16, "a whole number"),
        ("dce(cse)", 4, "unexpected '('"),
    ],
)
def test_errors_point_at_the_column(text: str, column: int, words: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text)
    assert caught.value.column == column
    assert words in caught.value.message
    assert caught.value.message.splitlines()[-1].index("^") == column + 1


def test_options_of_all_types(options_pass: None) -> None:
    pipeline = parse_pipeline('options{flag,count-of-things=-4,ratio=1e-3,text="a,b{\\"c\\"}"}')
    assert pipeline.steps == (Options(True, -4, 1e-3, 'a,b{"c"}'),)
    assert str(parse_pipeline("options{flag=false,count_of_things=3}")) == "options"


steps = st.deferred(
    lambda: st.one_of(
        st.sampled_from([DeadCodeElimination(), CommonSubexpressionElimination()]),
        st.builds(
            Options,
            st.booleans(),
            st.integers(-5, 5),
            st.floats(allow_nan=False),
            st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=6),
        ),
        st.builds(Fixpoint, st.lists(steps, max_size=2).map(tuple), st.integers(1, 30)),
    )
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=4))
def test_text_round_trips(found: list[object]) -> None:
    original = plugins._entries
    plugins._entries = lambda what: {"options": [FakeEntry(Options)]}  # type: ignore[assignment]
    try:
        pipeline = Pipeline(tuple(found))  # type: ignore[arg-type]
        assert parse_pipeline(str(pipeline)) == pipeline
    finally:
        plugins._entries = original


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='cse,dfixpont(){}=1" -', max_size=20))
def test_any_text_parses_or_is_explained(text: str) -> None:
    column, pipeline = 1, None
    try:
        pipeline = parse_pipeline(text)
    except PipelineError as error:
        column = error.column
    assert 1 <= column <= len(text) + 1
    assert pipeline is None or parse_pipeline(str(pipeline)) == pipeline


def test_installed_passes(options_pass: None) -> None:
    assert "options" in pass_names()
    log = DecisionLog()
    assert not run_pipeline(parse(TEXT), parse_pipeline("options"), log)
    noted = Decision("options", "note", "ran", ("main",), reason="nothing to do", origins=(("main",),))
    assert log.decisions == [noted]


@pytest.mark.parametrize("loaded", [ImportError("no such module"), int, DeadCodeElimination])
def test_broken_installed_pass(monkeypatch: pytest.MonkeyPatch, loaded: object) -> None:
    monkeypatch.setattr(plugins, "_entries", lambda what: {"options": [FakeEntry(loaded)]})
    with pytest.raises(HloError, match="options"):
        parse_pipeline("options")


def test_fixpoint_stops_when_nothing_changes() -> None:
    module, changes = parse(TEXT), ChangeLog()
    assert run_pipeline(module, parse_pipeline("fixpoint(cse,dce)"), instruments=[changes])
    # cse twice and dce once change something; then each must have been quiet once in a row
    assert [(name, changed) for name, changed, _ in changes.entries] == [
        ("cse", True), ("dce", True), ("cse", False), ("dce", False),
    ]  # fmt: skip
    assert module.instruction_count() == 5


def test_fixpoint_limit_is_noted() -> None:
    @dataclass(frozen=True, slots=True)
    class Restless:
        """Says it changed something."""

        name: ClassVar[str] = "restless"

        def run(self, module: Module, log: DecisionLog) -> bool:
            return True

    log, changes = DecisionLog(), ChangeLog()
    assert run_pipeline(parse(TEXT), Pipeline((Fixpoint((Restless(),), 4),)), log, [changes])
    assert [name for name, _, _ in changes.entries] == ["restless"] * 4
    assert [d.rule for d in log] == ["fixpoint-limit"]


def test_stop_after_and_selection() -> None:
    module, changes = parse(TEXT), ChangeLog()
    run_pipeline(module, parse_pipeline("dce,cse,dce"), instruments=[changes, StopAfter("cse")])
    assert [name for name, _, _ in changes.entries] == ["dce", "cse"]
    changes = ChangeLog()
    chosen = parse_pipeline("dce,fixpoint(cse,dce),fixpoint{limit=2}(dce),simplify")
    assert str(only(chosen, frozenset({"cse"}))).startswith("fixpoint(cse),fixpoint(cse)")
    assert str(without(chosen, frozenset({"dce"}))).startswith("fixpoint(cse),call-inliner")
    assert str(without(chosen, frozenset({"topk-decomposer"}))) == str(chosen)


def test_statistics() -> None:
    module = parse(TEXT)
    statistics = Statistics(module, lambda module: {"instructions": module.instruction_count()})
    run_pipeline(module, parse_pipeline("dce,cse,dce"), instruments=[statistics])
    assert [(r.name, r.changed) for r in statistics.runs] == [("dce", True), ("cse", True), ("dce", False)]
    assert statistics.runs[2].after == {"instructions": 5} == statistics.now
    assert statistics.runs[1].before["instructions"] == statistics.runs[0].after["instructions"] > 5


def test_a_run_can_go_on_from_anywhere() -> None:
    whole, log = parse(TEXT), DecisionLog()
    pipeline = parse_pipeline("fixpoint(cse,dce),simplify")

    class Positions:
        def __init__(self, progress: Progress) -> None:
            self.progress = progress
            self.seen: list[tuple[str, str]] = []

        def before(self, pass_: Pass, module: Module) -> bool:
            return True

        def after(self, pass_: Pass, module: Module, changed: bool, seconds: float) -> None:
            remaining = pipeline_text(self.progress.remaining, names=False)
            self.seen.append((print_module(module), remaining))

    progress = Progress()
    positions = Positions(progress)
    run_pipeline(whole, pipeline, log, [positions], progress)
    assert progress.runs == len(positions.seen) > 10
    assert positions.seen[0][1].startswith("dce,fixpoint(cse,dce),call-inliner,")
    assert positions.seen[1][1].startswith("fixpoint(cse,dce),call-inliner,")
    assert positions.seen[-1][1].startswith("fixpoint(")
    for text, remaining in positions.seen:
        module = parse(text)
        run_pipeline(module, parse_pipeline(remaining))
        assert print_module(module) == print_module(whole)


def test_pipelines_travel_with_modules() -> None:
    module = parse(TEXT)
    text = carry_pipeline(print_module(module), parse_pipeline('inline,fusion{never="a,b"}'))
    assert carried_pipeline(text) == (
        'call-inliner,flatten-call-graph,sharding-remover,map-inliner,tuple-simplifier,dce,fusion{never="a,b"}'
    )
    assert print_module(parse(text)) == print_module(module)
    assert carried_pipeline(print_module(module)) is None


def test_pipelines_with_names_of_ones_own() -> None:
    named = {"mine": "cse,yours", "yours": "dce"}
    assert str(parse_pipeline("mine", named)) == "mine"
    assert pipeline_text(parse_pipeline("mine,mine", named), names=False) == "cse,dce,cse,dce"
    with pytest.raises(PipelineError, match="'mine' contains itself"):
        parse_pipeline("mine", {"mine": "cse,yours", "yours": "fixpoint(mine)"})
    with pytest.raises(PipelineError, match="did you mean yours"):
        parse_pipeline("your", named)


def test_a_pass_that_raises_is_named() -> None:
    @dataclass(frozen=True, slots=True)
    class Broken:
        """Fails."""

        name: ClassVar[str] = "broken"

        def run(self, module: Module, log: DecisionLog) -> bool:
            raise IndexError("planted")

    pipeline = Pipeline((*parse_pipeline("cse,dce").steps, Broken()))
    with pytest.raises(PassCrash, match="pass broken failed") as caught:
        optimise(parse(TEXT), pipeline)
    crash = caught.value
    assert (crash.run, crash.pipeline, repr(crash.__cause__)) == (3, pipeline, "IndexError('planted')")
    text = crash_reproducer(crash)
    assert text.startswith("// hlotool ")
    assert "pass broken: IndexError: planted\n// pipeline: broken\nHloModule" in text
    expected = parse(TEXT)
    run_pipeline(expected, parse_pipeline("cse,dce"))
    assert print_module(parse(text)) == print_module(expected)


def test_verification_names_the_pass() -> None:
    def refuse(module: Module) -> None:
        raise VerificationError("the root is missing")

    with pytest.raises(PassCrash, match="pass cse failed") as caught:
        run_pipeline(parse(TEXT), parse_pipeline("cse"), instruments=[VerifyEach(refuse)])
    assert isinstance(caught.value.__cause__, VerificationError)
    assert str(caught.value.__cause__) == "after pass cse: the root is missing"
    run_pipeline(parse(TEXT.replace("unused", "y2")), parse_pipeline("none"), instruments=[VerifyEach(refuse)])


@pytest.mark.parametrize("limit", range(5))
def test_rewrite_limit(limit: int) -> None:
    module, log = parse(TEXT), DecisionLog(limit=limit)
    run_pipeline(module, parse_pipeline("fixpoint(cse,dce)"), log)
    expected = min(limit, 3)  # broadcast and multiply merged, negate removed
    assert log.rewrites == expected
    assert module.instruction_count() == 8 - expected


def test_decisions_read_well() -> None:
    log = DecisionLog()
    run_pipeline(parse(TEXT), parse_pipeline("cse,dce"), log)
    assert [str(d) for d in log] == [
        "cse: rewrite same (HLO4053): b -> a",
        "cse: rewrite same (HLO4053): z -> y",
        "dce: rewrite dead (HLO4050): unused: nothing reads it",
    ]
    assert log.counts() == {("cse", "same"): 2, ("dce", "dead"): 1}


@pytest.mark.parametrize("name", WORKS_ON)
def test_passes_that_are_loaded_late_are_what_the_registry_says(name: str) -> None:
    late, pass_class = deferred_pass(name), find_pass(name)
    assert (late.name, late.opcodes) == (pass_class.name, pass_class.opcodes)  # type: ignore[attr-defined]
    assert not {"budget", "drops_roundings", "changes_program"} & vars(pass_class).keys()
    assert loaded_pass(late()) == pass_class()
    assert pipeline_text(parse_pipeline(name)) == pipeline_text(pass_class()) == name
    assert parse_pipeline(name) == parse_pipeline(f" {name} ")
