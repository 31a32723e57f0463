"""What each rank does in `test_two_ranks.py`: run by torchrun, writes what it saw to a file.

    torchrun --nproc_per_node 2 tests/scale/ranks.py OUT MODEL

First TRL's trainer with our objects, on problems whose groups are cut between the ranks. Then
generation with the model in shards of FSDP2, where ranks end at different lengths.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["ACCELERATE_USE_CPU"] = "true"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

import torch


def letters(completions: Any, **columns: Any) -> list[float | None]:
    """The share of the letter e; every seventh text of a given length abstains."""
    texts = [c[0]["content"] for c in completions]
    return [None if len(t) % 7 == 3 else t.count("e") / (len(t) or 1) for t in texts]


def train(out: Path, model: str) -> dict[str, Any]:
    """Two steps of 3 problems of 4 answers: with two ranks, the second group is cut."""
    from trl import GRPOConfig, GRPOTrainer

    from rlkit.curriculum import Curriculum
    from rlkit.policy import LoraSpec, Policy
    from rlkit.scale.trl import MonitorCallback, SharedPrefixRollouts, domain_dataset, watch

    policy = Policy.load(model, quantize=None, lora=LoraSpec(rank=4), seed=0)
    domains = ["arith", "sort"]
    curriculum = Curriculum(domains, "learnability", seed=2)
    dataset = domain_dataset(domains, curriculum, steps=2, problems_per_step=3)
    watched = watch(letters, dataset, 4)
    monitoring = MonitorCallback(watch=watched)
    trainer = GRPOTrainer(
        model=policy.model,
        reward_funcs=watched.functions,
        args=GRPOConfig(
            output_dir=str(out / "trl"),
            per_device_train_batch_size=12 // int(os.environ.get("WORLD_SIZE", "1")),
            num_generations=4,
            max_completion_length=10,
            max_steps=2,
            learning_rate=1e-2,
            logging_steps=1,
            save_strategy="no",
            shuffle_dataset=False,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            ddp_find_unused_parameters=False,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=dataset,
        processing_class=policy.tokenizer,
        callbacks=[monitoring],
        rollout_func=SharedPrefixRollouts(seed=7),
    )
    trainer.train()
    batch = watched.batch
    return {
        "advantages": list(trainer._logs["advantages"]),
        "rewards": batch.rewards_BG,
        "keys": [group.problem.key for group in batch.groups],
        "texts": [[r.text for r in group.rollouts] for group in batch.groups],
        "records": [record.to_dict() for record in monitoring.records],
        "probabilities": curriculum.probabilities(),
        "weights": {n: p.detach().double().sum().item() for n, p in policy.trainable().items()},
    }


def shards(model: str) -> dict[str, Any]:
    """The whole weights on every rank for the time of a generation; no rank waits for another."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor
    from transformers import AutoModelForCausalLM

    from rlkit.scale.trl.rollouts import in_shards, unsharded

    rank = torch.distributed.get_rank()
    plain = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    cut = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in cut.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(cut, mesh=mesh)
    ids = torch.tensor([[3, 4, 5, 6]])
    with torch.no_grad():
        wanted = plain(ids).logits
        with unsharded(cut):
            # Rank 0 goes through the model five times, rank 1 once.
            for _ in range(5 if rank == 0 else 1):
                got = cut(ids).logits
        torch.distributed.barrier()
        again = cut(ids).logits  # cut again, and together
    return {
        "apart": float((got - wanted).abs().max()),
        "apart_again": float((again - wanted).abs().max()),
        "in_shards": [in_shards(cut), in_shards(plain)],
        "cut_afterwards": all(isinstance(p, DTensor) for p in cut.parameters()),
    }


def main() -> None:
    out, model = Path(sys.argv[1]), sys.argv[2]
    found = {"train": train(out, model)}
    if torch.distributed.is_initialized():
        found["shards"] = shards(model)
        torch.distributed.destroy_process_group()
    rank = os.environ.get("RANK", "0")
    (out / f"rank{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
