"""learned_reward: a reward model, trained from preferences, as a reward.

A sequence classifier with one output reads question and answer and gives one number
(Christiano et al. 2017; Ouyang et al. 2022). Its scale is arbitrary, so by default it is
brought to the mean and spread that were measured when it was trained, and clipped.

A learned reward is a proxy: an optimiser finds what it pays by mistake. Carry a held-out
truth beside it (`.with_truth`) and audit it.

Training is in `rlkit.rewards.preferences`. Left out on purpose: heads for each token, and
models of processes rather than outcomes.

Axes: N rows, T tokens of question and answer.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlkit.errors import UserError
from rlkit.rewards.completions import completion_text
from rlkit.rewards.preferences import train_reward_model
from rlkit.rewards.reward import Reward, Score
from rlkit.rewards.untrusted import defused
from rlkit.rewards.verdict_cache import VerdictCache

__all__ = ["Calibration", "LearnedReward", "learned_reward", "train_reward_model"]

#: Facts about a reward model, beside its weights.
FACTS = "reward_model.json"
#: How far a calibrated value may lie from the mean, in standard deviations.
CLIP = 3.0
#: Values are rounded to so many digits: below that they depend on the batch they came in.
DIGITS = 5


@dataclass(frozen=True)
class Calibration:
    """Mean and standard deviation of a model's raw outputs on answers it was measured on.

    >>> Calibration(mean=2.0, std=4.0).apply(10.0), Calibration(2.0, 4.0).apply(-99.0)
    (2.0, -3.0)
    """

    mean: float
    std: float
    clip: float = CLIP

    def __post_init__(self) -> None:
        numbers = (self.mean, self.std, self.clip)
        sound = all(isinstance(n, (int, float)) and math.isfinite(n) for n in numbers)
        if not sound or self.std <= 0 or self.clip <= 0:
            raise UserError(
                "a calibration has a finite mean, a spread above 0 and a clip above 0, not "
                f"{self.mean!r}, {self.std!r}, {self.clip!r}"
            )

    def apply(self, raw: float) -> float:
        """Standard deviations above the mean, within ±clip."""
        return max(-self.clip, min(self.clip, (raw - self.mean) / self.std))


class LearnedReward(Reward):
    """What a reward model gives for question and answer. Made by `learned_reward`.

    Parts: `raw`, the model's output before calibration. A row that is longer than the
    model may read has no verdict (`TOO_LONG`); nothing is cut in silence.

    Attributes:
        calibration: see `Calibration`; `None` gives the raw output.
        folder: where the model lies; `None` for one that was given as an object.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        calibration: Calibration | str | None = "stored",
        batch_size: int = 16,
        max_length: int | None = None,
        device: str = "auto",
        name: str = "learned_reward",
    ) -> None:
        self.folder = str(model) if isinstance(model, (str, Path)) else None
        facts = {} if self.folder is None else _facts(Path(self.folder))
        if isinstance(calibration, str):
            if calibration != "stored":
                raise UserError(f"calibration is a Calibration, None or 'stored': {calibration!r}")
            stored = facts.get("calibration")
            calibration = None if stored is None else Calibration(**stored)
        bounds = (None, None) if calibration is None else (-calibration.clip, calibration.clip)
        super().__init__(self._run, name, bounds=bounds)
        for what, value in (("batch_size", batch_size), ("max_length", max_length or 1)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UserError(f"{what} is a whole number from 1 up, not {value!r}")
        if self.folder is None and (tokenizer is None or not callable(model)):
            raise UserError(
                "a reward model is a folder, the id of one, or a model with its tokenizer"
            )
        self.calibration = calibration
        self.batch_size = batch_size
        self.max_length = max_length or facts.get("max_length")
        self.device = device
        self._lock = threading.Lock()
        self._known = VerdictCache(20_000)
        self._model, self._tokenizer = (None, None) if self.folder else (model, tokenizer)
        if self._model is not None:
            # Made in memory: its class tells its head, its config may still tell its origin.
            _check_head(self._model.config, "the model", [type(self._model).__name__])

    # -- scoring --------------------------------------------------------------------------------

    def raw(self, completions: Sequence[Any], prompts: Sequence[Any]) -> list[float | None]:
        """The model's own output for each row; `None` where it is too long to read."""
        texts = [completion_text(completion) for completion in completions]
        return [value for value, _ in self._values(texts, list(prompts))]

    def calibrated(
        self, completions: Sequence[Any], prompts: Sequence[Any], clip: float = CLIP
    ) -> LearnedReward:
        """The same reward, brought to mean 0 and spread 1 on these answers.

        Raises:
            UserError: fewer than two answers that it can read, or all worth the same.
        """
        raw = [value for value in self.raw(completions, prompts) if value is not None]
        copied = self.__copy__()
        copied.calibration = calibration_of(raw, clip)
        copied.bounds = (-clip, clip)
        return copied

    def _run(
        self,
        *,
        completions: Sequence[str],
        prompts: Any = None,
        question: Any = None,
    ) -> list[Score]:
        asked = prompts if prompts is not None else question
        if asked is None:
            raise UserError(f"reward {self.name!r} must know what was asked: give prompts")
        if isinstance(asked, (str, bytes)) or len(asked) != len(completions):
            raise UserError(f"reward {self.name!r} needs one prompt for each completion")
        scores = []
        for raw, length in self._values(list(completions), list(asked)):
            if raw is None:
                reason = f"question and answer have {length} tokens; it reads {self.max_length}"
                scores.append(Score(None, "TOO_LONG", {"raw": None}, reason))
                continue
            value = raw if self.calibration is None else self.calibration.apply(raw)
            told = f"the model gives {raw:g}"
            scores.append(Score(round(value, DIGITS), "OK", {"raw": raw}, told))
        return scores

    def _values(self, texts: list[str], prompts: list[Any]) -> list[tuple[float | None, int]]:
        """Raw output and length of each row; a row that was seen before keeps its value."""
        with self._lock:
            self._load()
            rows = [
                tuple(encode(self._tokenizer, p, t)) for p, t in zip(prompts, texts, strict=True)
            ]
            found: dict[tuple[int, ...], float] = {}
            for row in dict.fromkeys(rows):
                known = self._known.get(row)
                if known is not None:
                    found[row] = known
            fresh = [r for r in dict.fromkeys(rows) if r not in found and self._fits(r)]
            # Rows of like length together: less padding, and less that depends on the batch.
            fresh.sort(key=len)
            for start in range(0, len(fresh), self.batch_size):
                part = fresh[start : start + self.batch_size]
                for row, value in zip(part, self._forward(part), strict=True):
                    found[row] = value
                    self._known.put(row, value)
            return [(found.get(row), len(row)) for row in rows]

    def _fits(self, row: Sequence[int]) -> bool:
        return self.max_length is None or len(row) <= self.max_length

    def _forward(self, rows: Sequence[Sequence[int]]) -> list[float]:
        import torch

        model = self._model
        device = next(model.parameters()).device
        longest = max(map(len, rows))
        pad = model.config.get_text_config().pad_token_id
        ids_NT = torch.full((len(rows), longest), pad, dtype=torch.long)
        mask_NT = torch.zeros((len(rows), longest), dtype=torch.long)
        for i, row in enumerate(rows):
            ids_NT[i, : len(row)] = torch.tensor(row)
            mask_NT[i, : len(row)] = 1
        was_training = model.training
        model.eval()
        try:
            with torch.inference_mode():
                logits_N1 = model(
                    input_ids=ids_NT.to(device), attention_mask=mask_NT.to(device)
                ).logits
        finally:
            model.train(was_training)
        return [round(v, DIGITS + 1) for v in logits_N1.float().squeeze(-1).tolist()]

    def _load(self) -> None:
        if self._model is None:
            self._model, self._tokenizer = load_reward_model(self.folder, self.device)
        if self._model.config.get_text_config().pad_token_id is None:
            raise UserError("the reward model has no padding token; set config.pad_token_id")
        room = getattr(self._model.config.get_text_config(), "max_position_embeddings", None)
        if room is not None and (self.max_length is None or self.max_length > room):
            self.max_length = int(room)

    # -- copies ------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        if self.folder is None:
            raise UserError(
                "a reward model that was given as an object cannot be sent to another process; "
                "save it, and give its folder"
            )
        handles = ("_model", "_tokenizer", "_lock", "_known")
        return {k: v for k, v in super().__getstate__().items() if k not in handles}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._model = self._tokenizer = None
        self._lock, self._known = threading.Lock(), VerdictCache(20_000)

    def __deepcopy__(self, memo: dict[int, Any]) -> LearnedReward:
        return self.__copy__()  # weights are not changed by scoring, so they are shared


def learned_reward(model: Any, tokenizer: Any = None, **options: Any) -> LearnedReward:
    """A reward model as a reward.

    Args:
        model: a folder or hub id with a sequence classifier of one output, as
            `train_reward_model` and TRL's `RewardTrainer` save it; or such a model.
        tokenizer: of a model that is given as an object.
        options: `calibration` (`"stored"`, a `Calibration`, or `None` for the raw output),
            `batch_size` in rows, `max_length` in tokens, `device`, `name`.

    Raises:
        UserError: nothing there, or something that is no reward model.

    >>> learned_reward("no/such/folder")(completions=["4"], prompts=["2 + 2?"])
    Traceback (most recent call last):
    ...
    rlkit.errors.UserError: 'no/such/folder' holds no reward model: there is no such folder...
    """
    return LearnedReward(model, tokenizer, **options)


def load_reward_model(folder: str, device: str = "auto") -> tuple[Any, Any]:
    """Model and tokenizer of a reward model, in eval mode and without gradients.

    Raises:
        UserError: nothing there, or no sequence classifier of one output.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(folder)
        _check_head(config, repr(folder), list(getattr(config, "architectures", None) or ()))
        model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except UserError:
        raise
    except (OSError, ValueError, KeyError) as error:
        why = "there is no such folder or model" if not Path(folder).is_dir() else str(error)
        raise UserError(f"{folder!r} holds no reward model: {why}"[:500]) from error
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.to(device).eval().requires_grad_(False), tokenizer


def _check_head(config: Any, what: str, made_for: Sequence[str]) -> None:
    """A head that is not in the file would be drawn at random, and its rewards with it."""
    classifier = any(name.endswith("ForSequenceClassification") for name in made_for)
    if made_for and not classifier:
        raise UserError(
            f"{what} is a {made_for[0]}, which has no head that gives a reward; train one with "
            "train_reward_model"
        )
    if getattr(config, "num_labels", None) != 1:
        raise UserError(
            f"{what} gives {getattr(config, 'num_labels', None)} numbers for an answer; a reward "
            "model gives one (num_labels=1)"
        )


def encode(tokenizer: Any, prompt: Any, completion: Any) -> list[int]:
    """Token ids of question and answer, the same in training and in scoring.

    With a chat template they are a chat; else the texts follow each other, with the end of
    sequence. Marks of turns in either text are broken, so that no turn can be forged.
    """
    marks = [str(token) for token in tokenizer.all_special_tokens]
    answer = defused(completion_text(completion), marks)
    turns: list[dict[str, str]] = []
    if isinstance(prompt, str):
        turns.append({"role": "user", "content": prompt})
    else:
        for message in prompt or ():
            if not isinstance(message, Mapping):
                raise UserError("a prompt is a text or a list of chat messages")
            said = completion_text({**message, "role": "assistant"})
            turns.append({"role": str(message.get("role", "user")), "content": said})
    turns = [{**turn, "content": defused(turn["content"], marks)} for turn in turns]
    if tokenizer.chat_template:
        turns.append({"role": "assistant", "content": answer})
        text = tokenizer.apply_chat_template(turns, tokenize=False)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    text = "".join(turn["content"] for turn in turns) + answer
    return [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]


def calibration_of(raw: Sequence[float], clip: float = CLIP) -> Calibration:
    """Mean and standard deviation of raw outputs.

    Raises:
        UserError: fewer than two, or all the same.

    >>> calibration_of([1.0, 3.0])
    Calibration(mean=2.0, std=1.0, clip=3.0)
    """
    if len(raw) < 2 or max(raw) - min(raw) < 1e-6:
        raise UserError(
            f"{len(raw)} answers with {len(set(raw))} different outputs give no scale; calibrate "
            "on answers that differ"
        )
    mean = math.fsum(raw) / len(raw)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in raw) / len(raw))
    return Calibration(mean, std, clip)


def write_facts(folder: Path, calibration: Calibration | None, **facts: Any) -> None:
    """Writes what a `LearnedReward` should know of the model in this folder."""
    kept = {"calibration": None if calibration is None else asdict(calibration), **facts}
    (folder / FACTS).write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def _facts(folder: Path) -> dict[str, Any]:
    """What stands in the folder's facts; nothing for a model from elsewhere."""
    file = folder / FACTS
    if not file.is_file():
        return {}
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(facts, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError) as error:
        raise UserError(f"{str(file)!r} cannot be read: {error}; delete it or train anew") from None
    return facts
