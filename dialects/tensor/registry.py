"""The tensor ops: one line each, the only place where an op is registered."""

from __future__ import annotations

from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Attribute, Dialect, Operation

from mlc.dialects.dims import DimsAttr
from mlc.dialects.plan import PLAN_ATTRIBUTES, PLAN_OPS
from mlc.dialects.target.attribute import TargetAttr
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.bitwise import BITWISE
from mlc.dialects.tensor.calls import CALLS
from mlc.dialects.tensor.comparison import COMPARISON
from mlc.dialects.tensor.complex_parts import PARTS
from mlc.dialects.tensor.control import CONTROL, YieldOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp
from mlc.dialects.tensor.division import DIVISION
from mlc.dialects.tensor.elementwise import ARITHMETIC
from mlc.dialects.tensor.functions import FUNCTIONS
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.markers import MARKERS
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.partition import PARTITION
from mlc.dialects.tensor.placing import PLACING
from mlc.dialects.tensor.positions import PositionsOp
from mlc.dialects.tensor.random import PhiloxOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.room import RoomOp
from mlc.dialects.tensor.rounding import ROUNDING
from mlc.dialects.tensor.rule import RuleOp
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, JoinOp, ReshapeOp, SliceOp, TransposeOp
from mlc.dialects.tensor.some import SomeOp
from mlc.dialects.tensor.sort import ArgsortOp, SearchsortedOp, SortOp
from mlc.dialects.tensor.stream import Exp2EstimateOp, StreamOp
from mlc.dialects.tensor.terms import TERMS
from mlc.dialects.tensor.tiles import TILES
from mlc.dialects.tensor.trigonometry import TRIGONOMETRY
from mlc.dialects.tensor.window import ConvOp, WindowOp
from mlc.dialects.tensor.within import WithinOp

OPS: tuple[type[TensorOp], ...] = (
    ConstantOp,
    IotaOp,
    SizeOp,
    *ARITHMETIC,
    *COMPARISON,
    *PARTS,
    *ROUNDING,
    *FUNCTIONS,
    *TRIGONOMETRY,
    *DIVISION,
    *BITWISE,
    *TERMS,
    *MARKERS,
    PhiloxOp,
    BroadcastOp,
    TransposeOp,
    ReshapeOp,
    SliceOp,
    ConcatOp,
    JoinOp,
    GatherOp,
    ScatterOp,
    *PLACING,
    WithinOp,
    ContractOp,
    ReduceOp,
    ConvOp,
    WindowOp,
    LibraryOp,
    ScanOp,
    SortOp,
    ArgsortOp,
    *PARTITION,
    SearchsortedOp,
    PositionsOp,
    SomeOp,
    RoomOp,
)


class _Constants(ConstantMaterializationInterface):
    """Lets folders return plain attributes."""

    # the interface names the arguments
    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:  # noqa: A002
        kind, properties = type, {"value": value}
        if isinstance(value, DenseIntOrFPElementsAttr) and isinstance(type, TensorType):
            return ConstantOp.create(result_types=[kind], properties=properties)
        return None


TENSOR_ATTRIBUTES = (DimsAttr, TargetAttr)
CONTROL_OPS: tuple[type[Operation], ...] = (*CONTROL, BindOp, RuleOp, YieldOp)
MLC = Dialect(
    "mlc",
    [*OPS, *CONTROL_OPS, *CALLS, *TILES, StreamOp, Exp2EstimateOp, *PLAN_OPS],
    [*TENSOR_ATTRIBUTES, *PLAN_ATTRIBUTES],
    [_Constants()],
)
