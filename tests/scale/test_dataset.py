"""DomainDataset: one curriculum in the place of TRL's dataset, the same on every rank."""

from __future__ import annotations

import json

import pytest
from torch.utils.data import DataLoader
from trl.trainer.utils import RepeatSampler

from rlkit.curriculum import Curriculum
from rlkit.errors import UserError
from rlkit.scale.trl import domain_dataset
from rlkit.tasks import Domain, Problem, get_domain


def make(steps=4, size=3, seed=0, weighting="uniform", domains=("arith", "sort")):
    curriculum = Curriculum(domains, weighting, seed=seed)
    return domain_dataset(domains, curriculum, steps=steps, problems_per_step=size)


def keys(dataset, step):
    first = step * dataset.problems_per_step
    return [dataset.problem(first + i).key for i in range(dataset.problems_per_step)]


def test_trls_sampler_and_a_data_loader_walk_over_it():
    data = make(steps=2, size=2)
    sampler = RepeatSampler(data, mini_repeat_count=2, batch_size=2, repeat_count=1, shuffle=False)
    loader = DataLoader(data, batch_size=4, sampler=sampler, collate_fn=list)
    batches = [[row["key"] for row in batch] for batch in loader]
    again = make(steps=2, size=2)
    first, second = keys(again, 0), keys(again, 1)
    # Each problem twice, side by side, and a step's problems in one batch.
    assert batches == [
        [first[0], first[0], first[1], first[1]],
        [second[0], second[0], second[1], second[1]],
    ]


def test_rows_are_fresh_and_have_all_columns_of_the_batch():
    data = make(steps=1, size=8, domains=("arith", "pyfunc"))
    rows = data.__getitems__(list(range(8)))
    assert {frozenset(row) for row in rows} == {frozenset(rows[0])}
    arith = next(row for row in rows if row["domain"] == "arith")
    assert arith["tests"] is None and arith["answer"]
    twice = data.__getitems__([0, 0])
    twice[0]["finish_reason"] = "stop"  # TRL writes into rows
    twice[0]["prompt"][0]["content"] = "changed"
    assert "finish_reason" not in twice[1]
    assert twice[1]["prompt"][0]["content"] != "changed"


def test_ranks_that_ask_for_different_parts_draw_the_same_problems():
    one, two = make(weighting="learnability"), make(weighting="learnability")
    for step in range(4):
        mine, theirs = one.problem(3 * step).key, two.problem(3 * step + 2).key
        assert keys(one, step) == keys(two, step)
        assert mine in keys(two, step) and theirs in keys(one, step)
        for data in (one, two):  # what the gathered rewards said
            data.observe("arith", 0.5, dead=False)
            data.observe("sort", 0.0, dead=True)
    assert one.curriculum.probabilities() == two.curriculum.probabilities()
    # arith has p(1 - p) = 0.25, sort has 0: it keeps the floor of 0.05 alone.
    assert one.curriculum.probabilities()["sort"] == pytest.approx(0.05)


def test_weights_change_what_is_drawn_later():
    data = make(steps=60, size=20, weighting="learnability")
    for step in range(20):
        data.problem(20 * step)
        data.observe("arith", 0.5, dead=False)
        data.observe("sort", 1.0, dead=True)
    drawn = [row["domain"] for row in data.__getitems__(list(range(20 * 19, 20 * 20)))]
    assert drawn.count("arith") >= 15  # 19 of 20 are expected


def test_a_resumed_dataset_asks_the_same_problems():
    whole = make(steps=6, weighting="learnability")
    asked = []
    for step in range(6):
        asked.append(keys(whole, step))
        if step < 5:
            keys(whole, step + 1)  # the data loader reads one step ahead
        whole.observe("arith", 0.1 * step, dead=False)
        if step == 2:
            kept = json.loads(json.dumps(whole.state_dict(3)))
    resumed = make(steps=6, weighting="learnability", seed=5)
    resumed.load_state_dict(kept)
    later = []
    for step in range(3, 6):
        later.append(keys(resumed, step))
        if step < 5:
            keys(resumed, step + 1)
        resumed.observe("arith", 0.1 * step, dead=False)
    assert later == asked[3:]
    assert resumed.curriculum.probabilities() == whole.curriculum.probabilities()


def test_a_step_is_kept_while_it_is_used_and_then_let_go():
    data = make(steps=8)
    for step in range(6):
        data.problem(3 * step)
    assert data.problem(3 * 5).key and data.problem(3 * 3).key
    with pytest.raises(UserError, match="step 2 while step 6"):
        data.problem(3 * 2)


def test_what_asks_out_of_order_is_told_what_to_set():
    with pytest.raises(UserError, match=r"shuffle_dataset=False.*hold 3 problems"):
        make().problem(3)


def test_a_run_that_is_longer_than_before_is_refused():
    data = make(steps=9)
    state = data.state_dict(0) | {"step": 7}
    with pytest.raises(UserError, match="7 steps are done, and this run has 4"):
        make(steps=4).load_state_dict(state)


def test_other_domains_than_the_curriculums_are_refused():
    with pytest.raises(UserError, match=r"over \['arith'\], the dataset over \['sort'\]"):
        domain_dataset(["sort"], Curriculum(["arith"]), steps=1)
    with pytest.raises(UserError, match="1 or more, not 0"):
        domain_dataset(["sort"], steps=0)


def test_columns_cannot_be_read_in_advance():
    with pytest.raises(UserError, match="drawn step by step"):
        make()["key"]


class Clashing(Domain):
    name = "clashing"

    def draw(self, rng, difficulty):
        problem = get_domain("arith").draw(rng, 1)
        return Problem(problem.key, self.name, problem.prompt, {"completion": "x"})


def test_a_column_that_trl_uses_itself_is_refused():
    data = domain_dataset([Clashing()], Curriculum([Clashing()]), steps=1, problems_per_step=2)
    with pytest.raises(UserError, match="'clashing' has the column 'completion'"):
        data.problem(0)
