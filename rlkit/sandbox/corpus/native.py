"""C, C++ and Rust: attacks on the compiler, and on the machine without an interpreter between.

A compiler is a program that reads files and takes memory as the source tells it to, so it
runs in the sandbox like everything else. Tried on gcc 12 and rustc 1.95.
"""

from __future__ import annotations

from rlkit.sandbox.corpus.case import DIED, NOT_PAID, ROOMY, STOPPED, program
from rlkit.sandbox.types import Status

_COMPILER = frozenset({Status.COMPILE_ERROR, Status.TIMEOUT, Status.OUTPUT_LIMIT,
                       Status.MEMORY_LIMIT, Status.CPU_LIMIT})  # fmt: skip
_ENDED = STOPPED | DIED | {Status.NO_RESULT, Status.FAIL}
_FAMILY = ("teardown",)
_C = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <string.h>\n"
_TRY = (
    _C + "#include <errno.h>\n#include <fcntl.h>\n#include <signal.h>\n"
    "#include <sys/syscall.h>\n#include <sys/socket.h>\n#include <sys/ptrace.h>\n"
)


def _tries(condition: str, before: str = "") -> str:
    """A C program that prints "it worked" when the condition holds."""
    return f'{_TRY}int main(void){{{before} if ({condition}) puts("it worked"); return 0;}}\n'


CASES = (
    program("include of endless noise", "c", "memory", '#include "/dev/urandom"\nint main(){}\n',
            "Lets the compiler read a file that never ends.", _COMPILER),
    program("include of endless zeros", "c", "memory", '#include "/dev/zero"\nint main(){}\n',
            "The same with zeros, which some compilers skip for ever.", _COMPILER),
    program("include of the terminal", "c", "time", '#include "/dev/stdin"\nint main(){}\n',
            "Lets the compiler wait for somebody to type.", _COMPILER | {Status.FAIL}),
    program("include of a secret", "c", "files_read",
            '#include "@OUTSIDE@/secret"\nint main(){}\n',
            "Lets the compiler quote a file in its error message.", _COMPILER),
    program("a secret in the binary", "c", "files_read",
            '__asm__(".globl s\\ns: .incbin \\"@OUTSIDE@/secret\\"\\n.byte 0");\n'
            '#include <stdio.h>\nextern char s[];\nint main(){ puts(s); puts("it worked"); }\n',
            "Lets the assembler pack a file into the program.", _COMPILER),
    program("a gigabyte of data", "c", "disk",
            "char a[1 << 30] = {1};\nint main(){ return a[5]; }\n",
            "Is one line long and becomes a file of a gibibyte.",
            _COMPILER | _ENDED),
    program("macros that double", "c", "memory",
            "#define A0 x x x x x x x x\n"
            + "".join(f"#define A{i + 1} {' '.join([f'A{i}'] * 8)}\n" for i in range(12))
            + "int main(){ A12 }\n",
            "Doubles its text until the compiler's memory ends.", _COMPILER),
    program("includes itself", "c", "output",
            "#include __FILE__\n#include __FILE__\nint main(){}\n",
            "Includes itself twice, two hundred levels deep.", _COMPILER | NOT_PAID),
    program("exits before main", "c", "output",
            _C + '__attribute__((constructor)) void g(){ _exit(0); }\n'
            'int main(){ puts("it worked"); }\n',
            "Ends with exit code 0 before anything ran; an exit code is no evidence.",
            frozenset({Status.FAIL, Status.NO_RESULT})),
    program("fork bomb in C", "c", "teardown", _C + "int main(){ for(;;) fork(); }\n",
            "Copies itself, without Python's slowness.", _ENDED, needs=_FAMILY),
    program("fork bomb that leaves the session, in C", "c", "teardown",
            _C + "int main(){ for(;;){ if(fork()==0) setsid(); } }\n",
            "Copies itself out of its process group, as fast as the kernel can.", _ENDED,
            needs=_FAMILY),
    program("takes and touches memory", "c", "memory",
            _C + "int main(){ for(;;){ char*p=malloc(1<<24); if(p) memset(p,1,1<<24); } }\n",
            "Goes on after malloc has said no.", _ENDED),
    program("overflows the stack", "c", "memory",
            "int f(int x){ volatile char a[4096]; a[0]=x; return x ? f(x+1)+a[0] : 0; }\n"
            "int main(){ return f(1); }\n", "Recurses until the stack ends.", _ENDED),
    program("divides by zero", "c", "signals", "int main(){ volatile int z = 0; return 77 / z; }\n",
            "Dies of a signal that is an honest mistake.", DIED),
    program("opens a file in C", "c", "files_read",
            _tries('open("@OUTSIDE@/secret", O_RDONLY) >= 0'), "Reads a file of the machine."),
    program("writes a file in C", "c", "files_write",
            _tries('open("@OUTSIDE@/new", O_WRONLY|O_CREAT, 0666) >= 0'),
            "Writes a file of the machine."),
    program("cuts a file in C", "c", "files_write", _tries('truncate("@OUTSIDE@/file", 0) == 0'),
            "Empties a file of the machine."),
    program("changes a mode in C", "c", "metadata", _tries('syscall(90, "@OUTSIDE@/file", 0) == 0'),
            "Changes a mode by the number of the call."),
    program("opens a socket in C", "c", "network", _tries("socket(AF_INET, SOCK_STREAM, 0) >= 0"),
            "Opens a socket."),
    program("kills in C", "c", "signals", _tries("kill(@VICTIM@, 9) == 0"), "Kills a process."),
    program("kills its group and everybody in C", "c", "signals",
            _tries("0", "kill(0, 9); kill(-1, 9); kill(getppid(), 9); kill(1, 9);"),
            "Sends the signal to whoever can be reached.", NOT_PAID, needs=("signals", "teardown")),
    program("traces in C", "c", "other_processes",
            _tries("ptrace(PTRACE_ATTACH, @VICTIM@, 0, 0) == 0"), "Debugs another process."),
    program("clones into new namespaces in C", "c", "other_processes",
            _tries("(r = syscall(56, 0x10000000L | 17, 0, 0, 0, 0)) > 0", "long r;"),
            "Asks for a new user namespace through clone rather than unshare.", needs=_FAMILY),
    program("clone3 in C", "c", "other_processes",
            _tries("(r = syscall(435, a, 64L)) > 0",
                   "long r; unsigned long long a[8] = {0x10000000}; a[4] = 17;"),
            "Hides the flags of clone behind a pointer, where a filter cannot look.",
            needs=_FAMILY),
    program("an interrupt of the old kind", "c", "signals",
            "#include <stdio.h>\nint main(){ int r; __asm__ volatile("
            '"int $0x80" : "=a"(r) : "a"(37), "b"(@VICTIM@), "c"(9)); '
            'if (r == 0) puts("it worked"); return 0; }\n',
            "Kills by a door to the kernel that most filters forget."),
    program("templates without end", "cpp", "memory",
            "template<class A,class B> struct P{ typedef typename P<P<A,B>,P<B,A> >::t t; };\n"
            "int main(){ P<int,char>::t x; }\n", "Lets the compiler compute for ever.", _COMPILER),
    program("a constant that takes years", "cpp", "time",
            "constexpr long f(long n){ long s=0; for(long i=0;i<n;i++) s+=i; return s; }\n"
            "constexpr long x = f(1L << 40);\nint main(){ return x; }\n",
            "Moves the endless loop from the program into the compiler.", _COMPILER),
    program("throws without a catcher", "cpp", "signals", "int main(){ throw 1; }\n",
            "Ends by abort.", DIED),
    program("a secret by include in C++", "cpp", "files_read",
            'const char s[] =\n#include "@OUTSIDE@/secret"\n;\nint main(){}\n',
            "Quotes a file in an error of another compiler.", _COMPILER),
    program("threads without end in C++", "cpp", "teardown",
            "#include <thread>\n#include <vector>\nint main(){ std::vector<std::thread> v;\n"
            " for(;;) v.emplace_back([]{ for(;;); }); }\n",
            "Starts threads until one is refused.", _ENDED | _COMPILER, needs=_FAMILY),
    program("a secret by include in Rust", "rust", "files_read",
            'fn main(){ let s = include_str!("@OUTSIDE@/secret"); println!("{} it worked", s); }\n',
            "Packs a file into the program while it is compiled.", _COMPILER),
    program("a variable of the compiler", "rust", "files_read",
            'fn main(){ println!("{}", env!("@MARK@")); }\n',
            "Asks the compiler for the host's environment.", _COMPILER),
    program("a loop in the compiler, Rust", "rust", "time",
            "const fn f() -> u64 { let mut i = 0u64; loop { i = i.wrapping_add(1); } }\n"
            "const X: u64 = f();\nfn main(){ println!(\"{}\", X); }\n",
            "Loops while a constant is computed.", _COMPILER, limits=ROOMY),
    program("panics in Rust", "rust", "signals", 'fn main(){ panic!("it worked"); }\n',
            "Panics, with the wanted words on the wrong stream.",
            frozenset({Status.RUNTIME_ERROR, Status.FAIL, Status.CRASH})),
    program("memory in Rust", "rust", "memory",
            "fn main(){ let mut v: Vec<Vec<u8>> = vec![]; loop { v.push(vec![1u8; 1 << 24]); } }\n",
            "Takes memory until it aborts.", _ENDED),
    program("a shell from Rust", "rust", "files_read",
            'fn main(){ let o = std::process::Command::new("/bin/cat").arg("@OUTSIDE@/secret")'
            ".output(); if let Ok(o) = o { if o.status.success() { println!(\"it worked\"); } } }"
            "\n",
            "Lets another program read the file."),
)  # fmt: skip
