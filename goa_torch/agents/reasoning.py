"""Keeps what a model thinks apart from what it says."""

from __future__ import annotations

import re

_TAG = re.compile(r"<(?P<close>/?)(?P<name>think|thinking|thought|reasoning)>", re.IGNORECASE)


def split_reasoning(text: str, opened: bool = False) -> tuple[str, str]:
    """What a reply says and what it thinks: ``(visible, reasoning)``, each stripped of surrounding blanks.

    Args:
        text: the whole reply, think tags (``<think>``, ``<thinking>``, ``<thought>``, ``<reasoning>``, in any case)
            included.
        opened: the prompt already ended in an open think tag, so that the reply begins inside it.

    A tag that is never closed swallows the rest: thinking that was cut off is not an answer, so ``visible`` holds only
    what came before it. A closing tag without an opening one closes a tag that the chat template opened: all before it
    is reasoning. Inside an open tag, an opening tag of the same name nests; other tags are text. Several blocks of
    reasoning are joined by an empty line.

    Example:
        >>> split_reasoning("<think>2 + 2</think>It is 4.")
        ('It is 4.', '2 + 2')
        >>> split_reasoning("Let me see </think> 4", opened=True)
        ('4', 'Let me see')
        >>> split_reasoning("<think>no end")
        ('', 'no end')
    """
    visible: list[str] = []
    thoughts: list[str] = []
    depth, name, start = (1, "", 0) if opened else (0, "", 0)
    for tag in _TAG.finditer(text):
        kind = tag["name"].lower()
        if depth and name and kind != name:
            continue  # <reasoning> mentioned inside <think> is text
        if not tag["close"]:
            if depth == 0:
                visible.append(text[start : tag.start()])
                start, name = tag.end(), kind
            elif not name and not text[start : tag.start()].strip():
                start, name = tag.end(), kind  # the prompt opened the tag and the model opens it again
                continue
            depth += 1
        else:
            if depth == 0:  # opened by the prompt: what looked visible so far was thought
                thoughts.append("".join(visible) + text[start : tag.start()])
                visible.clear()
                start = tag.end()
                continue
            depth -= 1
            if depth == 0:
                thoughts.append(text[start : tag.start()])
                start, name = tag.end(), ""
    (thoughts if depth else visible).append(text[start:])
    joined = "\n\n".join(thought for part in thoughts if (thought := part.strip()))
    return "".join(visible).strip(), joined
