//! Request targets: the path and query of a request line, percent-decoded (AC-10, AC-19, AC-49).
//!
//! This module only decodes; other modules interpret paths and parameters. Every function takes time and memory
//! proportional to the length of the target.

use std::borrow::Cow;

use crate::percent::{self, EscapeError};

/// The decoded path and the raw query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    text: &'a str,
    path: Cow<'a, str>,
    query: &'a str,
}

/// An invalid request target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The target does not begin with `/`.
    #[error("invalid request target {0:?}: it must begin with \"/\"")]
    NotAPath(String),
    /// A raw control character.
    #[error("invalid request target: control character at byte {0}")]
    ControlCharacter(usize),
    /// A `%` in the path that is not followed by two hexadecimal digits.
    #[error("invalid request target: invalid URL escape at byte {0} of the path")]
    InvalidEscape(usize),
    /// The decoded bytes are not UTF-8.
    #[error("invalid request target: {0} is not valid UTF-8 once decoded")]
    NotUtf8(&'static str),
}

impl<'a> Target<'a> {
    /// Parses the target of a request line: `/path?query`, or `*` (AC-49). A target that begins with `//` has no host
    /// and is all path.
    ///
    /// DIVERGES: a decoded path that is not UTF-8 is refused. Kubernetes accepts the bytes, which no policy can match.
    ///
    /// # Errors
    /// The target is not a path, or cannot be decoded. The response is 400 Bad Request.
    pub fn from_wire(text: &'a str) -> Result<Self, TargetError> {
        if !text.starts_with('/') && text != "*" {
            return Err(TargetError::NotAPath(text.to_owned()));
        }
        Self::split(text, text)
    }

    /// Parses a target as a URL reference, the form of the recordings (AC-49): a scheme, `//host` and a `#fragment` are
    /// not part of the path.
    ///
    /// # Errors
    /// The path cannot be decoded.
    pub fn from_reference(text: &'a str) -> Result<Self, TargetError> {
        let reference = text.split_once('#').map_or(text, |(reference, _)| reference);
        let (absolute, rest) = match reference.split_once("://") {
            Some((scheme, _)) if is_scheme(scheme) => {
                (true, reference.split_once(':').map_or("", |(_, r)| r))
            }
            _ => (false, reference),
        };
        let has_host = absolute || !rest.starts_with("///");
        let rest = match rest.strip_prefix("//") {
            Some(host) if has_host => host.find(['/', '?']).and_then(|end| host.get(end..)).unwrap_or(""),
            _ => rest,
        };
        Self::split(text, rest)
    }

    fn split(text: &'a str, rest: &'a str) -> Result<Self, TargetError> {
        if let Some(at) = text.bytes().position(|b| b.is_ascii_control()) {
            return Err(TargetError::ControlCharacter(at));
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = percent::decode(path).map_err(|EscapeError(at)| TargetError::InvalidEscape(at))?;
        let path = percent::utf8(path).map_err(|_| TargetError::NotUtf8("the path"))?;
        Ok(Self { text, path, query })
    }

    /// The original target.
    pub fn as_str(&self) -> &'a str {
        self.text
    }

    /// The decoded path (AC-11).
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The decoded path, borrowed if nothing had to be decoded.
    pub fn into_path(self) -> Cow<'a, str> {
        self.path
    }

    /// The query as sent, without the `?`.
    pub fn query(&self) -> &'a str {
        self.query
    }

    /// Returns the first value of each parameter, in the order of `names`, if present (AC-19). Pairs that contain a `;`
    /// or a malformed escape are skipped.
    ///
    /// # Errors
    /// One of the decoded values is not UTF-8. Other parameters may contain any bytes.
    pub fn first_values<const N: usize>(
        &self,
        names: [&'static str; N],
    ) -> Result<[Option<Cow<'a, str>>; N], TargetError> {
        let mut values = [const { None }; N];
        for pair in self.query.split('&').filter(|pair| !pair.contains(';')) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Ok(name) = percent::decode_in_query(name) else { continue };
            let Some((name, slot)) =
                names.iter().zip(&mut values).find(|(wanted, _)| wanted.as_bytes() == &*name)
            else {
                continue;
            };
            if let (Ok(value), None) = (percent::decode_in_query(value), &slot) {
                *slot = Some(percent::utf8(value).map_err(|_| TargetError::NotUtf8(name))?);
            }
        }
        Ok(values)
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first(query: &str, name: &'static str) -> Option<String> {
        let text = format!("/?{query}");
        let [value] = Target::from_wire(&text).unwrap().first_values([name]).unwrap();
        value.map(Cow::into_owned)
    }

    #[test]
    fn ac_49_a_wire_target_with_two_slashes_is_a_path_and_a_reference_names_a_host() {
        let wire = |text: &'static str| Target::from_wire(text).unwrap().into_path().into_owned();
        let reference = |text: &'static str| Target::from_reference(text).unwrap().into_path().into_owned();
        assert_eq!(wire("//api/v1/pods"), "//api/v1/pods");
        assert_eq!(reference("//api/v1/pods"), "/v1/pods");
        assert_eq!(reference("//pods"), "");
        assert_eq!(reference("//pods?a=/b"), "");
        assert_eq!(reference("///pods"), "///pods");
        assert_eq!(reference("/pods//"), "/pods//");
        assert_eq!(reference("https://host:6443/api?x#y"), "/api");
        assert_eq!(reference("/a#b"), "/a");
        assert_eq!(wire("/a#b"), "/a#b");
        assert_eq!(wire("*"), "*");
    }

    #[test]
    fn ac_10_paths_are_decoded_before_anything_else() {
        let path = |text: &'static str| Target::from_wire(text).unwrap().into_path().into_owned();
        assert_eq!(path("/a%2Fb%20c+d?%zz"), "/a/b c+d");
        assert_eq!(path("/%00"), "/\0");
        assert_eq!(path("/%25zz"), "/%zz");
        assert_eq!(path("/%C3%a9"), "/é");
    }

    #[test]
    fn what_is_no_path_is_refused_with_the_place() {
        let fault = |text| Target::from_wire(text).unwrap_err();
        assert_eq!(fault("/ab%z1"), TargetError::InvalidEscape(3));
        assert_eq!(fault("/%"), TargetError::InvalidEscape(1));
        assert_eq!(fault("/%4"), TargetError::InvalidEscape(1));
        assert_eq!(fault("/%+1"), TargetError::InvalidEscape(1));
        assert_eq!(fault("/%é"), TargetError::InvalidEscape(1));
        assert_eq!(fault("/%ff"), TargetError::NotUtf8("the path"));
        assert_eq!(fault("/a\n"), TargetError::ControlCharacter(2));
        assert_eq!(fault("/?\0"), TargetError::ControlCharacter(2));
        for text in ["", "api", "host:443", "http://host/api", "?a", "**"] {
            assert_eq!(fault(text), TargetError::NotAPath(text.to_owned()));
        }
    }

    #[test]
    fn ac_19_the_first_pair_that_can_be_read_counts() {
        assert_eq!(first("a=1&a=2", "a").as_deref(), Some("1"));
        assert_eq!(first("a=%zz&a=2", "a").as_deref(), Some("2"));
        assert_eq!(first("a=1;b=2&a=3", "a").as_deref(), Some("3"));
        assert_eq!(first("a=x+y%2Bz", "a").as_deref(), Some("x y+z"));
        assert_eq!(first("a", "a").as_deref(), Some(""));
        assert_eq!(first("a=b=c", "a").as_deref(), Some("b=c"));
        assert_eq!(first("%61=1", "a").as_deref(), Some("1"));
        assert_eq!(first("%6=1&&b", "a"), None);
        assert_eq!(first("A=1", "a"), None);
    }

    #[test]
    fn only_parameters_that_are_asked_for_must_be_text() {
        let target = Target::from_wire("/?other=%ff&%ff=1&a=1&a=%ff&b=%ff").unwrap();
        assert_eq!(target.first_values(["a"]).unwrap(), [Some(Cow::Borrowed("1"))]);
        assert_eq!(target.first_values(["b"]), Err(TargetError::NotUtf8("b")));
    }

    proptest! {
        #[test]
        fn no_target_makes_the_readers_panic(text in ".*", query in "[ab=&;%+f0-]{0,24}") {
            for text in [text.clone(), format!("/{text}"), format!("/?{query}"), format!("//{text}?{query}")] {
                for target in [Target::from_wire(&text), Target::from_reference(&text)].into_iter().flatten() {
                    let _ = target.first_values(["a", "b"]);
                }
            }
        }

        #[test]
        fn every_path_survives_encoding(path in "/.{0,32}") {
            let encoded: String = path.bytes().map(|b| format!("%{b:02x}")).collect();
            let wire = format!("/{encoded}");
            let target = Target::from_wire(&wire).unwrap();
            prop_assert_eq!(target.path(), format!("/{path}"));
        }
    }
}
