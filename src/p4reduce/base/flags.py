"""Flags of commands: each is defined once, as a field of a class, with its complete help text.

A field is a flag if its type is ``Annotated[type, Flag("What it does.")]``; the class is a pydantic model or made by
:func:`command`. Commands share a flag by sharing its annotated type.
"""

import builtins
import dataclasses
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from keyword import iskeyword
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Protocol,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from p4reduce.base.errors import BadInput


@dataclasses.dataclass(frozen=True)
class Flag:
    """A field's form on the command line."""

    help: str
    """one sentence, which names the unit"""
    short: str | None = None
    """A second name, as ``-t``."""
    _: dataclasses.KW_ONLY
    name: str | None = None
    """Name of the flag, if it differs from the field's."""
    panel: str | None = None
    """Heading under which a help shows it."""
    metavar: str | None = None
    """text for the value in a help; default: the values of a ``Literal``, else the type"""
    default: str | None = None
    """text for the default in a help, if it is not the field's value"""
    least: float | None = None
    """Lower bound of a number, or None."""
    most: float | None = None
    parse: Callable[[str, str], Any] | None = None
    """Function of the text and the flag's name that returns the value, or raises `BadInput` with both and the fix."""
    reads: bool = False
    """Whether the value is a path that must exist."""
    example: str | None = None
    """Name of the ``p4reduce example`` that prints a file for it."""
    many: bool = False
    """Whether it may be given several times; the value is then a list."""
    argument: bool = False
    """Whether it is given by its place, not by a name."""


@dataclasses.dataclass(frozen=True)
class CommandFlag:
    """A flag of a command."""

    field: str
    """Its field; ``faults.loss`` for a field of a model inside another."""
    kind: Any
    """type of the value: int, float, bool, str, Path, or a list of one of them"""
    default: Any
    """Default value; ``...`` if there is none."""
    choices: tuple[Any, ...]
    flag: Flag

    @property
    def name(self) -> str:
        """Return the name of the Python parameter."""
        return self.field.rpartition(".")[2]

    @property
    def option(self) -> str:
        """Return the option as it is typed, ``--queue-frames``; for an argument the name in the help."""
        if self.flag.argument:
            return self.metavar or self.name.upper()
        return self.flag.name or "--" + self.name.replace("_", "-")

    @property
    def metavar(self) -> str | None:
        """Return the text for the value in a help; None for the name of its type."""
        kinds = {} if self.flag.argument else {int: "<int>", float: "<float>"}
        return self.flag.metavar or "|".join(map(str, self.choices)) or kinds.get(self.kind)

    @property
    def hint(self) -> str:
        """Return the text that names the command that prints a file for it; empty if there is none."""
        return f"'p4reduce example {self.flag.example}' prints one" if self.flag.example else ""

    @property
    def help(self) -> str:
        """Return the complete help text, without the default."""
        return f"{self.flag.help.removesuffix('.')} ({self.hint})." if self.hint else self.flag.help

    @property
    def shown(self) -> str:
        """Return the text for the accepted values and the default in a help; empty if there is none."""
        repeated = "may be repeated" if self.flag.many and not self.flag.argument else ""
        return ", ".join(filter(None, (self._range, repeated, self._default and f"default: {self._default}")))

    @property
    def _default(self) -> str:
        if self.flag.default is not None:
            return self.flag.default
        if self.default in (None, ..., "", ()) or self.kind is bool:
            return ""
        if isinstance(self.default, tuple):
            return ",".join(map(str, self.default))
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    @property
    def _range(self) -> str:
        if self.flag.least is None:
            return ""
        return f"{self.flag.least:g} or more" if self.flag.most is None else f"{self.flag.least:g}..{self.flag.most}"

    def value(self, given: Any) -> Any:
        """Return the field's value for what was given. Raises `BadInput` that names the flag, the value and the fix."""
        return [self._value(text) for text in given] if isinstance(given, list) else self._value(given)

    def _value(self, given: Any) -> Any:
        if self.flag.parse is not None:
            return self.flag.parse(given, self.option)
        if self.flag.reads and not os.path.lexists(given):
            hint = f"; {self.hint}" if self.hint else ""
            raise BadInput(f"{'' if self.flag.argument else f'{self.option}: '}{given}: there is no such file{hint}")
        value = self._number(given) if self.kind in {int, float} else given
        if self.choices and value not in self.choices:
            raise BadInput(f"{self.option}: {given!r} is none of {', '.join(map(str, self.choices))}")
        return value

    def _number(self, text: str) -> float:
        """Return the number, checked against the range; it is parsed here so that errors can show its text."""
        whole = self.kind is int
        try:
            value = int(text) if whole else float(text)
        except ValueError:
            raise BadInput(f"{self.option}: {text!r} is no {'whole ' * whole}number; give one") from None
        least, most = self.flag.least, self.flag.most
        if (least is not None and not least <= value) or (most is not None and not value <= most):
            raise BadInput(f"{self.option}: {text} is not in the range; give {self._range}")
        return value


class Bundle(Protocol):
    """Several flags that make one field's value together, in place of a `Flag`."""

    def parameters(self) -> Iterable[CommandFlag]:
        """Return the flags."""

    def value(self, given: Mapping[str, Any]) -> Any:
        """Return the field's value, from those of its flags that were given, by field."""


def flags(model: Any) -> Iterator[CommandFlag]:
    """Yield the flags of a class, in the order of its fields, including those of a model inside it."""
    for name, part in parts(model):
        if isinstance(part, CommandFlag):
            yield part
        elif isinstance(part, type):
            yield from (dataclasses.replace(inner, field=f"{name}.{inner.field}") for inner in flags(part))


def parts(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a model by name, each a `CommandFlag`, a `Bundle` or a model; skip other fields."""
    for name, hint in get_type_hints(model, include_extras=True).items():
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        for note in notes:
            if isinstance(note, Flag):
                yield name, _parameter(name, kind, note, _default(model, name))
            elif hasattr(note, "parameters"):
                yield name, note
        if hasattr(kind, "model_fields"):
            yield name, kind


def _parameter(name: str, kind: Any, flag: Flag, default: Any) -> CommandFlag:
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (member for member in get_args(kind) if member is not types.NoneType)
    choices: tuple[Any, ...] = ()
    if flag.many:
        (kind,) = get_args(kind)
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        kind = type(choices[0])
    kind = str if flag.parse is not None else kind
    return CommandFlag(name, list[kind] if flag.many else kind, default, choices, flag)


def _default(model: Any, name: str) -> Any:
    return model.model_fields[name].default if hasattr(model, "model_fields") else getattr(model, name, ...)


# Commands: a class with a field for each flag. Its docstring is the help; its code is imported when it runs.


@dataclasses.dataclass(frozen=True)
class Spec:
    """A command: its function (``module:function``), and examples of it."""

    does: str
    examples: tuple[str, ...]
    passes_on: bool
    """whether arguments after the first one belong to another program"""


SPECS: Final[dict[str, tuple[type, Spec]]] = {}
"""classes that :func:`command` made, by the words of the command"""
_C = TypeVar("_C")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def command(path: str, *examples: str, passes_on: bool = False, within: str = "") -> Callable[[type[_C]], type[_C]]:
    """Decorate a class with a field for each flag: it becomes a frozen dataclass, and a command.

    The function of 'topo list' is ``list_`` in the module ``within``; if that is empty, in ``topo`` of the folder
    ``commands`` beside the folder of the class's module. A method ``check``, if there is one, is called before the
    import of that module; it may raise `BadInput`.
    """

    def decorate(model: type[_C]) -> type[_C]:
        made = dataclasses.dataclass(frozen=True, kw_only=True)(model)
        module = within or f"{model.__module__.rpartition('.flags')[0]}.commands.{path.split(maxsplit=1)[0]}"
        function = path.rsplit(maxsplit=1)[-1].replace("-", "_")
        function += "_" * (iskeyword(function) or hasattr(builtins, function))
        SPECS[path] = made, Spec(f"{module}:{function}", examples, passes_on)
        return made

    return decorate
