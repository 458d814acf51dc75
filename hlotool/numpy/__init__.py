"""An array namespace that is traced to HLO: NumPy's functions, compiled.

Arrays and Python functions enter; modules, and the arrays that their executables give, leave.
"""
