"""Functions in files: written by one process, read by another that has no compiler."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc import saved
from mlc.runtime.lapack import lapack_addresses
from tests.test_saved_results import found, reloaded

ROOT = Path(__file__).parent.parent
W = np.random.default_rng(0).standard_normal((16, 8))


def layer(x: Any, k: Any) -> Any:
    return np.tanh(x @ W).sum(1) * 2, x[k]


def step(w: Any, g: Any) -> Any:
    return w - 0.5 * g


def dynamic() -> Any:
    return mlc.compile(dynamic={"x": {0: "B"}})(layer)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A function with an open size, a captured array and a place that may fail."""
    path = tmp_path_factory.mktemp("saved") / "layer.mlc"
    dynamic().lower(np.ones((5, 16)), np.array(2)).compile().save(path)
    return path


IN_ANOTHER = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("xdsl", "llvmlite", "ml_dtypes", "immutabledict"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
import numpy as np
import mlc
f = mlc.load(sys.argv[1])
x = np.random.default_rng(1).standard_normal((7, 16))
sums, row = f(x, np.array(3))
try:
    f(x, np.array(9))
except IndexError as error:
    said = str(error)
mine = [m for m in sys.modules if m.startswith(("mlc.passes", "mlc.lowering", "mlc.frontend"))]
assert not mine, mine
print(sums.tobytes().hex(), row.tobytes().hex(), said.replace(chr(10), " "), sep=chr(10))
print(f.explain().splitlines()[0], "func.func" in f.text())
"""


def test_a_process_without_a_compiler(file: Path) -> None:
    command = [sys.executable, "-c", IN_ANOTHER, str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sums, row, said, explained = done.stdout.splitlines()
    x = np.random.default_rng(1).standard_normal((7, 16))
    found = dynamic()(x, np.array(3))
    assert [sums, row] == [part.tobytes().hex() for part in found]
    assert "index 9 is out of bounds for an axis of size 7" in said
    assert f"{Path(__file__).name}:" in said
    assert "@layer" in explained
    assert explained.endswith("True")


def test_results_in_place_numbers_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "step.mlc"
    w, g = np.ones((64, 64)), np.full((64, 64), 2.0)
    mlc.compile(donate="w")(step).lower(w, g).compile().save(path)
    loaded = mlc.load(path)
    assert loaded(w, g) is w
    assert (w == 0).all()
    assert [arg.donated for arg in loaded.signature.args] == [True, False]


NARROW = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("xdsl", "llvmlite", *sys.argv[2:]):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
import numpy as np
import mlc
try:
    print(mlc.load(sys.argv[1])(np.ones(3, np.float32)).tolist())
except mlc.MlcError as error:
    print(error)
"""


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4"])
def test_captured_arrays_of_types_that_numpy_has_not(tmp_path: Path, dtype: str) -> None:
    import ml_dtypes

    known, path = np.arange(3).astype(getattr(ml_dtypes, dtype)), tmp_path / "narrow.mlc"

    def plus(x: Any) -> Any:
        return x + known.astype(np.float32)

    mlc.compile(plus).lower(np.ones(3, np.float32)).compile().save(path)

    def said(*without: str) -> str:
        command = [sys.executable, "-c", NARROW, str(path), *without]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert said() == "[1.0, 2.0, 3.0]\n"
    assert "pip install ml-dtypes" in said("ml_dtypes")


def test_what_needs_numpys_library(tmp_path: Path) -> None:
    path = tmp_path / "solve.mlc"
    a, b = np.eye(3) * 2, np.ones(3)
    mlc.compile(np.linalg.solve).lower(a, b).compile().save(path)
    assert mlc.load(path)(a, b).tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        mlc.load(path)(np.zeros((3, 3)), b)


ALONE = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("xdsl", "llvmlite"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nothing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "xdsl" else found(name, *a)
import numpy as np
import mlc
if sys.argv[2:]:
    import mlc.runtime.lapack
    mlc.runtime.lapack.lapack_addresses = lambda: None
solve = mlc.load(sys.argv[1])
print(solve(np.eye(3) * 2, np.ones(3)).tolist())
try:
    solve(np.zeros((3, 3)), np.ones(3))
except np.linalg.LinAlgError as error:
    print(str(error).splitlines()[0])
"""


@pytest.mark.skipif(lapack_addresses() is None, reason="no loaded library has LAPACK")
def test_lapack_where_no_compiler_is_installed(tmp_path: Path) -> None:
    """NumPy would be asked through the compiler's packages; it is not where LAPACK is there."""
    path = tmp_path / "solve.mlc"
    mlc.compile(np.linalg.solve).lower(np.eye(3), np.ones(3)).compile().save(path)
    command = [sys.executable, "-c", ALONE, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[0.5, 0.5, 0.5]\nSingular matrix")
    command.append("no LAPACK")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "solve calls np.linalg, and no library of this process has LAPACK" in done.stderr


def test_arguments_of_other_types(file: Path) -> None:
    loaded = mlc.load(file)
    with pytest.raises(
        TypeError,
        match=r"layer takes \(f64\[B, 16\], i64\[\]\), found \(float64\[2, 15\], int64\[\]\)",
    ):
        loaded(np.ones((2, 15)), np.array(0))
    with pytest.raises(TypeError, match="found"):
        loaded(np.ones((2, 16), np.float32), np.array(0))
    with pytest.raises(TypeError, match=r"found \(float64\[2, 16\] strided, int64\)"):
        loaded(np.ones((2, 32))[:, ::2], np.int64(0))
    with pytest.raises(ValueError, match="expected 'text' or 'json'"):
        loaded.explain("html")  # pyright: ignore[reportArgumentType]
    assert json.loads(loaded.explain("json"))["name"] == "layer"


# files that are none


def test_what_is_no_file(tmp_path: Path) -> None:
    other = tmp_path / "other.mlc"
    other.write_bytes(b"PK something")
    with pytest.raises(mlc.MlcError, match="no file that mlc has saved"):
        mlc.load(other)
    with pytest.raises(FileNotFoundError):
        mlc.load(tmp_path / "none.mlc")


def test_damaged_files_are_refused(file: Path, tmp_path: Path) -> None:
    """Cut anywhere, or with a byte changed where one counts."""
    content, rng = file.read_bytes(), random.Random(0)
    path = tmp_path / "damaged.mlc"
    for number in range(120):
        if number % 2:
            damaged = bytearray(content)
            damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        else:
            damaged = content[: rng.randrange(len(content) - 64)]
        path.write_bytes(damaged)
        said = ""
        try:
            loaded = mlc.load(path)
        except mlc.MlcError as error:
            said = str(error)
        else:  # what fills the places between sections is not looked at
            assert number % 2
            assert loaded(np.ones((2, 16)), np.array(0))[1].tolist() == [1.0] * 16
            continue
        assert str(path) in said


def rewritten(content: bytes, change: Callable[[dict[str, Any]], None], version: int) -> bytes:
    """The file with another header, which is whole."""
    _, _, _, size, _ = saved._HEAD.unpack_from(content)  # pyright: ignore[reportPrivateUsage]
    start = saved._HEAD.size  # pyright: ignore[reportPrivateUsage]
    header = json.loads(content[start : start + size])
    change(header)
    text = json.dumps(header).encode()
    head = saved._HEAD.pack(  # pyright: ignore[reportPrivateUsage]
        saved.MAGIC, version, 0, len(text), hashlib.sha256(text).digest()
    )
    body = content[-(-(start + size) // 64) * 64 :]
    first = head + text
    return first + bytes(-len(first) % 64) + body


def arch(header: dict[str, Any]) -> None:
    header["arch"] = "riscv64"


def features(header: dict[str, Any]) -> None:
    header["features"].append("avx512f" if "sve" not in header["features"] else "sve")


def runtime(header: dict[str, Any]) -> None:
    header["support"] = "0" * 64


def places(header: dict[str, Any]) -> None:
    header["sections"][1]["offset"] = 0


def kinds(header: dict[str, Any]) -> None:
    header["artifact"] = {"$kind": "Site"}


def counted(header: dict[str, Any]) -> None:
    header["captured"] *= 9


def shaped(header: dict[str, Any]) -> None:
    header["captured"][0][1] = [-1, 8]


def typed(header: dict[str, Any]) -> None:
    header["artifact"]["signature"]["args"][0]["dims"] = 5


def image(header: dict[str, Any]) -> None:
    header["artifact"]["host"][0]["image"] = {"$image": -1}


def described(header: dict[str, Any]) -> None:
    header["sections"] = [x for x in header["sections"] if x["name"] != "explain.json"]


def deep(header: dict[str, Any]) -> None:
    """More than 900 lists in one another."""
    nested: list[Any] = []
    for _ in range(900):
        nested = [nested]
    header["artifact"]["sites"] = nested


def nothing(header: dict[str, Any]) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "said", "version"),
    [
        (arch, "for riscv64; this machine is", 1),
        (runtime, "whose runtime is not that of mlc", 1),
        (places, "section .* overlaps another", 1),
        (kinds, "damaged, or no file of mlc", 1),
        (counted, "damaged, .*: 9 arrays for 3 arguments; save it again", 1),
        (shaped, r"damaged, .*: array 0 is \(-1, 8\), expected", 1),
        (typed, "damaged, .*: ArgSpec.dims is 5, expected a list of int or str or Dim", 1),
        (image, "damaged, .*: part -1 of . is named", 1),
        (described, "damaged, .*: it has no section explain.json", 1),
        (deep, "damaged, or no file of mlc", 1),
        (nothing, "its format is 2, this mlc .* reads 1", 2),
    ],
)
def test_files_for_others(
    file: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], said: str, version: int
) -> None:
    path = tmp_path / "other.mlc"
    path.write_bytes(rewritten(file.read_bytes(), change, version))
    with pytest.raises(mlc.MlcError, match=said):
        mlc.load(path)


VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 7, 2**31, 2**63, -(2**63), 2**64, 1.5, None, True, "", "x", "f32", "é", "B//0"),
    *("a" * 9999, "|O8", "V0", [], {}, [[]], {"$image": 99}, {"$dim": []}, {"$dim": "(" * 500}),
    *({"$kind": "Site"}, {"$kind": []}),
)


def places_of(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each value inside."""
    names: list[Any] = [*value] if isinstance(value, dict) else [*range(len(value))]
    more = [places_of(value[x], (*at, x)) for x in names if isinstance(value[x], dict | list)]
    return [*((*at, x) for x in names), *(place for found in more for place in found)]


def another_value(rng: random.Random, part: str = "") -> Callable[[dict[str, Any]], None]:
    """A change of one value of a header, or of a part of it."""

    def change(header: dict[str, Any]) -> None:
        *way, last = rng.choice([x for x in places_of(header) if part in ("", x[0])])
        for name in way:
            header = header[name]
        header[last] = rng.choice(VALUES)

    return change


def test_headers_with_other_values_that_are_whole(file: Path, tmp_path: Path) -> None:
    """As who writes such files wrongly would write them: the digests are right."""
    content, change, path = file.read_bytes(), another_value(random.Random(1)), tmp_path / "o.mlc"
    refused: list[str] = []
    for _ in range(200):
        path.write_bytes(rewritten(content, change, 1))
        try:
            loaded = mlc.load(path)
        except mlc.MlcError as error:
            refused.append(str(error))
        else:
            assert loaded.text()
            assert loaded.explain()
    assert len(refused) > 100
    assert all(str(path) in said and len(said) < 1000 for said in refused)


def test_results_that_a_file_says_wrongly(tmp_path: Path) -> None:
    path, change = tmp_path / "f.mlc", another_value(random.Random(2), "returned")
    reloaded(found, path, np.array([1.0, -2.0, 3.0]))
    content, refused = path.read_bytes(), 0
    for _ in range(150):
        path.write_bytes(rewritten(content, change, 1))
        try:
            mlc.load(path)
        except mlc.MlcError as error:
            refused += str(path) in str(error)
    assert refused > 75


def test_texts_that_are_none(file: Path, tmp_path: Path) -> None:
    content, path = file.read_bytes(), tmp_path / "other.mlc"
    at: list[int] = []

    def change(header: dict[str, Any]) -> None:
        (section,) = (x for x in header["sections"] if x["name"] == "trace")
        section["sha256"] = hashlib.sha256(bytes(section["bytes"])).hexdigest()
        at.extend((section["offset"], section["bytes"]))

    damaged = bytearray(rewritten(content, change, 1))
    body = -(-(48 + int.from_bytes(damaged[8:16], "little")) // 64) * 64
    damaged[body + at[0] : body + sum(at)] = bytes(at[1])
    path.write_bytes(damaged)
    with pytest.raises(mlc.MlcError, match=rf"{path}: damaged in trace: .*; save it again"):
        mlc.load(path).text()


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero")):
        with pytest.raises(mlc.MlcError, match=f"{path}: a folder or device; expected a file of"):
            mlc.load(path)


def test_instructions_that_are_missing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse2 pni\n")
    monkeypatch.setattr("mlc.runtime.features._CPUINFO", cpuinfo)
    path = tmp_path / "avx512.mlc"
    path.write_bytes(rewritten(file.read_bytes(), features, 1))
    with pytest.raises(mlc.MlcError, match="which this machine lacks; compile it with target="):
        mlc.load(path)
    cpuinfo.unlink()
    assert mlc.load(path).name == "layer"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError):
        dynamic().lower(np.ones((5, 16)), np.array(2)).compile().save(tmp_path / "f.mlc")
    assert not list(tmp_path.iterdir())


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        dynamic().lower(np.ones((5, 16)), np.array(2)).compile().save(tmp_path / "no" / "f.mlc")
