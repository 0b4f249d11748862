"""Multimodal sentence-transformers models: one vector per item, or several for late interaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Unpack

from limner.core.errors import LimnerError
from limner.core.extras import missing, missing_extra, needed
from limner.core.progress import ProgressLike, as_progress

if missing("torch"):
    raise missing_extra("torch", what="an encoder of sentence-transformers")

import numpy as np
import torch
from torch import Tensor

from limner.core.arrays import IntArray
from limner.core.collection import Collection, Items
from limner.core.tensors import device_named
from limner.encoders.batching import at_least_one, count_texts, default_prompt
from limner.encoders.offline import fingerprint_of, folder_of, trained
from limner.encoders.torch_encoders import JointEncoder, Running, ahead, number_type
from limner.scores import Scores, VectorSets

_TEXTS_AT_ONCE = 512  # texts per call of the library, which sorts them by length


class MultimodalEncoder(JointEncoder):
    """A sentence-transformers model that reads images and texts; the vectors are those of its `encode`.

    Args:
        model: A folder, or a name on the Hugging Face hub.
        image_prompt: Prompt for images, if the model was trained with one; by default that of the model.
        text_prompt: Prompt for texts, likewise.
        running: `device`, `precision` and `batch_size` of `limner.encoders.torch_encoders.TorchEncoder`.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        image_prompt: str | None = None,
        text_prompt: str | None = None,
        **running: Unpack[Running],
    ) -> None:
        super().__init__(**running)
        purpose = "the encoder 'sentence-transformers-multimodal'"
        library = needed("sentence_transformers", what=purpose)
        self.folder, self.prompts = folder_of(model, purpose=purpose), {"image": image_prompt, "text": text_prompt}
        self.model = trained(library.SentenceTransformer, self.folder, unused="pooler", device=str(self.device)).eval()
        refuse_blind(self.model, self.folder, instead="for texts alone use the encoder 'sentence-transformers'")
        self.dim = int(self.model.get_embedding_dimension())
        limit_length(self.model)

    @property
    def fingerprint(self) -> str:
        """The model's files, the prompts and the precision."""
        prompts = "".join(f" {prompt!r}" for prompt in self.prompts.values())
        return f"sentence-transformers-multimodal {fingerprint_of(self.folder)}{prompts} {self.number_type}"

    def _texts(self, texts: Sequence[str]) -> Iterator[tuple[IntArray, Tensor]]:
        for low in range(0, len(texts), _TEXTS_AT_ONCE):
            part = list(texts[low : low + _TEXTS_AT_ONCE])
            prompt = self.prompts["text"] or default_prompt(self.model, "")
            count_texts(self.model.tokenizer, part, limit=self.model.max_seq_length, prompt=prompt)
            yield np.arange(low, low + len(part)), self._vectors(part, "text")

    def _images(self, items: Items) -> Iterator[tuple[IntArray, Tensor]]:
        for rows, opened in ahead(items, _itself, batch=self.batch_size):
            yield rows, self._vectors(opened, "image")

    def _vectors(self, inputs: Sequence[object], kind: str) -> Tensor:
        options = {"batch_size": self.batch_size, "show_progress_bar": False, "convert_to_tensor": True}
        with self._mixed():
            vectors: Tensor = self.model.encode(inputs, prompt=self.prompts[kind], **options)
        return vectors


class LateInteraction:
    """A multi-vector sentence-transformers model (ColBERT, ColPali, ...) with one vector per token or patch.

    Texts are the queries and images are the documents. The score is the sum, over the vectors of the text, of the best
    product with any vector of the image ("maxsim"); a "meanmaxsim" model divides it by the number of text vectors.

    Args:
        model: A folder, or a name on the Hugging Face hub.
        device: "auto" (a GPU if there is one), "cpu", "cuda", ...
        precision: "auto" (half precision on a GPU), "float32", "float16" or "bfloat16".
        batch_size: Items in a batch.
    """

    similarity = "dot"

    def __init__(
        self, model: str | Path, *, device: str = "auto", precision: str = "auto", batch_size: int = 16
    ) -> None:
        purpose = "the encoder 'multi-vector'"
        library = needed("sentence_transformers", what=purpose)
        if not hasattr(library, "MultiVectorEncoder"):
            raise LimnerError(
                f"{purpose} needs a sentence-transformers with MultiVectorEncoder, but {library.__version__} is "
                "installed: pip install --upgrade sentence-transformers"
            )
        self.folder, self.device = folder_of(model, purpose=purpose), device_named(device)
        self.number_type = number_type(precision, self.device)
        self.batch_size = at_least_one(batch_size, "batch_size", default=16)
        self.model = trained(library.MultiVectorEncoder, self.folder, unused="pooler", device=str(self.device)).eval()
        limit_length(self.model)

    @property
    def fingerprint(self) -> str:
        """The model's files and the precision."""
        return f"multi-vector {fingerprint_of(self.folder)} {self.number_type}"

    def encode_sets(
        self, items: Items | Sequence[str], *, queries: bool | None = None, progress: ProgressLike = None
    ) -> VectorSets:
        """All vectors of each item; those of a query of a "meanmaxsim" model are divided by their number.

        Args:
            items: Images or texts: items, or anything `limner.Items.of` accepts.
            queries: Whether the items are queries; by default texts are queries and images are documents.
            progress: Called with (items done, items in total).
        """
        progress = as_progress(progress)
        checked_items = Items.of(items)
        if checked_items.kind == "image":
            refuse_blind(self.model, self.folder, instead="give texts, or a model such as ColPali")
        as_queries = checked_items.kind == "text" if queries is None else queries
        encode = self.model.encode_query if as_queries else self.model.encode_document
        arrays: list[object] = []
        for part in self._parts(checked_items):
            if checked_items.kind == "text":
                self._count(part, "query" if as_queries else "document")
            with self._mixed(), torch.inference_mode():
                tensors = encode(part, batch_size=self.batch_size, show_progress_bar=False)
            arrays += [vectors.float().cpu().numpy() for vectors in tensors]
            progress(len(arrays), len(checked_items))
        sets = VectorSets.of(dict(zip(checked_items.ids, arrays, strict=True)))
        return _divided(sets) if as_queries and self.model.similarity_fn_name == "meanmaxsim" else sets

    def scores(self, collection: Collection, *, progress: ProgressLike = None) -> Scores:
        """Late interaction scores of every image and every text of a collection, computed lazily."""
        images = self.encode_sets(collection.images, queries=False, progress=progress)
        texts = self.encode_sets(collection.texts, queries=True)
        return Scores.from_sets(texts, images, similarity="dot", pooling="maxsim").T

    def _count(self, texts: list[Any], role: str) -> None:
        """Counts texts that the library cuts: a query or a document may have a length of its own."""
        expansion = self.model[0].query_expansion if role == "query" else None
        limit = expansion["length"] if expansion else getattr(self.model[0], f"{role}_length", None)
        prompt = default_prompt(self.model, role)
        count_texts(self.model.tokenizer, texts, limit=limit or self.model.max_seq_length, prompt=prompt)

    def _parts(self, items: Items) -> Iterator[list[object]]:
        if items.kind == "image":
            yield from (opened for _, opened in ahead(items, _itself, batch=self.batch_size))
            return
        for low in range(0, len(items), _TEXTS_AT_ONCE):
            yield list(items.values[low : low + _TEXTS_AT_ONCE])

    def _mixed(self) -> AbstractContextManager[object]:
        return nullcontext() if self.number_type is None else torch.autocast(self.device.type, self.number_type)


def refuse_blind(model: object, folder: Path, *, instead: str) -> None:
    """Refuses a sentence-transformers model that does not accept images."""
    if "image" not in (modalities := getattr(model, "modalities", ["text"])):
        raise LimnerError(f"{folder} reads {', '.join(map(str, modalities))}, but no images: {instead}")


def limit_length(model: Any) -> None:
    """Limits texts to the number of positions of a model's text part, which sentence-transformers may not do itself."""
    places = getattr(getattr(model[0].config, "text_config", None), "max_position_embeddings", None)
    if places is not None and (model.max_seq_length or places + 1) > places:
        model.max_seq_length = places


def _itself(image: object) -> object:
    return image


def _divided(sets: VectorSets) -> VectorSets:
    """Divides the vectors of each item by their number, so that sums over them become means."""
    parts = zip(sets.ids, sets.starts[:-1], np.diff(sets.starts), strict=True)
    return VectorSets.of({name: sets.vectors.matrix[low : low + n] / n for name, low, n in parts})
