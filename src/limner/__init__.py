"""limner matches images with text, measures the match honestly, and shows why it fails."""
