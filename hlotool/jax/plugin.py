"""The entry point of JAX's plug-ins (group ``jax_plugins``): ``JAX_PLATFORMS=hlotool python train.py``.

JAX imports this wherever hlotool is installed, so it looks at what was asked for and loads nothing else.
"""

from __future__ import annotations

__all__ = ["initialize"]


def initialize() -> None:
    """What JAX calls before it chooses among its backends; nothing happens unless hlotool was asked for."""
    from jax._src import config

    platforms = [name.strip() for name in (config.jax_platforms.value or "").split(",")]
    if "hlotool" in platforms:
        from hlotool.ir.collector import collector_paused, settle

        with collector_paused():  # what is loaded stays, beside all of JAX
            from hlotool.runtime.ahead import begin

            begin(_native_code, "hlotool-ahead")
            from hlotool.jax.pjrt.register import register

            register()
            settle()


def _native_code() -> None:
    """What takes LLVM a while, and Python has other files to read meanwhile."""
    from hlotool.runtime.ahead import load_llvm

    load_llvm()
    from hlotool.jax.pjrt.native import native_objects

    native_objects()
