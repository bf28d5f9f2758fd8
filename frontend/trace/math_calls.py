"""
Functions of `math`, and `int` and `float`, of numbers that only the compiled function knows: those
of NumPy's names, whose results are Python's, and which look whether Python would raise there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.faults import DOMAIN, RANGE, TOO_LARGE
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer

_OUTSIDE: dict[str, Callable[[Any], Any]] = {
    "sqrt": lambda x: x < 0.0,
    **dict.fromkeys(("log", "log2", "log10"), lambda x: x <= 0.0),
    "log1p": lambda x: x <= -1.0,
    **dict.fromkeys(("sin", "cos", "tan"), lambda x: abs(x) >= math.inf),
    **dict.fromkeys(("asin", "acos"), lambda x: abs(x) > 1.0),
    "acosh": lambda x: x < 1.0,
    "atanh": lambda x: abs(x) >= 1.0,
}
"""Where functions of a float have no result."""
_SURE: dict[str, Callable[[Ranges, SSAValue], bool]] = {
    **dict.fromkeys(("sqrt", "log1p"), Ranges.is_not_negative),
    **dict.fromkeys(("log", "log2", "log10"), Ranges.is_positive),
}
"""What is enough to know of the operand, for there to be one."""
_OF_ONE: dict[str, str | None] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh"), RANGE),
    **dict.fromkeys((*_OUTSIDE, "lgamma"), DOMAIN),
    **dict.fromkeys(("cbrt", "fabs", "atan", "tanh", "asinh", "erf", "erfc"), None),
    **dict.fromkeys(("degrees", "radians"), None),
}
"""Functions of a float that give one; what they say where there is no finite result."""
_OF_TWO: dict[str, str | None] = {
    **dict.fromkeys(("atan2", "copysign", "nextafter"), None),
    "pow": DOMAIN,
    "fmod": DOMAIN,
    "hypot": RANGE,
}
_NUMPYS = {"fabs": "abs", "atan2": "arctan2", "pow": "power"}
_MOST_FACTORIAL = 20

_Args = tuple[Any, ...]
_Kwargs = dict[str, Any]


def to_number(kind: Any, args: _Args, kwargs: _Kwargs) -> Any:
    """int(x) or float(x)"""
    from mlc.frontend.numpy import astype
    from mlc.frontend.numpy.whole_numbers import whole

    if len(args) != 1 or not isinstance(args[0], Tracer | SymbolicDim):
        return kind(*args, **kwargs)
    (value,) = args
    if isinstance(value, SymbolicDim):
        if kind is int:
            return value
        value = lift_size(value)
    if value.ndim and value.size != 1:
        return kind(value)
    number = value.reshape(()) if value.ndim else value
    if kind is int:
        number.origins = value.origins
        return whole(number)
    made = astype(number, np.float64)
    made.weak, made.origins = True, value.origins
    return made


def _float(x: Any) -> Any:
    return to_number(float, (x,), {})


def _names() -> Any:
    from mlc.frontend import numpy

    return numpy


def _whole(x: Any) -> Any:
    from mlc.frontend.numpy.whole_numbers import whole

    return whole(x)


def _where_fine(fine: Any, fault: str, x: Any) -> Any:
    from mlc.frontend.numpy.whole_numbers import where_fine

    return where_fine(fine, fault, x)


def _looked_at(name: str, fault: str | None, result: Any, operands: _Args) -> Any:
    """
    The result; the call ends where Python raises. It asks what the C function gave: NaN of what is
    not, or what is infinite of finite numbers, is an error.
    """
    names, given = _names(), [x for x in operands if isinstance(x, Tracer)]
    if fault is None or not given:
        return result
    if name in _OUTSIDE:
        sure = _SURE.get(name)
        if sure is not None and sure(here().bound.ranges, given[0].value):
            return result
        return _where_fine(names.logical_not(_OUTSIDE[name](given[0])), DOMAIN, result)
    if fault is DOMAIN:
        known = names.logical_not(names.isnan(result))
        known = reduce(names.logical_or, map(names.isnan, given), known)
        result = _where_fine(known, DOMAIN, result)
    finite = reduce(names.logical_and, map(names.isfinite, given))
    return _where_fine(names.logical_not(names.isinf(result) & finite), RANGE, result)


def _computed(name: str, fault: str | None, *args: Any) -> Any:
    """A function of floats."""
    operands = tuple(_float(x) for x in args)
    result = getattr(_names(), _NUMPYS.get(name, name))(*operands)
    return _float(_looked_at(name, fault, result, operands))


def _log(x: Any, *base: Any) -> Any:
    """The logarithm to a base, as Python divides two of them."""
    found = _computed("log", DOMAIN, x)
    return found / _called(math.log, base, {}) if base else found


def _hypot(*args: Any) -> Any:
    if len(args) == 1:
        return _float(abs(args[0]))
    return reduce(partial(_computed, "hypot", RANGE), args)


def _rounded(name: str, x: Any) -> Any:
    if isinstance(x, SymbolicDim):
        return x
    if x.ndim and x.size != 1:
        return float(x)  # which says what it is
    number = x.reshape(()) if x.ndim else x
    if number.row.kind != "float":
        return to_number(int, (number,), {})
    made = getattr(_names(), name)(number)
    made.origins = x.origins
    return _whole(made)


def _asked(name: str, x: Any) -> Any:
    """Of a number: a bool of Python's."""
    return _names().item(getattr(_names(), name)(_float(x)))


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    names, (a, b) = _names(), (_float(a), _float(b))
    apart, larger = names.abs(a - b), names.maximum(names.abs(a), names.abs(b))
    near = names.isfinite(apart) & (apart <= names.maximum(rel_tol * larger, abs_tol))
    return names.item(names.equal(a, b) | near)


def _modf(x: Any) -> Any:
    return tuple(map(_float, _names().modf(_float(x))))


def _frexp(x: Any) -> Any:
    mantissa, exponent = _names().frexp(_float(x))
    return _float(mantissa), _whole(exponent)


def _ldexp(x: Any, n: Any) -> Any:
    operands = _float(x), _float(n)
    return _float(_looked_at("ldexp", RANGE, _names().ldexp(operands[0], n), operands))


def _check_integers(*args: Any) -> None:
    """Raises as Python does where one of them is no integer."""
    kinds = ("int", "uint", "bool")
    for x in args:
        traced = isinstance(x, Tracer)
        if traced and not x.ndim and x.row.kind in kinds:
            continue
        if not isinstance(x, int | np.integer | SymbolicDim):
            name = f"numpy.{x.dtype}" if traced else type(x).__name__
            raise TypeError(f"'{name}' object cannot be interpreted as an integer")


def _gcd(*args: Any) -> Any:
    _check_integers(*args)
    return _whole(reduce(_names().gcd, map(_int, args)))


def _lcm(*args: Any) -> Any:
    _check_integers(*args)
    return reduce(_lcm_of_two, map(_int, args))


def _lcm_of_two(a: Any, b: Any) -> Any:
    names = _names()
    shared = names.gcd(a, b)
    part = names.floor_divide(names.abs(a), names.maximum(shared, 1))
    fine = names.abs(_float(part) * _float(b)) < 2.0**62
    return _whole(_where_fine(fine, TOO_LARGE, names.abs(names.multiply(part, b))))


def _int(x: Any) -> Any:
    """A number of 64 bits."""
    return to_number(int, (lift_size(x) if isinstance(x, SymbolicDim) else x,), {})


def _isqrt(n: Any) -> Any:
    _check_integers(n)
    names, n = _names(), _int(n)
    n = names.maximum(_where_fine(n >= 0, DOMAIN, n), 0)
    root = names.astype(names.sqrt(_float(n)), np.int64)
    root = root - (root > names.floor_divide(n, names.maximum(root, 1)))  # floats round
    return _whole(root + (root + 1 <= names.floor_divide(n, root + 1)))


def _factorial(n: Any) -> Any:
    _check_integers(n)
    names, n = _names(), _int(n)
    n = _where_fine((n >= 0) & (n <= _MOST_FACTORIAL), TOO_LARGE, n)
    known = np.array([math.factorial(k) for k in range(_MOST_FACTORIAL + 1)])
    return _whole(names.take(known, names.clip(n, 0, _MOST_FACTORIAL)))


def _dist(p: Any, q: Any) -> Any:
    apart = [_float(a) - _float(b) for a, b in zip(p, q, strict=True)]
    return _hypot(*apart) if apart else 0.0


_CALLS: dict[Any, Callable[..., Any]] = {
    **{getattr(math, name): partial(_computed, name, x) for name, x in _OF_ONE.items()},
    **{getattr(math, name): partial(_computed, name, x) for name, x in _OF_TWO.items()},
    **{getattr(math, name): partial(_rounded, name) for name in ("floor", "ceil", "trunc")},
    **{getattr(math, name): partial(_asked, name) for name in ("isnan", "isinf", "isfinite")},
    math.log: _log,
    math.hypot: _hypot,
    math.isclose: _isclose,
    math.modf: _modf,
    math.frexp: _frexp,
    math.ldexp: _ldexp,
    math.gcd: _gcd,
    math.lcm: _lcm,
    math.isqrt: _isqrt,
    math.factorial: _factorial,
    math.dist: _dist,
}


def _called(function: Any, args: _Args, kwargs: _Kwargs) -> Any:
    """A function of `math`, of numbers of the program perhaps."""
    given = [*args, *kwargs.values()]
    if function is math.dist:
        given = [y for x in given for y in (x if isinstance(x, list | tuple) else (x,))]
    if not any(isinstance(x, Tracer | SymbolicDim) for x in given):
        return function(*args, **kwargs)
    return _CALLS[function](*args, **kwargs)


FUNCTIONS: dict[Any, Any] = dict.fromkeys(_CALLS, _called)
"""Those that `BUILTINS` has of `math`."""


def vectorized(function: np.vectorize, args: _Args, kwargs: _Kwargs) -> Any:
    """np.vectorize of a function of numbers: the function of arrays that computes the same."""
    from mlc.frontend.numpy.compositions import choosing

    name = getattr(function.pyfunc, "__name__", "")
    plain = len(args) == 1 and not kwargs and function.signature is None
    if not plain or name not in _OF_ONE or function.pyfunc is not getattr(math, name):
        return choosing.vectorized(function, args, kwargs)
    result = getattr(_names(), _NUMPYS.get(name, name))(args[0])
    result = _looked_at(name, _OF_ONE[name], result, (args[0],))
    return result.astype(np.dtype(function.otypes[0])) if function.otypes else result
