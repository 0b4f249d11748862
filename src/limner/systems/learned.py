"""The learned systems of `limner.systems.towers`, without loading torch: it is imported when one is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from limner.core.registry import takes

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.scores import Progress
    from limner.systems.towers.towers_model import TowersModel


@takes("limner.systems.towers.training:towers")
def towers(
    collection: Collection, *, dev: Collection | None = None, progress: Progress | None = None, **options: Any
) -> TowersModel:
    """Two towers with a margin loss: features of images and a GRU over words, one vector each.

    Faghri et al. 2018; Liu & Ye 2019. Needs torch.

    Args:
        collection: What to learn from.
        dev: What says which epoch is best, by rsum; without one the last epoch is kept.
        progress: Called with (steps done, steps in all).
        options: What goes in: features (of images: vectors, the file of some, or an encoder; colours and shapes by
            default), texts ("gru", or as features), vectors (words to begin with), least, longest, name,
            start (a trained model, or its folder, to go on from). Sizes: words, hidden, joint, cell ("gru", "lstm"),
            pooling ("last", "mean", "max"), dropout. Loss: loss ("knn", "max", "sum", "semi-hard", "adaptive",
            "module:function"), margin, k.
            Training: epochs, batch, rate, optimizer ("adam", "adamp"), schedule ("step", "cosine"), decay,
            decay_every, weight_decay, clip, patience, seed, device, precision,
            folder (of checkpoints and logs), every, tensorboard.
    """
    from limner.systems.towers import training

    return training.towers(collection, dev=dev, progress=progress, **options)


@takes("limner.systems.towers.training:pvse")
def pvse(
    collection: Collection, *, dev: Collection | None = None, progress: Progress | None = None, **options: Any
) -> TowersModel:
    """Two towers with several vectors per item, of which the best pair counts (PVSE).

    Song & Soleymani 2019. Needs torch.

    Args:
        collection: What to learn from.
        dev: What says which epoch is best, by rsum; without one the last epoch is kept.
        progress: Called with (steps done, steps in all).
        options: Those of "towers"; and heads (vectors per item), diversity and discrepancy (weights in the loss).
    """
    from limner.systems.towers import training

    return training.pvse(collection, dev=dev, progress=progress, **options)


@takes("limner.systems.towers.training:pcme")
def pcme(
    collection: Collection, *, dev: Collection | None = None, progress: Progress | None = None, **options: Any
) -> TowersModel:
    """Two towers with a mean and a variance per item, which also say how sure they are (PCME).

    Chun et al. 2021. Needs torch.

    Args:
        collection: What to learn from.
        dev: What says which epoch is best, by rsum; without one the last epoch is kept.
        progress: Called with (steps done, steps in all).
        options: Those of "towers" without loss, margin and k; and samples (of each item) and kl (a weight in the loss).
    """
    from limner.systems.towers import training

    return training.pcme(collection, dev=dev, progress=progress, **options)
