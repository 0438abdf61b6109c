// The attention explorer on the text.

import {element, explorer} from "../explorer/explorer.js";
import {readWhole} from "./translate.js";

export async function attentionView({send, state, asked, keep}) {
  if (!state.text.trim()) return [element("p", {className: "note"}, "Type a text first.")];
  const data = await send("api/attention", {...asked, text: state.text});
  if (!Object.keys(data.kinds).length)
    return [element("p", {className: "note"}, "This model has no attention: its decoder reads the " +
                                              "source as one vector.")];
  const root = element("section", {className: "card", "aria-label": "Attention"});
  const chosen = {
    kind: state.kind ?? "cross",
    layer: state.layer === undefined || state.layer === "mean" ? "mean" : Number(state.layer),
    head: state.head === undefined || state.head === "mean" ? "mean" : Number(state.head),
  };
  // The explorer measures its width, so it is drawn once it is on the page.
  root.addEventListener("shown", () => explorer(root, data, chosen, keep), {once: true});
  return [root, readWhole(data)];
}
