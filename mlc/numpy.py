"""`import mlc.numpy`: another way to the module mlc.frontend.numpy, which `mlc.numpy` names."""

from __future__ import annotations

import sys

from mlc.frontend import numpy as _module
from mlc.frontend.numpy import *  # noqa: F403 - for type checkers; the module below takes its place

sys.modules[__name__] = _module
