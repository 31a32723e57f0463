"""Small programs, two kinds for each language: honest ones and hostile ones.

Here are those of the languages that nothing is compiled for, and what all have in common.

The honest one reads two numbers and prints their sum, and where the language allows it reads
a file, sorts, and uses its library. The hostile ones first try to get out (read this machine's
files, open a socket, start programs) and print `LEAK` for whatever they manage, and then use up
what they can. They are run by `rlkit sandbox check` and by the tests, so that a row of the table
is a thing that was seen to work.

Left out on purpose: the corpus. It has many more hostile programs; these say one thing about
each language.
"""

from __future__ import annotations

from rlkit.sandbox.languages.row import Smoke
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.spec import TestSpec
from rlkit.sandbox.verdict import Status

#: Two sums: 3 + 4 = 7, and -10 + 2,000,000,000,000 = 1,999,999,999,990, too much for 32 bits.
SUMS = (
    TestSpec("small", stdin="3 4\n", expected="7\n"),
    TestSpec("large", stdin="-10 2000000000000\n", expected="1999999999990\n"),
)
#: What no hostile program prints: it would have to come to its end.
NEVER = (TestSpec("comes to its end", stdin="3 4\n", expected="the end\n"),)

#: Hostile programs are stopped soon.
SHORT = Limits(wall_s=3.0, cpu_s=1.0, memory_mb=256)

STOPPED = (Status.TIMEOUT, Status.CPU_LIMIT, Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT)
BROKEN = (*STOPPED, Status.CRASH, Status.RUNTIME_ERROR, Status.FAIL)


def honest(source: str) -> tuple[Smoke, ...]:
    return (Smoke("adds two numbers", source, SUMS),)


PYTHON = honest("""\
import sys
from collections import deque
a, b = deque(map(int, sys.stdin.read().split()))
print(a + b)
""")
PYTHON_HOSTILE = (
    Smoke(
        "reads, connects, starts a program, then takes all memory",
        """\
import os, socket, subprocess
def attempt(what, act):
    try:
        if act():
            print("LEAK", what, flush=True)
    except OSError:
        pass
attempt("users", lambda: "root:" in open("/etc/passwd").read())
attempt("socket", lambda: socket.create_connection(("127.0.0.1", 22), 0.2))
attempt("outside", lambda: open("/var/tmp/rlkit-leak", "w"))
attempt("program", lambda: subprocess.run(["/bin/cat", "/etc/shadow"], capture_output=True).stdout)
held = []
while True:
    held.append(bytearray(1 << 24))
""",
        NEVER,
        (Status.MEMORY_LIMIT, *BROKEN),
        SHORT,
    ),
)

_NODE_LEAKS = """\
const attempt = (what, act) => { try { if (act()) console.log("LEAK", what); } catch (e) {} };
attempt("users", () => fs.readFileSync("/etc/passwd", "utf8").includes("root:"));
attempt("outside", () => { fs.writeFileSync("/var/tmp/rlkit-leak", "x"); return true; });
attempt("program", () => child.spawnSync("/bin/cat", ["/etc/shadow"]).stdout?.length);
for (;;) {}
"""
JAVASCRIPT = honest("""\
const [a, b] = require("fs").readFileSync(0, "utf8").trim().split(/\\s+/).map(Number);
console.log(a + b);
""")
JAVASCRIPT_HOSTILE = (
    Smoke(
        "reads, writes, starts a program, then never ends",
        'const fs = require("fs"), child = require("child_process");\n' + _NODE_LEAKS,
        NEVER,
        STOPPED,
        SHORT,
    ),
    Smoke("ends with success before it answers", "process.exit(0)", SUMS, (Status.FAIL,)),
)
TYPESCRIPT = honest("""\
import { readFileSync } from "node:fs";
enum Sign { Plus = 1, Minus = -1 }
interface Pair { a: number; b: number }
function read<T extends Pair>(make: (words: number[]) => T): T {
  return make(readFileSync(0, "utf8").trim().split(/\\s+/).map(Number));
}
const pair: Pair = read(([a, b]) => ({ a, b } satisfies Pair));
console.log(pair.a + Sign.Plus * (pair.b as number));
""")
TYPESCRIPT_HOSTILE = (
    Smoke(
        "reads, writes, starts a program, then never ends",
        'import * as fs from "node:fs";\nimport * as child from "node:child_process";\n'
        "type Act = () => unknown;\n"
        + _NODE_LEAKS.replace("(what, act)", "(what: string, act: Act)"),
        NEVER,
        STOPPED,
        SHORT,
    ),
)

BASH = honest("""\
read -r a b
echo "$((a + b))" | cat
""")
BASH_HOSTILE = (
    Smoke(
        "reads, writes, then starts itself over and over",
        """\
grep -q root: /etc/passwd 2>/dev/null && echo LEAK users
cat /etc/shadow 2>/dev/null | grep -q : && echo LEAK passwords
echo x 2>/dev/null > /var/tmp/rlkit-leak && echo LEAK outside
bomb() { bomb | bomb & }
bomb
while :; do :; done
""",
        NEVER,
        BROKEN,
        SHORT,
    ),
)

SQL = (
    Smoke(
        "adds up a table that the test brings",
        "SELECT sum(n) FROM numbers;\n",
        (
            TestSpec(
                "two rows",
                stdin="CREATE TABLE numbers(n); INSERT INTO numbers VALUES (3), (4);",
                expected="7\n",
            ),
            TestSpec(
                "one row, and none",
                stdin="CREATE TABLE numbers(n);INSERT INTO numbers VALUES (2000000000000), (NULL);",
                expected="2000000000000\n",
            ),
        ),
    ),
)
SQL_HOSTILE = (
    Smoke(
        "counts without end",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT max(n) FROM c;\n",
        (TestSpec("comes to its end", expected="the end\n"),),
        STOPPED,
        SHORT,
    ),
    Smoke(
        "opens a file of this machine",
        "ATTACH '/var/tmp/rlkit-leak' AS other; CREATE TABLE other.t(a); SELECT 'LEAK outside';\n",
        (TestSpec("comes to its end", expected="the end\n"),),
        (Status.RUNTIME_ERROR,),
    ),
    Smoke(
        "starts a program",
        ".shell echo LEAK program\nSELECT 'the end';\n",
        (TestSpec("comes to its end", expected="the end\n"),),
        (Status.RUNTIME_ERROR, Status.COMPILE_ERROR),
    ),
)
