"""YAML files as dataclasses: unknown keys rejected, and errors that say where in the file they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from .errors import UserError, unknown

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a YAML file, for messages: ``pools/mine.yaml, line 12, agents[2].card``."""

    file: Path
    keys: tuple[str | int, ...] = ()

    def __truediv__(self, key: str | int) -> Place:
        return Place(self.file, (*self.keys, key))

    def __str__(self) -> str:
        path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self.keys).lstrip(".")
        line = self.line()
        return ", ".join([str(self.file), *([f"line {line}"] if line else []), *([path] if path else [])])

    def line(self) -> int | None:
        """The line on which the innermost key that the file really holds stands."""
        import yaml

        try:
            node = yaml.compose(self.file.read_text(encoding="utf-8-sig"), Loader=yaml.SafeLoader)
        except (OSError, ValueError, yaml.YAMLError):
            return None
        line = None
        for key in self.keys:
            if isinstance(node, yaml.MappingNode):
                found = next(((k, v) for k, v in node.value if k.value == str(key)), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
                found = (node.value[key], node.value[key])
            else:
                found = None
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        return line


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file, interpolations (``${oc.env:HOME}``) resolved; loads plain data, never objects.

    Raises:
        UserError: if the file is missing, is not YAML, holds a key twice or is not a mapping.
    """
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        loaded = OmegaConf.create(path.read_text(encoding="utf-8-sig"))
        data = OmegaConf.to_container(loaded, resolve=True)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path}{line}: {error.problem or error}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: not a YAML file in UTF-8: {first_line(error)}") from error
    except OmegaConfBaseException as error:
        raise UserError(f"{path}, {error.full_key}: {first_line(error)}") from error
    if not isinstance(data, dict) or any(not isinstance(key, str) for key in data):
        raise UserError(f"{path}: must be a mapping of names to values, not {type(data).__name__}")
    return data


def override(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """``data`` with ``key=value`` words applied: keys are dotted (``tasks.0.limit=8``), values are YAML.

    Raises:
        UserError: for a word that is no setting.
    """
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    config = OmegaConf.create(data)
    for word in overrides:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UserError(f"{word!r} is not a setting of the experiment; write key=value")
        try:
            parsed = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={value}"]))["value"]  # type: ignore[index]
            OmegaConf.update(config, key, parsed, merge=False, force_add=True)
        except (OmegaConfBaseException, yaml.YAMLError, ValueError, TypeError, IndexError) as error:
            raise UserError(f"setting {word!r}: {first_line(error)}") from error
    try:
        return OmegaConf.to_container(config, resolve=True)  # type: ignore[return-value]
    except OmegaConfBaseException as error:
        raise UserError(f"setting {error.full_key}: {first_line(error)}") from error


def typed(cls: type[T], data: Any, place: Place) -> T:
    """``data`` as the dataclass ``cls``: missing keys take their defaults, values are converted to the fields' types.

    Raises:
        UserError: for an unknown key (with the closest known one), a missing key or a value of another type.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException

    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    if not isinstance(data, dict):
        raise UserError(f"{place}: must be a mapping with the keys {', '.join(names)}, not {data!r}")
    for key in data:
        if key not in names:
            raise unknown("key", key, names, str(place / key))
    try:
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(cls), data))  # type: ignore[return-value]
    except MissingMandatoryValue as error:
        raise UserError(f"{place}: {error.full_key!r} is missing") from error
    except ConfigKeyError as error:
        raise UserError(f"{place / error.full_key}: {first_line(error)}") from error
    except OmegaConfBaseException as error:
        inside = place / error.full_key if error.full_key else place
        raise UserError(f"{inside}: {first_line(error)}") from error
    except (TypeError, ValueError, OverflowError) as error:  # what OmegaConf does not turn into an error of its own
        wrong = next((key for key, value in data.items() if not _fits(cls, key, value)), None)
        where, kind = (place, "this") if wrong is None else (place / wrong, type(data[wrong]).__name__)
        raise UserError(f"{where}: {kind} does not fit here ({first_line(error)})") from error


def _fits(cls: type, key: str, value: Any) -> bool:
    """Whether the lone ``value`` is one for the field ``key``."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        OmegaConf.merge(OmegaConf.structured(cls), {key: value})
    except (OmegaConfBaseException, TypeError, ValueError, OverflowError):
        return False
    return True


def first_line(error: BaseException) -> str:
    """What an error says, without the lines that follow."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
