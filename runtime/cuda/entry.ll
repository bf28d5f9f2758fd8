; The builtin in front of a GPU program (METH_FASTCALL | METH_KEYWORDS): calls that were made before
; with arrays of the same shapes, of the same library, on the same stream. Any other goes to `slow`.
;
; state: 0 slow, 1 what is called with the driver's error, 2 calls, 3 whether the program is at work,
;        4 -> the error's site, 5 arguments, 6 results, 7 whether they are a tuple, 8 records,
;        9 -> their table
; result: 0 the argument in whose place it is, or -1, 1 shelf, 2 rank and dtype, 3 sizes, 4 strides
; The other tables: replay.ll.

@mlc_gpu_state = external global [10 x i64]
@_Py_NoneStruct = external global i8
@format = private constant [2 x i8] c"L\00"
declare i64 @mlc_record_match(ptr, ptr, ptr)
declare i64 @mlc_replay_start(ptr, ptr)
declare ptr @mlc_node_take(ptr)
declare void @mlc_node_release(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)

define internal i64 @word(ptr %table, i64 %k) alwaysinline {
  %at = getelementptr i64, ptr %table, i64 %k
  %found = load i64, ptr %at
  ret i64 %found
}

define internal ptr @pointer(ptr %table, i64 %k) alwaysinline {
  %at = getelementptr i64, ptr %table, i64 %k
  %found = load ptr, ptr %at
  ret ptr %found
}

define internal void @copy(ptr %from, ptr %to, i64 %count) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %one ]
  %all = icmp eq i64 %k, %count
  br i1 %all, label %out, label %one
one:
  %x = call i64 @word(ptr %from, i64 %k)
  %at = getelementptr i64, ptr %to, i64 %k
  store i64 %x, ptr %at
  %k.next = add i64 %k, 1
  br label %next
out:
  ret void
}

; Gives back nodes from %first on; null is none.
define internal void @release(ptr %nodes, i64 %first, i64 %count) {
entry:
  br label %next
next:
  %k = phi i64 [ %first, %entry ], [ %k.next, %again ]
  %all = icmp uge i64 %k, %count
  br i1 %all, label %out, label %one
one:
  %node = call ptr @pointer(ptr %nodes, i64 %k)
  %none = icmp eq ptr %node, null
  br i1 %none, label %again, label %give
give:
  call void @mlc_node_release(ptr %node)
  br label %again
again:
  %k.next = add i64 %k, 1
  br label %next
out:
  ret void
}

; Memory for the results: nodes, null in the place of an argument, and the addresses. 0 where some
; shelf is empty: nothing is taken then.
define internal i1 @take(ptr %record, ptr %addresses, ptr %nodes) {
entry:
  %arguments = call i64 @word(ptr %record, i64 1)
  %count = call i64 @word(ptr %record, i64 3)
  %table = call ptr @pointer(ptr %record, i64 4)
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %placed ]
  %all = icmp eq i64 %k, %count
  br i1 %all, label %done, label %one
one:
  %result = getelementptr [5 x i64], ptr %table, i64 %k
  %node.at = getelementptr ptr, ptr %nodes, i64 %k
  %place = add i64 %arguments, %k
  %address.at = getelementptr i64, ptr %addresses, i64 %place
  %alias = call i64 @word(ptr %result, i64 0)
  %own = icmp slt i64 %alias, 0
  br i1 %own, label %fresh, label %shared
shared:
  %donated = call i64 @word(ptr %addresses, i64 %alias)
  br label %placed
fresh:
  %shelf = call ptr @pointer(ptr %result, i64 1)
  %node = call ptr @mlc_node_take(ptr %shelf)
  %empty = icmp eq ptr %node, null
  br i1 %empty, label %back, label %fill
fill:
  %kind = call i64 @word(ptr %result, i64 2)
  %kind.at = getelementptr i64, ptr %node, i64 6
  store i64 %kind, ptr %kind.at
  %rank = and i64 %kind, 4294967295
  %sizes = call ptr @pointer(ptr %result, i64 3)
  %sizes.at = getelementptr i64, ptr %node, i64 13
  call void @copy(ptr %sizes, ptr %sizes.at, i64 %rank)
  %strides = call ptr @pointer(ptr %result, i64 4)
  %strides.at = getelementptr i64, ptr %node, i64 77
  call void @copy(ptr %strides, ptr %strides.at, i64 %rank)
  %data = call i64 @word(ptr %node, i64 4)
  br label %placed
placed:
  %kept = phi ptr [ null, %shared ], [ %node, %fill ]
  %address = phi i64 [ %donated, %shared ], [ %data, %fill ]
  store ptr %kept, ptr %node.at
  store i64 %address, ptr %address.at
  %k.next = add i64 %k, 1
  br label %next
back:
  call void @release(ptr %nodes, i64 0, i64 %k)
  ret i1 false
done:
  ret i1 true
}

; The objects of the results; false with an error set.
define internal i1 @make(ptr %record, ptr %argv, ptr %nodes, ptr %objects) {
entry:
  %count = call i64 @word(ptr %record, i64 3)
  %table = call ptr @pointer(ptr %record, i64 4)
  %to = call ptr @pointer(ptr %record, i64 7)
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %made ]
  %all = icmp eq i64 %k, %count
  br i1 %all, label %done, label %one
one:
  %object.at = getelementptr ptr, ptr %objects, i64 %k
  %node = call ptr @pointer(ptr %nodes, i64 %k)
  %given = icmp eq ptr %node, null
  br i1 %given, label %argument, label %array
argument:
  %result = getelementptr [5 x i64], ptr %table, i64 %k
  %alias = call i64 @word(ptr %result, i64 0)
  %same = call ptr @pointer(ptr %argv, i64 %alias)
  call void @Py_IncRef(ptr %same)
  store ptr %same, ptr %object.at
  br label %made
array:
  %status = call i32 %to(ptr %node, ptr %object.at)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %back, label %made
made:
  %k.next = add i64 %k, 1
  br label %next
back:
  ; the library that refuses an array has given its memory back
  %behind = add i64 %k, 1
  call void @release(ptr %nodes, i64 %behind, i64 %count)
  br label %drop
drop:
  %d = phi i64 [ 0, %back ], [ %d.next, %drop.one ]
  %dropped = icmp eq i64 %d, %k
  br i1 %dropped, label %fail, label %drop.one
drop.one:
  %object = call ptr @pointer(ptr %objects, i64 %d)
  call void @Py_DecRef(ptr %object)
  %d.next = add i64 %d, 1
  br label %drop
fail:
  ret i1 false
done:
  ret i1 true
}

define ptr @mlc_gpu_call(ptr %self, ptr %argv, i64 %nargs, ptr %kwnames) {
entry:
  %state = getelementptr i8, ptr @mlc_gpu_state, i64 0
  %wanted = call i64 @word(ptr %state, i64 5)
  %results = call i64 @word(ptr %state, i64 6)
  %words = add i64 %wanted, %results
  %addresses = alloca i64, i64 %words, align 8
  %nodes = alloca ptr, i64 %results, align 8
  %objects = alloca ptr, i64 %results, align 8
  %all.given = icmp eq i64 %nargs, %wanted
  %unnamed = icmp eq ptr %kwnames, null
  %busy = call i64 @word(ptr %state, i64 3)
  %idle = icmp eq i64 %busy, 0
  %error.at = call ptr @pointer(ptr %state, i64 4)
  %error = load atomic i64, ptr %error.at monotonic, align 8
  %sound = icmp eq i64 %error, 0
  %positional = and i1 %all.given, %unnamed
  %able = and i1 %idle, %sound
  %try = and i1 %positional, %able
  br i1 %try, label %record, label %slow
record:
  %r = phi i64 [ 0, %entry ], [ %r.next, %other ]
  %count = call i64 @word(ptr %state, i64 8)
  %last = icmp uge i64 %r, %count
  br i1 %last, label %slow, label %match
match:
  %table = call ptr @pointer(ptr %state, i64 9)
  %one = call ptr @pointer(ptr %table, i64 %r)
  %fits = call i64 @mlc_record_match(ptr %one, ptr %argv, ptr %addresses)
  %r.next = add i64 %r, 1
  switch i64 %fits, label %other [ i64 0, label %take.one
                                   i64 -1, label %clear ]
other:
  br label %record
clear:
  call void @PyErr_Clear()
  br label %slow
take.one:
  %taken = call i1 @take(ptr %one, ptr %addresses, ptr %nodes)
  br i1 %taken, label %start, label %slow
start:
  %replay = call ptr @pointer(ptr %one, i64 0)
  %status = call i64 @mlc_replay_start(ptr %replay, ptr %addresses)
  %started = icmp eq i64 %status, 0
  br i1 %started, label %finish, label %stopped
stopped:
  call void @release(ptr %nodes, i64 0, i64 %results)
  %later = icmp eq i64 %status, -1
  br i1 %later, label %slow, label %raise
raise:
  %on.error = call ptr @pointer(ptr %state, i64 1)
  %raised = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr %on.error, ptr @format, i64 %status)
  ret ptr null
finish:
  %calls = call i64 @word(ptr %state, i64 2)
  %calls.next = add i64 %calls, 1
  %calls.at = getelementptr i64, ptr %state, i64 2
  store i64 %calls.next, ptr %calls.at
  %made = call i1 @make(ptr %one, ptr %argv, ptr %nodes, ptr %objects)
  br i1 %made, label %return, label %fail
return:
  %as.tuple = call i64 @word(ptr %state, i64 7)
  %is.tuple = icmp ne i64 %as.tuple, 0
  br i1 %is.tuple, label %tuple, label %single
single:
  %nothing = icmp eq i64 %results, 0
  br i1 %nothing, label %none, label %value
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
value:
  %found = load ptr, ptr %objects
  ret ptr %found
tuple:
  %new = call ptr @PyTuple_New(i64 %results)
  %no.memory = icmp eq ptr %new, null
  br i1 %no.memory, label %fail, label %item
item:
  %k = phi i64 [ 0, %tuple ], [ %k.next, %item.one ]
  %filled = icmp eq i64 %k, %results
  br i1 %filled, label %out, label %item.one
item.one:
  %object = call ptr @pointer(ptr %objects, i64 %k)
  %stored = call i32 @PyTuple_SetItem(ptr %new, i64 %k, ptr %object)
  %k.next = add i64 %k, 1
  br label %item
out:
  ret ptr %new
slow:
  %callable = call ptr @pointer(ptr %state, i64 0)
  %answer = call ptr @PyObject_Vectorcall(ptr %callable, ptr %argv, i64 %nargs, ptr %kwnames)
  ret ptr %answer
fail:
  ret ptr null
}
