"""The choice of a configuration for an application: one or more modules that are to run on this machine.

`space` says what can be chosen, `predict` what a model expects of it, `replica` and `measure` what it does, `search`
which configurations are worth the time, `pareto` which of them nothing beats.
"""
