#!/bin/sh
# Runs tests/browser in the system's Chromium, or says in one sentence why not. Called by
# `make browser`; options are handed to pytest. CHROMIUM=... names the browser.
set -eu

cd "$(dirname "$0")/.."
browser=""
for name in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
    if command -v "$name" >/dev/null 2>&1; then
        browser=$name
        break
    fi
done
if [ -z "$browser" ]; then
    printf '%s\n' "rlkit: the browser lane is skipped: there is no chromium here (CHROMIUM=... names one)."
    exit 0
fi
if ! sh .ci/add-extra.sh browser || ! sh .ci/add-extra.sh voila; then
    printf '%s\n' "rlkit: the browser lane is skipped: playwright or voila could not be installed."
    exit 0
fi
RLKIT_BROWSER=1 exec .venv/bin/python -m pytest tests/browser "$@"
