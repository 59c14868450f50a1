"""The simulator: a seeded world that runs brokers and clients under faults, and its judges."""
