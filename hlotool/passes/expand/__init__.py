"""Passes that write one opcode in terms of others, for which there is native code.

In: a module.  Out: one without these opcodes, or without their unusual forms.
"""
