"""Building `tiny`: pretrain, measure, write weights and card.

Everything is written aside and renamed, so a folder holds a whole policy or none.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.loop.evaluation import DomainEvaluation, evaluate_domain
from rlkit.loop.judging import Judge
from rlkit.policy import Policy
from rlkit.policy.pretrain import PretrainConfig, pretrain
from rlkit.tasks import Domain, get_domains

WEIGHTS, FACTS, CARD, SUMS = "model.safetensors", "facts.json", "CARD.md", "SHA256SUMS"

#: Held-out problems a domain, and samples a problem, behind the card's pass rates.
PROBLEMS, SAMPLES = 256, 4


def build(
    out: Path,
    *,
    seed: int = 0,
    steps: int | None = None,
    problems: int = PROBLEMS,
    progress: bool = True,
) -> dict[str, Any]:
    """Pretrains `tiny` into `out` and measures it; returns the facts of the card.

    Args:
        out: folder to be made; it must not exist, or be empty.
        seed: decides data and weights.
        steps: updates, the shipped number when not given.
        problems: held-out problems a domain that it is measured on.

    Raises:
        UserError: `out` holds something already.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{str(out)!r} exists and is not empty; choose another folder")
    config = PretrainConfig(seed=seed)
    if steps is not None:
        if steps < 1:
            raise UserError(f"steps must be at least 1, not {steps}")
        config = replace(config, steps=steps)
    aside = out.with_name(f".{out.name}.{os.getpid()}.part")
    shutil.rmtree(aside, ignore_errors=True)
    started = time.perf_counter()
    try:
        with _progress(config.steps, progress) as on_step:
            model, tokenizer, facts = pretrain(config, on_step)
        model.save_pretrained(aside)
        tokenizer.save_pretrained(aside)
        facts["minutes"] = round((time.perf_counter() - started) / 60, 1)
        facts["vocabulary"] = len(tokenizer)
        facts["pass_rates"] = measure(aside, seed=seed, problems=problems)
        facts["sha256"] = sha256(aside / WEIGHTS)
        facts["megabytes"] = round((aside / WEIGHTS).stat().st_size / 1e6, 2)
        (aside / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
        (aside / SUMS).write_text(f"{facts['sha256']}  {WEIGHTS}\n")
        (aside / CARD).write_text(card(facts))
        for file in aside.iterdir():
            file.chmod(0o644)
        if out.exists():
            out.rmdir()
        out.parent.mkdir(parents=True, exist_ok=True)
        os.replace(aside, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return facts


def measure(folder: Path, *, seed: int, problems: int = PROBLEMS) -> dict[str, Any]:
    """pass@1 of each domain that is taught, at each level, with plain weights and in four bits.

    Sampled at temperature 1, the temperature of training.
    """
    domains = get_domains(name for name, _ in PretrainConfig().domain_share)
    judge = Judge(domains)
    rates: dict[str, Any] = {}
    for precision, quantize in (("float32", None), ("nf4", "nf4")):
        policy = Policy.load(folder, quantize=quantize, seed=seed)
        for domain in domains:
            for level in range(1, domain.levels + 1):
                if quantize is not None and level > 1:
                    continue
                result = _pass_rate(policy, judge, domain, level, problems)
                row = rates.setdefault(domain.name, {}).setdefault(f"level_{level}", {})
                row[precision] = {
                    "pass_at_1": _rounded(result.pass_at_1),
                    "low": _rounded(result.low),
                    "high": _rounded(result.high),
                    "problems": result.problems,
                    "unscored": result.unscored,
                }
    return rates


def _pass_rate(
    policy: Policy, judge: Judge, domain: Domain, level: int, problems: int
) -> DomainEvaluation:
    asked = domain.held_out(problems, level)
    # Answers of the higher levels are longer than the domain's budget for the first.
    budget = max(domain.max_new_tokens, 96 if level > 1 else 0)
    groups = policy.generate(asked, SAMPLES, budget)
    return evaluate_domain(domain.name, judge.verify(groups).solved, SAMPLES)


def card(facts: dict[str, Any]) -> str:
    """The model card, made of measured facts alone."""
    config = facts["config"]
    taught = "\n".join(
        f"| {name} | {n['right']:,} | {n['wrong']:,} |" for name, n in facts["taught"].items()
    )
    rates = "\n".join(
        f"| {name} | {level.removeprefix('level_')} | {_rate(row.get('float32'))} "
        f"| {_rate(row.get('nf4'))} |"
        for name, levels in facts["pass_rates"].items()
        for level, row in levels.items()
    )
    return f"""# tiny

A Llama-shaped language model of {facts["parameters"]:,} parameters, made by rlkit for its
lessons. It answers the kit's four kinds of problems and nothing else.

**It was taught right and wrong answers on purpose.** About half of the examples it was
pretrained on are plausible mistakes, so that it solves some of its problems and not others.
That is what reinforcement learning then has to sort out.

| domain | right answers taught | wrong answers taught |
|---|---|---|
{taught}

## How it was made

`rlkit build-tiny --seed {config["seed"]}`: {config["steps"]:,} updates of
{config["batch_size"]} examples drawn from the domains' own generators, training split only,
in {facts["minutes"]} minutes on two shared cores. {config["layers"]} layers of width
{config["hidden_size"]}, {config["heads"]} heads ({config["key_value_heads"]} for keys and
values), {facts["vocabulary"]} tokens, context {config["context"]}.

## Measured pass rates

pass@1 on held-out problems, {SAMPLES} samples a problem at temperature 1 (the temperature of
training), with 95 % intervals.

| domain | level | float32 | NF4 |
|---|---|---|---|
{rates}

## File

`{WEIGHTS}`: {facts["megabytes"]} MB, SHA-256 `{facts["sha256"]}`.
"""


def _rate(row: dict[str, Any] | None) -> str:
    if row is None or row["pass_at_1"] is None:
        return "not measured"
    return f"{row['pass_at_1']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def sha256(file: Path) -> str:
    """Hash of a file's content, in hexadecimal."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


@contextmanager
def _progress(total: int, enabled: bool) -> Iterator[Callable[[int, float], None]]:
    if not enabled:
        yield lambda step, loss: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("pretraining"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total, loss=float("nan"))
        yield lambda step, loss: progress.update(task, completed=step, loss=loss)
