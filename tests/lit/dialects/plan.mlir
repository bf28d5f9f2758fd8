// The plan level reads back as it is printed; a schedule shows the fields that differ from the default.
// RUN: mlc opt %s | mlc opt | filecheck %s
// RUN: mlc opt %s --print-op-generic | mlc opt | filecheck %s

// CHECK-LABEL: func.func @kernels(
// CHECK-SAME:    attributes {mlc.arena = {"0" = #mlc.dims<64, "4*B">}}
// CHECK-NEXT:    %[[SUM:.*]] = mlc.kernel "cell" (%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) : (tensor<?xf32, #mlc.dims<"B">>, tensor<?xf32, #mlc.dims<"B">>) -> (tensor<?xf32, #mlc.dims<"B">>) {
// CHECK-NEXT:      %[[INSIDE:.*]] = mlc.add %[[A]], %[[B]]
// CHECK-NEXT:      mlc.yield %[[INSIDE]]
// CHECK-NEXT:    } {schedule = #mlc.schedule<lanes = 16, vector_axis = 0, unroll = 2>, cost = #mlc.cost<flops "B", read "8*B", written "4*B">, buffers = [#mlc.buffer<arena 0>]}
// CHECK-NEXT:    mlc.kernel "magg"
// CHECK:         } {schedule = #mlc.schedule<>, buffers = [#mlc.buffer<out 0>], note = "kept"}
func.func @kernels(
  %x: tensor<?xf32, #mlc.dims<"B">>, %y: tensor<?xf32, #mlc.dims<"B">>
) -> tensor<f32> attributes {mlc.arena = {"0" = #mlc.dims<64, "B*4">}} {
  %0 = mlc.kernel "cell" (%a = %x, %b = %y) : (tensor<?xf32, #mlc.dims<"B">>, tensor<?xf32, #mlc.dims<"B">>) -> (tensor<?xf32, #mlc.dims<"B">>) {
    %1 = mlc.add %a, %b : tensor<?xf32, #mlc.dims<"B">>
    mlc.yield %1 : tensor<?xf32, #mlc.dims<"B">>
  } {buffers = [#mlc.buffer<arena 0>], cost = #mlc.cost<flops "B", read "8*B", written "4*B">, schedule = #mlc.schedule<unroll = 2, lanes = 16, grain = 0, vector_axis = 0>}
  %2 = mlc.kernel "magg" (%a = %0) : (tensor<?xf32, #mlc.dims<"B">>) -> (tensor<f32>) {
    %3 = mlc.reduce "sum" "n->" %a : tensor<?xf32, #mlc.dims<"B">> -> tensor<f32>
    mlc.yield %3 : tensor<f32>
  } {note = "kept", buffers = [#mlc.buffer<out 0>], schedule = #mlc.schedule<>}
  func.return %2 : tensor<f32>
}
