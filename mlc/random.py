"""`import mlc.random`: another way to the module mlc.frontend.random, which `mlc.random` names."""

from __future__ import annotations

import sys

from mlc.frontend import random as _module
from mlc.frontend.random import *  # noqa: F403 - for type checkers; the module below takes its place

sys.modules[__name__] = _module
