"""Wrong texts of each kind, read in every way: an error that says where, and never a traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlc.driver import main
from mlc.executable import compile_module
from mlc.frontend.importers.mlir import read_module
from mlc.programs import options_of_module

PASSES = "form-kernels,schedule,plan-buffers,plan-to-loops"
BODY = "%0 = mlc.exp %x : tensor<4xf32>\n  func.return %0 : tensor<4xf32>"
B = 'tensor<?xf32, #mlc.dims<"B">>'


def constant(text: str, kind: str) -> str:
    """A function that returns a constant."""
    return (
        f"func.func @f() -> {kind} {{\n  %0 = mlc.constant dense<{text}> : {kind}\n"
        f"  func.return %0 : {kind}\n}}\n"
    )


def function(arguments: str, results: str, body: str) -> str:
    return f"func.func @f({arguments}) -> ({results}) {{\n  {body}\n}}\n"


WRONG = {
    "a real splat of complex": constant("0.0", "tensor<complex<f32>>"),
    "real elements of complex": constant("[1.0, 2.0]", "tensor<2xcomplex<f64>>"),
    "out of range of i1": constant("9", "tensor<i1>"),
    "out of range of i8": constant("[1, 300]", "tensor<2xi8>"),
    "out of range of f16": constant("1.0e6", "tensor<f16>"),
    "negative unsigned": constant("-1", "tensor<ui8>"),
    "integers of 128 bits": constant("0", "tensor<i128>"),
    "floats of 80 bits": constant("0.0", "tensor<f80>"),
    "digits without end": constant("1" * 5000, "tensor<i64>"),
    "too few elements": constant("[1.0]", "tensor<2xf32>"),
    "bytes that are no hexadecimal": constant('"0xZZ"', "tensor<2xi8>"),
    "positions as elements": function(
        "%x: tensor<9xindex>", "tensor<9xindex>", "func.return %x : tensor<9xindex>"
    ),
    "an argument that is no tensor": function("%x: f32", "f32", "func.return %x : f32"),
    "more elements than addresses": function(
        "%x: tensor<9223372036854775807xf32>",
        "tensor<9223372036854775807xf32>",
        "func.return %x : tensor<9223372036854775807xf32>",
    ),
    "sizes without names": function(
        "%x: tensor<?xf32>", "tensor<?xf32>", "func.return %x : tensor<?xf32>"
    ),
    "a size that the function's symbols lack": (
        'func.func @f(%x: tensor<?xf64, #mlc.dims<"N">>) attributes {mlc.symbols = ["M"]} {\n'
        "  func.return\n}\n"
    ),
    "more names than results": (
        'func.func @f(%x: tensor<4xf32>) attributes {mlc.results = ["y"]} {\n  func.return\n}\n'
    ),
    "two results of one name": (
        "func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)"
        ' attributes {mlc.results = ["y", "y"]} {\n'
        "  func.return %x, %x : tensor<4xf32>, tensor<4xf32>\n}\n"
    ),
    "a size below zero": function(
        "%x: tensor<?xf32, #mlc.dims<-1>>", "tensor<4xf32>", "func.return %x : tensor<4xf32>"
    ),
    "a size that explodes": function(
        f'%x: tensor<?xf32, #mlc.dims<"{"*".join(["(A + B + C + D + E)"] * 40)}">>',
        "",
        "func.return",
    ),
    "a size nested without end": function(
        f'%x: tensor<?xf32, #mlc.dims<"{"(" * 9000}B{")" * 9000}">>', "", "func.return"
    ),
    "a symbol without a value": function(
        "%x: tensor<4xf32>", "", '%0 = mlc.size <"Q"> : tensor<i64>\n  func.return'
    ),
    "a donation to no result": function(
        "%x: tensor<4xf32> {mlc.donated = 65536}", "tensor<4xf32>", BODY
    ),
    "a donation to a result of another type": function(
        "%x: tensor<4xf32>, %y: tensor<5xf32> {mlc.donated = 0}", "tensor<4xf32>", BODY
    ),
    "two donations to one result": function(
        "%x: tensor<4xf32> {mlc.donated = 0}, %y: tensor<4xf32> {mlc.donated = 0}",
        "tensor<4xf32>",
        BODY,
    ),
    "a donation to a name": function(
        '%x: tensor<4xf32> {mlc.donated = "0"}', "tensor<4xf32>", BODY
    ),
    "a count of its own region": function(
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
        "%r = mlc.for %i to %n iter(%c = %x) -> (tensor<4xf32>) {\n"
        "    %n = mlc.constant dense<3> : tensor<i64>\n    mlc.yield %c : tensor<4xf32>\n  }\n"
        "  func.return %r : tensor<4xf32>",
    ),
    "an op of another level": function(
        "%x: tensor<4xf32>", "tensor<4xf32>", f"%c = arith.constant 4 : index\n  {BODY}"
    ),
    "no body": "func.func private @f(tensor<4xf32>) -> tensor<4xf32>\n",
    "two operands' letters for one": function(
        "%x: tensor<4xf32>",
        "tensor<4x4xf32>",
        '%0 = mlc.broadcast "a,b->ab" %x : tensor<4xf32> -> tensor<4x4xf32>\n'
        "  func.return %0 : tensor<4x4xf32>",
    ),
    "a string without its end": 'builtin.module attributes {x = "' + "0" * 300 + "} {}\n",
    "a name without its end": '"' + "a\\n" * 300,
    "brackets without end": "builtin.module attributes {x = " + "[" * 20_000,
    "a fraction of Unicode": "builtin.module attributes {x = ½} {}\n",
    "a limit below zero": (
        "builtin.module attributes {mlc.peak_bytes = -1 : i64} {\n"
        + function("%x: tensor<4xf32>", "tensor<4xf32>", BODY)
        + "}\n"
    ),
    "an op outside of functions": (
        "%0 = mlc.iota 0 : tensor<2x3xi64>\n" + function("%x: tensor<4xf32>", "tensor<4xf32>", BODY)
    ),
    "a tile at any place": function(
        "%x: tensor<8xf32>, %i: tensor<i64>",
        "tensor<4xf32>",
        "%y = mlc.tile %x[%i] at (0) : tensor<8xf32> -> tensor<4xf32>\n"
        "  func.return %y : tensor<4xf32>",
    ),
    "a tile past the end": function(
        "%x: tensor<40xf32>, %u: tensor<8xf32>",
        "tensor<8xf32>",
        "%y = mlc.tiles (%i in 40 step 5) iter(%c = %u) -> (tensor<8xf32>) {\n"
        "    %t = mlc.tile %x[%i] at (0) : tensor<40xf32> -> tensor<8xf32>\n"
        "    %n = mlc.sub %t, %c : tensor<8xf32>\n    mlc.yield %n : tensor<8xf32>\n  }\n"
        "  func.return %y : tensor<8xf32>",
    ),
    "nothing": "",
}
WAYS = (
    ["opt", "FILE", "-p", PASSES, "--target", "avx2"],
    ["opt", "FILE", "-p", PASSES, "--target", "sm_80"],
    ["opt", "FILE", "-p", "differentiate{mode=reverse}"],
    ["show", "FILE", "--at", "plan", "--target", "avx512"],
    ["show", "FILE", "--at", "code", "--target", "cuda:sm_90a"],
    ["explain", "FILE", "--target", "neon"],
)


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_text(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(WRONG[kind], encoding="utf-8")
    for way in WAYS:
        assert main([str(path) if word == "FILE" else word for word in way]) == 1
        said = capsys.readouterr().err
        assert "f.mlir" in said or "expected" in said
        assert "bug" not in said
        assert "Traceback" not in said


ACCEPTED = {
    "a splat of 16 GiB": constant("1.0", "tensor<4294967296xf32>"),
    "two donated arguments that change places": function(
        f"%x: {B} {{mlc.donated = 0}}, %y: {B} {{mlc.donated = 1}}",
        f"{B}, {B}",
        f"func.return %y, %x : {B}, {B}",
    ),
    "a function beside one without a body": (
        "func.func private @g(tensor<4xf32>) -> tensor<4xf32>\n"
        + function("%x: tensor<4xf32>", "tensor<4xf32>", BODY)
    ),
    "negation of f16": function(
        "%x: tensor<40xf16>",
        "tensor<40xf16>",
        "%0 = mlc.neg %x : tensor<40xf16>\n  func.return %0 : tensor<40xf16>",
    ),
    "a complex product": function(
        "%x: tensor<40xcomplex<f32>>",
        "tensor<40xcomplex<f32>>",
        "%0 = mlc.mul %x, %x : tensor<40xcomplex<f32>>\n  func.return %0 : tensor<40xcomplex<f32>>",
    ),
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_right_text(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(ACCEPTED[kind], encoding="utf-8")
    for way in WAYS:
        if "differentiate" not in way[-1]:
            status = main([str(path) if word == "FILE" else word for word in way])
            assert (status, capsys.readouterr().err) == (0, "")


def test_gpus_refuse_tile_loops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = "tensor<8x4xf32>"
    path = tmp_path / "f.mlir"
    path.write_text(
        function(
            f"%x: {kind}",
            kind,
            f"%y = mlc.tiles (%i in 8 step 1) -> ({kind} at (0)) {{\n"
            f"    %t = mlc.tile %x[%i] at (0) : {kind} -> tensor<1x4xf32>\n"
            "    %e = mlc.exp %t : tensor<1x4xf32>\n    mlc.yield %e : tensor<1x4xf32>\n  }\n"
            f"  func.return %y : {kind}",
        ),
        encoding="utf-8",
    )
    assert main(["show", str(path), "--at", "code", "--target", "avx2"]) == 0
    capsys.readouterr()
    assert main(["show", str(path), "--at", "code", "--target", "sm_80"]) == 1
    assert "leave mlc-form-tiles out" in (said := capsys.readouterr().err)
    assert "bug" not in said


@pytest.mark.parametrize("name", ["batch", "differentiate"])
def test_what_reads_programs_refuses_tile_programs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "calls.mlir"
    path.write_text(
        "mlc_tile.kernel @k(%b: !mlc_tile.view<8xf32>) -> (%c: !mlc_tile.view<8xf32>) {\n"
        "  %x = mlc_tile.load %b : !mlc_tile.frag<8xf32>\n  mlc_tile.store %x, %c\n}\n"
        "func.func @main(%b: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %c = mlc_tile.call @k(%b) : (tensor<8xf32>) -> tensor<8xf32>\n"
        "  func.return %c : tensor<8xf32>\n}\n",
        encoding="utf-8",
    )
    assert main(["opt", str(path), "-p", name]) == 1
    told = capsys.readouterr().err
    assert "@main holds mlc_tile.call; expected the tensor level" in told


def test_claims_that_do_not_hold_are_not_believed(tmp_path: Path) -> None:
    """A place that a text says to lie inside is clamped all the same where nothing proves it."""
    path = tmp_path / "f.mlir"
    array, row = "tensor<9xf64>", "tensor<1xf64>"
    path.write_text(
        f"func.func @f(%x: {array}, %v: {row}, %i: tensor<i64>) -> {array} {{\n"
        f'  %y = mlc.kernel "cell" (%a = %x, %b = %v, %k = %i) : ({array}, {row}, tensor<i64>)'
        f" -> ({array}) {{\n"
        f"    %z = mlc.dynamic_update %a, %b[%k] {{fits}}"
        f" : {array}, {row}, tensor<i64> -> {array}\n"
        f"    mlc.yield %z : {array}\n"
        "  } {buffers = [#mlc.buffer<out 0>]}\n"
        f"  func.return %y : {array}\n}}\n"
    )
    module, signature = read_module(path)
    assert "{fits}" not in str(module)
    function = compile_module(module, signature, options_of_module(module, {})).builtin
    found = np.asarray(function(np.zeros(9), np.ones(1), np.array(1 << 20)))
    assert np.flatnonzero(found).tolist() == [8]
