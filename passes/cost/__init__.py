"""What kernels cost: work in whole numbers, traffic, cycles, and the seconds of a machine."""
