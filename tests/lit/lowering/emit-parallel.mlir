// A parallel region becomes a function of its captured values, called by each thread.
// RUN: %python -m mlc.lowering.emit %s avx512 | filecheck %s

// CHECK:       define internal void @k.region0(ptr noalias %a1, i64 %[[TID:.*]], i64 %[[NT:.*]])
// CHECK:         getelementptr inbounds float, ptr %a1, i64 %[[TID]]
// CHECK-LABEL: define internal void @k.thread0(ptr %frame)
// CHECK:         call i32 @omp_get_thread_num()
// CHECK:         call i32 @omp_get_num_threads()
// CHECK:         %[[WORKS:.*]] = icmp slt i64 %{{.*}}, %{{.*}}
// CHECK:         br i1 %{{.*}}, label %[[WORKS:.*]], label
// CHECK:         call void @k.region0(
// CHECK-LABEL: define void @k(ptr noalias %a0, ptr noalias %a1)
// CHECK:         %[[TEAM:.*]] = call i64 @mlc_team_size(i64 %{{.*}}, i64 %{{.*}}, i64 1)
// The runtime is asked for all threads of the call, whatever the team.
// CHECK:         call void @GOMP_parallel(ptr @k.thread0, ptr %{{.*}}, i32 %{{.*}}, i32 0)
// One thread needs no runtime.
// CHECK:         call void @k.region0(ptr %a1, i64 0, i64 1)
func.func @k(%ctx: !mlc_par.ctx, %out: memref<?xf32> {mlc.noalias}) {
  %one = arith.constant 1.0 : f32
  %threads = mlc_par.threads %ctx : index
  %few = arith.constant 1 : index
  %team = mlc_par.team %ctx, %threads waking %few : index
  mlc_par.region (%ctx, %team) {
  ^bb0(%tid: index, %nt: index):
    memref.store %one, %out[%tid] : memref<?xf32>
    mlc_par.yield
  }
  return
}
