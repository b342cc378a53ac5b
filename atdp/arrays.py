"""Number arrays on the wire: base64 of little-endian int32 or float32, and raw bytes in the store."""

import base64
import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atdp.errors import InvalidArray

INT32 = np.dtype("<i4")
FLOAT32 = np.dtype("<f4")
UINT8 = np.dtype("u1")


def encode(array: NDArray[Any] | list[int] | list[float], dtype: np.dtype[Any]) -> str:
    """Base64 text of ``array`` [N] in ``dtype``."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode()


def decode(text: str | bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The array [N] behind base64 ``text``; read-only.

    Raises:
        InvalidArray: not base64, or not a whole number of elements.
    """
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), dtype=dtype)
    except (binascii.Error, ValueError) as error:
        raise InvalidArray(f"not a base64 array of {dtype}: {error}") from error
