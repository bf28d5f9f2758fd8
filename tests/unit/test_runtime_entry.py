"""The native entry against the slow one and against NumPy."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import ClassVar, cast

import ml_dtypes
import numpy as np
import pytest

from mlc.dialects.dims import Dim
from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.runtime import jit, layout
from tests.unit.native_kernels import ADD, copy_item, echo_sizes, host_object, load, load_both

VECTOR = ArgSpec("array", "f32", ("B",))
ADD_SIGNATURE = EntrySignature((VECTOR, VECTOR), (ResultSpec("f32", ("B",)),), ("B",))


Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def array(value: object) -> Array:
    """A result that must be an array."""
    assert isinstance(value, np.ndarray)
    return cast(Array, value)


def refused(*args: object, **kwargs: object) -> object:
    """The fallback of these tests: says what it got."""
    return "slow", args, kwargs


def test_offsets_hold_in_this_process() -> None:
    assert layout.layout_fault() is None


@pytest.mark.parametrize("count", [0, 1, 7, 8, 1000])
def test_add(count: int) -> None:
    native, slow = load_both(ADD, "add", ADD_SIGNATURE)
    x, y = np.arange(count, dtype=np.float32), np.ones(count, np.float32)
    for call in (native, slow):
        result = array(call(x, y))
        assert result.dtype == np.float32
        assert result.flags.owndata
        assert result.flags.c_contiguous
        np.testing.assert_array_equal(result, x + y)


class Subclass(np.ndarray[tuple[int, ...], np.dtype[np.float32]]):
    """An ndarray that is not exactly one."""


def misaligned() -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Four float32 that begin at an odd address."""
    return np.zeros(17, np.int8)[1:].view(np.float32)


X = np.arange(4, dtype=np.float32)

NOT_TAKEN: dict[str, tuple[object, ...]] = {
    "too few": (X,),
    "too many": (X, X, X),
    "dtype": (X, X.astype(np.float64)),
    "same size, other kind": (X, X.astype(np.int32)),
    "rank": (X, X.reshape(2, 2)),
    "unequal sizes": (X, np.zeros(5, np.float32)),
    "strided": (X, np.zeros(8, np.float32)[::2]),
    "reversed": (X, X[::-1]),
    "byte order": (X, X.astype(">f4")),
    "misaligned": (X, misaligned()),
    "subclass": (X, X.view(Subclass)),
    "list": (X, [1.0, 2.0, 3.0, 4.0]),
    "scalar": (X, np.float32(1)),
    "None": (X, None),
}


@pytest.mark.parametrize("case", NOT_TAKEN)
def test_what_is_not_taken_goes_on_unchanged(case: str) -> None:
    args = NOT_TAKEN[case]
    for call in load_both(ADD, "add", ADD_SIGNATURE, slow=refused):
        kind, seen, keywords = call(*args)  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        assert kind == "slow"
        assert keywords == {}
        assert all(a is b for a, b in zip(seen, args, strict=True))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def test_keywords_go_on() -> None:
    for call in load_both(ADD, "add", ADD_SIGNATURE, slow=refused):
        kind, seen, keywords = call(X, y=X)  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        assert kind == "slow"
        assert len(seen) == 1  # pyright: ignore[reportUnknownArgumentType]
        assert keywords["y"] is X


def test_exceptions_of_the_fallback_pass() -> None:
    def fail(*args: object) -> object:
        raise TypeError("from the dispatcher")

    for call in load_both(ADD, "add", ADD_SIGNATURE, slow=fail):
        with pytest.raises(TypeError, match="from the dispatcher"):
            call(1, 2)


def test_reference_counts_stay() -> None:
    native, _ = load_both(ADD, "add", ADD_SIGNATURE, slow=refused)
    before = sys.getrefcount(X)
    for _ in range(100):
        native(X, X)
        native(X, None)
    assert sys.getrefcount(X) == before


POLYNOMIALS = EntrySignature(
    (
        ArgSpec("array", "f32", ("4*B + 1", 3)),
        ArgSpec("array", "f64", ("B + C",)),
        ArgSpec("array", "i32", ("B*C", "C // 2")),
    ),
    (ResultSpec("i64", (2,)),),
    ("B", "C"),
)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((9, 3), (7,), (10, 2)), [2, 5]),
        (((1, 3), (4,), (0, 2)), [0, 4]),
        (((10, 3), (7,), (10, 2)), None),  # 4*B + 1 = 10
        (((9, 4), (7,), (10, 2)), None),
        (((9, 3), (1,), (0, 0)), None),  # C = -1
        (((9, 3), (7,), (11, 2)), None),
        (((9, 3), (7,), (10, 3)), None),
    ],
)
def test_symbols_are_solved(
    shapes: tuple[tuple[int, ...], ...], expected: list[int] | None
) -> None:
    arrays = [np.zeros(s, d) for s, d in zip(shapes, ("f4", "f8", "i4"), strict=True)]
    for call in load_both(echo_sizes(2), "echo_sizes", POLYNOMIALS, slow=lambda *_: None):
        result = call(*arrays)
        assert (result is None) == (expected is None)
        if expected is not None:
            np.testing.assert_array_equal(array(result), expected)


def test_strides_in_elements() -> None:
    strided = ArgSpec("array", "f64", ("N", "M"), layout="general")
    plain = ArgSpec("array", "f32", ("N",), layout="general")
    signature = EntrySignature((strided, plain), (ResultSpec("i64", (5,)),), ("N", "M"))
    x = np.zeros((6, 8))[::-2, ::4]
    y = np.zeros(3, np.float32)
    records = np.zeros(3, [("a", "f4"), ("b", "i1")])["a"]
    for call in load_both(echo_sizes(5), "echo_sizes", signature, slow=lambda *_: "slow"):
        np.testing.assert_array_equal(array(call(x, y)), [3, 2, -16, 4, 1])
        transposed = x.T.copy().T
        np.testing.assert_array_equal(array(call(transposed, y)), [3, 2, 1, 3, 1])
        assert call(x, records) == "slow"  # strides of 5 bytes


@pytest.mark.parametrize(
    ("kind", "dtype", "value", "expected"),
    [
        ("float", "f32", 0.1, np.float32(0.1)),
        ("float", "f64", -0.0, np.float64(-0.0)),
        ("float", "f32", 1e300, np.float32(np.inf)),
        ("float", "f32", 1, None),
        ("float", "f32", np.float64(1), None),
        ("int", "i64", -5, np.int64(-5)),
        ("int", "i64", 2**63, None),
        ("int", "i32", 2**31 - 1, np.int32(2**31 - 1)),
        ("int", "i32", -(2**31) - 1, None),
        ("int", "f32", 2**24 + 1, np.float32(2**24)),
        ("int", "f64", 7, np.float64(7)),
        ("int", "i64", True, None),
        ("bool", "bool", True, np.bool_(True)),
        ("bool", "f32", True, np.float32(1)),
        ("bool", "i64", False, np.int64(0)),
        ("bool", "bool", 1, None),
    ],
)
def test_python_scalars(kind: str, dtype: str, value: object, expected: object) -> None:
    bits = {"bool": 8, "i32": 32, "f32": 32, "i64": 64, "f64": 64}[dtype]
    signature = EntrySignature((ArgSpec(kind, dtype),), (ResultSpec(dtype),))  # pyright: ignore[reportArgumentType]
    for call in load_both(copy_item(bits), "copy_item", signature, slow=lambda *_: None):
        result = call(value)
        assert type(result) is type(expected)
        if expected is not None:
            assert repr(result) == repr(expected)


def test_zero_dimensional_and_bool_arrays() -> None:
    signature = EntrySignature((ArgSpec("array", "bool"),), (ResultSpec("bool"),))
    for call in load_both(copy_item(8), "copy_item", signature):
        assert call(np.array(True)) is np.True_


def test_several_results_and_none() -> None:
    scalar = ResultSpec("f32")
    arg = ArgSpec("array", "f32")
    one = np.array(2.5, np.float32)
    for results, as_tuple, expected in (
        ((scalar, scalar), None, tuple),
        ((scalar,), True, tuple),
        ((scalar,), None, np.float32),
        ((), None, tuple),
        ((), False, type(None)),
    ):
        signature = EntrySignature((arg,), results, (), as_tuple)
        text = (
            copy_item(32)
            if results
            else ADD.replace("@add", "@copy_item").replace("load i64, ptr %sizes", "add i64 0, 0")
        )
        for call in load_both(text, "copy_item", signature):
            result = call(one)
            assert type(result) is expected
            if isinstance(result, tuple):
                assert len(result) == len(results)  # pyright: ignore[reportUnknownArgumentType]
                assert not results or result[0] == 2.5


def test_bf16_has_no_number_in_the_object() -> None:
    signature = EntrySignature((ArgSpec("array", "bf16", (1,)),), (ResultSpec("bf16", (1,)),))
    for call in load_both(copy_item(16), "copy_item", signature, slow=lambda *_: "slow"):
        result = array(call(np.array([1.5], ml_dtypes.bfloat16)))
        assert result.dtype == ml_dtypes.bfloat16
        assert result[0] == 1.5
        assert call(np.array([1], np.int16)) == "slow"


def test_donated_argument_comes_back() -> None:
    donated = ArgSpec("array", "f32", ("B",), donated=True)
    signature = EntrySignature((donated, VECTOR), (ResultSpec("f32", ("B",), alias_of=0),), ("B",))
    general = EntrySignature(
        (donated, ArgSpec("array", "f32", ("C",), layout="general")),
        (ResultSpec("f32", ("B",), alias_of=0),),
        ("B", "C"),
    )
    for call in load_both(ADD, "add", signature, slow=lambda *_: "slow"):
        x = np.arange(6, dtype=np.float32)
        assert call(x, np.ones(6, np.float32)) is x
        np.testing.assert_array_equal(x, np.arange(6) + 1)
        assert call(x, x) == "slow"
        assert isinstance(call(x[:3], x[3:]), np.ndarray)
        assert call(x[:4], x[2:]) == "slow"
        x.flags.writeable = False
        assert call(x, np.ones(6, np.float32)) == "slow"
    for call in load_both(ADD, "add", general, slow=lambda *_: "slow"):
        x = np.arange(12, dtype=np.float32)
        assert isinstance(call(x[:4], x[:3:-1]), np.ndarray)
        assert call(x[:4], x[:2:-1]) == "slow"


STATUS = """
define i32 @status(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) {
  %x = load ptr, ptr %args
  %status = load i32, ptr %x
  %site = getelementptr i8, ptr %ctx, i64 40
  %value = getelementptr i8, ptr %ctx, i64 48
  %extent = getelementptr i8, ptr %ctx, i64 72
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %fail, label %ok
fail:
  store i64 3, ptr %site
  store i64 -1, ptr %value
  store i64 10, ptr %extent
  ret i32 %status
ok:
  %out = load ptr, ptr %outs
  %word = load i64, ptr %site
  store i64 %word, ptr %out
  ret i32 0
}
"""


def test_status_becomes_an_exception_and_the_next_call_is_clean() -> None:
    signature = EntrySignature((ArgSpec("int", "i32"),), (ResultSpec("i64"),))
    for call in load_both(STATUS, "status", signature):
        with pytest.raises(IndexError, match="site 3: index -1 is out of bounds for size 10"):
            call(1)
        assert call(0) == 0
        with pytest.raises(KeyboardInterrupt):
            call(3)
        with pytest.raises(SystemError, match="status 9"):
            call(9)
        assert call(0) == 0


# grows its arena to x[0] bytes, writes its last byte, returns the arena's size
ARENA = """
define i32 @arena(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) {
  %x = load ptr, ptr %args
  %bytes = load i64, ptr %x
  %grow.at = getelementptr i8, ptr %ctx, i64 56
  %grow = load ptr, ptr %grow.at
  %failed = call i32 %grow(ptr %ctx, i64 %bytes)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %fail, label %ok
fail:
  ret i32 2
ok:
  %arena = load ptr, ptr %ctx
  %last = sub i64 %bytes, 1
  %end = getelementptr i8, ptr %arena, i64 %last
  store i8 1, ptr %end
  %size.at = getelementptr i8, ptr %ctx, i64 8
  %size = load i64, ptr %size.at
  %out = load ptr, ptr %outs
  store i64 %size, ptr %out
  ret i32 0
}
"""


def test_arena_grows_and_stays() -> None:
    signature = EntrySignature((ArgSpec("int", "i64"),), (ResultSpec("i64"),))
    loaded = load(ARENA, "arena", signature)
    call = loaded.builtin
    assert call(100) == 100
    assert call(3 << 20) == 3 << 20
    assert call(100) == 3 << 20
    with pytest.raises(MemoryError, match=r"9,223,372,036,854,775,000 bytes"):
        call(9_223_372_036_854_775_000)
    assert call(100) == 100


class Holder:
    """A fallback that holds the entry whose fallback it is, as a dispatcher does."""

    def __init__(self, held: object) -> None:
        self.held = held

    def __call__(self, *args: object) -> object:
        return self.held


def test_code_is_released_with_the_function() -> None:
    gc.collect()
    before = jit.loaded_count()
    loaded = load(ADD, "add", ADD_SIGNATURE)
    builtin: Callable[..., object] = loaded.builtin
    assert jit.loaded_count() == before + 1
    loaded.close()
    del loaded
    assert builtin(X, X) is not None  # the builtin alone keeps its code
    del builtin
    assert jit.loaded_count() == before
    with_cycle = load(ADD, "add", ADD_SIGNATURE)
    with_cycle.set_slow(Holder(with_cycle))
    del with_cycle
    gc.collect()
    assert jit.loaded_count() == before


def test_builtin_as_call_of_a_class() -> None:
    first = load(ADD, "add", ADD_SIGNATURE)

    class Compiled:
        __call__: ClassVar[Callable[..., object]] = first.builtin

    compiled = Compiled()

    def replace(*args: object) -> object:
        Compiled.__call__ = lambda *_: "replaced"
        gc.collect()
        return "last of the old"

    first.set_slow(replace)
    np.testing.assert_array_equal(array(compiled(X, X)), X + X)
    del first
    assert compiled(None, None) == "last of the old"
    assert compiled(X, X) == "replaced"


def test_two_threads_run_one_function() -> None:
    # a long work estimate: the GIL is released, so the calls overlap and need contexts of their own
    call = load(ADD, "add", ADD_SIGNATURE, work_ns=Dim.symbol("B") * 100).builtin
    failures: list[int] = []

    def work(seed: int) -> None:
        x = np.full(20_000, seed, np.float32)
        results = (array(call(x, x)) for _ in range(200))
        failures.extend(seed for result in results if not np.array_equal(result, x + x))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_objects_hold_no_address_of_this_process() -> None:
    from mlc.lowering.entry_shim import emit_shim

    image = host_object(emit_shim(ADD_SIGNATURE, "add"))
    for symbol, address in layout.python_symbols().items():
        assert address.to_bytes(8, "little") not in image, symbol


def test_unsolvable_symbols_are_refused() -> None:
    from mlc.dialects.signature import solve

    signature = EntrySignature((ArgSpec("array", "f32", ("B*C",)),), (), ("B", "C"))
    with pytest.raises(ValueError, match="B, C cannot be computed from the arguments' sizes"):
        solve(signature)
