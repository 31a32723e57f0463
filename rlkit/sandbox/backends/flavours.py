"""What a zygote starts with: its environment, its libraries, what it may read.

A flavour is a set of libraries that are imported once, and warmed by a few lines that use
them, so that no job pays for it: the first `simplify` of sympy costs 30 ms, the second 5.

Left out on purpose: libraries that start threads when they are imported. A process with
threads cannot be forked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache

#: Folders that Python may need while it imports from its standard library.
READABLE = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/nix/store"),
    *("/etc/ld.so.cache", "/usr/share/zoneinfo", "/etc/localtime"),
)
#: What other programs need beside that.
PROGRAMS = ("/bin", "/usr/bin", "/etc/alternatives")

#: What every solution may import without waiting.
IMPORTS = (
    *("os", "typing", "collections", "math", "re", "functools", "itertools", "heapq", "bisect"),
    *("random", "string", "operator", "copy"),
)

#: What is imported beside `IMPORTS`, and what warms it, by the flavour's name.
FLAVOURS: dict[str, tuple[tuple[str, ...], str]] = {
    "base": ((), ""),
    "tools": ((), ""),
    "numpy": (
        ("numpy", "numpy.linalg", "numpy.random", "numpy.fft"),
        "import numpy as np\n"
        "a = np.arange(12.0).reshape(3, 4)\n"
        "for _ in range(4):\n"
        "    b = (a @ a.T + np.eye(3)).sum(axis=0)\n"
        "    np.linalg.solve(a @ a.T + np.eye(3), b), np.sort(b), repr(b), b.tolist()\n"
        "    np.random.default_rng(0).normal(size=3), np.mean(a), np.where(a > 1, a, 0)\n",
    ),
    "sympy": (
        ("sympy", "sympy.parsing.sympy_parser"),
        "import sympy\n"
        "from sympy.parsing.sympy_parser import parse_expr\n"
        "x, y = sympy.symbols('x y')\n"
        "for text in ('sin(x)**2 + cos(x)**2', '(x + 1)**3/(x + 1)', 'sqrt(8)*x - 2*sqrt(2)*x'):\n"
        "    e = parse_expr(text)\n"
        "    sympy.simplify(e), sympy.expand(e), str(e), e.equals(e + 0)\n"
        "sympy.solve(x**2 - 2, x), sympy.diff(x**3 * y, x), sympy.integrate(x**2, x)\n"
        "sympy.Rational(1, 3) + sympy.Float('0.5'), sympy.Matrix([[1, 2], [3, 4]]).det()\n"
        "sympy.N(sympy.pi, 30), sympy.latex(x**2 / y)\n",
    ),
}


def environment() -> dict[str, str]:
    """All that a zygote's environment holds; nothing of ours is inherited but one path."""
    variables = {
        "PATH": "/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
        # The order of sets follows from it: equal jobs must end equally.
        "PYTHONHASHSEED": "0",
        # Libraries that start a thread per processor could not be forked.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    # Some interpreters do not start without it.
    if "LD_LIBRARY_PATH" in os.environ:
        variables["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return variables


@lru_cache(maxsize=8)
def site_folders(python: str) -> tuple[str, ...]:
    """Where an interpreter keeps installed packages."""
    if python == sys.executable:
        paths = sys.path
    else:
        done = subprocess.run(
            [python, "-I", "-c", "import sys; print('\\n'.join(sys.path))"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        paths = done.stdout.splitlines()
    wanted = [p for p in paths if os.path.basename(p) in ("site-packages", "dist-packages")]
    return tuple(dict.fromkeys(wanted))
