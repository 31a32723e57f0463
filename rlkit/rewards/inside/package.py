"""Several modules that import each other, of which one holds the candidate's function.

The job's source is `names.py`, this file, a line that calls `install` with the texts of
all modules, and an import of the one that the tests call. Everything is compiled before
anything runs, so a candidate that does not parse is told apart from one that does not load.
"""

import sys

TEXTS = {}
CODES = {}


class Finder:
    """Finds the package's own modules before any other of the same name."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        inside = any(other.startswith(name + ".") for other in CODES)
        if name not in CODES and not inside:
            return None
        spec = type(sys.__spec__)(name, Finder, origin=name, is_package=inside)
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__
        if name not in CODES:  # a folder without an __init__
            return
        module.__file__ = name.replace(".", "/") + ".py"
        if name == TEXTS["replaced"]:
            supply(CODES[name], module.__dict__)  # noqa: F821 - from names.py
        exec(CODES[name], module.__dict__)


def install(texts, replaced):
    """Compile all modules and make them importable.

    Args:
        texts: source by module name.
        replaced: name of the module that holds the candidate's function.
    """
    TEXTS["replaced"] = replaced
    for name, text in texts.items():
        # Lines in messages are the candidate's module's: the harness tells those of this file.
        file = "solution.py" if name == replaced else name.replace(".", "/") + ".py"
        CODES[name] = compile(text, file, "exec", dont_inherit=True)
    sys.meta_path.insert(0, Finder)
