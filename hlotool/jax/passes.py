"""hlotool's passes within JAX's own compiler: XLA hands each module over, and goes on with what a pass made of it.

    from hlotool.jax import passes

    with passes.registered("algebraic-simplifier,dce"):
        jax.jit(f)(x)

A pass sees modules as XLA's passes leave them, with fusions, before instructions are scheduled or after.  What was
compiled before stays as it is, in jax's compilation cache too.  Needs jax 0.10.2 (`jax.extend.xla`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from hlotool.driver import optimise
from hlotool.ir import InputError, Module, UnsupportedError
from hlotool.ir.verifier import check
from hlotool.passes.framework.pipeline import parse_pipeline
from hlotool.passes.framework.steps import Pipeline
from hlotool.text.printer import print_module
from hlotool.text.proto import read_proto

__all__ = ["Rewrite", "register", "registered", "transformation", "unregister"]

Rewrite: TypeAlias = str | Pipeline | Callable[[Module], Module | None]
"""The text of a pipeline, a pipeline, or a function that gives a new module, or None where nothing changes."""

_STAGES = {"pre-scheduler": "PRE_SCHEDULER", "post-scheduler": "POST_SCHEDULER"}
_NAME = "hlotool"


def register(
    rewrite: Rewrite, *, name: str = _NAME, stage: str = "pre-scheduler", platforms: str | Sequence[str] = "cpu"
) -> None:
    """From now on, what XLA compiles on `platforms` goes through `rewrite`.

    Several of the same `stage` run in the order of their registration; `name` is for `unregister`.  InputError for a
    pipeline or stage that is none.  An error of the rewrite ends the compilation, and is that of the call of jax.
    """
    _extension().register_hlo_module_transformation(
        transformation(rewrite), name=name, stage=_stage(stage), platforms=platforms
    )


def unregister(name: str = _NAME, *, stage: str = "pre-scheduler", platforms: str | Sequence[str] = "cpu") -> bool:
    """End that; whether there was such a pass."""
    return bool(_extension().clear_hlo_module_transformation(name, stage=_stage(stage), platforms=platforms))


@contextmanager
def registered(
    rewrite: Rewrite, *, name: str = _NAME, stage: str = "pre-scheduler", platforms: str | Sequence[str] = "cpu"
) -> Iterator[None]:
    """`register` for what is compiled within the block."""
    register(rewrite, name=name, stage=stage, platforms=platforms)
    try:
        yield
    finally:
        unregister(name, stage=stage, platforms=platforms)


def transformation(rewrite: Rewrite) -> Callable[[bytes], bytes | None]:
    """What jax calls: from a serialised HloModuleProto to another, or None where nothing changes."""
    if isinstance(rewrite, str):
        rewrite = parse_pipeline(rewrite)
    elif not isinstance(rewrite, Pipeline) and not callable(rewrite):
        raise InputError(f"a pass for jax: expected a pipeline or a function, not a {type(rewrite).__name__}")

    def transform(data: bytes) -> bytes | None:
        module = read_proto(data, "<module of jax>")
        before = print_module(module)
        made = optimise(module, rewrite) if isinstance(rewrite, Pipeline) else rewrite(module)
        if made is None:
            return None
        check(made)
        after = print_module(made)
        return None if after == before else _proto(after)

    return transform


def _proto(text: str) -> bytes:
    """A module as XLA serialises it."""
    from jaxlib import _hlo  # no public interface: as of jaxlib 0.10

    data: bytes = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return data


def _stage(name: str) -> Any:
    if name not in _STAGES:
        raise InputError(f"a pass for jax: expected one of the stages {', '.join(_STAGES)}, not {name!r}")
    return getattr(_extension().PipelineStage, _STAGES[name])


def _extension() -> Any:
    import jax

    try:
        import jax.extend.xla
    except ImportError as error:
        raise UnsupportedError(f"passes within jax's compiler need jax 0.10.2; this is {jax.__version__}") from error
    return jax.extend.xla
