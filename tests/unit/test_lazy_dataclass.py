"""Dataclasses whose methods wait are the standard library's in all that can be seen."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from mlc import registry
from mlc.lazy_dataclass import dataclass

STANDARD, LAZY = dataclasses.dataclass, dataclass


@LAZY(frozen=True)
class Pair:
    """For `pickle`, by its name."""

    left: int
    right: tuple[int, ...] = ()


def classes(make: Any) -> list[Any]:
    """The same classes by one decorator."""

    @make(frozen=True)
    class Point:
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list[str], compare=False)
        hidden: int = field(default=7, repr=False)
        KIND: ClassVar[str] = "point"

    @make(frozen=True, kw_only=True)
    class Named(Point):
        z: float
        y: int = 5

    @make
    class Mutable:
        x: int
        twice: int = field(init=False)

        def __post_init__(self) -> None:
            self.twice = 2 * self.x

    @make(frozen=True)
    class Own:  # noqa: PLW1641 - frozen: the decorator adds it
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __repr__(self) -> str:
            return "own"

    @make(frozen=True, eq=False)
    class ById:
        x: int = 1

    @make(frozen=True)
    class Nothing:
        pass

    return [Point, Named, Mutable, Own, ById, Nothing]


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 3), {"hidden": 4}),
    ((1,), {"z": 0.5}),
    ((1,), {"z": 0.5, "y": 1, "names": ["a"]}),
    ((), {}),
    ((1, 2, 3, 4, 5), {}),
    ((), {"what": 1}),
]


def outcome(work: Callable[[], object]) -> str:
    """What comes of it, or the kind of error."""
    try:
        return repr(work()).replace("<locals>.", "")
    except (TypeError, AttributeError) as error:
        return type(error).__name__


def outcomes(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """What comes of everything that can be done with an object."""

    def new() -> Any:
        return kind(*args, **kwargs)

    return [
        outcome(new),
        outcome(lambda: new() == new()),
        outcome(lambda: hash(new()) == hash(new())),
        outcome(lambda: setattr(new(), "x", 3)),
        outcome(lambda: asdict(new())),
        outcome(lambda: replace(new(), x=9)),
    ]


@pytest.mark.parametrize("number", range(6))
def test_is_what_the_standard_library_makes(number: int) -> None:
    for args, kwargs in ARGUMENTS:
        standard, lazy = (outcomes(classes(x)[number], args, kwargs) for x in (STANDARD, LAZY))
        assert standard == lazy


@pytest.mark.parametrize("number", range(6))
def test_facts_are_those_of_the_standard_library(number: int) -> None:
    def facts(make: Any) -> list[Any]:
        by_fields, by_pattern = classes(make)[number], classes(make)[number]
        found = [(f.name, f.type, f.init, f.repr, f.compare, f.kw_only) for f in fields(by_fields)]
        return [
            found,
            by_pattern.__match_args__,
            [(p.name, p.kind) for p in inspect.signature(by_fields.__init__).parameters.values()],
        ]

    assert facts(STANDARD) == facts(LAZY)


def test_classes_of_the_standard_library_may_stand_above_and_below() -> None:
    @STANDARD(frozen=True)
    class Top:
        a: int

    @LAZY(frozen=True)
    class Middle(Top):
        b: int = 1

    @STANDARD(frozen=True)
    class Bottom(Middle):
        c: int = 2

    assert repr(Bottom(0)).endswith("Bottom(a=0, b=1, c=2)")
    with pytest.raises(FrozenInstanceError):
        Middle(0).b = 3  # pyright: ignore[reportAttributeAccessIssue]


def test_subclasses_may_have_attributes_of_their_own() -> None:
    def outcomes_of(make: Any) -> list[str]:
        @make(frozen=True)
        class Base:
            a: int

        class Free(Base):
            pass

        free: Any = Free
        free = free(1)
        free.more = 2
        del free.more
        work = (lambda: setattr(free, "a", 3), lambda: delattr(free, "a"), lambda: repr(free))
        return [outcome(each) for each in work]

    assert outcomes_of(STANDARD) == outcomes_of(LAZY)


def test_patterns_match_before_an_object_was_made_by_init() -> None:
    @LAZY(frozen=True)
    class Seen:
        a: int

    bare = object.__new__(Seen)
    object.__setattr__(bare, "a", 3)
    match bare:
        case Seen(found):
            assert found == 3


def test_copies_by_pickle_are_equal() -> None:
    pair = Pair(1, (2, 3))
    again = pickle.loads(pickle.dumps(pair))
    assert again == pair
    assert hash(again) == hash(pair)
    assert {pair: 1}[again] == 1


def test_many_threads_make_the_first_object() -> None:
    for _ in range(20):

        @LAZY(frozen=True)
        class Shared:
            a: int
            b: int = 2

        gate, made = threading.Barrier(8), list[Any]()

        def work(gate: threading.Barrier = gate, made: list[Any] = made, kind: Any = Shared):
            gate.wait()
            made.append(kind(1))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [Shared(1)] * 8


def test_every_dataclass_of_mlc_can_be_made() -> None:
    """What a definition gets wrong would show when an object is made."""
    for name in registry.PASSES:
        registry.load(name)
    kinds = {
        kind
        for name, module in list(sys.modules.items())
        if name.startswith("mlc.")
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == name and dataclasses.is_dataclass(kind)
    }
    assert len(kinds) > 200
    for kind in kinds:
        fields(kind)


@pytest.mark.parametrize("number", range(6))
def test_comparisons_stay_what_they_are_when_often_asked(number: int) -> None:
    def found(make: Any, calls: int) -> list[Any]:
        kind = classes(make)[number]

        def of(x: float) -> Any:
            return kind(*[x][: number != 5], **({"z": 0.5} if number == 1 else {}))

        same, other, strange = of(1), of(2), of(float("nan"))
        for _ in range(calls):
            same.__eq__(other)
        equal = same == other, same == of(1), same == 1, strange == of(float("nan"))
        return [*equal, strange == replace(strange), kind.__hash__ is None]

    assert found(STANDARD, 0) == found(LAZY, 0) == found(LAZY, 200)


def test_hashes_stay_when_they_are_often_asked() -> None:
    kind = classes(LAZY)[0]
    known = {kind(1): "one", kind(2, 3): "two"}
    for _ in range(200):
        assert known[kind(1)] == "one"
        assert known[kind(2, 3)] == "two"
        assert kind(3) not in known


XDSL = """
import dataclasses, sys
{first}
import xdsl.dialects.arith, xdsl.dialects.builtin as builtin, xdsl.dialects.vector
import xdsl.parser, xdsl.pattern_rewriter, xdsl.printer

@dataclasses.dataclass(frozen=True)
class Own:
    x: int

attributes = [builtin.StringAttr("a"), builtin.i32, builtin.IntegerAttr(1, 32),
              builtin.UnitAttr(), builtin.VectorType(builtin.f32, [2, 3]),
              xdsl.dialects.arith.FastMathFlagsAttr("none")]
for x in attributes:
    print(x, repr(x), [x == y for y in attributes], len({{x, x}}))
    for name in ("data", "width", "value", "other"):
        try:
            setattr(x, name, 1)
        except AttributeError as error:
            print(type(error).__name__)
kinds = {{
    kind
    for name, module in sorted(sys.modules.items())
    if name.startswith("xdsl.")
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__ == name and dataclasses.is_dataclass(kind)
}}
for kind in sorted(kinds, key=lambda x: (x.__module__, x.__qualname__)):
    found = [(f.name, f.init, f.repr, f.compare, f.kw_only) for f in dataclasses.fields(kind)]
    has = [name for name in ("__init__", "__repr__", "__eq__") if name in vars(kind)]
    says = kind.__dataclass_params__.frozen, kind.__match_args__, kind.__hash__ is None
    print(kind.__module__, kind.__qualname__, found, has, *says)
print(dataclasses.dataclass.__module__, Own(1), hash(Own(1)) == hash(Own(1)))
"""


def test_classes_of_xdsl_are_what_they_are_without_us() -> None:
    def said(first: str) -> str:
        program = XDSL.format(first=first)
        return subprocess.check_output([sys.executable, "-W", "error", "-c", program], text=True)

    wait = """
import mlc.lazy_dataclass, xdsl.dialects.builtin
waits = mlc.lazy_dataclass._Fact
assert isinstance(vars(xdsl.dialects.builtin.TupleType)["__dataclass_fields__"], waits)
"""
    assert said(wait) == said("")
