"""
Every differentiable function at its special points: derivatives up to the third order in every
order of modes are the differences of those one order lower. In every run two orders.
"""

from __future__ import annotations

import pytest

from tests.derivative_orders import MODES, differing, inconsistent
from tests.derivative_programs import ENDS, FAMILIES, KINKS

QUICK = ("f", "r", "ff", "fr", "rr")


@pytest.mark.parametrize("family", FAMILIES)
def test_two_orders(family: str) -> None:
    found = {name: differing(f, x, QUICK) for name, (f, x) in FAMILIES[family].items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}


def test_two_orders_agree_where_a_rule_decides() -> None:
    found = {name: inconsistent(f, x, QUICK) for name, (f, x) in KINKS.items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}


def test_derivatives_are_infinite_at_the_ends_of_domains() -> None:
    found = {name: inconsistent(f, x, QUICK, finite=False) for name, (f, x) in ENDS.items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_three_orders(family: str) -> None:
    found = {name: differing(f, x, MODES) for name, (f, x) in FAMILIES[family].items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}


@pytest.mark.slow
def test_three_orders_agree_where_a_rule_decides() -> None:
    found = {name: inconsistent(f, x, MODES) for name, (f, x) in KINKS.items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}
