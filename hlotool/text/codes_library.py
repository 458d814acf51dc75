"""Pages of 0001, 0150 and 0700 to 0999: files, inputs, what is not supported, running, and the other languages."""

from __future__ import annotations

from hlotool.text.page import Page

__all__ = ["LIBRARY"]

_MODULE = "import hlotool\nmodule = hlotool.parse('x = f32[4] parameter(0)')\n"
_CALL = _MODULE + "executable = hlotool.compile(module, backend='evaluate')\nexecutable("

_FILE = (
    "from hlotool.text.load import Source, one_module\n"
    "text = 'x = f32[4] parameter(0)'\n"
    "one_module(Source('models.hlo', 'hlo', b'', "
)
_CUSTOM = (
    "import hlotool, numpy\n"
    "module = hlotool.parse('y = f32[4] custom-call(f32[4] x), custom_call_target=\"example\"')\n"
    "hlotool.register_custom_call('example', "
)
_CALL_IT = (
    ", replace=True)\nexecutable = hlotool.compile(module, backend='evaluate')\n"
    "executable(numpy.zeros(4, numpy.float32))"
)

LIBRARY = (
    Page(
        "HLO0001", "a file cannot be read", "There is no such file, or it may not be read.",
        "import hlotool\nhlotool.load('no-such-directory/model.hlo')",
        "import hlotool\nhlotool.parse('x = f32[4] parameter(0)')", "python",
    ),
    Page(
        "HLO0002", "a file holds several modules",
        "Lines '// -----' separate modules; this needs one.  hlotool verify, fmt, opt and hash take several.",
        "from hlotool.text.load import Source, one_module\n"
        "one_module(Source('two.hlo', 'hlo', b'', 'x = f32[4] parameter(0)\\n// -----\\ny = f32[4] parameter(0)'))",
        "from hlotool.text.load import parse_all\n"
        "parse_all('x = f32[4] parameter(0)\\n// -----\\ny = f32[4] parameter(0)')", "python",
    ),
    Page(
        "HLO0003", "a file of another tool",
        "The file is not HLO but bytecode of MLIR, a jaxpr, LLVM IR, compiled code, or a model of ONNX, "
        "TensorFlow or PyTorch.  HLO is what XLA compiles: jax.jit(f).lower(*arguments).as_text('hlo') in JAX, or what "
        "--xla_dump_to writes.",
        "import hlotool\nhlotool.parse('{ lambda ; a:f32[4]. let b:f32[4] = sin a in (b,) }')",
        "import hlotool\nhlotool.parse('x = f32[4] parameter(0)')", "python",
    ),
    Page(
        "HLO0150", "a protocol buffer is malformed",
        "The file looks like an HloProto, HloModuleProto or HloSnapshot, but is cut off or is something else.",
        "from hlotool.text.proto.load import read_binary\nread_binary(b'\\x0a\\xff\\xff', 'model.pb')",
        "import hlotool\nhlotool.parse('x = f32[4] parameter(0)')", "python",
    ),
    Page(
        "HLO0700", "an argument does not fit its parameter",
        "Executables take one array per parameter (tuples flattened), of the parameter's shape and type.",
        f"import numpy\n{_CALL}numpy.zeros(5, numpy.float32))", f"import numpy\n{_CALL}numpy.zeros(4, numpy.float32))",
        "python",
    ),
    Page(
        "HLO0800", "valid but not supported",
        "The module is good HLO, but this package, or this machine, cannot do what was asked.",
        f"{_MODULE}hlotool.compile(module, backend='quantum')", f"{_MODULE}hlotool.compile(module, backend='evaluate')",
        "python",
    ),
    Page(
        "HLO0900", "execution failed", "The program or the system failed while running: memory, files, custom calls.",
        f"{_CUSTOM}lambda arrays, call: None{_CALL_IT}", f"{_CUSTOM}lambda arrays, call: arrays{_CALL_IT}", "python",
    ),
    Page(
        "HLO0901", "a pipeline is malformed",
        "Pipelines are names with commas: simplify,fusion{max-ops=64},fixpoint(cse,dce).",
        "from hlotool.passes import parse_pipeline\nparse_pipeline('simplify,fixpoint(cse,')",
        "from hlotool.passes import parse_pipeline\nparse_pipeline('simplify,fixpoint(cse,dce)')", "python",
    ),
    Page(
        "HLO0902", "a query is malformed",
        "Queries compare fields with values: opcode == dot and bytes > 1MiB.  'hlotool query --help' lists the fields.",
        "from hlotool.inspect.query import Query\nQuery('opcode = dot')",
        "from hlotool.inspect.query import Query\nQuery('opcode == dot')", "python",
    ),
    Page(
        "HLO0990", "a module that HLO text cannot say",
        "A module that was built or changed has an attribute that no text form exists for.",
        _MODULE + "module.entry.root.attributes['colour'] = 'blue'\nhlotool.print_module(module)",
        _MODULE + "hlotool.print_module(module)", "python",
    ),
)  # fmt: skip
