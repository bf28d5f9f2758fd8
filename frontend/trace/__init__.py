"""From a Python function to a module: source, values, stores, regions."""
