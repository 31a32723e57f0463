"""The steps by which a zygote isolates itself, once, strongest first.

Namespaces where the machine allows them, a user id of its own where root starts it, no
privileges, no new ones. Then what its children will put on is prepared. Which steps were
taken is told to the host, and shown in every report.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

from rlkit.sandbox.zygote import child, fences, kernel, landlock, namespaces, seccomp
from rlkit.sandbox.zygote.plumbing import pidfd, pipe
from rlkit.sandbox.zygote.seats import SEATS, Seats

#: When the host is gone, the zygote has so many seconds to tidy up.
GRACE_S = 0.5


class World(Seats):
    """What the zygote has made of itself, and what it has found out on the way.

    Attributes:
        plan: what the host told it about itself.
        source: where orders come from.
        target: where answers go.
        host: descriptor that wakes when the host's process ends, where there are such.
        standing: fences that stand for every job.
        notes: what a person should know about them.
        alone: whether it sees only processes of its own.
        own_uid: whether it left root's user id behind.
        lone_user: whether no other process can have its user id.
        proc: descriptor of a /proc of its namespaces.
        outer_proc: descriptor of the host's.
        holds_library: whether the library is read through `child.LIBRARY`.
    """

    def __init__(self, plan: dict, source: int, target: int) -> None:
        self.plan = plan
        self.source = source
        self.target = target
        self.host: int | None = None
        self.pid = os.getpid()
        self.standing: list[str] = []
        self.notes: list[str] = []
        self.alone = self.own_uid = False
        self.proc: int | None = None
        self.outer_proc: int | None = None
        self.holds_library = False
        self.lone_user = False
        self._reads_as_root = False

    def isolate(self) -> None:
        """Take every step that the plan names and this machine allows, strongest first."""
        plan = self.plan
        self.host = pidfd(plan["parent"]) if plan["parent"] == os.getppid() else None
        tag = plan["tag"] if plan["limits"] else None
        if plan["limits"]:
            self.standing += fences.limit_for_all(tag)
        _volunteer_for_the_oom_killer()
        abi = filters = 0
        if kernel.available():
            if plan["docker"]:
                _behave_like_docker()
            if plan["namespaces"]:
                self._enter_namespaces()
            self._change_user()
            abi = min(landlock.version(), plan["landlock"])
            filters = plan["seccomp"] and seccomp.program(os.uname().machine) is not None
        if not self.top:
            self.top = _make_folder(plan["tmp"])
        for seat in SEATS:
            os.mkdir(f"{self.top}/{seat}", 0o700)
        keep_reading = self._must_read_as_root()
        if kernel.available():
            if fences.drop_capabilities(keep_reading):
                self.standing.append("no_capabilities")
            if fences.no_new_privileges():
                self.standing.append("no_new_privileges")
            kernel.call("prctl", kernel.PR_SET_DUMPABLE, 0, 0, 0, 0)
            if self.alone:  # of the process outside; a change of user would have undone it
                kernel.call("prctl", kernel.PR_SET_PDEATHSIG, 9, 0, 0, 0)
            elif kernel.call("prctl", kernel.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0:
                self.standing.append("subreaper")
        writing = bool(abi or self.private or self.own_uid or not filters)
        if not writing:
            self.standing.append("no_writing")
        self.pages = [child.Doorbell(), child.Doorbell()]
        # One for each process of a job: who waits on its own cannot take the other's word.
        self.gos = [pipe(blocking=True), pipe(blocking=True)]
        self.fences = fences.Fences(
            abi=abi,
            filters=bool(filters),
            limits=plan["limits"],
            # The accounts in a private tree are made up.
            readable=tuple(plan["readable"])
            + (("/proc", "/etc/passwd", "/etc/group") if self.private else ()),
            programs=plan["programs"],
            network=plan["network"],
            private=self.private,
            alone=self.alone,
            writing=writing,
            tag=tag,
            extra_mb=kernel.address_space_mb() if plan["preload"] else 0,
        )

    def _enter_namespaces(self) -> None:
        plan = self.plan
        root = os.geteuid() == 0 and plan["uid"] and _knows_other_users()
        self.outer_proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not root and not plan["userns"]:
            raise kernel.Refused(1, "user namespaces are hidden")
        names = namespaces.separate(plan["network"], user=not root)
        inner = os.fork()
        if inner:
            _keep(inner, self.host, (self.source, self.target))
        owner = _unused_uid(self.pid)[0] if root else None
        self.proc, _ = namespaces.build(
            plan["readable"], plan["box_mb"], plan["programs"], owner
        )  # fmt: skip
        if self.proc < 0:
            self.proc = None
            self.notes.append("/proc cannot be mounted in a namespace here")
        self.top = namespaces.BOX
        self.alone = self.private = True
        if plan["programs"]:
            self.shared = ("/tmp", "/dev/shm")
        if root:
            _become_user(owner)
            self.own_uid = True
            if not os.access(os.__file__, os.R_OK):
                raise kernel.Refused(13, "no other user can read this Python")
            if plan["userns"] and kernel.call("unshare", 0x10000000) == 0:
                names = ("user", *names)
        self.standing.append("namespaces:" + "+".join(names))

    def _change_user(self) -> None:
        """Root without namespaces goes on as a user of its own, if Python can still be read."""
        if self.private or os.geteuid() != 0:
            if self.own_uid:
                self.standing.append("own_user")
            elif os.geteuid() == 0:
                self.notes.append("jobs run as root's own user id")
            return
        if not self.plan["uid"] or not _knows_other_users():
            self.notes.append("jobs run as root's own user id")
            return
        uid, self.lone_user = _unused_uid(self.pid)
        keep = not _others_can_read()
        if keep and not min(landlock.version(), self.plan["landlock"]):
            # Without Landlock such a right would hold for everybody's files. The library alone
            # stays in reach, by a descriptor of its folder.
            self._hold_the_library()
            keep = False
        if keep:
            kernel.call("prctl", kernel.PR_SET_KEEPCAPS, 1, 0, 0, 0)
            self.notes.append("keeps the right to read everybody's files, within Landlock")
        _become_user(uid)
        self.own_uid = True
        self.standing.append("own_user")
        self._reads_as_root = keep

    def _hold_the_library(self) -> None:
        """Let imports go through a descriptor, past the folders that only root may enter."""
        home = os.path.dirname(os.__file__)
        place = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.dup2(place, child.LIBRARY, inheritable=False)
        os.close(place)
        self.holds_library = True
        new = f"/proc/self/fd/{child.LIBRARY}"
        packages = [getattr(module, "__path__", None) for module in list(sys.modules.values())]
        for paths in (sys.path, *packages):
            if isinstance(paths, list):
                paths[:] = [new + p[len(home) :] if p.startswith(home) else p for p in paths]
        self.notes.append("reads Python's library through a descriptor")

    def _must_read_as_root(self) -> bool:
        return self._reads_as_root or (os.geteuid() == 0 and not self.private)


def _keep(inner: int, host: int | None, descriptors: tuple[int, ...]) -> None:
    """Outside the namespaces: live exactly as long as the zygote inside; never returns."""
    for descriptor in set(descriptors):
        os.close(descriptor)
    exits = pidfd(inner)
    if exits is not None and host is not None:
        poll = select.poll()
        poll.register(exits, select.POLLIN)
        poll.register(host, select.POLLIN)
        while not (ready := poll.poll()):
            continue
        if all(descriptor == host for descriptor, _ in ready):
            time.sleep(GRACE_S)  # it may still be cleaning up
            os.kill(inner, signal.SIGKILL)
    _, status = os.waitpid(inner, 0)
    os._exit(0 if status == 0 else 1)


def _behave_like_docker() -> None:
    code = seccomp.docker_like(os.uname().machine)
    if code is not None:
        fences.no_new_privileges()
        fences.Filter(code).install(0)


def _knows_other_users() -> bool:
    """Whether root can become somebody else: not where a user namespace holds root alone.

    Containers without root and `unshare --map-root-user` are such places.
    """
    try:
        with open("/proc/self/uid_map") as file:
            users = sum(int(line.split()[2]) for line in file)
        with open("/proc/self/setgroups") as file:
            groups = file.read().strip() != "deny"
    except OSError:  # a kernel without user namespaces
        return True
    return users > 1 and groups


def _become_user(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _unused_uid(number: int) -> tuple[int, bool]:
    """A user id that belongs to nobody, and whether no other zygote can have it."""
    wanted = namespaces.FIRST_UID + number
    ranges = []
    with open("/proc/self/uid_map") as file:
        for line in file:
            inside, _, count = (int(word) for word in line.split())
            ranges.append((inside, inside + count))
    if any(low <= wanted < high for low, high in ranges):
        return wanted, True
    top = max(high for _, high in ranges) - 1
    return max(1, top - number % 1000), False


def _others_can_read() -> bool:
    """Whether any user may read the standard library: every folder on the way lets all pass."""
    path = os.path.realpath(os.__file__)
    if not os.stat(path).st_mode & 0o004:
        return False
    while path != "/":
        path = os.path.dirname(path)
        if not os.stat(path).st_mode & 0o001:
            return False
    return True


def _make_folder(candidates) -> str:
    """A new folder that only this user can enter, in the first place that allows it."""
    name = f"rlkit-zygote-{os.getpid()}-{os.urandom(6).hex()}"
    for place in candidates:
        path = os.path.join(place, name)
        try:
            os.mkdir(path, 0o700)
        except OSError:
            continue
        return path
    raise OSError(f"no folder for scratch files can be made in any of {', '.join(candidates)}")


def _volunteer_for_the_oom_killer() -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("800")
    except OSError:
        return  # not on this system
