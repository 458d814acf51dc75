"""HLO text: the parser, the printer and the rendering of diagnostics.

In: text, modules, diagnostics.  Out: modules, text, and errors that point into the text.  May import ir.
"""
