#!/bin/sh
# Creates .venv with the pinned versions of constraints.txt, or finds that it is up to date.
# Called by every target of the Makefile. PYTHON=... chooses the interpreter.
#
# The stamp .venv/.rlkit-stamp is written last and holds all that the environment depends on.
# An install that failed or was interrupted has no stamp, and starts again from nothing.
set -eu

cd "$(dirname "$0")/.."
project=$(pwd)
stamp=.venv/.rlkit-stamp
extras="lab,bench,scale,dev"
oldest="3.10"
newest="3.13"

say() { printf '%s\n' "$*"; }
fail() { say "rlkit: $*" >&2; exit 1; }

# Prints "3.11.7 ok", "3.11.7 no-venv" or "3.9.2 unsupported"; nothing where $1 does not run.
examine() {
    "$1" -c '
import sys
version = ".".join(map(str, sys.version_info[:3]))
if not (3, 10) <= sys.version_info[:2] <= (3, 13):
    print(version, "unsupported")
else:
    try:
        import ensurepip, venv
        print(version, "ok")
    except ImportError:
        print(version, "no-venv")
' 2>/dev/null </dev/null || true
}

# Everything the environment depends on: the two files, the project's place (the scripts in
# .venv/bin carry it), the interpreter's version.
wanted() {
    say "python $1"
    say "project $project"
    cksum pyproject.toml constraints.txt .ci/make-venv.sh
}

up_to_date() {
    [ -f "$stamp" ] || return 1
    now=$(examine .venv/bin/python)
    [ -n "$now" ] || return 1
    if [ -n "${PYTHON:-}" ]; then
        asked=$(examine "$PYTHON")
        [ "${asked%% *}" = "${now%% *}" ] || return 1
    fi
    [ "$(wanted "${now%% *}")" = "$(cat "$stamp")" ]
}

# Sets python and version, or ends with one clear sentence.
choose_python() {
    seen=""
    without_venv=""
    if [ -n "${PYTHON:-}" ]; then
        set -- "$PYTHON"
    else
        set -- python3 python3.11 python3.12 python3.13 python3.10 python
    fi
    for candidate in "$@"; do
        found=$(examine "$candidate")
        case "$found" in
            *" ok") python=$candidate; version=${found%% *}; return ;;
            *" no-venv") without_venv="$candidate (${found%% *})" ;;
            ?*) seen="$seen $candidate is ${found%% *};" ;;
        esac
    done
    if [ -n "$without_venv" ]; then
        fail "$without_venv has no venv module; install it (on Debian and Ubuntu the package" \
            "python3-venv) or name another interpreter: make setup PYTHON=/path/to/python3.11"
    fi
    if [ -n "${PYTHON:-}" ]; then
        fail "PYTHON=$PYTHON is not a Python $oldest to $newest that runs" \
            "(found:${seen:- nothing that runs}); name one that is, or leave PYTHON out."
    fi
    fail "no Python $oldest to $newest was found (looked for python3, python3.10 to" \
        "python$newest, python; found:${seen:- none that runs}); install one, or name it:" \
        "make setup PYTHON=/path/to/python3.11"
}

if up_to_date; then
    exit 0
fi

choose_python
say "rlkit: setting up .venv with Python $version ($python)."
say "rlkit: this happens once, downloads about 400 MB and takes one to five minutes"
say "rlkit: (several GB more on Linux where pip finds only torch's CUDA build)."

# An older stamp means a whole environment that pip can bring up to date in place, if its
# Python is still the one that was chosen. Otherwise it starts again from nothing.
previous=""
[ ! -f "$stamp" ] || previous=$(examine .venv/bin/python)
same_place=$(sed -n 's/^project //p' "$stamp" 2>/dev/null || true)
rm -f "$stamp"
if [ "${previous%% *}" != "$version" ] || [ "$same_place" != "$project" ]; then
    "$python" -m venv --clear .venv || fail "$python could not create .venv; see the message above."
fi

pip_install() {
    .venv/bin/python -m pip install --disable-pip-version-check -c constraints.txt "$@" || fail \
        "the installation failed, see the message above; the next make starts it again."
}
pip_install --quiet --upgrade pip
# The build backend comes first, pinned too, so that no isolated build fetches another one.
pip_install --quiet hatchling
pip_install --no-build-isolation --editable ".[$extras]"

# JupyterLab's settings for lessons: the same file that Binder gets.
mkdir -p .venv/share/jupyter/lab/settings
cp binder/overrides.json .venv/share/jupyter/lab/settings/overrides.json

wanted "$version" > "$stamp.new"
mv "$stamp.new" "$stamp"
say "rlkit: .venv is ready."
