// Two kernels of the plan in one tile program, which a function calls.
mlc_tile.kernel @exp(%x: !mlc_tile.view<"B"x4xf32>) -> (%y: !mlc_tile.view<"B"x4xf32>) workers("B" by 1) {
  %s = mlc_tile.alloc team : !mlc_tile.view<"B"x4xf32>
  mlc_tile.nest "cell" (%a = %x) -> (%s) {
    %e = mlc.exp %a : tensor<?x4xf32, #mlc.dims<"B", 4>>
    mlc.yield %e : tensor<?x4xf32, #mlc.dims<"B", 4>>
  }
  mlc_tile.barrier
  mlc_tile.nest "row" (%a = %s) -> (%y) {
    %t = mlc.reduce "sum" "ab->a" %a : tensor<?x4xf32, #mlc.dims<"B", 4>> -> tensor<?xf32, #mlc.dims<"B">>
    %w = mlc.broadcast "a->ab" %t : tensor<?xf32, #mlc.dims<"B">> -> tensor<?x4xf32, #mlc.dims<"B", 4>>
    %d = mlc.div %a, %w : tensor<?x4xf32, #mlc.dims<"B", 4>>
    mlc.yield %d : tensor<?x4xf32, #mlc.dims<"B", 4>>
  }
}
func.func @main(%x: tensor<?x4xf32, #mlc.dims<"B", 4>>) -> tensor<?x4xf32, #mlc.dims<"B", 4>> {
  %n = mlc.neg %x : tensor<?x4xf32, #mlc.dims<"B", 4>>
  %y = mlc_tile.call @exp(%n) : (tensor<?x4xf32, #mlc.dims<"B", 4>>) -> tensor<?x4xf32, #mlc.dims<"B", 4>>
  func.return %y : tensor<?x4xf32, #mlc.dims<"B", 4>>
}
