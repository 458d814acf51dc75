"""The page that lists the steps of a dump: one file, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from hlotool.inspect.graph import GROUP_COLOURS

__all__ = ["index_page"]

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222; }
h1 { font-size: 1.3em; } table { border-collapse: collapse; width: 100%; }
th, td { padding: .25em .7em; text-align: left; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #999; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
tr:target, tr.on { background: #fff6df; } .note { color: #a33; } a { color: #1a5fb4; }
.key { display: inline-block; padding: .1em .6em; margin: .15em; border: 1px solid #999; border-radius: .5em; }
iframe { width: 100%; height: 75vh; border: 1px solid #bbb; margin-top: 1em; display: none; }
"""
_SCRIPT = """
const rows = [...document.querySelectorAll('tr[data-picture]')], frame = document.querySelector('iframe');
let at = -1;
function show(n) {
  if (n < 0 || n >= rows.length) return;
  if (at >= 0) rows[at].className = '';
  at = n; rows[n].className = 'on'; frame.style.display = 'block'; frame.src = rows[n].dataset.picture;
}
rows.forEach((row, n) => row.addEventListener('click', e => { if (e.target.tagName !== 'A') show(n); }));
addEventListener('keydown', e => { if (e.key === 'j') show(at + 1); if (e.key === 'k') show(at - 1); });
"""
_NAMES = {
    "parameter": "parameter", "constant": "constant, tuple", "elementwise": "elementwise", "broadcast": "broadcast",
    "data-movement": "data movement", "dot": "dot, convolution, linear algebra",
    "reduction": "reduction, sort, gather, scatter", "rng": "random numbers", "control": "control, custom call",
    "collective": "collective, feed", "fusion": "fusion",
}  # fmt: skip


def index_page(module: str, steps: Sequence[dict[str, Any]]) -> str:
    """The HTML page for the steps of a manifest."""
    pictures = any(name.endswith(".svg") for step in steps for name in step["files"])
    hint = "<p>Click a row to see its picture; the keys j and k go to the next and the one before.</p>"
    legend = "".join(f'<span class="key" style="background:{GROUP_COLOURS[g]}">{n}</span>' for g, n in _NAMES.items())
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(module)}: passes</title><style>{_STYLE}</style></head>
<body>
<h1>{escape(module)}</h1>
<p>The module as it came in, and after every pass that changed it. In drawings a red outline marks what the pass
added or changed, a brown one the root, a grey box a fusion.</p>
<p>{legend}</p>
{hint if pictures else ""}
<table>
<tr><th>step</th><th>pass</th><th>instructions</th><th>added</th><th>removed</th><th>changed</th><th>files</th></tr>
{"".join(map(_row, steps))}</table>
{'<iframe title="drawing"></iframe><script>' + _SCRIPT + "</script>" if pictures else ""}
</body></html>
"""


def _row(step: dict[str, Any]) -> str:
    links = " ".join(f'<a href="{escape(n)}">{escape(n.rpartition(".")[2])}</a>' for n in step["files"])
    picture = next((n for n in step["files"] if n.endswith(".svg")), None)
    note = f' <span class="note">{escape(step["note"])}</span>' if step["note"] else ""
    data = f' data-picture="{escape(picture)}"' if picture else ""
    before, after = step["instructions_before"], step["instructions_after"]
    counts = f"{after}" if before == after else f"{before} → {after}"
    numbers = "".join(f'<td class="n">{step[key] or ""}</td>' for key in ("added", "removed", "changed"))
    return (
        f'<tr id="step{step["step"]}"{data}><td class="n">{step["step"]}</td><td>{escape(step["pass"])}</td>'
        f'<td class="n">{counts}</td>{numbers}<td>{links}{note}</td></tr>\n'
    )
