//! Harness and integration suite.
