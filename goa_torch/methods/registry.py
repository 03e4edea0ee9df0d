"""Methods by name, without loading torch: where each lives and what it is in a line."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from .base import Method

#: Name -> (where it lives, what it is in a line, calls a question).
_METHODS: dict[str, tuple[str, str, str]] = {}


def register(name: str, target: str, summary: str, calls: str = "") -> None:
    """Makes ``target`` (``module:Class``, a :class:`Method`) known as ``name``. A name is taken once.

    Args:
        summary: what it is, in a line.
        calls: how many calls a question costs with the default settings of everything but numbers, as a formula:
            ``n`` agents take part, ``k`` are chosen or heard, each answers ``T`` times at most (rounds, layers,
            samples); other names are the method's settings; ``<=`` before it if a question may end earlier.
    """
    if name in _METHODS and _METHODS[name][0] != target:
        raise UserError(f"method {name!r} is taken by {_METHODS[name][0]}; choose another name for {target}")
    _METHODS[name] = (target, summary, calls)


register("single", "goa_torch.methods.single:Single", "one agent, one answer", "1")
register("routed_single", "goa_torch.methods.single:RoutedSingle", "the meta-LLM picks one agent, which answers", "2")
register("iterate", "goa_torch.methods.iterate:Iterate",
         "one agent rereads its own reply, as many calls as a graph", "T")
register("vote", "goa_torch.methods.vote:Vote", "first answers of several agents, majority", "n T")
register("self_consistency", "goa_torch.methods.vote:SelfConsistency", "n samples of one agent, majority", "n")
register("moa", "goa_torch.methods.moa:MoA",
         "Mixture-of-Agents: layers that read all replies, then a synthesis", "n T + 1")
register("goa", "goa_torch.methods.goa:GoA",
         "Graph-of-Agents: select, score, source to target and back, read out", "4 k - 1")
register("mad", "goa_torch.methods.mad:MAD", "debate: everybody hears everybody, majority", "n T")
register("sparse_mad", "goa_torch.methods.sparse_mad:SparseMAD", "debate over a fixed sparse graph", "n T")
register("ring_mad", "goa_torch.methods.ring_mad:RingMAD", "debate on a ring", "n T")
register("small_world", "goa_torch.methods.small_world:SmallWorldMAD",
         "debate with one near and one distant peer", "n T")
register("random_nodup", "goa_torch.methods.random_nodup:RandomNoDup",
         "debate with k peers drawn anew each round", "n T")
register("random_fixed", "goa_torch.methods.random_fixed:RandomFixed", "debate with k random peers that stay", "n T")
register("stage_switching", "goa_torch.methods.stage_switching:StageSwitchingMAD",
         "debate under one rule first, another one later", "n T")
register("random_switching", "goa_torch.methods.random_switching:RandomSwitchingMAD",
         "debate under a rule drawn anew each round", "n T")
register("uncertainty_guided", "goa_torch.methods.uncertainty_guided:UncertaintyGuidedMAD",
         "debate in which sure peers are heard more often", "n T")
register("refine", "goa_torch.methods.refine:Refine",
         "one agent answers, criticises its answer and answers again", "<= 2 T - 1")
register("self_moa", "goa_torch.methods.self_moa:SelfMoA",
         "samples of one agent, synthesised by the same agent", "n T + 1")
register("handoff", "goa_torch.methods.handoff:Handoff",
         "the meta-LLM hands the question from agent to agent", "<= 2 T")
register("macnet", "goa_torch.methods.macnet:MacNet",
         "actors on the nodes of a directed graph, critics on its edges", "2 n - 1")
register("dylan", "goa_torch.methods.dylan:DyLAN",
         "layers of agents, ranked, rated and stopped early", "<= 2 n + 1 + keep (T - 2)")
register("reconcile", "goa_torch.methods.reconcile:ReConcile",
         "a round table that states its confidence, weighted vote", "<= n T")
register("groupdebate", "goa_torch.methods.groupdebate:GroupDebate",
         "debate in groups that exchange summaries", "n T + groups (stages - 1)")
register("s2_mad", "goa_torch.methods.s2_mad:S2MAD", "debate only with those who disagree", "<= n T")
register("armor_mad", "goa_torch.methods.armor_mad:ArmorMAD",
         "debate skipped where agents agree, read out by trust", "<= n T")
register("gptswarm", "goa_torch.methods.staged:GPTSwarm", "a learned acyclic graph, every agent speaks once", "n")
register("agentprune", "goa_torch.methods.staged:AgentPrune",
         "learned edges within and between rounds, most of them pruned", "<= n T")
register("agentdropout", "goa_torch.methods.agentdropout:AgentDropout",
         "learned edges from which agents, then edges, are dropped by round", "<= n T")
register("gdesigner", "goa_torch.methods.gdesigner:GDesigner", "a learned acyclic graph for each question", "<= n T")
register("learned", "goa_torch.methods.learned:Learned", "debate over a topology learned by goa train", "<= n T")
register("vote_tokens", "goa_torch.methods.vote_tokens:VoteTokens",
         "majority of the answers a token budget pays for", "<= n most")
register("debunc", "goa_torch.methods.debunc:DebUnc", "debate whose agents are told how sure the others are", "n T")
register("colmad", "goa_torch.methods.colmad:ColMAD", "two debaters that help each other, then a judge", "2 T + 1")
register("rumad", "goa_torch.methods.rumad:RUMAD",
         "debate under a controller trained with reinforcement learning", "<= n T")


def method_names() -> list[str]:
    """Every method's name."""
    return sorted(_METHODS)


def name_of(cls: type) -> str:
    """The name under which a class is registered; of a class that is not, its own."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    return next((name for name, (known, *_) in _METHODS.items() if known == target), cls.__name__)


def describe_method(name: str) -> str:
    """A line on what the method is."""
    return _entry(name)[1]


def calls_formula(name: str) -> str:
    """How many calls a question costs, as a formula (see :func:`register`)."""
    return _entry(name)[2]


def method_class(name: str) -> type[Method]:
    """The class of a method; loads torch.

    Raises:
        UserError: if there is no such method.
    """
    module, _, attribute = _entry(name)[0].partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        if name in _METHODS and not (isinstance(error, ModuleNotFoundError) and error.name == module):
            raise
        raise UserError(f"method {name!r}: {error}; is the folder of its file on PYTHONPATH?") from error
    if not hasattr(found, "parameters_of"):
        raise UserError(f"method {name!r}: {attribute} is no method; it must be a goa_torch.methods.base.Method")
    return found


def build_method(name: str, pool: Pool, **settings: Any) -> Method:
    """The method ``name`` over ``pool``.

    Raises:
        UserError: unknown name or setting, or a setting that does not go with the pool.
    """
    cls = method_class(name)
    known = cls.parameters_of()
    for setting in settings:
        if setting not in known:
            raise unknown("setting", setting, known, f"method {name!r}")
    return cls(pool, **settings)


def _entry(name: str) -> tuple[str, str, str]:
    if name not in _METHODS and re.fullmatch(r"[\w.]+:\w+", name):  # module:Class, a method of somebody's own
        return (name, "", "")
    if name not in _METHODS:
        raise unknown("method", name, _METHODS)
    return _METHODS[name]
