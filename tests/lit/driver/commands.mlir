// The smaller commands: version, machine, cache; usage errors have status 2, Python's argparse says what.
// RUN: mlc --version | filecheck %s --check-prefix=VERSION
// RUN: mlc machine | filecheck %s --check-prefix=MACHINE
// RUN: mlc cache | filecheck %s --check-prefix=CACHE
// RUN: mlc cache verify | filecheck %s --check-prefix=VERIFY
// RUN: not mlc cache fill 2>&1 | filecheck %s --check-prefix=USAGE
// RUN: not mlc show %s 2>&1 | filecheck %s --check-prefix=LOOPS

// VERSION: mlc {{[0-9]+\.[0-9]+}}
// MACHINE: vector_bits
// MACHINE: threads
// CACHE:   folder
// CACHE:   entries
// VERIFY:  sound entries, 0 damaged ones
// USAGE:   invalid choice: 'fill'
// LOOPS:   is at the loops level, where arguments have no shapes any more; expected the tensor or the plan level
func.func @k(%x: memref<4xf32>) attributes {mlc.entry = {inputs = 1 : i64, outputs = 0 : i64}} {
  func.return
}
