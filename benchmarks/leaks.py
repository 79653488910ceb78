"""The search of ``fathom build cloze`` for sentences that reveal their own answer: planted leaks and look-alikes."""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from harness import DATA, Table, benchmark, share_interval

from fathom_build.cloze.entities import ListedEntity
from fathom_build.cloze.sentences import KEPT, LEAKS, Leaks, Selector
from fathom_build.options import ClozeBuildOptions

FRAMES = (
    "{a} was measured in patients with {b} before treatment",
    "Levels of {a} were higher in cells that had {b} for two days",
    "The effect of {a} depends on {b} in the liver of young rats",
    "In most samples {a} and {b} were seen at the same time",
)
LITTLE = ("no", "was", "can", "at", "it", "as", "in", "is", "for", "had", "not", "an", "on", "to", "with", "all")
INNER = {
    "tin": ("testing", "destined", "continued", "routine"),
    "iron": ("environment", "environmental", "environments"),
    "lead": ("misleading", "pleading", "misleads"),
    "amine": ("examined", "examiners", "examines"),
    "gold": ("marigolds", "marigold"),
    "zinc": ("zincite", "zincate"),
    "RNA": ("alternative", "hibernation", "internal", "eternal"),
    "Ras": ("ultrasound", "contrast", "grassy"),
    "ATP": ("flatpack", "flatpacks"),
    "CAT": ("located", "indicate", "category"),
}
COUSINS = {
    "glucose": ("glucagon", "glucan", "glucuronate"),
    "aspirin": ("aspirate", "aspiration", "aspired"),
    "calcium": ("calcite", "calcitonin", "calcified"),
    "insulin": ("insulated", "insulation", "insular"),
    "lithium": ("lithotripsy", "lithiasis", "lithography"),
    "dopamine": ("dopant", "doping"),
    "cocaine": ("cocoa", "coccus", "cochlea"),
    "morphine": ("morphology", "morphism", "morphogen"),
    "nicotine": ("niche", "nicked", "nicotinate"),
    "histamine": ("histology", "histone", "histogram"),
}
RELATED = {
    "amine": ("aminergic", "aminic"),
    "ine": ("inic", "inism"),
    "ate": ("ic acid",),
    "one": ("onic",),
    "sis": ("tic",),
}
Case = tuple[tuple[str, ...], str, str]
"""Names of an entity, the name that the sentence is about, and the words that give it away or only seem to."""


def plural(name: str) -> str:
    """Return the English plural."""
    if re.search(r"[^aeiou]y$", name):
        return name[:-1] + "ies"
    return name + ("es" if re.search(r"(s|x|z|ch|sh)$", name) else "s")


def other_case(name: str, draw: random.Random) -> str:
    """A way to write a name that differs from it, and from it as it begins a sentence."""
    ways = {name.lower(), name.upper(), name.swapcase(), name.title()} - {name, name[:1].upper() + name[1:]}
    return draw.choice(sorted(ways))


class Planter:
    """:param words: names of one word, *codes* those with capitals, *phrases* those of several words."""

    def __init__(self, words: list[str], codes: list[str], phrases: list[str], seed: int) -> None:
        self.words, self.codes, self.phrases = words, codes, phrases
        self.draw = random.Random(seed)
        self.having = Counter(word for phrase in phrases for word in set(phrase.split()))

    def case(self) -> Case:
        name = self.draw.choice(self.codes)
        return (name,), name, other_case(name, self.draw)

    def stem(self) -> Case:
        name = self.draw.choice(self.words)
        return (name,), name, self.draw.choice((plural(name), plural(name).capitalize(), plural(name).upper()))

    def sub_string(self) -> Case:
        if self.draw.random() < 0.3:
            code = self.draw.choice(self.codes)
            return (code,), code, self.draw.choice(("anti{}", "{}ergic", "{}like", "r{}", "{}induced")).format(code)
        name = self.draw.choice(self.words)
        ways = ("pro{}", "anti{}", "{}ase", "{}like", "{}emia", "poly{}", "{}induced", "non{}", "hyper{}emia")
        return (name,), name, self.draw.choice(ways).format(name)

    def alias(self) -> Case:
        name, code, phrase = (self.draw.choice(kind) for kind in (self.words, self.codes, self.phrases))
        said = (plural(phrase), other_case(code, self.draw), re.sub(" ", "-", phrase, count=1))
        return (name, code, phrase), name, self.draw.choice(said)

    def kin(self) -> Case:
        name = self.draw.choice([word for word in self.words if len(word) >= 8 and word.endswith(tuple(RELATED))])
        ending = next(ending for ending in RELATED if name.endswith(ending))
        return (name,), name, name.removesuffix(ending) + self.draw.choice(RELATED[ending])

    def part(self) -> Case:
        """The first word, which no other phrase has, as it is or in the plural; the last says of what kind it is."""
        phrase = self.draw.choice([phrase for phrase in self.phrases if self.rare(phrase)])
        [word] = self.rare(phrase)
        return (
            (phrase,),
            phrase,
            self.draw.choice((word, word.capitalize(), *([] if word[-1] == "s" else [plural(word)]))),
        )

    def rare(self, phrase: str) -> list[str]:
        return [word for word in phrase.split()[:1] if len(word) >= 6 and self.having[word] == 1]

    def not_kin(self) -> Case:
        name = self.draw.choice(sorted(COUSINS))
        return (name,), name, self.draw.choice(COUSINS[name])

    def not_part(self) -> Case:
        """A word that many names have."""
        phrase = self.draw.choice([phrase for phrase in self.phrases if self.common(phrase)])
        word = self.draw.choice(self.common(phrase))
        return (phrase,), phrase, self.draw.choice((word, plural(word), word.capitalize()))

    def common(self, phrase: str) -> list[str]:
        return [word for word in phrase.split() if self.having[word] >= 0.01 * len(self.phrases)]

    def not_case(self) -> Case:
        little = self.draw.choice(LITTLE)
        return (little.upper(),), little.upper(), little

    def not_stem(self) -> Case:
        name = self.draw.choice(sorted(COUSINS))
        return (name,), name, self.draw.choice(COUSINS[name])

    def not_sub_string(self) -> Case:
        if self.draw.random() < 0.3:  # a further digit is another name
            code = self.draw.choice([code for code in self.codes if code[-1].isdigit()])
            return (code,), code, code + str(self.draw.randrange(10))
        name = self.draw.choice(sorted(INNER))
        return (name,), name, self.draw.choice(INNER[name])

    def not_alias(self) -> Case:
        name = self.draw.choice(sorted(COUSINS))
        little = self.draw.choice(LITTLE)
        return (name, little.upper()), name, self.draw.choice((little, self.draw.choice(COUSINS[name])))


def planted(planter: Planter, count: int) -> Iterator[tuple[str, bool, tuple[str, ...], str]]:
    """Kind, whether it is a leak, the names, and the sentence without its full stop."""
    kinds: dict[str, tuple[Callable[[], Case], Callable[[], Case]]] = {
        "case": (planter.case, planter.not_case),
        "stem": (planter.stem, planter.not_stem),
        "sub-string": (planter.sub_string, planter.not_sub_string),
        "kin": (planter.kin, planter.not_kin),
        "part": (planter.part, planter.not_part),
        "alias": (planter.alias, planter.not_alias),
    }
    for kind, ways in kinds.items():
        for leaks, way in zip((True, False), ways, strict=True):
            for _ in range(count):
                names, name, said = way()
                frame = planter.draw.choice(FRAMES)
                a, b = (name, said) if planter.draw.random() < 0.5 else (said, name)
                yield kind, leaks, names, frame.format(a=a, b=b)


class Judge:
    """:param listed: all names, so that it is known which words many of them have."""

    def __init__(self, listed: Sequence[str]) -> None:
        self._names: list[tuple[str, ...]] = [(), *((name,) for name in listed)]
        self._leaks = Leaks(self._names)

    def read_facts(self, names: tuple[str, ...], sentence: str) -> str:
        """Return the outcome of a sentence about an entity with these names."""
        selector = Selector(
            [ListedEntity(names[0], "names", names)],
            ClozeBuildOptions(quality=False, min_words=0, min_letters=1),
            (),
        )
        self._names[0] = names
        for found in selector.sentences(f"{sentence}."):
            before, _, after = found.masked.partition("[Y]")
            kind = self._leaks.kind(before, after, found.surface, 0) if found.outcome == KEPT else ""
            return LEAKS[kind] if kind else found.outcome
        return "no entity found"


def names_in(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Words of five letters and more, codes as TP53, and names of several words: each list sorted."""
    files = (folder / "ner" / name for name in ("chemicals.tsv", "genes.tsv"))
    names = {line.split("\t")[1] for file in files for line in file.read_text(encoding="utf-8").splitlines()}
    words = [name for name in names if re.fullmatch(r"[a-z]{5,14}", name)]
    codes = [name for name in names if re.fullmatch(r"[A-Z]{3,5}\d{0,2}|[a-z][A-Z]{2,4}\d?", name)]
    phrases = [name for name in names if re.fullmatch(r"[a-z]{4,}( [a-z]{4,}){1,3}", name)]
    little = {word.upper() for word in LITTLE}
    return sorted(words), sorted(code for code in codes if code not in little), sorted(phrases)


@benchmark
def leaks(count: int = 500, seed: int = 0, mistakes: int = 5) -> None:
    """Measure recall and precision of the search for sentences that reveal their answer.

    Plants --count leaks of each kind and as many look-alikes that are none, with names of BC5CDR's chemicals and
    BC2GM's genes, by ways of writing that are stated here and not taken from the filter. Intervals are Wilson's, 95 %;
    the first --mistakes of each kind are printed.
    """
    words, codes, phrases = names_in(DATA / "biomedical")
    print(f"{len(words):,} words, {len(codes):,} codes and {len(phrases):,} phrases; seed {seed}")
    judge = Judge([*words, *codes, *phrases])
    dropped: Counter[tuple[str, bool]] = Counter()
    wrong: dict[str, list[str]] = defaultdict(list)
    for kind, leaks, names, sentence in planted(Planter(words, codes, phrases, seed), count):
        outcome = judge.read_facts(names, sentence)
        dropped[kind, leaks] += outcome != KEPT
        if leaks == (outcome == KEPT):
            wrong[kind].append(f"{'missed' if leaks else outcome}: {sentence!r} {names}")
    table = Table("kind", "recall", "95 %", "precision", "95 %")
    for kind in dict.fromkeys(kind for kind, _ in dropped):
        hits, false = dropped[kind, True], dropped[kind, False]
        shares = (share_interval(hits, count), share_interval(hits, hits + false))
        cells = [cell for value, low, high in shares for cell in (f"{value:.3f}", f"{low:.3f} to {high:.3f}")]
        table.row(kind, *cells)
    for kind, sentences in wrong.items():
        print(*(f"{kind}: {sentence}" for sentence in sentences[:mistakes]), sep="\n")
