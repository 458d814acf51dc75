"""What the steps of a case mean.  Names and arrays enter; arrays leave, or, under a trace, the instructions of HLO.

`plain.py` has the operations that say the same to NumPy and to hlotool.numpy, `numpy_only.py` and `hlo.py` those that
the two say in their own ways.
"""
