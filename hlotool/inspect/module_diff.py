"""The difference of two modules: what was added, removed, changed and moved, and what that costs.

Names, metadata, the order of independent instructions and whether equal computations are shared make no difference
unless they are asked for, as for `hlotool.text.fingerprint.content_hash`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hlotool.analysis.cost import Cost, ModuleCost
from hlotool.analysis.peak_memory import peak_bytes
from hlotool.display import shown_by
from hlotool.inspect.diff import matching_blocks, rising
from hlotool.inspect.match import Graph, Match, graph_of, match_graphs
from hlotool.inspect.match_keys import ASPECTS, EXACT, USUALLY_IGNORED, WHOLE, Keys
from hlotool.ir import WRITTEN, Computation, InputError, Instruction, Module
from hlotool.ir.brief import one_line
from hlotool.ir.collector import collector_paused
from hlotool.lazy_dataclass import dataclass
from hlotool.text.arrange import DEFAULTS, with_layouts
from hlotool.text.printer import PrintOptions, print_attribute, print_header_attribute, print_shape
from hlotool.text.writers import write_metadata

__all__ = ["Change", "ComputationPair", "Detail", "ModuleDiff", "Totals", "diff"]

KINDS = ("removed", "added", "changed", "moved")
_LAYOUT = "entry_computation_layout"
_WORDS = PrintOptions(elide_above=16, index_comments=False)


@dataclass(frozen=True, slots=True)
class Detail:
    """One thing that is not as it was: `what` is ``shape``, ``opcode``, ``operands``, ``order``, ``computation``,
    ``number`` (of a parameter), ``root``, ``name``, ``metadata``, or an attribute."""

    what: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one instruction: `kind` is ``added`` (only `new` is there), ``removed`` (only `old`), ``changed`` or
    ``moved`` (to another computation, or in the order of a schedule).

    A change that `follows` is one of shape alone, of an instruction one of whose operands changed its shape.
    """

    kind: str
    old: Instruction | None
    new: Instruction | None
    details: tuple[Detail, ...] = ()
    follows: bool = False


@dataclass(frozen=True, slots=True)
class ComputationPair:
    """Two computations that are one, or one that is only in one module; `details` are of the pair as a whole."""

    old: Computation | None
    new: Computation | None
    details: tuple[Detail, ...] = ()


@dataclass(frozen=True, slots=True)
class Totals:
    """What one run of a module costs, and the most bytes alive at once in program order."""

    instructions: int
    cost: Cost
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleDiff:
    """The answer.  `partners` maps the instructions of the old module to those of the new one that they are."""

    old: Module
    new: Module
    ignored: frozenset[str]
    header: tuple[Detail, ...]
    computations: tuple[ComputationPair, ...]
    changes: tuple[Change, ...]
    partners: Mapping[Instruction, Instruction]
    old_totals: Totals
    new_totals: Totals

    def __repr__(self) -> str:
        words = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        return f"ModuleDiff('{one_line(self.old.name)}', '{one_line(self.new.name)}', {words})"

    _repr_html_ = shown_by("diff_html")

    @property
    def is_same(self) -> bool:
        """Whether nothing that counts is different."""
        return not (self.header or self.changes) and all(
            pair.old is not None and pair.new is not None and not pair.details for pair in self.computations
        )

    @property
    def counts(self) -> dict[str, int]:
        """Instructions by what became of them; ``matched`` are all that are in both modules, changed or not."""
        found = {"matched": len(self.partners), **dict.fromkeys(KINDS, 0)}
        for change in self.changes:
            found[change.kind] += 1
        return found


def diff(old: Module, new: Module, ignore: Sequence[str] = (), heed: Sequence[str] = ()) -> ModuleDiff:
    """Match two modules and say how they differ.

    Of the `ASPECTS` (``names``, ``metadata``, ``layouts``, ``constants``, ``backend-config``) the first two make no
    difference unless `heed` names them; `ignore` names others that make none.  InputError for other words.  The time
    grows with the sizes of the modules, times their logarithm.
    """
    for word in (*ignore, *heed):
        if word not in ASPECTS:
            raise InputError(f"{word!r} is nothing that a difference can leave out: {', '.join(ASPECTS)} are")
    ignored = (USUALLY_IGNORED | set(ignore)) - set(heed)
    with collector_paused():
        return _Differ(old, new, Keys(frozenset(ignored))).result()


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two computations, matched."""

    old: Computation
    new: Computation
    match: Match


class _Differ:
    """Matches computations from the entry on: those that matched instructions call."""

    def __init__(self, old: Module, new: Module, keys: Keys) -> None:
        self.old, self.new, self.keys = old, new, keys
        self.to_new: dict[Computation, Computation] = {}
        self.to_old: dict[Computation, Computation] = {}
        self.partners: dict[Instruction, Instruction] = {}
        self.pairs: list[_Pair] = []
        self.matched: set[Instruction] = set()  # of the new module
        self.changes: list[Change] = []

    def result(self) -> ModuleDiff:
        self._match_all()
        removed, added = self._left(self.old, self.to_new), self._left(self.new, self.to_old)
        for pair in self.pairs:
            self.changes += _Comparison(self, pair).changes()
        lost = [i for p in self.pairs for i, j in zip(p.match.old.instructions, p.match.to_new, strict=True) if j < 0]
        found = [j for p in self.pairs for j, i in zip(p.match.new.instructions, p.match.to_old, strict=True) if i < 0]
        lost += [one for computation in removed for one in computation]
        found += [one for computation in added for one in computation]
        self._moves(lost, found)
        computations = [ComputationPair(p.old, p.new, tuple(self._names(p.old.name, p.new.name))) for p in self.pairs]
        computations += [ComputationPair(one, None) for one in removed] + [ComputationPair(None, one) for one in added]
        return ModuleDiff(
            old=self.old, new=self.new, ignored=self.keys.ignored, header=tuple(self._header()),
            computations=tuple(computations), changes=tuple(_followers_marked(self.changes, self.partners)),
            partners=self.partners, old_totals=_totals(self.old), new_totals=_totals(self.new),
        )  # fmt: skip

    # ---- computations

    def _match_all(self) -> None:
        self._match_pair(self.old.entry, self.new.entry, None)
        # Those that nothing reaches have only their contents and their names to go by.
        reached = {*self.old.callees_first(), *self.new.callees_first()}
        names = {one.name: one for one in self.new.computations.values() if one not in self.to_old}
        for computation in list(self.old.computations.values()):
            other = names.get(computation.name)
            if other is not None and computation not in reached and other not in reached:
                self._match_pair(computation, other, None)

    def _match_pair(self, old: Computation, new: Computation, call: tuple[Instruction, Instruction] | None) -> None:
        """Match two computations, and those that they call; `call` are the instructions that call them."""
        work = [(old, new, call)]
        while work:
            late: list[tuple[Computation, Computation, tuple[Instruction, Instruction] | None]] = []
            for old, new, call in work:
                if old in self.to_new or new in self.to_old:
                    continue
                self.to_new[old], self.to_old[new] = new, old
                ours, theirs = graph_of(old, self.keys), graph_of(new, self.keys)
                match = match_graphs(ours, theirs, self._parameters(ours, theirs, call))
                self.pairs.append(_Pair(old, new, match))
                for i, j in match.pairs():
                    self.partners[ours.instructions[i]] = theirs.instructions[j]
                calls = [(one, self.partners[one]) for one in old.calls if one in self.partners]
                late += [(x, y, (a, b)) for a, b in calls for x, y in _callees(a, b)]
            # Equal ones first: a computation that several call is matched once.
            work = sorted(late, key=lambda entry: not self._is_equal(entry[0], entry[1]))

    def _is_equal(self, old: Computation, new: Computation) -> bool:
        return self.keys.computation(old) == self.keys.computation(new)

    def _parameters(
        self, old: Graph, new: Graph, call: tuple[Instruction, Instruction] | None
    ) -> Iterator[tuple[int, int]]:
        """Pairs of parameters: those of the same operands of a fusion or call, else by number, else in order."""
        ours, theirs = _parameters_of(old), _parameters_of(new)
        if call is not None and call[0].opcode in ("fusion", "call") and call[1].opcode in ("fusion", "call"):
            a, b = call[0].operands, call[1].operands
            if len(a) == len(ours) and len(b) == len(theirs):
                place = {operand: number for number, operand in reversed(list(enumerate(b)))}
                taken: set[int] = set()
                for number, operand in enumerate(a):
                    partner = self.partners.get(operand)
                    other = place.get(partner) if partner is not None else None
                    if other is not None and partner is b[min(number, len(b) - 1)]:
                        other = min(number, len(b) - 1)
                    if other is not None and other not in taken:
                        taken.add(other)
                        yield ours[number], theirs[other]
                if taken:
                    return
        if len(ours) == len(theirs):
            yield from zip(ours, theirs, strict=True)
            return
        labels = [
            [graph.labels[EXACT][n] for n in numbers] for graph, numbers in ((old, ours), (new, theirs))
        ]
        named = [
            [(graph.instructions[n].name, label) for n, label in zip(numbers, kinds, strict=True)]
            for graph, numbers, kinds in ((old, ours, labels[0]), (new, theirs, labels[1]))
        ]
        used = [[_use(graph, n) for n in numbers] for graph, numbers in ((old, ours), (new, theirs))]
        sequences: list[tuple[Sequence[Hashable], Sequence[Hashable]]] = [
            (named[0], named[1]), (used[0], used[1]), (labels[0], labels[1])
        ]  # fmt: skip
        blocks = [matching_blocks(a, b) for a, b in sequences]
        wanted = min(len(ours), len(theirs))
        sizes = [sum(size for _, _, size in found) for found in blocks]
        best = next((n for n in range(2) if sizes[n] == wanted), sizes.index(max(sizes)))
        for i, j, size in blocks[best]:
            for k in range(size):
                yield ours[i + k], theirs[j + k]

    def _left(self, module: Module, matched: Mapping[Computation, Computation]) -> list[Computation]:
        """Computations without a partner, but for those that the other module has under another name."""
        others = [*self.old.computations.values(), *self.new.computations.values()]
        known = {self.keys.computation(one) for one in others if one.module is not module}
        return [
            one for one in module.computations.values()
            if one not in matched and self.keys.computation(one) not in known
        ]  # fmt: skip

    # ---- moves

    def _moves(self, lost: list[Instruction], found: list[Instruction]) -> None:
        """What is gone in one computation and new in another has moved; all else was removed or added."""
        for strict in (True, False):
            self.matched = set(self.partners.values())
            groups: dict[Hashable, tuple[list[Instruction], list[Instruction]]] = defaultdict(lambda: ([], []))
            for side, instructions in enumerate((lost, found)):
                callers = _only_callers(self.new if side else self.old)
                for one in instructions:
                    if one.opcode == "parameter" or (not strict and (len(one.operands) == 0 or one.shape.is_tuple)):
                        continue
                    key: Hashable = self.keys.labels(one)[WHOLE]
                    if strict:
                        key = (key, *[self._source(operand, callers, side) for operand in one.operands])
                    groups[key][side].append(one)
            moved: set[Instruction] = set()
            for ours, theirs in groups.values():
                if len(ours) == len(theirs) or strict:
                    for a, b in zip(ours, theirs):  # noqa: B905  # as many as there are
                        if self._place(a) is not b.parent:
                            self._move(a, b)
                            moved.add(b)
            lost = [one for one in lost if one not in self.partners]
            found = [one for one in found if one not in moved]
        self.changes += [Change("removed", one, None) for one in lost]
        self.changes += [Change("added", None, one) for one in found]

    def _place(self, old: Instruction) -> Computation | None:
        return self.to_new.get(old.parent) if old.parent is not None else None

    def _move(self, old: Instruction, new: Instruction) -> None:
        self.partners[old] = new
        words = [one.parent.name if one.parent is not None else "" for one in (old, new)]
        self.changes.append(Change("moved", old, new, (Detail("computation", words[0], words[1]),)))

    def _source(self, operand: Instruction, callers: Mapping[Computation, Instruction], side: int) -> Hashable:
        """What an operand is, parameters of fusions and calls seen through: the same number for the same value."""
        while operand.opcode == "parameter" and operand.parent is not None and operand.parent in callers:
            operand = callers[operand.parent].operands[operand.parameter_number]
        known = operand if side else self.partners.get(operand)
        return known if known in self.matched else self.keys.labels(operand)[WHOLE]

    # ---- the module as a whole

    def _header(self) -> Iterator[Detail]:
        a, b = (self.keys.header(module) for module in (self.old, self.new))
        for name in dict.fromkeys([*a, *b]):
            if name == _LAYOUT:
                continue
            ours, theirs = a.get(name), b.get(name)
            plain = DEFAULTS.get(name, ())
            if (ours is None or ours in plain) and (theirs is None or theirs in plain):
                continue
            if ours != theirs:
                words = [
                    print_header_attribute(module, name) if name in module.attributes else ""
                    for module in (self.old, self.new)
                ]
                yield Detail(name, words[0], words[1])
        if "layouts" not in self.keys.ignored:
            yield from self._entry_layout()
        yield from self._names(self.old.name, self.new.name)

    def _names(self, old: str, new: str) -> Iterator[Detail]:
        if "names" not in self.keys.ignored and old != new:
            yield Detail("name", old, new)

    def _entry_layout(self) -> Iterator[Detail]:
        """Layouts at the border, where the shapes are the same."""
        words, shapes = [], []
        for module in (self.old, self.new):
            usual = tuple(p.shape for p in module.entry.parameters), module.entry.root.shape
            parameters, result = module.attributes.get(_LAYOUT) or usual
            shapes.append([*map(with_layouts, parameters), with_layouts(result)])
            words.append(f"({', '.join(map(print_shape, shapes[-1][:-1]))}) -> {print_shape(shapes[-1][-1])}")
        a, b = shapes
        same = len(a) == len(b) and all(x.without_layout() == y.without_layout() for x, y in zip(a, b, strict=True))
        if same and a != b:
            yield Detail(_LAYOUT, words[0], words[1])


# ---- instructions


class _Comparison:
    """What differs in a pair of computations, beyond what has no partner."""

    def __init__(self, differ: _Differ, pair: _Pair) -> None:
        self.differ, self.keys, self.match = differ, differ.keys, pair.match
        self.is_scheduled = all(m.attributes.get("is_scheduled") for m in (differ.old, differ.new))
        self.pair = pair

    def changes(self) -> list[Change]:
        match = self.match
        old, new = match.old.instructions, match.new.instructions
        details: list[list[Detail]] = [[] for _ in old]
        ranks = [_ranks(match.old, match.to_new), _ranks(match.new, match.to_old)]
        for i, j in match.pairs():
            details[i] = self._own(old[i], new[j], match.old.labels[EXACT][i] == match.new.labels[EXACT][j])
            if i in ranks[0] and ranks[0][i] != ranks[1][j]:
                words = [str(one.parameter_number) for one in (old[i], new[j])]
                details[i].append(Detail("number", words[0], words[1]))
        apart = [bool(found) or not value for found, value in zip(details, match.old.is_value, strict=True)]
        for i, j in match.pairs():  # what calls a computation that is not as it was
            apart[i] |= match.old.labels[WHOLE][i] != match.new.labels[WHOLE][j]
        values = match.values(WHOLE, apart)
        for i, j in match.pairs():
            details[i] += self._operands(i, j, values)
        self._root(details, values)
        out_of_order = self._out_of_order()
        found = []
        for i, j in match.pairs():
            if details[i]:
                found.append(Change("changed", old[i], new[j], tuple(details[i])))
            if i in out_of_order:
                found.append(Change("moved", old[i], new[j], (out_of_order[i],)))
        return found

    def _own(self, old: Instruction, new: Instruction, is_equal: bool) -> list[Detail]:
        """What the two instructions say themselves, operands aside."""
        found: list[Detail] = []
        if not is_equal:
            if old.written != new.written:
                found.append(Detail("opcode", old.written, new.written))
            if self.keys.shape(old.shape) != self.keys.shape(new.shape):
                layouts = old.shape.without_layout() == new.shape.without_layout()
                shapes = [with_layouts(one.shape) if layouts else one.shape for one in (old, new)]
                found.append(Detail("shape", *(print_shape(s, layouts, index_comments=False) for s in shapes)))
            a, b = self.keys.attributes(old), self.keys.attributes(new)
            for name in dict.fromkeys([*a, *b]):
                if (name in a) != (name in b) or a[name] != b[name]:
                    words = [_attribute_text(one, name) for one in (old, new)]
                    if not _calls(old, name) or not _calls(new, name):
                        found.append(Detail(name.lstrip(WRITTEN), words[0], words[1]))
        for name, x, y in _called(old, new):
            if self.differ.to_new.get(x) is not y and not self.differ._is_equal(x, y):
                found.append(Detail(name, x.name, y.name))
        if "names" not in self.keys.ignored and old.name != new.name:
            found.append(Detail("name", old.name, new.name))
        if "metadata" not in self.keys.ignored and old.metadata != new.metadata:
            texts = [write_metadata(one.metadata) if one.metadata is not None else "" for one in (old, new)]
            if texts[0] != texts[1]:
                found.append(Detail("metadata", texts[0], texts[1]))
        return found

    def _operands(self, i: int, j: int, values: tuple[list[int], list[int]]) -> Iterator[Detail]:
        """Operands that are other instructions; where one was put in between or taken out, that is the change."""
        match = self.match
        a, b = match.old.reads[i], match.new.reads[j]
        if len(a) != len(b) or any(self._differ(s, t, values) for s, t in zip(a, b, strict=True)):
            yield self._listed("operands", a, b)
        before, after = match.old.after[i], match.new.after[j]
        ours = {match.to_new[n] for n in before if match.to_new[n] >= 0}
        theirs = {n for n in after if match.to_old[n] >= 0}
        if ours != theirs:
            yield self._listed("control-predecessors", before, after)

    def _differ(self, s: int, t: int, values: tuple[list[int], list[int]]) -> bool:
        match = self.match
        if match.to_new[s] < 0 or match.to_old[t] < 0 or match.to_new[s] == t:
            return False
        return values[0][s] != values[1][t]

    def _listed(self, what: str, a: Sequence[int], b: Sequence[int]) -> Detail:
        old, new = self.match.old.instructions, self.match.new.instructions
        return Detail(what, ", ".join(old[n].name for n in a), ", ".join(new[n].name for n in b))

    def _root(self, details: list[list[Detail]], values: tuple[list[int], list[int]]) -> None:
        """Another root than before, both of which are in both modules."""
        match = self.match
        i, j = match.old.root, match.new.root
        if self._differ(i, j, values):
            details[i].append(Detail("root", match.old.instructions[i].name, match.new.instructions[j].name))

    def _out_of_order(self) -> dict[int, Detail]:
        """Of two schedules, what runs at another time than before, by the number of the old instruction."""
        if not self.is_scheduled:
            return {}
        match = self.match
        places = [{one: n for n, one in enumerate(c)} for c in (self.pair.old, self.pair.new)]
        pairs = sorted(
            (places[0][match.old.instructions[i]], places[1][match.new.instructions[j]], i) for i, j in match.pairs()
        )
        kept = set(rising([(a, b) for a, b, _ in pairs]))
        return {i: Detail("order", str(a), str(b)) for a, b, i in pairs if (a, b) not in kept}


def _ranks(graph: Graph, partners: Sequence[int]) -> dict[int, int]:
    """The places of the parameters that are in both modules, among each other."""
    return {n: rank for rank, n in enumerate(n for n in _parameters_of(graph) if partners[n] >= 0)}


def _parameters_of(graph: Graph) -> list[int]:
    """The parameters by number."""
    found = [n for n, one in enumerate(graph.instructions) if one.opcode == "parameter"]
    return sorted(found, key=lambda n: graph.instructions[n].parameter_number)


def _followers_marked(changes: Sequence[Change], partners: Mapping[Instruction, Instruction]) -> Iterator[Change]:
    """The changes, with those of shape that only follow from an operand marked."""
    shaped = {change.old for change in changes if any(detail.what == "shape" for detail in change.details)}
    for change in changes:
        only = [detail.what for detail in change.details] == ["shape"]
        if only and change.old is not None and any(operand in shaped for operand in change.old.operands):
            change = replace(change, follows=True)
        yield change


def _use(graph: Graph, number: int) -> Hashable:
    """What an instruction is, and what reads it."""
    labels = graph.labels[EXACT]
    return (labels[number], *sorted([(labels[user], position) for user, position in graph.users[number]]))


def _calls(instruction: Instruction, name: str) -> bool:
    value = instruction.attributes.get(name)
    first = value[0] if isinstance(value, tuple) and value else value
    return isinstance(first, Computation)


def _called(old: Instruction, new: Instruction) -> Iterator[tuple[str, Computation, Computation]]:
    """The computations that two instructions call under the same name."""
    if not (old.called and new.called):
        return
    for name, value in old.attributes.items():
        other = new.attributes.get(name)
        if _calls(old, name) and _calls(new, name):
            a = value if isinstance(value, tuple) else (value,)
            b = other if isinstance(other, tuple) else (other,)
            for x, y in zip(a, b):  # noqa: B905  # a branch more is a change of its own
                if isinstance(y, Computation):
                    yield name, x, y


def _callees(old: Instruction, new: Instruction) -> Iterator[tuple[Computation, Computation]]:
    for _, x, y in _called(old, new):
        yield x, y


def _only_callers(module: Module) -> dict[Computation, Instruction]:
    """The fusion or call that alone calls a computation."""
    return {
        computation: calls[0]
        for computation, calls in module.callers().items()
        if len(calls) == 1 and calls[0].opcode in ("fusion", "call")
    }


def _attribute_text(instruction: Instruction, name: str) -> str:
    value: Any = instruction.attributes.get(name)
    if value is None:
        return ""
    if name.startswith(WRITTEN):
        return str(getattr(value, "text", value))
    return print_attribute(instruction, name, _WORDS)


def _totals(module: Module) -> Totals:
    return Totals(module.instruction_count(), ModuleCost(module).total, peak_bytes(module))
