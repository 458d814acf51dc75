"""What a module looks like and why: drawings and pages, dumps of every step of a pipeline, reports, reasons.

In: modules, decisions, buffer plans.  Out: text, Graphviz, HTML and pictures, always the same for the same input
(times aside).  ``assets`` holds what goes into pages.  May import ir, text, analysis, passes and codegen; nothing here
changes a module.
"""
