"""Prompt templates as package data, each with a version. Filled by name, never with str.format on foreign text."""
