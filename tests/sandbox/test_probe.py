"""What the probes conclude: from findings that are made up by hand, and from real sandboxes."""

from __future__ import annotations

import os
import sys
import time

import pytest

from rlkit.sandbox import Level, Limits, Sandbox
from rlkit.sandbox.findings import NAMES, Findings, judge_level, properties_of
from rlkit.sandbox.probe import FAMILY_ENDED, probe_backend, relaxed
from rlkit.sandbox.types import IsolationReport, Property

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="fences of Linux")

#: All attempts refused, as in a sandbox with namespaces, Landlock and seccomp.
REFUSED = {
    "read_file": ["FileNotFoundError"],
    "read_the_users": ["another file"],
    "list_folder": ["FileNotFoundError"],
    "see_name": ["FileNotFoundError"],
    "append_to_file": ["FileNotFoundError"],
    "create_file": ["FileNotFoundError"],
    "change_mode": ["PermissionError"],
    "touch": ["PermissionError"],
    "set_attribute": ["PermissionError"],
    "read_host_arguments": ["FileNotFoundError"],
    "read_host_environment": ["FileNotFoundError"],
    "open_host_memory": ["FileNotFoundError"],
    "limits_of_host": ["PermissionError"],
    "open_parent_memory": ["PermissionError"],
    "limits_of_parent": ["PermissionError"],
    "signal_host": ["PermissionError"],
    "signal_parent": ["PermissionError"],
    "signal_all": ["PermissionError"],
    "start_process": ["BlockingIOError"],
    "connect": ["PermissionError"],
    "send_datagram": ["PermissionError"],
    "find_a_route": ["PermissionError"],
    "too_large_file": ["OSError"],
    "room_of_the_scratch": ["limited"],
    "processor_limit": ["limited"],
    "scratch_works": ["worked"],
    "who_am_i": ["12345 1"],
    "which_kernel": ["6.1|#1|"],
    "memory_in_files": ["PermissionError"],
    "too_much_memory": ["MemoryError"],
}


def findings(changes=None, **more) -> Findings:
    more = {"fences": frozenset({"seccomp", "landlock:7"}), "own_processes": True, **more}
    return Findings(came_of={**REFUSED, **(changes or {})}, **more)


def level_of(found: Findings, claim: Level | None = None) -> Level:
    return judge_level(found, properties_of(found), claim)


def state_of(found: Findings) -> dict[str, str]:
    return {p.name: p.state for p in properties_of(found)}


def test_all_refused_is_a_world_of_its_own():
    found = findings(family="ended")
    assert [p.name for p in properties_of(found)] == list(NAMES)
    assert set(state_of(found).values()) == {"enforced"}
    assert level_of(found) is Level.NAMESPACED


@pytest.mark.parametrize(
    ("attempt", "name"),
    [
        ("read_file", "files_read"),
        ("read_the_users", "files_read"),
        ("append_to_file", "files_write"),
        ("change_mode", "metadata"),
        ("touch", "metadata"),
        ("set_attribute", "metadata"),
        ("open_host_memory", "other_processes"),
        ("open_parent_memory", "other_processes"),
        ("signal_host", "signals"),
        ("signal_all", "signals"),
        ("find_a_route", "network"),
        ("too_much_memory", "memory"),
        ("start_process", "teardown"),
    ],
)
def test_one_attempt_that_works_costs_the_level(attempt, name):
    found = findings({attempt: ["worked"]})
    assert state_of(found)[name] in ("partial", "absent")
    assert level_of(found) is Level.LIMITS


@pytest.mark.parametrize("strange", [None, "ModuleNotFoundError", "AttributeError"])
def test_an_attempt_that_could_not_be_made_proves_nothing(strange):
    found = findings({"read_file": [strange]})
    assert state_of(found)["files_read"] == "partial"
    assert level_of(found) is Level.LIMITS


def test_names_that_can_be_seen_leave_it_confined():
    assert level_of(findings({"see_name": ["worked"]})) is Level.CONFINED


def test_process_ids_of_the_host_leave_it_confined():
    assert level_of(findings(own_processes=False)) is Level.CONFINED


def test_a_sandbox_in_which_nothing_works_has_no_level():
    assert level_of(findings({"scratch_works": ["PermissionError"]})) is Level.NONE


def test_without_a_limit_on_processor_time_there_is_no_level():
    assert level_of(findings({"processor_limit": ["worked"]})) is Level.NONE


def test_a_connection_counts_only_if_it_arrived_here():
    """A loopback of its own lets a program connect to itself; nobody came to us."""
    came = {"connect": ["worked"], "send_datagram": ["worked"]}
    assert state_of(findings(came))["network"] == "enforced"
    assert state_of(findings(came, reached=frozenset({"connect"})))["network"] == "partial"


def test_the_first_process_of_a_one_shot_sandbox_is_nobody_elses():
    came = {"signal_parent": ["worked"], "signal_all": ["worked"], "open_parent_memory": ["worked"]}
    assert level_of(findings(came)) is Level.LIMITS
    assert level_of(findings(came, one_shot=True)) is Level.NAMESPACED


def test_a_claim_is_given_only_where_the_probes_bear_it_out():
    assert level_of(findings(), Level.CONTAINER) is Level.CONTAINER
    assert level_of(findings({"see_name": ["worked"]}), Level.CONTAINER) is Level.CONFINED
    # Nobody gets a kernel of their own by claiming it.
    assert level_of(findings(), Level.SEPARATE_KERNEL) is Level.CONTAINER


def test_another_kernel_is_seen_and_what_it_starts_is_not_started_here():
    found = findings({"start_process": ["worked"]}, other_kernel=True, own_processes=False)
    assert level_of(found) is Level.SEPARATE_KERNEL
    assert state_of(found)["teardown"] == "partial"
    reaches_out = findings({"find_a_route": ["worked"]}, other_kernel=True)
    assert level_of(reaches_out) is Level.LIMITS


def test_the_same_user_is_no_other_user():
    me = str(os.geteuid())
    found = findings({"who_am_i": [f"{me} 1"]}, host_user=os.geteuid())
    assert state_of(found)["same_uid"] == "absent"


def report_of(found: Findings) -> IsolationReport:
    return IsolationReport(level_of(found), "", properties_of(found))


def test_a_job_that_may_more_gets_a_report_that_says_so():
    report = report_of(findings(family="ended"))
    assert relaxed(report, Limits()) is report
    several = relaxed(report, Limits(processes=4))
    assert several.level is Level.NAMESPACED
    assert several["memory_total"].state == "partial"
    assert several["teardown"].state == "enforced"
    outside = relaxed(report, Limits(network=True))
    assert (outside.level, outside["network"].state) == (Level.LIMITS, "partial")


def test_where_a_family_was_not_seen_to_end_processes_cost_the_level():
    report = report_of(findings({"see_name": ["worked"]}, family="left", own_processes=False))
    assert report.level is Level.CONFINED
    several = relaxed(report, Limits(processes=4))
    assert (several.level, several["teardown"].state) == (Level.LIMITS, "partial")


@LINUX
def test_the_probes_of_a_real_sandbox_agree_with_each_other_and_are_quick(sandbox):
    backend = sandbox._open().backend
    started = time.process_time()
    report = probe_backend(backend)
    spent = time.process_time() - started
    assert report.level == sandbox.report().level
    assert [p.name for p in report.properties] == list(NAMES)
    assert spent < 2.0  # processor seconds of this process alone; some tens of ms in fact


@LINUX
@pytest.mark.usefixtures("confined")
def test_what_a_family_leaves_is_seen_to_be_ended(sandbox):
    report = sandbox.report()
    if report.level < Level.NAMESPACED:
        pytest.skip("only namespaces end a family for sure")
    assert FAMILY_ENDED in report["teardown"].mechanism


@LINUX
def test_a_sandbox_without_fences_is_reported_open():
    with Sandbox(workers=1, layers=(), allow_unsafe=True) as sandbox:
        report = sandbox.report()
    assert report.level <= Level.LIMITS
    states = {p.name: p.state for p in report.properties}
    for name in ("files_read", "files_write", "names", "network"):
        assert states[name] != "enforced", name
    assert isinstance(report["files_read"], Property)
