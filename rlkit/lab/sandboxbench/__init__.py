"""The sandbox bench: a program in a box, its tests and limits, and the verdict in pictures.

`rlkit.lab.sandbox_bench()` opens it. In order of reading: `test_lines` (tests as one writes
them), `programs` (what may be picked), `settings` (what stands in the boxes), `marks` (a
letter and a colour for each status), `timeline` and `verdict_map` (the two pictures),
`repeats` (the same job many times), `words` (the verdict in words, and which layer stopped
what), `panel` and `widgets` (how it is touched). `escape_room` and `by_heart` hold the
programs of the lesson on the sandbox. Everything but `widgets` works without a notebook.
"""
