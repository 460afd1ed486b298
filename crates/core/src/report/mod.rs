//! Metrics from an instance and a log.
