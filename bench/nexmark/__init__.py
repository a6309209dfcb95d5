"""Nexmark: a published benchmark of queries over an auction, without Spark. The runs on Spark are in `bench.spark`."""
