"""Starts, watches and ends the processes of one machine: data proxy, engine, gateway, trainer.

``stack`` says what each process is, ``supervisor`` keeps them, ``guard`` makes sure that none outlives it.
"""
