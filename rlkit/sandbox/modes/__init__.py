"""The host's side of the modes beside func and io: what is told, and what an answer is worth."""
