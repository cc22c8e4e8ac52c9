"""Stand-ins: datasets generated from a seed, so that a study means something without a network.

Each takes seconds, has the original's shapes and sizes, and can be learnt to a sensible accuracy, not to a perfect one.
Random numbers are PCG64 uniforms and integers; images use additions, products, divisions and square roots only, and
text none at all, so the same seed gives the same bytes on every platform.
"""
