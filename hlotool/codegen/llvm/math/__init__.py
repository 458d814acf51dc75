"""Mathematics on vectors: every elementwise opcode as LLVM IR text, for any number of lanes.

Enters: a `Function` being written, an opcode, element types and operand values.  Leaves: the name of the
result.  Nothing here knows of shapes, memory or loops; `elementwise.emit_elementwise` is the front door.
"""
