"""Errors a user of mlc sees. Each message says what was found, what was expected and what to do."""

from __future__ import annotations

EXPLAINED = frozenset(
    {
        *("ShapeError", "DTypeError", "OutOfBoundsError", "AxisError", "ConcretizationError"),
        *("NotSupportedError", "LeakError", "ParallelError", "MemoryLimitError", "ContractError"),
        "CompilerBug",
    }
)
"""Classes that have a section in docs/errors.md."""


class MlcError(Exception):
    """Base of every error that mlc raises on purpose; a traceback names its section of the docs."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        kinds = (kind.__name__ for kind in type(self).__mro__)
        if (name := next((name for name in kinds if name in EXPLAINED), None)) is not None:
            self.add_note(
                f"docs/errors.md#{name.lower()} has an example, and what to write instead"
            )


class ShapeError(MlcError, ValueError):
    """
    Shapes do not fit together.

    ``mlc.add: shapes (3,) and (4,) differ`` — broadcast or slice one of them.
    """


class DTypeError(MlcError, TypeError):
    """
    An operation is not defined for a dtype.

    ``exp`` of integers — convert with ``x.astype(np.float32)``.
    """


class ParallelError(MlcError, ValueError):
    """
    Trips of a loop that is said to be parallel are not independent.

        for i in mlc.prange(n):
            y[0] += x[i]           # of an array: s += x[i] of a number is a sum that may be shared
    """


class MemoryLimitError(MlcError, MemoryError):
    """
    A program needs more memory than `peak_bytes` allows, whatever is computed again.

        @mlc.compile(peak_bytes="64MiB")     # a higher limit, mlc.checkpoint, a smaller batch
    """


class PlanError(MlcError, ValueError):
    """
    A plan is not what the pass that reads it expects: another pass has to run first, or its target
    runs no such kernels.
    """


class CompilerBug(MlcError):  # noqa: N818 - what it is: no user can make or mend this error
    """
    mlc itself is at fault.

    A level holds what it forbids, or an emitter met an op that it does not know.
    """


class RoomError(MlcError):
    """
    A call has more elements to keep than it has room for; whoever called begins again with more.
    """

    def __init__(self, needed: int) -> None:
        super().__init__(f"there is no room for {needed} elements")
        self.needed = needed

    @staticmethod
    def of(function: str, number: int) -> Exception:
        """For a number of elements that a function of NumPy's counts; below 0 it is at fault."""
        if number >= 0:
            return RoomError(number)
        return ValueError(_NEGATIVE[function])


_NEGATIVE = {
    "repeat": "repeats may not contain negative values.",
    "bincount": "'list' argument must have no negative elements",
    **dict.fromkeys(("full", "zeros", "ones", "eye", "tri"), "negative dimensions are not allowed"),
}
