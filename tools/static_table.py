"""The table of the built-in embedder in Python: its file, and how a text becomes a vector.

`assets/NOTICE.md` describes the format and the four steps from a text to its vector; src/model/embed/builtin does the same
in Rust. needs: numpy scipy
"""
import json
import struct
import unicodedata

import numpy as np
import scipy.sparse as sparse

MAGIC = b"SEMBML\0\x01"
ENGLISH_SCORE_MIN = -32
WORD_CHARACTERS_MAX = 100
CJK = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF),
       (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))


# ---------- text to words, as BERT-uncased reads it

def is_punctuation(character):
    return (not character.isalnum() and 33 <= ord(character) <= 126) or unicodedata.category(character)[0] == "P"


def is_cjk(character):
    return any(first <= ord(character) <= last for first, last in CJK)


def without_accents(text):
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def words(text):
    """The words of a text; every punctuation mark and every CJK character is one."""
    if not text.isascii():
        text = without_accents("".join(f" {c} " if is_cjk(c) else c for c in text))
    found = []
    for run in text.lower().split():
        found += [run] if run.isascii() and run.isalnum() else split_run(run)
    return found


def split_run(run):
    """A run without white space, cut at punctuation."""
    found, word = [], ""
    for character in run:
        if is_punctuation(character):
            found += [word, character] if word else [character]
            word = ""
        elif unicodedata.category(character) not in ("Cc", "Cf") and character != "\ufffd":
            word += character
    return found + [word] if word else found


def pieces(word, rows):
    """The rows of the longest known pieces, from the beginning; none when something is left over."""
    if len(word) > WORD_CHARACTERS_MAX:
        return []
    found, start = [], 0
    while start < len(word):
        mark = "##" if start else ""
        end = next((end for end in range(len(word), start, -1) if mark + word[start:end] in rows), None)
        if end is None:
            return []
        found.append(rows[mark + word[start:end]])
        start = end
    return found


# ---------- words to rows

class Table:
    """Which rows a text has: 0 and up for English, then those of the other languages."""

    def __init__(self, english_words, other_words, scores=None):
        self.english_words, self.other_words, self.scores = english_words, other_words, scores
        self.english = {word: row for row, word in enumerate(english_words)}
        self.other = {word: row + len(english_words) for row, word in enumerate(other_words)}
        # Texts repeat words; looking each up once makes millions of sentences bearable.
        self.known = {True: {}, False: {}}

    def is_english(self, text_words):
        rows = (self.english.get(word, self.other.get(word)) for word in text_words)
        return sum(int(self.scores[row]) for row in rows if row is not None) >= ENGLISH_SCORE_MIN

    def word_rows(self, word, english):
        known = self.known[english]
        if word not in known:
            known[word] = self.look_up(word, english)
        return known[word]

    def look_up(self, word, english):
        first, second = (self.english, self.other) if english else (self.other, self.english)
        whole = first.get(word, second.get(word))
        if whole is not None:
            return [whole]
        # English was fitted without the pieces of the other languages.
        return pieces(word, first) or ([] if english else pieces(word, second))

    def rows(self, text, english=None):
        """The rows of a text, read in the language given or else guessed."""
        text_words = words(text)
        english = self.is_english(text_words) if english is None else english
        return [row for word in text_words for row in self.word_rows(word, english)]


def mean_matrix(row_lists, columns):
    """A sparse matrix that takes the mean of some rows for each text."""
    lengths = [len(rows) for rows in row_lists]
    texts = np.repeat(np.arange(len(row_lists)), lengths)
    shares = np.array([1 / max(1, length) for length in lengths], np.float32)
    rows = np.fromiter((row for rows in row_lists for row in rows), np.int32)
    return sparse.csr_matrix((shares[texts], (texts, rows)), shape=(len(row_lists), columns))


def unit(vectors):
    """Vectors at length one; zero stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return vectors / lengths


def embed(table, vectors, texts, english=None):
    return unit(mean_matrix([table.rows(text, english) for text in texts], len(vectors)) @ vectors)


# ---------- the file

class Cursor:
    """Takes one part of the file after the other."""

    def __init__(self, data, at):
        self.data, self.at = data, at

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]


def read(path):
    """A table and the vectors of its rows."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == MAGIC, f"{path} is not a table of words"
    english, other, dimensions, english_bytes, other_bytes, bits = struct.unpack("<IIIIII", data[8:32])
    assert bits in (4, 8), f"rows of {bits} bits are not known"
    cursor = Cursor(data, 32)
    english_words = cursor.take(english_bytes).decode().split("\n")
    other_words = cursor.take(other_bytes).decode().split("\n")
    scores = np.frombuffer(cursor.take(english + other), np.int8)
    scales = np.frombuffer(cursor.take(4 * (english + other)), "<f4")
    english_rows = np.frombuffer(cursor.take(english * dimensions), np.int8).reshape(english, dimensions)
    other_rows = unpacked(cursor.take(other * dimensions * bits // 8), other, dimensions, bits)
    vectors = np.vstack([english_rows.astype(np.float32), other_rows]) * scales[:, None]
    return Table(english_words, other_words, scores), vectors


def unpacked(data, rows, dimensions, bits):
    if bits == 8:
        return np.frombuffer(data, np.int8).reshape(rows, dimensions).astype(np.float32)
    halves = np.frombuffer(data, np.uint8).reshape(rows, dimensions // 2)
    values = np.empty((rows, dimensions), np.float32)
    values[:, 0::2], values[:, 1::2] = (halves & 15) - 7.5, (halves >> 4) - 7.5
    return values


def packed(rows, bits):
    if bits == 8:
        return rows.tobytes()
    halves = (rows + 8).astype(np.uint8)
    return np.ascontiguousarray(halves[:, 0::2] | (halves[:, 1::2] << 4)).tobytes()


def write(path, table, english, other, bits):
    """`english` and `other` are pairs of scales and whole-number rows."""
    (english_scales, english_rows), (other_scales, other_rows) = english, other
    english_words, other_words = "\n".join(table.english_words).encode(), "\n".join(table.other_words).encode()
    head = struct.pack("<IIIIII", len(table.english_words), len(table.other_words), english_rows.shape[1], len(english_words),
                       len(other_words), bits)
    with open(path, "wb") as file:
        for part in (MAGIC, head, english_words, other_words, table.scores.astype(np.int8).tobytes(),
                     english_scales.astype("<f4").tobytes(), other_scales.astype("<f4").tobytes(), english_rows.tobytes(),
                     packed(other_rows, bits)):
            file.write(part)


# ---------- checking

def check(path, reference_path):
    """Compares a table with texts whose language, rows and first values are known; the number of differences."""
    table, vectors = read(path)
    with open(reference_path, encoding="utf8") as file:
        reference = json.load(file)
    differences = [case["text"] for case in reference["texts"] if differs(table, vectors, case, reference["tolerance"])]
    for text in differences:
        print("differs:", text)
    print(f"{len(reference['texts'])} texts, {len(differences)} differ")
    return len(differences)


def differs(table, vectors, case, tolerance):
    text, first = case["text"], case["first8"]
    vector = embed(table, vectors, [text])[0]
    return (table.is_english(words(text)) != case["english"] or table.rows(text) != case["rows"]
            or bool(np.abs(vector[:len(first)] - first).max() > tolerance))
