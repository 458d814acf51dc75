"""Quantising a program: calibration, scales, what accuracy it costs, and which products it is worth for."""
