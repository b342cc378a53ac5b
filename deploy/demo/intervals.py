"""The interval of a share."""

import math

_Z95 = 1.959963984540054


def wilson(num_successes: int, n: int, z: float = _Z95) -> tuple[float, float]:
    """The Wilson score interval of ``num_successes / n``, 95 % unless ``z`` says otherwise; (0, 1) for n = 0.

    Source: Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    if n == 0:
        return 0.0, 1.0
    share = num_successes / n
    scale = 1 + z * z / n
    middle = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
