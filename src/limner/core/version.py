"""The version of limner, recorded in reports and saved models."""

VERSION = "0.2.0"
