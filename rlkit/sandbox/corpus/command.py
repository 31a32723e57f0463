"""`rlkit sandbox check`: progress while the corpora run, a table at the end, an exit code.

Left out on purpose: anything that decides. That is done by `check.py`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence

from rlkit.errors import UserError
from rlkit.sandbox import levels
from rlkit.sandbox.corpus.check import CaseResult, Check, run_check, select

_CORPORA = ("hostile", "cheat")


def check_command(
    backend: str = "local",
    level: str = "full",
    only: Sequence[str] = (),
    corpora: Sequence[str] = (),
    languages: Sequence[str] = (),
    peers: bool = False,
    as_json: bool = False,
) -> int:
    """Run the corpora and print what came of them; returns 0 if all that is claimed holds.

    Args:
        backend: what runs them.
        level: see `levels`; what cannot be forced here is done in a process of its own.
        only: words, see `check.run_check`.
        corpora: `hostile`, `cheat`, or none for both.
        languages: names, or none for all.
        peers: run the same cheats against other people's checkers as well.
        as_json: print one JSON object and nothing else.

    Raises:
        UserError: an unknown level, backend, corpus or language.
    """
    unknown = set(corpora) - set(_CORPORA)
    if unknown:
        raise UserError(f"corpus {sorted(unknown)[0]!r} is none of {', '.join(_CORPORA)}")
    if levels.needs_a_process(level):
        return levels.run_at(level, _own_command(backend, level, only, corpora, languages, peers,
                                                 as_json))  # fmt: skip
    known = tuple(corpora) or _CORPORA
    names = _canonical(languages)
    total = sum(1 for _ in select(only, known, names))
    show = _Progress(total, quiet=as_json)
    with levels.forced(level) as held:
        check = run_check(
            backend, only=only, corpora=known, in_languages=names, asked=_asked(level), say=show
        )
    found = check.to_json()
    found["weakened"] = held.says
    if peers:
        from rlkit.sandbox.corpus.peers import compare

        found["peers"] = [tally.to_json() for tally in compare(check, say=show.note)]
    if as_json:
        print(json.dumps(found))
    else:
        print(_page(check, held.says))
        if peers:
            from rlkit.sandbox.corpus.peers import table

            print(table(found["peers"]))
    return 0 if check.ok else 1


def _asked(level: str) -> str:
    """What a parent process asked for, when we are its weakened child."""
    import os

    return os.environ.get("RLKIT_SANDBOX_LEVEL") or level


def _own_command(backend: str, level: str, only: Sequence[str], corpora: Sequence[str],
                 languages: Sequence[str], peers: bool, as_json: bool) -> list[str]:  # fmt: skip
    command = [sys.executable, "-m", "rlkit.cli", "sandbox", "check", "--backend", backend]
    for option, given in (("--only", only), ("--corpus", corpora), ("--language", languages)):
        for one in given:
            command += [option, one]
    command += ["--peers"] if peers else []
    return [*command, *(["--json"] if as_json else [])]


def _canonical(languages: Sequence[str]) -> list[str] | None:
    from rlkit.sandbox.languages import canonical

    return [canonical(name) for name in languages] or None


class _Progress:
    """One line for each case that went wrong, and a counter for the others."""

    def __init__(self, total: int, quiet: bool) -> None:
        self.total, self.done = total, 0
        # In a pipe or a log a counter that overwrites itself is noise.
        self.moving = sys.stderr.isatty()
        self.quiet = quiet

    def __call__(self, case: CaseResult) -> None:
        self.done += 1
        if not case.ok:
            word = "known" if case.admitted else "WRONG"
            self._line(f"{word}: {case.corpus}, {case.language}, {case.name}: {case.wrong[0]}")
        if self.moving:
            self._write(f"\r\x1b[K{self.done} of {self.total}: {case.name}")
            if self.done == self.total:
                self._write("\r\x1b[K")
        elif self.done % 50 == 0:
            self._line(f"{self.done} of {self.total} cases")

    def note(self, text: str) -> None:
        """Something that is not about a case."""
        self._line(text)

    def _line(self, text: str) -> None:
        start = "\r\x1b[K" if self.moving else ""
        self._write(f"{start}{text}\n")

    def _write(self, text: str) -> None:
        if not self.quiet or self.moving:
            print(text, end="", file=sys.stderr, flush=True)


def _page(check: Check, weakened: str) -> str:
    assert check.isolation is not None
    lines = ["", f"{check.backend}, {check.asked}: level {check.isolation.level.name}"]
    lines += [weakened] if weakened else []
    lines += ["", f"{'corpus':<9}{'language':<12}{'run':>5}{'held':>6}{'known':>7}{'wrong':>7}"]
    kinds = Counter((c.corpus, c.language) for c in check.cases)
    for (corpus, language), count in kinds.items():
        these = [c for c in check.cases if (c.corpus, c.language) == (corpus, language)]
        held = sum(c.ok for c in these)
        known = sum(c.admitted for c in these)
        lines.append(
            f"{corpus:<9}{language:<12}{count:>5}{held:>6}{known:>7}{count - held - known:>7}"
        )
    cheats = sum(c.corpus == "cheat" for c in check.cases)
    lines += ["", f"cheats paid: {len(check.paid)} of {cheats}"]
    lines.append(f"left running: {len(check.left_behind)}")
    for case in check.failed:
        lines.append(f"WRONG {case.corpus}/{case.language}/{case.name}: {'; '.join(case.wrong)}")
        lines.append(f"      {case.lesson}")
    if check.admitted:
        lines += ["", "Not stopped at this level, as its report says:"]
        lines += [f"  {c.attacks}: {c.lesson}" for c in check.admitted]
    reasons = Counter(one["why"] for one in check.not_run)
    for why, count in reasons.items():
        lines.append(f"not run: {count} cases; {why}")
    lines.append(f"{len(check.cases)} cases in {check.seconds:.0f} s")
    return "\n".join(lines)
