"""
Which program serves a call (decisions.md D6).

Calls with the same dtypes, ranks, layouts and static values are a *family*. Its first call fixes
all sizes. The next call that differs makes the sizes that differ symbolic, with one symbol for
sizes that were always equal; from then on that program serves the family. A symbol never
broadcasts: where that is wanted of an axis, size 1 makes a family of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.letters import spell
from mlc.frontend.call.arguments import Call, Leaf, Parameters, known_sizes
from mlc.frontend.call.spec import TensorSpec
from mlc.lazy_dataclass import dataclass

Axis = tuple[int, int]
"""(argument leaf, axis)."""

Dynamic = bool | Mapping[str, Mapping[int, str]]
Typical = bool | Mapping[str, int]
MAX_OBSERVED = 64
"""Calls of a family that are remembered to see which sizes are always equal."""


@dataclass
class Family:
    """Calls that differ only in sizes."""

    observed: list[tuple[tuple[int, ...], ...]] = field(
        default_factory=list[tuple[tuple[int, ...], ...]]
    )
    static_because: str | None = None  # why no symbolic program is tried

    def has_ones(self) -> bool:
        """Whether an axis of size 1 has been seen, which may want to be broadcast."""
        return any(1 in shape for sizes in self.observed for shape in sizes)


class Policy:
    """The user's wishes about sizes, and what tracing has found to be needed."""

    def __init__(self, dynamic: Dynamic) -> None:
        if not isinstance(dynamic, bool):
            dynamic = {_as_named(name): axes for name, axes in dynamic.items()}
        self.dynamic = dynamic
        self.pinned: set[tuple[str, int]] = set()  # (leaf name, axis) whose size the program needs
        self.ones_apart = False  # whether an axis of size 1 is broadcast: a family of its own (D6)

    def explicit(self, leaf: Leaf, axis: int) -> Dim | None:
        """The symbol the user gave to an axis."""
        if isinstance(self.dynamic, bool):
            return None
        axes = self.dynamic.get(leaf.name, {})
        symbol = axes.get(axis, axes.get(axis - len(known_sizes(leaf))))
        return None if symbol is None else Dim.of(symbol)

    def check(self, call: Call) -> None:
        """Raises where `dynamic` names what is no argument of the call, or no axis of one."""
        if isinstance(self.dynamic, bool):
            return
        leaves = {leaf.name: leaf for leaf in call.leaves}
        for name, axes in self.dynamic.items():
            leaf = leaves.get(name)
            if leaf is None:
                raise ValueError(
                    f"dynamic= names {name}, which no argument is; expected one of"
                    f" {', '.join(leaves)}"
                )
            rank = len(known_sizes(leaf))
            if leaf.value is None:
                continue  # an array that this call does without
            for axis in axes:
                if not -rank <= axis < rank:
                    raise ValueError(
                        f"dynamic= names axis {axis} of {name}, which has {rank} axes"
                        if leaf.kind in ("array", "spec")
                        else f"dynamic= names an axis of {name}, which is no array"
                    )

    def family_key(self, call: Call) -> Hashable:
        """What calls of one family have in common."""
        parts: list[Hashable] = [tuple(call.structures)]
        for leaf in call.leaves:
            parts.append(leaf.key)
            if leaf.kind == "array":
                shape = leaf.shape
                if self.ones_apart and 1 in shape:
                    ones = tuple(
                        k for k, n in enumerate(shape) if n == 1 and self.explicit(leaf, k) is None
                    )
                    parts.append(("ones", ones))
                for name, axis in self.pinned:
                    if name == leaf.name:
                        parts.append(("pinned", axis, shape[axis]))
        return tuple(parts)

    def shapes(self, call: Call, family: Family) -> list[Shape]:
        """The shape of each leaf with which the next program of the family is traced."""
        sizes = tuple(leaf.shape for leaf in call.leaves)
        if sizes not in family.observed and len(family.observed) < MAX_OBSERVED:
            family.observed.append(sizes)
        groups: dict[tuple[int, ...], Dim] = {}
        taken = {str(s) for s in self._explicit_symbols(call)}
        return [
            leaf.value.dims
            if leaf.kind == "spec"
            else tuple(
                self._dim(leaf, k, axis, family, groups, taken) for axis in range(len(leaf.shape))
            )
            for k, leaf in enumerate(call.leaves)
        ]

    def declared(self, call: Call) -> list[Shape]:
        """
        The shape of each leaf with the sizes of this call; a size that a `TensorSpec` says is a
        symbol where `dynamic=` has it vary.
        """
        taken = {
            s
            for leaf in call.leaves
            if leaf.kind == "spec"
            for d in leaf.value.dims
            for s in d.symbols()
        }
        groups: dict[tuple[int, ...], Dim] = {}
        return [
            tuple(self._declared(leaf, k, groups, taken) for k in range(len(leaf.value.dims)))
            if leaf.kind == "spec"
            else tuple(map(Dim.const, leaf.shape))
            for leaf in call.leaves
        ]

    def _declared(
        self, leaf: Leaf, axis: int, groups: dict[tuple[int, ...], Dim], taken: set[str]
    ) -> Dim:
        said: Dim = leaf.value.dims[axis]
        size = said.constant
        if size is None:
            return said
        if (given := self.explicit(leaf, axis)) is not None:
            return given
        if self.dynamic is not True or size == 1 or (leaf.name, axis) in self.pinned:
            return said
        if (size,) not in groups:
            groups[(size,)] = Dim.symbol(_symbol_name(leaf.name, axis, taken))
        return groups[(size,)]

    def chosen_sizes(self, call: Call, shapes: Sequence[Shape]) -> dict[str, int]:
        """What the symbols that are not the user's are in a call."""
        given = self._explicit_symbols(call)
        sizes = match_sizes(call, shapes) or {}
        return {symbol: size for symbol, size in sizes.items() if symbol not in given}

    def _explicit_symbols(self, call: Call) -> set[str]:
        found: set[str] = set()
        for leaf in call.leaves:
            for axis in range(len(leaf.shape)):
                dim = self.explicit(leaf, axis)
                found |= set() if dim is None else dim.symbols()
        return found

    def _dim(
        self,
        leaf: Leaf,
        k: int,
        axis: int,
        family: Family,
        groups: dict[tuple[int, ...], Dim],
        taken: set[str],
    ) -> Dim:
        given = self.explicit(leaf, axis)
        size = leaf.shape[axis]
        if given is not None:
            return given
        history = tuple(sizes[k][axis] for sizes in family.observed)
        is_one = size == 1 and (self.ones_apart or set(history) == {1})
        fixed = (leaf.name, axis) in self.pinned or is_one or family.static_because is not None
        if fixed or (len(set(history)) == 1 and self.dynamic is not True):
            return Dim.const(size)
        if history not in groups:
            groups[history] = Dim.symbol(_symbol_name(leaf.name, axis, taken))
        return groups[history]


def _as_named(name: str) -> str:
    """``params["w"]`` as leaves are named: ``params['w']``."""
    try:
        return ast.unparse(ast.parse(name, mode="eval"))
    except SyntaxError:
        return name


def _symbol_name(leaf_name: str, axis: int, taken: set[str]) -> str:
    """``x_0`` for axis 0 of x."""
    plain = "".join(c if c.isalnum() else "_" for c in leaf_name).strip("_") or "arg"
    base = name = f"{plain}_{axis}" if not plain[0].isdigit() else f"n{plain}_{axis}"
    number = 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return name


def typical_sizes(typical: Typical, call: Call, shapes: Sequence[Shape]) -> Mapping[str, int]:
    """
    What the symbols of a program mostly are. Of a call the next powers of two, so that programs
    that other calls have made are found in the caches.
    """
    if not isinstance(typical, bool):
        return typical
    sizes = match_sizes(call, shapes) or {} if typical else {}
    return {name: near(size) for name, size in sizes.items()}


def near(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length() if size > 0 else 0


def match_sizes(call: Call, shapes: Sequence[Shape]) -> dict[str, int] | None:
    """The symbols' values for the call's sizes; None where the sizes do not fit."""
    values: dict[str, int] = {}
    later: list[tuple[Dim, int]] = []
    for leaf, shape in zip(call.leaves, shapes, strict=True):
        if leaf.kind != "array":
            continue
        for dim, size in zip(shape, leaf.shape, strict=True):
            if (fixed := dim.constant) is not None:
                if fixed != size:
                    return None
            elif (symbol := dim.single_symbol) is not None:
                if values.setdefault(symbol, size) != size:
                    return None
            else:
                later.append((dim, size))
    for dim, size in later:
        solved = _solve(dim, size, values)
        if solved is None:
            return None
        values.update(solved)
    return values


def _solve(dim: Dim, size: int, values: dict[str, int]) -> dict[str, int] | None:
    """The one unknown symbol of a linear size such as 2*B + 1."""
    unknown = dim.symbols() - values.keys()
    if not unknown:
        return {} if dim.evaluate(values) == size else None
    if len(unknown) > 1:
        return None
    (symbol,) = unknown
    at_0, at_1 = (dim.evaluate({**values, symbol: v}) for v in (0, 1))
    slope = at_1 - at_0
    if slope <= 0 or (size - at_0) % slope or size < at_0:
        return None
    value = (size - at_0) // slope
    return {symbol: value} if dim.evaluate({**values, symbol: value}) == size else None


def explain_mismatch(call: Call, shapes: Sequence[Shape]) -> ShapeError | None:
    """The error where sizes that the user declared equal differ; None where the sizes fit."""
    seen: dict[str, tuple[str, int, int]] = {}
    for leaf, shape in zip(call.leaves, shapes, strict=True):
        if leaf.kind != "array":
            continue
        for axis, (dim, size) in enumerate(zip(shape, leaf.shape, strict=True)):
            symbol = dim.single_symbol
            if symbol is None:
                continue
            name, other_axis, other = seen.setdefault(symbol, (leaf.name, axis, size))
            if other != size:
                return ShapeError(
                    f"dynamic= gives axis {other_axis} of {name} and axis {axis} of"
                    f" {leaf.name} the same symbol"
                    f" {symbol}, but they have {other} and {size} elements; give them two"
                    " symbols, or pass"
                    " arrays of equal sizes"
                )
    if match_sizes(call, shapes) is not None:
        return None
    for leaf, shape in zip(call.leaves, shapes, strict=True):
        if leaf.kind == "array" and match_sizes(Call([], [], [leaf]), [shape]) is None:
            found = spell(tuple(Dim.const(n) for n in leaf.shape))
            return ShapeError(f"argument {leaf.name} has shape {found}; expected {spell(shape)}")
    return ShapeError("the arguments' sizes do not fit the symbols given by dynamic=")


def symbols_of(dynamic: Dynamic) -> set[str]:
    """The symbols that the user gave to axes."""
    if isinstance(dynamic, bool):
        return set()
    return {symbol for axes in dynamic.values() for symbol in axes.values()}


def static_shapes(call: Call) -> list[Any]:
    """The sizes of this call; those of a `TensorSpec` as the user gave them."""
    return [
        leaf.value.dims if leaf.kind == "spec" else tuple(Dim.const(size) for size in leaf.shape)
        for leaf in call.leaves
    ]


def with_annotations(parameters: Parameters, dynamic: Dynamic) -> Dynamic:
    """`dynamic` with the symbols that parameters' `TensorSpec` annotations name."""
    if isinstance(dynamic, bool) and dynamic:
        return True
    given = (
        {} if isinstance(dynamic, bool) else {name: dict(axes) for name, axes in dynamic.items()}
    )
    for parameter in parameters.parameters:
        annotation: object = parameter.annotation
        if isinstance(annotation, TensorSpec):
            symbolic = {
                k: str(dim) for k, dim in enumerate(annotation.dims) if dim.constant is None
            }
            if symbolic:
                given.setdefault(parameter.name, symbolic)
    return given or False
