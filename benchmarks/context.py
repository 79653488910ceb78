"""Do the words of a prompt show whether it asks something? Measures of the labelled prompts of ``fathom build cloze``.

The names in all other documents of the corpus show which answers go with which words. See docs/notes/labelling.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from harness import Table, benchmark, share_interval
from labelled import BIOMEDICAL, labels, lists_of
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from fathom_build.cloze import corpora
from fathom_build.cloze.entities import read_entities
from fathom_build.cloze.leaks import is_common
from fathom_build.cloze.names import NameFinder
from fathom_build.cloze.typography import fold
from fathom_build.options import ClozeBuildOptions

BEFORE = {"biomedical": 2766, "general": 4355}
"""Held-out prompts before the rules; half of them must remain."""
WINDOW = 150
"""Characters before and after a name that count as near."""
SMOOTHING = 5.0
"""Pseudo-occurrences of each answer, with the words of all answers."""
REPEATS = 5
MEASURES = ("answer's occurrences", "rarity of words", "association", "information", "low rank", "low entropy")


class NearbyText(NamedTuple):
    """Text near a name."""

    document: str
    entity: str
    text: str


def telling_words(text: str) -> list[str]:
    return [fold(word) for word in re.findall(r"[^\W\d_]{3,}", text.replace("[Y]", " ")) if not is_common(word)]


def nearby_texts(folders: Sequence[Path], lists: Sequence[str]) -> Iterator[tuple[str, NearbyText]]:
    """Yield the list of each name in the texts, and what is near."""
    options = ClozeBuildOptions()
    entities = read_entities(lists, options).entities
    finder = NameFinder(entities, options)
    for source in corpora.find_sources([folder / "texts" for folder in folders], []):
        corpus = corpora.corpus_of(source, options)
        documents = filter(None, map(corpus.document, corpora.units_of(source, corpus)))
        for id_, text in ((document.id, part.text) for document in documents for part in document.parts):
            for start, end, number in finder.find(text):
                if number >= 0:
                    near = f"{text[max(start - WINDOW, 0) : start]} {text[end : end + WINDOW]}"
                    yield entities[number].type, NearbyText(id_, entities[number].name, near)


class Neighbourhood:
    """Words near the entities of a list."""

    def __init__(self, texts: Sequence[NearbyText]) -> None:
        self._vectorizer = CountVectorizer(analyzer=telling_words, binary=True, min_df=2)
        self._words = self._vectorizer.fit_transform([one.text for one in texts]).tocsr()
        self._rarity = np.log(len(texts) / np.asarray(self._words.sum(axis=0)).ravel())
        self._document = np.array([one.document for one in texts])
        self._names, self._entity = np.unique([one.entity for one in texts], return_inverse=True)

    def measures(self, prompt: str, answer: str, document: str) -> list[float]:
        """Return :data:`MEASURES` by all documents but the prompt's own.

        Association is the answer's with one of the words, at most; information is of all words about all answers. Rank
        and entropy are those of the answer's posterior by naive Bayes.
        """
        words = self._vectorizer.transform([prompt]).indices
        other = np.flatnonzero(self._document != document)
        entity, gold = self._entity[other], np.searchsorted(self._names, answer)
        occurrences = np.bincount(entity, minlength=len(self._names)).astype(float)
        near = np.zeros((len(self._names), len(words)))
        np.add.at(near, entity, self._words[other][:, words].toarray())
        usual = (near.sum(axis=0) + 0.5) / len(other)
        prior = (occurrences + 0.01) / (occurrences + 0.01).sum()
        association = np.log((near[gold] + 0.2) / (occurrences[gold] * usual + 0.2)).max(initial=0)
        information = sum(divergence(counts, prior) for counts in near.T if counts.any())
        rarity = self._rarity[words].mean() if len(words) else 0.0
        scores = np.log((near + SMOOTHING * usual) / (occurrences[:, None] + SMOOTHING) / usual).sum(axis=1)
        scores += np.log(prior)
        rank, spread = (scores > scores[gold]).sum(), -divergence(np.exp(scores - scores.max()), np.ones_like(scores))
        return [np.log1p(occurrences[gold]), rarity, association, information, -np.log1p(rank), -spread]


def divergence(weights: Any, reference: Any) -> float:
    """Return Σ p ln (p / reference), where p is the share of *weights*; with ones, the negative entropy."""
    shares = weights[weights > 0] / weights.sum()
    return float((shares * np.log(shares / reference[weights > 0])).sum())


class LabelledPrompts(NamedTuple):
    """All labelled prompts of a corpus, with their measures, shape (prompts, measures)."""

    texts: list[str]
    documents: list[str]
    measured: Any
    labels: list[dict[str, str]]

    @classmethod
    def read(cls, held_out: Path, development: Path, corpus: str, facts: Sequence[dict[str, Any]]) -> LabelledPrompts:
        nearby: dict[str, list[NearbyText]] = {}
        for type_, text in nearby_texts([held_out, development], lists_of(held_out, corpus)):
            nearby.setdefault(type_, []).append(text)
        near = {type_: Neighbourhood(own) for type_, own in nearby.items()}
        by_place = {(fact["groups"]["document"], fact["groups"]["offset"]): fact for fact in facts}
        rows = [row for row in labels() if row["corpus"] == corpus]
        texts, measured = [], []
        for row in rows:
            fact = by_place[row["document"], row["offset"]]
            sentence = fact["sentences"][0]
            texts.append(sentence if isinstance(sentence, str) else sentence["text"])
            measured.append(near[fact["relation"]].measures(texts[-1], fact["answer"], row["document"]))
        return cls(texts, [row["document"] for row in rows], np.array(measured), rows)

    def scores(self, asked: Any) -> Iterator[tuple[str, Any]]:
        """Yield measures, a sum, and predictions of classifiers that saw no prompt of the same document."""
        yield from zip(MEASURES, self.measured.T, strict=True)
        yield "rarity + association + low rank", scale(self.measured)[:, [1, 2, 4]].sum(axis=1)
        regression = LogisticRegression(C=0.1, max_iter=2000)
        words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
        letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), min_df=3, sublinear_tf=True)
        yield "regression on all measures", self._predicted(StandardScaler(), regression, self.measured, asked)
        yield "regression on words", self._predicted(words, LogisticRegression(), self.texts, asked)
        yield "regression on letters", self._predicted(letters, LogisticRegression(), self.texts, asked)

    def _predicted(self, features: Any, regression: Any, inputs: Any, asked: Any) -> Any:
        classifier, total = make_pipeline(features, regression), 0.0
        for seed in range(REPEATS):
            folds = StratifiedGroupKFold(10, shuffle=True, random_state=seed)
            own = {"groups": self.documents, "cv": folds, "method": "predict_proba"}
            total += cross_val_predict(classifier, inputs, asked, **own)[:, 1]
        return total


@benchmark
def context(held_out: Path, development: Path, corpus: Literal["biomedical", "general"] = BIOMEDICAL) -> None:
    """Report how precisely measures of its words find the prompts that ask something.

    --held-out, --development: folders that ``prompts`` made of both parts of the corpus.
    """
    facts = [json.loads(line) for line in (held_out / "built" / "facts.jsonl").read_text(encoding="utf-8").splitlines()]
    sample = LabelledPrompts.read(held_out, development, corpus, facts)
    remaining = len(facts) / BEFORE[corpus]
    keep = round(len(sample.labels) / 2 / remaining)
    print(f"{remaining:.1%} of the prompts remain; half are {keep} of {len(sample.labels)} labelled ones")
    print(f"{(sample.measured[:, 0] == 0).mean():.1%} of these have an answer that no other document names")
    for name, agreed in (("both readers say yes", all), ("either says yes", any)):
        asked = np.array([agreed(row[f"asked_{reader}"] == "yes" for reader in "12") for row in sample.labels])
        share, low, high = (remaining * value for value in share_interval(int(asked.sum()), len(asked)))
        print(f"\n{name}: {share:.1%} [{low:.1%}, {high:.1%}] of the prompts before the rules remain and ask\n")
        table = Table("measure", "AUC", f"ask, of the best {keep}", "95 %", "answer in no other document")
        for measure, score in sample.scores(asked):
            best = np.argsort(-score, kind="stable")[:keep]
            share, low, high = share_interval(int(asked[best].sum()), keep)
            cells = (f"{share:.1%}", f"{low:.1%} to {high:.1%}", f"{(sample.measured[best, 0] == 0).mean():.1%}")
            table.row(measure, f"{roc_auc_score(asked, score):.2f}", *cells)
