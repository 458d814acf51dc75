"use strict";
// Nodes are [name, own nanoseconds, children]; here they get .total, .up and .depth.
const data = JSON.parse(document.getElementById("data").textContent);
const graph = document.getElementById("graph"), about = document.getElementById("about");
const find = document.querySelector("input[type=search]"), found = document.getElementById("found");
const ROW = 20, LEAST = 0.5;
let view = 0, focus = null;

function prepare(root) {
  const order = [root];
  root.up = null; root.depth = 0;
  for (const node of order) for (const child of node[2]) { child.up = node; child.depth = node.depth + 1; order.push(child); }
  for (let i = order.length - 1; i >= 0; i--) {
    const node = order[i];
    node.total = node[1] + node[2].reduce((sum, child) => sum + child.total, 0);
    node[2].sort((a, b) => b.total - a.total || (a[0] < b[0] ? -1 : 1));
  }
  return root;
}

function time(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) if (ns >= size) return (ns / size).toPrecision(4) + " " + unit;
  return ns + " ns";
}

function hue(text) {
  let hash = 0;
  for (const c of text.replace(/[.\d]+$/, "")) hash = (hash * 31 + c.codePointAt(0)) % 997;
  return 10 + hash % 200;
}

function words(node) {
  const all = data.views[view].root.total || 1;
  const own = node[1] && node[2].length ? `, ${time(node[1])} of it itself` : "";
  return `${node[0]}: ${time(node.total)}, ${(100 * node.total / all).toFixed(1)} %${own}`;
}

function draw() {
  const width = graph.clientWidth, query = find.value.trim().toLowerCase();
  const boxes = [];
  let deepest = 0, hits = 0;
  const box = (node, x, w, path) => {
    if (w < LEAST) return;
    const hit = query && node[0].toLowerCase().includes(query);
    const element = document.createElement("div");
    element.textContent = w > 24 ? node[0] : "";
    element.title = words(node);
    element.style.cssText = `left:${x}px;width:${w}px;top:${node.depth * ROW}px;--hue:${hue(node[0])}`;
    element.className = (path ? "path" : "") + (hit ? " hit" : "");
    element.onclick = () => { focus = node; draw(); };
    element.onmouseenter = () => { about.textContent = words(node); };
    boxes.push(element);
    deepest = Math.max(deepest, node.depth);
  };
  for (let node = focus.up; node; node = node.up) box(node, 0, width, true);
  const stack = [[focus, 0, width]];
  while (stack.length) {
    const [node, x, w] = stack.pop();
    box(node, x, w, false);
    let at = x;
    for (const child of node[2]) {
      const own = node.total ? w * child.total / node.total : 0;
      if (own >= LEAST) stack.push([child, at, own]);
      at += own;
    }
  }
  if (query) {
    const walk = [data.views[view].root];  // outermost hits, each once
    while (walk.length) {
      const node = walk.pop();
      if (node[0].toLowerCase().includes(query)) hits += node.total; else walk.push(...node[2]);
    }
    found.textContent = `${time(hits)}, ${(100 * hits / (data.views[view].root.total || 1)).toFixed(1)} %`;
  } else found.textContent = "";
  graph.replaceChildren(...boxes);
  graph.style.height = (deepest + 1) * ROW + "px";
  about.textContent = words(focus);
}

function show(number) {
  view = number;
  focus = data.views[number].root;
  document.querySelectorAll("#views button").forEach((b, i) => b.setAttribute("aria-selected", i === number));
  draw();
}

data.views.forEach((v, number) => {
  prepare(v.root);
  const button = document.createElement("button");
  button.textContent = v.name;
  button.setAttribute("role", "tab");
  button.onclick = () => show(number);
  document.getElementById("views").append(button);
});
find.addEventListener("input", draw);
addEventListener("resize", draw);
addEventListener("keydown", event => {
  if (event.target === find) { if (event.key === "Escape") { find.value = ""; find.blur(); draw(); } return; }
  if (event.key === "/") { event.preventDefault(); find.focus(); }
  else if (event.key === "Escape") { focus = data.views[view].root; draw(); }
  else if (event.key === "Backspace" && focus.up) { focus = focus.up; draw(); }
});
show(0);
