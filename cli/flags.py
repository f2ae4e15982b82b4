"""Flags of experiments' scripts, one for each field of their settings."""

import inspect
import re


def flag(name: str) -> str:
    """``--share-seeds`` of the field ``share_seeds``."""
    return f"--{name.replace('_', '-')}"


def descriptions(settings: type) -> dict[str, str]:
    """What the docstring of the settings (numpydoc, Attributes) says of each field, for argparse."""
    found = {}
    for names, text in re.findall(r"^(\w[\w, ]*) : .*\n((?: {4}.*\n?)+)", inspect.getdoc(settings) or "", re.M):
        plain = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", " ".join(text.split())).replace("`", "")
        found.update(dict.fromkeys(names.split(", "), plain.replace("%", "%%")))
    return found
