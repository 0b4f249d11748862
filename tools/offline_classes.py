"""Writes the embeddings of the classes of the offline model, after a change of their sentences.

    python tools/offline_classes.py

They are read from `imagenet_classes.txt`, encoded by the sentence encoder of the package, and kept in half precision.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from limner.encoders import offline_model

FILE = Path(offline_model.__file__).with_name("offline_data") / "class_embeddings.npy"


def main() -> None:
    """Writes the file."""
    sentences = offline_model.OfflineModel().sentences
    rows = offline_model.class_embeddings(sentences, offline_model.image_classes())
    np.save(FILE, rows.astype(np.float16))


if __name__ == "__main__":
    main()
