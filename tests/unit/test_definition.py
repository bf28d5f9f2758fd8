"""Formats of ops that are read when an op is first printed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import FormatProgram

from mlc import registry

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
