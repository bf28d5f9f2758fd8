// What the verifiers of mlc_par say.
// RUN: mlc opt %s --verify-diagnostics --split-input-file | filecheck %s

// CHECK: mlc_par.region: the body takes (%tid: index, %nt: index), got (index)
func.func @arguments(%ctx: !mlc_par.ctx, %n: index) {
  mlc_par.region (%ctx, %n) {
  ^bb0(%tid: index):
    mlc_par.yield
  }
  func.return
}

// -----

// CHECK: mlc_par.leave: the condition comes from mlc_par.cancelled; expected an mlc_par.barrier
func.func @apart(%ctx: !mlc_par.ctx) {
  %stop = mlc_par.cancelled %ctx : i1
  mlc_par.leave %stop
  func.return
}

// -----

// CHECK: mlc_par.fail: site 0; sites count from 1
func.func @site(%ctx: !mlc_par.ctx, %n: index) {
  mlc_par.fail %ctx site 0 value %n extent %n
  func.return
}

// -----

// CHECK: mlc_par.arena: memref<?x?xf32> has 2 dynamic dims, got 1 sizes
func.func @sizes(%ctx: !mlc_par.ctx, %n: index) {
  %t = mlc_par.arena %ctx, %n [%n] : memref<?x?xf32>
  func.return
}

// -----

// CHECK: mlc_par.lapack: dpotrf is given 'cii'; expected 'ciai' (c: a character, i: an index, a: an array)
func.func @arguments_of_lapack(%n: index) {
  %info = mlc_par.lapack "dpotrf" "L" (%n, %n) : index, index
  func.return
}

// -----

// CHECK: mlc_par.lapack_found: 'dpotrs'; expected one of dgesv, zgesv,
func.func @nobody() {
  %found = mlc_par.lapack_found "dpotrs"
  func.return
}
