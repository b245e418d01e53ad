"""Speed, as ratios to the machine's limit and to the usual way, measured in one run."""
