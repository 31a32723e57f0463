"""Symbols, links, anchors and the reading ease, by hand."""

from __future__ import annotations

import pytest

from rlkit.lessons.building import reading
from rlkit.lessons.building.reading import Symbol


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        (
            r"A_i = \frac{r_i - \operatorname{mean}(r)}{\operatorname{std}(r)}",
            "A_i r_i mean r std r",
        ),
        (r"\pi_\text{old}(\text{token}_{i,t})", r"\pi_{old} token_{i,t}"),
        (r"1 - p^G - (1-p)^G", "p G p G"),
        (r"\sum_{i}\sum_{t} 2\cdot\gamma^{t} \le 3", r"i t \gamma t"),
        (r"x_{1,\dots,n}", "x_n"),
        (r"12 + 3", ""),
    ],
)
def test_symbols_of_a_formula(formula, names):
    assert " ".join(str(s) for s in reading.symbols(formula)) == names


def test_a_symbol_is_explained_whole_or_by_its_parts():
    known = {Symbol("A"), Symbol("i"), Symbol(r"\pi", ("old",))}
    missing = reading.unexplained(r"A_i + A_t + \pi_\text{old} + \pi + \text{loss}", known)
    assert [str(s) for s in missing] == ["A_t", r"\pi", "loss"]


def test_the_glossarys_first_column_explains():
    text = "| symbol | words |\n|---|---|\n| $A_i$ | of $q$ |\n| $p(x)$ | of x |\n| word | $z$ |\n"
    assert reading.glossary_symbols(text) == {Symbol("A", ("i",)), Symbol("p")}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("costs $5 and $6, not `$x$`", []),
        ("so $x$ and\n$$y +\nz$$", ["x", "y +\nz"]),
        ("```\n$x$\n```\n$a$", ["a"]),
    ],
)
def test_formulas_of_a_text(text, found):
    assert reading.formulas(text) == found


def test_headings_and_links_in_code_do_not_count():
    text = "# A\n```\n# no heading, [no](link.md)\n```\n## B\n`[no](x.md)` [yes](y.md)"
    assert [(h.level, h.text) for h in reading.headings([(1, text)])] == [(1, "A"), (2, "B")]
    assert reading.links(text) == ["y.md"]


def test_reading_ease_by_hand():
    # 8 words in 2 sentences. Syllables: The 1, pol-i-cy 3, an-swers 2, It 1, gets 1, a 1,
    # re-ward 2, to-day 2: 13. 206.835 - 1.015 * 8 / 2 - 84.6 * 13 / 8 = 65.3
    text = "# Not counted\n\nThe policy answers. It gets a reward today.\n\n| not | counted |"
    assert reading.reading_ease([text]) == pytest.approx(65.3)
    assert reading.reading_ease(["# Only a title", "```\ncode\n```"]) is None


def test_long_words_in_long_sentences_read_worse():
    easy = "We ask. The model writes. We look at what it wrote."
    hard = (
        "Heterogeneous optimisation methodologies necessitate considerable experimentation, "
        "notwithstanding the theoretical characterisation of their asymptotic behaviour."
    )
    assert reading.reading_ease([easy]) > 90
    assert reading.reading_ease([hard]) < 0


@pytest.mark.parametrize(
    ("word", "count"),
    [("jumped", 1), ("wanted", 2), ("made", 1), ("example", 3), ("queue", 1), ("gradient", 2)],
)
def test_syllables(word, count):
    # The last one is off by one (gra-di-ent), as groups of vowels are; the rest are right.
    assert reading.syllables(word) == count
