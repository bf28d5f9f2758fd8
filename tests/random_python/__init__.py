"""Random functions as users write them, as text: NumPy runs them, and what they compile to."""
