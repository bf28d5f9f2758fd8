"""`Tracer`: what stands for an array while a function is traced, with an ndarray's names."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from mlc.dialects.errors import DTypeError, MlcError
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import ConcretizationError, NotSupportedError, SpecialiseSignal, located
from mlc.frontend.trace.kinds import is_series
from mlc.frontend.trace.source import name_of, shown_path, user_site
from mlc.frontend.trace.symbolic import Size, as_size
from mlc.frontend.trace.value import Value

if TYPE_CHECKING:
    from types import ModuleType


def _names() -> ModuleType:
    """mlc.numpy; it imports this module."""
    from mlc.frontend import numpy as names

    return names


class Tracer(Value):
    """An array (or number) of the compiled function. Operations on it are recorded, not run."""

    __slots__ = ()

    if TYPE_CHECKING:  # made below, one line each

        def __add__(self, other: Any) -> Tracer: ...
        def __radd__(self, other: Any) -> Tracer: ...
        def __sub__(self, other: Any) -> Tracer: ...
        def __rsub__(self, other: Any) -> Tracer: ...
        def __mul__(self, other: Any) -> Tracer: ...
        def __rmul__(self, other: Any) -> Tracer: ...
        def __truediv__(self, other: Any) -> Tracer: ...
        def __rtruediv__(self, other: Any) -> Tracer: ...
        def __gt__(self, other: Any) -> Tracer: ...
        def __ge__(self, other: Any) -> Tracer: ...
        def reshape(self, *shape: Any) -> Tracer: ...
        def astype(self, dtype: Any) -> Tracer: ...

    def __repr__(self) -> str:
        dims = ", ".join(str(dim) for dim in self.dims)
        return f"Tracer({self.row.numpy}[{dims}])"

    # what it is

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of the axes; symbolic ones are `SymbolicDim`."""
        return tuple(as_size(dim) for dim in self.dims)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype."""
        return self.row.numpy

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.dims)

    @property
    def size(self) -> Size:
        """The number of elements."""
        from mlc.dialects.dims import product

        return as_size(product(self.dims))

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.row.bytes

    @property
    def T(self) -> Tracer:  # noqa: N802 - NumPy's name
        """The axes in reverse order."""
        return _names().transpose(self)

    @property
    def mT(self) -> Tracer:  # noqa: N802 - NumPy's name
        """The last two axes swapped."""
        return _names().swapaxes(self, -1, -2)

    @property
    def real(self) -> Tracer:
        """The real part."""
        return _names().real(self)

    @real.setter
    def real(self, new: object) -> None:
        _names().setitem(_names().real(self), ..., new)

    @property
    def imag(self) -> Tracer:
        """The imaginary part."""
        return _names().imag(self)

    @imag.setter
    def imag(self, new: object) -> None:
        if self.row.kind != "complex":
            raise located(DTypeError, "the array does not have imaginary part to set")
        _names().setitem(_names().imag(self), ..., new)

    @property
    def nbytes(self) -> Size:
        """Bytes of all elements."""
        return self.size * self.itemsize  # pyright: ignore[reportReturnType]

    @property
    def strides(self) -> tuple[Size, ...]:
        """The bytes from element to element along each axis, of an array in C order."""
        from mlc.dialects.dims import product

        return tuple(as_size(product(self.dims[k + 1 :]) * self.itemsize) for k in range(self.ndim))

    @property
    def flat(self) -> Tracer:
        """The elements in one row: a view, also where NumPy's is an iterator."""
        return _names().reshape(self, (-1,))

    @flat.setter
    def flat(self, new: object) -> None:
        _names().putmask(self, True, new)

    def fill(self, value: object) -> None:
        """Writes one value to all elements."""
        _names().setitem(self, ..., value)

    def sort(self, axis: Any = -1, kind: Any = None, order: Any = None, **kwargs: Any) -> None:
        """Sorts in place."""
        _names().write_all(self, _names().sort(self, axis, kind, order, **kwargs), "sort")

    def partition(self, kth: Any, axis: Any = -1, kind: str = "introselect") -> None:
        """Puts the k-th smallest element at its place."""
        _names().write_all(self, _names().partition(self, kth, axis, kind), "partition")

    def compress(self, condition: Any, axis: Any = None, out: Any = None) -> Tracer:
        """The elements where the condition holds."""
        return _names().compress(condition, self, axis, out)

    def __len__(self) -> int:
        if not self.dims:
            raise located(DTypeError, "len() of a 0-d array; it is a single number")
        return self.shape[0]  # pyright: ignore[reportReturnType]

    def __iter__(self) -> Iterator[Tracer]:
        if not self.dims:
            raise located(DTypeError, "iteration over a 0-d array; it is a single number")
        places = range(self.shape[0])
        return (self[k] for k in places)  # each when it is asked for: a loop may write to others

    # values that only exist at run time

    def _concrete(self, what: str, remedy: str) -> NoReturn:
        if self.origins:
            site = user_site()
            where = "" if site is None else f" at {shown_path(site.filename)}:{site.line}"
            names = ", ".join(sorted(self.origins))
            raise SpecialiseSignal(self.origins, frozenset(), f"{what} of {names} is needed{where}")
        name = name_of(self) or "value"
        kind = f"array {spell(self.dims)}" if self.dims else "number"
        raise located(
            ConcretizationError,
            f"{what} of a traced {kind} ({self.row.numpy}) is needed while the function"
            " is compiled,"
            " but exists only when it runs.",
            remedy=remedy.format(name=name),
        )

    def from_constants(self) -> np.ndarray[Any, Any] | None:
        """The value, where constants alone give it."""
        from mlc.frontend.trace.known import known_array

        return None if self.origins else known_array(self.owner, self.value)

    def __bool__(self) -> bool:
        if (known := self.from_constants()) is not None:
            return bool(known)
        from mlc.frontend.trace.asked import truth_remedy

        return self._concrete("the truth value", truth_remedy(self))

    def __index__(self) -> int:
        if (known := self.from_constants()) is not None:
            return operator.index(known[()])
        return self._concrete(
            "the integer value",
            "A shape, an axis or a range needs a number known when compiling: use"
            " x.shape, or pass it"
            " as a Python int. To index with {name}, write x[{name}].",
        )

    def __int__(self) -> int:
        if (known := self.from_constants()) is not None:
            return int(known)
        return self._concrete(
            "the integer value", "Use {name}.astype(np.int64) to convert it in the compiled code."
        )

    def __float__(self) -> float:
        if (known := self.from_constants()) is not None:
            return float(known)
        return self._concrete(
            "the float value", "Use {name}.astype(np.float64) to convert it in the compiled code."
        )

    def __complex__(self) -> complex:
        if (known := self.from_constants()) is not None:
            return complex(known)
        remedy = "Use {name}.astype(np.complex128) to convert it in the compiled code."
        return self._concrete("the complex value", remedy)

    def item(self, *args: int) -> Any:
        """The element as a Python number."""
        known = self.from_constants()
        return _names().item(self, *args) if known is None else known.item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        known = self.from_constants()
        return _names().tolist(self) if known is None else known.tolist()

    def __array__(self, dtype: Any = None, copy: object = None) -> Any:
        if (known := self.from_constants()) is not None:
            return known if dtype is None else known.astype(np.dtype(dtype))
        return self._concrete(
            "the NumPy array",
            "A function that is not traced got {name}: use the NumPy function of that"
            " name (np.…), or"
            " compute it outside the compiled function.",
        )

    def __hash__(self) -> int:
        from mlc.frontend.trace.hashed import hash_of

        return hash_of(self)

    # NumPy's protocols

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: Any
    ) -> object:
        from mlc.frontend.numpy.ufuncs import call_ufunc

        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> object:
        from mlc.frontend.numpy.registry import call_function

        return call_function(func, args, kwargs)

    # operators

    def __neg__(self) -> object:
        return _applied("negative", self)

    def __pos__(self) -> object:
        return _applied("positive", self)

    def __abs__(self) -> object:
        return _applied("abs", self)

    def __invert__(self) -> object:
        return _applied("invert", self)

    def __round__(self, digits: int | None = None) -> Tracer:
        is_number = self.row.kind != "complex" and (self.weak or self.row.kind != "bool")
        if self.dims or not is_number:
            kind = "ndarray" if self.dims else str(self.row.numpy)
            raise located(
                DTypeError,
                f"type numpy.{kind} doesn't define __round__ method",
                remedy="Use np.round(x), which keeps the dtype.",
            )
        if digits is not None:
            made = _names().round(self, digits)
            made.weak, made.origins = self.weak, self.origins
            return made
        from mlc.frontend.numpy.whole_numbers import whole

        rounded = _names().rint(self)
        rounded.origins = self.origins
        return whole(rounded)  # a Python int, as NumPy's is

    def __format__(self, spec: str) -> str:
        if (known := self.from_constants()) is not None:
            return format(known[()], spec)
        return self._concrete(
            "the text",
            "Return {name} and write the text after the call.",
        )

    def __str__(self) -> str:
        return self.__format__("")

    def __copy__(self) -> Any:
        return _names().copy(self) if self.dims else self

    def __deepcopy__(self, memo: object) -> Any:
        return self.__copy__()

    def __divmod__(self, other: Any) -> tuple[object, object]:
        return _names().quotient_and_rest(self, other)

    def __rdivmod__(self, other: Any) -> tuple[object, object]:
        return _names().quotient_and_rest(other, self)

    def __getitem__(self, key: object) -> Tracer:
        return _names().getitem(self, key)

    def __setitem__(self, key: object, new: object) -> None:
        _names().setitem(self, key, new)

    def __contains__(self, value: object) -> NoReturn:
        self._concrete("the outcome of `in`", "Use (x == value).any().")


def _binary(method: str, function: str) -> None:
    """The operator and its reflection, by mlc.numpy's function; `weak` operands stay weak."""

    def forward(self: Tracer, other: object) -> object:
        return _names().operated(function, self, other)

    def reflected(self: Tracer, other: object) -> object:
        return _names().operated(function, other, self)

    def in_place(self: Tracer, other: object) -> object:
        result = _names().operated(function, self, other)
        if result is NotImplemented or not self.is_place:
            return result  # numbers are immutable: the name is bound anew
        return _names().write_all(self, result, function)

    setattr(Tracer, f"__{method}__", forward)
    setattr(Tracer, f"__r{method}__", reflected)
    setattr(Tracer, f"__i{method}__", in_place)


def _applied(function: str, operand: Tracer) -> object:
    from mlc.frontend.numpy.values import operator_result

    return operator_result(getattr(_names(), function), operand, of_numbers=True)


for _method, _function in {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}.items():
    _binary(_method, _function)


def _comparison(method: str, function: str) -> None:
    def compare(self: Tracer, other: object) -> object:
        from mlc.frontend.numpy.values import is_operand, operator_result

        if not is_operand(other):
            return NotImplemented
        return operator_result(getattr(_names(), function), self, other)

    setattr(Tracer, f"__{method}__", compare)


for _method, _function in {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}.items():
    _comparison(_method, _function)


def _method_of(name: str, function: str) -> None:
    """`x.name(…)` as mlc.numpy's `function(x, …)`."""

    def call(self: Tracer, *args: object, **kwargs: object) -> object:
        return getattr(_names(), function)(self, *args, **kwargs)

    call.__name__ = name
    call.__qualname__ = f"Tracer.{name}"
    call.__doc__ = f"numpy.ndarray.{name}, see mlc.numpy.{function}."
    setattr(Tracer, name, call)


for _name in [
    "sum",
    "prod",
    "max",
    "min",
    "any",
    "all",
    "argmax",
    "argmin",
    "mean",
    "var",
    "std",
    "clip",
    "dot",
    "ravel",
    "squeeze",
    "swapaxes",
    "take",
    "astype",
    "copy",
    "repeat",
    "round",
    "cumsum",
    "cumprod",
    "argsort",
    "argpartition",
    "searchsorted",
    "diagonal",
    "trace",
    "nonzero",
    "choose",
    "put",
]:
    _method_of(_name, _name)
_method_of("flatten", "ravel_copy")
_method_of("conj", "own_conjugate")
_method_of("conjugate", "own_conjugate")


def _view(self: Tracer, dtype: Any = None, type: Any = None) -> Tracer:  # noqa: A002 - NumPy's
    """numpy.ndarray.view: the same memory as another dtype of the same size."""
    if type is not None or dtype is np.ndarray:
        dtype = None
    return _names().bits_as(self, self.row if dtype is None else dtype)


setattr(Tracer, "view", _view)  # noqa: B010 - as the other methods


def _several(name: str) -> None:
    """Methods that take the new axes or sizes one by one or as one tuple."""

    def call(self: Tracer, *args: object, **kwargs: object) -> object:
        alone = len(args) == 1 and (args[0] is None or is_series(args[0]))
        only = args[0] if alone else args
        return getattr(_names(), name)(self, only if args else None, **kwargs)

    call.__name__ = name
    call.__doc__ = f"numpy.ndarray.{name}."
    setattr(Tracer, name, call)


_several("reshape")
_several("transpose")

_NDARRAY_NAMES = frozenset(name for name in dir(np.ndarray) if not name.startswith("_"))


def _missing(self: Tracer, name: str) -> Any:
    if name in _NDARRAY_NAMES:
        raise located(
            NotSupportedError,
            f"ndarray.{name} is not supported yet on traced arrays; see mlc.numpy for what is.",
        )
    return _names().attribute_of(self, name)


Tracer.__getattr__ = _missing  # pyright: ignore[reportAttributeAccessIssue]

__all__ = ["MlcError", "Tracer"]
