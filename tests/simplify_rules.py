"""Rows for the tests of rewrite rules: rule, entry computation before, root expression after.

In expressions ``p0`` is a parameter, a number a scalar constant, ``[4,8]`` after an opcode its dimensions where a
rule is about them, and ``{...}`` what tells apart operations of one opcode.
"""

from __future__ import annotations

ROWS: list[tuple[str, str, str]] = [
    # ---- arithmetic
    ("constant-right", "c = f32[] constant(2)\nROOT r = f32[] add(c, p0)", "add(p0, 2)"),
    ("combine-constants",
     "a = s32[] constant(2)\nb = s32[] constant(3)\nx = s32[] multiply(p0, a)\nROOT r = s32[] multiply(x, b)",
     "multiply(p0, multiply(2, 3))"),
    ("combine-constants",
     "a = f32[] constant(2)\nb = f32[] constant(3)\nx = f32[] maximum(p0, a)\nROOT r = f32[] maximum(x, b)",
     "maximum(p0, maximum(2, 3))"),
    ("combine-constants",
     "a = f32[] constant(0.1)\nb = f32[] constant(3)\nx = f32[] add(p0, a)\nROOT r = f32[] add(x, b)", ""),
    ("combine-constants",
     "a = s32[] constant(2)\nb = s32[] constant(3)\nx = s32[] add(a, b)\nROOT r = s32[] add(x, b)", ""),
    ("add-zero", "c = f32[] constant(0)\nz = f32[8] broadcast(c), dimensions={}\nROOT r = f32[8] add(p0, z)", "p0"),
    ("add-zero", "c = s8[] constant(0)\nROOT r = s8[] subtract(p0, c)", "p0"),
    ("add-negated", "n = f32[8] negate(p1:f32[8])\nROOT r = f32[8] add(p0, n)", "subtract(p0, p1)"),
    ("add-negated", "n = f32[8] negate(p1:f32[8])\nROOT r = f32[8] add(n, p0)", "subtract(p0, p1)"),
    ("subtract-negated", "n = f32[8] negate(p1:f32[8])\nROOT r = f32[8] subtract(p0, n)", "add(p0, p1)"),
    ("subtract-self", "ROOT r = s32[8] subtract(p0, p0)", "broadcast(0)"),
    ("subtract-self", "ROOT r = f32[8] subtract(p0, p0)", ""),
    ("subtract-constant", "c = s8[] constant(-128)\nROOT r = s8[] subtract(p0, c)", "add(p0, -128)"),
    ("subtract-constant", "c = u8[] constant(3)\nROOT r = u8[] subtract(p0, c)", "add(p0, 253)"),
    ("subtract-summand", "s = s32[8] add(p0, p1:s32[8])\nROOT r = s32[8] subtract(s, p0)", "p1"),
    ("subtract-from-zero", "c = s32[] constant(0)\nROOT r = s32[] subtract(c, p0)", "negate(p0)"),
    ("multiply-one", "c = f32[] constant(1)\nROOT r = f32[] divide(p0, c)", "p0"),
    ("multiply-zero", "c = s32[] constant(0)\nROOT r = s32[] multiply(p0, c)", "0"),
    ("multiply-zero", "c = f32[] constant(0)\nROOT r = f32[] multiply(p0, c)", ""),
    ("multiply-minus-one", "c = f32[] constant(-1)\nROOT r = f32[] multiply(p0, c)", "negate(p0)"),
    ("multiply-minus-one", "c = s32[] constant(-1)\nROOT r = s32[] divide(p0, c)", "negate(p0)"),
    ("negated-factors",
     "a = f32[8] negate(p0)\nb = f32[8] negate(p1:f32[8])\nROOT r = f32[8] divide(a, b)", "divide(p0, p1)"),
    ("negated-factors", "a = f32[] negate(p0)\nc = f32[] constant(3)\nROOT r = f32[] multiply(a, c)",
     "multiply(p0, -3)"),
    ("negated-product", "c = f32[] constant(3)\nm = f32[] multiply(p0, c)\nROOT r = f32[] negate(m)",
     "multiply(p0, -3)"),
    ("divide-power-of-two", "c = f32[] constant(8)\nROOT r = f32[] divide(p0, c)", "multiply(p0, 0.125)"),
    ("divide-power-of-two", "c = f32[] constant(3)\nROOT r = f32[] divide(p0, c)", ""),
    ("divide-by-root",
     "s = f32[8] sqrt(p1:f32[8])\nb = f32[8,4] broadcast(s), dimensions={0}\nROOT r = f32[8,4] divide(p0, b)",
     "multiply(p0, broadcast{0}(rsqrt(p1)))"),
    ("divide-by-root",
     "c = f32[] constant(1)\nb = f32[8] broadcast(c), dimensions={}\ns = f32[8] sqrt(p0)\n"
     "ROOT r = f32[8] divide(b, s)", "rsqrt(p0)"),
    ("divide-by-root", "s = f32[8] sqrt(p0)\nROOT r = f32[8] divide(s, s)", ""),
    ("divide-by-exponential", "e = f32[8] exponential(p1:f32[8])\nROOT r = f32[8] divide(p0, e)",
     "multiply(p0, exponential(negate(p1)))"),
    ("unsigned-power-of-two", "c = u32[] constant(16)\nROOT r = u32[] divide(p0, c)", "shift-right-logical(p0, 4)"),
    ("unsigned-power-of-two", "c = u32[] constant(16)\nROOT r = u32[] remainder(p0, c)", "and(p0, 15)"),
    ("unsigned-power-of-two", "c = s32[] constant(16)\nROOT r = s32[] divide(p0, c)", ""),
    ("remainder-one", "c = s32[] constant(1)\nROOT r = s32[] remainder(p0, c)", "0"),
    ("power-zero", "c = f32[] constant(0)\nROOT r = f32[] power(p0, c)", "1"),
    ("power-one", "c = f32[] constant(1)\nROOT r = f32[] power(p0, c)", "p0"),
    ("power-small", "c = f32[] constant(2)\nROOT r = f32[] power(p0, c)", "multiply(p0, p0)"),
    ("power-small", "c = f32[] constant(3)\nROOT r = f32[] power(p0, c)", "multiply(multiply(p0, p0), p0)"),
    ("power-small", "c = s32[] constant(4)\nROOT r = s32[] power(p0, c)",
     "multiply(multiply(p0, p0), multiply(p0, p0))"),
    ("power-inverse", "c = f32[] constant(-1)\nROOT r = f32[] power(p0, c)", "divide(1, p0)"),
    ("power-half", "c = f32[] constant(0.5)\na = f32[] abs(p0)\nROOT r = f32[] power(a, c)", "sqrt(abs(p0))"),
    ("power-half", "c = f32[] constant(0.5)\nROOT r = f32[] power(p0, c)", ""),
    ("double-negation", "n = f32[8] negate(p0)\nROOT r = f32[8] negate(n)", "p0"),
    ("double-negation", "n = s32[8] not(p0)\nROOT r = s32[8] not(n)", "p0"),
    ("negated-difference", "d = s32[8] subtract(p0, p1:s32[8])\nROOT r = s32[8] negate(d)", "subtract(p1, p0)"),
    ("absolute-nonnegative", "m = f32[8] multiply(p0, p0)\nROOT r = f32[8] abs(m)", "multiply(p0, p0)"),
    ("absolute-nonnegative", "m = s32[8] multiply(p0, p0)\nROOT r = s32[8] abs(m)", ""),
    ("absolute-negated", "n = f32[8] negate(p0)\nROOT r = f32[8] abs(n)", "abs(p0)"),
    ("rounded-twice", "f = f32[8] floor(p0)\nROOT r = f32[8] ceil(f)", "floor(p0)"),
    ("part-of-complex", "c = c64[8] complex(p0, p1:f32[8])\nROOT r = f32[8] imag(c)", "p1"),
    ("complex-of-parts", "a = f32[8] real(p0:c64[8])\nb = f32[8] imag(p0)\nROOT r = c64[8] complex(a, b)", "p0"),
    ("real-of-real", "ROOT r = f32[8] real(p0)", "p0"),
    # ---- logic, comparison, selection
    ("idempotent", "ROOT r = s32[8] and(p0, p0)", "p0"),
    ("absorbed-repetition", "m = f32[8] maximum(p0, p1:f32[8])\nROOT r = f32[8] maximum(m, p1)", "maximum(p0, p1)"),
    ("and-constant", "c = pred[] constant(true)\nROOT r = pred[] and(p0, c)", "p0"),
    ("and-constant", "c = s32[] constant(0)\nROOT r = s32[] and(p0, c)", "0"),
    ("and-constant", "c = u8[] constant(255)\nROOT r = u8[] and(p0, c)", "p0"),
    ("and-constant", "c = u16[] constant(255)\nROOT r = u16[] and(p0, c)", ""),
    ("or-constant", "c = pred[] constant(true)\nROOT r = pred[] or(p0, c)", "true"),
    ("or-constant", "c = s32[] constant(0)\nROOT r = s32[] or(p0, c)", "p0"),
    ("xor-constant", "c = pred[] constant(true)\nROOT r = pred[] xor(p0, c)", "not(p0)"),
    ("xor-constant", "ROOT r = s32[8] xor(p0, p0)", "broadcast(0)"),
    ("shift-zero", "c = s32[] constant(0)\nROOT r = s32[] shift-left(p0, c)", "p0"),
    ("extreme-of-range", "c = f32[] constant(-inf)\nROOT r = f32[] maximum(p0, c)", "p0"),
    ("extreme-of-range", "c = u8[] constant(0)\nROOT r = u8[] minimum(p0, c)", "0"),
    ("extreme-of-range", "c = f32[] constant(inf)\nROOT r = f32[] maximum(p0, c)", ""),
    ("clamp-one-sided",
     "a = f32[] constant(-inf)\nb = f32[] constant(1)\nROOT r = f32[8] clamp(a, p0, b)", "minimum(p0, broadcast(1))"),
    ("clamp-one-sided", "a = u8[] constant(3)\nb = u8[] constant(255)\nROOT r = u8[] clamp(a, p0, b)",
     "maximum(p0, 3)"),
    ("clamp-twice",
     "a = f32[] constant(0)\nb = f32[] constant(1)\nx = f32[8] clamp(a, p0, b)\nROOT r = f32[8] clamp(a, x, b)",
     "clamp(0, p0, 1)"),
    ("compare-constant-left", "c = f32[] constant(1)\nROOT r = pred[] compare(c, p0:f32[]), direction=LE",
     "compare{GE}(p0, 1)"),
    ("compare-self", "ROOT r = pred[8] compare(p0:s32[8], p0), direction=GE", "broadcast(true)"),
    ("compare-self", "ROOT r = pred[8] compare(p0:f32[8], p0), direction=LT", "broadcast(false)"),
    ("compare-self", "ROOT r = pred[8] compare(p0:f32[8], p0), direction=NE", ""),
    ("compare-with-limit", "c = u32[] constant(0)\nROOT r = pred[] compare(p0:u32[], c), direction=GE", "true"),
    ("compare-with-limit", "c = s8[] constant(127)\nROOT r = pred[] compare(p0:s8[], c), direction=GT", "false"),
    ("compare-predicate", "c = pred[] constant(false)\nROOT r = pred[] compare(p0, c), direction=EQ", "not(p0)"),
    ("compare-predicate",
     "x = s32[] convert(p0:pred[])\nc = s32[] constant(0)\nROOT r = pred[] compare(x, c), direction=NE", "p0"),
    ("compare-shifted",
     "a = s32[] constant(5)\nb = s32[] constant(7)\nx = s32[] add(p0:s32[], a)\n"
     "ROOT r = pred[] compare(x, b), direction=EQ", "compare{EQ}(p0, subtract(7, 5))"),
    ("inverted-compare", "x = pred[8] compare(p0:s32[8], p1:s32[8]), direction=LT\nROOT r = pred[8] not(x)",
     "compare{GE}(p0, p1)"),
    ("inverted-compare", "x = pred[8] compare(p0:f32[8], p1:f32[8]), direction=EQ\nROOT r = pred[8] not(x)",
     "compare{NE}(p0, p1)"),
    ("inverted-compare", "x = pred[8] compare(p0:f32[8], p1:f32[8]), direction=LT\nROOT r = pred[8] not(x)", ""),
    ("select-known", "c = pred[] constant(false)\nROOT r = f32[8] select(c, p0, p1:f32[8])", "p1"),
    ("select-known", "ROOT r = f32[8] select(p1:pred[8], p0, p0)", "p0"),
    ("select-negated", "n = pred[8] not(p2:pred[8])\nROOT r = f32[8] select(n, p0, p1:f32[8])", "select(p2, p1, p0)"),
    ("select-predicate",
     "t = pred[] constant(true)\nf = pred[] constant(false)\nROOT r = pred[] select(p0, f, t)", "not(p0)"),
    ("select-predicate", "t = pred[] constant(true)\nROOT r = pred[] select(p0, t, p1:pred[])", "or(p0, p1)"),
    ("select-predicate", "f = pred[] constant(false)\nROOT r = pred[] select(p0, p1:pred[], f)", "and(p0, p1)"),
    ("select-repeated",
     "x = f32[8] select(p2:pred[8], p0, p1:f32[8])\nROOT r = f32[8] select(p2, x, p3:f32[8])", "select(p2, p0, p3)"),
    ("select-repeated",
     "x = f32[8] select(p2:pred[8], p0, p1:f32[8])\nROOT r = f32[8] select(p2, p3:f32[8], x)", "select(p2, p3, p1)"),
    # ---- conversion
    ("same-type", "ROOT r = f32[8] convert(p0)", "p0"),
    ("same-type", "ROOT r = f32[8]{0} copy(p0:f32[8]{0})", "p0"),
    ("same-type", "ROOT r = f32[2,8]{0,1} copy(p0:f32[2,8]{1,0})", ""),
    ("convert-twice", "x = f32[8] convert(p0:bf16[8])\nROOT r = bf16[8] convert(x)", "p0"),
    ("convert-twice", "x = f64[8] convert(p0:s32[8])\nROOT r = f32[8] convert(x)", "convert[f32](p0)"),
    ("convert-twice", "x = bf16[8] convert(p0:f32[8])\nROOT r = f32[8] convert(x)", ""),
    ("convert-twice", "x = f64[8] convert(p0:s32[8])\nROOT r = s8[8] convert(x)", ""),
    ("convert-twice", "x = s32[8] convert(p0:u8[8])\nROOT r = s8[8] convert(x)", "convert[s8](p0)"),
    ("convert-twice", "x = u32[8] convert(p0:s8[8])\nROOT r = s64[8] convert(x)", ""),
    ("bitcast-twice", "x = s32[8] bitcast-convert(p0:f32[8])\nROOT r = f32[8] bitcast-convert(x)", "p0"),
    ("convert-iota", "i = s32[2] iota(), iota_dimension=0\nROOT r = pred[2] convert(i)", ""),
    ("convert-iota", "i = s32[8,4] iota(), iota_dimension=1\nROOT r = bf16[8,4] convert(i)", "iota[bf16]{1}()"),
    ("convert-iota", "i = s32[300] iota(), iota_dimension=0\nROOT r = bf16[300] convert(i)", ""),
    ("precision-kept", "ROOT r = f32[8] reduce-precision(p0), exponent_bits=8, mantissa_bits=23", "p0"),
    ("precision-kept", "ROOT r = f32[8] reduce-precision(p0), exponent_bits=8, mantissa_bits=7", ""),
    # ---- movement
    ("splat-constant", "c = f32[2,2] constant({{3,3},{3,3}})\nROOT r = f32[2,2] add(p0, c)", "add(p0, broadcast(3))"),
    ("counting-constant", "c = s32[8] constant({0,1,2,3,4,5,6,7})\nROOT r = s32[8] add(p0, c)", "add(p0, iota{0}())"),
    ("iota-of-one", "i = s32[1,8] iota(), iota_dimension=0\nROOT r = s32[1,8] add(p0, i)", "add(p0, broadcast(0))"),
    ("broadcast-nothing", "ROOT r = f32[8,4] broadcast(p0), dimensions={0,1}", "p0"),
    ("broadcast-nothing", "ROOT r = f32[4,4] broadcast(p0), dimensions={1,0}", ""),
    ("broadcast-ones", "ROOT r = f32[1,8,1] broadcast(p0:f32[8]), dimensions={1}", "reshape[1,8,1](p0)"),
    ("broadcast-twice",
     "x = f32[8,4] broadcast(p0:f32[8]), dimensions={0}\nROOT r = f32[4,2,8] broadcast(x), dimensions={2,0}",
     "broadcast{2}(p0)"),
    ("broadcast-of-inserted-ones",
     "x = f32[1,8] reshape(p0:f32[8])\nROOT r = f32[1,2,8] broadcast(x), dimensions={0,2}", "broadcast{2}(p0)"),
    ("elementwise-of-broadcasts",
     "a = f32[8,4] broadcast(p0:f32[8]), dimensions={0}\nb = f32[8,4] broadcast(p1:f32[8]), dimensions={0}\n"
     "ROOT r = f32[8,4] multiply(a, b)", "broadcast{0}(multiply(p0, p1))"),
    ("elementwise-of-broadcasts",
     "c = f32[] constant(2)\na = f32[8,4] broadcast(p0:f32[8]), dimensions={0}\n"
     "b = f32[8,4] broadcast(c), dimensions={}\nROOT r = f32[8,4] add(a, b)", "broadcast{0}(add(p0, broadcast(2)))"),
    ("elementwise-of-broadcasts",
     "a = f32[8,8] broadcast(p0:f32[8]), dimensions={0}\nb = f32[8,8] broadcast(p1:f32[8]), dimensions={1}\n"
     "ROOT r = f32[8,8] multiply(a, b)", ""),
    ("elementwise-of-broadcasts",
     "a = f32[8] broadcast(p0:f32[]), dimensions={}\nb = f32[8] broadcast(p1:f32[]), dimensions={}\n"
     "ROOT r = f32[8] select(p2:pred[], a, b)", "broadcast(select(p2, p0, p1))"),
    ("reshape-nothing", "ROOT r = f32[8] reshape(p0)", "p0"),
    ("reshape-twice", "x = f32[4,2] reshape(p0:f32[8])\nROOT r = f32[2,4] reshape(x)", "reshape[2,4](p0)"),
    ("reshape-broadcast", "x = f32[8,4] broadcast(p0:f32[8]), dimensions={0}\nROOT r = f32[8,1,4] reshape(x)",
     "broadcast{0}(p0)"),
    ("reshape-broadcast", "x = f32[8,4] broadcast(p0:f32[8]), dimensions={0}\nROOT r = f32[32] reshape(x)", ""),
    ("reshape-broadcast", "x = f32[8,4] broadcast(p0:f32[]), dimensions={}\nROOT r = f32[32] reshape(x)",
     "broadcast(p0)"),
    ("reshape-iota", "x = s32[8,4] iota(), iota_dimension=1\nROOT r = s32[8,1,4] reshape(x)", "iota{2}()"),
    ("transpose-nothing", "ROOT r = f32[8,4] transpose(p0), dimensions={0,1}", "p0"),
    ("transpose-twice",
     "x = f32[4,2,8] transpose(p0:f32[8,4,2]), dimensions={1,2,0}\n"
     "ROOT r = f32[2,8,4] transpose(x), dimensions={1,2,0}",
     "transpose{2,0,1}(p0)"),
    ("transpose-ones", "ROOT r = f32[8,1,4] transpose(p0:f32[1,8,4]), dimensions={1,0,2}", "reshape[8,1,4](p0)"),
    ("transpose-broadcast",
     "x = f32[2,8,4] broadcast(p0:f32[8,4]), dimensions={1,2}\nROOT r = f32[4,2,8] transpose(x), dimensions={2,0,1}",
     "broadcast{0,2}(transpose{1,0}(p0))"),
    ("transpose-iota", "x = s32[8,4] iota(), iota_dimension=1\nROOT r = s32[4,8] transpose(x), dimensions={1,0}",
     "iota{0}()"),
    ("reverse-ones", "ROOT r = f32[1,8] reverse(p0), dimensions={0,1}", "reverse{1}(p0)"),
    ("reverse-twice", "x = f32[4,8] reverse(p0), dimensions={0,1}\nROOT r = f32[4,8] reverse(x), dimensions={1}",
     "reverse{0}(p0)"),
    ("reverse-broadcast",
     "x = f32[4,8] broadcast(p0:f32[8]), dimensions={1}\nROOT r = f32[4,8] reverse(x), dimensions={0}",
     "broadcast{1}(p0)"),
    # ---- slicing
    ("slice-all", "ROOT r = f32[8] slice(p0), slice={[0:8]}", "p0"),
    ("slice-twice", "x = f32[5] slice(p0:f32[16]), slice={[1:11:2]}\nROOT r = f32[2] slice(x), slice={[1:5:2]}",
     "slice{3:8:4}(p0)"),
    ("slice-concatenate",
     "x = f32[16] concatenate(p0:f32[8], p1:f32[8]), dimensions={0}\nROOT r = f32[4] slice(x), slice={[10:14]}",
     "slice{2:6:1}(p1)"),
    ("slice-concatenate",
     "x = f32[12] concatenate(p0:f32[4], p1:f32[4], p2:f32[4]), dimensions={0}\n"
     "ROOT r = f32[5] slice(x), slice={[5:10]}", "slice{1:6:1}(concatenate(p1, p2))"),
    ("slice-pad", "x = f32[12] pad(p0:f32[8], p1:f32[]), padding=2_2\nROOT r = f32[4] slice(x), slice={[3:7]}",
     "slice{1:5:1}(p0)"),
    ("slice-pad", "x = f32[12] pad(p0:f32[8], p1:f32[]), padding=2_2\nROOT r = f32[2] slice(x), slice={[10:12]}",
     "broadcast(p1)"),
    ("slice-pad", "x = f32[12] pad(p0:f32[8], p1:f32[]), padding=2_2\nROOT r = f32[4] slice(x), slice={[0:4]}", ""),
    ("slice-broadcast",
     "x = f32[8,4] broadcast(p0:f32[8]), dimensions={0}\nROOT r = f32[3,2] slice(x), slice={[2:5], [0:2]}",
     "broadcast{0}(slice{2:5:1}(p0))"),
    ("slice-iota", "x = s32[8,4] iota(), iota_dimension=1\nROOT r = s32[3,2] slice(x), slice={[2:5], [0:2]}",
     "iota{1}()"),
    ("slice-arithmetic",
     "x = f32[8] add(p0:f32[8], p1:f32[8])\nROOT r = f32[1] slice(x), slice={[5:6]}",
     "add(slice{5:6:1}(p0), slice{5:6:1}(p1))"),
    ("slice-arithmetic",
     "x = f32[2,8] clamp(p0:f32[], p1:f32[2,8], p2:f32[])\nROOT r = f32[1,1] slice(x), slice={[1:2], [5:6]}",
     "clamp(p0, slice{1:2:1,5:6:1}(p1), p2)"),
    ("slice-arithmetic",
     "x = f32[8] add(p0:f32[8], p1:f32[8])\na = f32[1] slice(x), slice={[5:6]}\n"
     "b = f32[2] slice(x), slice={[5:7]}\nROOT r = f32[3] concatenate(a, b), dimensions={0}",
     ""),
    ("slice-of-inserted-ones",
     "x = f32[8,1,4] reshape(p0:f32[8,4])\nROOT r = f32[2,1,4] slice(x), slice={[2:4], [0:1], [0:4]}",
     "reshape[2,1,4](slice{2:4:1,0:4:1}(p0))"),
    ("dynamic-slice-constant",
     "c = s32[] constant(7)\nROOT r = f32[4] dynamic-slice(p0:f32[8], c), dynamic_slice_sizes={4}", "slice{4:8:1}(p0)"),
    ("dynamic-slice-constant", "ROOT r = f32[8] dynamic-slice(p0:f32[8], p1:s32[]), dynamic_slice_sizes={8}", "p0"),
    ("dynamic-slice-of-update",
     "x = f32[8] dynamic-update-slice(p0:f32[8], p1:f32[2], p2:s32[])\n"
     "ROOT r = f32[2] dynamic-slice(x, p2), dynamic_slice_sizes={2}", "p1"),
    ("update-all", "ROOT r = f32[8] dynamic-update-slice(p0:f32[8], p1:f32[8], p2:s32[])", "p1"),
    ("update-all",
     "x = f32[2] dynamic-slice(p0:f32[8], p1:s32[]), dynamic_slice_sizes={2}\n"
     "ROOT r = f32[8] dynamic-update-slice(p0, x, p1)", "p0"),
    ("update-of-broadcast",
     "i = s32[] constant(2)\nc = f32[] constant(0)\nb = f32[8] broadcast(c), dimensions={}\n"
     "ROOT r = f32[8] dynamic-update-slice(b, p0:f32[3], i)", "pad{2_3_0}(p0, 0)"),
    ("gather-one",
     "ROOT r = f32[4] gather(p0:f32[8,4], p1:s32[1]), offset_dims={0}, collapsed_slice_dims={0}, "
     "start_index_map={0}, index_vector_dim=0, slice_sizes={1,4}",
     "reshape[4](dynamic-slice(p0, reshape[](p1), 0))"),
    ("concatenate-one", "ROOT r = f32[8] concatenate(p0:f32[8], p1:f32[0]), dimensions={0}", "p0"),
    ("concatenate-nested",
     "x = f32[8] concatenate(p0:f32[4], p1:f32[4]), dimensions={0}\n"
     "ROOT r = f32[12] concatenate(x, p2:f32[4]), dimensions={0}", "concatenate(p0, p1, p2)"),
    ("concatenate-adjacent",
     "a = f32[3] slice(p0:f32[8]), slice={[0:3]}\nb = f32[5] slice(p0), slice={[3:8]}\n"
     "ROOT r = f32[8] concatenate(a, b), dimensions={0}", "p0"),
    ("concatenate-adjacent",
     "a = f32[3] slice(p0:f32[8]), slice={[0:3]}\nb = f32[4] slice(p0), slice={[4:8]}\n"
     "ROOT r = f32[7] concatenate(a, b), dimensions={0}", ""),
    ("concatenate-padding",
     "c = f32[] constant(0)\nb = f32[3] broadcast(c), dimensions={}\n"
     "ROOT r = f32[11] concatenate(b, p0:f32[8]), dimensions={0}", "pad{3_0_0}(p0, 0)"),
    ("pad-nothing", "ROOT r = f32[1] pad(p0:f32[1], p1:f32[]), padding=0_0_3", "p0"),
    ("pad-negative", "ROOT r = f32[5] pad(p0:f32[8], p1:f32[]), padding=-1_-2", "slice{1:6:1}(p0)"),
    ("pad-same-value",
     "b = f32[8] broadcast(p0:f32[]), dimensions={}\nROOT r = f32[12] pad(b, p0), padding=2_2", "broadcast(p0)"),
    ("pad-twice",
     "x = f32[11] pad(p0:f32[8], p1:f32[]), padding=1_2\nROOT r = f32[18] pad(x, p1), padding=3_4",
     "pad{4_6_0}(p0, p1)"),
    # ---- contraction
    ("reduce-ones", "c = f32[] constant(0)\nROOT r = f32[8] reduce(p0:f32[1,8], c), dimensions={0}, to_apply=add",
     "reshape[8](p0)"),
    ("reduce-ones", "c = f32[] constant(5)\nROOT r = f32[8] reduce(p0:f32[1,8], c), dimensions={0}, to_apply=add",
     "add(reshape[8](p0), broadcast(5))"),
    ("reduce-ones", "c = f32[] constant(0)\nROOT r = f32[4] reduce(p0:f32[4,1,8], c), dimensions={1,2}, to_apply=add",
     "reduce{1}(reshape[4,8](p0), 0)"),
    ("reduce-empty", "c = f32[] constant(5)\nROOT r = f32[8] reduce(p0:f32[0,8], c), dimensions={0}, to_apply=add",
     "broadcast(5)"),
    ("reduce-twice",
     "c = f32[] constant(0)\nx = f32[4,2] reduce(p0:f32[4,8,2], c), dimensions={1}, to_apply=add\n"
     "ROOT r = f32[4] reduce(x, c), dimensions={1}, to_apply=add", "reduce{1,2}(p0, 0)"),
    ("reduce-twice",
     "c = f32[] constant(0)\nx = f32[4,2] reduce(p0:f32[4,8,2], c), dimensions={1}, to_apply=add\n"
     "ROOT r = f32[4] reduce(x, c), dimensions={1}, to_apply=max", ""),
    ("reduce-twice",
     "c = f32[] constant(0)\nd = f32[] constant(1)\n"
     "x = f32[4,2] reduce(p0:f32[4,8,2], d), dimensions={1}, to_apply=add\n"
     "ROOT r = f32[4] reduce(x, c), dimensions={1}, to_apply=add", ""),
    ("reduce-of-reshape",
     "c = f32[] constant(0)\nx = f32[8,1,4] reshape(p0:f32[8,4])\n"
     "ROOT r = f32[1,4] reduce(x, c), dimensions={0}, to_apply=add", "reshape[1,4](reduce{0}(p0, 0))"),
    ("reduce-of-transpose",
     "c = f32[] constant(0)\nx = f32[2,4,8] transpose(p0:f32[8,4,2]), dimensions={2,1,0}\n"
     "ROOT r = f32[2,8] reduce(x, c), dimensions={1}, to_apply=add", "transpose{1,0}(reduce{1}(p0, 0))"),
    ("reduce-broadcast",
     "c = f32[] constant(-inf)\nx = f32[8,4] broadcast(p0:f32[4]), dimensions={1}\n"
     "ROOT r = f32[4] reduce(x, c), dimensions={0}, to_apply=max", "p0"),
    ("reduce-broadcast",
     "c = f32[] constant(0)\nx = f32[8,4] broadcast(p0:f32[4]), dimensions={1}\n"
     "ROOT r = f32[] reduce(x, c), dimensions={0,1}, to_apply=add", "reduce{0}(multiply(p0, broadcast(8)), 0)"),
    *[("reduce-broadcast",
       f"c = f32[] constant({start})\nz = f32[] constant({zero})\nx = f32[8,4] broadcast(z), dimensions={{}}\n"
       "ROOT r = f32[8] reduce(x, c), dimensions={1}, to_apply=add", after)
      for start, zero, after in [
          ("0", "-0", "broadcast(0)"), ("-0", "-0", "multiply(broadcast(-0), broadcast(4))"),
          ("-0", "0", "multiply(broadcast(0), broadcast(4))")]],
    ("reduce-of-negated",
     "c = f32[] constant(0)\nx = f32[8,4] negate(p0:f32[8,4])\n"
     "ROOT r = f32[4] reduce(x, c), dimensions={0}, to_apply=add", "negate(reduce{0}(p0, 0))"),
    ("divide-by-softmax-sum",
     "c = f32[] constant(0)\nl = f32[] constant(-inf)\n"
     "m = f32[8] reduce(p0:f32[8,4], l), dimensions={1}, to_apply=max\n"
     "b = f32[8,4] broadcast(m), dimensions={0}\nd = f32[8,4] subtract(p0, b)\ne = f32[8,4] exponential(d)\n"
     "s = f32[8] reduce(e, c), dimensions={1}, to_apply=add\nt = f32[8,4] broadcast(s), dimensions={0}\n"
     "ROOT r = f32[8,4] divide(e, t)",
     "multiply(exponential(subtract(p0, broadcast{0}(reduce{1}(p0, -inf)))), broadcast{0}(divide(broadcast(1), "
     "reduce{1}(exponential(subtract(p0, broadcast{0}(reduce{1}(p0, -inf)))), 0))))"),
    ("divide-by-softmax-sum",
     "c = f32[] constant(0)\ns = f32[8] reduce(p0:f32[8,4], c), dimensions={1}, to_apply=add\n"
     "t = f32[8,4] broadcast(s), dimensions={0}\nROOT r = f32[8,4] divide(p0, t)", ""),
    ("divide-constant", "c = f32[] constant(5)\nROOT r = f32[] divide(p0, c)", "multiply(p0, 0.2)"),
    ("divide-constant", "c = f32[] constant(1e-40)\nROOT r = f32[] divide(p0, c)", ""),
    ("dot-empty",
     "ROOT r = f32[3,4] dot(p0:f32[3,0], p1:f32[0,4]), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "broadcast(0)"),
    ("dot-outer",
     "ROOT r = f32[3,4] dot(p0:f32[3,1], p1:f32[1,4]), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "multiply(broadcast{0}(reshape[3](p0)), broadcast{1}(reshape[4](transpose{1,0}(p1))))"),
    ("dot-outer",
     "ROOT r = s32[2,3,4] dot(p0:s8[3,2], p1:s8[2,4]), lhs_batch_dims={1}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={}, rhs_contracting_dims={}",
     "multiply(broadcast{0,1}(convert[s32](transpose{1,0}(p0))), broadcast{0,2}(convert[s32](p1)))"),
    ("sort-one", "ROOT r = f32[1,8] sort(p0), dimensions={0}, to_apply=less", "p0"),
    # ---- several comparisons, shared operations
    ("compared-twice",
     "a = pred[8] compare(p0:f32[8], p1:f32[8]), direction=LT\nb = pred[8] compare(p0, p1), direction=EQ\n"
     "ROOT r = pred[8] or(a, b)", "compare{LE}(p0, p1)"),
    ("compared-twice",
     "a = pred[8] compare(p0:f32[8], p1:f32[8]), direction=LT\nb = pred[8] compare(p1, p0), direction=LT\n"
     "ROOT r = pred[8] and(a, b)", "broadcast(false)"),
    ("compared-twice",
     "a = pred[8] compare(p0:s32[8], p1:s32[8]), direction=LT\nb = pred[8] compare(p0, p1), direction=GE\n"
     "ROOT r = pred[8] xor(a, b)", "broadcast(true)"),
    ("compared-twice",
     "a = pred[8] compare(p0:f32[8], p1:f32[8]), direction=LT\nb = pred[8] compare(p0, p1), direction=GE\n"
     "ROOT r = pred[8] or(a, b)", ""),
    ("compare-widened",
     "a = f32[8] convert(p0:bf16[8])\nb = f32[8] convert(p1:bf16[8])\n"
     "ROOT r = pred[8] compare(a, b), direction=LE", "compare{LE}(p0, p1)"),
    ("compare-widened",
     "a = bf16[8] convert(p0:f32[8])\nb = bf16[8] convert(p1:f32[8])\n"
     "ROOT r = pred[8] compare(a, b), direction=LE", ""),
    ("compare-widened-with-constant",
     "a = s32[8] convert(p0:u8[8])\nc = s32[] constant(200)\nb = s32[8] broadcast(c), dimensions={}\n"
     "ROOT r = pred[8] compare(a, b), direction=LT", "compare{LT}(p0, broadcast(200))"),
    ("compare-widened-with-constant",
     "a = s32[] convert(p0:u8[])\nc = s32[] constant(-1)\nROOT r = pred[] compare(a, c), direction=LT", ""),
    ("compare-widened-with-constant",
     "a = f32[] convert(p0:s8[])\nc = f32[] constant(0.5)\nROOT r = pred[] compare(a, c), direction=LT", ""),
    ("select-of-same-operation",
     "a = f32[8] sine(p0:f32[8])\nb = f32[8] sine(p1:f32[8])\nROOT r = f32[8] select(p2:pred[8], a, b)",
     "sine(select(p2, p0, p1))"),
    ("select-of-same-operation",
     "a = f32[8] divide(p0:f32[8], p3:f32[8])\nb = f32[8] divide(p0, p1:f32[8])\n"
     "ROOT r = f32[8] select(p2:pred[8], a, b)", "divide(p0, select(p2, p3, p1))"),
    ("select-of-same-operation",
     "a = f32[8] sine(p0:f32[8])\nb = f32[8] cosine(p1:f32[8])\nROOT r = f32[8] select(p2:pred[8], a, b)", ""),
    ("maximum-of-nonnegative",
     "a = f32[] exponential(p0:f32[])\nc = f32[] constant(-1)\nROOT r = f32[] maximum(a, c)", "exponential(p0)"),
    ("maximum-of-nonnegative", "a = f32[] sine(p0:f32[])\nc = f32[] constant(-1)\nROOT r = f32[] maximum(a, c)", ""),
    ("nonnegative-below-zero",
     "a = f32[] abs(p0:f32[])\nc = f32[] constant(0)\nROOT r = pred[] compare(a, c), direction=LT", "false"),
    ("nonnegative-below-zero",
     "a = f32[] abs(p0:f32[])\nc = f32[] constant(0)\nROOT r = pred[] compare(a, c), direction=LE", ""),
    ("nonnegative-below-zero",
     "a = f32[] rsqrt(p0:f32[])\nc = f32[] constant(0)\nROOT r = pred[] compare(a, c), direction=LT", ""),
    ("absolute-nonnegative", "a = f32[] rsqrt(p0)\nROOT r = f32[] abs(a)", ""),
    ("absolute-nonnegative", "a = f32[] sqrt(p0)\nROOT r = f32[] abs(a)", ""),
    ("absolute-nonnegative", "a = f32[] convert(p0:u8[])\nROOT r = f32[] abs(a)", "convert[f32](p0)"),
    # ---- conversions
    ("rounding-of-integer", "a = f32[8] convert(p0:s32[8])\nROOT r = f32[8] floor(a)", "convert[f32](p0)"),
    ("rounding-of-integer", "a = f32[8] convert(p0:f64[8])\nROOT r = f32[8] floor(a)", ""),
    ("finite-integer", "a = f32[8] convert(p0:s8[8])\nROOT r = pred[8] is-finite(a)", "broadcast(true)"),
    ("finite-integer", "a = f16[8] convert(p0:u16[8])\nROOT r = pred[8] is-finite(a)", ""),
    ("finite-widened", "a = f32[8] convert(p0:bf16[8])\nROOT r = pred[8] is-finite(a)", "is-finite(p0)"),
    ("finite-widened", "a = f16[8] convert(p0:f32[8])\nROOT r = pred[8] is-finite(a)", ""),
    ("precision-twice",
     "a = f32[8] reduce-precision(p0), exponent_bits=5, mantissa_bits=7\n"
     "ROOT r = f32[8] reduce-precision(a), exponent_bits=8, mantissa_bits=7",
     "reduce-precision(p0)"),
    ("precision-twice",
     "a = f32[8] reduce-precision(p0), exponent_bits=5, mantissa_bits=7\n"
     "ROOT r = f32[8] reduce-precision(a), exponent_bits=8, mantissa_bits=6", ""),
    ("precision-of-widened",
     "a = f32[8] convert(p0:bf16[8])\nROOT r = f32[8] reduce-precision(a), exponent_bits=8, mantissa_bits=8",
     "convert[f32](p0)"),
    ("precision-of-widened",
     "a = f32[8] convert(p0:bf16[8])\nROOT r = f32[8] reduce-precision(a), exponent_bits=8, mantissa_bits=6", ""),
    ("complement-of-converted", "a = s32[8] convert(p0:s8[8])\nROOT r = s32[8] not(a)", "convert[s32](not(p0))"),
    ("complement-of-converted", "a = s32[8] convert(p0:u8[8])\nROOT r = s32[8] not(a)", ""),
    ("imaginary-of-real", "a = c64[8] convert(p0:f32[8])\nROOT r = f32[8] imag(a)", "broadcast(0)"),
    ("real-of-converted", "a = c64[8] convert(p0:f32[8])\nROOT r = f32[8] real(a)", "p0"),
    # ---- more movement
    ("broadcast-iota", "i = s32[4] iota(), iota_dimension=0\nROOT r = s32[8,4] broadcast(i), dimensions={1}",
     "iota{1}()"),
    ("reverse-iota", "i = s32[8] iota(), iota_dimension=0\nROOT r = s32[8] reverse(i), dimensions={0}",
     "subtract(broadcast(7), iota{0}())"),
    ("reverse-iota", "i = s32[8,2] iota(), iota_dimension=0\nROOT r = s32[8,2] reverse(i), dimensions={1}",
     "iota{0}()"),
    ("reverse-iota", "i = s8[300] iota(), iota_dimension=0\nROOT r = s8[300] reverse(i), dimensions={0}", ""),
    ("transpose-of-inserted-ones",
     "a = f32[8,1,4] reshape(p0:f32[8,4])\nROOT r = f32[4,8,1] transpose(a), dimensions={2,0,1}",
     "reshape[4,8,1](transpose{1,0}(p0))"),
    ("reverse-transpose",
     "a = f32[8,4] reverse(p0:f32[8,4]), dimensions={0}\nb = f32[4,8] transpose(a), dimensions={1,0}\n"
     "ROOT r = f32[4,8] reverse(b), dimensions={0,1}", "reverse{0}(transpose{1,0}(p0))"),
    ("pad-partly-negative", "ROOT r = f32[8,5] pad(p0:f32[8,4], p1:f32[]), padding=-2_2x3_-2",
     "pad{0_2_0,3_0_0}(slice{2:8:1,0:2:1}(p0), p1)"),
    ("pad-partly-negative", "ROOT r = f32[3] pad(p0:f32[4], p1:f32[]), padding=-5_4", ""),
    ("pad-interior-of-one", "ROOT r = f32[4,3] pad(p0:f32[1,2], p1:f32[]), padding=1_2_5x0_0_1",
     "pad{1_2_0,0_0_1}(p0, p1)"),
    ("slice-reverse",
     "a = f32[8,4] reverse(p0:f32[8,4]), dimensions={0}\nROOT r = f32[3,4] slice(a), slice={[1:6:2], [0:4]}",
     "reverse{0}(slice{2:7:2,0:4:1}(p0))"),
    ("slice-transpose",
     "a = f32[4,8] transpose(p0:f32[8,4]), dimensions={1,0}\nROOT r = f32[2,3] slice(a), slice={[1:3], [2:8:2]}",
     "transpose{1,0}(slice{2:8:2,1:3:1}(p0))"),
    ("slice-iota-of-integers",
     "i = s32[16] iota(), iota_dimension=0\nROOT r = s32[4] slice(i), slice={[3:10:2]}",
     "add(multiply(iota{0}(), broadcast(2)), broadcast(3))"),
    ("slice-iota-of-integers", "i = f32[16] iota(), iota_dimension=0\nROOT r = f32[4] slice(i), slice={[3:7]}", ""),
    ("concatenate-broadcasts",
     "a = f32[3,8] broadcast(p0:f32[8]), dimensions={1}\nb = f32[2,8] broadcast(p0), dimensions={1}\n"
     "ROOT r = f32[8,8] concatenate(a, b, a), dimensions={0}", "broadcast{1}(p0)"),
    ("concatenate-broadcasts",
     "a = f32[3,8] broadcast(p0:f32[8]), dimensions={1}\nb = f32[3,8] broadcast(p0), dimensions={1}\n"
     "ROOT r = f32[3,16] concatenate(a, b), dimensions={1}", ""),
    # ---- computed places
    ("index-of-whole-dimension",
     "ROOT r = f32[8,2] dynamic-slice(p0:f32[8,4], p1:s32[], p2:s32[]), dynamic_slice_sizes={8,2}",
     "dynamic-slice(p0, 0, p2)"),
    ("index-of-whole-dimension",
     "ROOT r = f32[8,4] dynamic-update-slice(p0:f32[8,4], p3:f32[8,2], p1:s32[], p2:s32[])",
     "dynamic-update-slice(p0, p3, 0, p2)"),
    ("dynamic-slice-iota",
     "i = s32[64] iota(), iota_dimension=0\nROOT r = s32[1] dynamic-slice(i, p0:s32[]), dynamic_slice_sizes={1}",
     "broadcast(clamp(0, p0, 63))"),
    ("dynamic-slice-iota",
     "i = f32[8,4] iota(), iota_dimension=0\n"
     "ROOT r = f32[2,4] dynamic-slice(i, p0:s32[], p1:s32[]), dynamic_slice_sizes={2,4}",
     "convert[f32](add(broadcast(clamp(0, p0, 6)), iota{0}()))"),
    ("dynamic-slice-iota",
     "i = s32[300] iota(), iota_dimension=0\nROOT r = s32[2] dynamic-slice(i, p0:u8[]), dynamic_slice_sizes={2}", ""),
    ("dynamic-slice-broadcast",
     "a = f32[8,4] broadcast(p0:f32[8]), dimensions={0}\n"
     "ROOT r = f32[3,2] dynamic-slice(a, p1:s32[], p2:s32[]), dynamic_slice_sizes={3,2}",
     "broadcast{0}(dynamic-slice(p0, p1))"),
    ("dynamic-slice-iota",
     "i = s32[8,4] iota(), iota_dimension=1\n"
     "ROOT r = s32[3,4] dynamic-slice(i, p0:s32[], p1:s32[]), dynamic_slice_sizes={3,4}", "iota{1}()"),
    ("dynamic-slice-iota",
     "i = s32[8,4] iota(), iota_dimension=0\n"
     "ROOT r = s32[3,4] dynamic-slice(i, p0:s32[], p1:s32[]), dynamic_slice_sizes={3,4}",
     "add(broadcast(clamp(0, p0, 5)), iota{0}())"),
    ("dynamic-slice-transpose",
     "a = f32[4,8] transpose(p0:f32[8,4]), dimensions={1,0}\n"
     "ROOT r = f32[2,3] dynamic-slice(a, p1:s32[], p2:s32[]), dynamic_slice_sizes={2,3}",
     "transpose{1,0}(dynamic-slice(p0, p2, p1))"),
    ("update-twice",
     "a = f32[8] dynamic-update-slice(p0:f32[8], p1:f32[2], p2:s32[])\n"
     "ROOT r = f32[8] dynamic-update-slice(a, p3:f32[2], p2)", "dynamic-update-slice(p0, p3, p2)"),
    ("update-twice",
     "a = f32[8] dynamic-update-slice(p0:f32[8], p1:f32[2], p2:s32[])\n"
     "ROOT r = f32[8] dynamic-update-slice(a, p3:f32[1], p2)", ""),
    ("update-with-own-value",
     "a = f32[8] broadcast(p0:f32[]), dimensions={}\nb = f32[2] broadcast(p0), dimensions={}\n"
     "ROOT r = f32[8] dynamic-update-slice(a, b, p1:s32[])", "broadcast(p0)"),
    ("gather-splat",
     "a = f32[8,4] broadcast(p0:f32[]), dimensions={}\n"
     "ROOT r = f32[5,4] gather(a, p1:s32[5]), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,4}", "broadcast(p0)"),
    ("gather-progression",
     "i = s32[5] iota(), iota_dimension=0\n"
     "ROOT r = f32[5,4] gather(p0:f32[8,4], i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,4}", "slice{0:5:1,0:4:1}(p0)"),
    ("gather-progression",
     "i = s32[3,1] iota(), iota_dimension=0\n"
     "ROOT r = f32[8,2,3] gather(p0:f32[8,4,2], i), offset_dims={0,1}, collapsed_slice_dims={1}, start_index_map={1}, "
     "index_vector_dim=1, slice_sizes={8,1,2}", "transpose{0,2,1}(slice{0:8:1,0:3:1,0:2:1}(p0))"),
    ("gather-progression",
     "i = s32[5] iota(), iota_dimension=0\n"
     "ROOT r = f32[5,4] gather(p0:f32[4,4], i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,4}", ""),
    ("scatter-nothing",
     "ROOT r = f32[8] scatter(p0:f32[8], p1:s32[0,1], p2:f32[0]), update_window_dims={}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", "p0"),
    ("scatter-nothing",
     "c = f32[] constant(0)\nu = f32[3] broadcast(c), dimensions={}\n"
     "ROOT r = f32[8] scatter(p0:f32[8], p1:s32[3,1], u), update_window_dims={}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", ""),
    ("scatter-nothing",
     "c = f32[] constant(-inf)\nu = f32[3] broadcast(c), dimensions={}\n"
     "ROOT r = f32[8] scatter(p0:f32[8], p1:s32[3,1], u), update_window_dims={}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=max", "p0"),
    # ---- windows
    ("window-of-one",
     "c = f32[] constant(0)\n"
     "ROOT r = f32[4,4] reduce-window(p0:f32[8,4], c), window={size=1x1 stride=2x1}, to_apply=add",
     "slice{0:8:2,0:4:1}(p0)"),
    ("window-of-one",
     "c = f32[] constant(3)\nROOT r = f32[8] reduce-window(p0:f32[8], c), window={size=1}, to_apply=add",
     "add(p0, broadcast(3))"),
    ("window-of-one",
     "c = f32[] constant(3)\nROOT r = f32[9] reduce-window(p0:f32[8], c), window={size=1 pad=0_1}, to_apply=add", ""),
    ("window-of-everything",
     "c = f32[] constant(0)\n"
     "ROOT r = f32[1,4] reduce-window(p0:f32[8,4], c), window={size=8x1}, to_apply=add",
     "reshape[1,4](reduce{0}(p0, 0))"),
    ("window-of-everything",
     "c = f32[] constant(0)\n"
     "ROOT r = f32[2,4] reduce-window(p0:f32[8,4], c), window={size=7x1}, to_apply=add", ""),
    ("window-of-pad",
     "c = f32[] constant(0)\na = f32[11] pad(p0:f32[8], c), padding=1_2\n"
     "ROOT r = f32[9] reduce-window(a, c), window={size=3}, to_apply=add", "reduce-window(p0, 0)"),
    ("window-of-pad",
     "c = f32[] constant(0)\nd = f32[] constant(1)\na = f32[11] pad(p0:f32[8], d), padding=1_2\n"
     "ROOT r = f32[9] reduce-window(a, c), window={size=3}, to_apply=add", ""),
    ("convolution-of-nothing",
     "ROOT r = f32[1,6,2] convolution(p0:f32[1,8,0], p1:f32[3,0,2]), window={size=3}, dim_labels=b0f_0io->b0f",
     "broadcast(0)"),
    ("convolution-of-outer-elements",
     "ROOT r = f32[2,4,5] convolution(p0:f32[2,4,3], p1:f32[3,3,5]), window={size=3 pad=12_12 rhs_dilate=12}, "
     "dim_labels=b0f_0io->b0f", "convolution(p0, slice{1:2:1,0:3:1,0:5:1}(p1))"),
    ("convolution-of-outer-elements",
     "ROOT r = f32[2,4,5] convolution(p0:f32[2,4,3], p1:f32[7,3,5]), window={size=7 stride=2 pad=8_7 rhs_dilate=2 "
     "rhs_reversal=1}, dim_labels=b0f_0io->b0f", "convolution(p0, slice{1:6:1,0:3:1,0:5:1}(p1))"),
    ("convolution-of-outer-elements",
     "ROOT r = f32[2,9,5] convolution(p0:f32[2,3,3], p1:f32[6,3,5]), window={size=6 pad=6_1 lhs_dilate=3}, "
     "dim_labels=b0f_0io->b0f", ""),
    ("convolution-of-outer-elements",
     "ROOT r = f32[2,2,5] convolution(p0:f32[2,4,3], p1:f32[3,3,5]), window={size=3 pad=-9_9}, "
     "dim_labels=b0f_0io->b0f", "broadcast(0)"),
    ("convolution-of-outer-elements",
     "ROOT r = f32[2,4,5] convolution(p0:f32[2,4,3], p1:f32[3,3,5]), window={size=3 pad=1_1}, "
     "dim_labels=b0f_0io->b0f", ""),
    ("convolution-of-pad",
     "c = f32[] constant(0)\na = f32[1,11,2] pad(p0:f32[1,8,2], c), padding=0_0x1_2x0_0\n"
     "ROOT r = f32[1,9,4] convolution(a, p1:f32[3,2,4]), window={size=3}, dim_labels=b0f_0io->b0f",
     "convolution(p0, p1)"),
    ("convolution-of-pad",
     "c = f32[] constant(0)\na = f32[1,15,2] pad(p0:f32[1,8,2], c), padding=0_0x0_0_1x0_0\n"
     "ROOT r = f32[1,13,4] convolution(a, p1:f32[3,2,4]), window={size=3}, dim_labels=b0f_0io->b0f", ""),
    ("convolution-of-pad",
     "c = f32[] constant(0)\na = f32[1,8,2] pad(p0:f32[1,8,1], c), padding=0_0x0_0x0_1\n"
     "ROOT r = f32[1,6,4] convolution(a, p1:f32[3,2,4]), window={size=3}, dim_labels=b0f_0io->b0f", ""),
    ("convolution-of-reversed-kernel",
     "k = f32[3,2,4] reverse(p1:f32[3,2,4]), dimensions={0}\n"
     "ROOT r = f32[1,6,4] convolution(p0:f32[1,8,2], k), window={size=3}, dim_labels=b0f_0io->b0f",
     "convolution(p0, p1)"),
    # ---- more contractions
    ("reduce-of-reverse",
     "c = f32[] constant(-inf)\na = f32[8,4] reverse(p0:f32[8,4]), dimensions={0,1}\n"
     "ROOT r = f32[8] reduce(a, c), dimensions={1}, to_apply=max", "reduce{1}(reverse{0}(p0), -inf)"),
    ("reduce-of-pad",
     "c = f32[] constant(0)\na = f32[11,4] pad(p0:f32[8,4], c), padding=1_2x0_0\n"
     "ROOT r = f32[4] reduce(a, c), dimensions={0}, to_apply=add", "reduce{0}(p0, 0)"),
    ("reduce-of-pad",
     "c = f32[] constant(0)\na = f32[11,4] pad(p0:f32[8,4], c), padding=1_2x0_0\n"
     "ROOT r = f32[11] reduce(a, c), dimensions={1}, to_apply=add", ""),
    ("reduce-of-scaled",
     "c = s32[] constant(0)\nk = s32[] constant(5)\nb = s32[8,4] broadcast(k), dimensions={}\n"
     "a = s32[8,4] multiply(p0:s32[8,4], b)\nROOT r = s32[4] reduce(a, c), dimensions={0}, to_apply=sum",
     "multiply(reduce{0}(p0, 0), broadcast(5))"),
    ("dot-negated",
     "a = f32[3,4] negate(p0:f32[3,4])\nb = f32[4,5] negate(p1:f32[4,5])\n"
     "ROOT r = f32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot(p0, p1)"),
    ("dot-zero",
     "c = s32[] constant(0)\na = s32[3,4] broadcast(c), dimensions={}\n"
     "ROOT r = s32[3,5] dot(a, p0:s32[4,5]), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "broadcast(0)"),
    ("dot-zero",
     "c = f32[] constant(0)\na = f32[3,4] broadcast(c), dimensions={}\n"
     "ROOT r = f32[3,5] dot(a, p0:f32[4,5]), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""),
    ("dot-of-bytes",
     "a = s32[3,4] convert(p0:u8[3,4])\nb = s32[4,5] convert(p1:s8[4,5])\n"
     "ROOT r = s32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot(p0, p1)"),
    ("dot-of-bytes",
     "a = s32[3,2] convert(p0:u8[3,2])\nb = s32[2,2] constant({{1,-128},{127,4}})\n"
     "ROOT r = s32[3,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "dot(p0, constant())"),
    ("dot-of-bytes",
     "a = s32[3,2] convert(p0:u8[3,2])\nb = s32[2,2] constant({{1,-129},{127,4}})\n"
     "ROOT r = s32[3,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""),
    ("dot-of-bytes",
     "a = s32[3,4] convert(p0:s16[3,4])\nb = s32[4,5] convert(p1:s8[4,5])\n"
     "ROOT r = s32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""),
    ("sort-equal",
     "a = f32[8,4] broadcast(p0:f32[4]), dimensions={1}\nROOT r = f32[8,4] sort(a), dimensions={0}, to_apply=less",
     "broadcast{1}(p0)"),
    # ---- gathers and scatters at known places
    ("gather-progression",
     "i = s32[3] constant({6, 4, 2})\n"
     "ROOT r = f32[3,4] gather(p0:f32[8,4], i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,4}", "reverse{0}(slice{2:7:2,0:4:1}(p0))"),
    ("gather-progression",
     "i = s32[3,1] constant({{1}, {3}, {5}})\n"
     "ROOT r = f32[2,3,1] gather(p0:f32[4,8], i), offset_dims={0,2}, collapsed_slice_dims={}, start_index_map={1}, "
     "index_vector_dim=1, slice_sizes={2,1}", "reshape[2,3,1](slice{0:2:1,1:6:2}(p0))"),
    ("gather-progression",
     "i = s32[5] iota(), iota_dimension=0\nk = s32[] constant(2)\nb = s32[5] broadcast(k), dimensions={}\n"
     "m = s32[5] multiply(i, b)\nc = s32[] constant(1)\nd = s32[5] broadcast(c), dimensions={}\na = s32[5] add(m, d)\n"
     "ROOT r = f32[5] gather(p0:f32[16], a), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1}", "slice{1:10:2}(p0)"),
    ("gather-progression",  # the last one is out of bounds, and would be clamped
     "i = s32[3] constant({2, 5, 8})\n"
     "ROOT r = f32[3] gather(p0:f32[8], i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1}", ""),
    ("gather-progression",
     "i = s32[4] constant({1, 2, 4, 5})\n"
     "ROOT r = f32[4] gather(p0:f32[8], i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1}", ""),
    ("scatter-known",
     "c = s32[] constant(2)\ni = s32[1] broadcast(c), dimensions={}\n"
     "ROOT r = f32[8] scatter(p0:f32[8], i, p1:f32[3]), update_window_dims={0}, inserted_window_dims={}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add",
     "dynamic-update-slice(p0, add(slice{2:5:1}(p0), p1), 2)"),
    ("scatter-known",
     "i = s32[1,2] constant({{3, 1}})\n"
     "ROOT r = f32[8,4] scatter(p0:f32[8,4], i, p1:f32[1]), update_window_dims={}, inserted_window_dims={0,1}, "
     "scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=second",
     "dynamic-update-slice(p0, reshape[1,1](p1), 3, 1)"),
    ("scatter-known",
     "i = s32[3] constant({4, 5, 6})\n"
     "ROOT r = f32[2,8] scatter(p0:f32[2,8], i, p1:f32[3,2]), update_window_dims={1}, inserted_window_dims={1}, "
     "scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=max",
     "dynamic-update-slice(p0, maximum(slice{0:2:1,4:7:1}(p0), transpose{1,0}(p1)), 0, 4)"),
    ("scatter-known",  # a window that leaves the operand is skipped
     "c = s32[] constant(6)\ni = s32[1] broadcast(c), dimensions={}\n"
     "ROOT r = f32[8] scatter(p0:f32[8], i, p1:f32[3]), update_window_dims={0}, inserted_window_dims={}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add", "p0"),
    ("scatter-known",
     "i = s32[3] constant({4, 5, 5})\n"
     "ROOT r = f32[8] scatter(p0:f32[8], i, p1:f32[3]), update_window_dims={}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", ""),
    # ---- parts of results, repeated parts
    ("slice-elementwise",
     "a = f32[8,4] multiply(p0:f32[8,4], p1:f32[8,4])\nROOT r = f32[2,4] slice(a), slice={[1:5:2], [0:4]}",
     "multiply(slice{1:5:2,0:4:1}(p0), slice{1:5:2,0:4:1}(p1))"),
    ("slice-elementwise",
     "a = f32[8] select(p0:pred[], p1:f32[8], p2:f32[8])\nROOT r = f32[3] slice(a), slice={[1:4]}",
     "select(p0, slice{1:4:1}(p1), slice{1:4:1}(p2))"),
    ("slice-elementwise",
     "a = f32[8] negate(p0:f32[8])\nb = f32[3] slice(a), slice={[1:4]}\nROOT r = (f32[8], f32[3]) tuple(a, b)", ""),
    ("slice-update",
     "i = s32[] constant(2)\na = f32[8] dynamic-update-slice(p0:f32[8], p1:f32[4], i)\n"
     "ROOT r = f32[2] slice(a), slice={[6:8]}", "slice{6:8:1}(p0)"),
    ("slice-update",
     "i = s32[] constant(2)\na = f32[8] dynamic-update-slice(p0:f32[8], p1:f32[4], i)\n"
     "ROOT r = f32[2] slice(a), slice={[3:5]}", "slice{1:3:1}(p1)"),
    ("slice-update",
     "i = s32[] constant(2)\na = f32[8] dynamic-update-slice(p0:f32[8], p1:f32[4], i)\n"
     "ROOT r = f32[4] slice(a), slice={[4:8]}", ""),
    ("slice-reduce",
     "c = f32[] constant(-inf)\na = f32[8,3] reduce(p0:f32[8,4,3], c), dimensions={1}, to_apply=max\n"
     "ROOT r = f32[2,3] slice(a), slice={[2:4], [0:3]}", "reduce{1}(slice{2:4:1,0:4:1,0:3:1}(p0), -inf)"),
    ("slice-dot",
     "a = f32[64,8] dot(p0:f32[64,32], p1:f32[32,8]), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
     "ROOT r = f32[1,8] slice(a), slice={[63:64], [0:8]}", "dot(slice{63:64:1,0:32:1}(p0), p1)"),
    ("slice-dot",
     "a = f32[3,64,8] dot(p0:f32[3,64,32], p1:f32[3,8,32]), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
     "ROOT r = f32[1,64,8] dynamic-slice(a, p2:s32[], p3:s32[], p4:s32[]), dynamic_slice_sizes={1,64,8}",
     "dot(dynamic-slice(p0, p2, p3, 0), dynamic-slice(p1, p2, p4, 0))"),
    ("slice-dot",  # copying the columns would cost more than multiplying with them
     "a = f32[1,64] dot(p0:f32[1,32], p1:f32[32,64]), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
     "ROOT r = f32[1,32] slice(a), slice={[0:1], [0:32]}", ""),
    ("dot-of-repeated-rows",
     "a = f32[6,32] broadcast(p0:f32[32]), dimensions={1}\n"
     "ROOT r = f32[6,8] dot(a, p1:f32[32,8]), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "broadcast{1}(dot(p0, p1))"),
    ("dot-of-repeated-rows",
     "a = f32[2,32,5,7] broadcast(p1:f32[2,5,7]), dimensions={0,2,3}\n"
     "ROOT r = f32[2,3,5,7] dot(p0:f32[2,3,32], a), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={1}", ""),
    ("dot-of-repeated-rows",
     "a = f32[2,32,5,7] broadcast(p1:f32[2,32,5]), dimensions={0,1,2}\n"
     "ROOT r = f32[2,3,5,7] dot(p0:f32[2,3,32], a), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={1}", "broadcast{0,1,2}(dot(p0, p1))"),
    ("dot-of-repeated-matrix",
     "a = f32[3,32,8] broadcast(p1:f32[32,8]), dimensions={1,2}\n"
     "ROOT r = f32[3,5,8] dot(p0:f32[3,5,32], a), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={1}", "dot(p0, p1)"),
    ("dot-of-repeated-matrix",
     "a = f32[3,32,8] broadcast(p1:f32[32,8]), dimensions={1,2}\n"
     "ROOT r = f32[3,5,8] dot(p0:f32[5,3,32], a), lhs_batch_dims={1}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={1}", ""),
    ("reduce-of-batches",
     "c = f32[] constant(0)\n"
     "a = f32[3,4,5] dot(p0:f32[3,4,6], p1:f32[3,6,5]), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
     "ROOT r = f32[4,5] reduce(a, c), dimensions={0}, to_apply=add", "dot(p0, p1)"),
    ("reduce-of-batches",
     "c = f32[] constant(0)\n"
     "a = f32[3,4,5] dot(p0:f32[3,4,6], p1:f32[3,6,5]), lhs_batch_dims={0}, rhs_batch_dims={0}, "
     "lhs_contracting_dims={2}, rhs_contracting_dims={1}\n"
     "ROOT r = f32[3,5] reduce(a, c), dimensions={1}, to_apply=add", ""),
    ("reduce-of-joined",
     "c = f32[] constant(0)\na = f32[8192,4] concatenate(p0:f32[4096,4], p1:f32[4096,4]), dimensions={0}\n"
     "ROOT r = f32[4] reduce(a, c), dimensions={0}, to_apply=add", "add(reduce{0}(p0, 0), reduce{0}(p1, 0))"),
    ("reduce-of-joined",
     "c = f32[] constant(2)\na = f32[8192,4] concatenate(p0:f32[4096,4], p1:f32[4096,4]), dimensions={0}\n"
     "ROOT r = f32[8192] reduce(a, c), dimensions={1}, to_apply=add",
     "concatenate(reduce{1}(p0, 2), reduce{1}(p1, 2))"),
    ("reduce-of-joined",
     "c = f32[] constant(2)\na = f32[8192,4] concatenate(p0:f32[4096,4], p1:f32[4096,4]), dimensions={0}\n"
     "ROOT r = f32[4] reduce(a, c), dimensions={0}, to_apply=add", ""),
    # ---- convert-mover
    ("move-narrow", "a = f32[8,4] convert(p0:f16[8,4])\nROOT r = f32[4,8] transpose(a), dimensions={1,0}",
     "convert[f32](transpose{1,0}(p0))"),
    ("move-narrow",
     "a = s32[8,4] convert(p0:u8[8,4])\n"
     "ROOT r = s32[5,4] gather(a, p1:s32[5]), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
     "index_vector_dim=1, slice_sizes={1,4}", "convert[s32](gather(p0, p1))"),
    ("move-narrow", "a = f16[8,4] convert(p0:f32[8,4])\nROOT r = f16[4,8] transpose(a), dimensions={1,0}", ""),
    ("move-narrow", "a = f32[8,4] convert(p0:s32[8,4])\nROOT r = f32[4,8] transpose(a), dimensions={1,0}", ""),
    ("join-narrow",
     "a = f32[3] convert(p0:f16[3])\nb = f32[5] convert(p1:f16[5])\nROOT r = f32[8] concatenate(a, b), dimensions={0}",
     "convert[f32](concatenate(p0, p1))"),
    ("join-narrow",
     "a = f32[3] convert(p0:f16[3])\nb = f32[5] convert(p1:bf16[5])\n"
     "ROOT r = f32[8] concatenate(a, b), dimensions={0}", ""),
    ("dot-of-narrow",
     "a = s32[3,4] convert(p0:s8[3,4])\nb = s32[4,5] convert(p1:s8[4,5])\n"
     "ROOT r = s32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot(p0, p1)"),
    ("dot-of-narrow",
     "a = f32[3,4] convert(p0:f16[3,4])\nb = f32[4,5] convert(p1:f16[4,5])\n"
     "ROOT r = f32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot(p0, p1)"),
    ("dot-of-narrow",
     "a = f32[3,4] convert(p0:s8[3,4])\nb = f32[4,5] convert(p1:s8[4,5])\n"
     "ROOT r = f32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot(p0, p1)"),
    ("dot-of-narrow",
     "a = f32[3,4] convert(p0:bf16[3,4])\nb = f32[4,5] convert(p1:bf16[4,5])\n"
     "ROOT r = f32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ""),
    ("dot-of-bf16",
     "a = f32[3,4] convert(p0:bf16[3,4])\nb = f32[4,5] convert(p1:bf16[4,5])\n"
     "ROOT r = f32[3,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "dot(p0, p1)"),
    # ---- reshape-mover
    ("elementwise-of-reshapes",
     "a = f32[8] reshape(p0:f32[2,4])\nb = f32[8] reshape(p1:f32[2,4])\nROOT r = f32[8] add(a, b)",
     "reshape[8](add(p0, p1))"),
    ("elementwise-of-reshapes",
     "a = f32[8] reshape(p0:f32[2,4])\nb = f32[8] reshape(p1:f32[4,2])\nROOT r = f32[8] add(a, b)", ""),
    ("elementwise-of-transposes",
     "a = f32[8,4] transpose(p0:f32[4,8]), dimensions={1,0}\nb = f32[8,4] transpose(p1:f32[4,8]), dimensions={1,0}\n"
     "ROOT r = f32[8,4] add(a, b)", "transpose{1,0}(add(p0, p1))"),
    ("elementwise-of-transposes",
     "a = f32[8,4] transpose(p0:f32[4,8]), dimensions={1,0}\nROOT r = f32[8,4] negate(a)", ""),
    ("reshape-then-transpose-ones",
     "a = f32[8,4] transpose(p0:f32[4,8]), dimensions={1,0}\nb = f32[8,1,4] reshape(a)\n"
     "ROOT r = f32[4,8,1] transpose(b), dimensions={2,0,1}", "reshape[4,8,1](p0)"),
]  # fmt: skip
