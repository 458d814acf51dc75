"""Passes about where values lie and when they are made: layouts, transposes in products, copies, the schedule.

In: a module.  Out: one that says how its arrays lie, and computes in the order that takes little memory.
"""
