"""Passes about the traffic between devices: fewer exchanges, none among a device alone, no asynchronous pairs.

In: a module.  Out: one with collectives that the runtime knows.
"""
