"""Which ops share a kernel: facts, candidates, the search, and the pass that outlines them."""
