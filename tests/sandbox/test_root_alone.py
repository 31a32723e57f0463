"""Where root is the only user that a process knows of: rootless containers, `unshare -r`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

ASK = r"""
import json, sys
from rlkit.sandbox import Job, Sandbox, TestSpec
with Sandbox(workers=1, allow_unsafe=True) as sandbox:
    job = Job(source="import os\ndef f(): return os.getuid()", entry="f",
              tests=[TestSpec("who", expected=0)])
    verdict = sandbox.run(job)
    print(json.dumps([str(verdict.status), sandbox.report().level.name,
                      sandbox.report()["same_uid"].state]))
"""
ALONE = ("unshare", "--map-root-user", "--")


def can_be_alone() -> bool:
    if not sys.platform.startswith("linux") or shutil.which("unshare") is None:
        return False
    return subprocess.run([*ALONE, "true"], capture_output=True).returncode == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("hidden", ["", "userns", "userns,landlock"])
def test_the_sandbox_opens_where_root_cannot_become_somebody_else(hidden):
    if not can_be_alone():
        pytest.skip("no user namespace can be made here")
    done = subprocess.run(
        [*ALONE, sys.executable, "-c", ASK],
        capture_output=True,
        text=True,
        env={**os.environ, "RLKIT_SANDBOX_HIDE": hidden},
    )
    assert done.returncode == 0, done.stderr
    status, level, same_uid = json.loads(done.stdout)
    # It stays root, of a namespace where root is nobody outside, and the report says so.
    assert (status, same_uid) == ("PASS", "absent")
    if hidden == "":
        assert level == "NAMESPACED"
