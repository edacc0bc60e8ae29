"""Is this installation well? checks that end in time, and how to mend what they find."""
