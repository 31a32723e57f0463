"""Run a whole program: a main guard, real standard streams, a real exit.

The job's source is `names.py`, this file and a line that calls `prepare`; each test
calls `run` with the bytes of its standard input. What is printed reaches the host
through the pipes of the process, so nothing is caught or counted here.
"""

HELD = {}


def prepare(source):
    """Compile the program, so that what does not parse is known before anything runs."""
    HELD["code"] = compile(source.removeprefix("\ufeff"), "solution.py", "exec", dont_inherit=True)


def run(stdin):
    """Run the program with this input; returns its exit code."""
    import posix
    import sys

    # A file that has no name any more, not a pipe: the program may read it late, or never.
    place = posix.open("stdin", posix.O_RDWR | posix.O_CREAT | posix.O_EXCL, 0o600)
    posix.unlink("stdin")
    view = memoryview(stdin)
    while view:
        view = view[posix.write(place, view) :]
    posix.lseek(place, 0, 0)
    posix.dup2(place, 0)
    posix.close(place)
    stream = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdin = sys.__stdin__ = stream
    main = type(sys)("__main__")
    main.__file__ = "solution.py"
    sys.modules["__main__"] = main
    # Global names in here are out of the program's way: it has a name space of its own.
    supply(HELD["code"], main.__dict__)  # noqa: F821 - from names.py
    code = 0
    try:
        exec(HELD["code"], main.__dict__)
    except SystemExit as leaving:
        code = leaving.code
        if code is None:
            code = 0
        elif type(code) is not int:
            print(code, file=sys.stderr)
            code = 1
    threading = sys.modules.get("threading")
    if threading is not None:
        # A common way to get a deeper stack is to run everything in a thread.
        threading._shutdown()
    atexit = sys.modules.get("atexit")
    if atexit is not None:
        atexit._run_exitfuncs()
    return code
