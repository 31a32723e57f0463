"""The code that runs inside the sandbox's own processes; standard library only."""
