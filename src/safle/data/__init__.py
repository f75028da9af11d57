"""Data: tables and images -> features."""
