"""gapless: a content-based publish/subscribe network that never leaves a gap."""
