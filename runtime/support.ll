; The runtime's own native code: contexts and arenas, the pool of released result buffers, the SIGINT
; counter and the floating-point flags; team.ll is a part of it. Loaded once per process and never
; unloaded: arrays from the pool outlive every compiled function. Offsets: dialects/abi.py.

@mlc_library_target = global ptr null  ; NumPy: runtime/library.py
@mlc_lapack_finder = global ptr null  ; runtime/library.py
@mlc_lapack = global [LAPACK_COUNT x ptr] zeroinitializer  ; abi.LAPACK; null where none was found
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @malloc_usable_size(ptr)
declare i32 @madvise(ptr, i64, i32)
declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare ptr @PyDataMem_SetHandler(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare void @PyErr_Clear()
declare void @Py_DecRef(ptr)
declare i32 @sigaction(i32, ptr, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
@PyArray_Type = external global i8

; ---- LAPACK, looked for when code first asks for a routine; and what NumPy computes

define ptr @mlc_lapack_routine(i64 %number) {
entry:
  %slot = getelementptr ptr, ptr @mlc_lapack, i64 %number
  %known = load atomic ptr, ptr %slot monotonic, align 8
  %unknown = icmp eq ptr %known, null
  br i1 %unknown, label %look, label %done
look:
  %finder = load ptr, ptr @mlc_lapack_finder, align 8
  call void %finder()
  %found = load atomic ptr, ptr %slot monotonic, align 8
  br label %done
done:
  %routine = phi ptr [ %known, %entry ], [ %found, %look ]
  ret ptr %routine
}

define i64 @mlc_library(i64 %routine, i64 %dtype, ptr %a, ptr %b, ptr %c, ptr %out, i64 %batch, i64 %m, i64 %n, i64 %p, i64 %k) {
  %target = load ptr, ptr @mlc_library_target, align 8
  %found = call i64 %target(i64 %routine, i64 %dtype, ptr %a, ptr %b, ptr %c, ptr %out, i64 %batch, i64 %m, i64 %n, i64 %p, i64 %k)
  ret i64 %found
}

; ---- blocks: 64-byte aligned; from 2 MiB on, aligned to 2 MiB and on huge pages where the kernel agrees

define ptr @mlc_block_new(i64 %bytes) {
entry:
  %large = icmp uge i64 %bytes, 2097152
  %alignment = select i1 %large, i64 2097152, i64 64
  %low_bits = sub i64 %alignment, 1
  %padded = add i64 %bytes, %low_bits
  %mask = xor i64 %low_bits, -1
  %rounded = and i64 %padded, %mask
  %overflow = icmp ult i64 %rounded, %bytes
  br i1 %overflow, label %fail, label %allocate
allocate:
  %block = call ptr @aligned_alloc(i64 %alignment, i64 %rounded)
  %failed = icmp eq ptr %block, null
  %small = xor i1 %large, true
  %skip = or i1 %failed, %small
  br i1 %skip, label %done, label %advise
advise:
  ; whole huge pages only: the tail stays on small pages, so that peak memory is what was asked for
  %whole = and i64 %bytes, -2097152
  %ignored = call i32 @madvise(ptr %block, i64 %whole, i32 14)  ; MADV_HUGEPAGE
  br label %done
done:
  ret ptr %block
fail:
  ret ptr null
}

; ---- contexts (one per running call), kept in a list per entry; the GIL guards the list

define ptr @mlc_context_new() {
entry:
  %ctx = call ptr @aligned_alloc(i64 64, i64 1280)
  %failed = icmp eq ptr %ctx, null
  br i1 %failed, label %done, label %fill
fill:
  call void @llvm.memset.p0.i64(ptr align 64 %ctx, i8 0, i64 1280, i1 false)
  %threads = getelementptr i8, ptr %ctx, i64 16
  store i64 1, ptr %threads, align 8
  %cancel = getelementptr i8, ptr %ctx, i64 24
  store ptr @mlc_never, ptr %cancel, align 8
  %grow = getelementptr i8, ptr %ctx, i64 56
  store ptr @mlc_grow, ptr %grow, align 8
  br label %done
done:
  ret ptr %ctx
}

; Frees the list that begins at *head and empties it. Called with the GIL held.
define void @mlc_contexts_free(ptr %head) {
entry:
  %first = load ptr, ptr %head, align 8
  store ptr null, ptr %head, align 8
  br label %loop
loop:
  %ctx = phi ptr [ %first, %entry ], [ %next, %body ]
  %end = icmp eq ptr %ctx, null
  br i1 %end, label %done, label %body
body:
  %link = getelementptr i8, ptr %ctx, i64 64
  %next = load ptr, ptr %link, align 8
  %arena = load ptr, ptr %ctx, align 8
  call void @free(ptr %arena)
  call void @free(ptr %ctx)
  br label %loop
done:
  ret void
}

; The arena's content is not kept: a program reserves before it writes.
define i32 @mlc_grow(ptr %ctx, i64 %bytes) {
entry:
  %size = getelementptr i8, ptr %ctx, i64 8
  %have = load i64, ptr %size, align 8
  %enough = icmp uge i64 %have, %bytes
  br i1 %enough, label %ok, label %replace
replace:
  %old = load ptr, ptr %ctx, align 8
  call void @free(ptr %old)
  %new = call ptr @mlc_block_new(i64 %bytes)
  store ptr %new, ptr %ctx, align 8
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %fail, label %record
record:
  store i64 %bytes, ptr %size, align 8
  br label %ok
fail:
  store i64 0, ptr %size, align 8
  %value = getelementptr i8, ptr %ctx, i64 48
  store i64 %bytes, ptr %value, align 8
  ret i32 2
ok:
  ret i32 0
}

; ---- the pool: NumPy's NEP 49 allocator for large results; 32 released blocks, oldest out first.
; A block's capacity is what malloc says, rounded down to 2 MiB; every block has at least that much.
; The lock is only tried: who does not get it allocates or frees directly.

%slot = type { ptr, i64 }
@mlc_pool_slots = internal global [32 x %slot] zeroinitializer, align 64
@mlc_pool_lock = internal global i32 0
@mlc_pool_hand = internal global i64 0
@mlc_pool_bytes = global i64 0
@mlc_pool_limit = global i64 0
@mlc_pool_reused = global i64 0
@mlc_pool_capsule = global ptr null
@mlc_pool_handler = global { [127 x i8], i8, ptr, ptr, ptr, ptr, ptr } {
  [127 x i8] zeroinitializer, i8 1, ptr null,
  ptr @mlc_pool_malloc, ptr @mlc_pool_calloc, ptr @mlc_pool_realloc, ptr @mlc_pool_free }

define internal i64 @mlc_pool_round(i64 %bytes) {
  %padded = add i64 %bytes, 2097151
  %rounded = and i64 %padded, -2097152
  %zero = icmp eq i64 %rounded, 0
  %size = select i1 %zero, i64 2097152, i64 %rounded
  ret i64 %size
}

define ptr @mlc_pool_malloc(ptr %unused, i64 %bytes) {
entry:
  %rounded = call i64 @mlc_pool_round(i64 %bytes)
  %quarter = lshr i64 %rounded, 2
  %most = add i64 %rounded, %quarter
  %taken = atomicrmw xchg ptr @mlc_pool_lock, i32 1 acquire
  %locked = icmp eq i32 %taken, 0
  br i1 %locked, label %begin, label %fresh
begin:
  ; the hand's way backwards: what was released last is what the caches hold
  %hand = load i64, ptr @mlc_pool_hand, align 8
  br label %search
search:
  %i = phi i64 [ 0, %begin ], [ %i.next, %advance ]
  %behind = sub i64 %hand, %i
  %before = sub i64 %behind, 1
  %number = and i64 %before, 31
  %slot = getelementptr %slot, ptr @mlc_pool_slots, i64 %number
  %block = load ptr, ptr %slot, align 8
  %capacity.at = getelementptr %slot, ptr %slot, i64 0, i32 1
  %capacity = load i64, ptr %capacity.at, align 8
  %some = icmp ne ptr %block, null
  %fits = icmp uge i64 %capacity, %rounded
  %tight = icmp ule i64 %capacity, %most
  %good0 = and i1 %some, %fits
  %good = and i1 %good0, %tight
  br i1 %good, label %take, label %advance
advance:
  %i.next = add i64 %i, 1
  %end = icmp eq i64 %i.next, 32
  br i1 %end, label %none, label %search
take:
  store ptr null, ptr %slot, align 8
  %total = load i64, ptr @mlc_pool_bytes, align 8
  %left = sub i64 %total, %capacity
  store i64 %left, ptr @mlc_pool_bytes, align 8
  %reused = load i64, ptr @mlc_pool_reused, align 8
  %reused1 = add i64 %reused, 1
  store i64 %reused1, ptr @mlc_pool_reused, align 8
  store atomic i32 0, ptr @mlc_pool_lock release, align 4
  ret ptr %block
none:
  store atomic i32 0, ptr @mlc_pool_lock release, align 4
  br label %fresh
fresh:
  %small = icmp ult i64 %bytes, 2097152
  %ask = select i1 %small, i64 2097152, i64 %bytes
  %new = call ptr @mlc_block_new(i64 %ask)
  ret ptr %new
}

define ptr @mlc_pool_calloc(ptr %unused, i64 %count, i64 %item_bytes) {
entry:
  %bytes = mul i64 %count, %item_bytes
  %block = call ptr @mlc_pool_malloc(ptr null, i64 %bytes)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %done, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %block, i8 0, i64 %bytes, i1 false)
  br label %done
done:
  ret ptr %block
}

define ptr @mlc_pool_realloc(ptr %unused, ptr %old, i64 %bytes) {
entry:
  %capacity = call i64 @malloc_usable_size(ptr %old)
  %fits = icmp ule i64 %bytes, %capacity
  br i1 %fits, label %keep, label %move
keep:
  ret ptr %old
move:
  %new = call ptr @mlc_pool_malloc(ptr null, i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %done, label %copy
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %capacity, i1 false)
  call void @free(ptr %old)
  br label %done
done:
  ret ptr %new
}

define void @mlc_pool_free(ptr %unused, ptr %block, i64 %bytes) {
entry:
  %null = icmp eq ptr %block, null
  br i1 %null, label %done, label %measure
measure:
  %usable = call i64 @malloc_usable_size(ptr %block)
  %capacity = and i64 %usable, -2097152
  %limit = load i64, ptr @mlc_pool_limit, align 8
  %fits = icmp ule i64 %capacity, %limit
  br i1 %fits, label %try, label %release
try:
  %taken = atomicrmw xchg ptr @mlc_pool_lock, i32 1 acquire
  %locked = icmp eq i32 %taken, 0
  br i1 %locked, label %evict, label %release
evict:
  ; the hand walks the slots: it empties what it meets until there is room, and the block goes there
  %hand = load i64, ptr @mlc_pool_hand, align 8
  %slot = getelementptr %slot, ptr @mlc_pool_slots, i64 %hand
  %victim = load ptr, ptr %slot, align 8
  %capacity.at = getelementptr %slot, ptr %slot, i64 0, i32 1
  %next = add i64 %hand, 1
  %wrapped = and i64 %next, 31
  store i64 %wrapped, ptr @mlc_pool_hand, align 8
  %empty = icmp eq ptr %victim, null
  br i1 %empty, label %room, label %drop
drop:
  %victim.bytes = load i64, ptr %capacity.at, align 8
  %before = load i64, ptr @mlc_pool_bytes, align 8
  %after = sub i64 %before, %victim.bytes
  store i64 %after, ptr @mlc_pool_bytes, align 8
  store ptr null, ptr %slot, align 8
  call void @free(ptr %victim)
  br label %room
room:
  %total = load i64, ptr @mlc_pool_bytes, align 8
  %sum = add i64 %total, %capacity
  %over = icmp ugt i64 %sum, %limit
  br i1 %over, label %evict, label %put
put:
  store ptr %block, ptr %slot, align 8
  store i64 %capacity, ptr %capacity.at, align 8
  store i64 %sum, ptr @mlc_pool_bytes, align 8
  store atomic i32 0, ptr @mlc_pool_lock release, align 4
  ret void
release:
  call void @free(ptr %block)
  br label %done
done:
  ret void
}

; Gives every released block back; returns their bytes.
define i64 @mlc_pool_clear() {
entry:
  %taken = atomicrmw xchg ptr @mlc_pool_lock, i32 1 acquire
  %locked = icmp eq i32 %taken, 0
  br i1 %locked, label %start, label %busy
start:
  %total = load i64, ptr @mlc_pool_bytes, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %i.next, %loop ]
  %slot = getelementptr %slot, ptr @mlc_pool_slots, i64 %i
  %block = load ptr, ptr %slot, align 8
  call void @free(ptr %block)
  store ptr null, ptr %slot, align 8
  %i.next = add i64 %i, 1
  %end = icmp eq i64 %i.next, 32
  br i1 %end, label %done, label %loop
done:
  store i64 0, ptr @mlc_pool_bytes, align 8
  store atomic i32 0, ptr @mlc_pool_lock release, align 4
  ret i64 %total
busy:
  ret i64 0
}

; A new C-contiguous array from the pool; it owns its data. Null with NumPy's exception on failure.
define ptr @mlc_pool_array(i32 %ndim, ptr %dims, i32 %type_num) {
entry:
  %capsule = load ptr, ptr @mlc_pool_capsule, align 8
  %old = call ptr @PyDataMem_SetHandler(ptr %capsule)
  %failed = icmp eq ptr %old, null
  br i1 %failed, label %fail, label %allocate
allocate:
  %array = call ptr @PyArray_New(ptr @PyArray_Type, i32 %ndim, ptr %dims, i32 %type_num, ptr null,
                                 ptr null, i32 0, i32 0, ptr null)
  %ours = call ptr @PyDataMem_SetHandler(ptr %old)
  call void @Py_DecRef(ptr %ours)
  call void @Py_DecRef(ptr %old)
  ret ptr %array
fail:
  ret ptr null
}

; ---- cancellation: the SIGINT handler counts, then calls the handler that was there (Python's)

@mlc_interrupts = global i64 0, align 64
@mlc_never = constant i64 0, align 64
@mlc_chained_sigint = global ptr null
@mlc_main_thread = global i64 0  ; PyThread_get_thread_ident of the main thread
@mlc_sigint_action = global [32 x i64] zeroinitializer, align 8  ; ours; its handler null: none
@mlc_sigint_number = global ptr null  ; SIGINT as a Python int
@mlc_getsignal = global ptr null  ; signal.getsignal
@mlc_default_handler = global ptr null  ; signal.default_int_handler

define void @mlc_on_sigint(i32 %signal) {
entry:
  %count = atomicrmw add ptr @mlc_interrupts, i64 1 monotonic
  %chained = load ptr, ptr @mlc_chained_sigint, align 8
  %none = icmp eq ptr %chained, null
  br i1 %none, label %done, label %chain
chain:
  call void %chained(i32 %signal)
  br label %done
done:
  ret void
}

; Before and after a call of the main thread that may take long, with the GIL: ours stands in front of
; Python's handler for that time, where Python's is the default one. %old: 32 words, the first null
; where nothing was changed.
define void @mlc_interruptible(ptr %old) {
entry:
  store ptr null, ptr %old, align 8
  %ours = load ptr, ptr @mlc_sigint_action, align 8
  %none = icmp eq ptr %ours, null
  br i1 %none, label %done, label %ask
ask:
  %asked = load ptr, ptr @mlc_getsignal, align 8
  %handler = call ptr @PyObject_Vectorcall(ptr %asked, ptr @mlc_sigint_number, i64 1, ptr null)
  %failed = icmp eq ptr %handler, null
  br i1 %failed, label %clear, label %compare
clear:
  call void @PyErr_Clear()
  br label %done
compare:
  call void @Py_DecRef(ptr %handler)
  %default = load ptr, ptr @mlc_default_handler, align 8
  %same = icmp eq ptr %handler, %default
  br i1 %same, label %install, label %done
install:
  %status = call i32 @sigaction(i32 2, ptr @mlc_sigint_action, ptr %old)
  %before = load ptr, ptr %old, align 8
  %chained = load ptr, ptr @mlc_chained_sigint, align 8
  %python = icmp eq ptr %before, %chained
  br i1 %python, label %done, label %undo
undo:  ; somebody's own, which knows nothing of a kernel that ends
  %again = call i32 @sigaction(i32 2, ptr %old, ptr null)
  store ptr null, ptr %old, align 8
  br label %done
done:
  ret void
}

define void @mlc_uninterruptible(ptr %old) {
entry:
  %now = alloca [32 x i64], align 8
  %before = load ptr, ptr %old, align 8
  %none = icmp eq ptr %before, null
  br i1 %none, label %done, label %restore
restore:
  %status = call i32 @sigaction(i32 2, ptr %old, ptr %now)
  %found = load ptr, ptr %now, align 8
  %ours = load ptr, ptr @mlc_sigint_action, align 8
  %same = icmp eq ptr %found, %ours
  br i1 %same, label %done, label %keep
keep:  ; another thread has set its own meanwhile
  %again = call i32 @sigaction(i32 2, ptr %now, ptr null)
  br label %done
done:
  ret void
}

; ---- floating-point flags: a call leaves them as it found them

define i64 @mlc_float_state() {
  READ_FLOAT_STATE
}

define void @mlc_restore_float_state(i64 %old) {
entry:
  %now = call i64 @mlc_float_state()
  %same = icmp eq i64 %now, %old
  br i1 %same, label %done, label %write
write:
  WRITE_FLOAT_STATE
  br label %done
done:
  ret void
}
