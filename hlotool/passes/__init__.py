"""Passes: rewrites of modules, one idea per file, and the pipelines that order them.

Imports ir, analysis and evaluate.  A pass gets a module and a decision log; nothing leaves but the changed module and
the decisions.
"""

from hlotool.analysis.decisions import Decision, DecisionLog
from hlotool.passes.framework.manager import Instrument, StopPipeline, run_pipeline
from hlotool.passes.framework.pipeline import PipelineError, parse_pipeline
from hlotool.passes.framework.registry import PASSES, PIPELINES, find_pass, pass_help, pass_names, pass_options
from hlotool.passes.framework.steps import Fixpoint, Pass, Pipeline, pipeline_text

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
