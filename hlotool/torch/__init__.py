"""Modules and functions of PyTorch, compiled by hlotool (extra ``hlotool[torch]``).

Graphs of ATen operations enter; functions over tensors leave.  PyTorch is loaded when it is used.
"""
