"""Definitions and formats of ops, which wait until somebody needs them."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import i32
from xdsl.irdl import IRDLOperation, operand_def, result_def
from xdsl.irdl.declarative_assembly_format import FormatProgram

from mlc import registry
from mlc.dialects.definition import irdl_op_definition

DIALECTS = registry.dialects()


@pytest.mark.parametrize("name", DIALECTS)
def test_formats_can_be_read(name: str) -> None:
    for op in DIALECTS[name]().operations:
        assert issubclass(op, IRDLOperation)
        definition = op.get_irdl_definition()
        assert definition.assembly_format == op.assembly_format
        if op.assembly_format is not None:
            FormatProgram.from_str(op.assembly_format, definition)


def test_a_call_reads_no_format_of_ours(tmp_path: object) -> None:
    program = """
import numpy as np
from xdsl.irdl.declarative_assembly_format import FormatProgram
read = FormatProgram.from_str
def noted(text, definition):
    assert not definition.name.startswith("mlc"), definition.name
    return read(text, definition)
FormatProgram.from_str = staticmethod(noted)
import mlc
assert mlc.compile(lambda x: x + x * x)(np.ones(8)).tolist() == [2.0] * 8
"""
    environment = {"MLC_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_ops_are_defined_when_one_is_made_or_asked_for(tmp_path: object) -> None:
    program = """
from xdsl.irdl.operations import OpDef
define, defined = OpDef.from_pyrdl, []
def noted(kind):
    defined.append(kind.name)
    return define(kind)
OpDef.from_pyrdl = staticmethod(noted)
import numpy as np
import mlc
assert mlc.compile(lambda x: x + x * x)(np.ones(8)).tolist() == [2.0] * 8
from xdsl.dialects import arith, builtin
assert "mlc.add" in defined and "arith.addf" in defined, defined
assert len(defined) < 90 and len(defined) == len(set(defined)), defined
assert "arith.negf" not in defined
before = [set(map(repr, op.traits)) for op in arith.Arith.operations]
one = arith.ConstantOp(builtin.FloatAttr(7.0, 32))
op = arith.NegfOp(one)
assert op.operand is one.result and op.result.type == one.result.type
op.verify()
assert "arith.negf" in defined
from xdsl.context import Context
from xdsl.parser import Parser
context = Context()
context.load_dialect(arith.Arith)
parser = Parser(context, '%1 = arith.constant 3.0 : f32\\n%0 = arith.divf %1, %1 : f32')
parser.parse_operation()
assert parser.parse_operation().lhs.type == one.result.type
for op, traits in zip(arith.Arith.operations, before):
    op.get_irdl_definition()
    assert set(map(repr, op.traits)) == traits, op
"""
    environment = {"MLC_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_threads_define_an_op_once() -> None:
    one = ConstantOp.from_int_and_width(1, 32).result
    for _ in range(20):

        @irdl_op_definition
        class Twice(IRDLOperation):
            name = "test.twice"
            x = operand_def(i32)
            y = result_def(i32)

        gate, made = threading.Barrier(8), list[bool]()

        def work(
            gate: threading.Barrier = gate, made: list[bool] = made, kind: type[Twice] = Twice
        ) -> None:
            gate.wait()
            op = kind.create(operands=[one], result_types=[i32])
            op.verify()
            made.append(op.x is one and op.y is op.results[0])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [True] * 8
