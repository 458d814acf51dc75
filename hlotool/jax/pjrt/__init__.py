"""A plug-in of JAX by PJRT's C interface, whose table of functions lies in this process's memory.

`interface` knows the structures, `native` the functions that are native code, `objects` what they work on, `table` puts
both kinds of functions together; `client`, `executables`, `buffers` answer the calls that are rare.
"""
