// RUN: mlc opt %s -p place-slots,insert-fences,plan-to-loops | filecheck %s

// Barriers are made by one thread, for which all wait. The first group of warps copies with one
// thread of its first warp; the next group multiplies: a place is given back when the product that
// reads it is done, one step later. Warps store their rows and have them copied.
// CHECK-LABEL: func.func @product
// CHECK-SAME:    %map: !mlc_gpu.tensor_map, %map_1: !mlc_gpu.tensor_map, %map_2: !mlc_gpu.tensor_map) attributes {mlc_gpu.kernel = 256 : i64}
// CHECK:         mlc_gpu.barrier_init %{{.+}}, 1
// CHECK:         mlc_gpu.barrier_fence
// CHECK:         mlc_gpu.barrier
// CHECK:         scf.if
// CHECK-NEXT:      mlc_gpu.registers 40
// CHECK:           mlc_gpu.elect
// CHECK:           scf.for %{{.+}} iter_args(%[[N:.+]] = %{{.+}}, %[[P:.+]] = %{{.+}}) -> (i32, i32)
// CHECK:             scf.for
// CHECK:               mlc_gpu.barrier_wait
// CHECK-NEXT:          mlc_gpu.barrier_expect %{{.+}}, 16384
// CHECK:               mlc_gpu.bulk_load %map[
// CHECK:               mlc_gpu.bulk_load %map_1[
// CHECK:         } else {
// CHECK-NEXT:      mlc_gpu.registers more 232
// CHECK:             scf.for %{{.+}} -> (i32, i32, i32, vector<32xf32>)
// CHECK:               mlc_gpu.barrier_wait
// CHECK:               mlc_gpu.descriptor %{{.+}} leading 0 stride 1024
// CHECK:               mlc_gpu.descriptor %{{.+}} leading 8192 stride 1024
// CHECK:               mlc_gpu.wgmma %{{.+}} by 32, %{{.+}} by 2048, %{{.+}} columns 64 steps 4 of bf16 {rhs_turned}
// CHECK:               mlc_gpu.wgmma_wait %{{.+}}, 1
// CHECK:               mlc_gpu.barrier_arrive
// CHECK:             mlc_gpu.wgmma_wait %{{.+}}, 0
// CHECK:             mlc_gpu.barrier_arrive
// CHECK:             mlc_gpu.bulk_wait 0
// CHECK-NEXT:        mlc_gpu.warp_barrier
// CHECK-COUNT-4:     mlc_gpu.store_matrix
// CHECK:             mlc_gpu.async_fence
// CHECK-NEXT:        mlc_gpu.warp_barrier
// CHECK:             mlc_gpu.bulk_store
// CHECK-LABEL: func.func @main
// CHECK:         mlc_gpu.map %{{.+}} box [64 : i64, 64 : i64]
// CHECK:         mlc_gpu.launch @product {{.+}} shared 42016
builtin.module attributes {mlc.target = #mlc.target<"h200">} {
  mlc_tile.kernel @product(%a: !mlc_tile.view<512x128xbf16>, %b: !mlc_tile.view<128x256xbf16>) -> (%c: !mlc_tile.view<512x256xbf16>) {
    %ring = mlc_tile.channel : !mlc_tile.channel<2 x [!mlc_tile.view<64x64xbf16, sw128>, !mlc_tile.view<64x64xbf16, sw128>]>
    %out = mlc_tile.alloc worker : !mlc_tile.view<64x64xbf16, sw128>
    mlc_tile.roles producer(1, regs 40) %p {
      mlc_tile.work %i in 512 step 64, %j in 256 step 64 raster 4 {
        mlc_tile.for %k in 128 step 64 {
          %x, %y = mlc_tile.put %ring : !mlc_tile.channel<2 x [!mlc_tile.view<64x64xbf16, sw128>, !mlc_tile.view<64x64xbf16, sw128>]> -> !mlc_tile.view<64x64xbf16, sw128>, !mlc_tile.view<64x64xbf16, sw128>
          mlc_tile.copy %a[%i, %k] -> %x "m k -> m k" via tma
          mlc_tile.copy %b[%k, %j] -> %y "k n -> k n" via tma
        }
      }
    } consumer(1, regs 232) %group {
      mlc_tile.work %i in 512 step 64, %j in 256 step 64 raster 4 {
        %zero = mlc_tile.map() -> (!mlc_tile.frag<64x64xf32>) {
          %0 = mlc.constant dense<0.0> : tensor<f32>
          mlc_tile.yield %0 : tensor<f32>
        }
        %begin = mlc_tile.ready %zero : !mlc_tile.frag<64x64xf32> -> !mlc_tile.token<!mlc_tile.frag<64x64xf32>>
        %t = mlc_tile.for %k in 128 step 64 carry(%u = %begin) -> (!mlc_tile.token<!mlc_tile.frag<64x64xf32>>) {
          %x, %y = mlc_tile.get %ring : !mlc_tile.channel<2 x [!mlc_tile.view<64x64xbf16, sw128>, !mlc_tile.view<64x64xbf16, sw128>]> -> !mlc_tile.view<64x64xbf16, sw128>, !mlc_tile.view<64x64xbf16, sw128>
          %v = mlc_tile.dot_start "mk,kn->mn" %x, %y over (k 64) init %u : !mlc_tile.token<!mlc_tile.frag<64x64xf32>>
          mlc_tile.wait %v, 1 : !mlc_tile.token<!mlc_tile.frag<64x64xf32>>
          mlc_tile.release %ring behind 1 : !mlc_tile.channel<2 x [!mlc_tile.view<64x64xbf16, sw128>, !mlc_tile.view<64x64xbf16, sw128>]>
          mlc_tile.yield %v : !mlc_tile.token<!mlc_tile.frag<64x64xf32>>
        }
        %s = mlc_tile.wait %t, 0 : !mlc_tile.token<!mlc_tile.frag<64x64xf32>> -> !mlc_tile.frag<64x64xf32>
        mlc_tile.release %ring : !mlc_tile.channel<2 x [!mlc_tile.view<64x64xbf16, sw128>, !mlc_tile.view<64x64xbf16, sw128>]>
        %r = mlc_tile.convert %s : !mlc_tile.frag<64x64xf32> to !mlc_tile.frag<64x64xbf16>
        mlc_tile.store %r, %out
        mlc_tile.copy %out -> %c[%i + 64*%group, %j] "m n -> m n" over (m 64, n 64) via tma
      }
    }
  }
  func.func @main(%a: tensor<512x128xbf16>, %b: tensor<128x256xbf16>) -> tensor<512x256xbf16> attributes {mlc.arena = {}} {
    %c = mlc_tile.call @product(%a, %b) : (tensor<512x128xbf16>, tensor<128x256xbf16>) -> tensor<512x256xbf16> {buffers = [#mlc.buffer<out 0>]}
    func.return %c : tensor<512x256xbf16>
  }
}
