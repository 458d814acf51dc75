"""The figures that are built in, in nanoseconds (`hlotool.analysis.performance`): fitted to half of a corpus of models
by ``tests/survey_model.py --write``, on one core of a Sapphire Rapids server."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BUILT_IN"]

BUILT_IN: Mapping[str, Mapping[str, float]] = {
    "x86-64-v4": {
        "start": 20.1, "step": 16.9, "task": 5.61, "fork": 1000.0, "line": 0.0882, "vector": 0.118, "division": 0.116,
        "half": 0.141, "function exp": 0.187, "function log": 0.284, "function tanh": 0.256, "function root": 0.22,
        "function sine": 0.192, "function other": 0.3, "complex function": 0.4, "scalar": 0.326, "other": 0.172,
        "access": 0.198, "scattered load": 0.168, "scattered store": 0.244, "scalar access": 0.151, "guarded": 0.101,
        "combined": 0.14, "results": 0.975, "horizontal": 2.55, "trips": 0.23, "product": 0.536, "convolution": 0.571,
        "scatter": 0.164, "sort": 1.01, "copy": 0.5, "complex": 0.3, "algorithm": 0.587, "read L1": 0.000729,
        "read L2": 0.00617, "read L3": 0.0171, "read memory": 0.0224, "write L1": 0.0012, "write L2": 0.00351,
        "write L3": 0.0311, "write memory": 0.0374, "update L1": 0.000854, "update L2": 0.00337, "update L3": 0.0102,
        "update memory": 0.019, "array L2": 1.96, "array L3": 166.0, "array memory": 71.9, "lines L2": 0.192,
        "lines L3": 2.0, "lines memory": 3.6, "code L2": 2.48, "code L3": 9.98, "code memory": 72.3,
        "code lines L2": 0.0169, "code lines L3": 0.0575, "code lines memory": 0.107,
    },
    "x86-64-v3": {
        "start": 17.8, "step": 15.2, "task": 5.02, "fork": 1000.0, "line": 0.0782, "vector": 0.0847,
        "division": 0.0734, "half": 0.141, "function exp": 0.309, "function log": 0.394, "function tanh": 0.202,
        "function root": 0.1, "function sine": 0.159, "function other": 0.3, "complex function": 0.4, "scalar": 0.334,
        "other": 0.221, "access": 0.111, "scattered load": 0.158, "scattered store": 0.151, "scalar access": 0.144,
        "guarded": 0.121, "combined": 0.148, "results": 0.882, "horizontal": 2.69, "trips": 0.245, "product": 0.446,
        "convolution": 0.478, "scatter": 0.169, "sort": 1.03, "copy": 0.5, "complex": 0.3, "algorithm": 0.571,
        "read L1": 0.000813, "read L2": 0.00554, "read L3": 0.0271, "read memory": 0.0322, "write L1": 0.00098,
        "write L2": 0.00352, "write L3": 0.0382, "write memory": 0.0378, "update L1": 0.000904, "update L2": 0.00387,
        "update L3": 0.0102, "update memory": 0.0192, "array L2": 1.93, "array L3": 192.0, "array memory": 63.5,
        "lines L2": 0.18, "lines L3": 1.96, "lines memory": 3.61, "code L2": 2.26, "code L3": 11.8,
        "code memory": 81.1, "code lines L2": 0.0169, "code lines L3": 0.0627, "code lines memory": 0.108,
    },
    "generic": {
        "start": 17.8, "step": 15.2, "task": 5.02, "fork": 1000.0, "line": 0.0782, "vector": 0.0847,
        "division": 0.0734, "half": 0.141, "function exp": 0.309, "function log": 0.394, "function tanh": 0.202,
        "function root": 0.1, "function sine": 0.159, "function other": 0.3, "complex function": 0.4, "scalar": 0.334,
        "other": 0.221, "access": 0.111, "scattered load": 0.158, "scattered store": 0.151, "scalar access": 0.144,
        "guarded": 0.121, "combined": 0.148, "results": 0.882, "horizontal": 2.69, "trips": 0.245, "product": 0.446,
        "convolution": 0.478, "scatter": 0.169, "sort": 1.03, "copy": 0.5, "complex": 0.3, "algorithm": 0.571,
        "read L1": 0.000813, "read L2": 0.00554, "read L3": 0.0271, "read memory": 0.0322, "write L1": 0.00098,
        "write L2": 0.00352, "write L3": 0.0382, "write memory": 0.0378, "update L1": 0.000904, "update L2": 0.00387,
        "update L3": 0.0102, "update memory": 0.0192, "array L2": 1.93, "array L3": 192.0, "array memory": 63.5,
        "lines L2": 0.18, "lines L3": 1.96, "lines memory": 3.61, "code L2": 2.26, "code L3": 11.8,
        "code memory": 81.1, "code lines L2": 0.0169, "code lines L3": 0.0627, "code lines memory": 0.108,
    },
}
