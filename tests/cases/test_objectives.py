"""Cases of kind d: advantages, losses, ratios, divergence, log-probabilities, masks, adapters.

Every public row is a test, with its source beside it; the neighbours below it are our own,
in the same shape, so that the kind is fixed and not the row. One adapter maps each
operation to what the package offers.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlkit.objectives import (
    GRPO,
    Window,
    alive_groups,
    gdpo_advantages,
    grpo_advantages,
    high_entropy_mask,
    k1,
    k2,
    k3,
    log_ratios,
    masked_mean,
    normalise,
    sampled_entropy,
    token_ratios,
)
from rlkit.objectives import ratios as ratios_at
from rlkit.policy import LoraSpec, Policy, flatten
from rlkit.policy.generation import position_ids, sample_groups
from rlkit.policy.masks import completion_mask as mask_of
from rlkit.policy.prompts import encode_prompt
from rlkit.policy.sampler import Sampler
from rlkit.policy.scorer import Scorer
from rlkit.policy.scoring import score_rollouts
from rlkit.tasks import get_domain

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("public_d.jsonl").read_text("utf-8").splitlines()
]
#: The rows' names of the normalisers.
MODES = {"seq_mean": "sequence", "token_mean": "token", "fixed_len": "constant"}
NAN = float("nan")


def near(value: Any, row: dict[str, Any]) -> Any:
    """`value` as `approx`, within the tolerance that the row's note names."""
    found = re.search(r"tol (\de-\d)", row["note"])
    return pytest.approx(value, abs=float(found[1]) if found else 1e-6)


def numbers(values: Any) -> torch.Tensor:
    """Nested lists as a tensor of float64, `None` as NaN."""
    if isinstance(values, list):
        if not values:
            return torch.zeros(0, dtype=torch.float64)
        return torch.stack([numbers(v) for v in values])
    return torch.tensor(NAN if values is None else values, dtype=torch.float64)


def totals(given: dict[str, Any]) -> torch.Tensor:
    """Sum of the parts; a row of which every part abstains has no verdict."""
    parts_NK = numbers(given["rewards"])
    total_N = parts_NK.nansum(-1).masked_fill(parts_NK.isnan().all(-1), NAN)
    return total_N.view(-1, given["group_size"])


# -- advantages ----------------------------------------------------------------------------


def advantages(given: dict[str, Any], row: dict[str, Any]) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        # float32 is where residues bite.
        out, _ = grpo_advantages(totals(given).float(), given["eps"])
        again, _ = grpo_advantages(totals(given), given["eps"])
    assert out.flatten().tolist() == near(row["expected"], row)
    assert again.flatten().tolist() == near(row["expected"], row)
    assert any("group of one" in str(w.message) for w in said) == (given["group_size"] == 1)


def zero_signal_fraction(given: dict[str, Any], row: dict[str, Any]) -> None:
    alive_B = alive_groups(totals(given).float())
    assert (~alive_B).double().mean().item() == row["expected"]


def advantages_pair(given: dict[str, Any], row: dict[str, Any]) -> None:
    for name in ("a", "b"):
        rewards = numbers(given[name]).view(-1, given["group_size"])
        out, _ = grpo_advantages(rewards, given["eps"])
        assert out.flatten().tolist() == near(row["expected"][name], row)


# -- losses --------------------------------------------------------------------------------


def masked_loss(given: dict[str, Any], row: dict[str, Any]) -> None:
    mask_NT = torch.tensor(given["mask"]).bool()
    loss_NT = numbers(given["per_token_loss"])
    window = Window.of(mask_NT, given.get("max_len"))
    modes = given.get("modes", [given.get("mode")])
    out = {m: normalise(loss_NT, mask_NT, MODES[m], window).item() for m in modes}
    expected = row["expected"]
    assert out == near(expected if isinstance(expected, dict) else {modes[0]: expected}, row)


def accumulated_loss(given: dict[str, Any], row: dict[str, Any]) -> None:
    parts = [
        (numbers(part["per_token_loss"]), torch.tensor(part["mask"]).bool())
        for part in given["micro_batches"]
    ]
    tokens = sum(int(mask_NT.sum()) for _, mask_NT in parts)
    rollouts = sum(int(mask_NT.any(-1).sum()) for _, mask_NT in parts)
    window = Window(tokens, rollouts, max(mask_NT.shape[1] for _, mask_NT in parts))
    total = sum(float(normalise(loss, mask, MODES[given["mode"]], window)) for loss, mask in parts)
    assert total == near(row["expected"], row)


def accumulated_grad_scale(given: dict[str, Any], row: dict[str, Any]) -> None:
    """A whole batch against the same batch in `steps` parts, for each normaliser."""
    assert given["window_normalised"]
    steps = given["steps"]
    draw = torch.Generator().manual_seed(0)
    now = -torch.rand(2 * steps, 5, generator=draw)
    past, advantages_N = now - 0.05, torch.randn(2 * steps, generator=draw)
    mask = torch.rand(2 * steps, 5, generator=draw) > 0.3
    for normaliser in MODES.values():
        objective, window = GRPO(normaliser=normaliser), Window.of(mask)

        def gradient(size: int, objective=objective, window=window) -> torch.Tensor:
            leaf = now.clone().requires_grad_()
            for start in range(0, 2 * steps, size):
                at = slice(start, start + size)
                objective.loss(
                    leaf[at], past[at], advantages_N[at], mask[at], window=window
                ).loss.backward()
            return leaf.grad

        scale = gradient(2).norm() / gradient(2 * steps).norm()
        assert scale.item() == pytest.approx(row["expected"], abs=1e-5)


# -- divergence and ratios -----------------------------------------------------------------


def kl_k3(given: dict[str, Any], row: dict[str, Any]) -> None:
    assert k3(numbers(given["logp"]), numbers(given["ref_logp"])).item() == near(
        row["expected"], row
    )


def kl_k3_expectation(given: dict[str, Any], row: dict[str, Any]) -> None:
    p, q = numbers(given["p"]), numbers(given["q"])
    assert (p * k3(p.log(), q.log())).sum().item() == near(row["expected"], row)
    assert (p * k1(p.log(), q.log())).sum().item() == near(row["expected"], row)


def kl_k3_batch(given: dict[str, Any], row: dict[str, Any]) -> None:
    values = k3(numbers(given["logp"]).float(), numbers(given["ref_logp"]).float())
    assert bool((values >= 0).all()) == row["expected"]["all_nonnegative"]
    assert (values == 0).nonzero().flatten().tolist() == row["expected"]["zero_at"]


def ratio(given: dict[str, Any], row: dict[str, Any]) -> None:
    now, then = numbers([given["logp"]]), numbers([given["old_logp"]])
    mask_NT = torch.ones_like(now, dtype=torch.bool)
    log_NT, unknown_NT = log_ratios(now, then)
    out = ratios_at(log_NT, mask_NT, given["level"])
    assert out[0].tolist() == near(row["expected"], row)
    counted = GRPO().loss(now, then, torch.ones(1), mask_NT).sums["nonfinite_ratio"]
    assert counted == sum(v is None for v in given["old_logp"]) == int(unknown_NT.sum())


# -- log-probabilities ---------------------------------------------------------------------


@dataclass
class Speaker:
    """A stand-in for a model: it says the same logits at every position."""

    logits: list[float]

    def __post_init__(self) -> None:
        self.rows: list[int] = []

    def parameters(self):
        return iter([torch.nn.Parameter(torch.zeros(1))])

    def __call__(self, input_ids: torch.Tensor, logits_to_keep: int, **_: Any) -> Any:
        count, width = input_ids.shape
        logits = torch.tensor(self.logits).expand(count, logits_to_keep, -1)
        self.rows = list(range(width - logits_to_keep, width))
        return SimpleNamespace(logits=logits.contiguous())


def spoken(prompt: list[int], completion: list[int], temperature: float = 1.0) -> Any:
    from rlkit.policy import Rollout

    return Rollout(
        problem=get_domain("arith").held_out(1)[0],
        prompt_ids=tuple(prompt),
        completion_ids=tuple(completion),
        behaviour_logprobs=(0.0,) * len(completion),
        trainable=(1,) * len(completion),
        text="",
        finish_reason="stop",
        policy_version=0,
        temperature=temperature,
    )


def token_logprobs(given: dict[str, Any], row: dict[str, Any]) -> None:
    """Policy, and reference alike: both are scored by this one function."""
    rollout = spoken([0], [given["token"]], given["temperature"])
    scored = score_rollouts(Speaker(given["logits"]), [rollout], 0)
    assert scored.logprobs_NT.item() == near(row["expected"], row)


def completion_logprob_positions(given: dict[str, Any], row: dict[str, Any]) -> None:
    """A model whose logits name their own row: what is read says which row was used."""

    class Rows(Speaker):
        def __call__(self, input_ids: torch.Tensor, logits_to_keep: int, **_: Any) -> Any:
            width = input_ids.shape[1]
            logits = torch.zeros(1, width, 8)
            logits[0, :, 1] = torch.arange(width, dtype=torch.float32)
            return SimpleNamespace(logits=logits[:, -logits_to_keep:])

    length = given["completion_len"]
    rollout = spoken([1] * given["prompt_len"], [1] * length)
    out = score_rollouts(Rows([0.0]), [rollout], 0).logprobs_NT[0]
    whole = torch.zeros(given["prompt_len"] + length, 8)
    whole[:, 1] = torch.arange(len(whole), dtype=torch.float32)
    of_row = torch.log_softmax(whole, -1)[:, 1]
    used = [(of_row - value).abs().argmin().item() for value in out]
    assert used == row["expected"]["logit_rows_used"]


def score_twice(given: dict[str, Any], row: dict[str, Any]) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 64, "n_positions": 32}
    dropout = float(re.search(r"dropout ([\d.]+)", given["model"])[1])
    drops = {"resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout}
    model = GPT2LMHeadModel(GPT2Config(**sizes, **drops))
    model.train(given["mode_of_caller"] == "train")
    scorer = Scorer(model, "auto", Sampler(model, "plain", 0), 0)
    policy = SimpleNamespace(model=model, scorer=scorer)
    rollout = spoken([1, 2, 3], [4, 5, 6])
    first, second = (Policy.score(policy, [rollout]).logprobs_NT for _ in range(2))
    assert (first - second).abs().max().item() == row["expected"]["max_abs_logp_diff"]
    assert model.training == (given["mode_of_caller"] == "train")


def positions(given: dict[str, Any], row: dict[str, Any]) -> None:
    assert position_ids(torch.tensor(given["attention_mask"])).tolist() == row["expected"]


def ratio_same_weights(given: dict[str, Any], row: dict[str, Any], policy: Policy) -> None:
    assert given["dtype"] == "float32"
    rollouts = flatten(policy.generate(get_domain("arith").held_out(2), 4, 8))

    def logprobs(size: int) -> list[torch.Tensor]:
        out = []
        for start in range(0, len(rollouts), size):
            part = rollouts[start : start + size]
            scored = policy.score(part).logprobs_NT.detach()
            out += [scored[i, : len(r)] for i, r in enumerate(part)]
        return out

    old, new = logprobs(given["micro_batch_old"]), logprobs(given["micro_batch_new"])
    gaps = [
        (token_ratios(n[None], o[None])[0] - 1).abs().max().item()
        for n, o in zip(new, old, strict=True)
    ]
    assert max(gaps) <= row["expected"]["max_abs_ratio_minus_1"]


# -- masks and entropies -------------------------------------------------------------------


class Script:
    """A model that says given ids, whatever it is asked."""

    def __init__(self, ids: list[int]) -> None:
        self.ids, self.said = ids, 0

    def parameters(self):
        return iter([torch.nn.Parameter(torch.zeros(1))])

    def __call__(self, input_ids: torch.Tensor, **_: Any) -> Any:
        logits = torch.full((1, 1, 64), -100.0)
        logits[0, 0, self.ids[self.said]] = 100.0
        self.said += 1
        cache = SimpleNamespace(
            batch_repeat_interleave=lambda n: None, batch_select_indices=lambda keep: None
        )
        return SimpleNamespace(logits=logits, cache=cache)


def completion_mask(given: dict[str, Any], row: dict[str, Any]) -> None:
    masks, cut = mask_of(given["ids"], given["eos_ids"])
    assert masks == row["expected"]["mask"]
    assert cut == row["expected"]["truncated"]
    for ids, mask, was_cut in zip(given["ids"], masks, cut, strict=True):
        if not ids:  # a row without tokens weighs nothing, and breaks nothing
            scored = score_rollouts(Speaker([0.0, 1.0]), [spoken([1], [])], given["pad_id"])
            assert not scored.mask_NT.any()
            loss = (
                GRPO()
                .loss(scored.logprobs_NT, scored.behaviour_NT, torch.ones(1), scored.mask_NT)
                .loss
            )
            assert loss.item() == 0.0
            continue
        # The sampler itself, made to say these ids, stops where the mask does.
        (sampled,) = sample_groups(
            Script(ids),
            [[1]],
            1,
            len(ids),
            1.0,
            given["eos_ids"],
            given["pad_id"],
            torch.full((1, len(ids)), 0.5),
        )
        assert sampled.ids == ids[: sum(mask)]
        assert sampled.stopped == (not was_cut)


def entropy_mean(given: dict[str, Any], row: dict[str, Any]) -> None:
    mean = masked_mean(numbers(given["entropies"]), torch.tensor(given["mask"]))
    assert mean.item() == near(row["expected"], row)


def entropy_from_logprobs(given: dict[str, Any], row: dict[str, Any]) -> None:
    value = sampled_entropy(numbers(given["logprobs"]), torch.tensor(given["mask"])).item()
    assert value == near(row["expected"]["value"], row)
    assert (value >= 0) == row["expected"]["nonnegative"]


def top_entropy_mask(given: dict[str, Any], row: dict[str, Any]) -> None:
    out = high_entropy_mask(
        numbers(given["entropies"]), torch.tensor(given["mask"]), given["top_fraction"]
    )
    assert out.int().tolist() == row["expected"]


# -- prompts and adapters ------------------------------------------------------------------


def encode(given: dict[str, Any], row: dict[str, Any], policy: Policy) -> None:
    """A tokenizer that adds its own BOS where it is asked for special tokens."""

    class Tokenizer:
        bos_token = given["bos_token"]
        chat_template = "there is one" if given["templated"] else None

        def apply_chat_template(self, messages: Any, **_: Any) -> str:
            return given["rendered"]

        def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
            adds = add_special_tokens and given["tokenizer_adds_bos"]
            starts = text.startswith(given["bos_token"])
            rest = text.removeprefix(given["bos_token"])
            head = [given["bos_id"]] * (int(adds) + int(starts))
            return {"input_ids": head + [10 + ord(c) for c in rest]}

    content = given["rendered"].removesuffix("\n")
    ids = encode_prompt(Tokenizer(), [{"role": "user", "content": content}])
    assert ids.count(given["bos_id"]) == row["expected"]["bos_count"]


def build_prompt(given: dict[str, Any], row: dict[str, Any], policy: Policy) -> None:
    """With a template of the row's own shape, on a real tokenizer."""
    tokenizer = policy.tokenizer
    kept = tokenizer.chat_template
    tokenizer.chat_template = (
        "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
    )
    try:
        ids = encode_prompt(tokenizer, given["messages"])
        expected = tokenizer(given["already_rendered"], add_special_tokens=False)["input_ids"]
        assert ids == expected
        rendered = tokenizer.apply_chat_template(
            given["messages"], tokenize=False, add_generation_prompt=True
        )
        assert rendered.count("<|assistant|>") == row["expected"]["assistant_headers"]
    finally:
        tokenizer.chat_template = kept


def stir(policy: Policy, seed: int = 5) -> None:
    """An adapter as after some updates."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.trainable().values():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=draw))


def step0_kl(policy: Policy) -> Callable[[], float]:
    rollouts = flatten(policy.generate(get_domain("arith").held_out(2), 2, 8))

    def kl() -> float:
        with torch.no_grad():
            now = policy.score(rollouts)
            with policy.reference():
                then = policy.score(rollouts)
        return masked_mean(k3(now.logprobs_NT, then.logprobs_NT), now.mask_NT).item()

    return kl


def reference_kl_at_step0(given: dict[str, Any], row: dict[str, Any], folder: Path) -> None:
    untrained, scratch = folder
    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=1)
    if "pretrained" in given["adapter"]:
        stir(policy)
        policy.save(scratch / "saved")
        policy = Policy.load(scratch / "saved", quantize=None)
    kl = step0_kl(policy)
    assert kl() == pytest.approx(row["expected"]["kl"], abs=1e-9)
    stir(policy, seed=6)
    assert kl() > 1e-4


def merge_save_reload(given: dict[str, Any], row: dict[str, Any], folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    untrained, scratch = folder
    if not given["tied"]:
        untrained = untie(untrained, scratch / "untied")
    spec = LoraSpec(rank=4, targets=tuple(given["targets"]))
    try:
        policy = Policy.load(untrained, quantize=None, lora=spec, seed=1)
    except ValueError as error:
        assert row["expected"].get("or") == "raises ValueError before training"
        assert any(target in str(error) for target in given["targets"])
        return
    stir(policy)
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        before = policy.model(input_ids=ids).logits
        policy.model.merge_and_unload().save_pretrained(scratch / "merged")
        after = AutoModelForCausalLM.from_pretrained(scratch / "merged")(input_ids=ids).logits
    assert (before - after).abs().max().item() <= row["expected"]["max_abs_logit_diff"]


def untie(source: Path, folder: Path) -> Path:
    """The same model with a head of its own."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(source)
    head = model.lm_head
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    model.config.tie_word_embeddings = False
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


PLAIN = {
    "advantages": advantages,
    "zero_signal_fraction": zero_signal_fraction,
    "advantages_pair": advantages_pair,
    "masked_loss": masked_loss,
    "masked_loss_modes": masked_loss,
    "accumulated_loss": accumulated_loss,
    "accumulated_grad_scale": accumulated_grad_scale,
    "kl_k3": kl_k3,
    "kl_k3_expectation": kl_k3_expectation,
    "kl_k3_batch": kl_k3_batch,
    "ratios": ratio,
    "token_logprobs": token_logprobs,
    "score_twice": score_twice,
    "position_ids": positions,
    "completion_logprob_positions": completion_logprob_positions,
    "completion_mask": completion_mask,
    "entropy_mean": entropy_mean,
    "entropy_from_logprobs": entropy_from_logprobs,
    "top_entropy_mask": top_entropy_mask,
}
WITH_POLICY = {
    "ratio_same_weights": ratio_same_weights,
    "encode_prompt": encode,
    "build_prompt": build_prompt,
}
WITH_FOLDERS = {
    "reference_kl_at_step0": reference_kl_at_step0,
    "merge_save_reload": merge_save_reload,
}


@pytest.fixture(scope="module")
def policy(untrained: Path) -> Policy:
    policy = Policy.load(untrained, quantize=None, lora=LoraSpec(rank=4), seed=3)
    stir(policy)
    return policy


def check(row: dict[str, Any], policy: Policy, untrained: Path, scratch: Path) -> None:
    op = row["input"]["op"]
    if op in PLAIN:
        PLAIN[op](row["input"], row)
    elif op in WITH_POLICY:
        WITH_POLICY[op](row["input"], row, policy)
    else:
        WITH_FOLDERS[op](row["input"], row, (untrained, scratch))


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_case(row, policy, untrained, tmp_path) -> None:
    check(row, policy, untrained, tmp_path)


def test_the_rows_are_all_there() -> None:
    assert len(ROWS) == 34


# -- neighbours ----------------------------------------------------------------------------


def like(op: str, expected: Any, note: str = "tol 1e-4", **given: Any) -> dict[str, Any]:
    return {"input": {"op": op, **given}, "expected": expected, "note": note}


def rewarded(*rewards: Any, size: int = 4, eps: float = 1e-4) -> dict[str, Any]:
    rows = [r if isinstance(r, list) else [r] for r in rewards]
    return {"rewards": rows, "group_size": size, "eps": eps}


NEIGHBOURS = {
    "large equal rewards": like("advantages", [0] * 4, **rewarded(*[1e6 + 0.1] * 4, eps=0.0)),
    "equal rewards below zero": like("advantages", [0] * 4, **rewarded(*[-0.3] * 4, eps=1e-8)),
    "equal sums of unequal parts": like(
        "advantages", [0] * 2, **rewarded([0.1, 0.2], [0.2, 0.1], size=2, eps=1e-8)
    ),
    # mean 1/3, deviation sqrt(1/3) = 0.57735; (2/3) / 0.57745 and (-1/3) / 0.57745
    "a row where all abstain": like(
        "advantages", [1.15450, -0.57725, -0.57725, 0], **rewarded(1, 0, 0, None)
    ),
    "only one verdict": like("advantages", [0] * 4, **rewarded(1, None, None, None)),
    "no verdict": like("advantages", [0] * 2, **rewarded(None, None, size=2)),
    "two groups, one dead": like(
        "advantages", [0, 0, 0.707, -0.707], "tol 1e-3", **rewarded(1, 1, 1, 0, size=2)
    ),
    "a spread of a rounding error": like(
        "zero_signal_fraction", 0.5, **rewarded(0.3, 0.3 + 1e-7, 0.3, 0.4, size=2)
    ),
    "an abstention is no contrast": like("zero_signal_fraction", 1.0, **rewarded(1, None, 1, 1)),
    "nothing takes part": like(
        "masked_loss_modes",
        {"seq_mean": 0.0, "token_mean": 0.0, "fixed_len": 0.0},
        per_token_loss=[[1, 1], [2, 2]],
        mask=[[0, 0], [0, 0]],
        max_len=2,
        modes=["seq_mean", "token_mean", "fixed_len"],
    ),
    # Row 2 is out: mean of row 1 is 2; sum 4 of 2 tokens; 4 / (1 x 10).
    "a masked row leaves all denominators": like(
        "masked_loss_modes",
        {"seq_mean": 2.0, "token_mean": 2.0, "fixed_len": 0.4},
        per_token_loss=[[1, 3], [9, 9]],
        mask=[[1, 1], [0, 0]],
        max_len=10,
        modes=["seq_mean", "token_mean", "fixed_len"],
    ),
    # 1 and 3 are the rows' means: (1 + 3) / 2
    "sequence means accumulate too": like(
        "accumulated_loss",
        2.0,
        mode="seq_mean",
        micro_batches=[
            {"per_token_loss": [[1, 1]], "mask": [[1, 1]]},
            {"per_token_loss": [[3, 3, 3]], "mask": [[1, 1, 1]]},
        ],
    ),
    "a micro-batch of padding": like(
        "accumulated_loss",
        3.0,
        mode="token_mean",
        micro_batches=[
            {"per_token_loss": [[7, 7]], "mask": [[0, 0]]},
            {"per_token_loss": [[3, 3]], "mask": [[1, 1]]},
        ],
    ),
    "three parts": like("accumulated_grad_scale", 1.0, steps=3, window_normalised=True),
    # exp(0.5) - 0.5 - 1 = 0.148721
    "k3 the other way round": like("kl_k3", 0.148721, logp=-1.5, ref_logp=-1.0),
    "k3 of equal distributions": like("kl_k3_expectation", 0.0, p=[0.5, 0.5], q=[0.5, 0.5]),
    "k3 near zero": like(
        "kl_k3_batch",
        {"all_nonnegative": True, "zero_at": []},
        logp=[-1.0, -1.0],
        ref_logp=[-1.0002, -0.9998],
    ),
    # The unknown token counts for nothing: exp((0.2 + 0) / 2)
    "an unknown token in a sequence": like(
        "ratios", [1.10517], logp=[-1.0, -2.0], old_logp=[-1.2, None], level="sequence"
    ),
    "the product": like(
        "ratios", [0.90484], logp=[-1.0, -1.3], old_logp=[-1.2, -1.0], level="product"
    ),
    # logits / 2 = 1, 0.5, 0: 0.5 - log(e + e^0.5 + 1) = 0.5 - 1.680259
    "a temperature above one": like(
        "token_logprobs", -1.180259, logits=[2, 1, 0], token=1, temperature=2.0
    ),
    "dropout with a caller in eval mode": like(
        "score_twice", {"max_abs_logp_diff": 0.0}, model="dropout 0.5", mode_of_caller="eval"
    ),
    "a row of padding alone": like("position_ids", [[0, 0]], attention_mask=[[0, 0]]),
    "a longer prompt": like(
        "completion_logprob_positions",
        {"logit_rows_used": [4, 5, 6]},
        prompt_len=5,
        completion_len=3,
    ),
    "a prompt of one token": like(
        "completion_logprob_positions", {"logit_rows_used": [0]}, prompt_len=1, completion_len=1
    ),
    "micro-batches of another size": like(
        "ratio_same_weights",
        {"max_abs_ratio_minus_1": 1e-4},
        dtype="float32",
        micro_batch_old=3,
        micro_batch_new=8,
    ),
    "the second of two end ids": like(
        "completion_mask",
        {"mask": [[1, 1, 0], [1, 1, 1]], "truncated": [False, False]},
        ids=[[5, 9, 0], [5, 6, 2]],
        eos_ids=[2, 9],
        pad_id=0,
    ),
    "the end id comes first": like(
        "completion_mask",
        {"mask": [[1, 0, 0]], "truncated": [False]},
        ids=[[2, 5, 2]],
        eos_ids=[2],
        pad_id=2,
    ),
    "the pad id inside an answer": like(
        "completion_mask",
        {"mask": [[1, 1, 1]], "truncated": [True]},
        ids=[[5, 0, 6]],
        eos_ids=[2],
        pad_id=0,
    ),
    "entropy without tokens": like("entropy_mean", 0.0, entropies=[[4.0]], mask=[[0]]),
    "entropy where padding is not a number": like(
        "entropy_mean", 2.0, entropies=[[2.0, None]], mask=[[1, 0]]
    ),
    "all tokens": like(
        "top_entropy_mask", [[1, 1, 0]], entropies=[[1, 2, 9]], mask=[[1, 1, 0]], top_fraction=1.0
    ),
    "one token of five, over two rows": like(
        "top_entropy_mask",
        [[0, 0, 0], [0, 1, 0]],
        entropies=[[1, 2, 3], [4, 5, 9]],
        mask=[[1, 1, 1], [1, 1, 0]],
        top_fraction=0.2,
    ),
    "a template that writes its own BOS": like(
        "encode_prompt",
        {"bos_count": 1},
        rendered="<s>hi",
        bos_token="<s>",
        bos_id=1,
        tokenizer_adds_bos=True,
        templated=True,
    ),
    "plain text that starts with BOS": like(
        "encode_prompt",
        {"bos_count": 1},
        rendered="<s>hi",
        bos_token="<s>",
        bos_id=1,
        tokenizer_adds_bos=True,
        templated=False,
    ),
    "two turns, one header": like(
        "build_prompt",
        {"assistant_headers": 1},
        messages=[{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
        already_rendered="<|system|>\ns\n<|user|>\nhi\n<|assistant|>\n",
    ),
    "the tied embeddings": like(
        "merge_save_reload",
        {"max_abs_logit_diff": 1e-4, "or": "raises ValueError before training"},
        tied=True,
        targets=["embed_tokens"],
    ),
    "a head of its own": like(
        "merge_save_reload", {"max_abs_logit_diff": 1e-4}, tied=False, targets=["lm_head"]
    ),
    "other layers of a tied model": like(
        "merge_save_reload", {"max_abs_logit_diff": 1e-4}, tied=True, targets=["q_proj", "up_proj"]
    ),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbour(name, policy, untrained, tmp_path) -> None:
    check(NEIGHBOURS[name], policy, untrained, tmp_path)


def test_all_of_several_functions_abstain_for_one_row() -> None:
    parts = numbers([[[1, 0], [None, None], [0, 0.5]]])
    out, alive_B = gdpo_advantages(parts)
    assert out[0, 1] == 0
    assert alive_B.tolist() == [True]
    assert torch.isfinite(out).all()


def test_k2_is_near_k3_where_both_are_small() -> None:
    now, reference = torch.tensor(-1.0), torch.tensor(-1.01)
    assert k2(now, reference).item() == pytest.approx(k3(now, reference).item(), rel=1e-2)
