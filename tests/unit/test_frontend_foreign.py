"""Arrays and tables of other libraries, numbers of Python, and what notebooks show."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

import array
import sys
import traceback
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mlc

X = np.arange(6.0)
TABLES = '''
import numpy as np


class Column:
    """A column of a table, as pandas has them."""

    def __init__(self, values):
        self.values = np.array(values)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def to_numpy(self, dtype=None):
        return self.values.astype(dtype)

    def mean(self):
        return float(self.values.mean())

    def pop(self):
        return self.values[0]


class Table:
    def __init__(self, **columns):
        self.columns = columns

    def __getitem__(self, name):
        return Column(self.columns[name])

    def __array__(self, dtype=None, copy=None):
        return np.stack(list(self.columns.values()), 1)

    def scaled(self, by, *, name):
        return self[name].values * by
'''


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A library that is installed: its functions are not traced."""
    module = ModuleType("tables")
    code = compile(TABLES, "/somewhere/site-packages/tables.py", "exec")
    exec(code, vars(module))
    monkeypatch.setitem(sys.modules, "tables", module)
    return module


USES: dict[str, Any] = {
    "column": lambda t, x: x * t["a"],
    "method": lambda t, x: x * t["a"].to_numpy(),
    "with an option": lambda t, x: x * t["a"].to_numpy(dtype="f4"),
    "number": lambda t, x: x * t["a"].mean(),
    "arguments": lambda t, x: x + t.scaled(2.0, name="b"),
    "attribute": lambda t, x: x * t["b"].values,
    "whole": lambda t, x: x @ np.asarray(t),
}


@pytest.mark.parametrize("name", USES)
def test_what_a_table_says_is_read_at_each_call(name: str, tables: Any) -> None:
    table = tables.Table(a=np.arange(3.0), b=np.arange(3.0) + 1)
    use = USES[name]
    compiled = mlc.compile(lambda x: use(table, x))
    x = np.ones(3)
    for k in range(4):
        np.testing.assert_allclose(compiled(x), use(table, x))
        if k == 2:
            table = tables.Table(a=np.ones(3), b=np.ones(3))
        else:
            table.columns["a"] = table.columns["a"] + 1
            table.columns["b"] = table.columns["b"] * 3
    assert compiled.stats().compilations <= 3


def test_methods_that_change_a_table_are_refused(tables: Any) -> None:
    column = tables.Column([1.0, 2.0])
    with pytest.raises(mlc.NotSupportedError, match=r"column is changed by pop\(\)"):
        mlc.compile(lambda x: x + column.pop())(X)


def test_columns_by_name_are_passed_one_by_one(tables: Any) -> None:
    with pytest.raises(IndexError, match=r"pass its columns one by one, such as table\['a'\]"):
        mlc.compile(lambda t: t["a"])(tables.Table(a=X, b=X))


def test_buffers_from_outside() -> None:
    for held in (array.array("d", X), memoryview(array.array("d", X)), bytearray(b"abcdef")):
        compiled = mlc.compile(lambda x: x * HELD)
        globals()["HELD"] = held
        np.testing.assert_array_equal(compiled(X), X * np.asarray(held))
        held[0] = 9  # pyright: ignore[reportArgumentType]
        np.testing.assert_array_equal(compiled(X), X * np.asarray(held))


HELD: Any = None


@pytest.mark.parametrize("dtype", [">f8", ">i4", ">c16"])
def test_captured_arrays_of_another_byte_order(dtype: str) -> None:
    w = (X + 1).astype(dtype)
    compiled = mlc.compile(lambda x: x * w)
    np.testing.assert_array_equal(compiled(X), X * w)
    w[1] = 7
    np.testing.assert_array_equal(compiled(X), X * w)


# numbers of Python's


def items(x: Any, n: Any) -> Any:
    small = n.astype(np.float32) * n[3].item()
    return x.item(3), x.sum().item(), x[:1].item(), (x > 3).item(5), small, n.item(2), x.item((4,))


def lists(x: Any) -> Any:
    total = 0
    for v in x.tolist():
        if v > 2:
            total += v
    return x.tolist(), x.sum().tolist(), (x.reshape(2, 3) > 1).tolist(), total


def test_items_and_lists_are_numbers_of_pythons() -> None:
    n = np.arange(6, dtype=np.int32)
    for found, wanted in (
        (mlc.compile(items)(X, n), items(X, n)),
        (mlc.compile(lists)(X), lists(X)),
    ):
        assert repr(found) == repr(wanted)
    with pytest.raises(ValueError, match=r"only convert an array of size 1"):
        mlc.compile(lambda x: x.item())(X)
    many = np.arange(1001.0)
    assert repr(mlc.compile(lambda x: x.tolist())(many)) == repr(many.tolist())


# parts of complex numbers, and the order of Fortran


def parts(z: Any) -> Any:
    r = z.real
    z.real[1:] = 1
    z.imag[0] = 3
    z.imag *= 2
    z.real = z.real + 1
    r += 5
    np.imag(z)[::2] -= 1
    return z, r


def test_parts_of_complex_numbers_are_views() -> None:
    z = X + 1j * X[::-1]
    ours, theirs = z.copy(), z.copy()
    found, wanted = mlc.compile(parts)(ours), parts(theirs)
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])
    np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(TypeError, match="does not have imaginary part to set"):
        mlc.compile(lambda x: setattr(x, "imag", 1.0))(X)


def fortran(x: Any) -> Any:
    line = x.ravel(order="F")
    line[0] = 99  # a copy
    return line, x, x.reshape(3, 2, order="F"), x.flatten("F"), x[0].reshape((3, -1), order="F")


def test_the_order_of_fortran() -> None:
    x = X.reshape(2, 3)
    for found, wanted in zip(mlc.compile(fortran)(x.copy()), fortran(x.copy()), strict=True):
        np.testing.assert_array_equal(found, wanted)


# notebooks


def wrong(x: Any) -> Any:
    return x @ np.ones((5, 3))


def test_tracebacks_have_the_users_frames() -> None:
    with pytest.raises(mlc.ShapeError) as caught:
        mlc.compile(wrong)(X)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "wrong"
    assert len(names) <= 4


def test_notebooks_show_programs_and_explanations() -> None:
    lowered = mlc.compile(lambda x: np.tanh(x) + 1).lower(X)
    assert "mlc.tanh" in lowered._repr_html_()
    explained = lowered.explain()
    assert isinstance(explained, str)
    assert explained._repr_html_().startswith("<iframe srcdoc=")  # pyright: ignore[reportAttributeAccessIssue]
