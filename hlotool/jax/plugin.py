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
            from hlotool.runtime.ahead import begin, load_llvm

            llvm = begin(load_llvm, "hlotool-llvm")
            import hlotool.jax.pjrt.native
            from hlotool.runtime.cache import default_cache

            cache = default_cache()
            compiles = cache is None or cache.is_empty()
            # The files of llvmlite come first, so that LLVM is at work, without the interpreter, while others are read.
            llvm.join()
            begin(_native_code, "hlotool-ahead")
            from hlotool.jax.pjrt.register import register

            if compiles:  # the first program has to be; else it may be in the cache, and none of this is needed
                import hlotool.jax.pjrt.compiling  # noqa: F401

            register()
            settle()


def _native_code() -> None:
    """What LLVM takes a while for."""
    from hlotool.jax.pjrt.native import native_objects
    from hlotool.runtime.memory import allocator

    native_objects()
    allocator()
