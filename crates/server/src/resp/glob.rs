//! Redis glob patterns (`*`, `?`, `[a-z]`, `[^a]`, and `\\` as escape), matched by a bit-parallel NFA.
//!
//! ```text
//!   pattern --compile--> one NFA state per byte to be matched, and the states with a star
//!   text: for each byte   states = (states that accept it) advanced by one  |  states with a star
//! ```
//!
//! All states that a match can be in are bits of a few 64-bit words. A text of n bytes therefore takes n
//! steps of `m / 64` words for a pattern of m bytes, whatever its stars and classes. There is no
//! backtracking.

use super::reply::Reply;

/// The longest pattern in bytes. Names are not longer.
pub const PATTERN_LIMIT_BYTES: usize = 1024;

/// A compiled pattern.
pub struct Glob {
    /// The least number of bytes of a matching text, which is the number of NFA states less one.
    length: usize,
    /// Number of 64-bit words of a state set.
    words: usize,
    /// The states that accept more than half of all bytes.
    usual: Vec<u64>,
    /// For each byte, the states that treat it differently from `usual`, one set after the other. Only few
    /// bits are set, because `?` and `[^a]` accept most bytes.
    flips: Vec<u64>,
    /// States with a star: they stay active whatever byte comes.
    stars: Vec<u64>,
}

/// A pattern of valid length, not compiled yet. A command queued for `EXEC` keeps only its bytes.
pub struct Pattern(Vec<u8>);

impl Pattern {
    /// Checks the length of a pattern.
    pub fn new(pattern: &[u8]) -> Result<Pattern, Reply> {
        if pattern.len() > PATTERN_LIMIT_BYTES {
            return Err(Reply::error(format!(
                "TOOLARGE a pattern has at most {PATTERN_LIMIT_BYTES} bytes, as names do; this one has {}",
                pattern.len()
            )));
        }
        Ok(Pattern(pattern.to_vec()))
    }

    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Compiles the pattern.
    pub fn compile(&self) -> Glob {
        Glob::compile(&self.0)
    }
}

impl Glob {
    /// Compiles the patterns of one command. Their total length has the limit of a single pattern, because
    /// compiling takes time.
    pub fn all(patterns: &[&[u8]]) -> Result<Vec<Glob>, Reply> {
        let bytes: usize = patterns.iter().map(|pattern| pattern.len()).sum();
        if bytes > PATTERN_LIMIT_BYTES {
            return Err(Reply::error(format!(
                "TOOLARGE the patterns of one command have at most {PATTERN_LIMIT_BYTES} bytes together; these have {bytes}"
            )));
        }
        Ok(patterns.iter().map(|pattern| Glob::compile(pattern)).collect())
    }

    /// Checks the length of a pattern and compiles it.
    pub fn new(pattern: &[u8]) -> Result<Glob, Reply> {
        Pattern::new(pattern).map(|pattern| pattern.compile())
    }

    fn compile(pattern: &[u8]) -> Glob {
        let words = (pattern.len() + 1).div_ceil(64);
        let mut glob = Glob {
            length: 0,
            words,
            usual: vec![0; words],
            flips: vec![0; 256 * words],
            stars: vec![0; words],
        };
        let mut rest = pattern;
        while let Some((&first, tail)) = rest.split_first() {
            rest = match (first, tail) {
                (b'*', _) => {
                    glob.stars[glob.length / 64] |= 1 << (glob.length % 64);
                    tail
                }
                (b'?', _) => glob.push_state(&[u64::MAX; 4], tail),
                (b'[', _) => {
                    let (class, tail) = class(tail);
                    glob.push_state(&class, tail)
                }
                (b'\\', [literal, tail @ ..]) => glob.push_state(&single(*literal), tail),
                (literal, _) => glob.push_state(&single(literal), tail),
            };
        }
        glob
    }

    /// Adds a state that accepts the bytes of `set`. Returns `behind`.
    fn push_state<'p>(&mut self, set: &Bytes, tail: &'p [u8]) -> &'p [u8] {
        let word = self.length / 64;
        let bit = 1 << (self.length % 64);
        let accepts_most = set.iter().map(|part| part.count_ones()).sum::<u32>() > 128;
        if accepts_most {
            self.usual[word] |= bit;
        }
        for (quarter, part) in set.iter().enumerate() {
            let mut others = if accepts_most { !part } else { *part };
            while others != 0 {
                let byte = quarter * 64 + others.trailing_zeros() as usize;
                self.flips[byte * self.words + word] |= bit;
                others &= others - 1;
            }
        }
        self.length += 1;
        tail
    }

    /// Returns whether a text matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut states = vec![0_u64; self.words];
        states[0] = 1;
        for &byte in text {
            let flips = &self.flips[usize::from(byte) * self.words..][..self.words];
            let accepts = self.usual.iter().zip(flips).map(|(usual, flip)| usual ^ flip);
            let mut carry = 0;
            let mut any = 0;
            for ((state, accepts), stars) in states.iter_mut().zip(accepts).zip(&self.stars) {
                let advanced = *state & accepts;
                *state = (advanced << 1 | carry) | (*state & stars);
                carry = advanced >> 63;
                any |= *state;
            }
            if any == 0 {
                return false;
            }
        }
        states[self.length / 64] >> (self.length % 64) & 1 == 1
    }
}

/// A set of bytes, as 256 bits.
type Bytes = [u64; 4];

fn single(byte: u8) -> Bytes {
    let mut set = [0; 4];
    set[usize::from(byte / 64)] = 1 << (byte % 64);
    set
}

/// Returns the bytes of a class, and the rest of the pattern behind it. A class without an end extends to
/// the end of the pattern.
fn class(pattern: &[u8]) -> (Bytes, &[u8]) {
    let negated = pattern.first() == Some(&b'^');
    let mut rest = &pattern[usize::from(negated)..];
    let mut set = [0; 4];
    let mut add = |from: u8, to: u8| {
        for byte in from.min(to)..=from.max(to) {
            set[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
    };
    loop {
        rest = match rest {
            [] => break,
            [b']', tail @ ..] => {
                rest = tail;
                break;
            }
            [b'\\', literal, tail @ ..] => {
                add(*literal, *literal);
                tail
            }
            [from, b'-', to, tail @ ..] => {
                add(*from, *to);
                tail
            }
            [literal, tail @ ..] => {
                add(*literal, *literal);
                tail
            }
        };
    }
    (if negated { set.map(|word| !word) } else { set }, rest)
}

/// Returns the literal prefix that every matching text begins with.
pub fn fixed_prefix(pattern: &[u8]) -> String {
    let end = pattern
        .iter()
        .position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
        .unwrap_or(pattern.len());
    // Up to the last complete character, because a pattern may end within one.
    match std::str::from_utf8(&pattern[..end]) {
        Ok(text) => text.to_owned(),
        Err(error) => String::from_utf8_lossy(&pattern[..error.valid_up_to()]).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Glob::new(pattern).unwrap().matches(text)
    }

    #[test]
    fn patterns_match_as_in_redis() {
        let yes = [
            ("*", ""),
            ("*", "abc"),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("a\\*b", "a*b"),
            ("*a*b", "xaxxab"),
            ("[z-a]", "m"),
            ("a[\\]]", "a]"),
        ];
        let no = [
            ("", "a"),
            ("h?llo", "hllo"),
            ("h[^e]llo", "hello"),
            ("h[ae]llo", "hillo"),
            ("a\\*b", "axb"),
            ("a*", "ba"),
            ("[]a", "a"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_and_classes_take_as_many_steps_as_the_text_has_bytes() {
        let pattern = format!("{}b", "a*".repeat(500));
        let glob = Glob::new(pattern.as_bytes()).map_err(drop).unwrap();
        let text = "a".repeat(1024);
        // With backtracking this would take millions of steps.
        for _ in 0..100 {
            assert!(!glob.matches(text.as_bytes()));
        }
        assert!(glob.matches(format!("{text}b").as_bytes()));
        assert_eq!(glob.words, 16, "work per byte of a text");
    }

    #[test]
    fn a_pattern_has_as_many_bytes_as_a_name() {
        let class = format!("[{}]", "a".repeat(1 << 20));
        let Err(Reply::Error(error)) = Glob::new(class.as_bytes()) else {
            panic!("it is too long")
        };
        assert!(error.contains("1024"), "{error}");
        assert!(Glob::new(&[b'a'; PATTERN_LIMIT_BYTES]).is_ok());
    }

    #[test]
    fn long_patterns_match_over_the_ends_of_words() {
        for length in [1, 62, 63, 64, 65, 127, 128, 129, 200] {
            let name = "x".repeat(length);
            for pattern in
                [name.clone(), "?".repeat(length), format!("*{name}"), format!("{name}*")]
            {
                let glob = Glob::new(pattern.as_bytes()).map_err(drop).unwrap();
                assert!(glob.matches(name.as_bytes()), "{pattern}");
                assert!(!glob.matches(&name.as_bytes()[1..]), "{pattern}");
            }
        }
    }

    #[test]
    fn the_fixed_beginning_is_found() {
        assert_eq!(fixed_prefix(b"user:*"), "user:");
        assert_eq!(fixed_prefix(b"[a]"), "");
        assert_eq!(fixed_prefix(b"a\xc3*"), "a");
    }
}
