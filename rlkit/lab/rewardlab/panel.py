"""RewardLab: the Reward Lab as a panel. Made by `rlkit.lab.reward_lab`.

A thin shell around `RewardLabState`: everything the panel does can be done without it, in
a script or where a front end shows no widgets, and `snapshot` shows the same as text and
tables.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlkit.errors import UserError
from rlkit.lab.dashboard import Snapshot
from rlkit.lab.frontend import headless
from rlkit.lab.rewardlab.attacking import Attacks, attack
from rlkit.lab.rewardlab.comparison import EXAMPLES
from rlkit.lab.rewardlab.figures import VIEWS
from rlkit.lab.rewardlab.magic import register_magic
from rlkit.lab.rewardlab.source import fresh_reward
from rlkit.lab.rewardlab.state import TIME_LIMIT_S, Outcome, RewardLabState
from rlkit.lab.rewardlab.training import TrainingBeside
from rlkit.lab.rewardlab.words import Example, headline_html, headline_text
from rlkit.lab.theme import escape, figure_notes
from rlkit.rewards.source import warm_up

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Steps that the button trains.
TRAIN_STEPS = 20
HINT = (
    "If you see no buttons here, your front end shows no widgets. Write a cell that begins with "
    "%%reward, or call apply(source) of the lab, and look at its snapshot(); in Colab you can "
    "also run this once and build the lab again: "
    "from google.colab import output; output.enable_custom_widget_manager()"
)


def reward_lab(
    run_or_rollouts: Any = None, reward: Any = None, *, time_limit_s: float = TIME_LIMIT_S
) -> RewardLab:
    """Opens the Reward Lab: write a reward, and see at once what it would do.

    Args:
        run_or_rollouts: completions to score: the package's 2,000 when not given; a run
            directory or a `Run`; or what `stored_rollouts(...).where(...)` gives.
        reward: what stands in the box at first: source text, a `Reward`, its name, a
            function, or a mapping from domain to any of the last three.
        time_limit_s: seconds that scoring all completions may take.

    Raises:
        UserError: no completions, or a reward that cannot be made or cannot score them.

    >>> lab = reward_lab(reward="format_reward")
    >>> outcome = lab.apply("def reward(completions):\\n    return [0.5] * len(completions)")
    >>> outcome.ok, lab.state.comparison.confusion().unknown
    (True, 0)
    """
    return RewardLab(RewardLabState(run_or_rollouts, reward, time_limit_s=time_limit_s))


class RewardLab:
    """The lab as a panel. Make it the last line of a cell to see it.

    Attributes:
        state: what it knows; see `RewardLabState`.
        training: the latest run that was started from here, or `None`.
        attacks: the latest report cards, or `None`; those of an earlier reward are dropped.
    """

    def __init__(self, state: RewardLabState) -> None:
        self.state = state
        self.training: TrainingBeside | None = None
        self.attacks: Attacks | None = None
        self._attacked: Any = None
        self._controls: Any = None
        if not headless():
            from rlkit.lab.rewardlab.widgets import Controls

            self._controls = Controls(self)
            self._told(Outcome(True, f"{state.opening} Change the source and press Apply."))
        state.on_change(self._changed)
        warm_up()  # the next source finds a process that is ready
        register_magic(self)

    # -- what may be asked of it ------------------------------------------------------------

    def apply(self, source: Any) -> Outcome:
        """Scores all completions with another reward; nothing changes when that fails."""
        return self._told(self.state.apply(source))

    def set_weight(self, name: str, weight: float) -> Outcome:
        """Weighs a part anew, without scoring again."""
        return self._told(self.state.set_weight(name, weight))

    def undo(self) -> Outcome:
        """Back to the reward before."""
        return self._told(self.state.undo())

    def redo(self) -> Outcome:
        """Takes the last undo back."""
        return self._told(self.state.redo())

    def save(self, path: str | Path, *, overwrite: bool = False) -> Outcome:
        """Writes the reward's source into a Python file; see `RewardLabState.save`."""
        return self._told(self.state.save(path, overwrite=overwrite))

    def attack(self) -> Attacks:
        """Runs the audit's attacks against the reward in force; takes some seconds."""
        reward = fresh_reward(self.state)
        found = attack(reward, self.state.stored, self.state.scoring)
        self.attacks, self._attacked = found, self.state.version
        if self._controls is not None:
            self._controls.show_attacks(found)
        return found

    def attack_in_background(self) -> None:
        """As `attack`, while the buttons stay yours; what went wrong is shown."""
        threading.Thread(target=self._attack_safely, daemon=True).start()

    def train(self, steps: int = TRAIN_STEPS, *, seed: int = 0) -> TrainingBeside:
        """Trains `tiny` for some steps with the reward in force, beside the lab.

        Returns at once where there is a front end; otherwise when it is done.

        Raises:
            UserError: a training is going already, or `steps` is no whole number from 1.
        """
        if self.training is not None and self.training.going:
            raise UserError("a training is going already; stop it, or wait until it has ended")
        scoring, stored = self.state.scoring, self.state.stored
        judged = [
            columns["domain"][0]
            for numbers, columns in stored.calls
            if scoring.known[numbers].any()
        ]
        changed = (lambda: None) if self._controls is None else self._controls.training_changed
        self.training = TrainingBeside(
            fresh_reward(self.state), judged, steps, seed=seed, changed=changed
        )
        changed()
        return self.training

    def stop(self) -> None:
        """Ends the training after the step under way."""
        if self.training is not None:
            self.training.stop()

    # -- what it shows ----------------------------------------------------------------------

    def figure(self, view: str = "rewards") -> go.Figure:
        """One of the lab's figures: `rewards`, `parts`, `contrast`, `truth`, `advantages`.

        Raises:
            UserError: no such view.
        """
        if view not in VIEWS:
            raise UserError(f"there is no view {view!r}; choose from {', '.join(VIEWS)}")
        return VIEWS[view][1](self.state.comparison)

    def examples(self, kind: str = "paid_wrong", most: int = 10) -> list[Example]:
        """Completions that show something: `paid_wrong`, `refused_right`, `pushed_wrong`,
        `changed` or `unscored`, the most telling first."""
        compared = self.state.comparison
        return [Example(compared, number) for number in compared.examples(kind, most)]

    def example(self, number: int) -> Example:
        """One completion with its group."""
        return Example(self.state.comparison, number)

    def snapshot(self, note: str = "") -> Snapshot:
        """Everything the panel shows, as it is now, without widgets.

        Args:
            note: a sentence to stand on top.
        """
        compared = self.state.comparison
        text = [*([note] if note else []), headline_text(compared)]
        html = [*([f"<p>{escape(note)}</p>"] if note else []), headline_html(compared)]
        for _, draw in VIEWS.values():
            figure = draw(compared)
            text.append(figure.layout.meta["alt"])
            html.append(figure_notes(figure))
        for kind, name in EXAMPLES.items():
            shown = self.examples(kind, 3)
            if shown:
                text += [f"{name} ({compared.count(kind):,}):", *(f"  {e.label}" for e in shown)]
                listed = "".join(f"<li>{escape(e.label)}</li>" for e in shown)
                html.append(f"<p>{name} ({compared.count(kind):,}):</p><ul>{listed}</ul>")
        if self.attacks is not None:
            text.append(self.attacks.sentence)
            html.append(f"<p>{escape(self.attacks.sentence)}</p>")
        if self.training is not None:
            text.append(self.training.sentence)
            html.append(f"<p>{escape(self.training.sentence)}</p>")
        return Snapshot("\n".join(text), "".join(html))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return self.snapshot().beside(self._controls, HINT)

    # -- how it is done -----------------------------------------------------------------------

    def _told(self, outcome: Outcome) -> Outcome:
        if self._controls is not None:
            self._controls.say(outcome)
        return outcome

    def _changed(self) -> None:
        if self._attacked is not self.state.version:
            self.attacks = self._attacked = None
        if self._controls is not None:
            self._controls.draw()

    def _attack_safely(self) -> None:
        try:
            self.attack()
        except Exception as error:  # nobody is above this thread, so it is shown
            self._controls.attack_failed(error)
