"""What xDSL's own tools see of mlc: `xdsl-opt` reads our dialects and runs our passes (D23)."""

from __future__ import annotations

from xdsl.universe import Universe

from mlc import registry

MLC_UNIVERSE = Universe(all_dialects=registry.dialects(), all_passes=registry.passes())
