; One worker, and nobody to wait for.

define internal i64 @mlc_threads_of(i64 %wanted) PLAIN {
  ret i64 1
}

define internal i64 @mlc_team_size(i64 %threads, i64 %shares, i64 %waking) {
  ret i64 1
}

define internal zeroext i1 @mlc_team_barrier(ptr %ctx, i64 %worker, i64 %workers) {
  %stop = call i1 @mlc_team_stops(ptr %ctx)
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
