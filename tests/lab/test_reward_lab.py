"""The Reward Lab without a browser: apply, refuse, undo, weigh, save, attack, train, show."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from rlkit import Reward, UserError
from rlkit.lab import reward_lab, stored_rollouts
from rlkit.lab.rewardlab import magic
from rlkit.lab.rewardlab.source import STARTING_SOURCE, make_reward, source_of
from rlkit.lab.rewardlab.state import RewardLabState
from rlkit.rewards import exact_answer, format_reward

SHORT = "def reward(completions):\n    return [float(len(text) < 20) for text in completions]\n"
SUM = """\
from rlkit.rewards import exact_answer, format_reward

reward = 0.9 * exact_answer + 0.1 * format_reward
"""
LOOP = "def reward(completions):\n    while True:\n        pass\n"


@pytest.fixture(autouse=True)
def no_front_end(monkeypatch):
    monkeypatch.setenv("RLKIT_HEADLESS", "1")


@pytest.fixture(scope="module")
def arith():
    return stored_rollouts().where(domain="arith")


@pytest.fixture
def state(arith):
    return RewardLabState(arith, "format_reward", time_limit_s=5.0)


# -- apply ----------------------------------------------------------------------------------


def test_source_is_taken_over_and_scores_everything(state, arith):
    before = state.scoring
    outcome = state.apply(SHORT)
    assert outcome.ok and "504 completions scored" in outcome.sentence
    assert state.source == SHORT
    assert state.scoring.values.tolist() == [float(len(r.text) < 20) for r in arith]
    assert state.before is before


def test_the_starting_source_judges_every_domain_and_is_too_easily_pleased_in_one():
    state = RewardLabState()
    assert state.source == STARTING_SOURCE
    assert state.scoring.known.all() and len(state.scoring) == 2000
    by_domain = {}
    for number in state.comparison.examples("paid_wrong"):
        group = state.stored.groups[state.stored.group_of[number]]
        by_domain[group.domain] = by_domain.get(group.domain, 0) + 1
    assert set(by_domain) == {"pyfunc"}
    assert state.weights == {
        "exact_answer": 0.9, "countdown_answer": 0.9, "looks_like_code": 0.9, "format_reward": 0.1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def reward(completions:\n    return 1", "line 1"),
        ("", "empty"),
        ("x = 1", "reward"),
        ("def reward(completions):\n    return [1.0]", "1 values for 504 completions"),
        ("def reward(completions):\n    return 1 / 0", "ZeroDivisionError"),
        ("import nothing_of_this_name\ndef reward(completions):\n    return []", "nothing_of"),
        ("def reward(completions):\n    return ['a'] * len(completions)", "number"),
        ("def reward(completions):\n    return [None] * len(completions)", "no verdict"),
        ("def reward(completions, poem):\n    return [0.0] * len(completions)", "poem"),
        ("import os\ndef reward(completions):\n    os._exit(0)", "process"),
    ],
)
def test_source_that_does_not_work_changes_nothing_and_says_why(state, source, says):
    version = state.version
    outcome = state.apply(source)
    assert not outcome.ok
    assert outcome.sentence.startswith("Nothing has changed: ")
    assert says in outcome.sentence
    assert "Traceback" not in outcome.sentence
    assert state.version is version and not state.can_undo


def test_an_endless_loop_ends_changes_nothing_and_the_next_source_works(arith):
    state = RewardLabState(arith, "format_reward", time_limit_s=1.0)
    began = time.monotonic()
    outcome = state.apply(LOOP)
    assert time.monotonic() - began < 30  # the wall clock ended it, and not the test's
    assert not outcome.ok and "1 s" in outcome.sentence
    assert state.apply(SHORT).ok


def test_source_is_never_run_in_this_process(state, tmp_path):
    told = tmp_path / "pid"
    source = (
        f"import os\nopen({str(told)!r}, 'w').write(str(os.getpid()))\n"
        "import builtins\nbuiltins.changed_by_reward = True\n" + SHORT
    )
    assert state.apply(source).ok
    assert int(told.read_text()) != os.getpid()
    import builtins

    assert not hasattr(builtins, "changed_by_reward")


def test_a_fault_names_the_line(state):
    source = (
        "def reward(completions, domain):\n"
        "    if domain[0] == 'arith':\n"
        "        raise KeyError('no sums today')\n"
        "    return [1.0] * len(completions)\n"
    )
    outcome = state.apply(source)
    assert not outcome.ok and "line 3" in outcome.sentence and "no sums today" in outcome.sentence


def test_domains_without_a_column_are_left_out_also_for_source_text():
    state = RewardLabState(stored_rollouts().where(step=0), "format_reward")
    outcome = state.apply(SUM)
    assert outcome.ok and "countdown has no column 'answer'" in outcome.sentence
    assert set(state.scoring.missing) == {"countdown", "pyfunc"}
    for numbers, columns in state.stored.calls:
        judged = columns["domain"][0] in ("arith", "sort")
        assert state.scoring.known[numbers].all() == judged == state.scoring.known[numbers].any()


# -- undo, weights, saving --------------------------------------------------------------------


def test_undo_and_redo_walk_through_the_versions(state):
    assert not state.can_undo and not state.undo().ok
    state.apply(SHORT)
    state.apply(SUM)
    assert state.undo().ok and state.source == SHORT
    assert state.undo().ok and "get_reward('format_reward')" in state.source
    assert not state.undo().ok
    assert state.redo().ok and state.source == SHORT
    state.apply(LOOP.replace("while True", "while False") + "    return [0.5] * len(completions)\n")
    assert not state.can_redo  # a new version takes the place of what was undone


def test_weights_move_without_scoring_again_and_are_one_step_back(state):
    state.apply(SUM)
    values = state.scoring.values.copy()
    assert state.weights == {"exact_answer": 0.9, "format_reward": 0.1}
    for weight in (0.2, 0.0, -0.5):  # also through zero and back
        assert state.set_weight("format_reward", weight).ok
    assert state.weights["format_reward"] == pytest.approx(-0.5)
    form = state.scoring.terms["format_reward"]
    assert state.scoring.values.tolist() == pytest.approx((values - 0.6 * form).tolist())
    assert state.source == SUM
    assert state.undo().ok and state.weights["format_reward"] == 0.1


def test_a_weight_of_what_is_not_there_is_refused(state):
    version = state.version
    assert not state.set_weight("style", 1.0).ok
    assert not state.set_weight("format_reward", float("nan")).ok
    assert state.version is version


def test_a_saved_file_gives_the_same_rewards(state, tmp_path, arith):
    state.apply(SUM)
    state.set_weight("format_reward", 0.6)
    file = tmp_path / "mine.py"
    assert state.save(file).ok
    values = state.scoring.values.tolist()
    assert RewardLabState(arith, file.read_text()).scoring.values.tolist() == pytest.approx(values)
    # And so does the reward object itself, in this process.
    ((_, columns),) = arith.calls
    assert state.reward(**columns) == pytest.approx(values)


@pytest.mark.parametrize(
    "source",
    [
        "def brief(completion):\n    return float(len(completion) < 20)\n",
        "def reward(completion):\n    return float(len(completion) < 20)\n",
        "def reward(completions):\n    return [float(len(c) < 20) for c in completions]\n",
        "from rlkit.rewards import exact_answer\nright = 2 * exact_answer\n",
    ],
)
def test_weights_can_be_saved_whatever_the_reward_is_called(state, source, arith):
    assert state.apply(source).ok
    (name,) = state.weights
    assert state.set_weight(name, 0.25).ok
    again = RewardLabState(arith, state.saved_source())
    assert again.scoring.values.tolist() == pytest.approx(state.scoring.values.tolist())
    assert again.scoring.values.max() == 0.25


def test_saving_never_overwrites_and_writes_python_only(state, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("precious")
    with pytest.raises(UserError, match="exists already"):
        state.save(file)
    assert file.read_text() == "precious"
    assert state.save(file, overwrite=True).ok
    with pytest.raises(UserError, match=r"end in \.py"):
        state.save(tmp_path / "mine.txt")
    with pytest.raises(UserError, match="cannot be written"):
        state.save(tmp_path / "nowhere" / "mine.py")


def test_a_reward_object_is_shown_by_its_source():
    assert "get_reward('exact_answer')" in source_of(exact_answer)

    def polite(completions):
        return [float("please" in text) for text in completions]

    text = source_of(Reward(polite))
    assert "# " in text and '"please" in text' in text
    assert all(line.startswith("#") for line in text.splitlines())
    _, source_reward = make_reward(SHORT, 5.0)
    assert source_of(source_reward) == SHORT


# -- the panel without widgets ------------------------------------------------------------------


@pytest.fixture
def lab(arith):
    return reward_lab(arith, "format_reward")


def test_the_lab_can_be_used_without_widgets(lab):
    assert lab.apply(SUM).ok
    assert lab.figure("contrast").layout.title.text
    assert lab.examples("changed", 3)
    assert str(lab.example(0)).startswith("Completion 0: answer 1 of 8")
    assert lab.set_weight("format_reward", 0.5).ok and lab.undo().ok and lab.undo().ok
    assert lab.redo().ok
    with pytest.raises(UserError, match="no view 'sideways'"):
        lab.figure("sideways")


def test_the_snapshot_says_it_all_in_text_and_in_html(lab):
    lab.apply(SUM)
    bundle = lab._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    for text in bundle.values():
        assert "wrong answers that are paid" in text
        assert "Refused though right" not in text  # there is none under this reward
        assert "Most changed" in text
    assert bundle["text/html"].count("<table>") >= 5


def test_the_cell_magic_applies_a_cell(lab):
    shown = magic.apply_cell(SUM)
    assert lab.state.source == SUM
    assert "504 completions scored" in str(shown)
    assert not magic.apply_cell("def broken(").ok
    assert lab.state.source == SUM


def test_the_cell_magic_in_a_real_kernel_shell(arith):
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        lab = reward_lab(arith, "format_reward")
        assert shell.run_cell_magic("reward", "", SUM) is not None
        assert lab.state.source == SUM
        with pytest.raises(UserError, match="nothing on its own line"):
            shell.run_cell_magic("reward", "fast", SUM)
    finally:
        InteractiveShell.clear_instance()


def test_attacks_are_run_and_belong_to_their_reward(lab):
    naive = (
        "def reward(completions, answer):\n"
        "    return [float(a in c) for c, a in zip(completions, answer)]\n"
    )
    assert lab.apply(naive).ok
    found = lab.attack()
    assert set(found.cards) == {"arith"}
    assert len(found.cards["arith"].holes) > 0
    assert "went through" in found.sentence and found.sentence in lab.snapshot().text
    lab.apply(SUM)
    assert lab.attacks is None  # they told of another reward


def test_it_is_imported_without_widgets():
    code = (
        "import sys; sys.modules['ipywidgets'] = None\n"
        "from rlkit.lab import reward_lab, stored_rollouts\n"
        "lab = reward_lab(stored_rollouts().where(domain='sort', step=0), 'exact_answer')\n"
        "print(lab.snapshot().text.splitlines()[0].split())\n"
        "print('torch' in sys.modules)\n"
    )
    environment = {**os.environ, "RLKIT_HEADLESS": "1"}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert out.returncode == 0, out.stderr
    assert out.stdout.splitlines() == ["['before', 'now']", "False"]


def test_it_trains_beside_with_the_reward_in_force(lab):
    lab.apply(SUM)
    lab.set_weight("format_reward", 0.0)
    training = lab.train(2, seed=3)
    assert training.state == "finished" and len(training.rows) == 2
    # Form is worth nothing, so the mean reward is 0.9 times the share that is right.
    for row in training.rows:
        assert row["reward"] == pytest.approx(0.9 * row["pass_rate"], abs=1e-6)
    assert "step 2 of 2" in training.sentence and training.sentence in lab.snapshot().text
    figure = training.figure()
    assert [list(trace.x) for trace in figure.data] == [[1, 2], [1, 2]]
    with pytest.raises(UserError, match="steps must be a whole number"):
        lab.train(0)
    assert format_reward.name  # the built-in is what it was: training used its own
