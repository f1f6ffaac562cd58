"""Makes reference.json: cosines of sentence pairs from the published implementation of the model.

    pip install sentence-transformers
    python reference.py MODEL_FOLDER > reference.json

MODEL_FOLDER holds the files of all-MiniLM-L6-v2, among them modules.json, by which
sentence-transformers builds its own pipeline: tokens, network, pooling, normalization.
"""

import json
import platform
import sys

import sentence_transformers
import tokenizers
import torch
import transformers

# Beyond 256 tokens, where the model's limit cuts, by different lengths.
LONG = " ".join(f"Clause {number}: the licensee shall keep this notice in every copy." for number in range(40))

PAIRS = [
    ("A man is eating food.", "A man is eating a piece of bread."),
    ("A man is eating food.", "The girl is carrying a baby."),
    ("How much memory does a tensor take?", "The bytes that an array occupies in RAM"),
    ("How much memory does a tensor take?", "Bake the cake for forty minutes."),
    ("THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND", "There is no guarantee that this program works."),
    ("naïve café façade, crème brûlée", "naive cafe facade, creme brulee"),
    ("机器学习", "machine learning"),
    ("fn main() { println!(\"{}\", 6 * 7); }", "a program in Rust that prints a number"),
    ("", "the empty text has tokens too"),
    ("   \t", ""),
    (LONG, "Each copy must contain the notice."),
    (LONG, LONG + " And here it goes on, where no token is left."),
]


def main():
    model = sentence_transformers.SentenceTransformer(sys.argv[1], device="cpu")
    pairs = []
    for a, b in PAIRS:
        # One text at a time: nothing is padded.
        left, right = (model.encode([text], normalize_embeddings=True, convert_to_tensor=True)[0] for text in (a, b))
        pairs.append({"a": a, "b": b, "cosine": float(left.double() @ right.double())})
    made_with = {
        "python": platform.python_version(),
        "sentence-transformers": sentence_transformers.__version__,
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
        "torch": torch.__version__,
    }
    # Escaped where it is not ASCII.
    json.dump({"made_with": made_with, "max_tokens": model.max_seq_length, "pairs": pairs}, sys.stdout, indent=1)
    print()


main()
