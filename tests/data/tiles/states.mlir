// The largest of a row with where it is, and running sums.
mlc_tile.kernel @k(%x: !mlc_tile.view<3x4xf32>, %at: !mlc_tile.view<3x4xi64>) -> (%y: !mlc_tile.view<3xf32>, %z: !mlc_tile.view<3xi64>, %r: !mlc_tile.view<3x4xf32>) {
  %a = mlc_tile.load %x : !mlc_tile.frag<3x4xf32>
  %b = mlc_tile.load %at : !mlc_tile.frag<3x4xi64>
  %c, %d = mlc_tile.reduce "argmax" %a, %b along 1 : !mlc_tile.frag<3xf32>, !mlc_tile.frag<3xi64>
  mlc_tile.store %c, %y
  mlc_tile.store %d, %z
  %e = mlc_tile.scan "sum" %a along 1 : !mlc_tile.frag<3x4xf32>
  mlc_tile.store %e, %r
}
