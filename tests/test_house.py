"""
The walls: what must hold for the house as a whole, whatever stands in its rooms.

Each rule exists because its breach is silent: a dropped link installs and fails at import, a CHECK
without a colon passes for ever, a second copy of a class compares unequal to the first.
"""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from shutil import copytree, ignore_patterns, which

import pytest

from build_backend.mlc_build import FOLDERS, compile_sources, mend_links
from mlc import knobs
from mlc.version import __version__

ROOT = Path(__file__).resolve().parent.parent
CODE = ("mlc", *FOLDERS, "build_backend")
LIT = ROOT / "tests" / "lit"

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60


def python_files(*folders: str) -> list[Path]:
    """The .py files of the folders, each once: `mlc` without what its links reach."""
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).glob("*.py" if folder == "mlc" else "**/*.py")
    )


def lit_files() -> list[Path]:
    """Every file that lit runs."""
    files = [path for suffix in ("*.mlir", "*.py") for path in LIT.rglob(suffix)]
    return sorted(f for f in files if f.name != "lit.cfg.py" and "Inputs" not in f.parts)


@cache
def syntax(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def where(path: Path, line: int) -> str:
    """`folder/file:line`, which terminals and editors open."""
    return f"{path.relative_to(ROOT)}:{line}"


# Links and layers


@pytest.mark.parametrize("name", FOLDERS)
def test_link_points_to_the_folder_of_its_name(name: str) -> None:
    link = ROOT / "mlc" / name
    assert link.is_symlink()
    assert os.readlink(link) == f"../{name}"
    assert f'"{name}".msg' in (ROOT / "pyproject.toml").read_text(), "its bare name is not banned"


@pytest.mark.parametrize("name", FOLDERS)
def test_folder_says_what_may_not_live_there(name: str) -> None:
    docstring = ast.get_docstring(syntax(ROOT / name / "__init__.py"))
    assert docstring is not None
    assert "Nothing here" in docstring


def test_layers() -> None:
    if importlib.util.find_spec("importlinter") is None:
        pytest.skip("import-linter is not installed (extra `dev`)")
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", program, "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_imports_are_absolute_and_through_mlc() -> None:
    folders = (*CODE, "tests", "examples", "benchmarks")
    bad = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in python_files(*folders)
        for node in ast.walk(syntax(path))
        for module in _imported(node)
        if module.startswith(".") or module.split(".")[0] in FOLDERS
    ]
    assert not bad, f"import `mlc.…`, absolutely: {bad}"


def _imported(node: ast.AST) -> list[str]:
    """The modules an import statement names; relative ones start with dots."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return ["." * node.level + (node.module or "")]
    return []


def test_only_knobs_name_environment_variables() -> None:
    bad = [
        where(path, node.lineno)
        for path in python_files(*CODE)
        if path != ROOT / "mlc" / "knobs.py"
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.Constant) and node.value in knobs.VARIABLES
    ]
    assert not bad, f"ask mlc.knobs.current(): {bad}"


def test_only_targets_tell_their_kinds_apart() -> None:
    """What differs between machines is a fact of theirs, or a row that names the kind."""
    bad = [
        where(path, line)
        for path in python_files("mlc", "frontend", "passes", "lowering", "runtime")
        for line in _kind_questions(syntax(path))
    ]
    assert not bad, f"ask the target (dialects/target/), or make it a row of BACKENDS: {bad}"


def _kind_questions(tree: ast.AST) -> Iterator[int]:
    """The lines that ask whether something is a CPU or a GPU."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.MatchClass) or (
            isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        ):
            names = {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name)}
            if names & {"CpuTarget", "GpuTarget"}:
                yield node.lineno


@pytest.mark.parametrize(
    "said",
    [
        "isinstance(x, CpuTarget)",
        "isinstance(x, A | GpuTarget)",
        "type(x) is CpuTarget",
        "match x:\n case GpuTarget(): pass",
    ],
)
def test_questions_for_the_kind_of_a_target_are_found(said: str) -> None:
    assert list(_kind_questions(ast.parse(said)))
    assert not list(_kind_questions(ast.parse("f: dict[type, int] = {CpuTarget: 1}")))


# Sizes and names


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in python_files(*CODE)}
    long = [where(path, length) for path, length in lengths.items() if length > MAX_FILE_LINES]
    assert not long, f"over {MAX_FILE_LINES} lines, split by op family or level: {long}"


def test_functions_are_short() -> None:
    long = [
        f"{where(path, node.lineno)} {node.name} ({length})"
        for path in python_files(*CODE)
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := _lines(node)) > MAX_FUNCTION_LINES
    ]
    assert not long, f"over {MAX_FUNCTION_LINES} lines without the docstring: {long}"


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function, its docstring not counted."""
    first = function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if is_docstring else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def passes() -> Iterator[tuple[Path, ast.ClassDef, str]]:
    """File, class and registered name of every pass in passes/ and lowering/."""
    for path in python_files("passes", "lowering"):
        for node in ast.walk(syntax(path)):
            if isinstance(node, ast.ClassDef) and (name := _pass_name(node)):
                yield path, node, name


def _pass_name(node: ast.ClassDef) -> str | None:
    """The value of `name = "mlc-…"` in a subclass of ModulePass."""
    if not any("ModulePass" in ast.unparse(base) for base in node.bases):
        return None
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if isinstance(statement, ast.Assign) and names == ["name"]:
            return str(ast.literal_eval(statement.value))
    return None


def test_pass_file_class_and_lit_test_share_one_name() -> None:
    bad: list[str] = []
    for path, node, name in passes():
        bare = name.removeprefix("mlc-")
        test = LIT / path.relative_to(ROOT).parent / f"{bare}.mlir"
        if bare == name:
            bad.append(f"{where(path, node.lineno)}: pass {name} lacks the prefix mlc-")
        if node.name.lower() != bare.replace("-", "") + "pass":
            bad.append(f"{where(path, node.lineno)}: class {node.name} for pass {name}")
        if path.stem != bare.replace("-", "_"):
            bad.append(f"{where(path, node.lineno)}: file {path.name} for pass {name}")
        if not test.is_file():
            bad.append(f"{where(path, node.lineno)}: no {test.relative_to(ROOT)}")
    assert not bad, "\n".join(bad)


# Lit tests

CHECK_LINE = re.compile(
    r"(-NEXT|-SAME|-DAG|-NOT|-LABEL|-EMPTY|-COUNT-\d+)?(\{LITERAL\})?:",
)


def dead_checks(text: str) -> list[int]:
    """Numbers of the lines that look like checks and are none."""
    prefixes = ["CHECK"]
    for names in re.findall(r"--?check-prefix(?:es)?[= ]([\w,-]+)", text):
        prefixes.extend(names.split(","))
    starts = re.compile(r"^\s*(?://|#)\s*(" + "|".join(sorted(prefixes, key=len)[::-1]) + r")\b")
    return [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if (start := starts.match(line)) and not CHECK_LINE.match(line, start.end())
    ]


def test_dead_checks_are_found() -> None:
    text = "// RUN: x | filecheck %s --check-prefix=ASM\n// CHECK-NEXT %a\n// CHECK-NEXT: %a\n"
    text += "// CHECKS nothing\n// ASM-COUNT-2: fma\n// ASM fma\n# CHECK-COUNT: x\n# CHECK-EMPTY:\n"
    assert dead_checks(text) == [2, 6, 7]


def test_no_dead_checks_in_lit_files() -> None:
    dead = [where(path, line) for path in lit_files() for line in dead_checks(path.read_text())]
    assert not dead, f"no colon, so no check: {dead}"


def test_lit_files_run_and_check_something() -> None:
    assert lit_files()
    for path in lit_files():
        text = path.read_text()
        assert "RUN:" in text, f"{path.relative_to(ROOT)} has no RUN line"
        if "filecheck" in text:
            assert re.search(r"(//|#)\s*[A-Z][\w-]*:", text.replace("RUN:", "")), path


# Packaging


def fresh_tree(folder: Path) -> Path:
    """A copy of this checkout as a clone would have it, links kept."""
    ignored = ignore_patterns(".git", ".venv", "venv", "build", "dist", "*.egg-info", "__pycache__")
    return Path(copytree(ROOT, folder, symlinks=True, ignore=ignored))


def pip(*arguments: str) -> None:
    """Run pip without a network, with the setuptools that is installed here."""
    import setuptools

    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip(f"setuptools {setuptools.__version__} is older than the 77 the build needs")
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "-q")
    command = [sys.executable, "-m", "pip", arguments[0], *offline, *arguments[1:]]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_wheel_holds_mlc_and_nothing_else(tmp_path: Path) -> None:
    pip("wheel", "-w", str(tmp_path), str(fresh_tree(tmp_path / "tree")))
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    info = f"mlc_compiler-{__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"mlc", info}
    modules = {f"mlc/{p.relative_to(ROOT)}" for p in python_files(*FOLDERS)}
    modules |= {f"mlc/{p.name}" for p in python_files("mlc")}
    files = [*(ROOT / "runtime").rglob("*.ll"), *(ROOT / "passes").rglob("*.rules")]
    data = {f"mlc/{p.relative_to(ROOT)}" for p in files}
    missing = (modules | data | {"mlc/py.typed", f"{info}/licenses/LICENSE"}) - names
    assert not missing


def test_zip_without_links_installs(tmp_path: Path) -> None:
    if which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone, to make the archive")
    archive = tmp_path / "mlc.zip"
    subprocess.run(["git", "archive", "--format=zip", f"-o{archive}", "HEAD"], cwd=ROOT, check=True)
    zipfile.ZipFile(archive).extractall(tmp_path / "tree")  # leaves text files for links
    assert (tmp_path / "tree" / "mlc" / "dialects").is_file()
    pip("install", "--target", str(tmp_path / "site"), str(tmp_path / "tree"))
    program = "import mlc.dialects, mlc.frontend; print(mlc.dialects.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-P", "-c", program]
    output = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert Path(output.strip()) == tmp_path / "site" / "mlc" / "dialects" / "__init__.py"


def small_tree(root: Path, *, links: bool) -> Path:
    """A tree of the five folders, empty but for their `__init__.py`, and of `mlc`."""
    (root / "mlc").mkdir(parents=True)
    for name in FOLDERS:
        (root / name).mkdir()
        (root / name / "__init__.py").touch()
        if links:
            (root / "mlc" / name).symlink_to(f"../{name}")
    return root


def test_backend_leaves_good_links_alone(tmp_path: Path) -> None:
    assert mend_links(small_tree(tmp_path / "good", links=True)) == []


def test_backend_mends_missing_and_text_links(tmp_path: Path) -> None:
    root = small_tree(tmp_path / "bad", links=False)
    (root / "mlc" / "passes").write_text("../passes")
    (root / "mlc" / "runtime").symlink_to("../nowhere")
    assert mend_links(root) == list(FOLDERS)
    assert all(os.readlink(root / "mlc" / name) == f"../{name}" for name in FOLDERS)


def test_backend_leaves_a_source_distribution_alone(tmp_path: Path) -> None:
    for name in FOLDERS:
        (tmp_path / "mlc" / name).mkdir(parents=True)
        (tmp_path / "mlc" / name / "__init__.py").touch()
    assert mend_links(tmp_path) == []


def test_backend_compiles_what_stays_in_its_place(tmp_path: Path) -> None:
    root = small_tree(tmp_path / "editable", links=True)
    (root / "passes" / "odd.py").write_text("no Python")  # is for whoever imports it to find out
    compile_sources(root)
    assert all(list((root / name / "__pycache__").glob("__init__.*.pyc")) for name in FOLDERS)


def test_backend_stops_with_one_sentence(tmp_path: Path) -> None:
    root = small_tree(tmp_path / "odd", links=True)
    (root / "mlc" / "passes").unlink()
    (root / "mlc" / "passes").write_text("my notes")
    with pytest.raises(SystemExit, match=r"^mlc: .*passes must be a link to ../passes but is"):
        mend_links(root)
    (root / "mlc" / "passes").unlink()
    (root / "passes" / "__init__.py").unlink()
    with pytest.raises(SystemExit, match=r"^mlc: the folder .*passes is missing or incomplete"):
        mend_links(root)


# Documents


def test_readme_commands_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for line in readme.splitlines() if line.startswith("python3 -m venv .venv && ")]
    assert len(lines) == 2, "one line that runs the main job, one that runs all tests"
    assert "mlc run examples/" in lines[0]
    assert "-m pytest" in lines[1]
    for script in re.findall(r"(?:examples|benchmarks|docs)/[\w/-]+\.py", readme):
        assert (ROOT / script).is_file(), script


def test_changelog_starts_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == __version__


def test_links_between_documents_lead_somewhere() -> None:
    dead = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
        for target in re.findall(r"\]\(([^(),#:\s]+)\)", document.read_text(encoding="utf-8"))
        if not (document.parent / target).exists()
    ]
    assert not dead


def test_no_machine_paths() -> None:
    machine = re.compile(r"/work/\w|/root/\w|/opt/\w|[A-Z]:\\Users|file://")
    text = {".py", ".md", ".toml", ".mlir", ".ll", ".rules", ".sh", "", ".onnx"}
    found: list[str] = []
    for folder in (".", *CODE, "tests", "docs", "examples", "benchmarks", ".ci"):
        for path in (ROOT / folder).glob("*" if folder in (".", "mlc") else "**/*"):
            if path in (Path(__file__), ROOT / ".git") or not path.is_file():
                continue  # git writes .git in a linked work tree
            if path.suffix not in text:
                continue
            if path.name == ".git":  # of a second working tree, a file
                continue
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            found += [where(path, n) for n, line in enumerate(lines, 1) if machine.search(line)]
    assert not found
