"""The demo: a whole federation on scikit-learn's digits, and a page to show to others."""
