"""
Which of NumPy's functions mlc.numpy has, found by the function, whatever name leads to it.

`public(np.add)` registers an implementation. In a compiled function it records ops. Outside, on
NumPy arrays, the same implementation builds a small program, which the reference interpreter runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BOOL, DType
from mlc.dialects.errors import DTypeError, MlcError
from mlc.frontend.errors import LeakError, NotSupportedError, located, misfit
from mlc.frontend.trace.kinds import is_array, is_tuple
from mlc.frontend.trace.trace import OUTSIDE, Trace, current, tracing
from mlc.frontend.trace.tracer import Tracer

P = ParamSpec("P")
R = TypeVar("R")

BY_FUNCTION: dict[Any, Callable[..., Any]] = {}
"""NumPy's function -> ours."""

ON_NUMBERS: set[Any] = set()
"""Functions that NumPy itself computes while tracing when all arguments are numbers."""

UFUNC_OPTIONS = {"dtype", "out", "where", "casting", "order", "subok"}
"""Keyword arguments that every ufunc takes."""

RANDOM_REMEDY = (
    "A compiled function gives the same results for the same arguments. Draw the numbers before the"
    " call and pass them as an argument: f(x, rng.random(x.shape))."
)


def public(
    *numpy_functions: Any, numbers: bool = False
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Registers an implementation of NumPy's functions; `numbers`: NumPy computes it on numbers."""

    known = [f for f in numpy_functions if f is not None]  # names that this NumPy has

    def register(implementation: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(implementation)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if current() is None:
                return eager(implementation, args, kwargs)
            if numbers and all(map(_is_number, (*args, *kwargs.values()))):
                return numpy_functions[0](*args, **kwargs)
            if kwargs and not UFUNC_OPTIONS.isdisjoint(kwargs):
                ufunc = next((f for f in known if isinstance(f, np.ufunc)), None)
                if ufunc is not None:
                    return call_ufunc(ufunc, "__call__", args, dict(kwargs))
            return implementation(*args, **kwargs)

        for function in known:
            BY_FUNCTION[function] = call
            if numbers:
                ON_NUMBERS.add(function)
        return call

    return register


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float | complex | np.generic)


def eager(implementation: Callable[..., R], args: Sequence[Any], kwargs: dict[str, Any]) -> R:
    """The function on NumPy arrays: traced for their shapes, then interpreted."""
    from mlc.frontend.numpy.values import lift
    from mlc.frontend.trace.containers import flatten, unflatten
    from mlc.runtime.interpret import interpret

    trace = Trace(getattr(implementation, "__name__", "eager"))
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
    values = iter(interpret(module, [*arrays, *trace.hidden_arrays]))
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
    message = f"{text} is not supported yet on traced arrays."
    remedy = (
        "Compute it before the call and pass the result, or write it with the functions of"
        " mlc.numpy."
    )
    return located(NotSupportedError, message, remedy=remedy)


def call_function(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A NumPy function that met a traced array."""
    implementation = BY_FUNCTION.get(function)
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


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A NumPy ufunc, or one of its methods, that met a traced array."""
    out = kwargs.pop("out", None)
    if method == "__call__":
        result = call_with_conditions(ufunc, inputs, kwargs)
    elif method == "reduce" and ufunc in _REDUCERS:
        result = call_function(_REDUCERS[ufunc], inputs, {"axis": 0, **kwargs})
    elif method == "accumulate":
        from mlc.frontend.numpy.scans import accumulate

        result = accumulate(ufunc, *inputs, **kwargs)
    elif method == "at":
        from mlc.frontend.numpy.placement import ufunc_at

        return ufunc_at(ufunc, *inputs, **kwargs)
    elif method == "outer" and not kwargs:
        first, second = (_lifted(x) for x in inputs)
        wide = first.reshape((*first.shape, *(1 for _ in second.dims)))
        result = call_function(ufunc, (wide, second), {})
    else:
        message = f"numpy.{ufunc.__name__}.{method} is not supported yet on traced arrays."
        raise located(NotSupportedError, message)
    if out is None:
        return result
    return _into(out[0] if is_tuple(out) else out, result, ufunc.__name__)


def _lifted(value: Any) -> Tracer:
    from mlc.frontend.numpy.values import lift

    return lift(value)


def _into(out: object, result: object, function: str) -> object:
    from mlc.frontend.numpy.writing import write_all

    if not isinstance(out, Tracer):
        message = (
            f"{function}: out= is a NumPy array that exists before the call; it would be"
            " written only once."
        )
        raise located(NotSupportedError, message, remedy="Leave out= away and return the result.")
    return write_all(out, result, function)


def call_with_conditions(ufunc: np.ufunc, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A ufunc call with the options dtype= and where= taken care of."""
    dtype, casting = kwargs.pop("dtype", None), kwargs.pop("casting", "same_kind")
    if kwargs.pop("where", True) is not True:
        message = f"{ufunc.__name__}: where= is not supported yet."
        raise located(NotSupportedError, message, remedy="Use np.where(condition, result, other).")
    if dtype is not None:
        inputs = _converted(ufunc, inputs, dtype, casting)
    for name in ("order", "subok"):
        kwargs.pop(name, None)
    return call_function(ufunc, inputs, kwargs)


def _converted(ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any, casting: str) -> list[Any]:
    """The operands in the dtype that the loop of a ufunc shall have."""
    from mlc.frontend.numpy.creation import asarray
    from mlc.frontend.numpy.values import check_casting, dtype_row, lift

    row, name = dtype_row(dtype, ufunc.__name__), ufunc.__name__
    operands = [lift(x, name) for x in inputs]
    loop = (*(None for _ in operands), *(row.numpy for _ in range(ufunc.nout)))
    try:
        ufunc.resolve_dtypes(
            (*(x.row.numpy for x in operands), *(None for _ in range(ufunc.nout))),
            signature=loop,
            casting="unsafe",
        )
    except TypeError:
        message = f"{name}: there is no loop with results of dtype {row.numpy}."
        raise located(DTypeError, message) from None
    check_casting(name, [x for x in operands if not x.weak], row, casting)
    return [asarray(x, dtype=row.numpy) for x in operands]


_REDUCERS: dict[Any, Any] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}


def refuse_complex(function: str, dtype: DType, remedy: str) -> None:
    """Raises what NumPy raises for functions that complex numbers do not have."""
    if dtype.kind == "complex":
        raise located(DTypeError, f"{function} is not defined for {dtype.numpy}.", remedy=remedy)


def refuse_bool(function: str, dtype: object, remedy: str) -> None:
    """Raises what NumPy raises for arithmetic that bool does not have."""
    if dtype is BOOL:
        raise located(DTypeError, f"{function} is not defined for bool.", remedy=remedy)
