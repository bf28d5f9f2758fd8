"""
Same level, better program: rewrites whose input and output are of one level, and their costs.

Nothing here changes the level (that is lowering/), runs code, or looks at the machine it runs on:
a pass is a function of the IR, which carries its target.
"""
