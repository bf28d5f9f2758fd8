"""From a call to the code that serves it: arguments, specialisation, fast paths, questions."""
