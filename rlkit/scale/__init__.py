"""Scale: the same policies, rewards, curriculum and monitor on TRL and several processes."""
