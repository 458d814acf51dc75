"""What the ways in from other frameworks share.

Graphs of operations come in; clusters that the compiler takes, parts that fall back, and the reasons leave.
"""
