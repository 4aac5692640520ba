//! Patterns for names: `*` stands for any text without the character that divides names into segments.

/// The longest pattern, in bytes.
pub(super) const LONGEST: usize = 512;
/// The most stars in a pattern. Comparing takes at most so many passes over a name.
pub(super) const MOST_STARS: usize = 8;

/// A pattern. See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    text: Box<str>,
    /// `*` stands for no text with this character. A pattern that is `*` alone stands for all.
    divider: Option<u8>,
}

impl Pattern {
    /// A pattern for names whose segments are divided by `:`, as those of users and groups.
    ///
    /// # Errors
    /// It is too long, or has too many stars.
    pub(super) fn of_user(text: &str) -> Result<Self, String> {
        Self::new(text, Some(b':'))
    }

    /// A pattern for names of one segment, as those of objects and namespaces.
    ///
    /// # Errors
    /// See [`Pattern::of_user`].
    pub(super) fn of_name(text: &str) -> Result<Self, String> {
        Self::new(text, None)
    }

    fn new(text: &str, divider: Option<u8>) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("has {} bytes: at most {LONGEST}", text.len()));
        }
        let stars = text.bytes().filter(|byte| *byte == b'*').count();
        if stars > MOST_STARS {
            return Err(format!("has {stars} stars: at most {MOST_STARS}"));
        }
        Ok(Self { text: text.into(), divider })
    }

    /// The name, if only one matches.
    pub(super) fn literal(&self) -> Option<&str> {
        (!self.text.contains('*')).then_some(&*self.text)
    }

    /// Whether this surely matches nothing that the other one does not match.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self == other || self.literal().is_some_and(|name| other.matches(name))
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.text.as_bytes(), name.as_bytes());
        if pattern == b"*" {
            return true;
        }
        // After a mismatch the last star takes one byte more.
        let (mut at, mut of, mut last) = (0, 0, None);
        while let Some(byte) = name.get(at) {
            match pattern.get(of) {
                Some(b'*') => {
                    of += 1;
                    last = Some((at, of));
                    continue;
                }
                Some(expected) if expected == byte => {
                    (at, of) = (at + 1, of + 1);
                    continue;
                }
                _ => {}
            }
            let Some((taken, after)) = last else { return false };
            if name.get(taken).copied() == self.divider && self.divider.is_some() {
                return false;
            }
            last = Some((taken + 1, after));
            (at, of) = (taken + 1, after);
        }
        pattern.iter().skip(of).all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same by trying everything.
    fn naive(pattern: &[u8], name: &[u8], divider: Option<u8>) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|taken| {
                let (star, after) = name.split_at(taken);
                !star.iter().any(|byte| Some(*byte) == divider) && naive(rest, after, divider)
            }),
            Some((byte, rest)) => {
                name.split_first().is_some_and(|(first, after)| first == byte && naive(rest, after, divider))
            }
        }
    }

    proptest! {
        #[test]
        fn matches_what_a_naive_search_matches(pattern in "[ab:*]{0,8}", name in "[ab:]{0,10}", of_user: bool) {
            let divider = of_user.then_some(b':');
            let own = Pattern::new(&pattern, divider).unwrap();
            let expected = pattern == "*" || naive(pattern.as_bytes(), name.as_bytes(), divider);
            prop_assert_eq!(own.matches(&name), expected);
        }
    }

    #[test]
    fn a_star_stays_within_its_segment() {
        let matches = |pattern: &str, name: &str| Pattern::of_user(pattern).unwrap().matches(name);
        assert!(matches("system:node:*", "system:node:n1"));
        assert!(!matches("system:*", "system:node:n1"));
        assert!(matches("*", "system:node:n1"));
        assert!(Pattern::of_name("prod-*").unwrap().matches("prod-a"));
        assert!(!Pattern::of_name("prod-*").unwrap().matches("prod"));
        assert!(Pattern::of_name(&"*a".repeat(9)).is_err());
    }
}
