"""Configurations: validated, frozen values with a known set of keys."""

from __future__ import annotations

import contextlib
import json
import reprlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoo.errors import FAILURES, ConfigError, PluginError, did_you_mean, shown
from zoo.registry.parameters import MAIN, LengthLimits, Table

KEYS_LIMIT = 1_000
"""The most keys of a config or a recipe."""

Width = Annotated[int, Field(ge=1, le=65_536)]
"""A dimension in a config; the bound keeps a file from requesting impossible sizes."""

Depth = Annotated[int, Field(ge=1, le=512)]
"""A number of layers in a config, bounded for the same reason."""


def _plain(value: Any) -> Any:
    """Return a value that JSON lacks as one that it has: NumPy's numbers as numbers."""
    with contextlib.suppress(*FAILURES):  # an array of several values is no number
        return value.item()
    return str(value)


def _is_none(value: Any) -> bool:
    return isinstance(value, str) and value == "none"


class Settings(BaseModel):
    """Frozen values that reject unknown keys: the base class of configs and recipes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        """Validate values, by keyword.

        Raises:
            ConfigError: it lists every wrong key and value.
        """
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise type(self)._error(f"invalid {type(self).__name__}", error) from None

    # pydantic calls another constructor, by the rules of Python's values, where it reads JSON.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # as its own has it

    @classmethod
    def parse(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validate plain values from TOML, JSON or `--set`, all by the same rules.

        Raises:
            ConfigError: it lists every wrong key and value; `where` is what was read.
        """
        if len(values) > KEYS_LIMIT:
            raise ConfigError(where, f"it has {len(values):,} keys; the limit is {KEYS_LIMIT:,}")
        lacking = sorted(getattr(cls, "__abstractmethods__", ()))
        if lacking:
            raise PluginError(
                f"the config {cls.__name__} is not complete",
                f"it does not define {', '.join(lacking)}",
            )
        try:
            return cls.model_validate_json(json.dumps(values, default=_plain))
        except ValidationError as error:
            raise cls._error(where, error) from None
        except FAILURES as error:  # of a plugin's validator
            raise broken_config(cls, f"{type(error).__name__}: {error}") from error

    @classmethod
    def faults_of(cls, values: Mapping[str, Any]) -> list[str]:
        """Return the unknown keys, and the values that are wrong whatever the others are."""
        try:
            cls.model_validate_json(json.dumps(values, default=_plain))
        except ValidationError as error:
            faults = [dict(fault) for fault in error.errors(include_url=False)]
            return [
                cls._fault(fault) for fault in faults if fault["loc"] and fault["type"] != "missing"
            ]
        return []

    @classmethod
    def _error(cls, where: str, error: ValidationError) -> ConfigError:
        count = error.error_count()
        faults = [cls._fault(dict(fault)) for fault in error.errors(include_url=False)[:20]]
        more = [f"and {count - 20} more"] if count > 20 else []
        return ConfigError(where, "; ".join(faults + more))

    @classmethod
    def _fault(cls, fault: dict[str, Any]) -> str:
        key = " ".join(".".join(str(part) for part in fault["loc"])[:100].split())
        if fault["type"] == "extra_forbidden":
            known = ", ".join(sorted(cls.model_fields))
            guess = did_you_mean(key, cls.model_fields) or f"known: {known}"
            return f"unknown key {key!r} ({guess})"
        if fault["type"] == "missing":
            return f"{key} is missing"
        # A validator may quote a value, which may be long or of several lines.
        message = " ".join(str(fault["msg"])[:1000].removeprefix("Value error, ").split())
        message = message[:1].lower() + message[1:]
        given = reprlib.repr(fault["input"])
        return f"{key} = {given}: {message}" if key else message


def broken_config(kind: type[Settings], reason: str, next: str = "") -> PluginError:
    """Return the error that a config is broken, with the module that has it."""
    where = f"the config {kind.__name__} of {kind.__module__}"
    return PluginError(f"{where} is broken", reason, next or "Report this to its author")


class Config(Settings):
    """What distinguishes the networks of one architecture.

    A subclass gives each field a description, and implements the methods below by arithmetic,
    without torch.
    """

    @classmethod
    @abstractmethod
    def example(cls) -> Self:
        """Return a tiny config, on which the laws are tested."""

    @abstractmethod
    def parameters(self, source_vocab: int, target_vocab: int) -> Table:
        """Return the parameter table for vocabularies of these sizes."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The model's width; schedules such as Noam's scale the learning rate by it."""

    @property
    def one_vocabulary(self) -> bool:
        """Whether source and target must share one vocabulary; by default not."""
        return False

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources; the first is `text`. By default there is no other."""
        return (MAIN,)

    @property
    def features(self) -> bool:
        """Whether the source is feature vectors, whose size is then given as `source_vocab`."""
        return False

    @classmethod
    def parse(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validate plain values, as all settings, and what the config says about its sources.

        `none` is None where a value may be that: TOML has no other word for it.

        Raises:
            ConfigError: as for all settings.
            PluginError: the config is not complete, raises, or contradicts itself.
        """
        optional = {
            name
            for name, declared in cls.model_fields.items()
            if type(None) in get_args(declared.annotation)
        }
        config = super().parse(
            {k: None if k in optional and _is_none(v) else v for k, v in values.items()}, where
        )
        try:
            sources, features = config.sources, config.features
            width, limits = config.width, config.length_limits
            one_vocabulary = config.one_vocabulary
        except FAILURES as error:
            raise broken_config(cls, f"{type(error).__name__}: {error}") from error
        cls._check_sources(sources, features, one_vocabulary)
        if type(width) is not int or width < 1:
            raise broken_config(cls, f"its width is {shown(width)}, not an integer of at least 1")
        if not isinstance(limits, LengthLimits) or not all(
            most is None or (type(most) is int and most > 0) for most in limits
        ):
            reason = f"its length_limits are {shown(limits)}: LengthLimits of numbers or None"
            raise broken_config(cls, reason)
        return config

    @classmethod
    def _check_sources(cls, sources: object, features: bool, one_vocabulary: bool) -> None:
        """Raise PluginError unless what a config says about its sources holds together."""
        if (
            not isinstance(sources, tuple | list)
            or not all(isinstance(source, str) for source in sources)
            or list(sources[:1]) != [MAIN]
            or len(set(sources)) != len(sources)
        ):
            reason = f"its sources are {shown(sources)}: a tuple of names, the first {MAIN!r}"
            raise broken_config(cls, f"{reason}, and no two alike")
        if features and len(sources) > 1:
            raise broken_config(
                cls,
                f"it reads feature vectors, and the sources {', '.join(sources)}: a model reads "
                "several texts, or feature vectors, but not both",
                "Put the numbers of the other source into each vector",
            )
        if one_vocabulary and (features or len(sources) > 1):
            read = "feature vectors" if features else f"the sources {', '.join(sources)}"
            raise broken_config(
                cls,
                f"it needs one vocabulary, and reads {read}: only one source of text can have the "
                "vocabulary of the target",
                "Leave one_vocabulary False, and give each side an embedding of its own",
            )

    @property
    def length_limits(self) -> LengthLimits:
        """The longest source and target in tokens, special tokens included; by default no limit."""
        return LengthLimits()


def parameters_of(config: Config, source_vocab: int, target_vocab: int) -> Table:
    """Return the parameter table of a config for vocabularies of these sizes.

    Raises:
        PluginError: `parameters` raises, or returns something else.
    """
    try:
        table: object = config.parameters(source_vocab, target_vocab)
    except FAILURES as error:
        reason = f"parameters() raised {type(error).__name__}: {error}"
        raise broken_config(type(config), reason) from error
    if not isinstance(table, Table):
        raise broken_config(type(config), f"parameters() returned {shown(table)}, not a Table")
    return table


def parse_settings(given: Sequence[str]) -> dict[str, Any]:
    """Parse `key=value` texts; a value that is not JSON is a string.

    Raises:
        ConfigError: it lists every text without an equals sign.
    """
    wrong = [text for text in given if "=" not in text]
    if wrong:
        listed = ", ".join(map(repr, wrong))
        raise ConfigError(
            "settings have the form key=value", f"there is no equals sign in {listed}"
        )
    settings = {}
    for text in given:
        key, _, value = text.partition("=")
        try:
            settings[key.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            settings[key.strip()] = value
    return settings
