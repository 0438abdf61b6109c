// The translation, each token's probability, and the n best.

import {element, shown} from "/explorer/explorer.js";

export function percent(logProb) {
  const value = 100 * Math.exp(logProb);
  return value >= 99.95 ? "100%" : value >= 1 ? `${value.toFixed(1)}%` : `${value.toPrecision(2)}%`;
}

export function tokens(list) {
  return list.filter(({token}) => token !== "</s>").map(({token, log_prob: logProb}, i) => {
    const made = element("span", {
      className: "probability", tabIndex: 0, title: `${shown(token)}: ${percent(logProb)}`,
      "aria-label": `${shown(token)}, probability ${percent(logProb)}`,
    }, token.replaceAll("▁", i ? " " : ""));
    made.style.setProperty("--share", `${(100 * Math.exp(logProb)).toFixed(1)}%`);
    return made;
  });
}

export async function translateView({send, state, asked}) {
  if (!state.text.trim()) return [element("p", {className: "note"}, "Type a text to translate.")];
  const {translations: [best]} = await send("/api/translate", {
    ...asked, texts: [state.text], n_best: asked.beam, token_scores: true,
  });
  const several = [best, ...best.alternatives];
  const total = several.reduce((sum, one) => sum + Math.exp(one.score), 0) || 1;
  const rows = several.map(one => {
    const bar = element("span");
    bar.style.width = `${100 * Math.exp(one.score) / total}%`;
    return element("li", {},
      element("span", {className: "text"}, one.text || "(empty)"),
      element("span", {className: "number", title: "log probability"},
              `${percent(one.score)} · ${one.score.toFixed(2)}`),
      element("span", {className: "meter"}, bar));
  });
  const notes = [];
  if (best.unknown) notes.push("The model knows no token of this text, so the translation means nothing.");
  if (best.divided) notes.push("A sentence is longer than those of training, and was translated in parts.");
  if (!best.finished) notes.push("The translation was cut at the longest length.");
  const text = best.tokens.length ? tokens(best.tokens) : [best.text];
  return [element("div", {className: "split"},
    element("section", {className: "card", "aria-label": "Translation"},
      element("h2", {}, "Translation"),
      element("p", {className: "translation", id: "translation"}, text),
      element("p", {className: "note"},
              "The underline shows each token's probability, from red (low) to green (high)."),
      notes.map(note => element("p", {className: "note"}, note))),
    element("section", {className: "card", "aria-label": "Best translations"},
      element("h2", {}, several.length > 1 ? `The ${several.length} best` : "Score"),
      element("ol", {className: "best"}, rows)))];
}
