"""Joint embedding models: one vector per item, several vectors, or a mean and a variance.

Each has `images` and `texts` (branches), `image_vectors` and `text_vectors` (the inputs of the loss: tuples of tensors,
one row per item, so that the rows of several processes can be gathered), and `objective` (the loss of a batch).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

from limner.systems.towers.branches import BranchOutput

Loss = Callable[[Tensor, Tensor], Tensor]
Compared = tuple[Tensor, ...]


class TwoTowers(nn.Module):
    """One unit vector per item; the score is the cosine similarity (VSE: Kiros et al. 2014; Faghri et al. 2018).

    Args:
        images: The image branch.
        texts: The text branch.
        loss: Loss of `limner.systems.towers.losses`.
    """

    def __init__(self, images: nn.Module, texts: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.images, self.texts, self.loss = images, texts, loss

    def image_vectors(self, rows: object) -> Compared:
        """Unit vectors."""
        return (normalize(self.images(rows).whole, dim=-1),)

    def text_vectors(self, rows: object) -> Compared:
        """Unit vectors."""
        return (normalize(self.texts(rows).whole, dim=-1),)

    def objective(self, images: Compared, texts: Compared, positives: Tensor) -> Tensor:
        """The margin loss over all cosine similarities of the batch."""
        return self.loss(images[0] @ texts[0].T, positives)


class AttentionHeads(nn.Module):
    """Several views of one item: its vector plus the output of each attention head (Song & Soleymani 2019).

    With parts X (states of a GRU) and K heads: A = softmax(W2 tanh(W1 X)), r_k = sigmoid(W3 A_k X),
    z_k = LayerNorm(whole + r_k). Without parts every head has its own map: r_k = sigmoid(W_k whole).

    Args:
        embedding_dim: Dimension of the joint space.
        heads: K.
        parts: Dimension of the parts; None if items have no parts.
    """

    def __init__(self, embedding_dim: int, heads: int, *, parts: int | None) -> None:
        super().__init__()
        self.heads = heads
        self.attend = (
            nn.Sequential(nn.Linear(parts, embedding_dim // 2), nn.Tanh(), nn.Linear(embedding_dim // 2, heads))
            if parts
            else None
        )
        self.map = nn.Linear(parts, embedding_dim) if parts else nn.Linear(embedding_dim, heads * embedding_dim)
        self.norm = nn.LayerNorm(embedding_dim)

    def forward(self, output: BranchOutput) -> Compared:
        """Unit vectors and their views, items by heads by dimensions."""
        views = torch.sigmoid(self._views(output))
        return normalize(self.norm(output.whole[:, None] + views), dim=-1), views

    def _views(self, output: BranchOutput) -> Tensor:
        if self.attend is None or output.parts is None or output.filled is None:
            mapped: Tensor = self.map(output.whole)
            return mapped.view(len(mapped), self.heads, -1)
        weights = self.attend(output.parts).masked_fill(~output.filled[..., None], -torch.inf).softmax(1)
        looked: Tensor = self.map(weights.transpose(1, 2) @ output.parts)
        return looked


class ManyVectors(nn.Module):
    """PVSE: K vectors per item; the score is the best cosine similarity of a pair of them (Song & Soleymani 2019).

    The loss is the margin loss of the best cosine similarities (multiple-instance learning), plus two terms with small
    weights: the similarity between the views of an item, and the maximum mean discrepancy of image and text vectors.

    Args:
        images: The image branch.
        texts: The text branch.
        loss: Loss of `limner.systems.towers.losses`.
        heads: Number of vectors per image and per text.
        diversity: Weight of the similarity between an item's views.
        discrepancy: Weight of the discrepancy.
    """

    def __init__(
        self,
        images: nn.Module,
        texts: nn.Module,
        loss: Loss,
        *,
        heads: tuple[AttentionHeads, AttentionHeads],
        diversity: float = 0.1,
        discrepancy: float = 0.01,
    ) -> None:
        super().__init__()
        self.images, self.texts, self.loss = images, texts, loss
        self.image_heads, self.text_heads = heads
        self.diversity, self.discrepancy = diversity, discrepancy

    def image_vectors(self, rows: object) -> Compared:
        """Vectors and views of the heads."""
        vectors: Compared = self.image_heads(self.images(rows))
        return vectors

    def text_vectors(self, rows: object) -> Compared:
        """Vectors and views of the heads."""
        vectors: Compared = self.text_heads(self.texts(rows))
        return vectors

    def objective(self, images: Compared, texts: Compared, positives: Tensor) -> Tensor:
        """Multiple-instance margin loss, diversity and discrepancy."""
        total = self.loss(best_pairs(images[0], texts[0]), positives)
        alike = likeness(images[1]) + likeness(texts[1])
        return (
            total
            + self.diversity * alike
            + self.discrepancy * discrepancy(images[0].flatten(0, 1), texts[0].flatten(0, 1))
        )


def best_pairs(images: Tensor, texts: Tensor) -> Tensor:
    """The highest dot product between the vectors of an image and those of a text, images by texts.

    >>> one, two = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), torch.tensor([[[0.6, 0.8]]])
    >>> round(float(best_pairs(one, two)), 3)
    0.8
    """
    every = images.flatten(0, 1) @ texts.flatten(0, 1).T
    return every.view(len(images), images.shape[1], len(texts), texts.shape[1]).amax((1, 3))


def likeness(views: Tensor) -> Tensor:
    """How far the views of an item are from being orthogonal: sum over items of |V V^T - I|^2.

    >>> float(likeness(torch.eye(2)[None])), round(float(likeness(torch.ones(1, 2, 2))), 3)
    (0.0, 2.0)
    """
    unit = normalize(views, dim=-1)
    return (unit @ unit.transpose(1, 2) - torch.eye(views.shape[1], device=views.device)).square().sum()


def discrepancy(one: Tensor, two: Tensor) -> Tensor:
    """Squared maximum mean discrepancy of two samples, with the kernel exp(-|x - y|^2 / 2) (Gretton et al. 2012).

    >>> cloud = torch.tensor([[0.0], [1.0]])
    >>> float(discrepancy(cloud, cloud)), bool(discrepancy(cloud, cloud + 9) > 0.5)
    (0.0, True)
    """
    ours, theirs, across = (torch.exp(-_squares(a, b) / 2).mean() for a, b in ((one, one), (two, two), (one, two)))
    return ours + theirs - 2 * across


def _squares(one: Tensor, two: Tensor) -> Tensor:
    squares = one.square().sum(1)[:, None] + two.square().sum(1)[None, :] - 2 * one @ two.T
    return squares.clamp(min=0)


class Probabilistic(nn.Module):
    """PCME: a mean and a variance per item; pairs match with a probability (Chun et al. 2021).

    With J samples z = mean + e exp(v / 2) per item, where v is the log variance:

        p(match) = mean over the J x J pairs of samples of sigmoid(shift - scale |z_i - z_t|)
        loss = -sum over positives log p - sum over negatives log(1 - p) + weight x KL(N(mean, exp v) || N(0, 1))

    Scale and shift are learned. The predicted uncertainty of an item is the mean of v.

    Args:
        images: The image branch.
        texts: The text branch.
        embedding_dim: Dimension of the means.
        samples: J.
        kl: Weight of the divergence.
    """

    def __init__(
        self, images: nn.Module, texts: nn.Module, *, embedding_dim: int, samples: int = 7, kl: float = 1e-4
    ) -> None:
        super().__init__()
        self.images, self.texts, self.samples, self.kl = images, texts, samples, kl
        self.image_spread, self.text_spread = _spread(embedding_dim), _spread(embedding_dim)
        self.scale, self.shift = nn.Parameter(torch.tensor(10.0)), nn.Parameter(torch.tensor(10.0))

    def image_vectors(self, rows: object) -> Compared:
        """Means, logarithms of variances, and samples (in training)."""
        return self._drawn(self.images(rows).whole, self.image_spread)

    def text_vectors(self, rows: object) -> Compared:
        """Means, logarithms of variances, and samples (in training)."""
        return self._drawn(self.texts(rows).whole, self.text_spread)

    def _drawn(self, vectors: Tensor, spread: nn.Module) -> Compared:
        mean = normalize(vectors, dim=-1)
        log = spread(mean)  # normalised, so that no Adam step changes a variance too much
        if not self.training:
            return mean, log
        noise = torch.randn(len(mean), self.samples, mean.shape[1], device=mean.device)
        return mean, log, mean[:, None] + noise * torch.exp(log / 2)[:, None]

    def objective(self, images: Compared, texts: Compared, positives: Tensor) -> Tensor:
        """Soft contrastive loss of all pairs of the batch, and the divergence from the unit normal."""
        match, no_match = self.log_probabilities(images[2], texts[2])
        total = -torch.where(positives, match, no_match).sum()
        return total + self.kl * (_divergence(*images[:2]) + _divergence(*texts[:2]))

    def log_probabilities(self, images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
        """The log probabilities that image and text match and do not match, images by texts, from samples of both."""
        distances = (_squares(images.flatten(0, 1), texts.flatten(0, 1)) + 1e-8).sqrt()  # for the gradient at 0
        logits = self.shift - self.scale * distances
        shape = len(images), images.shape[1], len(texts), texts.shape[1]
        yes, no = (logsigmoid(sign * logits).view(shape).logsumexp((1, 3)) for sign in (1, -1))
        return yes - math.log(shape[1] * shape[3]), no - math.log(shape[1] * shape[3])


def _spread(embedding_dim: int) -> nn.Linear:
    """A map to log variances, initialised to small variances."""
    layer = nn.Linear(embedding_dim, embedding_dim)
    nn.init.normal_(layer.weight, std=1e-3)
    nn.init.constant_(layer.bias, -2 * math.log(embedding_dim))
    return layer


def _divergence(mean: Tensor, log: Tensor) -> Tensor:
    """Summed KL divergence of normal distributions with these means and variances from the unit normal."""
    return (mean.square() + log.exp() - log - 1).sum() / 2


Joint = TwoTowers | ManyVectors | Probabilistic
"""A tower model: `image_vectors` and `text_vectors` map batches into the joint space, `objective` is the loss."""
