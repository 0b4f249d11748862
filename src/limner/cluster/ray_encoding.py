"""Encoding with Ray Data: batches at fixed positions, mapped over copies of the encoder."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.collection import Items

Batch = dict[str, Array]


class Encoding:
    """One copy of the encoder on a worker; takes start positions of batches and returns rows with their positions."""

    def __init__(self, sent: Any, batch: int) -> None:
        import ray

        self.encoder, self.items = ray.get(sent[0])
        self.batch = batch

    def __call__(self, starts: Batch) -> Batch:
        """Encodes the batches that start at these positions."""
        parts = [self._encoded(int(start)) for start in starts["start"]]
        rows = [np.arange(start, start + len(part)) for start, part in zip(starts["start"], parts, strict=True)]
        return {"row": np.concatenate(rows), "vector": np.concatenate(parts)}

    def _encoded(self, start: int) -> npt.NDArray[np.float32]:
        from limner.search.encode import encoded

        return encoded(self.encoder, self.items[start : start + self.batch]).matrix


def encode(encoder: object, items: Items, batch: int, cpus: float, gpus: float, *, cores: int) -> Embeddings:
    """Like `Cluster.encode`, on a given number of cores."""
    import ray
    from ray.util.client import ray as client

    if batch < 1 or not len(items):
        raise LimnerError(f"encode got {len(items)} items in batches of {batch}: expected at least one of each")
    if client.is_connected():  # Ray Data needs a process on a node: a task that takes no core starts the others
        on_a_node = ray.remote(num_cpus=0)(_encoded)
        return Embeddings(items.ids, ray.get(on_a_node.remote(encoder, items, batch, cpus, gpus, cores)))
    return Embeddings(items.ids, _encoded(encoder, items, batch, cpus, gpus, cores))


def _encoded(
    encoder: object, items: Items, batch: int, cpus: float, gpus: float, cores: int
) -> npt.NDArray[np.float32]:
    """The rows of all items, by Ray Data."""
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # errors are raised
    starts = [{"start": low} for low in range(0, len(items), batch)]
    copies = max(1, min(len(starts), int(cores / max(cpus, 1e-9))))
    sent = ray.put((encoder, items))  # kept until the end: a restarted copy needs it again
    encoded = ray.data.from_items(starts, override_num_blocks=len(starts)).map_batches(
        Encoding,
        # The reference is in a list, since a bare one would be fetched by the driver of the data set as well.
        fn_constructor_args=([sent], batch),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=copies),
        num_cpus=cpus,
        num_gpus=gpus,
    )
    return _gathered(encoded, len(items))


def _gathered(encoded: Any, count: int) -> npt.NDArray[np.float32]:
    """The rows in order of their positions; batches may arrive in any order."""
    matrix: npt.NDArray[np.float32] | None = None
    for part in encoded.iter_batches(batch_size=None, batch_format="numpy"):
        if matrix is None:
            matrix = np.empty((count, part["vector"].shape[1]), dtype=np.float32)
        matrix[part["row"]] = part["vector"]
    if matrix is None:
        raise LimnerError(f"the cluster returned nothing for {count} items")
    return matrix
