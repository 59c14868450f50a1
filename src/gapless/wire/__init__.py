"""What nodes say to each other, as bytes: control messages, codec and frames. Pure, like the core."""
