// The Markdown of cards as elements. HTML in it stays text, links open only to http and https.

import {element, scrollable} from "../explorer/explorer.js";

const MANY = 25;  // rows of a table that is folded
const INLINE = /(`[^`]+`)|\*\*([^*]+)\*\*|\[([^\]]*)\]\(([^)\s]+)\)|!\[([^\]]*)\]\([^)]*\)/g;

function inline(text) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(at, match.index));
    const [whole, code, strong, label, address, picture] = match;
    if (code) parts.push(element("code", {}, code.slice(1, -1)));
    else if (strong) parts.push(element("strong", {}, strong));
    else if (picture !== undefined) parts.push("");
    else if (/^https?:\/\//.test(address))
      parts.push(element("a", {href: address, rel: "noreferrer noopener"}, label));
    else parts.push(label);
    at = match.index + whole.length;
  }
  return [...parts, text.slice(at)];
}

function cells(line) {
  // A pipe within a cell is written with a backslash.
  return line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/)
             .map(cell => cell.trim().replaceAll("\\|", "|"));
}

export function markdown(text) {
  const root = element("div", {className: "markdown"});
  let about = "Card";
  const lines = text.split("\n").filter(line => !/^<!-- .* -->$/.test(line));
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i], heading = /^(#{1,6}) (.*)$/.exec(line);
    if (line.startsWith("```")) {
      const code = [];
      while (++i < lines.length && !lines[i].startsWith("```")) code.push(lines[i]);
      root.append(scrollable(`Code: ${about}`, element("pre", {}, element("code", {}, code.join("\n")))));
    } else if (heading) {
      const made = element(heading[1].length < 2 ? "h2" : "h3", {}, inline(heading[2]));
      about = made.textContent;
      root.append(made);
    } else if (line.startsWith("|") && /^[|\s:-]+$/.test(lines[i + 1] ?? "")) {
      const head = element("tr", {}, cells(line).map(cell => element("th", {}, inline(cell))));
      const body = element("tbody");
      for (i += 2; i < lines.length && lines[i].startsWith("|"); i++)
        body.append(element("tr", {}, cells(lines[i]).map(cell => element("td", {}, inline(cell)))));
      i--;
      const table = scrollable(`Table: ${about}`, element("div", {className: "scroll"},
                               element("table", {}, element("thead", {}, head), body)));
      const rows = body.childElementCount;
      root.append(rows <= MANY ? table : element("details", {},
        element("summary", {}, `${rows} rows`), table));
    } else if (/^[-*] /.test(line)) {
      const list = element("ul");
      for (; i < lines.length && /^[-*] /.test(lines[i]); i++)
        list.append(element("li", {}, inline(lines[i].slice(2))));
      i--;
      root.append(list);
    } else if (line.trim()) {
      const words = [line];
      while (i + 1 < lines.length && lines[i + 1].trim() && !/^(#|```|\||[-*] )/.test(lines[i + 1]))
        words.push(lines[++i]);
      root.append(element("p", {}, inline(words.join(" "))));
    }
  }
  return root;
}
