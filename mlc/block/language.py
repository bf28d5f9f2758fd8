"""`import mlc.block.language`: the module mlc.frontend.block.language, for type checkers."""

from __future__ import annotations

from mlc.frontend.block.language import *  # noqa: F403 - mlc.block puts the module in this place
