"""The shared overlay: the tree, joining, sessions with their failure detector, and who carries what now."""
