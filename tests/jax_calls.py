"""Calls of JAX's public functions with the arguments that are theirs alone, for `survey_jax_harnesses.py`.

Other families call functions with one or two arrays.  Here each has its axes, masks, orders, modes and result types: a
line of text is a call.  In it stand, of the type that is tried, ``x y`` [3, 4], ``v w`` [7], ``m n`` [4, 4], ``t``
[2, 1, 3, 2, 2], ``e`` [0, 4], ``u`` [], ``o`` [1], ``r`` [19] (a vector and a rest of any width) and ``s`` (NaN, infinities, both
zeros, extremes); besides ``i`` [3, 4] and ``j`` [7] of int32, some out of bounds, ``b`` [3, 4] and ``c`` [7] of bool, ``q`` [4]
from 0 to 1, and ``k``, a key.  Of each call one program is compiled with all that JAX can make of it: its values, those
of a batch, their derivatives forwards and backwards.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

import jax
import jax.experimental.jet
import jax.experimental.sparse
import jax.image
import jax.numpy as jnp
import jax.ops
import jax.scipy.cluster.vq
import jax.scipy.fft
import jax.scipy.integrate
import jax.scipy.interpolate
import jax.scipy.linalg
import jax.scipy.ndimage
import jax.scipy.optimize
import jax.scipy.signal
import jax.scipy.sparse.linalg
import jax.scipy.spatial.transform
import jax.scipy.special
import jax.scipy.stats
import numpy as np
from jax import lax, nn
from jax.experimental.ode import odeint

Case = tuple[str, Callable[[], Any]]

NUMPY = """
jnp.sum(x, axis=0, where=b, initial=2)
jnp.sum(x, axis=(0, 1), keepdims=True, dtype=jnp.float32)
jnp.prod(x, axis=-1, where=b, initial=1, keepdims=True)
jnp.prod(t, axis=(1, -1), promote_integers=False)
jnp.max(x, axis=1, where=b, initial=-3)
jnp.min(e, axis=1), jnp.max(e, axis=0, initial=0)
jnp.mean(x, axis=0, where=b), jnp.mean(t, axis=(0, 2), dtype=jnp.float32)
jnp.std(x, axis=1, ddof=1), jnp.var(x, where=b, axis=0), jnp.var(x, correction=2)
jnp.std(x, axis=0, keepdims=True, dtype=jnp.float32)
jnp.nansum(s, where=None), jnp.nanprod(x, axis=0), jnp.nanmean(x, axis=1, where=b)
jnp.nanmax(x, axis=0, initial=-1, where=b), jnp.nanmin(s), jnp.nanstd(x, axis=1, ddof=1), jnp.nanvar(x, axis=0)
jnp.nanargmax(x, axis=1), jnp.nanargmin(x, axis=0, keepdims=True)
jnp.nancumsum(s), jnp.nancumprod(x, axis=1)
jnp.nanmedian(x, axis=0), jnp.nanpercentile(x, 30, axis=1), jnp.nanquantile(x, q, axis=0)
jnp.median(x, axis=1, keepdims=True), jnp.median(t, axis=(0, 2))
jnp.quantile(x, q, axis=1, method="lower"), jnp.quantile(v, 0.3, method="midpoint")
jnp.quantile(x, q, axis=0, method="nearest"), jnp.percentile(v, 40.0, method="higher", keepdims=True)
jnp.cumsum(x, axis=1, dtype=jnp.float32), jnp.cumprod(t, axis=2), jnp.cumsum(e, axis=0)
jnp.cumulative_sum(v, include_initial=True), jnp.cumulative_prod(x, axis=1, include_initial=True)
jnp.all(x, axis=1, where=b), jnp.any(x, axis=0, where=b, keepdims=True), jnp.all(e, axis=0)
jnp.count_nonzero(x, axis=1, keepdims=True), jnp.count_nonzero(t, axis=(0, 3))
jnp.argmax(x, axis=1, keepdims=True), jnp.argmin(t, axis=2), jnp.argmax(s), jnp.argmin(s)
jnp.ptp(x, axis=0, keepdims=True), jnp.average(x, axis=1, weights=q), jnp.average(x, axis=0, weights=y * 0 + 2, returned=True)
jnp.clip(x, 1, y), jnp.clip(s, min=0), jnp.clip(s, max=u)
jnp.where(b, x, y), jnp.where(b, x, 0), jnp.where(c, 1, v)
jnp.select([b, x > y], [x, y], 3), jnp.piecewise(x, [x < 0, x >= 1], [lambda x: -x, lambda x: x * 2, 1])
jnp.choose(i, [x, y, x], mode="clip"), jnp.choose(i % 3, [x, y, x], mode="wrap")
jnp.take(v, i), jnp.take(x, j, axis=1, mode="fill", fill_value=1), jnp.take(x, j, axis=0, mode="wrap")
jnp.take(x, j, axis=1, mode="clip"), jnp.take(e, jnp.array([], int), axis=1), jnp.take(v, i, unique_indices=False, indices_are_sorted=False)
jnp.take_along_axis(x, i % 3, axis=0), jnp.take_along_axis(x, i, axis=1, mode="clip"), jnp.take_along_axis(x, i, axis=None)
jnp.put_along_axis(x, i[:1] % 3, y[:1], axis=0, inplace=False), jnp.put(v, i % 7, x, inplace=False), jnp.put(v, i, 2, mode="clip", inplace=False)
jnp.place(x, b, v, inplace=False), jnp.extract(b, x, size=5, fill_value=1), jnp.compress(c, v, size=4), jnp.compress(b[0], x, axis=1, size=3)
jnp.fill_diagonal(m, u, inplace=False)
x.at[i % 3, 1].set(1), x.at[1].add(y[0]), x.at[:, ::2].multiply(3), x.at[b].set(0)
x.at[j].add(1, mode="drop"), x.at[j].get(mode="fill", fill_value=7), x.at[j].get(mode="clip"), v.at[i].max(x), v.at[i].min(x)
v.at[j].divide(2), v.at[j].power(2), v.at[j].apply(jnp.square), v.at[j].mul(v, unique_indices=False), v.at[::-2].set(w[::2])
x[1], x[..., None, 2], x[::-1, 1:3], x[i % 3], x[:, j % 4], x[i % 3, i % 4], x[None, j % 3, None, 0], x[-1:0:-1]
t[0, :, j % 3], t[:, 0, None, ..., j % 2], t[(0, 1), ..., (1, 0)], t[..., 0, :][1], x[:0], x[5:], v[jnp.int8(3)]
jnp.insert(v, 2, u), jnp.insert(x, jnp.array([1, 2]), y[:2], axis=0), jnp.delete(v, 3), jnp.delete(x, np.array([0, 2]), axis=1), jnp.delete(v, slice(1, 5, 2))
jnp.append(x, y, axis=0), jnp.append(x, v), jnp.concatenate([x, y[:, :1]], axis=1), jnp.concatenate([v, x[0], o]), jnp.concat([e, x])
jnp.stack([x, y], axis=-1), jnp.hstack([v, w]), jnp.vstack([v, w]), jnp.dstack([x, y]), jnp.column_stack([v, w]), jnp.block([[x, x], [y, y]])
jnp.split(v, [2, 5]), jnp.array_split(v, 3), jnp.hsplit(x, 2), jnp.vsplit(m, 2), jnp.unstack(x, axis=1)
jnp.tile(x, (2, 1, 2)), jnp.repeat(x, 3, axis=1), jnp.repeat(v, j % 3, total_repeat_length=9), jnp.repeat(x, jnp.array([1, 0, 2]), axis=0, total_repeat_length=3)
jnp.roll(x, 2), jnp.roll(x, (1, -2), axis=(0, 1)), jnp.roll(x, jnp.array([1, 5]), axis=(1, 0)), jnp.roll(x, j[0], axis=1), jnp.rollaxis(t, 3, 1), jnp.roll(e, 3, 1)
jnp.rot90(x, 3), jnp.rot90(t, 2, axes=(0, 3)), jnp.flip(t, axis=(0, 2)), jnp.fliplr(x), jnp.flipud(x), jnp.moveaxis(t, (0, 1), (-1, 2)), jnp.swapaxes(t, 0, 3)
jnp.pad(x, ((1, 0), (2, 3)), constant_values=((1, 2), (3, 4))), jnp.pad(v, 2, mode="reflect"), jnp.pad(v, (3, 9), mode="wrap"), jnp.pad(x, 1, mode="symmetric")
jnp.pad(v, 3, mode="edge"), jnp.pad(v, (2, 1), mode="linear_ramp", end_values=5), jnp.pad(x, 2, mode="maximum"), jnp.pad(x, 1, mode="mean", stat_length=2), jnp.pad(v, 2, mode="empty").shape
jnp.pad(v, 4, mode="reflect", reflect_type="odd"), jnp.pad(x, ((1, 2), (0, 1)), mode="median"), jnp.pad(x, 1, mode="minimum"), jnp.pad(e, ((1, 1), (0, 0)))
jnp.diff(x, n=2, axis=0), jnp.diff(x, axis=1, prepend=u, append=y), jnp.ediff1d(v, to_begin=1, to_end=w[:2]), jnp.gradient(v), jnp.gradient(x, 2.0, axis=1), jnp.gradient(x)
jnp.trapezoid(x, axis=0), jnp.trapezoid(v, x=jnp.arange(7.0)), jnp.trapezoid(x, dx=0.5), jnp.interp(q, jnp.linspace(0, 1, 7), v), jnp.interp(v, jnp.arange(4.0), q, left=-1, right=9), jnp.interp(v, jnp.arange(4.0), q, period=3)
jnp.sort(x, axis=0, descending=True), jnp.sort(t, axis=2, stable=False), jnp.sort(x, axis=None), jnp.argsort(x, axis=1, descending=True), jnp.argsort(s, stable=True), jnp.sort(s)
jnp.lexsort((v, w)), jnp.partition(v, 3), jnp.partition(x, 1, axis=0), jnp.take_along_axis(v, jnp.argpartition(v, 2), 0)[2], jnp.sort_complex(v)
jnp.searchsorted(jnp.sort(v), x), jnp.searchsorted(jnp.sort(v), w, side="right"), jnp.searchsorted(v, w, sorter=jnp.argsort(v)), jnp.searchsorted(jnp.sort(v), w, method="compare_all"), jnp.searchsorted(jnp.sort(v), w, method="sort"), jnp.searchsorted(e[:, 0], w)
jnp.digitize(v, jnp.arange(5)), jnp.digitize(v, jnp.arange(5)[::-1], right=True), jnp.bincount(abs(j), length=6), jnp.bincount(abs(j), weights=v, length=4), jnp.histogram(v, bins=4), jnp.histogram(v, range=(-2, 2), density=True), jnp.histogram(v, weights=w, bins=jnp.array([-1, 0, 3]))
jnp.histogram2d(v, w, bins=3), jnp.histogramdd(x.T, bins=2), jnp.histogram_bin_edges(v, 5)
jnp.unique(v, size=5, fill_value=9), jnp.unique(x, return_index=True, return_inverse=True, return_counts=True, size=6), jnp.unique(x, axis=0, size=2), jnp.unique_counts(v, size=7), jnp.unique_all(v, size=7), jnp.unique_values(v, size=3), jnp.unique_inverse(v, size=7)
jnp.union1d(v, w, size=14), jnp.intersect1d(v, w, size=4, return_indices=True), jnp.setdiff1d(v, w, size=5), jnp.setxor1d(v, w, size=8), jnp.isin(x, v), jnp.isin(x, v, invert=True, method="sort"), jnp.isin(x, v, method="binary_search")
jnp.nonzero(x, size=5, fill_value=2), jnp.argwhere(x, size=3), jnp.flatnonzero(x, size=20, fill_value=-1), jnp.where(b, size=3)
jnp.matmul(t, t, precision="highest"), jnp.matmul(v, w), jnp.matmul(x.T, y, preferred_element_type=jnp.float32), jnp.matvec(x, y[0]), jnp.vecmat(x[:, 0], y), jnp.vecdot(x, y, axis=0), jnp.matmul(e.T, e), jnp.matmul(e, m)
jnp.dot(x, y.T, preferred_element_type=jnp.float32), jnp.dot(t, m[:2, :2]), jnp.vdot(x, y), jnp.inner(x, y), jnp.outer(v, w), jnp.kron(x, m[:2, :2]), jnp.kron(v, u), jnp.tensordot(t, t, axes=([2, 3], [2, 3])), jnp.tensordot(x, y, axes=2), jnp.tensordot(v, w, 0)
jnp.einsum("ij,kj->ik", x, y), jnp.einsum("ij,ij,ij->j", x, y, x), jnp.einsum("ii->i", m), jnp.einsum("ij,jk,kl", x.T, y, m), jnp.einsum("...ij,...jk->...ik", t, t), jnp.einsum("i->", v), jnp.einsum(x, [0, 1], y, [0, 1], [1]), jnp.einsum("ij->ji", x, optimize=False)
jnp.cross(x[:, :3], y[:, :3]), jnp.cross(x[:, :2], y[:, :2]), jnp.cross(x[:3], y[:3], axis=0), jnp.convolve(v, w, mode="same"), jnp.convolve(v, w[:3], mode="valid"), jnp.correlate(v, w[:3], mode="full"), jnp.correlate(w[:2], v, mode="same")
jnp.cov(x, rowvar=False, bias=True), jnp.cov(x, aweights=q, fweights=jnp.array([1, 2, 1, 3])), jnp.cov(v, w, ddof=0), jnp.corrcoef(x), jnp.corrcoef(v, w)
jnp.tril(m, 1), jnp.triu(t, -1), jnp.diag(v, 1), jnp.diag(m, -1), jnp.diagflat(x, 1), jnp.diagonal(t, 1, 2, 3), jnp.trace(m, 1), jnp.trace(t, axis1=0, axis2=3, dtype=jnp.float32), jnp.vander(v, 4), jnp.vander(v, increasing=True)
jnp.full((2, 3), u), jnp.full_like(x, 3, dtype=jnp.float32), jnp.zeros_like(t, shape=(2,)), jnp.ones_like(e), jnp.linspace(u, 3, 5), jnp.linspace(v, w, 4, endpoint=False, axis=1), jnp.linspace(0, u, 1, retstep=True), jnp.logspace(0, 2, 5, base=3), jnp.geomspace(1, 100, 4), jnp.arange(2, 9, 3, dtype=x.dtype)
jnp.meshgrid(v, w, indexing="ij", sparse=True), jnp.meshgrid(o, v), jnp.ix_(j, j), jnp.indices((2, 3), dtype=x.dtype), jnp.eye(3, 5, 1, dtype=x.dtype), jnp.tri(3, 4, -1), jnp.identity(3, x.dtype), jnp.mgrid[0:3, 1:2:3j], jnp.r_[v, 1, w], jnp.c_[v, w]
jnp.poly(v), jnp.polyval(v, x), jnp.polyval(v, u, unroll=3), jnp.polyadd(v, x[0]), jnp.polysub(v, w), jnp.polymul(v, w), jnp.polydiv(v, w[:3]), jnp.polyder(v, 2), jnp.polyint(v, 2, k=jnp.array([1, 2])), jnp.polyfit(jnp.arange(7.0), v, 2), jnp.roots(v, strip_zeros=False).shape
jnp.apply_along_axis(lambda r: r.sum(), 1, x), jnp.apply_over_axes(jnp.sum, t, (0, 2)), jnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")(x, y[0]), jnp.frompyfunc(lambda a, b: a * b, 2, 1, identity=1).reduce(v), jnp.fromfunction(lambda a, b: a + b, (2, 3))
jnp.add.reduce(x, axis=0), jnp.add.accumulate(v), jnp.multiply.outer(v, w), jnp.add.at(v, j, 2, inplace=False), jnp.add.reduceat(v, jnp.array([0, 3, 5])), jnp.maximum.reduce(x, axis=1), jnp.subtract.accumulate(x, axis=1), jnp.logaddexp.reduce(x)
jnp.isclose(x, y, rtol=0.5), jnp.isclose(s, s, equal_nan=True), jnp.allclose(x, x), jnp.array_equal(x, y), jnp.array_equal(s, s, equal_nan=True), jnp.array_equiv(x, x[:1]), jnp.isposinf(s), jnp.isneginf(s), jnp.iscomplex(x), jnp.isreal(x), jnp.signbit(s)
jnp.nan_to_num(s, nan=1, posinf=2, neginf=3), jnp.round(x, 1), jnp.round(x, -1), jnp.around(x, 2), jnp.trunc(s), jnp.rint(s), jnp.fix(x) if hasattr(jnp, "fix") else x, jnp.heaviside(s, 1), jnp.copysign(s, -1), jnp.nextafter(s, 0), jnp.ldexp(v, j), jnp.frexp(s), jnp.modf(s), jnp.divmod(v, w), jnp.divmod(s, 3)
jnp.unwrap(v), jnp.unwrap(x, discont=2, axis=0, period=4), jnp.angle(x, deg=True), jnp.sinc(s), jnp.i0(v), jnp.float_power(v, 2), jnp.power(v, 3), jnp.power(s, -1), jnp.power(2, abs(v)), jnp.left_shift(v, 2), jnp.right_shift(s, j[0]), jnp.bitwise_count(s), jnp.gcd(v, w), jnp.lcm(v, w)
jnp.packbits(b, axis=1), jnp.packbits(c, bitorder="little"), jnp.unpackbits(x.astype("uint8"), axis=1, count=5), jnp.ravel_multi_index((j % 3, j % 4), (3, 4), mode="wrap"), jnp.unravel_index(abs(j), (3, 4)), jnp.tril_indices_from(m), jnp.mask_indices(3, jnp.triu), jnp.diag_indices_from(m)
jnp.hamming(5), jnp.kaiser(6, 2.0), jnp.bartlett(4), jnp.blackman(7), jnp.hanning(3), jnp.trim_zeros(np.array([0, 1, 0])), jnp.resize(x, (5, 2)), jnp.reshape(x, (4, 3), order="F"), jnp.ravel(x, order="F"), jnp.expand_dims(x, (0, 2)), jnp.squeeze(t, 1), jnp.broadcast_to(v, (2, 7)), jnp.broadcast_arrays(x, u), jnp.atleast_3d(v)
x.astype("int8"), x.astype("float16"), x.astype("complex64"), x.astype(bool), s.astype("uint8"), s.astype("int32"), s.astype("float8_e4m3fn"), s.astype("bfloat16"), x.view("uint8"), m.view(x.dtype), jnp.asarray(x, dtype="float32", copy=True), jnp.array(x, ndmin=3)
abs(x), -x, +x, x @ y.T, x // 2, x % 3, x ** 2, 2 / x, 3 - x, x == y, x != 1, x < u, ~b, b & (x > 0), b | b, b ^ b, divmod(x, 3), round(x, 1), x.real, x.imag, x.T, t.mT, x.conj()
jnp.fmin(s, 1), jnp.fmax(s, s[::-1]), jnp.hypot(v, w), jnp.logaddexp(s, 1), jnp.logaddexp2(v, w), jnp.arctan2(s, s[::-1]), jnp.remainder(s, 2), jnp.fmod(s, 2), jnp.floor_divide(s, 2), jnp.maximum(s, 0), jnp.minimum(s, s[::-1]), jnp.spacing(s), jnp.cbrt(s), jnp.reciprocal(s), jnp.exp2(s), jnp.log2(s), jnp.log10(s), jnp.log1p(s), jnp.expm1(s), jnp.square(s), jnp.sqrt(s), jnp.sign(s)
"""

LAX = """
lax.reduce(x, np.array(0, x.dtype), lax.add, (0,)), lax.reduce(x, np.array(1, x.dtype), lax.mul, (0, 1)), lax.reduce(x, u, lambda a, b: lax.max(a, b), (1,)), lax.reduce((x, i), (u, np.int32(0)), lambda a, b: (a[0] + b[0], lax.max(a[1], b[1])), (1,))
lax.reduce_window(x, np.array(0, x.dtype), lax.add, (2, 2), (1, 2), "SAME"), lax.reduce_window(x, u, lax.max, (2, 1), (1, 1), "VALID"), lax.reduce_window(t, np.array(1, t.dtype), lax.mul, (1, 1, 2, 1, 1), (1,) * 5, "VALID", window_dilation=(1, 1, 2, 1, 1))
lax.sort((x, y), dimension=0, num_keys=2), lax.sort(x, dimension=1, is_stable=False), lax.sort_key_val(v, w), lax.top_k(x, 2), lax.top_k(v, 7)
lax.argmax(x, 1, np.int32), lax.argmin(s, 0, np.uint8), lax.cummax(x, 1, reverse=True), lax.cummin(t, 2), lax.cumlogsumexp(x, 0), lax.cumprod(v, reverse=True), lax.cumsum(r)
lax.dot(x, y.T), lax.dot(v, w), lax.dot_general(t, t, (([2], [2]), ([0], [0]))), lax.dot_general(x, y, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32), lax.batch_matmul(m[None], n[None]), lax.dot_general(e, e, (((0,), (0,)), ((), ())))
lax.ragged_dot(x, jnp.stack([m[:, :2], n[:, :2]]), jnp.array([1, 2], np.int32)), lax.ragged_dot(x, jnp.stack([m[:, :2], n[:, :2]]), jnp.array([0, 1], np.int32))
lax.conv(m[None, None], n[None, None, :2, :3], (1, 2), "SAME"), lax.conv_general_dilated(m[None, None], n[None, None, :2, :2], (1, 1), [(0, 2), (1, -1)], lhs_dilation=(2, 1), rhs_dilation=(1, 2)), lax.conv_general_dilated(x[None], y[:3, :3][:, None, :2], (1,), "VALID", feature_group_count=3), lax.conv_general_dilated(jnp.stack([x, y]), jnp.stack([x, y])[:, :, :3], (1,), [(2, 0)], batch_group_count=2)
lax.conv_transpose(m[None, None], n[None, None, :3, :2], (2, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")), lax.conv_general_dilated_patches(m[None, None], (2, 2), (1, 1), "VALID"), lax.conv_general_dilated_local(x[None], jnp.ones((2, 6, 3), x.dtype), (1,), "VALID", (2,)), lax.conv_with_general_padding(m[None, None], n[None, None, :2, :2], (1, 1), [(1, 1), (0, 0)], (1, 1), (1, 1))
lax.conv_general_dilated(t[..., 0], t[:1, :, :2, :, 0], (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NHWC")), lax.conv_general_dilated(t, jnp.ones((2, 2, 1, 1, 1), t.dtype)[:, :1], (1, 2, 1), "VALID")
lax.gather(x, i[:, :1] % 3, lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4)), lax.gather(x, i[:, :2], lax.GatherDimensionNumbers((1,), (0,), (0, 1)), (1, 2), mode="fill", fill_value=5), lax.gather(x, i[:, :2], lax.GatherDimensionNumbers((0, 1), (), (0, 1)), (2, 2), mode="clip")
lax.scatter(x, i[:, :1] % 3, y, lax.ScatterDimensionNumbers((1,), (0,), (0,))), lax.scatter_add(x, i[:, :2], y[:, 0], lax.ScatterDimensionNumbers((), (0, 1), (0, 1))), lax.scatter_mul(v, j[:, None], w, lax.ScatterDimensionNumbers((), (0,), (0,))), lax.scatter_min(v, j[:, None], w, lax.ScatterDimensionNumbers((), (0,), (0,)), mode="clip"), lax.scatter_max(x, i[:2, :2], m[:2, :2], lax.ScatterDimensionNumbers((1,), (0,), (0, 1))), lax.scatter_apply(v, j[:, None] % 7, lambda x: x * 2, lax.ScatterDimensionNumbers((), (0,), (0,)), update_shape=(7,))
lax.scatter_sub(v, j[:, None], w, lax.ScatterDimensionNumbers((), (0,), (0,))), lax.scatter(e, i[:0, :1], y[:0], lax.ScatterDimensionNumbers((1,), (0,), (0,)))
lax.dynamic_slice(x, (j[0], j[1]), (2, 3)), lax.dynamic_slice_in_dim(x, j[2], 2, axis=1), lax.dynamic_index_in_dim(x, j[3], 0, keepdims=False), lax.dynamic_update_slice(x, y[:2, :2], (j[0], j[1])), lax.dynamic_update_slice_in_dim(v, w[:3], j[4], 0), lax.dynamic_update_index_in_dim(x, y[0], j[5], 0), lax.index_in_dim(x, 1, 1), lax.index_take(x, (j % 3,), (0,)), lax.dynamic_slice(v, (np.uint8(200),), (3,))
lax.slice(x, (0, 1), (3, 4), (2, 1)), lax.slice_in_dim(t, 0, 2, 2, axis=2), lax.pad(x, np.array(3, x.dtype), ((1, -1, 2), (-2, 3, 0))), lax.pad(v, u, ((0, 0, 3),)), lax.pad(e, u, ((1, 2, 1), (-1, 0, 0))), lax.rev(t, (0, 2)), lax.concatenate([x, y], 1), lax.split(v, (2, 5)), lax.expand_dims(v, (0, 2)), lax.squeeze(t, (1,)), lax.collapse(t, 1, 4), lax.broadcast(v, (2, 3)), lax.broadcast_in_dim(v, (2, 7, 3), (1,)), lax.reshape(x, (2, 6)), lax.reshape(x, (12,), (1, 0)), lax.transpose(t, (4, 2, 0, 3, 1)), lax.tile(x, (2, 1))
lax.clamp(np.array(0, x.dtype), x, np.array(2, x.dtype)), lax.clamp(u, s, u), lax.select(b, x, y), lax.select_n(b, x, y), lax.select_n(abs(i) % 3, x, y, x), lax.full((2,), 3, x.dtype), lax.full_like(x, 2), lax.iota(x.dtype, 5), lax.broadcasted_iota(x.dtype, (2, 3), 1), lax.reduce_precision(s, 5, 3), lax.reduce_precision(r, 8, 7), lax.convert_element_type(s, np.int16), lax.bitcast_convert_type(x, np.uint8), lax.stop_gradient(x), lax.optimization_barrier((x, v))
lax.integer_pow(x, 3), lax.integer_pow(s, -2), lax.pow(abs(v), w), lax.pow(v, j), lax.nextafter(s, s[::-1]), lax.rem(s, s[::-1]), lax.sign(s), lax.round(s, lax.RoundingMethod.TO_NEAREST_EVEN), lax.round(s, lax.RoundingMethod.AWAY_FROM_ZERO), lax.population_count(s), lax.clz(s), lax.shift_left(s, s[::-1]), lax.shift_right_logical(s, s[::-1]), lax.shift_right_arithmetic(s, s[::-1]), lax.mulhi(s, s[::-1]) if hasattr(lax, "mulhi") else x, lax.is_finite(s), lax.square(s), lax.cbrt(s), lax.rsqrt(s), lax.erf(s), lax.erfc(s), lax.erf_inv(s), lax.lgamma(s), lax.digamma(s), lax.bessel_i0e(s), lax.bessel_i1e(s), lax.logistic(s), lax.exp2(s), lax.tan(s), lax.asinh(s), lax.acosh(s), lax.atanh(s)
lax.igamma(abs(v) + 1, abs(w)), lax.igammac(abs(v) + 1, abs(w)), lax.igamma_grad_a(abs(v) + 1, abs(w) + 1), lax.random_gamma_grad(abs(v) + 1, abs(w) + 1), lax.betainc(abs(v) + 1, abs(w) + 1, abs(v) / 20), lax.polygamma(abs(v) * 0 + 1, abs(w) + 1), lax.zeta(abs(v) + 2, abs(w) + 1), lax.complex(v, w), lax.conj(v), lax.real(v), lax.imag(v), lax.atan2(s, s[::-1])
lax.scan(lambda c, a: (c + a, c * a), u, v), lax.scan(lambda c, a: (c * 2, a[::-1]), x, (m,), reverse=True), lax.scan(lambda c, a: (c + a.sum().astype(c.dtype), None), u, r, unroll=4), lax.scan(lambda c, a: (c, c + a), e, o), lax.map(lambda a: a.sum(), x), lax.map(lambda a: a * 2, r, batch_size=4), lax.associative_scan(lax.mul, x, axis=1), lax.associative_scan(lax.max, r, reverse=True)
lax.fori_loop(0, 5, lambda n, c: c * 2 + n.astype(c.dtype), v), lax.fori_loop(0, j[0] + 3, lambda n, c: c + 1, u), lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] * c[1]), (0, v)), lax.cond(b[0, 0], lambda a: a, lambda a: -a, v), lax.cond(u > 1, lambda: x, lambda: y), lax.switch(j[0], [lambda a: a, lambda a: a * 2, lambda a: a - 1], v)
lax.approx_max_k(x, 2), lax.approx_min_k(r, 3), lax.composite(lambda x: x * 2, "a.b")(x), lax.platform_dependent(x, cpu=lambda x: x + 1, default=lambda x: x), lax.custom_linear_solve(lambda a: m @ a, v[:4], lambda f, b: b, symmetric=True), lax.rng_bit_generator(jnp.arange(4, dtype=np.uint32), (7,), dtype=np.uint32), lax.rng_bit_generator(jnp.arange(4, dtype=np.uint32), (3,), dtype=np.uint8)
lax.conv_general_dilated(m[None, None], n[None, None, :2, :2], (1, 1), "SAME_LOWER"), lax.fft(x, "FFT", (4,)), lax.fft(v, "RFFT", (7,)), lax.fft(v, "IRFFT", (12,)), lax.broadcast_to_rank(v, 3), lax.stack([x, y], 1) if hasattr(lax, "stack") else x, lax.unstack(x, 1) if hasattr(lax, "unstack") else x
"""

OTHERS = """
nn.softmax(x, axis=0, where=b), nn.log_softmax(x, axis=(0, 1)), nn.logsumexp(x, axis=0, b=y, where=b), nn.logsumexp(x, axis=1, return_sign=True, b=y), nn.standardize(x, axis=0, where=b, epsilon=0.1), nn.standardize(x, mean=u, variance=1), nn.logmeanexp(x, axis=1, where=b), nn.softmax(s), nn.softmax(e, axis=1)
nn.gelu(s, approximate=False), nn.gelu(v), nn.celu(v, 2.0), nn.elu(s, 0.5), nn.leaky_relu(s, 0.3), nn.hard_tanh(s), nn.hard_swish(v), nn.mish(s), nn.squareplus(s, 2), nn.sparse_plus(s), nn.sparse_sigmoid(s), nn.log1mexp(abs(v)), nn.soft_sign(s), nn.log_sigmoid(s), nn.softplus(s), nn.glu(x, axis=1), nn.relu6(s), nn.selu(s), nn.identity(s), nn.hard_sigmoid(s), nn.silu(s), nn.relu(s)
nn.one_hot(j, 5), nn.one_hot(i, 4, axis=0, dtype=x.dtype), nn.dot_product_attention(t, t, t), nn.dot_product_attention(t, t, t, is_causal=True, scale=0.3), nn.dot_product_attention(t, t, t, mask=jnp.ones((2, 3, 1, 1), bool)[:, :1]), nn.dot_product_attention(m[None, :, None], m[None, :, None], m[None, :, None], local_window_size=(1, 1), query_seq_lengths=jnp.array([3]), key_value_seq_lengths=jnp.array([2]))
nn.initializers.glorot_uniform()(k, (3, 4)), nn.initializers.orthogonal()(k, (3, 3)).shape, nn.initializers.truncated_normal(0.1)(k, (9,)), nn.initializers.variance_scaling(2.0, "fan_avg", "normal")(k, (3, 4)), nn.initializers.lecun_normal(in_axis=-1, out_axis=-2)(k, (4, 5), x.dtype), nn.initializers.delta_orthogonal()(k, (3, 2, 2)).shape, nn.initializers.constant(u)(k, (2,))
jax.ops.segment_sum(x, jnp.array([0, 2, 0]), 4), jax.ops.segment_prod(v, abs(j), 5), jax.ops.segment_max(v, j, 4, indices_are_sorted=False), jax.ops.segment_min(v, abs(j), 9), jax.ops.segment_sum(v, abs(j), 3, bucket_size=2, mode="drop")
jax.image.resize(m, (7, 3), "linear"), jax.image.resize(m, (2, 9), "nearest"), jax.image.resize(m, (6, 6), "cubic"), jax.image.resize(m, (5, 5), "lanczos3", antialias=False), jax.image.resize(x, (3, 1), "lanczos5"), jax.image.scale_and_translate(m, (5, 6), (0, 1), jnp.array([1.5, 0.7]), jnp.array([0.2, -1.0]), "linear")
jnp.fft.fft(x, n=6, axis=0, norm="ortho"), jnp.fft.irfft(x, n=5, norm="forward"), jnp.fft.rfftn(t, s=(3, 4), axes=(2, 3)), jnp.fft.fft2(m, norm="forward"), jnp.fft.hfft(v, 9), jnp.fft.ihfft(v, norm="ortho"), jnp.fft.fftshift(x, axes=0), jnp.fft.ifftshift(x), jnp.fft.fftfreq(7, 0.5), jnp.fft.rfftfreq(6), jnp.fft.ifftn(m, (3, 5)), jnp.fft.irfft2(m)
jnp.linalg.norm(x, axis=1), jnp.linalg.norm(x, "fro"), jnp.linalg.norm(x, 2), jnp.linalg.norm(x, "nuc"), jnp.linalg.norm(x, -1, axis=(0, 1), keepdims=True), jnp.linalg.norm(v, jnp.inf), jnp.linalg.norm(v, 0), jnp.linalg.norm(v, -jnp.inf), jnp.linalg.norm(v, 3.5), jnp.linalg.vector_norm(t, axis=(0, 2), ord=1), jnp.linalg.matrix_norm(t, ord=1), jnp.linalg.cond(m), jnp.linalg.cond(m, 1)
jnp.linalg.matrix_power(m, 3), jnp.linalg.matrix_power(m, -2), jnp.linalg.matrix_power(m, 0), jnp.linalg.multi_dot([x, m, n]), jnp.linalg.matrix_rank(x, rtol=0.1), jnp.linalg.pinv(x, rtol=1e-3), jnp.linalg.pinv(m @ m.T, hermitian=True), jnp.linalg.lstsq(m, v[:4])[0], jnp.linalg.tensorsolve(jnp.eye(6, dtype=x.dtype).reshape(2, 3, 6), x[:2, :3]), jnp.linalg.tensorinv(jnp.eye(4, dtype=x.dtype).reshape(2, 2, 4)), jnp.linalg.slogdet(m), jnp.linalg.slogdet(m, method="qr"), jnp.linalg.svd(x, compute_uv=False), jnp.linalg.svdvals(t), jnp.linalg.eigvals(m).shape, jnp.linalg.qr(x, mode="r"), jnp.linalg.qr(x, mode="complete")[1].shape, jnp.linalg.cholesky(m @ m.T.conj() + 9 * jnp.eye(4, dtype=x.dtype), upper=True), jnp.linalg.solve(m, n), jnp.linalg.cross(x[:, :3], y[:, :3]), jnp.linalg.outer(v, w), jnp.linalg.det(e[:, :0]), jnp.linalg.inv(m)
jax.scipy.linalg.solve(m, v[:4], assume_a="gen"), jax.scipy.linalg.solve(m @ m.T.conj() + 9 * jnp.eye(4, dtype=x.dtype), v[:4], assume_a="pos", lower=True), jax.scipy.linalg.solve_triangular(m, x.T, trans=1, lower=True, unit_diagonal=True), jax.scipy.linalg.block_diag(x, u, m), jax.scipy.linalg.toeplitz(v, w), jax.scipy.linalg.hankel(v), jax.scipy.linalg.circulant(v), jax.scipy.linalg.companion(v), jax.scipy.linalg.convolution_matrix(v, 4, "same"), jax.scipy.linalg.dft(5), jax.scipy.linalg.hilbert(4), jax.scipy.linalg.hadamard(4), jax.scipy.linalg.helmert(4, full=True), jax.scipy.linalg.invhilbert(3), jax.scipy.linalg.pascal(5), jax.scipy.linalg.invpascal(4), jax.scipy.linalg.fiedler(v), jax.scipy.linalg.fiedler_companion(v), jax.scipy.linalg.leslie(v, w[:6])
jax.scipy.linalg.expm(m / 9, upper_triangular=True), jax.scipy.linalg.expm_frechet(m / 9, n / 9), jax.scipy.linalg.solve_sylvester(m, n, m).shape, jax.scipy.linalg.eigh_tridiagonal(v, w[:6], eigvals_only=True), jax.scipy.linalg.lu(x, permute_l=True), jax.scipy.linalg.lu(m, p_indices=True), jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(m), v[:4], trans=1), jax.scipy.linalg.cho_solve((m, True), v[:4]), jax.scipy.linalg.qr_multiply(m, v[:4])[0].shape, jax.scipy.linalg.polar(m, side="left")[1], jax.scipy.linalg.funm(m, lambda a: a, disp=False)[0].shape, jax.scipy.linalg.rsf2csf(m, n)[0].shape, jax.scipy.linalg.svd(x, full_matrices=False)[1], jax.scipy.linalg.eigh(m + m.T.conj(), eigvals_only=True, lower=False), jax.scipy.linalg.hessenberg(m).shape, jax.scipy.linalg.inv(m), jax.scipy.linalg.det(t)
jax.scipy.signal.fftconvolve(v, w, mode="same"), jax.scipy.signal.convolve(x, y, mode="full", method="direct"), jax.scipy.signal.convolve2d(m, n[:2, :3], mode="valid"), jax.scipy.signal.correlate(v, w[:3], mode="valid"), jax.scipy.signal.correlate2d(m, n, mode="same"), jax.scipy.signal.detrend(x, type="constant"), jax.scipy.signal.detrend(v), jax.scipy.signal.welch(r, nperseg=8)[1], jax.scipy.signal.csd(r, r[::-1], nperseg=8)[1], jax.scipy.signal.stft(r, nperseg=6)[2], jax.scipy.signal.istft(jnp.ones((4, 5), np.complex64), nperseg=6)[1]
jax.scipy.fft.dct(x, type=2, n=5, axis=0, norm="ortho"), jax.scipy.fft.idct(v), jax.scipy.fft.dctn(m), jax.scipy.fft.idctn(m, norm="ortho"), jax.scipy.integrate.trapezoid(v), jax.scipy.ndimage.map_coordinates(m, [q * 3, q * 2], order=1, mode="reflect"), jax.scipy.ndimage.map_coordinates(m, [q * 9 - 3, q], order=0, mode="wrap", cval=1.0), jax.scipy.ndimage.map_coordinates(m, [q * 9 - 3, q], order=1, mode="mirror"), jax.scipy.interpolate.RegularGridInterpolator((jnp.arange(4.0), jnp.arange(4.0)), m)(jnp.stack([q, q * 2], 1)), jax.scipy.cluster.vq.vq(x, y)
jax.scipy.special.logsumexp(x, axis=0, b=y), jax.scipy.special.bessel_jn(abs(v), v=3), jax.scipy.special.multigammaln(abs(v) + 3, 2), jax.scipy.special.betainc(abs(v) + 1, 2, q[0]), jax.scipy.special.xlogy(s, s[::-1]), jax.scipy.special.xlog1py(s, 1), jax.scipy.special.zeta(abs(v) + 2, 2), jax.scipy.special.polygamma(2, abs(v) + 1), jax.scipy.special.kl_div(abs(v), abs(w)), jax.scipy.special.rel_entr(s, s[::-1]), jax.scipy.special.entr(s), jax.scipy.special.expn(2, abs(v)), jax.scipy.special.hyp1f1(v, w + 1, v / 3), jax.scipy.special.hyp2f1(v / 3, w / 3, 2, q[1]), jax.scipy.special.spence(abs(s)), jax.scipy.special.exp1(abs(v)), jax.scipy.special.expi(v), jax.scipy.special.bernoulli(5), jax.scipy.special.factorial(abs(v)), jax.scipy.special.poch(v, 2), jax.scipy.special.gamma(s), jax.scipy.special.gammasgn(s), jax.scipy.special.gammaln(s), jax.scipy.special.log_ndtr(s), jax.scipy.special.ndtri(q), jax.scipy.special.i0(s), jax.scipy.special.i1e(v), jax.scipy.special.logit(q), jax.scipy.special.erfinv(s), jax.scipy.special.erfcx(v) if hasattr(jax.scipy.special, "erfcx") else v, jax.scipy.special.fresnel(v), jax.scipy.special.sici(v), jax.scipy.special.wofz(v) if hasattr(jax.scipy.special, "wofz") else v, jax.scipy.special.boxcox(abs(v), 2) if hasattr(jax.scipy.special, "boxcox") else v, jax.scipy.special.dawsn(v) if hasattr(jax.scipy.special, "dawsn") else v, jax.scipy.special.owens_t(v, w) if hasattr(jax.scipy.special, "owens_t") else v, jax.scipy.special.comb(7, abs(j)) if hasattr(jax.scipy.special, "comb") else v
jax.scipy.special.sph_harm_y(jnp.array([2]), jnp.array([1]), jnp.array([0.3]), jnp.array([0.5]), n_max=3)
jax.scipy.stats.mode(x, axis=1), jax.scipy.stats.rankdata(v, method="dense"), jax.scipy.stats.rankdata(x, axis=1), jax.scipy.stats.sem(x, axis=0), jax.scipy.stats.norm.logpdf(v, w, 2), jax.scipy.stats.t.logpdf(v, 3), jax.scipy.stats.beta.logpdf(q, 2, 3), jax.scipy.stats.gamma.cdf(abs(v), 2), jax.scipy.stats.binom.logpmf(abs(j), 9, 0.3), jax.scipy.stats.nbinom.logpmf(abs(j), 4, 0.3), jax.scipy.stats.multinomial.logpmf(jnp.array([1, 2, 1]), 4, jnp.array([0.2, 0.3, 0.5])), jax.scipy.stats.dirichlet.logpdf(jnp.array([0.2, 0.3, 0.5]), jnp.array([1.0, 2, 3])), jax.scipy.stats.multivariate_normal.logpdf(v[:4], v[:4], jnp.eye(4)), jax.scipy.stats.truncnorm.logcdf(v, -2, 2), jax.scipy.stats.vonmises.pdf(v, 2), jax.scipy.stats.wrapcauchy.logpdf(abs(v), 0.3), jax.scipy.stats.gaussian_kde(v)(w), jax.scipy.stats.gaussian_kde(r, "silverman").integrate_box_1d(-1, 1), jax.scipy.stats.poisson.entropy(abs(v)) if hasattr(jax.scipy.stats.poisson, "entropy") else v, jax.scipy.stats.pareto.logpdf(abs(v) + 1, 2), jax.scipy.stats.gennorm.cdf(v, 2), jax.scipy.stats.betabinom.logpmf(abs(j), 9, 2, 3), jax.scipy.stats.gumbel_r.ppf(q), jax.scipy.stats.chi2.sf(abs(v), 3)
jax.scipy.optimize.minimize(lambda a: ((a - v.real) ** 2).sum(), v.real * 0, method="BFGS").x, jax.scipy.sparse.linalg.cg(lambda a: a * 3, v)[0], jax.scipy.sparse.linalg.gmres(lambda a: a * 2 + a[::-1], v)[0], jax.scipy.sparse.linalg.bicgstab(lambda a: a * 3, v)[0], odeint(lambda y, t: -y, v, jnp.linspace(0.0, 1.0, 3)), jax.experimental.jet.jet(jnp.sin, (v,), ((v, w),)), jax.scipy.spatial.transform.Rotation.from_euler("xyz", v[:3]).as_matrix()
jax.hessian(lambda a: (a ** 3).sum())(v[:3]), jax.jacfwd(jnp.sin)(v[:3]), jax.jacrev(jnp.cumsum)(v[:3]), jax.linearize(jnp.tanh, v)[1](w), jax.vmap(jnp.dot, (1, 1))(x, y), jax.vmap(lambda a: jnp.sort(a), out_axes=1)(x), jax.vmap(jnp.interp, (0, None, None))(v, jnp.arange(4.0), q), jax.lax.pmean(v, ()), jax.checkpoint(lambda a: jnp.sin(jnp.sin(a)))(v), jax.custom_gradient(lambda a: (a * 2, lambda g: g * 5))(v)
jax.random.permutation(k, x, axis=1), jax.random.permutation(k, v, independent=True), jax.random.choice(k, v, (3,)), jax.random.choice(k, x, (2,), axis=1, p=q / q.sum()), jax.random.categorical(k, x.real, axis=0), jax.random.categorical(k, x.real, shape=(2,), replace=False), jax.random.randint(k, (5,), -3, 100, np.int8), jax.random.bits(k, (3,), np.uint8), jax.random.multivariate_normal(k, v[:4].real, jnp.eye(4), method="cholesky"), jax.random.multinomial(k, 9, q / q.sum()), jax.random.truncated_normal(k, -1, v.real + 9), jax.random.dirichlet(k, abs(v) + 1), jax.random.beta(k, abs(v) + 1, 2.0), jax.random.poisson(k, abs(v) * 9), jax.random.binomial(k, 9, q), jax.random.gamma(k, abs(v)), jax.random.t(k, abs(v) + 1), jax.random.laplace(k, (3,), jnp.float32), jax.random.ball(k, 3, shape=(2,)), jax.random.split(k, (2, 2)), jax.random.fold_in(k, 7)
jax.experimental.sparse.BCOO.fromdense(x, nse=9) @ y.T, (jax.experimental.sparse.BCOO.fromdense(x, nse=12).T).todense(), jax.experimental.sparse.bcoo_reduce_sum(jax.experimental.sparse.BCOO.fromdense(x, nse=12), axes=(1,)).todense(), jax.experimental.sparse.bcoo_dot_general(jax.experimental.sparse.BCOO.fromdense(m, nse=16), n, dimension_numbers=(((1,), (0,)), ((), ()))), jax.experimental.sparse.BCSR.fromdense(x, nse=12) @ y.T, jax.experimental.sparse.CSR.fromdense(m, nse=16) @ v[:4], jax.experimental.sparse.COO.fromdense(m, nse=16) @ n, jax.experimental.sparse.BCOO.fromdense(t, n_batch=1, nse=12).todense(), jax.experimental.sparse.bcoo_slice(jax.experimental.sparse.BCOO.fromdense(x, nse=12), start_indices=(0, 1), limit_indices=(2, 3)).todense(), jax.experimental.sparse.bcoo_multiply_dense(jax.experimental.sparse.BCOO.fromdense(x, nse=12), y), jax.experimental.sparse.bcoo_multiply_sparse(jax.experimental.sparse.BCOO.fromdense(x, nse=12), jax.experimental.sparse.BCOO.fromdense(y, nse=12)).todense(), jax.experimental.sparse.bcoo_broadcast_in_dim(jax.experimental.sparse.BCOO.fromdense(v, nse=7), shape=(2, 7), broadcast_dimensions=(1,)).todense(), jax.experimental.sparse.bcoo_dynamic_slice(jax.experimental.sparse.BCOO.fromdense(x, nse=12), (1, 0), (2, 3)).todense(), jax.experimental.sparse.bcoo_rev(jax.experimental.sparse.BCOO.fromdense(x, nse=12), dimensions=(0,)).todense(), jax.experimental.sparse.bcoo_reshape(jax.experimental.sparse.BCOO.fromdense(x, nse=12), new_sizes=(6, 2)).todense()
"""

_INEXACT = ("t", "x", "y", "v", "w", "m", "n", "u", "o", "r")


@dataclass(frozen=True, slots=True)
class Call:
    """One call, and the names in it."""

    text: str
    code: CodeType
    names: frozenset[str]


@cache
def _calls(line: str) -> tuple[Call, ...]:
    """The calls of a line, each of its own."""
    body = ast.parse(line, mode="eval").body
    parts = body.elts if isinstance(body, ast.Tuple) else [body]
    names = [frozenset(node.id for node in ast.walk(part) if isinstance(node, ast.Name)) for part in parts]
    codes = [compile(ast.Expression(part), "<call>", "eval") for part in parts]
    return tuple(Call(*one) for one in zip(map(ast.unparse, parts), codes, names, strict=True))


def _arrays(kind: str) -> dict[str, Any]:
    from jax_families import plain, specials

    shapes = {
        "x": (3, 4), "y": (3, 4), "v": (7,), "w": (7,), "m": (4, 4), "n": (4, 4), "t": (2, 1, 3, 2, 2), "e": (0, 4),
        "u": (), "o": (1,), "r": (19,),
    }  # fmt: skip
    found = {name: np.asarray(plain(f"{kind} {name}", kind, shape)) for name, shape in shapes.items()}
    random = np.random.RandomState(zlib.crc32(kind.encode()))
    found |= {"s": specials(kind), "i": random.randint(-2, 6, (3, 4)).astype(np.int32)}
    found |= {"j": random.randint(-2, 6, 7).astype(np.int32), "b": random.rand(3, 4) > 0.5, "c": random.rand(7) > 0.5}
    return found | {"q": np.array([0.1, 0.9, 0.3, 0.7], np.float32)}


_ROOMS = {
    "jax": jax, "jnp": jnp, "lax": lax, "nn": nn, "np": np, "odeint": odeint,
}  # fmt: skip


def _flat(value: Any) -> list[Any]:
    """The leaves that are numbers, arrays or keys."""
    return [leaf for leaf in jax.tree.leaves(value) if hasattr(leaf, "dtype") or isinstance(leaf, (bool, int, float))]


def _modes(one: Call, arrays: dict[str, Any]) -> dict[str, Callable[[dict[str, Any]], Any]]:
    def call(given: dict[str, Any]) -> Any:
        return _flat(eval(one.code, {**_ROOMS, "k": jax.random.key(3), **given}))  # texts of this file

    kinds = {name: array.dtype for name, array in arrays.items()}
    smooth = [name for name in _INEXACT if name in arrays and jnp.issubdtype(kinds[name], jnp.inexact)]

    def total(part: dict[str, Any], given: dict[str, Any]) -> Any:
        whole = call({**given, **part})
        floats = [leaf for leaf in whole if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        return sum((jnp.sum(jnp.real(leaf)).astype(jnp.float32) for leaf in floats), jnp.float32(0))

    def slopes(given: dict[str, Any]) -> Any:
        return jax.grad(total)({name: given[name] for name in smooth}, given)

    def forwards(given: dict[str, Any]) -> Any:
        part = {name: given[name] for name in smooth}
        return jax.jvp(lambda part: call({**given, **part}), (part,), (part,))[1]

    def batch(given: dict[str, Any]) -> Any:
        return jax.vmap(call)({name: jnp.stack([value, jnp.flip(value)]) for name, value in given.items()})

    found = {"values": call, "batch": batch}
    return {**found, "slopes": slopes, "forwards": forwards} if smooth else found


def _run(one: Call, kind: str) -> Any:
    """All that traces, in one program; errors of what does not."""
    arrays = {name: value for name, value in _arrays(kind).items() if name in one.names}
    said: dict[str, Any] = {}
    good = {}
    for word, mode in _modes(one, arrays).items():
        try:
            jax.eval_shape(mode, arrays)
            good[word] = mode
        except Exception as error:
            said[word] = np.array([len(type(error).__name__)])
    run = jax.jit(lambda arrays: {word: mode(arrays) for word, mode in good.items()})
    return {**said, **run(arrays)}


def calls() -> Iterator[Case]:
    """Each call over types; what is not for a type raises an error on every platform."""
    from jax_families import NARROW, USUAL, kept

    lines = [line for room in (NUMPY, LAX, OTHERS) for line in room.strip().splitlines()]
    for one in [one for line in lines for one in _calls(line)]:
        for kind in kept((*USUAL, *NARROW)):
            yield f"{one.text} {kind}", lambda one=one, kind=kind: _run(one, kind)
