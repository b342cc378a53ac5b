"""The drain: reads the journal, turns exchanges into governed events, and stores them exactly once."""
