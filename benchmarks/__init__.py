"""What gapless must be fast at, measured as ratios within one run."""
