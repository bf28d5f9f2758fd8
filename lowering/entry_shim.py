"""
The function in front of a compiled entry: a CPython builtin made of LLVM IR.

It has the METH_FASTCALL | METH_KEYWORDS signature. It checks each argument, binds the symbols,
allocates the results through NumPy's C API, calls ``i32 @NAME(ctx, args, sizes, outs)`` and turns
the status into a result or an exception. Whatever it does not take (another type, dtype, rank,
layout or size, keyword arguments) goes unchanged to the `slow` callable of the entry's state.

The text names no address: NumPy, CPython and the runtime are undefined symbols (dialects/abi.py).
"""

from __future__ import annotations

from mlc.dialects import abi
from mlc.dialects.dims import Dim, product
from mlc.dialects.signature import (
    ArgSpec,
    BindSymbol,
    CheckAssumed,
    EntrySignature,
    ResultSpec,
    solve,
)
from mlc.lowering.function_text import FunctionText
from mlc.lowering.shim_declarations import DECLARATIONS

OPT_LEVEL = 0
"""
What the shim's text is compiled with. Measured on Zen 5, 1 / 4 / 10 arguments: 1.3 to 2 ms instead
of 4 to 8 at level 1, for 2 to 5 ns more a call.
"""


def emit_shim(signature: EntrySignature, name: str, *, work_ns: Dim | int | None = None) -> str:
    """
    LLVM IR text of the shim of entry `name`; its symbol is `abi.shim_symbol(name)`.

    `work_ns`: the predicted time of one call, in nanoseconds, as a polynomial in the symbols; from
    20 us on the GIL is released. None: unknown, the GIL is kept.
    """
    writer = _Shim(signature, name, Dim.const(0) if work_ns is None else Dim.of(work_ns))
    writer.emit()
    runtime_dtypes = sorted(
        {spec.dtype for spec in (*signature.args, *signature.results)} - abi.TYPE_NUMS.keys()
    )
    globals_ = [f"@{abi.dtype_symbol(dtype)} = external global i32" for dtype in runtime_dtypes]
    entry = f"declare i32 @{name}(ptr, ptr, ptr, ptr)"
    return "\n".join([DECLARATIONS, *globals_, entry, *writer.lines, ""])


class _Shim(FunctionText):
    """Writes one shim, top to bottom. Failed checks branch to %slow."""

    def __init__(self, signature: EntrySignature, name: str, work_ns: Dim) -> None:
        super().__init__()
        self.signature = signature
        self.name = name
        self.work_ns = work_ns
        self._sizes: dict[tuple[int, int], str] = {}  # (argument, axis) -> i64 value

    def require(self, condition: str) -> None:
        """Go on when the i1 holds, else to the slow callable."""
        self.branch(condition, "slow")

    # ---- parts

    def emit(self) -> None:
        """The whole function."""
        symbol = abi.shim_symbol(self.name)
        self.lines.append(
            f'define ptr @"{symbol}"(ptr %self, ptr %argv, i64 %nargs, ptr %kwnames) {{'
        )
        self.label("entry")
        self._allocate_stack()
        nargs = self.equal("i64", "%nargs", str(len(self.signature.args)))
        self.require(self.all_of([nargs, self.equal("ptr", "%kwnames", "null")]))
        for position, spec in enumerate(self.signature.args):
            self._check_argument(position, spec)
        self._solve_sizes()
        self._store_sizes()
        self._check_donations()
        self._take_context()
        for position, spec in enumerate(self.signature.results):
            self._allocate_result(position, spec)
        self._call_entry()
        self._return_results()
        self._emit_failures()
        self.lines.append("}")

    def _allocate_stack(self) -> None:
        signature = self.signature
        self.line(f"%args = alloca [{max(1, len(signature.args))} x ptr], align 8")
        self.line(f"%sizes = alloca [{max(1, signature.size_count)} x i64], align 8")
        self.line(f"%outs = alloca [{max(1, len(signature.results))} x ptr], align 8")
        # result objects; null until made, so that a failure releases exactly those that exist
        self.line(f"%made = alloca [{max(1, len(signature.results))} x ptr], align 8")
        for position in range(len(signature.results)):
            self.store("ptr", "null", "%made", 8 * position)
        ranks = [len(result.dims) for result in signature.results]
        self.line(f"%dims = alloca [{max([1, *ranks])} x i64], align 8")
        self.line("%sigint = alloca [32 x i64], align 8")
        for position, spec in enumerate(signature.args):
            if spec.kind != "array":
                self.line(f"%scalar{position} = alloca i64, align 8")

    def _check_argument(self, position: int, spec: ArgSpec) -> None:
        self.line(
            f"; argument {position}: {spec.kind} {spec.dtype} "
            f"[{', '.join(map(str, spec.dims))}] {spec.layout}"
        )
        self.line(f"%a{position} = load ptr, ptr {self._element('%argv', position)}, align 8")
        type_ = self.load("ptr", f"%a{position}", abi.OBJECT_TYPE)
        if spec.kind == "array":
            self.require(self.equal("ptr", type_, "@PyArray_Type"))
            self._check_array(position, spec)
        else:
            self._check_scalar(position, spec, type_)

    def _element(self, base: str, index: int) -> str:
        return base if index == 0 else self.value(f"getelementptr i8, ptr {base}, i64 {8 * index}")

    def _check_array(self, position: int, spec: ArgSpec) -> None:
        array = f"%a{position}"
        rank = len(spec.dims)
        ndim = self.load("i32", array, abi.ARRAY_NDIM)
        flags = self.load("i32", array, abi.ARRAY_FLAGS)
        wanted = abi.FLAG_ALIGNED
        wanted |= abi.FLAG_C_CONTIGUOUS if spec.layout == "c" else 0
        wanted |= abi.FLAG_WRITEABLE if spec.donated else 0
        present = self.value(f"and i32 {flags}, {wanted}")
        descr = self.load("ptr", array, abi.ARRAY_DESCR)
        self.require(
            self.all_of(
                [
                    self.equal("i32", ndim, str(rank)),
                    self.equal("i32", present, str(wanted)),
                    self._has_dtype(descr, spec.dtype),
                ]
            )
        )
        dimensions = self.load("ptr", array, abi.ARRAY_DIMENSIONS) if rank else ""
        for axis in range(rank):
            self._sizes[position, axis] = self.load("i64", dimensions, 8 * axis)
        data = self.load("ptr", array, abi.ARRAY_DATA)
        self.line(f"%data{position} = getelementptr i8, ptr {data}, i64 0")
        self.store("ptr", f"%data{position}", "%args", 8 * position)

    def _has_dtype(self, descr: str, dtype: str) -> str:
        """One load for byte order and type number: the i64 of kind, type, byteorder, flags, num."""
        word = self.load("i64", descr, abi.DESCR_KIND)
        if dtype in abi.TYPE_NUMS:
            order = ord("|") if abi.ITEM_BYTES[dtype] == 1 else ord("=")
            mask = (0xFFFFFFFF << 32) | (0xFF << 16)
            wanted = (abi.TYPE_NUMS[dtype] << 32) | (order << 16)
            masked = self.value(f"and i64 {word}, {_signed(mask)}")
            return self.equal("i64", masked, str(wanted))
        number = self.value(f"trunc i64 {self.value(f'lshr i64 {word}, 32')} to i32")
        wanted_number = self.load("i32", f"@{abi.dtype_symbol(dtype)}", 0)
        swapped = self.value(f"and i64 {word}, {0xFF << 16}")
        native = self.value(f"icmp ne i64 {swapped}, {ord('>') << 16}")
        return self.all_of([self.equal("i32", number, wanted_number), native])

    def _check_scalar(self, position: int, spec: ArgSpec, type_: str) -> None:
        python_type = {"float": "@PyFloat_Type", "int": "@PyLong_Type", "bool": "@PyBool_Type"}
        self.require(self.equal("ptr", type_, python_type[spec.kind]))
        slot, source = f"%scalar{position}", f"%a{position}"
        if spec.kind == "float":
            value = self.load("double", source, abi.FLOAT_VALUE)
            self._store_float(value, spec.dtype, slot)
        elif spec.kind == "bool":
            self._store_integer(
                self.equal("ptr", source, "@_Py_TrueStruct"), "i1", spec.dtype, slot
            )
        else:
            # the slot serves as the overflow flag first
            self.store("i32", "0", slot, 0)
            value = self.value(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {source}, ptr {slot})")
            fits = [self.equal("i32", self.load("i32", slot, 0), "0")]
            if spec.dtype == "i32":
                low = self.value(f"trunc i64 {value} to i32")
                fits.append(self.equal("i64", self.value(f"sext i32 {low} to i64"), value))
            self.require(self.all_of(fits))
            self._store_integer(value, "i64", spec.dtype, slot)
        self.store("ptr", slot, "%args", 8 * position)

    def _store_float(self, value: str, dtype: str, slot: str) -> None:
        if dtype == "f64":
            self.store("double", value, slot, 0)
        elif dtype == "f32":
            self.store("i32", self._float_bits(value), slot, 0)
        else:
            raise ValueError(f"a Python float cannot be passed as {dtype}; expected f32 or f64")

    def _float_bits(self, double: str) -> str:
        single = self.value(f"fptrunc double {double} to float")
        return self.value(f"bitcast float {single} to i32")

    def _store_integer(self, value: str, from_: str, dtype: str, slot: str) -> None:
        extend = "zext" if from_ == "i1" else "sext"
        if dtype in ("f32", "f64"):
            # through double, as NumPy converts Python integers
            convert = "uitofp" if from_ == "i1" else "sitofp"
            self._store_float(self.value(f"{convert} {from_} {value} to double"), dtype, slot)
        elif dtype == "i64":
            wide = value if from_ == "i64" else self.value(f"{extend} {from_} {value} to i64")
            self.store("i64", wide, slot, 0)
        elif dtype == "i32":
            convert = "trunc" if from_ == "i64" else extend
            self.store("i32", self.value(f"{convert} {from_} {value} to i32"), slot, 0)
        else:
            wide = value if from_ == "i64" else self.value(f"{extend} {from_} {value} to i64")
            byte = self.value(f"trunc i64 {wide} to i8")
            self.line(f"store i8 {byte}, ptr {slot}, align 8")

    # ---- sizes

    def _solve_sizes(self) -> None:
        for step in solve(self.signature):
            if isinstance(step, CheckAssumed):
                self.require(self.value(f"icmp sge i64 {self.polynomial(step.dim)}, 0"))
                continue
            size = self._sizes[step.arg, step.axis]
            if isinstance(step, BindSymbol):
                self._bind(step, size)
            else:
                self.require(self.equal("i64", size, self.polynomial(step.expected)))

    def _bind(self, step: BindSymbol, size: str) -> None:
        conditions: list[str] = []
        value = size
        if step.offset != Dim.const(0):
            value = self.value(f"sub i64 {value}, {self.polynomial(step.offset)}")
        if step.scale != 1:
            rest = self.value(f"srem i64 {value}, {step.scale}")
            conditions.append(self.equal("i64", rest, "0"))
            value = self.value(f"sdiv i64 {value}, {step.scale}")
        if value != size:
            conditions.append(self.value(f"icmp sge i64 {value}, 0"))
            self.require(self.all_of(conditions))
        self.symbols[step.symbol] = value

    def _store_sizes(self) -> None:
        for index, symbol in enumerate(self.signature.symbols):
            self.store("i64", self.symbols[symbol], "%sizes", 8 * index)
        first = len(self.signature.symbols)
        conditions: list[str] = []
        tables: dict[int, str] = {}
        for index, (position, axis) in enumerate(self.signature.strided):
            if position not in tables:
                tables[position] = self.load("ptr", f"%a{position}", abi.ARRAY_STRIDES)
            stride = self.load("i64", tables[position], 8 * axis)
            item_bytes = abi.ITEM_BYTES[self.signature.args[position].dtype]
            shift = item_bytes.bit_length() - 1
            rest = self.value(f"and i64 {stride}, {item_bytes - 1}")
            conditions.append(self.equal("i64", rest, "0"))
            elements = self.value(f"ashr i64 {stride}, {shift}")
            self.store("i64", elements, "%sizes", 8 * (first + index))
        if conditions:
            self.require(self.all_of(conditions))

    def _check_donations(self) -> None:
        """A donated array must not overlap any other argument."""
        arrays = [i for i, spec in enumerate(self.signature.args) if spec.kind == "array"]
        for donated in (i for i in arrays if self.signature.args[i].donated):
            low, high = self._extent(donated)
            for other in arrays:
                if other == donated:
                    continue
                other_low, other_high = self._extent(other)
                before = self.value(f"icmp ule i64 {high}, {other_low}")
                after = self.value(f"icmp uge i64 {low}, {other_high}")
                self.require(self.value(f"or i1 {before}, {after}"))

    def _extent(self, position: int) -> tuple[str, str]:
        """Addresses of the first byte of an array argument and of the one behind its last."""
        spec = self.signature.args[position]
        item_bytes = abi.ITEM_BYTES[spec.dtype]
        low = self.value(f"ptrtoint ptr %data{position} to i64")
        high = low
        if spec.layout == "c":
            count = str(item_bytes)
            for axis in range(len(spec.dims)):
                count = self.value(f"mul i64 {count}, {self._sizes[position, axis]}")
            return low, self.value(f"add i64 {low}, {count}")
        table = self.load("ptr", f"%a{position}", abi.ARRAY_STRIDES)
        for axis in range(len(spec.dims)):
            steps = self.value(f"sub i64 {self._sizes[position, axis]}, 1")
            reach = self.value(f"mul i64 {steps}, {self.load('i64', table, 8 * axis)}")
            down = self.value(f"call i64 @llvm.smin.i64(i64 {reach}, i64 0)")
            up = self.value(f"call i64 @llvm.smax.i64(i64 {reach}, i64 0)")
            low = self.value(f"add i64 {low}, {down}")
            high = self.value(f"add i64 {high}, {up}")
        return low, self.value(f"add i64 {high}, {item_bytes}")

    # ---- the call

    def _take_context(self) -> None:
        """%ctx: the head of the entry's free list, or a new one. The GIL guards the list."""
        head = self.load("ptr", f"@{abi.STATE_SYMBOL}", abi.STATE_FREE_CONTEXTS)
        empty = self.equal("ptr", head, "null")
        self.line(f"br i1 {empty}, label %new_context, label %reuse_context")
        self.label("reuse_context")
        following = self.load("ptr", head, abi.CTX_PRIVATE)
        self.store("ptr", following, f"@{abi.STATE_SYMBOL}", abi.STATE_FREE_CONTEXTS)
        self.line("br label %have_context")
        self.label("new_context")
        new = self.value("call ptr @mlc_context_new()")
        failed = self.equal("ptr", new, "null")
        self.line(f"br i1 {failed}, label %no_memory, label %have_context")
        self.label("have_context")
        self.line(f"%ctx = phi ptr [ {head}, %reuse_context ], [ {new}, %new_context ]")
        threads_at = self.load("ptr", f"@{abi.STATE_SYMBOL}", abi.STATE_THREADS)
        self.store("i64", self.load("i64", threads_at, 0), "%ctx", abi.CTX_THREADS)
        calls = self.load("i64", f"@{abi.STATE_SYMBOL}", abi.STATE_CALLS)
        more = self.value(f"add i64 {calls}, 1")
        self.store("i64", more, f"@{abi.STATE_SYMBOL}", abi.STATE_CALLS)

    def _allocate_result(self, position: int, spec: ResultSpec) -> None:
        if spec.alias_of is not None:
            self.line(f"call void @Py_IncRef(ptr %a{spec.alias_of})")
            made = f"%a{spec.alias_of}"
        else:
            made = self._new_array(position, spec)
        self.store("ptr", made, "%made", 8 * position)
        data = self.load("ptr", made, abi.ARRAY_DATA)
        self.store("ptr", data, "%outs", 8 * position)

    def _new_array(self, position: int, spec: ResultSpec) -> str:
        for axis, dim in enumerate(spec.shape):
            self.store("i64", self.polynomial(dim), "%dims", 8 * axis)
        dims = "%dims" if spec.dims else "null"
        if spec.dtype in abi.TYPE_NUMS:
            number = str(abi.TYPE_NUMS[spec.dtype])
        else:
            number = self.load("i32", f"@{abi.dtype_symbol(spec.dtype)}", 0)
        bytes_ = product(spec.shape) * abi.ITEM_BYTES[spec.dtype]
        plain = (
            f"call ptr @PyArray_New(ptr @PyArray_Type, i32 {len(spec.dims)}, ptr {dims}, "
            f"i32 {number}, ptr null, ptr null, i32 0, i32 0, ptr null)"
        )
        pooled = f"call ptr @mlc_pool_array(i32 {len(spec.dims)}, ptr {dims}, i32 {number})"
        if bytes_.constant is not None:
            made = self.value(pooled if bytes_.constant >= abi.LARGE_RESULT_BYTES else plain)
        else:
            size = self.polynomial(bytes_)
            large = self.value(f"icmp uge i64 {size}, {abi.LARGE_RESULT_BYTES}")
            self.line(f"br i1 {large}, label %large{position}, label %small{position}")
            self.label(f"large{position}")
            from_pool = self.value(pooled)
            self.line(f"br label %made{position}")
            self.label(f"small{position}")
            from_numpy = self.value(plain)
            self.line(f"br label %made{position}")
            self.label(f"made{position}")
            made = self.value(
                f"phi ptr [ {from_pool}, %large{position} ], [ {from_numpy}, %small{position} ]"
            )
        self.branch(self.value(f"icmp ne ptr {made}, null"), "give_up")
        return made

    def _call_entry(self) -> None:
        call = f"call i32 @{self.name}(ptr %ctx, ptr %args, ptr %sizes, ptr %outs)"
        work = self.polynomial(self.work_ns)
        flags = self.value("call i64 @mlc_float_state()")
        if self.work_ns.constant is not None and self.work_ns.constant <= abi.GIL_RELEASE_NS:
            self.line(f"%status = {call}")
        else:
            long = self.value(f"icmp sgt i64 {work}, {abi.GIL_RELEASE_NS}")
            self.line(f"br i1 {long}, label %long, label %short")
            self.label("short")
            quick = self.value(call)
            self.line("br label %called")
            self.label("long")
            slow = self._long_call(call)
            self.line("br label %called")
            self.label("called")
            self.line(f"%status = phi i32 [ {quick}, %short ], [ {slow}, %begin_long ]")
        self.line(f"call void @mlc_restore_float_state(i64 {flags})")
        good = self.equal("i32", "%status", str(abi.STATUS_OK))
        self.branch(good, "failed")
        self._give_context_back()

    def _long_call(self, call: str) -> str:
        """Without the GIL; the main thread can be interrupted by SIGINT."""
        thread = self.value("call i64 @PyThread_get_thread_ident()")
        main = self.equal("i64", thread, self.load("i64", "@mlc_main_thread", 0))
        counter = self.value(f"select i1 {main}, ptr @mlc_interrupts, ptr @mlc_never")
        self.store("ptr", counter, "%ctx", abi.CTX_CANCEL)
        self.store("i64", self.load("i64", counter, 0), "%ctx", abi.CTX_CANCEL_BASE)
        self.line("store ptr null, ptr %sigint, align 8")
        self.line(f"br i1 {main}, label %interruptible, label %begin_long")
        self.label("interruptible")
        self.line("call void @mlc_interruptible(ptr %sigint)")
        self.line("br label %begin_long")
        self.label("begin_long")
        saved = self.value("call ptr @PyEval_SaveThread()")
        status = self.value(call)
        self.line(f"call void @PyEval_RestoreThread(ptr {saved})")
        self.line("call void @mlc_uninterruptible(ptr %sigint)")
        self.store("ptr", "@mlc_never", "%ctx", abi.CTX_CANCEL)
        self.store("i64", "0", "%ctx", abi.CTX_CANCEL_BASE)
        return status

    def _give_context_back(self) -> None:
        head = self.load("ptr", f"@{abi.STATE_SYMBOL}", abi.STATE_FREE_CONTEXTS)
        self.store("ptr", head, "%ctx", abi.CTX_PRIVATE)
        self.store("ptr", "%ctx", f"@{abi.STATE_SYMBOL}", abi.STATE_FREE_CONTEXTS)

    def _return_results(self) -> None:
        results = self.signature.results
        if not results and not self.signature.as_tuple:
            self.line("call void @Py_IncRef(ptr @_Py_NoneStruct)")
            self.line("ret ptr @_Py_NoneStruct")
            return
        objects = [self._finished(position, spec) for position, spec in enumerate(results)]
        if not self.signature.as_tuple:
            self.line(f"ret ptr {objects[0]}")
            return
        made = self.value(f"call ptr @PyTuple_New(i64 {len(results)})")
        self.branch(self.value(f"icmp ne ptr {made}, null"), "drop_results")
        for position, item in enumerate(objects):
            self.line(f"call i32 @PyTuple_SetItem(ptr {made}, i64 {position}, ptr {item})")
        self.line(f"ret ptr {made}")

    def _finished(self, position: int, spec: ResultSpec) -> str:
        """0-d results become NumPy scalars, as NumPy's functions do."""
        made = self.load("ptr", "%made", 8 * position)
        if spec.dims or spec.alias_of is not None:
            return made
        return self.value(f"call ptr @PyArray_Return(ptr {made})")

    def _emit_failures(self) -> None:
        self.label("slow")
        callable_ = self.load("ptr", f"@{abi.STATE_SYMBOL}", abi.STATE_SLOW)
        # its owner may replace it meanwhile: hold it for the call
        self.line(f"call void @Py_IncRef(ptr {callable_})")
        result = self.value(
            f"call ptr @PyObject_Vectorcall(ptr {callable_}, ptr %argv, i64 %nargs, ptr %kwnames)"
        )
        self.line(f"call void @Py_DecRef(ptr {callable_})")
        self.line(f"ret ptr {result}")
        self.label("no_memory")
        nothing = self.value("call ptr @PyErr_NoMemory()")
        self.line(f"ret ptr {nothing}")
        self.label("failed")
        fields = [
            self.load("i64", "%ctx", offset)
            for offset in (abi.CTX_ERROR_SITE, abi.CTX_ERROR_VALUE, abi.CTX_ERROR_EXTENT)
        ]
        self.store("i64", "0", "%ctx", abi.CTX_ERROR_SITE)
        on_status = self.load("ptr", f"@{abi.STATE_SYMBOL}", abi.STATE_ON_STATUS)
        answer = self.value(
            f"call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr {on_status}, "
            f"ptr @status_format, i32 %status, "
            + ", ".join(f"i64 {field}" for field in fields)
            + ")"
        )
        raised = self.equal("ptr", answer, "null")
        self.line(f"br i1 {raised}, label %give_up, label %not_raised")
        self.label("not_raised")
        # the handler always raises; an answer is dropped and CPython reports the null result
        self.line(f"call void @Py_DecRef(ptr {answer})")
        self.line("br label %give_up")
        self.label("give_up")
        self._give_context_back()
        self.line("br label %drop_results")
        self.label("drop_results")
        for position in range(len(self.signature.results)):
            made = self.load("ptr", "%made", 8 * position)
            with self.when(self.value(f"icmp ne ptr {made}, null")):
                self.line(f"call void @Py_DecRef(ptr {made})")
        self.line("ret ptr null")


def _signed(word: int) -> int:
    return word - (1 << 64) if word >= 1 << 63 else word
