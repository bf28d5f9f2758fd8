"""
A model of a GPU: runs the loops level of GPU programs on NumPy arrays, warp by warp in a random
order that a seed fixes. Shared memory is bytes, copies and products are done later, descriptors are
decoded, barriers have phases: a wrong stride, swizzle, phase or fence fails without a device.
"""
