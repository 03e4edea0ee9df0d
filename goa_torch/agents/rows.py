"""What the decoding loops work on: a prompt, how to go on from it, and how far that got."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..types import FinishReason, Sampling
from .edge_rows import RowEdges
from .token_sampling import next_tokens

#: Prompts share a prefill only if that saves at least this many tokens.
SHARED_TOKENS = 32
#: Most memory kept from one batch for the next.
KEPT_BYTES = 2**27
#: Most logits held at once while scoring.
SCORED_LOGITS = 2**26


@dataclass(slots=True, eq=False)
class Row:
    """A prompt, how to go on from it, and how far that got.

    Attributes:
        ids: the prompt.
        watch: told each new token, returns whether a stop string is complete; ``None`` if there are none.
        new: tokens generated, the end-of-sequence token included.
        log_prob: sum of the log-probabilities of ``new``.
        finish: why the row ended, ``None`` while it has not.
        error: what went wrong, if the finish is ``error``.
        cached: tokens of the prompt whose prefill was reused.
        tail: for scoring: how many of the last tokens of ``ids`` are scored instead of generating.
        others: for scoring with ``tail`` 1: other tokens in the place of the last one, scored in the same pass.
        other_log_probs: their log-probabilities.
        edges: how loudly the prompt's messages are heard; ``None`` for plain text.
    """

    ids: list[int]
    sampling: Sampling
    stream: int = 0
    watch: Callable[[int], bool] | None = None
    tail: int = 0
    new: list[int] = field(default_factory=list)
    log_prob: float = 0.0
    finish: FinishReason | None = None
    error: str = ""
    cached: int = 0
    keys: list[int] = field(default_factory=list)
    others: list[int] = field(default_factory=list)
    other_log_probs: list[float] = field(default_factory=list)
    edges: RowEdges | None = None
    _marked: list[Hashable] | None = None

    @property
    def marked(self) -> list[Hashable]:
        """The prompt as prefixes know it: tokens, each with what else its key and value depend on."""
        if self._marked is None:
            self._marked = list(self.ids) if self.edges is None else self.edges.marked(self.ids)
        return self._marked

    @property
    def known(self) -> list[int]:
        """Everything to be prefilled: the prompt, and what was generated before the row was put back."""
        return self.ids + self.new

    @property
    def need(self) -> int:
        """Most columns the row will ever use."""
        return len(self.ids) + (0 if self.tail else self.sampling.max_new_tokens)

    def fail(self, error: str) -> None:
        self.finish, self.error = "error", error

    def score(self, logits: Tensor) -> None:
        """Fills the log-probabilities of the last ``tail`` tokens from the logits that predict them, [tail, V]."""
        targets = torch.tensor(self.ids[-self.tail :], device=logits.device)
        scores = logits.float().log_softmax(dim=-1)
        self.log_prob = float(scores.gather(1, targets[:, None]).double().sum())
        self.other_log_probs = scores[0, torch.tensor(self.others, dtype=torch.long)].tolist()
        self.finish = "stop"


def draw(rows: Sequence[Row], logits: Tensor, ends: Collection[int]) -> None:
    """Adds to each row its next token, drawn from ``logits`` [rows, V]; ``ends`` are the tokens that end a reply."""
    tokens, log_probs = next_tokens(
        logits, [r.sampling.temperature for r in rows], [r.sampling.top_p for r in rows],
        [r.stream for r in rows], [len(r.new) for r in rows])
    for row, token, log_prob in zip(rows, tokens.tolist(), log_probs.tolist()):
        if math.isnan(log_prob):
            row.fail("the model returned numbers that are not finite; try dtype=float32")
            continue
        row.new.append(token)
        row.log_prob += log_prob
        if token in ends or (row.watch is not None and row.watch(token)):
            row.finish = "stop"
        elif len(row.new) >= row.sampling.max_new_tokens:
            row.finish = "length"
