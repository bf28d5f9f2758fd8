"""A function is what was loaded, whatever its file says by now."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.trace.definitions import definition_of
from mlc.frontend.trace.source import site_at
from tests.unit.test_numpy_names import assert_same

X = np.arange(1.0, 4.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def write(path: Path, text: str) -> None:
    """A file that is newer than any before it."""
    newest = path.stat().st_mtime if path.exists() else 0.0
    path.write_text(text)
    os.utime(path, (newest + 10, newest + 10))


def load(folder: Path, name: str, text: str) -> ModuleType:
    write(folder / f"{name}.py", text)
    importlib.invalidate_caches()
    return importlib.import_module(name)


TEXT = "import mlc, numpy as np\n@mlc.compile\ndef f(x):\n    return helper(x) * {}\n"
HELPER = "def helper(x):\n    return np.tanh(x) + {}\n"


def test_a_reloaded_module_is_the_new_one(folder: Path) -> None:
    module = load(folder, "reloaded_module", TEXT.format(2) + HELPER.format(1))
    assert_same(module.f(X), (np.tanh(X) + 1) * 2)
    for factor in (3, 4):
        write(folder / "reloaded_module.py", TEXT.format(factor) + HELPER.format(5))
        old = module.f
        importlib.reload(module)
        assert_same(module.f(X), (np.tanh(X) + 5) * factor)
        assert old is not module.f


def test_an_edit_before_the_first_call_changes_nothing(folder: Path) -> None:
    module = load(folder, "edited_module", TEXT.format(2) + HELPER.format(1))
    plain = load(folder, "edited_plain", "import numpy as np\nK = 1.0\n" + HELPER.format("K"))
    f = mlc.compile(plain.helper)
    write(folder / "edited_module.py", TEXT.format(9) + HELPER.format(9))
    write(folder / "edited_plain.py", "import numpy as np\nK = 1.0\n" + HELPER.format("7"))
    assert definition_of(plain.helper.__code__) is not None
    assert_same(module.f(X), (np.tanh(X) + 1) * 2)
    assert_same(f(X), np.tanh(X) + 1)


def test_a_helper_whose_text_is_gone_runs_as_it_is(folder: Path) -> None:
    text = "import numpy as np\nK = 1.0\nW = np.ones(3)\ndef helper(x):\n    return x * K + W{}\n"
    module = load(folder, "gone_module", text.format(""))
    write(folder / "gone_module.py", text.format(" * 100"))
    f = mlc.compile(lambda x: module.helper(x) * 1)
    assert definition_of(module.helper.__code__) is None
    assert_same(f(X), X + 1)
    module.K = 3.0
    assert_same(f(X), X * 3 + 1)
    module.W = np.arange(3.0)
    assert_same(f(X), X * 3 + np.arange(3.0))


def test_a_file_that_is_gone(folder: Path) -> None:
    module = load(folder, "deleted_module", TEXT.format(2) + HELPER.format(1))
    (folder / "deleted_module.py").unlink()
    assert_same(module.f(X), (np.tanh(X) + 1) * 2)


def test_one_text_in_two_files(folder: Path) -> None:
    text = "import mlc\n@mlc.compile\ndef f(x, i):\n    return x[i] + x[7]\n"
    for name in ("first_copy", "second_copy"):
        module = load(folder, name, text)
        with pytest.raises(IndexError) as found:
            module.f(X, np.array([0]))
        last = traceback.extract_tb(found.value.__traceback__)[-1]
        assert (Path(last.filename).name, last.lineno) == (f"{name}.py", 4)
    text = "import mlc\n@mlc.compile\ndef f(x, i):\n    return x[i]\n"
    for name in ("third_copy", "fourth_copy"):
        module = load(folder, name, text)
        with pytest.raises(IndexError, match=rf"{name}\.py:4"):
            module.f(X, np.array([9]))


def test_lambdas_of_one_line_are_told_apart() -> None:
    pair: tuple[Any, Any] = (lambda x: x * 2, lambda x: np.tanh(x) + 1)
    nested: Any = lambda x: (lambda x: x + 1)(x) * 3  # noqa: E731
    assert_same(mlc.compile(pair[0])(X), X * 2)
    assert_same(mlc.compile(pair[1])(X), np.tanh(X) + 1)
    assert_same(mlc.compile(nested)(X), (X + 1) * 3)
    for function in (*pair, nested):
        assert definition_of(function.__code__) is not None


def test_equal_codes_with_many_in_one_another_are_told_apart_at_once() -> None:
    """`==` of such code objects takes as long as 2**depth: no cache asks for it."""
    depth = 60
    heads = [f"{' ' * k}def f():" for k in range(depth)]
    text = "\n".join([*heads, f"{' ' * depth}return 1"])
    codes = [compile(text, name, "exec") for name in ("one", "other")]
    sites = [site_at(code.co_consts[0], 0) for code in codes]
    assert [site.filename for site in sites] == ["one", "other"]
