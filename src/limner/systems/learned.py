"""The learned systems of `limner.systems.towers`, without loading torch: it is imported when one is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limner.core.progress import ProgressLike
from limner.core.registry import takes

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.systems.towers.finetuned_model import FinetunedModel
    from limner.systems.towers.towers_model import TowersModel


@takes("limner.systems.towers.training:TOWERS")
def towers(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> TowersModel:
    """Two towers with a margin loss: features of images and a GRU over words, one vector each.

    Faghri et al. 2018; Liu & Ye 2019. Needs torch.

    Args:
        collection: The training collection.
        dev: Collection that selects the best epoch, by rsum; without it the last epoch is kept.
        progress: Called with (steps done, steps in total).
        options: Inputs: features (image vectors, their file, or an encoder; colours and shapes by default), texts
            ("gru", or as features), word_vectors (initial word vectors), min_count, max_tokens, name, init_from (a
            trained model, or its folder, to continue from). Sizes: word_dim, hidden_dim, embedding_dim, cell ("gru",
            "lstm"), pooling ("last", "mean", "max"), dropout. Loss: loss ("adaptive", "knn", "max", "sum",
            "semi-hard", "module:function"), margin, k. Training: epochs, batch_size, learning_rate, lr_decay,
            optimizer ("adam", "adamp"), schedule ("step", "cosine"), lr_decay_every, weight_decay, max_grad_norm,
            patience, seed, device, precision, checkpoint_dir,
            checkpoint_every, tensorboard, track.
    """
    from limner.systems.towers.training import trained

    return trained("towers", collection, dev=dev, progress=progress, options=options)


@takes("limner.systems.towers.training:PVSE")
def pvse(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> TowersModel:
    """Two towers with several vectors per item; the score is that of the best pair (PVSE).

    Song & Soleymani 2019. Needs torch.

    Args:
        collection: The training collection.
        dev: Collection that selects the best epoch, by rsum; without it the last epoch is kept.
        progress: Called with (steps done, steps in total).
        options: The options of "towers", plus heads (vectors per item), diversity and discrepancy (weights in the
            loss).
    """
    from limner.systems.towers.training import trained

    return trained("pvse", collection, dev=dev, progress=progress, options=options)


@takes("limner.systems.towers.training:PCME")
def pcme(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> TowersModel:
    """Two towers with a mean and a variance per item, which also give their uncertainty (PCME).

    Chun et al. 2021. Needs torch.

    Args:
        collection: The training collection.
        dev: Collection that selects the best epoch, by rsum; without it the last epoch is kept.
        progress: Called with (steps done, steps in total).
        options: The options of "towers" except loss, margin and k, plus samples (per item) and kl (a weight in the
            loss).
    """
    from limner.systems.towers.training import trained

    return trained("pcme", collection, dev=dev, progress=progress, options=options)


@takes("limner.systems.towers.finetune:finetune")
def finetune(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> FinetunedModel:
    """A pretrained two-tower model (CLIP, SigLIP, open_clip), fine-tuned: a new map, its head, LoRA, or all of it.

    Needs torch and the library of the model; mode "lora" needs `peft` (Hu et al. 2022).

    Args:
        collection: The training collection.
        dev: Collection that selects the best epoch, by rsum; without it the last epoch is kept.
        progress: Called with (steps done, steps in total).
        options: Model: encoder (such as "clip(model=DIR)"), mode ("frozen", "head", "lora", "full"), rank, alpha and
            lora_dropout (of "lora"), name, init_from (a fine-tuned model to continue from), export_dir (a folder of
            transformers to write too). Loss and training: as for "towers"; epochs is 10, schedule "cosine", and
            learning_rate depends on the mode (1e-3 for "frozen" and "lora", 1e-4 for "head", 1e-5 for "full").
    """
    from limner.systems.towers import finetune as tuning

    return tuning.finetune(collection, dev=dev, progress=progress, **options)
