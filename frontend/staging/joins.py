"""
What two bodies left, joined: one value for each variable, whichever of them runs (python.md §2).

Python values that are equal stay Python's, numbers and arrays become results of `mlc.if`, and
containers are joined leaf by leaf. A variable that cannot be joined says so where it is used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dtypes import BOOL, DType
from mlc.dialects.errors import DTypeError, MlcError, ShapeError
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.values import (
    common_dtype,
    common_origins,
    convert,
    is_weak,
    lift,
    number,
    spread,
)
from mlc.frontend.staging.journal import entries_of
from mlc.frontend.staging.options import alike, is_number_or_array, joined_options
from mlc.frontend.staging.sized import ZERO, cut, hidden_in, padded, room_for
from mlc.frontend.staging.sometimes import Absent, Sometimes, lasts, may_be_absent, merged
from mlc.frontend.staging.variants import Variants
from mlc.frontend.staging.wholes import has_class, open_class, python_class
from mlc.frontend.trace.containers import Structure, flatten, leaf_names, unflatten
from mlc.frontend.trace.kinds import is_array
from mlc.frontend.trace.source import Site, site_of
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import Either, Whole
from mlc.lazy_dataclass import dataclass


class _Unbound:
    def __repr__(self) -> str:
        return "unbound"


UNBOUND = _Unbound()
"""What a variable holds that has no value."""


class _Raised:
    def __repr__(self) -> str:
        return "raised"


RAISED = _Raised()
"""What is returned where an error is raised: anything, as nobody looks at it."""


@dataclass(frozen=True)
class Held:
    """What a variable holds at the end of a body; its arrays' values, as they are there."""

    value: Any
    structure: Structure
    leaves: tuple[Any, ...]
    values: tuple[SSAValue | None, ...]

    def same(self, other: Held) -> bool:
        """Whether both are one object; what it holds has a variable of its own."""
        return self.value is other.value

    def names(self, name: str) -> list[str]:
        """How a user writes each leaf."""
        return leaf_names(unflatten(self.structure, self.leaves), name)

    def again(self) -> Any:
        """The value as it was there, whatever has been undone since."""
        pairs = zip(self.leaves, self.values, strict=True)
        leaves = [x if v is None else Tracer(here(), v, weak=x.weak) for x, v in pairs]
        return unflatten(self.structure, leaves)

    @staticmethod
    def of(value: Any) -> Held:
        """In the body, before its changes are undone."""
        leaves, structure = flatten(value)
        values = tuple(x.value if isinstance(x, Tracer) else None for x in leaves)
        return Held(value, structure, tuple(leaves), values)


def _any_counted(held: dict[Any, Held]) -> bool:
    from mlc.frontend.staging.counted import Counted

    return any(isinstance(x.value, Counted) for x in held.values())


def contents_held(contents: Any) -> dict[Any, Held]:
    """What an object holds, by its places."""
    return {key: Held.of(value) for key, value in entries_of(contents).items()}


def _of_places(*alone: Any) -> Misfit:
    """The error of keys or attributes that are not the same in both bodies."""
    text = "does not hold the same places in both branches: "
    why, remedy = "they are set in another order.", "Set them in one order."
    for key in alone:
        why = f"{key!r} is set in one of them only."
        remedy = f"Give {key!r} a value before the branch, or in both branches."
    return Misfit(NotSupportedError, text + why, remedy)


class Misfit(Exception):  # noqa: N818 - it never reaches a user
    """Two values that cannot be joined: the error for it, and what it says after the name."""

    def __init__(self, kind: type[MlcError], text: str, remedy: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.remedy = remedy

    def error(self, name: str, site: Site | None = None) -> MlcError:
        """The error about a variable."""
        return located(self.kind, f"{name} {self.text}", remedy=self.remedy, site=site)


@dataclass(frozen=True)
class Hole:
    """The place of a result in a joined container."""

    __mlc_leaf__ = True
    number: int
    weak: bool
    origins: frozenset[str]
    shows: tuple[Tracer, ...] = ()  # what it is on some way, or a part of it
    sizes: tuple[int | None, ...] = ()  # results that hold the sizes of axes that differ
    either: tuple[SSAValue, tuple[Tracer | None, Tracer | None]] | None = None
    """By a condition, arrays of which it is one; None: a new one."""
    whole: tuple[int | SSAValue, type[Any]] | None = None
    """The result, or a value before, that says where it is one of Python's."""


class Join:
    """The values that the two regions of an `mlc.if` give, and what is made of its results."""

    def __init__(self, condition: Tracer, blocks: tuple[Block, Block], apart: bool = False) -> None:
        self.apart = apart  # what has dtypes that differ is one or the other
        self.condition = condition
        self.blocks = blocks
        self.pairs: list[tuple[SSAValue, SSAValue]] = []
        self._known: dict[tuple[object, ...], Hole] = {}

    def value(self, name: str, x: Held, y: Held) -> Any:
        """The joined value, with holes. Raises Misfit."""
        if x.value is RAISED or y.value is RAISED:
            return self.beside_zeros(y, 1) if x.value is RAISED else self.beside_zeros(x, 0)
        fits = x.structure == y.structure and not isinstance(x.value, Variants)
        if fits and alike(x, y, self.apart):
            return self._alike(name, x, y)
        if x.value is y.value and x.values == y.values:
            return x.value
        found = joined_options(self, name, x, y)
        if found is None:
            return self._alike(name, x, y)
        return found

    def _alike(self, name: str, x: Held, y: Held) -> Any:
        if x.structure != y.structure:
            raise Misfit(NotSupportedError, _differ(x.value, y.value), _SAME_KIND)
        names = x.names(name)
        leaves = [
            self._leaf(names[k], (x.leaves[k], x.values[k]), (y.leaves[k], y.values[k]))
            for k in range(len(x.leaves))
        ]
        return unflatten(x.structure, leaves)

    def contents(
        self, name: str, x: dict[Any, Held], y: dict[Any, Held], obj: Any
    ) -> dict[Any, Any]:
        """
        What an object holds in both bodies, place by place; of a series, rows of which there are so
        many or so many. Raises Misfit.
        """
        series = isinstance(obj, list | deque)
        if series and (list(x) != list(y) or _any_counted(x) or _any_counted(y)):
            return self._counted(name, x, y)
        if (keys := merged(list(x), list(y))) is None:
            raise _of_places()
        return {key: self._place(name, obj, key, x, y) for key in keys}

    def _place(self, name: str, obj: Any, key: Any, x: dict[Any, Held], y: dict[Any, Held]) -> Any:
        """What an object holds at a place, which one of the bodies may not have set."""
        if key in x and key in y and x[key].same(y[key]):
            return x[key].value
        if not (key in x and key in y) and not may_be_absent(obj, key):
            raise _of_places(key)
        absent = Held.of(Absent(key, obj))
        left, right = x.get(key, absent), y.get(key, absent)
        found = self.value(f"{name}[{key!r}]", left, right)
        if not any(isinstance(side.value, Absent | Sometimes) for side in (left, right)):
            return found
        kept = lasts(left.structure) and lasts(right.structure)
        if not kept or not isinstance(found, Variants):
            raise _of_places(key)
        return Sometimes(found.chosen, found.options)

    def _counted(self, name: str, x: dict[Any, Held], y: dict[Any, Held]) -> dict[Any, Any]:
        from mlc.frontend.staging import counted

        if x.keys() == y.keys() and all(x[k].same(y[k]) for k in x):
            return {k: held.value for k, held in x.items()}
        sides = [[held.again() for held in side.values()] for side in (x, y)]
        try:
            layout = counted.layout_of([*sides[0], *sides[1]])
        except counted.MixedError as error:
            text = f"is a list whose length only the compiled function knows, with {error} in it."
            remedy = "Append numbers, arrays of one shape, or tuples of such, all alike."
            raise Misfit(NotSupportedError, text, remedy) from None
        fixed = any(isinstance(part, counted.Fixed) for side in sides for part in side)
        kind = counted.Fixed if fixed else counted.Counted
        room = counted.room_for_both(*map(counted.room_of, sides), fixed=fixed)
        made: list[Any] = []
        for block, side in zip(self.blocks, sides, strict=True):
            with here().inside(block):
                made.append(counted.made(side, layout, room, kind))
        known = all(isinstance(one.count, int) for one in made)
        same = known and made[0].count == made[1].count
        found: list[Held] = []
        for block, one in zip(self.blocks, made, strict=True):
            with here().inside(block):
                found.append(Held.of(one if same else kind(lift(one.count), one.rows)))
        return {0: self._alike(name, found[0], found[1])}

    def beside_zeros(self, x: Held, side: int) -> Any:
        """The value that one side gives; zeros, which nobody looks at, on the other."""
        leaves: list[Any] = []
        for leaf, value in self._numbered(x, side):
            if value is None or here().visible(leaf.known):  # the same array, on this way
                leaves.append(leaf)
                continue
            hidden = hidden_in(self.blocks[side], leaf.dims)
            none = tuple(ZERO if h else d for d, h in zip(leaf.dims, hidden, strict=True))
            values = [value, value]
            with here().inside(self.blocks[1 - side]):
                values[1 - side] = number(0, leaf.row, none)
            if any(hidden):
                pair = [self._lifted(k, leaf, v) for k, v in enumerate(values)]
                made = self._sized(pair, leaf.row)
                leaves.append(replace(made, weak=leaf.weak, origins=leaf.origins))
                continue
            whole = None
            if leaf.whole is not None:
                flags = (leaf.whole.condition, False)
                whole = self._flag(flags if side == 0 else flags[::-1]), leaf.whole.kind
            made = self._hole((values[0], values[1]), leaf.weak, leaf.origins)
            leaves.append(replace(made, whole=whole))
        return unflatten(x.structure, leaves)

    def _numbered(self, x: Held, side: int) -> Iterator[tuple[Any, SSAValue | None]]:
        """Leaves and their values; a size that the body itself computes is a number."""
        for leaf, value in zip(x.leaves, x.values, strict=True):
            if isinstance(leaf, SymbolicDim) and any(hidden_in(self.blocks[side], (leaf.dim,))):
                size = self._lifted(side, leaf, None)
                yield size, size.known
            else:
                yield leaf, value

    def arrays(self, x: SSAValue, y: SSAValue) -> Hole:
        """Two states of one array."""
        return self._hole((x, y), weak=False, origins=frozenset())

    def _hole(self, pair: tuple[SSAValue, SSAValue], weak: bool, origins: frozenset[str]) -> Hole:
        self.pairs.append(pair)
        return Hole(len(self.pairs) - 1, weak, origins)

    def _leaf(self, name: str, left: Any, right: Any) -> Any:
        """One leaf: (object, value in its body) of both sides."""
        (x, in_x), (y, in_y) = left, right
        if x is y and in_x is in_y:
            return x
        if not (isinstance(x, Tracer) or isinstance(y, Tracer)) and equal_values(x, y):
            return x
        if x is y and isinstance(x, Tracer) and x.is_place and x.lasts():
            return x  # whatever both have written to it
        if not (is_number_or_array(x) and is_number_or_array(y)):
            unset = x is UNBOUND or y is UNBOUND
            remedy = f"Give {name} a value before, or in both branches." if unset else _SAME_KIND
            raise Misfit(NotSupportedError, _differ(x, y), remedy)
        key = (id(x), id(y), in_x, in_y)
        if key in self._known and isinstance(x, Tracer):
            return self._known[key]
        tracers = [self._lifted(side, *one) for side, one in enumerate((left, right))]
        dtype = _common(name, tracers, self.apart)
        if (
            len({len(tracer.dims) for tracer in tracers}) == 1
            and tracers[0].dims != tracers[1].dims
        ):
            shows = tuple(z for z in (x, y) if isinstance(z, Tracer))
            return replace(self._sized(tracers, dtype), shows=shows)
        values: list[SSAValue] = []
        dims = max((tracer.dims for tracer in tracers), key=len)
        for block, tracer in zip(self.blocks, tracers, strict=True):
            with here().inside(block):
                values.append(spread(convert(tracer.value, dtype), dims))
        weak = all(python_class(z) is not None or is_weak(z) for z in (x, y))
        origins = common_origins((self.condition, x, y)) if weak else frozenset[str]()
        arrays = [z if isinstance(z, Tracer) and z.dims else None for z in (x, y)]
        one_kind = all(z is None or (z.row is dtype and z.dims == dims) for z in arrays)
        lasting = [z if one_kind and z is not None and z.lasts() else None for z in arrays]
        either = None
        if any(z is not None for z in lasting):
            either = self.condition.value, (lasting[0], lasting[1])
        shows = [z for z, k in zip(arrays, lasting, strict=True) if z is not None and k is None]
        made = replace(
            self._hole((values[0], values[1]), weak, origins),
            shows=tuple(shows),
            either=either,
            whole=None if dims else self._whole((x, y), dtype),
        )
        self._known[key] = made
        return made

    def _whole(self, sides: Sequence[Any], dtype: DType) -> tuple[int | SSAValue, type[Any]] | None:
        """Where a number is one of Python's, which a body left, although the other did not."""
        kind = open_class(sides, dtype, self.apart)
        if kind is None:
            return None
        return self._flag([has_class(leaf, kind) for leaf in sides]), kind

    def _flag(self, sides: Sequence[SSAValue | bool]) -> int | SSAValue:
        """
        A result of two truth values; out of `mlc.if` where they are there without the bodies: a
        loop that looks for a maximum keeps both in registers, without a jump.
        """
        values: list[SSAValue] = []
        if all(isinstance(x, bool) or here().visible(x) for x in sides):
            values = [number(x, BOOL) if isinstance(x, bool) else x for x in sides]
            return here().emit(SelectOp, self.condition.value, *values)
        for block, x in zip(self.blocks, sides, strict=True):
            with here().inside(block):
                values.append(number(x, BOOL) if isinstance(x, bool) else x)
        return self.arrays(values[0], values[1]).number

    def _sized(self, tracers: Sequence[Tracer], dtype: DType) -> Hole:
        """Arrays whose sizes differ: room for both, and how much of it is used."""
        x, y = tracers
        room = room_for(x.dims, y.dims)
        wide: list[SSAValue] = []
        for block, tracer in zip(self.blocks, tracers, strict=True):
            with here().inside(block):
                wide.append(padded(convert(tracer.value, dtype), room))
        sizes: list[int | None] = []
        for dims in zip(x.dims, y.dims, strict=True):
            if dims[0] == dims[1]:
                sizes.append(None)
                continue
            numbers: list[SSAValue] = []
            for block, dim in zip(self.blocks, dims, strict=True):
                with here().inside(block):
                    numbers.append(lift_size(dim).value)
            sizes.append(self._hole((numbers[0], numbers[1]), False, frozenset()).number)
        return replace(self._hole((wide[0], wide[1]), False, frozenset()), sizes=tuple(sizes))

    def _lifted(self, side: int, leaf: Any, value: SSAValue | None) -> Tracer:
        with here().inside(self.blocks[side]):
            if value is None:
                found = lift(leaf)
                return Tracer(here(), found.value, weak=found.weak or isinstance(leaf, bool))
            return Tracer(here(), value, weak=leaf.weak)


def filled(value: Any, results: Sequence[SSAValue]) -> Any:
    """The value with results in its holes; equal holes are the same array."""
    made: dict[int, Tracer] = {}

    def fill(leaf: Any) -> Any:
        if not isinstance(leaf, Hole):
            return leaf
        if leaf.number not in made:
            value = results[leaf.number]
            if leaf.sizes:
                value = cut(value, [None if k is None else results[k] for k in leaf.sizes])
            made[leaf.number] = Tracer(here(), value, weak=leaf.weak, origins=leaf.origins)
            if leaf.whole is not None:
                flag, kind = leaf.whole
                known = results[flag] if isinstance(flag, int) else flag
                made[leaf.number].whole = Whole(known, kind)
            for other in leaf.shows:
                made[leaf.number].show(other)
            if leaf.either is not None:
                condition, sides = leaf.either
                new = Tracer(here(), value)
                then, otherwise = (new if x is None else x for x in sides)
                made[leaf.number].may_be(Either.of(condition, then, otherwise))
        return made[leaf.number]

    leaves, structure = flatten(value)
    return unflatten(structure, [fill(leaf) for leaf in leaves])


def equal_values(x: Any, y: Any) -> bool:
    """Whether two Python values are one: equal numbers of one class, and the same sign of zero."""
    if x is y:
        return True
    if type(x) is not type(y) or is_array(x):
        return False
    try:
        return bool(x == y) and repr(x) == repr(y)
    except Exception:  # noqa: BLE001 - whatever their comparison raises: they are not equal
        return False


def _common(name: str, tracers: Sequence[Tracer], apart: bool) -> DType:
    x, y = tracers
    if len(x.dims) != len(y.dims) and not (apart and () in (x.dims, y.dims)):
        text = f"is {spell(x.dims)}{_line(x)} in one branch and {spell(y.dims)}{_line(y)} in the"
        raise Misfit(ShapeError, f"{text} other; expected one shape.", "")
    dtype = common_dtype(name, (x, y))
    for tracer in tracers:
        kept = tracer.row is dtype or tracer.weak or apart
        if not kept:
            text = f"is {x.row.numpy}{_line(x)} in one branch and {y.row.numpy}{_line(y)} in the"
            remedy = f"Convert it in its branch: {name} = {name}.astype(np.{dtype.numpy})."
            raise Misfit(DTypeError, f"{text} other; expected one dtype.", remedy)
    return dtype


def _line(x: Tracer) -> str:
    owner = x.known.owner
    site = site_of(owner.location) if isinstance(owner, Operation) else None
    return "" if site is None else f" (line {site.line})"


_SAME_KIND = (
    "Which branch runs is known only when the compiled function runs: let both leave a number, or"
    " an array of one shape; an argument that decides about the program is named in static=(…)."
)


def _differ(x: Any, y: Any) -> str:
    return f"is {described(x)} in one branch and {described(y)} in the other."


def described(x: Any) -> str:
    """A value in a message."""
    if x is UNBOUND:
        return "not set"
    if isinstance(x, Tracer):
        return f"an array {spell(x.dims)}" if x.dims else f"a number ({x.row.numpy})"
    if isinstance(x, Undecided):
        return "not the same"
    text = repr(x)
    return text if len(text) <= 40 and "Tracer(" not in text else f"a {type(x).__name__}"


class Undecided:
    """What a variable holds that the bodies left so differently: its use is the error."""

    def __init__(self, name: str, misfit: Misfit, site: Site | None) -> None:
        self.__dict__["_mlc"] = name, misfit, site

    def fail(self, *_: object, **__: object) -> NoReturn:
        """The error, where the variable is used, with the line of the branch or loop."""
        name, misfit, site = self.__dict__["_mlc"]
        where = "" if site is None else f" The branch or loop:\n{site.excerpt()}"
        error = Misfit(misfit.kind, f"{misfit.text}{where}", misfit.remedy).error(name)
        raise error

    def __getattr__(self, name: str) -> NoReturn:
        self.fail()

    def __eq__(self, other: object) -> bool:
        self.fail()

    def __hash__(self) -> int:
        return id(self)


_OPERATIONS = (
    *("lt", "le", "gt", "ge", "ne", "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod"),
    *("pow", "and", "or", "xor", "lshift", "rshift", "neg", "pos", "abs", "invert", "bool", "int"),
    *("float", "complex", "index", "len", "iter", "next", "getitem", "setitem", "contains", "call"),
    *("array", "array_ufunc", "array_function", "round", "format", "setattr"),
)
for _name in _OPERATIONS:
    setattr(Undecided, f"__{_name}__", Undecided.fail)
for _name in _OPERATIONS[5:17]:
    setattr(Undecided, f"__r{_name}__", Undecided.fail)
