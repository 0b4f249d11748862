"""The page: search, look at failures, judge pairs; one process, nothing from elsewhere."""
