"""The rollouts in the package are what they say, and those of a run are found again."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from collections import Counter

import pytest

from rlkit import UserError, get_domain
from rlkit.lab.stored import (
    DATA,
    FACTS,
    FILE,
    StoredRollouts,
    group_row,
    stored_rollouts,
    write_rollouts,
)
from rlkit.lab.stored_making import MOMENTS, NEW, SAME, questions
from rlkit.rewards import get_reward
from rlkit.tasks import get_domains


@pytest.fixture(scope="module")
def stored():
    return stored_rollouts()


def test_what_ships_is_what_was_asked_for(stored):
    assert len(stored) == 2000
    assert len(stored.groups) == 250
    assert {len(group.rollouts) for group in stored.groups} == {8}
    assert stored.domains == ("arith", "sort", "countdown", "pyfunc")
    assert stored.steps == MOMENTS
    assert all(Counter(g.step for g in stored.groups)[step] == SAME + NEW for step in MOMENTS)
    assert {g.difficulty for g in stored.groups} == {1, 2}
    assert {r.finish_reason for r in stored} == {"stop", "length"}


def test_the_file_is_small_and_is_the_one_that_was_made():
    data = (DATA / FILE).read_bytes()
    facts = json.loads((DATA / FACTS).read_text())
    assert len(data) < 600_000
    assert hashlib.sha256(data).hexdigest() == facts["sha256"]
    assert len(data) == facts["bytes"]


def test_the_facts_say_which_weights_answered():
    from rlkit.policy.loading import resolve_source

    tiny = json.loads((DATA.parent.parent / "policy" / "tiny" / "facts.json").read_text())
    assert resolve_source("tiny").endswith("tiny")
    assert stored_rollouts().facts["policy_sha256"] == tiny["sha256"]


def test_the_truth_is_what_the_verifiers_say(stored):
    for numbers, columns in stored.calls:
        domain = get_domain(columns["domain"][0])
        if domain.success == "tests_pass":  # runs code; the test below tries some of it
            continue
        given = get_reward(domain.success)(**columns)
        assert given == [stored.rollouts[n].truth for n in numbers]


def test_the_truth_of_code_is_what_the_sandbox_says(stored):
    some = StoredRollouts(stored.where(domain="pyfunc").groups[::12])
    ((numbers, columns),) = some.calls
    given = get_reward("tests_pass")(**columns)
    assert [round(value, 4) for value in given] == [some.rollouts[n].truth for n in numbers]
    assert len({value for value in given}) > 2  # all, none, and some of the tests


def test_quality_varies_and_rises(stored):
    def rate(step):
        solved = stored.where(step=step).solved
        return sum(solved) / len(solved)

    assert 0.2 < rate(0) < rate(100) < 0.8
    mixed = sum(len({r.solved for r in group.rollouts}) == 2 for group in stored.groups)
    assert mixed > 125  # more than half of the groups have something to teach


def test_log_probabilities_are_those_of_the_lengths(stored):
    for rollout in stored:
        assert rollout.logprob < 0
        assert rollout.length > 0
    budgets = {g.budget for g in stored.groups}
    assert min(budgets) == 12
    cut = [(g, r) for g in stored.groups for r in g.rollouts if r.finish_reason == "length"]
    assert cut and all(r.length == g.budget for g, r in cut)


def test_the_same_problems_come_up_at_every_moment(stored):
    keys = [{g.key for g in stored.where(step=step).groups} for step in stored.steps]
    assert len(set.intersection(*keys)) == SAME
    # 20 that repeat, and 30 new ones at each of 5 moments: 20 + 5 * 30 = 170.
    assert len(set.union(*keys)) == SAME + len(MOMENTS) * NEW == 170


def test_all_of_them_are_training_problems(stored):
    from rlkit.tasks.problem import split_of

    assert {split_of(group.key) for group in stored.groups} == {"train"}


def test_questions_do_not_depend_on_anything_but_the_seed():
    domains = get_domains(["arith", "sort"])
    once, again = (questions(domains, 2, 4, 3, seed=5) for _ in range(2))
    other = questions(domains, 2, 4, 3, seed=6)
    assert once == again != other
    assert [p.key for p in once[0][:4]] == [p.key for p in once[1][:4]]
    assert not {p.key for p in once[0][4:]} & {p.key for p in once[1][4:]}


def test_where_keeps_whole_groups_and_refuses_what_is_not_there(stored):
    some = stored.where(domain=["sort", "arith"], step=[0, 100])
    assert set(some.domains) == {"sort", "arith"} and some.steps == (0, 100)
    assert len(some) == 8 * len(some.groups)
    with pytest.raises(UserError, match="no rollouts of domain 'chess'"):
        stored.where(domain="chess")
    with pytest.raises(UserError, match="no rollouts of step 7"):
        stored.where(step=7)


def test_calls_cover_every_rollout_once_with_its_own_columns(stored):
    numbers = [n for numbers, _ in stored.calls for n in numbers]
    assert sorted(numbers) == list(range(2000))
    for numbers, columns in stored.calls:
        assert {len(values) for values in columns.values()} == {len(numbers)}
        assert len(set(columns["domain"])) == 1
        n = numbers[13]
        group = stored.groups[stored.group_of[n]]
        assert columns["completions"][13] == stored.rollouts[n].text
        assert all(columns[name][13] == value for name, value in group.columns.items())


def test_a_file_is_read_back_as_it_was_written(stored, tmp_path):
    few = StoredRollouts(stored.groups[:5], {"seed": 1})
    file = tmp_path / FILE
    sha256 = write_rollouts(file, few)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == sha256
    assert write_rollouts(tmp_path / "again.gz", few) == sha256
    for source in (file, tmp_path):
        back = stored_rollouts(source)
        assert [group_row(g) for g in back.groups] == [group_row(g) for g in few.groups]
        assert back.facts == {"seed": 1}


@pytest.mark.parametrize("content", [b"", b"no gzip", gzip.compress(b'{"a": 1}\n{"key": 2}\n')])
def test_a_damaged_file_is_refused_with_a_sentence(tmp_path, content):
    file = tmp_path / FILE
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"no stored rollouts|no rollouts here"):
        stored_rollouts(file)


def test_a_shipped_file_that_was_changed_is_noticed(monkeypatch, tmp_path):
    from rlkit.lab import stored as module

    (tmp_path / FILE).write_bytes((DATA / FILE).read_bytes() + b"\0")
    (tmp_path / FACTS).write_text((DATA / FACTS).read_text())
    monkeypatch.setattr(module, "DATA", tmp_path)
    with pytest.raises(UserError, match="damaged"):
        stored_rollouts()


def test_loading_needs_no_torch_and_no_widgets():
    code = (
        "import sys; from rlkit.lab import stored_rollouts; stored_rollouts();"
        "print([m for m in ('torch', 'transformers', 'ipywidgets', 'plotly') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_rollouts_of_a_run_are_found_with_their_columns(build_loop, tmp_path):
    loop = build_loop(run=tmp_path / "run")
    loop.run(3, progress=False)
    stored = stored_rollouts(tmp_path / "run")
    assert not stored.left_out
    assert len(stored) == 3 * 2 * 4  # steps, problems, rollouts
    assert stored.steps == (0, 1, 2)  # what the policy had seen when it answered
    last = stored.where(step=2)
    batch = loop.batch
    assert [g.key for g in last.groups] == [g.problem.key for g in batch.groups]
    for mine, theirs in zip(last.groups, batch.groups, strict=True):
        assert mine.columns == json.loads(json.dumps(dict(theirs.problem.columns)))
        assert [r.text for r in mine.rollouts] == [r.text for r in theirs.rollouts]


def test_a_run_that_says_nothing_is_refused(tmp_path, build_loop):
    from rlkit.loop import Run

    with pytest.raises(UserError, match="no run directory"):
        stored_rollouts(tmp_path)
    run = Run.create(tmp_path / "empty", {"domains": ["arith"]})
    with pytest.raises(UserError, match="no rollouts yet"):
        stored_rollouts(run)
    with pytest.raises(UserError, match="not from int"):
        stored_rollouts(3)


def test_problems_that_are_not_known_any_more_are_left_out_and_said(build_loop, tmp_path):
    loop = build_loop(run=tmp_path / "run")
    loop.run(2, progress=False)
    from rlkit.loop import Run

    run = Run.open(tmp_path / "run")
    rows = run.rollouts()
    for row in rows[:4]:  # one group of 2 x 2
        row["key"] = "arith-000000000000"
    (tmp_path / "run" / "rollouts.jsonl.gz").unlink()
    run.append_rollouts(rows)
    stored = stored_rollouts(run)
    assert len(stored.groups) == 3
    assert stored.left_out == "1 of 4 groups are left out: their problems are not known."
