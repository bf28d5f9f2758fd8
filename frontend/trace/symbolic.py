"""A symbolic size as a Python object: ``x.shape[0]`` of an axis that has no fixed size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NoReturn

from mlc.dialects.dims import Dim, highest
from mlc.frontend.errors import NotSupportedError, SpecialiseSignal, located
from mlc.frontend.trace.source import shown_path, user_site
from mlc.frontend.trace.trace import current, here, lift_size

MOST_ASKED = 8
"""Comparisons of sizes on which a program relies; of one that asks more, each size has its own."""


class SymbolicDim:
    """
    An integer known when the function is called, e.g. ``2*B + 1``.

    Sums, products and floor quotients are sizes again. Other arithmetic makes it a traced number. A
    comparison whose outcome depends on the size, a `range` over it or a conversion to `int` makes
    the compiler specialise on the size.
    """

    __slots__ = ("dim",)

    def __init__(self, dim: Dim) -> None:
        self.dim = dim

    def __repr__(self) -> str:
        return str(self.dim)

    def __hash__(self) -> int:
        from mlc.frontend.trace.hashed import hash_of

        return hash_of(self)

    def __getattr__(self, name: str) -> Any:
        if name[:1] == "_" or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(self.__index__(), name)

    def __add__(self, other: object) -> object:
        size = as_dim(other)
        return self._number("__add__", other) if size is None else as_size(self.dim + size)

    def __sub__(self, other: object) -> object:
        size = as_dim(other)
        return self._number("__sub__", other) if size is None else as_size(self.dim - size)

    def __rsub__(self, other: object) -> object:
        size = as_dim(other)
        return self._number("__rsub__", other) if size is None else as_size(size - self.dim)

    def __mul__(self, other: object) -> object:
        size = as_dim(other)
        return self._number("__mul__", other) if size is None else as_size(self.dim * size)

    def __floordiv__(self, other: object) -> object:
        size = as_dim(other)
        if size is not None and size.terms:
            if (quotient := self.dim.exact_quotient(size)) is not None and _is_positive(size):
                return as_size(quotient)
            if (divisor := size.constant) is not None and divisor > 0:
                return as_size(self.dim // divisor)
        return self._number("__floordiv__", other)

    def __mod__(self, other: object) -> object:
        quotient: Any = self // other
        if not isinstance(quotient, SymbolicDim):
            return self._number("__mod__", other)
        return self - quotient * other

    def __divmod__(self, other: object) -> object:
        return self // other, self % other

    def __rmod__(self, other: object) -> object:
        return self._number("__rmod__", other)

    def __rdivmod__(self, other: object) -> object:
        return self._number("__rdivmod__", other)

    __radd__ = __add__
    __rmul__ = __mul__

    def __and__(self, other: object) -> object:
        return self._number("__and__", other)

    def __or__(self, other: object) -> object:
        return self._number("__or__", other)

    def __xor__(self, other: object) -> object:
        return self._number("__xor__", other)

    def __lshift__(self, other: object) -> object:
        return self._number("__lshift__", other)

    def __rshift__(self, other: object) -> object:
        return self._number("__rshift__", other)

    def __rlshift__(self, other: object) -> object:
        return self._number("__rlshift__", other)

    def __rrshift__(self, other: object) -> object:
        return self._number("__rrshift__", other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __neg__(self) -> object:
        return as_size(-self.dim)

    def __pos__(self) -> object:
        return self

    __round__ = __floor__ = __ceil__ = __trunc__ = __pos__

    def __invert__(self) -> object:
        return as_size(-self.dim - 1)

    def __abs__(self) -> object:
        low, high = _known_bounds(self.dim)
        if low is not None and low >= 0:
            return self
        return -self if high is not None and high <= 0 else abs(lift_size(self))

    def __pow__(self, other: object) -> object:
        if isinstance(other, int) and other >= 0:
            power = Dim.const(1)
            for _ in range(other):
                power = power * self.dim
            return as_size(power)
        return self._number("__pow__", other)

    def __truediv__(self, other: object) -> object:
        return self._number("__truediv__", other)

    def __rtruediv__(self, other: object) -> object:
        return self._number("__rtruediv__", other)

    def __rfloordiv__(self, other: object) -> object:
        return self._number("__rfloordiv__", other)

    def __rpow__(self, other: object) -> object:
        return self._number("__rpow__", other)

    def _number(self, method: str, other: object) -> object:
        """The operation on the size as a traced number."""
        from mlc.frontend.trace.tracer import Tracer

        if not isinstance(other, Tracer | SymbolicDim | int | float):
            return NotImplemented
        right = lift_size(other) if isinstance(other, SymbolicDim) else other
        return getattr(lift_size(self), method)(right)

    def __eq__(self, other: object) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("!=", other)

    def __lt__(self, other: object) -> Any:
        return self._compare("<", other)

    def __le__(self, other: object) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: object) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: object) -> Any:
        return self._compare(">=", other)

    def _compare(self, symbol: str, other: object) -> Any:
        if isinstance(other, bool | float) and math.isfinite(other):
            other = _nearest(symbol, other)
        size = as_dim(other)
        if size is None:
            return self._number(_METHODS[symbol], other)
        return self._decide(symbol, size, self.dim - size)

    def _decide(self, symbol: str, other: Dim, difference: Dim) -> Any:
        """
        The comparison where every size >= 0 settles it; else what it is for the sizes of this call,
        on which the program relies then. Of a size that the program computes, and where a loop asks
        at each trip, it is a traced bool.
        """
        low, high = _known_bounds(difference)
        outcome = _OUTCOMES[symbol](low, high)
        if outcome is None and (is_bound(difference) or here().ints.asks_sizes):
            return getattr(lift_size(self), _METHODS[symbol])(lift_size(other))
        if outcome is None:
            outcome = _relied_on(symbol, difference, f"{self.dim} {symbol} {other}")
        if outcome is None:
            self._specialise(f"{self.dim} {symbol} {other}", difference)
        return outcome

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:  # noqa: PLE0305 - it raises
        self._specialise(f"{self.dim} as a Python integer", self.dim)

    __int__ = __index__

    def __float__(self) -> float:
        self._specialise(f"{self.dim} as a Python float", self.dim)

    def _specialise(self, what: str, dim: Dim) -> NoReturn:
        if is_bound(dim):
            message = f"{what} is needed, and is known only when the program runs."
            remedy = "Use it in arithmetic, in comparisons, or as the number of a loop's trips."
            raise located(NotSupportedError, message, remedy=remedy)
        site = user_site()
        where = "" if site is None else f" at {shown_path(site.filename)}:{site.line}"
        raise SpecialiseSignal(frozenset(), dim.symbols(), f"{what} is needed{where}")

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        self._specialise(f"{self.dim} as a NumPy array", self.dim)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> object:
        from mlc.frontend.numpy.ufuncs import call_ufunc

        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> object:
        from mlc.frontend.numpy.registry import call_function

        return call_function(func, args, kwargs)


Size = int | SymbolicDim


def as_size(dim: Dim) -> Size:
    """An int where no symbol occurs."""
    return SymbolicDim(dim) if dim.constant is None else dim.constant


def as_dim(value: object) -> Dim | None:
    """The dim of an int or a size; None for anything else."""
    if isinstance(value, SymbolicDim):
        return value.dim
    if isinstance(value, bool) or not isinstance(value, Integral):
        return None
    return Dim.const(int(value))


def bounds(dim: Dim) -> tuple[int | None, int | None]:
    """
    The least and the greatest value when every symbol is >= 0, and those that the program computes
    at most their limits; None where there is no bound.
    """
    if is_bound(dim):
        most = here().limits
        return _ends(-highest(-dim, most))[0], _ends(highest(dim, most))[1]
    return _ends(dim)


def is_bound(dim: Dim) -> bool:
    """Whether the program computes the size itself."""
    trace = current()
    return trace is not None and not trace.limits.keys().isdisjoint(dim.symbols())


def _is_positive(divisor: Dim) -> bool:
    """Whether a divisor is not 0: of sizes the program is for those, and another one for others."""
    if divisor.constant is not None:
        return divisor.constant != 0
    if is_bound(divisor):
        return here().bound.ranges.is_natural(divisor - 1)
    here().assume(divisor - 1, f"{divisor} divides")
    return True


def _ends(dim: Dim) -> tuple[int | None, int | None]:
    constant = sum(coefficient for monomial, coefficient in dim.terms if not monomial)
    rest = [coefficient for monomial, coefficient in dim.terms if monomial]
    low = constant if all(c > 0 for c in rest) else None
    high = constant if all(c < 0 for c in rest) else None
    return low, high


def _known_bounds(dim: Dim) -> tuple[int | None, int | None]:
    """Those of `bounds`; where a loop computes the sizes, the sign as far as it is known."""
    trace = current()
    if trace is None or not trace.bound.is_bound(dim):
        return bounds(dim)
    ranges = trace.bound.ranges
    low = next((n for n in (1, 0) if ranges.is_natural(dim - n)), None)
    high = next((-n for n in (1, 0) if ranges.is_natural(-dim - n)), None)
    return low, high


def _relied_on(symbol: str, difference: Dim, because: str) -> bool | None:
    """
    The outcome for the sizes of this call; others for which it is another one are another
    program's. None where the sizes are not known, or so much has been asked that there would be too
    many.
    """
    sizes = here().ints.sizes
    if not difference.symbols() <= sizes.keys():
        return None
    value = difference.evaluate(sizes)
    outcome = _OUTCOMES[symbol](value, value)
    wanted = [difference, -difference]
    if symbol in ("==", "!=") and value:
        wanted = [(difference if value > 0 else -difference) - 1]
    elif symbol not in ("==", "!="):
        sign = 1 if symbol in (">", ">=") else -1  # which way it is true
        least = int(symbol in ("<", ">")) if outcome else int(symbol in ("<=", ">="))
        wanted = [difference * (sign if outcome else -sign) - least]
    return outcome if _rely(wanted, because) else None


def _rely(wanted: Sequence[Dim], because: str) -> bool:
    """Relies on what sizes of this call are like, if there is not too much of it."""
    trace = here()
    trace.ints.asked += not {a.dim for a in trace.assumptions}.issuperset(wanted)
    if trace.ints.asked > MOST_ASKED:
        return False
    for dim in wanted:
        trace.assume(dim, because, decided=True)
    return True


def is_natural(dim: Dim, because: str) -> bool:
    """
    Whether a size is not negative, as far as the program relies on: it is so unless it is known to
    be otherwise in this call.
    """
    trace = here()
    known = dim.symbols() <= trace.ints.sizes.keys()
    if known and dim.evaluate(trace.ints.sizes) < 0 and _rely([-dim - 1], because):
        return False
    trace.assume(dim, because, decided=known)
    return True


def _nearest(symbol: str, number: float) -> float:
    """The integer for which a comparison with integers has the same outcome, if there is one."""
    if number == math.floor(number):
        return int(number)
    return {"<": math.ceil, ">=": math.ceil, "<=": math.floor, ">": math.floor}.get(symbol, float)(
        number
    )


def _equal(low: int | None, high: int | None) -> bool | None:
    if low is not None and low == high:
        return low == 0
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    return None


def _below(low: int | None, high: int | None, limit: int) -> bool | None:
    """difference < limit."""
    if high is not None and high < limit:
        return True
    if low is not None and low >= limit:
        return False
    return None


def _not(outcome: bool | None) -> bool | None:
    return None if outcome is None else not outcome


def _less(low: int | None, high: int | None) -> bool | None:
    return _below(low, high, 0)


def _less_equal(low: int | None, high: int | None) -> bool | None:
    return _below(low, high, 1)


def _greater_equal(low: int | None, high: int | None) -> bool | None:
    return _not(_below(low, high, 0))


def _greater(low: int | None, high: int | None) -> bool | None:
    return _not(_below(low, high, 1))


def _unequal(low: int | None, high: int | None) -> bool | None:
    return _not(_equal(low, high))


_METHODS = {
    "==": "__eq__",
    "!=": "__ne__",
    "<": "__lt__",
    "<=": "__le__",
    ">=": "__ge__",
    ">": "__gt__",
}
_OUTCOMES = {
    "==": _equal,
    "!=": _unequal,
    "<": _less,
    "<=": _less_equal,
    ">=": _greater_equal,
    ">": _greater,
}
"""Comparisons of a difference with 0, given its bounds."""
