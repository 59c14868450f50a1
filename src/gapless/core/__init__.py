"""The pure core: brokers and clients as state machines.

Inputs and the time go in (:mod:`gapless.core.events`), effects come out (:mod:`gapless.core.effects`);
nothing is performed inside. Two drivers run the same machines: the simulator with virtual time and one
seed, and the server with sockets and a real clock::

    node = Broker(config, records, rng=Random(seed))
    perform(node.start(now))
    while True:
        inputs, now = wait_for_inputs(until=node.wake_at())   # a batch, or none when a deadline passed
        perform(node.step(inputs, now))                       # Persist first, then all else in order
"""
