"""
Which of NumPy's functions mlc.numpy has, found by the function, whatever name leads to it.

`public(np.add)` registers an implementation. In a compiled function it records ops. Outside, on
NumPy arrays, the same implementation builds a small program, which the reference interpreter runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BOOL, DType
from mlc.dialects.errors import DTypeError, MlcError, ShapeError
from mlc.frontend.errors import LeakError, NotSupportedError, located, misfit
from mlc.frontend.trace.kinds import is_array, is_tuple
from mlc.frontend.trace.trace import OUTSIDE, Trace, current, tracing
from mlc.frontend.trace.tracer import Tracer

P = ParamSpec("P")
R = TypeVar("R")

BY_FUNCTION: dict[Any, Callable[..., Any]] = {}
"""NumPy's function -> ours."""

COMPOSED: dict[Any, str] = {}
"""Functions that compositions/ has -> in what theirs differ from NumPy's."""

SUBSCRIPTED: dict[int, Callable[[Any], Any]] = {}
"""The ids of NumPy's objects that are used as `np.r_[…]` -> what makes the array."""

ON_NUMBERS: set[Any] = set()
"""Functions that NumPy itself computes while tracing when all arguments are numbers."""

UFUNC_OPTIONS = {"dtype", "out", "where", "casting", "order", "subok"}
"""Keyword arguments that every ufunc takes."""

RANDOM_REMEDY = (
    "A compiled function gives the same results for the same arguments. Draw the numbers before the"
    " call and pass them as an argument: f(x, rng.random(x.shape))."
)


def public(
    *numpy_functions: Any, numbers: bool = False, casting: str = "same_kind", writes: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """
    Registers an implementation of NumPy's functions; `numbers`: NumPy computes it on numbers;
    `writes`: it changes an array, which outside a compiled function is NumPy's to do.

    Options that NumPy's functions share are done here: out=, of whose dtype `casting` says what
    results it takes, and what every ufunc takes.
    """

    known = [f for f in numpy_functions if f is not None]  # names that this NumPy has
    ufunc = next((f for f in known if isinstance(f, np.ufunc)), None)

    def register(implementation: Callable[P, R]) -> Callable[P, R]:
        out_at = _place_of_out(implementation)

        def traced(*args: Any, **kwargs: Any) -> Any:
            if ufunc is not None and _has_options(ufunc, args, kwargs):
                from mlc.frontend.numpy.ufuncs import call_ufunc

                return call_ufunc(ufunc, "__call__", args, kwargs)
            if out_at is None:
                return implementation(*args, **kwargs)
            out = kwargs.pop("out", None)
            if len(args) > out_at:
                args, out = (*args[:out_at], None, *args[out_at + 1 :]), args[out_at]
            if out is not None and casting == "unsafe":
                args, kwargs = _wide_enough(implementation, args, kwargs, out)
            found = implementation(*args, **kwargs)
            return into(out, found, implementation.__name__, casting, exact=True)

        @functools.wraps(implementation)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if current() is None:
                if writes:
                    return numpy_functions[0](*args, **kwargs)
                return _eager_with_out(traced, implementation.__name__, args, kwargs, ufunc)
            if numbers and all(map(_is_number, (*args, *kwargs.values()))):
                return numpy_functions[0](*args, **kwargs)
            return traced(*args, **kwargs)

        for function in known:
            BY_FUNCTION[function] = call
            if numbers:
                ON_NUMBERS.add(function)
        return call

    return register


def composed(
    *numpy_functions: Any,
    numbers: bool = False,
    casting: str = "same_kind",
    writes: bool = False,
    but: str = "",
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """
    Registers a composition of NumPy's other functions: `public`, and noted as one. `but` says in
    what it differs from NumPy's, where it must.
    """
    COMPOSED.update({f: but for f in numpy_functions if f is not None})
    return public(*numpy_functions, numbers=numbers, casting=casting, writes=writes)


def subscripted(numpy_object: Any) -> Callable[[Callable[[Any], R]], Callable[[Any], R]]:
    """Registers what makes the array of ``np.r_[…]`` and its like."""

    def register(ours: Callable[[Any], R]) -> Callable[[Any], R]:
        SUBSCRIPTED[id(numpy_object)] = ours
        return ours

    return register


class Subscripted:
    """``mlc.numpy.r_`` and its like, outside a compiled function too."""

    def __init__(self, numpy_object: Any) -> None:
        self._made: Any = subscript_of(numpy_object)

    def __getitem__(self, key: Any) -> Any:
        return self._made(key) if current() is not None else eager(self._made, (key,), {})


def implementation_of(function: Any) -> Callable[..., Any] | None:
    """Our implementation of NumPy's function. Compositions are imported when one may be asked."""
    found = BY_FUNCTION.get(function)
    if found is None and _of_numpy(function):
        import mlc.frontend.numpy.compositions  # noqa: F401  # pyright: ignore[reportUnusedImport]

        return BY_FUNCTION.get(function)
    return found


def subscript_of(numpy_object: Any) -> Callable[[Any], Any] | None:
    """What makes the array of ``np.r_[…]``."""
    if not type(numpy_object).__module__.startswith("numpy.lib"):
        return None
    import mlc.frontend.numpy.compositions  # noqa: F401  # pyright: ignore[reportUnusedImport]

    return SUBSCRIPTED.get(id(numpy_object))


def _of_numpy(function: Any) -> bool:
    if isinstance(function, type):
        return False
    module = getattr(function, "__module__", None)
    return isinstance(function, np.ufunc) or (
        isinstance(module, str) and module.partition(".")[0] == "numpy"
    )


def _wide_enough(
    implementation: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A reduction of floats into wider ones combines the wide ones, as NumPy's does."""
    code = implementation.__code__
    names = code.co_varnames[: code.co_argcount]
    place = names.index("dtype") if "dtype" in names else len(names)
    given = len(args) > place and args[place] is not None
    floats = isinstance(out, Tracer) and out.row.is_inexact and isinstance(args[0], Tracer)
    if given or place == len(names) or kwargs.get("dtype") is not None or not floats:
        return args, kwargs
    if not args[0].row.is_inexact:
        return args, kwargs
    return args[:place], {
        **dict(zip(names[place + 1 :], args[place + 1 :], strict=False)),
        **kwargs,
        "dtype": np.result_type(args[0].dtype, out.dtype),
    }


def _place_of_out(implementation: Callable[..., Any]) -> int | None:
    """Which positional argument is `out`; a number beyond them all where it is a keyword only."""
    code = implementation.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if "out" not in names:
        return None
    place = names.index("out")
    return place if place < code.co_argcount else sys.maxsize


def _has_options(ufunc: np.ufunc, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return len(args) > ufunc.nin or bool(kwargs and not UFUNC_OPTIONS.isdisjoint(kwargs))


def into(out: Any, result: Any, function: str, casting: str, *, exact: bool = False) -> Any:
    """The result in the array that out= names, which is returned; `exact`: of the same shape."""
    if out is None:
        return result
    from mlc.frontend.numpy.writing import write_out

    if not is_tuple(out):
        return write_out(out, result, function, casting, exact=exact)
    parts = result if is_tuple(result) else (result,)
    written = tuple(
        into(place, part, function, casting, exact=exact)
        for place, part in zip(out, parts, strict=True)
    )
    return written if is_tuple(result) else written[0]


def _eager_with_out(
    traced: Callable[..., Any],
    name: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    ufunc: np.ufunc | None,
) -> Any:
    """The function on NumPy arrays; out= is written when its values are there."""
    out = kwargs.get("out")
    if out is None:
        return eager(traced, args, kwargs, name)
    rest = {key: value for key, value in kwargs.items() if key != "out"}
    found: Any = eager(traced, args, rest, name)
    casting = rest.get("casting", "same_kind") if ufunc is not None else "unsafe"
    places: tuple[Any, ...] = out if is_tuple(out) else (out,)
    parts: tuple[Any, ...] = found if is_tuple(found) else (found,)
    for place, part in zip(places, parts, strict=True):
        if place is not None:
            if ufunc is None and np.shape(place) != np.shape(part):
                message = f"{name}: the result is {np.shape(part)} and out= {np.shape(place)}"
                raise ShapeError(f"{message}; expected equal shapes.")
            where = rest.get("where", True) if ufunc is not None else True
            np.copyto(place, part, casting=casting, where=where)
    return out if len(parts) > 1 else places[0]


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float | complex | np.generic)


def eager(
    implementation: Callable[..., R],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    name: str | None = None,
) -> R:
    """The function on NumPy arrays: traced for their shapes, then interpreted."""
    from mlc.frontend.numpy.values import lift
    from mlc.frontend.trace.containers import flatten, unflatten
    from mlc.passes.tensor.expand_transforms import one_function
    from mlc.runtime.interpret import interpret

    trace = Trace(name or getattr(implementation, "__name__", "eager"))
    with tracing(trace):
        leaves, structure = flatten((tuple(args), kwargs))
        arrays: list[Any] = []
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, Tracer):
                raise located(LeakError, OUTSIDE)
            if is_array(leaf):
                leaves[k] = _eager_argument(trace, leaf, len(arrays))
                arrays.append(leaf)
        traced_args, traced_kwargs = unflatten(structure, leaves)
        outcome = implementation(*traced_args, **traced_kwargs)
        results, shape_of_result = flatten(outcome)
        traced = [lift(x).value if isinstance(x, Tracer) else None for x in results]
        module = trace.finish([x for x in traced if x is not None])
    values = iter(interpret(one_function(module), [*arrays, *trace.hidden_arrays]))
    final = [
        x if t is None else _unwrapped(next(values)) for x, t in zip(results, traced, strict=True)
    ]
    return unflatten(shape_of_result, final)


def _eager_argument(trace: Trace, array: np.ndarray[Any, Any], number: int) -> Tracer:
    from mlc.frontend.numpy.values import dtype_row

    dtype = dtype_row(array.dtype, trace.name)
    shape = tuple(Dim.const(size) for size in array.shape)
    return Tracer(trace, trace.argument(f"x{number}", dtype, shape))


def _unwrapped(array: np.ndarray[Any, Any]) -> Any:
    return array if array.ndim else array[()]


def spelled(function: Any) -> str:
    """``numpy.linalg.svd``, as users write it."""
    module = getattr(function, "__module__", None) or "numpy"
    return f"{module}.{getattr(function, '__name__', function)}"


def unsupported(function: Any) -> MlcError:
    """The error for a NumPy function that has no implementation."""
    text = spelled(function)
    if text.startswith("numpy.random"):
        return located(
            NotSupportedError, f"{text} inside a compiled function", remedy=RANDOM_REMEDY
        )
    from mlc.frontend.numpy.names import why_refused

    reason = why_refused(text.rpartition(".")[2])
    message = f"{text} is not supported yet on traced arrays{reason and ': '}{reason}."
    remedy = (
        "Compute it before the call and pass the result, or write it with the functions of"
        " mlc.numpy."
    )
    return located(NotSupportedError, message, remedy=remedy)


def call_function(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A NumPy function that met a traced array."""
    implementation = implementation_of(function)
    if implementation is None:
        raise unsupported(function)
    try:
        return implementation(*args, **kwargs)
    except TypeError as error:
        if isinstance(error, MlcError) or "unexpected keyword argument" not in str(error):
            if (found := misfit(error)) is error:
                raise
            raise found from None
        keyword = str(error).rsplit("'", 2)[-2]
        message = (
            f"{spelled(function)}: the argument {keyword}= is not supported yet on traced arrays."
        )
        raise located(NotSupportedError, message) from None


def refuse_complex(function: str, dtype: DType, remedy: str) -> None:
    """Raises what NumPy raises for functions that complex numbers do not have."""
    if dtype.kind == "complex":
        raise located(DTypeError, f"{function} is not defined for {dtype.numpy}.", remedy=remedy)


def refuse_bool(function: str, dtype: object, remedy: str) -> None:
    """Raises what NumPy raises for arithmetic that bool does not have."""
    if dtype is BOOL:
        raise located(DTypeError, f"{function} is not defined for bool.", remedy=remedy)
