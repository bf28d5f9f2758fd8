"""
`functools.cached_property` as it is from Python 3.12 on.

Before, all objects of a class wait for one lock while a property of one of them is worked out; a
child that is forked meanwhile waits for ever.
"""

from __future__ import annotations

import functools
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property  # noqa: TID251 - without a lock
else:

    class cached_property(functools.cached_property):  # noqa: N801, TID251 - it stands for that
        """Worked out when it is first asked for; by two threads at once, perhaps, each."""

        def __init__(self, of: Any) -> None:
            super().__init__(of)
            self.lock = nullcontext()


__all__ = ["cached_property"]
