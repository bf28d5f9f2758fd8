"""Whether a compiled function answers an expression as NumPy does."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mlc
from mlc.dialects.errors import CompilerBug, MlcError
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.trace.kinds import is_series

Array = NDArray[Any]
Names = Callable[[], Mapping[str, Any]]
"""Makes what the names in an expression stand for: some expressions write to it."""

PER_FUNCTION = 25
ULPS = 64
"""How far floats may lie from NumPy's, in units of the last place of the largest element."""

Tolerance = Callable[[str], float]
"""How far floats may lie apart at least, by the expression."""


@dataclass(frozen=True)
class Verdict:
    """What became of one expression: `same`, `refused`, `raised` as NumPy does, or `differs`."""

    expression: str
    kind: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.expression}: {self.detail}"


@dataclass(frozen=True)
class Outcome:
    """A value, or the exception that an expression raises."""

    value: Any = None
    error: BaseException | None = None


def exact(_: str) -> float:
    """No tolerance but that of the result's dtype."""
    return 0.0


def numpy_outcome(expression: str, names: Mapping[str, Any]) -> Outcome:
    """What NumPy answers."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return Outcome(eval(expression, {"np": np, **names}))
        except Exception as error:  # noqa: BLE001 - whichever it raises is the answer
            return Outcome(error=error)


class Judge:
    """Compiles expressions, several to a function, and compares what they give with NumPy."""

    def __init__(
        self, folder: Path, *, reference: bool = False, tolerance: Tolerance | None = None
    ) -> None:
        self.folder = folder
        self.tolerance: Tolerance = tolerance or exact
        self.reference = reference
        self.numbers = itertools.count()

    def judge(self, expressions: Iterable[str], arrays: Names) -> list[Verdict]:
        """One verdict per expression."""
        outcomes = {text: numpy_outcome(text, arrays()) for text in expressions}
        calm = [text for text, outcome in outcomes.items() if outcome.error is None]
        verdicts: list[Verdict] = []
        for start in range(0, len(calm), PER_FUNCTION):
            verdicts += self._group(calm[start : start + PER_FUNCTION], outcomes, arrays)
        for text, outcome in outcomes.items():
            if outcome.error is not None:
                verdicts += self._group([text], outcomes, arrays)
        return verdicts

    def _group(
        self, texts: Sequence[str], outcomes: Mapping[str, Outcome], arrays: Names
    ) -> list[Verdict]:
        try:
            values = self._results(texts, arrays)
        except Exception as error:  # noqa: BLE001 - an internal error is a verdict too
            if len(texts) > 1:
                half = len(texts) // 2
                first, rest = texts[:half], texts[half:]
                return self._group(first, outcomes, arrays) + self._group(rest, outcomes, arrays)
            return [_of_error(texts[0], outcomes[texts[0]], error, self.reference)]
        pairs = zip(texts, values, strict=True)
        return [
            _of_value(text, outcomes[text], value, self.tolerance(text)) for text, value in pairs
        ]

    def _results(self, texts: Sequence[str], arrays: Names) -> Sequence[Any]:
        used = {
            node.id
            for text in texts
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Name)
        }
        values = arrays()
        names = [name for name in values if name in used] or list(values)[:1]
        name = f"numpy_expressions_{next(self.numbers)}"
        path = self.folder / f"{name}.py"
        lines = "".join(f"        {text},\n" for text in texts)
        path.write_text(
            f"import numpy as np\n\ndef compiled({', '.join(names)}):\n    return (\n{lines}    )\n"
        )
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        arguments = [values[name] for name in names]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function: Any = mlc.compile(module.compiled)
            return (function.reference if self.reference else function)(*arguments)


def _of_error(text: str, outcome: Outcome, error: Exception, reference: bool) -> Verdict:
    found = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if isinstance(error, CompilerBug) or not isinstance(error, MlcError):
        wanted = outcome.error
        told = reference or ".py:" in str(error) or str(error) == str(wanted)
        told = told or isinstance(error, AttributeError)  # of a name that no array has
        if wanted is not None and isinstance(error, _public(type(wanted))) and told:
            return Verdict(text, "raised")  # when it runs, or by NumPy itself
        return Verdict(text, "differs", f"internal error {found}")
    if "site" not in error.__dict__ and "^" not in str(error):
        return Verdict(text, "differs", f"an error without a line: {found}")
    if outcome.error is not None:
        if isinstance(error, _public(type(outcome.error))):
            return Verdict(text, "raised")
        return Verdict(text, "refused", f"{found} for {type(outcome.error).__name__}")
    if isinstance(error, NotSupportedError):
        return Verdict(text, "refused", found)
    return Verdict(text, "refused", f"not as unsupported: {found}")


def _public(error: type[BaseException]) -> type[BaseException]:
    """The class that a user can name: ufuncs raise private kinds of TypeError."""
    return TypeError if issubclass(error, TypeError) else error


def _of_value(text: str, outcome: Outcome, value: object, least: float) -> Verdict:
    if outcome.error is not None:
        error = f"{type(outcome.error).__name__}: {outcome.error}"
        return Verdict(text, "differs", f"{value!r} where NumPy raises {error}")
    difference = difference_of(value, outcome.value, least)
    return Verdict(text, "differs" if difference else "same", difference)


def difference_of(found: Any, wanted: Any, least: float) -> str:
    """How a value differs from NumPy's; empty where it does not."""
    if is_series(wanted):
        if not is_series(found) or len(found) != len(wanted):
            return f"{found!r} where NumPy gives {wanted!r}"
        parts = (difference_of(a, b, least) for a, b in zip(found, wanted, strict=True))
        return next((text for text in parts if text), "")
    if isinstance(wanted, np.dtype | type | str) or wanted is None:
        return "" if found == wanted else f"{found!r} where NumPy gives {wanted!r}"
    got, want = np.asarray(found), np.asarray(wanted)
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{got.shape} where NumPy gives {want.dtype}{want.shape}"
    if not _close(got, want, least):
        return f"{got!r} where NumPy gives {want!r}"
    return ""


def _close(got: Array, want: Array, least: float) -> bool:
    if want.dtype.kind not in "fc":
        return bool((got == want).all())
    if want.dtype.kind == "c":
        scale = np.abs(want[np.isfinite(want)]).max(initial=1e-3)
        return all(_close_to(part(got), part(want), scale, least) for part in (np.real, np.imag))
    return _close_to(got, want, np.abs(want[np.isfinite(want)]).max(initial=1e-3), least)


def _close_to(got: Array, want: Array, scale: Any, least: float) -> bool:
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return False
    wide = [part[finite].astype(np.float64) for part in (got, want)]
    limit = max(ULPS * float(np.finfo(want.dtype).eps) * float(scale), least)
    return bool((np.abs(wide[0] - wide[1]) <= limit).all())
