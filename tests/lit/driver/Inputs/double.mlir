func.func @double(%x: tensor<?xf32, #mlc.dims<"B">>) -> tensor<?xf32, #mlc.dims<"B">> {
  %0 = mlc.add %x, %x : tensor<?xf32, #mlc.dims<"B">>
  func.return %0 : tensor<?xf32, #mlc.dims<"B">>
}
