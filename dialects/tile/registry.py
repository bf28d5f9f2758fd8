"""The dialect `mlc_tile`: all its ops, types and attributes."""

from __future__ import annotations

from xdsl.ir import Dialect

from mlc.dialects.tile.compute import COMPUTE
from mlc.dialects.tile.control import CONTROL, DealAttr
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ELEMENTS
from mlc.dialects.tile.expression import ConditionsAttr, ExpressionsAttr
from mlc.dialects.tile.fences import FENCES
from mlc.dialects.tile.kernel import KERNELS
from mlc.dialects.tile.layout import LayoutAttr
from mlc.dialects.tile.memory import MEMORY
from mlc.dialects.tile.nest import NESTS
from mlc.dialects.tile.over import OverAttr
from mlc.dialects.tile.pipeline import PIPELINE, ChannelType
from mlc.dialects.tile.turns import TURNS
from mlc.dialects.tile.types import FragType, TokenType, ViewType

MlcTile = Dialect(
    "mlc_tile",
    [
        *KERNELS,
        *CONTROL,
        *MEMORY,
        CopyOp,
        *COMPUTE,
        *ELEMENTS,
        *NESTS,
        *PIPELINE,
        *TURNS,
        *FENCES,
    ],
    [
        ViewType,
        FragType,
        TokenType,
        ChannelType,
        ExpressionsAttr,
        ConditionsAttr,
        OverAttr,
        DealAttr,
        LayoutAttr,
    ],
)
