"""Programs that use Headrace from the outside."""
