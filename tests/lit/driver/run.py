# `mlc run` runs a script as Python does, and one function with inputs from files or at random.
# RUN: mlc run %s one two | filecheck %s
# RUN: mlc run %s:double --random --spec 'f32[3]' -o %t.npz | filecheck %s --check-prefix=RANDOM
# RUN: %python -c "import numpy as np; np.save(r'%t.npy', np.arange(3.0))"
# RUN: mlc run %s:double %t.npy | filecheck %s --check-prefix=FILE
# RUN: mlc run %S/Inputs/double.mlir --random --sizes B=2 | filecheck %s --check-prefix=MLIR
# RUN: not mlc run %s fail 2>&1 | filecheck %s --check-prefix=FAIL
# RUN: not mlc run %s shapes 2>&1 | filecheck %s --check-prefix=SHAPES
# RUN: not mlc run %S/Inputs/double.mlir %s 2>&1 | filecheck %s --check-prefix=NOARRAY
# RUN: not mlc run %S/Inputs/double.mlir %t.npy 2>&1 | filecheck %s --check-prefix=REFUSED
# RUN: not mlc run %S/nowhere.py 2>&1 | filecheck %s --check-prefix=NOWHERE
import sys

import numpy as np

import mlc

# CHECK:      ['one', 'two']
# CHECK-NEXT: [0. 2. 4.]
# RANDOM:     result 0: float32[3]
# FILE:       result 0: float64[3]
# FILE-NEXT:  [0. 2. 4.]
# MLIR:       result 0: float32[2]
# FAIL:       Traceback (most recent call last):
# FAIL-NEXT:  run.py", line [[#]]
# FAIL-NOT:   programs.py
# FAIL:       ZeroDivisionError
# SHAPES:     ShapeError:
# SHAPES-NOT: Traceback
# NOARRAY:    run.py is no array file; expected .npy or .npz as np.save writes it
# REFUSED:    double is compiled for (f32[B]), found (float64[3])
# NOWHERE:    nowhere.py: no such file; expected FILE.py, FILE.py:function, FILE.mlir or FILE.onnx


@mlc.compile
def double(x):
    """2 x."""
    return x + x


@mlc.compile
def mismatch(x, y):
    """Shapes that do not fit."""
    return x + y


if __name__ == "__main__":
    if "fail" in sys.argv:
        print(1 / 0)
    if "shapes" in sys.argv:
        mismatch(np.ones(3), np.ones(4))
    print(sys.argv[1:])
    print(double(np.arange(3.0)))
