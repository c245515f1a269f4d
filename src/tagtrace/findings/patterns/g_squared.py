"""G^2: twice the log likelihood ratio of two rates against one.

G^2 = 2 [l(k1, n1) + l(k2, n2) - l(k1 + k2, n1 + n2)],   l(k, n) = k log(k/n) + (n - k) log(1 - k/n)
"""

from __future__ import annotations

import numpy as np


def g_squared(k1: np.ndarray, n1: np.ndarray, k2: np.ndarray, n2: np.ndarray) -> np.ndarray:
    """G^2, or 0 if the first rate is not the higher one.

    >>> g_squared(*np.array([[5.0, 1.0], [5.0, 5.0], [1.0, 4.0], [20.0, 20.0]])).round(2)
    array([19.61,  0.  ])
    """
    found = 2.0 * (_log_likelihood(k1, n1) + _log_likelihood(k2, n2) - _log_likelihood(k1 + k2, n1 + n2))
    return np.where(k1 * n2 > k2 * n1, np.maximum(found, 0.0), 0.0)


def _log_likelihood(k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The maximum log likelihood of k in n."""
    return _x_log_ratio(k, n) + _x_log_ratio(n - k, n)


def _x_log_ratio(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """x log(x / n), or 0 if x is 0."""
    is_some = (x > 0) & (n > 0)
    return np.where(is_some, x * np.log(np.where(is_some, x, 1.0) / np.where(is_some, n, 1.0)), 0.0)
