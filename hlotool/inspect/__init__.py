"""What a module looks like: drawings, dumps of every step of a pipeline, and the page that lists them.

In: modules.  Out: text, Graphviz, HTML and pictures, always the same for the same module.  May import ir, text,
analysis and passes; nothing here changes a module.
"""
