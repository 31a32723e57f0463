"""The rollout engine: the same model, written out for many short answers at once.

`blueprint` reads an ordinary `transformers` model, `weights` keeps a copy of it with the
adapters merged in, `decoder` computes with that copy, `sampling` draws tokens, `rollouts`
puts them together for groups of answers. A model that the blueprint does not know is left
to `rlkit.policy.generation`, which works for all of them and is slower.
"""
