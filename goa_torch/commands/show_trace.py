"""How the answer to one question came about, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..agents.pool import Pool
from ..types import Result, Usage
from .console import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def show_result(result: Result, pool: Pool, out: Console, wall_seconds: float) -> None:
    """Prints every stage of ``result.trace``, then the answer and what it cost."""
    names = node_names(result.trace)
    for stage in result.trace["stages"]:
        show = _STAGES.get(stage["stage"])
        if show is not None:
            show(stage, names, pool, out)
    _show_answer(result, out)
    _show_cost(result, out, wall_seconds)


def node_names(trace: dict[str, Any]) -> list[str]:
    """A name for each node: the agent's, numbered where several nodes are copies of one agent."""
    agents = trace["agents"]
    seen: dict[str, int] = {}
    names = []
    for agent in agents:
        seen[agent] = seen.get(agent, 0) + 1
        names.append(f"{agent} #{seen[agent]}" if agents.count(agent) > 1 else agent)
    return names


def _heading(out: Console, text: str) -> None:
    out.print()
    out.rule(text, align="left", style="dim")


def _show_select(stage: dict[str, Any], names: list[str], pool: Pool, out: Console) -> None:
    _heading(out, "select: who takes part")
    if stage["by"] == "meta":
        if stage.get("shortlist"):
            out.print(f"A search over {len(pool):,} cards shortlisted {', '.join(stage['shortlist'])}.")
        if stage.get("probabilities"):
            ranked = sorted(stage["probabilities"].items(), key=lambda item: -item[1])
            likely = ", ".join(f"{name} {p:.2f}" for name, p in ranked)
            out.print(f"The meta-LLM ({pool.meta.name}) read the cards; how likely it finds each to be best: {likely}")
        else:
            out.print(f"The meta-LLM ({pool.meta.name}) read the cards and replied: {_quote(stage['text'])}")
        if stage.get("difficulty") is not None:
            out.print(f"It rated the difficulty {stage['difficulty']}, so that many agents take part.")
        if stage["fallback"]:
            out.print("That could not be read as a choice: the agents were drawn by lot.")
    else:
        why = {"all": "Every agent of the pool takes part.", "copies": "Copies of one agent take part.",
               "one": "One agent takes part."}
        out.print(why.get(stage["by"], "The method names who takes part."))
    # the trace is read, not the pool: an agent replaced later is shown where that happens
    for node in stage["nodes"]:
        out.print(f"  {names[node['node']]}: {_card(pool, node['agent'])}")


def _card(pool: Pool, agent: str) -> str:
    return str(pool.meta.card if agent == pool.meta.name else pool[agent].card)


def _show_answers(stage: dict[str, Any], names: list[str], pool: Pool, out: Console) -> None:
    _heading(out, "answer: each on its own")
    _show_replies(stage["replies"], names, out)


def _show_scores(stage: dict[str, Any], names: list[str], pool: Pool, out: Console) -> None:
    _heading(out, "score: each judge shares 1 among the others' replies")
    header = ["judge", *names]
    rows = [[name, *(("-" if i == j else "?") if w is None else f"{w:.2f}" for j, w in enumerate(row))]
            for i, (name, row) in enumerate(zip(names, stage["matrix"], strict=True))]
    rows.append(["relevance S", *(f"{s:.2f}" for s in stage["relevance"])])
    rows.append(["kept", *("yes" if kept else "no" for kept in stage["kept"])])
    out.print(_table(header, rows))
    if stage["unparsed"]:
        out.print(f"Judges left out because their scores could not be read: {stage['unparsed']}.")


def _show_pass(stage: dict[str, Any], names: list[str], pool: Pool, out: Console) -> None:
    _heading(out, f"pass: round {stage['round']}")
    for receiver in sorted({edge[1] for edge in stage["edges"]}):
        heard = sorted(((w, s) for s, r, w in stage["edges"] if r == receiver), reverse=True)
        out.print(f"  {names[receiver]} hears " + ", ".join(f"{names[s]} (weight {w:.2f})" for w, s in heard))
    if not stage["edges"]:
        out.print("  Nobody hears anybody.")
    for sender, receiver in stage["cut"]:
        out.print(f"  cut, does not fit the context: {names[sender]} to {names[receiver]}")
    _show_replies(stage["replies"], names, out)


def _show_readout(stage: dict[str, Any], names: list[str], pool: Pool, out: Console) -> None:
    _heading(out, "read out: what is the answer")
    heard = ", ".join(f"{names[s]} (weight {w:.2f})" for s, w in stage["edges"]) or "nobody"
    how = {"max": f"The reply of the top source is taken: {heard}.",
           "mean": f"The meta-LLM ({pool.meta.name}) writes one answer from {heard}.",
           "vote": f"Votes are counted: {heard}.", "last": f"The last reply is taken: {heard}."}
    out.print(how.get(stage["by"], f"{stage['by']}: {heard}."))
    for sender in stage["cut"]:
        out.print(f"  cut, does not fit the context: {names[sender]}")


def _show_replies(replies: list[dict[str, Any]], names: list[str], out: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    for reply in replies:
        note = {"length": " (cut off)", "error": " (failed)"}.get(reply["finish_reason"], "")
        out.print(Text(f"{names[reply['node']]}{note}:", style="bold"))
        body = reply["text"] if reply["text"] is not None else reply["error"]
        out.print(Padding(Text(plain(body or "").strip() or "(says nothing)"), (0, 0, 0, 4)))


def _show_answer(result: Result, out: Console) -> None:
    from rich.panel import Panel
    from rich.text import Text

    if result.reply.failed:
        out.print(Panel(Text(plain(f"No answer: {result.reply.error}")), title="answer", border_style="red"))
        return
    body = Text(plain(result.reply.text or "").strip() or "(says nothing)")
    cut = result.reply.finish_reason == "length"
    out.print()
    out.print(Panel(body, title="answer (cut off: raise --max-new-tokens)" if cut else "answer", border_style="green"))
    if result.answer is not None:
        out.print(f"read as: {plain(result.answer)}")


def _show_cost(result: Result, out: Console, wall_seconds: float) -> None:
    by_purpose: dict[str, Usage] = {}
    for call in result.calls:
        by_purpose[call.purpose] = by_purpose.get(call.purpose, Usage()) + call.usage
    rows = [_cost_row(purpose, usage) for purpose, usage in by_purpose.items()]
    rows.append(_cost_row("all", result.usage))
    out.print(_table(["calls for", "calls", "prompt tokens", "of these reused", "new tokens", "seconds"], rows))
    shared = sum(call.shared for call in result.calls)
    out.print(f"Longest chain of calls that wait for each other: {result.depth}; wall time {wall_seconds:.1f} s"
              + (f"; {shared} calls were shared, not paid again" if shared else "") + ".")


def _cost_row(name: str, usage: Usage) -> list[str]:
    return [name, str(usage.calls), str(usage.prompt_tokens), str(usage.cached_tokens), str(usage.completion_tokens),
            f"{usage.seconds:.1f}"]


def _quote(text: str | None) -> str:
    return "nothing (the call failed)" if text is None else repr(text.strip()) if text.strip() else "nothing"


def _table(header: list[str], rows: list[list[str]]) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(header):
        table.add_column(Text(name), justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


_STAGES = {"select": _show_select, "answer": _show_answers, "score": _show_scores, "pass": _show_pass,
           "readout": _show_readout}
