"""How sure a result is of its answer, from three sources behind one name."""

from __future__ import annotations

import math

from ..nn.confidence import stated_confidence
from ..topology.uncertainty import SOURCES, Source, token_uncertainty
from ..types import Result
from .trajectory import Trajectory


def confidence(result: Result, source: Source = "agreement") -> float | None:
    r"""The confidence of a result in its answer, in [0, 1]; ``None`` if there is no answer or the source says nothing.

    What :func:`goa_torch.topology.uncertainty.uncertainty` says of a node, for what was read out:

    Args:
        result: of any method.
        source: ``agreement``: share of all agents whose last reply gives the answer (``None`` for a lone agent);
            ``tokens``: geometric mean of the token probabilities of the reply, :math:`\exp(\frac1L \sum_l \log p_l)`
            (``None`` if the model does not tell); ``stated``: the confidence that the reply states.
    """
    if result.answer is None:
        return None
    if source == "tokens":
        unsure = token_uncertainty(result.reply)
        return min(1.0, math.exp(-unsure)) if math.isfinite(unsure) else None
    if source == "stated":
        return stated_confidence(result.reply.text)
    last = [reply.answer for reply in Trajectory.of(result).history[-1]]
    if len(last) < 2:
        return None
    reader = result.question.reader
    return sum(a is not None and (a == result.answer or reader.equal(result.answer, a)) for a in last) / len(last)


def confidences(result: Result) -> dict[str, float]:
    """The confidence from every source that says something."""
    found = {source: confidence(result, source) for source in SOURCES}  # type: ignore[arg-type]
    return {source: level for source, level in found.items() if level is not None}
