"""explain: what the wrong answer got wrong, and whether the system even reads the query."""
