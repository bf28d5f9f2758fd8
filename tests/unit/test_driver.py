"""The `mlc` command's exit statuses and messages; what it prints is in tests/lit/driver."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlc.driver import COMMANDS, main
from mlc.parsers import parser
from mlc.version import __version__

MISTAKES: dict[str, tuple[list[str], int, str]] = {
    "no command": ([], 2, "the following arguments are required: COMMAND"),
    "unknown command": (["compile"], 2, "invalid choice: 'compile'"),
    "no file": (["show", "nowhere.py"], 1, "nowhere.py: no such file; expected FILE.py"),
    "no such kind of file": (
        ["run", "{tmp}/notes.txt"],
        1,
        "expected a file that ends in .py, .mlir or .onnx",
    ),
    "not UTF-8": (["opt", "{tmp}/bytes.mlir"], 1, "byte 0 is not UTF-8; expected MLIR text"),
    "a folder": (["opt", "{tmp}"], 1, "Is a directory"),
    "not MLIR": (
        ["opt", "{tmp}/words.mlir"],
        1,
        "words.mlir:1:7: error: found 'these'; expected an op",
    ),
    "unknown target": (["show", "{tmp}/f.mlir", "--target", "z80"], 2, "no target is called 'z80'"),
    "unknown fusion": (
        ["explain", "{tmp}/f.mlir", "--fusion", "exat"],
        2,
        "argument --fusion: invalid choice: 'exat'",
    ),
    "unknown fusion of a call": (
        ["run", "{tmp}/f.mlir", "--random", "--fusion=fast"],
        2,
        "argument --fusion: invalid choice: 'fast'",
    ),
    "bad sizes": (
        ["explain", "{tmp}/f.mlir", "--sizes", "B"],
        2,
        "expected symbols and sizes such as",
    ),
    "no tests": (["mutants", "{tmp}/f.mlir", "--tests", "0"], 2, "--tests 0: expected 1 or more"),
    "open sizes": (["mutants", "{tmp}/f.mlir"], 1, "expected tensor ops on sizes that are known"),
    "unknown symbol": (["explain", "{tmp}/f.mlir", "--sizes", "N=3"], 1, "no symbol is called 'N'"),
    "no such file to ask": (
        ["why-not", "nowhere.py:3", "{tmp}/f.mlir:2"],
        1,
        "nowhere.py: no such file; expected FILE:LINE",
    ),
    "line without ops": (
        ["why-not", "{tmp}/f.mlir:1", "{tmp}/f.mlir:2"],
        1,
        "f.mlir:1: nothing of @f comes from this line; expected one of {tmp}/f.mlir:2",
    ),
    "two formats": (
        ["explain", "{tmp}/f.mlir", "--json", "--html"],
        2,
        "not allowed with argument",
    ),
    "too few inputs": (["run", "{tmp}/f.mlir"], 1, "f is compiled for (f32[B]), found ()"),
    "no output folder": (
        ["build", "{tmp}/f.mlir", "-o", "{tmp}/no/f.o"],
        1,
        "No such file or directory",
    ),
    "an empty file": (
        ["opt", "{tmp}/nothing.mlir"],
        1,
        "nothing.mlir:2:1: error: found nothing; expected a module, or an op such as func.func",
    ),
    "a folder to show": (["show", "{tmp}"], 1, "is a folder; expected FILE.py, FILE.py:function"),
    "LLVM IR to show": (["show", "{tmp}/f.ll"], 1, "; mlc build reads FILE.ll"),
    "LLVM IR of no machine": (["build", "{tmp}/f.ll"], 1, "f.ll is for no machine; say --target"),
    "no LLVM IR": (
        ["build", "{tmp}/f.ll", "--target", "avx2"],
        1,
        "f.ll:1:1: error: expected top-level entity",
    ),
    "bytes for Python": (["show", "{tmp}/bytes.py"], 1, "bytes.py cannot be imported"),
    "bytes for LLVM IR": (["build", "{tmp}/bytes.ll"], 1, "byte 0 is not UTF-8; expected text"),
    "broken import": (["show", "{tmp}/broken.py"], 1, "broken.py cannot be imported: SyntaxError"),
    "no function": (["show", "{tmp}/empty.py"], 1, "empty.py has 0 compiled functions (none)"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files with mistakes, and one without."""
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "bytes.mlir").write_bytes(b"\xff\xfe")
    (tmp_path / "words.mlir").write_text("these are words")
    (tmp_path / "bytes.ll").write_bytes(b"\xff\xfe")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "nothing.mlir").write_text("\n")
    (tmp_path / "f.ll").write_text("nonsense\n")
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "empty.py").write_text("x = 1\n")
    kind = 'tensor<?xf32, #mlc.dims<"B">>'
    (tmp_path / "f.mlir").write_text(
        f"func.func @f(%x: {kind}) -> {kind} {{\n"
        f"  %0 = mlc.neg %x : {kind}\n  func.return %0 : {kind}\n}}\n"
    )
    return tmp_path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments, status, message = MISTAKES[mistake]
    try:
        found = main([a.replace("{tmp}", str(folder)) for a in arguments])
    except SystemExit as stop:  # argparse
        found = stop.code
    error = capfd.readouterr().err
    assert message.replace("{tmp}", str(folder)) in error
    assert "Traceback" not in error
    assert found == status


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert not stop.value.code
    assert capsys.readouterr().out == f"mlc {__version__}\n"


def test_ctrl_c_ends_with_130(tmp_path: Path) -> None:
    script = tmp_path / "stop.py"
    script.write_text("raise KeyboardInterrupt\n")
    assert main(["run", str(script)]) == 130


@pytest.mark.parametrize(("stop", "status"), [("0", 0), ("3", 3), ("", 0), ("'no'", 1)])
def test_a_script_ends_with_its_own_status(stop: str, status: int, tmp_path: Path) -> None:
    script = tmp_path / "stop.py"
    script.write_text(f"import sys\nsys.exit({stop})\n")
    assert main(["run", str(script)]) == status


def test_who_stops_reading_is_no_error(folder: Path) -> None:
    command = f"{sys.executable} -m mlc opt --list-passes | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stdout == "mlc-apply-rules\n"
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("behind", "status", "said"),
    [
        ("> /dev/full", 1, "mlc: No space left on device\n"),
        (">&-", 0, ""),
        ("> {tmp}/out", 0, ""),
        (None, 141, ""),
    ],
)
def test_output_that_goes_nowhere(
    behind: str | None, status: int, said: str, tmp_path: Path
) -> None:
    """A short text too, which is written when the command ends. None: nobody reads the pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    command = f"{sys.executable} -m mlc cache {behind or ''}".replace("{tmp}", str(tmp_path))
    result = subprocess.run(
        ["bash", "-c", command], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert result.stderr == said
    assert result.returncode == status


def test_ctrl_c_while_compiling_says_nothing(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile True: pass\n")
    command = [sys.executable, "-m", "mlc", "show", str(script)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


HELP: dict[str, tuple[str, ...]] = {
    "": ("opt", "run", "show", "build", "explain", "why-not", "machine", "cache", "--version"),
    "opt": ("--passes", "--target", "--fusion", "--rules", "--list-passes", "--verify-each"),
    "run": ("--target", "--threads", "FILE.py:f --help"),
    "show": ("--at", "--unit", "--spec", "--sizes", "--peak-bytes", "--numerics"),
    "build": ("--emit", "--output", "FILE.ll", "ptx", "--spec"),
    "explain": ("--json", "--html", "--output", "--sizes", "--fusion"),
    "why-not": ("FILE:LINE", "--of", "--measure", "--json", "--target"),
    "mutants": ("FILE", "MUTANT", "--tests", "--output", "--target"),
    "machine": ("--measure",),
    "rules": ("verify", "table", "--write", "FILE"),
    "cache": ("info", "clear", "verify"),
}


@pytest.mark.parametrize("command", HELP)
def test_help_says_what_there_is(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*([command] if command else []), "--help"])
    assert not stop.value.code
    out = capsys.readouterr().out
    assert all(word in out for word in HELP[command])


@pytest.mark.parametrize(
    ("words", "name", "found"),
    [
        (["mutants", "F", "--tests", "3", "G"], "mutant", "G"),
        (["mutants", "F", "G", "--tests", "3"], "mutant", "G"),
        (["mutants", "--tests", "3", "F"], "mutant", None),
        (["rules", "verify", "--write", "F", "G"], "files", ["F", "G"]),
        (["rules", "--write", "verify"], "files", []),
        (["run", "f.py", "--target", "x"], "rest", ["--target", "x"]),
    ],
)
def test_files_stand_on_both_sides_of_options(words: list[str], name: str, found: object) -> None:
    assert vars(parser(COMMANDS).parse_args(words))[name] == found


def test_help_of_a_call(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", f"{folder}/f.mlir", "--help"])
    out = capsys.readouterr().out
    assert all(word in out for word in ("--random", "--seed", "--spec", "--sizes", "OUT.npz"))


def _chain(folder: Path) -> str:
    """A file with exp(-x), two kernels or one."""
    path = folder / "chain.mlir"
    path.write_text(
        "func.func @chain(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %0 = mlc.neg %x : tensor<8xf32>\n  %1 = mlc.exp %0 : tensor<8xf32>\n"
        "  func.return %1 : tensor<8xf32>\n}\n"
    )
    return str(path)


@pytest.mark.parametrize(("fusion", "kernels"), [("none", 2), ("all", 1)])
def test_fusion_is_an_option_of_what_forms_kernels(
    fusion: str,
    kernels: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, flag = _chain(tmp_path), ["--fusion", fusion]
    assert main(["show", file, "--at", "plan", *flag]) == 0
    assert capsys.readouterr().out.count("mlc.kernel") == kernels
    assert main(["explain", file, "--json", *flag]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["kernel_count"] == kernels
    assert main(["why-not", f"{file}:2", f"{file}:3", *flag]) == 0
    assert f" {kernels} kernels" in capsys.readouterr().out.partition("this plan:")[2]
    assert main(["build", file, "--emit", "ll", "-o", str(tmp_path / "chain.ll"), *flag]) == 0
    written = "".join(each.read_text() for each in tmp_path.glob("*.ll"))
    assert written.count("; unit ") == kernels + 1  # and the entry
    for k, arguments in enumerate(([file, "--random", *flag], [*flag, file, "--random"])):
        monkeypatch.setenv("MLC_DUMP", str(tmp_path / f"dump{k}"))
        assert main(["run", *arguments]) == 0
        (plan,) = (tmp_path / f"dump{k}").glob("*-form-kernels.mlir")
        assert plan.read_text().count("mlc.kernel") == kernels
