"""The version of limner, noted in reports and saved models."""

VERSION = "0.1.0"
