"""The ledger: proof that what the store holds is what was stored, in the order it was stored.

Each tenant's rows are leaves of a Merkle tree (RFC 9162), each trajectory's leaves a hash chain inside it; checkpoints of the tree
are signed and kept outside the database too. A leaf commits to its redacted row under a salt of its own, so that erasure can take
away what a leaf says without touching the tree.
"""
