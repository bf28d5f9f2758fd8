; What a program for C has in place of a runtime: one worker, and a context whose zeros mean something.

@mlc_never = internal constant i64 0

define internal i64 @mlc_team_size(i64 %threads, i64 %shares, i64 %waking) {
  ret i64 1
}

define internal zeroext i1 @mlc_team_barrier(ptr %ctx, i64 %worker, i64 %workers) {
  %site.at = getelementptr i8, ptr %ctx, i64 40
  %site = load i64, ptr %site.at, align 8
  %failed = icmp ne i64 %site, 0
  %counter.at = getelementptr i8, ptr %ctx, i64 24
  %counter = load ptr, ptr %counter.at, align 8
  %count = load atomic i64, ptr %counter monotonic, align 8
  %base.at = getelementptr i8, ptr %ctx, i64 32
  %base = load i64, ptr %base.at, align 8
  %cancelled = icmp ne i64 %count, %base
  %stop = or i1 %failed, %cancelled
  ret i1 %stop
}

define internal i64 @mlc_team_take(ptr %ctx, i64 %last, i64 %threads) {
  %next = add i64 %last, 1
  ret i64 %next
}

define internal void @GOMP_parallel(ptr %body, ptr %data, i32 %threads, i32 %flags) {
  call void %body(ptr %data)
  ret void
}

define internal i32 @omp_get_thread_num() {
  ret i32 0
}

define internal i32 @omp_get_num_threads() {
  ret i32 1
}

define internal i32 @mlc_no_grow(ptr %ctx, i64 %bytes) {
  %at = getelementptr i8, ptr %ctx, i64 48
  store i64 %bytes, ptr %at, align 8
  ret i32 1
}

; The entry for C: no counter is one that never counts, no `grow` has no more memory.
define i32 @ENTRY(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) {
  %counter.at = getelementptr i8, ptr %ctx, i64 24
  %base.at = getelementptr i8, ptr %ctx, i64 32
  %grow.at = getelementptr i8, ptr %ctx, i64 56
  %threads.at = getelementptr i8, ptr %ctx, i64 16
  %site.at = getelementptr i8, ptr %ctx, i64 40
  %counter = load ptr, ptr %counter.at, align 8
  %base = load i64, ptr %base.at, align 8
  %grow = load ptr, ptr %grow.at, align 8
  %threads = load i64, ptr %threads.at, align 8
  %uncounted = icmp eq ptr %counter, null
  %counter.now = select i1 %uncounted, ptr @mlc_never, ptr %counter
  %base.now = select i1 %uncounted, i64 0, i64 %base
  %fixed = icmp eq ptr %grow, null
  %grow.now = select i1 %fixed, ptr @mlc_no_grow, ptr %grow
  store ptr %counter.now, ptr %counter.at, align 8
  store i64 %base.now, ptr %base.at, align 8
  store ptr %grow.now, ptr %grow.at, align 8
  store i64 1, ptr %threads.at, align 8
  store i64 0, ptr %site.at, align 8
  %status = call i32 @ENTRY.entry(ptr %ctx, ptr %args, ptr %sizes, ptr %outs)
  store ptr %counter, ptr %counter.at, align 8
  store i64 %base, ptr %base.at, align 8
  store ptr %grow, ptr %grow.at, align 8
  store i64 %threads, ptr %threads.at, align 8
  ret i32 %status
}
