"""`import mlc.nn`: another way to the module mlc.frontend.nn, which `mlc.nn` names."""

from __future__ import annotations

import sys

from mlc.frontend import nn as _module
from mlc.frontend.nn import *  # noqa: F403 - for type checkers; the module below takes its place

sys.modules[__name__] = _module
