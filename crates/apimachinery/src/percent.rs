//! Percent-encoding in URLs: text to bytes, and nothing of what they mean.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters that are percent-encoded in a query: all but letters, digits and the unreserved marks.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A `%` without two hexadecimal digits behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid URL escape at byte {0}")]
pub struct EscapeError(pub usize);

/// The bytes that a text stands for, as in a path.
///
/// # Errors
/// An escape is malformed.
pub fn decode(text: &str) -> Result<Cow<'_, [u8]>, EscapeError> {
    if !text.as_bytes().contains(&b'%') {
        return Ok(Cow::Borrowed(text.as_bytes()));
    }
    let is_escape = |at: usize| {
        let digits = text.as_bytes().get(at.saturating_add(1)..at.saturating_add(3));
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    match text.match_indices('%').find(|(at, _)| !is_escape(*at)) {
        Some((at, _)) => Err(EscapeError(at)),
        None => Ok(percent_decode_str(text).into()),
    }
}

/// The bytes that a name or a value in a query stands for: `+` is a space.
///
/// # Errors
/// An escape is malformed.
pub fn decode_in_query(text: &str) -> Result<Cow<'_, [u8]>, EscapeError> {
    if !text.contains('+') {
        return decode(text);
    }
    decode(&text.replace('+', " ")).map(|bytes| Cow::Owned(bytes.into_owned()))
}

/// A name or a value as it is written in a query.
pub fn encode_in_query(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, IN_QUERY).into()
}

/// Bytes as text, without copying where none had to be decoded.
///
/// # Errors
/// They are not UTF-8.
pub fn utf8(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>, std::str::Utf8Error> {
    match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|error| error.utf8_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_to_the_same() {
        assert_eq!(encode_in_query("a-b_c.d~9"), "a-b_c.d~9");
        assert_eq!(encode_in_query("a b&c=d+e%/é"), "a%20b%26c%3Dd%2Be%25%2F%C3%A9");
        let text: String = (0..=255).map(char::from).collect();
        assert_eq!(&*decode_in_query(&encode_in_query(&text)).unwrap(), text.as_bytes());
    }

    #[test]
    fn escapes_are_decoded_and_malformed_ones_are_found() {
        assert!(matches!(decode("a+b"), Ok(Cow::Borrowed(b"a+b"))));
        assert_eq!(decode("%41%2f%fF%25zz").unwrap(), b"A/\xff%zz".as_slice());
        for (text, at) in [("%", 0), ("a%4", 1), ("%41%4g", 3), ("%%41", 0), ("%é", 0), ("%+1", 0)] {
            assert_eq!(decode(text), Err(EscapeError(at)), "{text}");
            assert_eq!(decode_in_query(text), Err(EscapeError(at)), "{text}");
        }
        assert_eq!(decode_in_query("a+b%2B%2b").unwrap(), b"a b++".as_slice());
    }
}
