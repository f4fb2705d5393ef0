#!/usr/bin/env python3
"""Writes src/model/embed/words/ranges.rs: the characters of some Unicode categories, as ranges.

usage: make_character_ranges.py > ../src/model/embed/words/ranges.rs

Rust's standard library does not tell categories and a crate for two of them would be larger than the list.
The output depends on the Unicode version of the Python that runs it; it is named in the first lines.
"""
import sys
import unicodedata

HEAD = """//! Characters of a few Unicode {version} categories, as ranges. Written by `tools/make_character_ranges.py`.
"""

TABLES = [
    ("PUNCTUATION", "P*: what BERT calls punctuation beyond ASCII.", lambda c: c.startswith("P")),
    ("SPACING_MARKS", "Mc and Me: combining marks that stay, as they are not accents but part of a word.",
     lambda c: c in ("Mc", "Me")),
]


def ranges(wanted):
    """Runs of neighbouring code points beyond ASCII whose category is wanted, first and last included."""
    found = []
    for code in range(0x80, sys.maxunicode + 1):
        if not wanted(unicodedata.category(chr(code))):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, meaning, wanted):
    """One Rust constant."""
    found = ranges(wanted)
    pairs = [f"(0x{first:x}, 0x{last:x})," for first, last in found]
    lines = ["    " + " ".join(pairs[at:at + 6]) for at in range(0, len(pairs), 6)]
    head = f"/// {meaning}\n#[rustfmt::skip]\npub(super) const {name}: [(u32, u32); {len(found)}] = [\n"
    return head + "\n".join(lines) + "\n];\n"


def main():
    print(HEAD.format(version=unicodedata.unidata_version))
    print("\n".join(table(*entry) for entry in TABLES), end="")


if __name__ == "__main__":
    main()
