"""What passes are made with and run by: the manager, pipelines and their text, the registry, rules and rewriters.

In: a module and the text of a pipeline.  Out: the changed module.  Knows no pass but by name.
"""
