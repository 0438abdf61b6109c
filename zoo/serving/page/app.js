// The page: what is chosen lives in the URL, a change runs the view again, a newer run cancels the
// one before it.

import {element, refill} from "../explorer/explorer.js";
import {languages, request, setKey} from "./api.js";
import {translateView} from "./translate.js";
import {attentionView} from "./attention.js";
import {treeView} from "./tree.js";
import {compareView} from "./compare.js";
import {modelView} from "./model.js";

const VIEWS = {
  translate: ["Translate", translateView],
  attention: ["Attention", attentionView],
  search: ["Beam search", treeView],
  compare: ["Side by side", compareView],
  model: ["Model", modelView],
};
// More examples than a checkpoint brings itself, by the data that its name ends with.
const EXAMPLES = {
  "numbers-en-fr": ["four hundred and five", "seventy-two thousand and eleven"],
  "multi30k-en-de": ["A man in a blue shirt is standing on a ladder cleaning a window.",
                     "A little girl climbs into a wooden playhouse."],
};
const [MOST_BEAM, TREE_BEAM] = [16, 4];
const WAIT = 250;  // milliseconds without a key pressed before a request is sent

const SIDES = ["source", "target"];  // the languages that are chosen

const find = id => document.getElementById(id);
const [select, text, beam, view, status] = ["checkpoint", "text", "beam", "view", "status"].map(find);
const page = {models: [], state: {}, notice: "", running: null, timer: 0};

function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const state = Object.fromEntries(given);
  const names = page.models.map(model => model.name);
  const view = Object.hasOwn(VIEWS, state.view ?? "") ? state.view : "translate";
  const checkpoint = names.includes(state.checkpoint) ? state.checkpoint : names[0] ?? "";
  const beam = Math.trunc(Number(state.beam)) || preset(view, checkpoint);
  page.state = {...state, view, checkpoint, beam: Math.min(Math.max(beam, 1), MOST_BEAM)};
  Object.assign(page.state, known(page.state));
  page.state.text = state.text ?? examples()[0] ?? "";
  page.notice = replaced(state);
}

// What a link chooses and this server does not have, in one line.
function replaced(chosen) {
  const {checkpoint} = page.state;
  if (chosen.checkpoint && chosen.checkpoint !== checkpoint)
    return `This server has no checkpoint “${chosen.checkpoint}”. “${checkpoint}” is used instead.`;
  const side = SIDES.find(one => chosen[one] && chosen[one] !== page.state[one]);
  const instead = page.state[side] ? ` “${page.state[side]}” is used instead.` : "";
  return side ? `“${checkpoint}” does not know the language “${chosen[side]}”.${instead}` : "";
}

function model(name) {
  return page.models.find(one => one.name === name);
}

// The chosen languages, or the checkpoint's default ones where it does not know them.
function known({checkpoint, ...chosen}) {
  return Object.fromEntries(SIDES.map(side => {
    const codes = (model(checkpoint)?.[`${side}_languages`] ?? []).map(one => one.code);
    return [side, codes.includes(chosen[side]) ? chosen[side] : codes[0] ?? ""];
  }));
}

// The beam that the checkpoint recommends. Without one, texts are translated greedily, as the API
// does, and a search is drawn with a beam that shows something.
function preset(view, checkpoint) {
  return Math.min(model(checkpoint)?.decoding?.beam ?? (view === "search" ? TREE_BEAM : 1), MOST_BEAM);
}

// A change of view or checkpoint; a beam that was not chosen follows it.
function moved(change) {
  const {view, checkpoint, beam, source, target} = {...page.state, ...change};
  const chosen = Number(beam) !== preset(page.state.view, page.state.checkpoint);
  return {...change, ...known({checkpoint, source, target}),
          beam: chosen ? beam : preset(view, checkpoint)};
}

// A step is one of a search: another text, for instance, begins with the whole tree again.
function choose(change) {
  const {state} = page, other = key => key in change && String(change[key]) !== String(state[key]);
  if (["checkpoint", "text", "beam", ...SIDES].some(other)) delete state.step;
  Object.assign(state, change);
}

function write(change = {}) {
  choose(change);
  const hash = `#${new URLSearchParams(page.state)}`;
  if (hash !== location.hash) history.replaceState(null, "", hash);
}

function examples() {
  const name = page.state.checkpoint, about = model(name), sources = about?.sources ?? [];
  if (sources.length > 1)
    return [JSON.stringify(Object.fromEntries(sources.map(one => [one, ""])))];
  const more = EXAMPLES[name.split(".").slice(1).join(".")] ?? [];
  return [...new Set([...(about?.examples ?? []), ...more])];
}

function say(message, wrong = false) {
  status.textContent = message;
  status.classList.toggle("wrong", wrong);
}

function show() {
  const state = page.state;
  select.value = state.checkpoint;
  find("notice").textContent = page.notice;
  find("notice").hidden = !page.notice;
  for (const side of SIDES) {
    const codes = model(state.checkpoint)?.[`${side}_languages`] ?? [];
    const byName = [...codes].sort((one, other) => one.name.localeCompare(other.name));
    find(side).replaceChildren(...byName.map(one => new Option(one.name, one.code)));
    find(side).value = state[side];
    find(side).parentElement.hidden = codes.length < 2;
  }
  if (text.value !== state.text) text.value = state.text;
  beam.value = state.beam;
  find("beam-value").textContent = state.beam;
  refill(find("views"), ...Object.entries(VIEWS).map(([name, [title]]) => element("a", {
    href: `#${new URLSearchParams({...state, ...moved({view: name})})}`,
    "aria-current": name === state.view ? "page" : null,
  }, title)));
  // scrollIntoView would also move the point from which Tab goes on.
  const views = find("views"), current = views.querySelector("[aria-current]");
  const left = current.offsetLeft - views.offsetLeft;
  views.scrollLeft = left - (views.clientWidth - current.offsetWidth) / 2;
  refill(find("examples"), ...examples().map(example => element("button", {
    type: "button", className: "pill", onclick: () => { write({text: example}); show(); run(); },
  }, example)));
  document.title = `${VIEWS[state.view][0]} · ${state.checkpoint} · zoo`;
}

async function run() {
  clearTimeout(page.timer);
  page.running?.abort();
  const mine = page.running = new AbortController();
  const tools = {
    models: page.models,
    view,
    state: page.state,
    asked: {
      checkpoint: page.state.checkpoint,
      beam: Number(page.state.beam),
      ...languages(model(page.state.checkpoint), page.state),
    },
    send: (path, body) => request(path, body, mine.signal),
    keep: change => { write(change); show(); },
    say,
  };
  view.setAttribute("aria-busy", "true");
  try {
    const started = performance.now();
    say("Working…");
    const made = await VIEWS[page.state.view][1](tools);
    if (mine.signal.aborted) return;
    refill(view, ...made.flat());
    for (const node of view.children) node.dispatchEvent(new CustomEvent("shown"));
    say(`Answered in ${Math.round(performance.now() - started)} ms.`);
    find("heard").textContent = find("translation")?.textContent ?? "";  // for screen readers
  } catch (error) {
    if (error.name === "AbortError" || mine.signal.aborted) return;
    say(error.message, true);
    view.replaceChildren();
    find("heard").textContent = "";
    find("key").hidden = error.code !== "wrong_api_key";
  } finally {
    if (page.running === mine) view.removeAttribute("aria-busy");
  }
}

function later() {
  page.running?.abort();
  clearTimeout(page.timer);
  // Browsers limit how often a page may change its URL: a key that is held down exceeds that.
  page.timer = setTimeout(() => { write(); run(); }, WAIT);
}

async function begin() {
  try {
    page.models = (await request("api/models")).models;
  } catch (error) {
    say(error.message, true);
    find("key").hidden = error.code !== "wrong_api_key";
    return;
  }
  find("key").hidden = true;
  select.replaceChildren(...page.models.map(model => new Option(
    model.problem ? `${model.name} (not available)` : model.name, model.name)));
  read();
  show();
  run();
}

select.addEventListener("change", () => {
  const before = examples();
  write(moved({checkpoint: select.value}));
  page.notice = "";
  if (before.includes(text.value)) write({text: examples()[0] ?? ""});
  show();
  run();
});
for (const side of SIDES) find(side).addEventListener("change", () => {
  write({[side]: find(side).value});
  page.notice = "";
  show();
  run();
});
for (const field of [text, beam]) field.addEventListener("input", () => {
  choose({[field.id]: field.value});
  show();
  later();
});
window.addEventListener("hashchange", () => { read(); show(); run(); });
document.querySelector(".skip").addEventListener("click", event => {
  event.preventDefault();  // the fragment is the state
  find("main").focus();
});
find("key").addEventListener("submit", event => {
  event.preventDefault();
  setKey(find("key-value").value);
  begin();
});
find("input").hidden = false;
begin();
