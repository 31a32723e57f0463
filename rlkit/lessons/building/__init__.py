"""How lessons are made: one source a lesson, built, checked and run.

`source` reads `notebooks/src/NN_title.py`; `frame` writes the cells that are the same in every
lesson; `build` makes the student's notebook, the solved one and the answer book; `check` is the
lint for people; `execute` runs notebooks with the network cut; `answers` tries every solution
and every wrong answer. Left out on purpose: a way back from a notebook to its source. The source
wins, always.
"""
