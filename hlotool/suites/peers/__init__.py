"""The same programs elsewhere: NumPy, numba, PyTorch, ONNX Runtime and IREE, each in a child process.

Cases enter as JSON, arrays as files; seconds and results leave.  `child.py` is the program of the child, which may run
under another Python that has no hlotool; a file ``*_peer.py`` says how each makes a function of a case.
"""
