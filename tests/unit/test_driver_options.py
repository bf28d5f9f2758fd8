# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""Commands honour the options of `mlc.compile`; flags stand in place of them. Code is read back."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import mlc
from mlc.driver import main
from mlc.frontend.call.compile import Settings
from mlc.lowering.emit import MARK, joined
from mlc.parsers import OPTIONS

PROGRAM = """
import mlc
import numpy as np


@mlc.compile(target="cuda:sm_90a", dynamic={"x": {0: "B"}}, numerics="fast")
def gpu(x, w):
    s = np.tanh(x @ w)
    return s / s.sum(axis=1, keepdims=True)


@mlc.compile(target="avx512", fusion="none", static="axis", donate="w", threads=3,
             peak_bytes="1MiB", contract="kernels<=2")
def step(w: mlc.TensorSpec(8, 4), g: mlc.TensorSpec(8, 4), axis=0):
    e = np.exp(g)
    return w - e / e.sum(axis=axis, keepdims=True)


@mlc.compile(target="neon", dynamic=True)
def layer(params, x, scale=2.0):
    return np.tanh(x @ params["w"]) * scale + params["b"]


@mlc.compile(target="z80")
def nowhere(x: mlc.TensorSpec(4)):
    return x + 1.0


@mlc.compile(target="cuda")
def somewhere(x: mlc.TensorSpec(4)):
    return np.exp(x)


@mlc.compile(target="avx2")
def sorts(x: mlc.TensorSpec("B", 64)):
    s = np.cumsum(np.exp(x), axis=1)
    return s / s.sum(axis=0), np.take(x, np.argmax(x, axis=1), axis=1)
"""

Run = Callable[..., str]


def _halved(x: Any) -> Any:
    return x * 0.5 + x.sum(axis=0)


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """What a command prints, after its status has been checked."""

    def run(*arguments: str, status: int = 0) -> str:
        found = main(arguments)
        out, error = capsys.readouterr()
        assert found == status, error
        return out if status == 0 else error

    return run


def definitions(text: str) -> list[str]:
    """The functions that LLVM finds in a module."""
    module = llvm.parse_assembly(text)
    module.verify()
    return [f.name for f in module.functions if not f.is_declaration]


GPU_SPEC = ("--spec", "f32[300,64],f32[64,32]")


def test_options_of_a_gpu_function(program: str, run: Run, tmp_path: Path) -> None:
    """Its target needs no GPU here; its symbols take the place of sizes, which reports know."""
    shown = run("show", f"{program}:gpu", *GPU_SPEC)
    assert 'mlc.target = #mlc.target<"cuda:sm_90a">' in shown
    assert 'mlc.numerics = "fast"' in shown
    assert 'mlc.dims<"B", 64>' in shown
    out = tmp_path / "gpu"
    assert run("build", f"{program}:gpu", *GPU_SPEC, "-o", f"{out}.ptx") == f"{out}.ptx\n"
    assert ".target sm_90a" in Path(f"{out}.ptx").read_text()
    assert "@gpu for sm_90a at B = 300" in run("explain", f"{program}:gpu", *GPU_SPEC)
    assert "at B = 50" in run("explain", f"{program}:gpu", *GPU_SPEC, "--sizes", "B=50")
    line = PROGRAM.count("\n", 0, PROGRAM.index("s = np.tanh")) + 1
    asked = run("why-not", f"{program}:{line}", f"{program}:{line + 1}", *GPU_SPEC, "--json")
    assert json.loads(asked)["edges"]
    said = run("build", f"{program}:gpu", *GPU_SPEC, "--emit", "obj", status=1)
    assert "--emit obj needs a CPU; found sm_90a" in said


def test_flags_stand_in_place_of_options(program: str, run: Run) -> None:
    shown = run("show", f"{program}:gpu", *GPU_SPEC, "--target", "avx2", "--numerics", "standard")
    assert 'mlc.target = #mlc.target<"avx2">' in shown
    assert 'mlc.numerics = "standard"' in shown
    plan = ("show", f"{program}:step", "--at", "plan")
    assert run(*plan).count("mlc.kernel") == 4
    assert run(*plan, "--fusion", "all").count("mlc.kernel") == 2
    assert "mlc.peak_bytes = 1048576" in run(*plan)
    assert "mlc.peak_bytes = 5000 " in run(*plan, "--peak-bytes", "5000")
    assert "mlc.donated = 0" in run(*plan)
    explain = ("explain", f"{program}:step", "--json", "--fusion", "all")
    assert json.loads(run(*explain))["target"]["threads"] == 3
    assert json.loads(run(*explain, "--threads", "5"))["target"]["threads"] == 5


def test_the_environment_says_what_nobody_else_does(
    program: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLC_TARGET", "h200")
    assert '#mlc.target<"avx2">' in run("show", f"{program}:sorts")
    monkeypatch.setenv("MLC_FUSION", "all")
    assert run("show", f"{program}:step", "--at", "plan").count("mlc.kernel") == 4


def test_static_values_and_containers_in_a_spec(program: str, run: Run) -> None:
    types = "f32[8,4], f32[8,4]"
    assert '"ab->b"' in run("show", f"{program}:step")
    assert '"ab->a"' in run("show", f"{program}:step", "--spec", f"{types}, axis=1")
    shown = run("show", f"{program}:layer", "--spec", "{'w': f32[8,4], 'b': f32[]}, x=f32[3,8]")
    assert shown.count("tensor<?x?xf32") > 3, "dynamic=True"
    assert "tensor<f32>" in shown
    fixed = run("show", f"{program}:layer", "--spec", "{'w': f32[8,1], 'b': f32[]}, f32[N,8], 3.0")
    assert '"N"' in fixed


def test_a_contract_is_kept_or_named(program: str, run: Run, tmp_path: Path) -> None:
    out = ("-o", str(tmp_path / "step.o"))
    said = run("build", f"{program}:step", *out, status=1)
    assert "the contract 'kernels<=2' does not hold: kernels is 4" in said
    assert "kernels is 4" in run("explain", f"{program}:step", status=1)
    assert run("build", f"{program}:step", *out, "--fusion", "all")


def test_a_module_says_its_own_options(program: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "plan.mlir"
    text = run("show", f"{program}:gpu", *GPU_SPEC, "--at", "plan")
    path.write_text(text)
    assert run("show", str(path), "--at", "plan") == text
    run("build", str(path), "-o", str(tmp_path / "plan.ptx"))
    assert 'mlc.target<"cuda:sm_80">' in run("show", str(path), "--target", "sm_80")
    assert "found sm_90a" in run("build", str(path), "--emit", "asm", status=1)
    said = run("show", str(path), "--spec", "f32[3]", status=2)
    assert "plan.mlir says the types of its arguments itself" in said


def test_run_honours_options_too(program: str, run: Run) -> None:
    spec = ("--random", "--spec", "{'w': f32[3,2], 'b': f32[]}, f32[4,3]")
    one = run("run", f"{program}:layer", *spec, "--target", "host")
    assert one.startswith("result 0: float32[4, 2]")
    assert one == run("run", "--target", "host", f"{program}:layer", *spec)
    assert "kernels is 4" in run("run", f"{program}:step", "--random", "--target", "host", status=1)


MISTAKES: dict[str, tuple[tuple[str, ...], int, str]] = {
    "target of the function": (("show", "{}:nowhere"), 1, "no target is called 'z80'; expected"),
    "too many": (
        ("show", "{}:sorts", "--spec", "f32[2,64],f32[1]"), 2,
        "--spec: 'f32[2,64],f32[1]': too many positional arguments; sorts takes x",
    ),
    "too few": (
        ("show", "{}:gpu", "--spec", "f32[2,64]"), 2,
        "--spec: 'f32[2,64]' has no w; gpu takes x, w",
    ),
    "unknown name": (
        ("show", "{}:sorts", "--spec", "y=f32[2,64]"), 2,
        "got an unexpected keyword argument 'y'; sorts takes x",
    ),
    "no type": (("show", "{}:sorts", "--spec", "f32"), 2, "--spec: 'f32'; expected types such as"),
    "no types": (("show", "{}:gpu"), 1, "annotate each: x: mlc.TensorSpec(64, 32)"),
    "no dtype": (
        ("show", "{}:sorts", "--spec", "f33[4]"), 2,
        "--spec: 'f33[4]': TensorSpec: data type 'f33' not understood; expected one of",
    ),
    "no size": (
        ("show", "{}:sorts", "--spec", "f32[2.5]"), 2, "'2.5' is not a dim; expected an integer",
    ),
    "negative": (("show", "{}:sorts", "--spec", "f32[-1]"), 2, "the size -1 is negative"),
    "starred": (("show", "{}:sorts", "--spec", "**{'x': 1}"), 2, "expected types such as"),
    "open bracket": (("show", "{}:sorts", "--spec", "f32[2"), 2, "expected types such as"),
    "two calls": (("show", "{}:sorts", "--spec", "f32[2]) + (1"), 2, "expected types such as"),
    "ranks": (("show", "{}:gpu", "--spec", "f32[2,3],f32[4,5]"), 1, "inner dimensions differ"),
    "threads": (("show", "{}:sorts", "--threads", "0"), 2, "--threads=0; expected an integer from"),
    "bytes": (("show", "{}:sorts", "--peak-bytes", "many"), 2, "--peak-bytes='many'; expected"),
    "numerics": (("show", "{}:sorts", "--numerics", "lax"), 2, "invalid choice: 'lax'"),
    "unit": (
        ("show", "{}:sorts", "--at", "code", "--unit", "sort"), 1,
        "no module is called 'sort'; expected one of",
    ),
    "unit of a level": (
        ("show", "{}:sorts", "--unit", "sort"), 2,
        "--unit sort: LLVM modules are at the level code; add --at code",
    ),
    "random and inputs": (
        ("run", "{}:sorts", "--random", "x.npy"), 2, "--random: found the input x.npy too",
    ),
    "spec of inputs": (("run", "{}:sorts", "--spec", "f32[1]"), 2, "--spec is for --random"),
    "numerics of a script": (
        ("run", "--numerics", "fast", "{}"), 2, "--numerics is for one function; expected",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, program: str, capfd: pytest.CaptureFixture[str]) -> None:
    arguments, status, message = MISTAKES[name]
    try:
        found = main([a.replace("{}", program) for a in arguments])
    except SystemExit as stop:  # argparse
        found = stop.code
    out, error = capfd.readouterr()
    assert message in error
    assert "Traceback" not in error
    assert found == status
    assert not out


def test_an_unknown_target_of_the_environment_is_named(
    program: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLC_TARGET", "xyz")
    said = run("show", f"{program}:sorts", "--target", "host", status=0)
    assert "func.func @sorts" in said
    text = PROGRAM.replace('target="avx2"', "")
    Path(program).write_text(text)
    said = run("show", f"{program}:sorts", status=1)
    assert said.startswith("mlc: MLC_TARGET=xyz: no target is called 'xyz'; expected one of host,")
    assert "unset MLC_TARGET" in said
    with pytest.raises(ValueError, match="MLC_TARGET=xyz: no target is called 'xyz'"):
        mlc.compile(_halved)(np.ones(3))


def test_words_that_are_none_are_said(program: str, run: Run) -> None:
    shown = ("show", f"{program}:sorts", "--schedule")
    said = run(*shown, "registr(m 6)", status=2)
    assert said.startswith("mlc: --schedule='registr(m 6)': schedule has no word 'registr'; ")
    said = run(*shown, "via(fma), prefetch(b, 99)", status=2)
    assert "steps = 99; expected a number from 1 to 64" in said


# Code


@pytest.mark.parametrize("target", ["avx2", "neon", "cuda:sm_80"])
def test_code_of_several_units_is_one_module(
    target: str, program: str, run: Run, tmp_path: Path
) -> None:
    """LLVM reads it, and so does `mlc build`; each unit is one of its own."""
    show = ("show", f"{program}:sorts", "--at", "code", "--target", target)
    text = run(*show)
    names = re.findall(f"^{MARK}(.*)$", text, re.MULTILINE)
    assert len(names) > 3
    found = definitions(text)
    assert set(names) <= set(found)
    apart = [name for unit in names for name in definitions(run(*show, "--unit", unit))]
    assert sorted(apart) == sorted(found)
    path = tmp_path / "code.ll"
    path.write_text(text)
    emit = ["ptx"] if target.startswith("cuda") else ["asm", "obj"]
    written = run("build", str(path), "--emit", ",".join(emit), "-o", str(tmp_path / "out"))
    paths = [Path(line) for line in written.splitlines()]
    whole = paths[0].read_text()
    assert all(name in whole for name in names)
    again = run("build", f"{program}:sorts", "--target", target, "--emit", f"ll,{emit[0]}",
                "-o", str(tmp_path / "again"))  # fmt: skip
    assert (tmp_path / "again.ll").read_text() == text
    assert Path(again.splitlines()[1]).read_text().replace("again", "out") == whole


def test_modules_that_share_names_are_joined() -> None:
    """Constants of one name and two values, declarations, metadata and attributes, and strings."""

    def unit(name: str, number: int, attribute: str, other: str) -> tuple[str, str]:
        text = f'''source_filename = "{name}"
target triple = "x86_64-unknown-linux-gnu"

@table = private unnamed_addr constant [1 x i32] [i32 {number}], align 4
@same = private constant [3 x i8] c"!0#", align 1
declare i32 @{other}(ptr) nounwind
declare i32 @elsewhere(ptr) nounwind

define i32 @{name}(ptr %a) #0 {{
  %v = load i32, ptr @table, align 4
  %w = call i32 @{other}(ptr @table.x)
  br label %next
next:
  br label %next, !llvm.loop !1
}}

@table.x = private constant i32 {number}
attributes #0 = {{ nounwind "{attribute}"="!1 #0" }}
!0 = !{{!"llvm.loop.mustprogress"}}
!1 = distinct !{{!1, !0}}
'''
        return name, text

    units = [unit("f", 1, "a", "g"), unit("g", 2, "b", "f"), unit("h", 1, "a", "f")]
    whole = joined(units)
    assert definitions(whole) == ["f", "g", "h"]
    parsed = llvm.parse_assembly(whole)
    assert len([x for x in parsed.global_variables if x.name.startswith("same")]) == 1
    assert [re.findall(r"i32 (\d)\]", str(x)) for x in parsed.global_variables
            if re.fullmatch(r"table(\.[gh])?", x.name)] == [["1"], ["2"]]  # fmt: skip
    assert whole.count("attributes #") == 2
    assert '"a"="!1 #0"' in whole
    assert sorted(re.findall(r"!llvm.loop (!\d)", whole)) == ["!1", "!3", "!5"]
    assert "declare i32 @elsewhere" in whole
    assert "declare i32 @f" not in whole


def test_code_for_gpus_needs_no_gpu(program: str, run: Run) -> None:
    """`cuda` alone is the oldest GPU where the process has none, whose code runs on all."""
    function = mlc.compile(target="cuda:sm_90a")(_halved)
    lowered = function.lower(mlc.TensorSpec("B", 64))
    assert definitions(lowered.text("code"))
    assert ".target sm_90a" in lowered.asm()
    assert "mlc.kernel" in lowered.text("plan")
    if not Path("/dev/nvidia0").exists():
        assert '#mlc.target<"cuda:sm_75">' in run("show", f"{program}:somewhere")
        assert "needs an NVIDIA GPU" in run("run", f"{program}:somewhere", "--random", status=1)


def test_every_option_has_a_flag_or_needs_none() -> None:
    """
    The others say what the arguments are (--spec, --sizes; a module says `mlc.typical` itself), or
    what is done with a function that is no program.
    """
    others = {"dynamic", "typical", "static", "donate", "contract", "fallback"}
    assert set(OPTIONS) | others == set(Settings.__dataclass_fields__)


def test_symbols_that_dynamic_gives_to_types() -> None:
    """As for arrays: named ones, all, and equal sizes alike; what a type leaves open stays so."""

    def f(x: Any, y: Any) -> Any:
        return np.tanh(x) + y

    def shapes(dynamic: Any, *specs: tuple[int | str, ...]) -> list[str]:
        types = [mlc.TensorSpec(*sizes) for sizes in specs]
        lowered = mlc.compile(dynamic=dynamic)(f).lower(*types)
        return [str(list(map(str, shape))) for shape in lowered.shapes]

    assert shapes({"x": {-1: "N"}, "y": {1: "N"}}, (3, 4), (3, 4)) == ["['3', 'N']"] * 2
    assert shapes(True, (3, 4), (3, 4)) == ["['x_0', 'x_1']"] * 2
    assert shapes(True, ("M", 4), ("M", 4)) == ["['M', 'x_1']"] * 2
    assert shapes({"x": {0: "N"}}, ("M", 4), ("M", 4)) == ["['M', '4']"] * 2
    assert shapes(True, (3, 1), (3, 4)) == ["['x_0', '1']", "['x_0', 'y_1']"]
