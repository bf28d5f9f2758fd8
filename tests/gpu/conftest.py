"""What tests on a device have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlc.runtime.cuda import device
from tests.gpu.guarded import guarded


@pytest.fixture
def guarded_memory() -> Iterator[None]:
    """Zones around arguments, results, scratch and constants are as before."""
    memory = guarded()
    yield
    with device().active():
        memory.check()
