"""The systems of `limner.systems.towers` that read file names, without loading torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limner.core.progress import ProgressLike
from limner.core.registry import takes

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.papers.file_name_models.crank import CrankModel
    from limner.papers.file_name_models.mcprop import McpropModel


@takes("limner.papers.file_name_models.mcprop:train")
def mcprop(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> McpropModel:
    """An image and its file name fused into one query for captions (MCProp).

    Messina et al. 2022. Needs torch.

    Args:
        collection: The training collection; images have the field "file_name", or the names of their files or ids are
            used.
        dev: Collection that selects the best epoch, by nDCG@5; without it the last epoch is kept.
        progress: Called with (steps done, steps in total).
        options: Inputs: features (image vectors, their file, or an encoder; colours and shapes by default), backbone
            (of texts: "words", "use-multilingual", or a transformer), max_tokens, min_count, name. Heads: hidden_dim,
            layers, heads, dropout, fusion ("attentive", "concat", "text", "image"). Loss: loss ("max"), margin, k.
            Training: as for "towers".
    """
    from limner.papers.file_name_models.mcprop import train

    return train(collection, dev=dev, progress=progress, **options)


@takes("limner.papers.file_name_models.crank:train")
def crank(
    collection: Collection, *, dev: Collection | None = None, progress: ProgressLike = None, **options: object
) -> CrankModel:
    """A classifier of pairs of file name and caption, for re-ranking another system's candidates (CRank).

    Messina et al. 2022. Needs torch.

    Args:
        collection: The training collection; images have the field "file_name", or the names of their files or ids are
            used.
        dev: Collection that selects the best epoch, by AUC.
        progress: Called with (steps done, steps in total).
        options: Inputs: backbone (of texts: "words", "use-multilingual", or a transformer, fine-tuned as a whole),
            use_images (whether it also sees the image), features (of the images), max_tokens, min_count, name, proposer
            (its errors become hard negatives), hard_negative_share, hard_negative_depth. Shape: hidden_dim, layers,
            heads, dropout. Training: as for "towers".
    """
    from limner.papers.file_name_models.crank import train

    return train(collection, dev=dev, progress=progress, **options)
