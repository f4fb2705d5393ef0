#!/usr/bin/env python3
"""Makes assets/archive-<N>.words and archive-<N>.dict, which archived turns are packed with (src/store/archive).

usage: make_archive_dictionary.py NUMBER [--into DIRECTORY]

Needs the `zstd` command. Everything it reads is our own text from this repository: the chats in bench/chats (but for
two, which `recalld bench archive` measures with), archive_phrases and archive_talk (what people and assistants say in
five languages, and tool calls as they are stored beside a turn), and archive_words (words worth a code even where our
texts do not use them).

First the words: those that save most get a code of one byte, the others of two. Then zstd's trainer learns from the
texts in that code. `words.rs` reads and writes the code; `run` here has to cut text as it does there.

What was released never changes: blocks name it by its number and cannot be read without it. A better one gets the next
number and a line in src/store/archive/dictionary.rs. (Number 1 had no words: this script as of 2026-06 made it.)
"""
import argparse
import json
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
# Measured with, so not learned from.
HELD_OUT = {"03-marathon-training.json", "11-job-search.json"}
BLOCK_MESSAGES = 20

# Codes: below 128 a byte is itself, the last one says that so many bytes are themselves, the others are words.
FIRST_CODE = 128
ESCAPE = 255
ONE_BYTE_WORDS = 64
TWO_BYTE_WORDS = (ESCAPE - FIRST_CODE - ONE_BYTE_WORDS) * 256
WORD_BYTES_MAX = 15
DICTIONARY_BYTES = 8192

LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'") | frozenset(range(128, 256))
SPACE = 32

# Friends who talk to each other.
NAMES = ("Anna", "Tom", "Maria", "David", "Emma", "Ben")


def chats():
    """Messages of the chats that may be learned from."""
    for path in sorted((HOME / "bench/chats").glob("*.json")):
        if path.name not in HELD_OUT:
            for chat in json.loads(path.read_text()):
                yield [message["content"] for message in chat["messages"]], None


def phrases():
    """Lines of one language."""
    for path in sorted((HOME / "tools/archive_phrases").glob("*.txt")):
        yield path.read_text().splitlines(), None


def talk():
    """Messages with a line of `%` between two: of two friends, or of a user and an assistant."""
    for at, path in enumerate(sorted((HOME / "tools/archive_talk").glob("*.txt"))):
        names = (NAMES[at % len(NAMES)], NAMES[(at + 1) % len(NAMES)]) if "friends" in path.stem else None
        yield path.read_text().rstrip("\n").split("\n%\n"), names


def frames(said, names):
    """Messages as they are archived: blocks of them, as `frame.rs` writes them."""
    for at in range(0, len(said), BLOCK_MESSAGES):
        texts = [text.encode() for text in said[at:at + BLOCK_MESSAGES]]
        extras = [b'{"question":{"name":"%s"}}' % names[at % 2].encode() for at in range(len(texts))] if names else []
        turns = len(texts) if names else len(texts) // 2
        parts = [2] * turns if names else [1] * turns
        numbers = [1, turns, at + 1] + [1] * (turns - 1) + parts + [len(text) for text in extras + texts]
        yield b"".join(map(varint, numbers)) + b"".join(extras + texts)


def varint(number):
    """A number, seven bits to a byte."""
    return (bytes([number & 127 | 128]) + varint(number >> 7)) if number > 127 else bytes([number])


def run(text, at):
    """How long the stretch is that one code may stand for: a word with the space before it, or a few other bytes."""
    start = at + 1 if text[at] == SPACE else at
    end = start
    while end < min(len(text), at + WORD_BYTES_MAX) and text[end] in LETTERS:
        end += 1
    if end > start:
        return end - at
    end = at
    while end < min(len(text), at + WORD_BYTES_MAX) and text[end] not in LETTERS:
        end += 1
    # The space belongs to the next word.
    next_word = text[end - 1] == SPACE and end < len(text) and text[end] in LETTERS
    return end - at - next_word


def runs(texts):
    """How often there is each."""
    counted = Counter()
    for text in texts:
        at = 0
        while at < len(text):
            length = run(text, at)
            counted[text[at:at + length]] += 1
            at += length
    return counted


def split(text, words):
    """The words of a text, the longest first wherever two begin; what is none of them byte by byte."""
    at = 0
    while at < len(text):
        length = run(text, at)
        while length > 1 and text[at:at + length] not in words:
            length -= 1
        yield text[at:at + length]
        at += length


def used(counted, words):
    """How often each word would be written."""
    uses = Counter()
    for text, count in counted.items():
        for word in split(text, words):
            uses[word] += count
    return uses


def listed():
    """Words and pieces of words that somebody thought of."""
    for path in sorted((HOME / "tools/archive_words").glob("*.txt")):
        before = "" if path.stem == "pieces" else " "
        yield from ((before + word).encode() for word in path.read_text().split())


def ends(counted, count):
    """The commonest beginnings and ends, for words that are in no list."""
    found = Counter()
    for text, times in counted.items():
        for length in range(2, min(6, len(text) + 1)):
            for piece in {text[:length], text[-length:]}:
                found[piece] += min(times, 3)
    return [piece for piece, _ in found.most_common(count)]


def choose_words(counted):
    """Words in the order of their codes. What saves little goes in three rounds, because what is left is then used more."""
    thought_of = {word for word in listed() if 1 < len(word) <= WORD_BYTES_MAX}
    words = {text for text, count in counted.items() if count > 1 and 1 < len(text) <= WORD_BYTES_MAX}
    words |= thought_of | set(ends(counted, 1500))
    for spare in (1.6, 1.3, 1.0):
        uses = used(counted, words)
        saves = {word: (uses[word] + (0.4 if word in thought_of else 0.1)) * (len(word) - 1.6) for word in words}
        best = sorted(words, key=lambda word: (-saves[word], word))
        words = set(best[:int(spare * (ONE_BYTE_WORDS + TWO_BYTE_WORDS))])
    uses = used(counted, words)
    ordered = sorted(words, key=lambda word: (-uses[word], word))
    # Two bytes for two bytes are nothing won, but for those that would have to be announced.
    worth = [word for word in ordered[ONE_BYTE_WORDS:] if len(word) > 2 or word[0] >= FIRST_CODE]
    return ordered[:ONE_BYTE_WORDS] + worth


def codes(words):
    """The bytes that stand for each word."""
    def code(at):
        if at < ONE_BYTE_WORDS:
            return bytes([FIRST_CODE + at])
        page, place = divmod(at - ONE_BYTE_WORDS, 256)
        return bytes([FIRST_CODE + ONE_BYTE_WORDS + page, place])
    return {word: code(at) for at, word in enumerate(words)}


def encode(text, coded):
    """A text in codes."""
    out, themselves = b"", b""
    for word in split(text, coded):
        if word in coded or word[0] < FIRST_CODE:
            out += announced(themselves) + coded.get(word, word)
            themselves = b""
        else:
            themselves += word
    return out + announced(themselves)


def announced(themselves):
    """Bytes that look like codes and are none."""
    pieces = [themselves[at:at + 255] for at in range(0, len(themselves), 255)]
    return b"".join(bytes([ESCAPE, len(piece)]) + piece for piece in pieces)


def write_words(out, words):
    """How many words have a code of one byte, then all words, each with its length before it."""
    out.write_bytes(bytes([ONE_BYTE_WORDS]) + b"".join(bytes([len(word)]) + word for word in words))


def train(out, number, texts):
    """Runs zstd's trainer over the texts, each a file of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for at, text in enumerate(texts):
            Path(folder, f"{at:05}").write_bytes(text)
        subprocess.run(
            ["zstd", "-q", "-f", "-T1", "-r", folder, "--train-fastcover=d=6,k=200,f=20,accel=1", "-19",
             f"--maxdict={DICTIONARY_BYTES}", f"--dictID={number}", "-o", str(out)], check=True)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("number", type=int)
    parser.add_argument("--into", type=Path, default=HOME / "assets")
    args = parser.parse_args()
    learned = [frame for said in [*chats(), *phrases(), *talk()] for frame in frames(*said)]
    words = choose_words(runs(learned))
    coded = codes(words)
    out = [args.into / f"archive-{args.number}.{kind}" for kind in ("words", "dict")]
    write_words(out[0], words)
    train(out[1], args.number, [encode(frame, coded) for frame in learned])
    for path in out:
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
