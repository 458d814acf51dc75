"""What XLA's parser and verifier take and what they refuse, hlotool does, too; and each reads what the other prints."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from semantics.xla_oracle import missing
from xla_verdicts import NOBODY

from hlotool.harness.xla import xla_python
from hlotool.ir import HloError
from hlotool.ir.verifier import verify
from hlotool.text.parser import parse
from hlotool.text.printer import PrintOptions, print_module

HERE = Path(__file__).parent
FRAME = """HloModule m

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

neg {
  a = f32[8]{0} parameter(0)
  ROOT c = f32[8]{0} negate(a)
}

ENTRY e {
  p = f32[8]{0} parameter(0)
  x = f32[8]{0} custom-call(p), custom_call_target="NOBODY", api_version=API_VERSION_TYPED_FFI
  k = token[] after-all()
  i = s32[] constant(1)
  u = u32[] constant(1)
  z = c64[8]{0} complex(x, x)
STATEMENTS
  ROOT last = f32[8]{0} abs(x)
}
""".replace("NOBODY", NOBODY)

VALID = """
a = ((f32[8]), f32[8], s32[]) async-start(x), calls=neg; b = f32[8] async-done(a)
a = ((f32[8]), f32[8], s32[]) async-start(x), calls=neg; c = ((f32[8]), f32[8], s32[]) async-update(a); b = f32[8] async-done(c)
a = ((f32[8]), f32[8], s32[]) negate-start(x); b = f32[8] negate-done(a)
a = (f32[8], f32[8], u32[]) copy-start(x); b = f32[8] copy-done(a)
a = f32[8] all-reduce-start(x), replica_groups={{0}}, to_apply=add; b = f32[8] all-reduce-done(a)
a = (f32[8], f32[16]) all-gather-start(x), replica_groups={{0,1}}, dimensions={0}; b = f32[16] all-gather-done(a)
a = (f32[8], f32[8]) collective-permute-start(x), source_target_pairs={{0,1}}; b = f32[8] collective-permute-done(a)
q = (s32[]) tuple(i); a = (f32[8], f32[8], u32[], u32[]) collective-permute-start(x, p, q, q), source_target_pairs={{0,1}}, slice_sizes={{4}}; b = f32[8] collective-permute-done(a)
a = b(f32[8]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}; b = f32[8] custom-call(a), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}
a = f32[8] custom-call(x), custom_call_target="f", operand_layout_constraints={f32[8]{0}}
a = f32[2,0] constant({ {}, {} })
a = (f32[8], u32[], token[]) send(x, k), channel_id=1; b = token[] send-done(a), channel_id=1
a = (f32[8], u32[], token[]) send(x, k); b = token[] send-done(a)
a = (f32[8], u32[], token[]) recv(k), channel_id=1; b = (f32[8], token[]) recv-done(a), channel_id=1
a = (f32[8], u32[], token[]) recv(k), channel_id=1; b = ((f32[8], u32[], token[])) tuple(a)
a = token[] after-all(x)
a = token[] after-all(x, k, i)
a = f32[16] all-gather(x), replica_groups={{0,1}}, dimensions={0}
a = f32[8] all-gather(x), replica_groups={{0}}, dimensions={0}
a = f32[4] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=add
a = f32[8] all-reduce(x), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
a = f32[8] collective-permute(x), source_target_pairs={{0,1},{1,0}}
a = pred[8] compare(x, x), direction=LT, type=TOTALORDER
a = pred[8] compare(z, z), direction=EQ, type=FLOAT
a = pred[] compare(i, i), direction=LT, type=SIGNED
a = pred[] compare(u, u), direction=LT, type=UNSIGNED
a = f32[8]{0:T(8,128)(2,1)S(1)} custom-call(), custom_call_target="f"
a = f32[8]{0:SC(0:2,4)} custom-call(), custom_call_target="f"
a = f32[8] negate(x), statistics={p=1,q=2.5}
a = f32[8] negate(x), statistics={visualizing_index=1,p=1,q=2.5}
"""  # noqa: E501 - a case is a line
INVALID = """
a = ((f32[8]), f32[8], s32[]) async-start(x), calls=neg
a = ((f32[8]), f32[8], s32[]) async-start(x), calls=neg; b = f32[8] get-tuple-element(a), index=1; c = f32[8] async-done(a)
a = ((f32[8]), f32[8], s32[]) async-start(x), calls=neg; b = ((f32[8]), f32[8], s32[]) async-start(x), calls=neg; c = f32[8] async-done(a); d = f32[8] async-done(b)
a = ((f32[8]), f32[8], s32[]) async-start(x), calls=neg; c = ((f32[8]), f32[8], s32[]) async-update(a)
a = (f32[8], f32[8], u32[]) copy-start(x)
a = (f32[8], f32[8], u32[]) copy-start(x); b = ((f32[8], f32[8], u32[])) tuple(a)
a = (f32[8], f32[8], s32[]) copy-start(x); b = f32[8] copy-done(a)
a = f32[8] all-reduce-start(x), replica_groups={{0}}, to_apply=add; b = f32[8] negate(a)
a = f32[8] all-reduce-start(x), replica_groups={{0}}, to_apply=add; b = f32[8] all-reduce-done(a); c = f32[8] negate(a)
a = (f32[8], f32[8]) collective-permute-start(x), source_target_pairs={{0,1}}
a = (f32[8], u32[], token[]) send(x, k), channel_id=1
a = (f32[8], u32[], token[]) send(x, k), channel_id=1; b = token[] send-done(a), channel_id=2
a = (f32[8], u32[], token[]) send(x, k), channel_id=1; b = token[] send-done(a)
a = (f32[8], u32[], token[]) send(x, k), channel_id=1; b = token[] send-done(a), channel_id=1, is_host_transfer=true
a = (f32[8], u32[], token[]) recv(k), channel_id=1; b = u32[] get-tuple-element(a), index=1; c = (f32[8], token[]) recv-done(a), channel_id=1
a = f32[8] all-gather(x), replica_groups={{0,1}}, dimensions={0}
a = f32[24] all-gather(x), replica_groups={{0,1}}, dimensions={0}
a = f32[2] reduce-scatter(x), replica_groups={{0,1}}, dimensions={0}, to_apply=add
a = f32[8] all-reduce(x), replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
a = f32[8] collective-permute(x), source_target_pairs={{-1,0}}
a = pred[8] compare(x, x), direction=LT, type=SIGNED
a = pred[] compare(i, i), direction=LT, type=TOTALORDER
a = pred[] compare(i, i), direction=LT, type=UNSIGNED
a = pred[] compare(u, u), direction=LT, type=SIGNED
a = f32[8]{0:T(0)} custom-call(), custom_call_target="f"
a = f32[8]{0:E(-1)} custom-call(), custom_call_target="f"
a = f32[8]{0:D(X)} custom-call(), custom_call_target="f"
a = f32[8]{0:SC(0:4,4)} custom-call(), custom_call_target="f"
a = f32[8]{0:SC(1:4)} custom-call(), custom_call_target="f"
a = b((f32[8])) custom-call(), custom_call_target="f"
a = f32[8] negate(x), control-predecessors={a}
q = (s32[]) tuple(i); a = (f32[4], f32[8], u32[], u32[]) collective-permute-start(x, p, q, q), source_target_pairs={{0,1}}, slice_sizes={{4}}; b = f32[8] collective-permute-done(a)
a = f32[8] custom-call(x, p), custom_call_target="f", operand_layout_constraints={f32[8]{0}}
a = f32[8] custom-call(x), custom_call_target="f", operand_layout_constraints={f32[9]{0}}
a = f8e4m3fn[] constant(nan(0x7))
"""  # noqa: E501 - a case is a line


def cases(table: str) -> list[str]:
    """Modules, by the statements between the semicolons of each line."""
    rows = table.strip().split("\n")
    return [FRAME.replace("STATEMENTS", "\n".join(f"  {one.strip()}" for one in row.split(";"))) for row in rows]


def refused(text: str) -> list[str]:
    """What hlotool says of a module."""
    try:
        return [one.message for one in verify(parse(text))]
    except HloError as error:
        return [one.message for one in error.diagnostics]


@pytest.mark.parametrize("text", cases(VALID))
def test_valid(text: str) -> None:
    assert refused(text) == []


@pytest.mark.parametrize("text", cases(INVALID))
def test_invalid(text: str) -> None:
    assert len(refused(text)) == 1


class Peer:
    """The program in `xla_verdicts.py`."""

    def __init__(self) -> None:
        variables = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "9"}
        self.child = subprocess.Popen(
            [xla_python(), HERE / "xla_verdicts.py"], text=True, env=variables,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, what: str, text: str) -> Any:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(json.dumps([what, text]) + "\n")
        self.child.stdin.flush()
        return json.loads(self.child.stdout.readline())


@pytest.fixture(scope="module")
def xla() -> Iterator[Peer]:
    if missing():
        pytest.skip(missing())
    looks = "import jax.extend.xla as x; x.register_hlo_module_transformation"
    if subprocess.run([xla_python(), "-c", looks], capture_output=True, check=False).returncode:
        pytest.skip("jax gives its modules to nobody before 0.10.2")
    peer = Peer()
    yield peer
    assert peer.child.stdin is not None
    peer.child.stdin.close()
    peer.child.wait()


def test_xla_says_the_same(xla: Peer) -> None:
    assert [text for text in cases(VALID) if xla.ask("verdict", text)] == []
    assert [text for text in cases(INVALID) if not xla.ask("verdict", text)] == []


def test_each_reads_what_the_other_prints(xla: Peer) -> None:
    """By every choice of what to print; metadata is no part of what is compared."""
    texts = [*cases(VALID), *(path.read_text() for path in sorted((HERE / "data" / "wild").glob("*.hlo"))[:5])]
    for text in texts:
        wanted = xla.ask("canonical", text)
        for written in xla.ask("prints", text):
            module = parse(written)
            for options in (PrintOptions(), PrintOptions(xla=True, percent=True, operand_shapes=True, signatures=True)):
                assert xla.ask("canonical", print_module(module, options)) == wanted
