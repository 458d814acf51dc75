"""The codes of decisions: what every choice of a pass is called, and what it means.

4000 to 4009 any pass, 401x and 402x fusion, 403x several outputs and readers of products, 404x calls and computations,
405x removal and constants, 406x and 407x loops and branches, 408x products, 409x layouts and copies, 41xx expansion,
414x buffers, 416x operands of products, 417x tuned choices, 418x what runs side by side, 419x derivatives and batches,
420x grids of graphics processors, 421x clusters of backends, 424x and 425x exchanges among devices, 427x shardings,
428x partitioned programs, 429x small numbers.
Codes never change their meaning.  `example` is a module in which the choice is made by `pipeline`.
"""

from __future__ import annotations

from hlotool.lazy_dataclass import dataclass

__all__ = ["KINDS", "DecisionKind", "code_of", "find_kind"]


@dataclass(frozen=True, slots=True)
class DecisionKind:
    """A kind of decision: `action` of the rule `rule` in the pass `pass_name` (``*``: any)."""

    code: str
    pass_name: str
    action: str
    rule: str
    title: str
    meaning: str
    example: str = ""
    pipeline: str = ""


_ADD = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, b)\n}\n\n"
_LESS = (
    "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
    "  ROOT c = pred[] compare(a, b), direction=LT\n}\n\n"
)
_X = "x = f32[8,64] parameter(0)"
_DOT = (
    "a = f32[8,8] parameter(0)\nd = f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
)
_BY_ROWS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
_DEQUANTISED = (
    "a = f32[@,64] parameter(0)\nw = s8[64,64] parameter(1)\nb = f32[64,64] convert(w)\n"
    f"ROOT y = f32[@,64] dot(a, b), {_BY_ROWS}"
)
_FOUR_BITS = "w = s4[4] constant({1, -2, 3, -4})\n"
_SUM = "zero = f32[] constant(0)\nr = f32[8] reduce(t, zero), dimensions={1}, to_apply=add\n"


def _main(body: str, before: str = "") -> str:
    lines = "\n".join(f"  {line}" for line in body.strip().splitlines())
    return f"HloModule example\n\n{before}ENTRY main {{\n{lines}\n}}\n"


_SHARDED = _main(
    "x = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}\ny = f32[8,8] tanh(x)\nROOT z = f32[8,8] negate(y)"
)


def _kind(
    code: int, where: str, rule: str, title: str, meaning: str, example: str = "", pipeline: str = ""
) -> DecisionKind:
    action, _, pass_name = where.partition(" ")
    return DecisionKind(f"HLO{code}", pass_name, action, rule, title, meaning, example, pipeline or pass_name)


_LOOP = (
    "condition {\n  s = (s32[], f32[8]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  n = s32[] constant(@)\n  ROOT c = pred[] compare(i, n), direction=LT\n}\n\n"
    "body {\n  s = (s32[], f32[8]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
    "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n  v = f32[8] get-tuple-element(s), index=1\n"
    "  w = f32[8] tanh(v)\n  ROOT t = (s32[], f32[8]) tuple(j, w)\n}\n\n"
)
_RUN = (
    "x = f32[8] parameter(0)\nstart = s32[] constant(0)\nfirst = (s32[], f32[8]) tuple(start, x)\n"
    "loop = (s32[], f32[8]) while(first), condition=condition, body=body\n"
    "ROOT y = f32[8] get-tuple-element(loop), index=1"
)

_ROWS = (
    _kind(4000, "* *", "*", "a choice of a pass", "A pass of another package, or one without a page of its own, "
          "says what it did or would not do; its reason says the rest."),
    _kind(4001, "rewrite algebraic-simplifier", "*", "a rule of algebra was applied",
          "An instruction was replaced by one that gives the same values at less cost.  The rule's name says which "
          "identity; 'hlotool passes algebraic-simplifier' describes the pass.",
          _main(f"{_X}\none = f32[] constant(1)\nones = f32[8,64] broadcast(one), dimensions={{}}\n"
                "ROOT y = f32[8,64] multiply(x, ones)")),
    _kind(4002, "note *", "rules-loop", "rules undo each other",
          "Rewriting stopped after far more rewrites than terminating rules need: two rules change the same "
          "instruction to and fro.  The module is right, but may not be in its simplest form."),
    _kind(4003, "note *", "fixpoint-limit", "a fixpoint hit its limit",
          "The passes of fixpoint(...) still changed something in the last round that its limit allows."),
    _kind(4007, "note *", "pass-failed", "a pass failed and was left out",
          "It crashed, left an invalid module, or made more instructions than its budget, which is a bug in hlotool.  "
          "The result is right all the same, if perhaps slower: the pass was left out from there on, or, where code "
          "generation needs it, with all optimisations or native code.  With --strict it is an error."),
    _kind(4008, "note compiler", "kernel-failed", "a kernel failed and others do its work",
          "Its code could not be written, or LLVM did not take it, which is a bug in hlotool.  A fusion becomes "
          "the kernels of its parts; what is no fusion is computed by the evaluator, in Python.  With --strict it is "
          "an error."),
    _kind(4009, "note compiler", "code-failed", "code generation failed",
          "What failed is no single kernel, which is a bug in hlotool.  The module is compiled without optimisations, "
          "and where that fails, too, the evaluator runs it.  With --strict it is an error."),
    _kind(4004, "rewrite reshape-mover", "*", "a reshape or transpose moved",
          "Operations on reshaped or transposed operands now work on the operands themselves, and the result is "
          "reshaped or transposed: fewer copies, and chains that can be fused."),
    _kind(4005, "rewrite convert-mover", "*", "a conversion to a wider type moved",
          "Narrow numbers are moved or multiplied as they are, and the result is converted: less to read and write.",
          _main("x = f16[8,64] parameter(0)\nw = f32[8,64] convert(x)\n"
                "ROOT y = f32[64,8] transpose(w), dimensions={1,0}")),
    # ---- fusion
    _kind(4010, "rewrite fusion", "fuse", "fused", "The instructions became one kernel: its loop computes all of "
          "them for one element after the other, so that what lies between them never goes to memory.",
          _main(f"{_X}\nt = f32[8,64] tanh(x)\nROOT y = f32[8,64] negate(t)")),
    _kind(4011, "refuse fusion", "own-kernel", "not fused: own kernel",
          "The producer (a dot, a convolution, a sort...) is computed by a kernel that is no loop over its result.",
          _main("a = f32[8,8] parameter(0)\nd = f32[8,8] dot(a, a), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}\nROOT y = f32[8,8] tanh(d)")),
    _kind(4012, "refuse fusion", "repeated-work", "not fused: duplicate work",
          "The consumer reads every element of the producer several times, in a broadcast say, and would compute it "
          "as often: `times`.  At most `limit` is allowed for what costs something.",
          _main("x = f32[64] parameter(0)\nt = f32[64] tanh(x)\nb = f32[64,64] broadcast(t), dimensions={1}\n"
                "ROOT y = f32[64,64] negate(b)")),
    _kind(4013, "refuse fusion", "many-places", "not fused: computed at too many places",
          "The producer would be computed under several index maps, `places`, because its readers move elements in "
          "different ways; each needs code, and work, of its own.",
          _main("x = f32[64] parameter(0)\nt = f32[64] tanh(x)\n"
                "a = f32[16] slice(t), slice={[0:16]}\nb = f32[16] slice(t), slice={[16:32]}\n"
                "c = f32[16] slice(t), slice={[32:48]}\nd = f32[16] add(a, b)\nROOT y = f32[16] add(d, c)")),
    _kind(4014, "refuse fusion", "other-readers", "not fused: others need the result too",
          "Some reader stays outside the fusion, so the producer has to be computed into memory anyway.",
          _main("a = f32[8,8] parameter(0)\nt = f32[8,8] tanh(a)\nd = f32[8,8] dot(t, t), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}\ny = f32[8,8] negate(t)\nROOT r = (f32[8,8], f32[8,8]) tuple(d, y)")),
    _kind(4015, "refuse fusion", "scalar-code", "not fused: scalar code is computed once",
          "Arithmetic on single elements stands in line before the loop, instead of in every turn of it.",
          _main(f"{_X}\ns = f32[] parameter(1)\nt = f32[] tanh(s)\nb = f32[8,64] broadcast(t), dimensions={{}}\n"
                "ROOT y = f32[8,64] multiply(x, b)")),
    _kind(4016, "refuse fusion", "control-dependencies", "not fused: control dependencies",
          "The producer is ordered before or after other instructions; inside a fusion it would have no place.",
          _main(f"{_X}\nz = f32[8,64] abs(x)\nt = f32[8,64] tanh(x), control-predecessors={{z}}\n"
                "ROOT y = f32[8,64] negate(t)")),
    _kind(4017, "refuse fusion", "fusion-full", "not fused: the fusion is full",
          "The fusion has as many instructions as its option max-ops allows.",
          _main(f"{_X}\nt = f32[8,64] tanh(x)\nu = f32[8,64] abs(t)\nROOT y = f32[8,64] negate(u)"),
          "fusion{max-ops=2}"),
    _kind(4018, "refuse fusion", "gathered", "not fused: read at gathered places",
          "A gather would compute the producer at every index that it looks up, which may be one and the same."),
    _kind(4019, "refuse fusion", "in-place", "not fused: updated in place",
          "A dynamic-update-slice writes into its operand; inside the fusion of a reader it would be a copy."),
    _kind(4020, "refuse fusion", "choice-of-source", "not fused: the choice of a source costs too much",
          "For every element a concatenate or gather looks where it comes from; copying it first is cheaper."),
    _kind(4021, "refuse fusion", "several-results", "not fused: several results",
          "A variadic reduce gives several arrays at once; such a kernel ends in it."),
    _kind(4022, "refuse fusion", "no-rows", "not fused: it does not reduce rows",
          "Only a reduce over the last dimensions can join its readers: then a row is contiguous, and is summed "
          "right before it is used.",
          _main(f"{_X}\nzero = f32[] constant(0)\nr = f32[64] reduce(x, zero), dimensions={{0}}, to_apply=add\n"
                "ROOT y = f32[64] tanh(r)", _ADD)),
    _kind(4023, "refuse fusion", "not-row-by-row", "not fused: its readers do not go row by row",
          "The readers of a row's sum use it at other places than in that row, so it would be summed many times.",
          _main(f"{_X}\nzero = f32[] constant(0)\nr = f32[8] reduce(x, zero), dimensions={{1}}, to_apply=add\n"
                "b = f32[64,8] broadcast(r), dimensions={1}\nROOT y = f32[64,8] tanh(b)", _ADD)),
    _kind(4024, "refuse fusion", "other-rows", "not fused: other rows",
          "The fusion goes over rows of one size already, and this reduce has others."),
    _kind(4025, "refuse fusion", "long-row", "not fused: a row is too long",
          "A row group passes over each row several times, which pays while the row (`bytes`) stays in the cache "
          "(`limit`, the option max-row).",
          _main(f"{_X}\nt = f32[8,64] tanh(x)\n{_SUM}b = f32[8,64] broadcast(r), dimensions={{0}}\n"
                "ROOT y = f32[8,64] divide(t, b)", _ADD), "fusion{max-row=64}"),
    _kind(4026, "refuse fusion", "forbidden", "not fused: it was asked not to",
          "The options --fuse-only and --no-fuse, or the attribute frontend_attributes={fuse=\"never\"}, keep the "
          "instruction out of fusions.",
          _main(f"{_X}\nt = f32[8,64] tanh(x)\nROOT y = f32[8,64] negate(t)"), "fusion{never=t}"),
    _kind(4027, "refuse fusion", "reads-itself", "not fused: it reads what it updates",
          "An update that is computed from other parts of the same array would read them after they changed, so the "
          "array would be copied first; computing the update apart is cheaper, unless it is most of the array.",
          _main("x = f32[8] parameter(0)\ni = s32[] constant(1)\na = f32[8] sort(x), dimensions={0}, to_apply=less\n"
                "l = f32[2] slice(a), slice={[0:2]}\nr = f32[2] slice(a), slice={[2:4]}\nm = f32[2] add(l, r)\n"
                "ROOT y = f32[8] dynamic-update-slice(a, m, i)", _LESS)),
    # ---- several outputs
    _kind(4030, "rewrite multi-output-fusion", "merge", "kernels merged", "Kernels over the same loop became one "
          "with several results, since one reads the other or both read the same.",
          _main(f"{_X}\nt = f32[8,64] tanh(x)\ny = f32[8,64] negate(t)\n"
                "ROOT r = (f32[8,64], f32[8,64]) tuple(t, y)"), "fusion,multi-output-fusion"),
    _kind(4031, "refuse multi-output-fusion", "kernel-full", "not merged: the kernel would be too large",
          "Together they have more instructions (max-ops) or results (max-outputs) than one kernel may.",
          _main(f"{_X}\nt = f32[8,64] tanh(x)\ny = f32[8,64] negate(t)\n"
                "ROOT r = (f32[8,64], f32[8,64]) tuple(t, y)"), "fusion,multi-output-fusion{max-outputs=1}"),
    _kind(4032, "refuse multi-output-fusion", "path-outside", "not merged: a path leads outside",
          "Something between the two has to run after the one and before the other: merged they would wait for "
          "themselves."),
    _kind(4087, "refuse multi-output-fusion", "many-places", "not merged: computed too often",
          "The reader moves elements (a roll, a gather, a transpose): the merged kernel would compute the producer, "
          "and all that it is made of, once more at each place that the reader looks at.",
          _main("x = s32[64] parameter(0)\ni = s32[64,1] parameter(1)\nt = s32[64] add(x, x)\n"
                "g = s32[64] gather(t, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
                "index_vector_dim=1, slice_sizes={1}\nROOT y = s32[64] add(g, t)"), "fusion,multi-output-fusion"),
    # ---- products
    _kind(4033, "rewrite product-fusion", "epilogue", "fused into a product", "The kernel of the product computes its "
          "reader as well, for each block of the result while that is in the caches.",
          _main(f"{_DOT}\nROOT y = f32[8,8] tanh(d)")),
    _kind(4029, "refuse product-fusion", "forbidden", "not fused into a product: it was asked not to",
          "The options --fuse-only and --no-fuse, or the attribute frontend_attributes={fuse=\"never\"}, keep the "
          "product or its reader out of fusions.", _main(f"{_DOT}\nROOT y = f32[8,8] tanh(d)"),
          "product-fusion{never=d}"),
    _kind(4028, "refuse product-fusion", "other-readers", "not fused into a product: its fusion has other readers",
          "The product is fused with one reader already, whose result others need too."),
    _kind(4034, "refuse product-fusion", "product-form", "not fused into a product: no matrix",
          "The result of the product is empty, the sum of nothing, or its dimensions do not form a matrix."),
    _kind(4035, "refuse product-fusion", "product-reader", "not fused into a product: another order",
          "The reader wants elements of the product at other places than its own and in other rows, so that it cannot "
          "be computed block by block.", _main(f"{_DOT}\nROOT y = f32[8,8] fusion(d), kind=kLoop, calls=f",
          "f {\n  p = f32[8,8] parameter(0)\n  t = f32[8,8] transpose(p), dimensions={1,0}\n"
          "  ROOT y = f32[8,8] tanh(t)\n}\n\n")),
    _kind(4036, "refuse product-fusion", "product-rows", "not fused into a product: whole rows",
          "The reader wants whole rows, of which a task cannot hold enough, or an operand is so large that it does not "
          "stay in the cache from one block of rows to the next.",
          _main("a = f32[64,8] parameter(0)\nb = f32[8,4096] parameter(1)\n"
                "d = f32[64,4096] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                "ROOT y = f32[64] fusion(d), kind=kInput, calls=f",
                f"{_ADD}f {{\n  p = f32[64,4096] parameter(0)\n  z = f32[] constant(0)\n"
                "  ROOT r = f32[64] reduce(p, z), dimensions={1}, to_apply=add\n}\n\n")),
    _kind(4150, "refuse product-fusion", "product-streams", "not fused into a product: too many large arrays",
          "The reader goes through several other arrays that are as large as the product and in no cache; in the "
          "product's blocks that takes longer than writing the product and reading it again."),
    _kind(4037, "refuse product-fusion", "path-outside", "not fused into a product: a path leads outside",
          "Another reader of the product computes something that this one needs: as one kernel they would wait for "
          "themselves."),
    _kind(4038, "refuse product-fusion", "kernel-full", "not fused into a product: the kernel would be too large",
          "It would have more instructions (max-ops) or results (max-outputs) than one kernel may."),
    _kind(4039, "refuse product-fusion", "control-dependencies", "not fused into a product: control dependencies",
          "One of the two is ordered before or after other instructions."),
    # ---- operands of products
    _kind(4160, "rewrite product-prologue", "prologue", "an operand is computed inside of its product",
          "The kernel of the product computes the operand where it reads it, so that the operand is never written.",
          _main(_DEQUANTISED.replace("@", "8"))),
    _kind(4161, "refuse product-prologue", "not-packed", "operand not computed in its product: it is not packed",
          "The product reads each element of the operand for many results, and would make no copy of it: or copies it "
          "faster when it is there.", _main("a = s8[64,64] parameter(0)\nb = f32[64,64] parameter(1)\n"
                                           "c = f32[64,64] convert(a)\nd = f32[64,64] negate(c)\n"
                                           f"ROOT y = f32[64,64] dot(d, b), {_BY_ROWS}")),
    _kind(4162, "refuse product-prologue", "other-readers", "operand not computed in its product: others read it",
          "Something else needs the operand too, so that it is written anyway, and reading it is as quick as reading "
          "what it is made from.",
          _main(_DEQUANTISED.replace("@", "8").replace("s8", "f32").replace("convert", "negate").replace("ROOT ", "")
                + "\nROOT t = (f32[8,64], f32[64,64]) tuple(y, b)")),
    _kind(4163, "refuse product-prologue", "prologue-form", "operand not computed in its product: not one by one",
          "Elements of the operand are made from many others, or chosen from several arrays, which takes a loop of its "
          "own; or its kernel does more than one loop over its elements, such as a reduction.",
          _main("a = f32[8,64] parameter(0)\nb = f32[64,8] parameter(1)\nc = f32[64,40] concatenate(b, b, b, b, b), "
                f"dimensions={{1}}\nROOT y = f32[8,40] dot(a, c), {_BY_ROWS}")),
    _kind(4169, "refuse product-prologue", "product-rows", "operand not computed in its product: whole rows",
          "What is fused with the product reads whole rows of it, and from streamed operands one result is made after "
          "the other."),
    _kind(4164, "refuse product-prologue", "few-results", "operand not computed in its product: few results",
          "The product has so few results that threads could not share the work on a large operand.",
          _main(_DEQUANTISED.replace("@", "1").replace("64,64", "65536,8").replace("1,64", "1,65536")
                .replace("f32[1,65536] dot", "f32[1,8] dot"))),
    _kind(4165, "refuse product-prologue", "product-form", "operand not computed in its product: no matrix",
          "The result of the product is empty, the sum of nothing, or its dimensions do not form a matrix."),
    _kind(4166, "refuse product-prologue", "kernel-full", "operand not computed in its product: kernel too large",
          "It would have more instructions (max-ops) than one kernel may."),
    _kind(4167, "refuse product-prologue", "control-dependencies", "operand not computed in its product: control "
          "dependencies", "One of the two is ordered before or after other instructions."),
    _kind(4168, "refuse product-prologue", "forbidden", "operand not computed in its product: it was asked not to",
          "The options --fuse-only and --no-fuse, or the attribute frontend_attributes={fuse=\"never\"}, keep the "
          "product or its operand out of fusions.", _main(_DEQUANTISED.replace("@", "8")),
          "product-prologue{never=b}"),
    _kind(4171, "rewrite product-packing", "pack", "an operand of a product is laid out once",
          "The kernel would copy this operand into another form each time it runs: a constant has that form from the "
          "start now, and what a loop does not change gets it before the loop.",
          _main("a = f32[32,4] parameter(0)\nw = f32[16,4] constant({" + ",".join(["{1,2,3,4}"] * 16) + "})\n"
                "ROOT d = f32[32,16] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}")),
    _kind(4172, "refuse product-packing", "other-readers", "not laid out: the constant has other readers",
          "Others read the constant as it is, so that it would be there twice."),
    _kind(4173, "refuse product-packing", "odd-columns", "not laid out: the columns fill no panels",
          "Panels hold 64 bytes of each row; the columns of the operand are no multiple of that."),
    _kind(4174, "rewrite limit-reuse", "reuse", "a comparison reads a limited value",
          "A product reads max(x, c) (or a minimum) anyway; a comparison of x with c gives the same answer for that, "
          "so that x itself need not be written.",
          _main(f"{_DOT}\nz = f32[] constant(0)\nc = f32[8,8] broadcast(z), dimensions={{}}\n"
                "r = f32[8,8] maximum(d, c)\ne = f32[8,8] dot(r, r), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}\ng = pred[8,8] compare(d, c), direction=GT\n"
                "ROOT s = f32[8,8] select(g, e, c)")),
    _kind(4175, "rewrite sub-byte-packing", "pack", "two elements of a constant share a byte",
          "All that reads the constant, whose elements have four bits, computes with single elements, and takes them "
          "from halves of bytes: half as much is read from memory.",
          _main(_FOUR_BITS + "c = f32[4] convert(w)\nROOT y = f32[4] negate(c)"), "fusion,sub-byte-packing{least=4}"),
    _kind(4176, "refuse sub-byte-packing", "whole-bytes", "elements of a constant keep a byte each",
          "Something reads the constant, whose elements have four bits, that is no loop over elements: a product whose "
          "operand it is, a loop whose state it is, or the caller.",
          _main(_FOUR_BITS + "ROOT y = s4[4] copy(w)"), "sub-byte-packing{least=4}"),
    # ---- calls and computations
    _kind(4040, "rewrite call-inliner", "inline", "a call was inlined",
          "The instructions of the called computation stand in the caller now.",
          _main("x = f32[] parameter(0)\nROOT y = f32[] call(x), to_apply=f",
                "f {\n  a = f32[] parameter(0)\n  ROOT t = f32[] tanh(a)\n}\n\n")),
    _kind(4041, "refuse call-inliner", "too-large", "a call stays: the caller would grow too large",
          "Inlining would copy a large computation into several callers, or one that others call several times, level "
          "by level, so that the module doubles with each: it is compiled once, as a function."),
    _kind(4190, "rewrite call-inliner", "fusion-to-call", "a fusion of another compiler became a call",
          "Its computation is shared by too many to be copied for each: it is compiled once, as a function."),
    _kind(4042, "rewrite map-inliner", "inline", "a map became elementwise operations",
          "What a map applies to single elements is now applied to whole arrays.",
          _main("x = f32[8] parameter(0)\nROOT y = f32[8] map(x), dimensions={0}, to_apply=f",
                "f {\n  a = f32[] parameter(0)\n  b = f32[] tanh(a)\n  ROOT t = f32[] negate(b)\n}\n\n")),
    _kind(4043, "refuse map-inliner", "not-elementwise", "a map stays: its function is not elementwise",
          "The function of the map holds an operation that does not work on arrays element by element."),
    _kind(4183, "refuse map-inliner", "too-large", "a map stays: the module would grow too large",
          "Maps inside of maps copy what they copied before; that is bounded by the size of the module."),
    _kind(4044, "rewrite flatten-call-graph", "copy", "a computation was copied for its caller",
          "Loops, branches and calls each own their computations, so that each can be changed by itself."),
    _kind(4191, "rewrite flatten-call-graph", "share", "a computation is called by its loops and branches",
          "It has too many callers to be copied for each (branches of branches double a module with each level): each "
          "owns a computation that calls it, and it is compiled once, as a function."),
    _kind(4045, "rewrite computation-deduplicator", "same-structure", "equal computations became one",
          "Two computations do the same: their callers share one, and it is compiled once."),
    _kind(4046, "rewrite async-to-sync", "synchronous", "an asynchronous operation runs in order",
          "A start and its done became the operation itself: everything runs on one device, one after the other."),
    _kind(4047, "rewrite trivial-collective-remover", "alone", "a collective among one device",
          "With one device a collective gives what it was given."),
    _kind(4048, "rewrite sharding-remover", "annotation", "an annotation of sharding was removed",
          "On one device nothing is divided."),
    _kind(4049, "refuse sharding-remover", "shapes-differ", "an annotation of sharding stays",
          "The annotation changes the shape, so it says how an array is divided among devices, and more than one is "
          "needed."),
    # ---- removal and constants
    _kind(4050, "rewrite dce", "dead", "removed: nothing reads it", "The instruction had no reader and no effect.",
          _main("x = f32[] parameter(0)\nt = f32[] tanh(x)\nROOT y = f32[] negate(x)")),
    _kind(4051, "rewrite dce", "unused-results", "results that nobody reads were removed",
          "A fusion had several results, of which some have no reader."),
    _kind(4052, "rewrite dce", "unused-parameters", "parameters that nobody reads were removed",
          "A called computation does not read some of its parameters, and no longer gets them."),
    _kind(4053, "rewrite cse", "same", "the same was computed twice",
          "An earlier instruction computes the same from the same operands; its result is used instead.",
          _main("x = f32[8] parameter(0)\na = f32[8] tanh(x)\nb = f32[8] tanh(x)\nROOT y = f32[8] add(a, b)")),
    _kind(4054, "rewrite constant-folding", "fold", "folded into a constant",
          "All operands are constants: the result was computed while compiling.",
          _main("a = f32[2] constant({1, 2})\nb = f32[2] constant({3, 4})\nROOT y = f32[2] add(a, b)")),
    _kind(4055, "refuse constant-folding", "too-large", "not folded: the constant would be too large",
          "Storing the result would take more memory than computing it takes time."),
    _kind(4056, "refuse constant-folding", "too-much-work", "not folded: it takes too long",
          "Computing the result while compiling would take longer than the budget for it."),
    _kind(4057, "refuse constant-folding", "not-evaluated", "not folded: the evaluator could not",
          "The evaluator has no rule for the instruction, or it failed on these values."),
    _kind(4058, "rewrite zero-sized-hlo-elimination", "empty", "an empty array became a constant",
          "An array without elements needs no computation."),
    _kind(4059, "rewrite tuple-simplifier", "*", "a detour through a tuple was removed",
          "An element taken from a tuple that was just made is the element; a tuple of all elements of a tuple is "
          "that tuple.",
          _main("x = f32[8] parameter(0)\nt = (f32[8], f32[8]) tuple(x, x)\ne = f32[8] get-tuple-element(t), index=0\n"
                "ROOT y = f32[8] tanh(e)")),
    # ---- loops and branches
    _kind(4060, "rewrite while-loop-simplifier", "trip-count", "a loop that runs once or never was removed",
          "The trip count is known to be 0 or 1: the body stands where the loop was, or nothing does.",
          _main(_RUN, _LOOP.replace("@", "1"))),
    _kind(4061, "rewrite while-loop-simplifier", "invariant-result", "a loop's result is its initial value",
          "The loop hands this element of its state on unchanged."),
    _kind(4062, "rewrite while-loop-simplifier", "invariant-element", "an element of a loop's state never changes",
          "Inside the loop the constant, or the value from outside, is used instead of the element."),
    _kind(4063, "rewrite while-loop-simplifier", "unused-elements", "elements of a loop's state were removed",
          "No result depends on them."),
    _kind(4064, "refuse while-loop-simplifier", "form", "a loop stays as it is",
          "The loop's state or body does not have the form that the simplification can work on."),
    _kind(4065, "rewrite while-loop-trip-count-annotator", "annotate", "a trip count was found",
          "The loop runs `count` times; code generation and costs use that.", _main(_RUN, _LOOP.replace("@", "5"))),
    _kind(4066, "refuse while-loop-trip-count-annotator", "not-counted", "the trip count is not known",
          "There is no induction variable with constant start, step and limit."),
    _kind(4067, "rewrite while-loop-invariant-code-motion", "hoist", "moved out of a loop",
          "It computes the same in every iteration, and is computed once before the loop now."),
    _kind(4068, "refuse while-loop-invariant-code-motion", "larger-than-operands", "stays in the loop: it is larger",
          "Outside the loop its result (`bytes`) would occupy more memory than what it reads (`read`)."),
    _kind(4069, "rewrite while-loop-dot-batching", "batch", "the dots of all iterations became one",
          "A dot of every iteration reads a row of an array that exists before the loop: all are computed at once."),
    _kind(4070, "refuse while-loop-dot-batching", "few-iterations", "dots stay in the loop: too few iterations",
          "Most rows of the one large dot would not be used."),
    _kind(4071, "refuse while-loop-dot-batching", "large-already", "dots stay in the loop: they are large",
          "The dot of one iteration keeps the processor busy by itself."),
    _kind(4072, "refuse while-loop-dot-batching", "too-large", "dots stay in the loop: too much memory",
          "The results of all iterations together would take too much memory."),
    _kind(4073, "rewrite conditional-simplifier", "one-branch", "a conditional has one branch left",
          "The selector is a constant, or there is only one branch.",
          _main("x = f32[] parameter(0)\np = pred[] constant(true)\n"
                "ROOT y = f32[] conditional(p, x, x), true_computation=f, false_computation=g",
                "f {\n  a = f32[] parameter(0)\n  ROOT t = f32[] tanh(a)\n}\n\n"
                "g {\n  a = f32[] parameter(0)\n  ROOT t = f32[] abs(a)\n}\n\n")),
    _kind(4074, "rewrite conditional-simplifier", "unused-results", "results of a conditional were removed",
          "Nobody reads them, so the branches need not compute them."),
    _kind(4075, "rewrite sort-simplifier", "unused-operands", "operands of a sort were removed",
          "They neither decide the order, nor does anybody read them sorted."),
    _kind(4076, "rewrite conditional-to-select", "select", "a conditional became a select",
          "Computing both branches costs less than choosing between them."),
    _kind(4077, "refuse conditional-to-select", "branches-kept", "a conditional keeps its branches",
          "A branch costs more than the choice, or has an effect."),
    _kind(4078, "rewrite while-loop-unroller", "unroll", "a loop was unrolled",
          "It runs `iterations` times: its body stands there as often.", _main(_RUN, _LOOP.replace("@", "3"))),
    _kind(4079, "refuse while-loop-unroller", "*", "a loop stays rolled", "It runs too often, or its copies would be "
          "too large."),
    # ---- products
    _kind(4080, "rewrite dot-decomposer", "dot-to-matrices", "a dot became a product of matrices",
          "Its dimensions were brought into the order batch, rows, columns."),
    _kind(4081, "rewrite transpose-folding", "fold-transpose", "a transpose went into a dot",
          "The dot reads the operand through other strides instead.",
          _main("a = f32[8,4] parameter(0)\nb = f32[8,4] parameter(1)\nt = f32[4,8] transpose(b), dimensions={1,0}\n"
                "ROOT y = f32[8,8] dot(a, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}")),
    _kind(4082, "rewrite transpose-folding", "swap-operands", "a transposed product was turned round",
          "The transpose of a product is the product the other way round."),
    _kind(4083, "refuse transpose-folding", "fold-transpose", "a transpose stays before a dot",
          "The dot could not read the operand through strides alone."),
    _kind(4084, "rewrite product-expander", "product-types", "a product got other types",
          "The operands are converted so that a kernel for the product exists."),
    _kind(4085, "rewrite ragged-dot-decomposer", "ragged-dot", "a ragged dot became dots", "One for each group."),
    _kind(4086, "rewrite scaled-dot-decomposer", "scaled-dot", "a scaled dot became a dot",
          "Its operands are scaled first."),
    # ---- layouts and copies
    _kind(4090, "note layout-assignment", "row-major", "a layout was set", "The code generator works on row-major "
          "arrays: the last dimension is contiguous."),
    _kind(4091, "rewrite layout-assignment", "bitcast-to-transpose", "a bitcast became a transpose",
          "Its operand and its result have different layouts, so elements really move."),
    _kind(4092, "rewrite copy-insertion", "copy", "a copy was needed",
          "The value is a parameter or constant, or is used twice, where a loop or branch wants storage of its own."),
    _kind(4093, "rewrite optimization-barrier-expander", "barrier", "a barrier was removed",
          "It has kept the passes before this one from looking through it."),
    _kind(4094, "rewrite dynamic-padder", "pad", "an operation on arrays of dynamic size works on padded ones",
          "The arrays have their largest size; what lies behind the real size does not take part."),
    _kind(4095, "rewrite dynamic-entry", "pad", "an array of dynamic size was padded",
          "It is stored with its largest size, and its size beside it."),
    _kind(4096, "rewrite memory-scheduler", "schedule", "the order was changed for less memory",
          "In the new order fewer bytes are alive at the worst moment."),
    _kind(4097, "note memory-scheduler", "order-kept", "the order stays", "No order that was tried needs less memory."),
    # ---- expansion
    _kind(4100, "rewrite batch-norm-expander", "expand", "batch norm became reductions and arithmetic",
          "The parts can be simplified and fused with what is around them."),
    _kind(4101, "rewrite logistic-expander", "expand", "logistic became an exponential",
          "1 / (1 + exp(-x)), which can be simplified further."),
    _kind(4102, "rewrite comparison-expander", "total-order", "a total order is decided by the bits",
          "Floats compare as integers after a change of their bits."),
    _kind(4103, "rewrite topk-decomposer", "topk", "top-k became a sort and slices",
          "There is no kernel for top-k of this form."),
    _kind(4104, "rewrite custom-call-expander", "expand", "a custom call became HLO",
          "What the framework's custom call computes is written out, so that it can be optimised and compiled."),
    _kind(4105, "refuse custom-call-expander", "form", "a custom call stays: it has another form",
          "Its operands or its configuration are not those that the framework gives it."),
    _kind(4192, "rewrite lapack-expander", "expand", "a call of LAPACK became HLO",
          "Instructions, or a loop of them, do the same for a whole batch without leaving native code."),
    _kind(4193, "refuse lapack-expander", "form", "LAPACK is called",
          "Instructions would be slower for matrices so large, or do not give all that is read of the results."),
    _kind(4106, "rewrite library-call-expander", "library-call", "a call of a library became HLO",
          "What the library's function computes is written out, so that it can be optimised and compiled."),
    _kind(4107, "rewrite gather-expander", "expand", "a gather became a loop of slices",
          "One window after the other is sliced out of the operand."),
    _kind(4108, "rewrite scatter-expander", "expand", "a scatter became a loop of updates",
          "One window after the other is combined into the operand, in index order."),
    _kind(4109, "rewrite element-loop-expander", "expand", "a computation is called element by element",
          "It has loops, branches or arrays in it, for which there is no code in line."),
    _kind(4110, "rewrite select-and-scatter-expander", "expand", "select-and-scatter became two instructions",
          "A reduce-window finds the selected places, and a scatter adds to them."),
    _kind(4111, "rewrite reduce-window-rewriter", "two-levels", "a cumulative reduction got two levels",
          "It is done within blocks and over the results of the blocks: less work where each window is a loop."),
    _kind(4112, "rewrite tree-reduction-rewriter", "tree", "a long reduction became a tree",
          "Rows first, then their results: a sum loses less where one element is added after the other."),
    _kind(4113, "rewrite rng-bit-generator-expander", "expand", "random bits became integer arithmetic",
          "The rounds of the cipher are written out; the bits are the same."),
    _kind(4114, "refuse rng-bit-generator-expander", "state", "random bits stay: their state has another form",
          "The ciphers take a u64 state of two words, Philox also of three, and give whole 8- to 64-bit words."),
    _kind(4115, "rewrite rng-expander", "expand", "random numbers became arithmetic on random bits",
          "They are other numbers of the same distribution, which HLO leaves open."),
    _kind(4116, "rewrite cholesky-expander", "expand", "a Cholesky factorisation became a loop over columns",
          "Each column needs those before it."),
    _kind(4117, "rewrite triangular-solve-expander", "expand", "a triangular solve became a loop over rows",
          "Each row of the solution needs those before it."),
    _kind(4118, "rewrite float-normalization", "widen", "narrow floats are computed in a wider type",
          "The result is rounded to the narrow type, so its values stay."),
    _kind(4119, "rewrite operand-upcaster", "upcast", "operands of a product were widened",
          "Both have the type of the result, which holds their values exactly."),
    _kind(4299, "rewrite reducer-upcaster", "upcast", "values are converted for a computation",
          "It works in wider types than it was given."),
    _kind(4120, "rewrite convolution-group-converter", "separate", "a grouped convolution became several",
          "Each group is a convolution of its own; the results are joined."),
    _kind(4121, "refuse convolution-group-converter", "many-groups", "a grouped convolution stays: many groups",
          "There would be more convolutions than the pass's limit."),
    _kind(4139, "rewrite convolution-to-dot", "rows", "a convolution of bytes became a dot",
          "A row has the window of a pixel; instructions for bytes add up several products along it."),
    _kind(4122, "rewrite batched-gather-scatter-normalizer", "batching", "batching dimensions became indices",
          "Each has a column of indices that counts along it."),
    _kind(4123, "rewrite dynamic-index-splitter", "split", "a vector of indices became scalars",
          "A slice has one index for each dimension."),
    _kind(4125, "rewrite reduce-window-splitter", "steps", "a reduce-window got several steps",
          "One dimension after the other, and windows of windows: `steps` reductions of few elements each, in place of "
          "one of `elements`.",
          _main("x = f32[64,64] parameter(0)\nzero = f32[] constant(0)\n"
                "ROOT y = f32[58,58] reduce-window(x, zero), window={size=7x7}, to_apply=add", _ADD)),
    _kind(4126, "rewrite topk-rewriter", "first-elements", "a sort became a top-k",
          "Only its first elements are read (`read` of `elements`), so the others need not be sorted.",
          _main("x = s32[4,100] parameter(0)\ns = s32[4,100] sort(x), dimensions={1}, to_apply=less\n"
                "ROOT y = s32[4,5] slice(s), slice={[0:4], [0:5]}", _LESS.replace("f32", "s32"))),
    _kind(4127, "refuse topk-rewriter", "many-elements", "a sort stays: much of it is read",
          "Finding so many of its first elements would take as long as sorting all."),
    _kind(4128, "rewrite result-caster", "cast", "a product gives the type that it adds up in",
          "Its result is converted to the narrow type afterwards; it is rounded once either way."),
    _kind(4129, "rewrite all-to-all-decomposer", "parts", "an all-to-all exchanges whole arrays",
          "The array is cut into one part for each device, and what comes back is joined."),
    _kind(4130, "rewrite stochastic-convert-decomposer", "expand", "a stochastic rounding became arithmetic",
          "The fraction that is cut off is compared with the random bits."),
    _kind(4131, "refuse stochastic-convert-decomposer", "float", "a stochastic rounding stays: it is to a float",
          "The distance between the values of a float type depends on their size."),
    _kind(4132, "rewrite *", "combine", "several collectives became one",
          "They wait for nothing of each other, so the devices meet once, and exchange all arrays."),
    _kind(4006, "rewrite simplify-fp-conversions", "*", "a rounding was left out",
          "A conversion between floats that follows another one reads what that one read.",
          _main("x = f32[8] parameter(0)\nn = bf16[8] convert(x)\nROOT y = f32[8] convert(n)")),
    _kind(4133, "rewrite gather-simplifier", "plain", "a gather got a plain form",
          "Its indices are a matrix with one row for each window, and nothing of the windows is left out."),
    _kind(4134, "rewrite scatter-simplifier", "plain", "a scatter got a plain form",
          "Its indices are a matrix with one row for each window, and windows have all dimensions."),
    _kind(4135, "rewrite bitcast-convert-reshaper", "expand", "a bitcast of other sizes got reshapes",
          "It changes more than the last dimension, and only the total of its bits fits; the bits stay.",
          _main("x = f32[4,6] parameter(0)\nROOT y = s16[48] bitcast-convert(x)")),
    _kind(4136, "rewrite scan-expander", "expand", "a scan became a loop",
          "It goes over the places of the dimension, and carries the outputs and the carries.",
          _main("x = f32[64] parameter(0)\nzero = f32[] constant(0)\n"
                "ROOT y = (f32[64], f32[]) scan(x, zero), dimensions={0}, num_carries=1, to_apply=total",
                "total {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  s = f32[] add(a, b)\n"
                "  ROOT t = (f32[], f32[]) tuple(s, s)\n}\n\n")),
    _kind(4137, "rewrite variadic-reduce-splitter", "split", "a reduce of many arrays became `parts` reduces",
          "One loop over very many arrays keeps few of their results in registers, and takes long to compile; results "
          "of different parts do not need each other."),
    _kind(4138, "refuse variadic-reduce-splitter", "results-linked", "a reduce of many arrays stays one",
          "All of its results need each other, or something that is computed for all of them."),
    _kind(4140, "note buffer-assignment", "operand-in-place", "an operand of a concatenate is not copied",
          "Its kernel writes it where it is a part of the result."),
    _kind(4141, "refuse buffer-assignment", "operand-scattered", "an operand of a concatenate is copied: its rows lie "
          "apart", "Only along the outermost dimension are the operands side by side in the result; kernels write "
          "their results as one piece."),
    _kind(4142, "refuse buffer-assignment", "operand-given", "an operand of a concatenate is copied: it is there "
          "before", "Arguments of the program and constants have storage of their own."),
    _kind(4143, "refuse buffer-assignment", "operand-part", "an operand of a concatenate is copied: it is part of "
          "something", "It is a slice that is read where it lies, or is in a concatenation already."),
    _kind(4144, "refuse buffer-assignment", "operand-needed", "an operand of a concatenate is copied: it needs storage "
          "of its own", "It is a result of the program too, or what comes later is computed in its place, or the "
          "result of the concatenate is."),
    _kind(4145, "note buffer-assignment", "state-swapped", "loop state changes places instead of being copied",
          "A trip reads it in one place and computes that of the next trip in another; then the places are swapped."),
    _kind(4146, "note buffer-assignment", "initial-unread", "the initial state of a loop is left out",
          "The loop writes every element before anything reads one, as a scan does that stacks its results; the zeros "
          "that it starts with are not written."),
    _kind(4147, "note buffer-assignment", "row-in-place", "what a loop stacks is not copied",
          "Its kernel writes it where it belongs in the array of the results of all trips."),
    _kind(4170, "note tuning", "choices", "a kernel is written by choices of a tuning database",
          "A search on such a machine measured that they make it quicker than the formulas do; the gain is what it "
          "measured.  HLOTOOL_TUNE=off leaves formulas to decide."),
    _kind(4171, "note tuning", "costs", "passes go by costs of a tuning database",
          "A search on such a machine measured that the module is quicker so; the gain is what it measured."),
    _kind(4172, "refuse tuning", "unreadable", "a tuning database, or a line of one, is left out",
          "It is damaged, of another version, or about knobs that are not known here; hlotool tune --prune removes "
          "what cannot be used."),
    _kind(4173, "refuse tuning", "unwritable", "kernels could not be noted in a tuning database",
          "The program is compiled all the same."),
    _kind(4180, "note overlap", "side-by-side", "steps run side by side",
          "They do not wait for each other: threads share them as one job, in which a loop or a kernel that cannot be "
          "split is one task.  Times are estimates, for two threads."),
    _kind(4181, "refuse overlap", "memory", "steps run one after the other: too much memory",
          "All that they need and make would be alive at once, more than the peak and a sixteenth of it."),
    _kind(4182, "refuse overlap", "little-gain", "steps run one after the other: it takes hardly longer",
          "They do not wait for each other, but one takes most of the time, or threads share the tasks of each anyway, "
          "or what goes from core to core costs what is gained.  Times are estimates, for two threads."),
    _kind(4183, "note small-loops", "in-registers", "a loop is one function, with its kernels, and values in registers",
          "Its trips are so short that calls of kernels, and memory between them, would take most of their time."),
    _kind(4200, "note grids", "tensor-cores", "a product is computed by tensor cores",
          "Blocks of threads multiply pieces of the matrices by instructions for that.  f32 numbers are split into two "
          "of TF32, three products of which leave out less than 2^-21; those of a piece with very small, very large or "
          "infinite numbers are multiplied one by one."),
    _kind(4201, "note grids", "core-tiles", "a product is computed by the units that every thread has",
          "Blocks of threads bring pieces of the matrices to shared memory, and each adds up a small tile; the reason "
          "says why tensor cores do not."),
    _kind(4202, "note grids", "partial-sums", "a reduction or product is divided among blocks",
          "Some `parts` of each sum are computed apart, and another grid adds them up, in order: results do not depend "
          "on which block is the first."),
    _kind(4203, "note grids", "block-per-row", "a block of threads computes a row",
          "Its threads share the reductions over the row, and then its elements."),
    _kind(4204, "note grids", "squares", "elements are turned in shared memory",
          "Squares of what is read go through shared memory, so that neighbouring threads read and write neighbours."),
    _kind(4205, "note grids", "thread-per-task", "a thread does what a task of the processor does",
          "The algorithm is the processor's, divided into as many `tasks`; each is done by one thread, which is right "
          "but leaves much of a chip idle."),
    _kind(4206, "note grids", "one-graph", "the whole program can be one launch",
          "All operations are recorded once as a graph of CUDA, in memory that stays, which a run launches: loops have "
          "known numbers of trips, and nothing is asked of the host."),
    _kind(4207, "note grids", "host-control", "the host launches kernels one by one",
          "It reads the condition of a loop or the number of a branch, or carries out an instruction, before it knows "
          "what comes next; or there are too many operations for one graph."),
    _kind(4208, "note grids", "scatter", "how updates are combined",
          "Each element has a thread that combines its updates in the order of the indices; or updates have a thread "
          "each, where no two meet, or they are integers that may be combined in any order; or windows that may "
          "overlap are combined one after the other.  Results never depend on which thread comes first."),
    _kind(4209, "note grids", "sort", "how lines are sorted",
          "Blocks sort records of keys and indices in shared memory, and grids merge what is longer."),
    _kind(4210, "note grids", "windows", "how windows are reduced",
          "Every result has a thread that goes through its window; or windows are a scan, of whose lines blocks have "
          "parts and threads some neighbouring elements, or each thread has a line, where there are many side by side, "
          "they are short, or the order of the elements matters."),
    _kind(4211, "note grids", "library-product", "a library multiplies, where it is installed",
          "The product is large, and its matrices lie as cuBLAS takes them.  The program has grids for it, too."),
    _kind(4212, "note grids", "library", "whether large products are cuBLAS's",
          "A program with large products was loaded, and cuBLAS was installed (hlotool[cuda]), or grids multiply."),
    _kind(4213, "note grids", "block-per-matrix", "a block of threads factors a matrix",
          "Rows are scaled one after the other, and each is taken from all that are below it at once."),
    _kind(4195, "rewrite vmap", "batch", "a module of one example became one of `examples`",
          "Its parameters and results have a dimension more, one element of it for each example.",
          _main("x = f32[8] parameter(0)\nROOT y = f32[8] sine(x)"), "vmap{size=4}"),
    _kind(4196, "note *", "turns", "an instruction takes the examples one after the other",
          "It has no form for many at once, such as a reduction for which every example has another initial value: a "
          "loop goes over the examples.",
          _main("x = f32[8] parameter(0)\nn = f32[] parameter(1)\n"
                "ROOT y = f32[8] reduce-window(x, n), window={size=3 pad=1_1}, to_apply=add", _ADD), "vmap{size=4}"),
    _kind(4210, "note clusters", "cluster", "a backend compiles a cluster of instructions",
          "From the first to the last one named, in one module of so many `operations` that do so much `work` "
          "(operations and bytes moved, as 'hlotool cost' counts them).  Arguments and results go to and from other "
          "parts, or the caller."),
    _kind(4211, "refuse clusters", "unsupported", "an instruction is left to the backend that does the rest",
          "The chosen backend does not support it, or would not compile the cluster that it was in; the reason says "
          "which.  'hlotool explain clusters FILE BACKEND' shows all of them, and what each would bring."),
    _kind(4212, "refuse clusters", "little-work", "a cluster is not worth a call",
          "The backend could compile the instruction, but the cluster around it does less `work` than the backend "
          "declares to be worth the call."),
    _kind(4213, "note compiler", "backend-failed", "a backend failed and another does its work",
          "A backend of another package raised an error of Python's where it should compile a cluster or say whether "
          "it can, which is a bug in that package.  Another backend compiles these instructions.  With --strict it is "
          "an error."),
    _kind(4124, "rewrite broadcast-canonicalizer", "transpose-first", "a broadcast keeps the order of dimensions",
          "The operand, which is smaller, is transposed first."),
    _kind(4230, "rewrite change-precision", "product", "a product reads narrower numbers",
          "Its operands are rounded to the type that the pass is told; it is added up in the type of its result.",
          _main("x = f32[8,64] parameter(0)\nw = f32[64,8] parameter(1)\n"
                "ROOT y = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
          "change-precision"),
    _kind(4231, "rewrite change-precision", "value", "a value is computed in a narrower type",
          "With scope=values: its operands are rounded, and it is widened where something reads it that is not "
          "computed in the narrower type.",
          _main("x = f32[64] parameter(0)\nROOT y = f32[64] tanh(x)"), "change-precision{scope=values}"),
    _kind(4232, "refuse change-precision", "kept", "an instruction keeps its precision: it is to",
          "The option keep finds its name.",
          _main("x = f32[64] parameter(0)\nROOT y = f32[64] tanh(x)"), "change-precision{scope=values,keep=y}"),
    _kind(4233, "refuse change-precision", "asked-for", "a product keeps the precision that it asks for",
          "It has an algorithm, or an operand_precision of high or highest.",
          _main("x = f32[8,64] parameter(0)\nw = f32[64,8] parameter(1)\nROOT y = f32[8,8] dot(x, w), "
                "lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}"),
          "change-precision"),
    _kind(4290, "rewrite fold-scales", "fold-scale", "weights are multiplied by the scales of their channels",
          "A constant scale for each channel of the result, as a batch norm leaves it, went into constant weights.",
          _main("x = f32[8,4] parameter(0)\nw = f32[4,2] constant({{1,2},{3,4},{5,6},{7,8}})\n"
                f"d = f32[8,2] dot(x, w), {_BY_ROWS}\ns = f32[2] constant({{2, 3}})\n"
                "b = f32[8,2] broadcast(s), dimensions={1}\nROOT y = f32[8,2] multiply(d, b)")),
    _kind(4291, "refuse fold-scales", "fold-overflow", "a scale stays where it is: weights times it are not finite",
          "The product of a weight and the scale of its channel is infinite or NaN, which results need not be."),
    _kind(4292, "rewrite integer-products", "integer", "a product multiplies stored numbers",
          "Both operands are small numbers times scales.  The numbers are multiplied and added up (integers in s32, "
          "small floats in f32), and the sums are scaled; what zero points add is taken off the sums.",
          _main("a = s8[8,64] parameter(0)\nw = s8[64,8] parameter(1)\ns = f32[] constant(0.5)\n"
                "sa = f32[8,64] broadcast(s), dimensions={}\nsw = f32[64,8] broadcast(s), dimensions={}\n"
                "fa = f32[8,64] convert(a)\nfw = f32[64,8] convert(w)\nx = f32[8,64] multiply(fa, sa)\n"
                f"y = f32[64,8] multiply(fw, sw)\nROOT d = f32[8,8] dot(x, y), {_BY_ROWS}")),
    _kind(4293, "refuse integer-products", "not-integer", "a product of small numbers is computed in floats",
          "Both operands are small numbers times scales, but a scale differs along a dimension that is summed over, a "
          "zero point is in a place where it cannot be taken off the sums, or sums may not fit s32.",
          _main("a = s8[8,64] parameter(0)\nw = s8[64,8] parameter(1)\ns = f32[64] parameter(2)\n"
                "sa = f32[8,64] broadcast(s), dimensions={1}\nsw = f32[64,8] broadcast(s), dimensions={0}\n"
                "fa = f32[8,64] convert(a)\nfw = f32[64,8] convert(w)\nx = f32[8,64] multiply(fa, sa)\n"
                f"y = f32[64,8] multiply(fw, sw)\nROOT d = f32[8,8] dot(x, y), {_BY_ROWS}")),
    _kind(4294, "rewrite *", "quantise", "a product is quantised",
          "Its operands are stored as small numbers, with scales that come from calibration."),
    _kind(4295, "refuse quantise", "kept", "a product is not quantised: it is to keep its type",
          "The option --keep finds the name of the instruction, or its op_name."),
    _kind(4296, "refuse quantise", "asked-for", "a product is not quantised: it asks for its precision",
          "It has an algorithm, or an operand_precision of high or highest."),
    _kind(4297, "refuse quantise", "unfit", "a product cannot be quantised",
          "The reason says why: its type, weights that are not constant, a loop around it, whose values calibration "
          "does not see, sums that may not fit s32, or weights that are no whole groups."),
    _kind(4298, "refuse quantise", "accuracy", "a product is not quantised: the error would be too large",
          "With --max-error: among the products whose rounding changes the results most, so many keep their type that "
          "the error of the others is within the bound.  `error` is that of the module with this product alone "
          "quantised."),
    _kind(4197, "rewrite grad", "differentiate", "a module computes gradients", "The entry returns the gradients of a "
          "scalar result by parameters; `given` instructions are `made` to so many.",
          _main("x = f32[3] parameter(0)\ny = f32[3] tanh(x)\nROOT d = f32[] dot(y, y), lhs_contracting_dims={0}, "
                "rhs_contracting_dims={0}")),
    _kind(4194, "rewrite *", "compute-again", "a gradient computes values again that it does not keep",
          "With `memory`, a bound: the values take `bytes`, and `operations` make them again, when the gradient comes "
          "to them.  Of the ways into the bound it is the one that repeats the least work; the peak was `peak_before`, "
          "and is `peak_after`, from shapes in program order.",
          _main("x = f32[64] parameter(0)\n" + "\n".join(
              f"y{n} = f32[64] sine({'x' if not n else f'y{n - 1}'})" for n in range(12)) +
              "\nROOT d = f32[] dot(y11, y11), lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
          "grad{memory=3kB}"),
    _kind(4198, "rewrite vjp", "differentiate", "a module brings cotangents back", "The entry takes cotangents of its "
          "results and returns those of parameters (reverse mode).",
          _main("x = f32[3] parameter(0)\nROOT y = f32[3] tanh(x)")),
    _kind(4199, "rewrite jvp", "differentiate", "a module takes tangents along", "The entry takes tangents of "
          "parameters and returns those of its results, too (forward mode).",
          _main("x = f32[3] parameter(0)\nROOT y = f32[3] tanh(x)")),
    _kind(4242, "rewrite reduce-scatter-creator", "scatter", "an all-reduce became a reduce-scatter",
          "Every device read the part of its own number alone: it is sent that, `bytes_after` of `bytes_before`."),
    _kind(4243, "refuse reduce-scatter-creator", "other-part", "an all-reduce stays: another part is read",
          "A reduce-scatter gives device n of a group part n, along one dimension.  Where a part begins has to follow "
          "from partition-id and replica-id."),
    _kind(4244, "refuse reduce-scatter-creator", "several-dimensions", "an all-reduce stays: its part is no slab",
          "A reduce-scatter cuts along one dimension alone."),
    _kind(4245, "rewrite all-reduce-reassociate", "reassociate", "two all-reduces became one",
          "The sum of two sums over devices is the sum of what the devices add up themselves: `bytes` are exchanged "
          "once instead of twice."),
    _kind(4246, "refuse all-reduce-reassociate", "rounded", "two all-reduces stay: the sum would be rounded otherwise",
          "With the option exact floats keep their order of roundings."),
    _kind(4247, "rewrite async-collective-creator", "start", "a collective became a start and a done",
          "What does not need its result can run between them: `bytes` are exchanged meanwhile."),
    _kind(4248, "refuse async-collective-creator", "small", "a collective stays: it exchanges few bytes",
          "It moves `bytes`, less than min-bytes: a pair would cost more than it hides."),
    _kind(4249, "refuse async-collective-creator", "in-place", "a permute stays: it writes into an operand",
          "Nothing else may read the operand while it is under way."),
    _kind(4250, "rewrite latency-hiding-scheduler", "schedule", "devices compute while they exchange",
          "By the model of the machine a run takes `us_after` microseconds instead of `us_before`; from shapes the "
          "peak of memory was `peak_before`, and is `peak_after`."),
    _kind(4251, "note latency-hiding-scheduler", "order-kept", "the order of a computation stays",
          "By the model of the machine no order takes less time than `us_before` without taking much more memory."),
    _kind(4252, "rewrite while-loop-collective-code-motion", "hoist", "an exchange left a loop",
          "It was the same in every iteration; its result, `bytes`, stays alive while the loop runs."),
    _kind(4253, "refuse while-loop-collective-code-motion", "may-not-run", "an exchange stays in a loop",
          "How often the loop runs is not known: devices that never came to the exchange do not wait for each other."),
    _kind(4254, "refuse while-loop-collective-code-motion", "too-large", "an exchange stays in a loop: it is large",
          "Its result, `bytes`, would stay alive while the loop runs: more than max-bytes."),
    _kind(4255, "rewrite while-loop-all-reduce-code-motion", "sink", "an all-reduce moved behind a loop",
          "The loop adds up what each device has itself, and the sum, `bytes`, is exchanged once."),
    _kind(4256, "refuse while-loop-all-reduce-code-motion", "may-not-run", "an all-reduce stays in a loop",
          "How often the loop runs is not known: devices that never came to the exchange do not wait for each other."),
    _kind(4257, "refuse while-loop-all-reduce-code-motion", "rounded",
          "an all-reduce stays in a loop: the sum would be rounded otherwise",
          "With the option exact floats keep their order of roundings."),
    _kind(4270, "rewrite sharding-propagation", "forward", "a result is cut as an operand is",
          "The dimensions that they have in common are cut alike; the rest of the devices have copies.  `level`: 0 "
          "element by element, 1 products, reductions and movement, 2 what adds dimensions, 3 between operands.",
          _SHARDED),
    _kind(4271, "rewrite sharding-propagation", "backward", "an operand is cut as a result is",
          "The dimensions that they have in common are cut alike; the rest of the devices have copies.  `level` is as "
          "in HLO4270.",
          _main("x = f32[8,8] parameter(0)\ny = f32[8,8] tanh(x)\nROOT s = f32[8,8] custom-call(y), "
                "custom_call_target=\"Sharding\", sharding={devices=[2,1]<=[2]}")),
    _kind(4272, "rewrite sharding-propagation", "beside", "an operand is cut as another one is",
          "They have a dimension in common that the result has not: what is summed over.",
          _main("x = f32[8,8] parameter(0), sharding={devices=[1,2]<=[2]}\nc = f32[8] constant({1,2,3,4,5,6,7,8})\n"
                "w = f32[8,8] broadcast(c), dimensions={0}\nROOT y = f32[8,8] dot(x, w), " + _BY_ROWS)),
    _kind(4273, "rewrite sharding-propagation", "group", "a value is cut as another one of its group",
          "Annotations name the group: shard_as 1, shard_like 1, or a ShardingGroup of Shardy's."),
    _kind(4274, "rewrite sharding-propagation", "kept", "a value keeps a sharding that is not for it to choose",
          "Parameters and results of the program are on every device as a whole where they have no annotation and the "
          "header does not allow propagation to them; values of one loop, branch or call have one sharding.",
          _SHARDED),
    _kind(4275, "refuse sharding-propagation", "conflict", "two values that belong together are cut differently",
          "Both have shardings, from annotations or from nearer values, that no third is as fine as.  The partitioner "
          "moves what is missing between devices.",
          _main("x = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}\n"
                "y = f32[8,8] parameter(1), sharding={devices=[1,2]<=[2]}\nz = f32[8,8] add(x, y)\n"
                "ROOT r = f32[8,8] negate(z)")),
    _kind(4276, "rewrite *", "shardy", "an annotation of Shardy's became one of HLO",
          "Results of the program, and functions of the parts of arrays, are annotated over named axes by JAX.  The "
          "same is said by the custom calls Sharding, SPMDFullToShardShape and SPMDShardToFullShape."),
    _kind(4280, "rewrite spmd-partitioner", "partition", "a module for one device became one for many",
          "Each of `devices` devices has its part of every array, as the shardings say, and exchanges with others what "
          "it needs of theirs.",
          _main("x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}\nROOT y = f32[8,4] sine(x)"),
          "spmd-partitioner{partitions=2}"),
    _kind(4281, "note spmd-partitioner", "fallback", "every device computes all of an instruction",
          "Its operands are gathered, `bytes` of them received by each device, and what is wanted is cut out of the "
          "result: no rule knows how to divide it, or all that is divided has to be whole.",
          _main("x = c64[8] parameter(0), sharding={devices=[2]<=[2]}\n"
                "ROOT y = c64[8] fft(x), fft_type=FFT, fft_length={8}"),
          "spmd-partitioner{partitions=2}"),
    _kind(4282, "note spmd-partitioner", "windowed-einsum", "tiles of an operand go round instead of being gathered",
          "The operand of a product would take `bytes` bytes on each device: in a loop, devices multiply by one tile "
          "while they pass it on, and have two tiles at a time.",
          _main("x = f32[8,4] parameter(0), sharding={devices=[2,1]<=[2]}\n"
                "w = f32[4,6] parameter(1), sharding={devices=[1,2]<=[2]}\n"
                "ROOT y = f32[8,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                "sharding={devices=[2,1]<=[2]}"),
          "spmd-partitioner{partitions=2,windowed-from=1}"),
    _kind(4283, "note spmd-partitioner", "one-device", "one device does what it alone is asked to do",
          "A custom call that is on one device, such as that of a function of Python, happens once: that device gets "
          "its operands as a whole, and sends all others the results.",
          _main('x = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n'
                'ROOT y = f32[8] custom-call(x), custom_call_target="Mine", sharding={maximal device=0}'),
          "spmd-partitioner{partitions=2}"),
    _kind(4284, "note spmd-partitioner", "each-device", "each device does it with the part that it has",
          "A function of Python that is to see parts (`jax.debug.callback(..., partitioned=True)`) is called by every "
          "device, and nothing is gathered for it.",
          _main("x = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n"
                'y = () custom-call(x), custom_call_target="xla_ffi_partitioned_python_cpu_callback", '
                "custom_call_has_side_effect=true\nROOT z = f32[8] negate(x)"),
          "spmd-partitioner{partitions=2}"),
)  # fmt: skip

KINDS: dict[str, DecisionKind] = {kind.code: kind for kind in _ROWS}
"""All kinds by their code."""

_BY_RULE = {(kind.pass_name, kind.action, kind.rule): kind.code for kind in _ROWS}


def code_of(pass_name: str, action: str, rule: str) -> str:
    """The code of a decision; HLO4000 for those without a page."""
    places = ((pass_name, action, rule), ("*", action, rule), (pass_name, action, "*"))
    return next((_BY_RULE[place] for place in places if place in _BY_RULE), "HLO4000")


def find_kind(code: str) -> DecisionKind | None:
    """The kind with a code; ``HLO4012``, ``hlo4012`` and ``4012`` are the same."""
    return KINDS.get(f"HLO{code.strip().upper().removeprefix('HLO').lstrip('-_ ')}")
