// The translation, each token's probability, and the n best.

import {element, shown} from "../explorer/explorer.js";

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

// A translation with its tokens, after its text where they do not spell it: a part of a sentence has
// no stop of its own, and line breaks are no tokens.
export function written(one) {
  const spans = tokens(one.tokens), spelled = spans.map(span => span.textContent).join("");
  const text = (...children) => element("p", {className: "translation"}, ...children);
  if (!spans.length) return [text(one.text)];
  return spelled.trim() === one.text.trim() ? [text(spans)]
                                            : [text(one.text), element("p", {className: "written"}, spans)];
}

// What a view that reads a text whole and as it is says where translation does not.
export function readWhole({parts, respelled}) {
  const notes = [];
  if (parts > 1) notes.push(
    `The text is read whole here. Translate reads it in ${parts} parts (sentences or words, or parts of one ` +
    "that is longer than those of training), and may translate it differently.");
  if (respelled) notes.push("The text is read as it is here. Translate reads capitals or marks that " +
                            "the model hardly knows in the spelling of training.");
  return notes.map(note => element("p", {className: "note"}, note));
}

export async function translateView({send, state, asked}) {
  if (!state.text.trim()) return [element("p", {className: "note"}, "Type a text to translate.")];
  const {translations: [best]} = await send("api/translate", {
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
  if (best.tokens.length)
    notes.push("The underline shows each token's probability, from red (low) to green (high).");
  if (best.parts > 1) notes.push(`The model read the text in ${best.parts} parts, each by itself.`);
  if (best.unknown && best.copied.length) notes.push("The model knows no token of this text, so it stays as it is.");
  else if (best.unknown) notes.push("The model knows no token of this text, so the translation means nothing.");
  if (best.divided) notes.push("A sentence is longer than those of training, and was translated in parts.");
  if (best.respelled) notes.push("Capitals or marks that the model hardly knows were read in the spelling of training.");
  if (best.copied.length && !best.unknown) notes.push(
    `The model loses ${best.copied.join(", ")}: it read something else there, and these were copied.`);
  if (best.lost_numbers.length) notes.push(
    `The translation lacks ${best.lost_numbers.join(", ")}, or has it in words: compare the numbers.`);
  if (best.unseen_words.length && !best.unknown) notes.push(
    `The model has not learned ${best.unseen_words.join(", ")}: the translation is a guess there.`);
  if (!best.finished) notes.push("The translation was cut at the longest length.");
  const [translation, ...more] = written(best);
  translation.id = "translation";
  return [element("div", {className: "split"},
    element("section", {className: "card", "aria-label": "Translation"},
      element("h2", {}, "Translation"),
      translation, more,
      notes.map(note => element("p", {className: "note"}, note))),
    element("section", {className: "card", "aria-label": "Best translations"},
      element("h2", {}, several.length > 1 ? `The ${several.length} best` : "Score"),
      element("ol", {className: "best"}, rows)))];
}
