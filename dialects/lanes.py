"""
Scalars and one-dimensional vectors seen alike: how many lanes a type has and what is in each.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from typing import cast

from typing_extensions import TypeVar
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrConstraint,
    InferenceContext,
    IntConstraint,
    VarConstraint,
    VerificationContext,
)
from xdsl.utils.exceptions import VerifyException

from mlc.lazy_dataclass import dataclass

MOST_LANES = 4096  # of a value; many registers' worth


@cache
def vector_type(element_type: Attribute, lanes: int) -> VectorType[Attribute]:
    """`vector<lanes x element_type>`, built once: building a VectorType costs 19 us."""
    return VectorType(element_type, [lanes])


def lanes_of(value_type: Attribute) -> int | None:
    """
    Number of lanes of a vector type, None for a scalar; VerifyException for a vector that is not of
    one dimension of a fixed, small size.
    """
    if not isinstance(value_type, VectorType):
        return None
    vector = cast("VectorType[Attribute]", value_type)
    shape = vector.shape.data
    lanes = shape[0].data if len(shape) == 1 else 0
    if not 1 <= lanes <= MOST_LANES or vector.get_num_scalable_dims():
        raise VerifyException(f"{vector}: expected a vector of 1 to {MOST_LANES} lanes")
    return lanes


def element_of(value_type: Attribute) -> Attribute:
    """Element type of a vector type; a scalar type is its own element."""
    if lanes_of(value_type) is None:
        return value_type
    return cast("VectorType[Attribute]", value_type).element_type


def like(value_type: Attribute, element_type: Attribute) -> Attribute:
    """`element_type` in the shape of `value_type`: f32 -> i1, vector<16xf32> -> vector<16xi1>."""
    lanes = lanes_of(value_type)
    return element_type if lanes is None else vector_type(element_type, lanes)


@dataclass(frozen=True)
class SameLanes(AttrConstraint[Attribute]):
    """The type with `element` in each lane of the type that the variable `shape` stands for."""

    shape: VarConstraint
    element: Attribute

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        shape = constraint_context.get_variable(self.shape.name)
        if shape is None:
            return
        expected = like(shape, self.element)
        if attr != expected:
            raise VerifyException(f"expected {expected} (the lanes of {shape}), got {attr}")

    def can_infer(self, var_constraint_names: AbstractSet[str]) -> bool:
        return self.shape.name in var_constraint_names

    def infer(self, context: InferenceContext) -> Attribute:
        shape = context.get_variable(self.shape.name)
        assert shape is not None
        return like(shape, self.element)

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]
    ) -> AttrConstraint[Attribute]:
        return self
