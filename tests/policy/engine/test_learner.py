"""The learner through the copy: the numbers and gradients of the model itself."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from rlkit.errors import UserError
from rlkit.policy import LoraSpec, Policy
from rlkit.policy.engine import attention, blueprint, weights
from rlkit.policy.engine.adapters import Stack
from rlkit.policy.engine.attention import Part, TwoParts
from rlkit.policy.engine.decoder import Decoder
from rlkit.policy.engine.geometry import Geometry
from rlkit.policy.engine.learner import Learner, _Normed
from rlkit.policy.engine.packing import pack
from rlkit.policy.generation import position_ids
from rlkit.policy.rollout import Rollout
from rlkit.tasks import get_domain

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
MODELS = {
    "llama": (LlamaConfig, {}),
    "llama, tied": (LlamaConfig, {"tie_word_embeddings": True}),
    "llama, one key head": (LlamaConfig, {"num_key_value_heads": 1}),
    "mistral": (MistralConfig, {"sliding_window": None}),
    "qwen2": (Qwen2Config, {}),
    "qwen3": (Qwen3Config, {"head_dim": 8}),
}

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12], [5, 6, 7], [13], [5, 6, 7]]
ANSWERS = [[20, 21, 22, 23], [24], [25, 26], [27, 28, 29], []]


def adapted(name: str):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    kind, more = MODELS[name]
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(kind(**{**SIZES, **more}))
    for module in model.modules():  # biases and norms that do something
        for key in ("bias", "weight"):
            value = getattr(module, key, None)
            if isinstance(value, torch.nn.Parameter) and value.ndim == 1:
                value.data += 0.3 * torch.randn_like(value)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(model, config).eval()
    for key, parameter in model.named_parameters():
        if "lora_B" in key:
            parameter.data.normal_(0, 0.1)
    return model


def learner_of(model, dtype=torch.float32) -> Learner:
    plan = blueprint.read(model)
    return Learner(Decoder(plan, weights.merge(plan, dtype)))


def plainly(model, prompts, answers) -> torch.Tensor:
    """The hidden state before each answer's token, each sequence by itself."""
    rows = []
    for prompt, answer in zip(prompts, answers, strict=True):
        ids = torch.tensor([[*prompt, *answer]])
        hidden = model.get_base_model().model(
            input_ids=ids, position_ids=position_ids(torch.ones_like(ids)), use_cache=False
        ).last_hidden_state[0]  # fmt: skip
        rows.append(hidden[len(prompt) - 1 : len(prompt) - 1 + len(answer)])
    return torch.cat(rows)


def gradients(model, hidden: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(1)
    parameters = [p for p in model.parameters() if p.requires_grad]
    return torch.autograd.grad((hidden * torch.randn_like(hidden)).sum(), parameters)


@pytest.mark.parametrize("keep_all", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_hidden_states_and_gradients_are_those_of_the_model(name: str, keep_all: bool) -> None:
    model = adapted(name)
    learner = learner_of(model)
    ours = learner.hidden(pack(PROMPTS, ANSWERS), keep_all)
    theirs = plainly(model, PROMPTS, ANSWERS)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for mine, right in zip(gradients(model, ours), gradients(model, theirs), strict=True):
        assert float((mine - right).norm()) <= 1e-4 * float(right.norm())


def test_prompts_alone_need_no_answers_grid() -> None:
    model = adapted("llama")
    answers = [[20], [21], [22], [23], []]  # only the prompts' last states are asked for
    ours, theirs = (
        learner_of(model).hidden(pack(PROMPTS, answers)),
        plainly(model, PROMPTS, answers),
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for mine, right in zip(gradients(model, ours), gradients(model, theirs), strict=True):
        torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-3)


def test_filling_changes_nothing() -> None:
    model = adapted("qwen2")
    packed = pack(PROMPTS, ANSWERS)
    more = packed.round_up()
    assert more.filling > 0 and len(more.ids_M) % 8 == 0
    ours, theirs = (learner_of(model).hidden(p) for p in (more, packed))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for mine, right in zip(gradients(model, ours), gradients(model, theirs), strict=True):
        torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-4)


def test_the_way_back_may_be_taken_twice() -> None:
    model = adapted("qwen3")
    hidden = learner_of(model).hidden(pack(PROMPTS, ANSWERS))
    first = torch.autograd.grad(hidden.sum(), _trained(model), retain_graph=True)
    second = torch.autograd.grad(hidden.sum(), _trained(model))
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


def _trained(model) -> list[torch.nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def test_bfloat16_is_near() -> None:
    model = adapted("llama")
    ours = learner_of(model, torch.bfloat16).hidden(pack(PROMPTS, ANSWERS))
    theirs = plainly(model, PROMPTS, ANSWERS)
    assert ours.dtype == torch.bfloat16
    assert float((ours.float() - theirs).norm() / theirs.norm()) < 0.02
    mine = torch.cat([g.flatten() for g in gradients(model, ours.float())])
    right = torch.cat([g.flatten() for g in gradients(model, theirs)])
    assert float(torch.cosine_similarity(mine, right, dim=0)) > 0.995


@pytest.mark.parametrize("fused", [True, False])
def test_both_kernels_of_attention_give_one_softmax(fused: bool, monkeypatch) -> None:
    if fused and not attention.has_fused():
        pytest.skip("this build of torch has no fused kernel for processors")
    monkeypatch.setattr(attention, "FUSED_FROM", 1 if fused else 1 << 40)
    torch.manual_seed(0)
    B, K, R, G, P, T, D = 2, 3, 2, 4, 5, 6, 8
    lengths = torch.tensor([5, 3])
    parts = TwoParts(lengths, P, T, R, K, 0.4, torch.float32)
    shapes = [(B * K, R, P, D), (B * K, 1, P, D), (B * K, 1, P, D)]
    shapes += [(B * K, 1, G * R * T, D), (B * K * G, 1, T, D), (B * K * G, 1, T, D)]
    tensors = [torch.randn(shape, requires_grad=True) for shape in shapes]

    def plain(pq, pk, pv, q, k, v):
        """Each answer's keys in one row with its prompt's, through one softmax."""
        seen = torch.arange(P)[None] < lengths[:, None]
        causal = torch.ones(P, P).tril().bool()
        scores = 0.4 * (pq @ pk.transpose(-1, -2))
        prompt_out = scores.masked_fill(~causal, -torch.inf).softmax(-1) @ pv
        rows = q.view(B, K, G, R, T, D)
        keys = torch.cat(
            [pk.view(B, K, 1, P, D).expand(-1, -1, G, -1, -1), k.view(B, K, G, T, D)], 3
        )
        values = torch.cat(
            [pv.view(B, K, 1, P, D).expand(-1, -1, G, -1, -1), v.view(B, K, G, T, D)], 3
        )
        scores = 0.4 * torch.einsum("bkgrtd,bkgsd->bkgrts", rows, keys)
        own = torch.ones(T, T).tril().bool()
        may = torch.cat([seen[:, None].expand(-1, T, -1), own.expand(B, -1, -1)], 2)
        scores = scores.masked_fill(~may[:, None, None, None], -torch.inf)
        return prompt_out, torch.einsum("bkgrts,bkgsd->bkgrtd", scores.softmax(-1), values)

    kept = parts.forward(
        tuple(t.detach() for t in tensors[:3]), tuple(t.detach() for t in tensors[3:])
    )
    prompt_out, out = plain(*tensors)
    torch.testing.assert_close(kept.prompt_out, prompt_out.detach())
    torch.testing.assert_close(kept.out.view(out.shape), out.detach())
    grad_prompt, grad = torch.randn_like(prompt_out), torch.randn_like(out)
    grad_prompt.view(B, K, R, P, D)[1, :, :, 3:] = 0  # as the learner gives it: padding is silent
    right = torch.autograd.grad((prompt_out, out), tensors, (grad_prompt, grad))
    first, second = parts.backward(grad_prompt, grad.reshape(kept.out.shape), kept)
    for mine, theirs in zip((*first, *second), right, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


def test_log_sums_are_those_of_the_scores() -> None:
    q, k = torch.eye(2)[None, None], torch.zeros(1, 1, 3, 2)
    out, lse = Part(1.0).forward(q, k, torch.ones(1, 1, 3, 2))
    # All scores are 0, so the sum is 3 and the weights are 1/3 each.
    torch.testing.assert_close(lse, torch.full((1, 1, 2), 3.0).log())
    torch.testing.assert_close(out, torch.ones(1, 1, 2, 2))


def test_the_norm_by_finite_differences() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(4, 6, dtype=torch.double), torch.rand(6)
    grad = torch.randn(4, 6)

    def loss(x: torch.Tensor) -> float:
        rate = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return float((x * rate * weight * grad).sum())

    ours = _Normed.of(x.float(), weight, 1e-6, torch.float32).backward(grad)
    for place in [(0, 0), (1, 3), (3, 5)]:
        moved = x.clone()
        moved[place] += 1e-6
        assert ours[place] == pytest.approx((loss(moved) - loss(x)) / 1e-6, rel=1e-3, abs=1e-4)


def test_adapters_of_a_fused_product_have_the_gradients_of_each() -> None:
    model = adapted("llama")
    layer = blueprint.read(model).layers[0]
    stack = Stack((layer.query, layer.key, layer.value))
    x = torch.randn(7, 32)
    y = torch.cat([linear(x) for linear in (layer.query, layer.key, layer.value)], -1)
    grad = torch.randn_like(y)
    right = torch.autograd.grad(y, stack.parameters(), grad)
    for mine, theirs in zip(stack.gradients(x, grad), right, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)


# -- the policy that uses it -----------------------------------------------------------------


@pytest.fixture(scope="module")
def rollouts() -> list[Rollout]:
    policy = Policy.load("tiny", lora=LoraSpec(), seed=1)
    groups = policy.generate(get_domain("pyfunc").held_out(3, 1), 4, 24)
    return [r for group in groups for r in group.rollouts]


def scored(learner: str, rollouts, **more):
    policy = Policy.load("tiny", lora=LoraSpec(), seed=1, learner=learner, **more)
    torch.manual_seed(3)
    for name, parameter in policy.trainable().items():
        if "lora_B" in name:
            parameter.data.normal_(0, 0.02)
    found = policy.score(rollouts)
    weight = torch.linspace(-1, 1, found.mask_NT.shape[1])
    ((found.logprobs_NT * weight).sum() + 0.1 * found.entropy_NT.sum()).backward()
    return policy, found, torch.cat([p.grad.flatten() for p in policy.trainable().values()])


def test_the_copy_scores_as_the_model_does(rollouts) -> None:
    some = [dataclasses.replace(r, trainable=(0, *r.trainable[1:])) for r in rollouts[:4]]
    some += rollouts[4:]
    _, right, right_gradient = scored("model", some)
    policy, ours, gradient = scored("copy", some)
    assert str(policy.scorer) == "copy, float32"
    torch.testing.assert_close(ours.logprobs_NT, right.logprobs_NT, atol=1e-4, rtol=0)
    torch.testing.assert_close(ours.entropy_NT, right.entropy_NT, atol=1e-4, rtol=0)
    assert torch.equal(ours.mask_NT, right.mask_NT)
    assert float((gradient - right_gradient).norm() / right_gradient.norm()) < 1e-3


def test_the_copy_follows_the_adapter(rollouts) -> None:
    policy, before, _ = scored("copy", rollouts)
    with torch.no_grad():
        for parameter in policy.trainable().values():
            parameter.mul_(1.5)
    now = policy.score(rollouts).logprobs_NT
    assert float((now - before.logprobs_NT).abs().max()) > 1e-3
    with torch.no_grad(), policy.reference():
        base = policy.score(rollouts).logprobs_NT
    fresh = Policy.load("tiny", lora=LoraSpec(), seed=1, learner="model").score(rollouts)
    torch.testing.assert_close(base, fresh.logprobs_NT.detach(), atol=1e-4, rtol=0)


def test_auto_goes_through_the_model_where_more_than_adapters_is_trained(rollouts) -> None:
    policy = Policy.load("tiny", quantize=None, lora=None)
    assert policy.trainable()
    assert str(policy.scorer).startswith("model (")
    assert "is no adapter" in policy.scorer.note
    policy.score(rollouts).logprobs_NT.sum().backward()
    assert all(p.grad is not None for p in policy.trainable().values())


def test_what_is_trained_later_gets_its_gradient_too(rollouts) -> None:
    policy = Policy.load("tiny", quantize=None, lora=LoraSpec(), seed=1)
    policy.score(rollouts)
    assert policy.scorer.kind == "copy"
    norm = policy.model.get_base_model().model.norm.weight
    norm.requires_grad_(True)
    policy.score(rollouts).logprobs_NT.sum().backward()
    assert policy.scorer.kind == "model" and norm.grad is not None
    norm.requires_grad_(False)
    assert policy.scorer.kind == "copy"


def test_what_a_token_leaves_is_counted_from_shapes() -> None:
    # tiny: 4 layers, 192 wide, 2 x 512 of gate and up, 4 query and 2 key heads of 48:
    # 2 x 192 normed, 1,024, and 2 x 48 x (4 + 2) for queries, keys, values and outputs.
    engine = Policy.load("tiny", lora=LoraSpec()).sampler.engine
    assert engine.bytes_to_learn() == 4 * 4 * (2 * 192 + 1024 + 2 * 48 * 6)


def test_a_copy_that_computes_something_else_is_not_believed(rollouts) -> None:
    policy = Policy.load("tiny", lora=LoraSpec(), seed=1)
    engine = policy.sampler.engine
    engine.blueprint = dataclasses.replace(engine.blueprint, scale=0.9)
    with pytest.warns(UserWarning, match="nats away from this model"):
        found = policy.score(rollouts)
    assert policy.scorer.kind == "model"
    right = Policy.load("tiny", lora=LoraSpec(), seed=1, learner="model").score(rollouts)
    torch.testing.assert_close(found.logprobs_NT, right.logprobs_NT)


@pytest.mark.parametrize("prompts", [[[5, 6, 7]] * 3, PROMPTS[:3]], ids=["one prompt", "two"])
def test_what_attention_keeps_holds_nothing_else(prompts) -> None:
    """Queries, keys and values are parts of one product, which would stay behind them."""
    learner = learner_of(adapted("llama"))
    packed = pack(prompts, [[20, 21, 22, 23], [24, 25], [26, 27]])
    geometry = Geometry.of(learner.decoder, packed)
    qkv = torch.randn(len(packed.ids_M), learner.K * (learner.R + 2), learner.D)
    prompt, answers = geometry.spread(
        *qkv.split([learner.K * learner.R, learner.K, learner.K], dim=1)
    )
    for kept in (*prompt, *answers):
        assert kept.untyped_storage().nbytes() == kept.numel() * kept.element_size()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="not a way to learn"):
        Policy.load("tiny", learner="fast")
    with pytest.raises(UserError, match="answers come from the model itself"):
        Policy.load("tiny", rollouts="plain", learner="copy")


def test_a_part_beyond_the_budget_keeps_the_blocks_inputs_only(rollouts, monkeypatch) -> None:
    from rlkit.policy import scorer

    _, _, all_kept = scored("copy", rollouts)
    monkeypatch.setattr(scorer, "MAX_ACTIVATIONS", {2: 1, 4: 1})
    asked = []
    hidden = Learner.hidden
    monkeypatch.setattr(
        Learner,
        "hidden",
        lambda self, packed, keep_all: asked.append(keep_all) or hidden(self, packed, keep_all),
    )
    _, _, little_kept = scored("copy", rollouts)
    assert asked[-1] is False
    torch.testing.assert_close(little_kept, all_kept, atol=1e-6, rtol=1e-5)
