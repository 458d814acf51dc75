// The page of rewrites: a list of passes and their rewrites, of which only what can be seen is in the document, and the
// rewrite that one looks at, drawn when one looks.
"use strict";

const Rewrites = (() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const S = DATA.strings, ROW = 24, MOST_DRAWN = 60, MOST_LINES = 200, NODE = 7;
  const $ = id => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const steps = DATA.steps.map((row, place) => ({ place, index: row[0], number: row[1], run: row[2], pass: S[row[3]],
    rule: S[row[4]], code: S[row[5]], meaning: S[row[6]], reason: S[row[7]], subject: S[row[8]], source: S[row[9]],
    opName: S[row[10]], withNext: row[11] === 1, edits: row[12], unread: row[13], around: row[14] }));
  const nodeOf = number => {
    const row = DATA.nodes[number];
    return { number, name: S[row[0]], home: S[row[1]], title: S[row[2]], shape: S[row[3]], group: S[row[4]],
      line: S[row[5]], called: row[6].map(i => S[i]), operands: row.slice(NODE).map(i => S[i]) };
  };

  // ---- elements

  function element(tag, text, cls) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (cls) made.className = cls;
    return made;
  }
  function drawn(tag, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // ---- the list

  let rows = [], rowOf = new Map(), shown = [], here = null;

  function haystack(step) {
    if (step.text === undefined) {
      const names = new Set();
      for (const number of step.edits) if (number >= 0) names.add(S[DATA.nodes[number][0]]);
      step.text = [step.index ? `#${step.index}` : "not counted", step.pass, step.rule, step.code, step.meaning, step.reason,
        step.source, step.opName, step.subject, ...names].join(" ").toLowerCase();
    }
    return step.text;
  }
  const ALONE = document.body.classList.contains("alone");
  const titleOf = step => step.rule || (ALONE ? step.pass : step.pass ? "not counted" : "between two pipelines");

  function filter() {
    const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = words.length ? steps.filter(step => words.every(word => haystack(step).includes(word))) : steps;
    rows = [];
    rowOf = new Map();
    let last = null;
    for (const step of shown) {
      if (!last || last.run !== step.run || last.pass !== step.pass) {
        last = { run: step.run, pass: step.pass, first: step, count: 0 };
        rows.push(last);
      }
      last.count += step.index ? 1 : 0;
      rowOf.set(step, rows.length);
      rows.push(step);
    }
    $("rows").style.height = `${rows.length * ROW}px`;
    $("rows").replaceChildren();
    $("list").querySelector("p")?.remove();
    if (!rows.length) $("list").append(element("p", steps.length ? "no rewrite fits the filter" : "no pass changed anything"));
    $("count").textContent = words.length ? `${shown.length} of ${steps.length}` : "";
    list();
  }

  function list() { // the rows that can be seen
    const view = $("list"), first = Math.max(0, Math.floor(view.scrollTop / ROW) - 4);
    const last = Math.min(rows.length, first + Math.ceil(view.clientHeight / ROW) + 8);
    const made = [];
    for (let i = first; i < last; i++) {
      const row = rows[i], isPass = row.first !== undefined, step = isPass ? row.first : row;
      const node = element("div", undefined, isPass ? "pass" : step.index ? "" : "uncounted");
      node.style.top = `${i * ROW}px`;
      if (isPass) {
        node.append(row.pass || "between two pipelines", element("small", row.count ? `run ${row.run} · ${row.count}` : `run ${row.run}`));
      } else {
        node.append(element("i", step.index ? `${step.index}` : "·"), titleOf(step), element("span", step.subject));
        if (step === here) node.classList.add("on");
      }
      node.title = node.textContent;
      node.onclick = () => go(step);
      made.push(node);
    }
    $("rows").replaceChildren(...made);
  }

  function reveal(step) {
    const view = $("list"), row = rowOf.get(step);
    if (row === undefined) return;
    const top = row * ROW;
    if (top - ROW < view.scrollTop) view.scrollTop = top - 2 * ROW;
    else if (top + ROW > view.scrollTop + view.clientHeight) view.scrollTop = top + 2 * ROW - view.clientHeight;
  }

  // ---- going from one to the next

  const anchor = step => step.index ? `#rewrite-${step.index}` : `#step-${step.place + 1}`;

  function go(step) {
    if (!step) return;
    if (!ALONE && location.hash !== anchor(step)) history.replaceState(null, "", anchor(step));
    show(step);
  }
  function move(by, wholePass) {
    if (!shown.length) return;
    let at = shown.indexOf(here);
    if (at < 0) { // the filter hides it: the nearest one that is shown
      at = shown.findIndex(step => step.place > here.place);
      go(shown[at < 0 ? shown.length - 1 : at]);
      return;
    }
    if (!wholePass) { go(shown[Math.max(0, Math.min(shown.length - 1, at + by))]); return; }
    const first = i => { while (i > 0 && shown[i - 1].run === shown[i].run) i--; return i; };
    if (by < 0) { go(shown[first(at) < at ? first(at) : first(Math.max(0, at - 1))]); return; }
    const next = shown.findIndex((step, i) => i > at && step.run !== here.run);
    if (next >= 0) go(shown[next]);
  }
  function fromAddress() {
    const [, kind, number] = location.hash.match(/^#(rewrite|step)-(\d+)$/) || [];
    const found = kind === "rewrite" ? steps.find(step => step.index === +number) : kind ? steps[+number - 1] : null;
    return found || null;
  }

  // ---- one rewrite

  function show(step) {
    here = step;
    reveal(step);
    list();
    head(step);
    const pairs = [];
    for (let i = 0; i < step.edits.length; i += 2) {
      const [before, after] = [step.edits[i], step.edits[i + 1]].map(number => number < 0 ? null : nodeOf(number));
      pairs.push({ before, after });
    }
    const around = step.around.map(nodeOf), unread = step.unread.map(nodeOf), few = pairs.slice(0, MOST_DRAWN);
    const changed = new Set(few.filter(pair => pair.before && pair.after).flatMap(pair => [pair.before, pair.after]));
    const kind = (node, alone) => changed.has(node) ? "changed" : alone;
    const before = [...few.map(pair => pair.before).filter(Boolean), ...unread.slice(0, MOST_DRAWN)];
    const after = few.map(pair => pair.after).filter(Boolean), all = pairs.length + unread.length;
    draw($("before"), before, around, node => kind(node, "removed"), all, few.length + Math.min(unread.length, MOST_DRAWN));
    draw($("after"), after, around, node => kind(node, "added"), pairs.length, few.length);
    $("drawings").hidden = !pairs.length;
    lines(pairs, unread, MOST_LINES);
    $("step").scrollTop = 0;
  }

  function head(step) {
    const title = element("h2"), link = element("a", step.index ? `rewrite ${step.index}` : `step ${step.place + 1}`);
    link.href = anchor(step);
    if (!ALONE) title.append(link, " ");
    title.append(titleOf(step), element("small", [step.code, step.rule && step.pass].filter(Boolean).join(" · ")));
    const notes = [element("p", step.meaning, "meaning"), element("p", step.reason, "meaning")];
    const place = [step.source, step.opName].filter(Boolean).join("  ·  ");
    if (place) notes.push(element("p", place));
    if (step.index) {
      const limit = step.withNext ? "the pass makes the next one with it: no limit comes between them"
        : `--rewrite-limit ${step.index} ends with it`;
      notes.push(element("p", `rewrite ${step.number} of run ${step.run}, ${step.pass}; ${limit}`));
    } else if (step.run) {
      notes.push(element("p", `${step.pass} (run ${step.run}) does this without counting it as a rewrite`));
    }
    if (!step.edits.length) notes.push(element("p", "no line is different: only the order of the instructions"));
    $("head").replaceChildren(title, ...notes.filter(note => note.textContent));
  }

  function lines(pairs, unread, most) {
    const made = [];
    let home = null;
    const sorted = pairs.map((pair, i) => ({ pair, i, home: (pair.before || pair.after).home }));
    const order = [...new Set(sorted.map(one => one.home))];
    sorted.sort((a, b) => order.indexOf(a.home) - order.indexOf(b.home) || a.i - b.i);
    for (const { pair: { before, after }, home: name } of sorted.slice(0, most)) {
      if (name !== home) made.push(element("h3", `in ${home = name}`));
      const [old, now] = [before ? before.line : "", after ? after.line : ""];
      if (before) made.push(line("- ", old, after ? now : old, "minus"));
      if (after) made.push(line("+ ", now, before ? old : now, "plus"));
    }
    if (pairs.length > most) {
      const more = element("button", `show all ${pairs.length} instructions`);
      more.onclick = () => lines(pairs, unread, Infinity);
      made.push(more);
    }
    if (unread.length) made.push(element("h3", "read by nothing from here on"));
    for (const node of unread.slice(0, most)) made.push(element("div", `  ${node.line}`, "unread"));
    if (unread.length > most) made.push(element("p", `and ${unread.length - most} more`));
    $("lines").replaceChildren(...made);
  }
  function line(sign, text, other, cls) { // what differs from the other line is marked
    const made = element("div", undefined, cls), longest = Math.min(text.length, other.length);
    let start = 0, end = 0;
    if (text !== other) {
      while (start < longest && text[start] === other[start]) start++;
      while (end < longest - start && text[text.length - 1 - end] === other[other.length - 1 - end]) end++;
      const part = /[\w.\-]/;
      while (start > 0 && part.test(text[start - 1])) start--;
      while (end > 0 && part.test(text[text.length - end])) end--;
    } else start = text.length;
    made.append(sign, text.slice(0, start));
    if (start < text.length - end) made.append(element("mark", text.slice(start, text.length - end)));
    if (end) made.append(text.slice(text.length - end));
    return made;
  }

  // ---- drawings

  const pen = document.createElement("canvas").getContext("2d");
  const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
  function measure(text, bold) { pen.font = (bold ? "600 " : "") + FONT; return pen.measureText(text).width; }
  const cut = text => text.length > 44 ? `${text.slice(0, 28)}…${text.slice(-14)}` : text;

  function draw(sheet, edited, around, kindOf, all, few) {
    if (!edited.length) { sheet.replaceChildren(element("p", sheet.id === "after" ? "nothing takes its place" : "nothing stood here")); return; }
    const root = { num: 0, parent: null, children: [], order: 0, x: 0, y: 0, w: 0, h: 0 };
    const boxes = [root], homes = new Map(), byName = new Map();
    const put = (parent, fields) => {
      const box = { num: boxes.length, parent, children: [], order: boxes.length, x: 0, y: 0, w: 0, h: 0, ...fields };
      boxes.push(box);
      parent.children.push(box);
      return box;
    };
    const wanted = new Set(edited.map(node => node.number)), nodes = [...edited];
    const read = new Set(edited.flatMap(node => node.operands.map(name => `${node.home}/${name}`)));
    const names = new Set(edited.map(node => `${node.home}/${node.name}`));
    for (const node of around) { // of what is beside it, what has an edge here
      const reads = node.operands.some(name => names.has(`${node.home}/${name}`));
      if (!wanted.has(node.number) && (reads || read.has(`${node.home}/${node.name}`))) nodes.push(node);
    }
    const owners = new Map(); // the computations that a drawn instruction calls are drawn in it
    for (const node of nodes) for (const callee of node.called) if (!owners.has(callee)) owners.set(callee, node);
    const places = [...new Set(nodes.map(node => node.home))].filter(name => !owners.has(name)), making = new Set();
    const homeOf = name => {
      if (homes.has(name)) return homes.get(name);
      const owner = owners.get(name);
      let made = root;
      if (owner && owner.home !== name && !making.has(name)) {
        making.add(name);
        made = boxOf(owner);
        making.delete(name);
      } else if (places.length > 1) made = put(root, { name, title: name, cls: "home", group: "" });
      homes.set(name, made);
      return made;
    };
    const boxOf = node => {
      const key = `${node.home}/${node.name}`;
      if (!byName.has(key)) {
        const home = homeOf(node.home);
        byName.set(key, put(home, { ...node, cls: wanted.has(node.number) ? kindOf(node) : "around" }));
      }
      return byName.get(key);
    };
    nodes.forEach(boxOf);
    const edges = [];
    for (const node of nodes) node.operands.forEach((name, operand) => {
      const source = byName.get(`${node.home}/${name}`), target = boxOf(node);
      if (source && source !== target) edges.push({ source, target, kind: 0, element: "", operand });
    });
    const texts = box => [cut(box.name), cut(box.shape || "")];
    const sizeOf = box => [Math.ceil(Math.max(44, measure(box.title, true) + measure(` ${cut(box.name)}`) + 22,
      measure(texts(box)[1]) + 18)), box.shape ? 39 : 25];
    const width = box => measure(box.title || "", true) + measure(box.name || "") + 30;
    const { segments } = Layout.arrange(root, box => box.children.length > 0, edges, sizeOf, width, () => null);
    const picture = drawn("svg", { viewBox: `0 0 ${Math.ceil(root.w)} ${Math.ceil(root.h)}`, role: "img" });
    for (const box of boxes.slice(1)) picture.append(figure(box, texts(box)));
    for (const { points, around: beside } of segments) picture.append(...edge(points, beside));
    const room = sheet.clientWidth - 16, scale = Math.max(0.75, Math.min(1, room / root.w));
    picture.setAttribute("width", Math.ceil(root.w * scale));
    picture.setAttribute("height", Math.ceil(root.h * scale));
    sheet.replaceChildren(picture);
    if (all > few) sheet.append(element("p", `${few} of ${all} instructions are drawn`));
  }

  function figure(box, [name, shape]) {
    const group = drawn("g", { class: box.cls }), open = box.children.length > 0;
    const colours = DATA.groups[box.group];
    const rect = drawn("rect", { x: box.x, y: box.y, width: box.w, height: box.h, rx: 5 });
    if (colours) rect.setAttribute("fill", open ? "var(--inner)" : colours[dark.matches ? 1 : 0]);
    group.append(rect);
    const title = drawn("text", { x: box.x + 9, y: box.y + 17 });
    title.append(drawn("tspan", { class: "title" }, box.title));
    if (box.title !== box.name) title.append(drawn("tspan", { class: "name", dx: 5 }, name));
    group.append(title);
    if (shape && !open) group.append(drawn("text", { x: box.x + 9, y: box.y + 32, class: "shape" }, shape));
    group.append(drawn("title", {}, box.line || box.name));
    return group;
  }
  function edge(points, beside) {
    let path = `M${points[0]} ${points[1]}`;
    for (let i = 2; i < points.length; i += 2) {
      const [x0, y0, x1, y1] = [points[i - 2], points[i - 1], points[i], points[i + 1]], k = (y1 - y0) / 2;
      path += beside || Math.abs(x1 - x0) < 1 ? `L${x1} ${y1}` : `C${x0} ${y0 + k} ${x1} ${y1 - k} ${x1} ${y1}`;
    }
    const [x, y] = points.slice(-2), down = y >= points[points.length - 3] ? 1 : -1;
    return [drawn("path", { d: path }), drawn("path", { class: "arrow", d: `M${x} ${y}l-3.2 ${-6.5 * down}h6.4z` })];
  }

  // ---- keys

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const find = $("find"), typing = document.activeElement === find;
    if (!$("help").hidden && event.key !== "?") { $("help").hidden = true; return; }
    if (typing) {
      if (event.key === "Escape") {
        if (find.value) { find.value = ""; filter(); reveal(here); list(); } else find.blur();
      } else if (event.key === "Enter") { find.blur(); if (shown.length && !shown.includes(here)) move(1, false); }
      else if (event.key === "ArrowDown" || event.key === "ArrowUp") move(event.key === "ArrowDown" ? 1 : -1, event.shiftKey);
      else return;
      event.preventDefault();
      return;
    }
    const by = { j: 1, J: 1, ArrowDown: 1, ArrowRight: 1, k: -1, K: -1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (by) move(by, event.shiftKey);
    else if (event.key === "Home") go(shown[0]);
    else if (event.key === "End") go(shown[shown.length - 1]);
    else if (event.key === "/") find.focus();
    else if (event.key === "Escape" && find.value) { find.value = ""; filter(); reveal(here); list(); }
    else if (event.key === "?") $("help").hidden = !$("help").hidden;
    else return;
    event.preventDefault();
  }

  addEventListener("keydown", key);
  addEventListener("hashchange", () => { const step = fromAddress(); if (step) show(step); });
  addEventListener("resize", () => { if (here) show(here); else list(); });
  dark.addEventListener("change", () => { if (here) show(here); });
  $("list").addEventListener("scroll", list);
  $("find").addEventListener("input", filter);
  $("ask").onclick = () => { $("help").hidden = false; };
  $("help").onclick = () => { $("help").hidden = true; };
  filter();
  const start = fromAddress() || steps.find(step => step.index) || steps[0];
  if (start) show(start);
  else $("drawings").hidden = true;
  return { steps, get here() { return here; }, go, get shown() { return shown; } };
})();
