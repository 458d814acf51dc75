"""Examples of every operation of StableHLO and CHLO: bodies of functions that check their own numbers."""

from __future__ import annotations

__all__ = ["EXAMPLES", "WITHOUT_NUMBERS"]

F2 = "tensor<2xf32>"


def _unary(name: str, given: str, expected: str, kind: str = "f32", how: str = "expect_almost_eq_const") -> str:
    type_ = f"tensor<2x{kind}>"
    return f"""
  %0 = stablehlo.constant dense<[{given}]> : {type_}
  %1 = {name} %0 : {type_}
  check.{how} %1, dense<[{expected}]> : {type_}"""


def _binary(name: str, left: str, right: str, expected: str, kind: str = "i32", how: str = "expect_eq_const") -> str:
    type_ = f"tensor<2x{kind}>"
    return f"""
  %0 = stablehlo.constant dense<[{left}]> : {type_}
  %1 = stablehlo.constant dense<[{right}]> : {type_}
  %2 = {name} %0, %1 : {type_}
  check.{how} %2, dense<[{expected}]> : {type_}"""


def _chlo(name: str, given: str, expected: str) -> str:
    return f"""
  %0 = stablehlo.constant dense<[{given}]> : tensor<2xf64>
  %1 = chlo.{name} %0 : tensor<2xf64> -> tensor<2xf64>
  check.expect_almost_eq_const %1, dense<[{expected}]> : tensor<2xf64>"""


def _chlo_binary(name: str, left: str, right: str, expected: str, kind: str = "f64") -> str:
    t, s = f"tensor<2x{kind}>", f"tensor<{kind}>"
    how = "expect_almost_eq_const" if kind == "f64" else "expect_eq_const"
    return f"""
  %0 = stablehlo.constant dense<[{left}]> : {t}
  %1 = stablehlo.constant dense<{right}> : {s}
  %2 = chlo.{name} %0, %1 : ({t}, {s}) -> {t}
  check.{how} %2, dense<[{expected}]> : {t}"""


_ADDER = """({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  })"""
_MATRIX = "%m = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>"
_ZERO = "%z = stablehlo.constant dense<0> : tensor<i32>"
_SQUARE = "%q = stablehlo.constant dense<[[4.0, 2.0], [2.0, 5.0]]> : tensor<2x2xf32>"

EXAMPLES: dict[str, str] = {
    "stablehlo.abs": _unary("stablehlo.abs", "-3, 4", "3, 4", "i32", "expect_eq_const"),
    "stablehlo.add": _binary("stablehlo.add", "1, 2", "10, -20", "11, -18"),
    "stablehlo.and": _binary("stablehlo.and", "12, 10", "10, 6", "8, 2"),
    "stablehlo.atan2": _binary("stablehlo.atan2", "1.0, -1.0", "1.0, 0.0", "0.785398, -1.570796", "f32",
                               "expect_almost_eq_const"),
    "stablehlo.cbrt": _unary("stablehlo.cbrt", "27.0, -8.0", "3.0, -2.0"),
    "stablehlo.ceil": _unary("stablehlo.ceil", "1.2, -1.2", "2.0, -1.0"),
    "stablehlo.cosine": _unary("stablehlo.cosine", "0.0, 3.14159265", "1.0, -1.0"),
    "stablehlo.count_leading_zeros": _unary("stablehlo.count_leading_zeros", "1, 256", "31, 23", "i32",
                                            "expect_eq_const"),
    "stablehlo.divide": _binary("stablehlo.divide", "17, -17", "3, 3", "5, -5"),
    "stablehlo.exponential": _unary("stablehlo.exponential", "0.0, 1.0", "1.0, 2.718282"),
    "stablehlo.exponential_minus_one": _unary("stablehlo.exponential_minus_one", "0.0, 1.0", "0.0, 1.718282"),
    "stablehlo.floor": _unary("stablehlo.floor", "1.2, -1.2", "1.0, -2.0"),
    "stablehlo.log": _unary("stablehlo.log", "1.0, 2.718282", "0.0, 1.0"),
    "stablehlo.log_plus_one": _unary("stablehlo.log_plus_one", "0.0, 1.718282", "0.0, 1.0"),
    "stablehlo.logistic": _unary("stablehlo.logistic", "0.0, 1.0", "0.5, 0.731059"),
    "stablehlo.maximum": _binary("stablehlo.maximum", "1, 5", "3, 2", "3, 5"),
    "stablehlo.minimum": _binary("stablehlo.minimum", "1, 5", "3, 2", "1, 2"),
    "stablehlo.multiply": _binary("stablehlo.multiply", "3, -4", "5, 6", "15, -24"),
    "stablehlo.negate": _unary("stablehlo.negate", "3, -4", "-3, 4", "i32", "expect_eq_const"),
    "stablehlo.not": _unary("stablehlo.not", "true, false", "false, true", "i1", "expect_eq_const"),
    "stablehlo.or": _binary("stablehlo.or", "12, 10", "10, 6", "14, 14"),
    "stablehlo.popcnt": _unary("stablehlo.popcnt", "7, 256", "3, 1", "i32", "expect_eq_const"),
    "stablehlo.power": _binary("stablehlo.power", "2, -3", "5, 3", "32, -27"),
    "stablehlo.remainder": _binary("stablehlo.remainder", "17, -17", "3, 3", "2, -2"),
    "stablehlo.round_nearest_afz": _unary("stablehlo.round_nearest_afz", "2.5, -0.5", "3.0, -1.0"),
    "stablehlo.round_nearest_even": _unary("stablehlo.round_nearest_even", "2.5, 3.5", "2.0, 4.0"),
    "stablehlo.rsqrt": _unary("stablehlo.rsqrt", "4.0, 0.25", "0.5, 2.0"),
    "stablehlo.shift_left": _binary("stablehlo.shift_left", "1, 3", "4, 1", "16, 6"),
    "stablehlo.shift_right_arithmetic": _binary("stablehlo.shift_right_arithmetic", "-8, 8", "1, 2", "-4, 2"),
    "stablehlo.shift_right_logical": _binary("stablehlo.shift_right_logical", "-8, 8", "28, 2", "15, 2"),
    "stablehlo.sign": _unary("stablehlo.sign", "-3, 4", "-1, 1", "i32", "expect_eq_const"),
    "stablehlo.sine": _unary("stablehlo.sine", "0.0, 1.57079633", "0.0, 1.0"),
    "stablehlo.sqrt": _unary("stablehlo.sqrt", "4.0, 9.0", "2.0, 3.0"),
    "stablehlo.subtract": _binary("stablehlo.subtract", "1, 2", "10, -20", "-9, 22"),
    "stablehlo.tan": _unary("stablehlo.tan", "0.0, 0.785398163", "0.0, 1.0"),
    "stablehlo.tanh": _unary("stablehlo.tanh", "0.0, 1.0", "0.0, 0.761594"),
    "stablehlo.xor": _binary("stablehlo.xor", "12, 10", "10, 6", "6, 12"),
    "stablehlo.complex": """
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.constant dense<[3.0, -4.0]> : tensor<2xf32>
  %2 = stablehlo.complex %0, %1 : tensor<2xcomplex<f32>>
  check.expect_eq_const %2, dense<[(1.0, 3.0), (2.0, -4.0)]> : tensor<2xcomplex<f32>>""",
    "stablehlo.real": """
  %0 = stablehlo.constant dense<[(1.0, 3.0), (2.0, -4.0)]> : tensor<2xcomplex<f32>>
  %1 = stablehlo.real %0 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_eq_const %1, dense<[1.0, 2.0]> : tensor<2xf32>""",
    "stablehlo.imag": """
  %0 = stablehlo.constant dense<(1.0, 3.0)> : tensor<2xcomplex<f32>>
  %1 = stablehlo.imag %0 : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  check.expect_eq_const %1, dense<3.0> : tensor<2xf32>""",
    "stablehlo.is_finite": """
  %0 = stablehlo.constant dense<[1.0, 0x7F800000, 0x7FC00000]> : tensor<3xf32>
  %1 = stablehlo.is_finite %0 : (tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %1, dense<[true, false, false]> : tensor<3xi1>""",
    "stablehlo.compare": """
  %0 = stablehlo.constant dense<[0xFFC00000, -0.0, 1.0]> : tensor<3xf32>
  %1 = stablehlo.constant dense<[1.0, 0.0, 1.0]> : tensor<3xf32>
  %2 = stablehlo.compare LT, %0, %1, TOTALORDER : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %2, dense<[true, true, false]> : tensor<3xi1>
  %3 = stablehlo.compare  GE, %0, %1,  FLOAT : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  check.expect_eq_const %3, dense<[false, true, true]> : tensor<3xi1>""",
    "stablehlo.select": """
  %p = stablehlo.constant dense<false> : tensor<i1>
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
  %2 = stablehlo.select %p, %0, %1 : tensor<i1>, tensor<2xi32>
  check.expect_eq_const %2, dense<[3, 4]> : tensor<2xi32>""",
    "stablehlo.clamp": """
  %l = stablehlo.constant dense<0> : tensor<i32>
  %h = stablehlo.constant dense<5> : tensor<i32>
  %0 = stablehlo.constant dense<[-3, 9]> : tensor<2xi32>
  %1 = stablehlo.clamp %l, %0, %h : (tensor<i32>, tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  check.expect_eq_const %1, dense<[0, 5]> : tensor<2xi32>""",
    "stablehlo.convert": """
  %0 = stablehlo.constant dense<[1.7, -1.7]> : tensor<2xf32>
  %1 = stablehlo.convert %0 : (tensor<2xf32>) -> tensor<2xi8>
  check.expect_eq_const %1, dense<[1, -1]> : tensor<2xi8>""",
    "stablehlo.bitcast_convert": """
  %0 = stablehlo.constant dense<[1.0, -2.0]> : tensor<2xf32>
  %1 = stablehlo.bitcast_convert %0 : (tensor<2xf32>) -> tensor<2xui32>
  check.expect_eq_const %1, dense<[1065353216, 3221225472]> : tensor<2xui32>""",
    "stablehlo.reduce_precision": """
  %0 = stablehlo.constant dense<[1.0009765625, 1.00048828125]> : tensor<2xf32>
  %1 = stablehlo.reduce_precision %0, format = e5m10 : tensor<2xf32>
  check.expect_eq_const %1, dense<[1.0009765625, 1.0]> : tensor<2xf32>""",
    "stablehlo.constant": """
  %0 = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>
  check.expect_eq_const %0, dense<[1.0, 2.0]> : tensor<2xf32>""",
    "stablehlo.iota": """
  %0 = stablehlo.iota dim = 1 : tensor<2x3xi32>
  check.expect_eq_const %0, dense<[[0, 1, 2], [0, 1, 2]]> : tensor<2x3xi32>""",
    "stablehlo.dynamic_iota": """
  %n = stablehlo.constant dense<[2, 2]> : tensor<2xi64>
  %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<2xi64>) -> tensor<?x2xi32>
  %1 = stablehlo.convert %0 : (tensor<?x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %1, dense<[[0, 0], [1, 1]]> : tensor<2x2xi32>""",
    "stablehlo.broadcast": """
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.broadcast %0, sizes = [2] : (tensor<2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %1, dense<[[1, 2], [1, 2]]> : tensor<2x2xi32>""",
    "stablehlo.broadcast_in_dim": """
  %0 = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [2, 1] : (tensor<2x1xi32>) -> tensor<1x3x2xi32>
  check.expect_eq_const %1, dense<[[[1, 2], [1, 2], [1, 2]]]> : tensor<1x3x2xi32>""",
    "stablehlo.dynamic_broadcast_in_dim": """
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %n = stablehlo.constant dense<[2, 2]> : tensor<2xi32>
  %1 = stablehlo.dynamic_broadcast_in_dim %0, %n, dims = [0] : (tensor<2xi32>, tensor<2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %1, dense<[[1, 1], [2, 2]]> : tensor<2x2xi32>""",
    "stablehlo.reshape": f"""
  {_MATRIX}
  %0 = stablehlo.reshape %m : (tensor<2x3xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %0, dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>""",
    "stablehlo.dynamic_reshape": f"""
  {_MATRIX}
  %n = stablehlo.constant dense<[6]> : tensor<1xi32>
  %0 = stablehlo.dynamic_reshape %m, %n : (tensor<2x3xi32>, tensor<1xi32>) -> tensor<6xi32>
  check.expect_eq_const %0, dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi32>""",
    "stablehlo.transpose": f"""
  {_MATRIX}
  %0 = stablehlo.transpose %m, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
  check.expect_eq_const %0, dense<[[1, 4], [2, 5], [3, 6]]> : tensor<3x2xi32>""",
    "stablehlo.reverse": f"""
  {_MATRIX}
  %0 = stablehlo.reverse %m, dims = [1] : tensor<2x3xi32>
  check.expect_eq_const %0, dense<[[3, 2, 1], [6, 5, 4]]> : tensor<2x3xi32>""",
    "stablehlo.concatenate": """
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.constant dense<[3]> : tensor<1xi32>
  %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<2xi32>, tensor<1xi32>) -> tensor<3xi32>
  check.expect_eq_const %2, dense<[1, 2, 3]> : tensor<3xi32>""",
    "stablehlo.pad": f"""
  {_ZERO}
  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %1 = stablehlo.pad %0, %z, low = [1], high = [-1], interior = [1] : (tensor<3xi32>, tensor<i32>) -> tensor<5xi32>
  check.expect_eq_const %1, dense<[0, 1, 0, 2, 0]> : tensor<5xi32>""",
    "stablehlo.dynamic_pad": f"""
  {_ZERO}
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %l = stablehlo.constant dense<1> : tensor<1xi64>
  %h = stablehlo.constant dense<0> : tensor<1xi64>
  %1 = stablehlo.dynamic_pad %0, %z, %l, %h, %h
    : (tensor<2xi32>, tensor<i32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi32>
  check.expect_eq_const %1, dense<[0, 1, 2]> : tensor<3xi32>""",
    "stablehlo.slice": f"""
  {_MATRIX}
  %0 = stablehlo.slice %m [1:2, 0:3:2] : (tensor<2x3xi32>) -> tensor<1x2xi32>
  check.expect_eq_const %0, dense<[[4, 6]]> : tensor<1x2xi32>""",
    "stablehlo.real_dynamic_slice": """
  %0 = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %s = stablehlo.constant dense<1> : tensor<1xi64>
  %l = stablehlo.constant dense<4> : tensor<1xi64>
  %t = stablehlo.constant dense<2> : tensor<1xi64>
  %1 = stablehlo.real_dynamic_slice %0, %s, %l, %t
    : (tensor<4xi32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xi32>
  check.expect_eq_const %1, dense<[2, 4]> : tensor<2xi32>""",
    "stablehlo.dynamic_slice": f"""
  {_MATRIX}
  %i = stablehlo.constant dense<1> : tensor<i64>
  %0 = stablehlo.dynamic_slice %m, %i, %i, sizes = [1, 2]
    : (tensor<2x3xi32>, tensor<i64>, tensor<i64>) -> tensor<1x2xi32>
  check.expect_eq_const %0, dense<[[5, 6]]> : tensor<1x2xi32>""",
    "stablehlo.dynamic_update_slice": f"""
  {_MATRIX}
  %i = stablehlo.constant dense<1> : tensor<i64>
  %u = stablehlo.constant dense<9> : tensor<1x1xi32>
  %0 = stablehlo.dynamic_update_slice %m, %u, %i, %i
    : (tensor<2x3xi32>, tensor<1x1xi32>, tensor<i64>, tensor<i64>) -> tensor<2x3xi32>
  check.expect_eq_const %0, dense<[[1, 2, 3], [4, 9, 6]]> : tensor<2x3xi32>""",
    "stablehlo.get_dimension_size": f"""
  {_MATRIX}
  %0 = stablehlo.get_dimension_size %m, dim = 1 : (tensor<2x3xi32>) -> tensor<i32>
  check.expect_eq_const %0, dense<3> : tensor<i32>""",
    "stablehlo.set_dimension_size": f"""
  {_ZERO}
  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %n = stablehlo.constant dense<2> : tensor<i32>
  %1 = stablehlo.set_dimension_size %0, %n, dim = 0
    : (tensor<3xi32>, tensor<i32>) -> tensor<?xi32, #stablehlo.bounds<3>>
  %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<?xi32, #stablehlo.bounds<3>>, tensor<i32>) -> tensor<i32>
  check.expect_eq_const %2, dense<3> : tensor<i32>""",
    "stablehlo.tuple": """
  %0 = stablehlo.constant dense<7> : tensor<i32>
  %1 = stablehlo.tuple %0, %0 : tuple<tensor<i32>, tensor<i32>>
  %2 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<i32>, tensor<i32>>) -> tensor<i32>
  check.expect_eq_const %2, dense<7> : tensor<i32>""",
    "stablehlo.optimization_barrier": """
  %0 = stablehlo.constant dense<7> : tensor<i32>
  %1:2 = stablehlo.optimization_barrier %0, %0 : tensor<i32>, tensor<i32>
  check.expect_eq_const %1#1, dense<7> : tensor<i32>""",
    "stablehlo.dot": f"""
  {_MATRIX}
  %v = stablehlo.constant dense<[1, 0, -1]> : tensor<3xi32>
  %0 = stablehlo.dot %m, %v : (tensor<2x3xi32>, tensor<3xi32>) -> tensor<2xi32>
  check.expect_eq_const %0, dense<[-2, -2]> : tensor<2xi32>""",
    "stablehlo.dot_general": f"""
  {_MATRIX}
  %0 = stablehlo.dot_general %m, %m, batching_dims = [0] x [0], contracting_dims = [1] x [1],
    precision = [DEFAULT, DEFAULT]
    : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2xi32>
  check.expect_eq_const %0, dense<[14, 77]> : tensor<2xi32>""",
    "stablehlo.einsum": f"""
  {_MATRIX}
  %0 = stablehlo.einsum %m, %m, config = "ij,kj->ki" : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %0, dense<[[14, 32], [32, 77]]> : tensor<2x2xi32>""",
    "stablehlo.unary_einsum": f"""
  {_MATRIX}
  %0 = stablehlo.unary_einsum %m, config = "ij->j" : (tensor<2x3xi32>) -> tensor<3xi32>
  check.expect_eq_const %0, dense<[5, 7, 9]> : tensor<3xi32>""",
    "stablehlo.convolution": """
  %0 = stablehlo.constant dense<[[[1.0], [2.0], [3.0]]]> : tensor<1x3x1xf32>
  %1 = stablehlo.constant dense<[[[10.0]], [[1.0]]]> : tensor<2x1x1xf32>
  %2 = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
    window = {stride = [1], pad = [[1, 0]], lhs_dilate = [1], rhs_dilate = [1], reverse = [false]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x3x1xf32>, tensor<2x1x1xf32>) -> tensor<1x3x1xf32>
  check.expect_eq_const %2, dense<[[[1.0], [12.0], [23.0]]]> : tensor<1x3x1xf32>""",
    "stablehlo.dynamic_conv": """
  %0 = stablehlo.constant dense<[[[1.0], [2.0], [3.0]]]> : tensor<1x3x1xf32>
  %1 = stablehlo.constant dense<[[[10.0]], [[1.0]]]> : tensor<2x1x1xf32>
  %n = stablehlo.constant dense<[[0, 0]]> : tensor<1x2xi64>
  %2 = "stablehlo.dynamic_conv"(%0, %1, %n) {dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
    batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x3x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi64>) -> tensor<1x2x1xf32>
  check.expect_eq_const %2, dense<[[[12.0], [23.0]]]> : tensor<1x2x1xf32>""",
    "stablehlo.cholesky": f"""
  {_SQUARE}
  %0 = stablehlo.cholesky %q, lower = true : tensor<2x2xf32>
  check.expect_almost_eq_const %0, dense<[[2.0, 0.0], [1.0, 2.0]]> : tensor<2x2xf32>""",
    "stablehlo.triangular_solve": """
  %0 = stablehlo.constant dense<[[2.0, 0.0], [1.0, 2.0]]> : tensor<2x2xf32>
  %1 = stablehlo.constant dense<[[2.0], [5.0]]> : tensor<2x1xf32>
  %2 = "stablehlo.triangular_solve"(%0, %1) <{left_side = true, lower = true, unit_diagonal = false,
    transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  check.expect_almost_eq_const %2, dense<[[1.0], [2.0]]> : tensor<2x1xf32>""",
    "stablehlo.fft": """
  %0 = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = stablehlo.fft %0, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<3xcomplex<f32>>
  check.expect_almost_eq_const %1, dense<[(10.0, 0.0), (-2.0, 2.0), (-2.0, 0.0)]> : tensor<3xcomplex<f32>>""",
    "stablehlo.batch_norm_inference": """
  %0 = stablehlo.constant dense<[[1.0], [3.0]]> : tensor<2x1xf32>
  %1 = stablehlo.constant dense<[2.0]> : tensor<1xf32>
  %2 = stablehlo.constant dense<[1.0]> : tensor<1xf32>
  %3 = "stablehlo.batch_norm_inference"(%0, %1, %2, %1, %2) {epsilon = 0.0 : f32, feature_index = 1 : i64}
    : (tensor<2x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x1xf32>
  check.expect_almost_eq_const %3, dense<[[-1.0], [3.0]]> : tensor<2x1xf32>""",
    "stablehlo.batch_norm_training": """
  %0 = stablehlo.constant dense<[[1.0], [3.0]]> : tensor<2x1xf32>
  %1 = stablehlo.constant dense<[2.0]> : tensor<1xf32>
  %2 = stablehlo.constant dense<[1.0]> : tensor<1xf32>
  %3, %4, %5 = "stablehlo.batch_norm_training"(%0, %1, %2) {epsilon = 0.0 : f32, feature_index = 1 : i64}
    : (tensor<2x1xf32>, tensor<1xf32>, tensor<1xf32>) -> (tensor<2x1xf32>, tensor<1xf32>, tensor<1xf32>)
  check.expect_almost_eq_const %3, dense<[[-1.0], [3.0]]> : tensor<2x1xf32>
  check.expect_almost_eq_const %4, dense<[2.0]> : tensor<1xf32>
  check.expect_almost_eq_const %5, dense<[1.0]> : tensor<1xf32>""",
    "stablehlo.batch_norm_grad": """
  %0 = stablehlo.constant dense<[[1.0], [3.0]]> : tensor<2x1xf32>
  %1 = stablehlo.constant dense<[2.0]> : tensor<1xf32>
  %2 = stablehlo.constant dense<[1.0]> : tensor<1xf32>
  %g = stablehlo.constant dense<[[1.0], [1.0]]> : tensor<2x1xf32>
  %3:3 = "stablehlo.batch_norm_grad"(%0, %1, %1, %2, %g) {epsilon = 0.0 : f32, feature_index = 1 : i64}
    : (tensor<2x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<2x1xf32>)
    -> (tensor<2x1xf32>, tensor<1xf32>, tensor<1xf32>)
  check.expect_almost_eq_const %3#0, dense<0.0> : tensor<2x1xf32>
  check.expect_almost_eq_const %3#1, dense<0.0> : tensor<1xf32>
  check.expect_almost_eq_const %3#2, dense<2.0> : tensor<1xf32>""",
    "stablehlo.reduce": f"""
  {_MATRIX}
  {_ZERO}
  %0 = stablehlo.reduce(%m init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<2x3xi32>, tensor<i32>) -> tensor<3xi32>
  check.expect_eq_const %0, dense<[5, 7, 9]> : tensor<3xi32>
  %1:2 = stablehlo.reduce(%m init: %z), (%m init: %z) across dimensions = [1]
    : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> (tensor<2xi32>, tensor<2xi32>)
    reducer(%a: tensor<i32>, %b: tensor<i32>) (%c: tensor<i32>, %d: tensor<i32>) {{
      %x = stablehlo.maximum %a, %b : tensor<i32>
      %y = stablehlo.add %c, %d : tensor<i32>
      stablehlo.return %x, %y : tensor<i32>, tensor<i32>
    }}
  check.expect_eq_const %1#0, dense<[3, 6]> : tensor<2xi32>
  check.expect_eq_const %1#1, dense<[6, 15]> : tensor<2xi32>""",
    "stablehlo.reduce_window": f"""
  {_MATRIX}
  {_ZERO}
  %0 = "stablehlo.reduce_window"(%m, %z) {_ADDER} {{window_dimensions = array<i64: 1, 2>,
    window_strides = array<i64: 1, 2>, padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>}}
    : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x2xi32>
  check.expect_eq_const %0, dense<[[1, 5], [4, 11]]> : tensor<2x2xi32>""",
    "stablehlo.select_and_scatter": f"""
  %0 = stablehlo.constant dense<[1, 5, 2, 4]> : tensor<4xi32>
  %1 = stablehlo.constant dense<[10, 20]> : tensor<2xi32>
  {_ZERO}
  %2 = "stablehlo.select_and_scatter"(%0, %1, %z) ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}, {_ADDER[1:]} {{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}
    : (tensor<4xi32>, tensor<2xi32>, tensor<i32>) -> tensor<4xi32>
  check.expect_eq_const %2, dense<[0, 10, 0, 20]> : tensor<4xi32>""",
    "stablehlo.map": f"""
  {_MATRIX}
  %0 = "stablehlo.map"(%m, %m) {_ADDER} {{dimensions = array<i64: 0, 1>}}
    : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %0, dense<[[2, 4, 6], [8, 10, 12]]> : tensor<2x3xi32>""",
    "stablehlo.sort": """
  %0 = stablehlo.constant dense<[3, 1, 2]> : tensor<3xi32>
  %1 = stablehlo.constant dense<[0, 1, 2]> : tensor<3xi32>
  %2:2 = "stablehlo.sort"(%0, %1) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %l = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }) {dimension = 0 : i64, is_stable = true} : (tensor<3xi32>, tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>)
  check.expect_eq_const %2#1, dense<[1, 2, 0]> : tensor<3xi32>""",
    "stablehlo.gather": f"""
  {_MATRIX}
  %i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi64>
  %0 = "stablehlo.gather"(%m, %i) {{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1],
    start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 2, 1>, indices_are_sorted = false}}
    : (tensor<2x3xi32>, tensor<2x1xi64>) -> tensor<2x2xi32>
  check.expect_eq_const %0, dense<[[3, 1], [6, 4]]> : tensor<2x2xi32>""",
    "stablehlo.dynamic_gather": f"""
  {_MATRIX}
  %i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi64>
  %n = stablehlo.constant dense<[2, 1]> : tensor<2xi64>
  %0 = "stablehlo.dynamic_gather"(%m, %i, %n) {{dimension_numbers = #stablehlo.gather<offset_dims = [0],
    collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false}}
    : (tensor<2x3xi32>, tensor<2x1xi64>, tensor<2xi64>) -> tensor<2x2xi32>
  check.expect_eq_const %0, dense<[[3, 1], [6, 4]]> : tensor<2x2xi32>""",
    "stablehlo.scatter": f"""
  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %i = stablehlo.constant dense<[[2], [0]]> : tensor<2x1xi64>
  %u = stablehlo.constant dense<[10, 20]> : tensor<2xi32>
  %1 = "stablehlo.scatter"(%0, %i, %u) {_ADDER} {{scatter_dimension_numbers = #stablehlo.scatter<
    inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}}
    : (tensor<3xi32>, tensor<2x1xi64>, tensor<2xi32>) -> tensor<3xi32>
  check.expect_eq_const %1, dense<[21, 2, 13]> : tensor<3xi32>""",
    "stablehlo.torch_index_select": f"""
  {_MATRIX}
  %i = stablehlo.constant dense<[2, 0]> : tensor<2xi64>
  %0 = "stablehlo.torch_index_select"(%m, %i) {{dim = 1 : i64, batch_dims = 0 : i64}}
    : (tensor<2x3xi32>, tensor<2xi64>) -> tensor<2x2xi32>
  check.expect_eq_const %0, dense<[[3, 1], [6, 4]]> : tensor<2x2xi32>""",
    "stablehlo.while": """
  %0 = stablehlo.constant dense<0> : tensor<i32>
  %s = stablehlo.constant dense<1> : tensor<i32>
  %t = stablehlo.add %s, %s : tensor<i32>
  %1:2 = stablehlo.while(%i = %0, %x = %s) : tensor<i32>, tensor<i32>
    cond {
      %n = stablehlo.constant dense<5> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %s : tensor<i32>
      %y = stablehlo.multiply %x, %t : tensor<i32>
      stablehlo.return %j, %y : tensor<i32>, tensor<i32>
    }
  check.expect_eq_const %1#1, dense<32> : tensor<i32>""",
    "stablehlo.if": """
  %p = stablehlo.constant dense<true> : tensor<i1>
  %0 = stablehlo.constant dense<3> : tensor<i32>
  %1 = stablehlo.add %0, %0 : tensor<i32>
  %2 = "stablehlo.if"(%p) ({
    stablehlo.return %1 : tensor<i32>
  }, {
    stablehlo.return %0 : tensor<i32>
  }) : (tensor<i1>) -> tensor<i32>
  check.expect_eq_const %2, dense<6> : tensor<i32>""",
    "stablehlo.case": """
  %i = stablehlo.constant dense<7> : tensor<i32>
  %0 = stablehlo.constant dense<3> : tensor<i32>
  %1:2 = "stablehlo.case"(%i) ({
    stablehlo.return %0, %0 : tensor<i32>, tensor<i32>
  }, {
    %2 = stablehlo.negate %0 : tensor<i32>
    stablehlo.return %0, %2 : tensor<i32>, tensor<i32>
  }) : (tensor<i32>) -> (tensor<i32>, tensor<i32>)
  check.expect_eq_const %1#1, dense<-3> : tensor<i32>""",
    "stablehlo.custom_call": """
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{replicated}"} : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq %1, %0 : tensor<2xi32>""",
    "stablehlo.composite": """
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.composite "my.twice" %0 {composite_attributes = {n = 1 : i64}, decomposition = @twice,
    version = 1 : i32}
    : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq_const %1, dense<[2, 4]> : tensor<2xi32>""",
    "func.call": """
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = call @twice(%0) : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq_const %1, dense<[2, 4]> : tensor<2xi32>""",
    "stablehlo.uniform_quantize": """
  %0 = stablehlo.constant dense<[1.0, -0.26, 100.0, 0.25]> : tensor<4xf32>
  %1 = stablehlo.uniform_quantize %0 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
  %2 = stablehlo.bitcast_convert %1 : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4xi8>
  check.expect_eq_const %2, dense<[5, 2, 127, 4]> : tensor<4xi8>""",
    "stablehlo.uniform_dequantize": """
  %0 = stablehlo.constant() <{value = dense<[[-128, 5], [127, 5]]> : tensor<2x2xi8>}> : () -> tensor<2x2xi8>
  %1 = stablehlo.bitcast_convert %0
    : (tensor<2x2xi8>) -> tensor<2x2x!quant.uniform<i8<-128:127>:f32:1, {0.5:100, 2.0:-1}>>
  %2 = stablehlo.uniform_dequantize %1
    : (tensor<2x2x!quant.uniform<i8<-128:127>:f32:1, {0.5:100, 2.0:-1}>>) -> tensor<2x2xf32>
  check.expect_eq_const %2, dense<[[-114.0, 12.0], [13.5, 12.0]]> : tensor<2x2xf32>""",
    "stablehlo.all_gather": """
  %0 = stablehlo.constant dense<[[1, 2]]> : tensor<1x2xi32>
  %1 = "stablehlo.all_gather"(%0) {all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}
    : (tensor<1x2xi32>) -> tensor<1x2xi32>
  check.expect_eq %1, %0 : tensor<1x2xi32>""",
    "stablehlo.all_reduce": f"""
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = "stablehlo.all_reduce"(%0) {_ADDER} {{replica_groups = dense<0> : tensor<1x1xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, use_global_device_ids}}
    : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq %1, %0 : tensor<2xi32>""",
    "stablehlo.cross-replica-sum": """
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = "stablehlo.cross-replica-sum"(%0) {replica_groups = dense<0> : tensor<1x1xi64>}
    : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq %1, %0 : tensor<2xi32>""",
    "stablehlo.reduce_scatter": f"""
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = "stablehlo.reduce_scatter"(%0) {_ADDER} {{scatter_dimension = 0 : i64,
    replica_groups = dense<0> : tensor<1x1xi64>}}
    : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq %1, %0 : tensor<2xi32>""",
    "stablehlo.all_to_all": f"""
  {_MATRIX}
  %1 = "stablehlo.all_to_all"(%m) {{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 1 : i64,
    replica_groups = dense<0> : tensor<1x1xi64>}} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  check.expect_eq %1, %m : tensor<2x3xi32>""",
    "stablehlo.collective_broadcast": """
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = "stablehlo.collective_broadcast"(%0) {replica_groups = dense<0> : tensor<1x1xi64>}
    : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq %1, %0 : tensor<2xi32>""",
    "stablehlo.collective_permute": """
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = "stablehlo.collective_permute"(%0) {source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>}
    : (tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq %1, %0 : tensor<2xi32>""",
    "stablehlo.partition_id": """
  %0 = stablehlo.partition_id : tensor<ui32>
  %1 = stablehlo.replica_id : tensor<ui32>
  %2 = stablehlo.add %0, %1 : tensor<ui32>
  check.expect_eq_const %2, dense<0> : tensor<ui32>""",
    "stablehlo.rng_bit_generator": """
  %s = stablehlo.constant dense<[1, 2]> : tensor<2xui64>
  %t, %0 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui32>)
  %u, %1 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui32>)
  check.expect_eq %0, %1 : tensor<2xui32>
  check.expect_eq %t, %u : tensor<2xui64>""",
    "stablehlo.rng": """
  %l = stablehlo.constant dense<1.0> : tensor<f32>
  %h = stablehlo.constant dense<2.0> : tensor<f32>
  %n = stablehlo.constant dense<[3]> : tensor<1xi64>
  %0 = stablehlo.rng %l, %h, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  %1 = stablehlo.floor %0 : tensor<3xf32>
  check.expect_eq_const %1, dense<1.0> : tensor<3xf32>""",
    "stablehlo.after_all": """
  %0 = stablehlo.create_token : !stablehlo.token
  %1 = stablehlo.after_all %0, %0 : !stablehlo.token
  %2 = stablehlo.constant dense<1> : tensor<i32>
  check.expect_eq %2, %2 : tensor<i32>""",
    "chlo.broadcast_add": _chlo_binary("broadcast_add", "1, 2", "10", "11, 12", "i32"),
    "chlo.broadcast_and": _chlo_binary("broadcast_and", "12, 10", "6", "4, 2", "i32"),
    "chlo.broadcast_atan2": _chlo_binary("broadcast_atan2", "1.0, -1.0", "1.0", "0.785398, -0.785398"),
    "chlo.broadcast_divide": _chlo_binary("broadcast_divide", "17, -17", "3", "5, -5", "i32"),
    "chlo.broadcast_maximum": _chlo_binary("broadcast_maximum", "1, 5", "3", "3, 5", "i32"),
    "chlo.broadcast_minimum": _chlo_binary("broadcast_minimum", "1, 5", "3", "1, 3", "i32"),
    "chlo.broadcast_multiply": _chlo_binary("broadcast_multiply", "1, 5", "3", "3, 15", "i32"),
    "chlo.broadcast_or": _chlo_binary("broadcast_or", "12, 10", "6", "14, 14", "i32"),
    "chlo.broadcast_power": _chlo_binary("broadcast_power", "2, 3", "3", "8, 27", "i32"),
    "chlo.broadcast_remainder": _chlo_binary("broadcast_remainder", "17, -17", "3", "2, -2", "i32"),
    "chlo.broadcast_shift_left": _chlo_binary("broadcast_shift_left", "1, 3", "2", "4, 12", "i32"),
    "chlo.broadcast_shift_right_arithmetic": _chlo_binary(
        "broadcast_shift_right_arithmetic", "-8, 8", "1", "-4, 4", "i32"
    ),
    "chlo.broadcast_shift_right_logical": _chlo_binary("broadcast_shift_right_logical", "-8, 8", "28", "15, 0", "i32"),
    "chlo.broadcast_subtract": _chlo_binary("broadcast_subtract", "1, 2", "10", "-9, -8", "i32"),
    "chlo.broadcast_xor": _chlo_binary("broadcast_xor", "12, 10", "6", "10, 12", "i32"),
    "chlo.broadcast_zeta": _chlo_binary("broadcast_zeta", "2.0, 4.0", "1.0", "1.644934, 1.082323"),
    "chlo.broadcast_polygamma": _chlo_binary("broadcast_polygamma", "1.0, 2.0", "1.0", "1.644934, -2.404114"),
    "chlo.broadcast_next_after": """
  %0 = stablehlo.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %1 = stablehlo.constant dense<2.0> : tensor<f32>
  %2 = chlo.broadcast_next_after %0, %1 : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  check.expect_eq_const %2, dense<[0x3F800001, 0x00000001]> : tensor<2xf32>""",
    "chlo.broadcast_compare": """
  %0 = stablehlo.constant dense<[[1], [3]]> : tensor<2x1xi32>
  %1 = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %2 = chlo.broadcast_compare %0, %1 {comparison_direction = #chlo<comparison_direction LT>}
    : (tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x2xi1>
  check.expect_eq_const %2, dense<[[true, true], [false, false]]> : tensor<2x2xi1>""",
    "chlo.constant_like": """
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = "chlo.constant_like"(%0) {value = 3.0 : f32} : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const %1, dense<3.0> : tensor<2xf32>""",
    "chlo.top_k": """
  %0 = stablehlo.constant dense<[1, 5, 3]> : tensor<3xi32>
  %1, %2 = chlo.top_k(%0, k = 2) : tensor<3xi32> -> (tensor<2xi32>, tensor<2xi32>)
  check.expect_eq_const %1, dense<[5, 3]> : tensor<2xi32>
  check.expect_eq_const %2, dense<[1, 2]> : tensor<2xi32>""",
    "chlo.sinh": _chlo("sinh", "0.5, -2.0", "0.521095, -3.626860"),
    "chlo.cosh": _chlo("cosh", "0.5, -2.0", "1.127626, 3.762196"),
    "chlo.asin": _chlo("asin", "0.5, -1.0", "0.523599, -1.570796"),
    "chlo.acos": _chlo("acos", "0.5, -1.0", "1.047198, 3.141593"),
    "chlo.atan": _chlo("atan", "0.5, -1.0", "0.463648, -0.785398"),
    "chlo.asinh": _chlo("asinh", "0.5, -1.0", "0.481212, -0.881374"),
    "chlo.acosh": _chlo("acosh", "1.5, 2.0", "0.962424, 1.316958"),
    "chlo.atanh": _chlo("atanh", "0.5, -0.25", "0.549306, -0.255413"),
    "chlo.tan": _chlo("tan", "0.5, 0.0", "0.546302, 0.0"),
    "chlo.erf": _chlo("erf", "0.5, -2.0", "0.520500, -0.995322"),
    "chlo.erfc": _chlo("erfc", "0.5, 2.0", "0.479500, 0.004678"),
    "chlo.erf_inv": _chlo("erf_inv", "0.5, -0.9", "0.476936, -1.163087"),
    "chlo.lgamma": _chlo("lgamma", "5.0, -0.5", "3.178054, 1.265512"),
    "chlo.digamma": _chlo("digamma", "1.0, -0.5", "-0.577216, 0.036490"),
    "chlo.bessel_i1e": _chlo("bessel_i1e", "1.0, 20.0", "0.207910, 0.087506"),
    "chlo.square": _chlo("square", "3.0, -2.0", "9.0, 4.0"),
    "chlo.conj": """
  %0 = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
  %1 = chlo.conj %0 : tensor<complex<f32>> -> tensor<complex<f32>>
  check.expect_eq_const %1, dense<(1.0, -2.0)> : tensor<complex<f32>>""",
    "chlo.is_inf": """
  %0 = stablehlo.constant dense<[0xFF800000, 1.0]> : tensor<2xf32>
  %1 = chlo.is_inf %0 : tensor<2xf32> -> tensor<2xi1>
  %2 = chlo.is_pos_inf %0 : tensor<2xf32> -> tensor<2xi1>
  %3 = chlo.is_neg_inf %0 : tensor<2xf32> -> tensor<2xi1>
  check.expect_eq_const %1, dense<[true, false]> : tensor<2xi1>
  check.expect_eq_const %2, dense<[false, false]> : tensor<2xi1>
  check.expect_eq %3, %1 : tensor<2xi1>""",
    "chlo.mulhi": """
  %0 = stablehlo.constant dense<[1073741824, -1073741824]> : tensor<2xi32>
  %1 = chlo.mulhi %0, %0 : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
  check.expect_eq_const %1, dense<268435456> : tensor<2xi32>""",
}

WITHOUT_NUMBERS = {
    "stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv", "stablehlo.async_start",
    "stablehlo.async_done", "stablehlo.return", "func.return", "stablehlo.create_token", "stablehlo.replica_id",
    "stablehlo.get_tuple_element", "chlo.constant", "chlo.broadcast_select", "chlo.broadcast_complex",
    "chlo.ragged_dot", "chlo.scan", "chlo.zeta", "chlo.polygamma", "chlo.next_after", "chlo.is_pos_inf",
    "chlo.is_neg_inf", "chlo._asin_acos_kernel",
}  # fmt: skip
"""Operations that others of the examples hold, that need somebody outside, or that `broadcast_` forms stand for."""
