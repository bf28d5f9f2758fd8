"""What is no function of Python, such as an imported model, as a function that a program calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlc.dialects.tensor.calls import CallOp
from mlc.frontend.trace.private import private_function
from mlc.frontend.trace.regions import Carry
from mlc.frontend.trace.subprogram import inline, subprogram
from mlc.frontend.trace.tracer import Tracer


def called(name: str, run: Callable[..., Any], *arguments: Tracer) -> Any:
    """
    What `run` gives for arrays of the program, by a call of a private function, `name`, that holds
    its ops. They are part of the program at once where `private_function` says so.
    """
    inputs = Carry.of(name, arguments, "argument")
    sub = subprogram(name, inputs, lambda values: run(*values), passes=True)
    made = private_function(sub, inputs.values, name, once=True)
    if made is not None:
        return sub.outcome.results(made.use(CallOp)[0])
    outputs = inline(sub.block, inputs.values, sub.outputs)
    sub.settle(outputs)
    return sub.outcome.results(outputs[: len(sub.outcome.arrays)])
