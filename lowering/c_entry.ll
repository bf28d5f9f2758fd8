; The entry for C: it asks once what the machine has, and works with a context of its own, whose parts
; behind the caller's are the team's. Zeros of the caller's mean something: no counter is one that never
; counts, no `grow` has no more memory, no threads are one. Offsets: dialects/abi.py.

@mlc_never = internal constant i64 0
@ENTRY.machine = internal global i32 -1  ; what ENTRY_check has said

; The bytes of an arena: none where there is no memory, or its size is below 0.
define internal i64 @mlc_usable(ptr %arena, i64 %size) PLAIN {
entry:
  %nowhere = icmp eq ptr %arena, null
  %negative = icmp slt i64 %size, 0
  %none = or i1 %nowhere, %negative
  %usable = select i1 %none, i64 0, i64 %size
  ret i64 %usable
}

define internal i32 @mlc_grow_arena(ptr %ctx, i64 %bytes) PLAIN {
entry:
  %private.at = getelementptr i8, ptr %ctx, i64 64
  %user = load ptr, ptr %private.at, align 8
  %value.at = getelementptr i8, ptr %ctx, i64 48
  store i64 %bytes, ptr %value.at, align 8
  %grow.at = getelementptr i8, ptr %user, i64 56
  %grow = load ptr, ptr %grow.at, align 8
  %fixed = icmp eq ptr %grow, null
  br i1 %fixed, label %refused, label %ask
ask:
  %status = call i32 %grow(ptr %user, i64 %bytes)
  %grown = icmp eq i32 %status, 0
  br i1 %grown, label %take, label %refused
take:
  %arena = load ptr, ptr %user, align 8
  %size.at = getelementptr i8, ptr %user, i64 8
  %size = load i64, ptr %size.at, align 8
  %usable = call i64 @mlc_usable(ptr %arena, i64 %size)
  %enough = icmp sge i64 %usable, %bytes
  br i1 %enough, label %use, label %refused
use:
  %own.size.at = getelementptr i8, ptr %ctx, i64 8
  store ptr %arena, ptr %ctx, align 8
  store i64 %size, ptr %own.size.at, align 8
  store i64 0, ptr %value.at, align 8
  ret i32 0
refused:
  ret i32 1
}

define i32 @ENTRY(ptr %user, ptr %args, ptr %sizes, ptr %outs) PLAIN {
entry:
  %ctx = alloca [BYTES x i8], align 64
  %known = load atomic i32, ptr @ENTRY.machine monotonic, align 4
  %asked = icmp sge i32 %known, 0
  br i1 %asked, label %told, label %ask
ask:
  %answer = call i32 @ENTRY_check()
  store atomic i32 %answer, ptr @ENTRY.machine monotonic, align 4
  br label %told
told:
  %machine = phi i32 [ %known, %entry ], [ %answer, %ask ]
  %fits = icmp eq i32 %machine, 0
  br i1 %fits, label %clear, label %refuse
refuse:
  ret i32 %machine
clear:
  %at = phi i64 [ 0, %told ], [ %at.next, %clear ]
  %word = getelementptr i8, ptr %ctx, i64 %at
  store i64 0, ptr %word, align 8
  %at.next = add i64 %at, 8
  %more = icmp ult i64 %at.next, BYTES
  br i1 %more, label %clear, label %begin
begin:
  %arena = load ptr, ptr %user, align 8
  %address = ptrtoint ptr %arena to i64
  %odd = and i64 %address, 63
  %aligned = icmp eq i64 %odd, 0
  br i1 %aligned, label %work, label %misplaced
misplaced:
  ret i32 4
work:
  store ptr %arena, ptr %ctx, align 8
  %user.size.at = getelementptr i8, ptr %user, i64 8
  %size.said = load i64, ptr %user.size.at, align 8
  %size = call i64 @mlc_usable(ptr %arena, i64 %size.said)
  %size.at = getelementptr i8, ptr %ctx, i64 8
  store i64 %size, ptr %size.at, align 8
  %user.threads.at = getelementptr i8, ptr %user, i64 16
  %wanted = load i64, ptr %user.threads.at, align 8
  %threads = call i64 @mlc_threads_of(i64 %wanted)
  %threads.at = getelementptr i8, ptr %ctx, i64 16
  store i64 %threads, ptr %threads.at, align 8
  %user.counter.at = getelementptr i8, ptr %user, i64 24
  %counter = load ptr, ptr %user.counter.at, align 8
  %uncounted = icmp eq ptr %counter, null
  %counter.now = select i1 %uncounted, ptr @mlc_never, ptr %counter
  %counter.at = getelementptr i8, ptr %ctx, i64 24
  store ptr %counter.now, ptr %counter.at, align 8
  %user.base.at = getelementptr i8, ptr %user, i64 32
  %base = load i64, ptr %user.base.at, align 8
  %base.now = select i1 %uncounted, i64 0, i64 %base
  %base.at = getelementptr i8, ptr %ctx, i64 32
  store i64 %base.now, ptr %base.at, align 8
  %grow.at = getelementptr i8, ptr %ctx, i64 56
  store ptr @mlc_grow_arena, ptr %grow.at, align 8
  %private.at = getelementptr i8, ptr %ctx, i64 64
  store ptr %user, ptr %private.at, align 8
  %status = call i32 CALLED(ptr %ctx, ptr %args, ptr %sizes, ptr %outs)
  %site.at = getelementptr i8, ptr %ctx, i64 40
  %site = load i64, ptr %site.at, align 8
  %user.site.at = getelementptr i8, ptr %user, i64 40
  store i64 %site, ptr %user.site.at, align 8
  %value.at = getelementptr i8, ptr %ctx, i64 48
  %value = load i64, ptr %value.at, align 8
  %user.value.at = getelementptr i8, ptr %user, i64 48
  store i64 %value, ptr %user.value.at, align 8
  %extent.at = getelementptr i8, ptr %ctx, i64 72
  %extent = load i64, ptr %extent.at, align 8
  %user.extent.at = getelementptr i8, ptr %user, i64 72
  store i64 %extent, ptr %user.extent.at, align 8
  ret i32 %status
}
