"""A folder with all that a deployment on Flower needs: made, and checked."""
