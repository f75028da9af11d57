"""The whole pipeline on data that comes with scikit-learn, as a page to show to others."""
