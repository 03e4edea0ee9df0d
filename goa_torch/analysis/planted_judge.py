"""Judges of Relay whose quality is set, not learned: how much of a method's gain hangs on its judges?"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

from ..agents.base import LanguageModel
from ..agents.wrapped import WrappedModel
from ..errors import UserError
from ..randomness import stream, uniforms
from ..tasks.relay import parse
from ..types import Chat, Reply

#: Separation of neighbouring levels for judges that never err.
_PERFECT = 12.0


class PlantedJudge(WrappedModel):
    r"""A model of Relay's that answers as it is, but judges with a quality that was chosen.

    Of two replies in one prompt, the better one (more layers right behind it; wrong ones last) gets the higher score
    with probability ``auroc`` if they are of neighbouring levels: a reply of the l-th lowest level gets
    :math:`z = l \sqrt 2\, \Phi^{-1}(\mathrm{auroc}) + \epsilon`, :math:`\epsilon \sim N(0, 1)`, written as
    :math:`1 + 98\,\sigma(z - \bar z)`. Levels are those that occur among the replies; of two that are more than one
    level apart the better one wins more often. The wrapped model makes the call all the same, so costs are alike.

    Args:
        auroc: 0.5 (chance) to 1 (never errs).
        source: folder of the model, see :class:`goa_torch.agents.hf.HFModel`.
        model: a model to wrap, instead of ``source``.
    """

    _what = "planted judge"

    def __init__(self, auroc: float, source: str | Path | None = None, name: str = "judge", dtype: str = "auto",
                 device: str = "auto", model: LanguageModel | None = None) -> None:
        if not 0.5 <= auroc <= 1:
            raise UserError(f"planted judge {name!r}: auroc must be from 0.5 to 1, not {auroc}")
        super().__init__(source, name, dtype, device, model)
        self.auroc = float(auroc)
        self.step = _PERFECT if auroc == 1 else math.sqrt(2) * NormalDist().inv_cdf(self.auroc)

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        return f"judge:{self.auroc}:{self.name}|{self.model.fingerprint}"

    def changed(self, chat: Chat, reply: Reply) -> Reply:
        question, *rest = chat.text.strip().splitlines()
        expression = parse(question)
        if expression is None or not rest or rest[-1] != "score":
            return reply
        right = [str(e) for e in expression.partial_results()]
        heard = [re.sub(r"^reply ", "", line) for line in rest[:-1]]
        done = [right.index(text) if text in right else -1 for text in heard]
        levels = sorted(set(done))
        names = [stream("planted judge", self.name, chat.stream, question, place, text)
                 for place, text in enumerate(heard)]
        u = uniforms(names, [0] * len(names))
        z = [levels.index(d) * self.step + NormalDist().inv_cdf(min(max(float(x), 1e-12), 1 - 1e-12))
             for d, x in zip(done, u)]
        mean = sum(z) / len(z)
        scores = [round(1 + 98 / (1 + math.exp(mean - value))) for value in z]
        return replace(reply, text=" ".join(map(str, scores)), finish_reason="stop")
