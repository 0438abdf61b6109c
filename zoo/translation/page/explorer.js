// The attention explorer: tokens to hover, every layer and head as a grid, one of them enlarged.
// It needs no other file, so that `zoo attention --out x.html` can hold it. Text reaches the page
// as text nodes only, never as HTML.

const SVG = "http" + "://www.w3.org/2000/svg";  // a name; no address is in this file
const TITLES = {
  cross: ["Cross: target from source", "target", "source"],
  encoder: ["Encoder: source from source", "source", "source"],
  decoder: ["Decoder: target from target", "target", "target so far"],
  joint: ["Joint: target from source and target", "target", "source and target so far"],
};

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && !key.startsWith("aria")) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
}

const FOCUSABLE = "a, button, input, select, textarea, summary, [tabindex]";

// Replaces all children; the keyboard's focus stays where it was among them.
export function refill(parent, ...children) {
  const index = [...parent.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  parent.replaceChildren(...children);
  if (index >= 0) parent.querySelectorAll(FOCUSABLE)[index]?.focus({preventScroll: true});
}

// Boxes that scroll sideways can be scrolled with the keyboard, and have a name; others need neither.
const sizes = new ResizeObserver(entries => {
  for (const {target} of entries) {
    const box = target.closest("[data-scrolls]");
    const given = {tabindex: "0", role: "region", "aria-label": box?.dataset.scrolls};
    for (const [key, value] of Object.entries(box ? given : {})) {
      if (box.scrollWidth > box.clientWidth) box.setAttribute(key, value);
      else box.removeAttribute(key);
    }
  }
});

export function scrollable(name, box) {
  box.dataset.scrolls = name;
  for (const one of [box, ...box.children]) sizes.observe(one);
  return box;
}

export function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function save(name, blob) {
  const link = element("a", {href: URL.createObjectURL(blob), download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function floats(text) {
  const bytes = Uint8Array.from(atob(text), character => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({length: bytes.length / 4}, (_, i) => view.getFloat32(4 * i, true));
}

// "mean" or a number from 1, as indices.
function indices(choice, count) {
  return choice === "mean" ? [...Array(count).keys()] : [Number(choice) - 1];
}

function mean(kind, layer, head) {
  const size = kind.queries.length * kind.keys.length, sum = new Float32Array(size);
  const layers = indices(layer, kind.layers), heads = indices(head, kind.heads);
  for (const l of layers) for (const h of heads) {
    const start = (l * kind.heads + h) * size;
    for (let i = 0; i < size; i++) sum[i] += kind.values[start + i];
  }
  return sum.map(value => value / (layers.length * heads.length));
}

function rgb(root, name) {
  const text = getComputedStyle(root).getPropertyValue(name).trim();
  return [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16));
}

// A canvas of one pixel for each weight, from the lightest colour, 0, to the darkest, the maximum.
function picture(root, weights, width, height) {
  const canvas = element("canvas", {width, height});
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  const low = rgb(root, "--heat-low"), high = rgb(root, "--heat-high");
  const most = weights.reduce((a, b) => Math.max(a, b), 0) || 1;
  weights.forEach((weight, i) => {
    const share = weight / most;
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = low[c] + (high[c] - low[c]) * share;
    image.data[4 * i + 3] = 255;
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

export function shown(token) {
  return token.replaceAll("▁", " ").trim() || "␣";
}

function short(token, most = 14) {
  const text = shown(token);
  return text.length > most ? text.slice(0, most - 1) + "…" : text;
}

// data: {source, target, text, kinds: {kind: {layers, heads, queries, keys, weights}}}
// state: {kind, layer, head}; changed(state) is called when the reader picks another panel.
export function explorer(root, data, state, changed = () => {}) {
  const kinds = data.kinds;
  for (const kind of Object.values(kinds)) kind.values ??= floats(kind.weights);
  let row = -1, column = -1;
  const status = element("p", {className: "explorer-status", role: "status"});
  const words = element("div", {className: "explorer-words"});
  const large = element("div", {className: "explorer-large"});
  const grid = element("div", {className: "explorer-grid", role: "group",
                               "aria-label": "All layers and heads"});
  const tabs = element("div", {className: "explorer-kinds", role: "group",
                               "aria-label": "Kind of attention"});

  function fit() {
    if (!Object.hasOwn(kinds, state.kind)) state.kind = Object.keys(kinds)[0];
    const kind = kinds[state.kind];
    const known = (value, count) => value === "mean" || (Number.isInteger(value) && value >= 1 && value <= count);
    if (!known(state.layer, kind.layers)) state.layer = "mean";
    if (!known(state.head, kind.heads)) state.head = "mean";
    return kind;
  }

  function pick(change) {
    Object.assign(state, change);
    row = column = -1;
    draw();
    changed({...state});
  }

  function panelName(layer, head) {
    const part = (name, value) => value === "mean" ? `mean of ${name}s` : `${name} ${value}`;
    return `${part("layer", layer)}, ${part("head", head)}`;
  }

  function drawKinds() {
    refill(tabs, ...Object.keys(kinds).map(name => element("button", {
      type: "button", "aria-pressed": String(name === state.kind),
      onclick: () => pick({kind: name}),
    }, (TITLES[name] ?? [name])[0])));
  }

  function drawGrid(kind) {
    const layers = ["mean", ...Array(kind.layers).keys()].map(l => l === "mean" ? l : l + 1);
    const heads = ["mean", ...Array(kind.heads).keys()].map(h => h === "mean" ? h : h + 1);
    const focus = grid.contains(document.activeElement);
    grid.style.setProperty("--columns", heads.length);
    const cells = [element("span")];
    cells.push(...heads.map(h => element("span", {className: "explorer-axis"},
                                         h === "mean" ? "mean" : `head ${h}`)));
    for (const l of layers) {
      cells.push(element("span", {className: "explorer-axis"}, l === "mean" ? "mean" : `layer ${l}`));
      for (const h of heads) {
        const here = String(l) === String(state.layer) && String(h) === String(state.head);
        const thumbnail = picture(root, mean(kind, l, h), kind.keys.length, kind.queries.length);
        const button = element("button", {
          type: "button", "aria-pressed": String(here), title: panelName(l, h),
          "aria-label": panelName(l, h), onclick: () => pick({layer: l, head: h}),
          onkeydown: event => step(event, layers, heads, l, h),
        }, thumbnail);
        cells.push(button);
      }
    }
    grid.replaceChildren(...cells);
    if (focus) grid.querySelector('[aria-pressed="true"]')?.focus();
  }

  function step(event, layers, heads, layer, head) {
    const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    const clamp = (list, i) => list[Math.min(Math.max(i, 0), list.length - 1)];
    pick({layer: clamp(layers, layers.indexOf(layer) + move[0]),
          head: clamp(heads, heads.indexOf(head) + move[1])});
  }

  function drawLarge(kind, weights) {
    const [rows, columns] = [kind.queries.length, kind.keys.length];
    const room = Math.max(large.clientWidth || 640, 280);
    const labels = list => Math.max(...list.map(token => short(token).length)) * 7.2 + 14;
    const left = labels(kind.queries), top = labels(kind.keys) * 0.78 + 12;
    // The last label leans over the right edge.
    const right = 12 + short(kind.keys.at(-1) ?? "").length * 4.6;
    const cell = Math.max(9, Math.min(48, (room - left - right) / columns));
    const width = left + columns * cell + right, height = top + rows * cell + 8;
    const drawing = svg("svg", {
      xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
      "aria-label": `Heat map, ${state.kind} attention, ${panelName(state.layer, state.head)}: ` +
                    "rows are queries, columns are keys",
    });
    const ink = getComputedStyle(root).getPropertyValue("--ink").trim();
    const paper = getComputedStyle(root).getPropertyValue("--paper").trim();
    drawing.append(svg("rect", {width, height, fill: paper}));
    const bitmap = picture(root, weights, columns, rows);
    const big = element("canvas", {width: columns * 16, height: rows * 16});
    const context = big.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(bitmap, 0, 0, big.width, big.height);
    drawing.append(svg("image", {x: left, y: top, width: columns * cell, height: rows * cell,
                                 preserveAspectRatio: "none", href: big.toDataURL()}));
    const font = {"font-family": "system-ui, sans-serif", "font-size": Math.min(13, cell + 1),
                  fill: ink};
    const text = (value, attributes) => {
      const made = svg("text", {...font, ...attributes});
      made.textContent = value;
      return made;
    };
    const rowLabels = kind.queries.map((token, i) => text(short(token), {
      x: left - 6, y: top + (i + 0.5) * cell, "text-anchor": "end",
      "dominant-baseline": "central"}));
    const columnLabels = kind.keys.map((token, j) => {
      const x = left + (j + 0.5) * cell;
      return text(short(token), {x, y: top - 6, transform: `rotate(-50 ${x} ${top - 6})`,
                                 "dominant-baseline": "central"});
    });
    const frame = svg("rect", {width: cell, height: cell, fill: "none", "stroke-width": 2.5,
                               stroke: getComputedStyle(root).getPropertyValue("--accent").trim(),
                               visibility: "hidden"});
    drawing.append(...rowLabels, ...columnLabels, frame);
    const point = event => {
      const box = drawing.getBoundingClientRect();
      const scale = width / box.width;
      const j = Math.floor(((event.clientX - box.left) * scale - left) / cell);
      const i = Math.floor(((event.clientY - box.top) * scale - top) / cell);
      if (i >= 0 && i < rows && j >= 0 && j < columns) look(i, j);
    };
    drawing.addEventListener("pointermove", point);
    drawing.addEventListener("click", point);  // a finger does not move, and leaves before its click
    drawing.addEventListener("pointerleave", () => look(-1, -1));
    large.replaceChildren(drawing);
    scrollable("Heat map", large);
    return {frame, rowLabels, columnLabels, place: (i, j) => [left + j * cell, top + i * cell]};
  }

  let parts = null, weights = null, chips = null;

  function drawWords(kind) {
    const [, queryName, keyName] = TITLES[state.kind] ?? ["", "query", "key"];
    const chip = (token, index, isQuery) => element("button", {
      type: "button", className: "token",
      onpointerenter: () => isQuery ? look(index, -1) : look(-1, index),
      onpointerleave: () => look(-1, -1),
      onfocus: () => isQuery ? look(index, -1) : look(-1, index),
      onblur: () => look(-1, -1),
    }, shown(token));
    chips = {queries: kind.queries.map((token, i) => chip(token, i, true)),
             keys: kind.keys.map((token, j) => chip(token, j, false))};
    words.replaceChildren(
      element("div", {}, element("span", {className: "explorer-side"}, `${keyName} (keys)`),
              element("div", {className: "tokens"}, chips.keys)),
      element("div", {}, element("span", {className: "explorer-side"}, `${queryName} (queries)`),
              element("div", {className: "tokens"}, chips.queries)));
  }

  // Shows one query, one key, or one cell; -1 is none.
  function look(i, j) {
    [row, column] = [i, j];
    const kind = kinds[state.kind], width = kind.keys.length;
    const at = (q, k) => weights[q * width + k];
    const paint = (buttons, value) => {
      const most = Math.max(...buttons.map((_, n) => value(n)), 1e-9);
      buttons.forEach((button, n) => {
        button.style.setProperty("--share", (value(n) / most * 100).toFixed(1) + "%");
        button.classList.add("lit");
      });
    };
    for (const button of [...chips.queries, ...chips.keys]) {
      button.classList.remove("lit", "chosen");
    }
    if (i >= 0) { paint(chips.keys, k => at(i, k)); chips.queries[i].classList.add("chosen"); }
    else if (j >= 0) { paint(chips.queries, q => at(q, j)); chips.keys[j].classList.add("chosen"); }
    parts.rowLabels.forEach((label, n) => label.classList.toggle("on", n === i));
    parts.columnLabels.forEach((label, n) => label.classList.toggle("on", n === j));
    const cell = i >= 0 && j >= 0;
    parts.frame.setAttribute("visibility", cell ? "visible" : "hidden");
    if (cell) {
      const [x, y] = parts.place(i, j);
      parts.frame.setAttribute("x", x);
      parts.frame.setAttribute("y", y);
    }
    status.textContent = describe(kind, at, i, j);
  }

  function describe(kind, at, i, j) {
    const name = token => `“${shown(token)}”`;
    if (i >= 0 && j >= 0)
      return `${name(kind.queries[i])} attends to ${name(kind.keys[j])}: ${at(i, j).toFixed(3)}`;
    if (i < 0 && j < 0) return `${panelName(state.layer, state.head)}. Point at a word or a cell.`;
    const list = i >= 0 ? kind.keys : kind.queries;
    const best = list.map((token, n) => [i >= 0 ? at(i, n) : at(n, j), token])
      .sort((a, b) => b[0] - a[0]).slice(0, 3)
      .map(([weight, token]) => `${name(token)} ${weight.toFixed(2)}`).join(", ");
    return i >= 0 ? `${name(kind.queries[i])} attends most to ${best}`
                  : `${name(kind.keys[j])} is attended to most by ${best}`;
  }

  function saveSvg() {
    save("attention.svg", new Blob([source()], {type: "image/svg+xml"}));
  }

  function source() {
    return new XMLSerializer().serializeToString(large.querySelector("svg"));
  }

  function savePng() {
    const drawing = large.querySelector("svg"), image = new Image();
    const [width, height] = ["width", "height"].map(name => Number(drawing.getAttribute(name)));
    image.onload = () => {
      const canvas = element("canvas", {width: 2 * width, height: 2 * height});
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(blob => save("attention.png", blob));
    };
    image.src = "data:image/svg+xml," + encodeURIComponent(source());
  }

  function draw() {
    const kind = fit();
    weights = mean(kind, state.layer, state.head);
    drawKinds();
    drawWords(kind);
    parts = drawLarge(kind, weights);
    drawGrid(kind);
    look(-1, -1);
  }

  const tools = element("div", {className: "explorer-tools"},
    element("button", {type: "button", onclick: saveSvg}, "Save SVG"),
    element("button", {type: "button", onclick: savePng}, "Save PNG"));
  root.classList.add("explorer");
  root.replaceChildren(tabs, words, status,
                       element("div", {className: "explorer-panels"},
                               element("div", {className: "explorer-main"}, large, tools), grid));
  draw();
  let timer = 0, before = large.clientWidth;
  new ResizeObserver(() => {
    if (Math.abs(large.clientWidth - before) < 2) return;
    before = large.clientWidth;
    clearTimeout(timer);
    timer = setTimeout(draw, 100);
  }).observe(large);
  root.addEventListener("theme", draw);
}

// One listener for all explorers: their own would keep those that have left the page in memory.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const root of document.querySelectorAll(".explorer")) root.dispatchEvent(new Event("theme"));
});
