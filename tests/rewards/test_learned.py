"""learned_reward: a reward model that is really trained, and what is refused."""

from __future__ import annotations

import json
import pickle
import random

import pytest

pytest.importorskip("trl")

import torch

from rlkit.errors import UserError
from rlkit.rewards import Calibration, Preference, learned_reward, train_reward_model
from rlkit.rewards.audit import audit
from rlkit.rewards.learned import encode

WORDS = ("apple", "bridge", "cloud", "door", "engine", "flower", "garden", "house", "island")


def pairs(count, seed):
    """The same right answer, short or with idle words behind it: short is better."""
    rng = random.Random(f"pairs/{seed}")
    made = []
    for _ in range(count):
        a, b = rng.randint(10, 99), rng.randint(10, 99)
        right = f"<answer>{a + b}</answer>"
        idle = " ".join(rng.choices(WORDS, k=rng.randint(3, 8)))
        made.append(
            Preference([{"role": "user", "content": f"{a} + {b} = ?"}], right, f"{right} {idle}")
        )
    return made


@pytest.fixture(scope="module")
def trained(untrained, tmp_path_factory):
    """A reward model that learned from 120 pairs in 25 updates, and the report on it."""
    folder = tmp_path_factory.mktemp("reward") / "model"
    before = (random.getstate(), torch.get_rng_state())
    report = train_reward_model(
        pairs(120, 0), untrained, folder, steps=25, learning_rate=1e-3, held_out=0.2, seed=3
    )
    # The caller's random numbers go on as if nothing had happened.
    assert random.getstate() == before[0] and torch.equal(torch.get_rng_state(), before[1])
    return folder, report


def test_it_learns_and_says_how_well(trained):
    _, report = trained
    # 120 prompts, a fifth of them held out; two draws of the same prompt stay together.
    assert report.held_out == 24 and report.pairs == 96 and report.left_out == 0
    assert report.accuracy > 0.8
    assert report.losses[-1] < 0.5 * report.losses[0]
    assert "held-out pairs rightly" in str(report)


def test_it_orders_pairs_that_it_never_saw(trained):
    reward = learned_reward(trained[0])
    unseen = pairs(60, seed=1)
    prompts = [pair.prompt for pair in unseen]
    better = reward(completions=[pair.chosen for pair in unseen], prompts=prompts)
    worse = reward(completions=[pair.rejected for pair in unseen], prompts=prompts)
    right = sum(b > w for b, w in zip(better, worse, strict=True)) / len(unseen)
    assert right > 0.8


def test_values_are_calibrated_and_the_raw_output_is_a_part(trained):
    folder, report = trained
    reward = learned_reward(folder)
    assert reward.bounds == (-3.0, 3.0)
    assert reward.calibration == Calibration(report.mean, report.std)
    rows = {"completions": ["<answer>5</answer>"], "prompts": ["2 + 3 = ?"]}
    score = reward.score(**rows)[0]
    raw = learned_reward(folder, calibration=None)(**rows)[0]
    assert score.parts["raw"] == pytest.approx(raw, abs=1e-5)
    by_hand = max(-3.0, min(3.0, (raw - report.mean) / report.std))
    assert score.value == pytest.approx(by_hand, abs=1e-4)


def test_calibrating_on_other_answers(trained):
    reward = learned_reward(trained[0], calibration=None)
    texts = ["<answer>5</answer>", "<answer>5</answer> cloud door cloud door"]
    prompts = ["2 + 3 = ?"] * 2
    own = reward.calibrated(texts, prompts)
    # Of two values, one lies one standard deviation above the mean and the other below it.
    assert sorted(own(completions=texts, prompts=prompts)) == pytest.approx([-1.0, 1.0], abs=1e-4)
    assert reward.calibration is None
    with pytest.raises(UserError, match="give no scale"):
        reward.calibrated(texts[:1], prompts[:1])


def test_batches_order_and_repetition_change_nothing(trained):
    texts = [f"<answer>{n}</answer>" + " door" * (n % 7) for n in range(30)]
    prompts = ["1 + 1 = ?"] * 30
    one = learned_reward(trained[0], batch_size=1)(completions=texts, prompts=prompts)
    many = learned_reward(trained[0], batch_size=16)
    backwards = many(completions=texts[::-1], prompts=prompts)[::-1]
    assert backwards == pytest.approx(one, abs=5e-5)
    assert many(completions=texts, prompts=prompts) == backwards


def test_training_mode_and_dropout_change_nothing(trained):
    reward = learned_reward(trained[0])
    rows = {"completions": ["<answer>5</answer>"], "prompts": ["2 + 3 = ?"]}
    first = reward(**rows)
    reward._model.train()
    reward._known.clear()
    assert reward(**rows) == first
    assert reward._model.training  # put back as it was found


def test_it_is_pickled_by_its_folder(trained):
    reward = learned_reward(trained[0])
    rows = {"completions": ["<answer>5</answer>", "cloud"], "prompts": ["2 + 3 = ?"] * 2}
    expected = reward(**rows)
    data = pickle.dumps(reward)
    assert len(data) < 5000
    assert pickle.loads(data)(**rows) == expected


def test_what_is_too_long_has_no_verdict(trained):
    reward = learned_reward(trained[0])
    scores = reward.score(completions=["door " * 200, "door"], prompts=["q"] * 2)
    assert (scores[0].value, scores[0].status) == (None, "TOO_LONG")
    assert "it reads 128" in scores[0].reason
    assert scores[1].value is not None


def test_the_same_seed_gives_the_same_model(untrained, tmp_path):
    outs = []
    for n in range(2):
        report = train_reward_model(
            pairs(20, 0), untrained, tmp_path / str(n), steps=2, batch_size=4, seed=7
        )
        outs.append((report.losses, report.mean, report.accuracy))
    assert outs[0] == outs[1]
    other = train_reward_model(
        pairs(20, 0), untrained, tmp_path / "other", steps=2, batch_size=4, seed=8
    )
    assert other.mean != outs[0][1]


def test_long_pairs_are_left_out_and_counted(untrained, tmp_path):
    given = [*pairs(10, 0), Preference("q", "door " * 300, "a"), Preference("q", "b", "c " * 300)]
    report = train_reward_model(
        given, untrained, tmp_path / "out", steps=1, batch_size=4, held_out=0
    )
    assert (report.pairs, report.left_out, report.held_out, report.accuracy) == (10, 2, 0, None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out"]  # nothing else is left behind
    facts = json.loads((tmp_path / "out" / "reward_model.json").read_text())
    assert facts["max_length"] == 128 and facts["left_out"] == 2


def test_no_prompt_is_on_both_sides(untrained, tmp_path):
    prompt = [{"role": "user", "content": "one question"}]
    given = [Preference(prompt, f"good {n}", f"bad {n}") for n in range(6)]
    report = train_reward_model(given, untrained, tmp_path / "m", steps=1, batch_size=2)
    assert (report.pairs, report.held_out, report.accuracy) == (6, 0, None)


def test_marks_of_turns_in_an_answer_are_broken(untrained):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(untrained)
    ids = encode(tokenizer, "q", "a<|end|><|user|>b")
    marks = {tokenizer.convert_tokens_to_ids(t) for t in ("<|user|>", "<|assistant|>", "<|end|>")}
    clean = encode(tokenizer, "q", "ab")
    assert [i for i in ids if i in marks] == [i for i in clean if i in marks]


def test_a_language_model_is_no_reward_model(untrained):
    with pytest.raises(UserError, match="LlamaForCausalLM, which has no head"):
        learned_reward(untrained)(completions=["a"], prompts=["q"])


def test_two_outputs_are_no_reward(untrained, tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(untrained, num_labels=2)
    tokenizer = AutoTokenizer.from_pretrained(untrained)
    with pytest.raises(UserError, match="gives 2 numbers"):
        learned_reward(model, tokenizer)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="gives 2 numbers"):
        learned_reward(tmp_path)(completions=["a"], prompts=["q"])


def test_a_model_as_an_object(trained):
    from rlkit.rewards.learned import load_reward_model

    model, tokenizer = load_reward_model(str(trained[0]))
    reward = learned_reward(model, tokenizer)
    assert reward(completions=["<answer>5</answer>"], prompts=["q"])[0] is not None
    with pytest.raises(UserError, match="give its folder"):
        pickle.dumps(reward)
    with pytest.raises(UserError, match="with its tokenizer"):
        learned_reward(model)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pairs": []}, "at least two pairs"),
        ({"pairs": [{"prompt": "q", "chosen": "a"}] * 2}, "has no 'rejected'"),
        ({"pairs": [Preference("q", "a", "a")] * 2}, "prefers an answer to itself"),
        ({"pairs": ["x", "y"]}, "is a Preference or a mapping"),
        ({"steps": 0}, "steps"),
        ({"learning_rate": 3.0}, "learning_rate"),
        ({"held_out": 1.0}, "held_out"),
        ({"base": "no/such/base"}, "cannot be loaded"),
        ({"pairs": [Preference("q", "door " * 300, "a")] * 3}, "is left to train on"),
    ],
)
def test_training_that_cannot_be(untrained, tmp_path, change, says):
    wanted = {"pairs": pairs(4, 0), "base": untrained, "out": tmp_path / "m", **change}
    with pytest.raises(UserError, match=says):
        train_reward_model(**wanted)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_not_overwritten(untrained, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        train_reward_model(pairs(4, 0), untrained, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_settings_that_cannot_be(trained, tmp_path):
    with pytest.raises(UserError, match="batch_size"):
        learned_reward(trained[0], batch_size=0)
    with pytest.raises(UserError, match="'stored'"):
        learned_reward(trained[0], calibration="always")
    with pytest.raises(UserError, match="a spread above 0"):
        Calibration(0.0, 0.0)
    with pytest.raises(UserError, match="must know what was asked"):
        learned_reward(trained[0])(completions=["a"])
    (tmp_path / "reward_model.json").write_text("[]")
    with pytest.raises(UserError, match="cannot be read"):
        learned_reward(tmp_path)


def test_an_audit_finds_that_it_does_not_know_what_is_right(trained):
    """It has learned that short is good, and the card says so rather than pass it."""
    card = audit(learned_reward(trained[0]), limit_s=30.0)
    assert "child process" in card.how
    assert not card.passed
    assert card.section("precision and recall").passed is False
    assert card.section("attacks").figures["tried"] >= 10
    # Whatever it pays, it neither hangs nor raises, and it says the same again.
    assert {a.outcome for a in card.attacks} <= {"paid", "refused", "abstained", "withstood"}
    assert card.section("determinism").passed and card.section("time").passed
