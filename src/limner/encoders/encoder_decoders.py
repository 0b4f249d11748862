"""Texts written by an encoder-decoder of transformers: summaries (T5, Pegasus, BART), translations (OPUS-MT, NLLB)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from limner.core.errors import LimnerError
from limner.core.extras import missing, missing_extra, needed
from limner.core.progress import ProgressLike, as_progress

if missing("torch"):
    raise missing_extra("torch", what="a summariser or translator")

import torch

from limner.encoders.batching import count_texts
from limner.encoders.offline import folder_of, pretrained, trained

_LONGEST = 512  # tokens of a text that are read
PREFIX = {"t5": "summarize: ", "mt5": "summarize: "}
"""The prompt that each kind of summariser expects before the text."""


class EncoderDecoder:
    """A pretrained model that writes a text for a text; always the same one (beam search, no sampling).

    Args:
        model: A folder, or a name on the Hugging Face hub.
        purpose: What it is, for messages.
        longest: Maximum number of tokens that it writes.
        beams: Beam width.
        batch: Number of texts that are read together.
        device: The torch device, such as "cpu" or "cuda".
    """

    def __init__(
        self, model: str | Path, *, purpose: str, longest: int, beams: int, batch: int = 16, device: str = "cpu"
    ) -> None:
        if min(longest, beams, batch) < 1:
            raise LimnerError(f"longest={longest}, beams={beams}, batch={batch}: expected 1 or more of each")
        library = needed("transformers", what=purpose)
        folder = folder_of(model, purpose=purpose)
        self.tokenizer = pretrained(library.AutoTokenizer.from_pretrained, folder)
        self.model = trained(library.AutoModelForSeq2SeqLM.from_pretrained, folder).to(device).eval()
        self.longest, self.beams, self.batch, self.device = longest, beams, batch, device
        self.forced: dict[str, int] = {}

    def written(self, texts: Sequence[str], *, progress: ProgressLike = None) -> list[str]:
        """What it writes for each text.

        Args:
            texts: The texts.
            progress: Called with (texts done, texts in total).
        """
        progress, answers = as_progress(progress), list[str]()
        for start in range(0, len(texts), self.batch):
            answers += self._batch(texts[start : start + self.batch])
            progress(len(answers), len(texts))
        return answers

    @torch.inference_mode()
    def _batch(self, texts: Sequence[str]) -> list[str]:
        count_texts(self.tokenizer, texts, limit=_LONGEST)
        inputs = self.tokenizer(list(texts), truncation=True, max_length=_LONGEST, padding=True, return_tensors="pt")
        tokens = self.model.generate(
            input_ids=inputs["input_ids"].to(self.device),
            attention_mask=inputs["attention_mask"].to(self.device),
            max_new_tokens=self.longest,
            num_beams=self.beams,
            do_sample=False,
            **self.forced,
        )
        return [str(text).strip() for text in self.tokenizer.batch_decode(tokens, skip_special_tokens=True)]


class Summariser(EncoderDecoder):
    """A pretrained summariser.

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
        super().__init__(model, purpose="a summariser", longest=longest, beams=beams, batch=batch, device=device)
        self.prefix = PREFIX.get(str(self.model.config.model_type), "")

    def __call__(self, texts: Sequence[str]) -> str:
        """The summary of one corpus."""
        return self.many([texts])[0]

    def many(self, corpora: Sequence[Sequence[str]]) -> list[str]:
        """The summaries of many corpora, several at a time."""
        return self.written([self.prefix + " ".join(texts) for texts in corpora])


class Translator(EncoderDecoder):
    """A pretrained translator, such as OPUS-MT, T5, MADLAD, M2M-100, NLLB or mBART.

    Args:
        model: A folder, or a name on the Hugging Face hub, such as "Helsinki-NLP/opus-mt-mul-en".
        prefix: The prompt before a text: "translate German to English: " for T5, "<2en> " for MADLAD.
        source: For M2M-100, NLLB and mBART: the language of the texts, as their tokenizers name it, such as "deu_Latn".
        target: For these: the language to translate into, such as "eng_Latn".
        longest: Maximum number of tokens in a translation.
        beams: Beam width.
        batch: Number of texts that are translated together.
        device: The torch device, such as "cpu" or "cuda".
    """

    def __init__(
        self,
        model: str | Path,
        *,
        prefix: str = "",
        source: str | None = None,
        target: str | None = None,
        longest: int = 128,
        beams: int = 4,
        batch: int = 16,
        device: str = "cpu",
    ) -> None:
        super().__init__(model, purpose="a translator", longest=longest, beams=beams, batch=batch, device=device)
        self.prefix = prefix
        for language in filter(None, (source, target)):
            self._refuse_unknown(language, model)
        if source is not None:
            self.tokenizer.src_lang = source
        if target is not None:
            self.forced = {"forced_bos_token_id": self._token(target)}

    def _token(self, language: str) -> int:
        """The token of a language: M2M-100 names it __de__, NLLB deu_Latn, mBART de_DE."""
        named = {language, f"__{language}__"} & self.tokenizer.get_vocab().keys()
        return int(self.tokenizer.convert_tokens_to_ids(min(named))) if named else -1

    def _refuse_unknown(self, language: str, model: str | Path) -> None:
        if self._token(language) < 0:
            raise LimnerError(
                f"{language!r} is no language of {model}: expected the name of a token of its tokenizer, such as "
                "'eng_Latn' for NLLB; leave out source and target for models of one pair of languages"
            )

    def __call__(self, texts: Sequence[str], *, progress: ProgressLike = None) -> list[str]:
        """The translations; a text without a word stays.

        Args:
            texts: The texts.
            progress: Called with (texts done, texts in total).
        """
        with_words = list(dict.fromkeys(text for text in texts if text.strip()))
        translations = dict(
            zip(with_words, self.written([self.prefix + text for text in with_words], progress=progress), strict=True)
        )
        return [translations.get(text, text) for text in texts]
