"""
What `__mlc__` does in a transformed function: names, attributes, items, calls and stores, observed.

captures.py says what a function sees of values from outside, stores.py what it may change.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn, TypeGuard
from weakref import ref

import numpy as np

from mlc.frontend.errors import NotSupportedError, located, misfit
from mlc.frontend.numpy.registry import RANDOM_REMEDY, implementation_of, subscript_of
from mlc.frontend.staging.counted import as_arrays, as_index, is_counted
from mlc.frontend.staging.flow import Flow
from mlc.frontend.staging.lazy import Lazy, stays_loop
from mlc.frontend.staging.list_methods import method_of, read, spread, unpacked
from mlc.frontend.staging.picked import picked
from mlc.frontend.staging.sometimes import Sometimes, call_unsure, of_class
from mlc.frontend.staging.sometimes import at as sometimes_at
from mlc.frontend.staging.sometimes import check as check_sure
from mlc.frontend.staging.variants import first_variants, narrowed, of_options
from mlc.frontend.staging.wholes import spelled_in
from mlc.frontend.trace import stores, unobserved
from mlc.frontend.trace.asked import check_depth, check_key, may_be_rows
from mlc.frontend.trace.builtin_calls import BUILTINS
from mlc.frontend.trace.captures import (
    captured,
    captured_method,
    guard_class,
    holds_tracer,
    is_constant,
    is_users,
    of_library,
    of_librarys_class,
    paths,
    recognised,
    runs_users,
    variable_path,
)
from mlc.frontend.trace.counted_calls import MISS, call_counted
from mlc.frontend.trace.deferred import Raising, is_deferred, joined, text_of, users_text
from mlc.frontend.trace.effects import effects, effects_of, is_told
from mlc.frontend.trace.foreign import called_at_each_call, foreign_owner
from mlc.frontend.trace.hashed import as_key, with_keys
from mlc.frontend.trace.impure import check_library, check_pure
from mlc.frontend.trace.kinds import (
    class_of,
    instance_of,
    is_array,
    is_class,
    is_dict,
    is_variants,
)
from mlc.frontend.trace.math_calls import vectorized
from mlc.frontend.trace.missing import without
from mlc.frontend.trace.objects import NOTHING
from mlc.frontend.trace.paths import cell_path, global_path, object_path
from mlc.frontend.trace.source import in_users_name, of_local
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.transform import take_care, transformed


class Access(Flow):
    """`__mlc__` of one function."""

    slice = slice

    def __init__(self, function: FunctionType, cells: dict[str, CellType]) -> None:
        self._globals = function.__globals__
        self._cells = cells
        self._function = ref(function)

    def name(self, name: str, value: Any) -> Any:
        """A global."""
        return captured(value, global_path(self._globals, name))

    def cell(self, name: str, value: Any) -> Any:
        """A variable of an enclosing function."""
        function = self._function()
        path = None if function is None else variable_path(function, name)
        return captured(value, path or cell_path(self._cells[name], name))

    @in_users_name
    def attr(self, obj: Any, name: str) -> Any:
        """obj.name"""
        if is_variants(obj):
            return of_options(self.attr, (obj, name), {})
        if (getter := _users_property(obj, name)) is not None:
            return call(getter, (obj,), {})
        try:
            value = getattr(obj, name)
        except AttributeError:
            if not isinstance(obj, Tracer):
                raise
            raise without(obj, name) from None
        if type(value) is Sometimes:
            if (held := of_class(obj, name)) is NOTHING:
                return value.found()
            return value.otherwise(_of_the_class(obj, name, held))
        if isinstance(obj, Tracer | SymbolicDim | np.ndarray | np.generic):
            return value
        if isinstance(obj, ModuleType):
            if of_library(obj.__name__):
                return value
            return captured(value, object_path(obj, obj.__name__).attr(name))
        path = paths().of(obj)
        if path is None:
            return _of_the_class(obj, name, value)
        if isinstance(value, MethodType) and value.__self__ is obj:
            return captured_method(value, path.attr(name))
        if id(obj) in here().stores:
            return value  # as it was seen when the object was first stored to
        return captured(value, path.attr(name))

    @in_users_name
    def item(self, obj: Any, key: Any) -> Any:
        """obj[key]"""
        if is_variants(obj) or is_variants(key):
            return of_options(self.item, (obj, key), {})
        if isinstance(obj, Tracer) or is_array(obj):
            key = as_index(key)
        if isinstance(obj, Tracer):
            return obj[key]
        if is_array(obj) and holds_tracer(key):
            from mlc.frontend.numpy.values import lift

            return lift(obj)[key]
        if is_counted(obj):
            return read(obj, key)
        if isinstance(key, Tracer):
            if may_be_rows(obj, key):
                return picked(list(obj), key)
            check_key(obj, key)
        recognised(key)
        key = as_key(key) if is_dict(obj) else key
        if is_dict(obj) and (place := sometimes_at(obj, key)) is not None:
            return place.found()
        if obj is self._globals and isinstance(key, str):
            return self.name(key, obj[key])
        if (subscript := subscript_of(obj)) is not None:
            return subscript(key)
        path = paths().of(obj)
        if path is None or isinstance(key, slice):
            return obj[key]
        if is_dict(obj) and hasattr(class_of(obj), "__missing__") and key not in obj:
            raise stores.refused(f"{path.text}[{key!r}], which is not there yet, is made")
        if id(obj) in here().stores:
            return obj[key]
        return captured(obj[key], path.item(key))

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """function(*args, **kwargs)"""
        return call(function, args, kwargs)

    unpacked, spread = staticmethod(unpacked), staticmethod(spread)
    sure = staticmethod(check_sure)

    def listed(self, loop: Any, items: Any, python: Any, tests: bool) -> Any:
        """[… for … in items]: a loop of the program's, or Python's (comprehensions.py)."""
        check_sure(items)
        if tests or stays_loop(items, python):
            return call(loop, (items,), {})
        return call(python, (items,), {})

    def attribute(self, obj: Any, name: str) -> stores.Place:
        """obj.name, where it is written."""
        return stores.AttributePlace(self, narrowed(obj), name)

    def element(self, obj: Any, key: Any) -> stores.Place:
        """obj[key], where it is written."""
        obj, key = narrowed(obj), narrowed(key)
        return stores.ElementPlace(self, obj, as_index(key) if isinstance(obj, Tracer) else key)

    def in_place(self, obj: Any, value: Any, adds: bool) -> Any:
        """The value of `obj += value` and its like, which change a collection."""
        stores.check_collection(obj, "an assignment in place")
        check_sure(obj)
        check_sure(value)
        if adds and is_counted(obj):
            method_of(obj, "extend")(value)
            return ()
        if isinstance(obj, list) and isinstance(value, Tracer) and not (adds or value.is_place):
            return operator.index(value)  # `xs *= n`, which alone a list has beside a number
        return value

    def text(self, *parts: Any) -> Any:
        """f"…": texts, and (value, conversion, format)."""
        return joined(parts, shown)

    def percent(self, form: Any, value: Any) -> Any:
        """form % value, of a text"""
        return text_of(operator.mod, (form, value), {})

    def own(self, kind: Any) -> Any:
        """A class that the function makes."""
        paths().own.add(kind)
        return kind

    def rebinds(self, kind: str, name: str) -> NoReturn:
        """A statement binds a name that does not belong to the function."""
        raise stores.refused(f"the {kind} variable {name} is bound anew")


def shown(value: Any, names: Sequence[str] = ("__str__", "__repr__")) -> Any:
    """What `print` shows of a value: of the user's objects, what their methods say."""
    method = users_text(value, names)
    return value if method is None else call(method, (value,), {})


def attribute(obj: Any, name: str) -> Any:
    """`getattr(obj, name)`"""
    return _LOOSE.attr(obj, name)


def _users_property(obj: Any, name: str) -> FunctionType | None:
    """The function of a property that a user's class has under this name."""
    kind = class_of(obj)
    if of_librarys_class(obj):
        return None
    found = of_class(obj, name)
    getter = found.fget if class_of(found) is property else None
    if not isinstance(getter, FunctionType) or not is_users(getter):
        return None
    guard_class(kind, name, found)
    return getter


def _of_the_class(obj: Any, name: str, value: Any) -> Any:
    """What an object that the function made has; what is its class's may be replaced there."""
    if isinstance(value, MethodType):
        guard_class(class_of(value.__self__), name, value.__func__)
        return value
    if is_array(value):
        return captured(value, object_path(obj, class_of(obj).__name__).attr(name))
    kind = class_of(obj)
    held = getattr(obj, "__dict__", {})
    own = name in held and type(held[name]) is not Sometimes
    if is_constant(value) and not own and not of_librarys_class(kind):
        owner = next((c for c in kind.__mro__ if c.__dict__.get(name) is value), None)
        if owner is not None and owner not in paths().own:
            path = object_path(owner, owner.__name__)
            return captured(value, path.attr("__dict__").item(name))
    return value


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call in a traced function."""
    if args and isinstance(args[0], Lazy):
        return args[0].given(call, function, args[1:], kwargs)
    found = call_unsure(function, args, kwargs)
    found = call_counted(function, args, kwargs) if found is MISS else found
    return _called(function, args, kwargs) if found is MISS else found


def _called(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        special = BUILTINS.get(function)
        implemented = special is not None or implementation_of(function) is not None
    except TypeError:  # not hashable
        special, implemented = None, False
    if implemented and special is None:
        args = spelled_in(args)
    args = with_keys(function, args)
    if _has_options(function, args, kwargs, implemented):
        return of_options(_plain_call, (function, *args), kwargs)
    if special is not None:
        return special(function, args, kwargs)
    if implemented:
        from mlc.frontend.numpy.registry import call_function

        return call_function(function, *_with_arrays(args, kwargs))
    if isinstance(function, FunctionType):
        return _call_function(function, args, kwargs)
    if (owner := foreign_owner(function, args, kwargs)) is not None:
        return called_at_each_call(function, owner, args, kwargs)
    if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
        return _call_function(function.__func__, (function.__self__, *args), kwargs)
    if is_partial(function):
        return _call_partial(function, args, kwargs)
    if is_class(function):
        return _construct(function, args, kwargs)
    if (original := getattr(class_of(function), "__mlc_function__", None)) is not None:
        return call(original(function), args, kwargs)
    if isinstance(function, functools._lru_cache_wrapper):  # pyright: ignore[reportPrivateUsage]
        return call(function.__wrapped__, args, kwargs)  # what it keeps would outlive the trace
    if isinstance(function, np.vectorize) and holds_tracer([*args, *kwargs.values()]):
        return vectorized(function, args, kwargs)
    if isinstance(function, BuiltinFunctionType) and is_array(function.__self__):
        array = function.__self__  # a method of an array from outside
        bound = captured(array, object_path(array, "array"))
        return getattr(bound, function.__name__)(*args, **kwargs)
    if (made := _seeded(function, args, kwargs)) is not None:
        return made
    if isinstance(function, BuiltinFunctionType) and isinstance(function.__self__, str):
        return text_of(function, args, kwargs)
    if is_told(function):
        return effects().tell(function, args, kwargs)
    check_pure(function)
    check_library(function, args, kwargs)
    stores.check_call(function, args)
    own = getattr(class_of(function), "__call__", None)  # noqa: B004 - the function itself is wanted
    if isinstance(own, FunctionType) and is_users(own):
        guard_class(class_of(function), "__call__", own)
        return _call_function(own, (function, *args), kwargs)
    if function is sorted:
        args, key = observed_functions(args), kwargs.get("key")
        kwargs = {**kwargs, "key": observed_functions((key,))[0]} if key else kwargs
    return function(*args, **kwargs)


def _call_partial(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given, named = function.args, function.keywords
    if (path := paths().of(function)) is not None:
        given = captured(given, path.attr("args"))
        named = captured(named, path.attr("keywords"))
    return call(function.func, (*given, *args), {**named, **kwargs})


def _seeded(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A generator of NumPy's, whose seed is known now; None of other calls."""
    if getattr(function, "__name__", "") != "default_rng":
        return None
    from mlc.frontend.numpy.generators import seeded

    return seeded(function, args, kwargs)


def _with_arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Arguments of NumPy's functions, or ours of that name."""
    return tuple(as_arrays(args)), dict(zip(kwargs, as_arrays([*kwargs.values()]), strict=True))


def _call_function(function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a Python function."""
    if not is_users(function):
        if is_told(function):
            return effects().tell(function, args, kwargs)
        check_pure(function)
        if function.__module__.startswith("mlc.frontend.numpy"):
            args, kwargs = _with_arrays(args, kwargs)
        if args and "." in function.__qualname__:
            stores.check_method(args[0], function.__name__)
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if (found := misfit(error)) is error:
                raise
            raise found from None
    args, kwargs = _with_defaults(function, args, kwargs)
    if (observed := transformed(function)) is not None:
        with _running(function):
            return observed(*args, **kwargs)
    return unobserved.run(call, function, args, kwargs)


@contextmanager
def _running(function: FunctionType) -> Generator[None]:
    """Raises Again where the call may have raised an error and the caller would go on."""
    trace = here()
    before = None if (found := effects_of(trace)) is None else found.state
    trace.functions.append(function)
    check_depth(trace.functions, len(trace.scopes))
    try:
        yield
    except NameError as error:
        raise of_local(error, function) from None
    finally:
        trace.functions.pop()
    after = None if (found := effects_of(trace)) is None else found.state
    if after is not before:
        take_care(trace.functions)


def _with_defaults(
    function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with the defaults of a function from outside, which are guarded."""
    path = paths().of(function)
    if path is None or not (function.__defaults__ or function.__kwdefaults__):
        return args, kwargs
    code, named = function.__code__, dict(kwargs)
    positional = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    first = len(positional) - len(defaults)
    for k in range(max(first, len(args)), len(positional)):
        if positional[k] in kwargs and k >= code.co_posonlyargcount:
            continue
        found = captured(defaults[k - first], path.attr("__defaults__").item(k - first))
        if k < code.co_posonlyargcount and k == len(args):
            args = (*args, found)
        elif k >= code.co_posonlyargcount:
            named[positional[k]] = found
    for name, default in (function.__kwdefaults__ or {}).items():
        if name not in kwargs:
            named[name] = captured(default, path.attr("__kwdefaults__").item(name))
    return args, named


def _has_options(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], implemented: bool
) -> bool:
    """Whether a call is one for each option of a value; of NumPy's functions in lists as well."""
    given = [x for x in (function, *args, *kwargs.values()) if is_variants(x)]
    if any(x.may_be_unset for x in given):
        return True
    chosen = bool(given) or (implemented and first_variants(args) is not None)
    asks_itself = function is print or runs_users(function)
    return chosen and not asks_itself


def _plain_call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    return call(function, args, kwargs)


def is_partial(value: object) -> TypeGuard[functools.partial[Any]]:
    """A functools.partial."""
    return isinstance(value, functools.partial)


def _construct(kind: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A class as a function: np.float32(x) converts, np.random.default_rng() is refused."""
    if kind.__module__.startswith("numpy.random"):
        from mlc.frontend.numpy.generators import seeded

        if (seed := seeded(kind, args, kwargs)) is not None:
            return seed
        raise located(
            NotSupportedError,
            f"np.random ({kind.__name__}) inside a compiled function",
            remedy=RANDOM_REMEDY,
        )
    value: Any = args[0] if args else None
    converts = issubclass(kind, np.generic)
    if converts and isinstance(value, Tracer | SymbolicDim):
        from mlc.frontend.numpy.values import dtype_row, fitting, lift, result

        return result(fitting(lift(value), dtype_row(kind)))
    check_pure(kind)
    if issubclass(kind, BaseException) and any(map(is_deferred, (*args, *kwargs.values()))):
        return Raising(kind, args, kwargs)
    if kind.__module__ in ("builtins", "itertools"):
        stores.check_library(args)
        return instance_of(kind, observed_functions(args), kwargs)
    initialise: Any = getattr(kind, "__init__")  # noqa: B009 - of any class
    new: object = kind.__new__
    plain = type(kind) is type and new is object.__new__
    if plain and isinstance(initialise, FunctionType) and is_users(initialise):
        guard_class(kind, "__init__", initialise)
        if transformed(initialise) is not None:
            made: Any = object.__new__(kind)
            _call_function(initialise, (made, *args), kwargs)
            return made
    return instance_of(kind, args, kwargs)


def observed_functions(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Functions of the user's that a library's calls: `map(helper, xs)`."""

    def observed(function: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            return call(function, args, kwargs)

        return run

    def wants(x: Any) -> bool:
        return isinstance(x, FunctionType | MethodType | functools.partial) or x in (str, repr)

    return tuple(observed(x) if callable(x) and wants(x) else x for x in args)


_LOOSE = Access(FunctionType((lambda: None).__code__, {}), {})
