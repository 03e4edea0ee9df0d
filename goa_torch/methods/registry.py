"""Methods by name, without loading torch: where each lives and what it is in a line."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown

if TYPE_CHECKING:
    from ..agents.pool import Pool
    from .base import Method

_METHODS: dict[str, tuple[str, str]] = {}


def register(name: str, target: str, summary: str) -> None:
    """Makes ``target`` (``module:Class``, a :class:`Method`) known as ``name``. A name is taken once."""
    if name in _METHODS and _METHODS[name][0] != target:
        raise UserError(f"method {name!r} is taken by {_METHODS[name][0]}; choose another name for {target}")
    _METHODS[name] = (target, summary)


register("single", "goa_torch.methods.single:Single", "one agent, one answer")
register("routed_single", "goa_torch.methods.single:RoutedSingle", "the meta-LLM picks one agent, which answers")
register("iterate", "goa_torch.methods.iterate:Iterate", "one agent rereads its own reply, as many calls as a graph")
register("vote", "goa_torch.methods.vote:Vote", "first answers of several agents, majority")
register("self_consistency", "goa_torch.methods.vote:SelfConsistency", "n samples of one agent, majority")
register("moa", "goa_torch.methods.moa:MoA", "Mixture-of-Agents: layers that read all replies, then a synthesis")
register("goa", "goa_torch.methods.goa:GoA", "Graph-of-Agents: select, score, source to target and back, read out")
register("mad", "goa_torch.methods.mad:MAD", "debate: everybody hears everybody, majority")
register("sparse_mad", "goa_torch.methods.sparse_mad:SparseMAD", "debate over a fixed sparse graph")
register("ring_mad", "goa_torch.methods.ring_mad:RingMAD", "debate on a ring")
register("small_world", "goa_torch.methods.small_world:SmallWorldMAD", "debate with one near and one distant peer")
register("random_nodup", "goa_torch.methods.random_nodup:RandomNoDup", "debate with k peers drawn anew each round")
register("stage_switching", "goa_torch.methods.stage_switching:StageSwitchingMAD",
         "debate under one rule first, another one later")
register("random_switching", "goa_torch.methods.random_switching:RandomSwitchingMAD",
         "debate under a rule drawn anew each round")
register("uncertainty_guided", "goa_torch.methods.uncertainty_guided:UncertaintyGuidedMAD",
         "debate in which sure peers are heard more often")
register("refine", "goa_torch.methods.refine:Refine", "one agent answers, criticises its answer and answers again")
register("self_moa", "goa_torch.methods.self_moa:SelfMoA", "samples of one agent, synthesised by the same agent")
register("handoff", "goa_torch.methods.handoff:Handoff", "the meta-LLM hands the question from agent to agent")
register("macnet", "goa_torch.methods.macnet:MacNet", "actors on the nodes of a directed graph, critics on its edges")
register("dylan", "goa_torch.methods.dylan:DyLAN", "layers of agents, ranked, rated and stopped early")
register("reconcile", "goa_torch.methods.reconcile:ReConcile",
         "a round table that states its confidence, weighted vote")
register("groupdebate", "goa_torch.methods.groupdebate:GroupDebate", "debate in groups that exchange summaries")
register("s2_mad", "goa_torch.methods.s2_mad:S2MAD", "debate only with those who disagree")
register("armor_mad", "goa_torch.methods.armor_mad:ArmorMAD", "debate skipped where agents agree, read out by trust")
register("learned", "goa_torch.methods.learned:Learned", "debate over a topology learned by goa train")
register("vote_tokens", "goa_torch.methods.vote_tokens:VoteTokens", "majority of the answers a token budget pays for")
register("debunc", "goa_torch.methods.debunc:DebUnc", "debate whose agents are told how sure the others are")
register("colmad", "goa_torch.methods.colmad:ColMAD", "two debaters that help each other, then a judge")
register("rumad", "goa_torch.methods.rumad:RUMAD", "debate under a controller trained with reinforcement learning")


def method_names() -> list[str]:
    """Every method's name."""
    return sorted(_METHODS)


def name_of(cls: type) -> str:
    """The name under which a class is registered; of a class that is not, its own."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    return next((name for name, (known, _) in _METHODS.items() if known == target), cls.__name__)


def describe_method(name: str) -> str:
    """A line on what the method is."""
    return _entry(name)[1]


def method_class(name: str) -> type[Method]:
    """The class of a method; loads torch."""
    module, _, attribute = _entry(name)[0].partition(":")
    return getattr(import_module(module), attribute)


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


def _entry(name: str) -> tuple[str, str]:
    if name not in _METHODS:
        raise unknown("method", name, _METHODS)
    return _METHODS[name]
