"""Stands in for torchvision, whose compiled operators belong to one version of torch each.

timm itself is the real one: of torchvision it needs names to import, and four transforms of images.
"""
