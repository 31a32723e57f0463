"use strict";
// The page's only script beside plotly.js. Everything a policy wrote is put in place as
// text (textContent, createTextNode), never as markup.

// ---- text -------------------------------------------------------------------------------

// The same characters as in rlkit/lab/theme.py: controls, lone surrogates, and those that
// reorder text or have no width.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;
const CONTROLS = ("NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI " +
  "DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US").split(" ");

function spellOut(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return `⟨${CONTROLS[code]}⟩`;
  if (code === 0x7f) return "⟨DEL⟩";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

function setText(node, text) {
  node.textContent = "";
  const all = text === null || text === undefined ? "" : String(text);
  let done = 0;
  for (const match of all.matchAll(HIDDEN)) {
    node.append(document.createTextNode(all.slice(done, match.index)));
    node.append(element("span", spellOut(match[0]), "control"));
    done = match.index + match[0].length;
  }
  node.append(document.createTextNode(all.slice(done)));
  return node;
}

function element(tag, text, className) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const known = (value) => typeof value === "number";
const figure = (value) => (known(value) ? String(Number(value.toPrecision(4))) : "–");
const count = (value) => value.toLocaleString("en");
const yesNo = (value) => (value === true ? "yes" : value === false ? "no" : "no verdict");
const byId = (id) => document.getElementById(id);

// ---- figures ------------------------------------------------------------------------------

function colours() {
  const style = getComputedStyle(document.documentElement);
  const pick = (name) => style.getPropertyValue(name).trim();
  return { text: pick("--text"), grid: pick("--plot-grid"), page: pick("--page"), line: pick("--line") };
}

function themed(layout) {
  const { text, grid, page, line } = colours();
  const out = { ...layout, font: { ...layout.font, color: text } };
  out.hoverlabel = { ...layout.hoverlabel, bgcolor: page, bordercolor: line, font: { color: text } };
  for (const name of new Set(["xaxis", "yaxis", ...Object.keys(layout)])) {
    if (/^[xy]axis\d*$/.test(name)) {
      out[name] = { ...layout[name], gridcolor: grid, zerolinecolor: grid, linecolor: grid };
    }
  }
  return out;
}

const drawn = [];

function drawFigures() {
  for (const block of document.querySelectorAll("figure.rlkit-figure")) {
    const place = block.querySelector(".rlkit-plot");
    const { data, layout, config } = JSON.parse(block.querySelector(".rlkit-figure-data").textContent);
    Plotly.newPlot(place, data, themed(layout), config).then(
      () => drawn.push([place, data, layout, config]),
      (error) => { place.textContent = `This figure could not be drawn (${error}); its data is in the table below.`; },
    );
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const [place, data, layout, config] of drawn) Plotly.react(place, data, themed(layout), config);
  });
}

// ---- rollouts -------------------------------------------------------------------------------

const PAGE = 50;
const COLUMNS = [
  ["step", (r) => r.step, true],
  ["group", (r) => r.groupNumber, true],
  ["answer", (r) => r.index, true],
  ["domain", (r) => r.domain],
  ["level", (r) => r.difficulty, true],
  ["reward", (r) => r.reward, true],
  ["advantage", (r) => r.advantage, true],
  ["solved", (r) => yesNo(r.solved)],
  ["status", (r) => r.status],
  ["ended by", (r) => r.finish_reason],
  ["tokens", (r) => r.length, true],
  ["text", (r) => r.text],
];

const groups = JSON.parse(byId("rollout-data").textContent).groups;
const rollouts = groups.flatMap((group, position) =>
  group.rollouts.map((r) => ({ ...r, step: group.step, groupNumber: group.group, domain: group.domain,
    difficulty: group.difficulty, question: group.question, position })));

let listed = rollouts;
let page = 0;
let sorting = { column: -1, up: true };
let shown = { position: 0, row: null };

function advantageBar(value, largest) {
  const bar = element("span", undefined, "advantage");
  if (!known(value)) return bar;
  const width = largest > 0 ? Math.min(50, (50 * Math.abs(value)) / largest) : 0;
  const fill = element("i", undefined, value < 0 ? "down" : "up");
  fill.style.width = `${width}%`;
  fill.style.left = value < 0 ? `${50 - width}%` : "50%";
  bar.append(fill);
  return bar;
}

const largestAdvantage = (rows) =>
  rows.reduce((most, r) => (known(r.advantage) ? Math.max(most, Math.abs(r.advantage)) : most), 0);
const overallAdvantage = largestAdvantage(rollouts);

function fillSelect(name, values) {
  const select = byId("filters").elements[name];
  select.append(new Option("any", ""));
  values.forEach((value, place) => {
    const option = new Option("", String(place));
    option.textContent = value.replace(HIDDEN, spellOut);
    select.append(option);
  });
  choices[name] = values;
}

const choices = {};

function distinct(pick) {
  return [...new Set(rollouts.map((r) => String(pick(r))))].sort();
}

function filter() {
  const fields = byId("filters").elements;
  const limit = (name) => (fields[name].value === "" ? null : Number(fields[name].value));
  const chosen = (name) => (fields[name].value === "" ? null : choices[name][Number(fields[name].value)]);
  const [from, to, low, high] = ["from", "to", "low", "high"].map(limit);
  const [domain, status, solved, ended] = ["domain", "status", "solved", "finish_reason"].map(chosen);
  const wanted = fields.text.value.toLowerCase();
  listed = rollouts.filter((r) =>
    (from === null || r.step >= from) && (to === null || r.step <= to) &&
    (low === null || (known(r.reward) && r.reward >= low)) &&
    (high === null || (known(r.reward) && r.reward <= high)) &&
    (domain === null || String(r.domain) === domain) &&
    (status === null || String(r.status) === status) &&
    (solved === null || yesNo(r.solved) === solved) &&
    (ended === null || String(r.finish_reason) === ended) &&
    (wanted === "" || [r.question, r.text, r.reason].some((t) => String(t ?? "").toLowerCase().includes(wanted))));
  sort();
  page = 0;
  showPage();
}

function sort() {
  if (sorting.column < 0) return;
  const pick = COLUMNS[sorting.column][1];
  const sign = sorting.up ? 1 : -1;
  // What has no value stands last in either direction.
  listed = [...listed].sort((a, b) => {
    const [x, y] = [pick(a), pick(b)];
    const [xMissing, yMissing] = [x === null || x === undefined, y === null || y === undefined];
    if (xMissing || yMissing) return xMissing - yMissing;
    if (known(x) && known(y)) return sign * (x - y);
    return sign * String(x).localeCompare(String(y));
  });
}

function showHead() {
  const row = document.querySelector("#list thead tr");
  row.textContent = "";
  row.append(element("th", "compare"));
  row.firstChild.scope = "col";
  COLUMNS.forEach(([name], column) => {
    const cell = element("th");
    cell.scope = "col";
    const active = sorting.column === column;
    cell.setAttribute("aria-sort", active ? (sorting.up ? "ascending" : "descending") : "none");
    const button = element("button", name + (active ? (sorting.up ? " ▲" : " ▼") : ""));
    button.type = "button";
    button.addEventListener("click", () => {
      sorting = { column, up: active ? !sorting.up : true };
      sort();
      page = 0;
      showPage();
      document.querySelectorAll("#list thead button")[column].focus();
    });
    cell.append(button);
    row.append(cell);
  });
}

function showPage() {
  showHead();
  const pages = Math.max(1, Math.ceil(listed.length / PAGE));
  page = Math.min(Math.max(0, page), pages - 1);
  const body = document.querySelector("#list tbody");
  body.textContent = "";
  listed.slice(page * PAGE, (page + 1) * PAGE).forEach((r, place) => body.append(rowOf(r, place)));
  setText(byId("count"), listed.length
    ? `${count(listed.length)} of the ${count(rollouts.length)} rollouts here match.`
    : "No rollout matches; clear a filter.");
  byId("page").textContent = `Page ${page + 1} of ${pages}`;
  byId("previous").disabled = page === 0;
  byId("next").disabled = page === pages - 1;
}

function rowOf(r, place) {
  const row = element("tr");
  const first = element("td");
  const button = element("button", "Group");
  button.type = "button";
  button.tabIndex = place === 0 ? 0 : -1;
  button.setAttribute("aria-label", `Compare: step ${r.step}, group ${r.groupNumber}, answer ${r.index}`);
  button.addEventListener("click", () => showGroup(r.position, r, button));
  first.append(button);
  row.append(first);
  for (const [name, pick, numeric] of COLUMNS) {
    const cell = element("td", undefined, numeric ? "number" : "");
    const value = pick(r);
    if (name === "text") {
      cell.className = "answer";
      const text = String(value ?? "");
      cell.append(setText(element("div"), text.length > 300 ? text.slice(0, 300) + "…" : text));
    } else if (name === "advantage") {
      cell.append(element("span", figure(value) + " "), advantageBar(value, overallAdvantage));
    } else if (numeric) {
      cell.textContent = figure(value);
    } else {
      setText(cell, value ?? "–");
    }
    if (name === "solved" && r.solved !== null) cell.classList.add(r.solved ? "good" : "bad");
    row.append(cell);
  }
  return row;
}

function moveRow(event) {
  const buttons = [...document.querySelectorAll("#list tbody button")];
  const here = buttons.indexOf(document.activeElement);
  if (here < 0) return;
  const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (!buttons[to]) return;
  buttons[here].tabIndex = -1;
  buttons[to].tabIndex = 0;
  buttons[to].focus();
}

// ---- one group ------------------------------------------------------------------------------

function showGroup(position, chosen, opener) {
  shown = { position, chosen, opener: opener ?? shown.opener };
  const group = groups[position];
  const rewards = group.rollouts.map((r) => r.reward).filter(known);
  const solved = group.rollouts.filter((r) => r.solved === true).length;
  const mean = rewards.length ? rewards.reduce((a, b) => a + b, 0) / rewards.length : null;
  const spread = rewards.length ? Math.max(...rewards) - Math.min(...rewards) : 0;
  setText(byId("group-title"), `Step ${group.step}, group ${group.group}: ${group.domain}, level ${group.difficulty ?? "?"}`);
  setText(byId("group-facts"),
    `${group.rollouts.length} answers, ${solved} solved, mean reward ${figure(mean)}` +
    (rewards.length ? `, from ${figure(Math.min(...rewards))} to ${figure(Math.max(...rewards))}. ` : ". ") +
    (spread > 1e-6 ? "" : "Without contrast: nothing is learned from this group. ") + `Problem ${group.key}.`);
  setText(byId("group-question"), group.question);
  showAnswers();
  byId("group-previous").disabled = position === 0;
  byId("group-next").disabled = position === groups.length - 1;
  const dialog = byId("group");
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  byId("group-title").focus();
}

function showAnswers() {
  const order = byId("group-order").value;
  const sign = order === "best" ? -1 : 1;
  const rows = [...groups[shown.position].rollouts];
  if (order !== "index") {
    rows.sort((a, b) => (known(a.reward) && known(b.reward) ? sign * (a.reward - b.reward) : known(b.reward) - known(a.reward)));
  }
  const largest = largestAdvantage(rows);
  byId("group-answers").replaceChildren(...rows.map((r) => answerOf(r, largest)));
}

function answerOf(r, largest) {
  const kind = r.solved === true ? "solved" : r.solved === false ? "unsolved" : "";
  const card = element("article", undefined, kind);
  if (shown.chosen && shown.chosen.index === r.index) card.classList.add("chosen");
  card.append(element("h4", `Answer ${r.index}: reward ${figure(r.reward)}`));
  card.append(setText(element("pre"), r.text));
  const facts = element("dl");
  const add = (name, value) => {
    const place = element("dd");
    if (value instanceof Node) place.append(value);
    else setText(place, value);
    facts.append(setText(element("dt"), name), place);
  };
  const advantage = element("span", figure(r.advantage) + " ");
  advantage.append(advantageBar(r.advantage, largest));
  add("solved", yesNo(r.solved));
  add("status", r.status);
  if (r.reason) add("reason", r.reason);
  add("advantage", advantage);
  for (const [name, value] of Object.entries(r.parts ?? {})) add(`part ${name}`, figure(value));
  add("ended by", r.finish_reason === "length" ? "length (cut off at its token budget)" : r.finish_reason);
  add("tokens", figure(r.length));
  add("policy version", figure(r.policy_version));
  card.append(facts);
  return card;
}

function moveGroup(by) {
  const to = shown.position + by;
  if (to >= 0 && to < groups.length) showGroup(to, null);
}

// ---- start ------------------------------------------------------------------------------------

function start() {
  drawFigures();
  if (!rollouts.length) return;
  byId("browser").hidden = false;
  fillSelect("domain", distinct((r) => r.domain));
  fillSelect("status", distinct((r) => r.status));
  fillSelect("solved", ["yes", "no", "no verdict"]);
  fillSelect("finish_reason", distinct((r) => r.finish_reason));
  const filters = byId("filters");
  filters.addEventListener("input", filter);
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("reset", () => setTimeout(filter));
  byId("previous").addEventListener("click", () => { page -= 1; showPage(); });
  byId("next").addEventListener("click", () => { page += 1; showPage(); });
  document.querySelector("#list tbody").addEventListener("keydown", moveRow);
  byId("group-previous").addEventListener("click", () => moveGroup(-1));
  byId("group-next").addEventListener("click", () => moveGroup(1));
  byId("group-order").addEventListener("change", showAnswers);
  byId("group-close").addEventListener("click", () => byId("group").close());
  byId("group").addEventListener("close", () => shown.opener?.focus());
  byId("group").addEventListener("keydown", (event) => {
    if (event.target.matches("select")) return;
    if (event.key === "ArrowLeft") moveGroup(-1);
    if (event.key === "ArrowRight") moveGroup(1);
  });
  showPage();
}

start();
