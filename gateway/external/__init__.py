"""Models of other providers, served beside our own: ``python -m gateway.external``, a process of its own behind the gateway.

To the gateway it is one more worker: same paths, same ids, a record with a price in place of tokens. litellm is imported here and
nowhere else, and nothing else of the gateway imports this package. Nothing that it serves can be trained on.
"""

import os

# Read by litellm when it is imported: prices from its own package, not from the network; no .env file of the working directory.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
