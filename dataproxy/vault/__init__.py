"""The vault: raw tokens of exchanges that redaction masked, under a key a trajectory, for a trainer and for a time.

Owns approvals (a second person's word), keys, sealing and destruction. Not owned: the form of a sealed segment and its opening
(`dataproxy.client.vaulted`), which the trainer has too. Place in the path: the drain seals in the transaction that stores an
exchange; a lease hands over what lies here.
"""
