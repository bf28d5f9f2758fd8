"""Functions of arrays under the names that a model gives, as Python and C can spell them."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any

from mlc.frontend.trace.trace import RESULT_NAMES


def spelled(names: Sequence[str]) -> list[str]:
    """Names that Python can spell, each another one."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "x"
        plain = f"x{plain}" if plain[0].isdigit() or keyword.iskeyword(plain) else plain
        count, text = 1, plain
        while text in found:
            count += 1
            text = f"{plain}_{count}"
        found.append(text)
    return found


def signed(
    function: Callable[..., Any],
    name: str,
    names: Sequence[str],
    kinds: Sequence[Any],
    results: Sequence[str] = (),
) -> Callable[..., Any]:
    """
    The function under a name, with positional parameters of these names; `kinds`: a `TensorSpec`
    for each, or `Parameter.empty`. `results`: the names of its results.
    """

    def run(*arguments: Any) -> Any:
        return function(*arguments)

    run.__name__ = run.__qualname__ = spelled([name])[0]
    setattr(run, "__signature__", Signature([  # noqa: B010 - of a function, as inspect reads it
        Parameter(text, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
        for text, kind in zip(spelled(names), kinds, strict=True)
    ]))  # fmt: skip
    setattr(run, RESULT_NAMES, tuple(results))
    return run
