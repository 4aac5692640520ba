//! `Warning` headers.

use http::HeaderValue;

use portcullis_apimachinery::quote::quoted;

/// Creates a `Warning` header; none if the text is not a valid header value.
pub(crate) fn header(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("299 - {}", quoted(text))).ok()
}
