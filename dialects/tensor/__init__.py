"""The ops of the tensor level, one family per file; no schedules, no loops, no memory."""
