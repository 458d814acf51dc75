"""Packages to begin with: what `hlotool new-pass` writes, for each thing that another package can add to hlotool.

In: a name and a kind.  Out: a folder with sources, tests and an entry point, which pip installs and pytest accepts as
it is.  The texts are in `templates`: those in `all`, and those of the kind.
"""
