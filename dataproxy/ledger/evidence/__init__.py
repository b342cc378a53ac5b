"""What goes into an evidence bundle as it is: the program that checks it."""
