"""The figures that are built in, in nanoseconds (`hlotool.analysis.performance`): fitted to half of a corpus of models
by ``tests/survey_model.py --write``, on one core of a virtual machine.

/proc/cpuinfo there says "Intel(R) Xeon(R) Processor", family 6, model 167, 2.6 GHz; caches are 48 KiB and 2 MiB for
each core.  By that number LLVM calls it rocketlake; but it has avx512_fp16 and amx_tile, as servers have from Sapphire
Rapids on.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BUILT_IN"]

BUILT_IN: Mapping[str, Mapping[str, float]] = {
    "x86-64-v4": {
        "start": 16.0, "step": 6.59, "task": 4.13, "fork": 1000.0, "line": 0.067, "vector": 0.108, "division": 0.247,
        "division of integers": 0.12, "half": 0.126, "function exp": 0.221, "function log": 0.197,
        "function tanh": 0.236, "function root": 0.25, "function sine": 0.185, "function other": 0.195,
        "function f64": 0.261, "complex function": 7.42, "scalar": 0.0524, "other": 0.0507, "access": 0.0342,
        "masked": 0.204, "far access": 0.0905, "scattered load": 0.0159, "scattered store": 0.0144,
        "far load": 0.0948, "far store": 0.427, "indexed load": 0.0343, "indexed store": 0.3, "scalar access": 0.041,
        "guarded": 0.134, "combined": 0.0994, "results": 0.301, "latency": 0.183, "waiting": 0.0536, "fill": 0.00193,
        "horizontal": 0.0854, "trips": 0.0505, "iteration": 0.0922, "product": 0.544, "tile": 9.23, "tile run": 0.943,
        "tile step": 0.283, "convolution": 0.565, "scatter": 0.137, "sort": 0.812, "copy": 0.5, "complex": 0.142,
        "algorithm": 0.408, "read L1": 0.000238, "read L2": 0.00587, "read L3": 0.0288, "read memory": 0.0368,
        "write L1": 0.00248, "write L2": 0.00286, "write L3": 0.0237, "write memory": 0.00969, "update L1": 0.000516,
        "update L2": 0.00135, "update L3": 0.00245, "update memory": 0.00804, "array L2": 0.804, "array L3": 60.0,
        "array memory": 292.0, "lines L2": 0.0662, "lines L3": 0.549, "lines memory": 0.618, "code L2": 1.71,
        "code L3": 4.01, "code memory": 153.0, "code lines L2": 0.0102, "code lines L3": 0.15,
        "code lines memory": 0.231,
    },
    "x86-64-v3": {
        "start": 15.6, "step": 6.65, "task": 4.04, "fork": 1000.0, "line": 0.0507, "vector": 0.0882,
        "division": 0.342, "division of integers": 0.12, "half": 0.0919, "function exp": 0.279, "function log": 0.324,
        "function tanh": 0.222, "function root": 0.224, "function sine": 0.162, "function other": 0.185,
        "function f64": 0.258, "complex function": 5.77, "scalar": 0.0457, "other": 0.0486, "access": 0.031,
        "masked": 0.129, "far access": 0.0868, "scattered load": 0.026, "scattered store": 0.0203, "far load": 0.159,
        "far store": 0.445, "indexed load": 0.13, "indexed store": 0.3, "scalar access": 0.041, "guarded": 0.134,
        "combined": 0.119, "results": 0.284, "latency": 0.133, "waiting": 0.0494, "fill": 0.00226,
        "horizontal": 0.0396, "trips": 0.0492, "iteration": 0.113, "product": 0.646, "tile": 3.24, "tile run": 0.778,
        "tile step": 0.261, "convolution": 0.582, "scatter": 0.143, "sort": 0.771, "copy": 0.5, "complex": 0.177,
        "algorithm": 0.369, "read L1": 0.000214, "read L2": 0.00422, "read L3": 0.0279, "read memory": 0.0371,
        "write L1": 0.00292, "write L2": 0.00252, "write L3": 0.0243, "write memory": 0.00937, "update L1": 0.000525,
        "update L2": 0.00139, "update L3": 0.00224, "update memory": 0.00819, "array L2": 0.789, "array L3": 61.8,
        "array memory": 263.0, "lines L2": 0.066, "lines L3": 0.537, "lines memory": 0.588, "code L2": 1.71,
        "code L3": 4.43, "code memory": 164.0, "code lines L2": 0.00975, "code lines L3": 0.173,
        "code lines memory": 0.27,
    },
    "generic": {
        "start": 15.7, "step": 6.6, "task": 4.04, "fork": 1000.0, "line": 0.0414, "vector": 0.0681, "division": 0.457,
        "division of integers": 0.12, "half": 0.178, "function exp": 0.418, "function log": 0.389,
        "function tanh": 0.335, "function root": 0.3, "function sine": 0.244, "function other": 0.228,
        "function f64": 0.421, "complex function": 6.55, "scalar": 0.0481, "other": 0.0555, "access": 0.029,
        "masked": 0.129, "far access": 0.0887, "scattered load": 0.024, "scattered store": 0.0261, "far load": 0.186,
        "far store": 0.441, "indexed load": 0.105, "indexed store": 0.3, "scalar access": 0.05, "guarded": 0.26,
        "combined": 0.13, "results": 0.282, "latency": 0.125, "waiting": 0.0466, "fill": 0.00228,
        "horizontal": 0.0315, "trips": 0.0453, "iteration": 0.165, "product": 0.907, "tile": 2.38, "tile run": 0.704,
        "tile step": 0.4, "convolution": 0.577, "scatter": 0.118, "sort": 0.833, "copy": 0.5, "complex": 0.131,
        "algorithm": 0.453, "read L1": 0.000216, "read L2": 0.00279, "read L3": 0.0248, "read memory": 0.0401,
        "write L1": 0.00305, "write L2": 0.0032, "write L3": 0.0272, "write memory": 0.00931, "update L1": 0.000534,
        "update L2": 0.0013, "update L3": 0.00197, "update memory": 0.00735, "array L2": 0.68, "array L3": 78.4,
        "array memory": 374.0, "lines L2": 0.0564, "lines L3": 0.522, "lines memory": 0.602, "code L2": 1.56,
        "code L3": 3.96, "code memory": 211.0, "code lines L2": 0.00917, "code lines L3": 0.183,
        "code lines memory": 0.257,
    },
}
