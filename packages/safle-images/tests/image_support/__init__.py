"""Helpers of the tests of images."""
