"""`import mlc.optim`: another way to the module mlc.frontend.optim, which `mlc.optim` names."""

from __future__ import annotations

import sys

from mlc.frontend import optim as _module
from mlc.frontend.optim import *  # noqa: F403 - for type checkers; the module below takes its place

sys.modules[__name__] = _module
