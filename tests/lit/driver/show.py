# `mlc show` prints a function at each level; what it prints, `mlc opt` reads and prints again.
# RUN: mlc show %s | filecheck %s
# RUN: mlc show --at plan --target avx2 %s:layer | filecheck %s --check-prefix=PLAN
# RUN: mlc show --at loops --target neon %s:layer | filecheck %s --check-prefix=LOOPS
# RUN: mlc show --at code --target neon %s:layer | filecheck %s --check-prefix=CODE
# RUN: mlc show --at plan %s:layer > %t.1
# RUN: mlc opt %t.1 > %t.2
# RUN: diff %t.1 %t.2
# RUN: mlc show --at loops %s > %t.3
# RUN: mlc opt %t.3 > %t.4
# RUN: diff %t.3 %t.4
# RUN: mlc show %s:plain --spec 'f64[N]' | filecheck %s --check-prefix=SPEC
# RUN: not mlc show %s:plain 2>&1 | filecheck %s --check-prefix=UNKNOWN
# RUN: not mlc show %s:lyer 2>&1 | filecheck %s --check-prefix=MEANT
# RUN: not mlc show %s:plain --spec 'f64(3)' 2>&1 | filecheck %s --check-prefix=BADSPEC
# RUN: mlc explain %s --sizes B=100 | filecheck %s --check-prefix=EXPLAIN
import numpy as np

import mlc

# CHECK-LABEL: func.func @layer
# CHECK:         mlc.contract
# CHECK:         mlc.tanh
# PLAN:          mlc.target = #mlc.target<"avx2">
# PLAN:          mlc.kernel "contraction"
# LOOPS:       func.func @contraction_
# LOOPS:         vector<4xf32>
# LOOPS:       func.func @layer
# CODE:        target triple = "aarch64
# CODE:        define {{.*}}@layer
# SPEC:        func.func @plain(%x: tensor<?xf64, #mlc.dims<"N">>
# UNKNOWN:     show.py:plain: the types of its arguments are not known; pass --spec 'f32[64,32]
# MEANT:       show.py has no function 'lyer'; did you mean layer?
# BADSPEC:     --spec: 'f64(3)'; expected types such as 'f32[64,32],f32[B,16],i64[]'
# EXPLAIN:     @layer for host at B = 100
# EXPLAIN:     contraction
# EXPLAIN:     memory beside the arguments


@mlc.compile
def layer(x: mlc.TensorSpec("B", 64), w: mlc.TensorSpec(64, 32), b: mlc.TensorSpec(32)):
    """One dense layer."""
    return np.tanh(x @ w + b)


def plain(x):
    """Not compiled by the file itself."""
    return x + 1
