//! Patterns of names, as Redis has them: `*`, `?`, `[a-z]`, `[^a]` and `\\` before what is meant.
//!
//! ```text
//!   pattern --compile--> one place per byte to be matched, and where stars are
//!   text: for each byte   places = (places that take it) moved on by one  |  places behind a star
//! ```
//!
//! All places that a match may have reached are bits of a few words, so a text of n bytes takes n steps of `m / 64` words,
//! whatever the stars and classes: nothing is ever tried again.

use super::reply::Reply;

/// The longest pattern: names have no more bytes.
pub const PATTERN_LIMIT_BYTES: usize = 1024;

/// A pattern, compiled.
pub struct Glob {
    /// How many bytes a text has at least.
    length: usize,
    /// Words of a set of places, of which there is one more than bytes.
    words: usize,
    /// The places that take more than half of all bytes.
    usual: Vec<u64>,
    /// For each byte the places that treat it otherwise, one set behind the other: `?` and `[^a]` change few of them.
    flips: Vec<u64>,
    /// Places that a star follows: they stay, whatever comes.
    stays: Vec<u64>,
}

/// A pattern that is not too long, and not compiled: a command that waits for `EXEC` keeps its bytes alone.
pub struct Pattern(Vec<u8>);

impl Pattern {
    /// A pattern that is not too long.
    pub fn new(pattern: &[u8]) -> Result<Pattern, Reply> {
        if pattern.len() > PATTERN_LIMIT_BYTES {
            return Err(Reply::error(format!(
                "TOOLARGE a pattern has at most {PATTERN_LIMIT_BYTES} bytes, as names do; this one has {}",
                pattern.len()
            )));
        }
        Ok(Pattern(pattern.to_vec()))
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The pattern in the form that texts are compared with.
    pub fn compile(&self) -> Glob {
        Glob::compile(&self.0)
    }
}

impl Glob {
    /// Patterns of one command: all together are as short as one has to be, because each takes time to compile.
    pub fn all(patterns: &[&[u8]]) -> Result<Vec<Glob>, Reply> {
        let bytes: usize = patterns.iter().map(|pattern| pattern.len()).sum();
        if bytes > PATTERN_LIMIT_BYTES {
            return Err(Reply::error(format!(
                "TOOLARGE the patterns of one command have at most {PATTERN_LIMIT_BYTES} bytes together; these have {bytes}"
            )));
        }
        Ok(patterns.iter().map(|pattern| Glob::compile(pattern)).collect())
    }

    /// A pattern that is not too long.
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
            stays: vec![0; words],
        };
        let mut rest = pattern;
        while let Some((&first, behind)) = rest.split_first() {
            rest = match (first, behind) {
                (b'*', _) => {
                    glob.stays[glob.length / 64] |= 1 << (glob.length % 64);
                    behind
                }
                (b'?', _) => glob.place(&[u64::MAX; 4], behind),
                (b'[', _) => {
                    let (class, behind) = class(behind);
                    glob.place(&class, behind)
                }
                (b'\\', [literal, behind @ ..]) => glob.place(&only(*literal), behind),
                (literal, _) => glob.place(&only(literal), behind),
            };
        }
        glob
    }

    /// Adds a place that takes these bytes; gives back what comes behind it.
    fn place<'p>(&mut self, set: &Bytes, behind: &'p [u8]) -> &'p [u8] {
        let (word, bit) = (self.length / 64, 1 << (self.length % 64));
        let takes_most = set.iter().map(|part| part.count_ones()).sum::<u32>() > 128;
        if takes_most {
            self.usual[word] |= bit;
        }
        for (quarter, part) in set.iter().enumerate() {
            let mut others = if takes_most { !part } else { *part };
            while others != 0 {
                let byte = quarter * 64 + others.trailing_zeros() as usize;
                self.flips[byte * self.words + word] |= bit;
                others &= others - 1;
            }
        }
        self.length += 1;
        behind
    }

    /// Whether a text matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        let mut places = vec![0_u64; self.words];
        places[0] = 1;
        for &byte in text {
            let flips = &self.flips[usize::from(byte) * self.words..][..self.words];
            let takes = self.usual.iter().zip(flips).map(|(usual, flip)| usual ^ flip);
            let mut carried = 0;
            let mut any = 0;
            for ((place, takes), stays) in places.iter_mut().zip(takes).zip(&self.stays) {
                let taken = *place & takes;
                *place = (taken << 1 | carried) | (*place & stays);
                carried = taken >> 63;
                any |= *place;
            }
            if any == 0 {
                return false;
            }
        }
        places[self.length / 64] >> (self.length % 64) & 1 == 1
    }
}

/// A set of bytes.
type Bytes = [u64; 4];

fn only(byte: u8) -> Bytes {
    let mut set = [0; 4];
    set[usize::from(byte / 64)] = 1 << (byte % 64);
    set
}

/// The bytes of a class, and what comes behind it. A class that is not closed ends with the pattern.
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
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [b'\\', literal, behind @ ..] => {
                add(*literal, *literal);
                behind
            }
            [from, b'-', to, behind @ ..] => {
                add(*from, *to);
                behind
            }
            [literal, behind @ ..] => {
                add(*literal, *literal);
                behind
            }
        };
    }
    (if negated { set.map(|word| !word) } else { set }, rest)
}

/// The text that everything that matches begins with.
pub fn fixed_prefix(pattern: &[u8]) -> String {
    let is_special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let end = pattern.iter().position(is_special).unwrap_or(pattern.len());
    // Up to the last whole character: a pattern may cut one.
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
        // A million places would be tried again and again; so it is done in no time.
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
