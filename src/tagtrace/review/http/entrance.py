"""How a browser gets in: the two small pages that are shown before the page of the project."""

from __future__ import annotations

from html import escape

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>tagtrace</title>
{head}</head><body>{body}</body></html>
"""


def going_on(location: str) -> bytes:
    """A page that goes on to an address of this server.

    A redirect would not do: a browser that came from elsewhere only sends the cookie, which is SameSite=Strict, with
    what our own page asks for.
    """
    where = escape(location)
    head = f'<meta http-equiv="refresh" content="0; url={where}">\n'
    return PAGE.format(head=head, body=f'<p><a href="{where}">Go on</a></p>').encode()


def locked() -> bytes:
    """What a browser without the access token is shown."""
    body = "<h1>tagtrace review</h1><p>Open the address that the server printed: it contains the access token.</p>"
    return PAGE.format(head="", body=body).encode()
