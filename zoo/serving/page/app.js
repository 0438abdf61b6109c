// The page: what is chosen lives in the URL, a change runs the view again, a newer run cancels the
// one before it.

import {element} from "/explorer/explorer.js";
import {request, setKey} from "./api.js";
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
const EXAMPLES = [
  [/number/, ["four hundred and five", "seventy-two thousand and eleven", "one hundred thousand"]],
  [/^/, ["A man in a blue shirt is standing on a ladder cleaning a window.",
         "Two dogs are playing in the snow.",
         "A little girl climbs into a wooden playhouse."]],
];
const WAIT = 250;  // milliseconds without a key pressed before a request is sent

const find = id => document.getElementById(id);
const [select, text, beam, view, status] = ["checkpoint", "text", "beam", "view", "status"].map(find);
const page = {models: [], state: {}, running: null, timer: 0};

function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const state = Object.fromEntries(given);
  const names = page.models.map(model => model.name);
  page.state = {
    ...state,
    view: Object.hasOwn(VIEWS, state.view ?? "") ? state.view : "translate",
    checkpoint: names.includes(state.checkpoint) ? state.checkpoint : names[0] ?? "",
    beam: Math.min(Math.max(Math.trunc(Number(state.beam)) || 4, 1), 8),
  };
  page.state.text = state.text ?? examples()[0];
}

function write(change = {}, replace = true) {
  Object.assign(page.state, change);
  const hash = `#${new URLSearchParams(page.state)}`;
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
}

function examples() {
  const sources = page.models.find(model => model.name === page.state.checkpoint)?.sources ?? [];
  if (sources.length > 1) {
    return [JSON.stringify(Object.fromEntries(sources.map(name => [name, ""])))];
  }
  return EXAMPLES.find(([pattern]) => pattern.test(page.state.checkpoint))[1];
}

function say(message, wrong = false) {
  status.textContent = message;
  status.classList.toggle("wrong", wrong);
}

function show() {
  const state = page.state;
  select.value = state.checkpoint;
  if (text.value !== state.text) text.value = state.text;
  beam.value = state.beam;
  find("beam-value").textContent = state.beam;
  find("views").replaceChildren(...Object.entries(VIEWS).map(([name, [title]]) => element("a", {
    href: `#${new URLSearchParams({...state, view: name})}`,
    "aria-current": name === state.view ? "page" : null,
  }, title)));
  find("views").querySelector("[aria-current]").scrollIntoView({block: "nearest", inline: "nearest"});
  find("examples").replaceChildren(...examples().map(example => element("button", {
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
    view.replaceChildren(...made.flat());
    for (const node of view.children) node.dispatchEvent(new CustomEvent("shown"));
    say(`${Math.round(performance.now() - started)} ms`);
  } catch (error) {
    if (error.name === "AbortError" || mine.signal.aborted) return;
    say(error.message, true);
    view.replaceChildren();
    find("key").hidden = error.code !== "wrong_api_key";
  } finally {
    if (page.running === mine) view.removeAttribute("aria-busy");
  }
}

function later() {
  page.running?.abort();
  clearTimeout(page.timer);
  page.timer = setTimeout(run, WAIT);
}

async function begin() {
  try {
    page.models = (await request("/api/models")).models;
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
  write({checkpoint: select.value});
  if (before.includes(text.value)) write({text: examples()[0]});
  show();
  run();
});
text.addEventListener("input", () => { write({text: text.value}); later(); });
beam.addEventListener("input", () => { write({beam: beam.value}); show(); later(); });
window.addEventListener("hashchange", () => { read(); show(); run(); });
find("key").addEventListener("submit", event => {
  event.preventDefault();
  setKey(find("key-value").value);
  begin();
});
begin();
