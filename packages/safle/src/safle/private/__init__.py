"""Private sums: clients send sums under masks, keyholders open nothing but their total.

``y = x + mask_1 + ... + mask_m`` modulo ``2^b``, with masks from fresh seeds that are sealed to
keyholders. The server adds up every y, keyholders add up the masks of the same clients, and the
difference is the exact sum: the very bytes that plain contributions add up to.
"""
