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
        "start": 16.8, "step": 5.25, "task": 4.24, "fork": 1000.0, "line": 0.0677, "vector": 0.119, "division": 0.328,
        "division of integers": 0.12, "half": 0.129, "function exp": 0.246, "function log": 0.222,
        "function tanh": 0.248, "function root": 0.276, "function sine": 0.197, "function other": 0.199,
        "function f64": 0.272, "complex function": 7.61, "scalar": 0.036, "other": 0.0358, "access": 0.0432,
        "masked": 0.116, "far access": 0.0764, "scattered load": 0.0132, "scattered store": 0.0175,
        "far load": 0.0987, "far store": 0.242, "indexed load": 0.0543, "indexed store": 0.1, "scalar access": 0.0327,
        "guarded": 0.194, "combined": 0.119, "results": 0.395, "latency": 0.191, "waiting": 0.0477, "fill": 0.00212,
        "horizontal": 0.104, "trips": 0.0356, "iteration": 0.172, "product": 0.566, "tile": 10.5, "tile run": 0.487,
        "tile step": 0.31, "convolution": 0.588, "scatter": 0.143, "sort": 0.818, "copy": 0.5, "complex": 0.152,
        "algorithm": 0.446, "read L1": 0.000137, "read L2": 0.00743, "read L3": 0.033, "read memory": 0.0423,
        "write L1": 0.00594, "write L2": 0.00628, "write L3": 0.0295, "write memory": 0.0302, "update L1": 0.000479,
        "update L2": 0.00317, "update L3": 0.00214, "update memory": 0.00907, "array": 231.0, "lines L2": 0.063,
        "lines L3": 0.337, "lines memory": 0.382,
    },
    "x86-64-v3": {
        "start": 16.3, "step": 5.28, "task": 4.16, "fork": 1000.0, "line": 0.0513, "vector": 0.101, "division": 0.372,
        "division of integers": 0.12, "half": 0.128, "function exp": 0.295, "function log": 0.335,
        "function tanh": 0.228, "function root": 0.24, "function sine": 0.167, "function other": 0.186,
        "function f64": 0.265, "complex function": 5.85, "scalar": 0.0336, "other": 0.0337, "access": 0.033,
        "masked": 0.0713, "far access": 0.0778, "scattered load": 0.0196, "scattered store": 0.0255,
        "far load": 0.182, "far store": 0.267, "indexed load": 0.188, "indexed store": 0.1, "scalar access": 0.0323,
        "guarded": 0.181, "combined": 0.129, "results": 0.362, "latency": 0.14, "waiting": 0.0426, "fill": 0.00249,
        "horizontal": 0.0484, "trips": 0.0355, "iteration": 0.191, "product": 0.647, "tile": 3.91, "tile run": 0.451,
        "tile step": 0.275, "convolution": 0.598, "scatter": 0.148, "sort": 0.776, "copy": 0.5, "complex": 0.19,
        "algorithm": 0.396, "read L1": 0.000135, "read L2": 0.00557, "read L3": 0.0347, "read memory": 0.0429,
        "write L1": 0.00741, "write L2": 0.00713, "write L3": 0.0289, "write memory": 0.03, "update L1": 0.000482,
        "update L2": 0.00336, "update L3": 0.00196, "update memory": 0.0095, "array": 228.0, "lines L2": 0.0686,
        "lines L3": 0.343, "lines memory": 0.381,
    },
    "generic": {
        "start": 16.7, "step": 5.24, "task": 4.13, "fork": 1000.0, "line": 0.0414, "vector": 0.0797,
        "division": 0.501, "division of integers": 0.12, "half": 0.141, "function exp": 0.427, "function log": 0.394,
        "function tanh": 0.334, "function root": 0.318, "function sine": 0.248, "function other": 0.229,
        "function f64": 0.426, "complex function": 6.62, "scalar": 0.0351, "other": 0.0386, "access": 0.0265,
        "masked": 0.0638, "far access": 0.0796, "scattered load": 0.0164, "scattered store": 0.0336,
        "far load": 0.198, "far store": 0.261, "indexed load": 0.233, "indexed store": 0.1, "scalar access": 0.0349,
        "guarded": 0.294, "combined": 0.136, "results": 0.34, "latency": 0.122, "waiting": 0.0439, "fill": 0.00263,
        "horizontal": 0.0357, "trips": 0.0339, "iteration": 0.197, "product": 0.938, "tile": 2.68, "tile run": 0.42,
        "tile step": 0.416, "convolution": 0.594, "scatter": 0.119, "sort": 0.838, "copy": 0.5, "complex": 0.143,
        "algorithm": 0.476, "read L1": 0.000137, "read L2": 0.00684, "read L3": 0.036, "read memory": 0.0474,
        "write L1": 0.00887, "write L2": 0.00854, "write L3": 0.031, "write memory": 0.0307, "update L1": 0.000482,
        "update L2": 0.00295, "update L3": 0.00173, "update memory": 0.00836, "array": 277.0, "lines L2": 0.0567,
        "lines L3": 0.346, "lines memory": 0.392,
    },
}
