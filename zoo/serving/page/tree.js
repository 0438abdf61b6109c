// A beam search as a tree that can be stepped through.

import {element, refill, scrollable, shown, svg} from "../explorer/explorer.js";
import {percent, readWhole} from "./translate.js";

const MOST = 8;  // the widest beam that is drawn
const [WIDTH, HEIGHT, GAP, ROW] = [108, 36, 34, 46];

// The way from each hypothesis back to the root, as "step:index" of its nodes.
function ways(steps) {
  const found = new Map();
  steps.forEach((nodes, t) => nodes.forEach((node, i) => {
    if (node.rank === null) return;
    const way = new Set();
    for (let [s, n] = [t, i]; s >= 0; n = steps[s].at(n).parent, s--) way.add(`${s}:${n}`);
    found.set(node.rank, way);
  }));
  return found;
}

function described(node) {
  return `“${shown(node.token)}” ${node.status}: probability ${percent(node.log_prob)}` +
         `, score ${node.score.toFixed(2)}`;
}

function draw(tree, best) {
  const most = Math.max(...tree.steps.map(nodes => nodes.length));
  const x = step => 10 + (step + 1) * (WIDTH + GAP) - WIDTH - GAP + 60, y = i => 10 + i * ROW;
  const width = x(tree.steps.length) + 10, height = y(most) + 6;
  const drawing = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
                              "aria-label": "The search as a tree, a column for each step"});
  const start = svg("text", {x: 8, y: y(0) + HEIGHT / 2 + 4});
  start.textContent = "start";
  drawing.append(start);
  tree.steps.forEach((nodes, t) => nodes.forEach((node, i) => {
    const on = best?.has(`${t}:${i}`) ? " best" : "";
    const from = t ? [x(t - 1) + WIDTH, y(node.parent) + HEIGHT / 2] : [46, y(0) + HEIGHT / 2];
    const to = [x(t), y(i) + HEIGHT / 2], middle = (from[0] + to[0]) / 2;
    const edge = svg("path", {
      class: `edge ${node.status}${on}`,
      d: `M${from} C${middle},${from[1]} ${middle},${to[1]} ${to}`});
    edge.dataset.step = t;
    drawing.prepend(edge);
    const title = svg("title");
    title.textContent = described(node);
    const word = svg("text", {x: x(t) + 8, y: y(i) + 16});
    const name = shown(node.token);
    word.textContent = name.length > 11 ? name.slice(0, 10) + "…" : name;
    const score = svg("text", {x: x(t) + 8, y: y(i) + 30, class: "small"});
    score.textContent = `${percent(node.log_prob)} · ${node.score.toFixed(2)}`;
    const box = svg("rect", {x: x(t), y: y(i), width: WIDTH, height: HEIGHT, rx: 8});
    const group = svg("g", {class: `node ${node.status}${on}`}, title, box, word, score);
    group.dataset.step = t;
    drawing.append(group);
  }));
  return drawing;
}

export async function treeView({send, state, asked, keep}) {
  if (!state.text.trim()) return [element("p", {className: "note"}, "Type a text first.")];
  const beam = Math.min(Number(state.beam), MOST);
  const tree = await send("api/tree", {...asked, text: state.text, beam});
  const last = tree.steps.length, best = ways(tree.steps);
  const holder = element("div", {className: "tree"});
  const summary = element("p", {className: "note", role: "status"});
  const range = element("input", {type: "range", min: 1, max: last, step: 1,
                                  "aria-label": "Step of the search"});
  const list = element("ol", {className: "best"});
  // For screen readers, to which a drawing is one picture.
  const heard = element("ul", {className: "heard", "aria-label": "Prefixes of this step"});
  let rank = 0;

  function go(step) {
    step = Math.min(Math.max(Math.trunc(step), 1), last);
    range.value = step;
    for (const part of holder.querySelectorAll("[data-step]"))
      part.classList.toggle("later", Number(part.dataset.step) >= step);
    const nodes = tree.steps[step - 1];
    const count = status => nodes.filter(node => node.status === status).length;
    summary.textContent = `Step ${step} of ${last}: ${count("kept")} kept, ${count("finished")} ` +
                       `finished, ${count("pruned")} of the best others pruned` +
                       (Number(state.beam) > MOST ? `; drawn with a beam of ${MOST}.` : ".");
    heard.replaceChildren(...nodes.map(node => element("li", {}, described(node))));
    const right = holder.querySelector(`.node[data-step="${step - 1}"]`);
    const edge = Number(right?.querySelector("rect").getAttribute("x")) + 2 * WIDTH;
    if (step < last || holder.scrollLeft) holder.scrollLeft = edge - holder.clientWidth;
    keep({step});
  }

  function choose(one) {
    rank = one;
    holder.replaceChildren(draw(tree, best.get(rank)));
    scrollable("Search tree", holder);
    refill(list, ...tree.hypotheses.map((hypothesis, i) => element("li", {},
      element("button", {type: "button", className: "pill whole", "aria-pressed": String(i === rank),
                         onclick: () => { choose(i); go(Number(range.value)); }},
              hypothesis.text || "(empty)"),
      element("span", {className: "number", title: "log probability"},
              `${percent(hypothesis.score)} · ${hypothesis.score.toFixed(2)}`))));
  }

  const button = (text, label, move) => element("button", {
    type: "button", className: "pill", "aria-label": label, onclick: () => go(move())}, text);
  range.addEventListener("input", () => go(Number(range.value)));
  choose(0);
  const root = element("section", {className: "card", "aria-label": "Beam search"},
    element("div", {className: "steps"},
      button("|◀", "First step", () => 1),
      button("◀", "Step back", () => Number(range.value) - 1),
      button("▶", "Step forward", () => Number(range.value) + 1),
      button("▶|", "Last step", () => last), range),
    summary, heard, readWhole(tree), holder,
    element("ul", {className: "legend"},
      ["solid border: kept in the beam", "dashed: pruned", "green: finished",
       "filled: the way to the chosen hypothesis"].map(text => element("li", {}, text))));
  root.addEventListener("shown", () => go(Number(state.step) || last), {once: true});
  return [root, element("section", {className: "card", "aria-label": "Hypotheses"},
                        element("h2", {}, "Hypotheses"), list)];
}
