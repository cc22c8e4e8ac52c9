"""A training script: run until its training starts, watched, and its text read for what comes after."""
