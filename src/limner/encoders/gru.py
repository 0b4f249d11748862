"""A local GRU: words in order, without any download; its weights lie in a folder of one's own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor, nn

from limner.core.errors import LimnerError
from limner.core.files import replacing_model, write_text
from limner.core.paths import damage_told, read_json
from limner.encoders.offline import fingerprint_of
from limner.encoders.running import Running, TorchEncoder, mean_pooled
from limner.encoders.words import words

WEIGHTS, CONFIG = "model.safetensors", "config.json"
UNKNOWN = 1
"""The number of every word that is not known; 0 fills a batch up."""


class Reader(nn.Module):
    """Word vectors and a GRU over them; the mean of its states is the vector of a text (Cho et al. 2014)."""

    def __init__(self, size: int, *, word_dim: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(size, word_dim, padding_idx=0)
        self.gru = nn.GRU(word_dim, dim, batch_first=True)

    def forward(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """Vectors of a batch; what fills it up comes last and changes no state before it."""
        states, _ = self.gru(self.table(tokens))
        return mean_pooled(states, filled)


class GruEncoder(TorchEncoder):
    """A GRU over words, from a folder that `save` wrote.

    Args:
        model: The folder.
        running: `device`, `precision` and `budget` of `limner.encoders.running.TorchEncoder`.
    """

    def __init__(self, model: str | Path, **running: Unpack[Running]) -> None:
        super().__init__(**running)
        self.folder: Path | None = Path(model)
        self._set(*_read(self.folder))

    def _set(self, known: Sequence[str], reader: Reader) -> None:
        self.words, self.reader = tuple(known), reader.to(self.device).eval()
        self.number = {word: number for number, word in enumerate(self.words, start=UNKNOWN + 1)}
        self.dim = int(reader.gru.hidden_size)

    @classmethod
    def fresh(
        cls,
        texts: Iterable[str],
        *,
        dim: int = 256,
        word_dim: int = 128,
        least: int = 2,
        seed: int = 0,
        **running: Unpack[Running],
    ) -> GruEncoder:
        """One with random weights and the words of these texts, to be trained (its module is `reader`) and saved.

        Args:
            texts: Where the words come from.
            dim: Numbers per vector.
            word_dim: Numbers per word.
            least: Words in fewer texts are left out.
            seed: Of the weights.
            running: As for the class.
        """
        seen = Counter(word for text in texts for word in set(words(text)))
        known = sorted(word for word, count in seen.items() if count >= least)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            reader = Reader(len(known) + UNKNOWN + 1, word_dim=word_dim, dim=dim)
        made = cls.__new__(cls)
        TorchEncoder.__init__(made, **running)
        made.folder = None
        made._set(known, reader)
        return made

    @property
    def fingerprint(self) -> str:
        """The folder's files and the precision."""
        if self.folder is None:
            raise LimnerError("this GRU was never saved, so that nothing names its weights: save it, and open it again")
        return f"gru {fingerprint_of(self.folder)} {self.number_type}"

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """The numbers of the words; a text without any is one unknown word."""
        return [[self.number.get(word, UNKNOWN) for word in words(text)] or [UNKNOWN] for text in texts]

    def text_vectors(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """The mean of the states."""
        found: Tensor = self.reader(tokens, filled)
        return found

    def save(self, folder: str | Path) -> Path:
        """Writes config.json and model.safetensors into a folder."""
        from safetensors.torch import save_file

        shape = {"word_dim": self.reader.table.embedding_dim, "dim": self.dim, "words": self.words}
        weights = {name: t.detach().cpu().contiguous() for name, t in self.reader.state_dict().items()}
        with replacing_model(folder) as draft:
            save_file(weights, draft / WEIGHTS)
            write_text(draft / CONFIG, json.dumps({"limner": "gru", **shape}, ensure_ascii=False))
        return Path(folder)


def _read(folder: Path) -> tuple[list[str], Reader]:
    from safetensors.torch import load_file

    config = read_json(folder / CONFIG, what="GRU")
    with damage_told(folder, what="saved GRU", mend="save it again"):
        known = [str(word) for word in config["words"]]
        weights = load_file(folder / WEIGHTS)
        sizes = weights["table.weight"].shape[1], weights["gru.weight_hh_l0"].shape[1]
        if sizes != (config["word_dim"], config["dim"]):
            raise LimnerError(f"{folder}: its weights are of sizes {sizes}, its {CONFIG} says otherwise; save it again")
        reader = Reader(len(known) + UNKNOWN + 1, word_dim=sizes[0], dim=sizes[1])
        reader.load_state_dict(weights)
    return known, reader
