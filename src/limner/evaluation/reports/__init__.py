"""Reports of an evaluation: tables, figures, files, and a web page."""
