"""
What becomes of every public name of NumPy's in a compiled function: docs/numpy.md is made from it.

    python -m mlc.frontend.numpy.names > docs/numpy.md
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from mlc.lazy_dataclass import dataclass

Status = Literal["done", "composed", "while tracing", "refused"]

REFUSED: dict[str, str] = {
    "it makes text of values that exist only when the program runs": (
        "array2string array_repr array_str base_repr binary_repr format_float_positional"
        " format_float_scientific array_to_text tobytes dump dumps tofile"
    ),
    "it reads or writes files: read before the call": (
        "fromfile fromregex fromstring genfromtxt load loadtxt save savetxt savez"
        " savez_compressed memmap"
    ),
    "dates and times are no dtype here": (
        "busday_count busday_offset busdaycalendar is_busday isnat datetime_as_string datetime_data"
        " datetime64 timedelta64"
    ),
    "it asks for memory, which is the compiler's to lay out": (
        "may_share_memory shares_memory nditer nested_iters flatiter base ctypes data flags device"
        " to_device setflags getfield setfield byteswap resize broadcast"
    ),
    "matrices, records and polynomials as classes: use arrays": (
        "matrix asmatrix bmat recarray record poly1d character flexible void ma rec polynomial"
        " strings char"
    ),
    "its results are Python objects": "frompyfunc object_ str_ bytes_",
    "there is no such dtype here": (
        "longdouble clongdouble float128 complex256 float96 complex192"
    ),
    "it may raise because of values: check them before the call": "asarray_chkfinite",
    "draw with a generator, or before the call": "random",
    "NumPy has deprecated it: use vstack": "row_stack",
}
"""Why a name is refused -> the names."""

TRACING = (
    "isdtype issubdtype promote_types min_scalar_type mintypecode typename iinfo finfo "
    "dtype einsum_path mask_indices isfortran frombuffer from_dlpack errstate seterr geterr "
    "seterrcall geterrcall printoptions get_printoptions set_printoptions setbufsize "
    "getbufsize info get_include show_config show_runtime test ndindex ndenumerate "
    "sctypeDict typecodes ScalarType little_endian index_exp s_ exceptions dtypes typing "
    "testing lib ctypeslib core emath f2py LinAlgError ufunc ndarray generic number integer "
    "signedinteger unsignedinteger inexact floating complexfloating"
)
"""Names that NumPy itself answers while the function is traced, of what is known then."""

CONSTANTS = ("e", "pi", "inf", "nan", "euler_gamma", "newaxis", "True_", "False_")

NOTES = {
    "item": "not of uint64, whose numbers may be too large",
    "tolist": "of 1,000 elements at most",
    "flat": "a view instead of an iterator",
    "strides": "of C order",
    "bincount": "with minlength= a number beyond it is an IndexError",
    "eigvals": "the result is complex",
    "eig": "the results are complex",
}
"""In what a name that is done differs from NumPy's."""


@dataclass(frozen=True)
class Name:
    """One public name: what becomes of it, and why or in what it differs."""

    name: str
    status: Status
    note: str = ""


def _refusals() -> dict[str, str]:
    return {name: reason for reason, names in REFUSED.items() for name in names.split()}


def why_refused(name: str) -> str:
    """Why a name is refused; empty where nothing is said."""
    return _refusals().get(name, "")


def of_module(module: Any) -> Iterator[Name]:
    """The public names of a module of functions."""
    for name in sorted(n for n in dir(module) if not n.startswith("_")):
        yield _classified(name, getattr(module, name))


def _classified(name: str, value: Any) -> Name:
    from mlc.frontend.numpy.registry import COMPOSED, implementation_of, subscript_of

    if name in CONSTANTS or name in ("linalg", "fft"):
        return Name(name, "done")
    if subscript_of(value) is not None or value is np.vectorize:
        return Name(name, "composed")
    if (reason := why_refused(name)) and not callable(value):
        return Name(name, "refused", reason)
    try:
        found = implementation_of(value)
    except TypeError:  # not hashable
        found = None
    if found is not None:
        if value in COMPOSED:
            return Name(name, "composed", COMPOSED[value])
        return Name(name, "done", NOTES.get(name, ""))
    if reason:
        return Name(name, "refused", reason)
    if name in TRACING.split() or inspect.ismodule(value):
        return Name(name, "while tracing")
    if isinstance(value, type) and issubclass(value, np.generic) and _has_dtype(value):
        return Name(name, "done")
    return Name(name, "refused", "not yet")


def _has_dtype(kind: Any) -> bool:
    from mlc.frontend.numpy.values import dtype_row

    try:
        dtype_row(kind)
    except TypeError:
        return False
    return True


def of_arrays() -> Iterator[Name]:
    """The methods and attributes of arrays."""
    from mlc.frontend.trace.tracer import Tracer

    for name in sorted(n for n in dir(np.ndarray) if not n.startswith("_")):
        if name in dir(Tracer):
            yield Name(name, "done", NOTES.get(name, ""))
        else:
            yield Name(name, "refused", why_refused(name) or "not yet")


def of_ufuncs() -> Iterator[Name]:
    """The methods of ufuncs."""
    from mlc.frontend.numpy.folds import REDUCERS
    from mlc.frontend.numpy.placement import MODES

    reduced = ", ".join(sorted(f.__name__ for f in REDUCERS))
    written = ", ".join(sorted(f.__name__ for f in (*MODES, np.subtract)))
    yield Name("accumulate", "done")
    yield Name("at", "done", f"of {written}")
    yield Name("outer", "done")
    yield Name("reduce", "done", "where= of those that reduceat has")
    yield Name("reduceat", "done", f"of {reduced}")


def of_generators() -> Iterator[Name]:
    """The methods of random generators."""
    for name in sorted(n for n in dir(np.random.Generator) if not n.startswith("_")):
        yield Name(name, "while tracing")


SECTIONS: dict[str, Any] = {
    "numpy": lambda: of_module(np),
    "numpy.linalg": lambda: of_module(np.linalg),
    "numpy.fft": lambda: of_module(np.fft),
    "numpy.lib.stride_tricks": lambda: of_module(np.lib.stride_tricks),
    "numpy.ndarray": of_arrays,
    "numpy.ufunc": of_ufuncs,
    "numpy.random.Generator": of_generators,
}

HEAD = """# NumPy's names

What becomes of every public name of NumPy {version} in a compiled function. Made by
`python -m mlc.frontend.numpy.names`; a test compares it.

- **Done**: mlc has it. `out=`, `where=`, `dtype=`, `casting=` of every ufunc, and `out=`, `where=`,
  `initial=`, `keepdims=` of every reduction that has them in NumPy.
- **Composed**: made of other names (`frontend/numpy/compositions/`), so derivatives, `mlc.vmap`,
  symbolic sizes and complex numbers are those of what it is made of.
- **While tracing**: NumPy itself answers, of what is known when the function is compiled.
  A generator whose seed is known there draws then: `np.random.default_rng(7)` in the function; in
  loops of the program, whose number of trips is known, for all of them, in NumPy's order. Where
  values decide what is drawn, the program draws NumPy's numbers (`default_rng`: `random`,
  `integers`, `standard_normal`, `standard_exponential`, `normal`, `uniform`, `exponential`,
  `choice` with replacement, `permutation`, `shuffle`). One from outside, and one without a seed, is
  refused; `mlc.random` has keys.
- **Refused**: an error that names the line, for the reason that stands here.

Compiled functions compute in this machine's byte order. An argument of the other one (`>f8`) is
copied at each call, and what the function writes to it is written back; `x.dtype` in the function,
and every result, has this machine's order, where NumPy keeps `>f8` for copies and parts of x too
(`x`, `x.copy()`, `x[1:]`, `np.sort(x)`). `f(x).astype(x.dtype)` has it again.
"""


def page() -> str:
    """The text of docs/numpy.md."""
    version = ".".join(np.__version__.split(".")[:2])
    parts = [HEAD.format(version=version)]
    for title, names in SECTIONS.items():
        parts.append(f"\n## {title}\n" + _section(list(names())))
    return "".join(parts)


def _section(names: list[Name]) -> str:
    found = ""
    for status in ("done", "composed", "while tracing"):
        several = [n for n in names if n.status == status]
        if several:
            found += f"\n**{status.capitalize()}**: {_listed(n.name for n in several)}\n"
        noted = [f"- `{n.name}`: {n.note}" for n in several if n.note]
        if noted:
            found += "\n" + "\n".join(noted) + "\n"
    refused = [n for n in names if n.status == "refused"]
    if not refused:
        return found
    found += "\n**Refused**\n\n"
    for reason in dict.fromkeys(n.note for n in refused):
        found += f"- {reason}: {_listed(n.name for n in refused if n.note == reason)}\n"
    return found


def _listed(names: Iterator[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    print(page(), end="")
