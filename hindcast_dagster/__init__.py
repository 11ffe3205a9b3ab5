"""Hindcast: replay resolved prediction markets at a past instant t0 and grade forecasters who saw nothing later."""
