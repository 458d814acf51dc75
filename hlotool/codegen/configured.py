"""The choices that instructions carry: in their ``backend_config``, as XLA's carry what its autotuner found.

``{"hlotool": {"tile_rows": 6}}`` stands there beside what the configuration says to others.
"""

from __future__ import annotations

import json
from typing import Any

from hlotool.codegen.choices import FORMULAS, Choices, knobs
from hlotool.ir import InputError, Instruction

__all__ = ["checked", "choices_of", "configured", "unconfigured"]

_OWN = "hlotool"


def checked(values: object, where: str) -> Choices:
    """The choices that a dictionary names; InputError, which says `where`, for what is no knob or no legal value."""
    if not isinstance(values, dict):
        raise InputError(f"{where}: expected knobs by name, not {type(values).__name__}")
    for name, value in values.items():
        knob = knobs().get(name)
        if knob is None:
            raise InputError(f"{where}: unknown knob {name!r}; known: {', '.join(knobs())}")
        if isinstance(value, bool) or value not in knob.values:
            legal = ", ".join(map(str, knob.values))
            raise InputError(f"{where}: knob {name} is {value!r}; legal values are {legal} ({knob.unit})")
    return Choices(**values)


def choices_of(instruction: Instruction) -> Choices:
    """The choices that an instruction carries; InputError where they are none."""
    config = instruction.attributes.get("backend_config")
    if not isinstance(config, str) or f'"{_OWN}"' not in config:
        return FORMULAS
    found = _parsed(config)
    return checked(found[_OWN], f"{instruction.name}: backend_config") if _OWN in found else FORMULAS


def configured(instruction: Instruction, choices: Choices) -> bool:
    """Let an instruction carry these choices, beside what its configuration says to others; False where that is no
    JSON object, and stays as it is."""
    old = instruction.attributes.get("backend_config", "")
    config = _parsed(old)
    if old and not config:
        return False
    config[_OWN] = choices.given
    instruction.attributes["backend_config"] = json.dumps(config, sort_keys=True)
    return True


def unconfigured(instruction: Instruction) -> None:
    """Take the choices from an instruction."""
    config = _parsed(instruction.attributes.get("backend_config", ""))
    if config.pop(_OWN, None) is None:
        return
    if config:
        instruction.attributes["backend_config"] = json.dumps(config, sort_keys=True)
    else:
        del instruction.attributes["backend_config"]


def _parsed(config: Any) -> dict[str, Any]:
    """A configuration that is a JSON object; an empty one for any other."""
    try:
        found = json.loads(config)
    except (ValueError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
