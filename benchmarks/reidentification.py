"""Re-identification of entities in worlds by an attacker with the original texts.

Linkage by nearest neighbour, as in the evaluation of anonymised texts: each description in the world is compared with
the original descriptions. The entity is re-identified if its original description is the nearest. Equally near
descriptions are in random order, so that an uninformative description is worth a random guess.
"""

from __future__ import annotations

import gzip
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse
from harness import DATA, Table, benchmark, scratch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fathom
from fathom.base.errors import BadInput
from fathom.data.columns import take_rows
from fathom.data.knowledge import KnowledgeGraph
from fathom.engine.models.base import Attention, Model
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.tokens import Bos, resolve_bos
from fathom.engine.scoring.vectors import encode_texts, resolve_pooling, vectors
from fathom.results.estimates import mean
from fathom.results.metrics.ranking import hits_at_k
from fathom.results.samples import Sample
from fathom_build.worlds import Materials, Variant, make_world, parse_variants
from fathom_build.worlds.world import BASE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Vectors = NDArray[np.float32]
Ids = tuple[int, ...]
ENTITY = Sample("entity")
WORD = r"(?u)\b\w\w+\b"
CUTOFFS = (1, 10)
"""The k of reported Hits@k."""
ATTACKED = 2_000
"""Maximum number of attacked entities; from a larger graph, a sample is drawn."""
TRAINED = 500
"""The same for entities that an attack is trained on."""
ALIGNED = 50
"""Descriptions that share most words, with which a text is aligned."""
NEAREST = 25
"""Descriptions of each kind of similarity that the trained ranking compares."""
CELLS = 1 << 24
"""Similarities in memory at a time."""
TOGETHER = 1 << 14
"""Pairs of texts that are compared at a time."""
TIED = 1e-6
"""Cosines that differ by less are equal: rounding of float32."""
IN_ONE_WORD = ('This sentence: "', '" means in one word: "')
"""Texts around a description for a causal model."""


class Attack(Protocol):
    """An attacker that knows the original descriptions, shape (n,)."""

    name: str

    def places(self, texts: Sequence[str], original: Ints) -> Places:
        """Rank the original description of each entity.

        :param texts: descriptions in the world, shape (queries,).
        :param original: number of each one's original among the n.
        """


class Places(NamedTuple):
    """Numbers of nearer (``above``) and equally near (``level``, with the original) descriptions; shape (queries,)."""

    above: Ints
    level: Ints

    def hits(self, k: int) -> Floats:
        """Return the probability that the original is among the first k, ties in random order; shape (queries,)."""
        return hits_at_k(self.above + 1, self.above + self.level, k)


class TfIdf:
    """TF-IDF vectors of length 1, tf · (ln((1 + n) / (1 + df)) + 1) (Salton and Buckley 1988; scikit-learn).

    :param texts: original descriptions, shape (n,).
    """

    name = "TF-IDF"
    _units: Mapping[str, Any] = {"token_pattern": WORD, "dtype": np.float32}

    def __init__(self, texts: Sequence[str]) -> None:
        self._vectorizer = TfidfVectorizer(**self._units)
        try:
            self._vectorizer.fit(texts)
        except ValueError:  # none of them has a word
            self._vectorizer.fit(["nothing"])
        self.vectors = self.vectors_of(texts)

    def vectors_of(self, texts: Sequence[str]) -> Any:
        """Return sparse rows of length 1, or 0 without a known word; shape (texts, words)."""
        return self._vectorizer.transform([*texts, ""])[: len(texts)]  # it refuses an empty list

    def places(self, texts: Sequence[str], original: Ints) -> Places:
        """Return places, see :class:`Attack`."""
        return _places_by_cosine(self.vectors_of(texts), self.vectors, original)


class CharacterNgrams(TfIdf):
    """TF-IDF of runs of three to five characters within words, which finds parts of replaced words."""

    name = "character n-grams"
    _units: Mapping[str, Any] = {"analyzer": "char_wb", "ngram_range": (3, 5), "dtype": np.float64}


class Pairs(NamedTuple):
    """Texts (``row``, ascending) and descriptions (``description``) to compare; shape (pairs,)."""

    row: Ints
    description: Ints

    def dot(self, texts: Any, descriptions: Any) -> Floats:
        """Multiply sparse rows of both; shape (pairs,)."""
        parts = (slice(start, start + TOGETHER) for start in range(0, len(self.row), TOGETHER))
        dots = [_total(texts[self.row[part]].multiply(descriptions[self.description[part]])) for part in parts]
        return np.concatenate([np.zeros(0), *dots])

    def rank(self, score: Floats, original: Ints, n: int) -> Places:
        """Place each original by score; all of the n descriptions that are in no pair of a text are equally near."""
        is_original = self.description == original[self.row]
        wanted = np.full(len(original), -np.inf)
        wanted[self.row[is_original]] = score[is_original]
        above = np.bincount(self.row[score > wanted[self.row] + TIED], minlength=len(original))
        tied = np.bincount(self.row[np.abs(score - wanted[self.row]) <= TIED], minlength=len(original))
        return Places(above, np.where(np.isfinite(wanted), tied, n - above))


class Alignment:
    """The share of words in common runs (Ratcliff and Metzener 1988; difflib), which finds visible words in order.

    Each text is aligned with the descriptions that share most words with it.
    """

    name = "alignment of words"

    def __init__(self, texts: Sequence[str]) -> None:
        self.words = [_words(text) for text in texts]
        self._count = CountVectorizer(analyzer=_words, binary=True, dtype=np.float32)
        self._known = self._count.fit_transform([*texts, "nothing"])[: len(texts)]

    def places(self, texts: Sequence[str], original: Ints) -> Places:
        """Return places, see :class:`Attack`."""
        pairs = _nearest(self._count.transform(texts), self._known, ALIGNED)
        return pairs.rank(self.ratios(texts, pairs), original, len(self.words))

    def ratios(self, texts: Sequence[str], pairs: Pairs) -> Floats:
        """Align the texts and descriptions of all pairs; shape (pairs,)."""
        ratios, last = np.zeros(len(pairs.row)), -1
        matcher = SequenceMatcher(None, autojunk=False)
        for place, (row, description) in enumerate(zip(pairs.row.tolist(), pairs.description.tolist(), strict=True)):
            if row != last:
                matcher.set_seq2(_words(texts[row]))
                last = row
            matcher.set_seq1(self.words[description])
            ratios[place] = matcher.ratio()
        return ratios


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class TrainedRanking:
    """Logistic regression over similarities of the attacks above, trained on other worlds of the same construction.

    The attacker makes two worlds from the original graph. Words that a description has in both are those that the
    construction leaves visible. The regression learns from the first world which description is an entity's own.

    :param others: descriptions of the n entities in both worlds.
    """

    name = "trained ranking"

    def __init__(
        self, words: TfIdf, ngrams: CharacterNgrams, alignment: Alignment, others: Sequence[Sequence[str]]
    ) -> None:
        self._words, self._ngrams, self._alignment = words, ngrams, alignment
        self._sizes = np.array([len(words) for words in alignment.words], dtype=np.float64)
        first, second = map(words.vectors_of, others)
        self._visible = first.minimum(second).tocsr()
        self._length = np.sqrt(_total(self._visible.multiply(self._visible)))
        sample = choose(len(others[0]), TRAINED, seed=1)
        pairs, features = self._features([others[0][row] for row in sample.tolist()])
        is_own = pairs.description == sample[pairs.row]
        self._model = None
        if is_own.any() and not is_own.all():
            scale = StandardScaler()
            regression = LogisticRegression(max_iter=10_000)
            self._model = make_pipeline(scale, regression).fit(features, is_own)

    def places(self, texts: Sequence[str], original: Ints) -> Places:
        """Return places, see :class:`Attack`; without a pair to learn from, all descriptions are equally near."""
        pairs, features = self._features(texts)
        if self._model is None or not len(features):
            pairs, score = Pairs(*np.zeros((2, 0), dtype=np.int64)), np.zeros(0)
        else:
            score = self._model.decision_function(features)
        return pairs.rank(score, original, len(self._sizes))

    def _features(self, texts: Sequence[str]) -> tuple[Pairs, Floats]:
        """Compare each text with its nearest descriptions, and with the best of them.

        :returns: pairs and their features, shape (pairs, 2 · similarities).
        """
        words, ngrams, visible = self._words.vectors_of(texts), self._ngrams.vectors_of(texts), self._visible
        spaces = ((words, self._words.vectors), (ngrams, self._ngrams.vectors), (words, visible))
        row, description = pairs = Pairs(*np.unique(np.hstack([_nearest(*both, NEAREST) for both in spaces]), axis=1))
        sizes = np.array([len(_words(text)) for text in texts], dtype=np.float64)
        longer = np.log1p(sizes[row]) - np.log1p(self._sizes[description])
        columns = (
            pairs.dot(words, self._words.vectors),
            pairs.dot(ngrams, self._ngrams.vectors),
            pairs.dot(words, visible) / np.maximum(self._length[description], TIED),
            # Visible words that the text has, as a share; and words of the text that are visible ones.
            (pairs.dot(words.sign(), visible) + 0.01) / (_total(visible)[description] + 0.01),
            pairs.dot(words, visible.sign()) / np.maximum(_total(words)[row], TIED),
            self._alignment.ratios(texts, pairs),
            longer,
            np.abs(longer),
        )
        similarities = np.column_stack(columns)
        if not len(row):
            return pairs, similarities
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        best = np.repeat(np.maximum.reduceat(similarities, starts, axis=0), np.diff(starts, append=len(row)), axis=0)
        return pairs, np.hstack([similarities, similarities - best])


def choose(n: int, most: int, seed: int = 0) -> Ints:
    """Draw entities among n; shape (at most *most*,), ascending."""
    return np.sort(np.random.default_rng(seed).choice(n, min(n, most), replace=False))


def _total(rows: Any) -> Any:
    return np.asarray(rows.sum(axis=1)).ravel()


def _nearest(queries: Any, descriptions: Any, most: int) -> Pairs:
    """Find the *most* descriptions of greatest positive similarity for each text."""
    rows, others, by_unit = [], [], descriptions.T.tocsr()
    for part in _parts(queries.shape[0], descriptions.shape[0]):
        near = (queries[part] @ by_unit).tocsr()
        for row, (start, end) in enumerate(pairwise(near.indptr.tolist())):
            score, found = near.data[start:end], near.indices[start:end]
            best = np.argpartition(-score, most)[:most] if len(score) > most else slice(None)
            others.append(found[best].astype(np.int64))
            rows.append(np.full(len(others[-1]), part.start + row))
    none = np.zeros(0, dtype=np.int64)
    return Pairs(np.concatenate([none, *rows]), np.concatenate([none, *others]))


class VectorAttack:
    """Description vectors by a language model.

    :param encode: texts → vectors, shape (texts, d); NaN for a text that the model cannot read.
    """

    def __init__(self, name: str, encode: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> None:
        self.name, self._encode = name, encode
        self.vectors = _unit(encode(texts))

    def places(self, texts: Sequence[str], original: Ints) -> Places:
        """Return places, see :class:`Attack`."""
        return _places_by_cosine(_unit(self._encode(texts)), self.vectors, original)


def _unit(vectors: Vectors) -> Vectors:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    fine = np.isfinite(length) & (length > 0)
    return np.where(fine, vectors / np.where(fine, length, 1), 0).astype(np.float32)


def _places_by_cosine(queries: Any, vectors: Any, original: Ints) -> Places:
    """:param queries: rows of length 1, dense or sparse, as *vectors*."""
    above, level = np.zeros((2, len(original)), dtype=np.int64)
    for part in _parts(len(original), vectors.shape[0]):
        near = queries[part] @ vectors.T
        apart = near.toarray() if scipy.sparse.issparse(near) else near
        apart -= np.take_along_axis(apart, original[part, None], axis=1)
        above[part], level[part] = (apart > TIED).sum(axis=1), (np.abs(apart) <= TIED).sum(axis=1)
    return Places(above, level)


def _parts(queries: int, descriptions: int) -> Iterator[slice]:
    size = max(1, CELLS // max(descriptions, 1))
    return (slice(start, start + size) for start in range(0, queries, size))


def description_encoder(model: Model, budget: Budget) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """Return a function from descriptions to vectors, shape (texts, d); NaN for an empty text.

    Encoders read the text itself; causal models summarise it in one word (PromptEOL, Jiang et al. 2024). If a text
    exceeds the model's window, tokens before the closing ones are dropped.

    :raises BadInput: an encoder-decoder.
    """
    if model.attention is Attention.SEQ2SEQ:
        raise BadInput("descriptions need a causal model or an encoder; this one is an encoder-decoder")
    causal = model.attention is Attention.CAUSAL
    before, after = IN_ONE_WORD if causal else ("", "")
    bos = resolve_bos(model.tokenizer, Bos.AUTO) if causal else None
    closing = 1 + (len(encode_texts(model, [after], None)[0]) if causal else 0)
    pooling, window = resolve_pooling(model, "auto"), model.max_tokens

    def fitting(tokens: Ids) -> Ids:
        if window is None or len(tokens) <= window:
            return tokens
        return (*tokens[: max(0, window - closing)], *tokens[-closing:])

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        ids = encode_texts(model, [f"{before}{text}{after}" if text.strip() else "" for text in texts], bos)
        rows = vectors(model, [fitting(tokens) for tokens in ids], pooling, budget).float().cpu().numpy()
        return np.where([[bool(text.strip())] for text in texts], rows, np.float32(np.nan))

    return encode


class Attacks:
    """Attacks on the descriptions of worlds of one graph.

    :param model: attacks with its vectors of the descriptions, in addition to the other attacks.
    """

    def __init__(self, materials: Materials, model: Model | None = None) -> None:
        self._materials = materials
        texts = self._texts(materials.graph)
        self._similarities = TfIdf(texts), CharacterNgrams(texts), Alignment(texts)
        self._by_vectors: list[Attack] = []
        if model is not None:
            encode = description_encoder(model, Budget(None, model.device))
            self._by_vectors.append(VectorAttack(model.identity.name, encode, texts))

    def places(self, world: KnowledgeGraph, variant: Variant) -> dict[str, Places]:
        """Attack a sample of at most :data:`ATTACKED` entities of a world; return the places by attack."""
        described = self._materials.described
        sample = choose(len(described), ATTACKED)
        texts = take_rows(world.entities.column("description"), described[sample]).to_pylist()
        attacks: list[Attack] = [*self._similarities, self._trained(variant), *self._by_vectors]
        return {attack.name: attack.places(texts, sample) for attack in attacks}

    def _trained(self, variant: Variant) -> TrainedRanking:
        """Train on two worlds of the construction of *variant* with other seeds; relations change no description."""
        parts = variant.parts.replace("r", "")
        base, others = self._materials, []
        for seed in (base.seed + 1, base.seed + 2):
            materials = Materials(base.graph, seed, base.options)
            built = make_world(Variant(variant.construction, parts) if parts else BASE, materials)
            others.append(self._texts(built.graph))
        return TrainedRanking(*self._similarities, others)

    def _texts(self, graph: KnowledgeGraph) -> list[str]:
        texts: list[str] = take_rows(graph.entities.column("description"), self._materials.described).to_pylist()
        return texts


def hits_by_name(source: KnowledgeGraph, world: KnowledgeGraph) -> Floats:
    """Guess by name: an unchanged name re-identifies its entity, and entities of one name share the hit.

    Predictors read the id of an entity without a name, which worlds keep.
    """
    old, new = _names_or_ids(source), _names_or_ids(world)
    bearers = Counter(old)
    return np.array([(name == before) / bearers[before] for name, before in zip(new, old, strict=True)])


def _names_or_ids(graph: KnowledgeGraph) -> list[str]:
    columns = (graph.entities.column(name).to_pylist() for name in ("name", "id"))
    return [name.strip() or id_ for name, id_ in zip(*columns, strict=True)]


@benchmark
def reidentification(
    data: tuple[str, ...] = ("wn18rr", "fb15k237", "codex"),
    sizes: tuple[int, ...] = (150, 1_500, 15_000),
    variants: tuple[str, ...] = ("virtual-e", "anonymised-e", "inconsistent-ed", "fully-anonymised-ed"),
    relax: bool = False,
    model: str | None = None,
    device: str = "cpu",
    folder: Path | None = None,
) -> None:
    """Tabulate the share of the entities of a sample that each attack re-identifies, in %.

    By an unchanged name, and by description (Hits@1, then Hits@10 of the strongest attack). --model adds a language
    model that attacks with its vectors. CoDEx is published without texts. Here CoDEx-M has the names and descriptions
    of Wikidata that FB15k-237 comes with, and only triples between entities that have them. A sample is the whole graph
    if that is smaller. --data: folders, or names of folders in the reference data.
    """
    from fathom.data.sample import sample_graph
    from fathom.engine.models.loading import load
    from fathom_build.options import WorldOptions

    loaded = load(model, device=device) if model else None
    names = [TfIdf.name, CharacterNgrams.name, Alignment.name, TrainedRanking.name]
    names += [loaded.identity.name] if loaded else []
    table = Table("sample", "described", "world", "name", *names, "strongest", "among ten", "CPU, s")
    for source in data:
        with scratch(folder) as place:
            found = Path(source) if Path(source).exists() else DATA / source
            graph = fathom.read_data(_write_codex(place / "codex") if source == "codex" else found).graph
        assert graph is not None
        for size in sizes:
            part = sample_graph(graph, size).graph if size < len(graph.entities) else graph
            materials = Materials(part, options=WorldOptions(relax=relax))
            attacks, sample = Attacks(materials, loaded), f"{source} {len(part.entities):,}"
            for variant in parse_variants(variants):
                start = time.process_time()
                world = make_world(variant, materials).graph
                places = attacks.places(world, variant)
                by_name = f"{100 * hits_by_name(part, world).mean():.1f}"
                best = max(places, key=lambda name: places[name].hits(1).mean())
                rates = [_percent(places[name].hits(1)) for name in names]
                among = _percent(places[best].hits(10))
                took = time.process_time() - start
                table.row(sample, f"{len(materials.described):,}", variant, by_name, *rates, best, among, f"{took:.1f}")


def _percent(hits: Floats) -> str:
    share = mean(hits, ENTITY, "")
    return f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def _write_codex(folder: Path) -> Path:
    """Write CoDEx-M with Wikidata's texts of the entities that FB15k-237 has, too."""
    folder.mkdir()
    source = DATA / "codex" / "codex-m"
    with gzip.open(DATA / "fb15k237" / "entity2wikidata.json.gz", "rt", encoding="utf-8") as stream:
        texts = {entity["wikidata_id"]: entity for entity in json.load(stream).values()}
    for split, file in (("train", "train.txt.gz"), ("dev", "valid.txt"), ("test", "test.txt")):
        with (gzip.open if file.endswith("gz") else open)(source / file, "rt", encoding="utf-8") as stream:
            kept = [line for line in stream if {line.split()[0], line.split()[2]} <= texts.keys()]
        (folder / f"{split}.tsv").write_text("".join(kept), encoding="utf-8")
    for file, key in (("entity2text.txt", "label"), ("entity2textlong.txt", "description")):
        rows = (f"{id_}\t{entity[key] or ''}\n" for id_, entity in texts.items())
        (folder / file).write_text("".join(rows), encoding="utf-8")
    return folder
