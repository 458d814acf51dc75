"""Programs of JAX, compiled by hlotool (extra ``hlotool[jax]``).

Functions of JAX, or programs that it hands to its plug-in, enter; arrays leave.  JAX is loaded when it is used.
"""
