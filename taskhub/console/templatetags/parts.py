"""Parts: the reusable components of pages, one template tag each.

`{% notice "warning" role="status" %}…{% endnotice %}` draws `parts/notice.html` with the text between the tags as
`content`. The first parameter may be given without its name. A parameter with markup, or too long for its line, is
given between the tags, as `{% slot title %}…{% endslot %}`. Other names are HTML attributes of the part's element:
those in `ATTRIBUTES`, and those like `hx_get`, `data_copy` and `aria_label`, in which underscores become dashes. Any
other name is an error when the template is parsed, so that a misspelt one is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from django import template
from django.forms import BoundField
from django.forms.utils import flatatt
from django.template.base import FilterExpression, NodeList, Parser, Token, token_kwargs
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from taskhub.console.foreign import foreign
from taskhub.console.templatetags.console import icon

register = template.Library()

LINK: Final = {"to": "", "of": None, "href": ""}
"""The parameters of a part that is a link: `to` is the name of a URL and `of` its argument, or `href` is an address, in
which `of` replaces `{}`."""
PARTS: Final[dict[str, dict[str, Any]]] = {
    "button": {"look": "", "icon": "", "size": None, **LINK},
    "card": {"title": "", "id": "", "look": "", "element": "section", "aside": "", "footer": "", "fetch": "", "on": ""},
    "chip": {"look": "", **LINK},
    "confirm": {
        "title": "",
        "action": "",
        "does": "",
        "name": "",
        "value": "",
        "keep": "Leave it",
        "back": "",
        "danger": True,
    },
    "dialog": {"title": "", "id": "", "closes": False},
    "nothing": {"icon": ""},
    "notice": {"kind": "info", "icon": None, "role": "", "look": ""},
    "table": {"look": "", "columns": "", "actions": False, "caption": "", "scroll": "", "head": ""},
}
"""For each part: its parameters and their defaults. The part's template explains them."""
ATTRIBUTES: Final = (
    *("autofocus", "disabled", "download", "formnovalidate", "id", "name", "open", "rel", "role", "tabindex"),
    *("target", "title", "type", "value"),
)
FAMILIES: Final = ("aria_", "data_", "hx_")
SLOTS: Final = "slots of the part around"


@register.tag
def slot(parser: Parser, token: Token) -> template.Node:
    """A parameter of the enclosing part, with its value between the tags: `{% slot aside %}…{% endslot %}`."""
    name = token.split_contents()[1]
    inside = parser.parse(("endslot",))
    parser.delete_first_token()
    return SlotNode(name, inside)


class SlotNode(template.Node):
    """Passes its content to the enclosing part, and renders nothing itself."""

    def __init__(self, name: str, nodelist: NodeList) -> None:
        self.name, self.nodelist = name, nodelist

    def render(self, context: template.Context) -> SafeString:
        """Store the content in the enclosing part's context; returns empty text."""
        # Rendering has escaped the content.
        context[SLOTS][self.name] = mark_safe(self.nodelist.render(context).strip())  # noqa: S308
        return mark_safe("")


class PartNode(template.Node):
    """One use of a part in a template."""

    def __init__(self, part: str, given: dict[str, FilterExpression], nodelist: NodeList) -> None:
        self.part, self.given, self.nodelist = part, given, nodelist

    def render(self, context: template.Context) -> SafeString:
        """Render the part's template with its parameters, attributes, slots and content."""
        slots: dict[str, SafeString] = {}
        with context.push(**{SLOTS: slots}):
            content = self.nodelist.render(context).strip()
        takes = PARTS[self.part]
        if unknown := slots.keys() - takes.keys():
            raise template.TemplateSyntaxError(f"{self.part} has no place for {', '.join(unknown)}")
        given = {name: value.resolve(context) for name, value in self.given.items()}
        values = {**takes, **{name: value for name, value in given.items() if name in takes}, **slots}
        if "href" in takes:
            values["href"] = address(values["to"], values["of"], values["href"])
        attributes = {name.replace("_", "-"): value for name, value in given.items() if name not in takes}
        values |= {
            "content": mark_safe(content),  # noqa: S308 - rendering has escaped it
            "attributes": flatatt({name: value for name, value in attributes.items() if value not in (None, "")}),
            "csrf_token": context.get("csrf_token"),
        }
        assert context.template is not None
        drawn: SafeString = context.template.engine.get_template(f"parts/{self.part}.html").render(context.new(values))
        return drawn


def _tag(parser: Parser, token: Token) -> template.Node:
    part, *bits = token.split_contents()
    takes, given = PARTS[part], {}
    if bits and not token_kwargs(bits[:1], parser):
        given[next(iter(takes))] = parser.compile_filter(bits.pop(0))
    while bits:
        found = token_kwargs(bits, parser)
        if not found:
            raise template.TemplateSyntaxError(f"{part} takes {bits[0]} by name only")
        given |= found
    for name in given:
        if name not in takes and name not in ATTRIBUTES and not name.startswith(FAMILIES):
            known = ", ".join(sorted(takes))
            raise template.TemplateSyntaxError(f"{part} takes no {name}; it takes {known}, and attributes")
    inside = parser.parse((f"end{part}",))
    parser.delete_first_token()
    return PartNode(part, given, inside)


for _part in PARTS:
    register.tag(_part, _tag)


def address(to: str, of: Any, href: str) -> str:
    """The URL of a part that is a link, from its parameters (`LINK`)."""
    if to:
        return reverse(to, args=[] if of in (None, "") else [of])
    return href.replace("{}", quote(str(of), safe="")) if of not in (None, "") else str(href)


@register.inclusion_tag("parts/field.html")
def field(bound: BoundField, look: str = "") -> dict[str, Any]:
    """One field of a form: label, help text, control and errors. The only way to put an input on a page.

    `look` is a list of CSS classes, among them `grow` and `wide` for the width, and `bar` for a row of filters.
    """
    widget = bound.field.widget
    first = getattr(bound.form, "focus", "") == bound.name
    return {
        "field": bound,
        "look": look,
        "control": bound.as_widget(attrs={"autofocus": True} if first else {}),
        "several": hasattr(widget, "choices"),
        "single": getattr(widget, "input_type", "") == "checkbox" and not getattr(widget, "allow_multiple_selected", 0),
    }


@register.simple_tag
def live(fetch: str, on: str) -> SafeString:
    """The htmx attributes of an element that is refetched as a whole on each of the hints in `on`."""
    return format_html('hx-get="{}" hx-trigger="{}" hx-swap="outerHTML" hx-push-url="false"', fetch, on)


@register.simple_tag
def icon_for(name: str, look: str, size: int | None) -> SafeString:
    """A button's icon. Without `size`, its size depends on the button's look."""
    return icon(name, size or (16 if "small" in look.split() else 20)) if name else mark_safe("")


@register.filter
def worded(text: Any) -> SafeString:
    """Text that is marked as safe, unchanged; all other text as foreign text."""
    return text if hasattr(text, "__html__") else foreign(text)


@register.filter
def columns(text: str) -> Iterator[tuple[str, bool, bool]]:
    """The columns of a table, from `Name|Count>|(Actions)`: (words, right-aligned, for screen readers only)."""
    for word in filter(None, text.split("|")):
        words = word.rstrip(">")
        heard = words.startswith("(")
        yield words.strip("()") if heard else words, word.endswith(">"), heard


KIND_ICONS: Final = {
    "info": "information-circle",
    "success": "check-circle",
    "warning": "exclamation-triangle",
    "error": "x-circle",
}


@register.simple_tag
def icon_of_kind(name: str | None, kind: str) -> SafeString:
    """The icon of a notice: the named one, else that of its kind."""
    return icon(name or KIND_ICONS[kind])
