"""Commands of the command line, one module each; `rlkit/cli.py` brings them together."""
