#!/usr/bin/env python3
"""Trains assets/archive-<N>.dict, the zstd dictionary behind archived turns (src/store/archive).

usage: make_archive_dictionary.py OUT [--bytes N]

Needs the `zstd` command. Everything it reads is our own text from this repository: the chats in bench/chats (but for
two, which `recalld bench archive` measures with), and archive_phrases: what people and assistants say in five languages,
and tool calls as they are stored beside a turn. Documentation was tried too and made chats larger.

A dictionary that was released never changes: blocks name it by its number and cannot be read without it. A better one
gets the next number and a line in src/store/archive/dictionary.rs.
"""
import argparse
import json
import subprocess
import tempfile
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
# Measured with, so not learned from.
HELD_OUT = {"03-marathon-training.json", "11-job-search.json"}
BLOCK_MESSAGES = 20
# Phrases are few and general, chats are many and special.
PHRASE_COPIES = 4


def chat_texts():
    """Blocks of messages, as they are archived."""
    for path in sorted((HOME / "bench/chats").glob("*.json")):
        if path.name in HELD_OUT:
            continue
        for chat in json.loads(path.read_text()):
            said = [message["content"] for message in chat["messages"]]
            for at in range(0, len(said), BLOCK_MESSAGES):
                yield "".join(said[at:at + BLOCK_MESSAGES])


def phrase_texts():
    """Lines of one language; each copy in another order, so that no order is learned."""
    for path in sorted((HOME / "tools/archive_phrases").glob("*.txt")):
        lines = path.read_text().splitlines()
        for copy in range(PHRASE_COPIES):
            step = 2 * copy + 1
            turned = [lines[at * step % len(lines)] for at in range(len(lines))]
            for at in range(0, len(turned), BLOCK_MESSAGES):
                yield "".join(turned[at:at + BLOCK_MESSAGES])


def train(out, size, texts):
    """Runs zstd's trainer over the texts, each a file of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            Path(folder, f"{number:05}").write_text(text)
        subprocess.run(
            ["zstd", "-q", "-f", "-T1", "-r", folder, "--train-fastcover=d=6,k=200,f=20,accel=1", "-19",
             f"--maxdict={size}", "--dictID=1", "-o", str(out)], check=True)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bytes", type=int, default=65536)
    args = parser.parse_args()
    train(args.out, args.bytes, [*chat_texts(), *phrase_texts()])
    print(f"{args.out}: {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
