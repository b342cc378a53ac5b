"""The file of external models: which names agents may use, which model of which provider answers, and at what price.

Example:
    [[models]]
    name = "judge"
    litellm_model = "openai/gpt-4o-mini"
    api_key_env = "OPENAI_API_KEY"
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.external.errors import InvalidCatalog


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of the file. ``litellm_model`` is litellm's name, its provider in front; costs are US dollars a token."""

    name: str
    litellm_model: str
    api_base: str | None = None
    api_key_env: str | None = None
    input_cost_per_token: float | None = None
    output_cost_per_token: float | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: list[_Entry] = []


@dataclass(slots=True, frozen=True)
class Price:
    """US dollars a token; None: as litellm knows it."""

    input: float | None = None
    output: float | None = None


@dataclass(slots=True, frozen=True)
class ExternalModel:
    """A model behind this process. ``api_key`` is never shown."""

    name: str
    litellm_model: str
    api_base: str | None
    api_key: str | None
    price: Price

    def __repr__(self) -> str:
        return f"ExternalModel({self.name!r}, {self.litellm_model!r}, {self.api_base!r})"


Catalog = Mapping[str, ExternalModel]


def read_catalog(path: Path, environment: Mapping[str, str] = os.environ) -> Catalog:
    """The models in the file at ``path``, by name; keys come out of ``environment``.

    Raises:
        InvalidCatalog: there is no such file, or it breaks a rule.
    """
    try:
        entries = msgspec.convert(tomllib.loads(path.read_text()), _File).models
    except OSError as error:
        raise InvalidCatalog(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InvalidCatalog(f"{path}: {error}") from error
    catalog = {entry.name: _model(entry, path, environment) for entry in entries}
    if len(catalog) < len(entries):
        raise InvalidCatalog(f"{path}: two models have the same name")
    return catalog


def _model(entry: _Entry, path: Path, environment: Mapping[str, str]) -> ExternalModel:
    key = None
    if entry.api_key_env:
        key = environment.get(entry.api_key_env)
        if not key:
            raise InvalidCatalog(f"{path}: the model {entry.name} takes its key from {entry.api_key_env}, which is not set")
    price = Price(entry.input_cost_per_token, entry.output_cost_per_token)
    return ExternalModel(entry.name, entry.litellm_model, entry.api_base, key, price)
