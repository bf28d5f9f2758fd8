// A step of an LSTM: four gates of a unit in one tile, one map makes cell and output.
mlc_tile.kernel @lstm(%h: !mlc_tile.view<5x20xf32>, %w: !mlc_tile.view<20x4x20xf32>, %c: !mlc_tile.view<5x20xf32>) -> (%next_c: !mlc_tile.view<5x20xf32>, %next_h: !mlc_tile.view<5x20xf32>) workers(400 by 1) {
  mlc_tile.for %i in 5 step 6, %j in 20 step 8 deal(team) {
    %g = mlc_tile.dot "mk,kgu->mgu" %h[%i], %w[0, 0, %j] over (k 20) via fma : !mlc_tile.frag<6x4x8xf32>
    %in = mlc_tile.extract %g[:, 0, :] : !mlc_tile.frag<6x8xf32>
    %forget = mlc_tile.extract %g[:, 1, :] : !mlc_tile.frag<6x8xf32>
    %out = mlc_tile.extract %g[:, 2, :] : !mlc_tile.frag<6x8xf32>
    %cell = mlc_tile.extract %g[:, 3, 0:8] : !mlc_tile.frag<6x8xf32>
    %before = mlc_tile.load %c[%i, %j] : !mlc_tile.frag<6x8xf32>
    %c2, %h2 = mlc_tile.map(%ei = %in, %ef = %forget, %eo = %out, %ez = %cell, %ec = %before) -> (!mlc_tile.frag<6x8xf32>, !mlc_tile.frag<6x8xf32>) {
      %keep = mlc.mul %ef, %ec : tensor<f32>
      %z = mlc.tanh %ez : tensor<f32>
      %add = mlc.mul %ei, %z : tensor<f32>
      %now = mlc.add %keep, %add : tensor<f32>
      %bent = mlc.tanh %now : tensor<f32>
      %shown = mlc.mul %eo, %bent : tensor<f32>
      mlc_tile.yield %now, %shown : tensor<f32>, tensor<f32>
    }
    mlc_tile.store %c2, %next_c[%i, %j]
    mlc_tile.store %h2, %next_h[%i, %j]
  }
}
