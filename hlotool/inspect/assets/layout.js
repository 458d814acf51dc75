// Layered drawing of nested boxes, after Sugiyama, Tagawa and Toda (1981): an open box is drawn by itself, and is one
// large node in the drawing of the box around it.  An edge that crosses the border of a box goes through a port there.
//
// Steps for one box: break cycles, give ranks (rows), let long edges pass rows as bends, order the rows to have few
// crossings (barycentres, Sugiyama), find places along the rows that keep edges straight (least squares under minimum
// distances, solved exactly by pooling adjacent violators).  A drawing that is much taller than it is wide is folded into
// columns, like text.  All steps are linear or nearly so, and deterministic.
//
// A strip (a box whose isStrip is true) stands above everything else in its box, with its boxes in a grid; no edge that
// is laid out may end in it.
"use strict";

const Layout = (() => {
  const GAP = 24, BEND_GAP = 12, ROW_GAP = 30, PAD = 18, HEAD = 28, AROUND = 16;
  const NEXT = 2; // the kind of edges from an iteration to the next
  const LOOSE = 30; // rows that an edge may pass when there are too many bends
  const FOLDED = 640; // height from which a box may be folded
  const MOST_COLUMNS = 12;
  const BETTER = 0.75; // as large as this part of the unfolded drawing, or less, a folded one has to be
  const DEARER = 0.012; // how much larger every line between columns makes it seem
  const CELL_GAP = 8;

  // box: {num, parent, children, order}.  Gives {boxes, segments, routes}: every visible box gets x, y, w, h; a route
  // is a list of segments, a segment {points, first, last, link}.
  // `aspect` is width / height of the place where the drawing will be.
  function arrange(root, isOpen, edges, sizeOf, headWidth, hintOf, aspect) {
    const levels = new Map();
    const seen = [];
    const stack = [root];
    while (stack.length) { // outer boxes first
      const box = stack.pop();
      seen.push(box);
      if (isOpen(box) && !box.isStrip) {
        levels.set(box, { box, nodes: [], of: new Map(), ports: new Map(), segments: new Map(), quotient: [],
          around: 0, strips: [], shift: null, aspect });
      }
      if (isOpen(box)) for (let i = box.children.length - 1; i >= 0; i--) stack.push(box.children[i]);
    }
    for (const [box, level] of levels) for (const child of box.children) {
      if (child.isStrip) level.strips.push({ box: child, size: sizeOf, open: isOpen(child) });
      else addNode(level, child);
    }
    const shown = new Set(seen);
    const links = lift(edges, shown);
    for (const link of links) meet(link);
    for (const link of links) {
      if (link.level) levels.get(link.level).quotient.push(link);
      else if (link.from) levels.get(link.from.parent).around = AROUND;
    }
    for (const level of levels.values()) breakCycles(level);
    for (const link of links) if (link.level) thread(link, levels);
    const order = [...levels.values()].reverse();
    for (const level of order) {
      for (const node of level.nodes) {
        if (!node.box) continue;
        const inner = levels.get(node.box);
        [node.w, node.h] = inner ? [inner.w, inner.h] : sizeOf(node.box);
      }
      place(level, levels, headWidth(level.box), hintOf);
    }
    // Absolute places, outer boxes first.
    root.x = 0; root.y = 0; root.w = levels.get(root).w; root.h = levels.get(root).h; root.folded = 0;
    const segments = [];
    for (const level of levels.values()) {
      const { x, y } = level.box;
      for (const node of level.nodes) {
        if (!node.box) continue;
        node.box.x = x + node.x - node.w / 2;
        node.box.y = y + node.y;
        node.box.w = node.w;
        node.box.h = node.h;
        node.box.folded = level.box.folded + (node.shift || 0); // how far folding moved it along its row
      }
      for (const strip of level.strips) for (const cell of strip.cells) {
        cell.box.x = x + cell.x; cell.box.y = y + cell.y; cell.box.w = cell.w; cell.box.h = cell.h; cell.box.folded = 0;
      }
      for (const segment of level.segments.values()) {
        const points = segment.points;
        for (let i = 0; i < points.length; i += 2) { points[i] += x; points[i + 1] += y; }
        segments.push(segment);
      }
    }
    for (const link of links) if (link.from && !link.level) segments.push(wayBack(link, levels.get(link.from.parent)));
    return { boxes: seen.slice(1), segments, links };
  }

  function addNode(level, box) {
    const node = { box, w: 0, h: 0, x: 0, y: 0, rank: 0, side: null };
    level.of.set(box, level.nodes.length);
    level.nodes.push(node);
  }

  // ---- edges between what can be seen

  function lift(edges, shown) {
    const found = new Map();
    const top = box => { while (!shown.has(box)) box = box.parent; return box; };
    for (const edge of edges) {
      const source = top(edge.source), target = top(edge.target);
      if (source === target) continue;
      const key = source.num * 4294967296 + target.num * 4 + edge.kind;
      const link = found.get(key);
      if (link) link.edges.push(edge);
      else found.set(key, { source, target, kind: edge.kind, edges: [edge], segments: [] });
    }
    return [...found.values()];
  }

  function depth(box) { let n = 0; while (box.parent) { box = box.parent; n++; } return n; }

  // The box in which the link runs, and its children there.
  function meet(link) {
    let a = link.source, b = link.target, da = depth(a), db = depth(b);
    link.level = null;
    for (; da > db; da--) { if (a.parent === b) return; a = a.parent; } // between a box and what it holds
    for (; db > da; db--) { if (b.parent === a) return; b = b.parent; }
    while (a.parent !== b.parent) { a = a.parent; b = b.parent; }
    link.from = a; link.to = b; link.reversed = false;
    if (link.kind !== NEXT) link.level = a.parent; // the way back in a loop goes around everything
  }

  // Links against the order of the program turn round where they are part of a cycle: Tarjan's components.
  function breakCycles(level) {
    const n = level.nodes.length, next = Array.from({ length: n }, () => []);
    for (const link of level.quotient) next[level.of.get(link.from)].push(level.of.get(link.to));
    const index = new Int32Array(n).fill(-1), low = new Int32Array(n), part = new Int32Array(n).fill(-1);
    const path = [], open = [];
    let count = 0, parts = 0;
    for (let start = 0; start < n; start++) {
      if (index[start] >= 0) continue;
      open.push([start, 0]);
      while (open.length) {
        const top = open[open.length - 1], v = top[0];
        if (top[1] === 0) { index[v] = low[v] = count++; path.push(v); }
        if (top[1] < next[v].length) {
          const w = next[v][top[1]++];
          if (index[w] < 0) open.push([w, 0]);
          else if (part[w] < 0) low[v] = Math.min(low[v], index[w]);
          continue;
        }
        open.pop();
        if (open.length) { const u = open[open.length - 1][0]; low[u] = Math.min(low[u], low[v]); }
        if (low[v] === index[v]) {
          let w;
          do { w = path.pop(); part[w] = parts; } while (w !== v);
          parts++;
        }
      }
    }
    for (const link of level.quotient) {
      const a = level.of.get(link.from), b = level.of.get(link.to);
      link.reversed = part[a] === part[b] && (link.from.order > link.to.order ||
        (link.from.order === link.to.order && a > b));
    }
  }

  // Cut a link into segments, one for each box that it runs in.
  function thread(link, levels) {
    const key = `${link.source.num}${link.reversed ? "^" : ""}`;
    const up = link.reversed;
    let box = link.source;
    while (box !== link.from) {
      const level = levels.get(box.parent);
      const port = portOf(level, "out" + key, up ? "top" : "bottom");
      segment(level, level.of.get(box), box === link.source ? "" : "out" + key, port, "", up, link, false);
      box = box.parent;
    }
    const level = levels.get(link.level);
    const inner = [];
    box = link.target;
    while (box !== link.to) { inner.push(box); box = box.parent; }
    segment(level, level.of.get(link.from), link.from === link.source ? "" : "out" + key,
      level.of.get(link.to), link.to === link.target ? "" : "in" + key, up, link, link.to === link.target);
    for (const child of inner.reverse()) {
      const within = levels.get(child.parent);
      const port = portOf(within, "in" + key, up ? "bottom" : "top");
      const isEnd = child === link.target;
      segment(within, port, "", within.of.get(child), isEnd ? "" : "in" + key, up, link, isEnd);
    }
  }

  function portOf(level, key, side) {
    let number = level.ports.get(key);
    if (number === undefined) {
      number = level.nodes.length;
      level.ports.set(key, number);
      level.nodes.push({ box: null, w: 0, h: 0, x: 0, y: 0, rank: 0, side });
    }
    return number;
  }

  function segment(level, tail, tailPort, head, headPort, reversed, link, arrow) {
    const key = `${tail},${tailPort},${head},${headPort},${link.kind}`;
    let found = level.segments.get(key);
    if (!found) {
      found = { tail, tailPort, head, headPort, reversed, arrow, kind: link.kind, links: [], points: [], loose: false };
      level.segments.set(key, found);
    }
    found.links.push(link);
    link.segments.push(found);
  }

  // ---- one box

  function place(level, levels, head, hintOf) {
    const nodes = level.nodes, segments = [...level.segments.values()];
    const count = nodes.length;
    const upper = segments.map(s => s.reversed ? s.head : s.tail);
    const lower = segments.map(s => s.reversed ? s.tail : s.head);
    const { rows } = rank(nodes, upper, lower);
    const graph = bend(nodes, segments, upper, lower, rows);
    sort(graph, hintOf);
    spread(graph, level, levels, segments, upper, lower);
    settle(graph);
    stack(graph, level, segments, head);
    level.nodes = nodes.slice(0, count);
  }

  function rank(nodes, upper, lower) {
    const n = nodes.length;
    const out = Array.from({ length: n }, () => []), into = new Int32Array(n);
    for (let i = 0; i < upper.length; i++) { out[upper[i]].push(lower[i]); into[lower[i]]++; }
    const hasTop = nodes.some(node => node.side === "top") ? 1 : 0;
    const waiting = Int32Array.from(into), order = [];
    for (let v = 0; v < n; v++) {
      nodes[v].rank = nodes[v].side === "top" ? 0 : hasTop;
      if (!waiting[v]) order.push(v);
    }
    for (let i = 0; i < order.length; i++) {
      const v = order[i];
      for (const w of out[v]) {
        nodes[w].rank = Math.max(nodes[w].rank, nodes[v].rank + 1);
        if (--waiting[w] === 0) order.push(w);
      }
    }
    let rows = 0;
    for (const node of nodes) if (!node.side) rows = Math.max(rows, node.rank + 1);
    const hasBottom = nodes.some(node => node.side === "bottom");
    for (const node of nodes) if (node.side === "bottom") node.rank = rows;
    const side = new Uint8Array(n).fill(1); // what hangs on nothing else: weights and what is made of them alone
    for (const v of order) {
      nodes[v].hangs = side[v] === 1 && !nodes[v].side && out[v].length === 1;
      for (const w of out[v]) if (!side[v] || out[v].length > 1 || nodes[v].side) side[w] = 0;
    }
    for (let i = order.length - 1; i >= 0; i--) { // these, and what many read, stand near their readers
      const v = order[i], node = nodes[v];
      if (node.side || !out[v].length || (!side[v] && into[v] >= out[v].length)) continue;
      let near = Infinity;
      for (const w of out[v]) {
        if (nodes[w].side !== "bottom" || out[v].length === 1) near = Math.min(near, nodes[w].rank);
      }
      if (near !== Infinity) node.rank = Math.max(node.rank, near - 1);
    }
    const alone = nodes.filter((node, v) => !node.side && !out[v].length && !into[v]);
    if (alone.length > 12) { // a block instead of one endless row
      const width = Math.ceil(1.6 * Math.sqrt(alone.length));
      alone.forEach((node, i) => { node.rank = hasTop + Math.floor(i / width); rows = Math.max(rows, node.rank + 1); });
      for (const node of nodes) if (node.side === "bottom") node.rank = rows;
    }
    return { rows: rows + (hasBottom ? 1 : 0) };
  }

  // Long segments get a bend in each row that they pass; those from one place share them as far as they go.
  function bend(nodes, segments, upper, lower, rows) {
    let total = 0;
    const span = segments.map((_, i) => nodes[lower[i]].rank - nodes[upper[i]].rank);
    for (const s of span) total += s - 1;
    const most = total > 20000 + 6 * nodes.length ? LOOSE : Infinity;
    const trunks = new Map(); // upper end -> bends below it
    const a = [], b = [], which = []; // short edges, and the segments that they are part of
    const chains = segments.map(() => []);
    const first = nodes.length;
    segments.forEach((s, i) => {
      if (span[i] > most) { s.loose = true; return; }
      const key = s.reversed ? `${i}` : `${upper[i]},${s.tailPort}`;
      let trunk = trunks.get(key);
      if (!trunk) trunks.set(key, trunk = []);
      let at = upper[i];
      for (let step = 1; step < span[i]; step++) {
        if (trunk.length < step) {
          nodes.push({ box: null, w: 0, h: 0, x: 0, y: 0, rank: nodes[upper[i]].rank + step, side: null, bend: true });
          trunk.push(nodes.length - 1);
          a.push(at); b.push(trunk[step - 1]); which.push(i);
        }
        at = trunk[step - 1];
        chains[i].push(at);
      }
      a.push(at); b.push(lower[i]); which.push(i);
    });
    const n = nodes.length, layers = Array.from({ length: Math.max(rows, 1) }, () => []);
    const up = Array.from({ length: n }, () => []), down = Array.from({ length: n }, () => []);
    for (let e = 0; e < a.length; e++) { down[a[e]].push(e); up[b[e]].push(e); }
    return { nodes, layers, a, b, which, up, down, chains, first,
      from: new Float64Array(a.length), to: new Float64Array(a.length) };
  }

  // ---- order in the rows

  function sort(graph, hintOf) {
    const { nodes, layers, a, b, up, down } = graph;
    const n = nodes.length;
    const placed = new Uint8Array(n), starts = [];
    for (let v = 0; v < n; v++) starts.push(v);
    starts.sort((p, q) => nodes[p].rank - nodes[q].rank || p - q);
    for (const start of starts) { // depth first, so that what belongs together starts together
      const open = [start];
      while (open.length) {
        const v = open.pop();
        if (placed[v]) continue;
        placed[v] = 1;
        layers[nodes[v].rank].push(v);
        for (let i = down[v].length - 1; i >= 0; i--) if (!placed[b[down[v][i]]]) open.push(b[down[v][i]]);
      }
    }
    const x = new Float64Array(n);
    const lay = row => {
      let at = 0;
      for (const v of row) { x[v] = at + nodes[v].w / 2; at += nodes[v].w + (nodes[v].bend ? BEND_GAP : GAP); }
      for (const v of row) x[v] -= at / 2;
    };
    const hints = graph.hints = new Map();
    for (let v = 0; v < n; v++) {
      const hint = nodes[v].box && hintOf(nodes[v].box);
      if (hint !== undefined && hint !== null) hints.set(v, hint);
    }
    if (hints.size) { // as it was before; what is new goes between its neighbours
      const guess = new Float64Array(n).fill(NaN);
      for (const [v, hint] of hints) guess[v] = hint;
      for (let round = 0; round < 3; round++) {
        for (const row of round % 2 ? [...layers].reverse() : layers) for (const v of row) {
          if (hints.has(v)) continue;
          let sum = 0, many = 0;
          for (const near of [...up[v].map(e => a[e]), ...down[v].map(e => b[e])]) {
            if (!Number.isNaN(guess[near])) { sum += guess[near]; many++; }
          }
          if (many) guess[v] = sum / many;
        }
      }
      const known = v => Number.isNaN(guess[v]) ? 0 : guess[v];
      for (const row of layers) row.sort((p, q) => known(p) - known(q));
    }
    layers.forEach(lay);
    let best = layers.map(row => row.slice()), fewest = crossings(graph, layers);
    const rounds = hints.size ? 4 : a.length > 20000 ? 4 : a.length > 4000 ? 8 : 16;
    for (let round = 0, idle = 0; round < rounds && fewest > 0 && idle < 5; round++) {
      const downwards = round % 2 === 0;
      const rowsInOrder = downwards ? layers : [...layers].reverse();
      for (const row of rowsInOrder) {
        const value = new Map();
        for (const v of row) {
          const near = downwards ? up[v] : down[v];
          let sum = 0;
          for (const e of near) sum += x[downwards ? a[e] : b[e]];
          value.set(v, near.length ? sum / near.length : x[v]);
        }
        const before = new Map(row.map((v, i) => [v, i]));
        row.sort((p, q) => value.get(p) - value.get(q) || before.get(p) - before.get(q));
        lay(row);
      }
      if (a.length < 3000) exchange(graph, layers);
      layers.forEach(lay);
      const now = crossings(graph, layers);
      if (now < fewest) { fewest = now; best = layers.map(row => row.slice()); idle = 0; } else idle++;
    }
    graph.layers = best;
    graph.crossings = fewest;
  }

  function positions(layers, n) {
    const at = new Int32Array(n);
    for (const row of layers) row.forEach((v, i) => { at[v] = i; });
    return at;
  }

  function crossings(graph, layers) {
    const { nodes, b, down } = graph;
    const at = positions(layers, nodes.length);
    let total = 0;
    for (let r = 0; r + 1 < layers.length; r++) {
      const size = layers[r + 1].length, tree = new Int32Array(size + 1);
      let many = 0;
      for (const v of layers[r]) {
        const ends = down[v].map(e => at[b[e]]).sort((p, q) => p - q);
        for (const end of ends) {
          let right = many;
          for (let i = end + 1; i > 0; i -= i & -i) right -= tree[i];
          total += right;
        }
        for (const end of ends) { many++; for (let i = end + 1; i <= size; i += i & -i) tree[i]++; }
      }
    }
    return total;
  }

  // Swap neighbours in a row while that removes crossings.
  function exchange(graph, layers) {
    const { nodes, a, b, up, down } = graph;
    const at = positions(layers, nodes.length);
    const count = (p, q) => { // crossings with p left of q
      let total = 0;
      for (const e of up[p]) for (const f of up[q]) if (at[a[e]] > at[a[f]]) total++;
      for (const e of down[p]) for (const f of down[q]) if (at[b[e]] > at[b[f]]) total++;
      return total;
    };
    for (let round = 0, moved = true; moved && round < 3; round++) {
      moved = false;
      for (const row of layers) {
        for (let i = 0; i + 1 < row.length; i++) {
          const p = row[i], q = row[i + 1];
          if ((up[p].length + down[p].length) * (up[q].length + down[q].length) > 900) continue;
          if (count(q, p) < count(p, q)) {
            row[i] = q; row[i + 1] = p; at[q] = i; at[p] = i + 1; moved = true;
          }
        }
      }
    }
  }

  // ---- places along the rows

  // Where segments meet the borders of boxes: `from` and `to` are offsets from the centres.
  function spread(graph, level, levels, segments, upper, lower) {
    const { nodes, layers, a, which, up, down } = graph;
    const at = positions(layers, nodes.length);
    const offset = (node, port) => { // of a port of an open box; null elsewhere
      const inner = node.box && levels.get(node.box);
      const number = inner && port ? inner.ports.get(port) : undefined;
      return number === undefined ? null : inner.nodes[number].x - inner.w / 2;
    };
    segments.forEach((s, i) => {
      s.start = offset(nodes[upper[i]], s.reversed ? s.headPort : s.tailPort);
      s.end = offset(nodes[lower[i]], s.reversed ? s.tailPort : s.headPort);
    });
    for (let v = 0; v < graph.first; v++) {
      const node = nodes[v];
      if (!node.box) continue;
      const above = up[v].slice().sort((e, f) => at[a[e]] - at[a[f]] || e - f);
      above.forEach((e, i) => {
        const s = segments[which[e]];
        graph.to[e] = s.end !== null ? s.end : above.length < 2 ? 0 : ((i + 0.5) / above.length - 0.5) * node.w * 0.8;
        s.end = graph.to[e];
      });
      for (const e of down[v]) {
        const s = segments[which[e]];
        graph.from[e] = s.start !== null ? s.start : s.reversed ? node.w * 0.35 : 0;
        s.start = graph.from[e];
      }
    }
  }

  function settle(graph) {
    const { nodes, layers, a, b, up, down, from, to } = graph;
    const n = nodes.length, x = new Float64Array(n);
    const half = v => nodes[v].w / 2;
    const between = (p, q) => nodes[p].bend && nodes[q].bend ? BEND_GAP : nodes[p].bend || nodes[q].bend ? 16 : GAP;
    const gap = (p, q) => half(p) + half(q) + between(p, q);
    for (const row of layers) {
      let at = 0;
      row.forEach((v, i) => { if (i) at += gap(row[i - 1], v); x[v] = at; });
      for (const v of row) x[v] -= at / 2;
    }
    const thin = v => nodes[v].bend || (nodes[v].side !== null);
    const weight = (p, q) => (thin(p) ? 3 : nodes[p].hangs && up[q].length > 1 ? 0.1 : 1) * (thin(q) ? 3 : 1);
    const wanted = new Float64Array(n), heavy = new Float64Array(n);
    const rounds = n > 20000 ? 6 : n > 4000 ? 12 : 30;
    const hints = graph.hints, known = [...hints.keys()];
    for (let round = 0; round < rounds; round++) {
      const both = round >= rounds / 3, downwards = round % 2 === 0;
      const shift = known.length ? known.reduce((sum, v) => sum + hints.get(v) - x[v], 0) / known.length : 0;
      for (let r = 0; r < layers.length; r++) {
        const row = layers[downwards ? r : layers.length - 1 - r];
        for (const v of row) {
          let sum = 0, total = 0;
          if (downwards || both) for (const e of up[v]) {
            const w = weight(a[e], v); sum += w * (x[a[e]] + from[e] - to[e]); total += w;
          }
          if (!downwards || both) for (const e of down[v]) {
            const w = weight(v, b[e]); sum += w * (x[b[e]] + to[e] - from[e]); total += w;
          }
          if (both && hints.has(v)) { // where it was before, as all together allow
            sum += 0.5 * (hints.get(v) - shift); total += 0.5;
          }
          wanted[v] = total ? sum / total : x[v];
          heavy[v] = total || 0.01;
        }
        pool(row, wanted, heavy, gap, x);
      }
    }
    straighten(graph, x, gap);
    for (let v = 0; v < n; v++) nodes[v].x = x[v];
  }

  // The places nearest to the wanted ones (least weighted squares) that keep the order and the gaps of a row.
  function pool(row, wanted, heavy, gap, x) {
    const blocks = []; // [sum of weight * place, weight, first]
    let shift = 0;
    const shifts = new Float64Array(row.length);
    row.forEach((v, i) => {
      if (i) shift += gap(row[i - 1], v);
      shifts[i] = shift;
      let block = [(wanted[v] - shift) * heavy[v], heavy[v], i];
      while (blocks.length) {
        const last = blocks[blocks.length - 1];
        if (last[0] / last[1] < block[0] / block[1]) break;
        block = [last[0] + block[0], last[1] + block[1], last[2]];
        blocks.pop();
      }
      blocks.push(block);
    });
    blocks.forEach((block, k) => {
      const end = k + 1 < blocks.length ? blocks[k + 1][2] : row.length, place = block[0] / block[1];
      for (let i = block[2]; i < end; i++) x[row[i]] = place + shifts[i];
    });
  }

  // Runs of bends, and of boxes with one reader each, become vertical where there is room.
  function straighten(graph, x, gap) {
    const { nodes, layers, a, b, up, down, from, to } = graph;
    const left = new Int32Array(nodes.length).fill(-1), right = new Int32Array(nodes.length).fill(-1);
    for (const row of layers) row.forEach((v, i) => {
      if (i) left[v] = row[i - 1];
      if (i + 1 < row.length) right[v] = row[i + 1];
    });
    const room = v => [
      left[v] < 0 ? -Infinity : x[left[v]] + gap(left[v], v), right[v] < 0 ? Infinity : x[right[v]] - gap(v, right[v]),
    ];
    const follow = v => { // the edge along which v's column goes on
      if (down[v].length === 0) return -1;
      const bends = down[v].filter(e => nodes[b[e]].bend);
      if (nodes[v].bend && bends.length) return bends[0];
      if (down[v].length === 1 && up[b[down[v][0]]].length === 1) return down[v][0];
      return bends.length === 1 && down[v].length === 1 ? bends[0] : -1;
    };
    for (let round = 0; round < 2; round++) {
      const done = new Uint8Array(nodes.length);
      for (const row of layers) for (const start of row) {
        if (done[start]) continue;
        const run = [start], shift = [0];
        for (let v = start; ;) {
          done[v] = 1;
          const e = follow(v);
          if (e < 0 || done[b[e]]) break;
          shift.push(shift[shift.length - 1] + from[e] - to[e]);
          v = b[e];
          run.push(v);
        }
        if (run.length < 2) continue;
        for (let begin = 0; begin < run.length;) { // as far as there is room for one line, then the next
          let low = -Infinity, high = Infinity, end = begin;
          const places = [];
          for (; end < run.length; end++) {
            const [least, most] = room(run[end]).map(place => place - shift[end]);
            if (Math.max(low, least) > Math.min(high, most)) break;
            low = Math.max(low, least); high = Math.min(high, most);
            places.push(x[run[end]] - shift[end]);
          }
          places.sort((p, q) => p - q);
          const middle = Math.min(high, Math.max(low, places[places.length >> 1]));
          for (let i = begin; i < end; i++) x[run[i]] = middle + shift[i];
          begin = Math.max(end, begin + 1);
        }
      }
    }
  }

  // ---- rows to heights, and segments to lines

  function stack(graph, level, segments, head) {
    const { nodes, layers, a, b, from, to, up, down } = graph;
    let low = Infinity, high = -Infinity;
    for (const node of nodes) {
      const side = node.box ? node.w / 2 : 6;
      low = Math.min(low, node.x - side); high = Math.max(high, node.x + side);
    }
    if (!nodes.length) { low = 0; high = 0; }
    const inner = high - low, width = Math.max(inner + 2 * PAD, head);
    const move = (width - inner) / 2 - low;
    for (const node of nodes) node.x += move;
    level.w = width + level.around;
    let y = level.box.parent ? HEAD : PAD;
    const tops = [], bottoms = [];
    layers.forEach((row, r) => {
      const isPorts = row.length && row.every(v => nodes[v].side === "top" || nodes[v].bend) && r === 0;
      const tall = row.reduce((most, v) => Math.max(most, nodes[v].h), 0);
      tops.push(y); bottoms.push(y + tall);
      for (const v of row) {
        const node = nodes[v];
        const free = tall - node.h;
        node.y = y + (!up[v].length && down[v].length ? free : !down[v].length && up[v].length ? 0 : free / 2);
        if (node.side === "top") node.y = 0;
      }
      let widest = 0, many = 0;
      for (const v of row) for (const e of down[v]) {
        const distance = Math.abs(nodes[v].x + from[e] - nodes[b[e]].x - to[e]);
        widest = Math.max(widest, distance);
        if (distance > 4) many++;
      }
      const last = r + 1 === layers.length;
      const toPorts = !last && r + 2 === layers.length && layers[r + 1].every(v => nodes[v].side === "bottom");
      y += tall + (last ? 0 : toPorts ? Math.min(30, widest * 0.06) : isPorts ? 10 + Math.min(40, widest * 0.08)
        : ROW_GAP + Math.min(90, widest * 0.07) + Math.min(30, many));
    });
    level.h = Math.max(y, level.box.parent ? HEAD : PAD) + PAD;
    fold(graph, level, tops, bottoms, head);
    const down_by = strips(level);
    if (down_by) {
      level.h += down_by;
      for (const node of nodes) node.y += down_by;
      for (let r = 0; r < tops.length; r++) { tops[r] += down_by; bottoms[r] += down_by; }
      for (const border of graph.borders) { border.low += down_by; border.high += down_by; }
      for (const node of nodes) if (node.side === "top") node.y = 0;
    }
    for (const node of nodes) if (node.side === "bottom") node.y = level.h;
    segments.forEach((s, i) => { s.points = line(graph, s, i, tops, bottoms); });
  }

  // Strips above the rest: closed ones as a box, open ones as a grid of all that they hold.
  function strips(level) {
    let y = level.box.parent ? HEAD : PAD;
    const top = y;
    for (const strip of level.strips) {
      const { box, size, open } = strip;
      const [w, h] = size(box);
      strip.cells = [{ box, x: PAD, y, w, h }];
      if (open) {
        const sizes = box.children.map(size);
        const wide = Math.max(...sizes.map(one => one[0])), tall = Math.max(...sizes.map(one => one[1]));
        const room = Math.max(level.w, 5 * wide, Math.sqrt(box.children.length * wide * tall)) - 4 * PAD;
        const many = Math.max(1, Math.min(box.children.length, Math.floor((room + CELL_GAP) / (wide + CELL_GAP))));
        box.children.forEach((child, i) => {
          strip.cells.push({ box: child, x: 2 * PAD + (i % many) * (wide + CELL_GAP),
            y: y + HEAD + Math.floor(i / many) * (tall + CELL_GAP), w: wide, h: tall });
        });
        strip.cells[0].w = Math.max(w, many * (wide + CELL_GAP) - CELL_GAP + 2 * PAD);
        strip.cells[0].h = HEAD + Math.ceil(sizes.length / many) * (tall + CELL_GAP) - CELL_GAP + PAD;
      }
      y += strip.cells[0].h + ROW_GAP / 2;
      level.w = Math.max(level.w, strip.cells[0].w + 2 * PAD);
    }
    return y - top;
  }

  // Cut the rows of a tall box into columns that stand side by side: as many as make it fit its place best.
  function fold(graph, level, tops, bottoms, head) {
    const { nodes, layers, b, down } = graph;
    graph.borders = [];
    const rows = layers.length;
    let first = 0, last = rows;
    if (rows && layers[0].some(v => nodes[v].side === "top")) first = 1;
    if (rows && layers[rows - 1].some(v => nodes[v].side === "bottom")) last--;
    if (level.h < FOLDED || last - first < 4) return;
    const left = [], right = [], lanes = []; // of rows; lanes: what goes on to the row below
    for (const row of layers) {
      let low = Infinity, high = -Infinity, many = 0;
      for (const v of row) {
        low = Math.min(low, nodes[v].x - nodes[v].w / 2 - 2); high = Math.max(high, nodes[v].x + nodes[v].w / 2 + 2);
        if (down[v].some(e => nodes[b[e]].side !== "bottom")) many++;
      }
      left.push(low); right.push(high); lanes.push(many);
    }
    const start = tops[0], whole = bottoms[rows - 1] - start;
    const gutter = many => 34 + Math.min(120, 5 * many);
    const cut = count => { // rows where columns begin: near equal heights, where little crosses
      const begins = [0];
      for (let k = 1; k < count; k++) {
        const ideal = start + whole * k / count, slack = whole / count * 0.3;
        let best = -1, least = Infinity;
        for (let r = Math.max(begins[k - 1] + 1, first + 1); r < last; r++) {
          const off = Math.abs(tops[r] - ideal);
          const cost = off > slack ? 1e6 + off : lanes[r - 1] * 10 + off / slack * 30;
          if (off > slack && tops[r] > ideal && best >= 0) break;
          if (cost < least) { least = cost; best = r; }
        }
        if (best < 0) return null;
        begins.push(best);
      }
      return begins;
    };
    const measured = begins => {
      let width = 0, height = 0, most = 0;
      begins.forEach((r, k) => {
        const end = k + 1 < begins.length ? begins[k + 1] : rows;
        width += Math.max(...right.slice(r, end)) - Math.min(...left.slice(r, end));
        if (k) { width += gutter(lanes[r - 1]); most = Math.max(most, lanes[r - 1]); }
        height = Math.max(height, bottoms[end - 1] - tops[r]);
      });
      return { begins, width, most, height: height + 2 * Math.min(48, 10 + 4 * most) };
    };
    const size = one => (1 + DEARER * (one.most || 0)) * Math.max((one.width + 2 * PAD) / level.aspect, one.height + HEAD + PAD);
    let best = { begins: [0], width: level.w - 2 * PAD, height: level.h - HEAD - PAD };
    const plain = size(best);
    for (let count = 2; count <= MOST_COLUMNS; count++) {
      const begins = cut(count);
      if (!begins) break;
      const found = measured(begins);
      if (size(found) < plain * BETTER && size(found) < size(best)) best = found;
    }
    const begins = best.begins;
    if (begins.length < 2) return;
    const most = Math.max(...begins.slice(1).map(r => lanes[r - 1])), space = Math.min(48, 10 + 4 * most);
    let x = PAD, bottom = 0;
    begins.forEach((r, k) => {
      const end = k + 1 < begins.length ? begins[k + 1] : rows;
      const low = Math.min(...left.slice(r, end)), high = Math.max(...right.slice(r, end));
      if (k) {
        const wide = gutter(lanes[r - 1]);
        graph.borders.push({ row: r, x: x + 17, wide: wide - 34, low: bottom, high: start + space, space, lanes: new Map() });
        x += wide;
      }
      const across = x - low, up = start + (k ? space : 0) - tops[r];
      for (let q = r; q < end; q++) {
        tops[q] += up; bottoms[q] += up;
        for (const v of layers[q]) { nodes[v].x += across; nodes[v].y += up; nodes[v].shift = across; }
      }
      bottom = bottoms[end - 1];
      x += high - low;
    });
    for (const border of graph.borders) for (const v of layers[border.row - 1]) {
      if (down[v].length) border.lanes.set(v, border.lanes.size);
    }
    const height = best.height + start;
    level.w = Math.max(x + PAD, head) + level.around;
    level.h = height + PAD;
    level.isFolded = true;
  }

  // The way from the end of a column to the top of the next one.
  function around(border, from, x0, x1, put, straight) {
    const lane = border.lanes.get(from) || 0, part = (lane + 0.5) / Math.max(1, border.lanes.size);
    const x = border.x + border.wide * part, low = border.low + 4 + (border.space - 8) * part;
    const high = border.high - 4 - (border.space - 8) * (1 - part);
    for (const point of [[x0, low], [x, low], [x, high], [x1, high]]) { straight.push(1); put(...point); }
    straight.push(1);
  }

  function line(graph, s, i, tops, bottoms) {
    const { nodes } = graph;
    const high = nodes[s.reversed ? s.head : s.tail], deep = nodes[s.reversed ? s.tail : s.head];
    const chain = graph.chains[i], points = [], straight = []; // of every piece, whether it is straight
    const put = (x, y) => {
      points.push(Math.round(x * 2) / 2, Math.round(y * 2) / 2);
      while (straight.length < points.length / 2 - 1) straight.push(0);
    };
    // A segment that joins a trunk starts where the trunk does.
    const start = high.x + (chain.length ? graph.from[graph.up[chain[0]][0]] : s.start || 0);
    const end = deep.x + (s.end || 0);
    if (high.side === "top") put(start, 0);
    else { put(start, high.y + high.h); put(start, bottoms[high.rank]); }
    let at = s.reversed ? s.head : s.tail, x = start, row = high.rank;
    const next = (v, rank, to) => {
      for (const border of s.loose ? [] : graph.borders) {
        if (border.row > row && border.row <= rank) around(border, at, x, to, put, straight);
      }
      at = v; x = to; row = rank;
    };
    for (const v of chain) {
      next(v, nodes[v].rank, nodes[v].x);
      put(nodes[v].x, tops[nodes[v].rank]); put(nodes[v].x, bottoms[nodes[v].rank]);
    }
    next(-1, deep.rank, end);
    if (deep.side !== "bottom") put(end, tops[deep.rank]);
    put(end, deep.y);
    s.straight = straight;
    if (!s.reversed) return points;
    const turned = [];
    for (let k = points.length - 2; k >= 0; k -= 2) turned.push(points[k], points[k + 1]);
    straight.reverse();
    return turned;
  }

  // The way from the end of an iteration to the next goes around on the right.
  function wayBack(link, level) {
    const { from, to } = link, parent = from.parent;
    const right = parent.x + parent.w - PAD / 2 - 2, y0 = from.y + from.h / 2, y1 = to.y + to.h / 2;
    const near = to.x + to.w + GAP / 2, top = to.y - 8;
    const points = level && level.isFolded // above the other columns
      ? [from.x + from.w, y0, right, y0, right, top, near, top, near, y1, to.x + to.w, y1]
      : [from.x + from.w, y0, right, y0, right, y1, to.x + to.w, y1];
    const segment = { points, around: true, straight: points.slice(points.length / 2 + 1).map(() => 1),
      links: [link], kind: link.kind, loose: false, arrow: true };
    link.segments.push(segment);
    return segment;
  }

  return { arrange, PAD, HEAD };
})();
