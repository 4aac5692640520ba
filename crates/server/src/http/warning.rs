//! `Warning` headers.

use std::collections::HashSet;

use http::HeaderValue;

use portcullis_apimachinery::quote::quoted;

/// How many characters the warnings of an answer may have together. If they have more, each is shortened.
const MAX_TOTAL: usize = 4 * 1024;
/// How many characters a shortened warning has.
const MAX_SHORTENED: usize = 256;

/// Creates a `Warning` header; none if the text is not a valid header value.
pub(crate) fn header(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("299 - {}", quoted(text))).ok()
}

/// Creates the headers of the warnings about a body, each text once, with the bounds of kube-apiserver: texts of more than
/// 4,096 characters together are shortened to 256 characters each, and those that are too many are left out.
pub(crate) fn headers(texts: impl IntoIterator<Item = String>) -> Vec<HeaderValue> {
    let mut seen = HashSet::new();
    let texts: Vec<String> = texts.into_iter().filter(|text| seen.insert(text.clone())).collect();
    let total: usize = texts.iter().map(|text| text.chars().count()).sum();
    let is_shortened = total > MAX_TOTAL;
    let (mut headers, mut written) = (Vec::new(), 0_usize);
    for text in texts {
        if written >= MAX_TOTAL {
            break;
        }
        let text = if is_shortened { text.chars().take(MAX_SHORTENED).collect() } else { text };
        if let Some(header) = header(&text) {
            written = written.saturating_add(text.chars().count());
            headers.push(header);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of kube-apiserver's `filters/warning.go`.
    #[test]
    fn long_warnings_are_shortened_and_do_not_fill_the_answer_ap_14() {
        let short: Vec<String> = ["b", "c", "b"].map(str::to_owned).to_vec();
        assert_eq!(headers(short), [header("b").unwrap(), header("c").unwrap()]);

        let whole = "a".repeat(MAX_TOTAL);
        assert_eq!(headers([whole.clone()]), [header(&whole).unwrap()]);

        let long: Vec<String> = (100..200).map(|number| format!("{number}{}", "x".repeat(25_000))).collect();
        let bounded = headers(long);
        assert_eq!(bounded.len(), MAX_TOTAL / MAX_SHORTENED);
        assert!(bounded.iter().all(|header| header.len() == "299 - \"\"".len() + MAX_SHORTENED));
    }
}
