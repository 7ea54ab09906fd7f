//! Exactly-once stream processing on keyed state.
