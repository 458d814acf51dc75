"""Named suites of benchmark modules, and the same programs for other compilers.

Tables of shapes enter; cases leave: HLO modules with arguments, and children in which NumPy, PyTorch, ONNX Runtime,
numba, XLA and IREE compute the same.  `names.py` has the names, `tables.py` the cases; `case.py` says what a case is;
`operations` says what its steps mean, as HLO and as NumPy; `peers` says it to the others.
"""
