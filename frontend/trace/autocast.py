"""Products in 16 bits: `mlc.autocast`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from mlc.dialects.dtypes import F32, DType
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.reduce import ROUNDED, Product
from mlc.frontend.errors import located
from mlc.frontend.trace.trace import current

_rounds: ContextVar[str | None] = ContextVar("_rounds", default=None)
"""To what products that are traced here round their factors."""


def rounding(op: type[Any], dtype: DType) -> dict[str, Any]:
    """What a new op of factors of a dtype says of them."""
    name = _rounds.get()
    return {"rounds": name} if name is not None and issubclass(op, Product) and dtype is F32 else {}


class autocast:  # noqa: N801 - a function to whoever uses it
    """
    Products of float32 as products of 16 bits: factors are rounded to `dtype`, "bf16" or "f16", and
    their products summed in float32. All else is computed as it is written, and dtypes stay. The
    products of derivatives round their factors too. None: as they are written again.

    ```python
    @mlc.autocast("bf16")
    def forward(params, x): ...

    @mlc.compile
    def step(params, x):
        with mlc.autocast("bf16"):
            hidden = x @ params["w"]
        return softmax(hidden)
    ```

    Outside of compiled functions, NumPy computes, and nothing is rounded. Gradients of "f16" want a
    scaled loss: `mlc.optim.scaled`.
    """

    def __init__(self, dtype: str | None = "bf16") -> None:
        if dtype is not None and dtype not in ROUNDED:
            known = " or ".join(map(repr, ROUNDED))
            raise located(
                DTypeError, f"mlc.autocast: {dtype!r}; expected {known}, or None for none."
            )
        self.dtype = dtype
        self._tokens: list[Any] = []

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        dtype = self.dtype

        @functools.wraps(f)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with autocast(dtype):
                return f(*args, **kwargs)

        return inside

    def __enter__(self) -> Self:
        self._tokens.append(_rounds.set(self.dtype if current() is not None else None))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _rounds.reset(self._tokens.pop())
