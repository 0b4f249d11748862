"""Abstractive summaries by a sequence-to-sequence transformers model, such as T5, Pegasus or BART."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from limner.core.errors import LimnerError
from limner.core.extras import missing, missing_extra, needed

if missing("torch"):
    raise missing_extra("torch", what="a summariser")

import torch

from limner.encoders.lengths import count_texts
from limner.encoders.offline import folder_of, pretrained, trained

_LONGEST = 512  # tokens of a corpus that are read
PREFIX = {"t5": "summarize: ", "mt5": "summarize: "}
"""The prompt that each kind of model expects before the text."""


class Summariser:
    """A pretrained summariser; the same text always gives the same summary (beam search, no sampling).

    Args:
        model: A folder, or a name on the Hugging Face hub, such as "t5-small" or "google/pegasus-xsum".
        longest: Maximum number of tokens in a summary.
        beams: Beam width.
        batch: Number of corpora that are summarised together.
        device: The torch device, such as "cpu" or "cuda".
    """

    def __init__(
        self, model: str | Path, *, longest: int = 60, beams: int = 4, batch: int = 16, device: str = "cpu"
    ) -> None:
        if min(longest, beams, batch) < 1:
            raise LimnerError(f"longest={longest}, beams={beams}, batch={batch}: expected 1 or more of each")
        library = needed("transformers", what="a summariser")
        folder = folder_of(model, purpose="a summariser")
        self.tokenizer = pretrained(library.AutoTokenizer.from_pretrained, folder)
        self.model = trained(library.AutoModelForSeq2SeqLM.from_pretrained, folder).to(device).eval()
        self.longest, self.beams, self.batch, self.device = longest, beams, batch, device
        self.prefix = PREFIX.get(str(self.model.config.model_type), "")

    def __call__(self, texts: Sequence[str]) -> str:
        """The summary of one corpus."""
        return self.many([texts])[0]

    def many(self, corpora: Sequence[Sequence[str]]) -> list[str]:
        """The summaries of many corpora, several at a time."""
        joined = [self.prefix + " ".join(texts) for texts in corpora]
        found: list[str] = []
        for start in range(0, len(joined), self.batch):
            found += self._batch(joined[start : start + self.batch])
        return found

    @torch.inference_mode()
    def _batch(self, texts: Sequence[str]) -> list[str]:
        count_texts(self.tokenizer, texts, limit=_LONGEST)
        read = self.tokenizer(list(texts), truncation=True, max_length=_LONGEST, padding=True, return_tensors="pt")
        made = self.model.generate(
            input_ids=read["input_ids"].to(self.device),
            attention_mask=read["attention_mask"].to(self.device),
            max_new_tokens=self.longest,
            num_beams=self.beams,
            do_sample=False,
        )
        return [str(text).strip() for text in self.tokenizer.batch_decode(made, skip_special_tokens=True)]
