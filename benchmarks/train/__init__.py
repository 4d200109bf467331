"""Whole training steps (`run.py --train`): cases, the ways to take a step, and the tables."""
