// `mlc tile`: every way to cut a product, what it reads of each level, and why it is not taken.
// RUN: mlc tile 1024 1024 1024 --target avx512 --first 3 | filecheck %s
// RUN: mlc tile 512 512 512 --target amx --dtype bf16 --first 8 | filecheck %s --check-prefix=AMX
// RUN: mlc tile 512 512 512 --target mmla --dtype bf16 --first 1 | filecheck %s --check-prefix=MMLA
// RUN: mlc tile 8 64 65536 --target avx512 --threads 2 --first 40 | filecheck %s --check-prefix=SPLIT
// RUN: mlc tile 4096 4096 4096 --target h200 --dtype bf16 --first 2 | filecheck %s --check-prefix=GROUPS
// RUN: mlc tile 512 512 512 --target sm_80 --first 2 | filecheck %s --check-prefix=THREADS

// CHECK:      A[1024, 1024] · B[1024, 1024], f32, on avx512, 1 thread
// CHECK-NEXT: 2.15 G operations; 12.9 ms at 166 G a second
// CHECK:      seconds    measured   loads  level 1  level 2  level 3   memory  words
// CHECK:      1 {{.*}} ms {{.*}} 0.42 {{.*}} [block(n, 64, team, dynamic), {{.*}}pack(b, panels 64), register(m 6, n 64), via(fma), edge(m, clamp), prefetch(c)]
// CHECK-NEXT: blocked; what the compiler takes now
// CHECK:      2 {{.*}} ms
// CHECK-NEXT: blocked; {{.*}}% slower: {{.*}} more
// CHECK:      not tiny: m = 1024 and n = 1024: more than 64
// CHECK:      not batched: there is one batch

// AMX: bf16 into f32, on amx
// AMX: register(m 32, n 32), via(amx_bf16)
// Of those that take one worker about as long, the compiler takes the fastest of all workers.
// AMX: blocked; what the compiler takes now

// MMLA: bf16 into f32, on mmla
// MMLA: pack(a, panels 12, group 4, team), {{.*}}pack(b, panels 8, group 4), register(m 12, n 8), via(mmla_bf16)
// MMLA-NEXT: blocked; what the compiler takes now

// SPLIT: [split(k, 2), register(m 8, n 32), via(fma)]
// SPLIT-NEXT: skinny; {{.*}}% slower

// Of a GPU bytes are those of shared memory, level 2 and device memory.
// GROUPS: A[4096, 4096] · B[4096, 4096], bf16 into f32, on h200
// GROUPS: seconds    measured   blocks   shared  level 2   memory  words
// GROUPS: 512   2.68 G   1.61 G {{.*}} tile(m 128, n 256, k 64), {{.*}}raster(16)]
// GROUPS-NEXT: groups; what the compiler takes now
// GROUPS: groups; {{.*}}% slower: multiplying

// THREADS: stage(m 64, n 64, k 16, rows 4, columns 4, slots 2, resident 2)]
// THREADS-NEXT: threads; what the compiler takes now
// THREADS: not groups: sm_80 has no groups of warps that multiply
