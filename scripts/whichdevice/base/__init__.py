"""Parts that every layer uses: errors, files, locks, numbers, processes, the sheets."""
