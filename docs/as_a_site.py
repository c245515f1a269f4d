"""What mkdocs does to each page of the documentation, which is written to be read in the repository too."""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:]+)\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page with the links that leave docs/ as text, and with its folded parts read as Markdown."""
    folder = posixpath.dirname(page.file.src_uri)

    def kept(link: re.Match[str]) -> str:
        leaves = posixpath.normpath(posixpath.join(folder, link[2])).startswith("..")
        return link[1] if leaves else link[0]

    return _LINK.sub(kept, markdown).replace("<details>", '<details markdown="1">')
