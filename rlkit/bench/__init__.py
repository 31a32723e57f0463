"""Side-by-side measurements: the same rows or jobs, ours and others, in one run."""
