"""Functions of TensorFlow, compiled by hlotool (extra ``hlotool[tensorflow]``).

A ``tf.function`` enters; a function over tensors leaves.  TensorFlow is loaded when it is used.
"""
