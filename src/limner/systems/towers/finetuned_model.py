"""A fine-tuned two-tower model: scores and vectors; saved as trained weights and the name of the pretrained model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.core import model_store
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import needed
from limner.core.files import write_text
from limner.core.model_store import Content
from limner.core.paths import damage_told
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.tensors import device_named
from limner.encoders import TwoSided
from limner.encoders.opening import EncodedVectors, VectorSource, load_source
from limner.encoders.torch_encoders import JointEncoder
from limner.scores import Scores
from limner.systems.hold_out import TrainedOn, saved_record
from limner.systems.towers import checkpoints
from limner.systems.towers.checkpoints import CARD, card
from limner.systems.towers.data import as_array, device_of
from limner.systems.towers.distributed import seeded
from limner.systems.towers.models import Compared
from limner.systems.towers.settings import Margin, refuse_below, settings

MODES = ("frozen", "head", "lora", "full")
LEARNING_RATES = {"frozen": 1e-3, "head": 1e-4, "lora": 1e-3, "full": 1e-5}
"""Learning rates by mode, where none is given: the more of the weights are trained, the lower."""
HEADS = re.compile(
    r"(^|\.)(visual_projection|text_projection|vision_model\.head|text_model\.head|visual\.proj|visual\.head|text\.proj)"
    r"(\.|$)"
)
"""The last layers of CLIP, SigLIP and open_clip models: what maps a tower's output to the joint space."""
UNUSED = ("logit_scale", "logit_bias")
"""Weights of the pretraining loss: limner's losses compare plain cosines."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Settings of fine-tuning.

    Args:
        encoder: A pretrained model with a joint space for images and texts, such as "clip(model=DIR)" or an object; not
            needed with `init_from`.
        mode: What is trained. "frozen": the encoder stays as it is, and a linear map of its vectors is learned for
            each side, which begins as the identity. "head": the model's own last layers. "lora": low-rank additions
            to the linear layers of both towers (Hu et al. 2022), by `peft`. "full": all weights. The mode of the
            initial model with `init_from`, otherwise "lora".
        rank: Rank of the additions of "lora".
        alpha: Their scale is alpha / rank; twice the rank by default.
        lora_dropout: Dropout rate before them, in training.
        name: Name of the system in reports.
        init_from: A fine-tuned model, or its folder: training continues from its weights, in the same mode.
        export_dir: Where to write the tuned model as a folder of transformers too, additions merged into the weights.
    """

    encoder: VectorSource | None = None
    mode: str = "lora"
    rank: int = 8
    alpha: float | None = None
    lora_dropout: float = 0.0
    name: str | None = None
    init_from: str | Path | TwoSided | None = None
    export_dir: str | Path | None = None

    def __post_init__(self) -> None:
        """Checks the values."""
        if self.mode not in MODES:
            raise UnknownName("mode", self.mode, MODES)
        refuse_below(self, 1, "rank")
        if self.alpha is not None and not self.alpha > 0:
            raise LimnerError(f"alpha={self.alpha}: expected a number above 0")
        if not 0 <= self.lora_dropout < 1:
            raise LimnerError(f"lora_dropout={self.lora_dropout}: expected a share from 0 to below 1")
        if self.export_dir is not None and self.mode == "frozen":
            raise LimnerError(
                "export_dir= with mode='frozen': the encoder stays as it is, and a folder of transformers has no place "
                "for the learned maps; choose another mode, or leave it out"
            )

    def structure(self) -> dict[str, object]:
        """The settings that determine which weights there are."""
        lora = {"rank": self.rank, "alpha": self.alpha, "lora_dropout": self.lora_dropout}
        return {"mode": self.mode, **(lora if self.mode == "lora" else {})}


EncoderInputs = Any
"""A batch for a tower: images or tokens as the encoder preprocesses them, or its vectors."""


class TunedTowers(nn.Module):
    """Both towers of a pretrained model; its state contains only the trained weights.

    The encoder is copied: the given one keeps its weights, and its cached vectors stay valid. In mode "frozen" the
    inputs are the encoder's vectors, in the others preprocessed images and tokens. The statistics of batch
    normalisation stay those of the pretrained model.

    Args:
        encoder: The pretrained model.
        tuning: Settings of fine-tuning.
        loss: Loss of `limner.systems.towers.losses`.
    """

    def __init__(self, encoder: JointEncoder, tuning: Tuning, loss: Callable[..., Tensor]) -> None:
        super().__init__()
        self.encoder, self.mode, self.loss = deepcopy(encoder), tuning.mode, loss
        self.backbone: nn.Module = self.encoder.model  # type: ignore[attr-defined]  # `tunable` has looked
        for weight in self.backbone.parameters():
            weight.requires_grad_(False)
        frozen = tuning.mode == "frozen"
        self.image_map, self.text_map = (_identity(encoder.dim) if frozen else nn.Identity() for _ in range(2))
        if tuning.mode == "lora":
            _add_lora(self.backbone, tuning)
        for name, weight in self.backbone.named_parameters():
            weight.requires_grad_(_is_trained(name, tuning.mode))
        self._names = [name for name, weight in self.named_parameters() if weight.requires_grad]
        if not self._names:
            raise LimnerError(
                f"mode='head' finds no last layer in {type(self.backbone).__name__}: expected CLIP, SigLIP or a model "
                "of open_clip; choose mode='frozen', 'lora' or 'full'"
            )

    def image_vectors(self, inputs: EncoderInputs) -> Compared:
        """Unit vectors of images: of preprocessed ones, or of the encoder's vectors in mode "frozen"."""
        vectors = inputs if self.mode == "frozen" else self.encoder.image_vectors(inputs)
        return (normalize(self.image_map(vectors), dim=-1),)

    def text_vectors(self, inputs: EncoderInputs) -> Compared:
        """Unit vectors of texts: of (tokens, their mask), or of the encoder's vectors in mode "frozen"."""
        vectors = inputs if self.mode == "frozen" else self.encoder.text_vectors(*inputs)
        return (normalize(self.text_map(vectors), dim=-1),)

    def objective(self, images: Compared, texts: Compared, positives: Tensor) -> Tensor:
        """The margin loss over all cosine similarities of the batch."""
        return self.loss(images[0] @ texts[0].T, positives)

    def train(self, mode: bool = True) -> TunedTowers:
        """Switches dropout on or off; batch normalisation keeps its statistics."""
        super().train(mode)
        for part in self.backbone.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.eval()
        return self

    def state_dict(self, *args: Any, **options: Any) -> dict[str, Tensor]:  # type: ignore[override]  # a part of it
        """The trained weights; the others are those of the pretrained model."""
        state = super().state_dict(*args, **options)
        return {name: state[name] for name in self._names}

    def load_state_dict(self, state: Mapping[str, object], strict: bool = True, assign: bool = False) -> object:
        """Loads the trained weights; refuses missing and additional ones."""
        if set(state) != set(self._names):
            missing, additional = sorted(set(self._names) - set(state)), sorted(set(state) - set(self._names))
            raise RuntimeError(f"lacks {missing[:3]}, and has further weights {additional[:3]}")
        return super().load_state_dict(state, strict=False, assign=assign)

    @property
    def trained_count(self) -> int:
        """Number of trained parameters."""
        return sum(weight.numel() for weight in self.parameters() if weight.requires_grad)


def tunable(encoder: object) -> JointEncoder:
    """The encoder, if both its towers can be trained; refuses others."""
    if isinstance(encoder, JointEncoder) and isinstance(getattr(encoder, "model", None), nn.Module):
        inherited = (getattr(type(encoder), step) is not getattr(JointEncoder, step) for step in _STEPS)
        if all(inherited):
            return encoder
    raise LimnerError(
        f"encoder={type(encoder).__name__} cannot be fine-tuned: expected a torch model with one space for images and "
        "texts, such as 'clip(model=DIR)', 'siglip(model=DIR)' or 'open-clip(model=NAME, weights=FILE)'"
    )


_STEPS = ("pixels", "image_vectors", "tokens", "text_vectors")  # what training calls, with gradients


def export(module: TunedTowers, path: str | Path) -> Path:
    """Writes the tuned model as a folder of transformers, which 'clip(model=FOLDER)' and other tools open.

    Args:
        module: The tuned towers; mode "frozen" has nothing to write.
        path: The folder.
    """
    encoder: Any = module.encoder
    if module.mode == "frozen" or not hasattr(module.backbone, "save_pretrained"):
        raise LimnerError(
            f"a model of {type(module.backbone).__name__} in mode {module.mode!r} has no folder of transformers to be "
            "written to: use model.save(path)"
        )
    merged = _merged(deepcopy(module.backbone)).cpu()
    merged.save_pretrained(path)
    for part in (encoder.tokenizer, encoder.processor):
        part.save_pretrained(path)
    return Path(path)


def _identity(dim: int) -> nn.Linear:
    layer = nn.Linear(dim, dim, bias=False)
    nn.init.eye_(layer.weight)
    return layer


def _is_trained(name: str, mode: str) -> bool:
    if mode == "head":
        return HEADS.search(name) is not None
    return "lora_" in name if mode == "lora" else mode == "full" and name not in UNUSED


def _add_lora(model: nn.Module, tuning: Tuning) -> None:
    library = needed("peft", what="mode='lora'")
    alpha = 2 * tuning.rank if tuning.alpha is None else tuning.alpha
    lora_options = {"r": tuning.rank, "lora_alpha": alpha, "lora_dropout": tuning.lora_dropout}
    library.inject_adapter_in_model(library.LoraConfig(target_modules=_linear_layers(model), **lora_options), model)


def _linear_layers(model: nn.Module) -> list[str]:
    """The linear layers inside the towers, without the last ones.

    Those inside torch's own `MultiheadAttention` are left out: it reads their weights without calling them.
    """
    closed = [name for name, part in model.named_modules() if isinstance(part, nn.MultiheadAttention)]
    names = [
        name
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and not HEADS.search(name) and not any(name.startswith(f"{c}.") for c in closed)
    ]
    if not names:
        raise LimnerError(f"mode='lora' finds no linear layers in {type(model).__name__}: choose mode='head' or 'full'")
    return names


def _merged(model: Any) -> Any:
    """The model with its low-rank additions merged into its weights."""
    for name, part in list(model.named_modules()):
        if hasattr(part, "lora_A") and hasattr(part, "get_base_layer"):
            with torch.no_grad():
                part.merge()
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, part.get_base_layer())
    return model


KIND = "finetuned"
ABOUT = "A pretrained model with one space for images and texts, fine-tuned (mode {!r}); compared by the cosine."


@dataclass(frozen=True, eq=False)
class FinetunedModel:
    """A pretrained two-tower model, such as CLIP, with its trained weights.

    Args:
        name: Name in reports.
        module: The weights.
        base: The pretrained encoder as it was given.
        settings: Settings of the training, by group.
        trained: Training record and results.
        trained_on: The training items; None if unknown.
    """

    name: str
    module: TunedTowers
    base: EncodedVectors
    settings: Mapping[str, Mapping[str, object]]
    trained: Content
    trained_on: TrainedOn | None = None

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self.module.encoder.dim

    def scores(self, collection: Collection, *, progress: ProgressLike = None) -> Scores:
        """Cosine similarities of every image and every text of a collection, computed lazily."""
        images = self.encode_images(collection.images, progress=progress)
        return Scores.from_embeddings(images, self.encode_texts(collection.texts))

    def encode_images(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Images in the joint space."""
        progress = as_progress(progress)
        return self._encoded(items, self.module.image_map, progress)

    def encode_texts(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Texts in the joint space."""
        progress = as_progress(progress)
        return self._encoded(items, self.module.text_map, progress)

    def _encoded(self, items: Items, mapped: torch.nn.Module, progress: Progress) -> Embeddings:
        self.module.eval()
        rows = torch.from_numpy(np.array(self.module.encoder.encode(items, progress=progress)))
        with torch.inference_mode():
            vectors = torch.nn.functional.normalize(mapped(rows.to(device_of(self.module))), dim=-1)
        return Embeddings(items.ids, as_array(vectors))

    def to(self, device: str) -> FinetunedModel:
        """The same model, moved to another device."""
        place_on(self.module, device_named(device))
        return self

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the model by the pretrained model and the trained weights."""
        about = str(self.module.encoder.identity)
        return f"finetuned {self.module.mode} {checkpoints.short_fingerprint(self.module, about)}"

    def export(self, path: str | Path) -> Path:
        """Writes a folder of transformers with all weights, which 'clip(model=FOLDER)' and other tools open."""
        return export(self.module, path)

    def save(self, path: str | Path) -> Path:
        """Writes a folder: the trained weights, config.json with the name of the pretrained model, and a model card."""
        about = {name: _resolved(value) for name, value in self.base.about().items()}
        config = {
            "name": self.name,
            "encoder": about,
            "pretrained": self.module.encoder.identity,
            "settings": {group: dict(values) for group, values in self.settings.items()},
            "trained": dict(self.trained),
        }
        content, weights = {**config, **saved_record(self.trained_on)}, checkpoints.arrays(self.module)
        return model_store.write(path, KIND, content, weights=weights, beside=partial(self._write_card, config))

    def _write_card(self, config: Mapping[str, object], folder: Path) -> None:
        text = card(config, about=ABOUT.format(self.module.mode), learned=self.module.trained_count)
        write_text(folder / CARD, text)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", trust: bool = False) -> FinetunedModel:
        """Reads a saved model; refuses a damaged folder, or a different pretrained model.

        Args:
            path: The folder.
            device: Device of the weights.
            trust: Whether the model may name a custom encoder or loss as "module:thing".
        """
        saved = model_store.read(path, KIND)
        config = saved.content
        with damage_told(path, what="saved model", mend="save it again"):
            groups = config["settings"]
            tuning = settings(Tuning, groups["tuning"], owner=KIND)
            saved.refuse_larger({"rank": tuning.rank})
            base = load_source(config["encoder"], option="encoder", trust=trust)
            if not isinstance(base, EncodedVectors):
                raise LimnerError(
                    f"{path} was tuned from an encoder object that only its maker has: train from a named one, such "
                    "as encoder='clip(model=DIR)', to open it again"
                )
            module = rebuilt(base, tuning, groups, trust=trust)
            _refuse_other(path, module, config["pretrained"])
        checkpoints.fill(module, saved)
        place_on(module, device_named(device)).eval()
        record = TrainedOn.from_content(config.get("trained_on"))
        return cls(config["name"], module, base, groups, config["trained"], record)


def rebuilt(base: EncodedVectors, tuning: Tuning, groups: Content, *, trust: bool) -> TunedTowers:
    """The module for settings by group, with the weights of the pretrained model."""
    from limner.systems.towers import losses

    losses.loss(groups["margin"]["loss"], trusted=trust)  # refuses the name of a loss that is not limner's own
    with seeded(0):
        return TunedTowers(tunable(base.encoder), tuning, settings(Margin, groups["margin"], owner=KIND).function())


def place_on(module: TunedTowers, device: torch.device) -> TunedTowers:
    """The module on a device; its encoder sends batches there too."""
    module.to(device)
    module.encoder.device = device
    return module


def _refuse_other(path: str | Path, module: TunedTowers, expected: str) -> None:
    if module.encoder.identity != expected:
        raise LimnerError(
            f"{path} was tuned from another pretrained model ({expected}) than the one that is there now "
            f"({module.encoder.identity}): put that one back"
        )


def _resolved(value: object) -> object:
    """An option of the encoder as stored in config.json: paths are absolute, so that they work from any folder."""
    if isinstance(value, (str, Path)) and Path(value).exists():
        return str(Path(value).resolve())
    return str(value) if isinstance(value, Path) else value
