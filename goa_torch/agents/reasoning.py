"""Reasoning tags: what a model thinks aloud stays out of what its peers see."""

from __future__ import annotations

import re

#: Opening and closing tags of the reasoning models of the hub (DeepSeek-R1, Qwen3, Magistral, ...).
TAGS: tuple[tuple[str, str], ...] = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]"))


def split_reasoning(text: str, opened: bool = False) -> tuple[str, str]:
    """``(what is said, what is thought)``. Without tags all of ``text`` is said, untouched.

    Args:
        text: a reply.
        opened: the prompt already ended in an opening tag. A closing tag without an opening one means the same.

    A thought that is never closed leaves nothing said after it.

    Example:
        >>> split_reasoning("<think>2 + 2 is 4</think>\\n\\nFour.")
        ('Four.', '2 + 2 is 4')
    """
    thoughts = []
    for start, end in TAGS:
        closing = text.find(end)
        if closing >= 0 and start not in text[:closing]:
            thoughts.append(text[:closing])
            text, opened = text[closing + len(end) :].lstrip(), False
    if opened:
        return "", text.strip()
    for start, end in TAGS:
        block = re.compile(f"{re.escape(start)}(.*?)(?:{re.escape(end)}\\s*|\\Z)", re.DOTALL)
        thoughts += block.findall(text)
        text = block.sub("", text) if start in text else text
    return text, "\n".join(thought.strip() for thought in thoughts if thought.strip())


def ends_open(prompt: str) -> bool:
    """Whether a prompt ends inside a thought: its last opening tag is not closed and nothing but space follows it."""
    return any(prompt.rstrip().endswith(start) for start, _ in TAGS)
