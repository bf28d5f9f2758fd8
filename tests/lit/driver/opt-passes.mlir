// Passes: bare names, options, what is said about mistakes, what is printed between them.
// RUN: mlc opt %s -p 'canonicalize{max-elements=8},cse' --print-between-passes | filecheck %s
// RUN: mlc opt %s -p mlc-canonicalize,xdsl-cse,dce | filecheck %s --check-prefix=ONCE
// RUN: mlc opt --list-passes | filecheck %s --check-prefix=LIST
// RUN: not mlc opt %s -p canoncalize 2>&1 | filecheck %s --check-prefix=MEANT
// RUN: not mlc opt %s -p 'canonicalize{max-element=8}' 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not mlc opt %s -p 'canonicalize{' 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not mlc opt %s -p 'form-kernels{fusion="every"}' 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: mlc opt %s -p form-tiles,form-kernels --fusion=none --target=avx512 | filecheck %s --check-prefix=NONE
// RUN: mlc opt %s -p 'form-kernels{fusion="all"}' --fusion=none --target=avx512 | filecheck %s --check-prefix=OWN
// RUN: not mlc opt %s -p form-kernels --fusion=exat 2>&1 | filecheck %s --check-prefix=TYPO
// RUN: not mlc opt %s --target=z80 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not mlc opt %S/nowhere.mlir 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not mlc opt --frobnicate 2>&1 | filecheck %s --check-prefix=FLAG
// RUN: mlc opt %s --target=avx512 | filecheck %s --check-prefix=MACHINE

// CHECK:        // IR after mlc-canonicalize:
// CHECK-COUNT-2:  mlc.exp
// CHECK:        builtin.module
// CHECK-COUNT-1:  mlc.exp
// CHECK-NOT:      mlc.exp
// ONCE-COUNT-1:   mlc.exp
// ONCE-NOT:       mlc.exp
// LIST:         mlc-canonicalize
// LIST:         canonicalize
// MEANT:        mlc: no pass is called 'canoncalize'; did you mean canonicalize?
// OPTION:       mlc: pass canonicalize: {{.*}}"max_element"{{.*}}; expected one of max-elements, max-work
// SYNTAX:       mlc: -p 'canonicalize{': {{.*}}
// SYNTAX:       expected passes such as 'canonicalize,cse'
// VALUE:        mlc: pass mlc-form-kernels: fusion="every"; expected one of "none", "all", "fnr", "greedy", "exact"
// NONE-COUNT-3: mlc.kernel
// OWN-COUNT-1:  mlc.kernel
// OWN-NOT:      mlc.kernel
// TYPO:         mlc opt: error: argument --fusion: invalid choice: 'exat' (choose from {{.*}}none{{.*}}greedy{{.*}}exact
// TARGET:       mlc: --target z80: no target is called 'z80'; expected one of host, {{.*}}avx2
// FILE:         nowhere.mlir: No such file or directory; expected a file with MLIR text
// FLAG:         mlc opt: error: unrecognized arguments: --frobnicate
// MACHINE:      module attributes {mlc.target = #mlc.target<"avx512">}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mlc.exp %x : tensor<4xf32>
  %1 = mlc.exp %x : tensor<4xf32>
  %2 = mlc.add %0, %1 : tensor<4xf32>
  func.return %2 : tensor<4xf32>
}
