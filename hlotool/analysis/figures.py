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
        "start": 16.0, "step": 6.14, "task": 4.02, "fork": 1000.0, "line": 0.0696, "vector": 0.108, "division": 0.249,
        "division of integers": 0.12, "half": 0.125, "function exp": 0.22, "function log": 0.196,
        "function tanh": 0.235, "function root": 0.249, "function sine": 0.185, "function other": 0.195,
        "function f64": 0.26, "complex function": 7.42, "scalar": 0.0484, "other": 0.0435, "access": 0.036,
        "masked": 0.181, "far access": 0.0712, "scattered load": 0.0157, "scattered store": 0.0147,
        "far load": 0.0947, "far store": 0.424, "indexed load": 0.0364, "indexed store": 0.3, "scalar access": 0.036,
        "guarded": 0.139, "combined": 0.101, "results": 0.284, "latency": 0.182, "waiting": 0.0516, "fill": 0.00185,
        "horizontal": 0.0866, "trips": 0.0419, "iteration": 0.0991, "product": 0.543, "tile": 9.55, "tile run": 0.707,
        "tile step": 0.283, "convolution": 0.565, "scatter": 0.137, "sort": 0.812, "copy": 0.5, "complex": 0.134,
        "algorithm": 0.408, "read L1": 0.000175, "read L2": 0.00583, "read L3": 0.029, "read memory": 0.0373,
        "write L1": 0.00241, "write L2": 0.00293, "write L3": 0.0234, "write memory": 0.00843, "update L1": 0.000481,
        "update L2": 0.00123, "update L3": 0.00177, "update memory": 0.00644, "array L2": 0.698, "array L3": 60.7,
        "array memory": 284.0, "lines L2": 0.0554, "lines L3": 0.412, "lines memory": 0.465, "code L2": 1.7,
        "code L3": 4.3, "code memory": 138.0, "code lines L2": 0.00866, "code lines L3": 0.145,
        "code lines memory": 0.522,
    },
    "x86-64-v3": {
        "start": 15.6, "step": 6.2, "task": 3.95, "fork": 1000.0, "line": 0.0527, "vector": 0.0883, "division": 0.341,
        "division of integers": 0.12, "half": 0.0913, "function exp": 0.278, "function log": 0.324,
        "function tanh": 0.221, "function root": 0.225, "function sine": 0.162, "function other": 0.185,
        "function f64": 0.257, "complex function": 5.76, "scalar": 0.043, "other": 0.043, "access": 0.0322,
        "masked": 0.111, "far access": 0.0702, "scattered load": 0.0256, "scattered store": 0.0208, "far load": 0.159,
        "far store": 0.432, "indexed load": 0.14, "indexed store": 0.3, "scalar access": 0.0363, "guarded": 0.138,
        "combined": 0.12, "results": 0.271, "latency": 0.132, "waiting": 0.0478, "fill": 0.00216,
        "horizontal": 0.0402, "trips": 0.041, "iteration": 0.121, "product": 0.646, "tile": 3.38, "tile run": 0.615,
        "tile step": 0.261, "convolution": 0.583, "scatter": 0.143, "sort": 0.771, "copy": 0.5, "complex": 0.168,
        "algorithm": 0.37, "read L1": 0.000161, "read L2": 0.00418, "read L3": 0.028, "read memory": 0.0379,
        "write L1": 0.00285, "write L2": 0.00257, "write L3": 0.024, "write memory": 0.00823, "update L1": 0.000487,
        "update L2": 0.00126, "update L3": 0.00165, "update memory": 0.00654, "array L2": 0.69, "array L3": 63.6,
        "array memory": 244.0, "lines L2": 0.0554, "lines L3": 0.407, "lines memory": 0.449, "code L2": 1.7,
        "code L3": 4.78, "code memory": 150.0, "code lines L2": 0.00833, "code lines L3": 0.168,
        "code lines memory": 0.78,
    },
    "generic": {
        "start": 15.7, "step": 6.18, "task": 3.95, "fork": 1000.0, "line": 0.043, "vector": 0.0682, "division": 0.456,
        "division of integers": 0.12, "half": 0.178, "function exp": 0.417, "function log": 0.389,
        "function tanh": 0.333, "function root": 0.301, "function sine": 0.244, "function other": 0.228,
        "function f64": 0.421, "complex function": 6.55, "scalar": 0.0458, "other": 0.0498, "access": 0.0293,
        "masked": 0.114, "far access": 0.0748, "scattered load": 0.0236, "scattered store": 0.0269, "far load": 0.184,
        "far store": 0.43, "indexed load": 0.135, "indexed store": 0.3, "scalar access": 0.0435, "guarded": 0.265,
        "combined": 0.131, "results": 0.274, "latency": 0.124, "waiting": 0.0453, "fill": 0.00217,
        "horizontal": 0.0319, "trips": 0.0382, "iteration": 0.173, "product": 0.906, "tile": 2.46, "tile run": 0.567,
        "tile step": 0.4, "convolution": 0.579, "scatter": 0.118, "sort": 0.833, "copy": 0.5, "complex": 0.127,
        "algorithm": 0.454, "read L1": 0.000162, "read L2": 0.00275, "read L3": 0.025, "read memory": 0.0409,
        "write L1": 0.00299, "write L2": 0.00324, "write L3": 0.0269, "write memory": 0.00821, "update L1": 0.000496,
        "update L2": 0.00119, "update L3": 0.0015, "update memory": 0.00599, "array L2": 0.604, "array L3": 81.7,
        "array memory": 355.0, "lines L2": 0.0484, "lines L3": 0.398, "lines memory": 0.458, "code L2": 1.56,
        "code L3": 4.24, "code memory": 195.0, "code lines L2": 0.00791, "code lines L3": 0.178,
        "code lines memory": 0.668,
    },
}
