// A checkpoint: parameters by block, training curve, configuration, card.

import {element, scrollable, svg} from "../explorer/explorer.js";
import {markdown} from "./markdown.js";

const number = value => value.toLocaleString("en");

function bars(blocks) {
  const most = Math.max(...Object.values(blocks));
  return element("dl", {className: "bars"}, Object.entries(blocks).flatMap(([name, count]) => {
    const bar = element("span");
    bar.style.width = `${100 * count / most}%`;
    return [element("dt", {}, name), element("dd", {className: "bar"}, bar),
            element("dd", {className: "number"}, number(count))];
  }));
}

export function curve({loss = [], validation_loss: valid = []}) {
  const points = [...loss, ...valid];
  if (!points.length) return element("p", {className: "note"}, "No training curve is recorded.");
  const [width, height, left, low] = [640, 260, 44, 26];
  const last = Math.max(...points.map(point => point[0])) || 1;
  const sorted = points.map(point => point[1]).sort((a, b) => a - b);
  const floor = sorted[0] * 0.95, ceiling = sorted[Math.floor(sorted.length * 0.99)] * 1.02;
  const x = step => left + (width - left - 10) * step / last;
  const y = value => 10 + (height - low - 10) * (1 - (Math.min(value, ceiling) - floor) / (ceiling - floor || 1));
  const line = (list, name) => svg("polyline", {class: name,
    points: list.map(([step, value]) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`).join(" ")});
  const label = (text, attributes) => {
    const made = svg("text", attributes);
    made.textContent = text;
    return made;
  };
  const drawing = svg("svg", {class: "curve", viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `Loss by update: training ${loss.at(-1)?.[1].toFixed(2) ?? "unknown"}, ` +
                  `validation ${valid.at(-1)?.[1].toFixed(2) ?? "unknown"} at the end`});
  for (let i = 0; i <= 4; i++) {
    const value = floor + (ceiling - floor) * i / 4;
    drawing.append(svg("line", {class: "axis", x1: left, x2: width - 10, y1: y(value), y2: y(value)}),
                   label(value.toFixed(1), {x: left - 6, y: y(value) + 4, "text-anchor": "end"}));
  }
  drawing.append(line(loss, "train"), line(valid, "valid"),
    label(`${number(last)} updates`, {x: width - 10, y: height - 6, "text-anchor": "end"}),
    label("loss, nats per token", {x: left, y: height - 6}));
  return drawing;
}

export async function modelView({send, state}) {
  const about = await send(`api/models/${encodeURIComponent(state.checkpoint)}`);
  const settings = Object.entries(about.config).map(([key, value]) => element("tr", {},
    element("th", {scope: "row"}, key), element("td", {}, JSON.stringify(value))));
  return [
    element("section", {className: "card", "aria-label": "About"},
      element("h2", {}, about.name),
      element("p", {}, `${about.model}: ${about.summary}. ${number(about.parameters)} parameters.`),
      element("p", {className: "note"}, about.paper)),
    element("div", {className: "columns"},
      element("section", {className: "card", "aria-label": "Parameters"},
              element("h2", {}, "Parameters by block"), bars(about.blocks)),
      element("section", {className: "card", "aria-label": "Training"},
              element("h2", {}, "Training"), curve(about.curve),
              element("p", {className: "note"}, "Thick line: validation. Thin line: training.")),
      element("section", {className: "card", "aria-label": "Configuration"},
              element("h2", {}, "Configuration"),
              scrollable("Settings", element("div", {className: "scroll"},
                                             element("table", {}, element("tbody", {}, settings)))))),
    element("section", {className: "card", "aria-label": "Card"},
            element("h2", {}, "Card"), markdown(about.card)),
  ];
}
