"""Elements of SVG and HTML as text. Everything that is not already ``Markup`` is escaped."""

import hashlib
from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: object) -> Markup:
    """``<tag attributes>content</tag>``. Of attributes, ``class_`` means class and ``stroke_width`` stroke-width.

    Attributes that are None are left out; numbers are written with at most two decimals.
    """
    written = "".join(
        f' {_name(name)}="{escape(_value(value))}"' for name, value in attributes.items() if value is not None
    )
    inner = "".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in content)
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


def void(tag: str, **attributes: object) -> Markup:
    """``<tag attributes>`` of HTML, which has no end."""
    text = element(tag, **attributes)
    return Markup(text.removesuffix(f"</{tag}>"))


def join(parts: Iterable[str]) -> Markup:
    """Several pieces one after the other."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in parts))


def picture(
    width: float, height: float, *content: str, title: str, description: str, style: str = "", inline: bool = True
) -> Markup:
    """A whole SVG, which screen readers know by its title and description. ``style`` makes it stand alone.

    inline: whether it may carry a style of its own, which strict pages forbid.
    """
    # From the content, so that the same page has the same bytes.
    number = hashlib.sha256(f"{title}\n{description}".encode()).hexdigest()[:12]
    labels = (
        element("title", title, id=f"title-{number}"),
        element("desc", description, id=f"desc-{number}"),
        *((element("style", Markup(style)),) if style else ()),
    )
    return element(
        "svg",
        *labels,
        *content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        width=width if style else None,
        height=height if style else None,
        role="img" if inline else "group",
        aria_labelledby=f"title-{number} desc-{number}",
        style=f"max-width:{_value(width)}px" if inline else None,
    )


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
