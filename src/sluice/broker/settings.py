"""Where the settings of a broker come from: a TOML file, then the environment, then flags; the later wins.

Each value keeps the name of its source, so that `sluice broker --check` and every error can tell. What no setting is called is
an error that names the nearest one: a misspelt bound must not be no bound.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from sluice.broker.config import ServerConfig
from sluice.errors import ConfigurationError

PREFIX = "SLUICE_"
#: What clients take from the environment, which is none of a broker's business and no mistake.
OF_CLIENTS = ("SLUICE_ADDRESS", "SLUICE_TOKEN")
DEFAULT = "default"

SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
BYTES = {
    "B": 1,
    **{f"{letter}B": 1_000**power for power, letter in enumerate("kMGT", 1)},
    **{f"{letter}iB": 1_024**power for power, letter in enumerate("KMGT", 1)},
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of the configuration, as people write it."""

    name: str
    value_type: type
    is_optional: bool
    is_list: bool
    about: str
    default: object

    @property
    def variable(self) -> str:
        """The variable of the environment."""
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The flag; that of a list is given once for each of its values.

        >>> [SETTINGS[name].flag for name in ("lease_seconds", "links")]
        ['--lease-seconds', '--link']
        """
        name = self.name.removesuffix("s") if self.is_list else self.name
        return "--" + name.replace("_", "-")

    @property
    def kind(self) -> str:
        """What a value is, in a word."""
        if self.name.endswith("_seconds"):
            return "duration"
        if self.name.endswith("_bytes"):
            return "size"
        return {str: "text", int: "number", float: "number", bool: "true or false", Path: "path"}[self.value_type]

    def read(self, value: object) -> object:
        """The value that a text, or a value of a TOML file, stands for.

        >>> SETTINGS["retain_seconds"].read("7d"), SETTINGS["outbox_bytes"].read("16MiB"), SETTINGS["data"].read("none")
        (604800.0, 16777216, None)
        """
        if value == "none" and (self.is_optional or self.is_list):
            return () if self.is_list else None
        if not self.is_list:
            return self._read_one(value)
        items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
        if not isinstance(items, Sequence):
            raise ConfigurationError(f"{value!r} is no list of texts")
        return tuple(self._read_one(item) for item in items)

    def _read_one(self, value: object) -> object:
        if isinstance(value, str):
            return self._parse(value)
        if self.value_type is float and type(value) is int:
            value = float(value)
        if type(value) is not self.value_type or (isinstance(value, float) and not math.isfinite(value)):
            raise ConfigurationError(f"{value!r} is no {self.kind}")
        return value

    def _parse(self, text: str) -> object:
        match self.kind:
            case "duration":
                return parse_duration(text)
            case "size":
                return parse_size(text)
            case "path" if text:
                return Path(text)
            case "true or false":
                if text not in ("true", "false"):
                    raise ConfigurationError(f"{text!r} is neither true nor false")
                return text == "true"
            case "number":
                return _parse_number(text, self.value_type)
        if not text:
            raise ConfigurationError("it is empty")
        return text

    def show(self, value: object) -> str:
        """A value as text; `read` understands it.

        >>> SETTINGS["memory_bytes"].show(256 * 2**20), SETTINGS["retain_seconds"].show(604800.0)
        ('256MiB', '7d')
        """
        if value is None:
            return "none"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, tuple):
            return ",".join(value) or "none"
        if isinstance(value, int | float) and self.kind in ("duration", "size"):
            return _in_units(value, SECONDS if self.kind == "duration" else BYTES)
        return str(value)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and for each setting where its value came from."""

    config: ServerConfig
    sources: Mapping[str, str]


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]) -> Loaded:
    """The configuration of a broker from all its sources; flags are by the names of the settings."""
    values: dict[str, object] = {}
    sources = dict.fromkeys(SETTINGS, DEFAULT)
    for name, value, source in (
        *(_from_file(file) if file is not None else ()),
        *_from_environment(environment),
        *((name, value, SETTINGS[name].flag) for name, value in flags.items()),
    ):
        values[name] = read_named(name, value, source)
        sources[name] = source
    if "name" not in values:
        raise ConfigurationError(
            f"a broker needs a name: say --name b1, set {SETTINGS['name'].variable}, or put name into the file"
        )
    return Loaded(ServerConfig(**values), sources)  # type: ignore[arg-type] # checked when they were read


def flags_of(config: ServerConfig) -> list[str]:
    """The flags that say what a configuration says, defaults left out.

    >>> flags_of(ServerConfig(name="b1", links=("a:1", "b:2"), patience_seconds=0.5))
    ['--name', 'b1', '--link', 'a:1', '--link', 'b:2', '--patience-seconds', '500ms']
    """
    flags: list[str] = []
    for setting in SETTINGS.values():
        value = getattr(config, setting.name)
        if value != setting.default:
            texts = value if isinstance(value, tuple) else [setting.show(value)]
            flags += (word for text in texts for word in (setting.flag, text))
    return flags


def read_named(name: str, value: object, source: str) -> object:
    """The value of a setting; an error tells the setting and its source."""
    try:
        return SETTINGS[name].read(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name} (from {source}): {error}") from None


def unknown_key(name: str, source: str, known: Iterable[str]) -> ConfigurationError:
    """The error for a key that nothing is called, with the nearest one that exists."""
    choices = sorted(known)
    nearest = difflib.get_close_matches(name, choices, n=1)
    advice = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(choices)}"
    return ConfigurationError(f"{source}: nothing is called {name}: {advice}")


def read_toml(file: Path) -> dict[str, Any]:
    """A TOML file as it stands."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:  # no TOML, or no UTF-8
        raise ConfigurationError(f"{file} is no TOML: {error}") from None


def _from_file(file: Path) -> Iterator[tuple[str, object, str]]:
    for name, value in read_toml(file).items():
        if name not in SETTINGS:
            raise unknown_key(name, str(file), SETTINGS)
        yield name, value, str(file)


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, object, str]]:
    by_variable = {setting.variable: setting for setting in SETTINGS.values()}
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in OF_CLIENTS:
            continue
        if variable not in by_variable:
            raise unknown_key(variable, "the environment", by_variable)
        yield by_variable[variable].name, environment[variable], variable


def parse_duration(text: str) -> float:
    """Seconds from a number and a unit; a bare number is seconds.

    >>> parse_duration("500ms"), parse_duration("7d"), parse_duration("2.5")
    (0.5, 604800.0, 2.5)
    """
    return float(_parse_amount(text, SECONDS, "duration", "500ms, 5s, 2m, 1h or 7d"))


def parse_size(text: str) -> int:
    """Bytes from a number and a unit; a bare number is bytes.

    >>> parse_size("16MiB"), parse_size("1.5kB"), parse_size("100")
    (16777216, 1500, 100)
    """
    return int(_parse_amount(text, BYTES, "size", "100kB, 16MiB or 4GiB"))


def _parse_amount(text: str, units: Mapping[str, float], what: str, examples: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", text.strip())
    if found is None or (found[2] and found[2] not in units):
        raise ConfigurationError(f"{text!r} is no {what}: write {examples}")
    number = float(found[1]) if "." in found[1] else int(found[1])
    return number * units[found[2]] if found[2] else number


def _parse_number(text: str, value_type: type) -> object:
    try:
        number = value_type(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigurationError(f"{text!r} is no {'whole ' if value_type is int else ''}number")
    return number


def _in_units(value: float, units: Mapping[str, float]) -> str:
    """The value in the largest unit of which it is a whole number; bare where there is none."""
    for unit, size in sorted(units.items(), key=lambda pair: -pair[1]):
        number = round(value / size)
        if number and number * size == value:
            return f"{number}{unit}"
    return format(Decimal(str(value)).normalize(), "f")


def _setting_of(field: Field[Any], hint: Any) -> Setting:
    bare, about = get_args(hint)
    alternatives = [argument for argument in get_args(bare) if argument not in (type(None), ...)]
    return Setting(
        name=field.name,
        value_type=alternatives[0] if alternatives else bare,
        is_optional=type(None) in get_args(bare),
        is_list=get_origin(bare) is tuple,
        about=about,
        default=None if field.default is MISSING else field.default,
    )


_hints = get_type_hints(ServerConfig, include_extras=True)

#: Every setting, in the order of the reference.
SETTINGS = {field.name: _setting_of(field, _hints[field.name]) for field in fields(ServerConfig)}
