"""The report: everything of a run on one page, and nothing of it obeyed."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from rlkit import LoopConfig, LoraSpec, Policy, UserError, reward
from rlkit.lab import write_report
from rlkit.lab.report import duration, report_html
from rlkit.lab.rollout_data import MOST_TEXT
from rlkit.loop import ClosedLoop, Run

CONFIG = {"policy": {"name": "tiny"}, "domains": ["arith"], "loop": {}, "objective": {}}
NASTY = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='o'\">"
CONTROLS = "\x1b[31m\x00\u202e\ud800 & \u2028"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Page(HTMLParser):
    """What a browser would make of the page: scripts, attributes, headings, text."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.tags, self.text, self._open = [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)
        if tag == "script":
            self.scripts.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data):
        if self._open[-1:] == ["script"]:
            self.scripts[-1][1] += data
        elif self._open[-1:] != ["style"]:
            self.text += " ".join(data.split()) + " "

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def rollouts(self):
        return next(json.loads(t) for a, t in self.scripts if a.get("id") == "rollout-data")

    @property
    def program(self):
        """The scripts that are run, in order."""
        return [text for attributes, text in self.scripts if "type" not in attributes]


@reward
def variety(completions, **columns):
    """Share of different characters: an untrained model never answers, but this has contrast."""
    return [len(set(text)) / max(1, len(text)) for text in completions]


@pytest.fixture(scope="session")
def runs(untrained, tmp_path_factory):
    """Runs of a small untrained model: on one domain, and on two with no end and no evaluation."""
    made = {}
    for name, domains in {"one": ["arith"], "two": ["arith", "sort"]}.items():
        policy = Policy.load(untrained, quantize="nf4", lora=LoraSpec(rank=4))
        config = LoopConfig(problems_per_step=4, group_size=4, max_new_tokens=8)
        folder = tmp_path_factory.mktemp("runs") / name
        loop = ClosedLoop(policy, domains, config=config, reward=variety, run=folder)
        if name == "one":
            loop.evaluate(problems=4)
            loop.run(3, progress=False)
            loop.evaluate(problems=4)
        else:
            loop.step()
            loop.step()
        made[name] = Run.open(folder)
    return made


def crafted(path, rollouts=(), metrics=(), events=(), config=CONFIG):
    run = Run.create(path, config)
    for row in metrics:
        run.append_metrics(row)
    for event in events:
        run.append_event(**event)
    if rollouts:
        run.append_rollouts(rollouts)
    return run


def rollout(step=1, group=0, index=0, text="<answer>1</answer>", **other):
    row = {"step": step, "group": group, "index": index, "key": f"arith-{step}-{group}"}
    row |= {"domain": "arith", "difficulty": 1, "question": "What is 1 + 0?", "text": text}
    row |= {"reward": index / 4, "parts": {}, "status": "OK", "reason": "", "solved": None}
    row |= {"advantage": 0.0, "finish_reason": "stop", "length": 3, "policy_version": 0}
    return row | other


# -- what stands on the page ----------------------------------------------------------------


def test_a_run_is_told_from_top_to_bottom(runs):
    page = Page(report_html(runs["one"]))
    assert "was trained with GRPO on arith: 3 steps." in page.text
    assert "precision in force: NF4 weights in" in page.text
    assert "Each step asks 4 problems and takes 4 answers to each." in page.text
    assert "The run finished at step 3." in page.text
    # Nothing is solved, so of 4 problems: Wilson's interval of 0 of 4 is [0, 0.490].
    assert "0.000 [0.000, 0.490] (step 0)" in page.text
    assert "0.000 [0.000, 0.490] (step 3)" in page.text
    tokens = runs["one"].metrics()[-1]["num_tokens"]
    assert f"Tokens sampled in training {tokens} " in page.text
    places = [page.text.index(f" {name} ") for name in ("Result", "Curves", "Events", "Settings")]
    assert places == sorted(places)
    assert "loop.problems_per_step 4 " in page.text


def test_code_containment_is_said(tmp_path, runs):
    assert "No reward of this run executes code" in report_html(runs["one"])
    assert "contained:</strong> not recorded." in report_html(crafted(tmp_path / "unknown"))
    line = {"backend": "local", "level": "L1", "sentence": "in a box of glass"}
    contained = {**CONFIG, "isolation": line}
    assert "local, L1: in a box of glass" in report_html(crafted(tmp_path / "r", config=contained))
    contained = {**CONFIG, "isolation": {"level": "L1", "sentence": "in a box of wood"}}
    assert "in a box of wood" in report_html(crafted(tmp_path / "old", config=contained))


def test_every_curve_of_a_real_run_is_there_with_its_values(runs):
    page = Page(report_html(runs["two"]))
    blocks = [json.loads(t) for a, t in page.scripts if a.get("class") == "rlkit-figure-data"]
    drawn = {trace["name"]: trace["y"] for block in blocks for trace in block["data"]}
    rows = runs["two"].metrics()
    assert drawn["gradient norm"] == pytest.approx([r["grad_norm"] for r in rows], rel=1e-5)
    assert drawn["learning rate"] == pytest.approx([r["learning_rate"] for r in rows], rel=1e-5)
    titles = "Reward,Pass rate,Groups without contrast,Entropy,Gradient norm,Length of the answers"
    titles += ",Answers cut off,Statuses,Curriculum,Learning rate,Where the time goes"
    for title in titles.split(","):
        assert f" {title} " in page.text
    assert "Curriculum" not in Page(report_html(runs["one"])).text  # it has one domain only


def test_every_figure_can_be_read_without_seeing_it(runs):
    page = Page(report_html(runs["one"]))
    figures = page.all("figure")
    pictures = [a for a in page.all("div") if a.get("role") == "img"]
    assert len(figures) == len(pictures) == len(page.all("figcaption")) >= 9
    assert all(len(a["aria-label"].split()) > 10 for a in pictures)
    assert page.text.count("Data of this figure. ") == len(figures)
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert headings.count(1) == 1 and headings[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(headings))
    assert all(a.get("scope") in ("col", "row") for a in page.all("th"))


def test_all_rollouts_of_a_small_run_are_there_as_recorded(runs):
    packed = Page(report_html(runs["one"])).rollouts
    flat = [
        (g["step"], g["group"], r["index"], r["text"])
        for g in packed["groups"]
        for r in g["rollouts"]
    ]
    kept = runs["one"].rollouts()
    assert flat == [(r["step"], r["group"], r["index"], r["text"]) for r in kept]
    assert len(flat) == 3 * 4 * 4
    assert packed["note"] == "All 48 rollouts of the run are here."


def test_a_run_without_steps_evaluation_or_end_says_so(tmp_path, runs):
    empty = Page(report_html(crafted(tmp_path / "empty"))).text
    assert "No step has been recorded yet" in empty
    assert "There is no held-out evaluation yet" in empty
    assert "No rollouts have been recorded yet." in empty
    assert "No training has been started." in empty
    started = [{"kind": "started", "step": 0, "steps": 9}]
    going = crafted(tmp_path / "going", metrics=[{"step": 2, "reward": 1.0}], events=started)
    text = Page(report_html(going)).text
    assert (
        "it stands at step 2 of the 9 asked for, and is either still going on or was killed" in text
    )
    assert "There is no held-out evaluation yet" in Page(report_html(runs["two"])).text


def test_one_evaluation_gives_no_before_and_after(tmp_path):
    seen = {"split": "held_out", "domain": "sort", "pass_at_1": 0.5, "low": 0.25, "high": 0.75}
    event = {"kind": "evaluation", "step": 4, **seen, "problems": 9, "samples": 1, "unscored": 2}
    text = Page(report_html(crafted(tmp_path / "r", events=[event]))).text
    assert "sort 0.500 [0.250, 0.750] (step 4) – – 9 " in text
    assert "There is only one evaluation so far" in text
    assert "made after training had begun" in text
    assert "sort: 2 answers without a verdict left out." in text


def test_missing_numbers_are_counted_and_never_drawn_as_zero(tmp_path):
    rows = [
        {"step": 1, "reward": 0.5, "kl": None, "step_time": 2.0},
        {"step": 2, "reward": None, "kl": None, "step_time": None, "nonfinite": ["reward"]},
    ]
    page = Page(report_html(crafted(tmp_path / "r", metrics=rows)))
    block = next(json.loads(t) for a, t in page.scripts if a.get("class") == "rlkit-figure-data")
    assert block["data"][0]["y"] == [0.5, None]
    assert "without a value in any step: kl." in page.text
    assert "In 1 step a number was infinite or not a number" in page.text
    assert "2 s in 1 of 2 steps" in page.text


def test_torn_last_lines_are_left_out(tmp_path):
    run = crafted(
        tmp_path / "r",
        rollouts=[rollout()],
        metrics=[{"step": 1, "reward": 0.5}],
        events=[{"kind": "started", "step": 0, "steps": 3}],
    )
    run.append_rollouts([rollout(step=2)])
    for name, cut in {"rollouts.jsonl.gz": 9, "metrics.jsonl": 0, "events.jsonl": 0}.items():
        file = run.path / name
        data = file.read_bytes()
        file.write_bytes(data[: len(data) - cut] if cut else data + b'{"step": 2, "rew')
    page = Page(report_html(run))
    assert page.rollouts["total"] == 1
    assert "it stands at step 1 of the 3 asked for" in page.text


# -- hostile text ------------------------------------------------------------------------------


def hostile_run(path):
    text = NASTY + CONTROLS
    events = [{"kind": "intervention", "step": 1, "rule": text, "action": "warn", "reason": text}]
    rows = [{"step": 1, "reward": 0.5, f"status/{text}": 1, f"rewards/{text}/mean": 1.0}]
    return crafted(
        path,
        rollouts=[
            rollout(text=text, question=text, reason=text, status=text, parts={text: 1.0}),
            rollout(index=1, text="long " * MOST_TEXT, solved=True, status="OK"),
        ],
        metrics=rows,
        events=events,
        config={**CONFIG, "policy": {"name": text.replace("/", "\\")}, "note": text},
    )


def test_hostile_text_ends_no_element_and_hides_nothing(tmp_path):
    written = write_report(hostile_run(tmp_path / "r")).read_text(encoding="utf-8")
    page, harmless = Page(written), Page(report_html(crafted(tmp_path / "plain")))
    assert len(page.program) == len(harmless.program) == 2
    assert not page.all("img")
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    assert not re.search("[\x00-\x08\x0e-\x1f\u202e\u2028]", page.text)
    assert "⟨ESC⟩[31m⟨NUL⟩⟨U+202E⟩⟨U+D800⟩ & ⟨U+2028⟩" in page.text
    assert not [text for a, text in page.scripts if "type" in a and set(text) & set("<>&\u2028")]
    first, long = page.rollouts["groups"][0]["rollouts"]
    assert first["text"] == NASTY + CONTROLS  # spelled out by the page, kept as it was
    assert long["text"].endswith("… cut here; the text has 100,000 characters.")


def test_the_page_may_run_its_own_two_scripts_and_reach_nothing(runs):
    page = Page(report_html(runs["one"]))
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in page.program]
    assert rules["script-src"].split() == [f"'sha256-{value}'" for value in hashes]
    assert rules["img-src"] == "data:"
    reached = [a.get("src") or a.get("href") for _, a in page.tags if "src" in a or "href" in a]
    assert reached and all(address.startswith("#") for address in reached)


def browse(page, folder, budget=5000):
    """The page as headless Chromium leaves it, and what its console said."""
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
            *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
            *("--disable-sync", "--enable-logging=stderr", "--v=0", "--dump-dom"),
            *(f"--user-data-dir={folder}", f"--virtual-time-budget={budget}", page.as_uri()),
        ],
        capture_output=True,
        timeout=120,
    )
    dom = done.stdout.decode()
    return dom, [line for line in done.stderr.decode().splitlines() if "CONSOLE" in line]


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium on the PATH")
def test_in_a_browser_figures_are_drawn_and_hostile_text_does_nothing(tmp_path):
    page = write_report(hostile_run(tmp_path / "r"))
    dom, said = browse(page, tmp_path / "profile")
    assert said == []
    title = html.unescape(dom.split("<title>")[1].split("</title>")[0])
    assert title.startswith("Training run: ")
    assert dom.count('class="main-svg"') >= 2  # plotly's own drawing
    rows = dom.split('<table id="list">')[1].split("</tbody>")[0]
    assert '<span class="control">⟨ESC⟩</span>[31m' in rows
    assert "&lt;/script&gt;&lt;script&gt;" in rows


DRIVE = """
const press = (key) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true }));
const list = () => [...document.querySelectorAll("#list tbody tr")];
const set = (name, value) => {
  const field = document.getElementById("filters").elements[name];
  field.value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
};
const seen = { all: list().length };
set("text", "NEEDLE"); seen.text = list().length; set("text", "");
set("low", "0.5"); seen.reward = list().length; set("low", "");
set("from", "2"); seen.step = list().length; set("from", "");
set("solved", "0"); seen.solved = list().length; set("solved", "");
list()[0].querySelector("button").focus();
press("ArrowDown");
seen.focus = document.activeElement.getAttribute("aria-label");
document.activeElement.click();
const dialog = document.getElementById("group");
seen.open = dialog.open;
seen.answers = document.querySelectorAll("#group-answers article").length;
press("ArrowRight");
seen.next = document.getElementById("group-title").textContent;
dialog.addEventListener("close", () => setTimeout(() => {
  seen.back = document.activeElement.getAttribute("aria-label");
  document.body.dataset.seen = JSON.stringify(seen);
}));
dialog.close();
"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium on the PATH")
def test_in_a_browser_rollouts_are_filtered_and_compared_by_keyboard(tmp_path):
    rows = [rollout(step, 0, index, solved=index == 3) for step in (1, 2) for index in range(4)]
    rows[5]["text"] = "a needle in the hay"
    text = report_html(crafted(tmp_path / "r", rollouts=rows))
    # The page runs no other script than its own; this copy may, to press its keys.
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    page = tmp_path / "driven.html"
    page.write_text(text.replace("</body>", f"<script>{DRIVE}</script></body>"), encoding="utf-8")
    dom, said = browse(page, tmp_path / "profile")
    assert said == []
    seen = json.loads(html.unescape(dom.split('data-seen="')[1].split('"')[0]))
    # 2 steps of 4 answers with rewards 0, 0.25, 0.5 and 0.75; the last one is solved.
    assert (seen["all"], seen["text"], seen["reward"]) == (8, 1, 4)
    assert (seen["step"], seen["solved"]) == (4, 2)
    assert seen["focus"] == seen["back"] == "Compare: step 1, group 0, answer 1"
    assert (seen["open"], seen["answers"]) == (True, 4)
    assert seen["next"].startswith("Step 2, group 0")


# -- the file ------------------------------------------------------------------------------------


def test_the_page_goes_into_the_run_or_where_it_is_told(tmp_path, runs):
    run = crafted(tmp_path / "r")
    assert write_report(run) == run.path / "report.html"
    assert write_report(run.path, tmp_path / "other.html") == tmp_path / "other.html"
    assert sorted(p.name for p in run.path.iterdir()) == ["config.json", "report.html"]
    size = len(report_html(runs["one"]))
    assert size < 5_500_000  # plotly.js and little else


@pytest.mark.parametrize(
    ("where", "said"), [("", "is a folder"), ("no/x.html", "cannot be written")]
)
def test_a_bad_place_is_refused_in_a_sentence(tmp_path, where, said):
    run = crafted(tmp_path / "r")
    with pytest.raises(UserError, match=said):
        write_report(run, tmp_path / where)
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_no_run_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(UserError, match="no run directory"):
        write_report(tmp_path)


def test_the_lab_imports_nothing_heavy():
    program = "import sys, rlkit.lab; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert "rlkit.lab" in modules
    assert not modules & {"torch", "transformers", "plotly", "ipywidgets", "IPython", "numpy"}


def test_a_report_needs_no_torch(tmp_path):
    run = crafted(tmp_path / "r", rollouts=[rollout()], metrics=[{"step": 1, "reward": 0.5}])
    program = "import sys; from rlkit.lab import write_report; write_report(sys.argv[1])"
    program += "; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program, str(run.path)], check=True)


def test_durations_are_for_people():
    assert [duration(s) for s in (0.25, 59.6, 3600)] == ["0.25 s", "1 min 0 s", "1 h 0 min"]
