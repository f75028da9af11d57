"""What tests share: strategies, fixed data sets and the paper's formulas in plain Python."""
