"""SmolLM2's tokenizer, as a reference encoder and as the table of bytes that redaction reads."""

from pathlib import Path

import pytest

from dataproxy.redact import Redactor, TokenBytes
from tests.dataproxy.redact.encoder import MASK_ID, Encoder


@pytest.fixture(scope="session")
def tokenizer_file(tiny_model_dir: Path) -> Path:
    return tiny_model_dir / "tokenizer.json"


@pytest.fixture(scope="session")
def encoder(tokenizer_file: Path) -> Encoder:
    return Encoder(tokenizer_file)


@pytest.fixture(scope="session")
def tokens(tokenizer_file: Path) -> TokenBytes:
    return TokenBytes.from_file(tokenizer_file)


@pytest.fixture(scope="session")
def redactor(tokens: TokenBytes) -> Redactor:
    return Redactor(b"k" * 32, MASK_ID, tokens)
