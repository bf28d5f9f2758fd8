"""`mlc.torch`: functions of mlc in PyTorch programs, and PyTorch's programs compiled by mlc."""

from __future__ import annotations

from mlc.frontend.call.torch_bridge import wrap
from mlc.frontend.importers.fx.backend import compile_fx as backend
from mlc.frontend.importers.fx.reports import clear_report, report

__all__ = ["backend", "clear_report", "report", "wrap"]
