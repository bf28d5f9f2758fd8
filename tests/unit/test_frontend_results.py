"""What compiled functions return beside arrays: objects, collections, iterators, methods."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict, defaultdict, deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mlc

X = np.arange(3.0)


class Model:
    kinds = ("a", "b")

    def __init__(self, w: Any, steps: int = 0) -> None:
        self.w, self.steps = w, steps
        self.parent: Any = None
        self.children: list[Model] = []

    @classmethod
    def of(cls, w: Any) -> Model:
        return cls(w * 2, 7)

    def __add__(self, other: Model) -> Model:
        return Model(self.w + other.w, self.steps + other.steps)

    def __call__(self, x: Any) -> Any:
        return self.w * x

    def step(self, x: Any) -> Model:
        self.w = self.w + x
        self.steps += 1
        return self


class Slotted:
    __slots__ = ("__w", "empty", "log")

    def __init__(self, w: Any) -> None:
        self.__w, self.log = w, [w.sum()]

    @property
    def w(self) -> Any:
        return self.__w


class Table(dict[str, Any]):
    name = ""


def assert_like(found: Any, wanted: Any) -> None:
    """The same classes with the same values in them."""
    assert type(found) is type(wanted)
    if isinstance(wanted, np.ndarray | np.generic):
        np.testing.assert_array_equal(found, wanted)
    elif isinstance(wanted, list | tuple | deque):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_like(one, other)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        assert_like(list(found.values()), list(wanted.values()))
    elif not isinstance(wanted, type) and hasattr(wanted, "__dict__"):
        assert_like(vars(found), vars(wanted))
    else:
        assert found == wanted


def grouped(x: Any) -> Any:
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    groups["a"].append(x)
    groups["b"].append(x.sum())
    return groups


def named(x: Any) -> Any:
    made = Table(x=x)
    made.name = "table"
    return made


OBJECTS: dict[str, Any] = {
    "object": lambda x: Model(x + 1, 3),
    "class method": Model.of,
    "operator": lambda x: Model(x) + Model(x * 2, 4),
    "in containers": lambda x: [Model(x), {"k": (Model(x * 2), None)}],
    "without traced values": lambda x: Model(2.5),
    "default dict": grouped,
    "dict of the user's": named,
    "ordered": lambda x: OrderedDict(b=x, a=x.sum()),
    "counter": lambda x: Counter("abca"),
    "deque": lambda x: deque([x, x * 2], maxlen=3),
    "namespace": lambda x: SimpleNamespace(x=x, n=3),
    "types": lambda x: (x.dtype, Model, np.float32, len),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_made_at_each_call(name: str) -> None:
    compiled = mlc.compile(OBJECTS[name])
    for x in (X, X + 5):
        assert_like(compiled(x), OBJECTS[name](x))
        assert_like(compiled.reference(x), OBJECTS[name](x))
    first, second = compiled(X), compiled(X)
    assert isinstance(first, tuple) or first is not second


def test_slots_and_private_names() -> None:
    found = mlc.compile(lambda x: Slotted(x * 2))(X)
    assert found.w.tolist() == [0.0, 2.0, 4.0]
    assert found.log == [6.0]
    assert not hasattr(found, "empty")


def test_an_option_of_a_collection_stays() -> None:
    found = mlc.compile(lambda x: (deque([x], maxlen=3), grouped(x)))(X)
    assert found[0].maxlen == 3
    assert found[1].default_factory is list


def test_objects_that_lead_to_each_other() -> None:
    def tree(x: Any) -> Any:
        root, child = Model(x), Model(x * 2)
        child.parent = root
        root.children = [child, child]
        return root, child

    root, child = mlc.compile(tree)(X)
    assert root.children[0] is root.children[1] is child
    assert child.parent is root
    assert child.w.tolist() == [0.0, 2.0, 4.0]


def test_objects_among_the_arguments_are_themselves() -> None:
    model = Model(X)
    step = mlc.compile(Model.step)
    for k in range(1, 4):
        assert step(model, X) is model
        assert model.steps == k
        assert model.w.tolist() == (X * (k + 1)).tolist()
    bound = mlc.compile(model.step)
    assert bound(X) is model
    found = mlc.compile(lambda m, x: [m, x + 1, m])(model, X)
    assert found[0] is found[2] is model


def test_an_object_that_is_replaced_is_the_one_before() -> None:
    def swap(model: Any, new: Any) -> Any:
        old = model.parent
        model.parent = new
        return old

    model, first, second = Model(X), Model(X), Model(X)
    model.parent = first
    compiled = mlc.compile(swap)
    assert compiled(model, second) is first
    assert compiled(model, first) is second
    assert model.parent is first


def test_methods_of_objects_that_are_made() -> None:
    call = mlc.compile(lambda x: Model(x).step)(X)
    assert call(X).w.tolist() == [0.0, 2.0, 4.0]


def test_an_object_that_is_called_can_be_compiled() -> None:
    model = Model(X)
    compiled = mlc.compile(model)
    assert compiled(X).tolist() == [0.0, 1.0, 4.0]
    model.w = model.w + 1
    assert compiled(X).tolist() == [0.0, 2.0, 6.0]


def generator(x: Any) -> Any:
    for k in range(3):
        yield x * k


ITERATORS: dict[str, Any] = {
    "function": generator,
    "expression": lambda x: (v + 1 for v in [x, x * 2]),
    "from": lambda x: itertools.chain(generator(x), [x]),
    "map": lambda x: map(abs, [-x]),
    "zip": lambda x: zip([x, x], [1, 2], strict=True),
    "enumerate": lambda x: enumerate([x]),
    "list": lambda x: iter([x]),
    "reversed": lambda x: reversed([x, x * 2]),
    "values": lambda x: {"a": x, "b": x + 1}.values(),
    "items": lambda x: {"a": x, "b": x + 1}.items(),
    "keys": lambda x: {"a": x}.keys(),
    "nothing": lambda x: iter(()),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_are_results(name: str) -> None:
    compiled = mlc.compile(ITERATORS[name])
    for x in (X, X - 1):
        found = compiled(x)
        assert_like(list(found), list(ITERATORS[name](x)))
    pair = mlc.compile(lambda x: (ITERATORS[name](x), x))(X)
    assert_like(list(pair[0]), list(ITERATORS[name](X)))


def test_an_iterator_that_does_not_end() -> None:
    with pytest.raises(mlc.NotSupportedError, match="more than 100,000 elements"):
        mlc.compile(lambda x: itertools.count())(X)


def test_functions_that_are_made_are_refused() -> None:
    with pytest.raises(mlc.NotSupportedError, match="returns a function that it makes"):
        mlc.compile(lambda x: lambda y: x + y)(X)


class Point:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def norm(self) -> Any:
        return np.sqrt((self.x**2 + self.y**2).sum())


def test_registered_classes_are_containers() -> None:
    assert mlc.register_container(Point, ("x", "y")) is Point
    point = Point(X, X + 1)
    found = mlc.compile(lambda p: Point(p.y, p.x * 2))(point)
    assert (type(found), found.y.tolist()) == (Point, [0.0, 2.0, 4.0])
    gradient = mlc.grad(Point.norm)(point)
    np.testing.assert_allclose(gradient.y, point.y / point.norm())
    batch = Point(np.stack([X, X * 2]), np.stack([X, X]))
    assert mlc.vmap(Point.norm)(batch).shape == (2,)
    with pytest.raises(TypeError, match="expected a class"):
        mlc.register_container(point, ("x",))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="expected names of attributes"):
        mlc.register_container(Point, "xy")


def test_zeros_of_both_signs_are_two_numbers() -> None:
    scale = 0.0
    outside = mlc.compile(lambda x: x / scale)
    static = mlc.compile(lambda x, s: x / s, static="s")
    for scale in (0.0, -0.0, 0.0, float("nan"), float("nan"), -0.0):
        with np.errstate(all="ignore"):
            wanted = np.ones(2) / scale
        np.testing.assert_array_equal(outside(np.ones(2)), wanted)
        np.testing.assert_array_equal(static(np.ones(2), scale), wanted)
    assert len(static.stats().artifacts) == 3


@pytest.mark.parametrize("dtype", [">f8", ">i4", ">c16"])
def test_results_have_this_machines_byte_order(dtype: str) -> None:
    def copies(x: Any) -> Any:
        return x, x.copy(), np.array(x), x.astype(x.dtype), x[1:], np.sort(x), np.zeros(2, x.dtype)

    x = np.array([3, 1, 2], dtype)
    for found, wanted in zip(mlc.compile(copies)(x), copies(x), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == x.dtype.newbyteorder("=")
        assert found.astype(x.dtype).dtype.str == wanted.dtype.str


def test_arguments_keep_their_byte_order() -> None:
    @mlc.compile
    def negated(x: Any) -> Any:
        x[1:] = -x[1:]
        return x.dtype == np.float64

    x = np.array([1.0, 2.0, 3.0], ">f8")
    assert negated(x)
    assert x.dtype.str == ">f8"
    assert x.tolist() == [1.0, -2.0, -3.0]
