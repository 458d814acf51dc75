"""Passes: rewrites of modules, one idea per file, and the pipelines that order them.

Imports ir, analysis and evaluate.  A pass gets a module and a decision log; nothing leaves but the changed module and
the decisions.
"""

from hlotool.analysis.decisions import Decision, DecisionLog
from hlotool.passes.manager import Fixpoint, Instrument, Pass, Pipeline, StopPipeline, run_pipeline
from hlotool.passes.pipeline import PipelineError, parse_pipeline, pipeline_text
from hlotool.passes.registry import PASSES, PIPELINES, find_pass, pass_help, pass_names, pass_options

__all__ = [
    "PASSES",
    "PIPELINES",
    "Decision",
    "DecisionLog",
    "Fixpoint",
    "Instrument",
    "Pass",
    "Pipeline",
    "PipelineError",
    "StopPipeline",
    "find_pass",
    "parse_pipeline",
    "pass_help",
    "pass_names",
    "pass_options",
    "pipeline_text",
    "run_pipeline",
]
