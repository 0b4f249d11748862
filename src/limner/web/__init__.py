"""The page: search, look at failures, judge pairs; one process, nothing from elsewhere."""

from limner.web.serving import PORT, STORE, SYSTEMS, Address, make_app, serve

__all__ = ["PORT", "STORE", "SYSTEMS", "Address", "make_app", "serve"]
