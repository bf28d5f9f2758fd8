"""A call's arguments: bound to parameters, taken apart into leaves, and described for dispatch."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dtypes import DTYPES, DType, numpy_dtype
from mlc.dialects.errors import DTypeError
from mlc.dialects.signature import Layout
from mlc.frontend.call.spec import TensorSpec
from mlc.frontend.numpy.registry import implementation_of
from mlc.frontend.trace.captures import bare_function, is_users, is_users_function
from mlc.frontend.trace.containers import LEAF, Structure, flatten, leaf_names
from mlc.frontend.trace.kinds import class_of, is_array, is_scalar, is_slice, makes_array
from mlc.frontend.trace.paths import told_by_equality
from mlc.frontend.trace.size_inputs import AsSize
from mlc.lazy_dataclass import dataclass
from mlc.runtime.interop import as_array

Kind = Literal["array", "float", "int", "size", "spec", "static", "opaque"]
INT64 = range(-(2**63), 2**63)


@dataclass
class Leaf:
    """One leaf of the arguments. `key`: what else than sizes decides which program serves it."""

    name: str
    kind: Kind
    value: Any
    key: Hashable
    given: Any = None  # the caller's object where `value` is made from it
    layout: Layout = "c"
    number: AsSize | None = None  # of an int that is a size

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of an array's axes."""
        return self.value.shape if self.kind == "array" else ()

    @property
    def copied_because(self) -> str:
        """Why an array had to be copied before the call; empty where it is taken as it is."""
        if self.kind != "array" or not is_array(self.given) or self.given is self.value:
            return ""
        array = self.given
        if not array.dtype.isnative:
            return f"its byte order is that of {array.dtype.str}"
        if not array.flags.aligned:
            return f"its address is no multiple of {array.dtype.alignment} bytes"
        if any(stride % array.itemsize for stride in array.strides):
            return f"its strides {array.strides} are no multiples of {array.itemsize} bytes"
        return ""


@dataclass
class Call:
    """The arguments of one call."""

    values: list[Any]  # one for each parameter
    structures: list[Structure]
    leaves: list[Leaf]


_STATIC = frozenset({bool, str, bytes, complex})
_STATIC_FAMILIES = (
    type,
    np.dtype,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    partial,
    np.ufunc,
)
_NO_VALUE = getattr(np, "_NoValue", object())
_ROWS: dict[np.dtype[Any], DType] = {row.numpy: row for row in DTYPES}


class Parameters:
    """The parameters of a function, and which of them are static."""

    def __init__(
        self,
        function: Callable[..., Any],
        static: Sequence[str],
        donate: Sequence[str] = (),
        *,
        on_gpu: bool = False,
    ) -> None:
        self._function = function
        self.on_gpu = on_gpu  # arrays on a GPU are taken as they are
        self.signature = _signature(function)
        self.parameters = list(self.signature.parameters.values())
        self.names = [p.name for p in self.parameters]
        self.static = set(static)
        self.count = len(self.names)
        simple = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.plain = all(p.kind in simple for p in self.parameters)
        self._bare = bare_function(function)
        self._note_defaults()
        self._of_library = not (isinstance(self._bare, FunctionType) and is_users(self._bare))
        self._options_static = self._of_library and not isinstance(self._bare, np.ufunc)
        self._defaults = {p.name: p.default for p in self.parameters if p.default is not p.empty}
        self._take = _taker(self.parameters)
        for option, given in (("static", static), ("donate", donate)):
            if unknown := sorted(set(given) - set(self.names)):
                known = ", ".join(self.names)
                message = (
                    f"{option}={unknown[0]!r}: {getattr(function, '__name__', 'the function')} has"
                    " no such parameter"
                )
                raise TypeError(f"{message}; expected one of {known}")
        if both := sorted(self.static & set(donate)):
            raise TypeError(f"{both[0]!r} is static and donated; a static value has no memory")

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """One value for each parameter, defaults included; TypeError as Python raises it."""
        if not kwargs and len(args) == self.count and self.plain:
            return list(args)
        self._look_at_defaults()
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return list(bound.arguments.values())

    def _look_at_defaults(self) -> None:
        """Takes the function's defaults as they are now."""
        bare = self._bare
        if not isinstance(bare, FunctionType):
            return
        if bare.__defaults__ is self._positional and not bare.__kwdefaults__ and not self._named:
            return
        now = _defaults_of(bare)
        if len(now) == len(self._seen) and all(map(operator.is_, now, self._seen)):
            return
        self._note_defaults()
        self.signature = _signature(self._function)
        self.parameters = list(self.signature.parameters.values())
        self._defaults = {p.name: p.default for p in self.parameters if p.default is not p.empty}
        self._take = _taker(self.parameters)

    def _note_defaults(self) -> None:
        """The defaults that the signature has."""
        self._seen = _defaults_of(self._bare)
        self._positional = getattr(self._bare, "__defaults__", None)
        self._named = bool(getattr(self._bare, "__kwdefaults__", None))

    def bind_specs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """As `bind`, with the `TensorSpec` annotations of parameters that get no value."""
        bound = self.signature.bind_partial(*args, **kwargs)
        for parameter in self.parameters:
            if isinstance(parameter.annotation, TensorSpec):
                bound.arguments.setdefault(parameter.name, parameter.annotation)
        return self.bind(bound.args, bound.kwargs)

    def ordered(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any] | None:
        """One value for each parameter, quickly; None where `bind` must decide."""
        self._look_at_defaults()
        try:
            return self._take(*args, **kwargs)
        except TypeError:  # as Python raises it: by `bind`, which names the function
            return None

    def invoke(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """The function called with one value for each parameter."""
        positional: list[Any] = []
        named: dict[str, Any] = {}
        pairs = list(zip(self.parameters, values, strict=True))
        if self._of_library:  # its defaults may mean nothing to ours
            named_only = inspect.Parameter.KEYWORD_ONLY
            pairs = [(p, v) for p, v in pairs if p.kind is not named_only or v is not p.default]
            while pairs and pairs[-1][1] is pairs[-1][0].default:
                pairs.pop()
        for parameter, value in pairs:
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                positional.extend(value)
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                named[parameter.name] = value
            else:
                positional.append(value)
        return function(*positional, **named)

    def call(
        self,
        values: list[Any],
        forced_static: set[str],
        as_sizes: Mapping[Hashable, AsSize] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Call:
        """
        The leaves of the bound values. `as_sizes`: ints that are sizes, by name; `limits`: how
        large those are that are inputs of a program.
        """
        structures: list[Structure] = []
        leaves: list[Leaf] = []
        for name, value in zip(self.names, values, strict=True):
            fixed = self._options_static and (
                type(value) is int or value is self._defaults.get(name, self)
            )
            if fixed or name in self.static:
                structures.append(LEAF)
                leaves.append(static_leaf(name, value))
                continue
            parts, structure = flatten(value)
            structures.append(structure)
            names = (name,) if structure is LEAF else leaf_names(value, name)
            for part_name, part in zip(names, parts, strict=True):
                number = None if as_sizes is None else as_sizes.get(part_name)
                if number is not None and number.takes(part):
                    leaves.append(Leaf(part_name, "size", part, "size", number=number))
                elif part_name in forced_static:
                    leaves.append(static_leaf(part_name, part))
                else:
                    device_leaf = _device_leaf(part_name, part) if self.on_gpu else None
                    leaf = device_leaf or leaf_of(part_name, part)
                    large = leaf.kind == "int" and limits and _is_large(leaf, limits)
                    leaves.append(static_leaf(part_name, part) if large else leaf)
        return Call(values, structures, leaves)


def _is_large(leaf: Leaf, limits: Mapping[str, int]) -> bool:
    return abs(leaf.value) > limits.get(leaf.name, abs(leaf.value))


def _defaults_of(function: Any) -> tuple[object, ...]:
    """The default values of a Python function's parameters."""
    if not isinstance(function, FunctionType):
        return ()
    named = function.__kwdefaults__ or {}
    return (*(function.__defaults__ or ()), *named, *named.values())


def _taker(parameters: Sequence[inspect.Parameter]) -> Callable[..., Sequence[Any]]:
    """A function of these parameters that gives their values: Python itself binds a call."""
    given = [p for p in parameters if p.default is not p.empty]
    shown = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else None)
        for p in parameters
    ]
    values = "".join(f"{p.name}," for p in parameters)
    take: Any = eval(f"lambda {str(inspect.Signature(shown))[1:-1]}: ({values})", {})
    take.__defaults__ = tuple(p.default for p in given if p.kind is not p.KEYWORD_ONLY)
    take.__kwdefaults__ = {p.name: p.default for p in given if p.kind is p.KEYWORD_ONLY}
    return take


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """
    The signature, with annotations that name a `TensorSpec` evaluated. A ufunc takes its operands;
    options without a default of their own (NumPy's ``<no value>``) are left out.
    """
    hashable = class_of(function).__hash__ is not None
    ours = implementation_of(function) if hashable and not isinstance(function, np.ufunc) else None
    function = inspect.unwrap(ours or function)  # of what a transformation was made from
    if isinstance(function, np.ufunc):
        names = ["x"] if function.nin == 1 else [f"x{k + 1}" for k in range(function.nin)]
        positional = inspect.Parameter.POSITIONAL_ONLY
        return inspect.Signature([inspect.Parameter(name, positional) for name in names])
    plain = inspect.signature(function)
    if any(p.default is _NO_VALUE for p in plain.parameters.values()):
        given = [p for p in plain.parameters.values() if p.default is not _NO_VALUE]
        plain = plain.replace(parameters=given)
    texts = [p.annotation for p in plain.parameters.values() if isinstance(p.annotation, str)]
    if not any("TensorSpec" in text for text in texts):
        return plain
    try:
        return inspect.signature(function, eval_str=True)
    except (NameError, AttributeError, SyntaxError):
        return plain


def is_array_like(value: object) -> bool:
    """What NumPy takes as an array: by DLPack, the array interface, or memory that is numbers."""
    shared = hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")
    return shared or makes_array(value)


def static_leaf(name: str, value: Any) -> Leaf:
    """A value that is part of the program."""
    try:
        hash(value)
    except TypeError:
        kind = class_of(value).__name__
        remedy = "pass a tuple for a list, or the array as an ordinary argument"
        raise DTypeError(
            f"static argument {name} is a {kind}, which cannot be hashed; {remedy}"
        ) from None
    told = value if told_by_equality(value) else repr(value)
    return Leaf(name, "static", value, ("static", class_of(value), told))


def leaf_of(name: str, value: Any) -> Leaf:
    """What a leaf is: array, number, static value, or an object of the user's."""
    kind = class_of(value)
    if kind is np.ndarray:
        return _array_leaf(name, value)
    if kind is float:
        return Leaf(name, "float", value, "float")
    if kind is int:
        return Leaf(name, "int", value, "int") if value in INT64 else static_leaf(name, value)
    if isinstance(value, TensorSpec):
        told = (value.unit,) if value.unit else ()  # part of the program
        return Leaf(name, "spec", value, ("array", value.dtype.name, len(value.dims), "c", *told))
    if is_scalar(value) or is_array(value):
        return _array_leaf(name, _supported(name, value), given=value)
    if is_slice(value):
        return Leaf(name, "static", value, ("slice", value.start, value.stop, value.step))
    if is_users_function(value):
        return Leaf(name, "opaque", value, ("opaque", kind))
    if value is None or kind in _STATIC or isinstance(value, _STATIC_FAMILIES):
        return static_leaf(name, value)
    if is_array_like(value):
        return _array_leaf(name, _supported(name, value), given=value)
    return Leaf(name, "opaque", value, ("opaque", kind))


def _array_leaf(name: str, array: NDArray[Any], given: Any = None) -> Leaf:
    original = array if given is None else given
    if array.dtype not in _ROWS:
        array = _supported(name, array)
    if array.dtype is not _ROWS[array.dtype].numpy:
        array = addressable(array)
    flags = array.flags
    if flags.c_contiguous and flags.aligned:
        layout: Layout = "c"
    elif flags.aligned and not any(stride % array.itemsize for stride in array.strides):
        layout = "general"
    else:
        array, layout = addressable(array), "c"
    told = ("scalar",) if is_scalar(original) else ()  # Python's classes are part of the program
    key: Hashable = ("array", _ROWS[array.dtype].name, array.ndim, layout, *told)
    return Leaf(name, "array", array, key, original, layout)


def addressable(array: NDArray[Any]) -> NDArray[Any]:
    """The array, or a copy that compiled code can address, with the dtype that it knows."""
    native = array.dtype.newbyteorder("=")
    known = _ROWS[native].numpy if native in _ROWS else native
    strided = any(stride % array.itemsize for stride in array.strides)
    if array.flags.aligned and array.dtype.isnative and not strided:
        return array if array.dtype is known else array.view(known)  # longlong is int64
    return np.array(array, known, order="C", copy=True, subok=False)


def _device_leaf(name: str, value: Any) -> Leaf | None:
    """The leaf of an array on a GPU, which stays there; None for anything else."""
    from mlc.runtime.cuda.dlpack import on_device, view_of

    if not on_device(value):
        return None
    try:
        array = view_of(value, f"argument {name!r}")
    except TypeError as error:
        raise DTypeError(str(error)) from None
    layout: Layout = "c" if array.contiguous else "general"
    return Leaf(name, "array", array, ("array", array.row.name, array.ndim, layout), value, layout)


def _supported(name: str, value: object) -> NDArray[Any]:
    """The value as an array whose dtype has a row; what else it cannot be, the runtime says."""
    try:
        array: NDArray[Any] = as_array(value, f"argument {name!r}")
        numpy_dtype(array.dtype)
    except TypeError as error:
        text = str(error)
        if not text.startswith("argument"):
            text = f"argument {name!r}: {text}; convert it, such as {name}.astype(np.float32)"
        raise DTypeError(text) from None
    return array


def known_sizes(leaf: Leaf) -> tuple[int | None, ...]:
    """The size of each axis; None where a `TensorSpec` leaves it open."""
    return tuple(d.constant for d in leaf.value.dims) if leaf.kind == "spec" else leaf.shape


def row_of(leaf: Leaf) -> DType:
    """The dtype of an array's or a spec's elements."""
    return leaf.value.dtype if leaf.kind == "spec" else _ROWS[leaf.value.dtype]
