"""The workers that this gateway may call: those of the settings, and those that an operator registered while it runs.

Owns where a worker may lie (``addresses``), the file that all gateway processes of the machine read (``register``), how it comes to
hold here (``follow``), and the operator's routes (``routes``). How workers are chosen is ``router``'s.
"""
