"""The program that is run inside the sandbox to find out what it keeps out.

It is an ordinary job: `attempt(name, …)` tries one thing and tells what came of it. Every
attempt is harmless where it succeeds: files are only touched where `probe.py` has planted
them, signals are number 0, packets go to a port of our own or to an address that is kept
for documents.

Left out on purpose: attacks. They are in the corpora.
"""

from __future__ import annotations

#: Tries by name; each returns None for "it worked", a text, or raises.
PROGRAM = r'''
import os

def attempt(what, *arguments):
    """What came of it: "worked", a finding, or the name of the exception."""
    try:
        answer = globals()[what](*arguments)
    except BaseException as error:
        return type(error).__name__
    return "worked" if answer is None else answer

def read_file(path):
    open(path, "rb").read(1)

def read_the_users(beginning):
    if not beginning:  # the host has no such file
        return "another file"
    with open("/etc/passwd", "rb") as file:
        return None if file.read(len(beginning)) == beginning else "another file"

def list_folder(path):
    os.listdir(path)

def see_name(path):
    os.stat(path)

def append_to_file(path):
    open(path, "ab").close()

def create_file(path):
    open(path, "xb").close()

def change_mode(path):
    os.chmod(path, 0o600)

def touch(path):
    os.utime(path)

def set_attribute(path):
    if not hasattr(os, "setxattr"):
        raise OSError("this system has no such call")
    os.setxattr(path, "user.rlkit", b"x")

def same_process(pid, command):
    """In other process ids, or on another machine, the number belongs to somebody else."""
    if not command:  # the host is on a system that does not tell
        return False
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read(len(command)) == command

def read_host_arguments(pid, command):
    return None if same_process(pid, command) else "another process"

def read_host_environment(pid, command):
    open(f"/proc/{pid}/environ", "rb").read(1)
    return None if same_process(pid, command) else "another process"

def open_host_memory(pid, command):
    open(f"/proc/{pid}/mem", "rb").close()
    return None if same_process(pid, command) else "another process"

def limits_of_host(pid):
    import resource
    resource.prlimit(pid, resource.RLIMIT_NOFILE)

def open_parent_memory():
    open(f"/proc/{os.getppid()}/mem", "r+b").close()

def limits_of_parent():
    import resource
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)

def signal_host(pid):
    os.kill(pid, 0)

def signal_parent():
    os.kill(os.getppid(), 0)

def signal_all():
    os.kill(-1, 0)

def start_process():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

def connect(port):
    import socket
    socket.create_connection(("127.0.0.1", port), 1).close()

def send_datagram(port):
    import socket
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", port))

def find_a_route():
    """No packet is sent: a datagram socket that is connected only looks for a way."""
    import socket
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("192.0.2.1", 9))

def too_much_memory(megabytes):
    bytearray(megabytes << 20)

def memory_in_files(megabytes, each):
    for _ in range(megabytes // each + 1):
        place = os.memfd_create("probe")
        for _ in range(each):
            os.write(place, bytes(1 << 20))

def too_large_file(megabytes):
    with open("large", "wb") as file:
        file.truncate(megabytes << 20)
        file.seek(megabytes << 20)
        file.write(b"x")

def room_of_the_scratch(megabytes):
    """Whether the file system that the job writes to is itself no larger than that."""
    room = os.statvfs(".")
    if room.f_blocks * room.f_frsize <= megabytes << 20:
        return "limited"

def processor_limit():
    import resource
    return "limited" if resource.getrlimit(resource.RLIMIT_CPU)[1] > 0 else None

def scratch_works():
    with open("note", "w") as file:
        file.write("x")
    os.remove("note")

def who_am_i():
    return f"{os.getuid()} {os.getppid()}"

def which_kernel():
    name = os.uname()
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            booted = file.read().strip()
    except OSError:
        booted = ""
    return f"{name.release}|{name.version}|{booted}"
'''

#: A job that may start processes leaves one that nobody knows of, under a name of its own.
FAMILY_PROGRAM = r"""
import os, time

def attempt(name, seconds):
    try:
        child = os.fork()
    except OSError as error:
        return type(error).__name__
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            # It is found by its name, from outside, if it outlives its job.
            import ctypes
            ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
            os.closerange(0, 256)
            time.sleep(seconds)
        os._exit(0)
    os.waitpid(child, 0)
    return "started"
"""
