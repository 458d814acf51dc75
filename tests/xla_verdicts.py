"""XLA's parser, verifier and printer, asked line by line: a program for a Python that has jax 0.10.2, not hlotool.

A request is a line of JSON, ``[what, text]``, and so is the answer.  ``verdict``: what XLA has against a module, empty
where it is valid; the verifier runs when XLA gets the module in place of another, of ``f32[8]`` to ``f32[8]``, so it
must be of these, too, and stop before code is made of it: by a custom call that nobody has.  ``prints``: the module by
every choice of what to print that reads back.  ``canonical``: what is equal for equal modules.
"""

from __future__ import annotations

import json
import sys
from typing import Any

NOBODY = "nobody"
"""The target of the custom call."""

_WARM = "HloModule warm\nENTRY e { p = f32[8]{0} parameter(0)\n ROOT r = f32[8]{0} negate(p) }"
_CHOICES: tuple[dict[str, bool], ...] = (
    {}, {"print_percent": False}, {"print_operand_shape": False}, {"print_program_shape": False},
    {"print_metadata": False}, {"print_backend_config": False},
    {"print_percent": False, "print_operand_shape": True, "print_program_shape": False},
)  # fmt: skip


class _Xla:
    def __init__(self) -> None:
        import jax
        import jax.extend.xla as extension
        from jaxlib import _hlo, _jax

        self.hlo, self.lists = _hlo, _jax
        self.module: bytes | None = None
        self.device = jax.local_devices(backend="cpu")[0]
        self.stable = _jax.mlir.hlo_to_stablehlo(self._read(_WARM).as_serialized_hlo_module_proto())
        extension.register_hlo_module_transformation(
            lambda _: self.module, name="verdict", stage=extension.PipelineStage.PRE_SCHEDULER, platforms="cpu"
        )

    def verdict(self, text: str) -> str:
        try:
            self.module = self._read(text).as_serialized_hlo_module_proto()
            self.device.client.compile_and_load(self.stable, self.lists.DeviceList((self.device,)))
        except Exception as error:  # of jaxlib, with nothing in common
            said = str(error)
            return "" if f"No FFI handler registered for {NOBODY}" in said else said or "refused"
        return ""

    def prints(self, text: str) -> list[str]:
        module = self._read(text)
        made: list[str] = []
        for choice in _CHOICES:
            options = self.hlo.HloPrintOptions()
            options.print_large_constants = True
            for name, value in choice.items():
                setattr(options, name, value)
            made.append(str(module.to_string(options)))
        short = self.hlo.HloPrintOptions.short_parsable()
        short.print_large_constants = True
        return [*made, str(module.to_string(short))]

    def canonical(self, text: str) -> str:
        options = self.hlo.HloPrintOptions.canonical()
        options.print_large_constants = True
        return str(self._read(text).to_string(options))

    def _read(self, text: str) -> Any:
        return self.hlo.hlo_module_from_text(text)


def _serve() -> None:
    xla = _Xla()
    for line in sys.stdin:
        what, text = json.loads(line)
        print(json.dumps(getattr(xla, what)(text)), flush=True)


if __name__ == "__main__":
    _serve()
