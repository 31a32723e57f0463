"""Policy: a language model that answers problems and can score its answers.

It is an ordinary `transformers` model with a `peft` adapter, plus the four
things a training loop needs from it: generate, score, a reference, and a way
back. It is not a trainer: it owns no optimizer and no learning rate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from rlkit.errors import UserError
from rlkit.policy import adapters
from rlkit.policy.engine.sampling import Sampling
from rlkit.policy.generation import Sampled, uniform_streams
from rlkit.policy.loading import (
    Precision,
    add_lora,
    end_ids,
    load_base,
    load_tokenizer,
    resolve_device,
    resolve_source,
)
from rlkit.policy.lora import LoraSpec
from rlkit.policy.prompts import check_request, encode_prompt
from rlkit.policy.rollout import Group, Rollout
from rlkit.policy.sampler import RolloutKind, Sampler
from rlkit.policy.saving import saved_policy, write_policy
from rlkit.policy.scorer import LearnerKind, Scorer
from rlkit.policy.scoring import Scored
from rlkit.tasks import Problem


class Policy:
    """A causal language model, its tokenizer and its adapter.

    Build one with `Policy.load`. `version` counts the updates it has seen.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        precision: Precision,
        lora: LoraSpec | None,
        quantize: str | None,
        seed: int,
        pretrained_adapter: bool = False,
        rollouts: RolloutKind = "exact",
        learner: LearnerKind = "auto",
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.precision = precision
        self.lora = lora
        self.quantize = quantize
        self.seed = seed
        self.version = 0
        self.end_ids = end_ids(model, tokenizer)
        pads = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0)
        self.pad_id = next(i for i in pads if i is not None)
        self.sampler = Sampler(model, rollouts, self.pad_id)
        self.scorer = Scorer(model, learner, self.sampler, self.pad_id)
        self._draws = 0
        # A fresh adapter does nothing, so the base is its reference. One that was
        # trained before is its own reference, and has to be copied.
        self._reference = self.snapshot() if pretrained_adapter else None

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        quantize: str | None = "nf4",
        lora: LoraSpec | None = None,
        device: str = "auto",
        seed: int = 0,
        rollouts: RolloutKind = "exact",
        learner: LearnerKind = "auto",
    ) -> Policy:
        """Loads a policy by name.

        Args:
            name: `tiny`, `smol`, a folder with a model or with a saved policy, or a hub id.
            quantize: `nf4` for a base in four bits, `None` for plain weights. Where
                four bits cannot run, a warning says so; see `policy.precision`.
            lora: size of a fresh adapter; `None` for none. A saved policy brings its own.
            device: `auto`, `cpu` or `cuda`.
            seed: decides the adapter's first weights and everything that is sampled.
            rollouts: `exact` samples from the numbers that are trained; `fast` from a copy
                in this machine's fastest type, some hundredths of a nat away, which needs an
                objective with an off-policy correction; `plain` through the model itself.
            learner: `copy` trains through the same copy that answers come from, `model`
                through the model itself; `auto` through the copy where it can.

        Raises:
            UserError: unknown name, device or quantisation, or a model that cannot be loaded.
        """
        device = resolve_device(device)
        source = resolve_source(name)
        saved = saved_policy(source)
        if saved is not None:
            return cls._load_saved(source, saved, quantize, lora, device, seed, rollouts, learner)
        tokenizer = load_tokenizer(source)
        model, precision = load_base(source, quantize, device)
        if lora is not None:
            model = add_lora(model, lora, seed)
        elif precision.four_bit_layers:
            model.requires_grad_(False)  # packed weights cannot be trained, so nothing is
        return cls(
            model,
            tokenizer,
            name=str(name),
            precision=precision,
            lora=lora,
            quantize=quantize,
            seed=seed,
            rollouts=rollouts,
            learner=learner,
        )

    @classmethod
    def _load_saved(
        cls,
        folder: str,
        saved: dict[str, Any],
        quantize: str | None,
        lora: LoraSpec | None,
        device: str,
        seed: int,
        rollouts: RolloutKind,
        learner: LearnerKind,
    ) -> Policy:
        if lora is not None:
            raise UserError(f"{folder!r} has an adapter already; load it with lora=None")
        from peft import PeftModel

        base = resolve_source(saved["base"])
        model, precision = load_base(base, quantize, device)
        model = PeftModel.from_pretrained(
            model, folder, is_trainable=True, autocast_adapter_dtype=True
        ).eval()
        policy = cls(
            model,
            load_tokenizer(folder),
            name=saved["base"],
            precision=precision,
            lora=saved["lora"],
            quantize=quantize,
            seed=seed,
            pretrained_adapter=True,
            rollouts=rollouts,
            learner=learner,
        )
        policy.version = saved["version"]
        return policy

    # -- what it is -------------------------------------------------------------

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def context(self) -> int:
        """Longest sequence, prompt and completion together, in tokens."""
        return int(getattr(self.model.config, "max_position_embeddings", 1 << 30))

    def trainable(self) -> dict[str, torch.nn.Parameter]:
        """The parameters that an update may change, by name."""
        return {n: p for n, p in self.model.named_parameters() if p.requires_grad}

    def parameter_counts(self) -> tuple[int, int]:
        """Numbers of all parameters and of those that are trained."""
        trained = sum(p.numel() for p in self.trainable().values())
        total = 0
        for parameter in self.model.parameters():
            state = getattr(parameter, "quant_state", None)
            shape = state.shape if state is not None else parameter.shape
            total += int(torch.Size(shape).numel())
        return total, trained

    def describe(self) -> dict[str, Any]:
        """What a run's `config.json` keeps of the policy."""
        total, trained = self.parameter_counts()
        return {
            "name": self.name,
            "quantize": self.quantize,
            "precision": str(self.precision),
            "rollouts": str(self.sampler),
            "learner": str(self.scorer),
            "lora": None if self.lora is None else vars(self.lora).copy(),
            "seed": self.seed,
            "parameters": total,
            "trainable_parameters": trained,
        }

    # -- prompts ------------------------------------------------------------------

    def encode(self, problem: Problem) -> list[int]:
        """Token ids of the rendered prompt, generation prompt included.

        The text is tokenised once and carries one beginning-of-sequence id at most.
        """
        return encode_prompt(self.tokenizer, [dict(m) for m in problem.prompt])

    # -- acting -------------------------------------------------------------------

    def generate(
        self,
        problems: Sequence[Problem],
        group_size: int = 1,
        max_new_tokens: int = 64,
        temperature: float = 1.0,
        *,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        stop: Sequence[str] = (),
    ) -> list[Group]:
        """Answers each problem `group_size` times.

        Args:
            problems: B problems.
            group_size: G rollouts a problem.
            max_new_tokens: budget of a completion, in tokens.
            temperature: divides the logits; 0 takes the likeliest token each time.
            top_k, top_p, min_p: forbid unlikely tokens, see `Sampling`; the behaviour
                log-probabilities are then those of the narrower distribution, which
                `score` does not know, so train without them.
            stop: texts that end an answer; the ids keep them, the text ends before them.

        Returns:
            B groups of G rollouts with behaviour log-probabilities. The same policy,
            seed and number of earlier calls give the same rollouts.

        Raises:
            UserError: no problems, sizes out of range, or a prompt that leaves no room.
        """
        check_request(problems, group_size, max_new_tokens, temperature)
        sampling = Sampling(temperature, top_k, top_p, min_p, stop)
        prompts = [self.encode(problem) for problem in problems]
        for problem, prompt in zip(problems, prompts, strict=True):
            if len(prompt) + max_new_tokens > self.context:
                raise UserError(
                    f"problem {problem.key} has a prompt of {len(prompt)} tokens; with "
                    f"{max_new_tokens} new tokens it does not fit the context of {self.context} "
                    f"tokens of {self.name!r}; shorten the prompt or lower max_new_tokens"
                )
        sampled = self.sample(prompts, group_size, max_new_tokens, sampling)
        groups: list[Group] = []
        for i, (problem, prompt) in enumerate(zip(problems, prompts, strict=True)):
            rows = sampled[i * group_size : (i + 1) * group_size]
            rollouts = tuple(self._rollout(problem, prompt, s, sampling) for s in rows)
            groups.append(Group(problem, rollouts))
        return groups

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        group_size: int,
        max_new_tokens: int,
        sampling: Sampling,
    ) -> list[Sampled]:
        """Continues B prompts of token ids, `group_size` times each, group after group."""
        self._draws += 1
        self.model.eval()
        uniform_NT = uniform_streams(
            self.seed, self._draws, 0, len(prompts) * group_size, max_new_tokens
        )
        return self.sampler.generate(
            prompts,
            group_size,
            max_new_tokens,
            sampling,
            self.end_ids,
            uniform_NT,
            self.tokenizer.decode,
        )

    def _rollout(
        self, problem: Problem, prompt: list[int], s: Sampled, sampling: Sampling
    ) -> Rollout:
        # The end mark is cut by its position, never looked for in the text.
        ended = s.stopped and s.ids[-1] in self.end_ids
        text = self.tokenizer.decode(s.ids[:-1] if ended else s.ids, skip_special_tokens=True)
        if s.stopped and not ended:
            text = text[: min(i for i in map(text.find, sampling.stop) if i >= 0)]
        return Rollout(
            problem=problem,
            prompt_ids=tuple(prompt),
            completion_ids=tuple(s.ids),
            behaviour_logprobs=tuple(s.logprobs),
            trainable=(1,) * len(s.ids),
            text=text,
            finish_reason="stop" if s.stopped else "length",
            policy_version=self.version,
            temperature=sampling.temperature,
        )

    def score(self, rollouts: Sequence[Rollout]) -> Scored:
        """Log-probabilities and entropies of rollouts under the policy as it is now.

        Gradients flow to the trainable parameters unless switched off around the call.
        Dropout is off whatever mode the model is in; the mode is put back afterwards.
        """
        was_training = self.model.training
        self.model.eval()
        try:
            return self.scorer.score(rollouts)
        finally:
            self.model.train(was_training)

    @contextmanager
    def reference(self) -> Iterator[Policy]:
        """Within this block the policy is the one that training started from.

        With a fresh adapter that is the base alone; an adapter that was trained before
        is put back to the state it was loaded in. Everything is restored at the end,
        also after an error or Ctrl-C.

        Raises:
            UserError: there is no adapter, so the starting point was not kept.
        """
        if self.lora is None:
            raise UserError(
                "a policy without LoRA keeps no reference; load it with lora=LoraSpec()"
            )
        if self._reference is not None:
            now = self.snapshot()
            try:
                self.restore(self._reference)
                yield self
            finally:
                self.restore(now)
            return
        flags = {n: p.requires_grad for n, p in self.model.named_parameters()}
        try:
            with self.model.disable_adapter():
                yield self
        finally:
            for n, p in self.model.named_parameters():
                p.requires_grad_(flags[n])

    def extend_reference(self) -> None:
        """Takes parameters that came later, such as a value head, into a copied reference."""
        if self._reference is not None:
            self._reference = {**self.snapshot(), **self._reference}

    # -- keeping and going back -----------------------------------------------------

    def snapshot(self) -> dict[str, torch.Tensor]:
        """A deep copy of the trainable parameters, by name."""
        return {n: p.detach().clone() for n, p in self.trainable().items()}

    def restore(self, snapshot: Mapping[str, torch.Tensor]) -> None:
        """Puts the trainable parameters back to a snapshot, in place.

        Raises:
            UserError: the snapshot belongs to another adapter.
        """
        parameters = self.trainable()
        if set(parameters) != set(snapshot):
            raise UserError(
                f"the snapshot has {len(snapshot)} tensors and the policy trains "
                f"{len(parameters)}; it belongs to another adapter"
            )
        with torch.no_grad():
            for name, parameter in parameters.items():
                if parameter.shape != snapshot[name].shape:
                    raise UserError(
                        f"{name} has shape {tuple(parameter.shape)} here and "
                        f"{tuple(snapshot[name].shape)} in the snapshot"
                    )
                parameter.copy_(snapshot[name])

    def state_dict(self) -> dict[str, Any]:
        """What is needed, beside the trainable tensors, to go on as if never stopped."""
        return {"seed": self.seed, "draws": self._draws, "version": self.version}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.seed, self._draws = int(state["seed"]), int(state["draws"])
        self.version = int(state["version"])

    def save(self, folder: str | Path) -> Path:
        """Writes the adapter in the peft format, tokenizer beside it.

        The folder is written aside and renamed, so it is whole or absent.

        Raises:
            UserError: the policy has no adapter.
        """
        if self.lora is None:
            raise UserError("there is no adapter to save; load the policy with lora=LoraSpec()")
        folder = Path(folder)
        write_policy(self, folder)
        return folder

    # -- other policies on the same base, and the adapter merged: see `rlkit.policy.adapters` ---

    def beside(self, folder: str | Path | None = None, **options: Any) -> Policy:
        """A second policy on this base, with a saved or a fresh adapter (`lora=`, `seed=`)."""
        return adapters.beside(self, folder, **options)

    def merged(self, dtype: str = "float32") -> Any:
        """An ordinary model with the adapter merged; the policy is not changed."""
        return adapters.merged(self, dtype)

    def export_merged(self, folder: str | Path, dtype: str = "float32") -> Path:
        """Writes the merged model and the tokenizer, whole or not at all."""
        return adapters.export_merged(self, folder, dtype)

    def fingerprint(self) -> str:
        """Hash of the trainable parameters; equal adapters have equal hashes."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.snapshot().items()):
            digest.update(name.encode())
            digest.update(tensor.cpu().float().numpy().tobytes())
        return digest.hexdigest()[:16]
