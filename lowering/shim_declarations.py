"""What the text of a shim names of NumPy, CPython and the runtime (dialects/abi.py)."""

from __future__ import annotations

from mlc.dialects import abi

DECLARATIONS = f"""\
@{abi.STATE_SYMBOL} = external global [{abi.STATE_BYTES} x i8], align 8
@mlc_interrupts = external global i64
@mlc_never = external global i64
@mlc_main_thread = external global i64
@PyArray_Type = external global i8
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyBool_Type = external global i8
@_Py_TrueStruct = external global i8
@_Py_NoneStruct = external global i8
@status_format = private constant [5 x i8] c"iLLL\\00"
declare ptr @mlc_context_new()
declare void @mlc_interruptible(ptr)
declare void @mlc_uninterruptible(ptr)
declare i64 @mlc_float_state()
declare void @mlc_restore_float_state(i64)
declare ptr @mlc_pool_array(i32, ptr, i32)
declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare ptr @PyArray_Return(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @PyThread_get_thread_ident()
declare ptr @PyErr_NoMemory()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
"""
