"""match: correct hubs, assign one to one, fuse systems, search."""
