// `mlc build` writes LLVM IR, assembly and objects, for any machine, and says where.
// RUN: mlc build %s --target neon --emit ll,asm,obj -o %t.f | filecheck %s --check-prefix=PATHS
// RUN: filecheck %s --check-prefix=LL < %t.ll
// RUN: filecheck %s --check-prefix=ASM < %t.s
// RUN: not mlc build %s --emit exe 2>&1 | filecheck %s --check-prefix=KIND

// PATHS:      .ll
// PATHS-NEXT: .s
// PATHS-NEXT: .o
// LL:         target triple = "aarch64
// LL:         define {{.*}} @f
// ASM:        fadd {{.*}}.4s
// KIND:       --emit exe: expected some of ll, asm, obj, ptx
func.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = mlc.add %x, %x : tensor<64xf32>
  func.return %0 : tensor<64xf32>
}
