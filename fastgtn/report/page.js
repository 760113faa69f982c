"use strict";
// Node names are untrusted: text enters the page through textContent and attributes only.
(() => {
  const runs = JSON.parse(document.getElementById("data").textContent).runs;
  const articles = [...document.querySelectorAll("article.run")];
  const radios = [...document.querySelectorAll(".switch input")];
  const SVG = "http://www.w3.org/2000/svg";

  const make = (name, text, style) => {
    const element = document.createElement(name);
    if (text !== undefined && text !== null) element.textContent = text;
    if (style) element.className = style;
    return element;
  };
  const shape = (name, attributes) => {
    const element = document.createElementNS(SVG, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return element;
  };
  const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
  const percent = (value) => (100 * value).toFixed(1);
  const fine = (value) => (value < 0.001 ? "under 0.1" : percent(value));
  const SPLITS = { train: "training", val: "validation", test: "test", none: "none" };

  // A bar from the left, or from the middle where values have signs.
  const bar = (value, highest, hasSign) => {
    const svg = shape("svg", { class: "barrow", viewBox: "0 0 100 16", preserveAspectRatio: "none", "aria-hidden": "true" });
    const size = (hasSign ? 50 : 100) * Math.abs(value) / (highest || 1);
    const start = hasSign ? (value < 0 ? 50 - size : 50) : 0;
    svg.append(shape("rect", { class: "track", width: 100, height: 16 }));
    svg.append(shape("rect", { class: value < 0 ? "bar minus" : "bar c0", x: start, width: size, height: 16 }));
    return svg;
  };

  const table = (title, heads, rows) => {
    const box = make("div", null, "scroll");
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", title);
    const whole = make("table");
    const head = whole.createTHead().insertRow();
    heads.forEach(([text, style]) => {
      const cell = make("th", text, style);
      cell.scope = "col";
      head.append(cell);
    });
    const body = whole.createTBody();
    rows.forEach((cells) => body.insertRow().append(...cells));
    box.append(whole);
    const titled = make("div");
    titled.append(make("p", title, "table-title"), box);
    return titled;
  };
  const cell = (content, style) => {
    const td = make("td", null, style);
    td.append(content);
    return td;
  };
  const head = (text) => {
    const th = make("th", text);
    th.scope = "row";
    return th;
  };

  const probabilities = (node) => table("Probabilities", [["class"], [""], ["%", "num"]], node.probabilities.map(
    ([name, p]) => [head(name), cell(bar(p, 1, false), "bars"), cell(percent(p), "num")]));

  const reasons = (node) => {
    const highest = Math.max(...node.parts.map((part) => Math.abs(part.contribution)), ...node.rest.map(([, v]) => Math.abs(v)));
    const row = (first, value) => [first, cell(bar(value, highest, true), "bars"), cell(signed(value), "num")];
    const paths = node.parts.map((part) => {
      const first = head(part.path);
      const list = make("ul");
      part.instances.forEach(([names, weight]) => list.append(make("li", `${names.join(" ← ")} · ${fine(weight)} %`)));
      first.append(list);
      return row(first, part.contribution);
    });
    const rest = node.rest.map(([name, value]) => row(head(name), value));
    const box = table(`Why ${node.explained}: what adds up to ${node.total} ${node.logit.toFixed(3)}`,
      [["meta-path, and the heaviest walks along it"], [""], ["adds", "num"]], [...paths, ...rest]);
    box.classList.add("reasons");
    return box;
  };

  const describe = (node, target) => {
    const parts = [make("h4", !node.name ? `${target} ${node.id}` : node.name.includes(node.id) ? node.name : `${node.name} (${node.id})`)];
    const line = make("p", `Predicted ${node.predicted}`);
    if (node.truth !== null) {
      line.append(node.truth === node.predicted ? ", rightly" : ", but it is ");
      if (node.truth !== node.predicted) line.append(make("span", node.truth, "wrong"));
    }
    line.append(` · split: ${SPLITS[node.split]}`);
    const columns = make("div", null, "columns");
    if (node.probabilities.length) columns.append(probabilities(node));
    columns.append(node.explained === null ? make("p", "No reasons are stored for this node.", "caption") : reasons(node));
    return [...parts, line, columns];
  };

  const find = (number, text) => {
    const wanted = text.trim().toLowerCase();
    const nodes = runs[number - 1].nodes;
    return nodes.find((n) => n.id === text.trim()) || nodes.find((n) => n.name.toLowerCase() === wanted) ||
      nodes.find((n) => wanted && n.name.toLowerCase().includes(wanted));
  };

  const show = (number, text) => {
    const article = articles[number - 1];
    const run = runs[number - 1];
    const node = find(number, text);
    article.querySelector(".look-up input").value = text;
    article.querySelector(".answer").replaceChildren(...(node ? describe(node, run.target) : [make("p",
      `The node ${text} is not stored in this page. Ask the run itself: ${run.ask[0]}${text}${run.ask[1]}`, "note")]));
  };

  const switchTo = (number) => {
    articles.forEach((article, k) => { article.hidden = k + 1 !== number; });
    radios.forEach((radio, k) => { radio.checked = k + 1 === number; });
  };

  // #node=ID, #run=2 or #run=2&node=ID: a link to one node.
  const follow = (scroll) => {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const text = wanted.get("node");
    const part = /^#run-(\d+)-\d+$/.exec(location.hash); // a link of the table of contents
    let number = Number(part === null ? wanted.get("run") : part[1]);
    if (!(number >= 1 && number <= runs.length)) {
      number = text === null ? 1 : Math.max(1, 1 + runs.findIndex((_, k) => find(k + 1, text)));
    }
    switchTo(number);
    if (text !== null) {
      show(number, text);
      if (scroll) articles[number - 1].querySelector(".nodes").scrollIntoView();
    }
    if (part !== null) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  };
  const go = (number, text) => {
    const words = new URLSearchParams(runs.length > 1 ? { run: number } : {});
    if (text !== null) words.set("node", text);
    location.hash = words.toString();
  };

  articles.forEach((article, k) => {
    article.querySelector(".look-up").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = event.target.elements.node.value;
      show(k + 1, text);
      history.replaceState(null, "", `#${new URLSearchParams(runs.length > 1 ? { run: k + 1, node: text } : { node: text })}`);
    });
    if (runs[k].nodes.length) show(k + 1, runs[k].nodes[0].id);
  });
  radios.forEach((radio, k) => radio.addEventListener("change", () => go(k + 1, null)));
  window.addEventListener("hashchange", () => follow(true));
  follow(true);
})();
