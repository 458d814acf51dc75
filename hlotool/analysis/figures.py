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
        "start": 21.0, "step": 8.46, "task": 4.68, "fork": 1000.0, "line": 0.0936, "vector": 0.126, "division": 0.128,
        "division of integers": 0.106, "half": 0.14, "function exp": 0.273, "function log": 0.355,
        "function tanh": 0.218, "function root": 0.0782, "function sine": 0.152, "function other": 0.3,
        "function f64": 0.8, "complex function": 5.0, "scalar": 0.431, "other": 0.215, "access": 0.0953,
        "far access": 0.492, "scattered load": 0.0766, "scattered store": 0.0253, "far load": 0.276,
        "far store": 0.543, "indexed load": 0.0298, "indexed store": 0.3, "scalar access": 0.0797, "guarded": 0.148,
        "combined": 0.093, "results": 0.604, "waiting": 0.343, "fill": 3.26, "horizontal": 0.109, "trips": 0.0857,
        "product": 0.722, "tile": 6.35, "tile step": 0.359, "convolution": 0.566, "scatter": 0.138, "sort": 1.24,
        "copy": 0.5, "complex": 0.3, "algorithm": 0.533, "read L1": 0.000709, "read L2": 0.00905, "read L3": 0.036,
        "read memory": 0.0243, "write L1": 0.00834, "write L2": 0.00435, "write L3": 0.0239, "write memory": 0.0141,
        "update L1": 0.00067, "update L2": 0.00178, "update L3": 0.01, "update memory": 0.016, "array L2": 1.25,
        "array L3": 147.0, "array memory": 82.0, "lines L2": 0.119, "lines L3": 1.67, "lines memory": 1.51,
        "code L2": 2.05, "code L3": 3.79, "code memory": 286.0, "code lines L2": 0.0166, "code lines L3": 0.689,
        "code lines memory": 0.109,
    },
    "x86-64-v3": {
        "start": 19.1, "step": 8.33, "task": 4.56, "fork": 1000.0, "line": 0.0705, "vector": 0.0899,
        "division": 0.083, "division of integers": 0.101, "half": 0.15, "function exp": 0.386, "function log": 0.44,
        "function tanh": 0.205, "function root": 0.0551, "function sine": 0.15, "function other": 0.3,
        "function f64": 0.8, "complex function": 5.0, "scalar": 0.409, "other": 0.29, "access": 0.0788,
        "far access": 0.413, "scattered load": 0.13, "scattered store": 0.0274, "far load": 0.146, "far store": 0.541,
        "indexed load": 0.0454, "indexed store": 0.3, "scalar access": 0.0795, "guarded": 0.141, "combined": 0.124,
        "results": 0.637, "waiting": 0.303, "fill": 3.56, "horizontal": 0.0777, "trips": 0.0887, "product": 0.803,
        "tile": 4.03, "tile step": 0.274, "convolution": 0.461, "scatter": 0.146, "sort": 1.28, "copy": 0.5,
        "complex": 0.3, "algorithm": 0.489, "read L1": 0.000697, "read L2": 0.00657, "read L3": 0.0378,
        "read memory": 0.0256, "write L1": 0.00804, "write L2": 0.00405, "write L3": 0.0284, "write memory": 0.0143,
        "update L1": 0.00069, "update L2": 0.00184, "update L3": 0.0102, "update memory": 0.0161, "array L2": 1.21,
        "array L3": 165.0, "array memory": 86.8, "lines L2": 0.113, "lines L3": 1.79, "lines memory": 1.58,
        "code L2": 2.04, "code L3": 3.84, "code memory": 359.0, "code lines L2": 0.0164, "code lines L3": 1.0,
        "code lines memory": 0.11,
    },
    "generic": {
        "start": 17.0, "step": 8.5, "task": 4.56, "fork": 1000.0, "line": 0.0663, "vector": 0.078, "division": 0.0516,
        "division of integers": 0.108, "half": 0.21, "function exp": 0.435, "function log": 0.465,
        "function tanh": 0.243, "function root": 0.0385, "function sine": 0.186, "function other": 0.3,
        "function f64": 0.8, "complex function": 5.0, "scalar": 0.463, "other": 0.298, "access": 0.0694,
        "far access": 0.346, "scattered load": 0.108, "scattered store": 0.0246, "far load": 0.161,
        "far store": 0.541, "indexed load": 0.0368, "indexed store": 0.3, "scalar access": 0.0813, "guarded": 0.161,
        "combined": 0.121, "results": 0.706, "waiting": 0.325, "fill": 3.17, "horizontal": 0.0728, "trips": 0.0853,
        "product": 0.931, "tile": 3.44, "tile step": 0.415, "convolution": 0.655, "scatter": 0.138, "sort": 1.26,
        "copy": 0.5, "complex": 0.3, "algorithm": 0.567, "read L1": 0.000678, "read L2": 0.00715, "read L3": 0.0425,
        "read memory": 0.0251, "write L1": 0.00676, "write L2": 0.00369, "write L3": 0.0281, "write memory": 0.0131,
        "update L1": 0.000697, "update L2": 0.00185, "update L3": 0.0101, "update memory": 0.016, "array L2": 1.15,
        "array L3": 200.0, "array memory": 81.2, "lines L2": 0.109, "lines L3": 1.74, "lines memory": 1.54,
        "code L2": 2.0, "code L3": 3.95, "code memory": 289.0, "code lines L2": 0.0162, "code lines L3": 0.788,
        "code lines memory": 0.11,
    },
}
