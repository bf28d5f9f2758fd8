"""docs/numpy.md says what becomes of every public name of NumPy's, and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlc
from mlc.frontend.numpy.names import REFUSED, SECTIONS, page

PAGE = Path(__file__).parents[2] / "docs" / "numpy.md"
VERSION = ".".join(np.__version__.split(".")[:2])
TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.skipif(f"NumPy {VERSION} " not in TEXT, reason="the page is of another NumPy")
def test_the_page_is_what_is_generated() -> None:
    made = page()
    assert made == TEXT, "python -m mlc.frontend.numpy.names > docs/numpy.md"


def test_every_name_has_a_reason() -> None:
    names = [name for section in SECTIONS.values() for name in section()]
    assert not [n for n in names if n.note == "not yet"]
    assert {n.status for n in names} == {"done", "composed", "while tracing", "refused"}
    several = [name for group in REFUSED.values() for name in group.split()]
    assert len(several) == len(set(several))


def test_the_error_says_why() -> None:
    with pytest.raises(NotImplementedError, match="makes text of values"):
        mlc.compile(lambda x: np.array2string(x * 2))(np.ones(3))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]


def test_a_name_is_imported_when_it_is_asked_for() -> None:
    assert mlc.numpy.kron([1, 2], [3, 4]).tolist() == [3, 4, 6, 8]
    assert mlc.numpy.r_[0:3, 7].tolist() == [0, 1, 2, 7]
    assert not hasattr(mlc.numpy, "busday_count")
    with pytest.raises(AttributeError, match="has no name"):
        _ = mlc.numpy.nothing_of_this_name
