"""The version of limner, noted in reports and saved models."""

VERSION = "0.2.0"
