"""What the emitters know about the processor: vector width, caches, cores."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache
from typing import Any

from hlotool.codegen.choices import FORMULAS, Choices
from hlotool.codegen.instruction_sets import AVX512, InstructionSet, instruction_set, vector_bits_of
from hlotool.lazy_dataclass import dataclass
from hlotool.system import cache_bytes, may_use_tiles, processors, system

__all__ = [
    "LINE", "NAMES", "WASM", "Machine", "Numerics", "default_machine", "host", "named", "of_triple", "runs_here",
    "to_link", "without_tiles",
]  # fmt: skip


LINE = 64
"""Bytes of a line of the caches."""

WASM = "wasm32-unknown-unknown"
"""The triple of WebAssembly."""


@dataclass(frozen=True, slots=True)
class Numerics:
    """How exactly a program computes, where users may choose.

    With `excess_precision` the results of elementwise operations on f16 and bf16 keep the precision of f32 until they
    are stored; without, each is rounded to its type.  With `flush_denormals` arithmetic on f32, f64 and bf16 takes
    subnormal numbers for zeros and gives zeros for them.
    """

    excess_precision: bool = False
    flush_denormals: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """A target processor, and how to compute on it.  Widths in bits, caches in bytes (per core for L1 and L2).

    Code that is `portable` keeps to what LLVM has for every processor; code that `asks` may call the runtime to learn
    whether to go on; code without `masks` reads and writes no single lanes of vectors, even if the processor could:
    LLVM keeps nothing in registers that is accessed so.  `choices` are those of the kernel that is being written.
    """

    triple: str
    cpu: str
    features: str
    vector_bits: int
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    cores: int = 1
    numerics: Numerics = Numerics()
    portable: bool = False
    asks: bool = True
    masks: bool = True
    choices: Choices = FORMULAS

    @property
    def architecture(self) -> str:
        """Whose instructions code may ask for by name: ``x86_64``, ``aarch64``, or none."""
        name = self.triple.partition("-")[0]
        return "" if self.portable else _ARCHITECTURES.get(name, "")

    @property
    def is_wasm(self) -> bool:
        """Whether it is WebAssembly: addresses of 32 bits, one thread, and instructions that engines check at load."""
        return self.triple.startswith("wasm32")

    @property
    def is_gpu(self) -> bool:
        """Whether it is a graphics processor: thousands of tasks at once, each in a thread that is slow on its own."""
        return self.architecture in _GRAPHICS

    @property
    def is_big_endian(self) -> bool:
        """Whether numbers lie in memory with their high bytes first."""
        return self.triple.partition("-")[0] in _BIG_ENDIAN

    @property
    def vscale(self) -> int:
        """LLVM's vscale: code is for scalable vectors (SVE) of `vscale` times 128 bits; 0 if it is for none."""
        wide = self.architecture == "aarch64" and self.has("sve") and self.vector_bits > 128
        return self.vector_bits // 128 if wide else 0

    def lanes(self, bits: int) -> int:
        """Elements of `bits` bits in one vector register."""
        return max(1, self.vector_bits // bits)

    @property
    def instructions(self) -> InstructionSet:
        """Its vector instructions."""
        return instruction_set(self.architecture, self.vector_bits, self.masks)

    @property
    def _has_avx512(self) -> bool:
        return instruction_set(self.architecture, self.vector_bits) is AVX512

    @property
    def registers(self) -> int:
        """Vector registers that a micro-kernel may plan with."""
        return self.instructions.registers

    @property
    def has_tiles(self) -> bool:
        """Whether there are registers for tiles of bf16 pairs, and this process may use them."""
        return self._has_avx512 and self.has("amx-bf16")

    @property
    def has_byte_tiles(self) -> bool:
        """Whether there are registers for tiles of bytes, and this process may use them."""
        return self._has_avx512 and self.has("amx-int8")

    @property
    def has_dot_bytes(self) -> bool:
        """Whether vectors have dot products of four bytes, unsigned by signed."""
        if self.architecture != "x86_64":
            return False
        wide = self.has("avx512vnni") and (self._has_avx512 or self.has("avx512vl"))
        return wide or (self.has("avxvnni") and not self._has_avx512)

    @property
    def has_bf16_pairs(self) -> bool:
        """Whether dot products of bf16 pairs are fast.

        Processors with AMX have the instruction, but it takes about as long as four multiply-adds there (measured on
        Sapphire Rapids), which makes pairs slower than converting to f32.
        """
        return self._has_avx512 and self.has("avx512bf16") and not self.has("amx-tile")

    def has(self, feature: str) -> bool:
        """Whether LLVM is told that the processor has a feature."""
        return f"+{feature}" in self.features.split(",")


def host() -> Machine:
    """The processor this process runs on, with as many cores as it may use now."""
    cores = processors()
    machine = _processor()
    # A virtual machine shows the cache of the whole chip, which others use as well.
    return replace(machine, cores=cores, l3=min(machine.l3, cores * _L3_PER_CORE))


def default_machine() -> Machine:
    """What to compile for where nobody names a machine: the one that ``HLOTOOL_CPU`` names, else this one.

    ValueError where the variable names none.
    """
    text = os.environ.get("HLOTOOL_CPU", "").strip()
    if not text:
        return host()
    try:
        return named(text)
    except ValueError as error:
        raise ValueError(f"HLOTOOL_CPU={text!r}: {error}") from None


@cache
def _processor() -> Machine:
    from llvmlite import binding

    try:
        found = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot ask this processor: what its name says has to do
        found = binding.targets.FeatureMap()
    if any(found.get(name) for name in _TILES) and not may_use_tiles():
        found.update(dict.fromkeys(_TILES, False))
    machine = Machine(
        triple=binding.get_process_triple() + system().suffix,
        cpu=binding.get_host_cpu_name(),
        features=found.flatten(),
        vector_bits=vector_bits_of(frozenset(name for name, on in found.items() if on)),
    )
    caches: dict[str, Any] = cache_bytes()
    return replace(machine, **caches)


def named(text: str) -> Machine:
    """The machine that ``--cpu`` or ``HLOTOOL_CPU`` describes; ValueError where the text does not.

    A name may be followed by properties that differ from the host's: ``x86-64-v3,l2=512K,cores=4``.  Machines by name
    are without tile registers, which the process that links the code would have to ask its system for.  ``generic`` is
    any processor that LLVM knows: ``generic,triple=riscv64-unknown-linux-gnu``, this one's where no triple is given.
    ``wasm32`` and ``wasm32-simd128`` are WebAssembly without and with vectors.
    """
    name, *changes = text.split(",")
    mine = host()
    if name == "host":
        machine = without_tiles(mine)
    elif name in _LEVELS:
        machine = replace(mine, triple=_own("x86_64", mine), cpu=name, features="", vector_bits=_LEVELS[name])
    elif name == "aarch64":
        triple = _own("aarch64", mine)
        machine = replace(mine, triple=triple, cpu="generic", features="+neon", vector_bits=128)
    elif name in _SVE:
        triple = _own("aarch64", mine)
        machine = replace(mine, triple=triple, cpu=name, features="+neon,+sve", vector_bits=_SVE[name])
    elif name in _RISCV:
        machine = replace(
            mine, triple="riscv64-unknown-linux-gnu", cpu="generic-rv64", features=_RISCV[name], vector_bits=128,
            portable=True,
        )  # fmt: skip
    elif name in _WASM:
        machine = Machine(triple=WASM, cpu="mvp", features=_WASM[name], vector_bits=128, portable=True)
    elif name == "generic":
        triple, changes = _triple(changes, mine.triple)
        features = _GENERIC_FEATURES.get(triple.partition("-")[0], "")
        machine = replace(mine, triple=triple, cpu=name, features=features, vector_bits=128, portable=True)
    else:
        raise ValueError(f"unknown cpu {name!r}; known: {', '.join(NAMES)}")
    values: dict[str, Any] = {}
    for change in changes:
        key, _, value = change.partition("=")
        number = re.fullmatch(r"([1-9][0-9]{0,9})([KMG]?)", value)
        if key not in ("l1", "l2", "l3", "cores") or number is None or (key == "cores" and number[2]):
            raise ValueError(f"{change!r}: expected l1, l2, l3 or cores = a number of bytes (K, M, G) or of cores")
        values[key] = int(number[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[number[2]]
    return replace(machine, **values)


def of_triple(triple: str, name: str | None = None) -> Machine:
    """The machine called `name`, or the plainest one, on the system with this triple; ValueError where there is none.
    """
    architecture = _family(triple)
    if name is None:
        name = {"x86_64": "x86-64", "aarch64": "aarch64", "wasm32": "wasm32-simd128"}.get(architecture, "generic")
    if name.partition(",")[0] == "generic":
        return named(f"{name},triple={triple}")
    machine = named(name)
    if _family(machine.triple) != architecture:
        raise ValueError(f"cpu {name} is none of {triple}")
    _triple([f"triple={triple}"], triple)
    return replace(machine, triple=triple)


def _own(architecture: str, mine: Machine) -> str:
    """The triple of an architecture on the system of this machine, or on Linux where that has another one."""
    return mine.triple if mine.architecture == architecture else f"{architecture}-unknown-linux-gnu"


def to_link(machine: Machine) -> Machine:
    """The machine for objects that the system's linker is to take, if those that this process loads are others."""
    return replace(machine, triple=machine.triple.removesuffix("-elf"))


def _family(triple: str) -> str:
    """Whose names of processors fit a triple."""
    name = triple.partition("-")[0]
    return _ARCHITECTURES.get(name, name)


def without_tiles(machine: Machine) -> Machine:
    """The same processor without its tile registers."""
    features = machine.features
    for name in _TILES:
        features = features.replace(f"+{name}", f"-{name}")
    return replace(machine, features=features)


def _triple(changes: list[str], usual: str) -> tuple[str, list[str]]:
    """The triple among the properties of a machine, and the other ones; ValueError where LLVM has no such target."""
    from llvmlite import binding

    given = [change.removeprefix("triple=") for change in changes if change.startswith("triple=")]
    if not given:
        return usual, changes
    binding.initialize_all_targets()
    try:
        binding.Target.from_triple(given[-1])
    except RuntimeError as error:
        raise ValueError(f"triple {given[-1]!r}: LLVM has no such target") from error
    return given[-1], [change for change in changes if not change.startswith("triple=")]


def runs_here(machine: Machine) -> bool:
    """Whether this process can run code for `machine`."""
    mine = host()
    if _convention(mine.triple) != _convention(machine.triple) or machine.vector_bits > mine.vector_bits:
        return False
    if machine.cpu == "x86-64-v2":
        return mine.has("sse4.2")
    wanted = {name for name in machine.features.split(",") if name.startswith("+")}
    return wanted <= set(mine.features.split(","))


def _convention(triple: str) -> tuple[str, str, bool]:
    """What code for two systems must have in common to run on both: architecture, calls, names, format of objects."""
    system = triple.partition("-")[2]
    known = next((word for word in ("windows", "apple", "wasm") if word in system), "")
    return _family(triple), known, system.endswith("-elf")


_TILES = ("amx-bf16", "amx-int8")
"""Features that say what tile registers multiply."""

_LEVELS = {"x86-64": 128, "x86-64-v2": 128, "x86-64-v3": 256, "x86-64-v4": 512}
"""The levels of the x86-64 psABI, with the vectors that each has."""

_PLAIN_WASM = "+bulk-memory,+mutable-globals,+nontrapping-fptoint,+sign-ext"
_WASM = {"wasm32": _PLAIN_WASM, "wasm32-simd128": f"{_PLAIN_WASM},+simd128"}
"""WebAssembly as engines had it from 2021 on (Safari 15), and with its vectors, which they had from 2023 on (Safari
16.4): of "Roadmap", webassembly.org/features.  Nothing is known of the caches, and there is one thread."""

_SVE = {"neoverse-v1": 256, "a64fx": 512}
"""Processors with scalable vectors of more than 128 bits, and how many their vectors have (Arm Neoverse V1 Technical
Reference Manual; A64FX Microarchitecture Manual)."""

_RISCV = {"rv64gc": "+m,+a,+f,+d,+c", "rv64gcv": "+m,+a,+f,+d,+c,+v"}
"""RISC-V as Linux wants it, without and with vectors (of 128 bits and more), by the names of its instruction sets."""

NAMES = ("host", *_LEVELS, "aarch64", *_SVE, *_RISCV, *_WASM, "generic")
"""What `named` knows."""

_ARCHITECTURES = {
    "x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64", "nvptx64": "nvptx64", "amdgcn": "amdgcn",
}  # fmt: skip

_GRAPHICS = ("nvptx64", "amdgcn")

_GENERIC_FEATURES = {"riscv64": _RISCV["rv64gc"]}
"""What an architecture has on any system that programs run on, where LLVM takes less for granted."""

_BIG_ENDIAN = frozenset({"s390x", "ppc64", "powerpc64", "ppc", "powerpc", "sparcv9", "aarch64_be", "mips64", "mips"})

_L3_PER_CORE = 16 << 20
