"""The reference evaluator: what every opcode means, in plain NumPy.

It is slow, accurate and obviously right.  `evaluate` runs a module; passes fold constants with
`evaluate_instruction`; tests compare compiled programs with it.
"""

from hlotool.evaluate.interpreter import Observer, evaluate, evaluate_computation, evaluate_instruction
from hlotool.evaluate.values import Value

__all__ = ["Observer", "Value", "evaluate", "evaluate_computation", "evaluate_instruction"]
