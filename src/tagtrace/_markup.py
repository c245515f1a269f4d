"""HTML and SVG as text in which everything that is not markup is escaped: training text may contain any character."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_VOID = frozenset({"input", "meta"})
_UNSEEN = dict.fromkeys((*range(9), 11, 12, *range(13, 32), *range(0x7F, 0xA0), *range(0xD800, 0xE000)), "\ufffd")
"""Control characters and lone surrogates, which a page cannot contain."""


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


Child = str | int | Iterable["Child"] | None
Attribute = str | int | float | bool | None


def element(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element: strings in it are escaped, ``Html`` is not, lists are flattened, None is left out.

    ``class_`` and ``aria_label`` mean class and aria-label; True gives an attribute without a value, False gives none.

    >>> element("a", "1 < 2", [element("b", "!")], href="#x", class_="y", hidden=True)
    '<a href="#x" class="y" hidden>1 &lt; 2<b>!</b></a>'
    """
    start = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(start if name in _VOID else f"{start}{joined(children)}</{name}>")


def joined(child: Child) -> Html:
    """Text, or lists of it, as markup."""
    if child is None or isinstance(child, Html):
        return Html(child or "")
    if isinstance(child, str | int):
        return Html(escape(str(child).translate(_UNSEEN)))
    return Html("".join(map(joined, child)))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{joined(str(value))}"'


# Parts of a page


def arrow(change: str) -> Html:
    """``LOC -> ORG`` with an arrow."""
    return element("span", change.replace(" -> ", " → "), class_="change")


def definitions(pairs: Mapping[str, Child], kind: str) -> Html:
    """A definition list, each pair in a box."""
    boxes = [element("div", element("dt", name), element("dd", value)) for name, value in pairs.items()]
    return element("dl", boxes, class_=kind)


def table(caption: Child, heads: Sequence[str], rows: Sequence[Child], kind: str = "plain") -> Html:
    """A table; the first cell of every row names the row."""
    columns = [element("th", head, scope="col") for head in heads]
    body = element("tbody", [element("tr", row) for row in rows])
    return element("table", element("caption", caption), element("thead", element("tr", columns)), body, class_=kind)


def row_head(name: str) -> Html:
    return element("th", name, scope="row")


def number_cell(value: float | None) -> Html:
    return element("td", "not known" if value is None else exact(value))


def exact(value: float) -> str:
    """Integers in full, other numbers to four significant digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def counted(count: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "label"), counted(2_000, "label")
    ('1 label', '2,000 labels')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
