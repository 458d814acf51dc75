"""Models in ONNX: read, lowered, run by commands; and all that can be wrong with them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed (extra onnx)")

from conftest import Run  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import hlotool  # noqa: E402
import hlotool.onnx.backend as backend  # noqa: E402
from hlotool.driver import optimise  # noqa: E402
from hlotool.ir import InputError, ParseError, UnsupportedError  # noqa: E402
from hlotool.onnx import import_model, read_model  # noqa: E402
from hlotool.onnx.model import model_of  # noqa: E402
from hlotool.text.load import load  # noqa: E402
from hlotool.text.printer import print_module  # noqa: E402

F, INT = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def info(name: str, shape: Sequence[int | str] | None = (2,), kind: int = F) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name: str, value: Any, dtype: str = "f4") -> Any:
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def model(
    nodes: Sequence[Any], inputs: Sequence[Any] = (), outputs: Sequence[Any] = (), weights: Sequence[Any] = (),
    version: int = 20, **more: Any,
) -> Any:  # fmt: skip
    graph = helper.make_graph(nodes, "model", inputs or [info("x")], outputs or [info("y", None)], list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10, **more)


def ran(proto: Any, *arrays: Any) -> list[Any]:
    return list(backend.run_model(proto, list(arrays)))


X = np.array([1.5, -2.0], np.float32)
LINEAR = model(
    [node("Gemm", ["input:0", "fc.weight", "fc/bias"], ["h"], name="fc"), node("Relu", ["h"], ["y"], name="act")],
    [info("input:0", ["batch", 4])], [info("y", ["batch", 3])],
    [constant("fc.weight", np.arange(12).reshape(4, 3)), constant("fc/bias", [1, -100, 3])],
)  # fmt: skip


# ---- commands


@pytest.fixture
def files(tmp_path: Path) -> Path:
    onnx.save(LINEAR, tmp_path / "linear.onnx")
    np.savez(tmp_path / "in.npz", **{"input:0": np.ones((2, 4), np.float32)})
    return tmp_path


def test_import_prints_hlo_of_the_sizes_that_are_set(hlotool: Run, files: Path) -> None:
    done = hlotool("import", "linear.onnx", "--set", "batch=5", "-o", "linear.hlo")
    assert done.returncode == 0, done.stderr
    module = load(files / "linear.hlo")
    (parameter,) = module.entry.parameters
    assert parameter.shape.dimensions == (5, 4)
    assert parameter.metadata is not None
    assert parameter.metadata.op_name == "input:0"
    marks = {(one.metadata.op_type, one.metadata.op_name) for one in module.entry if one.metadata}
    assert {("Gemm", "fc"), ("Relu", "act")} <= marks


@pytest.mark.parametrize("names", [("input:0",), ("arg0",)])
def test_run_takes_sizes_from_the_inputs(hlotool: Run, files: Path, names: tuple[str, ...]) -> None:
    np.savez(files / "in.npz", **{names[0]: np.ones((2, 4), np.float32)})
    done = hlotool("run", "linear.onnx", "--inputs", "in.npz", "-o", "out.npz", "--compare", "evaluate")
    assert done.returncode == 0, done.stderr
    with np.load(files / "out.npz") as found:
        np.testing.assert_array_equal(found["out0"], np.tile(np.float32([19, 0, 29]), (2, 1)))


def test_sizes_that_are_not_known_are_asked_for(hlotool: Run, files: Path) -> None:
    done = hlotool("stats", "linear.onnx")
    assert done.returncode == 3
    assert "input:0[batch,4] (batch=SIZE)" in done.stderr
    assert "--set NAME=SIZE" in done.stderr


@pytest.mark.parametrize(
    ("setting", "says"),
    [("batch=x", "expected a size"), ("rows=3", "no input has a dimension 'rows'"), ("input:0=2,5", "not [2,5]"),
     ("batch=-1", "not below 0")],
)  # fmt: skip
def test_settings_that_do_not_fit(hlotool: Run, files: Path, setting: str, says: str) -> None:
    done = hlotool("import", "linear.onnx", "--set", setting)
    assert done.returncode == 3
    assert says in done.stderr


@pytest.mark.parametrize("command", ["verify", "stats", "signature", "cost", "tree", "emit --stage hlo", "fmt", "hash"])
def test_commands_take_models_as_they_are(hlotool: Run, files: Path, command: str) -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(LINEAR)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    (files / "fixed.bin").write_bytes(proto.SerializeToString())  # known by what is in it
    name, *options = command.split()
    done = hlotool(name, "fixed.bin", *options)
    assert done.returncode == 0, done.stderr


def test_hlo_needs_no_onnx(hlotool: Run, files: Path) -> None:
    code = (
        "import sys\nsys.modules['onnx'] = None\nfrom hlotool.text.load import load\nload('small.hlo')\n"
        "assert not any(one.startswith('hlotool.onnx') for one in sys.modules)\n"
    )
    (files / "small.hlo").write_text("HloModule m\n\nENTRY e {\n  ROOT x = f32[] parameter(0)\n}\n")
    subprocess.run([sys.executable, "-c", code], cwd=files, check=True)


# ---- what decides about the program


def test_shapes_are_computed_while_importing() -> None:
    proto = model(
        [node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]), node("Unsqueeze", ["n", "axes"], ["u"]),
         node("Concat", ["u", "rest"], ["t"], axis=0), node("Reshape", ["x", "t"], ["y"])],
        [info("x", [4, 6])], weights=[constant("zero", 0, "i8"), constant("axes", [0], "i8"),
                                      constant("rest", [2, -1], "i8")],
    )  # fmt: skip
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(ran(proto, x)[0], x.reshape(4, 2, 3))
    assert import_model(model_of(proto)).values == ()


def test_a_shape_that_is_an_input_has_to_be_given() -> None:
    proto = model([node("Reshape", ["x", "s"], ["y"])], [info("x", [6]), info("s", [2], INT)])
    with pytest.raises(UnsupportedError, match="the shape depends on the input s"):
        import_model(model_of(proto))
    found = import_model(model_of(proto), values={"s": np.array([2, 3])})
    assert found.values == ("s",)
    prepared = backend.prepare(proto)
    x = np.arange(6, dtype=np.float32)
    assert prepared.run([x, np.array([2, 3])])[0].shape == (2, 3)
    assert prepared.run([x, np.array([3, 2])])[0].shape == (3, 2)  # not the program for the other shape


def test_arrays_whose_size_depends_on_values_are_followed() -> None:
    proto = model(
        [node("NonZero", ["x"], ["n"]), node("Transpose", ["n"], ["t"]), node("GatherND", ["x", "t"], ["y"]),
         node("Shape", ["y"], ["count"])],
        [info("x", [2, 3])], [info("y", None), info("count", [1], INT)],
    )  # fmt: skip
    x = np.array([[1, 0, 2], [0, 0, 3]], np.float32)
    values, count = ran(proto, x)
    np.testing.assert_array_equal(values, [1, 2, 3])
    assert count.tolist() == [3]


def test_what_would_take_the_bound_for_the_size_is_refused() -> None:
    proto = model([node("NonZero", ["x"], ["n"]), node("Cast", ["n"], ["f"], to=F), node("ReduceMean", ["f"], ["y"])])
    with pytest.raises(UnsupportedError, match="an input whose size depends on values"):
        ran(proto, X)


# ---- quantised products


def whole(kind: str, *shape: int, seed: int) -> Any:
    low, high = (0, 256) if kind == "u1" else (-128, 128)
    return np.random.default_rng(seed).integers(low, high, shape).astype(kind)


ZEROS = [  # of both matrices; constants, or inputs of the model
    (0, 0, False), (131, 0, False), (131, 7, False), (131, 128, True), (whole("u1", 5, seed=3), 7, True),
    (9, whole("u1", 6, seed=4), False), (whole("u1", 5, seed=3), whole("u1", 6, seed=4), True),
]  # fmt: skip


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize(("left", "right", "given"), ZEROS)
def test_zero_points_are_taken_off_sums_of_bytes(left: Any, right: Any, given: bool, constants: bool) -> None:
    a, b = whole("u1", 5, 40, seed=1), whole("u1", 40, 6, seed=2)
    points = {"za": np.asarray(left, "u1"), "zb": np.asarray(right, "u1")}
    inputs = {"a": a, **({} if constants else {"b": b}), **(points if given else {})}
    weights = {name: one for name, one in {"b": b, **points}.items() if name not in inputs}
    proto = model(
        [node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])],
        [info(name, one.shape, TensorProto.UINT8) for name, one in inputs.items()],
        [info("y", None, TensorProto.INT32)], [constant(name, one, "u1") for name, one in weights.items()],
    )  # fmt: skip
    za, zb = (np.asarray(one, np.int32) for one in (left, right))
    wanted = (a.astype(np.int32) - (za[:, None] if za.ndim else za)) @ (b.astype(np.int32) - zb)
    (found,) = ran(proto, *inputs.values())
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, wanted)
    products = [i for i in optimise(import_model(model_of(proto)).module).instructions() if i.opcode == "dot"]
    assert {operand.shape.element_type for product in products for operand in product.operands} <= {"u8", "s8"}


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("zero", "weight_zero"), [(0, 0), (77, 0), (77, 128), (77, [5, 128, 0, 255])])
def test_convolutions_meet_zero_points_beyond_the_border(zero: int, weight_zero: Any, group: int) -> None:
    x, w = whole("u1", 2, 4, 5, 6, seed=1), whole("u1", 4, 4 // group, 3, 2, seed=2)
    proto = model(
        [node("ConvInteger", ["x", "w", "zx", "zw"], ["y"], pads=[1, 0, 2, 1], strides=[2, 1], group=group)],
        [info("x", x.shape, TensorProto.UINT8)], [info("y", None, TensorProto.INT32)],
        [constant("w", w, "u1"), constant("zx", zero, "u1"), constant("zw", weight_zero, "u1")],
    )  # fmt: skip
    points = np.asarray(weight_zero, np.int32)
    image = np.pad(x.astype(np.int32) - zero, [(0, 0), (0, 0), (1, 2), (0, 1)])
    kernel = w.astype(np.int32) - (points[:, None, None, None] if points.ndim else points)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 2), (2, 3))[:, :, ::2]
    apart = windows.reshape(2, group, 4 // group, *windows.shape[2:])
    wanted = np.einsum("bgchwij,gocij->bgohw", apart, kernel.reshape(group, 4 // group, *kernel.shape[1:]))
    np.testing.assert_array_equal(ran(proto, x)[0], wanted.reshape(2, 4, *wanted.shape[3:]))


# ---- graphs in graphs


def test_a_branch_that_is_not_known_runs_alone() -> None:
    then = helper.make_graph([node("Neg", ["x"], ["a"])], "then", [], [info("a")])
    other = helper.make_graph([node("Add", ["x", "x"], ["b"])], "else", [], [info("b")])
    proto = model(
        [node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
        [info("x"), info("c", [], TensorProto.BOOL)],
    )
    assert "conditional" in print_module(import_model(model_of(proto)).module)
    np.testing.assert_array_equal(ran(proto, X, np.array(True))[0], -X)
    np.testing.assert_array_equal(ran(proto, X, np.array(False))[0], X + X)


def _body(ends: bool) -> Any:
    """Doubles what is carried, and gives it as a row; ends once it is above 100 if `ends`."""
    nodes = [node("Add", ["v", "v"], ["w"]), node("Identity", ["w"], ["row"])]
    nodes += [node("ReduceMax", ["w"], ["m"], keepdims=0), node("Less", ["m", "most"], ["go"])] if ends else [
        node("Identity", ["c"], ["go"])
    ]
    return helper.make_graph(
        nodes, "body", [info("i", [], INT), info("c", [], TensorProto.BOOL), info("v")],
        [info("go", [], TensorProto.BOOL), info("w"), info("row")],
    )  # fmt: skip


@pytest.mark.parametrize("ends", [False, True])
def test_a_loop_stacks_rows(ends: bool) -> None:
    proto = model(
        [node("Loop", ["n", ""], ["y", "rows"], body=_body(ends))], [info("x0", [1]), info("x")],
        [info("y"), info("rows", None)], [constant("n", 5, "i8"), constant("most", 20.0)],
    )  # fmt: skip
    proto.graph.node[0].input.append("x")
    last, rows = ran(proto, np.zeros(1, np.float32), np.array([1, 4], np.float32))
    trips = 3 if ends else 5
    np.testing.assert_array_equal(rows, [[2.0**n, 4 * 2.0**n] for n in range(1, trips + 1)])
    np.testing.assert_array_equal(last, rows[-1])
    assert "while" in print_module(import_model(model_of(proto)).module)


def test_functions_of_the_model_are_expanded() -> None:
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Mul", ["a", "two"], ["b"]), ], [helper.make_opsetid("", 20)], ["by"]
    )
    value = function.node.add()
    value.op_type = "Constant"
    value.output.append("two")
    reference = value.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "by", onnx.AttributeProto.FLOAT
    proto = model([node("Twice", ["x"], ["y"], domain="own", by=2.5)])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.append(function)
    np.testing.assert_array_equal(ran(proto, X)[0], X * np.float32(2.5))


def test_functions_that_call_themselves_are_refused() -> None:
    function = helper.make_function(
        "own", "Again", ["a"], ["b"], [node("Again", ["a"], ["b"], domain="own")], [helper.make_opsetid("own", 1)]
    )
    proto = model([node("Again", ["x"], ["y"], domain="own")])
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.append(function)
    with pytest.raises(UnsupportedError, match="calls itself"):
        ran(proto, X)


# ---- what is wrong with models


def test_all_that_is_not_supported_is_listed() -> None:
    proto = model([
        node("Foo", ["x"], ["a"], name="first"), node("ImageDecoder", ["x"], ["b"], name="second"),
        node("Relu", ["x"], ["d"], name="third", flavour=3), node("Add", ["a", "b"], ["y"], name="depends"),
    ])  # fmt: skip
    with pytest.raises(UnsupportedError) as caught:
        ran(proto, X)
    text = [one.message for one in caught.value.diagnostics]
    assert [one.partition(":")[0] for one in text] == ["Foo 'first'", "ImageDecoder 'second'", "Relu 'third'"]


WRONG: dict[str, tuple[Any, str]] = {
    "circle": (
        model([node("Add", ["x", "b"], ["a"], name="one"), node("Add", ["a", "x"], ["b"], name="two"),
               node("Relu", ["b"], ["y"])]),
        "Add 'one' -> Add 'two' -> Add 'one'",
    ),
    "twice": (
        model([node("Relu", ["x"], ["y"], name="one"), node("Abs", ["x"], ["y"], name="two")]),
        "'y' is given twice, by Relu 'one' and by Abs 'two'",
    ),
    "nothing": (model([node("Add", ["x", "z"], ["y"], name="one")]), "Add 'one' reads 'z', which nothing gives"),
    "output": (model([node("Abs", ["x"], ["z"])]), "the output 'y' is given by no node"),
    "too new": (model([node("Relu", ["x"], ["y"])], version=10_000), "operator set 10000 of ai.onnx is newer"),
    "weights": (
        model([node("Add", ["x", "w"], ["y"])], weights=[constant("w", [1, 2]), constant("w", [1, 2])]),
        "weights of the same name: 'w'",
    ),
    "inside": (
        model(
            [node("If", ["c"], ["y"], then_branch=helper.make_graph([node("Abs", ["q"], ["a"])], "t", [], [info("a")]),
                  else_branch=helper.make_graph([node("Abs", ["x"], ["b"])], "e", [], [info("b")]))],
            [info("x"), info("c", [], TensorProto.BOOL)],
        ),
        "reads 'q', which nothing gives",
    ),
    "shapes": (
        model([node("MatMul", ["x", "w"], ["y"], name="mm")], weights=[constant("w", np.zeros((3, 2)))]),
        "MatMul 'mm': ",
    ),
}  # fmt: skip


MISFITS = {
    "DepthToSpace": ({"blocksize": 0}, [1, 4, 2, 2]),
    "Gather": ({"axis": 9}, [2, 2]),
    "Transpose": ({"perm": [0, 5]}, [2, 2]),
    "LRN": ({"size": 0}, [1, 2, 3, 3]),
    "MaxPool": ({"kernel_shape": [2], "strides": [0]}, [1, 1, 4]),
    "Flatten": ({"axis": 7}, [2, 2]),
    "Conv": ({"group": 0}, [1, 2, 3, 3]),
    "Einsum": ({"equation": "ij->q"}, [2, 2]),
}


@pytest.mark.parametrize("name", MISFITS)
def test_attributes_that_do_not_fit_are_errors_of_the_model(name: str) -> None:
    attributes, shape = MISFITS[name]
    inputs = ["x", "w"] if name in ("Gather", "Conv") else ["x"]
    weight = constant("w", np.zeros((2, 2, 1, 1))) if name == "Conv" else constant("w", [0, 1], "i8")
    proto = model([node(name, inputs, ["y"], name="odd", **attributes)], [info("x", shape)], weights=[weight])
    with pytest.raises((ParseError, UnsupportedError), match="odd"):
        ran(proto, np.zeros(shape, np.float32))


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_nodes(name: str) -> None:
    proto, says = WRONG[name]
    with pytest.raises(ParseError) as caught:
        ran(proto, X) if name != "inside" else ran(proto, X, np.array(True))
    assert says in f"{caught.value} {[one.message for one in caught.value.diagnostics]}"


def test_nodes_in_another_order_are_put_in_order() -> None:
    proto = model([node("Relu", ["a"], ["y"]), node("Neg", ["x"], ["a"])])
    np.testing.assert_array_equal(ran(proto, X)[0], [0, 2])


def test_every_beginning_of_a_file_ends_in_an_error_or_a_model(tmp_path: Path) -> None:
    data = LINEAR.SerializeToString()
    path = tmp_path / "cut.onnx"
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        try:
            load(path)
        except (ParseError, InputError, UnsupportedError):
            continue
        raise AssertionError(f"{size} bytes of {len(data)} are a model")


def _external(**entries: Any) -> Any:
    tensor = TensorProto(name="w", data_type=F, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    return model([node("Add", ["x", "w"], ["y"])], weights=[tensor])


def _linked(folder: Path) -> str:
    (folder.parent / "outside.bin").write_bytes(bytes(8))
    os.symlink(folder.parent / "outside.bin", folder / "link.bin")
    return "link.bin"


EXTERNAL: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "absent": (lambda f: {"location": "none.bin"}, "there is no such file"),
    "absolute": (lambda f: {"location": str(f / "ok.bin")}, "not below the folder"),
    "above": (lambda f: {"location": "../outside.bin"}, "not below the folder"),
    "of Windows": (lambda f: {"location": "..\\outside.bin"}, "not below the folder"),
    "link": (lambda f: {"location": _linked(f)}, "a link that leaves the folder"),
    "folder": (lambda f: {"location": "."}, "is no file"),
    "nameless": (lambda f: {}, "does not say the name"),
    "short": (lambda f: {"location": "short.bin"}, "a file of 3 bytes"),
    "beyond": (lambda f: {"location": "ok.bin", "offset": 12}, "a file of 16 bytes"),
    "negative": (lambda f: {"location": "ok.bin", "offset": -4}, "bytes -4 to 4"),
    "length": (lambda f: {"location": "ok.bin", "length": 4}, "it takes 8 bytes"),
    "words": (lambda f: {"location": "ok.bin", "offset": "far"}, "no number"),
}


@pytest.mark.parametrize("text", [b"Gemm", b"fc/bias", b"input:0", b"batch"])
def test_text_is_in_utf8(text: bytes) -> None:
    data = LINEAR.SerializeToString()
    assert text in data
    with pytest.raises(ParseError, match=r"is not in UTF-8"):
        read_model(data.replace(text, b"\xff" * len(text)))


@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "ok.bin").write_bytes(np.arange(4, dtype="f4").tobytes())
    (folder / "short.bin").write_bytes(b"abc")
    entries, says = EXTERNAL[name]
    (folder / "model.onnx").write_bytes(_external(**entries(folder)).SerializeToString())
    with pytest.raises(ParseError, match=says):
        load(folder / "model.onnx")


def test_external_data_are_read(tmp_path: Path, hlotool: Run) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "ok.bin").write_bytes(np.arange(4, dtype="f4").tobytes())
    (tmp_path / "m.onnx").write_bytes(_external(location="ok.bin", offset=8).SerializeToString())
    done = hlotool("import", "m.onnx", "--external-data", "weights")
    assert done.returncode == 0, done.stderr
    assert "constant({2, 3})" in done.stdout


def test_external_weights_are_not_copied(tmp_path: Path) -> None:
    (tmp_path / "ok.bin").write_bytes(bytes(8))
    (tmp_path / "m.onnx").write_bytes(_external(location="ok.bin").SerializeToString())
    module = import_model(read_model(tmp_path / "m.onnx")).module
    (held,) = [one.attributes["literal"].array for one in module.entry if one.opcode == "constant"]
    while isinstance(held.base, np.ndarray):
        held = held.base
    assert isinstance(held, np.memmap)


def test_long_chains_take_linear_time() -> None:
    from time import process_time

    def chain(count: int) -> float:
        names = ["x", *(f"v{n}" for n in range(count - 1)), "y"]
        nodes = [node("Neg", [one], [other]) for one, other in pairwise(names)]
        read = model_of(model(nodes))
        start = process_time()
        import_model(read)
        return process_time() - start

    chain(100)
    assert chain(8000) < 30 * chain(1000)  # 8 times, were it not for noise; 64 if it were quadratic


# ---- results beside NumPy's, where ONNX's own tests have none


def test_trees_walk_down() -> None:
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node(
                "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1,
                nodes_treeids=[0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 0, 1, 2], nodes_featureids=[0, 0, 0, 1, 0, 0],
                nodes_values=[0.5, 0.0, 0.0, 0.0, 0.0, 0.0],
                nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"],
                nodes_truenodeids=[1, 0, 0, 1, 0, 0], nodes_falsenodeids=[2, 0, 0, 2, 0, 0],
                target_treeids=[0, 0, 1, 1], target_nodeids=[1, 2, 1, 2], target_ids=[0, 0, 0, 0],
                target_weights=[1.0, 10.0, 100.0, 1000.0], base_values=[0.5],
            )],
            "forest", [info("x", [4, 2])], [info("y", [4, 1])],
        ),
        opset_imports=[helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 20)], ir_version=10,
    )  # fmt: skip
    x = np.array([[0, 1], [1, 1], [0, -1], [1, -1]], np.float32)
    np.testing.assert_array_equal(ran(proto, x)[0], [[101.5], [110.5], [1001.5], [1010.5]])


def test_random_numbers_are_the_same_in_every_run() -> None:
    drawn = node("RandomNormal", [], ["r"], shape=[2000], seed=7.0)
    proto = model([drawn, node("Add", ["r", "x"], ["y"])], [info("x", [1])])
    zero = np.zeros(1, np.float32)
    first, again = ran(proto, zero)[0], ran(proto, zero)[0]
    np.testing.assert_array_equal(first, again)
    assert abs(first.mean()) < 0.1
    assert abs(first.std() - 1) < 0.1


def test_models_are_executables_of_the_library() -> None:
    imported = import_model(model_of(LINEAR), sizes={"batch": 2})
    executable = hlotool.compile(imported.module)
    (found,) = executable(np.ones((2, 4), np.float32))
    np.testing.assert_array_equal(found, np.tile(np.float32([19, 0, 29]), (2, 1)))


@pytest.mark.parametrize(("kind", "least"), [(TensorProto.UINT32, 2**32), (TensorProto.UINT64, 2**64)])
def test_negative_floats_wrap_in_unsigned_integers(kind: int, least: int) -> None:
    proto = model([node("Cast", ["x"], ["y"], to=kind)], [info("x", [5])], [info("y", None, kind)])
    (found,) = ran(proto, np.float32([0, 1.9, -1.9, -100, 3e9]))
    assert found.tolist() == [0, 1, least - 1, least - 100, 3_000_000_000]


@pytest.mark.parametrize(("version", "greatest"), [(6, np.finfo(np.float32).max), (13, np.inf)])
def test_limits_of_a_clip_that_gives_none(version: int, greatest: float) -> None:
    """The older operator has limits where none are given: all finite numbers."""
    proto = model([node("Clip", ["x"], ["y"])], [info("x", [3])], version=version)
    np.testing.assert_array_equal(ran(proto, np.float32([np.inf, 2, -np.inf]))[0], np.float32([greatest, 2, -greatest]))


def test_the_nearest_sample_is_chosen_before_mirroring() -> None:
    """-1.5 is nearer to none of -2 and -1: the even one of both, whose mirror image is 1."""
    proto = model(
        [node("GridSample", ["x", "grid"], ["y"], mode="nearest", padding_mode="reflection")],
        [info("x", [1, 1, 1, 4]), info("grid", [1, 1, 3, 2])],
    )
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    grid = np.zeros((1, 1, 3, 2), np.float32)
    grid[0, 0, :, 0] = [-1.5, -1.25, 1.5]  # -1.5, -1 and 4.5 in elements
    np.testing.assert_array_equal(ran(proto, x, grid)[0].reshape(-1), [1, 0, 3])
