"""The figures that are built in, in nanoseconds (`hlotool.analysis.performance`): fitted to half of a corpus of models
by ``tests/survey_model.py --write``, on one core of a virtual machine.

What processor that is stays its owner's secret: /proc/cpuinfo says "Intel(R) Xeon(R) Processor" of family 6, model 167,
at 2.6 GHz, with 48 KiB and 2 MiB of caches for each core.  By that number LLVM takes it for a Rocket Lake; but it has
avx512_fp16 and amx_tile, which servers have from Sapphire Rapids on."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BUILT_IN"]

BUILT_IN: Mapping[str, Mapping[str, float]] = {
    "x86-64-v4": {
        "start": 19.8, "step": 10.9, "task": 46.6, "fork": 1000.0, "line": 0.0921, "vector": 0.124, "division": 0.252,
        "division of integers": 0.222, "half": 0.149, "function exp": 0.23, "function log": 0.301,
        "function tanh": 0.26, "function root": 0.169, "function sine": 0.0921, "function other": 0.3,
        "function f64": 0.8, "complex function": 5.0, "scalar": 0.431, "other": 0.147, "access": 0.0991,
        "far access": 0.653, "scattered load": 0.0238, "scattered store": 0.0336, "far load": 0.316,
        "far store": 0.531, "indexed load": 0.0327, "indexed store": 0.3, "scalar access": 0.0959, "guarded": 0.155,
        "combined": 0.13, "results": 0.552, "waiting": 0.421, "fill": 3.89, "horizontal": 0.931, "trips": 0.147,
        "product": 0.64, "tile": 12.3, "tile step": 0.148, "convolution": 0.545, "scatter": 0.151, "sort": 1.14,
        "copy": 0.5, "complex": 0.3, "algorithm": 0.499, "read L1": 0.000537, "read L2": 0.00668, "read L3": 0.0366,
        "read memory": 0.0273, "write L1": 0.00562, "write L2": 0.00531, "write L3": 0.024, "write memory": 0.0177,
        "update L1": 0.000701, "update L2": 0.00226, "update L3": 0.0102, "update memory": 0.0169, "array L2": 1.65,
        "array L3": 169.0, "array memory": 143.0, "lines L2": 0.161, "lines L3": 2.53, "lines memory": 2.19,
        "code L2": 2.4, "code L3": 5.0, "code memory": 227.0, "code lines L2": 0.0181, "code lines L3": 0.555,
        "code lines memory": 0.108,
    },
    "x86-64-v3": {
        "start": 18.2, "step": 8.99, "task": 5.9, "fork": 1000.0, "line": 0.066, "vector": 0.0843, "division": 0.0848,
        "division of integers": 0.168, "half": 0.158, "function exp": 0.366, "function log": 0.467,
        "function tanh": 0.185, "function root": 0.0626, "function sine": 0.0578, "function other": 0.3,
        "function f64": 0.8, "complex function": 5.0, "scalar": 0.352, "other": 0.301, "access": 0.0807,
        "far access": 0.368, "scattered load": 0.0637, "scattered store": 0.0694, "far load": 0.127, "far store": 0.5,
        "indexed load": 0.188, "indexed store": 0.3, "scalar access": 0.0962, "guarded": 0.102, "combined": 0.161,
        "results": 0.541, "waiting": 0.353, "fill": 7.27, "horizontal": 0.994, "trips": 0.171, "product": 0.699,
        "tile": 4.69, "tile step": 0.126, "convolution": 0.466, "scatter": 0.162, "sort": 1.2, "copy": 0.5,
        "complex": 0.3, "algorithm": 0.528, "read L1": 0.000549, "read L2": 0.00478, "read L3": 0.0377,
        "read memory": 0.0332, "write L1": 0.00468, "write L2": 0.00517, "write L3": 0.0301, "write memory": 0.0224,
        "update L1": 0.000928, "update L2": 0.00287, "update L3": 0.0116, "update memory": 0.0178, "array L2": 2.12,
        "array L3": 208.0, "array memory": 138.0, "lines L2": 0.137, "lines L3": 2.32, "lines memory": 2.77,
        "code L2": 2.2, "code L3": 4.01, "code memory": 301.0, "code lines L2": 0.0167, "code lines L3": 0.864,
        "code lines memory": 0.105,
    },
    "generic": {
        "start": 16.4, "step": 10.3, "task": 4.52, "fork": 1000.0, "line": 0.0691, "vector": 0.0669,
        "division": 0.0267, "division of integers": 0.148, "half": 0.26, "function exp": 0.448, "function log": 0.51,
        "function tanh": 0.331, "function root": 0.0266, "function sine": 0.0455, "function other": 0.3,
        "function f64": 0.8, "complex function": 5.0, "scalar": 0.448, "other": 0.294, "access": 0.0675,
        "far access": 0.246, "scattered load": 0.0728, "scattered store": 0.0522, "far load": 0.156, "far store": 0.5,
        "indexed load": 0.584, "indexed store": 0.3, "scalar access": 0.162, "guarded": 0.163, "combined": 0.142,
        "results": 0.816, "waiting": 0.35, "fill": 3.52, "horizontal": 0.951, "trips": 0.153, "product": 0.787,
        "tile": 2.74, "tile step": 0.205, "convolution": 0.668, "scatter": 0.151, "sort": 1.18, "copy": 0.5,
        "complex": 0.3, "algorithm": 0.616, "read L1": 0.000579, "read L2": 0.00417, "read L3": 0.0491,
        "read memory": 0.0432, "write L1": 0.00211, "write L2": 0.00519, "write L3": 0.0316, "write memory": 0.0157,
        "update L1": 0.00117, "update L2": 0.00324, "update L3": 0.00941, "update memory": 0.0173, "array L2": 1.62,
        "array L3": 280.0, "array memory": 103.0, "lines L2": 0.114, "lines L3": 2.03, "lines memory": 2.25,
        "code L2": 2.14, "code L3": 8.93, "code memory": 232.0, "code lines L2": 0.0145, "code lines L3": 0.445,
        "code lines memory": 0.108,
    },
}
