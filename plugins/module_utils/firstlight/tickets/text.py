"""The text of a ticket, from Jinja2 templates that a site may replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import jinja2.sandbox

from ..errors import InputError
from ..findings import shorten
from .model import Ticket
from .neutral import in_command, neutral
from .words import needs_visit, part_named, steps

TEMPLATES = Path(__file__).parent
FINDINGS_MAX = 40
TEXT_MAX = 64 * 1024  # characters of a whole ticket


class Texts:
    """Templates: those of a site's folder before ours.

    folder: of the site, or None. A template of the site extends ours as ``default/ticket.md.j2``. InputError, in one
    line with file and line, where one of them is wrong.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None and not folder.is_dir():
            raise InputError("no such folder of ticket templates", str(folder))
        ours = jinja2.FileSystemLoader(str(TEMPLATES))
        places: list[jinja2.BaseLoader] = [jinja2.FileSystemLoader(str(folder))] if folder else []
        loader = jinja2.ChoiceLoader([*places, ours, jinja2.PrefixLoader({"default": ours})])
        self._env = jinja2.sandbox.ImmutableSandboxedEnvironment(
            loader=loader,
            autoescape=False,  # the text is Markdown; the filter md neutralises each value
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
        )
        self._env.filters.update(md=neutral, code=in_command)

    def markdown(self, ticket: Ticket) -> str:
        """The ticket as Markdown."""
        return self.render("ticket.md.j2", ticket)

    def title(self, ticket: Ticket) -> str:
        """One line of plain text."""
        place = f"rack {ticket.place.rack} unit {ticket.place.unit}"
        return shorten(f"{ticket.id}: {ticket.host}, {place}: {ticket.action} {part_named(ticket)}", 200)

    def render(self, name: str, ticket: Ticket, **more: Any) -> str:
        """Any template of the folders, with the values of this ticket. InputError when it cannot be rendered."""
        values = {
            "ticket": ticket,
            "part": part_named(ticket),
            "steps": steps(ticket),
            "visit": needs_visit(ticket),
            "findings": ticket.findings[:FINDINGS_MAX],
            "checks": list(dict.fromkeys(f.check for f in ticket.findings)),
            **more,
        }
        try:
            text = self._env.get_template(name).render(values)
        except jinja2.TemplateNotFound as error:
            raise InputError(f"no ticket template {error.message}") from None
        except jinja2.TemplateSyntaxError as error:
            raise InputError(str(error.message), f"{error.filename or name}:{error.lineno}") from None
        except jinja2.TemplateError as error:  # an unknown variable, or what the sandbox forbids
            raise InputError(str(error.message or type(error).__name__), name) from None
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise InputError(f"{type(error).__name__} in it", name) from None
        if len(text) > TEXT_MAX:
            raise InputError(f"{len(text)} characters for ticket {ticket.id}, and {TEXT_MAX} are the most", name)
        return text
