"""The workloads, one file a family of operators."""
