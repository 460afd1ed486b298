"""Runs on a Ray cluster: gswarm decides, Ray places the servers and moves what nodes write."""
