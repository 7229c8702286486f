"""The text of a ticket, from Jinja2 templates that a site may replace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2
import jinja2.meta
import jinja2.sandbox
from jinja2 import nodes

from ..errors import InputError
from ..findings import shorten
from .model import Ticket
from .neutral import in_command, neutral
from .sample import SAMPLES
from .words import needs_visit, part_named, steps

TEMPLATES = Path(__file__).parent
TICKET_TEMPLATE = "ticket.md.j2"
FINDINGS_MAX = 40
TEXT_MAX = 64 * 1024  # characters of a whole ticket


class Texts:
    """Templates: those of a site's folder before ours.

    folder: of the site, or None. A template of the site extends ours as ``default/ticket.md.j2``. InputError, in one
    line with file and line, where one of them is wrong.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is not None and not _is_folder(folder):
            raise InputError("no such folder of ticket templates", str(folder))
        ours = jinja2.FileSystemLoader(str(TEMPLATES))
        places: list[jinja2.BaseLoader] = [jinja2.FileSystemLoader(str(folder))] if folder else []
        self._loader = jinja2.ChoiceLoader([*places, ours, jinja2.PrefixLoader({"default": ours})])
        self._env = jinja2.sandbox.ImmutableSandboxedEnvironment(
            loader=self._loader,
            autoescape=False,  # the text is Markdown; the filter md neutralises each value
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
        )
        self._env.filters.update(md=neutral, code=in_command)

    def markdown(self, ticket: Ticket) -> str:
        """The ticket as Markdown."""
        return self.render(TICKET_TEMPLATE, ticket)

    def title(self, ticket: Ticket) -> str:
        """One line of plain text."""
        place = f"rack {ticket.place.rack} unit {ticket.place.unit}"
        return shorten(f"{ticket.id}: {ticket.host}, {place}: {ticket.action} {part_named(ticket)}", 200)

    def body(self, name: str, ticket: Ticket, reference: str) -> bytes:
        """JSON from a template; reference: the receiver's own. InputError where the template makes none."""
        more = {"title": self.title(ticket), "text": self.markdown(ticket), "reference": reference}
        text = self.render(name, ticket, **more)
        try:
            value = json.loads(text)
            json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is in no UTF-8
            return json.dumps(value, allow_nan=False).encode()
        except UnicodeEncodeError:
            raise InputError("makes half a surrogate pair, which is no character", name) from None
        except (ValueError, RecursionError) as error:
            said = error if isinstance(error, ValueError) else "nested too deeply"
            raise InputError(f"does not make JSON: {said}; put values in with |tojson", name) from None

    def check(self, name: str = TICKET_TEMPLATE) -> None:
        """Read a template and those it names, and render it for tickets that are none. InputError where it is wrong."""
        self._read(name, ())
        for sample in SAMPLES:
            if name == TICKET_TEMPLATE:
                self.markdown(sample)
            else:
                self.body(name, sample, "REFERENCE-1")

    def _read(self, name: str, children: tuple[str, ...]) -> None:
        """children: the templates that extend this one."""
        if name in children:
            hint = '; ours is "default/ticket.md.j2"' if name == TICKET_TEMPLATE else ""
            raise InputError(f"it extends itself{hint}", name)
        self._template(name)
        tree = self._env.parse(self._loader.get_source(self._env, name)[0], name)
        parents = {
            node.template.value
            for node in tree.find_all(nodes.Extends)
            if isinstance(node.template, nodes.Const) and isinstance(node.template.value, str)
        }
        for parent in parents:
            self._read(parent, (*children, name))
        known = set(self._env.list_templates())  # one that is not there is told when it is used: it may be optional
        for other in set(jinja2.meta.find_referenced_templates(tree)) - parents:
            if other in known:
                self._template(str(other))

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
        template = self._template(name)
        try:
            text = template.render(values)
            text.encode()
        except Exception as error:  # what a template does is as free as Python
            raise _wrong(error, name) from None
        if len(text) > TEXT_MAX:
            raise InputError(f"{len(text)} characters for ticket {ticket.id}, and {TEXT_MAX} are the most", name)
        return text

    def _template(self, name: str) -> jinja2.Template:
        try:
            return self._env.get_template(name)
        except Exception as error:
            raise _wrong(error, name) from None


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _wrong(error: Exception, name: str) -> InputError:
    """An error of a template in one line, with its file and, where that is known, the line."""
    if isinstance(error, jinja2.TemplateNotFound):
        return InputError(f"no ticket template {error.message}")
    if isinstance(error, jinja2.TemplateSyntaxError):
        return InputError(str(error.message), f"{error.filename or name}:{error.lineno}")
    if isinstance(error, UnicodeDecodeError):
        return InputError("it, or one that it names, is no UTF-8 text", name)
    if isinstance(error, UnicodeEncodeError):
        return InputError("makes half a surrogate pair, which is no character", name)
    where, trace = name, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.endswith((".py", ">")):
            where = f"{Path(file).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, jinja2.TemplateError):  # an unknown variable, or what the sandbox forbids
        return InputError(str(error.message or type(error).__name__), where)
    said = "it calls itself without end" if isinstance(error, RecursionError) else f"{type(error).__name__} in it"
    return InputError(said, where)
