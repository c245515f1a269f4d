"""The ``tagtrace`` command: its group, and errors as one line."""

from __future__ import annotations

import errno
import sys
from typing import Any

import click
from safetensors import SafetensorError

from tagtrace._checks import TagtraceError
from tagtrace._version import __version__
from tagtrace.cli import audit, data, demo, explain, fix, gain, index, reproduce, review, tagger, what_if


class OneLineErrors(click.Group):
    """Prints what the user can mend as one line on standard error and exits with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TagtraceError as error:
            _fail(str(error))
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # click ends quietly when nobody reads on
            _fail(_describe(error))
        except SafetensorError as error:
            _fail(f"weights cannot be written or read ({error}); is there space left on the disk?")
        except KeyboardInterrupt:
            _fail("stopped; what was written so far is whole, and training goes on from its last checkpoint")


def _describe(error: OSError) -> str:
    what = error.strerror or str(error)
    path = error.filename2 or error.filename  # of two, the one the user named
    where = f"{path}: " if path else ""
    hint = "; free some space and run again" if error.errno == errno.ENOSPC else ""
    return f"{where}{what}{hint}"


def _fail(message: str) -> None:
    click.echo("tagtrace: " + " ".join(message.split()), err=True)
    sys.exit(1)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tagtrace")
def main() -> None:
    """Which training labels taught a sequence tagger this prediction?"""


main.add_command(demo.demo)
main.add_command(data.data)
main.add_command(tagger.train)
main.add_command(tagger.refit)
main.add_command(tagger.predict)
main.add_command(tagger.evaluate)
main.add_command(index.index)
main.add_command(explain.explain)
main.add_command(explain.verify)
main.add_command(what_if.what_if)
main.add_command(what_if.flip)
main.add_command(audit.audit)
main.add_command(fix.fix)
main.add_command(gain.gain)
main.add_command(reproduce.reproduce)
main.add_command(review.review)
