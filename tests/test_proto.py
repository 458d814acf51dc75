"""Protocol buffers: a small encoder of our own makes the messages; files written by XLA lie in data/."""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Run
from hypothesis import given, settings
from hypothesis import strategies as st

from hlotool.ir import HloError, Literal, Module, ParseError, dtype_of
from hlotool.ir.verifier import verify
from hlotool.text.compare import difference
from hlotool.text.load import load, load_snapshot
from hlotool.text.parser import parse
from hlotool.text.presets import print_preset
from hlotool.text.proto import read_binary, read_proto, read_text
from hlotool.text.proto.fields import enum_numbers, fields_by_name
from hlotool.text.proto.message import Message
from hlotool.text.proto.wire import decode

FIXTURES = json.loads((ROOT / "tests" / "data" / "protos.json").read_text(encoding="utf-8"))
"""Name -> HLO text as XLA prints it and, in base64, the HloModuleProto that XLA serializes."""

ONLY_IN_TEXT = (
    "replica_count", "num_partitions", "alias_passthrough_params", "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
)  # fmt: skip
"""Attributes of the module that its message has no field for."""

NAN = re.compile(r"-?nan(?:\(0x\w+\))?")


# ---- an encoder: dictionaries to wire format and to text format


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def encode(name: str, values: dict[str, Any], packed: bool = True) -> bytes:
    out = b""
    for key, value in values.items():
        field = fields_by_name(name)[key]
        items = value if isinstance(value, list) else [value]
        if field.kind in ("string", "bytes", "message"):
            for item in items:
                data = encode(field.message, item, packed) if field.kind == "message" else item
                data = data.encode() if isinstance(data, str) else data
                out += varint(field.number << 3 | 2) + varint(len(data)) + data
            continue
        wire = {"float": 5, "double": 1}.get(field.kind, 0)
        cells = [scalar(field.kind, field.enum, item) for item in items]
        if field.repeated and packed:
            out += varint(field.number << 3 | 2) + varint(len(b"".join(cells))) + b"".join(cells)
        else:
            out += b"".join(varint(field.number << 3 | wire) + cell for cell in cells)
    return out


def scalar(kind: str, enum: str, item: Any) -> bytes:
    if kind in ("float", "double"):
        return struct.pack("<f" if kind == "float" else "<d", item)
    return varint(enum_numbers(enum)[item] if kind == "enum" else int(item))


def as_text(message: Message, indent: str = "") -> str:
    """A decoded message in text form."""
    lines = []
    for key, value in message.values.items():
        field = fields_by_name(message.name)[key]
        if isinstance(value, bytearray):
            size = 4 if field.kind == "float" else 8
            value = [struct.unpack_from("<f" if size == 4 else "<d", value, n)[0] for n in range(0, len(value), size)]
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Message):
                lines.append(f"{indent}{key} {{\n{as_text(item, indent + '  ')}{indent}}}\n")
            else:
                lines.append(f"{indent}{key}: {written(field.kind, item)}\n")
    return "".join(lines)


def written(kind: str, item: Any) -> str:
    if kind in ("string", "bytes"):
        data = item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
        return '"' + "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:03o}" for b in data) + '"'
    return str(item).lower() if kind == "bool" else str(item) if kind == "enum" else repr(item)


def array(element_type: str, dimensions: list[int] | None = None, order: list[int] | None = None) -> dict[str, Any]:
    dimensions = dimensions or []
    order = list(range(len(dimensions)))[::-1] if order is None else order
    return {"element_type": element_type, "dimensions": dimensions, "layout": {"minor_to_major": order}}


def module_of(*instructions: dict[str, Any], **more: Any) -> dict[str, Any]:
    rows = [{"id": n, "name": f"i{n}", **instruction} for n, instruction in enumerate(instructions, 1)]
    entry = {"id": 7, "name": "main", "root_id": len(rows), "instructions": rows}
    return {"name": "m", "entry_computation_id": 7, "computations": [entry], **more}


VECTOR = array("F32", [4])
NEGATE = module_of({"opcode": "parameter", "shape": VECTOR}, {"opcode": "negate", "shape": VECTOR, "operand_ids": [1]})
NEGATE_TEXT = "HloModule m\n\nENTRY main {\n  i1 = f32[4]{0} parameter(0)\n  ROOT i2 = f32[4]{0} negate(i1)\n}\n"


def constant(literal: dict[str, Any], packed: bool = True) -> Literal:
    message = module_of({"opcode": "constant", "shape": literal["shape"], "literal": literal})
    return read_proto(encode("HloModuleProto", message, packed)).entry.root.literal


# ---- the modules of XLA


@pytest.mark.parametrize("name", FIXTURES)
def test_messages_of_xla_are_the_modules_of_its_text(name: str) -> None:
    row = FIXTURES[name]
    module = read_proto(base64.b64decode(row["proto"]))
    text = parse(row["text"])
    for attribute in [n for n in text.attributes if n in ONLY_IN_TEXT]:
        del text.attributes[attribute]
    # The message has computations in the order of their definition, the text in that of a walk over the calls.
    assert sorted(module.computations) == sorted(text.computations)
    text.computations = {name: text.computations[name] for name in module.computations}
    assert difference(module, text) is None


@pytest.mark.parametrize("name", FIXTURES)
def test_text_form_gives_the_same_module(name: str) -> None:
    data = base64.b64decode(FIXTURES[name]["proto"])
    text = as_text(decode(data, "HloModuleProto"))
    one, other = print_preset(read_text(text, "m.pbtxt").module, "default"), print_preset(read_proto(data), "default")
    assert NAN.sub("nan", one) == NAN.sub("nan", other)  # the text form loses sign and payload


@pytest.mark.parametrize("name", FIXTURES)
def test_modules_of_messages_print_and_read_back(name: str) -> None:
    module = read_proto(base64.b64decode(FIXTURES[name]["proto"]))
    assert difference(parse(print_preset(module, "default")), module) is None


# ---- forms of the file


@pytest.mark.parametrize("packed", [True, False])
def test_our_encoder_and_the_reader_agree(packed: bool) -> None:
    assert difference(read_proto(encode("HloModuleProto", NEGATE, packed)), parse(NEGATE_TEXT)) is None


@pytest.mark.parametrize(
    ("name", "around"),
    [
        ("HloModuleProto", lambda m: m),
        ("HloProto", lambda m: {"hlo_module": m}),
        ("HloSnapshot", lambda m: {"hlo": {"hlo_module": m}, "execution_platform": "Host"}),
        ("HloUnoptimizedSnapshot", lambda m: {"hlo_module": m, "version": 1}),
    ],
)
def test_every_message_is_recognised_by_its_content(tmp_path: Path, name: str, around: Any) -> None:
    data = encode(name, around(NEGATE))
    for file in ("m.pb", "m", "m.hlo"):
        (tmp_path / file).write_bytes(data)
        assert difference(load(tmp_path / file), parse(NEGATE_TEXT)) is None
    text = as_text(decode(data, name))
    for file in ("m.pbtxt", "m.txt"):
        (tmp_path / file).write_text(f"# proto-message: {name}\n{text}", encoding="utf-8")
        assert difference(load(tmp_path / file), parse(NEGATE_TEXT)) is None


def test_snapshots_hold_arguments_and_results(tmp_path: Path) -> None:
    def literal(values: list[float]) -> dict[str, Any]:
        return {"shape": VECTOR, "f32s": values}

    message = {
        "hlo": {"hlo_module": NEGATE},
        "arguments": [literal([1, 2, 3, 4])],
        "result": literal([-1, -2, -3, -4]),
        "execution_platform": "Host",
    }
    (tmp_path / "s.pb").write_bytes(encode("HloSnapshot", message))
    snapshot = load_snapshot(tmp_path / "s.pb")
    assert snapshot.platform == "Host"
    assert [a.value().tolist() for a in snapshot.arguments] == [[1, 2, 3, 4]]
    assert snapshot.result is not None
    assert snapshot.result.value().tolist() == [-1, -2, -3, -4]
    parts = {"hlo_module": NEGATE, "partitions": [{"arguments": [literal([n] * 4)]} for n in range(2)]}
    (tmp_path / "u.pb").write_bytes(encode("HloUnoptimizedSnapshot", parts))
    unoptimised = load_snapshot(tmp_path / "u.pb")
    assert [p[0].value().tolist() for p in unoptimised.partitions] == [[0] * 4, [1] * 4]
    (tmp_path / "m.hlo").write_text(NEGATE_TEXT, encoding="utf-8")
    assert load_snapshot(tmp_path / "m.hlo").arguments == ()


def test_hlo_text_is_not_taken_for_a_message(tmp_path: Path) -> None:
    odd = ("computations {\n  ROOT a = f32[] parameter(0)\n}\n", "name = f32[] parameter(0)")
    for text in (NEGATE_TEXT, "\n" + NEGATE_TEXT, *odd):
        (tmp_path / "m").write_text(text, encoding="utf-8")
        assert len(load(tmp_path / "m").computations) == 1


# ---- literals


@pytest.mark.parametrize(
    ("element_type", "values"),
    [
        ("PRED", [True, False, True]), ("S8", [-128, 127, 0]), ("U8", [255, 0, 1]), ("S16", [-32768, 1, 2]),
        ("U16", [65535, 1, 2]), ("S32", [-(1 << 31), 5, 6]), ("U32", [(1 << 32) - 1, 5, 6]),
        ("S64", [-(1 << 63), 5, 6]), ("U64", [(1 << 64) - 1, 5, 6]), ("F16", [1.5, -2, 65504]),
        ("BF16", [1.5, -2, 3e38]), ("F32", [1.5, -2, 1e-45]), ("F64", [1.5, -2, 1e-300]), ("C64", [1 + 2j, 3j, -1]),
        ("C128", [1 + 2j, 3j, -1]), ("F8E4M3FN", [1.5, -2, 448]), ("F8E5M2", [1.5, -2, 57344]),
        ("S4", [-8, 7, 1]), ("U4", [15, 0, 7]), ("S2", [-2, 1, 0]), ("U2", [3, 0, 1]), ("F4E2M1FN", [0.5, -6, 1]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [True, False])
def test_values_of_every_type(element_type: str, values: list[Any], packed: bool) -> None:
    name = element_type.lower()
    wanted = np.array(values, np.uint64 if name == "u64" else None).astype(dtype_of(name))
    field = fields_by_name("LiteralProto")[f"{name}s"]
    raw: Any = wanted.tobytes()
    if field.kind in ("float", "double"):
        raw = wanted.view(wanted.real.dtype).tolist()
    elif field.kind != "bytes":
        raw = wanted.tolist()
    elif name in ("s4", "u4", "s2", "u2", "f4e2m1fn"):
        raw = bytes(byte & (15 if "4" in name else 3) for byte in raw)
    found = constant({"shape": array(element_type, [3]), f"{name}s": raw}, packed)
    assert found.value().tobytes() == wanted.tobytes()


@pytest.mark.parametrize(("name", "bits"), [("S4", 4), ("U4", 4), ("S2", 2), ("U2", 2)])
def test_packed_bytes_of_small_integers(name: str, bits: int) -> None:
    values = [0, 1, -1 if name[0] == "S" else 2, 1, 0]
    whole = sum((value & ((1 << bits) - 1)) << (bits * place) for place, value in enumerate(values))
    raw = whole.to_bytes(-(-5 * bits // 8), "little")
    assert constant({"shape": array(name, [5]), f"{name.lower()}s": raw}).value().astype(int).tolist() == values


def test_values_lie_in_the_order_of_the_layout() -> None:
    shape = array("F32", [2, 3], [0, 1])
    assert constant({"shape": shape, "f32s": [1, 4, 2, 5, 3, 6]}).value().tolist() == [[1, 2, 3], [4, 5, 6]]


def test_tuple_literals_and_many_values() -> None:
    number = array("S32", [500])
    shape = {"element_type": "TUPLE", "tuple_shapes": [number, array("PRED")]}
    values = [(-3) ** (n % 19) for n in range(500)]
    found = constant({"shape": shape, "tuple_literals": [
        {"shape": number, "s32s": values}, {"shape": array("PRED"), "preds": [True]},
    ]})  # fmt: skip
    assert found.elements[0].value().tolist() == values
    assert found.elements[1].value().tolist() is True


# ---- what is wrong


def wrong(message: dict[str, Any]) -> str:
    with pytest.raises(ParseError) as caught:
        read_binary(encode("HloModuleProto", message), "w.pb")
    place = caught.value.diagnostics[0].location
    assert place is not None
    assert (place.file, place.line) == ("w.pb", 1)
    assert f"(byte {place.column - 1})" in caught.value.diagnostics[0].message
    return caught.value.diagnostics[0].message


P = {"opcode": "parameter", "shape": VECTOR}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (module_of(P, {"opcode": "negat", "shape": VECTOR, "operand_ids": [1]}), "unknown opcode 'negat'"),
        (module_of(P, {"opcode": "negate", "shape": VECTOR, "operand_ids": [3]}), "has the id 3 of its operand"),
        (module_of(P, {**P, "id": 1}), "two instructions have the id 1"),
        (module_of(P, {"opcode": "call", "shape": VECTOR, "called_computation_ids": [9]}), "that it calls"),
        (module_of(P, {"opcode": "call", "shape": VECTOR, "operand_ids": [1]}), "call calls 1 computations, not 0"),
        (module_of({**P, "shape": array("F32", [4], [1])}), "not a permutation"),
        (module_of({**P, "shape": array("F32", [-4])}), "is no shape"),
        (module_of({**P, "shape": array("F32", [1 << 40, 1 << 40])}), "is no shape"),
        (module_of({**P, "shape": array("F32", [1 << 29, 0, 1 << 29])}), "is no shape"),
        (module_of({**P, "shape": array("F32", [1] * 40)}), "at most 32 dimensions"),
        (module_of({**P, "shape": {}}), "unknown element type"),
        (module_of({**P, "control_predecessor_ids": [8]}), "control predecessor"),
        (module_of(P, entry_computation_id=8), "entry computation"),
        (module_of({"opcode": "constant", "shape": VECTOR, "literal": {"shape": array("F32", [1 << 50]), "f32s": [1]}}),
         "needs 1125899906842624"),
        (module_of(P, schedule={"sequences": [{"key": 7, "value": {"instruction_ids": [2]}}]}), "schedule"),
        (module_of({**P, "sharding": {"type": "MAXIMAL"}}), "one device"),
        (module_of({**P, "parameter_number": -1}), "parameter number"),
    ],
)  # fmt: skip
def test_broken_modules_say_what_and_where(message: dict[str, Any], words: str) -> None:
    assert words in wrong(message)


def test_deep_messages_end_in_an_error() -> None:
    shape = VECTOR
    for _ in range(150):
        shape = {"element_type": "TUPLE", "tuple_shapes": [shape]}
    assert "nested more than" in wrong(module_of({**P, "shape": shape}))
    with pytest.raises(ParseError):  # groups, which nothing here uses
        read_proto(encode("HloModuleProto", NEGATE) + b"\x0b" * 20_000)


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ('name: "m"\nentry_computation_nam: "x"\n', "has no field 'entry_computation_nam'", 2),
        ('name: "m"\nid: "x"\n', "expected the value of 'id'", 2),
        ('name: "m"\nid: 99999999999999999999999\n', "expected|whole number|out of range", 2),
        ('name: "m"\ncomputations {\n  name: "c"\n', "expected a field", 4),
        ('name: "m"\nis_dynamic: maybe\n', "wants true or false", 2),
        ('name: 5\n', "quoted string", 1),
        ('name: "m"\n', "no computations", 1),
    ],
)  # fmt: skip
def test_text_form_errors_have_lines(text: str, words: str, line: int) -> None:
    with pytest.raises(ParseError, match=words) as caught:
        read_text(text, "m.pbtxt")
    place = caught.value.diagnostics[0].location
    assert place is not None
    assert place.line in (line, line - 1)


def test_text_form_takes_what_the_libraries_write() -> None:
    text = """# a comment
name: "m" entry_computation_id: 7;
99: 5
computations < id: 0x7 name: 'ma' "in" root_id: 1
  instructions { id: 1 name: "i" opcode: "parameter", shape { element_type: F32 dimensions: [2, 03]
    layout: { minor_to_major: 1 minor_to_major: 0 } } }
>
profile_info { relative_speedup: 1.5e3f fingerprint: "a{b" }
"""
    module = read_text(text, "m.pbtxt").module
    assert str(module.entry.root.shape) == "f32[2,3]"
    assert module.entry.name == "main"


@pytest.mark.parametrize(
    "data", [b"", b"\x89PNG\r\n\x1a\n" + bytes(100), b"\n" * 300, bytes(range(256)), b"\x0a\xff\xff"]
)
def test_other_files_named_pb_are_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.pb").write_bytes(data)
    with pytest.raises(ParseError) as caught:
        load(tmp_path / "m.pb")
    assert caught.value.diagnostics[0].code == "HLO0150"


def outcome(data: bytes) -> Iterable[str]:
    """Errors of reading and checking; anything but an HloError fails the test."""
    try:
        module: Module = read_proto(data)
        return [d.message for d in verify(module)]
    except HloError as error:
        return [error.message]


def test_every_cut_ends_in_an_error() -> None:
    data = encode("HloModuleProto", {**NEGATE, "stack_frame_index": {"file_names": ["x.py"]}})
    assert outcome(data) == []
    assert all(outcome(data[:cut]) for cut in range(len(data) - 12))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FIXTURES)), st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=6))
def test_changed_bytes_never_crash(name: str, changes: list[tuple[int, int]]) -> None:
    data = bytearray(base64.b64decode(FIXTURES[name]["proto"]))
    for place, value in changes:
        data[place % len(data)] = value
    outcome(bytes(data))


# ---- commands


def test_commands_take_messages(tmp_path: Path, hlotool: Run) -> None:
    (tmp_path / "m.pb").write_bytes(encode("HloModuleProto", NEGATE))
    assert hlotool("fmt", tmp_path / "m.pb").stdout == NEGATE_TEXT
    assert hlotool("verify", tmp_path / "m.pb").returncode == 0
    done = hlotool("run", tmp_path / "m.pb", "--input", "i1=1,2,3,4")
    assert done.returncode == 0, done.stderr
    assert "-4." in done.stdout
    assert hlotool("fmt", "-i", tmp_path / "m.pb").returncode == 2
    (tmp_path / "m.pb").write_bytes(encode("HloModuleProto", NEGATE)[:60])
    broken = hlotool("verify", "--format", "json", tmp_path / "m.pb")
    assert broken.returncode == 3
    assert json.loads(broken.stdout)["errors"][0]["code"] == "HLO0150"
