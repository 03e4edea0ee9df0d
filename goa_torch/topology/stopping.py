"""Stop-modules: is another round worth its tokens?

``forward(state, round) -> [B] bool``: the questions that are finished before ``round`` (from 1) begins. They leave
the batch and cost nothing more. Shares are of all agents of a question: who abstains (unparsed, unfinished, failed)
agrees with nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..errors import UserError, unknown

if TYPE_CHECKING:
    from ..state import State


class FixedRounds(nn.Module):
    """Stops after ``rounds`` rounds of talking (0: independent answers only); ``None`` leaves it to the connect-module,
    which ends a run by returning no topology."""

    def __init__(self, rounds: int | None) -> None:
        super().__init__()
        self.rounds = rounds

    def forward(self, state: State, round: int) -> Tensor:
        """[B] bool: questions that are finished before ``round`` (from 1) begins."""
        over = self.rounds is not None and round > self.rounds
        return torch.full((state.num_graphs,), over, dtype=torch.bool)

    def extra_repr(self) -> str:
        return f"rounds={self.rounds}"


class Agreement(nn.Module):
    """Stops when one answer is held by at least ``share`` of all agents (1: unanimity).

    Args:
        share: of all agents of the question, those that abstain included.
        strict: more than ``share``.
        gate: look only before the first round: an agreement gate before any debate.
        kept: count only the agents that still take part, for methods that drop some on the way.
    """

    def __init__(self, share: float = 1.0, strict: bool = False, gate: bool = False, kept: bool = False) -> None:
        super().__init__()
        self.kept = kept
        self.share = share
        self.strict = strict
        self.gate = gate

    def forward(self, state: State, round: int) -> Tensor:
        from .uncertainty import votes

        stop = torch.zeros(state.num_graphs, dtype=torch.bool)
        if self.gate and round > 1:
            return stop
        for question in _open(state):
            nodes = [v for v in state.nodes_of(question) if not self.kept or bool(state.kept[v])]
            groups = votes(state, question, nodes)
            held = max(map(len, groups), default=0) / max(1, len(nodes))
            stop[question] = held > self.share + 1e-9 if self.strict else held >= self.share - 1e-9
        return stop & torch.tensor([bool(state.nodes_of(q)) for q in range(state.num_graphs)])

    def extra_repr(self) -> str:
        return f"share={self.share:.4g}, strict={self.strict}, gate={self.gate}"


class MajorityStable(nn.Module):
    """Stops when the majority answer has not changed for ``rounds`` rounds of talking. The majority is that of the
    vote readout, its drawn ties included; no answer at all is never stable."""

    def __init__(self, rounds: int = 2) -> None:
        super().__init__()
        self.rounds = rounds

    def forward(self, state: State, round: int) -> Tensor:
        from ..nn.readout import elect

        stop = torch.zeros(state.num_graphs, dtype=torch.bool)
        recent = state.history[-1 - self.rounds :]
        if len(recent) <= self.rounds:
            return stop
        for question in _open(state):
            voters = [(node, 1.0) for node in state.nodes_of(question)]
            won = [elect(state, question, voters, replies)[:1] for replies in recent]
            if all(won):
                first, *others = [replies[node].answer for replies, (node,) in zip(recent, won)]
                reader = state.questions[question].reader
                stop[question] = all(other == first or reader.equal(first, other) for other in others)
        return stop

    def extra_repr(self) -> str:
        return f"rounds={self.rounds}"


class UncertaintyGate(nn.Module):
    """Stops when a question's uncertainty is at most ``below``.

    Args:
        below: the threshold.
        source: ``entropy``: of the answer distribution, divided by log n, in [0, 1]; ``agreement``, ``tokens``,
            ``stated``: mean over the agents of :func:`goa_torch.topology.uncertainty.uncertainty` (infinite, so never
            finished, where a model does not tell its log-probabilities).
    """

    def __init__(self, below: float = 0.25, source: str = "entropy") -> None:
        super().__init__()
        self.below = below
        self.source = source

    def forward(self, state: State, round: int) -> Tensor:
        from .uncertainty import answer_entropy, uncertainty

        if self.source == "entropy":
            return answer_entropy(state) <= self.below + 1e-9
        unsure = uncertainty(state, self.source)  # type: ignore[arg-type]
        count = torch.bincount(state.batch, minlength=state.num_graphs)
        total = unsure.new_zeros(state.num_graphs).index_add(0, state.batch, unsure)
        return (total / count.clamp_min(1) <= self.below + 1e-9) & (count > 0)

    def extra_repr(self) -> str:
        return f"below={self.below}, source={self.source!r}"


class AnyOf(nn.Module):
    """Stops when one of its rules does."""

    def __init__(self, *rules: nn.Module) -> None:
        super().__init__()
        self.rules = nn.ModuleList(rules)

    def forward(self, state: State, round: int) -> Tensor:
        return torch.stack([rule(state, round) for rule in self.rules]).any(dim=0)


class AllOf(nn.Module):
    """Stops when all of its rules do, in the same round."""

    def __init__(self, *rules: nn.Module) -> None:
        super().__init__()
        self.rules = nn.ModuleList(rules)

    def forward(self, state: State, round: int) -> Tensor:
        return torch.stack([rule(state, round) for rule in self.rules]).all(dim=0)


def _open(state: State) -> list[int]:
    return (~state.done).nonzero().flatten().tolist()


# --------------------------------------------------------------------------- rules as settings


def _number(rule: str, text: str, least: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise UserError(f"stopping rule {rule!r}: {text!r} must be a number between {least:g} and {most:g}")
    return value


def _rounds(rule: str, text: str, least: int) -> int:
    value = _number(rule, text, least, 1e6)
    if value != int(value):
        raise UserError(f"stopping rule {rule!r}: {text!r} must be a whole number")
    return int(value)


#: Rule name -> (its argument if none is given, what it builds from rule and argument).
_RULES: dict[str, tuple[str, Callable[[str, str], nn.Module]]] = {
    "rounds": ("3", lambda rule, text: FixedRounds(_rounds(rule, text, 0))),
    "unanimity": ("1", lambda rule, text: Agreement(_number(rule, text, 1, 1))),
    "agreement": ("0.67", lambda rule, text: Agreement(_number(rule, text, 0, 1))),
    "gate": ("0.67", lambda rule, text: Agreement(_number(rule, text, 0, 1), gate=True)),
    "stable": ("2", lambda rule, text: MajorityStable(_rounds(rule, text, 1))),
    "entropy": ("0.25", lambda rule, text: UncertaintyGate(_number(rule, text, 0, 1))),
    "tokens": ("0.25", lambda rule, text: UncertaintyGate(_number(rule, text, 0, 1e6), "tokens")),
    "stated": ("0.25", lambda rule, text: UncertaintyGate(_number(rule, text, 0, 1), "stated")),
}


def parse_stop(rule: str | None, rounds: int | None) -> nn.Module:
    """The stop-module a setting names, beside the limit of ``rounds`` rounds of talking.

    A rule is ``name`` or ``name:argument``: ``rounds:3``, ``unanimity``, ``agreement:0.67`` (share of all agents that
    hold one answer), ``gate:0.67`` (the same, before the first round only), ``stable:2`` (majority unchanged for two
    rounds), ``entropy:0.25``, ``tokens:0.25`` and ``stated:0.25`` (uncertainty at most that). ``a & b`` stops when
    both do, ``a | b`` when one does; ``&`` binds more tightly.

    Raises:
        UserError: if there is no such rule.

    Example:
        >>> parse_stop("stable:2 & entropy:0.3 | unanimity", rounds=13)  # doctest: +ELLIPSIS
        AnyOf(...
    """
    limit = FixedRounds(rounds)
    if rule is None:
        return limit
    if not isinstance(rule, str):
        raise UserError(f"stopping rule {rule!r} must be text, such as 'unanimity' or 'stable:2 | entropy:0.3'")
    either = []
    for part in rule.split("|"):
        both = [_parse(atom.strip(), rule) for atom in part.split("&")]
        either.append(both[0] if len(both) == 1 else AllOf(*both))
    return AnyOf(limit, *either)


def _parse(atom: str, rule: str) -> nn.Module:
    name, _, argument = atom.partition(":")
    name = name.strip()
    if name not in _RULES:
        raise unknown("rule", name, _RULES, f"stopping rule {rule!r}")
    default, build = _RULES[name]
    return build(rule, argument.strip() or default)
