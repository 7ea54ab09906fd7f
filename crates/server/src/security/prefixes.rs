//! Key prefixes: the keys that a user may access.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prefixes(Vec<String>);

impl Prefixes {
    pub fn new(prefixes: Vec<String>) -> Prefixes {
        Prefixes(prefixes)
    }

    pub fn everything() -> Prefixes {
        Prefixes(vec![String::new()])
    }

    /// Returns whether a key has one of the prefixes. For a prefix: whether all keys with it do.
    pub fn hold(&self, key: &[u8]) -> bool {
        self.0.iter().any(|prefix| key.starts_with(prefix.as_bytes()))
    }

    /// Returns whether all keys are included.
    pub fn hold_everything(&self) -> bool {
        self.hold(b"")
    }
}

impl std::fmt::Display for Prefixes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: Vec<String> = self.0.iter().map(|prefix| format!("{prefix:?}")).collect();
        if shown.is_empty() { f.write_str("nothing") } else { f.write_str(&shown.join(" or ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_or_a_range_has_to_begin_with_one_of_them() {
        let prefixes = Prefixes::new(vec!["app:".into(), "log/".into()]);
        for inside in ["app:", "app:1", "log/x"] {
            assert!(prefixes.hold(inside.as_bytes()), "{inside}");
        }
        for outside in ["", "a", "app", "App:1", "x:app:"] {
            assert!(!prefixes.hold(outside.as_bytes()), "{outside}");
        }
        assert!(!prefixes.hold_everything());
        assert!(Prefixes::everything().hold_everything());
        assert!(!Prefixes::default().hold_everything() && !Prefixes::default().hold(b"a"));
        assert_eq!(prefixes.to_string(), r#""app:" or "log/""#);
    }
}
