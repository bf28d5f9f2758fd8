"""
Rules that are found: programs are enumerated, those that are equal modulo a prime become rules.

No rule is believed here: `rules/grade.py` verifies what is found, at other sizes, too. Nothing here
applies rules to a module; that is what `Rules` is for.
"""
