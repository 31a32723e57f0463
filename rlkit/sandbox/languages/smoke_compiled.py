"""The honest and the hostile programs of the compiled languages; see `smoke`.

Some of the hostile ones attack while they are compiled: that too happens inside the sandbox.
"""

from __future__ import annotations

from rlkit.sandbox.languages.row import Smoke
from rlkit.sandbox.languages.smoke import BROKEN, NEVER, SHORT, STOPPED, SUMS, honest
from rlkit.sandbox.limits import Limits
from rlkit.sandbox.verdict import Status

C = honest("""\
#include <stdio.h>
int main(void) {
    long long a, b;
    if (scanf("%lld %lld", &a, &b) != 2) return 1;
    printf("%lld\\n", a + b);
    return 0;
}
""")
C_HOSTILE = (
    Smoke(
        "reads, connects, then starts itself over and over",
        """\
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(void) {
    char line[4096] = "";
    FILE *file = fopen("/etc/passwd", "r");
    if (file && fread(line, 1, sizeof line - 1, file) && strstr(line, "root:")) puts("LEAK users");
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in there = {AF_INET, htons(22), {htonl(0x7f000001)}};
    if (s >= 0 && !connect(s, (struct sockaddr *)&there, sizeof there)) puts("LEAK socket");
    if (fopen("/var/tmp/rlkit-leak", "w")) puts("LEAK outside");
    fflush(stdout);
    for (;;) fork();
}
""",
        NEVER,
        STOPPED,
        SHORT,
    ),
    Smoke(
        "ends with success before it starts",
        "#include <unistd.h>\n"
        "__attribute__((constructor)) void early(void) { _exit(0); }\n"
        "int main(void) { return 1; }\n",
        SUMS,
        (Status.FAIL,),
    ),
    Smoke(
        "includes a file of this machine",
        '#include "/etc/shadow"\nint main(void) { return 0; }\n',
        SUMS,
        (Status.COMPILE_ERROR,),
    ),
)

CPP = honest("""\
#include <bits/stdc++.h>
using namespace std;
int main() {
    vector<long long> v((istream_iterator<long long>(cin)), {});
    sort(v.begin(), v.end());
    cout << accumulate(v.begin(), v.end(), 0LL) << endl;
}
""")
CPP_HOSTILE = (
    Smoke(
        "computes for ever while it is compiled",
        "constexpr long run(long n) {\n    long s = 0;\n"
        "    for (long i = 0; i < n; ++i) s += i;\n    return s;\n}\n"
        "constexpr long a = run(1L << 40);\n"
        "int main() { return (int)a; }\n",
        SUMS,
        (Status.COMPILE_ERROR, *STOPPED),
    ),
    Smoke(
        "takes all memory",
        "#include <vector>\n#include <string>\nint main() {\n"
        "    std::vector<std::string> held;\n"
        "    for (;;) held.emplace_back(1 << 24, 'x');\n}\n",
        NEVER,
        (*STOPPED, Status.CRASH),
        SHORT,
    ),
)

JAVA = honest("""\
import java.util.*;

public class Sum {
    record Pair(long a, long b) {
        long sum() { return a + b; }
    }

    public static void main(String[] args) {
        Scanner in = new Scanner(System.in);
        System.out.println(new Pair(in.nextLong(), in.nextLong()).sum());
    }
}
""")
JAVA_HOSTILE = (
    Smoke(
        "reads, starts a program, then starts threads without end",
        """\
import java.nio.file.*;

class Main {
    interface Act { boolean done() throws Exception; }

    static void attempt(String what, Act act) {
        try { if (act.done()) System.out.println("LEAK " + what); } catch (Exception e) { }
    }

    public static void main(String[] args) {
        attempt("users", () -> Files.readString(Path.of("/etc/passwd")).contains("root:"));
        attempt("outside", () -> Files.writeString(Path.of("/var/tmp/rlkit-leak"), "x") != null);
        attempt("program", () -> new ProcessBuilder("/bin/cat", "/etc/shadow").start()
            .getInputStream().read() >= 0);
        for (;;) {
            new Thread(() -> { while (true) { } }).start();
        }
    }
}
""",
        NEVER,
        BROKEN,
        Limits(wall_s=4.0, cpu_s=2.0, memory_mb=768),
    ),
    Smoke(
        "ends with success before it starts",
        "class Main {\n    static { System.exit(0); }\n"
        "    public static void main(String[] args) { }\n}\n",
        SUMS,
        (Status.FAIL,),
    ),
)

RUST = honest("""\
use std::io::{self, Read};

fn main() {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).unwrap();
    let sum: i64 = text.split_whitespace().map(|w| w.parse::<i64>().unwrap()).sum();
    println!("{}", sum);
}
""")
RUST_HOSTILE = (
    Smoke(
        "includes a file of this machine while it is compiled",
        'fn main() { print!("LEAK {}", include_str!("/etc/shadow")); }\n',
        SUMS,
        (Status.COMPILE_ERROR,),
    ),
    Smoke(
        "reads, starts a program, then never ends",
        """\
use std::{fs, process::Command};

fn main() {
    if fs::read_to_string("/etc/passwd").map_or(false, |t| t.contains("root:")) {
        println!("LEAK users");
    }
    if fs::write("/var/tmp/rlkit-leak", "x").is_ok() {
        println!("LEAK outside");
    }
    let shown = Command::new("/bin/cat").arg("/etc/shadow").output();
    if shown.map_or(false, |o| !o.stdout.is_empty()) {
        println!("LEAK program");
    }
    let mut n = 0u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}
""",
        NEVER,
        STOPPED,
        SHORT,
    ),
)

GO = honest("""\
package main

import (
\t"bufio"
\t"fmt"
\t"os"
)

func main() {
\tvar a, b int64
\tfmt.Fscan(bufio.NewReader(os.Stdin), &a, &b)
\tfmt.Println(a + b)
}
""")
GO_HOSTILE = (
    Smoke(
        "embeds a file of this machine while it is compiled",
        'package main\n\nimport _ "embed"\n\n//go:embed /etc/shadow\nvar text string\n\n'
        "func main() { print(text) }\n",
        SUMS,
        (Status.COMPILE_ERROR,),
    ),
    Smoke(
        "reads, starts a program, then takes all memory in many threads",
        """\
package main

import (
\t"fmt"
\t"os"
\t"os/exec"
\t"strings"
)

func main() {
\ttext, _ := os.ReadFile("/etc/passwd")
\tif strings.Contains(string(text), "root:") {
\t\tfmt.Println("LEAK users")
\t}
\tif os.WriteFile("/var/tmp/rlkit-leak", []byte("x"), 0o600) == nil {
\t\tfmt.Println("LEAK outside")
\t}
\tif out, err := exec.Command("/bin/cat", "/etc/shadow").Output(); err == nil && len(out) > 0 {
\t\tfmt.Println("LEAK program")
\t}
\theld := make(chan []byte)
\tfor {
\t\tgo func() {
\t\t\ttaken := make([]byte, 1<<22)
\t\t\tfor i := range taken {
\t\t\t\ttaken[i] = 1
\t\t\t}
\t\t\theld <- taken
\t\t}()
\t}
}
""",
        NEVER,
        BROKEN,
        Limits(wall_s=4.0, cpu_s=2.0, memory_mb=512),
    ),
)
