"""`mlc.constant`: arrays that are part of the program, which folds what depends on them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mlc.dialects.errors import DTypeError
from mlc.frontend.errors import located
from mlc.frontend.trace.containers import flatten, unflatten
from mlc.frontend.trace.kinds import is_array

if TYPE_CHECKING:
    from mlc.frontend.trace.tracer import Tracer


class ConstantArray(np.ndarray[Any, Any]):
    """A copy of an array that nobody writes to, part of every program that reads it."""


def constant(x: Any) -> Any:
    """
    `x`, an array from outside or a container of such, as it is now, as part of the program.

    What depends on constants alone is computed when the function is compiled: transposed weights, a
    batch normalisation that becomes part of a convolution's filters. Later changes of the elements
    are not seen; another array in its place is, and compiles again. No derivative is taken with
    respect to it. Outside a compiled function: a copy that cannot be written to, which compiled
    functions read so from wherever it lies.
    """
    from mlc.frontend.trace.trace import current

    leaves, structure = flatten(x)
    one = _snapshot if current() is None else _traced
    return unflatten(structure, [one(leaf) for leaf in leaves])


def _snapshot(leaf: Any) -> Any:
    if not is_array(leaf) and not isinstance(leaf, np.generic | bool | int | float | complex):
        raise DTypeError(
            f"mlc.constant: found {type(leaf).__name__}; expected an array, a number or a container"
            " of them"
        )
    found = np.array(leaf, order="C").view(ConstantArray)
    found.flags.writeable = False
    return found


def _traced(leaf: Any) -> Any:
    from mlc.frontend.trace.captures import guard
    from mlc.frontend.trace.paths import Guard
    from mlc.frontend.trace.tracer import Tracer

    if isinstance(leaf, Tracer):
        found = leaf.from_outside()
        if found is None:
            raise located(
                DTypeError,
                "mlc.constant: found an argument or what the function computes; expected an array"
                " from outside.",
                remedy="Write mlc.constant(w).T for mlc.constant(w.T); mlc.stop_gradient(x) is"
                " constant for derivatives alone.",
            )
        leaf, source = found
        guard(Guard("same", source.path, leaf))
    return written(np.asarray(leaf))


def written(array: np.ndarray[Any, Any]) -> Tracer:
    """The array as a constant of the program that is traced."""
    from mlc.frontend.numpy.values import constant as emit
    from mlc.frontend.numpy.values import dtype_row
    from mlc.frontend.trace.trace import here
    from mlc.frontend.trace.tracer import Tracer

    return Tracer(here(), emit(array, dtype_row(array.dtype, "constant")))
