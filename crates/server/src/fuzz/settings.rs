//! Parses configuration: a file, an environment variable, and values with units.

use crate::config::{Loaded, Problem, read_text, read_variable, units};
use crate::security::{Secret, is_usable_hash};

/// Parses a configuration file. A valid one is printed and parsed again to the same configuration; an invalid
/// one must list its problems.
pub fn settings(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    words(text);
    if let Some((name, value)) = text.split_once('=') {
        loaded_or_problems(read_variable(name, value));
    }
    let Some(loaded) = loaded_or_problems(read_text(text)) else { return };
    let _ = loaded.to_json();
    let printed = loaded.to_toml();
    // Secrets are printed as `…`, so such a file cannot be compared.
    if !printed.contains('…') {
        let again = read_text(&printed).unwrap_or_else(|problems| {
            panic!("what was printed is not in order: {}", shown(&problems))
        });
        assert_eq!(again.config, loaded.config, "what is printed says the same");
    }
}

fn loaded_or_problems(read: Result<Loaded, Vec<Problem>>) -> Option<Loaded> {
    match read {
        Ok(loaded) => Some(loaded),
        Err(problems) => {
            assert!(!problems.is_empty(), "who refuses says why");
            let _ = shown(&problems);
            None
        }
    }
}

fn shown(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect()
}

fn words(text: &str) {
    if let Some(bytes) = units::size_bytes(text) {
        assert_eq!(units::size_bytes(&units::show_size(bytes)), Some(bytes));
    }
    if let Some(ms) = units::span_ms(text) {
        let again = units::span_ms(&units::show_span(ms));
        // Longer spans do not round-trip: the clock's range ends at `i64::MAX` ms.
        assert!(again == Some(ms) || ms > i64::MAX as u64, "{text} is {ms}, and then {again:?}");
    }
    let _ = is_usable_hash(&Secret::new(text));
}
