"""Reading of the option that a chat model's reply names.

A reply that is only an option, by letter or text, is *plain*. Three more forms claim an option: *boxed*
(``\\boxed{b}``, ``[[b]]``), *stated* ("… Final answer: b") and *explained* ("(b) sports league", then an explanation).
The last boxed or stated claim counts. A claim of two options is ambiguous; a reply without a claim stays unparsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from string import ascii_lowercase
from typing import NamedTuple

from fathom.data.prompts.choices import AMBIGUOUS, UNPARSED
from fathom.engine.scoring.answers import answer_key

PLAIN, BOXED, STATED, EXPLAINED = FORMS = ("plain", "boxed", "stated", "explained")

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | str.maketrans("【】。", "[].")
_MARKUP = (
    # <think>maybe A</think>
    (r"(?is)<think>.*?(</think>|\Z)", ""),
    # - B; > B
    (r"(?m)^[ \t]{,8}[->*•][ \t]{1,8}(?=[^\s\d])", ""),
    # **B**
    (r"(?<!\w)(\*{1,3}|__?|`)(?=\S)([^\n]{1,300}?)(?<=\S)\1(?!\w)", r"\2"),
    # \text{B}
    (r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}", r"\1"),
    # $B$; \(B\); [B]
    (r"\$\s*\(?([a-zA-Z])\)?\s*\$|\\\(\s*([a-zA-Z])\s*\\\)|(?<!\[)\[([a-zA-Z])\](?!\])", r"(\1\2\3)"),
    # \[ ... \]
    (r"\\[()\[\]]", " "),
    # <answer>B</answer>
    (r"(?is)<((?:final_?)?answer)>\s*(.{,300}?)\s*</\1>", r"\nAnswer: \2\n"),
    # "answer": "B"; "answer": ["B"]
    (
        r"""(?i)(["'])(?:final_?)?(?:answer|option|choice)\1\s*:\s*(\[\s*)?(["'])([^\n]{,300}?)\3(?(2)\s*\])""",
        r"\nAnswer: \4\n",
    ),
    # 正确答案是B; 答えはB
    (r"(?:正确)?答案\s*是?\s*:?|答え\s*は?\s*:?", "Answer: "),
    # Bです
    (r"(?<=[\w)])です(?=[.\s]|\Z)", ""),
    # 选B; 我选择 B
    (r"(?m)(?:^|(?<=[,.;:\s]))(?:我|应该?|所以|因此|故){,3}选择?\s{,8}:?\s{,8}(?=\(?[a-zA-Z](?!\w))", "Answer: "),
    # Antwort: B; La bonne réponse est B; La respuesta correcta es B
    (
        r"(?i)\b(?:(?:die|la|a) )?(?:(?:richtige|korrekte|bonne) )?(?:antwort|réponse|respuesta|risposta|resposta)"
        r"(?: (?:correcte|correcta|corretta|correta|final|finale))?(?:\s{,8}:| (?:ist|est|es|è|é)\b)",
        "Answer: ",
    ),
    # ### Answer, with B on a later line
    (r"(?im)^[ \t#>*_-]*((?:the )?(?:(?:final|correct|right|best) )*answer(?: is)?)[ \t]*:?[ \t]*\n\s*", r"\1: "),
)
"""Patterns of markup, each after an example and with the plain text in its place."""

_LONGEST = 300
"""Characters of a claim that are read."""
_LEAD = re.compile(r"(?i)(?:the )?(?:correct |right |best )?(?:answer|option|choice)\b(?: is\b)?\s*[:=–—-]?\s*")
"""The start of a plain reply: "The correct answer is"."""
_LETTER = re.compile(r"\(?([a-zA-Z])\)?(?:\s*[.,:)–—-]\s*|\s+|$)(.*)", re.DOTALL)
"""A letter, and the text after it: "(b) Lyon"."""
_BOX = re.compile(r"\\boxed\{([^{}]*)\}|\[\[([^\[\]]*)\]\]")
r"""A boxed claim: "\boxed{b}", "[[b]]"."""
_ADJECTIVES = r"(?:(?:final|correct|right|best|closest|most \w+) ){,3}"
"""Words before "answer": "final ", "most likely "."""
_STATEMENT = re.compile(
    r"(?:(?:^|[.,:;!?—)])\W{,5}|\b(?:the|my|so|thus|and|final) )"
    rf"{_ADJECTIVES}(?:answer|option|choice)"
    r"(?: (?:to|for) (?:the|this|your) question)?(?: is(?:\b\s*:?|(?=n['’]t\b))|\s*[:=–—]|\s+-)[ \t]*(?=(.{,300}))"
    r"|\bI(?:['’]d| would| will|['’]ll)? (?:choose|pick|select|go with) (?=(.{,300}))",
    re.IGNORECASE | re.MULTILINE,
)
"""Begins a claim: "The final answer is", "Answer:", "I would choose"."""
_SENTENCE = r"[^.,:;!?\n]{1,100}(?:[.!](?=\s|\Z)|$)"
"""The rest of a sentence without commas: "Lyon."."""
_CORRECTING = r"(?:no|wait|actually|sorry|hmm+|correction|I mean)\b\W{1,5}"
"""Begins a correction: "Actually, "."""
_OPENING = rf"(?:{_CORRECTING}|(?:so|but|thus|therefore|I (?:think|believe)(?: that)?)\b\W{{1,5}}){{,3}}"
"""Words before "it is": "I think "."""
_PRONOUN = re.compile(
    rf"(?:^|[.,:;!?—…])\W{{,5}}{_OPENING}it(?:['’]s| is| must be| should be) (?-i:(?!a[ .,]))"
    rf"(?=(\(?[a-z]\b.{{,300}}|not [^\n]{{1,60}}? but .{{,300}}|(?!(?:not?|nothing|un\w+)\b){_SENTENCE}))",
    re.IGNORECASE | re.MULTILINE,
)
"""Begins a claim: "I think it is (b)", "Actually, it's Lyon."."""
_CORRECTION = re.compile(
    rf"(?:^|[.,:;!?—…])\W{{,5}}(?:{_CORRECTING}){{1,3}}(?=({_SENTENCE}))", re.IGNORECASE | re.MULTILINE
)
"""Begins a claim after another: "... no, B."."""
_VERDICT = re.compile(
    r"(?:^|[.,:;!?])\W{,5}?(\(?[^\W_][^.,:;!?\n]{,300}?) is (?:the )?"
    rf"{_ADJECTIVES}(?:correct|right|best|answer|option|choice)"
    r"(?=\W{,5}(?:$|[.,!;]))",
    re.IGNORECASE | re.MULTILINE,
)
"""A whole clause such as "(b) is the correct answer"."""
_RULES = ((BOXED, _BOX), (STATED, _STATEMENT), (STATED, _PRONOUN), (STATED, _CORRECTION), (STATED, _VERDICT))
_DOUBT = re.compile(r"\b(?:if|whether|suppose|assum\w+|some|might|may|could|not|never)\b|n['’]t\b", re.IGNORECASE)
"""A word that makes a clause no claim: "if" in "if the answer is A"."""
_REFUSAL = re.compile(r"\W*(?:none|neither|not|n['’]t|nothing|no|unknown|unclear|nicht|pas|non|não)\b", re.IGNORECASE)
"""The start of a claim that refuses all options: "none of these"."""
_REJECTION = re.compile(
    r"\W*(?:is|was|(?:and|or) \S{1,60} (?:are|were))(?:n['’]t| not| wrong| incorrect)\b", re.IGNORECASE
)
"""Follows a rejected option: "is wrong", "and C are wrong"."""
_PREFIX = re.compile(
    r"(?:(?:not|n['’]t) [^.;!?\n]{1,60}?,? but )?"
    r"(?:(?:so|thus|the|option|choice|letter|most likely|probably|clearly) )*",
    re.IGNORECASE,
)
"""Words before a claimed option: "most likely option", "not B but"."""
_BRACKETED = re.compile(r"\(?([a-zA-Z])\)")
"""A letter in brackets: "(b)", "b)"."""
_HEAD_END = re.compile(r"[.,:;!?](?=\s|$)|\s+(?=(?:because|since|as|for|which|due|or|and|rather|not)\b)|\s(?=[–—(-])|/")
"""A possible end of a claimed option: "," in "B, Lyon"."""
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
"""The end of a sentence or line: "." in "The answer is B. Note"."""
_CLAIM_END = re.compile(rf"{_SENTENCE_END.pattern}|\b(?:because|since|(?<!well )as(?! well\b))\b", re.IGNORECASE)
"""The end of a sentence, or the start of its reason: "since (a) is the capital"."""
_JOINT = re.compile(r",|/|\bor\b|\band\b")
"""Joins options: "or" in "A or B"."""
_IN_BRACKETS = re.compile(r"(?<!not )(?<!than )(?<!of )(?<!unlike )\(([a-zA-Z])\)")
"""A letter in brackets that is not denied: "(b)", but not in "not (b)"."""
_ITEM = re.compile(r"(?<!\w)\(?([a-zA-Z])[).:]+\s*")
"""The label of a listed option: "b) "."""
_EXPLANATION = re.compile(
    r"\n[ \t]*(?:explanation|reason|reasoning|rationale|justification)[ \t]*:"
    r"(?![^\n]*\b(?:so|thus|therefore|hence|actually)\b)[^\n]*",
    re.IGNORECASE,
)
"""A line after the answer: "Explanation: (A) Paris is the capital."."""
_NEXT_QUESTION = re.compile(r"\n[ \t]*(?:question|q)\s*\d*\s*:", re.IGNORECASE)
"""Begins a further question: "Question 2:"."""


class Reading(NamedTuple):
    """The option that a reply names.

    :param place: place of the option; None if the reply names none or several.
    :param form: one of :data:`FORMS`; "" without a place.
    :param reason: why there is no place, or "".
    """

    place: int | None
    form: str = ""
    reason: str = ""


def read_reply(reply: str, names: Sequence[str], strict: bool = False) -> Reading:
    """Read the option that a reply names.

    :param names: names of the options, in display order.
    :param strict: read plain replies only.
    """
    place = chosen(reply, names)
    if place is not None:
        return Reading(place, PLAIN)
    form, places = ("", set()) if strict else _read(_without_markup(reply), [answer_key(name) for name in names])
    if len(places) == 1:
        return Reading(places.pop(), form)
    return Reading(None, reason=AMBIGUOUS if places else UNPARSED)


def chosen(reply: str, names: Sequence[str]) -> int | None:
    """Return the place of the option that a plain reply names, or None if it names none or several.

    A plain reply is a letter ("b", "(B)", "b."), an option's whole text (normalised by :func:`answer_key`), or both if
    they agree. It may follow "The answer is", "Option" and the like, and may have quotation marks or markup. Letter
    case does not matter. A reply with any other text is not plain.
    """
    text = _bare(_without_markup(reply))
    lead = _LEAD.match(text)
    keys = [answer_key(name) for name in names]
    texts = {reply, text, _bare(text[lead.end() :]) if lead else text}
    places = {place for text in texts for place in _named(text, keys)}
    return places.pop() if len(places) == 1 else None


def _without_markup(reply: str) -> str:
    """Return a reply without reasoning, Markdown, LaTeX, tags and JSON around answers, and with ASCII brackets."""
    text = reply.translate(_FULL_WIDTH)
    for pattern, plain in _MARKUP:
        text = re.sub(pattern, plain, text)
    return text


def _read(text: str, keys: Sequence[str]) -> tuple[str, set[int]]:
    """Return the form of a reply that is not plain, and the places of the options that it claims."""
    for part in _NEXT_QUESTION.split(text):
        claims = sorted(_claims(part, keys))
        if claims:
            start, form, places = claims[-1]
            together = [more for begin, _, more in claims if not _SENTENCE_END.search(part, begin, start)]
            return form, places.union(*together)
    return EXPLAINED, _explained(_EXPLANATION.sub("", text.strip()), keys)


def _claims(text: str, keys: Sequence[str]) -> Iterator[tuple[int, str, set[int]]]:
    """Yield the start, form and places of each boxed or stated claim; no places if it refuses all options."""
    for form, rule in _RULES:
        for match in rule.finditer(text):
            start = match.start(match.lastindex or 0)
            clause = text[max(text.rfind(end, 0, start) for end in ".!?;,\n") + 1 : start]
            claim = _PREFIX.sub("", _bare(match[match.lastindex or 0]), count=1)
            places = _claimed(claim, keys)
            if not _DOUBT.search(clause) and (places or _REFUSAL.match(claim)):
                yield start, form, places


def _claimed(text: str, keys: Sequence[str]) -> set[int]:
    """Return the option at the start of a claim, and others joined to it in the same sentence."""
    text = _bare(text[:_LONGEST])
    ends = [len(text), *(match.start() for match in reversed([*_HEAD_END.finditer(text)]))]
    end = next((end for end in ends if _named(_bare(text[:end]), keys)), 0)
    places = set(_named(_bare(text[:end]), keys))
    letter = _BRACKETED.match(text)
    if letter and not places:
        end, places = letter.end(), set(_places(letter[1], keys))
    rest = text[end:]
    key = next((keys[place] for place in places if rest.casefold().lstrip().startswith(keys[place])), "")
    if not places or _REJECTION.match(rest.lstrip()[len(key) :]):
        return set()
    sentence, after = (_CLAIM_END.split(more, maxsplit=1)[0] for more in (rest, rest.lstrip(" .:;")))
    parts = [part.strip(" .:;()") for part in (*_JOINT.split(sentence), after)]
    joined = (place for part in parts for place in _named(_bare(part), keys))
    bracketed = (place for mark in _IN_BRACKETS.findall(sentence) for place in _places(mark, keys))
    return {*places, *joined, *bracketed}


def _explained(text: str, keys: Sequence[str]) -> set[int]:
    """Return the option that is the first line, or whose letter and text more text follows."""
    lines = text.splitlines() or [""]
    items = list(_items(text, keys))
    first = _claimed(lines[0], keys)
    places = {place for line in lines for place in _named(_bare(line), keys)} | {place for _, place, _ in items}
    if len(places | first) > 1:
        return places | first
    if named := _named(_bare(lines[0]), keys):
        return set(named)
    return {place for start, place, more in items[:1] if start == 0 and not _REJECTION.match(more)}


def _items(text: str, keys: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the options whose letter and text a reply has, such as "b) bank": start, place and what follows."""
    plain = " ".join(text.casefold().split())
    for match in _ITEM.finditer(plain):
        for place in _places(match[1], keys):
            end = match.end() + len(keys[place])
            if plain.startswith(keys[place], match.end()) and not plain[end : end + 1].isalnum():
                yield match.start(), place, plain[end : end + _LONGEST]


def _places(letter: str, keys: Sequence[str]) -> list[int]:
    place = ascii_lowercase.find(letter.lower())
    return [place] if 0 <= place < len(keys) else []


def _named(text: str, keys: Sequence[str]) -> list[int]:
    """Return the places of the options that a text names by their text or letter."""
    whole = answer_key(text)
    places = [place for place, key in enumerate(keys) if key == whole]
    letter = _LETTER.fullmatch(text)
    place = ascii_lowercase.index(letter[1].lower()) if letter else len(keys)
    if letter and place < len(keys) and (not letter[2] or answer_key(_bare(letter[2])) == keys[place]):
        places.append(place)
    return places


def _bare(text: str) -> str:
    return text.strip().strip("*\"'“”‘’„«»`").strip()
