#!/bin/sh
# Adds extras that few need (book, browser, voila) to .venv, at the pinned versions, once.
# Called after make-venv.sh: sh .ci/add-extra.sh book
set -eu

cd "$(dirname "$0")/.."
for extra in "$@"; do
    stamp=.venv/.rlkit-extra-$extra
    # An environment that was made anew has lost its stamps, and one brought up to date is newer.
    if [ -f "$stamp" ] && [ "$stamp" -nt .venv/.rlkit-stamp ]; then
        continue
    fi
    printf '%s\n' "rlkit: adding what $extra needs to .venv."
    if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
        --no-build-isolation --editable ".[$extra]"; then
        printf '%s\n' "rlkit: the installation failed, see the message above." >&2
        exit 1
    fi
    touch "$stamp"
done
