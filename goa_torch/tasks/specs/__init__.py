"""One short file for each task."""
