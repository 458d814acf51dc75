"""Pages of the site that come from the program (catalogues, tables, options), and the documents of the sources."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
from generated_pages import pages

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[2]
_DOCUMENTS = {
    "architecture.md": "hlotool/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
}
_LINKS = {"hlotool/README.md": "architecture.md", "CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    texts = dict(pages())
    for name, source in _DOCUMENTS.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        texts[name] = re.sub(r"\]\(([^)#:]+)\)", lambda link: f"]({_LINKS.get(link[1], link[1])})", text)
    for name, text in texts.items():
        files.append(File.generated(config, name, content=text))
    return files
