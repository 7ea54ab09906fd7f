//! Patterns of names, as Redis has them: `*`, `?`, `[a-z]`, `[^a]` and `\` before what is meant.

/// Whether a text matches a pattern. The time is bounded by the product of both lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on after a mismatch: behind the last star, with the star taking one more.
    let mut again: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            again = Some((p + 1, t));
            p += 1;
            continue;
        }
        if let Some(next) = one(pattern, p, text[t]) {
            (p, t) = (next, t + 1);
            continue;
        }
        let Some((star, from)) = again else { return false };
        again = Some((star, from + 1));
        (p, t) = (star, from + 1);
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Where the pattern goes on, if its next part matches a byte.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => class(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        literal => (literal == byte).then_some(p + 1),
    }
}

/// Where the pattern goes on behind a class, if the byte is in it. A class that is not closed ends with
/// the pattern.
fn class(pattern: &[u8], start: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(start) == Some(&b'^');
    let mut p = start + usize::from(negated);
    let mut found = false;
    loop {
        match pattern.get(p..) {
            None | Some([]) => break,
            Some([b']', ..]) => {
                p += 1;
                break;
            }
            Some([b'\\', literal, ..]) => {
                found |= *literal == byte;
                p += 2;
            }
            Some([from, b'-', to, ..]) => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                p += 3;
            }
            Some([literal, ..]) => {
                found |= *literal == byte;
                p += 1;
            }
        }
    }
    (found != negated).then_some(p)
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
    fn many_stars_take_no_longer_than_their_product() {
        let pattern = "a*".repeat(200);
        assert!(!matches(format!("{pattern}b").as_bytes(), "a".repeat(5000).as_bytes()));
    }

    #[test]
    fn the_fixed_beginning_is_found() {
        assert_eq!(fixed_prefix(b"user:*"), "user:");
        assert_eq!(fixed_prefix(b"[a]"), "");
        assert_eq!(fixed_prefix(b"a\xc3*"), "a");
    }
}
