"""How well a model foresees a text: exp(−log-probability / tokens), 1 for one it is certain of.

For masked models, whose tokens are each scored given all the others, this is the pseudo-perplexity of Salazar et al.
(2020), as section 5.5 of Shaier et al. (2024) writes it. Two means are in use, and differ: that over prompts, where one
strange prompt can outweigh a thousand, and that of the corpus, where every token counts alike.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fathom.metrics.uncertainty import Floats


def perplexity(log_prob: npt.ArrayLike, tokens: npt.ArrayLike) -> Floats:
    """Of each text, shapes [n] and [n] → [n].

    :param log_prob: nats, the sum over a text's scored tokens. :param tokens: how many they are.
    :raises ValueError: a log-probability above zero or NaN, or no tokens.
    """
    total, count = np.asarray(log_prob, float), np.asarray(tokens, float)
    if not (np.all(total <= 0) and np.all(count > 0)):
        raise ValueError("log-probabilities are zero or less, of one token or more")
    return np.asarray(np.exp(-total / count))
