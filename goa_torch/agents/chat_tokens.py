"""A chat becomes token ids, and every token knows whose words it comes from.

The chat template is rendered with a placeholder for each message; the pieces of the template and the spans of the
messages are tokenised on their own. So the text of a span can never become a control token: a peer that writes
``<|im_end|>`` has written nine harmless tokens.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jinja2.exceptions import TemplateError

from ..errors import UserError
from ..types import Chat, Heard, Message, Span

#: Used when a model has no chat template: the messages, a blank line between them, a line break at the end.
PLAIN_TEMPLATE = r"{{ messages | map(attribute='content') | join('\n\n') }}{{ '\n' }}"
#: Shadows the clock that templates may ask for.
_FIXED_DATE = (
    "{%- macro strftime_now(format) -%}{{ format"
    + "".join(f" | replace('%{code}', '{value}')" for code, value in
              {"d": "26", "b": "Jul", "B": "July", "m": "07", "Y": "2024", "y": "24", "A": "Friday", "a": "Fri",
               "H": "12", "M": "00", "S": "00"}.items())
    + " }}{%- endmacro -%}"
)
_PLACE = re.compile("\ue100(\\d+)\ue101")
_ANCHOR = "\ue102"  # a private-use character: no tokenizer merges anything with it
_SEPARATOR = "\n\n"
_TAG = re.compile(r"<\S+>|\[\S+\]")
#: A prompt that ends in this makes the reply begin inside a thought (see :mod:`goa_torch.agents.reasoning`).
_THINKING = re.compile(r"<(think|thinking|thought|reasoning)>\s*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of a prompt; ``senders[i]`` is the node whose reply token i belongs to, -1 for everything else.

    ``thinking`` is true if the prompt ends inside a reasoning tag that the template opened. ``messages[i]`` is the
    number of the message that token i belongs to, -1 for none, and ``heard`` how loud each message is and who sent it;
    both are empty unless spans say how loud they are. What introduces a message ("Reply 2:", from the last blank line
    or else line break on) belongs to it, so that a message of weight 0 leaves no heading behind.
    """

    ids: list[int]
    senders: list[int]
    thinking: bool = False
    messages: list[int] = field(default_factory=list)
    heard: list[tuple[int, Heard]] = field(default_factory=list)


#: Texts whose tokens are remembered.
_REMEMBERED = 1 << 14


class ChatTokenizer:
    """Turns chats into tokens for one model.

    Args:
        tokenizer: a Hugging Face tokenizer.
        chat_template: Jinja source that replaces the tokenizer's own; without either, :data:`PLAIN_TEMPLATE`.
        where: how errors name the model.

    A template that rejects (or drops) the system message gets its text before the first user message; one that
    demands alternation gets neighbouring messages of the same role as one. Templates that print the date print a fixed
    one, so that a prompt is the same tomorrow. Any other error of the template raises :class:`UserError`.
    """

    def __init__(self, tokenizer: Any, chat_template: str | None = None, where: str = "chat template") -> None:
        self.tokenizer = tokenizer
        self.where = where
        self.template = chat_template or (tokenizer.get_chat_template() if tokenizer.chat_template else PLAIN_TEMPLATE)
        self._source = (_FIXED_DATE if "strftime_now" in self.template else "") + self.template
        self._lock = threading.Lock()  # fast tokenizers keep the split_special_tokens switch in the tokenizer
        self._known: dict[tuple[str, bool, bool], list[int]] = {}  # a question or reply stands in many prompts
        self._pieces: dict[tuple, tuple[list[str], list[int]]] = {}
        self._template_ids: dict[str, list[int]] = {}
        added = {token.content: number for number, token in tokenizer.added_tokens_decoder.items()}
        special = set(tokenizer.all_special_ids) | {n for n, t in tokenizer.added_tokens_decoder.items() if t.special}
        # Tags like <think> or <tool_call> are often added without being marked as special: control tokens all the same.
        control = {text: n for text, n in added.items() if n in special or _TAG.fullmatch(text)}
        self.control_ids = frozenset(control.values()) | special
        texts = sorted((text for text in control if len(text) > 1), key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, texts))) if texts else None
        self._anchor = self._anchor_ids()
        self.bos = tokenizer.bos_token_id
        self._adds_bos = self.bos is not None and self._ids("", add_special_tokens=True)[:1] == [self.bos]

    # ------------------------------------------------------------------ chats

    def encode(self, chat: Chat) -> Encoded:
        """Ids and senders of the prompt, up to where the reply begins."""
        messages, pieces = self._render(chat.messages)
        ids: list[int] = []
        senders: list[int] = []

        owners: list[int] = []
        heard: list[tuple[int, Heard]] = []

        def add(tokens: list[int], sender: int | None = None, owner: int = -1) -> None:
            ids.extend(tokens)
            senders.extend([-1 if sender is None else sender] * len(tokens))
            owners.extend([owner] * len(tokens))

        for number, piece in enumerate(pieces):  # template text at even places, message numbers at odd ones
            if number % 2 == 0:
                add(self._template_tokens(str(piece)))
            else:
                before = None
                for span in _core(messages[int(piece)].spans):
                    if span.heard is None:
                        add(self.text_ids(span.text), span.sender)
                    else:
                        heading = self._heading(before) if before is not None else 0
                        owners[len(owners) - heading :] = [len(heard)] * heading
                        add(self.text_ids(span.text), span.sender, len(heard))
                        heard.append((-1 if span.sender is None else span.sender, span.heard))
                    before = span
        if self.bos is not None:
            if self._adds_bos and self.template is PLAIN_TEMPLATE:
                ids.insert(0, self.bos)
                senders.insert(0, -1)
                owners.insert(0, -1)
            while ids[:2] == [self.bos, self.bos]:
                del ids[0], senders[0], owners[0]
        if not ids:
            raise UserError(f"{self.where}: an empty chat gives an empty prompt; give at least one message with text")
        return Encoded(ids, senders, bool(_THINKING.search(str(pieces[-1]))), owners if heard else [], heard)

    def _heading(self, before: Span) -> int:
        """How many of the last tokens of the text before a message introduce it."""
        cut = before.text.rfind("\n\n")
        cut = before.text.rfind("\n") if cut < 0 else cut
        if before.sender is not None or cut < 0:
            return 0
        whole = self.text_ids(before.text)
        for start in (cut, cut + 1):  # a line break may have become one token with what stands before it
            tail = self.text_ids(before.text[start:])
            if tail and whole[-len(tail) :] == tail:
                return len(tail)
        return 0

    def turn_end(self) -> int | None:
        """The control token that the template puts after a message of the assistant, if it does."""
        chat = (Message.of("user", "x"), Message.of("assistant", "x"), Message.of("user", "x"))
        try:
            _, pieces = self._render(chat)
        except UserError:  # a template without room for the assistant's turn: its end is not known
            return None
        after = self._template_tokens(pieces[4]) if len(pieces) > 4 else []
        return after[0] if after and after[0] in self.control_ids else None

    def _render(self, messages: Sequence[Message]) -> tuple[list[Message], list[str]]:
        """The messages as the template accepts them, and its text split at the places of the messages."""
        problem: TemplateError | None = None
        for shaped in _shapes(messages):
            outline = tuple((m.role, *_outer_space(m.text)) for m in shaped)
            known = self._pieces.get(outline)
            if known is None:
                try:
                    known = _PLACE.split(self._apply(shaped))
                except TemplateError as error:
                    problem = error
                    continue
                self._pieces[outline] = known
            if {int(n) for n in known[1::2]} == set(range(len(shaped))):
                return shaped, known
        roles = ", ".join(m.role for m in messages)
        why = " ".join(str(problem).split()) if problem else "it leaves a message out"
        raise UserError(f"{self.where}: the chat template cannot render the roles ({roles}): {why}; "
                        "pass another one as chat_template")

    def _apply(self, messages: Sequence[Message]) -> str:
        # Outer white space is the template's to keep or to trim, so it stays around the placeholder.
        turns = []
        for number, message in enumerate(messages):
            before, after = _outer_space(message.text)
            turns.append({"role": message.role, "content": f"{before}\ue100{number}\ue101{after}"})
        return self.tokenizer.apply_chat_template(turns, chat_template=self._source, tokenize=False,
                                                  add_generation_prompt=True)

    def _template_tokens(self, text: str) -> list[int]:
        if text not in self._template_ids:
            self._template_ids[text] = self._ids(text) if text else []
        return self._template_ids[text]

    # ------------------------------------------------------------------ text

    def text_ids(self, text: str) -> list[int]:
        """Tokens of plain text: no control tokens, nothing added before or after."""
        ids: list[int] = []
        start = 0
        # The text of a control token is cut after its first character: no tokenizer can put it together again.
        for match in self._control.finditer(text) if self._control else ():
            ids += self._plain(text[start : match.start() + 1])
            start = match.start() + 1
        return ids + self._plain(text[start:])

    def _plain(self, text: str) -> list[int]:
        if not text:
            return []
        if not self._anchor:
            return self._ids(text, split_special_tokens=True)
        return self._ids(_ANCHOR + text, split_special_tokens=True)[len(self._anchor) :]

    def _anchor_ids(self) -> list[int]:
        """Sentencepiece tokenizers put a space before what they tokenise. There, text follows an anchor, which is cut
        off afterwards; empty where this is not needed or would not work."""
        alone = self._ids("x", split_special_tokens=True)
        anchor, both = self._ids(_ANCHOR), self._ids(_ANCHOR + "x", split_special_tokens=True)
        if both[: len(anchor)] != anchor or not anchor or both[len(anchor) :] == alone:
            return []
        return anchor

    def _ids(self, text: str, add_special_tokens: bool = False, split_special_tokens: bool = False) -> list[int]:
        key = (text, add_special_tokens, split_special_tokens)
        known = self._known.get(key)
        if known is not None:
            return list(known)
        if not text.isascii():  # half a surrogate pair, as JSON may hold, is no text to a tokenizer
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        with self._lock:
            ids = list(self.tokenizer(text, add_special_tokens=add_special_tokens, verbose=False,
                                      split_special_tokens=split_special_tokens)["input_ids"])
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = ids
            return list(ids)


def _outer_space(text: str) -> tuple[str, str]:
    core = text.strip()
    if not core:
        return text, ""
    start = text.index(core[0])
    return text[:start], text[start + len(core) :]


def _core(spans: Sequence[Span]) -> list[Span]:
    """The spans without white space at either end of the message, which went into the template."""
    spans = [span for span in spans if span.text]
    while spans and not spans[0].text.strip():
        spans = spans[1:]
    while spans and not spans[-1].text.strip():
        spans = spans[:-1]
    if spans:
        spans[0] = replace(spans[0], text=spans[0].text.lstrip())
        spans[-1] = replace(spans[-1], text=spans[-1].text.rstrip())
    return list(spans)


def _shapes(messages: Sequence[Message]) -> list[list[Message]]:
    """The messages as they are, then in the shapes that strict templates accept."""
    plain = list(messages)
    folded = _fold_system(plain)
    shapes = [plain, _merge(plain), folded, _merge(folded)]
    return [shape for i, shape in enumerate(shapes) if shape not in shapes[:i]]


def _fold_system(messages: Sequence[Message]) -> list[Message]:
    """System text goes before the first user message."""
    system = [m for m in messages if m.role == "system"]
    rest = [m for m in messages if m.role != "system"]
    if not system:
        return rest
    lead = _merge([Message("user", m.spans) for m in system])[0]
    if rest and rest[0].role == "user":
        return [_join(lead, rest[0]), *rest[1:]]
    return [lead, *rest]


def _merge(messages: Sequence[Message]) -> list[Message]:
    """Neighbouring messages of one role become one."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            merged[-1] = _join(merged[-1], message)
        else:
            merged.append(message)
    return merged


def _join(first: Message, second: Message) -> Message:
    return Message(first.role, (*first.spans, Span(_SEPARATOR), *second.spans))
