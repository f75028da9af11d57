"""K clients on one machine: a table, split by a partition, through Flower or in-process."""
