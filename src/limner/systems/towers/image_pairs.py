"""Scorers of pairs of an image and a text: image-text matching heads (BLIP, BLIP-2), ViLT, and cross-encoders.

All encode image and text jointly, so nothing can be precomputed: they re-rank the candidates of a faster system,
or score the few pairs of a probe. If the model allows it, each image is encoded only once for all its pairs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from limner.core.arrays import Float32, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.images import as_value, open_image
from limner.core.progress import ProgressLike, as_progress
from limner.core.tensors import device_named
from limner.encoders.batching import at_least_one, count_texts
from limner.encoders.cache import content_key
from limner.encoders.multimodal import refuse_blind
from limner.encoders.offline import fingerprint_of, folder_of, pretrained, trained
from limner.encoders.torch_encoders import number_type
from limner.scores import Scores


class ImagePairScorer(ABC):
    """Scores (image, text) pairs in batches that keep the pairs of an image together.

    Args:
        model: A folder, or a name on the Hugging Face hub.
        device: "auto" (a GPU if there is one), "cpu", "cuda", ...
        precision: "auto" (half precision on a GPU), "float32", "float16" or "bfloat16".
        batch_size: Pairs per batch.
    """

    what = "a scorer of image-text pairs"

    def __init__(
        self, model: str | Path, *, device: str = "auto", precision: str = "auto", batch_size: int = 32
    ) -> None:
        self.batch_size = at_least_one(batch_size, "batch_size", default=32)
        self.folder, self.device = folder_of(model, purpose=self.what), device_named(device)
        self.number_type = number_type(precision, self.device)

    @property
    def fingerprint(self) -> str:
        """Identifies the scorer by its kind, the model's files and the precision."""
        return f"{type(self).__name__} {fingerprint_of(self.folder)} {self.number_type}"

    def query_key(self, image: object) -> bytes:
        """The hash of an image (of the file's bytes or of the pixels), which is the cache key of its scores."""
        return content_key(as_value(image, name="query"), kind="image")

    def queries(self, collection: Collection, *, features: object = None) -> Sequence[object]:
        """The query for each image of a collection: the image itself."""
        if features is not None:
            raise LimnerError(f"features for {self.what}, which reads the images themselves: leave them out")
        return list(collection.images.values)

    def scores(self, collection: Collection) -> Scores:
        """Scores of all image-text pairs, for small collections and probes."""
        return Scores.from_scorer(self, collection.images, collection.texts)

    def score_pairs(
        self, queries: Sequence[object], candidates: Sequence[str], *, progress: ProgressLike = None
    ) -> Float32:
        """One number per pair of an image (file, bytes, Pillow image, array) and a text, higher is better."""
        progress = as_progress(progress)
        image_of, images = _distinct(queries)
        order = np.argsort(image_of, kind="stable")
        out = np.empty(len(order), dtype=np.float32)
        encoded_images: dict[int, object] = {}
        for low in range(0, len(order), self.batch_size):
            rows = order[low : low + self.batch_size]
            encoded_images = {
                n: encoded_images[n] if n in encoded_images else self._opened(images[n], n)
                for n in np.unique(image_of[rows]).tolist()
            }
            with torch.inference_mode(), torch.autocast(self.device.type, self.number_type or torch.bfloat16,
                                                        enabled=self.number_type is not None):  # fmt: skip
                scores = self.batch(
                    [encoded_images[n] for n in image_of[rows].tolist()], [str(candidates[r]) for r in rows]
                )
            out[rows] = scores.float().cpu().numpy()
            progress(low + len(rows), len(order))
        return out

    def _opened(self, image: object, number: int) -> object:
        name = f"of pair {number}"
        return self.read(open_image(as_value(image, name=name), name=name))

    @abstractmethod
    def read(self, image: object) -> object:
        """The representation of an image that is kept while its pairs are scored."""

    @abstractmethod
    def batch(self, images: list[Any], texts: list[str]) -> Tensor:
        """Scores of pairs, from the output of `read` and the texts."""


def _distinct(images: Sequence[object]) -> tuple[IntArray, list[object]]:
    """The index of each image among the distinct images, and these; equal paths or the same object count as equal."""
    numbers: dict[object, int] = {}
    values: list[object] = []
    image_of = []
    for image in images:
        key = image if isinstance(image, (str, Path, bytes)) else id(image)
        if key not in numbers:
            numbers[key] = len(values)
            values.append(image)
        image_of.append(numbers[key])
    return np.array(image_of, dtype=np.int64), values


class ItmScorer(ImagePairScorer):
    """The image-text matching head of BLIP or BLIP-2 (Li et al. 2022, 2023): the log-odds that text and image match.

    The image encoder runs once per image and batch.

    Args:
        model: A folder, or a name on the Hugging Face hub, such as "Salesforce/blip-itm-base-coco".
        options: `device`, `precision` and `batch_size` of `ImagePairScorer`.
    """

    what = "the scorer 'blip-itm'"

    def __init__(
        self, model: str | Path, *, device: str = "auto", precision: str = "auto", batch_size: int = 32
    ) -> None:
        super().__init__(model, device=device, precision=precision, batch_size=batch_size)
        library = needed("transformers", what=self.what)
        kind = pretrained(library.AutoConfig.from_pretrained, self.folder).model_type
        classes = {"blip": "BlipForImageTextRetrieval", "blip-2": "Blip2ForImageTextRetrieval"}
        if kind not in classes:
            raise LimnerError(f"{self.folder} is a model of kind {kind!r}: expected {' or '.join(classes)}")
        loaded = trained(getattr(library, classes[kind]).from_pretrained, self.folder)
        self.model, self.two = loaded.to(self.device).eval(), kind == "blip-2"
        self.tokenizer = pretrained(library.AutoTokenizer.from_pretrained, self.folder)
        self.processor = pretrained(library.AutoImageProcessor.from_pretrained, self.folder)
        config = self.model.config.qformer_config if self.two else self.model.config.text_config
        self.max_tokens = int(config.max_position_embeddings)

    def read(self, image: object) -> Tensor:
        """The states of the image's patches."""
        pixels = torch.as_tensor(self.processor(images=image, return_tensors="pt")["pixel_values"])
        states: Tensor = self.model.vision_model(pixel_values=pixels.to(self.device)).last_hidden_state[0]
        return states

    def batch(self, images: list[Tensor], texts: list[str]) -> Tensor:
        """The logit of "match" minus that of "no match"."""
        count_texts(self.tokenizer, texts, limit=self.max_tokens)
        options = {"padding": True, "truncation": True, "max_length": self.max_tokens, "return_tensors": "pt"}
        tokens = self.tokenizer(texts, **options).to(self.device)
        states = torch.stack(images)
        image_mask = torch.ones(states.shape[:2], dtype=torch.long, device=self.device)
        head = self._two if self.two else self._one
        logits = head(tokens["input_ids"], tokens["attention_mask"], states, image_mask).float()
        return logits[:, 1] - logits[:, 0]

    def _one(self, tokens: Tensor, mask: Tensor, states: Tensor, image_mask: Tensor) -> Tensor:
        image_inputs = {"encoder_hidden_states": states, "encoder_attention_mask": image_mask}
        read = self.model.text_encoder(input_ids=tokens, attention_mask=mask, **image_inputs).last_hidden_state
        logits: Tensor = self.model.itm_head(read[:, 0])
        return logits

    def _two(self, tokens: Tensor, mask: Tensor, states: Tensor, image_mask: Tensor) -> Tensor:
        queries = self.model.query_tokens.expand(len(tokens), -1, -1)
        count = queries.shape[1]
        joint_mask = torch.cat([mask.new_ones(len(mask), count), mask], dim=1)
        image_inputs = {"encoder_hidden_states": states, "encoder_attention_mask": image_mask}
        embeddings = self.model.embeddings(input_ids=tokens, query_embeds=queries)
        read = self.model.qformer(
            query_embeds=embeddings, query_length=count, attention_mask=joint_mask, **image_inputs
        )
        logits: Tensor = self.model.itm_head(read.last_hidden_state[:, :count].to(self.model.itm_head.weight.dtype))
        return logits.mean(dim=1)


class ViltScorer(ImagePairScorer):
    """ViLT with its head for retrieval (Kim et al. 2021): one transformer over words and patches, and its logit.

    Nothing is encoded once per image: each pair is read whole. All patches count, whatever their number.

    Args:
        model: A folder, or a name on the Hugging Face hub, such as "dandelin/vilt-b32-finetuned-coco".
        options: `device`, `precision` and `batch_size` of `ImagePairScorer`.
    """

    what = "the scorer 'vilt'"

    def __init__(
        self, model: str | Path, *, device: str = "auto", precision: str = "auto", batch_size: int = 32
    ) -> None:
        super().__init__(model, device=device, precision=precision, batch_size=batch_size)
        library = needed("transformers", what=self.what)
        kind = pretrained(library.AutoConfig.from_pretrained, self.folder).model_type
        if kind != "vilt":
            raise LimnerError(f"{self.folder} is a model of kind {kind!r}: expected vilt")
        self.model = trained(library.ViltForImageAndTextRetrieval.from_pretrained, self.folder).to(self.device).eval()
        self.model.config.max_image_length = -1  # otherwise the model draws some patches at random
        self.tokenizer = pretrained(library.AutoTokenizer.from_pretrained, self.folder)
        self.processor = pretrained(library.AutoImageProcessor.from_pretrained, self.folder)
        self.max_tokens = int(self.model.config.max_position_embeddings)

    def read(self, image: object) -> Tensor:
        """The resized image, without padding."""
        return torch.as_tensor(self.processor(images=image, return_tensors="pt")["pixel_values"])[0]

    def batch(self, images: list[Tensor], texts: list[str]) -> Tensor:
        """The logits; images of several sizes are padded and masked."""
        count_texts(self.tokenizer, texts, limit=self.max_tokens)
        options = {"padding": True, "truncation": True, "max_length": self.max_tokens, "return_tensors": "pt"}
        tokens = self.tokenizer(texts, **options).to(self.device)
        height, width = (max(image.shape[side] for image in images) for side in (1, 2))
        pixels = torch.zeros(len(images), images[0].shape[0], height, width)
        mask = torch.zeros(len(images), height, width, dtype=torch.long)
        for number, image in enumerate(images):
            pixels[number, :, : image.shape[1], : image.shape[2]] = image
            mask[number, : image.shape[1], : image.shape[2]] = 1
        with torch.random.fork_rng(devices=[]):  # the model shuffles patches, which changes the last bits of a sum
            torch.manual_seed(0)
            output = self.model(**tokens, pixel_values=pixels.to(self.device), pixel_mask=mask.to(self.device))
        logits: Tensor = output.logits[:, 0]
        return logits


class ImageCrossEncoder(ImagePairScorer):
    """A CrossEncoder of sentence-transformers that reads images: its logits, without the final activation.

    Args:
        model: A folder, or a name on the Hugging Face hub, with one label, or two of which the second means "match".
        prompt: The instruction given with every pair, if the model was trained with one; by default the model's own.
        options: `device`, `precision` and `batch_size` of `ImagePairScorer`.
    """

    what = "the scorer 'image-cross-encoder'"

    def __init__(
        self,
        model: str | Path,
        *,
        prompt: str | None = None,
        device: str = "auto",
        precision: str = "auto",
        batch_size: int = 32,
    ) -> None:
        super().__init__(model, device=device, precision=precision, batch_size=batch_size)
        library = needed("sentence_transformers", what=self.what)
        self.model = trained(library.CrossEncoder, self.folder, device=str(self.device)).eval()
        refuse_blind(self.model, self.folder, instead="for pairs of texts use the scorer 'cross-encoder'")
        self.prompt = prompt
        if self.model.num_labels not in (1, 2):
            raise LimnerError(f"{self.folder} has {self.model.num_labels} labels: expected 1 or 2")

    @property
    def fingerprint(self) -> str:
        """Identifies the scorer by the model's files, the prompt and the precision."""
        return f"image-cross-encoder {fingerprint_of(self.folder)} {self.prompt!r} {self.number_type}"

    def read(self, image: object) -> object:
        """The unchanged image."""
        return image

    def batch(self, images: list[object], texts: list[str]) -> Tensor:
        """The logit of the only label, or the log-odds of the second."""
        count_texts(self.model.tokenizer, texts, limit=self.model.max_seq_length)
        scores: Tensor = self.model.predict(
            list(zip(images, texts, strict=True)),
            prompt=self.prompt,
            batch_size=self.batch_size,
            activation_fn=torch.nn.Identity(),
            show_progress_bar=False,
            convert_to_tensor=True,
        )
        return scores if scores.ndim == 1 else scores[:, 1] - scores[:, 0]
