"""One self-contained HTML page about runs: tables, charts, learning curves, and every question's trace."""
