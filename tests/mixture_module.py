"""Text of a mixture-of-experts transformer as frameworks write it, of any size.

Layouts, metadata with places in sources, shardings, frontend attributes, calls, fusions, sorts and while loops: one
layer has about 980 instructions, 56 layers of 8 experts are the 55,000 lines of a large model.
"""

from __future__ import annotations

__all__ = ["mixture_module"]

_TOKENS, _WIDTH, _HEADS, _SIZE, _HIDDEN = 512, 1024, 16, 64, 3584

_SHARED = """
%region_add.1 (Arg_0.1: f32[], Arg_1.1: f32[]) -> f32[] {
  %Arg_0.1 = f32[] parameter(0)
  %Arg_1.1 = f32[] parameter(1)
  ROOT %add.1 = f32[] add(%Arg_0.1, %Arg_1.1), metadata={op_name="jit(step)/reduce_sum" source_line=12}
}

%region_max.2 (Arg_0.2: f32[], Arg_1.2: f32[]) -> f32[] {
  %Arg_0.2 = f32[] parameter(0)
  %Arg_1.2 = f32[] parameter(1)
  ROOT %maximum.1 = f32[] maximum(%Arg_0.2, %Arg_1.2), metadata={op_name="jit(step)/reduce_max" source_line=31}
}

%scatter_add.3 (Arg_0.3: f32[], Arg_1.3: f32[]) -> f32[] {
  %Arg_0.3 = f32[] parameter(0)
  %Arg_1.3 = f32[] parameter(1)
  ROOT %add.2 = f32[] add(%Arg_0.3, %Arg_1.3)
}

%descending.4 (Arg_0.4: f32[], Arg_1.4: f32[], Arg_2.4: s32[], Arg_3.4: s32[]) -> pred[] {
  %Arg_0.4 = f32[] parameter(0)
  %Arg_1.4 = f32[] parameter(1)
  %Arg_2.4 = s32[] parameter(2)
  %Arg_3.4 = s32[] parameter(3)
  ROOT %gt.1 = pred[] compare(%Arg_0.4, %Arg_1.4), direction=GT, type=TOTALORDER
}

%silu.5 (Arg_0.5: f32[TOKENS,HIDDEN]) -> f32[TOKENS,HIDDEN] {
  %Arg_0.5 = f32[TOKENS,HIDDEN]{1,0} parameter(0)
  %neg.5 = f32[TOKENS,HIDDEN]{1,0} negate(%Arg_0.5), metadata={op_name="jit(silu)/neg" source_line=7}
  %exp.5 = f32[TOKENS,HIDDEN]{1,0} exponential(%neg.5), metadata={op_name="jit(silu)/exp" source_line=7}
  %constant.5 = f32[] constant(1)
  %broadcast.5 = f32[TOKENS,HIDDEN]{1,0} broadcast(%constant.5), dimensions={}
  %add.5 = f32[TOKENS,HIDDEN]{1,0} add(%exp.5, %broadcast.5), metadata={op_name="jit(silu)/add" source_line=7}
  ROOT %div.5 = f32[TOKENS,HIDDEN]{1,0} divide(%Arg_0.5, %add.5), metadata={op_name="jit(silu)/div" source_line=8}
}
"""


class _Writer:
    """The lines of one computation; every method gives the name of what it wrote."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 100
        self.parameters: list[tuple[str, str]] = []
        self.scope = ""

    def op(self, shape: str, opcode: str, *operands: str, more: str = "", sharding: str = "") -> str:
        self.count += 1
        name = f"%{opcode.replace('-', '_')}.{self.count}"
        more = f", {more}" if more else ""
        if sharding:
            more += f", sharding={sharding}"
        line = 20 + 7 * self.count % 311
        metadata = f'op_name="jit(step)/{self.scope}/{opcode}" source_file="/src/model/{self.scope.split("/")[1]}.py"'
        where = f"source_line={line} source_end_line={line} source_column={8 + self.count % 5} source_end_column=61"
        text = f"{shape} {opcode}({', '.join(operands)}){more}, metadata={{{metadata} {where}}}"
        self.lines.append(f"  {name} = {text}")
        return name

    def parameter(self, shape: str, name: str) -> str:
        number = len(self.parameters)
        self.parameters.append((f"%{name}", shape))
        sharding = "{devices=[1,8]<=[8]}" if shape.count(",") else "{replicated}"
        where = f'metadata={{op_name="params[\\\'{name}\\\']"}}'
        self.lines.append(f"  %{name} = {shape} parameter({number}), sharding={sharding}, {where}")
        return f"%{name}"

    def constant(self, value: str, shape: str = "f32[]") -> str:
        self.count += 1
        self.lines.append(f"  %constant.{self.count} = {shape} constant({value})")
        return f"%constant.{self.count}"

    def spread(self, value: str, shape: str, dimensions: str = "") -> str:
        return self.op(shape, "broadcast", value, more=f"dimensions={{{dimensions}}}")

    def reduce(self, shape: str, value: str, start: str, dimension: int, region: str) -> str:
        return self.op(
            shape, "reduce", value, self.constant(start), more=f"dimensions={{{dimension}}}, to_apply={region}"
        )

    def dot(self, shape: str, a: str, b: str, left: str = "1", right: str = "0", batch: str = "") -> str:
        more = f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"
        if batch:
            more = f"lhs_batch_dims={{{batch}}}, rhs_batch_dims={{{batch}}}, {more}"
        return self.op(shape, "dot", a, b, more=more)


def mixture_module(layers: int, experts: int = 8) -> str:
    """A module of `layers` transformer layers, each with `experts` experts of which two serve a token."""
    writer, computations = _Writer(), _SHARED.replace("TOKENS", str(_TOKENS)).replace("HIDDEN", str(_HIDDEN))
    wide = f"f32[{_TOKENS},{_WIDTH}]{{1,0}}"
    value = writer.parameter(wide, "tokens")
    for layer in range(layers):
        writer.scope = f"layers_{layer}/attention"
        value = _attention(writer, value, layer)
        writer.scope = f"layers_{layer}/experts"
        value, more = _experts(writer, value, layer, experts)
        computations += more
        writer.scope = f"layers_{layer}/residual"
        value = writer.op(
            wide, "custom-call", value,
            more='custom_call_target="Sharding", frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<'
            '[<@mesh, [{\\"data\\"}, {}]>]>"}', sharding="{devices=[8,1]<=[8]}",
        )  # fmt: skip
    writer.lines.append(f"  ROOT %result.1 = {wide} negate({value})")
    signature = ", ".join(f"{name}: {shape.partition('{')[0]}" for name, shape in writer.parameters)
    layout = ", ".join(shape for _, shape in writer.parameters)
    header = f"HloModule jit_step, entry_computation_layout={{({layout})->{wide}}}, num_partitions=8\n"
    entry = f"ENTRY %main ({signature.replace('%', '')}) -> {wide.partition('{')[0]}"
    body = "\n".join(writer.lines)
    return f"{header}{computations}\n{entry} {{\n{body}\n}}\n"


def _norm(w: _Writer, x: str, name: str) -> str:
    """Root-mean-square normalisation of the rows."""
    wide, thin = f"f32[{_TOKENS},{_WIDTH}]{{1,0}}", f"f32[{_TOKENS}]{{0}}"
    weight = w.parameter(f"f32[{_WIDTH}]{{0}}", name)
    total = w.reduce(thin, w.op(wide, "multiply", x, x), "0", 1, "%region_add.1")
    mean = w.op(thin, "divide", total, w.spread(w.constant(str(_WIDTH)), thin))
    inverse = w.op(thin, "rsqrt", w.op(thin, "add", mean, w.spread(w.constant("1e-05"), thin)))
    scaled = w.op(wide, "multiply", x, w.spread(inverse, wide, "0"))
    return w.op(wide, "multiply", scaled, w.spread(weight, wide, "1"))


def _rotate(w: _Writer, x: str, cosine: str, sine: str) -> str:
    """Rotary position embedding of f32[tokens, heads, size]."""
    shape, half = f"f32[{_TOKENS},{_HEADS},{_SIZE}]{{2,1,0}}", f"f32[{_TOKENS},{_HEADS},{_SIZE // 2}]{{2,1,0}}"
    ranges = f"[0:{_TOKENS}], [0:{_HEADS}]"
    first = w.op(half, "slice", x, more=f"slice={{{ranges}, [0:{_SIZE // 2}]}}")
    second = w.op(half, "slice", x, more=f"slice={{{ranges}, [{_SIZE // 2}:{_SIZE}]}}")
    turned = w.op(shape, "concatenate", w.op(half, "negate", second), first, more="dimensions={2}")
    a = w.op(shape, "multiply", x, w.spread(cosine, shape, "0,2"))
    b = w.op(shape, "multiply", turned, w.spread(sine, shape, "0,2"))
    return w.op(shape, "add", a, b)


def _attention(w: _Writer, x: str, layer: int) -> str:
    wide = f"f32[{_TOKENS},{_WIDTH}]{{1,0}}"
    square, heads = f"f32[{_WIDTH},{_WIDTH}]{{1,0}}", f"f32[{_TOKENS},{_HEADS},{_SIZE}]{{2,1,0}}"
    scores, rows = f"f32[{_HEADS},{_TOKENS},{_TOKENS}]{{2,1,0}}", f"f32[{_HEADS},{_TOKENS}]{{1,0}}"
    angles = f"f32[{_TOKENS},{_SIZE}]{{1,0}}"
    y = _norm(w, x, f"norm0.{layer}")
    position = w.op(angles, "iota", more="iota_dimension=0")
    angle = w.op(angles, "multiply", position, w.spread(w.constant("0.01"), angles))
    cosine, sine = w.op(angles, "cosine", angle), w.op(angles, "sine", angle)
    q, k, v = (
        w.op(heads, "reshape", w.dot(wide, y, w.parameter(square, f"{n}.{layer}"))) for n in ("query", "key", "value")
    )
    q, k = _rotate(w, q, cosine, sine), _rotate(w, k, cosine, sine)
    by_head = f"f32[{_HEADS},{_TOKENS},{_SIZE}]{{2,1,0}}"
    q, k, v = (w.op(by_head, "transpose", part, more="dimensions={1,0,2}") for part in (q, k, v))
    s = w.dot(scores, q, k, "2", "2", "0")
    s = w.op(scores, "multiply", s, w.spread(w.constant("0.125"), scores))
    mask = f"pred[{_TOKENS},{_TOKENS}]{{1,0}}"
    number = f"s32[{_TOKENS},{_TOKENS}]{{1,0}}"
    low = w.op(number, "iota", more="iota_dimension=0")
    seen = w.op(mask, "compare", low, w.op(number, "iota", more="iota_dimension=1"), more="direction=GE")
    hidden = w.spread(w.constant("-1e+30"), scores)
    s = w.op(scores, "select", w.spread(seen, f"pred[{_HEADS},{_TOKENS},{_TOKENS}]{{2,1,0}}", "1,2"), s, hidden)
    top = w.reduce(rows, s, "-inf", 2, "%region_max.2")
    e = w.op(scores, "exponential", w.op(scores, "subtract", s, w.spread(top, scores, "0,1")))
    total = w.reduce(rows, e, "0", 2, "%region_add.1")
    p = w.op(scores, "divide", e, w.spread(total, scores, "0,1"))
    out = w.op(heads, "transpose", w.dot(by_head, p, v, "2", "1", "0"), more="dimensions={1,0,2}")
    out = w.dot(wide, w.op(wide, "reshape", out), w.parameter(square, f"out.{layer}"))
    return w.op(wide, "add", x, out)


def _experts(w: _Writer, x: str, layer: int, experts: int) -> tuple[str, str]:
    """The routed experts of a layer, and the computations that they call."""
    wide = f"f32[{_TOKENS},{_WIDTH}]{{1,0}}"
    routes, numbers = f"f32[{_TOKENS},{experts}]{{1,0}}", f"s32[{_TOKENS},{experts}]{{1,0}}"
    thin = f"f32[{_TOKENS}]{{0}}"
    y = _norm(w, x, f"norm1.{layer}")
    logits = w.dot(routes, y, w.parameter(f"f32[{_WIDTH},{experts}]{{1,0}}", f"router.{layer}"))
    top = w.reduce(thin, logits, "-inf", 1, "%region_max.2")
    e = w.op(routes, "exponential", w.op(routes, "subtract", logits, w.spread(top, routes, "0")))
    p = w.op(routes, "divide", e, w.spread(w.reduce(thin, e, "0", 1, "%region_add.1"), routes, "0"))
    order = w.op(numbers, "iota", more="iota_dimension=1")
    both = f"(f32[{_TOKENS},{experts}]{{1,0}}, s32[{_TOKENS},{experts}]{{1,0}})"
    ranked = w.op(both, "sort", p, order, more="dimensions={1}, is_stable=true, to_apply=%descending.4")
    kept, chosen = f"f32[{_TOKENS},2]{{1,0}}", f"s32[{_TOKENS},2]{{1,0}}"
    two = f"slice={{[0:{_TOKENS}], [0:2]}}"
    best = w.op(kept, "slice", w.op(routes, "get-tuple-element", ranked, more="index=0"), more=two)
    which = w.op(chosen, "slice", w.op(numbers, "get-tuple-element", ranked, more="index=1"), more=two)
    weight = w.op(kept, "divide", best, w.spread(w.reduce(thin, best, "0", 1, "%region_add.1"), kept, "0"))
    total = w.spread(w.constant("0"), wide)
    for expert in range(experts):
        total = _expert(w, y, total, which, weight, layer, expert)
    balance, more = _balance(w, p, layer, experts)
    scaled = w.op(wide, "multiply", total, w.spread(balance, wide))
    return w.op(wide, "add", x, scaled), more


def _expert(w: _Writer, y: str, total: str, which: str, weight: str, layer: int, expert: int) -> str:
    """One expert: the rows that chose it are gathered, go through its network, and are added where they came from."""
    wide, hidden = f"f32[{_TOKENS},{_WIDTH}]{{1,0}}", f"f32[{_TOKENS},{_HIDDEN}]{{1,0}}"
    chosen, kept, thin = f"s32[{_TOKENS},2]{{1,0}}", f"f32[{_TOKENS},2]{{1,0}}", f"f32[{_TOKENS}]{{0}}"
    rows, places = f"s32[{_TOKENS}]{{0}}", f"s32[{_TOKENS},1]{{1,0}}"
    number = w.spread(w.constant(str(expert), "s32[]"), chosen)
    hit = w.op(f"pred[{_TOKENS},2]{{1,0}}", "compare", which, number, more="direction=EQ")
    share = w.op(kept, "select", hit, weight, w.spread(w.constant("0"), kept))
    share = w.reduce(thin, share, "0", 1, "%region_add.1")
    used = w.op(f"pred[{_TOKENS}]{{0}}", "compare", share, w.spread(w.constant("0"), thin), more="direction=GT")
    row = w.op(rows, "iota", more="iota_dimension=0")
    last = w.spread(w.constant(str(_TOKENS - 1), "s32[]"), rows)
    row = w.op(rows, "select", used, row, last)
    low = w.op(f"pred[{_TOKENS}]{{0}}", "compare", row, w.spread(w.constant("0", "s32[]"), rows), more="direction=LT")
    wrapped = w.op(rows, "add", row, w.spread(w.constant(str(_TOKENS), "s32[]"), rows))
    place = w.op(places, "reshape", w.op(rows, "select", low, wrapped, row))
    picked = w.op(
        wide, "gather", y, place,
        more="offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
        f"slice_sizes={{1,{_WIDTH}}}",
    )  # fmt: skip
    up = f"f32[{_WIDTH},{_HIDDEN}]{{1,0}}"
    gate = w.dot(hidden, picked, w.parameter(up, f"gate.{layer}.{expert}"))
    raised = w.dot(hidden, picked, w.parameter(up, f"up.{layer}.{expert}"))
    if expert % 2:
        active = w.op(hidden, "call", gate, more="to_apply=%silu.5")
    else:
        active = w.op(hidden, "fusion", gate, more="kind=kLoop, calls=%silu.5")
    inner = w.op(hidden, "multiply", active, raised)
    half = w.op(hidden.replace("f32", "bf16"), "convert", inner)
    down = f"f32[{_HIDDEN},{_WIDTH}]{{1,0}}"
    weights = w.op(down.replace("f32", "bf16"), "convert", w.parameter(down, f"down.{layer}.{expert}"))
    lowered = w.op(wide, "convert", w.dot(wide.replace("f32", "bf16"), half, weights))
    lowered = w.op(wide, "multiply", lowered, w.spread(share, wide, "0"))
    for step in range(4):  # what a dropout written with integers leaves behind
        bits = wide.replace("f32", "u32")
        counter = w.op(bits, "iota", more=f"iota_dimension={step % 2}")
        mixed = w.op(bits, "xor", counter, w.spread(w.constant(str(2654435761 + layer * 8 + expert), "u32[]"), bits))
        left = w.op(bits, "shift-left", mixed, w.spread(w.constant(str(13 + step), "u32[]"), bits))
        right = w.op(bits, "shift-right-logical", mixed, w.spread(w.constant(str(19 - step), "u32[]"), bits))
        turned = w.op(bits, "or", left, right)
        four = w.spread(w.constant("4", "u32[]"), bits)
        fine = w.op(wide.replace("f32", "pred"), "compare", turned, four, more="direction=GT")
        lowered = w.op(wide, "select", fine, lowered, w.spread(w.constant("0"), wide))
    return w.op(
        wide, "scatter", total, place, lowered,
        more="update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=%scatter_add.3",
    )  # fmt: skip


def _balance(w: _Writer, p: str, layer: int, experts: int) -> tuple[str, str]:
    """A loop of ten steps that evens the load of the experts, and its two computations."""
    load = f"f32[{experts}]{{0}}"
    state = f"(s32[], {load})"
    n = layer
    text = f"""
%body.{n} (arg.{n}: (s32[], f32[{experts}])) -> (s32[], f32[{experts}]) {{
  %arg.{n} = {state} parameter(0)
  %step.{n} = s32[] get-tuple-element(%arg.{n}), index=0
  %one.{n} = s32[] constant(1)
  %next.{n} = s32[] add(%step.{n}, %one.{n}), metadata={{op_name="jit(step)/layers_{n}/balance/while/body/add"}}
  %load.{n} = {load} get-tuple-element(%arg.{n}), index=1
  %tanh.{n} = {load} tanh(%load.{n}), metadata={{op_name="jit(step)/layers_{n}/balance/while/body/tanh"}}
  ROOT %tuple.{n} = {state} tuple(%next.{n}, %tanh.{n})
}}

%condition.{n} (arg.c{n}: (s32[], f32[{experts}])) -> pred[] {{
  %arg.c{n} = {state} parameter(0)
  %step.c{n} = s32[] get-tuple-element(%arg.c{n}), index=0
  %ten.{n} = s32[] constant(10)
  ROOT %lt.{n} = pred[] compare(%step.c{n}, %ten.{n}), direction=LT
}}
"""
    first = w.reduce(load, p, "0", 0, "%region_add.1")
    start = w.op(state, "tuple", w.constant("0", "s32[]"), first)
    config = 'backend_config={"known_trip_count":{"n":"10"}}'
    loop = w.op(state, "while", start, more=f"condition=%condition.{n}, body=%body.{n}, {config}")
    last = w.op(load, "get-tuple-element", loop, more="index=1")
    return w.reduce("f32[]", last, "0", 0, "%region_add.1"), text
