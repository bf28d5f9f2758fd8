"""Entries in hand-written LLVM IR, and how to load them as the pipeline loads compiled ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NoReturn

from mlc.dialects.dims import Dim
from mlc.dialects.signature import EntrySignature
from mlc.lowering.entry_shim import emit_shim
from mlc.runtime import entry
from mlc.runtime.objects import object_of
from mlc.runtime.probe import host_target
from mlc.runtime.slow_entry import SlowEntry

Fallback = Callable[..., object]

# out[i] = x[i] + y[i], float32; sizes: B
ADD = """
define i32 @add(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) {
entry:
  %n = load i64, ptr %sizes
  %x = load ptr, ptr %args
  %y.at = getelementptr ptr, ptr %args, i64 1
  %y = load ptr, ptr %y.at
  %out = load ptr, ptr %outs
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %xi = getelementptr float, ptr %x, i64 %i
  %yi = getelementptr float, ptr %y, i64 %i
  %oi = getelementptr float, ptr %out, i64 %i
  %a = load float, ptr %xi, align 4
  %b = load float, ptr %yi, align 4
  %s = fadd float %a, %b
  store float %s, ptr %oi, align 4
  %i.next = add i64 %i, 1
  br label %head
done:
  ret i32 0
}
"""


def echo_sizes(count: int) -> str:
    """out[i] = sizes[i], int64, for i < count."""
    lines = ["define i32 @echo_sizes(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) {"]
    lines.append("  %out = load ptr, ptr %outs")
    for i in range(count):
        lines += [
            f"  %s{i} = getelementptr i64, ptr %sizes, i64 {i}",
            f"  %v{i} = load i64, ptr %s{i}",
            f"  %o{i} = getelementptr i64, ptr %out, i64 {i}",
            f"  store i64 %v{i}, ptr %o{i}",
        ]
    return "\n".join([*lines, "  ret i32 0", "}"])


def copy_item(bits: int, name: str = "copy_item") -> str:
    """outs[0][0] = args[0][0], an item of so many bits."""
    return f"""
define i32 @{name}(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) {{
  %x = load ptr, ptr %args
  %out = load ptr, ptr %outs
  %v = load i{bits}, ptr %x, align 1
  store i{bits} %v, ptr %out, align 1
  ret i32 0
}}
"""


def never(dtype: str) -> NoReturn:
    """A fallback that must not be reached."""
    raise AssertionError(f"the slow path was taken: {dtype}")


def raise_index_error(site: int, value: int, extent: int) -> NoReturn:
    """What the frontend's handler does, without source lines."""
    raise IndexError(f"site {site}: index {value} is out of bounds for size {extent}")


@functools.cache
def host_object(text: str) -> bytes:
    """The object of `text` for this machine, compiled once per test process."""
    return object_of(text, host_target(), opt_level=0).image


def load(
    text: str,
    name: str,
    signature: EntrySignature,
    *,
    slow: Fallback = never,
    thread_count: int | None = 1,
    work_ns: int | Dim | None = None,
) -> entry.LoadedEntry:
    """The entry `name` of `text` behind its shim."""
    shim = emit_shim(signature, name, work_ns=work_ns)
    return entry.load_entry(
        [host_object(text), host_object(shim)],
        name,
        signature,
        slow=slow,
        on_error=raise_index_error,
        thread_count=thread_count,
    )


def load_both(
    text: str, name: str, signature: EntrySignature, *, slow: Fallback = never
) -> tuple[Fallback, Fallback]:
    """The native builtin and the slow entry of the same code."""
    loaded = load(text, name, signature, slow=slow)
    state = entry.EntryState(slow, raise_index_error, 1)
    slow_entry = SlowEntry(loaded.address, signature, state)
    native = loaded.builtin

    def through_python(*args: object, **kwargs: object) -> object:
        assert loaded.native  # holds the code
        return slow_entry(*args, **kwargs)

    return native, through_python
