// The page: a canvas with the drawing, a camera, search, a panel with what is known of a box, and stages to flip
// through.  The data comes with the page; nothing is fetched.
"use strict";

const View = (() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const OPTIONS = JSON.parse(document.getElementById("options").textContent);
  const S = DATA.strings, F = Object.fromEntries(DATA.fields.map((name, i) => [name, i]));
  const NEXT = 2; // edges from an iteration of a loop to the next
  const ROOT = 1, CUT = 2, AT_LEAST = 4;
  const FEW = 130; // boxes that a page opens with
  const FEW_CELLS = 24; // in a strip that starts open
  const READABLE = 0.62; // scale from which all words of a box are written
  const MOST_MOVING = 1500; // boxes that move to their new places before the reader's eyes
  const RUNNERS = new Set(["fusion", "while", "call", "conditional", "async-start"]);
  const lastOf = path => path.slice(path.lastIndexOf("/") + 1);
  const $ = id => document.getElementById(id);
  const canvas = $("canvas"), pen = canvas.getContext("2d");
  const word = (box, key) => S[box.record[F[key]]], amount = (box, key) => box.record[F[key]];

  // ---- stages

  const stages = DATA.stages.map((stage, place) => ({ number: place, ...stage, place, loaded: null }));

  function load(stage) {
    if (stage.loaded) return stage.loaded;
    const boxes = [], byPath = new Map();
    for (let i = 0; i < stage.boxes.length; i += 2) {
      for (let k = 0; k < stage.boxes[i + 1]; k++) {
        const record = DATA.records[stage.boxes[i] + k];
        const box = { num: boxes.length, record, path: S[record[F.path]], parent: null, children: [], order: 0,
          edgesIn: [], edgesOut: [], x: 0, y: 0, w: 0, h: 0, size: null };
        boxes.push(box);
        byPath.set(box.path, box);
        const parent = byPath.get(S[record[F.parent]]);
        if (parent && parent !== box) { box.parent = parent; box.cell = parent.children.length; parent.children.push(box); }
        box.isStrip = S[record[F.kind]] === "strip";
        box.reads = box.changes = 0;
      }
    }
    const edges = [];
    for (const box of boxes) {
      const flat = box.record[F.edges];
      for (let i = 0; i < flat.length; i += 4) {
        const source = byPath.get(S[flat[i]]);
        if (!source) continue;
        const edge = { source, target: box, kind: flat[i + 1], element: S[flat[i + 2]], operand: flat[i + 3] };
        if (!source.parent || !source.parent.isStrip) edges.push(edge); // those from strips are drawn on demand
        source.edgesOut.push(edge);
        box.edgesIn.push(edge);
      }
    }
    for (let i = boxes.length - 1; i >= 0; i--) {
      const box = boxes[i], inner = box.children;
      box.order = inner.length ? inner.reduce((sum, child) => sum + child.order, 0) / inner.length : i;
      const own = word(box, "kind") === "instruction" ? amount(box, "seconds") : 0;
      box.time = inner.reduce((sum, child) => sum + child.time, own);
      box.error = inner.reduce((most, child) => Math.max(most, child.error), amount(box, "error"));
    }
    const marked = new Set(stage.marked.map(i => S[i]));
    for (const [path, line, details] of stage.reasons || []) {
      const box = byPath.get(S[path]), pairs = [];
      for (let i = 0; i < details.length; i += 2) pairs.push([S[details[i]], S[details[i + 1]]]);
      if (box) box.reason = { line: S[line], details: pairs };
    }
    for (let i = boxes.length - 1; i >= 0; i--) { // inner boxes first: what they read of strips, how many are changed
      const box = boxes[i], numbers = new Set(box.children.flatMap(child => child.reads || []));
      for (const { source } of box.edgesIn) {
        if (source.parent && source.parent.isStrip) numbers.add(source.cell);
      }
      box.reads = numbers.size ? [...numbers] : null;
      box.changes = box.children.reduce((sum, child) => sum + child.changes, marked.has(box.path) ? 1 : 0);
    }
    const leaving = new Set(), after = stages[stages.indexOf(stage) + 1];
    if (after && after.listing === undefined) { // what is in no box of the next stage, nor what one was made from
      const stays = new Set();
      for (let i = 0; i < after.boxes.length; i += 2) for (let k = 0; k < after.boxes[i + 1]; k++)
        for (const name of namesOf(DATA.records[after.boxes[i] + k])) stays.add(name);
      for (const box of boxes) {
        const goes = word(box, "kind") === "instruction" && !namesOf(box.record).some(name => stays.has(name));
        if (goes) leaving.add(box.path);
      }
    }
    return stage.loaded = { boxes, edges, byPath, root: boxes[0], marked, leaving, openByDefault: defaults(boxes[0]),
      haystack: null, forms: null, placed: null };
  }

  // The source instructions that a box stands for, and its own name.
  function namesOf(record) {
    const origins = S[record[F.origins]];
    return [lastOf(S[record[F.path]]), ...(origins ? origins.split(",") : [])];
  }

  // Boxes that start open: level by level while not too much shows.
  function defaults(root) {
    const open = new Set([root]);
    let shown = root.children.length, front = root.children;
    for (const box of root.children) if (box.isStrip && box.children.length <= FEW_CELLS) open.add(box);
    for (const box of changedFirst(root)) { // what changed shows, if it can
      if (box.path === root.path || open.has(box)) continue;
      if (shown + box.children.length > FEW) break;
      open.add(box);
      shown += box.children.length;
    }
    for (;;) {
      const runs = box => word(box, "kind") !== "instruction" || RUNNERS.has(word(box, "opcode"));
      const found = front.filter(box => box.children.length && runs(box) && !box.isStrip && !open.has(box));
      const computations = found.flatMap(box => box.children.filter(inner => word(inner, "kind") === "computation"));
      const next = [...found, ...computations].flatMap(box => box.children);
      if (!found.length || shown + next.length > FEW) return open;
      for (const box of [...found, ...computations]) open.add(box);
      shown += next.length;
      front = next.filter(box => !open.has(box));
    }
  }

  // Boxes that hold something that changed, level by level.
  function changedFirst(root) {
    const found = [];
    let front = [root];
    while (front.length) {
      front = front.flatMap(box => box.children).filter(box => box.children.length && box.changes && !box.isStrip);
      found.push(...front);
    }
    return found;
  }

  // ---- state

  let stage = stages[0], model = load(stage);
  const opened = new Map(); // path -> open or not, where the reader said so
  let drawn = { boxes: [], segments: [], links: [] };
  let camera = { scale: 1, x: 0, y: 0 };
  let selected = null, hovered = null, colouring = OPTIONS.heat || "group", found = [], foundAt = -1, most = 0;
  let frame = 0, moving = null, untouched = true, colours = {}, dark = false, addressing = 0;
  let twins = new Set(); // what is built like the selected box
  const before = new Map(); // path -> where its box was, to start a movement from and to keep places by
  const isOpen = box => box.children.length > 0 && (opened.get(box.path) ?? model.openByDefault.has(box));

  // ---- reasons

  // What the log of decisions says of a box: a line for the box, and (code, words) for the panel.
  function reasonLine(box) { return box.reason && !isOpen(box) ? box.reason.line : ""; }
  function reasonsIn(box) {
    const part = element("div");
    if (!box.reason) return part;
    part.append(element("h3", "why"), element("p", box.reason.line, "reason"));
    for (const [code, words] of box.reason.details) {
      const row = element("p"), [title, meaning] = DATA.codes[code] || ["", ""];
      row.append(codeLink(code), " ", words);
      part.append(row);
      if (!meaning || part.querySelector(`details[data-code="${code}"]`)) continue;
      const text = element("details");
      text.dataset.code = code;
      text.append(element("summary", `${code}: ${title}`), element("p", meaning));
      part.append(text);
    }
    return part;
  }
  function codeLink(code) { // opens the text of a code, which is in the panel, too
    const link = element("a", code, "code");
    link.href = `#${code}`;
    link.onclick = event => {
      event.preventDefault();
      const text = $("panel").querySelector(`details[data-code="${code}"]`);
      if (text) { text.open = true; text.scrollIntoView({ block: "nearest" }); }
    };
    return link;
  }

  // ---- sizes

  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
  const BOLD = `600 12px ${FONT}`, PLAIN = `12px ${FONT}`, SMALL = `10.5px ${FONT}`;
  const widths = { [BOLD]: new Map(), [PLAIN]: new Map(), [SMALL]: new Map() };
  function measure(text, font) {
    const known = widths[font];
    let width = known.get(text);
    if (width === undefined) { pen.font = font; width = pen.measureText(text).width; known.set(text, width); }
    return width;
  }
  const lines = box => [word(box, "arguments"), word(box, "shape"), word(box, "details")];
  const notesOf = box => [readsOf(box), ...reasonLine(box).split("; ")].filter(Boolean);
  // The parameters of a strip that a box reads: p0–p3 p12.
  function readsOf(box, most = 4) {
    if (!box.reads) return "";
    const sorted = box.reads.slice().sort((p, q) => p - q), ranges = [];
    for (const n of sorted) {
      const last = ranges[ranges.length - 1];
      if (last && last[1] === n - 1) last[1] = n; else ranges.push([n, n]);
    }
    const words = ranges.slice(0, most).map(([p, q]) => p === q ? `p${p}` : q === p + 1 ? `p${p} p${q}` : `p${p}–p${q}`);
    return "\u2190 " + words.join(" ") + (ranges.length > most ? " …" : "");
  }
  function sizeOf(box) {
    if (box.size) return box.size;
    const [args, shape, details] = lines(box);
    const name = word(box, "name");
    let width = measure(word(box, "title"), BOLD) + (name ? measure(name, PLAIN) + 7 : 0);
    if (box.children.length) width += 16;
    let height = 15;
    if (args) { width = Math.max(width, measure(args, SMALL)); height += 13; }
    if (shape) { width = Math.max(width, measure(shape, PLAIN)); height += 15; }
    if (details) { width = Math.max(width, measure(details, SMALL)); height += 13; }
    for (const line of notesOf(box)) { width = Math.max(width, measure(line, SMALL)); height += 13; }
    return box.size = [Math.ceil(Math.max(width + 18, 44)), height + 11];
  }
  const headWidth = box => measure(word(box, "title"), BOLD) + measure(word(box, "name"), PLAIN) + 56;

  // ---- placing

  function place(keep) {
    const hints = before.size > 0 && stages.length > 1;
    const hintOf = box => hints ? hintFor(box) : null;
    const [wide, tall] = extent(), aspect = Math.min(2, Math.max(0.6, wide / Math.max(tall, 1)));
    drawn = Layout.arrange(model.root, isOpen, model.edges, sizeOf, headWidth, hintOf, aspect);
    if (keep) {
      const now = model.byPath.get(keep.path);
      if (now) { camera.x = keep.x - now.x * camera.scale; camera.y = keep.y - now.y * camera.scale; }
    }
    for (const box of drawn.boxes) box.shownAt = drawn;
    measureHeat();
  }
  function hintFor(box) {
    const own = before.get(box.path);
    if (own) return own.x + own.w / 2 - own.folded;
    for (const origin of word(box, "origins").split(",")) {
      const old = origin && before.get(origin);
      if (old) return old.x + old.w / 2 - old.folded;
    }
    return null;
  }
  function remember() {
    before.clear();
    for (const box of drawn.boxes) {
      const place = { x: box.x, y: box.y, w: box.w, h: box.h, folded: box.folded };
      before.set(box.path, place);
      if (word(box, "opcode")) before.set(lastOf(box.path), place);
    }
  }

  // Show the drawing as it is now; what was there before moves to its new place.
  function refresh(keep) {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches || drawn.boxes.length > MOST_MOVING;
    remember();
    place(keep);
    legend();
    outlineOf();
    moving = still || drawn.boxes.length > MOST_MOVING ? null : { start: performance.now(), from: new Map(before) };
    draw();
  }

  function toggle(box, open = !isOpen(box)) {
    if (!box || !box.children.length || !box.parent) return;
    untouched = false;
    const keep = { path: box.path, x: box.x * camera.scale + camera.x, y: box.y * camera.scale + camera.y };
    opened.set(box.path, open);
    refresh(keep);
  }
  function toggleAll(open) {
    for (const box of model.boxes) if (box.children.length && box.parent) opened.set(box.path, open);
    refresh(null);
    fit();
  }
  function openWithin(box) { // everything in it; where all is open already, it closes
    if (!box || !box.children.length || !box.parent) return;
    const holders = [], visit = one => { if (one.children.length) { holders.push(one); one.children.forEach(visit); } };
    visit(box);
    const open = !holders.every(isOpen);
    for (const one of holders) opened.set(one.path, open);
    toggle(box, open);
  }
  function reveal(box) {
    let changed = false;
    for (let outer = box.parent; outer; outer = outer.parent) {
      if (outer.parent && !isOpen(outer)) { opened.set(outer.path, true); changed = true; }
    }
    if (changed) refresh(null);
    return box;
  }

  // ---- camera

  function extent() { return [canvas.clientWidth, canvas.clientHeight]; }
  function fit(box = null) {
    const [width, height] = extent(), { x, y, w, h } = box || model.root;
    const scale = Math.min((width - 40) / Math.max(w, 1), (height - 40) / Math.max(h, 1), box ? 1.2 : 1.4);
    camera = { scale, x: width / 2 - (x + w / 2) * scale, y: height / 2 - (y + h / 2) * scale };
    draw();
  }
  function first() { // the whole where it can be read, else where the program begins, or what changed
    fit();
    if (camera.scale >= READABLE) return;
    const [width] = extent(), { w } = model.root, scale = READABLE;
    camera = { scale, x: w * scale < width - 40 ? (width - w * scale) / 2 : 12, y: 12 };
    const changed = drawn.boxes.filter(box => isChanged(box));
    if (changed.length && !changed.some(onScreen)) aim(changed[0]);
    draw();
  }
  function onScreen(box) {
    const [width, height] = extent(), x = (box.x + Math.min(box.w, 60) / 2) * camera.scale + camera.x;
    const y = (box.y + Math.min(box.h, 60) / 2) * camera.scale + camera.y;
    return x > 0 && y > 0 && x < width && y < height;
  }
  function zoom(factor, x, y) {
    untouched = false;
    const scale = Math.min(6, Math.max(0.004, camera.scale * factor));
    camera.x = x - (x - camera.x) * scale / camera.scale;
    camera.y = y - (y - camera.y) * scale / camera.scale;
    camera.scale = scale;
    draw();
  }
  function beside() { // the width that the panel leaves
    const [width] = extent();
    return $("panel").hidden ? width : Math.max($("panel").offsetLeft, width * 0.3);
  }
  function aim(box) {
    const width = beside(), [, height] = extent();
    camera.x = width / 2 - (box.x + box.w / 2) * camera.scale;
    camera.y = height / 2 - (box.y + Math.min(box.h, height / camera.scale) / 2) * camera.scale;
  }
  function centre(box) {
    untouched = false;
    if (camera.scale < READABLE) camera.scale = 0.9;
    aim(box);
    draw();
  }
  function show(box) { // only as much movement as it takes
    const width = beside(), [, height] = extent(), s = camera.scale;
    const x = box.x * s + camera.x, y = box.y * s + camera.y;
    const bottom = y + Math.min(box.h * s, 200);
    if (s < 0.45 || x < 10 || y < 10 || x + box.w * s > width - 10 || bottom > height - 10) centre(box);
    else draw();
  }

  // ---- colours

  function palette() {
    const style = getComputedStyle(document.documentElement);
    const get = name => style.getPropertyValue(name).trim();
    dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const names = ["paper", "ink", "grey", "line", "edge", "box", "inner", "accent", "changed", "leaving", "reads",
      "read", "root", "found"];
    colours = Object.fromEntries(names.map(name => [name, get("--" + name)]));
  }
  function fillOf(box) {
    if (colouring === "sharding") return cutColour(word(box, "sharding"));
    if (colouring !== "group") return heat(value(box, colouring) / (most || 1));
    const key = word(box, "inner") || word(box, "group");
    const entry = OPTIONS.groups[key];
    return entry ? entry[dark ? 2 : 1] : colours.box;
  }
  const cuts = new Map(); // what is cut alike has one colour; the next is far from those before
  for (const record of DATA.records) {
    const words = S[record[F.sharding]];
    if (words && words !== "{replicated}" && !cuts.has(words)) cuts.set(words, cuts.size);
  }
  function cutColour(words) {
    if (!cuts.has(words)) return colours.box;
    return `hsl(${Math.round(360 * ((0.58 + cuts.get(words) * 0.618034) % 1))}, 62%, ${dark ? 28 : 82}%)`;
  }
  function value(box, what) {
    if (what === "time") return box.time;
    if (what === "error") return box.error;
    return Math.max(0, amount(box, what === "bytes" ? "moved" : "flops"));
  }
  function measureHeat() { // the hottest box that shows is red
    most = 0;
    if (colouring === "group" || colouring === "sharding") return;
    for (const box of drawn.boxes) if (!isOpen(box)) most = Math.max(most, value(box, colouring));
  }
  function heat(part) {
    const p = Math.sqrt(Math.min(1, Math.max(0, part)));
    const stops = dark ? [[43, 47, 54], [140, 96, 20], [200, 50, 40]]
      : [[255, 255, 255], [255, 214, 120], [226, 74, 51]];
    const [a, b, t] = p < 0.5 ? [stops[0], stops[1], p * 2] : [stops[1], stops[2], p * 2 - 1];
    return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * t)).join(",")})`;
  }

  // ---- drawing

  function draw() { if (!frame) frame = requestAnimationFrame(paint); }

  function paint() {
    frame = 0;
    const [width, height] = extent(), ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, height);
    const s = camera.scale;
    pen.translate(camera.x, camera.y);
    pen.scale(s, s);
    const [left, top, right, bottom] = [-camera.x / s, -camera.y / s, (width - camera.x) / s, (height - camera.y) / s];
    const view = { left, top, right, bottom };
    let part = 1;
    if (moving) {
      part = Math.min(1, (performance.now() - moving.start) / 260);
      part = part * part * (3 - 2 * part);
      if (part >= 1) moving = null; else draw();
    }
    const at = box => {
      if (part >= 1) return box;
      const old = moving.from.get(box.path);
      if (!old) return box;
      const mix = (p, q) => p + (q - p) * part;
      return { x: mix(old.x, box.x), y: mix(old.y, box.y), w: mix(old.w, box.w), h: mix(old.h, box.h) };
    };
    const visible = [];
    for (const box of drawn.boxes) {
      const p = at(box);
      if (Math.max(p.w, p.h) * s < 0.8) continue; // less than a pixel
      if (p.x < right && p.x + p.w > left && p.y < bottom && p.y + p.h > top) visible.push([box, p]);
    }
    const foundSet = new Set(found);
    for (const [box, p] of visible) if (isOpen(box)) container(box, p, s, foundSet);
    pen.globalAlpha = part < 1 ? part * part : 1;
    edges(view, s);
    pen.globalAlpha = 1;
    for (const [box, p] of visible) if (isOpen(box)) heading(box, p, s);
    for (const [box, p] of visible) if (!isOpen(box)) leaf(box, p, s, foundSet);
    View.paints = (View.paints || 0) + 1;
  }

  function path(x, y, w, h, r) {
    pen.beginPath();
    if (pen.roundRect && camera.scale > 0.12) pen.roundRect(x, y, w, h, Math.min(r, w / 2, h / 2));
    else pen.rect(x, y, w, h);
  }

  function outline(box, p, s, foundSet, radius) {
    const thin = Math.max(1, 0.8 / s);
    const changed = isChanged(box), goes = model.leaving.has(box.path);
    const stroke = (colour, width) => { pen.strokeStyle = colour; pen.lineWidth = width; pen.stroke(); };
    const around = (space, colour, width) => {
      path(p.x - space, p.y - space, p.w + 2 * space, p.h + 2 * space, radius + space);
      stroke(colour, Math.max(width, width / s));
    };
    if (changed) {
      if (!model.marked.has(box.path)) pen.setLineDash([2, 3]); // something in it is
      stroke(colours.changed, 2.2 * thin);
      pen.setLineDash([]);
    }
    else if (amount(box, "flags") & ROOT) stroke(colours.root, 2 * thin);
    if (goes && !changed) { pen.setLineDash([5, 3]); stroke(colours.leaving, 1.6 * thin); pen.setLineDash([]); }
    if (foundSet.has(box)) around(3, colours.found, 3);
    if (box === selected) around(2, colours.accent, 2.5);
    else if (twins.has(box)) { pen.setLineDash([5, 4]); around(2, colours.accent, 1.5); pen.setLineDash([]); }
  }

  // Whether a box that shows is changed, or has something changed in it that does not show.
  function isChanged(box) { return model.marked.has(box.path) || (box.changes > 0 && !isOpen(box)); }

  function container(box, p, s, foundSet) {
    let level = 0;
    for (let outer = box.parent; outer; outer = outer.parent) level++;
    const fusion = word(box, "opcode") === "fusion";
    path(p.x, p.y, p.w, p.h, 9);
    pen.fillStyle = fusion ? OPTIONS.groups.fusion[dark ? 2 : 1] : level % 2 ? colours.inner : colours.paper;
    pen.fill();
    pen.strokeStyle = box === hovered ? colours.accent : colours.line;
    pen.lineWidth = Math.max(1, 0.7 / s);
    if (word(box, "kind") === "computation") pen.setLineDash([4, 3]);
    pen.stroke();
    pen.setLineDash([]);
    outline(box, p, s, foundSet, 9);
  }

  // A title stands in the strip of an open box that is kept free for it, as large as that allows.
  function headingAt(box, p, s) {
    if (p.w * s < 40) return null;
    const words = headWidth(box) - 30;
    const size = Math.min(Math.max(12, 10 / s), 12 * (p.w - 24) / Math.max(words, 1), 12 * (Layout.HEAD - 6) / 18);
    if (size * s < 5) return null;
    return { size, x: p.x + 9 - 3 * size / 12, y: p.y + 5, w: (words + 4) * size / 12, h: 18 * size / 12 };
  }
  function heading(box, p, s) {
    const place = headingAt(box, p, s);
    if (!place) return;
    const { size } = place;
    pen.save();
    pen.translate(p.x + 9, p.y + 5 + 2 * size / 12);
    pen.scale(size / 12, size / 12);
    const title = word(box, "title"), name = word(box, "name");
    const width = 14 + measure(title, BOLD) + (name ? 7 + measure(name, PLAIN) : 0);
    pen.globalAlpha = 0.86;
    pen.fillStyle = word(box, "opcode") === "fusion" ? OPTIONS.groups.fusion[dark ? 2 : 1] : colours.paper;
    path(-3, -2, width + 8, 18, 5);
    pen.fill();
    pen.globalAlpha = 1;
    mark(0, 2, true);
    pen.textBaseline = "top"; pen.textAlign = "left";
    pen.font = BOLD; pen.fillStyle = colours.ink;
    pen.fillText(title, 14, 1);
    if (name) { pen.font = PLAIN; pen.fillStyle = colours.grey; pen.fillText(name, 21 + measure(title, BOLD), 1); }
    pen.restore();
  }

  function mark(x, y, open) { // the sign of a box that opens and closes
    pen.beginPath();
    if (open) { pen.moveTo(x, y + 3); pen.lineTo(x + 8, y + 3); pen.lineTo(x + 4, y + 8); }
    else { pen.moveTo(x + 1, y + 1); pen.lineTo(x + 7, y + 5); pen.lineTo(x + 1, y + 9); }
    pen.closePath();
    pen.fillStyle = colours.grey;
    pen.fill();
  }

  function leaf(box, p, s, foundSet) {
    const holds = box.children.length > 0, thin = Math.max(1, 0.6 / s);
    const loop = word(box, "opcode") === "while" || word(box, "opcode") === "conditional";
    const radius = loop ? 16 : 6;
    if (holds && s > 0.15) { // a second sheet behind it
      path(p.x + 3, p.y + 3, p.w, p.h, radius);
      pen.fillStyle = colours.inner; pen.fill();
      pen.strokeStyle = colours.line; pen.lineWidth = thin; pen.stroke();
    }
    path(p.x, p.y, p.w, p.h, radius);
    pen.fillStyle = fillOf(box);
    pen.fill();
    pen.strokeStyle = box === hovered ? colours.accent : colours.line;
    pen.lineWidth = box === hovered ? 2 * thin : thin;
    if (amount(box, "flags") & CUT) pen.setLineDash([4, 3]);
    pen.stroke();
    pen.setLineDash([]);
    outline(box, p, s, foundSet, radius);
    const title = word(box, "title"), name = word(box, "name");
    pen.textBaseline = "top";
    if (s < 0.55) { // from far only the title, and the shape under it, as large as fits
      const shape = word(box, "shape") || word(box, "details"), middle = p.x + p.w / 2;
      const fits = (text, font, most) => Math.min(Math.max(12, 9.5 / s), 12 * (p.w - 6) / measure(text, font), most);
      const lower = shape ? fits(shape, PLAIN, p.h * 0.42) : 0, both = lower * s >= 6.5;
      const size = fits(title, BOLD, p.h * (both ? 0.48 : 0.8));
      if (size * s < 4.5) return;
      pen.fillStyle = colours.ink; pen.textAlign = "center"; pen.textBaseline = "middle";
      pen.font = `600 ${size}px ${FONT}`;
      pen.fillText(title, middle, p.y + p.h * (both ? 0.28 : 0.5));
      if (both) { pen.font = `${lower}px ${FONT}`; pen.fillText(shape, middle, p.y + p.h * 0.74); }
      return;
    }
    const middle = p.x + p.w / 2;
    let y = p.y + 6;
    const wide = (holds ? 16 : 0) + measure(title, BOLD) + (name ? measure(name, PLAIN) + 7 : 0);
    let x = middle - wide / 2;
    if (holds) { mark(x, y, false); x += 16; }
    pen.textAlign = "left"; pen.font = BOLD; pen.fillStyle = colours.ink;
    pen.fillText(title, x, y);
    if (name) { pen.font = PLAIN; pen.fillStyle = colours.grey; pen.fillText(name, x + measure(title, BOLD) + 7, y); }
    y += 15;
    pen.textAlign = "center";
    const [args, shape, details] = lines(box);
    if (args) { pen.font = SMALL; pen.fillStyle = colours.ink; pen.fillText(args, middle, y + 1); y += 13; }
    if (shape) { pen.font = PLAIN; pen.fillStyle = colours.ink; pen.fillText(shape, middle, y); y += 15; }
    if (details) { pen.font = SMALL; pen.fillStyle = colours.grey; pen.fillText(details, middle, y + 1); y += 13; }
    for (const line of notesOf(box)) {
      pen.font = SMALL; pen.fillStyle = line[0] === "\u2190" ? colours.grey : colours.accent;
      pen.fillText(line, middle, y + 1);
      y += 13;
    }
  }

  // ---- edges

  function trace({ points, straight }) {
    pen.moveTo(points[0], points[1]);
    for (let i = 2; i < points.length; i += 2) {
      const x0 = points[i - 2], y0 = points[i - 1], x1 = points[i], y1 = points[i + 1], piece = i / 2 - 1;
      if (straight && straight[piece] && straight[piece + 1]) { // a rounded corner
        const x2 = points[i + 2], y2 = points[i + 3];
        const r = Math.min(7, Math.hypot(x1 - x0, y1 - y0) / 2, Math.hypot(x2 - x1, y2 - y1) / 2);
        pen.arcTo(x1, y1, x2, y2, r);
      } else if (Math.abs(x1 - x0) < 1 || (straight && straight[piece])) pen.lineTo(x1, y1);
      else { const k = (y1 - y0) / 2; pen.bezierCurveTo(x0, y0 + k, x1, y1 - k, x1, y1); }
    }
  }

  function inView(segment, view) {
    if (!segment.range) {
      let [l, t, r, b] = [Infinity, Infinity, -Infinity, -Infinity];
      const q = segment.points;
      for (let i = 0; i < q.length; i += 2) {
        l = Math.min(l, q[i]); r = Math.max(r, q[i]); t = Math.min(t, q[i + 1]); b = Math.max(b, q[i + 1]);
      }
      segment.range = [l, t, r, b];
    }
    const [l, t, r, b] = segment.range;
    if (camera.scale < 0.12 && (r - l + b - t) * camera.scale < 5) return false; // too short to be seen
    return l < view.right && r > view.left && t < view.bottom && b > view.top;
  }

  function edges(view, s) {
    const focus = hovered && !isOpen(hovered) ? hovered : selected;
    const lit = [];
    const thin = Math.max(1.15, 0.55 / s);
    const batches = [[false, [], colours.edge], [true, [2, 3], colours.edge], [true, [6, 4], colours.root]];
    for (const [, dash, colour] of batches) {
      const kind = batches.findIndex(batch => batch[1] === dash);
      pen.beginPath();
      for (const segment of drawn.segments) {
        if (segment.kind !== kind || segment.loose || !inView(segment, view)) continue;
        trace(segment);
      }
      pen.setLineDash(dash);
      pen.strokeStyle = colour; pen.lineWidth = thin;
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.beginPath();
    for (const segment of drawn.segments) if (segment.loose && inView(segment, view)) trace(segment);
    pen.globalAlpha *= 0.35; pen.stroke(); pen.globalAlpha /= 0.35;
    if (focus) {
      for (const link of drawn.links) {
        const out = inside(link.source, focus), into = inside(link.target, focus);
        if (out !== into) lit.push([link, out ? colours.read : colours.reads]);
      }
      quiet(focus, thin);
      for (const [link, colour] of lit) {
        pen.beginPath();
        for (const segment of link.segments) trace(segment);
        pen.strokeStyle = colour; pen.lineWidth = 2.2 * thin;
        pen.stroke();
      }
    }
    if (s > 0.22) {
      pen.fillStyle = colours.edge;
      pen.beginPath();
      for (const segment of drawn.segments) if (segment.arrow && inView(segment, view)) arrow(segment, 1);
      pen.fill();
      for (const [link, colour] of lit) {
        pen.beginPath();
        for (const segment of link.segments) if (segment.arrow) arrow(segment, 1.25);
        pen.fillStyle = colour; pen.fill();
      }
    }
    if (s > 0.6) {
      pen.font = `9px ${FONT}`; pen.textBaseline = "middle"; pen.textAlign = "left";
      for (const link of drawn.links) {
        const last = link.segments[link.segments.length - 1], begin = link.segments[0], edge = link.edges[0];
        if (!last || !inView(last, view) && !inView(begin, view)) continue;
        const up = last.reversed ? -1 : 1;
        const numbered = link.edges.length === 1 && edge.operand >= 0 && !link.target.children.length;
        if (numbered && !last.around && last.points.length >= 4) {
          const n = last.points.length;
          label(String(edge.operand), last.points[n - 2] + 3, last.points[n - 1] - 10 * up);
        }
        const texts = [...new Set(link.edges.map(e => e.element).filter(Boolean))];
        if (texts.length && texts.length <= 2 && !begin.around && link.to === link.target) {
          const [x, y] = last.points.slice(-2);
          label(texts.join(" "), x + (edge.operand >= 0 ? 10 : 4), y - 10 * up);
        }
      }
    }
  }
  // The edges between a box in focus and strips, straight across the drawing.
  function quiet(focus, thin) {
    const ends = new Map();
    const add = (source, target) => {
      const a = shownOf(source), b = shownOf(target);
      if (a.parent && b.parent && a !== b) ends.set(`${a.num} ${b.num}`, [a, b]);
    };
    const inStrip = box => box.parent && box.parent.isStrip;
    const visit = one => {
      for (const { source } of one.edgesIn) if (inStrip(source)) add(source, one);
      if (inStrip(one)) for (const { target } of one.edgesOut) add(one, target);
      one.children.forEach(visit);
    };
    if (focus.isStrip) return;
    visit(focus);
    pen.beginPath();
    for (const [a, b] of ends.values()) {
      const x0 = a.x + a.w / 2, y0 = a.y + a.h, x1 = b.x + b.w / 2, y1 = b.y, k = Math.max(40, Math.abs(y1 - y0) / 2);
      pen.moveTo(x0, y0); pen.bezierCurveTo(x0, y0 + k, x1, y1 - k, x1, y1);
    }
    pen.strokeStyle = inStrip(focus) ? colours.read : colours.reads; pen.lineWidth = 1.3 * thin;
    pen.globalAlpha *= 0.5; pen.stroke(); pen.globalAlpha /= 0.5;
  }
  function label(text, x, y) {
    pen.lineWidth = 3; pen.strokeStyle = colours.paper; pen.strokeText(text, x, y);
    pen.fillStyle = colours.grey; pen.fillText(text, x, y);
  }
  function inside(box, outer) { for (; box; box = box.parent) if (box === outer) return true; return false; }
  function arrow(segment, size) {
    const q = segment.points, n = q.length;
    const x = q[n - 2], y = q[n - 1];
    const down = y >= q[n - 3] ? 1 : -1, long = 6.5 * size, wide = 3.2 * size;
    pen.moveTo(x, y);
    if (segment.around) { pen.lineTo(x + long, y - wide); pen.lineTo(x + long, y + wide); }
    else { pen.lineTo(x - wide, y - long * down); pen.lineTo(x + wide, y - long * down); }
    pen.closePath();
  }

  // ---- pointing

  function boxAt(px, py) {
    const x = (px - camera.x) / camera.scale, y = (py - camera.y) / camera.scale;
    let best = null;
    for (const box of drawn.boxes) {
      if (x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h) best = box; // inner ones come later
    }
    return best;
  }

  function units(n, step, names) {
    let i = 0;
    while (n >= step && i + 1 < names.length) { n /= step; i++; }
    return `${i ? +n.toPrecision(4) : n} ${names[i]}`.trim();
  }
  const byteText = n => n < 0 ? "unknown" : units(n, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  const countText = n => units(n, 1000, ["", "k", "M", "G", "T", "P"]);
  const bitsText = n => `${n.toPrecision(3)} bits`;
  const timeText = t => units(t * 1e9, 1000, ["ns", "µs", "ms", "s"]);

  const TEXT_OF = { bytes: byteText, flops: countText, time: timeText, error: bitsText };

  function facts(box) {
    const rows = [], put = (name, text) => { if (text) rows.push([name, text]); };
    const least = amount(box, "flags") & AT_LEAST ? "at least " : "";
    put("opcode", word(box, "opcode"));
    put("shape", word(box, "layout") || (box.isStrip ? "" : word(box, "shape")));
    if (word(box, "layout")) put("bytes", byteText(amount(box, "bytes")));
    if (amount(box, "moved")) put("moves", least + byteText(amount(box, "moved")));
    if (amount(box, "flops")) put("flops", least + countText(amount(box, "flops")));
    if (box.time) put("time", timeText(box.time));
    if (box.error) put("wrong bits", bitsText(box.error));
    put("compared", word(box, "compared"));
    put("sharding", word(box, "sharding"));
    if (box.children.length) put("holds", `${count(box)} boxes`);
    put("source", word(box, "source"));
    put("op_name", word(box, "op_name"));
    put("made from", word(box, "origins").split(",").join(", "));
    if (box.reads) put("parameters", readsOf(box, 40).slice(2));
    put("computation", word(box, "computation"));
    return rows;
  }
  const count = box => box.children.reduce((sum, child) => sum + 1 + count(child), 0);
  const nameOf = box => word(box, "text").split(" = ")[0].replace("ROOT ", "");
  const titleOf = box => nameOf(box) || word(box, "title");
  // The words beside a title that tell boxes of the same title apart.
  const besides = box => nameOf(box) || word(box, "name")
    || (box.parent && box.parent.parent ? `in ${word(box.parent, "title")}` : "");

  function element(tag, text, cls) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (cls) made.className = cls;
    return made;
  }

  function tip(box, px, py) {
    const node = $("tip");
    if (!box || !box.parent) { node.hidden = true; return; }
    node.replaceChildren(element("b", `${word(box, "title")}  ${nameOf(box) || word(box, "name")}`));
    for (const [name, text] of facts(box).filter(([name]) => name !== "computation")) {
      const row = element("div");
      row.append(element("i", name), " ", text.length > 160 ? text.slice(0, 157) + "…" : text);
      node.append(row);
    }
    node.hidden = false;
    const [width, height] = extent();
    node.style.left = `${Math.max(4, Math.min(px + 16, width - node.offsetWidth - 8))}px`;
    node.style.top = `${Math.max(4, Math.min(py + 16, height - node.offsetHeight - 8))}px`;
  }

  function select(box, move = true) {
    selected = box;
    const same = box ? alike(box) : [], panel = $("panel");
    twins = new Set(same);
    panel.hidden = !box;
    address();
    if (!box) { outlineOf(); draw(); return; }
    const head = element("h2", titleOf(box));
    const list = element("dl");
    for (const [name, text] of facts(box)) list.append(element("dt", name), element("dd", text));
    panel.replaceChildren(...where(box), head, list);
    if (model.marked.has(box.path)) panel.append(element("p", OPTIONS.errors ? "wrong" : "new or changed in this step", "changed"));
    if (model.leaving.has(box.path)) panel.append(element("p", "goes in the next step", "leaving"));
    panel.append(reasonsIn(box));
    if (box.children.length && box.parent) panel.append(totals(box));
    const elsewhere = model.byPath.get(word(box, "shown"));
    if (elsewhere) panel.append(jumps("its computation is drawn here", [elsewhere]));
    if (same.length) panel.append(jumps(`built alike (${same.length})`, same));
    const [above, below] = near(box);
    if (above.length) panel.append(jumps("reads", above));
    if (below.length) panel.append(jumps("is read by", below));
    if (word(box, "text")) panel.append(element("pre", word(box, "text")));
    if (move) { reveal(box); show(box); } else draw();
    outlineOf();
    for (const listener of View.listeners) listener(box);
  }
  // The boxes around a box, the outermost first, to go to.
  function where(box) {
    const row = element("p", undefined, "where");
    for (let outer = box.parent; outer && outer.parent; outer = outer.parent) {
      const link = element("button", word(outer, "title"));
      link.title = titleOf(outer);
      link.onclick = () => select(outer);
      row.prepend(link, " \u203a ");
    }
    return row.firstChild ? [row] : [];
  }
  // Other boxes with the same instructions on the same shapes, in the same order and read by each other in the same way.
  function alike(box) {
    if (!box.children.length || box.isStrip || !box.parent) return [];
    const forms = model.forms || (model.forms = formsOf(model)), form = forms[box.num];
    return model.boxes.filter(one => one !== box && one.parent && forms[one.num] === form
      && !inside(one, box) && !inside(box, one));
  }
  function formsOf({ boxes, edges }) { // for each box a number that boxes alike share
    const within = boxes.map(() => []); // for each box the edges between what it holds
    for (const edge of edges) {
      const around = new Set();
      for (let box = edge.source.parent; box; box = box.parent) around.add(box);
      let outer = edge.target.parent;
      while (outer && !around.has(outer)) outer = outer.parent;
      if (outer) within[outer.num].push([edge.source.num - outer.num, edge.target.num - outer.num, edge.kind, edge.element,
        edge.operand].join());
    }
    const numbers = new Map(), forms = [];
    for (let i = boxes.length - 1; i >= 0; i--) { // inner boxes first
      const box = boxes[i], holds = box.children.length > 0;
      const own = holds ? ["kind", "opcode"] : ["kind", "opcode", "layout", "arguments", "details"];
      const form = [...own.map(key => word(box, key)), ...box.children.map(child => forms[child.num]), ...within[i]].join("\n");
      if (!numbers.has(form)) numbers.set(form, numbers.size);
      forms[i] = numbers.get(form);
    }
    return forms;
  }
  // What is in a box, by opcode: how many, flops and bytes moved, the most work first.
  function totals(box) {
    const rows = new Map();
    const visit = one => {
      const opcode = word(one, "opcode");
      if (word(one, "kind") === "instruction" && !(one.children.length && RUNNERS.has(opcode))) {
        const row = rows.get(opcode) || { opcode, count: 0, flops: 0, moved: 0 };
        row.count++; row.flops += amount(one, "flops"); row.moved += Math.max(0, amount(one, "bytes"));
        rows.set(opcode, row);
      }
      one.children.forEach(visit);
    };
    box.children.forEach(visit);
    const sorted = [...rows.values()].sort((p, q) => q.flops - p.flops || q.moved - p.moved || q.count - p.count
      || (p.opcode < q.opcode ? -1 : 1));
    const part = element("div"), table = element("table", undefined, "totals");
    const line = (tag, words) => { const row = element("tr"); row.append(...words.map(w => element(tag, w))); return row; };
    table.append(line("th", ["opcode", "count", "flops", "values"]));
    for (const row of sorted.slice(0, 24)) {
      const cells = [row.opcode, String(row.count), row.flops ? countText(row.flops) : "", row.moved ? byteText(row.moved) : ""];
      table.append(line("td", cells));
    }
    part.append(element("h3", "what is in it"), table);
    if (sorted.length > 24) part.append(element("small", `and ${sorted.length - 24} more opcodes`));
    return part;
  }
  function jumps(title, boxes) {
    const part = element("div");
    part.append(element("h3", title));
    for (const box of boxes.slice(0, 40)) {
      const link = element("button", `${word(box, "title")}  ${besides(box)}`, "jump");
      link.append("  ", element("span", word(box, "shape"), "dim"));
      link.title = link.textContent; // it may be too long for the line
      link.onclick = () => select(box);
      part.append(link);
    }
    if (boxes.length > 40) part.append(element("small", `and ${boxes.length - 40} more`));
    return part;
  }
  function near(box) { // what a box, and all in it, reads and is read by
    const above = new Map(), below = new Map();
    const visit = one => {
      for (const { source, kind } of one.edgesIn) if (!inside(source, box) && kind !== NEXT) above.set(source, 1);
      for (const { target, kind } of one.edgesOut) if (!inside(target, box) && kind !== NEXT) below.set(target, 1);
      one.children.forEach(visit);
    };
    visit(box);
    const inStrip = one => one.parent !== null && one.parent.isStrip; // after what is computed
    return [[...above.keys()].sort((p, q) => inStrip(p) - inStrip(q)), [...below.keys()]];
  }
  function shownOf(box) { while (box.parent && box.shownAt !== drawn) box = box.parent; return box; }

  function walk(direction) {
    if (!selected) { select(drawn.boxes.find(box => !isOpen(box)) || null); return; }
    const here = selected, middle = here.x + here.w / 2;
    let choices;
    if (direction === "up" || direction === "down") {
      choices = near(here)[direction === "up" ? 0 : 1].map(shownOf);
      choices = choices.filter(box => box.parent && box !== here && !inside(here, box));
    } else { // what else stands in the same box, at about the same height
      const y = here.y + here.h / 2, sign = direction === "left" ? -1 : 1;
      choices = drawn.boxes.filter(box => box.parent === here.parent && box !== here
        && (box.x + box.w / 2 - middle) * sign > 0 && Math.abs(box.y + box.h / 2 - y) < Math.max(40, here.h / 2));
    }
    let best = null, least = Infinity;
    for (const box of choices) {
      const distance = Math.abs(box.x + box.w / 2 - middle) + Math.abs(box.y - here.y) * 0.5;
      if (distance < least) { least = distance; best = box; }
    }
    if (best) select(best);
  }

  // ---- the outline: the boxes that hold others, line by line, open where they are open in the drawing

  const MOST_LINES = 1500;
  function outlineOf() {
    const node = $("outline");
    if (node.hidden) return;
    const hits = new Map(); // how much of what is searched for is in a box
    for (const one of found) for (let box = one; box; box = box.parent) hits.set(box, (hits.get(box) || 0) + 1);
    let here = selected;
    while (here && (!here.children.length || here.shownAt !== drawn)) here = here.parent;
    const work = model.root.children.some(box => amount(box, "flops") > 0) ? "flops" : "bytes";
    const what = colouring === "group" || colouring === "sharding" ? work : colouring;
    const lines = [], listed = (box, depth) => {
      lines.push([box, depth]);
      if (isOpen(box) && !box.isStrip) holdersIn(box).forEach(one => listed(one, depth + 1));
    };
    holdersIn(model.root).forEach(box => listed(box, 0));
    const top = Math.max(...lines.map(([box]) => value(box, what)), 0);
    const rows = lines.slice(0, MOST_LINES).map(([box, depth]) => {
      const row = element("div"), name = element("button", undefined, "name");
      const fold = element("button", isOpen(box) ? "\u25be" : "\u25b8", "fold");
      fold.title = isOpen(box) ? "close" : "open";
      fold.onclick = () => toggle(box);
      name.append(element("b", word(box, "title")), " ", element("span", word(box, "name"), "dim"));
      name.title = `${titleOf(box)}\n${TEXT_OF[what](value(box, what))}`;
      name.onclick = () => select(box);
      row.style.paddingLeft = `${depth * 0.9}em`;
      row.classList.toggle("on", box === here);
      row.append(fold, name);
      if (hits.has(box)) row.append(element("small", String(hits.get(box)), "hits"));
      if (box.changes) row.append(element("small", `\u25cf ${box.changes}`, "changed"));
      const bar = element("i");
      bar.style.width = `${top ? 100 * value(box, what) / top : 0}%`;
      row.append(bar);
      return row;
    });
    if (!rows.length) rows.push(element("p", "nothing in this drawing holds anything else", "dim"));
    else rows.unshift(element("p", `bars: ${{ flops: "flops", bytes: "bytes moved", time: "time", error: "wrong bits" }[what]}`, "dim"));
    if (lines.length > MOST_LINES) rows.push(element("p", `and ${lines.length - MOST_LINES} more`, "dim"));
    node.replaceChildren(...rows);
    const on = node.querySelector(".on");
    if (on) on.scrollIntoView({ block: "nearest" });
  }
  const holdersIn = box => box.children.filter(one => one.children.length);
  function showOutline(on = $("outline").hidden) {
    $("outline").hidden = !on;
    $("outlined").classList.toggle("on", on);
    outlineOf();
    resize();
  }

  // ---- search

  function search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!model.haystack) {
      const keys = ["opcode", "title", "layout", "op_name", "source", "origins", "details"];
      const own = box => box.children.length ? keys.filter(key => key !== "details") : keys; // what holds others lists them
      const about = box => [...own(box).map(key => word(box, key)), lastOf(box.path)].join("\n").toLowerCase();
      model.haystack = model.boxes.map(about);
    }
    const fits = (box, i) => box.parent && words.every(word => model.haystack[i].includes(word));
    found = words.length ? model.boxes.filter(fits) : [];
    foundAt = -1;
    const list = $("results");
    list.replaceChildren();
    $("count").textContent = words.length ? `${found.length} found` : "";
    for (const box of found.slice(0, 60)) {
      const row = element("button");
      row.append(element("b", word(box, "title")), " ", besides(box), " ", element("span", word(box, "layout"), "dim"));
      row.onclick = () => { foundAt = found.indexOf(box); select(box); };
      list.append(row);
    }
    if (found.length > 60) list.append(element("small", `and ${found.length - 60} more`));
    list.hidden = !found.length;
    outlineOf();
    draw();
    return found.length;
  }
  function nextFound(step) {
    if (!found.length) return;
    foundAt = (foundAt + step + found.length) % found.length;
    select(found[foundAt]);
    $("count").textContent = `${foundAt + 1} of ${found.length}`;
  }

  // ---- changes

  // The changes in the order of the program; a change that only holds others counts with them.
  function changesOf(loaded) {
    return loaded.boxes.filter(box => loaded.marked.has(box.path) && box.parent);
  }
  function nextChange(step) {
    const all = changesOf(model);
    let at = all.indexOf(selected);
    if (at < 0 && selected) { // from where the reader is
      const after = all.findIndex(box => box.num > selected.num);
      at = step > 0 ? (after < 0 ? all.length : after) : (after < 0 ? all.length - 1 : after - 1);
    } else at = at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step;
    if (at >= 0 && at < all.length) {
      select(all[at]);
      $("count").textContent = `change ${at + 1} of ${all.length}`;
      return;
    }
    for (let number = stage.place + step; number >= 0 && number < stages.length; number += step) { // other steps
      if (!stages[number].marked.length || stages[number].listing !== undefined) continue;
      selected = null;
      goto(number);
      nextChange(step);
      return;
    }
    if (all.length) { // round again
      select(step > 0 ? all[0] : all[all.length - 1]);
      $("count").textContent = `change ${step > 0 ? 1 : all.length} of ${all.length}`;
    }
  }
  const hasChanges = () => stages.some(one => one.marked.length);

  // ---- stages

  function goto(number) {
    if (number < 0 || number >= stages.length || number === stage.place) return;
    const path = selected && selected.path, anchors = placesNow(), from = drawnStage();
    stage = stages[number];
    list();
    if (stage.listing !== undefined || from === stage) { present(); return; } // the drawing behind it stays
    model = load(stage);
    selected = path ? model.byPath.get(path) || null : null;
    hovered = null; found = [];
    refresh(null);
    for (const anchor of anchors) { // what the reader looks at stays where it is
      const now = model.byPath.get(anchor.path);
      if (!now || now.shownAt !== drawn) continue;
      camera.x = anchor.x - now.x * camera.scale; camera.y = anchor.y - now.y * camera.scale;
      break;
    }
    select(selected, false);
    if ($("find").value) search($("find").value);
    present();
    const root = model.root, [width, height] = extent(), s = camera.scale;
    const seen = (start, size, room) => // the part of what could be seen
      Math.max(0, Math.min(start + size * s, room) - Math.max(start, 0)) / Math.min(size * s, room);
    if (seen(camera.x, root.w, width) * seen(camera.y, root.h, height) < 0.3) first(); // too much empty paper
    const changed = drawn.boxes.filter(isChanged);
    if (changed.length && !changed.some(onScreen)) aim(changed[0]);
    draw();
  }
  function drawnStage() { return stages.find(one => one.loaded === model); }
  function list() { // code, or a table, in place of a drawing
    $("listing").hidden = stage.listing === undefined;
    $("listing").textContent = stage.listing || "";
    $("listing").scrollTop = 0;
  }
  function placesNow() { // boxes and where they are on the screen, the nearest to its middle first
    const [width, height] = extent(), places = [];
    for (const box of drawn.boxes) {
      if (isOpen(box)) continue;
      const x = box.x * camera.scale + camera.x, y = box.y * camera.scale + camera.y;
      const distance = Math.hypot(x + box.w * camera.scale / 2 - width / 2, y - height / 2);
      places.push({ path: box.path, x, y, distance });
    }
    return places.sort((a, b) => a.distance - b.distance);
  }
  function present() { // the list of stages and the diff
    if (stages.length < 2) return;
    document.querySelectorAll("#stages button").forEach((row, i) => {
      row.classList.toggle("on", i === stage.place);
      if (i === stage.place) row.scrollIntoView({ block: "nearest" });
    });
    $("stagehead").textContent = `${stage.number}  ${stage.name}`;
    $("stagenote").textContent = noteOf(stage);
    const files = $("stagefiles");
    files.replaceChildren();
    for (const file of stage.files || []) {
      const link = element("a", file.slice(file.lastIndexOf(".") + 1));
      link.href = (OPTIONS.base || "") + file;
      files.append(link, " ");
    }
    diff();
    address();
  }
  // The step and the selected box are part of the address: a link to it, or loading it anew, leads back to them.
  function address() {
    clearTimeout(addressing); // browsers refuse too many addresses in a short time
    addressing = setTimeout(() => {
      const parts = [];
      if (stages.length > 1) parts.push(`stage=${stage.place}`);
      if (selected) parts.push(`at=${encodeURIComponent(selected.path)}`);
      history.replaceState(null, "", `#${parts.join("&")}`);
    }, 200);
  }
  const COUNTS = ["added", "removed", "changed"];
  const noteOf = one => COUNTS.filter(key => one[key]).map(key => `${one[key]} ${key}`).join(", ");
  function diff() {
    const panel = $("diff");
    if (panel.hidden) return;
    panel.replaceChildren();
    const text = stage.diff || "";
    if (!text) {
      panel.append(element("p", stage.place ? "no differences" : "the first step has nothing to be compared with"));
      return;
    }
    for (const line of text.split("\n")) {
      const kind = line.startsWith("@@") ? "at" : line[0] === "+" ? "plus" : line[0] === "-" ? "minus" : "";
      panel.append(element("div", line || " ", kind));
    }
  }
  function showDiff(on = $("diff").hidden) {
    $("diff").hidden = !on;
    $("showdiff").classList.toggle("on", on);
    diff();
    resize();
  }

  // ---- the rest of the page

  function resize() { if (untouched) first(); else draw(); }
  function legend() {
    const node = $("legend");
    node.replaceChildren();
    if (colouring === "group") {
      const present = new Set(model.boxes.map(box => word(box, "inner") || word(box, "group"))), done = new Set();
      for (const [group, [name]] of Object.entries(OPTIONS.groups)) {
        if (!present.has(group) || done.has(name)) continue;
        done.add(name);
        const key = element("span", name);
        const sign = element("i");
        sign.style.background = OPTIONS.groups[group][dark ? 2 : 1];
        key.prepend(sign);
        node.append(key);
      }
    } else if (colouring === "sharding") {
      const present = new Set(model.boxes.map(box => word(box, "sharding")));
      for (const words of cuts.keys()) {
        if (!present.has(words)) continue;
        const key = element("span", words), sign = element("i");
        sign.style.background = cutColour(words);
        key.prepend(sign);
        node.append(key);
      }
    } else {
      const bar = element("span", `0 to ${TEXT_OF[colouring](most)}${colouring === "flops" ? " flops" : ""}`);
      const sign = element("i", "", "bar");
      sign.style.background = `linear-gradient(90deg, ${[0, 0.06, 0.25, 0.56, 1].map(heat).join(",")})`;
      bar.prepend(sign);
      node.append(bar);
    }
    if (OPTIONS.errors) node.append(sample("changed", "wrong"));
    else if (hasChanges()) node.append(sample("changed", "new or changed ( n )"));
    if (stages.length > 1) node.append(sample("leaving", "goes in the next step"));
    node.append(sample("root", "result"));
  }
  function sample(kind, text) {
    const key = element("span", text);
    key.prepend(element("i", "", kind));
    return key;
  }
  function colourBy(what) {
    colouring = what;
    $("colour").value = what;
    measureHeat();
    legend();
    outlineOf();
    draw();
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = document.activeElement === $("find");
    if (typing) {
      if (event.key === "Escape") { $("find").blur(); $("results").hidden = true; }
      else if (event.key === "Enter") { nextFound(event.shiftKey ? -1 : 1); event.preventDefault(); }
      return;
    }
    const next = step => found.length || !hasChanges() ? nextFound(step) : nextChange(step);
    const flip = stages.length > 1, flipBox = () => toggle(selected || hovered);
    const action = {
      "/": () => { $("find").focus(); $("find").select(); },
      f: () => fit(), F: () => selected && fit(selected),
      e: flipBox, Enter: flipBox, " ": flipBox,
      E: () => toggleAll(true), C: () => toggleAll(false),
      o: () => showOutline(),
      x: () => openWithin(selected || hovered),
      c: () => { const all = choices(); colourBy(all[(all.indexOf(colouring) + 1) % all.length]); },
      n: () => next(1), N: () => next(-1),
      "?": () => { $("help").hidden = !$("help").hidden; },
      Escape: () => {
        if (!$("help").hidden) $("help").hidden = true;
        else if (selected) select(null);
        else { found = []; $("results").hidden = true; draw(); }
      },
      "+": () => zoom(1.25, ...extent().map(v => v / 2)), "=": () => zoom(1.25, ...extent().map(v => v / 2)),
      "-": () => zoom(0.8, ...extent().map(v => v / 2)),
      ArrowUp: () => walk("up"), ArrowDown: () => walk("down"),
      ArrowLeft: () => flip && !event.shiftKey ? goto(stage.place - 1) : walk("left"),
      ArrowRight: () => flip && !event.shiftKey ? goto(stage.place + 1) : walk("right"),
      Home: () => flip && goto(0), End: () => flip && goto(stages.length - 1),
      d: () => flip && showDiff(),
    }[event.key];
    if (action) { event.preventDefault(); action(); }
  }
  const choices = () => ["group", "bytes", "flops", ...(OPTIONS.times ? ["time"] : []),
    ...(OPTIONS.errors ? ["error"] : []), ...(cuts.size || OPTIONS.heat === "sharding" ? ["sharding"] : [])];

  function listen() {
    let grabbed = null, moved = false;
    canvas.addEventListener("pointerdown", event => {
      grabbed = { x: event.clientX, y: event.clientY, cx: camera.x, cy: camera.y };
      moved = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      const r = canvas.getBoundingClientRect(), px = event.clientX - r.left, py = event.clientY - r.top;
      if (grabbed) {
        untouched = false;
        const dx = event.clientX - grabbed.x, dy = event.clientY - grabbed.y;
        if (Math.hypot(dx, dy) > 4) moved = true;
        camera.x = grabbed.cx + dx; camera.y = grabbed.cy + dy;
        tip(null);
        draw();
        return;
      }
      const box = boxAt(px, py);
      tip(box && box.parent ? box : null, px, py);
      if (box !== hovered) { hovered = box; draw(); }
    });
    canvas.addEventListener("pointerup", event => {
      const r = canvas.getBoundingClientRect();
      if (grabbed && !moved) select(boxAt(event.clientX - r.left, event.clientY - r.top), false);
      grabbed = null;
      $("results").hidden = true;
    });
    canvas.addEventListener("pointerleave", () => { hovered = null; tip(null); draw(); });
    canvas.addEventListener("dblclick", event => {
      const r = canvas.getBoundingClientRect();
      toggle(boxAt(event.clientX - r.left, event.clientY - r.top));
    });
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      const r = canvas.getBoundingClientRect();
      if (event.shiftKey) { camera.x -= event.deltaY; draw(); return; }
      zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - r.left, event.clientY - r.top);
    }, { passive: false });
    addEventListener("keydown", keys);
    addEventListener("resize", resize);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette(); legend(); draw(); });
    $("find").addEventListener("input", () => search($("find").value));
    $("find").addEventListener("focus", () => { if (found.length) $("results").hidden = false; });
    $("fit").onclick = () => fit();
    $("open").onclick = () => toggleAll(true);
    $("close").onclick = () => toggleAll(false);
    $("outlined").onclick = () => showOutline();
    $("ask").onclick = () => { $("help").hidden = !$("help").hidden; };
    $("help").onclick = () => { $("help").hidden = true; };
    $("colour").onchange = event => { colourBy(event.target.value); event.target.blur(); };
    for (const option of [...$("colour").options]) if (!choices().includes(option.value)) option.remove();
    if (stages.length > 1) {
      $("showdiff").onclick = () => showDiff();
      stages.forEach((one, i) => {
        const row = element("button");
        row.append(element("i", String(one.number)), element("b", one.name), element("span", noteOf(one), "dim"));
        row.onclick = () => { goto(i); row.blur(); };
        $("stages").append(row);
      });
    }
  }

  function start() {
    palette();
    document.body.classList.toggle("staged", stages.length > 1);
    const wanted = new URLSearchParams(location.hash.slice(1));
    const asked = wanted.get("stage") !== null && stages[Number(wanted.get("stage"))];
    if (asked) {
      stage = asked;
      model = load([...stages.slice(0, asked.place + 1)].reverse().find(one => one.listing === undefined));
      list();
    }
    listen();
    place(null);
    colourBy(colouring);
    first();
    present();
    const at = wanted.get("at") && model.byPath.get(wanted.get("at"));
    if (at) select(at);
    paint();
    document.body.dataset.ready = String(Math.round(performance.now()));
    document.body.dataset.boxes = String(model.boxes.length);
  }

  return {
    start, search, select, nextChange, headingAt, notesOf, first, toggle, toggleAll, fit, goto, zoom, isOpen, walk, show, alike, listeners: [],
    get model() { return model; }, get drawn() { return drawn; }, get camera() { return camera; },
    get selected() { return selected; }, get stage() { return stage; }, get found() { return found; },
    box: path => model.byPath.get(path), word, paint,
  };
})();
View.start();
