"""The demonstration: a market on a network of real processes, brokers killed while it trades, and a verdict.

``processes`` starts and kills brokers, ``market`` makes events and knows what each subscription should get,
``story`` puts them together. ``gapless demo`` shows it."""
