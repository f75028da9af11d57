"""A federation over the network, on Flower: one round, counted by clients, kept by the server.

Flower moves the messages; what they hold is in `safle_flower.messages`, the rules of a round are in
`safle_flower.round`.
"""
