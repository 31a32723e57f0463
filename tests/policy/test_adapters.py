"""Two policies on one base: neither moves the other. And merged: the same numbers, no adapter."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rlkit.errors import UserError
from rlkit.loop import ClosedLoop, LoopConfig
from rlkit.policy import LoraSpec, Policy, flatten
from rlkit.policy.adapters import shared_base
from rlkit.policy.engine.weights import merged_weight
from rlkit.rewards import Reward
from rlkit.tasks import get_domain

LORA = LoraSpec(rank=4, alpha=8)
BASES = pytest.mark.parametrize("quantize", [None, "nf4"])


@pytest.fixture(scope="module")
def problems():
    return get_domain("pyfunc").held_out(1) + get_domain("arith").held_out(2)


def stir(policy: Policy, seed: int = 1) -> Policy:
    """An adapter that does something."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in policy.trainable().items():
            if "lora_B" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return policy


def first_of(quantize: str | None, **options) -> Policy:
    return stir(Policy.load("tiny", quantize=quantize, lora=LORA, seed=1, **options))


def scores(policy: Policy, rollouts) -> torch.Tensor:
    with torch.no_grad():
        return policy.score(rollouts).logprobs_NT


def flags(policy: Policy) -> dict[str, bool]:
    return {n: p.requires_grad for n, p in policy.model.named_parameters()}


def storage(policy: Policy) -> dict[int, int]:
    """Bytes of each distinct piece of memory that the policy's parameters lie in."""
    tensors = list(policy.model.parameters())
    for parameter in policy.model.parameters():
        state = getattr(parameter, "quant_state", None)
        if state is not None:
            nested = [] if state.state2 is None else [state.state2.absmax]
            tensors += [state.absmax, *nested]
    return {t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}


@BASES
def test_there_is_one_base(quantize: str | None) -> None:
    first = first_of(quantize)
    second = first.beside(lora=LoraSpec(rank=8), seed=2)
    own = sum(4 * p.numel() for p in second.trainable().values())
    new = set(storage(second)) - set(storage(first))
    assert sum(storage(second)[i] for i in new) == own
    assert second.parameter_counts()[1] == 2 * first.parameter_counts()[1]
    assert second.lora.rank == 8 and first.lora.rank == 4
    assert second.describe()["precision"] == first.describe()["precision"]


@pytest.mark.parametrize("rollouts", ["exact", "plain"])
@BASES
def test_using_one_changes_nothing_for_the_other(
    quantize: str | None, rollouts: str, problems
) -> None:
    """Sampling, scoring, training and going back, interleaved with the other's."""
    first = first_of(quantize, rollouts=rollouts)
    alone = first_of(quantize, rollouts=rollouts)
    second = stir(first.beside(lora=LORA, seed=5), seed=2)
    assert second.sampler.kind == rollouts and second.scorer.kind == first.scorer.kind
    asked = flatten(first.generate(problems, 2, 8))
    expected = flatten(alone.generate(problems, 2, 8))
    assert asked == expected
    kept, before = first.snapshot(), scores(first, asked)
    other = scores(second, asked)
    assert float((other - before).abs().max()) > 1e-3

    optimizer = torch.optim.SGD(second.trainable().values(), lr=0.05)
    second.score(flatten(second.generate(problems, 2, 8))).logprobs_NT.sum().backward()
    assert all(p.grad is not None for p in second.trainable().values())
    assert all(p.grad is None for p in first.model.parameters())  # the base among them
    optimizer.step()
    assert torch.equal(scores(first, asked), before)
    assert float((scores(second, asked) - other).abs().max()) > 1e-3
    assert flatten(first.generate(problems, 2, 8)) == flatten(alone.generate(problems, 2, 8))

    # And the other way round.
    now = scores(second, asked)
    first.score(asked).logprobs_NT.sum().backward()
    torch.optim.SGD(first.trainable().values(), lr=0.05).step()
    assert torch.equal(scores(second, asked), now)
    first.restore(kept)
    assert torch.equal(scores(first, asked), before)


@BASES
def test_references_stay_apart_also_after_ctrl_c(quantize: str | None, problems) -> None:
    first = first_of(quantize)
    second = stir(first.beside(lora=LORA, seed=5), seed=2)
    base = Policy.load("tiny", quantize=quantize, lora=LORA)  # a fresh adapter does nothing
    asked = flatten(first.generate(problems, 2, 8))
    one, two, none = (scores(p, asked) for p in (first, second, base))
    marks = flags(first), flags(second)
    with second.reference(), torch.no_grad():
        torch.testing.assert_close(scores(second, asked), none)
        assert torch.equal(scores(first, asked), one)  # in the middle of the other's block
        with first.reference():
            torch.testing.assert_close(scores(first, asked), none)
    with pytest.raises(KeyboardInterrupt), second.reference():
        raise KeyboardInterrupt
    assert (flags(first), flags(second)) == marks
    assert torch.equal(scores(first, asked), one) and torch.equal(scores(second, asked), two)
    second.score(asked).logprobs_NT.sum().backward()
    assert all(p.grad is not None for p in second.trainable().values())


@BASES
def test_a_saved_adapter_beside_is_its_own_reference(
    quantize: str | None, problems, tmp_path: Path
) -> None:
    """Save one, load it beside another: the same numbers, and the way back is to them."""
    first = first_of(quantize)
    second = stir(first.beside(lora=LORA, seed=5), seed=2)
    second.version = 7
    second.save(tmp_path / "second")
    assert (tmp_path / "second" / "adapter_config.json").exists()  # peft's own format
    alone = Policy.load(tmp_path / "second", quantize=quantize, seed=5)
    third = first.beside(tmp_path / "second", seed=5)
    assert third.version == 7 and third.lora == second.lora
    assert third.fingerprint() == second.fingerprint() == alone.fingerprint()
    asked = flatten(third.generate(problems, 2, 8))
    assert asked == flatten(alone.generate(problems, 2, 8))
    start = scores(third, asked)
    torch.testing.assert_close(start, scores(second, asked))
    stir(third, seed=9)
    with third.reference():
        torch.testing.assert_close(scores(third, asked), start)
    assert float((scores(third, asked) - start).abs().max()) > 1e-3
    torch.testing.assert_close(scores(second, asked), start)
    # What was trained before can be trained on.
    third.score(asked).logprobs_NT.sum().backward()
    assert all(float(p.grad.norm()) > 0 for p in third.trainable().values())


def test_two_loops_take_turns_as_if_each_were_alone() -> None:
    letters = Reward(
        lambda completions, **_: [t.count("e") - 0.1 * len(t) for t in completions], "letters"
    )
    config = LoopConfig(problems_per_step=2, group_size=4, max_new_tokens=8)

    def loop(policy: Policy) -> ClosedLoop:
        return ClosedLoop(policy, ["arith", "sort"], config=config, reward=letters)

    first = first_of("nf4")
    one, two = loop(first), loop(stir(first.beside(lora=LORA, seed=1), seed=3))
    steady = loop(first_of("nf4"))
    for _ in range(3):
        one.step()
        two.step()
        steady.step()
    assert one.policy.fingerprint() == steady.policy.fingerprint()
    assert two.policy.fingerprint() != one.policy.fingerprint()


def test_the_first_may_go_and_the_second_stays(problems) -> None:
    first = first_of("nf4")
    second = stir(first.beside(lora=LORA, seed=5), seed=2)
    asked = flatten(second.generate(problems, 2, 8))
    before = scores(second, asked)
    del first
    gc.collect()
    assert torch.equal(scores(second, asked), before)


def test_bare_modules_come_back_bare() -> None:
    policy = first_of("nf4")
    bare = shared_base(policy.model)
    assert not [n for n, _ in bare.named_parameters() if "lora" in n]
    assert policy.trainable()  # and the policy has kept its own


# -- merged -------------------------------------------------------------------------------------


@BASES
def test_merged_is_an_ordinary_model_with_the_same_numbers(
    quantize: str | None, problems, tmp_path: Path
) -> None:
    policy = first_of(quantize)
    asked = flatten(policy.generate(problems, 2, 8))
    before, kept = scores(policy, asked), policy.snapshot()
    packed = {n: p.detach().clone() for n, p in policy.model.named_parameters()}
    folder = policy.export_merged(tmp_path / "merged")
    # The policy is what it was, to the bit.
    assert all(torch.equal(p, packed[n]) for n, p in policy.model.named_parameters())
    assert policy.trainable().keys() == kept.keys()
    assert torch.equal(scores(policy, asked), before)

    again = Policy.load(folder, quantize=None)
    assert str(again.precision) == "float32 weights"
    torch.testing.assert_close(scores(again, asked), before, atol=1e-4, rtol=0)
    # And without rlkit: the library alone, on one answer, without padding.
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.tie_word_embeddings
    assert AutoTokenizer.from_pretrained(folder).chat_template == policy.tokenizer.chat_template
    ids = torch.tensor([[*asked[0].prompt_ids, *asked[0].completion_ids]])
    with torch.no_grad():
        logprobs_TV = torch.log_softmax(model(input_ids=ids).logits[0], -1)
    chosen_T = ids[0, -len(asked[0]) :]
    plain_T = logprobs_TV[-len(asked[0]) - 1 : -1].gather(-1, chosen_T[:, None])[:, 0]
    torch.testing.assert_close(plain_T, before[0, : len(asked[0])], atol=1e-4, rtol=0)
    # It can be four bits again, and be trained again.
    assert Policy.load(folder, quantize="nf4", lora=LORA).trainable()


def test_within_the_reference_the_reference_is_merged(problems) -> None:
    policy = first_of(None)
    with policy.reference():
        base = policy.merged()
    loaded = AutoModelForCausalLM.from_pretrained(Path(_tiny()))
    for name, parameter in base.named_parameters():
        assert torch.equal(parameter, loaded.get_parameter(name)), name


def test_in_bfloat16_half_the_bytes_and_near(problems, tmp_path: Path) -> None:
    policy = first_of("nf4")
    asked = flatten(policy.generate(problems, 2, 8))
    full = policy.export_merged(tmp_path / "full")
    half = policy.export_merged(tmp_path / "half", dtype="bfloat16")
    sizes = [(f / "model.safetensors").stat().st_size for f in (full, half)]
    assert sizes[1] / sizes[0] == pytest.approx(0.5, abs=0.02)
    model = AutoModelForCausalLM.from_pretrained(half)
    assert next(model.parameters()).dtype == torch.bfloat16
    apart = scores(Policy.load(half, quantize=None), asked) - scores(policy, asked)
    assert 1e-5 < float(apart.abs().max()) < 0.5


def test_pefts_own_merge_is_followed_by_the_sampler(problems) -> None:
    """Merged in place, an adapter must not be added twice; unmerged, it must be there again."""
    policy = first_of(None, learner="model")
    asked = flatten(policy.generate(problems, 2, 8))
    before = scores(policy, asked)
    linear = policy.sampler.engine.blueprint.layers[0].query
    alone = merged_weight(linear)
    policy.model.merge_adapter()
    torch.testing.assert_close(merged_weight(linear), alone, atol=1e-6, rtol=0)
    assert torch.equal(merged_weight(linear), linear.base_layer.weight)
    merged = flatten(policy.generate(problems, 2, 8))
    apart = scores(policy, merged) - policy.score(merged).behaviour_NT
    assert float(apart.abs().max()) < 1e-4
    torch.testing.assert_close(scores(policy, asked), before, atol=1e-4, rtol=0)
    policy.model.unmerge_adapter()
    torch.testing.assert_close(merged_weight(linear), alone, atol=1e-6, rtol=0)
    again = flatten(policy.generate(problems, 2, 8))
    assert float((scores(policy, again) - policy.score(again).behaviour_NT).abs().max()) < 1e-4


def test_several_adapters_in_one_peft_model_are_told_apart(problems) -> None:
    policy = first_of("nf4", learner="model")
    policy.model.add_adapter("other", LORA.peft_config())
    with torch.no_grad():
        for name, parameter in policy.model.named_parameters():
            if "lora_B.other" in name:
                parameter.normal_(0, 0.1, generator=torch.Generator().manual_seed(4))

    def drawn() -> list:
        policy.load_state_dict({"seed": 1, "draws": 3, "version": 0})
        rollouts = flatten(policy.generate(problems, 2, 8))
        apart = scores(policy, rollouts) - policy.score(rollouts).behaviour_NT
        assert float(apart.abs().max()) < 1e-4
        return rollouts

    first = drawn()
    policy.model.set_adapter("other")
    assert drawn() != first
    policy.model.set_adapter("default")
    assert drawn() == first


def test_bad_requests(untrained: Path, tmp_path: Path) -> None:
    policy = first_of("nf4")
    policy.save(tmp_path / "kept")
    with pytest.raises(UserError, match="either the folder of a saved one, or lora"):
        policy.beside()
    with pytest.raises(UserError, match="either the folder of a saved one, or lora"):
        policy.beside(tmp_path / "kept", lora=LORA)
    with pytest.raises(UserError, match="holds no saved policy"):
        policy.beside(untrained)
    with pytest.raises(UserError, match="this policy trains its base weights"):
        Policy.load("tiny", quantize=None).beside(lora=LORA)
    with pytest.raises(UserError, match="belongs to 'tiny', and this policy's base is"):
        Policy.load(untrained, quantize="nf4").beside(tmp_path / "kept")
    with pytest.raises(UserError, match="float32 or bfloat16, not in 'int8'"):
        policy.merged("int8")
    # A frozen base without an adapter carries one as well as any other.
    assert Policy.load("tiny", quantize="nf4").beside(lora=LORA).trainable()


def _tiny() -> str:
    from rlkit.policy.loading import TINY

    return str(TINY)
