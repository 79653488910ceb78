"""The version, which every package may import."""

VERSION = "0.1.0"
