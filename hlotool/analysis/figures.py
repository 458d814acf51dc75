"""The figures that are built in, in nanoseconds (`hlotool.analysis.performance`): fitted to half of a corpus of models
by ``tests/survey_model.py --write``, on one core of a Sapphire Rapids server."""

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
        "start": 20.0, "step": 20.0, "task": 5.0, "fork": 1000.0, "line": 0.05, "vector": 0.2, "division": 0.2,
        "division of integers": 2.0, "half": 0.2, "function exp": 0.3, "function log": 0.3, "function tanh": 0.3,
        "function root": 0.3, "function sine": 0.3, "function other": 0.3, "function f64": 0.8,
        "complex function": 5.0, "scalar": 0.3, "other": 0.2, "access": 0.2, "far access": 0.5, "scattered load": 0.2,
        "scattered store": 0.3, "far load": 0.3, "far store": 0.5, "indexed load": 0.2, "indexed store": 0.3,
        "scalar access": 0.2, "guarded": 0.1, "combined": 0.3, "results": 1.0, "waiting": 0.5, "fill": 5.0,
        "horizontal": 3.0, "trips": 1.0, "product": 0.55, "tile": 5.0, "tile step": 0.4, "convolution": 0.55,
        "scatter": 0.4, "sort": 0.5, "copy": 0.5, "complex": 0.3, "algorithm": 0.8, "read L1": 0.001, "read L2": 0.01,
        "read L3": 0.03, "read memory": 0.06, "write L1": 0.001, "write L2": 0.01, "write L3": 0.03,
        "write memory": 0.06, "update L1": 0.001, "update L2": 0.005, "update L3": 0.01, "update memory": 0.02,
        "array L2": 3.0, "array L3": 30.0, "array memory": 300.0, "lines L2": 0.3, "lines L3": 2.0,
        "lines memory": 6.0, "code L2": 3.0, "code L3": 10.0, "code memory": 30.0, "code lines L2": 0.02,
        "code lines L3": 0.05, "code lines memory": 0.1,
    },
    "generic": {
        "start": 20.0, "step": 20.0, "task": 5.0, "fork": 1000.0, "line": 0.05, "vector": 0.2, "division": 0.2,
        "division of integers": 2.0, "half": 0.2, "function exp": 0.3, "function log": 0.3, "function tanh": 0.3,
        "function root": 0.3, "function sine": 0.3, "function other": 0.3, "function f64": 0.8,
        "complex function": 5.0, "scalar": 0.3, "other": 0.2, "access": 0.2, "far access": 0.5, "scattered load": 0.2,
        "scattered store": 0.3, "far load": 0.3, "far store": 0.5, "indexed load": 0.2, "indexed store": 0.3,
        "scalar access": 0.2, "guarded": 0.1, "combined": 0.3, "results": 1.0, "waiting": 0.5, "fill": 5.0,
        "horizontal": 3.0, "trips": 1.0, "product": 0.55, "tile": 5.0, "tile step": 0.4, "convolution": 0.55,
        "scatter": 0.4, "sort": 0.5, "copy": 0.5, "complex": 0.3, "algorithm": 0.8, "read L1": 0.001, "read L2": 0.01,
        "read L3": 0.03, "read memory": 0.06, "write L1": 0.001, "write L2": 0.01, "write L3": 0.03,
        "write memory": 0.06, "update L1": 0.001, "update L2": 0.005, "update L3": 0.01, "update memory": 0.02,
        "array L2": 3.0, "array L3": 30.0, "array memory": 300.0, "lines L2": 0.3, "lines L3": 2.0,
        "lines memory": 6.0, "code L2": 3.0, "code L3": 10.0, "code memory": 30.0, "code lines L2": 0.02,
        "code lines L3": 0.05, "code lines memory": 0.1,
    },
}
