"""Which program serves a call, how often functions are compiled, and what the callable is."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import mlc
from tests.unit.test_numpy_names import assert_same


def double(x: Any) -> Any:
    """Twice x."""
    return x * 2


module_level = mlc.compile(double)


@mlc.compile
def decorated(x: Any, y: Any = 1.0) -> Any:
    """x times y."""
    return x * y


def ones(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape) + 1


def compiled_count(function: Any) -> int:
    return len(function.stats().artifacts)


def test_two_programs_without_dynamic_one_with() -> None:
    free, named = mlc.compile(double), mlc.compile(dynamic={"x": {0: "B"}})(double)
    for n in range(2, 30):
        x = ones(n, 3)
        assert_same(free(x), double(x))
        assert_same(named(x), double(x))
    assert compiled_count(free) == 2
    assert compiled_count(named) == 1
    assert "x_0 became symbolic" in free.stats().artifacts[1].because


def test_equal_sizes_share_a_symbol_until_they_differ() -> None:
    @mlc.compile
    def f(x: Any, y: Any) -> Any:
        return x.sum() + y.sum()

    f(ones(3), ones(3))
    f(ones(4), ones(4))
    assert f.stats().artifacts[1].signature == "f64[x_0], f64[x_0]"
    f(ones(4), ones(5))
    assert f.stats().artifacts[2].signature == "f64[x_0], f64[y_0]"
    f(ones(9), ones(2))
    assert compiled_count(f) == 3


def test_size_one_is_another_signature() -> None:
    @mlc.compile
    def f(x: Any, y: Any) -> Any:
        return x + y

    y = ones(1, 4)
    for n in (3, 5, 1, 7):
        x = ones(n, 4)
        assert_same(f(x, x), x + x)
        assert_same(f(x, y), x + y)
        assert_same(f(y, x), y + x)


def test_dynamic_true_and_annotations() -> None:
    f = mlc.compile(dynamic=True)(double)
    for shape in ((2, 3), (3, 3), (5, 2)):
        assert_same(f(ones(*shape)), double(ones(*shape)))
    assert compiled_count(f) == 1

    @mlc.compile
    def g(x: mlc.TensorSpec("N", 2, dtype="f64")) -> Any:  # pyright: ignore[reportInvalidTypeForm, reportUnknownParameterType]
        return x.sum(axis=0)

    for n in (2, 3, 4):
        assert_same(g(ones(n, 2)), ones(n, 2).sum(axis=0))
    assert compiled_count(g) == 1
    assert '"N", 2' in g.lower().text("trace")


def test_sizes_that_decide_alike_share_a_program() -> None:
    @mlc.compile
    def f(x: Any) -> Any:
        total = x[0]
        for k in range(1, x.shape[0]):
            total = total + x[k]
        return total if x.shape[0] > 3 else total * 2

    for n in (2, 3, 4, 3, 9, 2, 30, 5):
        assert_same(f(ones(n, 2)), f.__wrapped__(ones(n, 2)))
    assert len(f.stats().artifacts) == 3  # of 2; of 3 and fewer; of 4 and more


def test_sizes_whose_number_is_needed_are_specialised() -> None:
    names = {2: 1.0, 3: 2.0, 4: 5.0}

    @mlc.compile
    def f(x: Any) -> Any:
        return x * names[x.shape[0]]

    for n in (2, 3, 4, 3):
        assert_same(f(ones(n, 2)), f.__wrapped__(ones(n, 2)))
    stats = f.stats()
    assert len(stats.artifacts) == 3
    assert any("specialised" in r and "test_frontend_dispatch.py" in r for r in stats.remarks)


def test_integers_that_reach_a_shape_are_static() -> None:
    @mlc.compile
    def f(x: Any, n: int, s: float) -> Any:
        return x.reshape(n, -1).sum(axis=0) * s

    x = ones(12)
    for n, s in ((3, 1.0), (4, 2.0), (3, 5.0)):
        assert_same(f(x, n, s), f.__wrapped__(x, n, s))
    assert compiled_count(f) == 2
    assert "n" in f.stats().remarks[0]


def test_branches_on_scalars_and_static_arguments() -> None:
    @mlc.compile(static="mode")
    def f(x: Any, mode: Any, flag: bool, n: int) -> Any:
        y = x + 1 if mode == (1, 2) else x - 1
        y = y * 3 if flag else y
        return y * 10 if n > 2 else y

    for mode in ((1, 2), (2, 1)):
        for flag in (True, False):
            for n in (1, 5):
                assert_same(f(ones(3), mode, flag, n), f.__wrapped__(ones(3), mode, flag, n))
    with pytest.raises(TypeError, match="cannot be hashed"):
        f(ones(3), [1], True, 2)


def test_assumptions_are_checked() -> None:
    @mlc.compile(dynamic={"x": {0: "B"}})
    def f(x: Any) -> Any:
        return x[3:].sum() + x[:2].sum()

    for n in (5, 3, 2, 7, 1, 0):
        assert_same(f(ones(n)), f.__wrapped__(ones(n)))
    g = mlc.compile(dynamic={"x": {0: "B"}})(lambda x: x[2])
    assert g(ones(4)) == 3
    with pytest.raises(IndexError, match="index 2 is out of bounds for axis 0 with size 1"):
        g(ones(1))
    with pytest.raises(ValueError, match="no identity"):
        mlc.compile(dynamic=True)(lambda x: x.max())(ones(0))


def test_declared_symbols_are_checked() -> None:
    f = mlc.compile(dynamic={"x": {0: "B"}, "y": {0: "B"}})(lambda x, y: x + y)
    assert_same(f(ones(3), ones(3)), ones(3) * 2)
    with pytest.raises(mlc.ShapeError, match="same symbol B, but they have 3 and 4 elements"):
        f(ones(3), ones(4))


def test_kwargs_and_defaults() -> None:
    assert_same(decorated(ones(3)), ones(3))
    assert_same(decorated(ones(3), 2.0), ones(3) * 2)
    assert_same(decorated(y=ones(3), x=ones(3)), ones(3) ** 2)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        decorated()  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        decorated(ones(3), z=1)  # pyright: ignore[reportCallIssue]


def test_the_callable_is_native_for_plain_arrays() -> None:
    f = mlc.compile(double)
    f(ones(3))
    assert inspect.isbuiltin(type(f).__call__)
    f(ones(3).astype(np.float32))
    for dtype in (np.float64, np.float32, np.int32, np.int64, bool):
        x = ones(5).astype(dtype)
        assert_same(f(x), x * 2)


def test_numpy_numbers_take_the_short_way() -> None:
    """A NumPy scalar has a dtype of its own; the full dispatch would cost more than small work."""
    in_place = mlc.compile(donate="x")(lambda x, rate: (x - rate * x, rate))
    for f in (mlc.compile(product), in_place):
        f(ones(3), np.float32(2))
        f._dispatcher.call = unexpected  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        found = f(ones(3), np.float32(0.5))
        result = found[0] if isinstance(found, tuple) else found
        assert_same(result, ones(3) * np.float32(0.5))
        with pytest.raises(AssertionError, match="full dispatch"):
            f(ones(3), np.float64(2))  # another type, another program


def product(x: Any, rate: Any) -> Any:
    return x * rate


def unexpected(*_: object) -> object:
    raise AssertionError("full dispatch")


def test_it_looks_like_the_function() -> None:
    assert decorated.__name__ == "decorated"
    assert decorated.__doc__ == "x times y."
    assert list(inspect.signature(decorated).parameters) == ["x", "y"]
    assert pickle.loads(pickle.dumps(decorated)) is decorated
    assert copy.deepcopy(decorated) is decorated
    assert repr(decorated) == "<compiled function decorated>"
    assert isinstance(decorated, mlc.Compiled)


def test_stats_in_words() -> None:
    f = mlc.compile(double)
    for n in (2, 3):
        f(
            ones(n),
        )
    stats = f.stats()
    assert stats.compilations + stats.cache_hits == 2
    assert stats.trace_s > 0
    assert "f64[x_0]: sizes differ" in str(stats)


def test_lowered() -> None:
    low = decorated.lower(mlc.TensorSpec("B", 3, dtype="f32"), 2.0)
    for level in ("trace", "tensor", "plan", "tiles", "loops", "code"):
        assert low.text(level)
    executable = low.compile()
    assert executable.cost(B=8).flops == 24
    x = ones(8, 3).astype(np.float32)
    assert_same(executable(x, 2.0), x * 2)
    with pytest.raises(ValueError, match="no level"):
        low.text("nonsense")  # pyright: ignore[reportArgumentType]


def test_two_threads_share_a_function() -> None:
    f = mlc.compile(double)
    failures: list[object] = []

    def work(seed: int) -> None:
        for n in range(2, 12):
            x = ones(n + seed)
            if not np.array_equal(f(x), x * 2):
                failures.append((seed, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert compiled_count(f) <= 3


class Foreign:
    """An array of another library, shared through DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __array_namespace__(self) -> Any:
        return Foreign

    @staticmethod
    def from_dlpack(array: Any) -> Foreign:
        return Foreign(np.from_dlpack(array))


def test_dlpack_in_and_out() -> None:
    f = mlc.compile(double)
    for _ in range(2):
        found = f(Foreign(ones(3)))
        assert isinstance(found, Foreign)
        assert_same(found.array, ones(3) * 2)


def test_import_is_light() -> None:
    program = (
        "import sys, mlc; print([m for m in ('xdsl', 'llvmlite', 'numpy') if m in sys.modules])"
    )
    output = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert output.strip() == "[]"
    for name in mlc.__all__:
        assert getattr(mlc, name) is not None
    assert set(mlc.__all__) <= set(dir(mlc))
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = mlc.nonsense
