"""Malformed statements: what is wrong stands in marks with the code of the error, ``direction=«HLO0131 LESS»``.

Every mark is one error that has nothing to do with the others; nothing else may be reported.
"""
# ruff: noqa: E501 (a statement is a line)

from __future__ import annotations

import re

HEADER = "HloModule m, num_partitions=4\n\n"
HELPERS = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

adds {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] add(a, b)
}

gt {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GT
}

step {
  a = f32[4] parameter(0)
  ROOT b = f32[4] negate(a)
}

test {
  a = f32[4] parameter(0)
  ROOT b = pred[] constant(true)
}

"""
ARGUMENTS = """  x = f32[4] parameter(0)
  y = f32[5] parameter(1)
  m = f32[4,6] parameter(2)
  n = f32[6,3] parameter(3)
  i = s32[] parameter(4)
  j = s32[4] parameter(5)
  p = pred[4] parameter(6)
  z = c64[4] parameter(7)
  s = f32[] parameter(8)
  t = (f32[4], s32[]) parameter(9)
  k = token[] parameter(10)
  q = f32[1,8,8,3] parameter(11)
  w = f32[3,3,3,16] parameter(12)
  v = f32[6] parameter(13)
  b = pred[] parameter(14)
  h = f32[2] parameter(15)
"""

SINGLE = """
r = «HLO0110 f23»[4] negate(x)
r = (f32[4], «HLO0110 i32»[2]) custom-call(x), custom_call_target="f"
r = f32[«HLO0111 -4»] custom-call(x), custom_call_target="f"
r = f32[4]«HLO0113 {1,0}» negate(x)
r = f32[4,6]«HLO0113 {1,1}» negate(m)
r = f32[4] «HLO0108 neggate»(x)
r = f32[4] «HLO0108 frobnicate»(x), kind=special
r = f32[4] negate(«HLO0141 xx»)
r = f32[4] add(x, «HLO0202 y»)
r = f32[4] add(x, «HLO0202 j»)
r = «HLO0201 f32[5]» negate(x)
r = «HLO0201 s32[4]» add(x, x)
r = f32[4] «HLO0205 add»(x)
r = f32[4] negate(x, «HLO0205 x»)
r = f32[4] «HLO0200 not»(x)
r = f32[4] negate(x), «HLO0136 dimension»={1}
r = f32[4] negate(x), «HLO0100 fast»
r = pred[4] compare(x, x), direction=«HLO0131 LESS»
r = pred[4] compare(x, x), direction=LT, type=«HLO0131 FLOT»
r = pred[4] «HLO0135 compare»(x, x)
r = pred[4] compare(z, z), direction=«HLO0203 LT»
r = c64[4] «HLO0200 complex»(j, j)
r = c64[4] complex(x, «HLO0202 y»)
r = «HLO0201 c128[4]» complex(x, x)
r = f32[4] select(«HLO0202 j», x, x)
r = f32[4] select(p, x, «HLO0202 y»)
r = f32[4] clamp(s, x, «HLO0202 y»)
r = f32[4] reduce-precision(x), exponent_bits=«HLO0203 0», mantissa_bits=3
r = s32[4] iota(), iota_dimension=«HLO0203 1»
r = s32[4] iota(), iota_dimension=«HLO0130 {»0}
r = f32[4,6] broadcast(x), dimensions={«HLO0203 3»}
r = «HLO0201 f32[5,6]» broadcast(x), dimensions={0}
r = «HLO0201 f32[5]» reshape(x)
r = f32[6,4] transpose(m), dimensions=«HLO0203 {1,1}»
r = f32[4,6] reverse(m), dimensions={0,«HLO0203 2»}
r = f32[8] concatenate(x, «HLO0202 j»), dimensions={0}
r = f32[8] concatenate(x, x), dimensions={«HLO0203 1»}
r = f32[6] pad(x, «HLO0202 i»), padding=1_1
r = f32[6] pad(x, s), padding=«HLO0203 1_1x0_0»
r = f32[2] slice(x), slice={«HLO0203 [3:5]»}
r = f32[2] slice(x), slice={«HLO0203 [2:1]»}
r = f32[2,6] slice(m), slice={[0:2], «HLO0203 [0:7]»}
r = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={«HLO0203 5»}
r = f32[4] dynamic-update-slice(x, «HLO0202 y», i)
r = f32[4] get-tuple-element(t), index=«HLO0203 2»
r = f32[4] get-tuple-element(«HLO0202 x»), index=0
r = «HLO0201 s32[]» get-tuple-element(t), index=0
r = f32[4] reduce(m, s), dimensions={«HLO0203 2»}, to_apply=add
r = f32[4] reduce(m, s), dimensions={1}, to_apply=«HLO0204 adds»
r = f32[4] reduce(m, «HLO0202 i»), dimensions={1}, to_apply=add
r = f32[4] reduce(m, s), dimensions={1}, to_apply=«HLO0141 ad»
r = f32[3] reduce-window(x, s), window={size=2 «HLO0132 strid»=1}, to_apply=add
r = f32[3] reduce-window(x, s), window=«HLO0203 {size=2x2}», to_apply=add
r = f32[4,3] dot(m, n), lhs_contracting_dims={«HLO0203 5»}, rhs_contracting_dims={0}
r = f32[4,3] dot(m, n), lhs_contracting_dims={«HLO0203 0»}, rhs_contracting_dims={0}
r = «HLO0201 f32[4,4]» dot(m, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}
r = f32[4,3] dot(m, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={«HLO0131 hihg»,high}
r = f32[4,3] dot(m, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=«HLO0131 dot_f32»
r = f32[1,6,6,16] convolution(q, w), window={size=3x3}, dim_labels=«HLO0133 b01f_01io->b0f»
r = f32[1,6,6,16] convolution(q, w), window=«HLO0203 {size=3}», dim_labels=b01f_01io->b01f
r = f32[4,6] sort(m), dimensions={«HLO0203 2»}, to_apply=gt
r = f32[4,6] sort(m), dimensions={1}, to_apply=«HLO0204 add»
r = f32[4] while(x), condition=«HLO0204 step», body=step
r = f32[4] while(x), condition=test, body=«HLO0204 test»
r = f32[4] call(x), to_apply=«HLO0141 stepp»
r = f32[4] call(«HLO0204 y»), to_apply=step
r = f32[4] map(x), dimensions={0}, to_apply=«HLO0204 add»
r = f32[4] fusion(x), kind=«HLO0131 kLop», calls=step
r = f32[4] conditional(«HLO0204 s», x, x), branch_computations={step, step}
r = f32[4] conditional(i, x, «HLO0204 y»), branch_computations={step, step}
r = c64[4] fft(«HLO0202 x»), fft_type=FFT, fft_length={4}
r = c64[4] fft(z), fft_type=«HLO0131 FTT», fft_length={4}
r = c64[4] fft(z), fft_type=FFT, fft_length=«HLO0203 {5}»
r = f32[4,4] cholesky(«HLO0202 m»)
r = f32[4] custom-call(x), custom_call_target=«HLO0100 7»
r = f32[4] custom-call(x), custom_call_target="f", api_version=«HLO0131 API_VERSION_3»
r = f32[4] all-reduce(x), replica_groups=«HLO0203 {{0,1},{1,2}}», to_apply=add
r = f32[4] all-reduce(x), channel_id=«HLO0100 c», replica_groups={{0,1}}, to_apply=add
r = f32[4] all-reduce(x), replica_groups=«HLO0139 [2,2]<=[5]», to_apply=add
r = f32[4] collective-permute(x), source_target_pairs=«HLO0203 {{0,1},{0,2}}»
r = f32[4] collective-permute(x), source_target_pairs=«HLO0139 {{0,1,2}}»
r = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={«HLO0203 1»}
r = «HLO0201 f32[]» after-all(k, x)
r = pred[4] compare(x, x), direction=LT, type=«HLO0203 SIGNED»
r = pred[4] compare(j, j), direction=LT, type=«HLO0203 TOTALORDER»
r = f32[4] all-reduce(x), replica_groups={{0,1}}, use_global_device_ids=«HLO0203 true», to_apply=add
r = «HLO0201 f32[12]» all-gather(x), replica_groups={{0,1}}, dimensions={0}
r = f32[4] collective-permute(x), source_target_pairs=«HLO0203 {{-1,0}}»
r = «HLO0201 (f32[4], f32[4], s32[])» copy-start(x) r.e = f32[4] copy-done(r)
r = f32[4]{0:T(«HLO0113 0»)} custom-call(x), custom_call_target="f"
r = f32[4]{0:E«HLO0113 (-1)»} custom-call(x), custom_call_target="f"
r = f32[4]{0:SC(«HLO0113 1»:2)} custom-call(x), custom_call_target="f"
r = f32[4]{0:SC(0:«HLO0113 4,4»)} custom-call(x), custom_call_target="f"
r = b(«HLO0110 token[]») custom-call(x), custom_call_target="f"
r = (f32[4], u32[], token[]) send(x, «HLO0202 x») r.e = token[] send-done(r)
r = f32[4] rng(s, s), distribution=«HLO0131 rng_uniforn»
r = s32[] get-dimension-size(x), dimensions={«HLO0203 1»}
r = s32[2] constant({1, «HLO0123 1.5»})
r = s32[2] constant({1, «HLO0123 true»})
r = pred[2] constant({true, «HLO0123 2»})
r = u8[2] constant({«HLO0124 256», 1})
r = s8[2] constant({«HLO0124 -129», 1})
r = f16[] constant(«HLO0124 70000»)
r = f32[2] constant({1, «HLO0100 one»})
r = c64[] constant((1, «HLO0100 i»))
r = f32[2] constant({1«HLO0122 }»)
r = f32[2] constant({1, 2, «HLO0122 3»})
r = f32[] constant(«HLO0121 {»1})
r = f32[1000000000000] constant(«HLO0120 5»)
r = bf16[] constant(«HLO0124 nan(0x80)»)
r = f32[4] negate(x), sharding={«HLO0137 replicate»}
r = f32[4] negate(x), sharding={devices=[4]0,1,«HLO0137 1»,2}
r = f32[4] negate(x), sharding={devices=[4]«HLO0137 0,1,2»}
r = f32[4] negate(x), sharding={devices=[4]0,1,2,«HLO0137 4»}
r = f32[4] negate(x), sharding={devices=«HLO0203 [2,2]»<=[4]}
r = f32[4] negate(x), sharding={devices=[4]<=«HLO0137 [5]»}
r = f32[4] negate(x), sharding={devices=[4]<=[2,2]T(«HLO0137 1,1»)}
r = f32[4] negate(x), sharding={devices=«HLO0203 [4]»<=[4] last_tile_dim_replicate}
r = f32[4] negate(x), sharding={devices=[2,2]<=[4] last_tile_dims={«HLO0137 manuel»}}
r = f32[4] negate(x), sharding={«HLO0137 maximal»}
r = f32[4] negate(x), sharding={maximal device=«HLO0137 7»}
r = f32[4] negate(x), sharding={replicated «HLO0137 manual»}
r = f32[4] negate(x), sharding={replicated «HLO0137 shard_as»=1}
r = f32[4] negate(x), sharding={replicated shard_like «HLO0137 x»}
r = f32[4] negate(x), sharding=«HLO0203 {}»
r = f32[4] negate(x), sharding=«HLO0203 {{replicated}}»
r = (f32[4], f32[4]) tuple(x, x), sharding=«HLO0203 {{replicated}}»
r = (f32[4], f32[4]) tuple(x, x), sharding={{replicated}, {devices=«HLO0203 [2,2]»<=[4]}}
r = f32[4] negate(x), metadata={«HLO0134 op_nam»="n"}
r = f32[4] negate(x), metadata={source_line=«HLO0134 "n"»}
r = f32[4] negate(x), frontend_attributes={a=«HLO0100 5»}
r = f32[4] negate(x), backend_config=«HLO0100 5»
r = f32[4] negate(x), control-predecessors={«HLO0141 nobody»}
r = f32[4] negate(x), metadata={op_name="a"}, «HLO0138 metadata»={op_name="b"}
"""

DOUBLE = """
r = «HLO0110 f23»[4] add(x, «HLO0141 xx»)
r = «HLO0110 f23»[«HLO0111 -4»] custom-call(x), custom_call_target="f"
r = f32[4] «HLO0108 maximun»(x, «HLO0141 xx»)
r = f32[4] add(«HLO0141 xx», «HLO0141 yy»)
r = pred[4] compare(x, «HLO0202 y»), direction=«HLO0131 LESS»
r = pred[4] compare(x, x), direction=«HLO0131 LESS», type=«HLO0131 FLOT»
r = pred[4] compare(x, x), «HLO0136 directon»=LT, type=«HLO0131 FLOT»
r = «HLO0201 s32[4]» add(x, «HLO0202 y»)
r = «HLO0201 f32[4]» compare(x, «HLO0202 j»), direction=LT
r = f32[4] reduce(m, «HLO0202 i»), dimensions={«HLO0203 2»}, to_apply=add
r = f32[4] reduce(m, s), dimensions={«HLO0203 2»}, to_apply=«HLO0204 adds»
r = f32[4] reduce(m, s), dimensions={1,«HLO0100 x»}, to_apply=«HLO0141 ad»
r = f32[4,3] dot(m, n), lhs_contracting_dims={«HLO0203 5»}, rhs_contracting_dims={«HLO0203 7»}
r = «HLO0201 f32[9,9]» dot(m, n), lhs_contracting_dims={«HLO0203 5»}, rhs_contracting_dims={0}
r = f32[2,6] slice(m), slice={«HLO0203 [3:5]», «HLO0203 [0:7]»}
r = c64[4] fft(«HLO0202 x»), fft_type=FFT, fft_length=«HLO0203 {5}»
r = c64[4] fft(z), fft_type=«HLO0131 FTT», fft_length={«HLO0100 a»}
r = «HLO0201 c128[4]» complex(x, «HLO0202 y»)
r = f32[4] while(x), condition=«HLO0204 step», body=«HLO0204 test»
r = f32[4] fusion(«HLO0204 y»), kind=«HLO0131 kLop», calls=step
r = f32[4] conditional(«HLO0204 s», x, «HLO0204 y»), branch_computations={step, step}
r = f32[4] all-reduce(x), replica_groups=«HLO0203 {{0,1},{1,2}}», to_apply=«HLO0204 adds»
r = f32[4] all-reduce(x), replica_groups=«HLO0139 [2,2]<=[5]», to_apply=«HLO0141 ad»
r = s32[4] constant({«HLO0123 1.5», «HLO0123 true», 3, «HLO0124 99999999999»})
r = pred[2] constant({«HLO0123 2», «HLO0100 flase»})
r = u8[2] constant({«HLO0124 300», «HLO0124 -1»}), sharding={«HLO0137 replicatd»}
r = f32[4] negate(x), sharding={devices=[2,«HLO0137 -2»]0,«HLO0137 x»,2,3}
r = f32[4] negate(x), sharding={«HLO0137 replicatd»}, metadata={«HLO0134 op_nam»="n"}
r = f32[4] negate(x), sharding={devices=«HLO0203 [2,2]»0,1,2,«HLO0137 2»}
r = f32[4] negate(x), frontend_attributes={a=«HLO0100 5»}, backend_config=«HLO0100 7»
r = f32[4] negate(x), «HLO0136 foo»=1, «HLO0136 bar»={2, 3}
r = f32[4]«HLO0113 {1,0}» add(x, «HLO0202 y»)
r = f32[4] call(«HLO0141 xx»), to_apply=«HLO0141 stepp»
r = f32[1,6,6,16] convolution(q, w), window={size=3x3 «HLO0132 strid»=1x1}, dim_labels=«HLO0133 b01f_01io->b0f»
"""

MORE = """
r = f32[1,6,6,16] convolution(q, w), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=«HLO0203 2»
r = f32[1,6,6,16] convolution(q, w), window={size=3x3}, dim_labels=b01f_01io->b01f, batch_group_count=«HLO0203 3»
r = f32[1,6,6,16] convolution(q, w), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=«HLO0203 0»
r = «HLO0201 f32[1,6,7,16]» convolution(q, w), window={size=3x3}, dim_labels=b01f_01io->b01f
r = f32[1,6,6,16] convolution(q, w), window=«HLO0203 {size=3x4}», dim_labels=b01f_01io->b01f
r = «HLO0201 f32[1,6,7,16]» convolution(q, w), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=«HLO0203 2»
r = «HLO0201 f32[1,6,6,17]» convolution(q, w), window={size=3x3}, dim_labels=b01f_01io->b01f, batch_group_count=«HLO0203 2»
r = f32[1,6,6,16] convolution(q, «HLO0202 m»), window={size=3x3}, dim_labels=b01f_01io->b01f
r = f32[1,6,6,16] convolution(«HLO0202 m», w), window={size=3x3}, dim_labels=b01f_01io->b01f
r = f32[1,6,6,16] convolution(«HLO0141 qq», w), window={size=3x3 stride=«HLO0100 a»}, dim_labels=b01f_01io->b01f
r = f32[1,6,6,16] convolution(q, w), window={size=3x3 stride=«HLO0132 0x1»}, dim_labels=b01f_01io->b01f
r = f32[1,6,6,16] convolution(q, w), window={size=3x3 pad=«HLO0132 1_1»}, dim_labels=b01f_01io->b01f
r = f32[1,6,6,16] convolution(q, w), window={size=3x3}, dim_labels=«HLO0133 b01f_01ii->b01f», feature_group_count=«HLO0100 a»
r = f32[1,6,6,16] convolution(q, w), window={size=3x3}, dim_labels=«HLO0133 b01f_01ii->b01f», feature_group_count=1, operand_precision={«HLO0131 hi»,high}
r = f32[1,6,6,16] convolution(q, w), window={size=3x3}, dim_labels=«HLO0133 b01f_012io->b01f»
r = f32[4,1] gather(m, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,«HLO0203 7»}
r = f32[4,6] gather(m, j), offset_dims={1}, collapsed_slice_dims={«HLO0203 2»}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
r = f32[4,6] gather(m, j), offset_dims={«HLO0203 2»}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
r = f32[4,6] gather(m, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={«HLO0203 5»}, index_vector_dim=1, slice_sizes={1,6}
r = f32[4,6] gather(m, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map=«HLO0203 {0,1}», index_vector_dim=1, slice_sizes={1,6}
r = f32[4,6] gather(m, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=«HLO0203 4», slice_sizes={1,6}
r = f32[4,6] gather(m, «HLO0202 x»), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
r = «HLO0201 f32[4,7]» gather(m, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
r = f32[4,6] gather(m, «HLO0202 x»), offset_dims={1}, collapsed_slice_dims={«HLO0203 2»}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}
r = f32[4,6] gather(m, j), offset_dims={«HLO0203 2»}, collapsed_slice_dims={0}, start_index_map={«HLO0203 5»}, index_vector_dim=1, slice_sizes={1,6}
r = f32[4,6] gather(m, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={«HLO0203 5»}, index_vector_dim=«HLO0203 4», slice_sizes={1,6}
r = f32[4,6] gather(m, j), offset_dims={1}, collapsed_slice_dims={«HLO0203 3»}, start_index_map={«HLO0203 5»}, index_vector_dim=1, slice_sizes={1,«HLO0203 8»}
r = f32[4,6] gather(m, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, «HLO0136 index_vector»=1, slice_sizes={1,6}
r = f32[4,6] gather(m, j), offset_dims={1}, collapsed_slice_dims={«HLO0100 a»}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,«HLO0203 9»}
r = f32[4,6] scatter(m, j, «HLO0202 x»), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
r = f32[4,6] scatter(m, j, m), update_window_dims={«HLO0203 2»}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
r = f32[4,6] scatter(m, j, m), update_window_dims={1}, inserted_window_dims={«HLO0203 2»}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
r = f32[4,6] scatter(m, j, m), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={«HLO0203 3»}, index_vector_dim=1, to_apply=add
r = f32[4,6] scatter(m, j, m), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=«HLO0203 3», to_apply=add
r = f32[4,6] scatter(m, j, m), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=«HLO0204 adds»
r = f32[4,6] scatter(m, j, m), update_window_dims={1}, inserted_window_dims={«HLO0203 2»}, scatter_dims_to_operand_dims={«HLO0203 3»}, index_vector_dim=1, to_apply=«HLO0204 adds»
r = «HLO0201 f32[4,7]» scatter(m, j, m), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=«HLO0141 nobody»
r = f32[4,6] scatter(m, «HLO0202 x», m), update_window_dims={«HLO0203 2»}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
r = (f32[4,6], f32[6], f32[6]) batch-norm-training(m, v, v), epsilon=0.1, feature_index=«HLO0203 2»
r = (f32[4,6], f32[6], f32[6]) batch-norm-training(m, «HLO0202 x», v), epsilon=0.1, feature_index=1
r = (f32[4,6], f32[6], f32[6]) batch-norm-training(m, «HLO0202 x», «HLO0202 x»), epsilon=0.1, feature_index=1
r = (f32[4,6], f32[6], f32[6]) batch-norm-training(m, v, v), epsilon=«HLO0100 a», feature_index=«HLO0203 2»
r = «HLO0201 (f32[4,6], f32[6], f32[7])» batch-norm-training(m, v, v), epsilon=0.1, feature_index=1
r = f32[4,6] batch-norm-inference(m, v, v, v, «HLO0202 x»), epsilon=0.1, feature_index=1
r = f32[4,6] batch-norm-inference(m, v, v, v, «HLO0202 x»), epsilon=0.1, feature_index=«HLO0203 3»
r = f32[4,6] batch-norm-inference(m, v, «HLO0202 j», v, «HLO0202 x»), epsilon=0.1, feature_index=1
r = f32[4,6] batch-norm-inference(m, v, v, v, v), epsilon=0.1, «HLO0136 feature»=1
r = f32[4,6] «HLO0135 batch-norm-inference»(m, v, v, v, v), epsilon=0.1
r = (f32[4,6], f32[6], f32[6]) batch-norm-grad(m, v, v, v, «HLO0202 x»), epsilon=0.1, feature_index=1
r = ((f32[4]), f32[4], s32[]) async-start(x), calls=«HLO0141 nobody»
r = «HLO0201 ((f32[5]), f32[4], s32[])» async-start(x), calls=step r.e = f32[4] async-done(r)
r = ((f32[4]), f32[4], s32[]) async-start(«HLO0204 y»), calls=step r.e = f32[4] async-done(r)
r = ((f32[4]), f32[4], s32[]) async-start(x), async_execution_thread=«HLO0100 7», calls=step
r = ((f32[4]), f32[4], s32[]) async-start(«HLO0141 xx»), async_execution_thread=«HLO0100 7», calls=«HLO0141 nobody»
r = f32[4,3] dot(m, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_batch_dims={«HLO0203 4»}, rhs_batch_dims={«HLO0203 5»}
r = f32[4,3] dot(m, n), lhs_contracting_dims={1}, rhs_contracting_dims={«HLO0100 a»}, lhs_batch_dims={«HLO0203 4»}
r = f32[4,3] dot(m, n), lhs_contracting_dims={«HLO0203 -1»}, rhs_contracting_dims={0}
r = f32[4,3] dot(m, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_batch_dims=«HLO0203 {0}», rhs_batch_dims={}
r = f32[4,3] dot(m, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=«HLO0131 dot_f32», operand_precision={«HLO0131 hihg»,«HLO0131 lwo»}
r = «HLO0201 f32[3,4]» dot(m, x), lhs_contracting_dims={«HLO0203 1»}, rhs_contracting_dims={0}
r = f32[4] custom-call(x), custom_call_target="f", api_version=«HLO0131 V3», custom_call_has_side_effect=«HLO0100 maybe»
r = f32[4] custom-call(x), custom_call_target="f", operand_layout_constraints={«HLO0110 f99»[4]{0}}, backend_config=«HLO0100 7»
r = f32[4] custom-call(x), custom_call_target="f", output_to_operand_aliasing=«HLO0203 {{}: (3, {})}»
r = f32[4] custom-call(x), custom_call_target=«HLO0100 f», api_version=«HLO0131 V3»
r = f32[4] custom-call(x), custom_call_target="f", called_computations={step, «HLO0141 nobody»}, schedule=«HLO0131 SCHEDULE_SOON»
r = f32[4] custom-call(x), custom_call_target="f", window={«HLO0132 sizes»=3}, dim_labels=«HLO0133 b_i->»
r = f32[4] while(x), condition=«HLO0141 nobody», body=«HLO0141 noone»
r = f32[4] while(«HLO0204 y»), condition=test, body=step
r = «HLO0201 f32[5]» while(x), condition=test, body=step
r = f32[4] while(x), condition=«HLO0141 nobody», body=«HLO0204 test»
r = f32[4] conditional(b, x, x), true_computation=step, false_computation=«HLO0141 nobody»
r = f32[4] conditional(«HLO0204 x», x, «HLO0204 y»), true_computation=step, false_computation=step
r = f32[4] conditional(i, x, x), branch_computations={step, «HLO0141 nobody»}
r = f32[4] conditional(i, x, x), branch_computations={«HLO0204 test», step}
r = «HLO0201 f32[5]» conditional(i, x, x), branch_computations={step, step}
r = f32[4] «HLO0204 conditional»(i, x, x, x), branch_computations={step, step}
r = f32[4] call(x, x), to_apply=«HLO0204 step»
r = «HLO0201 f32[5]» call(«HLO0204 y»), to_apply=step
r = f32[4,6] sort(m), dimensions={«HLO0203 2»}, to_apply=«HLO0204 add», is_stable=«HLO0100 yes»
r = (f32[4,6], f32[4,6]) sort(m, m), dimensions={1}, to_apply=«HLO0204 gt»
r = (f32[4,6], f32[4]) sort(m, «HLO0202 x»), dimensions={1}, to_apply=«HLO0204 gt»
r = f32[4,6] sort(m), dimensions=«HLO0203 {0,1}», to_apply=gt
r = f32[4] reduce(m, «HLO0202 x»), dimensions={1}, to_apply=add
r = f32[4] reduce(m, s), dimensions=«HLO0203 {1,1}», to_apply=add
r = «HLO0201 f32[6]» reduce(m, s), dimensions={1}, to_apply=add
r = «HLO0201 f32[7]» reduce(m, s), dimensions={1}, to_apply=«HLO0204 adds»
r = «HLO0201 f32[7]» reduce(m, s), dimensions={1}, to_apply=«HLO0141 nobody»
r = f32[4] «HLO0200 reduce»(m, s, s), dimensions={1}, to_apply=add
r = f32[4] map(x, «HLO0202 y»), dimensions={0}, to_apply=add
r = f32[4] map(x, x), dimensions={0}, to_apply=«HLO0204 adds»
r = f32[4] all-reduce(x), replica_groups=«HLO0203 {{0,9}}», to_apply=add
r = f32[4] all-reduce(x), replica_groups={{0,1},{2,3}}, channel_id=«HLO0100 c», use_global_device_ids=«HLO0100 si», to_apply=add
r = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={«HLO0203 3»}, use_global_device_ids=«HLO0100 si»
r = «HLO0201 f32[9]» all-gather(x), replica_groups={{0,1}}, dimensions={0}
r = f32[2] reduce-scatter(x), replica_groups={{0,1}}, dimensions={«HLO0203 1»}, to_apply=«HLO0204 adds»
r = «HLO0201 f32[3]» reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=add
r = f32[4] all-to-all(x), replica_groups={{0,1}}, dimensions={«HLO0203 2»}
r = f32[4] all-to-all(x), replica_groups={{0,1}«HLO0100 {»2,3}}, dimensions={0}
r = f32[4] collective-permute(x), channel_id=«HLO0100 a», source_target_pairs=«HLO0139 {{0}}»
r = f32[4] collective-broadcast(x), replica_groups={{0,«HLO0100 a»}}
r = f32[4]«HLO0113 {0,1}» negate(«HLO0141 xx»)
r = f32[4,6]{1,0:T(8,«HLO0100 a»)} negate(m)
r = f32[4,6]{1,0:T(8,128)«HLO0100 X»(1)} negate(«HLO0141 mm»)
r = f32[4,6]{1,0:S(«HLO0100 a»)} negate(m), «HLO0136 foo»=1
r = f32[4,6]{1,0:E(«HLO0100 -»)} negate(m)
r = f32[<=4] set-dimension-size(x, «HLO0202 s»), dimensions={0}
r = f32[<=4] set-dimension-size(x, i), dimensions={«HLO0203 1»}
r = f32[<=«HLO0111 -4»] negate(«HLO0141 xx»)
r = f32[«HLO0100 <»=a] negate(x)
r = f32[<=5] «HLO0205 set-dimension-size»(x), dimensions={«HLO0203 1»}
r = s32[] get-dimension-size(i), dimensions={«HLO0203 0»}
r = c64[2] constant({(1, 2), («HLO0100 a», 1)})
r = c128[1] constant({(1, «HLO0100 x»)}), «HLO0136 foo»=1
r = s4[2] constant({«HLO0124 8», 1})
r = u4[2] constant({«HLO0124 16», «HLO0124 -1»})
r = s64[1] constant({«HLO0124 9223372036854775808»})
r = u64[1] constant({«HLO0124 18446744073709551616»})
r = pred[2] constant({true, «HLO0100 maybe»})
r = f8e5m2[1] constant({«HLO0124 1e9»})
r = f32[2,2] constant({{1, 2}, {3, «HLO0100 x»}})
r = f32[2,2] constant({{1, 2}, {3«HLO0122 }»})
r = f32[2,2] constant({{1, 2, «HLO0122 3»}, {3, 4}})
r = f32[2,2] constant({{1, 2}, {3, 4}, «HLO0122 {»5, 6}})
r = (f32[], s32[]) constant((1, «HLO0123 1.5»))
r = (f32[], s32[]) constant((1«HLO0100 )»)
r = s32[2] constant({«HLO0100 0x1», 2})
r = s32[] constant(«HLO0123 nan»)
r = f32[4] reduce-precision(x), exponent_bits=«HLO0203 0», mantissa_bits=«HLO0100 a»
r = f32[6] pad(x, s), padding=«HLO0100 a»
r = f32[6] pad(«HLO0141 xx», s), padding=1_1
r = f32[3] reduce-window(x, s), window={size=2 stride=«HLO0132 0»}, to_apply=«HLO0141 nobody»
r = f32[3] reduce-window(x, «HLO0202 i»), window={size=2}, to_apply=«HLO0204 adds»
r = «HLO0201 f32[4]» reduce-window(x, s), window={size=2}, to_apply=add
r = f32[4] select-and-scatter(x, h, s), window={size=2 stride=2}, select=«HLO0204 add», scatter=«HLO0204 adds»
r = f32[4] select-and-scatter(x, «HLO0202 y», s), window={size=2 stride=2}, select=gt, scatter=add
r = f32[3,4] triangular-solve(«HLO0202 n», n), left_side=true, lower=«HLO0100 x», transpose_a=«HLO0131 NOPE»
r = «HLO0201 u32[4]» rng-bit-generator(«HLO0202 x»), algorithm=«HLO0131 rng_fast»
r = f32[4,6] transpose(m), dimensions=«HLO0203 {2,0}»
r = f32[4,6] broadcast(x), dimensions={«HLO0203 2»}, «HLO0136 foo»=1
r = f32[2] dynamic-slice(x, «HLO0202 s»), dynamic_slice_sizes={«HLO0203 5»}
r = f32[2] «HLO0200 dynamic-slice»(x, i, i), dynamic_slice_sizes={2}
r = token[] outfeed(x, «HLO0202 s»), outfeed_shape=«HLO0110 f99»[4]
"""
"""Dimension numbers, windows, called computations, collectives, layouts, literals: one error or several."""

HEADERS = """
HloModule m, «HLO0136 is_schedule»=true, num_partitions=«HLO0100 x»
HloModule m, replica_count=«HLO0100 x», «HLO0136 num_partition»=2
HloModule m, input_output_alias={ {«HLO0149 3»}: («HLO0149 99», {}) }
HloModule m, input_output_alias={ {}: (0, «HLO0149 {1}»), {«HLO0149 0»}: (0, {}) }
HloModule m, input_output_alias={ {}: («HLO0100 a», {}) }, is_scheduled=«HLO0100 yes»
"""

Expected = list[tuple[int, int, int, str]]
_NAME = re.compile(r"\br\b")
_MARK = re.compile(r"«(HLO\d{4}) ([^»]*)»")


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def plain(text: str, first_line: int = 1) -> tuple[str, Expected]:
    """The text without its marks, and the errors that they announce: line, first and end column, code."""
    expected, found = [], []
    for number, line in enumerate(text.split("\n"), first_line):
        while match := _MARK.search(line):
            inside = match.group(2)
            line = line[: match.start()] + inside + line[match.end() :]
            expected.append((number, match.start() + 1, match.start() + 1 + len(inside), match.group(1)))
        found.append(line)
    return "\n".join(found), sorted(expected)


def module(*statements: str, header: str = HEADER, other: str = "") -> str:
    """A module with statements in its entry computation and, where given, one in another computation."""
    body = "".join(f"  {re.sub(_NAME, f'r{n}', line)}\n" for n, line in enumerate(statements))
    helper = f"other {{\n{ARGUMENTS}  {other}\n  ROOT last = f32[4] abs(x)\n}}\n\n" if other else ""
    return f"{header}{HELPERS}{helper}ENTRY main {{\n{ARGUMENTS}{body}  ROOT last = f32[4] abs(x)\n}}\n"
