"""
Ops of dialect `mlc_vec` on complex elements: `complex<f32>`, or `vector<16xcomplex<f32>>`.

Upstream's `complex` dialect has no vectors. Arithmetic is done on the parts; in registers a vector
of complex elements holds all real parts, then all imaginary ones.
"""

from __future__ import annotations

from enum import auto
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, ComplexType
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_attr_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.lanes import element_of, like


class Part(StrEnum):
    """Which part of a complex number."""

    REAL = auto()
    IMAG = auto()


@irdl_attr_definition
class PartAttr(EnumAttribute[Part]):
    """The part that `mlc_vec.part` takes."""

    name = "mlc_vec.which_part"


PARTS = {str(part): PartAttr(part) for part in Part}


def complex_like(value_type: Attribute) -> Attribute:
    """f32 -> complex<f32>, vector<16xf32> -> vector<16xcomplex<f32>>."""
    return like(value_type, ComplexType(element_of(value_type)))  # pyright: ignore[reportArgumentType]


def _checked(name: str, whole: Attribute, part: Attribute) -> None:
    if not isinstance(element_of(part), AnyFloat) or whole != complex_like(part):
        raise VerifyException(f"{name}: {whole} does not consist of {part}")


@irdl_op_definition
class PartOp(IRDLOperation):
    """
    The real or the imaginary part, lane by lane.

    ```mlir
    %re = mlc_vec.part real %z : vector<8xcomplex<f32>> to vector<8xf32>
    ```
    """

    name = "mlc_vec.part"
    which = prop_def(PartAttr)
    input = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$which $input attr-dict `:` type($input) `to` type($result)"

    @staticmethod
    def of(value: SSAValue, part: str) -> PartOp:
        """`part`: "real" or "imag"."""
        element = element_of(value.type)
        assert isinstance(element, ComplexType)
        kind: Attribute = element.element_type  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return PartOp.create(
            operands=(value,),
            result_types=(like(value.type, kind),),  # pyright: ignore[reportUnknownArgumentType]
            properties={"which": PARTS[part]},
        )

    def verify_(self) -> None:
        _checked(self.name, self.input.type, self.result.type)


@irdl_op_definition
class PairOp(IRDLOperation):
    """
    Complex elements from their parts, lane by lane.

    ```mlir
    %z = mlc_vec.pair %re, %im : vector<8xf32> to vector<8xcomplex<f32>>
    ```
    """

    name = "mlc_vec.pair"
    T: ClassVar = VarConstraint("T", AnyAttr())
    real = operand_def(T)
    imag = operand_def(T)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$real `,` $imag attr-dict `:` type($real) `to` type($result)"

    @staticmethod
    def of(real: SSAValue, imag: SSAValue) -> PairOp:
        return PairOp.create(operands=(real, imag), result_types=(complex_like(real.type),))

    def verify_(self) -> None:
        _checked(self.name, self.result.type, self.real.type)
