"""What a plan says of itself: kernels, copies, memory, and the page of `explain`."""
