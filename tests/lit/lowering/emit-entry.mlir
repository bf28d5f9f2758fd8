// The C entry takes its arguments from three arrays and leaves early with a status.
// RUN: %python -m mlc.lowering.emit %s avx512 | filecheck %s

// CHECK:       declare void @k(ptr, i64, ptr, i64) nounwind
// CHECK-LABEL: define i32 @f(ptr %ctx, ptr %args, ptr %sizes, ptr %outs)
func.func @f(%ctx: !mlc_par.ctx, %n: index, %x: memref<?xf32>, %out: memref<?xf32>)
    attributes {mlc.entry = {inputs = 1, outputs = 1}} {
  // CHECK: %[[N:.*]] = load i64, ptr %sizes
  // CHECK: %[[X:.*]] = load ptr, ptr %args
  %shaped = memref.reinterpret_cast %x to offset: [0], sizes: [4, %n], strides: [%n, 1] : memref<?xf32> to memref<4x?xf32>
  // CHECK: call void @k(ptr %ctx, i64 %[[N]], ptr %[[X]], i64 %[[N]])
  func.call @k(%ctx, %n, %shaped) : (!mlc_par.ctx, index, memref<4x?xf32>) -> ()
  // CHECK: br i1 %{{.*}}, label %exit.1
  // CHECK: load atomic i64
  // CHECK: br i1 %{{.*}}, label %exit.3
  mlc_par.check %ctx
  // CHECK: ret i32 0
  // CHECK: exit.1:
  // CHECK-NEXT: ret i32 1
  return
}
func.func private @k(!mlc_par.ctx, index, memref<4x?xf32>) -> ()
