"""Random valid programs whose results do not depend on how they are compiled.

Values carry a bound on their magnitude.  Floats hold integers small enough for every sum and product to be exact, so
that results must agree bit for bit in any order of operations; what transcendental functions and divisions make is
`rough`: compared with a tolerance, and never asked for anything discontinuous.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

Sizes = tuple[int, ...]

EXACT = {"f32": 2.0**24, "f64": 2.0**53, "bf16": 2.0**8, "s32": 2.0**31 - 1, "u8": 255.0, "pred": 1.0}
"""Integers up to this are exact in a type."""

FLOATS = ("f32", "f64", "bf16")
_COMMON = ("f32", "f32", "f32", "f32", "s32", "s32", "pred", "f64", "bf16", "u8")
_LENGTHS = (1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17, 33)
_LARGEST = 1 << 12


@dataclass(frozen=True)
class Value:
    name: str
    kind: str
    sizes: Sizes
    bound: float  # of the magnitude
    rough: bool = False

    @property
    def shape(self) -> str:
        return f"{self.kind}[{braced(self.sizes)[1:-1]}]"

    @property
    def exact(self) -> bool:
        return not self.rough and self.bound <= EXACT[self.kind]


def braced(numbers: Sizes | list[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


@dataclass
class Scope:
    """One computation being written."""

    name: str
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)


class Generator:
    """Writes a module; `text` is the result.  All randomness comes from `choice`, so that failures can be shrunk."""

    def __init__(self, choice: random.Random, length: int) -> None:
        self.choice = choice
        self.done: list[str] = []
        self.count = 0
        self.reducers: dict[tuple[str, str], str] = {}
        self.parameters: list[Value] = []
        self.scope = Scope("main")
        for number in range(choice.randrange(1, 5)):
            kind = choice.choice(_COMMON)
            value = self.define(kind, self.sizes(), f"parameter({number})", min(4.0, EXACT[kind]))
            self.parameters.append(value)
        self.steps(length, depth=0)
        self.finish_entry()

    # ---- writing

    def define(self, kind: str, sizes: Sizes, operation: str, bound: float, rough: bool = False) -> Value:
        value = Value(f"v{self.count}", kind, sizes, bound, rough)
        self.count += 1
        self.scope.lines.append(f"{value.name} = {value.shape} {operation}")
        self.scope.values.append(value)
        return value

    def finish(self, root: str, entry: bool = False) -> None:
        lines = "\n".join(f"  {line}" for line in (*self.scope.lines, f"ROOT {root}"))
        self.done.append(f"{'ENTRY ' if entry else ''}{self.scope.name} {{\n{lines}\n}}\n")

    def finish_entry(self) -> None:
        choice, values = self.choice, self.scope.values
        wanted = choice.randrange(1, 5)
        results = [values[-1], *(choice.choice(values) for _ in range(wanted - 1))]
        shapes = ", ".join(v.shape for v in results)
        self.results = results
        if wanted == 1:
            last = results[0]
            self.finish(f"root = {last.shape} copy({last.name})", entry=True)
        else:
            self.finish(f"root = ({shapes}) tuple({', '.join(v.name for v in results)})", entry=True)

    @property
    def text(self) -> str:
        return "HloModule random\n\n" + "\n".join(self.done)

    # ---- choosing

    def sizes(self) -> Sizes:
        rank = self.choice.choice((0, 1, 1, 2, 2, 2, 3, 4))
        sizes = tuple(self.choice.choice(_LENGTHS) for _ in range(rank))
        if self.choice.random() < 0.01 and rank:
            sizes = (0, *sizes[1:])
        return sizes if prod(sizes) <= _LARGEST else sizes[:2]

    def pick(self, kind: str | None = None, sizes: Sizes | None = None) -> Value:
        """A value, newer ones more often; a new one where none fits."""
        choice = self.choice
        fitting = [v for v in self.scope.values if kind in (None, v.kind) and sizes in (None, v.sizes)]
        if fitting and choice.random() < 0.85:
            return fitting[max(choice.randrange(len(fitting)), choice.randrange(len(fitting)))]
        kind = kind or choice.choice(_COMMON)
        return self.fresh(kind, self.sizes() if sizes is None else sizes)

    def fresh(self, kind: str, sizes: Sizes) -> Value:
        """A constant, a splat or an iota."""
        choice = self.choice
        numeric = kind != "pred"
        if numeric and sizes and max(sizes) <= 64 and choice.random() < 0.3:
            dimension = choice.randrange(len(sizes))
            return self.define(kind, sizes, f"iota(), iota_dimension={dimension}", max(0, sizes[dimension] - 1))
        number = choice.choice((0, 1, 2, 3, 5) if kind == "u8" else (0, 1, -1, 2, -3, 5))
        written = str(number) if numeric else choice.choice(("true", "false"))
        scalar = self.define(kind, (), f"constant({written})", abs(number) if numeric else 1)
        return self.broadcast(scalar, sizes, ()) if sizes else scalar

    def broadcast(self, value: Value, sizes: Sizes, dimensions: Sizes) -> Value:
        text = f"broadcast({value.name}), dimensions={braced(dimensions)}"
        return self.define(value.kind, sizes, text, value.bound, value.rough)

    def reducer(self, opcode: str, kind: str) -> str:
        name = self.reducers.get((opcode, kind))
        if name is None:
            name = self.reducers[opcode, kind] = f"{opcode}_{kind}"
            scalar = f"{kind}[]"
            self.done.append(
                f"{name} {{\n  a = {scalar} parameter(0)\n  b = {scalar} parameter(1)\n"
                f"  ROOT c = {scalar} {opcode}(a, b)\n}}\n"
            )
        return name

    # ---- steps

    def steps(self, length: int, depth: int) -> None:
        kinds: list[Callable[[], object]] = [
            self.unary, self.binary, self.binary, self.binary, self.compare, self.select, self.convert, self.transpose,
            self.reshape, self.widen, self.slice, self.pad, self.concatenate, self.reverse, self.reduce, self.reduce,
            self.dot, self.dynamic_slice, self.update, self.gather, self.scatter, self.sort, self.rough, self.normalise,
            self.clamp,
        ]  # fmt: skip
        for _ in range(length):
            if depth < 2 and self.choice.random() < 0.08:
                self.choice.choice((self.loop, self.branches))(depth)
            else:
                self.choice.choice(kinds)()

    def unary(self) -> None:
        value = self.pick()
        if value.kind == "pred":
            opcodes = ["not"]
        elif value.kind == "s32":
            opcodes = ["negate", "abs", "sign", "not"]
        elif value.kind == "u8":
            opcodes = ["not"]
        else:
            opcodes = ["negate", "abs"] + ["floor", "sign"] * value.exact
        opcode = self.choice.choice(opcodes)
        bound = {"sign": 1.0, "not": EXACT[value.kind]}.get(opcode, value.bound)
        self.define(value.kind, value.sizes, f"{opcode}({value.name})", bound, value.rough)

    def binary(self) -> None:
        a = self.pick()
        b = self.pick(a.kind, a.sizes)
        sums = {"add": a.bound + b.bound, "subtract": a.bound + b.bound, "multiply": a.bound * b.bound}
        extremes = dict.fromkeys(("maximum", "minimum"), max(a.bound, b.bound))
        integers = a.kind in ("s32", "u8")
        if a.kind == "pred":
            allowed = dict.fromkeys(("and", "or", "xor"), 1.0)
        elif integers:
            wide = EXACT[a.kind]
            wrapped = {opcode: wide if bound > wide or a.kind == "u8" else bound for opcode, bound in sums.items()}
            allowed = wrapped | extremes | dict.fromkeys(("and", "or", "xor", "divide", "remainder"), wide)
        else:
            limit = 1e6 if a.rough or b.rough else EXACT[a.kind]
            allowed = extremes | {opcode: bound for opcode, bound in sums.items() if bound <= limit}
        opcode = self.choice.choice(list(allowed))
        self.define(a.kind, a.sizes, f"{opcode}({a.name}, {b.name})", allowed[opcode], a.rough or b.rough)

    def compare(self) -> Value:
        a = self.pick(sizes=self.choice.choice(self.scope.values).sizes)
        if not a.exact:
            a = self.fresh(a.kind, a.sizes)
        b = self.pick(a.kind, a.sizes)
        if not b.exact:
            b = self.fresh(a.kind, a.sizes)
        direction = self.choice.choice(("EQ", "NE", "LT", "GE", "GT", "LE"))
        return self.define("pred", a.sizes, f"compare({a.name}, {b.name}), direction={direction}", 1.0)

    def select(self) -> None:
        a = self.pick()
        b = self.pick(a.kind, a.sizes)
        predicate = self.pick("pred", a.sizes)
        text = f"select({predicate.name}, {a.name}, {b.name})"
        self.define(a.kind, a.sizes, text, max(a.bound, b.bound), a.rough or b.rough)

    def clamp(self) -> None:
        a = self.pick(self.choice.choice(("f32", "s32", "bf16")))
        low, high = self.pick(a.kind, ()), self.pick(a.kind, ())
        rough = a.rough or low.rough or high.rough
        text = f"clamp({low.name}, {a.name}, {high.name})"
        self.define(a.kind, a.sizes, text, max(a.bound, low.bound, high.bound), rough)

    def convert(self) -> None:
        a = self.pick()
        fits = [k for k in EXACT if k not in ("pred", "u8", a.kind) and (a.bound <= EXACT[k] if a.exact else False)]
        if a.rough:
            fits = [k for k in ("f32", "f64") if k != a.kind]
        if fits:
            kind = self.choice.choice(fits)
            self.define(kind, a.sizes, f"convert({a.name})", a.bound, a.rough)

    def rough(self) -> None:
        a = self.pick("f32")
        opcode = self.choice.choice(("tanh", "logistic", "cosine"))
        if a.bound <= 100:
            self.define("f32", a.sizes, f"{opcode}({a.name})", 1.0, rough=True)

    def normalise(self) -> None:
        """The rows of a softmax-like group: a reduction, broadcast back to where it came from."""
        a = self.pick("f32")
        if not a.sizes or a.bound > 50:
            return
        rank = len(a.sizes)
        low = self.fresh("f32", ())
        maximum = self.reducer("maximum", "f32")
        text = f"reduce({a.name}, {low.name}), dimensions={{{rank - 1}}}, to_apply={maximum}"
        top = self.define("f32", a.sizes[:-1], text, max(a.bound, low.bound), a.rough)
        wide = self.broadcast(top, a.sizes, tuple(range(rank - 1)))
        less = self.define("f32", a.sizes, f"subtract({a.name}, {wide.name})", a.bound + top.bound, a.rough)
        self.define("f32", a.sizes, f"logistic({less.name})", 1.0, rough=True)

    def move(self, a: Value, sizes: Sizes, text: str) -> Value:
        return self.define(a.kind, sizes, text, a.bound, a.rough)

    def transpose(self) -> None:
        a = self.pick()
        order = self.choice.sample(range(len(a.sizes)), len(a.sizes))
        self.move(a, tuple(a.sizes[d] for d in order), f"transpose({a.name}), dimensions={braced(order)}")

    def reshape(self) -> None:
        a = self.pick()
        size = prod(a.sizes)
        factor = self.choice.choice([f for f in (1, 2, 3, 4, 8) if size % f == 0])
        options = [(size,), (1, *a.sizes), (*a.sizes, 1), a.sizes]
        if size:
            options += [(factor, size // factor), (size // factor, factor), (factor, 1, size // factor)]
        sizes = self.choice.choice(options)
        self.move(a, sizes, f"reshape({a.name})")

    def widen(self) -> None:
        a = self.pick()
        if len(a.sizes) > 3:
            return
        at = self.choice.randrange(len(a.sizes) + 1)
        sizes = (*a.sizes[:at], self.choice.choice(_LENGTHS), *a.sizes[at:])
        if prod(sizes) <= _LARGEST:
            self.broadcast(a, sizes, tuple(d for d in range(len(sizes)) if d != at))

    def slice(self) -> None:
        a = self.pick()
        ranges = []
        for size in a.sizes:
            start = self.choice.randrange(size) if size else 0
            limit = self.choice.randrange(start + (size > 0), size + 1)
            ranges.append((start, limit, self.choice.choice((1, 1, 2, 3))))
        text = ", ".join(f"[{start}:{limit}:{stride}]" for start, limit, stride in ranges)
        sizes = tuple(max(0, -(-(limit - start) // stride)) for start, limit, stride in ranges)
        self.move(a, sizes, f"slice({a.name}), slice={{{text}}}")

    def pad(self) -> None:
        a = self.pick()
        filler = self.pick(a.kind, ())
        choice = self.choice
        rows = [(choice.randrange(-1, 3), choice.randrange(-1, 3), choice.choice((0, 0, 1, 2))) for _ in a.sizes]
        sizes = tuple(
            low + high + n + max(0, n - 1) * inner for n, (low, high, inner) in zip(a.sizes, rows, strict=True)
        )
        if a.sizes and min(sizes) > 0 and prod(sizes) <= _LARGEST:
            text = "x".join(f"{low}_{high}_{inner}" for low, high, inner in rows)
            rough = a.rough or filler.rough
            bound = max(a.bound, filler.bound)
            self.define(a.kind, sizes, f"pad({a.name}, {filler.name}), padding={text}", bound, rough)

    def concatenate(self) -> None:
        a = self.pick()
        if a.sizes and prod(a.sizes) <= _LARGEST // 3:
            dimension = self.choice.randrange(len(a.sizes))
            pieces = [a, *(self.pick(a.kind, a.sizes) for _ in range(self.choice.randrange(1, 3)))]
            sizes = tuple(n * len(pieces) if d == dimension else n for d, n in enumerate(a.sizes))
            text = f"concatenate({', '.join(p.name for p in pieces)}), dimensions={{{dimension}}}"
            self.define(a.kind, sizes, text, max(p.bound for p in pieces), any(p.rough for p in pieces))

    def reverse(self) -> None:
        a = self.pick()
        dimensions = sorted(self.choice.sample(range(len(a.sizes)), self.choice.randrange(len(a.sizes) + 1)))
        self.move(a, a.sizes, f"reverse({a.name}), dimensions={braced(dimensions)}")

    def reduce(self) -> None:
        a = self.pick()
        start = self.pick(a.kind, ())
        reduced = sorted(self.choice.sample(range(len(a.sizes)), self.choice.randrange(len(a.sizes) + 1)))
        count = prod(a.sizes[d] for d in reduced)
        total = a.bound * count + start.bound
        rough = a.rough or start.rough
        if a.kind == "pred":
            opcode, bound = self.choice.choice(("and", "or")), 1.0
        elif self.choice.random() < 0.5 or (a.kind in FLOATS and total > (1e6 if rough else EXACT[a.kind])):
            opcode, bound = self.choice.choice(("maximum", "minimum")), max(a.bound, start.bound)
        else:
            opcode, bound = "add", min(total, EXACT[a.kind]) if a.kind in ("s32", "u8") else total
        if a.kind == "u8" and opcode == "add":
            bound = EXACT["u8"]
        apply = self.reducer(opcode, a.kind)
        sizes = tuple(n for d, n in enumerate(a.sizes) if d not in reduced)
        text = f"reduce({a.name}, {start.name}), dimensions={braced(reduced)}, to_apply={apply}"
        self.define(a.kind, sizes, text, bound, rough)

    def dot(self) -> None:
        a = self.pick(self.choice.choice(("f32", "f32", "f64", "s32")))
        if not a.sizes:
            return
        rank = len(a.sizes)
        dims = self.choice.sample(range(rank), rank)
        batches = self.choice.randrange(2) if rank > 1 else 0
        contracted = self.choice.randrange(len(dims) - batches + 1)
        batch, inner = dims[:batches], dims[batches : batches + contracted]
        own = [self.choice.choice((1, 2, 3, 8)) for _ in range(self.choice.randrange(3))]
        parts = [("b", d) for d in batch] + [("k", d) for d in inner] + [("n", i) for i in range(len(own))]
        order = self.choice.sample(parts, len(parts))
        sizes = tuple(own[i] if letter == "n" else a.sizes[i] for letter, i in order)
        free = [d for d in range(rank) if d not in batch and d not in inner]
        result = (*(a.sizes[d] for d in batch), *(a.sizes[d] for d in free), *own_in_order(order, own))
        b = self.pick(a.kind, sizes)
        bound = a.bound * b.bound * prod(a.sizes[d] for d in inner)
        rough = a.rough or b.rough
        if prod(result) > _LARGEST or (a.kind != "s32" and bound > (1e6 if rough else EXACT[a.kind])):
            return
        where = {part: position for position, part in enumerate(order)}
        text = (
            f"dot({a.name}, {b.name}), lhs_batch_dims={braced(batch)}, lhs_contracting_dims={braced(inner)}, "
            f"rhs_batch_dims={braced([where['b', d] for d in batch])}, "
            f"rhs_contracting_dims={braced([where['k', d] for d in inner])}"
        )
        self.define(a.kind, result, text, min(bound, EXACT[a.kind]) if a.kind == "s32" else bound, rough)

    def starts(self, rank: int) -> str:
        return "".join(f", {self.pick('s32', ()).name}" for _ in range(rank))

    def dynamic_slice(self) -> None:
        a = self.pick()
        part = tuple(self.choice.randrange(1, n + 1) if n else 0 for n in a.sizes)
        text = f"dynamic-slice({a.name}{self.starts(len(part))}), dynamic_slice_sizes={braced(part)}"
        self.move(a, part, text)

    def update(self) -> None:
        a = self.pick()
        b = self.pick(a.kind, tuple(self.choice.randrange(1, n + 1) if n else 0 for n in a.sizes))
        text = f"dynamic-update-slice({a.name}, {b.name}{self.starts(len(a.sizes))})"
        self.define(a.kind, a.sizes, text, max(a.bound, b.bound), a.rough or b.rough)

    def gather(self) -> None:
        """Whole rows by number."""
        a = self.pick()
        indices = self.pick("s32", (self.choice.choice(_LENGTHS),))
        rank = len(a.sizes)
        sizes = (indices.sizes[0], *a.sizes[1:])
        if not rank or 0 in a.sizes or prod(sizes) > _LARGEST:
            return
        text = (
            f"gather({a.name}, {indices.name}), offset_dims={braced(list(range(1, rank)))}, "
            "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
            f"slice_sizes={braced((1, *a.sizes[1:]))}"
        )
        self.move(a, sizes, text)

    def scatter(self) -> None:
        """Rows added to rows, or put in their place where the indices differ."""
        a = self.pick(self.choice.choice(("f32", "s32", "f64")))
        if not a.sizes or 0 in a.sizes:
            return
        count = self.choice.choice((1, 2, 3, 5))
        indices = self.pick("s32", (count, 1))
        b = self.pick(a.kind, (count, *a.sizes[1:]))
        bound = a.bound + count * b.bound
        rough = a.rough or b.rough
        if a.kind != "s32" and bound > (1e6 if rough else EXACT[a.kind]):
            return
        text = (
            f"scatter({a.name}, {indices.name}, {b.name}), update_window_dims={braced(list(range(1, len(a.sizes))))}, "
            "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
            f"to_apply={self.reducer('add', a.kind)}"
        )
        self.define(a.kind, a.sizes, text, min(bound, EXACT[a.kind]) if a.kind == "s32" else bound, rough)

    def sort(self) -> None:
        a = self.pick(self.choice.choice(("f32", "s32")))
        if a.sizes and a.exact:
            dimension = self.choice.randrange(len(a.sizes))
            name = self.reducers.get(("less", a.kind))
            if name is None:
                name = self.reducers["less", a.kind] = f"less_{a.kind}"
                self.done.append(
                    f"{name} {{\n  a = {a.kind}[] parameter(0)\n  b = {a.kind}[] parameter(1)\n"
                    "  ROOT c = pred[] compare(a, b), direction=LT\n}\n"
                )
            self.move(a, a.sizes, f"sort({a.name}), dimensions={{{dimension}}}, to_apply={name}")

    # ---- control flow

    def loop(self, depth: int) -> None:
        """A counted loop.  State is clipped back to its bound after every trip, moved, kept or set to a constant."""
        choice = self.choice
        trips = choice.randrange(4)
        state = [self.pick() for _ in range(choice.randrange(1, 5))]
        if choice.random() < 0.4:
            state += [state[-1], self.pick(state[-1].kind, state[-1].sizes)]
        zero = self.define("s32", (), "constant(0)", 0)
        shapes = ", ".join(v.shape for v in (zero, *state))
        initial = f"t{self.count}"
        self.scope.lines.append(f"{initial} = ({shapes}) tuple({', '.join(v.name for v in (zero, *state))})")
        outer, number = self.scope, self.count
        bounds = [max(v.bound, 8.0 if v.kind != "pred" else 1.0) for v in state]
        # The body may be asked for anything below the bounds; what it gives may be rough even where it began exact.
        own = [Value("", v.kind, v.sizes, b, v.kind in FLOATS) for v, b in zip(state, bounds, strict=True)]
        self.scope = Scope(f"body{number}")
        counter = self.unpack(shapes, [zero, *own], trips)
        inside = self.scope.values[1:]
        one = self.define("s32", (), "constant(1)", 1)
        following = self.define("s32", (), f"add({counter.name}, {one.name})", trips)
        self.steps(choice.randrange(1, 6), depth + 1)
        results = [self.next_state(inside, inside[k]) for k in range(len(own))]
        self.finish(f"r{number} = ({shapes}) tuple({', '.join(v.name for v in (following, *results))})")
        self.scope = Scope(f"condition{number}")
        counter = self.unpack(shapes, [zero, *own], trips)
        limit = self.define("s32", (), f"constant({trips})", trips)
        extra = self.pick("s32")
        if choice.random() < 0.5 and extra.sizes:  # temporaries that may not overwrite the result
            reducer = self.reducer("minimum", "s32")
            shifted = self.define("s32", extra.sizes, f"negate({extra.name})", extra.bound)
            every = braced(list(range(len(extra.sizes))))
            text = f"reduce({shifted.name}, {limit.name}), dimensions={every}, to_apply={reducer}"
            low = self.define("s32", (), text, 0)
            limit = self.define("s32", (), f"maximum({limit.name}, {low.name})", 0)
        self.finish(f"go{number} = pred[] compare({counter.name}, {limit.name}), direction=LT")
        self.scope = outer
        text = f"while({initial}), condition=condition{number}, body=body{number}"
        self.results_of(f"w{number}", shapes, text, [Value("", "s32", (), 2.0**31 - 1), *own])

    def next_state(self, inside: list[Value], own: Value) -> Value:
        """A value for the next trip that keeps the bound of `own`."""
        fitting = [v for v in self.scope.values if (v.kind, v.sizes) == (own.kind, own.sizes)]
        value = self.choice.choice(fitting)
        if value.bound <= own.bound or own.kind == "pred":
            return value
        low, high = (
            self.define(own.kind, (), f"constant({sign * int(own.bound)})", own.bound)
            for sign in ((0, 1) if own.kind == "u8" else (-1, 1))
        )
        return self.define(own.kind, own.sizes, f"clamp({low.name}, {value.name}, {high.name})", own.bound, value.rough)

    def unpack(self, shapes: str, elements: list[Value], trips: int) -> Value:
        """The parameter of a loop's computation and its elements; the counter."""
        name = f"s{self.count}"
        self.count += 1
        self.scope.lines.append(f"{name} = ({shapes}) parameter(0)")
        for index, v in enumerate(elements):
            bound = float(trips) if index == 0 else v.bound
            self.define(v.kind, v.sizes, f"get-tuple-element({name}), index={index}", bound, v.rough)
        return self.scope.values[0]

    def results_of(self, name: str, shapes: str, text: str, elements: list[Value]) -> None:
        self.scope.lines.append(f"{name} = ({shapes}) {text}")
        for index, v in enumerate(elements):
            self.define(v.kind, v.sizes, f"get-tuple-element({name}), index={index}", v.bound, v.rough)

    def branches(self, depth: int) -> None:
        choice = self.choice
        by_number = choice.random() < 0.5
        selector = self.pick("s32", ()) if by_number else self.pick("pred", ())
        count = choice.randrange(1, 4) if by_number else 2
        results = [self.pick() for _ in range(choice.randrange(1, 4))]
        shapes = ", ".join(v.shape for v in results)
        arguments = [[self.pick() for _ in range(choice.randrange(1, 4))] for _ in range(count)]
        if choice.random() < 0.6:
            arguments = [[*given, *results] for given in arguments]
        tuples = []
        for given in arguments:
            tuples.append(f"t{self.count}")
            self.count += 1
            inside = ", ".join(v.shape for v in given)
            self.scope.lines.append(f"{tuples[-1]} = ({inside}) tuple({', '.join(v.name for v in given)})")
        outer, number = self.scope, self.count
        names = []
        bounds = [0.0] * len(results)
        rough = [False] * len(results)
        for branch, given in enumerate(arguments):
            self.scope = Scope(f"branch{number}_{branch}")
            names.append(self.scope.name)
            name = f"s{self.count}"
            self.count += 1
            inside = ", ".join(v.shape for v in given)
            self.scope.lines.append(f"{name} = ({inside}) parameter(0)")
            for index, v in enumerate(given):
                self.define(v.kind, v.sizes, f"get-tuple-element({name}), index={index}", v.bound, v.rough)
            self.steps(choice.randrange(5), depth + 1)
            gives = [self.pick(v.kind, v.sizes) for v in results]
            bounds = [max(b, v.bound) for b, v in zip(bounds, gives, strict=True)]
            rough = [r or v.rough for r, v in zip(rough, gives, strict=True)]
            self.finish(f"r{self.count} = ({shapes}) tuple({', '.join(v.name for v in gives)})")
            self.count += 1
        self.scope = outer
        if by_number:
            called = f"branch_computations={{{', '.join(names)}}}"
        else:
            called = f"true_computation={names[0]}, false_computation={names[1]}"
        own = [Value("", v.kind, v.sizes, b, r) for v, b, r in zip(results, bounds, rough, strict=True)]
        self.results_of(f"c{number}", shapes, f"conditional({selector.name}, {', '.join(tuples)}), {called}", own)


def own_in_order(order: list[tuple[str, int]], own: list[int]) -> list[int]:
    """The free dimensions of the right operand in the order in which they stand there."""
    return [own[i] for letter, i in order if letter == "n"]
