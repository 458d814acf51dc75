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
        "start": 16.8, "step": 5.42, "task": 4.13, "fork": 1000.0, "line": 0.0703, "vector": 0.118, "division": 0.326,
        "division of integers": 0.12, "half": 0.129, "function exp": 0.246, "function log": 0.222,
        "function tanh": 0.248, "function root": 0.274, "function sine": 0.196, "function other": 0.199,
        "function f64": 0.272, "complex function": 7.6, "scalar": 0.0375, "other": 0.0379, "access": 0.0435,
        "masked": 0.126, "far access": 0.0756, "scattered load": 0.0138, "scattered store": 0.0169,
        "far load": 0.0985, "far store": 0.245, "indexed load": 0.0542, "indexed store": 0.1, "scalar access": 0.0341,
        "guarded": 0.189, "combined": 0.118, "results": 0.38, "latency": 0.185, "waiting": 0.0483, "fill": 0.0022,
        "horizontal": 0.103, "trips": 0.0367, "iteration": 0.166, "product": 0.568, "tile": 9.74, "tile run": 0.526,
        "tile step": 0.31, "convolution": 0.588, "scatter": 0.142, "sort": 0.818, "copy": 0.5, "complex": 0.148,
        "algorithm": 0.446, "read L1": 0.000143, "read L2": 0.00811, "read L3": 0.0334, "read memory": 0.0413,
        "write L1": 0.00542, "write L2": 0.00601, "write L3": 0.029, "write memory": 0.033, "update L1": 0.00048,
        "update L2": 0.00309, "update L3": 0.0028, "update memory": 0.0115, "array": 242.0, "lines L2": 0.0597,
        "lines L3": 0.359, "lines memory": 0.4,
    },
    "x86-64-v3": {
        "start": 16.4, "step": 5.46, "task": 4.06, "fork": 1000.0, "line": 0.0529, "vector": 0.101, "division": 0.372,
        "division of integers": 0.12, "half": 0.128, "function exp": 0.295, "function log": 0.335,
        "function tanh": 0.228, "function root": 0.239, "function sine": 0.167, "function other": 0.186,
        "function f64": 0.265, "complex function": 5.85, "scalar": 0.0348, "other": 0.0358, "access": 0.0322,
        "masked": 0.0756, "far access": 0.0783, "scattered load": 0.0202, "scattered store": 0.0247,
        "far load": 0.181, "far store": 0.286, "indexed load": 0.188, "indexed store": 0.1, "scalar access": 0.0339,
        "guarded": 0.179, "combined": 0.129, "results": 0.349, "latency": 0.136, "waiting": 0.0431, "fill": 0.00264,
        "horizontal": 0.0464, "trips": 0.0365, "iteration": 0.185, "product": 0.651, "tile": 3.74, "tile run": 0.484,
        "tile step": 0.274, "convolution": 0.597, "scatter": 0.147, "sort": 0.776, "copy": 0.5, "complex": 0.186,
        "algorithm": 0.395, "read L1": 0.000142, "read L2": 0.00653, "read L3": 0.0349, "read memory": 0.0425,
        "write L1": 0.00677, "write L2": 0.0067, "write L3": 0.0287, "write memory": 0.0328, "update L1": 0.000483,
        "update L2": 0.00322, "update L3": 0.00248, "update memory": 0.0117, "array": 227.0, "lines L2": 0.064,
        "lines L3": 0.361, "lines memory": 0.395,
    },
    "generic": {
        "start": 16.7, "step": 5.41, "task": 4.03, "fork": 1000.0, "line": 0.0424, "vector": 0.08, "division": 0.5,
        "division of integers": 0.12, "half": 0.141, "function exp": 0.427, "function log": 0.394,
        "function tanh": 0.334, "function root": 0.316, "function sine": 0.248, "function other": 0.229,
        "function f64": 0.426, "complex function": 6.61, "scalar": 0.0363, "other": 0.0406, "access": 0.0269,
        "masked": 0.0664, "far access": 0.0793, "scattered load": 0.0171, "scattered store": 0.0323,
        "far load": 0.199, "far store": 0.276, "indexed load": 0.232, "indexed store": 0.1, "scalar access": 0.0364,
        "guarded": 0.292, "combined": 0.136, "results": 0.33, "latency": 0.119, "waiting": 0.0441, "fill": 0.0028,
        "horizontal": 0.0349, "trips": 0.0349, "iteration": 0.194, "product": 0.94, "tile": 2.6, "tile run": 0.449,
        "tile step": 0.415, "convolution": 0.593, "scatter": 0.119, "sort": 0.838, "copy": 0.5, "complex": 0.142,
        "algorithm": 0.476, "read L1": 0.000143, "read L2": 0.00686, "read L3": 0.0358, "read memory": 0.0463,
        "write L1": 0.00794, "write L2": 0.00841, "write L3": 0.0311, "write memory": 0.0329, "update L1": 0.000484,
        "update L2": 0.00293, "update L3": 0.00215, "update memory": 0.0101, "array": 275.0, "lines L2": 0.0542,
        "lines L3": 0.363, "lines memory": 0.407,
    },
}
