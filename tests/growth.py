"""Modules of any size, each of one kind, and what compiling them costs: ``python tests/growth.py [KIND[:N]...]``.

Prints for every pass and every stage the seconds of processor time for N and for 2N, where twice as large takes more
than twice as long first; what takes less than a hundredth of a second is left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

from hlotool.codegen.machine import host
from hlotool.codegen.program import build
from hlotool.driver import optimise
from hlotool.ir import Module
from hlotool.ir.verifier import check
from hlotool.passes.framework.instruments import Statistics
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.steps import Pipeline
from hlotool.runtime.compile import compile_units
from hlotool.text.parser import parse

__all__ = ["KINDS", "stages"]

_ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


def _module(lines: Sequence[str], root: str, called: str = "", header: str = "HloModule m") -> str:
    body = "\n".join(lines)
    return f"{header}\n\n{called}ENTRY e {{\n{body}\nROOT {root}\n}}\n"


def _names(letter: str, n: int, start: int = 0) -> str:
    return ", ".join(f"{letter}{i}" for i in range(start, start + n))


def _parameters(n: int, shape: str = "f32[4]") -> list[str]:
    return [f"p{i} = {shape} parameter({i})" for i in range(n)]


def _tuple(n: int, shape: str = "f32[4]") -> str:
    return f"({', '.join([shape] * n)})"


def _chain(n: int, link: Callable[[int, str], str], start: str, first: Sequence[str], called: str = "") -> str:
    """`n` links, each of which reads the one before it; the last of them is negated."""
    lines, value = [*first], start
    for i in range(n):
        lines.append(link(i, value))
        value = f"v{i}"
    shape = lines[-1].rpartition(f"{value} = ")[2].partition(" ")[0]
    return _module(lines, f"last = {shape} negate({value})", called)


def _constants_added(n: int) -> list[str]:
    return ["x = f32[4] parameter(0)"] + [
        f"c{i} = f32[] constant({i}) b{i} = f32[4] broadcast(c{i}), dimensions={{}} a{i} = f32[4] add(x, b{i})"
        for i in range(n)
    ]


def concatenate_parameters(n: int) -> str:
    return _module(_parameters(n), f"c = f32[{4 * n}] concatenate({_names('p', n)}), dimensions={{0}}")


def concatenate_computed(n: int) -> str:
    return _module(_constants_added(n), f"c = f32[{4 * n}] concatenate({_names('a', n)}), dimensions={{0}}")


def concatenate_columns(n: int) -> str:
    return _module(_parameters(n, "f32[4,2]"), f"c = f32[4,{2 * n}] concatenate({_names('p', n)}), dimensions={{1}}")


def results(n: int) -> str:
    return _module(_constants_added(n), f"t = {_tuple(n)} tuple({_names('a', n)})")


def results_that_are_one_parameter(n: int) -> str:
    return _module(["x = f32[4] parameter(0)"], f"t = {_tuple(n)} tuple({', '.join(['x'] * n)})")


def parameters_added(n: int) -> str:
    return _chain(n, lambda i, v: f"v{i} = f32[4] add({v}, p{i})", "p0", _parameters(n))


def products(n: int) -> str:
    by_rows = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return _chain(
        n, lambda i, v: f"d{i} = f32[8,8] dot({v}, {v}), {by_rows}\nv{i} = f32[8,8] tanh(d{i})", "x",
        ["x = f32[8,8] parameter(0)"],
    )  # fmt: skip


def kernels_of_different_shapes(n: int) -> str:
    lines = ["x = f32[4000] parameter(0)"]
    for i in range(n):
        shape, start = f"f32[{100 + i}]", i % 400
        lines.append(f"s{i} = {shape} slice(x), slice={{[{start}:{start + 100 + i}]}}")
        lines.append(f"t{i} = {shape} tanh(s{i})\nr{i} = {shape} reverse(t{i}), dimensions={{0}}")
    shapes = ", ".join(f"f32[{100 + i}]" for i in range(n))
    return _module(lines, f"t = ({shapes}) tuple({_names('r', n)})")


_CHEAP = ("add", "multiply", "subtract", "maximum")


def chain(n: int) -> str:
    first = ["x = f32[64] parameter(0)", "y = f32[64] parameter(1)"]
    return _chain(n, lambda i, v: f"v{i} = f32[64] {_CHEAP[i % 4]}({v}, y)", "x", first)


def transcendental_chain(n: int) -> str:
    names = ("sine", "cosine", "tanh", "exponential")
    return _chain(n, lambda i, v: f"v{i} = f32[64] {names[i % 4]}({v})", "x", ["x = f32[64] parameter(0)"])


def scalar_chain(n: int) -> str:
    return _chain(n, lambda i, v: f"v{i} = f32[] {_CHEAP[i % 4]}({v}, x)", "x", ["x = f32[] parameter(0)"])


def deep_graph(n: int) -> str:
    """Every value is read twice: there are two to the power of `n` paths."""
    link = "a{i} = f32[64] add({v}, {v})\nv{i} = f32[64] multiply(a{i}, {v})"
    return _chain(n, lambda i, v: link.format(i=i, v=v), "x", ["x = f32[64] parameter(0)"])


def deep_wide_graph(n: int) -> str:
    """Layers of four values, each of which reads two of the layer before."""
    lines = [f"v0_{k} = f32[64] parameter({k})" for k in range(4)]
    for i in range(n):
        for k in range(4):
            lines.append(f"v{i + 1}_{k} = f32[64] {_CHEAP[k]}(v{i}_{k}, v{i}_{(k + 1) % 4})")
    return _module(lines, f"t = {_tuple(4, 'f32[64]')} tuple({', '.join(f'v{n}_{k}' for k in range(4))})")


def deep_graph_of_sines(n: int) -> str:
    """The same with values that are too dear to compute twice."""
    link = "s{i} = f32[64] sine({v})\nr{i} = f32[64] reverse(s{i}), dimensions={{0}}\nv{i} = f32[64] add(r{i}, s{i})"
    return _chain(n, lambda i, v: link.format(i=i, v=v), "x", ["x = f32[64] parameter(0)"])


def deep_graph_of_reversals(n: int) -> str:
    link = "r{i} = f32[64] reverse({v}), dimensions={{0}}\nv{i} = f32[64] add(r{i}, {v})"
    return _chain(n, lambda i, v: link.format(i=i, v=v), "x", ["x = f32[64] parameter(0)"])


def sort_of_many_operands(n: int) -> str:
    lines = [f"l{i} = f32[] parameter({2 * i}) r{i} = f32[] parameter({2 * i + 1})" for i in range(n)]
    body = "\n".join(lines)
    less = f"less {{\n{body}\nROOT c = pred[] compare(l0, r0), direction=LT\n}}\n"
    root = f"s = {_tuple(n, 'f32[64]')} sort({_names('p', n)}), dimensions={{0}}, to_apply=less"
    return _module(_parameters(n, "f32[64]"), root, less)


def _state_loop(n: int, turned: int) -> str:
    """A loop whose state has `n` arrays, each turned on by so many places in a trip."""
    state = f"(s32[], {', '.join(['f32[4]'] * n)})"
    steps = "".join(f"g{k} = f32[4] get-tuple-element(p), index={k + 1}\na{k} = f32[4] sine(g{k})\n" for k in range(n))
    after = ", ".join(f"a{(k + turned) % n}" for k in range(n))
    counter = f"p = {state} parameter(0)\ni = s32[] get-tuple-element(p), index=0\n"
    body = f"body {{\n{counter}one = s32[] constant(1)\nj = s32[] add(i, one)\n{steps}"
    body += f"ROOT r = {state} tuple(j, {after})\n}}\n"
    condition = f"condition {{\n{counter}n = s32[] constant(5)\nROOT c = pred[] compare(i, n), direction=LT\n}}\n"
    lines = ["z = s32[] constant(0)", *_parameters(n), f"t = {state} tuple(z, {_names('p', n)})"]
    return _module(lines, f"w = {state} while(t), condition=condition, body=body", body + condition)


def loop_of_a_large_state(n: int) -> str:
    return _state_loop(n, 0)


def loop_that_turns_its_state(n: int) -> str:
    return _state_loop(n, 1)


def loops_in_a_row(n: int) -> str:
    state = "(s32[], f32[8])"
    parts, lines, value = [], ["x = f32[8] parameter(0)", "z = s32[] constant(0)"], "x"
    for i in range(n):
        counter = f"p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0"
        step = "x = f32[8] get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one)"
        parts.append(f"b{i} {{ {counter} {step} y = f32[8] sine(x) ROOT t = {state} tuple(j, y) }}\n")
        parts.append(f"c{i} {{ {counter} n = s32[] constant(100) ROOT c = pred[] compare(i, n), direction=LT }}\n")
        lines.append(f"s{i} = {state} tuple(z, {value})\nw{i} = {state} while(s{i}), condition=c{i}, body=b{i}")
        value = f"y{i}"
        lines.append(f"{value} = f32[8] get-tuple-element(w{i}), index=1")
    return _module(lines, f"r = f32[8] negate({value})", "".join(parts))


def _sums(n: int) -> str:
    pair = "l{i} = f32[] parameter({i}) r{i} = f32[] parameter({j}) s{i} = f32[] add(l{i}, r{i})"
    body = "\n".join(pair.format(i=i, j=i + n) for i in range(n))
    return f"sums {{\n{body}\nROOT t = {_tuple(n, 'f32[]')} tuple({_names('s', n)})\n}}\n"


def reduce_of_many_operands(n: int) -> str:
    lines = ["z = f32[] constant(0)", *_parameters(n, "f32[64]")]
    starts = ", ".join(["z"] * n)
    root = f"r = {_tuple(n, 'f32[]')} reduce({_names('p', n)}, {starts}), dimensions={{0}}, to_apply=sums"
    return _module(lines, root, _sums(n))


def scatter_of_many_operands(n: int) -> str:
    lines = [*_parameters(n, "f32[64]"), f"ix = s32[8,1] parameter({n})"]
    lines += [f"u{i} = f32[8] parameter({i + n + 1})" for i in range(n)]
    where = "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
    root = f"s = {_tuple(n, 'f32[64]')} scatter({_names('p', n)}, ix, {_names('u', n)}), {where}, to_apply=sums"
    return _module(lines, root, _sums(n))


def selects(n: int) -> str:
    link = (
        "c{i} = pred[64] compare({v}, y), direction=LT\nk{i} = f32[] constant({i}) "
        "b{i} = f32[64] broadcast(k{i}), dimensions={{}}\nv{i} = f32[64] select(c{i}, b{i}, {v})"
    )
    first = ["x = f32[64] parameter(0)", "y = f32[64] parameter(1)"]
    return _chain(n, lambda i, v: link.format(i=i, v=v), "x", first)


def updates(n: int) -> str:
    link = "i{i} = s32[] constant({at})\nv{i} = f32[1000] dynamic-update-slice({v}, y, i{i})"
    first = ["x = f32[1000] parameter(0)", "y = f32[4] parameter(1)"]
    return _chain(n, lambda i, v: link.format(i=i, v=v, at=i % 900), "x", first)


def pads(n: int) -> str:
    link = "p{i} = f32[{size}] pad({v}, z), padding=1_0\nv{i} = f32[{size}] tanh(p{i})"
    first = ["x = f32[8] parameter(0)", "z = f32[] constant(0)"]
    return _chain(n, lambda i, v: link.format(i=i, v=v, size=9 + i), "x", first)


def all_reduce_of_many_operands(n: int) -> str:
    root = f"s = {_tuple(n)} all-reduce({_names('p', n)}), replica_groups={{}}, to_apply=add"
    return _module(_parameters(n), root, _ADD, "HloModule m, replica_count=2")


def all_reduces(n: int) -> str:
    link = "v{i} = f32[4] all-reduce({v}), replica_groups={{}}, to_apply=add"
    text = _chain(n, lambda i, v: link.format(i=i, v=v), "x", ["x = f32[4] parameter(0)"], _ADD)
    return text.replace("HloModule m", "HloModule m, replica_count=2")


def array_constants(n: int) -> str:
    link = "k{i} = f32[4] constant({{{i}, 1, 2, {more}}})\nv{i} = f32[4] add({v}, k{i})"
    return _chain(n, lambda i, v: link.format(i=i, v=v, more=3 * i), "x", ["x = f32[4] parameter(0)"])


def large_constant(n: int) -> str:
    size, values = 100 * n, ", ".join(str(i % 97) for i in range(100 * n))
    lines = [f"x = f32[{size}] parameter(0)", f"c = f32[{size}] constant({{{values}}})"]
    return _module(lines, f"a = f32[{size}] add(x, c)")


def conditionals(n: int) -> str:
    branches = "".join(
        f"t{i} {{ p = f32[8] parameter(0) ROOT r = f32[8] tanh(p) }}\n"
        f"u{i} {{ p = f32[8] parameter(0) ROOT r = f32[8] sine(p) }}\n"
        for i in range(n)
    )
    link = "v{i} = f32[8] conditional(c, {v}, {v}), true_computation=t{i}, false_computation=u{i}"
    first = ["x = f32[8] parameter(0)", "c = pred[] parameter(1)"]
    return _chain(n, lambda i, v: link.format(i=i, v=v), "x", first, branches)


def conditional_of_many_branches(n: int) -> str:
    step = "p = f32[8] parameter(0) k = f32[] constant({i}) b = f32[8] broadcast(k), dimensions={{}}"
    ends = " a = f32[8] add(p, b) ROOT r = f32[8] tanh(a) }\n"
    branches = "".join(f"t{i} {{ {step.format(i=i)}{ends}" for i in range(n))
    lines = ["x = f32[8] parameter(0)", "c = s32[] parameter(1)"]
    operands = ", ".join(["x"] * n)
    root = f"d = f32[8] conditional(c, {operands}), branch_computations={{{_names('t', n)}}}"
    return _module(lines, root, branches)


def conditionals_that_share_a_branch(n: int) -> str:
    branches = ["t0 { p = f32[8] parameter(0) ROOT r = f32[8] tanh(p) }\n"]
    for i in range(1, n):
        inner = f"ROOT r = f32[8] conditional(c, p, p), true_computation=t{i - 1}, false_computation=t{i - 1} }}\n"
        branches.append(
            f"t{i} {{ p = f32[8] parameter(0) z = f32[1] slice(p), slice={{[0:1]}} y = f32[] reshape(z) "
            f"k = f32[] constant({i}) c = pred[] compare(y, k), direction=LT {inner}"
        )
    return _module(["x = f32[8] parameter(0)"], f"d = f32[8] call(x), to_apply=t{n - 1}", "".join(branches))


def slices(n: int) -> str:
    lines = [f"x = f32[{4 * n}] parameter(0)"]
    lines += [f"s{i} = f32[4] slice(x), slice={{[{4 * i}:{4 * i + 4}]}}\nt{i} = f32[4] tanh(s{i})" for i in range(n)]
    return _module(lines, f"c = {_tuple(n)} tuple({_names('t', n)})")


def large_fusion(n: int) -> str:
    lines = ["x = f32[64] parameter(0)", "y = f32[64] parameter(1)"]
    body = chain(n).partition("ENTRY e {")[2]
    return _module(lines, "r = f32[64] fusion(x, y), kind=kLoop, calls=f", f"f {{{body}")


def _call_tree(n: int, shape: str) -> str:
    """Computations of which each calls the one before it twice."""
    arguments = f"p = {shape} parameter(0) q = {shape} parameter(1)"
    calls = "x = {s} call(p, q), to_apply=c{i}\ny = {s} call(q, x), to_apply=c{i}\nROOT r = {s} add(x, y)"
    tree = [f"c0 {{ {arguments} ROOT r = {shape} add(p, q) }}\n"]
    tree += [f"c{i + 1} {{ {arguments} {calls.format(s=shape, i=i)} }}\n" for i in range(n)]
    return "".join(tree)


def call_tree(n: int) -> str:
    lines = ["x = f32[64] parameter(0)", "y = f32[64] parameter(1)"]
    return _module(lines, f"r = f32[64] call(x, y), to_apply=c{n}", _call_tree(n, "f32[64]"))


def call_tree_in_a_reducer(n: int) -> str:
    lines = ["x = f32[64,8] parameter(0)", "z = f32[] constant(0)"]
    return _module(lines, f"r = f32[64] reduce(x, z), dimensions={{1}}, to_apply=c{n}", _call_tree(n, "f32[]"))


KINDS: dict[str, Callable[[int], str]] = {
    name: value for name, value in list(globals().items()) if callable(value) and value.__module__ == __name__
    and not name.startswith("_")
}  # fmt: skip


def stages(module: Module) -> dict[str, Callable[[], object]]:
    """What compiling a module does, to be called in this order."""
    steps = Pipeline((parse_pipeline("default"), parse_pipeline("lowering")))
    made: dict[str, Module] = {}

    def optimised() -> None:
        made["optimised"] = optimise(module, steps)

    return {"verify": lambda: check(module), "optimise": optimised, "build": lambda: build(made["optimised"], host())}


def measure(text: str) -> dict[str, float]:
    """Seconds of processor time of every stage and pass."""
    found: Counter[str] = Counter()

    def timed(name: str, work: Callable[[], object]) -> object:
        start = time.process_time()
        result = work()
        found[name] = time.process_time() - start
        return result

    module = parse(text)
    timed("parse", lambda: parse(text))
    timed("verify", lambda: check(module))
    statistics = Statistics(module)
    steps = Pipeline((parse_pipeline("default"), parse_pipeline("lowering")))
    optimised = optimise(module, steps, instruments=[statistics], strict=True)
    for run in statistics.runs:
        found[f"pass {run.name}"] += run.seconds
    found["optimise"] = sum(run.seconds for run in statistics.runs)
    start = time.process_time()
    program = build(optimised, host())
    found["build"] = time.process_time() - start
    timed("llvm", lambda: compile_units(program.texts, host()))
    return dict(found)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND[:N]", help=", ".join(KINDS))
    options = parser.parse_args(arguments)
    measure(KINDS["chain"](4))  # what the first compilation does once
    for written in options.kinds or KINDS:
        kind, _, number = written.partition(":")
        n = int(number) if number else 12 if kind == "call_tree_in_a_reducer" else 200
        small, large = measure(KINDS[kind](n)), measure(KINDS[kind](2 * n))
        print(f"{kind}, {n} and {2 * n}")
        shown = [name for name, seconds in large.items() if seconds >= 0.01]
        for name in sorted(shown, key=lambda name: -large[name] / max(small.get(name, 0.0), 1e-3)):
            ratio = large[name] / max(small.get(name, 0.0), 1e-3)
            print(f"  {name:40} {small.get(name, 0.0):8.3f} {large[name]:8.3f}  x{ratio:.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
