"""Regression checks in the files of the modules that they are about: commands to run, and what is expected of them.

In: the text of files, a function that runs commands.  Out: verdicts, and files rewritten.  May import every room but
the command line.
"""

from __future__ import annotations
