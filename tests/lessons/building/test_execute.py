"""Running notebooks: cells that raise, what was measured, and a network that is really cut off."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from rlkit.lessons.building import network
from rlkit.lessons.building.execute import execute, text_of

#: An address of a network that is kept for documents (RFC 5737), so nobody answers there.
NOBODY = "192.0.2.1"
REACH = f"""
import socket
s = socket.socket()
s.settimeout(3)
try:
    s.connect(("{NOBODY}", 9))
    print("reached")
except OSError as error:
    print("refused:", error)
try:
    socket.getaddrinfo("example.org", 80)
    print("resolved")
except OSError as error:
    print("unknown:", error)
listening = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listening.getsockname(), timeout=3)
print("loopback works")
"""
SETTINGS = """
import os
print(os.environ["RLKIT_MODE"], os.environ["RLKIT_HEADLESS"], os.path.isdir(os.environ["HOME"]))
open("left_behind.txt", "w").write("x")
"""


def notebook(*sources: str) -> str:
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": f"c{n}",
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for n, source in enumerate(sources)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    )


@pytest.fixture(scope="module", params=["namespace", "guard"])
def ran(request):
    if request.param == "namespace" and network.available_cut() != "namespace":
        pytest.skip("this machine gives no network namespace to this user")
    sources = (
        "import time; block = bytearray(300_000_000); time.sleep(0.5)",
        REACH,
        SETTINGS,
        "raise ValueError('by hand')",
        "7",
    )
    return execute(notebook(*sources), cut=request.param, mode="full")


def test_the_network_is_cut_off_and_this_machine_is_not(ran):
    said = text_of(ran.notebook["cells"][1]).splitlines()
    assert said[0].startswith("refused:")
    assert said[1].startswith("unknown:")
    assert said[2] == "loopback works"


def test_the_kernel_gets_its_settings_and_a_scratch_folder(ran, request):
    assert text_of(ran.notebook["cells"][2]).startswith("full 1 ")
    assert not (request.config.rootpath / "left_behind.txt").exists()


def test_a_cell_that_raises_is_named_and_ends_the_run(ran):
    (failure,) = ran.failures
    assert (failure.cell, failure.error) == (4, "ValueError: by hand")
    assert [s is None for s in ran.cell_seconds] == [False, False, False, False, True]
    assert ran.notebook["cells"][4]["outputs"] == []


def test_time_and_memory_are_measured(ran):
    assert ran.seconds == pytest.approx(sum(s for s in ran.cell_seconds if s is not None))
    assert ran.cell_seconds[0] >= 0.5  # it sleeps as long
    assert ran.slowest[1] == max(s for s in ran.cell_seconds if s is not None)
    assert ran.peak_memory_mb > 300  # the block alone


def test_going_on_after_a_failure():
    ran = execute(notebook("1 / 0", "print('later')", "nothing_here"), go_on=True)
    assert [f.cell for f in ran.failures] == [1, 3]
    assert text_of(ran.notebook["cells"][1]).strip() == "later"


def test_a_kernel_that_dies_is_told():
    ran = execute(notebook("import os; os._exit(3)"))
    assert "the kernel died" in ran.failures[0].error


def test_the_guard_refuses_what_is_elsewhere_and_nothing_else():
    """In a process of its own, because it changes the sockets of the process for good."""
    code = (
        "import socket\n"
        "from rlkit.lessons.building.network import guard\n"
        "guard()\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for act in (lambda: s.sendto(b'x', ('192.0.2.1', 9)),\n"
        "            lambda: s.connect_ex(('192.0.2.1', 9)),\n"
        "            lambda: socket.getaddrinfo('example.org', 80)):\n"
        "    try:\n"
        "        act()\n"
        "        print('done')\n"
        "    except OSError as error:\n"
        "        print('cut off' in str(error))\n"
        "print(len(socket.getaddrinfo('127.0.0.1', 80)) > 0)\n"
        "print(s.sendto(b'x', ('127.0.0.1', 9)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True", "True", "1"]
    assert socket.socket.connect.__name__ == "connect"  # this process is as it was
