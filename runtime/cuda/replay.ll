; What repeated calls of GPU programs share on the host: free memory, the check of arguments, kernels.
; Loaded once and never unloaded: arrays of other libraries call `mlc_node_release` when they die.
; Tables are words of 64 bits that pool.py, replay.py and entry.py write.
;
; node: memory on the device; a DLManagedTensorVersioned in front
;        0 version, 1 shelf, 2 deleter, 3 flags, 4 address, 5 device, 6 rank and dtype, 7 -> 13,
;        8 -> 77, 9 offset, 10 next on its shelf, 11 bytes, 12 stream, 13-76 sizes, 77-140 strides
; shelf: free nodes of one size on one stream; whoever holds the interpreter's lock takes, all give
; replay: 0 addresses, 1 patches, 2 their table, 3 launches, 4 their table, 5 graphs, 6 most graphs,
;        7 their table, 8 the graph to be changed next, 9 stream, 10 context, 11 cuCtxPushCurrent,
;        12 cuCtxPopCurrent, 13 cuGraphLaunch, 14 cuGraphExecKernelNodeSetParams
; patch: 0 where an address goes, 1 which, 2 what is added, 3 the launch
; launch: CUDA_KERNEL_NODE_PARAMS_v2, 72 bytes
; graph: 0 executable, 1 its nodes, by launch, 2 the addresses in it
; record: 0 replay, 1 arguments, 2 their table, 3 results, 4 their table, 5 current_work_stream,
;        6 device, 7 managed_tensor_to_py_object_no_sync
; number: 0 type, 1 zero, 2 what it becomes: 0 f64, 1 f32, 2 i64, 3 i32, 4 a byte, 3 the place of
;        its type in (float, int, bool); its bits stand where an address does
; argument: 0 type, 1 dltensor_from_py_object_no_sync, 2 rank and dtype, 3 device, 4 sizes,
;        5 strides, 6 whether they are row-major, 7 what may be lazy (1 gradient, sign; 2 conjugate),
;        8, 9 first byte and the one behind the last, from its address on, 10 whether it is donated
;
; SOURCE: dlpack.h, version 1.3 (DLTensor, DLManagedTensorVersioned, DLPackExchangeAPI); cuda.h 13.0.

@mlc_name_requires_grad = external global i8
@mlc_name_is_neg = external global i8
@mlc_name_is_conj = external global i8
@_Py_FalseStruct = external global i8
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
@mlc_block_node = external global i64  ; the offset of Block.node
@mlc_array_of = external global i8
@mlc_current_stream = external global i8
@as_number = private constant [2 x i8] c"K\00"

; ---- memory

define void @mlc_node_release(ptr %node) {
entry:
  %shelf.at = getelementptr i64, ptr %node, i64 1
  %shelf = load ptr, ptr %shelf.at
  %next.at = getelementptr i64, ptr %node, i64 10
  %word = ptrtoint ptr %node to i64
  %head = load atomic i64, ptr %shelf monotonic, align 8
  br label %try
try:
  %old = phi i64 [ %head, %entry ], [ %seen, %try ]
  store i64 %old, ptr %next.at
  %swap = cmpxchg ptr %shelf, i64 %old, i64 %word release monotonic
  %seen = extractvalue { i64, i1 } %swap, 0
  %done = extractvalue { i64, i1 } %swap, 1
  br i1 %done, label %out, label %try
out:
  ret void
}

; A free node, or null. One taker at a time: what it has seen at the head can only be taken by itself.
define ptr @mlc_node_take(ptr %shelf) {
entry:
  %head = load atomic i64, ptr %shelf acquire, align 8
  br label %try
try:
  %word = phi i64 [ %head, %entry ], [ %seen, %swap.one ]
  %none = icmp eq i64 %word, 0
  br i1 %none, label %empty, label %swap.one
swap.one:
  %node = inttoptr i64 %word to ptr
  %next.at = getelementptr i64, ptr %node, i64 10
  %next = load i64, ptr %next.at
  %swap = cmpxchg ptr %shelf, i64 %word, i64 %next acquire acquire
  %seen = extractvalue { i64, i1 } %swap, 0
  %done = extractvalue { i64, i1 } %swap, 1
  br i1 %done, label %out, label %try
out:
  ret ptr %node
empty:
  ret ptr null
}

; ---- arrays of our own, as DLPackExchangeAPI has them

define i32 @mlc_array_tensor(ptr %object, ptr %tensor) {
entry:
  %overflow = alloca i32, align 4
  %offset = load i64, ptr @mlc_block_node
  %slot = getelementptr i8, ptr %object, i64 %offset
  %number = load ptr, ptr %slot
  %word = call i64 @PyLong_AsLongLongAndOverflow(ptr %number, ptr %overflow)
  %node = inttoptr i64 %word to ptr
  %from = getelementptr i64, ptr %node, i64 4
  %value = load [6 x i64], ptr %from
  store [6 x i64] %value, ptr %tensor
  ret i32 0
}

define i32 @mlc_array_make(ptr %node, ptr %out) {
entry:
  %made = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr @mlc_array_of, ptr @as_number, ptr %node)
  store ptr %made, ptr %out
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %refused, label %done
done:
  ret i32 0
refused:
  call void @mlc_node_release(ptr %node)
  ret i32 -1
}

define i32 @mlc_array_stream(i32 %kind, i32 %device, ptr %out) {
entry:
  %overflow = alloca i32, align 4
  %found = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr @mlc_current_stream, ptr null)
  %failed = icmp eq ptr %found, null
  br i1 %failed, label %refused, label %done
done:
  %word = call i64 @PyLong_AsLongLongAndOverflow(ptr %found, ptr %overflow)
  call void @Py_DecRef(ptr %found)
  store i64 %word, ptr %out
  ret i32 0
refused:
  ret i32 -1
}

; ---- arguments

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

; ---- numbers

@_Py_TrueStruct = external global i8

; The bits of a Python number, stored; 1 where it does not fit.
define internal i64 @number_fits(ptr %spec, ptr %object, ptr %bits.at) {
entry:
  %overflow = alloca i32, align 4
  store i32 0, ptr %overflow
  %target = call i64 @word(ptr %spec, i64 2)
  %kind = call i64 @word(ptr %spec, i64 3)
  switch i64 %kind, label %truth [ i64 0, label %float
                                   i64 1, label %whole ]
float:
  %value.at = getelementptr i8, ptr %object, i64 16
  %value = load double, ptr %value.at
  br label %real
truth:
  %is.true = icmp eq ptr %object, @_Py_TrueStruct
  %one = zext i1 %is.true to i64
  br label %integer
whole:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)
  %over = load i32, ptr %overflow
  %inside = icmp eq i32 %over, 0
  br i1 %inside, label %integer, label %other
integer:
  %n = phi i64 [ %one, %truth ], [ %number, %whole ]
  %becomes.real = icmp ult i64 %target, 2
  br i1 %becomes.real, label %convert, label %narrow
convert:
  %n.real = sitofp i64 %n to double
  br label %real
narrow:
  %low = trunc i64 %n to i32
  %back = sext i32 %low to i64
  %kept = icmp eq i64 %back, %n
  %half = icmp eq i64 %target, 3
  %lost = xor i1 %kept, true
  %bad = and i1 %half, %lost
  br i1 %bad, label %other, label %whole.done
whole.done:
  store i64 %n, ptr %bits.at
  ret i64 0
real:
  %r = phi double [ %value, %float ], [ %n.real, %convert ]
  %wide = icmp eq i64 %target, 0
  br i1 %wide, label %double, label %single
double:
  store double %r, ptr %bits.at
  ret i64 0
single:
  %f = fptrunc double %r to float
  %f.bits = bitcast float %f to i32
  %f.wide = zext i32 %f.bits to i64
  store i64 %f.wide, ptr %bits.at
  ret i64 0
other:
  ret i64 1
}

; Whether an answer is False; it is given back. 0: it is, 1: it is not, -1: there is none.
define internal i64 @is_true(ptr %answer) {
  %none = icmp eq ptr %answer, null
  br i1 %none, label %failed, label %there
there:
  %false = icmp eq ptr %answer, @_Py_FalseStruct
  call void @Py_DecRef(ptr %answer)
  %found = select i1 %false, i64 0, i64 1
  ret i64 %found
failed:
  ret i64 -1
}

; Whether the array's library still has something to do before or after others may read it.
define internal i64 @is_lazy(ptr %object, i64 %what) {
entry:
  %self = alloca ptr, align 8
  store ptr %object, ptr %self
  %gradient = call ptr @PyObject_GetAttr(ptr %object, ptr @mlc_name_requires_grad)
  %recorded = call i64 @is_true(ptr %gradient)
  %plain = icmp eq i64 %recorded, 0
  br i1 %plain, label %sign, label %first
first:
  ret i64 %recorded
sign:
  %negated = call ptr @PyObject_VectorcallMethod(ptr @mlc_name_is_neg, ptr %self, i64 1, ptr null)
  %is.negated = call i64 @is_true(ptr %negated)
  %positive = icmp eq i64 %is.negated, 0
  %complex = icmp eq i64 %what, 2
  %ask = and i1 %positive, %complex
  br i1 %ask, label %conjugate, label %second
second:
  ret i64 %is.negated
conjugate:
  %turned = call ptr @PyObject_VectorcallMethod(ptr @mlc_name_is_conj, ptr %self, i64 1, ptr null)
  %is.turned = call i64 @is_true(ptr %turned)
  ret i64 %is.turned
}

; 0: the argument is as recorded, its address is stored; 1: it is not; -1: an error is set.
define internal i64 @argument_fits(ptr %spec, ptr %object, ptr %tensor, ptr %address.at) {
entry:
  %type = call i64 @word(ptr %object, i64 1)
  %type.want = call i64 @word(ptr %spec, i64 0)
  %type.same = icmp eq i64 %type, %type.want
  br i1 %type.same, label %convert, label %other
convert:
  %from = call ptr @pointer(ptr %spec, i64 1)
  %is.number = icmp eq ptr %from, null
  br i1 %is.number, label %number, label %array
number:
  %number.fits = call i64 @number_fits(ptr %spec, ptr %object, ptr %address.at)
  ret i64 %number.fits
array:
  %status = call i32 %from(ptr %object, ptr %tensor)
  %failing = icmp ne i32 %status, 0
  br i1 %failing, label %failed, label %check.kind
check.kind:
  %kind = call i64 @word(ptr %tensor, i64 2)
  %kind.want = call i64 @word(ptr %spec, i64 2)
  %kind.same = icmp eq i64 %kind, %kind.want
  %place = call i64 @word(ptr %tensor, i64 1)
  %place.want = call i64 @word(ptr %spec, i64 3)
  %place.same = icmp eq i64 %place, %place.want
  %both = and i1 %kind.same, %place.same
  br i1 %both, label %shapes, label %other
shapes:
  %rank = and i64 %kind, 4294967295
  %sizes = call ptr @pointer(ptr %tensor, i64 3)
  %sizes.want = call ptr @pointer(ptr %spec, i64 4)
  %strides = call ptr @pointer(ptr %tensor, i64 4)
  %strides.want = call ptr @pointer(ptr %spec, i64 5)
  %bare = icmp eq ptr %strides, null
  %plain = call i64 @word(ptr %spec, i64 6)
  %plain.want = icmp ne i64 %plain, 0
  %strided = xor i1 %bare, true
  %possible = or i1 %strided, %plain.want
  br i1 %possible, label %axis, label %other
axis:
  %a = phi i64 [ 0, %shapes ], [ %a.next, %axis.next ]
  %axes.done = icmp eq i64 %a, %rank
  br i1 %axes.done, label %address, label %size
size:
  %size.is = call i64 @word(ptr %sizes, i64 %a)
  %size.want = call i64 @word(ptr %sizes.want, i64 %a)
  %size.same = icmp eq i64 %size.is, %size.want
  br i1 %size.same, label %stride, label %other
stride:
  %alone = icmp ult i64 %size.is, 2  ; no step is made along such an axis
  %any = or i1 %bare, %alone
  br i1 %any, label %axis.next, label %stride.check
stride.check:
  %stride.is = call i64 @word(ptr %strides, i64 %a)
  %stride.want = call i64 @word(ptr %strides.want, i64 %a)
  %stride.same = icmp eq i64 %stride.is, %stride.want
  br i1 %stride.same, label %axis.next, label %other
axis.next:
  %a.next = add i64 %a, 1
  br label %axis
address:
  %data = call i64 @word(ptr %tensor, i64 0)
  %offset = call i64 @word(ptr %tensor, i64 5)
  %where = add i64 %data, %offset
  %low = and i64 %where, 15
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %taken, label %other
taken:
  store i64 %where, ptr %address.at
  %what = call i64 @word(ptr %spec, i64 7)
  %never = icmp eq i64 %what, 0
  br i1 %never, label %fits, label %ask
ask:
  %lazy = call i64 @is_lazy(ptr %object, i64 %what)
  ret i64 %lazy
fits:
  ret i64 0
other:
  ret i64 1
failed:
  ret i64 -1
}

; Whether donated argument %k shares no memory with another one.
define internal i1 @is_apart(ptr %table, i64 %count, ptr %addresses, i64 %k) {
entry:
  %spec = getelementptr [11 x i64], ptr %table, i64 %k
  %low = call i64 @word(ptr %addresses, i64 %k)
  %size = call i64 @word(ptr %spec, i64 9)
  %high = add i64 %low, %size
  br label %one
one:
  %n = phi i64 [ 0, %entry ], [ %n.next, %next ]
  %done = icmp eq i64 %n, %count
  br i1 %done, label %apart, label %check
check:
  %other = getelementptr [11 x i64], ptr %table, i64 %n
  %itself = icmp eq i64 %n, %k
  %from = call ptr @pointer(ptr %other, i64 1)
  %number = icmp eq ptr %from, null
  %skipped = or i1 %itself, %number
  br i1 %skipped, label %next, label %compare
compare:
  %base = call i64 @word(ptr %addresses, i64 %n)
  %first = call i64 @word(ptr %other, i64 8)
  %behind = call i64 @word(ptr %other, i64 9)
  %start = add i64 %base, %first
  %end = add i64 %base, %behind
  %before = icmp ule i64 %high, %start
  %after = icmp uge i64 %low, %end
  %free = or i1 %before, %after
  br i1 %free, label %next, label %shared
next:
  %n.next = add i64 %n, 1
  br label %one
apart:
  ret i1 true
shared:
  ret i1 false
}

; 0: all arguments are as recorded, their addresses are taken; 1: some are not; an error is set: -1.
define i64 @mlc_record_match(ptr %record, ptr %objects, ptr %addresses) {
entry:
  %tensor = alloca [6 x i64], align 16
  %stream = alloca ptr, align 8
  store ptr null, ptr %stream
  %replay = call ptr @pointer(ptr %record, i64 0)
  %count = call i64 @word(ptr %record, i64 1)
  %table = call ptr @pointer(ptr %record, i64 2)
  %work = call ptr @pointer(ptr %record, i64 5)
  %device.wide = call i64 @word(ptr %record, i64 6)
  %device = trunc i64 %device.wide to i32
  %asked = call i32 %work(i32 2, i32 %device, ptr %stream)
  %refused = icmp ne i32 %asked, 0
  br i1 %refused, label %failed, label %streamed
streamed:
  %current = load ptr, ptr %stream
  %wanted = call ptr @pointer(ptr %replay, i64 9)
  %same = icmp eq ptr %current, %wanted
  br i1 %same, label %argument, label %other
argument:
  %k = phi i64 [ 0, %streamed ], [ %k.next, %taken ]
  %done = icmp eq i64 %k, %count
  br i1 %done, label %donated, label %check
check:
  %object = call ptr @pointer(ptr %objects, i64 %k)
  %spec = getelementptr [11 x i64], ptr %table, i64 %k
  %address.at = getelementptr i64, ptr %addresses, i64 %k
  %fits = call i64 @argument_fits(ptr %spec, ptr %object, ptr %tensor, ptr %address.at)
  %is.taken = icmp eq i64 %fits, 0
  br i1 %is.taken, label %taken, label %not.taken
not.taken:
  ret i64 %fits
taken:
  %k.next = add i64 %k, 1
  br label %argument
donated:
  %d = phi i64 [ 0, %argument ], [ %d.next, %donated.next ]
  %all = icmp eq i64 %d, %count
  br i1 %all, label %match, label %donated.one
donated.one:
  %given = getelementptr [11 x i64], ptr %table, i64 %d
  %flag = call i64 @word(ptr %given, i64 10)
  %kept = icmp eq i64 %flag, 0
  br i1 %kept, label %donated.next, label %donated.check
donated.check:
  %apart = call i1 @is_apart(ptr %table, i64 %count, ptr %addresses, i64 %d)
  br i1 %apart, label %donated.next, label %other
donated.next:
  %d.next = add i64 %d, 1
  br label %donated
match:
  ret i64 0
other:
  ret i64 1
failed:
  ret i64 -1
}

; ---- kernels

define internal void @patch(ptr %replay, ptr %addresses) {
entry:
  %count = call i64 @word(ptr %replay, i64 1)
  %table = call ptr @pointer(ptr %replay, i64 2)
  br label %next
next:
  %p = phi i64 [ 0, %entry ], [ %p.next, %one ]
  %done = icmp eq i64 %p, %count
  br i1 %done, label %out, label %one
one:
  %patch = getelementptr [4 x i64], ptr %table, i64 %p
  %where = call ptr @pointer(ptr %patch, i64 0)
  %which = call i64 @word(ptr %patch, i64 1)
  %address = call i64 @word(ptr %addresses, i64 %which)
  %added = call i64 @word(ptr %patch, i64 2)
  %moved = add i64 %address, %added
  store i64 %moved, ptr %where
  %p.next = add i64 %p, 1
  br label %next
out:
  ret void
}

; Whether a graph's addresses are these.
define internal i1 @same_words(ptr %a, ptr %b, i64 %count) {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %one ]
  %all = icmp eq i64 %k, %count
  br i1 %all, label %same, label %one
one:
  %x = call i64 @word(ptr %a, i64 %k)
  %y = call i64 @word(ptr %b, i64 %k)
  %k.next = add i64 %k, 1
  %equal = icmp eq i64 %x, %y
  br i1 %equal, label %next, label %other
same:
  ret i1 true
other:
  ret i1 false
}

; The graph with these addresses; null where none has them.
define internal ptr @graph_with(ptr %replay, ptr %addresses) {
entry:
  %words = call i64 @word(ptr %replay, i64 0)
  %count = call i64 @word(ptr %replay, i64 5)
  %table = call ptr @pointer(ptr %replay, i64 7)
  br label %next
next:
  %g = phi i64 [ 0, %entry ], [ %g.next, %one ]
  %all = icmp eq i64 %g, %count
  br i1 %all, label %none, label %one
one:
  %graph = getelementptr [3 x i64], ptr %table, i64 %g
  %have = call ptr @pointer(ptr %graph, i64 2)
  %same = call i1 @same_words(ptr %have, ptr %addresses, i64 %words)
  %g.next = add i64 %g, 1
  br i1 %same, label %found, label %next
found:
  ret ptr %graph
none:
  ret ptr null
}

; Gives a graph the addresses: the nodes that read one that differs are set anew.
define internal i32 @move_graph(ptr %replay, ptr %graph, ptr %addresses) {
entry:
  %words = call i64 @word(ptr %replay, i64 0)
  %count = call i64 @word(ptr %replay, i64 1)
  %table = call ptr @pointer(ptr %replay, i64 2)
  %launches = call ptr @pointer(ptr %replay, i64 4)
  %set = call ptr @pointer(ptr %replay, i64 14)
  %executable = call ptr @pointer(ptr %graph, i64 0)
  %nodes = call ptr @pointer(ptr %graph, i64 1)
  %have = call ptr @pointer(ptr %graph, i64 2)
  br label %next
next:
  %p = phi i64 [ 0, %entry ], [ %p.next, %again ]
  %last = phi i64 [ -1, %entry ], [ %last.now, %again ]
  %done = icmp eq i64 %p, %count
  br i1 %done, label %copy, label %one
one:
  %patch = getelementptr [4 x i64], ptr %table, i64 %p
  %which = call i64 @word(ptr %patch, i64 1)
  %launch = call i64 @word(ptr %patch, i64 3)
  %old = call i64 @word(ptr %have, i64 %which)
  %new = call i64 @word(ptr %addresses, i64 %which)
  %moved = icmp ne i64 %old, %new
  %other = icmp ne i64 %launch, %last
  %needed = and i1 %moved, %other
  br i1 %needed, label %set.one, label %again
set.one:
  %node = call ptr @pointer(ptr %nodes, i64 %launch)
  %parameters = getelementptr [72 x i8], ptr %launches, i64 %launch
  %status = call i32 %set(ptr %executable, ptr %node, ptr %parameters)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %unknown, label %again
again:
  %last.now = phi i64 [ %last, %one ], [ %launch, %set.one ]
  %p.next = add i64 %p, 1
  br label %next
copy:
  %k = phi i64 [ 0, %next ], [ %k.next, %copy.one ]
  %all = icmp eq i64 %k, %words
  br i1 %all, label %out, label %copy.one
copy.one:
  %from = call i64 @word(ptr %addresses, i64 %k)
  %to = getelementptr i64, ptr %have, i64 %k
  store i64 %from, ptr %to
  %k.next = add i64 %k, 1
  br label %copy
out:
  ret i32 0
unknown:
  ; some nodes have moved: no address is known to be right, and 0 is none
  store i64 0, ptr %have
  ret i32 %status
}

; The kernels with the addresses; 0, the driver's error, or -1: a graph should be made first.
define i64 @mlc_replay_start(ptr %replay, ptr %addresses) {
entry:
  %popped = alloca ptr, align 8
  call void @patch(ptr %replay, ptr %addresses)
  %launches = call i64 @word(ptr %replay, i64 3)
  %nothing = icmp eq i64 %launches, 0
  br i1 %nothing, label %done, label %find
done:
  ret i64 0
find:
  %count = call i64 @word(ptr %replay, i64 5)
  %most = call i64 @word(ptr %replay, i64 6)
  %context = call ptr @pointer(ptr %replay, i64 10)
  %push = call ptr @pointer(ptr %replay, i64 11)
  %pop = call ptr @pointer(ptr %replay, i64 12)
  %graph = call ptr @graph_with(ptr %replay, ptr %addresses)
  %unknown = icmp eq ptr %graph, null
  %short = icmp ult i64 %count, %most
  %wanted = and i1 %unknown, %short
  br i1 %wanted, label %ask, label %enter
ask:
  ret i64 -1
enter:
  %entered = call i32 %push(ptr %context)
  %outside = icmp ne i32 %entered, 0
  br i1 %outside, label %refused, label %choose
refused:
  %entered.wide = zext i32 %entered to i64
  ret i64 %entered.wide
choose:
  br i1 %unknown, label %move, label %run
move:
  %turn = call i64 @word(ptr %replay, i64 8)
  %turn.at = getelementptr i64, ptr %replay, i64 8
  %turn.next = add i64 %turn, 1
  %wrapped = icmp uge i64 %turn.next, %count
  %turn.then = select i1 %wrapped, i64 0, i64 %turn.next
  store i64 %turn.then, ptr %turn.at
  %table = call ptr @pointer(ptr %replay, i64 7)
  %chosen = getelementptr [3 x i64], ptr %table, i64 %turn
  %status.move = call i32 @move_graph(ptr %replay, ptr %chosen, ptr %addresses)
  %unmoved = icmp ne i32 %status.move, 0
  br i1 %unmoved, label %leave, label %run
run:
  %ready = phi ptr [ %graph, %choose ], [ %chosen, %move ]
  %executable = call ptr @pointer(ptr %ready, i64 0)
  %stream = call ptr @pointer(ptr %replay, i64 9)
  %start = call ptr @pointer(ptr %replay, i64 13)
  %status.run = call i32 %start(ptr %executable, ptr %stream)
  br label %leave
leave:
  %code = phi i32 [ %status.move, %move ], [ %status.run, %run ]
  %left = call i32 %pop(ptr %popped)
  %code.wide = zext i32 %code to i64
  ret i64 %code.wide
}
