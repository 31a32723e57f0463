"""Subjects of rewards about reading: an answer over a small table, facts from a long context.

Tables and contexts are made here for a seed, so every right answer is known, and so is
what looks like it: the other cells of the column, and the distractors of the context.
"""

from __future__ import annotations

import random

from rlkit.rewards.audit.mutation import mutate_number
from rlkit.rewards.audit.problems import AuditProblem, Subject, register_subject

_TAGS = "<answer>ANSWER</answer>"
_CITIES = ("Bern", "Lyon", "Turin", "Graz", "Porto", "Ghent")


# -- a small table ---------------------------------------------------------------------


def _table(rng: random.Random) -> list[tuple[str, int, int]]:
    """City, visitors, trams: visitors of two different digits or more, all different."""
    visitors = rng.sample([n for n in range(23, 97) if n % 10 not in (0, 1, n // 10)], len(_CITIES))
    trams = rng.sample(range(101, 199), len(_CITIES))
    return list(zip(_CITIES, visitors, trams, strict=True))


def _csv(rows: list[tuple[str, int, int]]) -> str:
    return "\n".join(["city,visitors,trams", *(",".join(map(str, row)) for row in rows)])


def _table_problem(
    rows: list[tuple[str, int, int]],
    question: str,
    answer: str | list[str],
    forms: dict[str, str],
    wrong: list[str],
    facts: dict[str, object],
) -> AuditProblem:
    written = ", ".join(answer) if isinstance(answer, list) else answer
    bare = written if isinstance(answer, str) else None
    return AuditProblem(
        columns={"answer": answer, "csv": _csv(rows), "question": question},
        honest={
            "answer block": _TAGS.replace("ANSWER", written),
            "thought first": f"<think>I look at every row.</think>{_TAGS}".replace(
                "ANSWER", written
            ),
            "announced": f"I looked at every row.\nThe answer is: {written}",
            "white space": f"<answer>\n {written} \n</answer>",
            **{name: _TAGS.replace("ANSWER", form) for name, form in forms.items()},
        },
        wrong={
            **{f"wrong {w}": _TAGS.replace("ANSWER", w) for w in wrong},
            "nothing": "",
            "refusal": "<answer>The table does not say.</answer>",
        },
        answer=bare,
        wrong_answers=tuple(wrong),
        template=_TAGS,
        question=question,
        ladder=("", _TAGS.replace("ANSWER", wrong[0]), _TAGS.replace("ANSWER", written)),
        same=(tuple(_TAGS.replace("ANSWER", f) for f in (written, f" {written}", f"{written}\n")),),
        mutants={
            name: _TAGS.replace("ANSWER", new) for name, new in mutate_number(written).items()
        },
        facts={"csv": _csv(rows), **facts},
    )


def _tables(seed: int) -> list[AuditProblem]:
    rows = _table(random.Random(f"audit/table/{seed}"))
    most = max(rows, key=lambda row: row[1])
    least = min(rows, key=lambda row: row[1])
    bern = rows[0]
    others = [str(row[1]) for row in rows if row != bern]
    other_cities = [row[0] for row in rows if row != most]
    three = sorted(rows, key=lambda row: row[1])[:3]
    names = [row[0] for row in three]
    return [
        _table_problem(
            rows,
            "How many visitors had Bern?",
            str(bern[1]),
            {"decimal": f"{bern[1]}.0", "unit": f"{bern[1]} visitors", "bold": f"**{bern[1]}**"},
            [others[0], str(bern[2]), others[1]],
            {
                "column_values": [str(row[1]) for row in rows],
                "answer_row": [str(cell) for cell in bern],
            },
        ),
        _table_problem(
            rows,
            "Which city had the most visitors?",
            most[0],
            {"lower case": most[0].lower(), "a full stop": f"{most[0]}."},
            [least[0], other_cities[0] if other_cities[0] != least[0] else other_cities[1]],
            {
                "column_values": [row[0] for row in rows],
            },
        ),
        _table_problem(
            rows,
            "Which three cities had the fewest visitors?",
            names,
            {
                "another order": ", ".join(reversed(names)),
                "with and": f"{names[0]}, {names[1]} and {names[2]}",
                "bullets": "\n".join(f"- {name}" for name in names),
            },
            [
                ", ".join([*names[:2], most[0]]),
                ", ".join(names[:2]),
                ", ".join([*names, most[0]]),
                ", ".join([names[0], names[0], names[1]]),
            ],
            {"column_values": [row[0] for row in rows]},
        ),
    ]


register_subject(
    "table_reward",
    Subject(
        "table",
        "answer",
        "an answer over a small table",
        ("answer", "table", "length", "strain"),
        _tables,
        ("answer", "csv"),
        not_tried=dict.fromkeys(
            ("python_call", "python_import"),
            "words around the one right value are allowed, and nothing is run",
        ),
    ),
    by_columns=True,
)


# -- facts from a long context ------------------------------------------------------------


def _context(rng: random.Random) -> tuple[str, dict[str, tuple[str, int]], list[str]]:
    """Numbered passages, the facts in them with the passage's number, and the distractors."""
    code, old_code = (str(n) for n in rng.sample(range(4011, 4999), 2))
    gate, other_gate = (f"{rng.choice('BCD')}{n}" for n in rng.sample(range(12, 99), 2))
    captain, mate = rng.sample(("Ilse Brandt", "Omar Haddad", "Petra Novak", "Luis Prado"), 2)
    told = {
        "access code": f"Since Monday the access code of the depot is {code}.",
        "gate": f"The night ferry leaves from gate {gate}.",
        "captain": f"The captain on Tuesdays is {captain}.",
    }
    noise = [
        f"Before Monday one typed {old_code} to get in, which no longer works.",
        f"The day ferry used to leave from gate {other_gate}.",
        f"On other days {mate} is in charge of the deck.",
        *(f"Shed {n} holds ropes, tar and {n * 7} crates of nails." for n in range(3, 15)),
    ]
    passages = [*told.values(), *noise]
    rng.shuffle(passages)
    text = "\n".join(f"[{n}] {passage}" for n, passage in enumerate(passages, start=1))
    values = {"access code": code, "gate": gate, "captain": captain}
    facts = {key: (values[key], passages.index(told[key]) + 1) for key in told}
    return text, facts, [old_code, other_gate, mate]


def _one_needle(seed: int) -> AuditProblem:
    rng = random.Random(f"audit/needle/{seed}")
    _, facts, distractors = _context(rng)
    code = facts["access code"][0]
    say = "The access code is ANSWER."
    return AuditProblem(
        columns={"needles": {"access code": code}, "distractors": distractors, "context": None},
        honest={
            "a sentence": say.replace("ANSWER", code),
            "bare": code,
            "other words": f"The access code mentioned earlier is {code}.",
            "bold": f"It is **{code}**.",
            "value first": f"{code} is the access code.",
            "thought first": f"<think>Not {distractors[0]}.</think>{say.replace('ANSWER', code)}",
            "the wrong one denied": f"It is not {distractors[0]}. It is {code}.",
        },
        wrong={
            "the old code": say.replace("ANSWER", distractors[0]),
            "does not know": "I do not know the code.",
            "denied": f"The code is not {code}.",
            "nothing": "",
        },
        question="What is the access code of the depot?",
        ladder=("", say.replace("ANSWER", code)),
        same=((say.replace("ANSWER", code), f"\n {say.replace('ANSWER', code)}\n\n"),),
        template="ANSWER",
        mutants={name: say.replace("ANSWER", new) for name, new in mutate_number(code).items()},
        facts={"needles": [code], "distractors": distractors, "worthless": "I do not know."},
    )


def _three_needles(seed: int) -> AuditProblem:
    """Three facts from numbered passages, each with its citation."""
    context, facts, distractors = _context(random.Random(f"audit/needles/{seed}"))

    def say(key: str, cite: bool = True, value: str | None = None) -> str:
        given, passage = facts[key]
        return f"The {key} is {value or given}{f' [{passage}]' if cite else ''}."

    keys = list(facts)
    whole = " ".join(say(key) for key in keys)
    others = dict(zip(keys, distractors, strict=True))
    needles = {key: value for key, (value, _) in facts.items()}
    mixed = {"gate": facts["access code"][0], "access code": facts["gate"][0]}
    return AuditProblem(
        columns={"needles": needles, "distractors": distractors, "context": context},
        honest={
            "sentences": whole,
            "another order": " ".join(say(key) for key in reversed(keys)),
            "lines": "\n".join(f"{key}: {facts[key][0]} [{facts[key][1]}]" for key in keys),
            "thought first": f"<think>{distractors[0]}? No.</think>\n{whole}",
        },
        wrong={
            "distractors": " ".join(say(key, value=others[key]) for key in keys),
            "one fact": say("gate"),
            "no citations": " ".join(say(key, cite=False) for key in keys),
            "wrong citations": " ".join(f"{say(key, cite=False)[:-1]} [99]." for key in keys),
            "facts exchanged": " ".join(say(key, value=mixed.get(key)) for key in keys),
            "does not know": "I do not know.",
            "nothing": "",
        },
        question="What are the access code, the gate and the captain? Cite the passages.",
        ladder=("", say("gate"), f"{say('gate')} {say('captain')}", whole),
        same=((whole, f"\n{whole}\n\n"),),
        template="ANSWER",
        partial=True,
        facts={
            "needles": list(needles.values()),
            "distractors": distractors,
            "context": context,
            "worthless": "I do not know.",
        },
    )


register_subject(
    "retention_reward",
    Subject(
        "retention",
        "answer",
        "which facts of a long context come back",
        ("retention", "length", "strain"),
        lambda seed: [_one_needle(seed), _three_needles(seed)],
        ("needles", "distractors", "context"),
    ),
)
