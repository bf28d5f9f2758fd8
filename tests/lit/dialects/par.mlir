// Every op of mlc_par prints what it reads.
// RUN: mlc opt %s | mlc opt | filecheck %s

// CHECK-LABEL: func.func @kernel
func.func @kernel(%ctx: !mlc_par.ctx, %n: index) {
  // CHECK: %[[THREADS:.*]] = mlc_par.threads %ctx : index
  %threads = mlc_par.threads %ctx : index
  // CHECK: mlc_par.team %ctx, %n waking %[[THREADS]] : index
  %team = mlc_par.team %ctx, %n waking %threads : index
  // CHECK: mlc_par.region(%ctx, %[[THREADS]]) {
  // CHECK-NEXT: ^{{.*}}(%[[TID:.*]]: index, %[[NT:.*]]: index):
  mlc_par.region (%ctx, %threads) {
  ^bb0(%tid: index, %nt: index):
    // CHECK-NEXT: %[[STOP:.*]] = mlc_par.barrier %ctx, %[[TID]] of %[[NT]] : i1
    %stop = mlc_par.barrier %ctx, %tid of %nt : i1
    // CHECK-NEXT: mlc_par.leave %[[STOP]]
    mlc_par.leave %stop
    // CHECK-NEXT: mlc_par.fail %ctx site 3 value %[[TID]] extent %[[NT]]
    mlc_par.fail %ctx site 3 value %tid extent %nt
    // CHECK-NEXT: mlc_par.yield
    mlc_par.yield
  }
  func.return
}

// CHECK-LABEL: func.func @entry
func.func @entry(%ctx: !mlc_par.ctx, %n: index) {
  // CHECK: mlc_par.reserve %ctx, %n
  mlc_par.reserve %ctx, %n
  // CHECK: mlc_par.arena %ctx, %n[%n] : memref<?x16xf32>
  %t = mlc_par.arena %ctx, %n [%n] : memref<?x16xf32>
  // CHECK: mlc_par.cancelled %ctx : i1
  %stop = mlc_par.cancelled %ctx : i1
  // CHECK: mlc_par.stopped %ctx : i1
  %failed = mlc_par.stopped %ctx : i1
  // CHECK: mlc_par.check %ctx
  mlc_par.check %ctx
  func.return
}

// CHECK-LABEL: func.func @lapack
func.func @lapack(%n: index, %a: memref<?xf64>) {
  // CHECK: mlc_par.lapack_found "dpotrf"
  %found = mlc_par.lapack_found "dpotrf"
  // CHECK: mlc_par.lapack "dpotrf" "L"(%n, %a, %n) : index, memref<?xf64>, index
  %info = mlc_par.lapack "dpotrf" "L" (%n, %a, %n) : index, memref<?xf64>, index
  func.return
}
