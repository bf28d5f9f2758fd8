"""The error of a line that reads an attribute that arrays have not."""

from __future__ import annotations

import numpy as np

from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import located
from mlc.frontend.trace.tracer import Tracer


def without(value: Tracer, name: str) -> AttributeError:
    """The error, with the name that was meant if one is near."""
    from difflib import get_close_matches

    names = [known for known in dir(np.ndarray) if not known.startswith("_")]
    near = get_close_matches(name, names, 1)
    kind = f"an array {spell(value.dims)}" if value.dims else "a number"
    return located(
        AttributeError,
        f"{kind} ({value.row.numpy}) has no attribute {name!r}.",
        remedy=f"Did you mean {near[0]!r}?" if near else "",
    )
