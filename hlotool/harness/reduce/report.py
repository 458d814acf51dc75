"""What is written over a reduced module: the failure, where it is from, and how to see it."""

from __future__ import annotations

import shlex

import hlotool
from hlotool.harness.failure import Trial
from hlotool.harness.reduce.reduction import Reduction
from hlotool.harness.trials import CommandTrial, PipelineTrial
from hlotool.passes.framework.pipeline import carry_pipeline, parse_pipeline

__all__ = ["see_command", "with_head"]


def with_head(reduction: Reduction, file: str, output: str = "FILE") -> str:
    """The text of the reduced module of `file` with a head of comments, the last of which carries its passes."""
    head = [
        f"hlotool {hlotool.__version__}: {reduction.failure}",
        f"{reduction.after} of {reduction.before} instructions of {file}",
        f"to see it: {see_command(reduction.trial, output)}",
    ]
    text = reduction.text
    if isinstance(reduction.trial, PipelineTrial):
        text = carry_pipeline(text, parse_pipeline(reduction.trial.pipeline))
    return "".join(f"// {' '.join(line.split())}\n" for line in head) + text


def see_command(trial: Trial, file: str) -> str:
    """A command that shows the failure of `file`, which carries the passes of `trial`."""
    name = shlex.quote(file)
    if isinstance(trial, CommandTrial):
        return trial.command.replace("{}", name) if "{}" in trial.command else f"{trial.command} < {name}"
    assert isinstance(trial, PipelineTrial)
    if trial.backend is None:
        return f"hlotool repro --no-check {name}"
    seed = f" --random {trial.seed}"
    if trial.backend == "evaluate":
        return f"hlotool repro{seed} {name}"
    passes = shlex.quote(trial.pipeline)
    backend = "" if trial.backend == "cpu" else f" --backend {shlex.quote(trial.backend)}"
    return f"hlotool run{seed} --strict --compare evaluate{backend} -p {passes} {name}"
