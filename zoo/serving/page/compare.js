// Several checkpoints on the same text.

import {element, shown} from "../explorer/explorer.js";
import {languages} from "./api.js";
import {readWhole, written} from "./translate.js";

function miniature(data) {
  const kind = data.kinds.cross;
  if (!kind) return element("p", {className: "note"}, "This model has no cross-attention.");
  const [rows, columns] = [kind.queries.length, kind.keys.length], size = rows * columns;
  const bytes = Uint8Array.from(atob(kind.weights), character => character.charCodeAt(0));
  const values = new DataView(bytes.buffer), count = kind.layers * kind.heads;
  const sums = Array.from({length: size}, (_, i) => {
    let sum = 0;
    for (let panel = 0; panel < count; panel++) sum += values.getFloat32(4 * (panel * size + i), true);
    return sum / count;
  });
  const canvas = element("canvas", {width: columns, height: rows, className: "mini", role: "img",
    "aria-label": `Cross-attention, ${kind.queries.map(shown).join(" ")}, mean over layers and heads`});
  const style = getComputedStyle(document.documentElement);
  const colour = name => [1, 3, 5].map(i => parseInt(style.getPropertyValue(name).trim().slice(i, i + 2), 16));
  const [low, high] = [colour("--heat-low"), colour("--heat-high")];
  const most = sums.reduce((a, b) => Math.max(a, b), 0) || 1;  // too many for Math.max(...sums)
  const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  sums.forEach((value, i) => {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = low[c] + (high[c] - low[c]) * value / most;
    image.data[4 * i + 3] = 255;
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

async function panel(model, {send, state}) {
  const options = {checkpoint: model.name, beam: Number(state.beam), ...languages(model, state)};
  const started = performance.now();
  const part = element("article", {className: "card", "aria-label": model.name},
    element("h3", {}, model.architecture || model.name),
    element("p", {className: "note"}, `${model.name} · ${model.parameters.toLocaleString("en")} parameters`));
  try {
    const answer = await send("api/translate", {...options, texts: [state.text], token_scores: true});
    const [best] = answer.translations, took = Math.round(performance.now() - started);
    part.append(
      ...written(best),
      element("p", {className: "number"}, `log probability ${best.score.toFixed(2)} · ${took} ms`));
    const data = await send("api/attention", {...options, text: state.text}).catch(error => {
      if (error.name === "AbortError") throw error;
      return {kinds: {}};
    });
    part.append(miniature(data), ...readWhole(data));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    part.append(element("p", {className: "note"}, error.message));
  }
  return part;
}

export async function compareView(tools) {
  const {models, state, keep} = tools;
  const here = models.find(model => model.name === state.checkpoint);
  const alike = models.filter(model => knows(model.source_languages, state.source) &&
                                       knows(model.target_languages, state.target) &&
                                       !model.problem);
  const chosen = (state.with ?? "").split("\n").filter(name => name);
  const kept = chosen.filter(name => alike.some(m => m.name === name));
  const missing = chosen.filter(name => !kept.includes(name));
  const families = new Map();
  for (const model of alike) if (tail(model) === tail(here) && !families.has(model.architecture))
    families.set(model.architecture, model.name);
  const names = kept.length ? kept : [...families.values()];
  const choices = element("div", {className: "choices", role: "group", "aria-label": "Checkpoints"},
    alike.map(model => element("button", {
      type: "button", className: "pill", "aria-pressed": String(names.includes(model.name)),
      onclick: () => {
        const left = names.includes(model.name) ? names.filter(name => name !== model.name)
                                                : [...names, model.name];
        keep({with: left.join("\n")});
        dispatchEvent(new HashChangeEvent("hashchange"));
      }}, model.name)));
  const notes = missing.length ? [element("p", {className: "note"},
    `Not compared: ${missing.join(", ")}. This server does not have them for these languages.`)] : [];
  if (!state.text.trim()) return [choices, notes];
  const panels = await Promise.all(alike.filter(model => names.includes(model.name))
                                        .map(model => panel(model, tools)));
  return [choices, notes, element("div", {className: "columns"}, panels)];
}

// Whether a language is one of a list; without a language, whether the list is empty.
function knows(languages, code) {
  return code ? languages.some(one => one.code === code) : !languages.length;
}

// What a name has after its model: `multi30k-en-de` in `rnnsearch-tiny.multi30k-en-de`.
function tail(model) {
  return model.name.split(".").slice(1).join(".");
}
