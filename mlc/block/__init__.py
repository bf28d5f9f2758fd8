"""`import mlc.block`: another way to the module mlc.frontend.block, which `mlc.block` names."""

from __future__ import annotations

import sys

from mlc.frontend import block as _module
from mlc.frontend.block import *  # noqa: F403 - for type checkers; the module below takes its place

sys.modules[__name__] = _module
sys.modules[f"{__name__}.language"] = _module.language
