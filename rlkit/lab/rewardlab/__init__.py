"""The Reward Lab: a reward's source in a box, and 2,000 real completions that it is tried on.

`rlkit.lab.reward_lab()` opens it. In order of reading: `scoring` (what a reward gives),
`comparison` (what that does to learning, and where it disagrees with the truth), `state`
(apply, weights, undo), `figures` and `words` (how it is told), `panel` and `widgets` (how
it is touched), `training` and `magic`. Everything but `widgets` works without a notebook.
"""
