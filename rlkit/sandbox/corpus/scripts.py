"""JavaScript, Java, Bash and SQL: attacks in languages that bring a runtime of their own.

Tried on node 20, java 17, bash 5.2 and SQLite 3.40. A fork bomb needs one line of Bash; a
database shell can run programs; a virtual machine takes its memory outside the heap.
"""

from __future__ import annotations

from rlkit.sandbox.corpus.case import DIED, STOPPED, Case, program
from rlkit.sandbox.types import Limits, Status

_ENDED = STOPPED | DIED | {Status.NO_RESULT, Status.FAIL, Status.OUTPUT_LIMIT}
_SILENT = frozenset({Status.FAIL, Status.NO_RESULT})
_REFUSED = frozenset({Status.FAIL, Status.RUNTIME_ERROR, Status.NO_RESULT, Status.COMPILE_ERROR,
                      Status.CRASH, Status.REJECTED})  # fmt: skip
_FAMILY = ("teardown",)
#: Java takes half a second to come up on a busy machine.
_JAVA = Limits(wall_s=5.0, cpu_s=4.0, memory_mb=1024, processes=64)
_SHELL = Limits(wall_s=2.0, cpu_s=1.0, memory_mb=256, processes=16)


def _js(name: str, attacks: str, source: str, lesson: str,
        expected: frozenset[Status] = _REFUSED, **more) -> Case:  # fmt: skip
    return program(name, "javascript", attacks, source, lesson, expected, **more)


def _java(name: str, attacks: str, body: str, lesson: str,
          expected: frozenset[Status] = _REFUSED, before: str = "", **more) -> Case:  # fmt: skip
    source = (
        f"public class Main {{ {before}\n"
        f"  public static void main(String[] a) throws Exception {{ {body} }} }}\n"
    )
    return program(name, "java", attacks, source, lesson, expected, limits=_JAVA, **more)


def _bash(name: str, attacks: str, source: str, lesson: str,
          expected: frozenset[Status] = _REFUSED, **more) -> Case:  # fmt: skip
    return program(name, "bash", attacks, source, lesson, expected, limits=_SHELL, **more)


def _sql(name: str, attacks: str, source: str, lesson: str,
         expected: frozenset[Status] = _REFUSED, **more) -> Case:  # fmt: skip
    return program(name, "sql", attacks, source, lesson, expected, limits=_SHELL, **more)


CASES = (
    _js("loop in JavaScript", "time", "for(;;);", "Never ends.", STOPPED),
    _js("a promise that is never kept", "time", "setInterval(() => {}, 1000)",
        "Waits for ever without using the processor.", STOPPED),
    _js("heap in JavaScript", "memory", "const a=[]; for(;;) a.push(new Array(1e6).fill(1));",
        "Fills the heap of the virtual machine.", _ENDED),
    _js("memory outside the heap", "memory",
        "const a=[]; for(;;) a.push(Buffer.alloc(1<<26, 1));",
        "Takes memory that the virtual machine's own limit does not count.", _ENDED),
    _js("exits before it is asked", "output", 'process.exit(0); console.log("it worked")',
        "Ends with exit code 0 at once.", _SILENT),
    _js("reads a file in JavaScript", "files_read",
        'require("fs").readFileSync("@OUTSIDE@/secret"); console.log("it worked")',
        "Reads a file of the machine."),
    _js("writes a file in JavaScript", "files_write",
        'require("fs").writeFileSync("@OUTSIDE@/new", "x"); console.log("it worked")',
        "Writes a file of the machine."),
    _js("a program from JavaScript", "files_read",
        'const r = require("child_process").spawnSync("/bin/cat", ["@OUTSIDE@/secret"]);\n'
        'if (r.status === 0) console.log("it worked")', "Lets another program read the file."),
    _js("connects in JavaScript", "network",
        'const s = require("net").connect(@PORT@, "127.0.0.1", () => '
        '{ console.log("it worked"); process.exit(0) }); s.on("error", () => {})',
        "Connects to a server on this machine."),
    _js("kills in JavaScript", "signals",
        'process.kill(@VICTIM@, 9); console.log("it worked")', "Kills another process."),
    _js("workers without end", "teardown",
        'const {Worker} = require("worker_threads");\n'
        'for (let i = 0; i < 1e5; i++) new Worker("for(;;);", {eval: true});',
        "Starts threads, each with a virtual machine of its own.", _ENDED, needs=_FAMILY),
    _js("floods in JavaScript", "output", 'for(;;) process.stdout.write("x".repeat(65536));',
        "Prints for ever.", _ENDED),
    _js("secrets in the environment of node", "files_read",
        'if (JSON.stringify(process.env).includes("@SECRET@")) console.log("it worked")',
        "Looks for the host's variables.", _SILENT),
    _js("an attached debugger", "network", 'require("inspector").open(0, "127.0.0.1");\n'
        'console.log(require("inspector").url() ? "it worked" : "")',
        "Opens a debugging port.", _REFUSED | STOPPED),
    _java("loop in Java", "time", "for(;;);", "Never ends.", STOPPED),
    _java("heap in Java", "memory",
          "java.util.List<long[]> l = new java.util.ArrayList<>(); "
          "for(;;) l.add(new long[1<<20]);",
          "Fills the heap until OutOfMemoryError.", _ENDED),
    _java("exits while the class is loaded", "output", 'System.out.println("it worked");',
          "Ends with exit code 0 before main.", _SILENT, before="static { System.exit(0); }"),
    _java("threads without end in Java", "teardown",
          "for(;;) new Thread(() -> { for(;;); }).start();", "Starts threads until it may not.",
          _ENDED, needs=_FAMILY),
    _java("reads a file in Java", "files_read",
          'java.nio.file.Files.readAllBytes(java.nio.file.Path.of("@OUTSIDE@/secret")); '
          'System.out.println("it worked");', "Reads a file of the machine."),
    _java("a thousand classes", "disk", "", "Compiles into a thousand files.",
          _ENDED | _REFUSED | {Status.TIMEOUT},
          before="".join(f"static class C{i} {{}} " for i in range(1000))),
    program("a name of three hundred letters", "java", "disk",
            f"public class {'A' * 300} {{ public static void main(String[] a) {{}} }}\n",
            "Needs a file whose name is longer than names may be.", _REFUSED, limits=_JAVA),
    _java("connects in Java", "network",
          'new java.net.Socket("127.0.0.1", @PORT@); System.out.println("it worked");',
          "Connects to a server on this machine."),
    _java("a program from Java", "files_read",
          'Process p = new ProcessBuilder("/bin/cat", "@OUTSIDE@/secret").start(); '
          'if (p.waitFor() == 0) System.out.println("it worked");',
          "Lets another program read the file."),
    _bash("the shortest fork bomb", "teardown", ":(){ :|:& };:\n",
          "Defines a function that calls itself twice.", _ENDED, needs=_FAMILY),
    _bash("background jobs in Bash", "teardown",
          "for i in 1 2 3 4 5; do setsid sleep 300 >/dev/null 2>&1 & done\necho left\n",
          "Leaves programs running that belong to nobody.", _ENDED, needs=_FAMILY),
    _bash("reads in Bash", "files_read",
          'grep -q . "@OUTSIDE@/secret" 2>/dev/null && echo "it worked"\n',
          "Reads a file of the machine."),
    _bash("writes in Bash", "files_write", 'echo x > "@OUTSIDE@/new" && echo "it worked"\n',
          "Writes a file of the machine."),
    _bash("the network of Bash", "network",
          'exec 3<>/dev/tcp/127.0.0.1/@PORT@ && echo "it worked"\n',
          "Opens a connection with nothing but the shell."),
    _bash("kills in Bash", "signals", 'kill -9 @VICTIM@ && echo "it worked"\n',
          "Kills another process."),
    _bash("the environment in Bash", "files_read",
          'env | grep -q "@SECRET@" && echo "it worked"\n', "Looks for the host's variables."),
    _bash("removes everything", "files_write",
          'rm -rf "@OUTSIDE@" 2>/dev/null; [ -e "@OUTSIDE@" ] || echo gone\n',
          "Removes a folder with all that is in it."),
    _bash("clears its scratch folder away", "files_write",
          'rm -rf "$PWD" ../* /tmp/* /dev/shm/* 2>/dev/null; echo done\n',
          "Removes the folder that it was given, and its neighbours.", needs=("files_write",)),
    _bash("another folder in place of its own", "files_write",
          'd=$PWD; cd ..; mv "$d" other; ln -s / "$d"; echo done\n',
          "Puts a link to the root where the host will clean up.", needs=("files_write",)),
    _bash("forbids its own folder", "disk", "mkdir -p a/b; chmod 000 a; chmod 000 .; echo done\n",
          "Leaves a folder that even its owner may not enter."),
    _bash("fills shared memory", "disk",
          "head -c 900M /dev/zero > /dev/shm/@MARK@ 2>/dev/null\n"
          "size=$(stat -c %s /dev/shm/@MARK@ 2>/dev/null || echo 0)\n"
          '[ "$size" -gt 500000000 ] && echo "it worked"\n',
          "Stores its data in memory that looks like a folder.", _ENDED | _REFUSED,
          needs=("files_write",)),
    _bash("many files in Bash", "disk", 'i=0; while :; do i=$((i+1)); : > "f$i" || exit; done\n',
          "Uses up names until there are none.", _ENDED),
    _bash("programs that no polite signal ends", "teardown",
          "for i in 1 2 3; do\n"
          "  setsid bash -c 'trap \"\" 1 2 3 15; exec >/dev/null 2>&1; sleep 300' &\n"
          "done\necho left\n", "Leaves programs that ignore requests to end.", _ENDED,
          needs=_FAMILY),
    _bash("a line without end in Bash", "output", "yes | tr -d '\\n'\n", "Prints for ever.",
          _ENDED),
    _bash("loop in Bash", "time", "while :; do :; done\n", "Never ends.", STOPPED),
    _sql("an endless query", "time",
         "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c;",
         "Counts for ever.", _ENDED),
    _sql("a shell from SQL", "files_read", '.shell cat "@OUTSIDE@/secret"\n',
         "Uses a command of the database shell that runs programs."),
    _sql("a pipe from SQL", "files_write", '.output "|cat > @OUTSIDE@/new"\nSELECT 1;\n',
         "Sends its output to a program."),
    _sql("attaches a file outside", "files_write",
         "ATTACH '@OUTSIDE@/new.db' AS o; CREATE TABLE o.t(x); SELECT 'it worked';",
         "Opens a database outside, which makes a file."),
    _sql("reads a file in SQL", "files_read", "SELECT 'it worked' FROM (SELECT "
         "readfile('@OUTSIDE@/secret') AS r) WHERE r IS NOT NULL;",
         "Uses a function of the database shell that reads files."),
    _sql("writes a file in SQL", "files_write",
         "SELECT 'it worked' WHERE writefile('@OUTSIDE@/new', 'x') IS NOT NULL;",
         "Uses a function of the database shell that writes files."),
    _sql("loads an extension", "files_read",
         "SELECT load_extension('@OUTSIDE@/module'); SELECT 'it worked';",
         "Loads compiled code into the database."),
    _sql("a huge blob", "memory", "SELECT length(hex(randomblob(900000000)));",
         "Asks for two gigabytes in one expression.", _ENDED | _REFUSED),
    _sql("a join of everything with everything", "time",
         "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT 100000) "
         "SELECT count(*) FROM c a, c b, c d WHERE a.x+b.x+d.x=0;", "Takes 10**15 steps.",
         _ENDED | _REFUSED),
)  # fmt: skip
