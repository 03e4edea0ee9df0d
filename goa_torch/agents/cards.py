"""Model cards from Hugging Face READMEs: front matter first, then what the text says."""

from __future__ import annotations

import json
import logging
import re
import struct
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..types import Card

_log = logging.getLogger(__name__)

#: The domain is decided by counting these words. One in the model's name counts 8, in a tag, a data set or a base
#: model 4, in the prose 1 (at most 6 a domain); code blocks and sections on licences, safety, limits and citations are
#: left out. The domain with most points wins if it has at least 6 and more than any other, else it is ``general``.
DOMAINS = {
    "code": r"cod(?:e|er|ing)|programming|software|programmers?|sql|[a-z]*coder|codeqwen|codellama",
    "math": r"math|maths|mathematics|mathematical|mathstral|arithmetic|algebra|theorems?|olympiad",
    "biomedical": r"bio|biomedical|biomedicine|medical|medicine|clinical|clinicians?|health|healthcare|biology|"
                  r"pubmed|med",
    "finance": r"finance|financial|economics?|banking|fintech|fin|investment",
    "law": r"law|legal|jurisprudence|saul|lawyers?|contracts?|legislation",
}
_ENOUGH = 6
#: Tasks that are named when the text speaks of them, most often mentioned first.
TASKS = {
    "question answering": r"question[- ]answering|\bqa\b",
    "code generation": r"code generation|generat\w+ code",
    "code reasoning": r"code reasoning",
    "code repair": r"code (?:fixing|repair)|debugging",
    "mathematical reasoning": r"math\w* (?:reasoning|problem|and scientific)|mathematics",
    "reasoning": r"reasoning",
    "instruction following": r"instruction[- ]following|follow\w* instructions|instruct(?:ion)?[- ]tuned",
    "summarisation": r"summari[sz]\w+",
    "translation": r"translat\w+",
    "function calling": r"function calling|tool (?:use|calling)",
    "text classification": r"classification|sentiment",
    "entity recognition": r"named entity|entity recognition",
    "dialogue": r"\bchat\w*|dialogue|conversation\w*",
    "long documents": r"long[- ](?:context|text|document)\w*",
}
_SKIPPED = re.compile(r"licen[cs]e|limitation|risk|bias|ethic|safety|responsib|disclaimer|citation|cite|acknowledg|"
                      r"out-of-scope|terms|use polic|contact|install|requirement|quickstart|how to use|usage", re.I)
_UNITS = {"b": 1e9, "billion": 1e9, "m": 1e6, "million": 1e6}
_SIZE_IN_TEXT = (
    re.compile(r"parameters?\W{0,8}(\d+(?:\.\d+)?)\s*(b|m|billion|million)\b", re.I),
    re.compile(r"(\d+(?:\.\d+)?)\s*-?\s*(b|m|billion|million)[- ]parameters?\b", re.I),
)
_SIZE_IN_NAME = re.compile(r"(?<![A-Za-z0-9.])((?:\d+x)?\d+(?:\.\d+)?[BbMm])(?![A-Za-z0-9])")
_CONTEXT = re.compile(r"context(?: (?:length|window|size))?\W{0,8}(?:of |up to |full )*(\d[\d,]*\s*k?)(?:\s*tokens)?"
                      r"|(\d[\d,]*\s*k)(?:[- ]token)? context", re.I)


def card_from_readme(text: str, name: str = "", parameters: int | None = None) -> Card:
    """A card from the README of a Hugging Face model.

    Args:
        text: the README, front matter (``tags``, ``pipeline_tag``, ``base_model``, ``datasets``, ``license``,
            ``language``) included; all of it may be missing.
        name: the model's name or hub id; by default the first heading.
        parameters: how many parameters it has, if the weights tell; else the text or the name says so.

    A README in which nothing is found gives the card of the domain ``general``, and a warning.

    Raises:
        UserError: if the front matter is not YAML.
    """
    card = _read(text, name, parameters)
    _say_if_bare(card, name or "README")
    return card


def _read(text: str, name: str, parameters: int | None) -> Card:
    front, prose = split_readme(text)
    heading = re.search(r"^#\s+(.+)$", prose, re.M)
    name = name or (heading.group(1).strip() if heading else "")
    prose = _prose(prose)
    return Card(domain=_domain(name, front, prose), tasks=_tasks(front, prose), size=_size(name, prose, parameters),
                features=_features(front, prose))


def split_readme(text: str) -> tuple[dict[str, Any], str]:
    """The front matter (empty if there is none) and the rest of a README."""
    import yaml

    found = re.match(r"\ufeff?\s*---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|$)", text, re.S)
    if not found:
        return {}, text
    try:
        front = yaml.safe_load(found.group(1))
    except yaml.YAMLError as error:
        raise UserError(f"the README's front matter is not YAML: {' '.join(str(error).split())}") from error
    return (front if isinstance(front, dict) else {}), text[found.end():]


def card_from_file(path: str | Path, name: str = "") -> Card:
    """A card from a README, or from the README and the weights in a model folder, as :func:`card_from_readme`.

    Raises:
        UserError: if there is no README.
    """
    path = Path(path)
    readme = path / "README.md" if path.is_dir() else path
    if not readme.is_file():
        raise UserError(f"{readme}: no such file; a card is made from a model's README.md")
    try:
        text = readme.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{readme}: not a text file in UTF-8") from error
    card = _read(text, name or (path.resolve().name if path.is_dir() else ""), count_parameters(path))
    _say_if_bare(card, str(readme))
    return card


def _say_if_bare(card: Card, where: str) -> None:
    if card == Card("general"):
        _log.warning("%s: nothing about the model was found in it, so the card says 'general' and no more; write the "
                     "card by hand", where)


def count_parameters(folder: str | Path) -> int | None:
    """Parameters in the safetensors files of a folder, read from their headers; ``None`` if there are none."""
    total = 0
    for path in sorted(Path(folder).glob("*.safetensors")):
        with path.open("rb") as file:
            raw = file.read(8)
            length = struct.unpack("<Q", raw)[0] if len(raw) == 8 else 0
            if not 0 < length < 100_000_000:
                raise UserError(f"{path}: not a safetensors file")
            try:
                header = json.loads(file.read(length))
            except ValueError as error:
                raise UserError(f"{path}: not a safetensors file") from error
        for key, tensor in header.items():
            if key != "__metadata__":
                size = 1
                for side in tensor["shape"]:
                    size *= side
                total += size
    return total or None


def card_to_yaml(card: Card) -> str:
    """The card as pool files write it."""
    import yaml

    facts = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(card).items() if value}
    return yaml.safe_dump(facts, sort_keys=False, allow_unicode=True, width=110)


def _prose(text: str) -> str:
    """The text without code, links' addresses, HTML, tables and the sections that describe no abilities."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->|<[^>\n]{1,300}>", " ", text, flags=re.S)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    kept, skipping = [], 0
    for line in text.splitlines():
        heading = re.match(r"(#{1,6})\s+(.*)", line)
        if heading:
            depth = len(heading.group(1))
            if not skipping or depth <= skipping:
                skipping = depth if depth > 1 and _SKIPPED.search(heading.group(2)) else 0
        if not skipping and not line.lstrip().startswith("|"):
            kept.append(line)
    return "\n".join(kept)


def _listed(value: Any) -> list[str]:
    """A front matter value that may be one or a list, as strings."""
    if value is None:
        return []
    return [str(item) for item in (value if isinstance(value, list) else [value]) if not isinstance(item, dict)]


def _words(text: str) -> str:
    """Names as words: ``Bio-Medical-Llama`` and ``Qwen2.5Coder`` fall apart."""
    return re.sub(r"[-_/.\d]+", " ", re.sub(r"(?<=[a-z\d])(?=[A-Z])", " ", text))


def _domain(name: str, front: dict[str, Any], prose: str) -> str:
    labels = [_words(label) for key in ("tags", "datasets", "base_model") for label in _listed(front.get(key))]
    points = {}
    for domain, words in DOMAINS.items():
        word = re.compile(rf"\b(?:{words})\b", re.I)
        points[domain] = (8 * bool(word.search(_words(name))) + 4 * sum(bool(word.search(label)) for label in labels)
                          + min(6, len(word.findall(prose))))
    best, second = sorted(points.values(), reverse=True)[:2]
    return max(points, key=points.__getitem__) if best >= _ENOUGH and best > second else "general"


def _tasks(front: dict[str, Any], prose: str) -> tuple[str, ...]:
    counted = {task: len(re.findall(pattern, prose, re.I)) for task, pattern in TASKS.items()}
    named = sorted((task for task, count in counted.items() if count), key=lambda task: -counted[task])[:4]
    pipeline = str(front.get("pipeline_tag") or "").replace("-", " ")
    return tuple(named) or ((pipeline,) if pipeline else ())


def _size(name: str, prose: str, parameters: int | None) -> str:
    if parameters:
        return _short(float(parameters))
    for pattern in _SIZE_IN_TEXT:
        found = pattern.search(prose)
        if found:
            return _short(float(found.group(1)) * _UNITS[found.group(2).lower()])
    found = _SIZE_IN_NAME.search(re.sub(r"[_/\s-]", " ", name))
    return found.group(1).upper().replace("X", "x") if found else ""


def _short(count: float) -> str:
    value, unit = (count / 1e9, "B") if count >= 1e9 else (count / 1e6, "M")
    return f"{value:.1f}".removesuffix(".0") + unit


def _features(front: dict[str, Any], prose: str) -> str:
    said = [_first_sentence(prose)]
    base = _listed(front.get("base_model"))
    if base:
        said.append(f"derived from {', '.join(base[:2])}")
    context = _CONTEXT.search(prose)
    if context:
        said.append(f"context of {(context.group(1) or context.group(2)).replace(' ', '')} tokens")
    datasets = _listed(front.get("datasets"))
    if datasets:
        said.append(f"trained on {', '.join(datasets[:3])}" + (" and others" if len(datasets) > 3 else ""))
    languages = _listed(front.get("language"))
    if languages:
        said.append(f"{len(languages)} languages" if len(languages) > 4 else f"languages: {', '.join(languages)}")
    if front.get("license"):
        said.append(f"licence {front['license']}")
    return "; ".join(part for part in said if part)


def _first_sentence(prose: str, longest: int = 200) -> str:
    """The first sentence of the first paragraph that is one."""
    for paragraph in re.split(r"\n\s*\n", prose):
        lines = [line for line in paragraph.splitlines() if not re.match(r"\s*(#|>|[-*+]\s|\d+\.\s)", line)]
        text = re.sub(r"[*_`]+", "", " ".join(" ".join(lines).split()))
        if len(text.split()) >= 5:
            sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)[0]
            return sentence.rstrip(".") if len(sentence) <= longest else sentence[:longest].rsplit(" ", 1)[0] + " ..."
    return ""
