"""
Builtins that ask a value for what a traced one cannot say.
"""

from __future__ import annotations

import itertools
from dis import get_instructions
from functools import partial, reduce
from types import CodeType, GeneratorType
from typing import Any

import numpy as np

from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.staging.items import enumerated, ranged, turned, zipped
from mlc.frontend.staging.many import accumulated, mapped, reduced
from mlc.frontend.staging.sometimes import Sometimes, of_class, size, unsure
from mlc.frontend.trace.deferred import text_of
from mlc.frontend.trace.effects import effects
from mlc.frontend.trace.math_calls import FUNCTIONS, to_number
from mlc.frontend.trace.objects import NOTHING
from mlc.frontend.trace.source import in_users_name
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import current, here, lift_size
from mlc.frontend.trace.tracer import Tracer


def _to_complex(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """complex(real, imag) of numbers, as Python adds them up where one is complex itself."""
    from mlc.frontend.numpy.complexes import imag, of_parts, real
    from mlc.frontend.numpy.values import lift

    given = dict(zip(("real", "imag"), args, strict=False)) | kwargs
    if not any(isinstance(x, Tracer | SymbolicDim) for x in given.values()):
        return kind(*args, **kwargs)

    def parts(name: str) -> tuple[Any, Any]:
        """Real and imaginary part of an argument, as floats; an argument that is real has none."""
        value = lift(lift_size(x) if isinstance(x := given.get(name, 0.0), SymbolicDim) else x)
        if value.row.kind == "complex":
            return real(value), imag(value)
        return to_number(float, (value,), {}), None

    (a, b), (c, d) = parts("real"), parts("imag")
    made = of_parts(*(lift(x) for x in (a if d is None else a - d, c if b is None else c + b)))
    made.weak = True
    return made


@in_users_name
def _instance(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    value, kinds = args
    if isinstance(value, Tracer):
        return _of_class(value, partial(_is_instance, value, kinds))
    if isinstance(value, SymbolicDim):
        return issubclass(int, kinds)
    return isinstance(_settled(value), kinds)


def _is_instance(value: Tracer, kinds: Any, kind: type[Any]) -> bool:
    return issubclass(kind, kinds) or isinstance(value, kinds)


def _settled(value: Any) -> Any:
    """A value, or the error of a variable that has one of two kinds."""
    from mlc.frontend.staging.joins import Undecided

    return value.fail() if isinstance(value, Undecided) else value


def _type(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and isinstance(args[0], SymbolicDim):
        return int
    if len(args) != 1 or not isinstance(args[0], Tracer):
        return kind(*map(_settled, args), **kwargs)
    return _of_class(args[0], _itself)


def _of_class(value: Tracer, asked: Any) -> Any:
    """What is asked of the class that a value has for Python."""
    from mlc.frontend.staging.wholes import options, python_class, whole_of

    if value.ndim or value in here().inputs:
        return asked(np.ndarray)
    if (whole := whole_of(value)) is not None and here().visible(whole.condition):
        return options(value).apply(lambda option: _of_class(option, asked))
    return asked(python_class(value) or value.row.numpy.type)


@in_users_name
def _length(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    (value,) = args
    if unsure(value) is not None:
        return size(value)
    return value.shape[0] if isinstance(value, Tracer) and value.ndim else len(value)


def _extreme(builtin: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from mlc.frontend import numpy as names
    from mlc.frontend.numpy.values import common_dtype, operator_result
    from mlc.frontend.staging.branches import choice
    from mlc.frontend.staging.variants import first_variants, of_options
    from mlc.frontend.staging.wholes import are_alike, row_of

    values: list[Any] = list(args) if len(args) > 1 else list(*args)
    if kwargs or not any(isinstance(v, Tracer) for v in values):
        return builtin(*args, **kwargs)
    wins, function = (
        (names.greater, names.maximum) if builtin is max else (names.less, names.minimum)
    )

    def better(x: Any, y: Any) -> Any:
        """Of numbers as Python has it: the first, unless the second wins, of NaN and -0.0 too."""
        numbers = not any(isinstance(v, Tracer) and v.dims for v in (x, y))
        if numbers and common_dtype(builtin.__name__, (x, y)).kind == "float":
            return names.where(wins(y, x), y, x)
        return function(x, y)

    def best(x: Any, y: Any) -> Any:
        if first_variants((x, y)) is not None:
            return of_options(best, (x, y), {})
        if any(isinstance(v, Tracer) and v.dims for v in (x, y)) or are_alike(x, y):
            return operator_result(better, x, y)
        apart = row_of(x) is not row_of(y)
        return choice(builtin.__name__, wins(y, x), lambda: y, lambda: x, apart=apart)

    return reduce(best, values)


def _quantifier(builtin: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from mlc.frontend.numpy.python_numbers import item
    from mlc.frontend.staging.flow import Flow

    if len(args) != 1 or kwargs:
        return builtin(*args, **kwargs)
    values: list[Any] = []
    for value in args[0]:
        values.append(value)
        if isinstance(value, Tracer):
            _check_binds_nothing(builtin, args[0])
        elif bool(value) is (builtin is any):
            break
    if not any(isinstance(v, Tracer) for v in values):
        return builtin(values)
    fold = Flow.any_true if builtin is any else Flow.all_true
    found = fold(builtin is all, *(partial(_itself, value) for value in values))
    return item(found) if isinstance(found, Tracer) else found  # a bool of Python's


def _check_binds_nothing(builtin: Any, items: Any) -> None:
    """Refuses `any((y := v) > 0 for v in x)`, which ends where only the compiled function knows."""
    if not isinstance(items, GeneratorType):
        return
    code: CodeType = items.gi_code
    for step in get_instructions(code):
        if step.opname in ("STORE_DEREF", "STORE_GLOBAL"):
            raise located(
                NotSupportedError,
                f"{builtin.__name__}: the generator binds {step.argval}, and only the compiled"
                " function knows at which element it ends.",
                remedy="Write the loop: for … in …: if …: break.",
            )


def _to_bool(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from mlc.frontend.numpy.python_numbers import item
    from mlc.frontend.staging.truth import truth

    if len(args) != 1 or kwargs:
        return kind(*args, **kwargs)
    decided = truth(args[0])
    return item(decided) if isinstance(decided, Tracer) else decided


def _itself(value: Any) -> Any:
    return value


def _print(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if current() is None:
        print(*args, **kwargs)
        return
    from mlc.frontend.trace.access import shown

    effects().tell(print, [shown(x) for x in args], kwargs)


def _text(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from mlc.frontend.trace.access import shown

    if function in (str, repr) and len(args) == 1:
        names = ("__str__", "__repr__") if function is str else ("__repr__",)
        args = (shown(args[0], names),)
    return text_of(function, args, kwargs)


def _attribute(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 3 and not hasattr(args[0], args[1]):
        return args[2]
    found = getattr(*args[:2]) if len(args) == 3 else None
    if type(found) is Sometimes and of_class(*args[:2]) is NOTHING:
        return found.otherwise(args[2])
    from mlc.frontend.trace.access import attribute

    return attribute(args[0], args[1])


def _next(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if here().journals:
        raise located(
            NotSupportedError,
            "next(…) moves an iterator on where only the compiled function knows how often.",
            remedy="Go over an array with for, or read values before the loop or branch.",
        )
    return next(*args, **kwargs)


BUILTINS: dict[Any, Any] = {
    bool: _to_bool,
    complex: _to_complex,
    float: to_number,
    int: to_number,
    isinstance: _instance,
    type: _type,
    len: _length,
    max: _extreme,
    min: _extreme,
    getattr: _attribute,
    print: _print,
    **dict.fromkeys((str, repr, format, ascii), _text),
    any: _quantifier,
    all: _quantifier,
    next: _next,
    range: ranged,
    enumerate: enumerated,
    zip: zipped,
    map: mapped,
    reduce: reduced,
    itertools.accumulate: accumulated,
    reversed: turned,
    **FUNCTIONS,
}
