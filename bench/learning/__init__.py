"""Learning experiments: the trainer's own step under stale, redacted, late and offline data.

``task`` is what is learned, ``sampler`` stands for the engine, ``arms`` says what differs, ``loop`` runs one arm by the
trainer's own code, ``report`` turns runs into a table and a picture.
"""
