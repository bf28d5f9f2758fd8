// The plan level reads back as it is printed; a schedule shows the fields that differ from the default.
// RUN: mlc opt %s | mlc opt | filecheck %s
// RUN: mlc opt %s --print-op-generic | mlc opt | filecheck %s

// CHECK-LABEL: func.func @kernels(
// CHECK-SAME:    attributes {mlc.arena = {"0" = #mlc.dims<64, "4*B">}}
// CHECK-NEXT:    %[[SUM:.*]] = mlc.kernel "cell" (%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) : (tensor<?xf32, #mlc.dims<"B">>, tensor<?xf32, #mlc.dims<"B">>) -> (tensor<?xf32, #mlc.dims<"B">>) {
// CHECK-NEXT:      %[[INSIDE:.*]] = mlc.add %[[A]], %[[B]]
// CHECK-NEXT:      mlc.yield %[[INSIDE]]
// CHECK-NEXT:    } {schedule = #mlc.schedule<[vector(16, axis 0), unroll(2)]>, cost = #mlc.cost<flops "B", read "8*B", written "4*B">, buffers = [#mlc.buffer<arena 0>]}
// CHECK-NEXT:    mlc.kernel "magg"
// CHECK:         } {schedule = #mlc.schedule<>, buffers = [#mlc.buffer<out 0>], note = "kept"}
func.func @kernels(
  %x: tensor<?xf32, #mlc.dims<"B">>, %y: tensor<?xf32, #mlc.dims<"B">>
) -> tensor<f32> attributes {mlc.arena = {"0" = #mlc.dims<64, "B*4">}} {
  %0 = mlc.kernel "cell" (%a = %x, %b = %y) : (tensor<?xf32, #mlc.dims<"B">>, tensor<?xf32, #mlc.dims<"B">>) -> (tensor<?xf32, #mlc.dims<"B">>) {
    %1 = mlc.add %a, %b : tensor<?xf32, #mlc.dims<"B">>
    mlc.yield %1 : tensor<?xf32, #mlc.dims<"B">>
  } {buffers = [#mlc.buffer<arena 0>], cost = #mlc.cost<flops "B", read "8*B", written "4*B">, schedule = #mlc.schedule<[vector(axis 0, 16), unroll(2)]>}
  %2 = mlc.kernel "magg" (%a = %0) : (tensor<?xf32, #mlc.dims<"B">>) -> (tensor<f32>) {
    %3 = mlc.reduce "sum" "n->" %a : tensor<?xf32, #mlc.dims<"B">> -> tensor<f32>
    mlc.yield %3 : tensor<f32>
  } {note = "kept", buffers = [#mlc.buffer<out 0>], schedule = #mlc.schedule<>}
  func.return %2 : tensor<f32>
}

// Every word of a schedule, of products and of other nests; what a word has by default is left out.
// CHECK-LABEL: func.func @words(
// CHECK: #mlc.schedule<[block(n, 3072), block(k, 256), pack(b, panels 32, team), block(m, 192, team), pack(a, panels 12), register(m 12, n 32), via(fma), prefetch(b, 2)]>
// CHECK: #mlc.schedule<[split(k, 4), pack(b, panels 16, group 2), register(m 32, n 32), via(amx_bf16), edge(m, pack), sums(scratch), epilogue(loop)]>
// CHECK: #mlc.schedule<[vector(16, axis 1), unroll(4), turn(0, rows 64, columns 32), grain(4096)]>
func.func @words() attributes {
  blocked = #mlc.schedule<[block(n, 3072), block(k, 256), pack(b, panels 32, group 1, team), block(m, 192, team), pack(a, panels 12), register(n 32, m 12), via(fma), prefetch(b, 2)]>,
  tiles = #mlc.schedule<[split(k, 4), pack(b, panels 16, group 2), register(m 32, n 32), via(amx_bf16), edge(m, pack), sums(scratch), epilogue(loop)]>,
  nest = #mlc.schedule<[vector(16, axis 1), unroll(4), turn(0, rows 64, columns 32), grain(4096)]>
} {
  func.return
}
