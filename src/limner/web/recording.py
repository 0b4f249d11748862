"""What a store made on the page remembers of its collection, so that `limner annotate serve STORE` opens it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.web.jobs import Job
    from limner.web.loaded_collection import Loaded
    from limner.web.site import Ask


def record_collection(ask: Ask, name: str, loaded: Loaded, job: Job) -> None:
    """Adds the images and captions of a collection to the store, with the spec and the options that loaded it."""
    from limner.annotate.store.contents import add_collection

    store, library = ask.site.store, ask.site.library
    source = library.collections[name]
    add_collection(store, loaded.evaluated, spec=source if isinstance(source, str) else name, progress=job)
    if isinstance(source, str):
        split = (store.setting("loading") or {}).get("split")  # of a store that `limner annotate pool` made
        store.set("loading", {"options": library.options, "split": split})
