"""Encodes with the real tokenizer, for tests that need exact ids."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

MASK_ID = 16


class Encoder:
    """SmolLM2's tokenizer as the reference."""

    def __init__(self, path: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(path))

    def ids(self, text: str) -> NDArray[np.int32]:
        return np.array(self.tokenizer.encode(text).ids, np.int32)

    def chat(self, *turns: tuple[str, str]) -> NDArray[np.int32]:
        """The ids of a rendered conversation, ready for the assistant to answer."""
        rendered = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns)
        return self.ids(f"{rendered}<|im_start|>assistant\n")

    def text(self, ids: NDArray[np.int32]) -> str:
        return str(self.tokenizer.decode(ids.tolist(), skip_special_tokens=False))
