"""The simulator: a seeded world that runs brokers and clients under faults, and the judges of what they did."""
